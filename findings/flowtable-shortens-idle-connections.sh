#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Two minutes for a connection that is good for days
#
# One would guess: a connection that leaves a flowtable because no packet came for 30 s is conntrack's again, with the
# time-out that it would have without.
# True: since Linux 5.14. Before, conntrack forgets it two minutes later, whatever its time-out. Seen on 5.10, 6.1 and 7.2; on
# the last a time-out of five days became one of a day.
# It matters here: connections to databases are idle for longer. So --flowtable-devices has no effect on older kernels.
. "$(dirname "$0")/lib.sh"
fetch bookworm "${NFT_1_0_6[@]}"
enter

# Some questions, and then nothing for so long.
ask() { # SECONDS
    # shellcheck disable=SC2016 # for perl
    nsenter --net --target "$client" perl -MIO::Socket::INET -e '
        $talk = IO::Socket::INET->new(PeerAddr => "10.2.0.2:80", Timeout => 5) or die "$!\n";
        $talk->autoflush;
        for (1 .. 8) { print $talk "who?\n"; $answer = <$talk>; }
        sleep shift' "$1"
}

entry() {
    grep 'dport=80 ' /proc/self/net/nf_conntrack
}

begin
of bookworm nft 'add table ip u; add flowtable ip u f { hook ingress priority 0; }' || exit 77
[ -e /proc/self/net/nf_conntrack ] || exit 77
forward
echo 1000 >/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established
of bookworm nft -f - <<'RULES'
table ip t {
    flowtable f { hook ingress priority 0; devices = { client, server }; }
    chain forward {
        type filter hook forward priority 0
        ct state established flow add @f
    }
}
RULES
ask 60 &
sleep 5
entry
expect "entries in the flowtable" "$(entry | grep -c OFFLOAD)" 1
sleep 40
entry
left=$(entry | sed -n 's/.* tcp *6 \([0-9]*\) .*/\1/p')
if [ -e /proc/sys/net/netfilter/nf_flowtable_tcp_timeout ]; then
    expect "it has its 1,000 s, but for those that have passed" "$((left > 940 && left <= 1000))" 1
else
    expect "it has two minutes at most" "$((left <= 120))" 1
fi
