#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A connection that is translated to the address and port it already has
#
# One would guess: 'ct status dnat' matches every connection that a dnat rule translated.
# True: it matches only those whose destination became another one. A dnat to the same address and port ends the walk
# over the hook's nat chains as every other does, but leaves no sign in the connection. Seen on Linux 6.18.
# It matters here: a host-network endpoint can stand behind its node's own address and its own port as external IP. What
# asks for 'ct status dnat' to learn affinity, to count or to masquerade misses just these connections.
. "$(dirname "$0")/lib.sh"
fetch bookworm "${NFT_1_0_6[@]}"
enter

begin
of bookworm nft -f - <<'RULES'
table ip t {
    counter same { }
    counter other { }
    counter later { }
    chain translate {
        type nat hook output priority -100;
        udp dport 1001 dnat to 127.0.0.1:1001
        udp dport 1002 dnat to 127.0.0.1:1003
    }
    chain behind {
        type nat hook output priority -50;
        udp dport { 1001, 1003 } counter name later
    }
    chain look {
        type filter hook output priority 0;
        udp dport 1001 ct status dnat counter name same
        udp dport 1003 ct status dnat counter name other
    }
}
RULES
echo x >/dev/udp/127.0.0.1/1002
expect "dnat to another port, packets with 'ct status dnat'" "$(packets ip t other)" 1
echo x >/dev/udp/127.0.0.1/1001
expect "dnat to the same port, packets with 'ct status dnat'" "$(packets ip t same)" 0
expect "either, packets in the next nat chain" "$(packets ip t later)" 0
