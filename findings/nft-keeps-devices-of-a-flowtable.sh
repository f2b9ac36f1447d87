#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A device that cannot be taken out of a flowtable
#
# One would guess: 'delete flowtable' with devices takes them out again, as 'add flowtable' put them in.
# True: with nft 1.0.6 only of a flowtable of priority 0. It sends that, whatever the command says, and the kernel refuses
# what is not the flowtable's own ("Operation not supported"). nft 1.1.3 can.
# It matters here: IPv6's flowtable has priority 1, so that packets of IPv4 meet one of them only. What a stopped kube-nftd
# leaves there cannot be taken out by hand device by device, with Debian 12's nft.
. "$(dirname "$0")/lib.sh"
fetch bookworm "${NFT_1_0_6[@]}"
fetch trixie "${NFT_1_1_3[@]}"
enter

try() { # SUITE PRIORITY
    of "$1" nft "add table ip t; add flowtable ip t f { hook ingress priority $2; }" || exit 77
    of "$1" nft "add flowtable ip t f { hook ingress priority $2; devices = { odd, even }; }"
    of "$1" nft "delete flowtable ip t f { hook ingress priority $2; devices = { odd }; }" || :
    of "$1" nft list flowtables
    left=$(of "$1" nft list flowtables | grep -o -E 'odd|even' | sort | xargs)
    of "$1" nft delete table ip t
}

of bookworm nft --version
of trixie nft --version
uname -r | cut -d . -f 1,2
ip link add odd type dummy || exit 77
ip link add even type dummy || exit 77
try bookworm 0
expect "nft 1.0.6, priority 0, devices that are left" "$left" "even"
try bookworm 1
expect "nft 1.0.6, priority 1, devices that are left" "$left" "even odd"
try trixie 1
expect "nft 1.1.3, priority 1, devices that are left" "$left" "even"
