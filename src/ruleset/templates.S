/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The files of nft-templates/, inside the binary. template.c says what they are for. */
    .section .rodata
    .global nft_template_base
nft_template_base:
    .incbin "base.nft"
    .byte 0
    .global nft_template_pick
nft_template_pick:
    .incbin "pick.nft"
    .byte 0
    .section .note.GNU-stack,"",%progbits
