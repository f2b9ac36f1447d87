#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Known connections whose translation ends with the rules
#
# One would guess: conntrack remembers how a connection is translated, so it goes on when the rules go.
# True: while a chain of type nat is there, in any table of the same family. With the last one the kernel takes its own hooks
# away, and packets of known connections pass as they are, to whoever has that address. With a next chain, an empty one
# even, they are translated as before. Seen on Linux 5.10 to 7.2.
# It matters here: between 'nft flush ruleset' and the repair, what a client sends to a Service goes where the routes lead; an
# answer from there, a TCP reset say, ends the connection.
. "$(dirname "$0")/lib.sh"
fetch bookworm "${NFT_1_0_6[@]}"
enter

# Dropped once the connection is confirmed: in postrouting, before the packet comes back by lo.
begin
of bookworm nft -f - <<'RULES'
table ip t {
    counter as-sent { }
    counter translated { }
    chain c {
        type filter hook prerouting priority 0; ct state invalid drop
        udp dport 1001 counter name as-sent drop
        udp dport 1002 counter name translated drop
    }
}
table ip n {
    chain c {
        type nat hook output priority -100
        udp dport 1001 dnat to :1002
    }
}
RULES
exec 7>/dev/udp/127.0.0.1/1001
echo x >&7
expect "a rule translates, packets translated" "$(packets ip t translated)" 1
of bookworm nft flush chain ip n c
echo x >&7
expect "the rule is gone, packets translated" "$(packets ip t translated)" 2
of bookworm nft delete table ip n
echo x >&7
expect "the chain is gone, packets translated" "$(packets ip t translated)" 2
expect "packets as they were sent" "$(packets ip t as-sent)" 1
of bookworm nft 'add table ip other; add chain ip other c { type nat hook input priority 100; }'
echo x >&7
expect "another program's empty chain is there, packets translated" "$(packets ip t translated)" 3
