/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The files of nft-templates/ in the binary; see template.c. */
    .section .rodata
    .macro template name, file
    .global nft_template_\name
nft_template_\name:
    .incbin "\file"
    .byte 0
    .endm

    template base, "base.nft"
    template pick, "pick.nft"
    template local_pick, "local-pick.nft"
    template pick_from, "pick-from.nft"
    template local_pick_from, "local-pick-from.nft"
    template source_ranges, "source-ranges.nft"
    template affinity, "affinity.nft"
    template learn, "learn.nft"
    template flowtable, "flowtable.nft"
    template preflight, "preflight.nft"
    .section .note.GNU-stack,"",%progbits
