/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is made of a command line, as text: all that is not the default. */
#ifndef KUBE_NFTD_TESTS_OPTIONS_TEXT_H
#define KUBE_NFTD_TESTS_OPTIONS_TEXT_H

#include "kube-nftd/config.h"
#include "script.h"

#define MOST 20

/* Parses the words of @line, of which "''" is an empty one. */
int parse(const char *line, struct options *options, struct error *err);

/* Everything that was given, in one text. */
char *options_text(const struct options *options);

#endif
