#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A new connection that gets where the one before it went
#
# One would guess: the first packet of a new TCP connection meets the nat chains; if an earlier one had the same addresses and
# ports and was reset, the kernel has forgotten that.
# True: not if it was in a flowtable. For some seconds after the reset its entry stays ESTABLISHED, and a SYN from the same
# port is taken for a packet of it: it goes to the old target, unseen by the nat chain. Seen on Linux 6.1 and 6.12, neither
# on 5.10 nor on 7.2; without the flowtable nowhere.
# It matters here: clients use ports again, and the old endpoint may be gone. So with --flowtable-devices entries of TCP whose
# endpoint is no longer listed are deleted.
. "$(dirname "$0")/lib.sh"
fetch bookworm "${NFT_1_0_6[@]}"
enter

# Some questions from port 29999, and a reset; the last answer.
ask() {
    # shellcheck disable=SC2016 # for perl
    nsenter --net --target "$client" perl -MIO::Socket::INET -e '
        $talk = IO::Socket::INET->new(LocalPort => 29999, PeerAddr => "10.9.0.1:80", ReuseAddr => 1, Timeout => 5)
            or die "$!\n";
        $talk->autoflush;
        for (1 .. 8) { print $talk "who?\n"; $answer = <$talk>; }
        setsockopt $talk, SOL_SOCKET, SO_LINGER, pack("ii", 1, 0);
        print $answer'
}

try() { # RULE
    of bookworm nft -f - <<RULES
table ip t {
    flowtable f { hook ingress priority 0; devices = { client, server }; }
    map targets {
        type inet_service : ipv4_addr
        elements = { 80 : 10.2.0.2 }
    }
    chain c {
        type nat hook prerouting priority -100
        ip daddr 10.9.0.1 dnat to tcp dport map @targets
    }
    chain forward {
        type filter hook forward priority 0
        $1
    }
}
RULES
    before=$(ask)
    of bookworm nft 'delete element ip t targets { 80 }; add element ip t targets { 80 : 10.2.0.3 }'
    after=$(ask)
    of bookworm nft delete table ip t
}

begin
of bookworm nft 'add table ip u; add flowtable ip u f { hook ingress priority 0; }' || exit 77
forward
try ""
expect "without flowtable, the first connection gets to" "$before" 10.2.0.2
expect "the second one, once the target is another" "$after" 10.2.0.3
sleep 15
try "ct state established flow add @f"
expect "with flowtable, the first connection gets to" "$before" 10.2.0.2
case $(uname -r | cut -d . -f 1) in
    6) expect "the second one, once the target is another" "$after" 10.2.0.2 ;;
    *) expect "the second one, once the target is another" "$after" 10.2.0.3 ;;
esac
