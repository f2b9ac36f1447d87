#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A new connection that gets where the one before it went
#
# One would guess: the first packet of a new TCP connection meets the nat chains; if an earlier one had the same addresses and
# ports and was reset, the kernel has forgotten that.
# True: not if it was in a flowtable. For some seconds after the reset its entry stays ESTABLISHED, and a SYN from the same
# port is taken for a packet of it: it goes to the old target, unseen by the nat chain. Seen on Linux 6.1 and 6.12, not on
# 7.2; without the flowtable nowhere.
# It matters here: clients use ports again, and the old endpoint may be gone. So with --flowtable-devices entries of TCP whose
# endpoint is no longer listed are deleted.
. "$(dirname "$0")/lib.sh"
fetch bookworm "${NFT_1_0_6[@]}"
enter

# A host in a namespace of its own, behind device $1 of this one: addresses 10.$2.0.2 and .3.
connect() { # DEVICE NUMBER
    unshare --net sleep 100 &
    host=$!
    until [ "$(readlink "/proc/$host/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do
        sleep 0.1
    done
    ip link add "$1" type veth peer name eth0 netns "$host"
    ip addr add "10.$2.0.1/24" dev "$1"
    ip link set "$1" up
    nsenter --net --target "$host" ip link set eth0 up
    nsenter --net --target "$host" ip addr add "10.$2.0.2/24" dev eth0
    nsenter --net --target "$host" ip addr add "10.$2.0.3/24" dev eth0
    nsenter --net --target "$host" ip route add default via "10.$2.0.1"
}

# Says its address to each line.
serve() {
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
    serving=$!
}

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
connect client 1
client=$host
connect server 2
server=$host
echo 1 >/proc/sys/net/ipv4/ip_forward
serve
trap 'kill "$client" "$server" "$serving"; rm -rf "$folder"' EXIT
sleep 1
try ""
expect "without flowtable, the first connection gets to" "$before" 10.2.0.2
expect "the second one, once the target is another" "$after" 10.2.0.3
sleep 15
try "ct state established flow add @f"
expect "with flowtable, the first connection gets to" "$before" 10.2.0.2
case $(uname -r | cut -d . -f 1) in
    5 | 6) expect "the second one, once the target is another" "$after" 10.2.0.2 ;;
    *) expect "the second one, once the target is another" "$after" 10.2.0.3 ;;
esac
