# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What the findings share; sourced. $folder is a temporary folder, which goes at the end.
set -eu
inside=${FINDING_FOLDER-}
folder=${inside:-$(mktemp -d)}
trap 'rm -rf "$folder"' EXIT

# nft of Debian 12 and 13, with what differs for it: its own library and libnftnl are pinned, the C library is not.
# shellcheck disable=SC2034 # for the findings
NFT_1_0_6=(nftables=1.0.6-2+deb12u2 libnftables1=1.0.6-2+deb12u2 libnftnl11=1.2.4-2 libmnl0=1.0.4-3 libjansson4
    libxtables12 libgmp10 libedit2 libtinfo6 libbsd0 libmd0 libc6)
# shellcheck disable=SC2034
NFT_1_1_3=(nftables=1.1.3-1 libnftables1=1.1.3-1 libnftnl11=1.2.9-1 libmnl0=1.0.5-3 "${NFT_1_0_6[@]:4}")

# Unpacks Debian packages of pinned versions into $folder/SUITE/root. Installs nothing.
fetch() { # SUITE PACKAGE=VERSION...
    local place=$folder/$1 package mirror keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -z "$inside" ] || return 0
    mkdir -p "$place/lists/partial" "$place/cache/archives/partial"
    # shellcheck disable=SC2016 # for apt
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' |
        grep -m 1 '/debian/*$')
    echo "deb [signed-by=$keys] $mirror $1 main" >"$place/sources.list"
    shift
    local apt=(apt-get -q -q -o "Dir::Etc::sourcelist=$place/sources.list" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$place/lists" -o "Dir::Cache=$place/cache" -o Debug::NoLocking=1 -o APT::Sandbox::User=root)
    "${apt[@]}" update
    (cd "$place" && "${apt[@]}" download "$@")
    for package in "$place"/*.deb; do
        dpkg-deb -x "$package" "$place/root"
    done
}

# Goes on in a network namespace of its own.
enter() {
    [ -n "$inside" ] || exec unshare --net env FINDING_FOLDER="$folder" bash "$0"
}

# Runs a program of SUITE with that suite's libraries.
of() { # SUITE PROGRAM ARGUMENT...
    local root=$folder/$1/root program=$2 libraries loader
    shift 2
    libraries=$(dirname "$root"/usr/lib/*/libmnl.so.0)
    loader=$(find "$root" -name 'ld-linux*.so.*' | head -n 1)
    "$loader" --library-path "$libraries:$root/lib/${libraries##*/}" "$root/usr/sbin/$program" "$@"
}

# Says what runs here, and takes lo up: packets of this host to itself need no more.
begin() {
    of bookworm nft --version
    uname -r | cut -d . -f 1,2
    perl -e '$lo = pack("a16 s x14", "lo", 0x41); socket(S, 2, 2, 0); ioctl(S, 0x8914, $lo) or die'
}

packets() { # FAMILY TABLE COUNTER
    of bookworm nft list counter "$1" "$2" "$3" | sed -n 's/.*packets \([0-9]*\) .*/\1/p'
}

# Ends with 1 if something is no longer as described.
expect() { # WHAT IS WAS
    if [ "$2" != "$3" ]; then
        echo "CHANGED: $1: $2 (was: $3)"
        exit 1
    fi
    echo "$1: $2"
}
