/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An explanation (explain.h) for people: the answer first, then what it rests on. */
#ifndef KUBE_NFTD_SERVE_EXPLAIN_TEXT_H
#define KUBE_NFTD_SERVE_EXPLAIN_TEXT_H

#include <cjson/cJSON.h>
#include <stdio.h>

/** Prints @answer. What it lacks, or has in another form, is left out. */
void explain_print(const cJSON *answer, FILE *out);

#endif
