#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Who listens on this host cannot be asked for before a packet has gone through lo
#
# One would guess: in a nat chain of output, 'socket wildcard' finds the socket at the packet's destination, as it does in
# input, and a nat chain of input sees the first packet of each connection to this host.
# True: in output the expression takes the socket that sends the packet, so it also matches where nobody listens; and a nat
# chain of input does not see a connection from this host to itself, whose source output's side has settled already.
# Only chains of type filter in input, which every packet to the host passes, can tell. Seen on Linux 6.18.
# It matters here: UDP to a NodePort on a loopback address is to be refused only where no program of the host listens. A
# chain that costs known packets nothing cannot see that, so the kernel's own answer is left as it is.
. "$(dirname "$0")/lib.sh"
fetch bookworm "${NFT_1_0_6[@]}"
enter

begin
of bookworm nft -f - <<'RULES' || { echo "this kernel has no 'socket'"; exit 77; }
table ip t {
    counter nobody-output { }
    counter nobody-input { }
    counter somebody-input { }
    counter nat-input { }
    chain output {
        type nat hook output priority -100;
        ct state new udp dport 30053 socket wildcard { 0, 1 } counter name nobody-output
    }
    chain nat-input {
        type nat hook input priority 100;
        udp dport { 30053, 30054 } counter name nat-input
    }
    chain input {
        type filter hook input priority 0;
        udp dport 30053 socket wildcard { 0, 1 } counter name nobody-input
        udp dport 30054 socket wildcard { 0, 1 } counter name somebody-input
    }
}
RULES
perl -MIO::Socket::INET -e '
    my $server = IO::Socket::INET->new(Proto => "udp", LocalAddr => "127.0.0.1", LocalPort => 30054) or die;
    IO::Socket::INET->new(Proto => "udp", PeerAddr => "127.0.0.1", PeerPort => $_)->send("x") for 30053, 30054;'
expect "nobody listens, output: packets with a socket" "$(packets ip t nobody-output)" 1
expect "nobody listens, filter input: packets with a socket" "$(packets ip t nobody-input)" 0
expect "somebody listens, filter input: packets with a socket" "$(packets ip t somebody-input)" 1
expect "either, packets in a nat chain of input" "$(packets ip t nat-input)" 0
