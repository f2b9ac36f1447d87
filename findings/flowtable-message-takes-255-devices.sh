#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# More than 255 devices for a flowtable
#
# One would guess: a flowtable takes as many devices as one gives it; or if it does not, it has a limit of its own.
# True: one netlink message names 255 at most ("File too large"), and nft puts all devices of a command into one. Further
# commands add further devices, so a flowtable can have many more. 'nft list ruleset' of such a flowtable cannot be loaded
# again.
# It matters here: a node may have hundreds of veths. kube-nftd sends a message for each device.
. "$(dirname "$0")/lib.sh"
fetch bookworm "${NFT_1_0_6[@]}"
enter

devices() { # FROM TO
    seq -f '"device%g"' -s ', ' "$1" "$2"
}

add() { # FROM TO
    of bookworm nft "add flowtable ip t f { hook ingress priority 0; devices = { $(devices "$1" "$2") }; }"
}

of bookworm nft --version
uname -r | cut -d . -f 1,2
of bookworm nft 'add table ip t'
of bookworm nft 'add flowtable ip t f { hook ingress priority 0; }' || exit 77
for number in $(seq 600); do
    ip link add "device$number" type dummy || exit 77
done
expect "256 in one command" "$(add 1 256 2>&1 | grep -o 'File too large')" "File too large"
add 1 255
add 256 500
expect "devices by two commands" "$(of bookworm nft list flowtables | grep -o 'device[0-9]' | wc -l)" 500
of bookworm nft list ruleset >"$folder/saved"
expect "the saved ruleset" "$(of bookworm nft -f "$folder/saved" 2>&1 | grep -o -m 1 'File too large')" "File too large"
