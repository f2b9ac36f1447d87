#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A chain of type nat that nothing passes
#
# One would guess: a nat chain sees the first packet of each connection.
# True: only where connections are tracked, and the chain itself does not turn that on. A rule with a ct or nat expression
# does, anywhere in the namespace and in the same family; until there is one, packets pass the chain unseen, and nothing
# says so. Seen on Linux 5.10 to 7.2.
# It matters here: all chains of the tables are of type nat, also those that only refuse. A table of them alone works or
# not by what other programs have loaded, so each has a ct expression from the start, in IPv4's table and in IPv6's.
. "$(dirname "$0")/lib.sh"
fetch bookworm "${NFT_1_0_6[@]}"
enter

send() {
    echo x >/dev/udp/127.0.0.1/1001
    echo x >/dev/udp/::1/1001
}

begin
for family in ip ip6; do
    of bookworm nft -f - <<RULES
table $family t {
    counter seen { }
    chain c {
        type nat hook output priority -100;
        udp dport 1001 counter name seen
    }
}
RULES
done
send
expect "no rule asks for ct, packets in the nat chain, IPv4" "$(packets ip t seen)" 0
of bookworm nft 'add table ip u; add chain ip u nobody-jumps-here; add rule ip u nobody-jumps-here ct state new accept'
send
expect "a rule of another table does, packets in the nat chain, IPv4" "$(packets ip t seen)" 1
expect "packets in the nat chain, IPv6, where none does" "$(packets ip6 t seen)" 0
of bookworm nft 'add table ip6 u; add chain ip6 u nobody-jumps-here; add rule ip6 u nobody-jumps-here ct state new accept'
send
expect "and where one does" "$(packets ip6 t seen)" 1
