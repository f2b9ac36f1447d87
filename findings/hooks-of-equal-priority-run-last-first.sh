#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Two chains of one priority
#
# One would guess: they run in the order in which they were added.
# True: the one that was added last runs first, of any hook and type; so adding the same again changes the order.
# It matters here: a table that another program loads again at the same priority comes before ours, and of IPv4's and IPv6's
# flowtable the one made last would take all packets first. So these have priorities 0 and 1.
. "$(dirname "$0")/lib.sh"
fetch bookworm "${NFT_1_0_6[@]}"
enter

load() { # TABLE
    of bookworm nft -f - <<RULES
table ip $1 {
    counter seen { }
    chain c {
        type filter hook prerouting priority 0
        udp dport 1001 counter name seen drop
    }
}
RULES
}

begin
load first
load last
echo x >/dev/udp/127.0.0.1/1001
expect "packets that the chain sees that was added first" "$(packets ip first seen)" 0
expect "added last" "$(packets ip last seen)" 1
of bookworm nft delete table ip first
load first
echo x >/dev/udp/127.0.0.1/1001
expect "the first one was added again, packets that it sees" "$(packets ip first seen)" 1
