/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The commands: the words of the command line that are no flags. */
#ifndef KUBE_NFTD_CONFIG_COMMANDS_H
#define KUBE_NFTD_CONFIG_COMMANDS_H

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"
#include "setting.h"

/** Parses the @n words into options->command and options->subject, options->help and
 * options->version. -1 with an error that names the word, and what may have been meant. */
int command_read(const char *const *words, size_t n, struct options *options, struct error *err);

/** The same for "help COMMAND" and "COMMAND --help", without that word and flag. */
int command_read_help(const char *const *words, size_t n, struct options *options,
                      struct error *err);

/** Takes the action of a flag: only one is allowed, and none beside a @command (NULL: none). */
int command_read_flags(const struct configuration *configuration, const char *command,
                       struct options *options, struct error *err);

/** Makes "NAMESPACE/NAME" of options->subject with the namespace of the flag, if given. */
int command_add_namespace(struct options *options, struct error *err);

/** The words of the command of that name (@length bytes), or NULL. */
const char *command_named(const char *name, size_t length);

#endif
