/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which command or flag was meant by a mistyped one. */
#ifndef KUBE_NFTD_CONFIG_SPELLING_H
#define KUBE_NFTD_CONFIG_SPELLING_H

#include <stddef.h>
#include <stdint.h>

#define SPELLING_FAR SIZE_MAX

/** How many typing errors make @text (@length bytes, '_' equals '-') out of @word: a letter too
 * many, missing or wrong, or two that changed places. SPELLING_FAR if that is more than two, or
 * more than one in three letters: then it is another word. */
size_t spelling_errors(const char *text, size_t length, const char *word);

#endif
