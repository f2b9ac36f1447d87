#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A rule that nft loads together with its map, and refuses once the map is there
#
# One would guess: what nft accepts in a file it accepts line by line, too; and `th dport` and a destination port of tcp are
# one thing to it.
# True: a map whose values are declared as `typeof ip daddr . th dport` serves a dnat rule that stands in the same file. If
# the map is in the kernel already, nft 1.0.6 and 1.1.3 refuse the same rule: "conflicting protocols: tcp vs. th". Declared by
# types (ipv4_addr . inet_service), it takes the rule at any time.
# It matters here: such a map is the only one whose keys may hold a random number, so the table has it. Chains that are
# tried or repaired by hand must be loaded with their map, or be written over netlink.
. "$(dirname "$0")/lib.sh"
fetch bookworm "${NFT_1_0_6[@]}"
fetch trixie "${NFT_1_1_3[@]}"
enter

map() { # VALUE-DECLARATION
    echo "map m { $1; }; chain c { type nat hook prerouting priority 0; }"
}

rule='meta l4proto { tcp, udp } dnat ip to meta mark map @m'
typeof='typeof meta mark : ip daddr . th dport'

answer() { # SUITE TEXT
    if of "$1" nft "$2" 2>"$folder/error"; then
        echo taken
    else
        grep -o -m 1 'conflicting.*protocols' "$folder/error" | cut -d ' ' -f 1
    fi
    of "$1" nft 'flush ruleset'
}

for suite in bookworm trixie; do
    of $suite nft --version
    together="table ip t { $(map "$typeof"); }
        add rule ip t c $rule"
    expect "$suite, map and rule in one go" "$(answer $suite "$together")" taken
    of $suite nft "table ip t { $(map "$typeof"); }"
    expect "$suite, the rule when the map is there" "$(answer $suite "add rule ip t c $rule")" conflicting
    of $suite nft "table ip t { $(map 'type mark : ipv4_addr . inet_service'); }"
    expect "$suite, a map by types" "$(answer $suite "add rule ip t c $rule")" taken
done
