#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What a map costs its writers when many rules look into it
#
# One would guess: adding an element to a hash costs the same however many rules look into it.
# True: for each new element the kernel checks the element's data once for every rule that looks into the map, in one
# chain or in many. With 1,000 such rules, elements cost several times as much. Seen on Linux 6.18.
# It matters here: a chain for each number of endpoints looks into one map of all endpoints. So such chains are few, and
# each has one rule with a lookup.
. "$(dirname "$0")/lib.sh"
fetch bookworm "${NFT_1_0_6[@]}"
enter

elements() { # COUNT
    awk -v n="$1" 'BEGIN { printf "add element ip t m { "
        for (i = 0; i < n; i++) printf "%s%d : 10.%d.%d.%d", i ? ", " : "", i, i / 65536, i / 256 % 256, i % 256
        print " }" }'
}

rules() { # COUNT
    echo 'add table ip t; add map ip t m { type mark : ipv4_addr; }; add chain ip t c { type nat hook prerouting priority 0; }'
    awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) print "add rule ip t c dnat to meta mark map @m" }'
}

# Milliseconds of the kernel's that nft takes for what it reads.
takes() {
    local TIMEFORMAT=%S
    { time of bookworm nft -f - >&3; } 3>&1 2>&1 | tail -n 1 | awk '{ printf "%d\n", $1 * 1000 + 1 }'
}

at_least() { # TIMES MORE LESS
    [ "$2" -ge $(($1 * $3)) ] && echo "at least $1 times as much" || echo "$2 and $3 ms"
}

of bookworm nft --version
uname -r | cut -d . -f 1,2
elements 50000 >"$folder/elements"
rules 1 | of bookworm nft -f -
few=$(takes <"$folder/elements")
of bookworm nft 'delete table ip t'
rules 1000 | of bookworm nft -f -
many=$(takes <"$folder/elements")
echo "50,000 elements in the kernel: $few ms with one rule, $many ms with 1,000"
expect "1,000 rules instead of one" "$(at_least 3 "$many" "$few")" "at least 3 times as much"
