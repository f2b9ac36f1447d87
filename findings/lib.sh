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

# A host in a namespace of its own, behind device $1 of this one: addresses 10.$2.0.2 and .3.
connect() { # DEVICE NUMBER
    unshare --net sleep 300 &
    host=$!
    until [ "$(readlink "/proc/$host/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do
        sleep 0.1
    done
    ip link add "$1" type veth peer name eth0 netns "$host"
    ip addr add "10.$2.0.1/24" dev "$1"
    ip link set "$1" up
    nsenter --net --target "$host" ip -batch - <<COMMANDS
link set eth0 up
addr add 10.$2.0.2/24 dev eth0
addr add 10.$2.0.3/24 dev eth0
route add default via 10.$2.0.1
COMMANDS
}

# Forwards between hosts behind the devices client and server. On port 80 of the latter each line is answered with the
# address that it came to.
forward() {
    connect client 1
    client=$host
    connect server 2
    server=$host
    echo 1 >/proc/sys/net/ipv4/ip_forward
    # shellcheck disable=SC2016 # for perl
    nsenter --net --target "$server" perl -MIO::Socket::INET -e '
        $listener = IO::Socket::INET->new(LocalPort => 80, Listen => 5) or die;
        $SIG{CHLD} = "IGNORE";
        while ($talk = $listener->accept) {
            next if fork;
            $talk->autoflush;
            print $talk $talk->sockhost . "\n" while <$talk>;
            exit;
        }' &
    trap 'kill "$client" "$server" '$!'; rm -rf "$folder"' EXIT
    sleep 1
}

# Ends with 1 if something is no longer as described.
expect() { # WHAT IS WAS
    if [ "$2" != "$3" ]; then
        echo "CHANGED: $1: $2 (was: $3)"
        exit 1
    fi
    echo "$1: $2"
}
