#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A map to address and port, saved as JSON by nft 1.0.6
#
# One would guess: what 'nft -j list' prints, 'nft -j -f' loads, as it is with the text.
# True: nft 1.0.6 prints the type of the data as one string, "ipv4_addr . inet_service", and then refuses that string as
# an invalid type. The concatenated key beside it is a list and loads. nft 1.1.3 prints a list for both.
# It matters here: 'endpoints' is such a map. Whoever saves a node's ruleset as JSON on Debian 12 cannot load it again.
. "$(dirname "$0")/lib.sh"
fetch bookworm "${NFT_1_0_6[@]}"
fetch trixie "${NFT_1_1_3[@]}"
enter

saved_and_loaded() { # SUITE
    of "$1" nft --version
    of "$1" nft 'table ip t { map m { type ipv4_addr : ipv4_addr . inet_service; elements = { 10.0.0.1 : 10.0.0.2 . 80 }; }; }'
    of "$1" nft -j list table ip t >"$folder/saved.json"
    of "$1" nft list table ip t >"$folder/saved.nft"
    of "$1" nft delete table ip t
    grep -o '"map": \(\[[^]]*\]\|"[^"]*"\)' "$folder/saved.json" || true
    of "$1" nft -f "$folder/saved.nft"
    of "$1" nft delete table ip t
    status=0
    of "$1" nft -j -f "$folder/saved.json" || status=$?
    of "$1" nft flush ruleset
}

saved_and_loaded bookworm
expect "1.0.6, exit status of loading its own JSON" "$status" 1
saved_and_loaded trixie
expect "1.1.3, exit status of loading its own JSON" "$status" 0
