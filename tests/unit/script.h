/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Cases as text, in tests/unit/cases/NAME: what is done, and what comes of it.
 *
 *     = a Service without endpoints
 *     # A comment.
 *     service a/web 10.96.0.1 http/TCP:80
 *     settle
 *       10.96.0.1:80/TCP
 *
 * A line is a command and its words. Indented lines below it are what it writes; without any, it
 * writes nothing. One line may stand behind it: "command words => what it writes". Lines that begin
 * with "|" are a text that the command is given (script_text()).
 * UNIT_CASE=NAME runs one case; UNIT_WRITE=FILE writes them all to that file, with what comes of
 * them now (with CK_FORK=no).
 */
#ifndef KUBE_NFTD_TESTS_SCRIPT_H
#define KUBE_NFTD_TESTS_SCRIPT_H

#include "unit.h"

#include <stdio.h>

struct script_command {
    const char *name;
    void (*run)(char *words, FILE *out);
};

/* How many cases the file has. */
int script_cases(const char *file);

/* Runs one of them. @commands end with one without a name. */
void script_run(const char *file, int number, const struct script_command *commands);

/* The text below the present command; "" if there is none. */
const char *script_text(void);

/* Cuts the first word off; "" if there is none. */
char *script_word(char **words);

/* Whether @word is "KEY=..."; then @value is what is behind. */
bool script_option(char *word, const char *key, char **value);

/* All cases of a file are tests. */
#define SCRIPT(file, commands)                                                                     \
    TESTS(cases, script_cases(file))                                                               \
    {                                                                                              \
        script_run(file, _i, commands);                                                            \
    }

#endif
