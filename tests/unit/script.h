/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Cases as text, in tests/unit/cases/NAME: what is done, and what comes of it.
 *
 *     = a Service without endpoints
 *     # A comment.
 *     service a/web 10.96.0.1 http/TCP:80
 *     sync
 *       10.96.0.1:80/TCP
 *
 * A line is a command and its words. Indented lines below it are what it writes; without any, it
 * writes nothing. One line may stand behind it: "command words => what it writes". Lines that begin
 * with "|" are a text that the command is given (script_text()). A case that begins with a line
 * "each WORD..." is one for each of them, which "$" stands for.
 * UNIT_CASE=NAME runs one case; UNIT_WRITE=FILE writes them all to that file, with what comes of
 * them now (with CK_FORK=no).
 */
#ifndef KUBE_NFTD_TESTS_SCRIPT_H
#define KUBE_NFTD_TESTS_SCRIPT_H

#include "unit.h"

void script_add_command(const char *name, void (*run)(char *words, FILE *out));

/* A command: "no-service" is COMMAND(no_service), "+" is COMMAND_AS("+", add). */
#define COMMAND_AS(text, name)                                                                     \
    static void run_##name(char *words, FILE *out);                                                \
    __attribute__((constructor)) static void add_command_##name(void)                              \
    {                                                                                              \
        script_add_command(text, run_##name);                                                      \
    }                                                                                              \
    static void run_##name(char *words, FILE *out)

#define COMMAND(name) COMMAND_AS(#name, name)

/* How many cases the file has. */
int script_cases(const char *file);

/* Runs one of them. */
void script_run(const char *file, int number);

/* Runs a line as if it stood in a case; printf's format. Returns whether it wrote something. */
bool script_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The text below the present command; "" if there is none. */
const char *script_text(void);

/* Where the present command writes, for what is called back meanwhile. */
FILE *script_out(void);

/* From now on each command also writes what was logged of @level or worse; for a set-up. */
void script_show_log(enum log_level level);

/* From now on commands write @name in place of the number @number, which is another each time. */
void script_name_number(unsigned number, char name);

/* Cuts the first word off; "" if there is none. */
char *script_word(char **words);

/* The number that the first word is, which is cut off; without one, @otherwise. */
unsigned script_number(char **words, unsigned otherwise);

/* Whether @word is "KEY=..."; then @value is what is behind. */
bool script_option(char *word, const char *key, char **value);

/* Makes "<0a>" in @text, of two hexadecimal digits, that byte. Returns the length. */
size_t script_bytes(char *text);

/* Writes that way what is no printable ASCII. */
void write_bytes(FILE *out, const char *text, size_t length);

/* All cases of a file are tests. */
#define CASES(file)                                                                                \
    TESTS(cases, script_cases(file))                                                               \
    {                                                                                              \
        script_run(file, _i);                                                                      \
    }

#endif
