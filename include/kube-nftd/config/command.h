/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The words of the command line that are no flags: a command and what it is about. */
#ifndef KUBE_NFTD_CONFIG_COMMAND_H
#define KUBE_NFTD_CONFIG_COMMAND_H

#include "kube-nftd/base/error.h"

#include <stdio.h>

enum command {
    COMMAND_NONE, /* the daemon, or what a flag asks for */
    COMMAND_LIST,
    COMMAND_ENDPOINTS, /* "list endpoints" */
    COMMAND_STATUS,
    COMMAND_EXPLAIN,
    COMMAND_PREFLIGHT,
    COMMAND_DUMP,
    COMMAND_CLEANUP,
};

/** Reads the @n @words into @command, and @subject (for the caller to free, NULL if there is none).
 * -1 if they are none, or too few or many. */
int command_read(const char *const *words, size_t n, enum command *command, char **subject,
                 struct error *err);

/** "explain WHAT" for a flag @name (@length bytes) that has become a command, or NULL. */
const char *command_of_flag(const char *name, size_t length);

/** Prints what --help says of commands. */
void commands_print(FILE *out);

#endif
