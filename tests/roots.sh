# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Roots to test in; tests/deploy/boot, tests/distribution and tests/architecture source it.

# What a root needs before programs run in it.
mount_system() { # ROOT
    local device
    mount -t proc proc "$1/proc"
    mount -t sysfs sysfs "$1/sys"
    mount -t tmpfs tmpfs "$1/run"
    mount -t tmpfs tmpfs "$1/tmp"
    mount -t tmpfs tmpfs "$1/dev"
    for device in null zero full random urandom tty; do
        touch "$1/dev/$device"
        mount --bind "/dev/$device" "$1/dev/$device"
    done
    ln -s /proc/self/fd "$1/dev/fd"
    ln -s pts/ptmx "$1/dev/ptmx"
    mkdir "$1/dev/pts" "$1/dev/shm" "$1/dev/mqueue"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
    # What is the test's own is all in here: any other path may be something else on this host.
    mount -t tmpfs tmpfs "$1/mnt"
}

# Makes FOLDER/root with PACKAGES (one a line), if it is not there with just these. The first architecture is this
# machine's.
make_root() { # FOLDER SUITE PACKAGES [ARCHITECTURE,...]
    local folder=$1 suite=$2 packages=$3 mirror
    if [ -d "$folder/root" ] && [ "$(cat "$folder/packages")" = "$packages" ]; then
        return 0
    fi
    # shellcheck disable=SC2016 # apt's own
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' |
        grep -m 1 '/debian/*$') || { echo "apt has no Debian mirror here"; return 1; }
    mkdir -p "$folder"
    rm -rf "$folder/root" "$folder/new"
    mmdebstrap --variant=minbase ${4:+--architectures="$4"} --include="${packages//$'\n'/,}" "$suite" "$folder/new" \
        "deb $mirror $suite main" || return
    mkdir "$folder/new/src" "$folder/new/build"
    echo "$packages" >"$folder/packages"
    mv "$folder/new" "$folder/root"
}

# Runs the script that calls it once more, with INSIDE set: in ROOT, in namespaces of its own, with the tree at /src. What
# it leaves in /build stays.
run_inside() { # ROOT WORD...
    local root=$1
    shift
    if [ -z "${ENTERING-}" ]; then
        ENTERING=yes unshare --mount --net --pid --uts --ipc --fork --kill-child "$0" "$@"
        return
    fi
    [ -z "${logs-}" ] || rm -r "$logs"
    set -e
    mount --bind "$root" "$root"
    mount_system "$root"
    mount --bind -o ro "$PWD" "$root/src"
    mkdir "$root/mnt/old"
    cd "$root"
    pivot_root . mnt/old
    umount -l /mnt/old
    ip link set lo up
    exec env -i INSIDE=yes HOME=/root LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONDONTWRITEBYTECODE=1 \
        "/src/tests/${0##*/}" "$@"
}
