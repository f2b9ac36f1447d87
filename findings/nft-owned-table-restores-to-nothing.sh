#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A saved ruleset that has a table with an owner
#
# One would guess: 'nft list ruleset' saved to a file, then 'nft -f' with exit status 0, brings everything back; or at
# least says what it cannot bring back.
# True: the text has 'flags owner'. 'nft -f' creates such a table, owned by nft itself, ends with 0, and the kernel
# deletes the table as nft exits. Other tables of the file stay. Since owners exist (Linux 5.12); nft 1.0.6 and 1.1.3.
# It matters here: the tables have an owner while kube-nftd runs, so a copy made then restores them to nothing. kube-nftd
# itself brings them back; a copy for debugging needs the flag taken out.
. "$(dirname "$0")/lib.sh"
fetch bookworm "${NFT_1_0_6[@]}"
fetch trixie "${NFT_1_1_3[@]}"
enter

restored() { # SUITE
    local owner tries=0 status=0
    of "$1" nft --version
    mkfifo "$folder/commands"
    of "$1" nft -i <"$folder/commands" >/dev/null &
    owner=$!
    exec 7>"$folder/commands"
    echo 'add table ip owned { flags owner; chain c { type filter hook input priority 0; }; }' >&7
    until of "$1" nft list table ip owned >/dev/null 2>&1; do
        [ $((tries += 1)) -le 50 ] || exit 77 # the kernel knows no owners
        sleep 0.1
    done
    of "$1" nft 'add table ip other'
    of "$1" nft list ruleset >"$folder/saved.nft"
    cat "$folder/saved.nft"
    exec 7>&-
    wait "$owner"
    rm "$folder/commands"
    of "$1" nft flush ruleset
    of "$1" nft -f "$folder/saved.nft" || status=$?
    expect "$1, exit status of loading it" "$status" 0
    expect "$1, tables that are there then" "$(of "$1" nft list tables)" "table ip other"
    of "$1" nft flush ruleset
}

restored bookworm
restored trixie
