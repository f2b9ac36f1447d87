#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A set that packets fill, declared without a size
#
# One would guess: a set declared without a size has none, as it was declared; or the kernel gives it one at once.
# True: it has none until the first rule updates it. That rule gives the set the size 65,535, which 'nft list' shows from
# then on, also after the rule is gone. So what is read back differs from what was sent, and the set holds no more.
# It matters here: service_connections and endpoint_connections are such sets. A comparison of declarations must know
# this, or it takes its own table for one that another program changed.
. "$(dirname "$0")/lib.sh"
fetch bookworm "${NFT_1_0_6[@]}"
enter

size() {
    of bookworm nft list set ip t s | sed -n 's/^\t*size \([0-9]*\).*/\1/p'
}

of bookworm nft --version
uname -r | cut -d . -f 1,2
of bookworm nft 'add table ip t; add set ip t s { type ipv4_addr; flags dynamic; }; add chain ip t c'
expect "size as declared" "$(size)" ""
of bookworm nft 'add rule ip t c update @s { ip saddr counter }'
expect "size once a rule updates it" "$(size)" 65535
of bookworm nft 'flush chain ip t c'
expect "size when the rule is gone" "$(size)" 65535
