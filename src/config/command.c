/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/config/command.h"

#include "kube-nftd/base/alloc.h"
#include "setting.h"

#include <stdbool.h>
#include <string.h>

static const struct {
    enum command command;
    const char *words; /* that it begins with, between blanks */
    const char *subject;
    bool optional; /* the subject is */
    const char *help;
} commands[] = {
    {COMMAND_ENDPOINTS, "list endpoints", "NAMESPACE/SERVICE", false,
     "the endpoints of a Service, and why this node does not use some of them"},
    {COMMAND_LIST, "list", "NAMESPACE[/SERVICE]", true,
     "all Services, or those whose names match patterns: 'kube-*', '*/web'"},
    {COMMAND_STATUS, "status", NULL, true,
     "state of the daemon; exit status 0: healthy, 1: not healthy, 2: no answer"},
    {COMMAND_EXPLAIN, "explain", "WHAT", false,
     "the Service that has ADDRESS[:PORT[/PROTOCOL]] or a node port, or everything about "
     "NAMESPACE/SERVICE[:PORT] or SERVICE.NAMESPACE: which endpoints this node uses, why others "
     "are not used, and whether the kernel's elements match"},
    {COMMAND_PREFLIGHT, "preflight", NULL, true,
     "check whether this host's kernel supports the tables"},
    {COMMAND_DUMP, "dump", NULL, true, "the tables computed from the objects, in nft syntax"},
    {COMMAND_CLEANUP, "cleanup", NULL, true, "remove the tables"},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* How many of the words @text begins with; 0 if not with all that it has. */
static size_t match(const char *text, const char *const *words, size_t n)
{
    size_t i = 0;
    for (; *text && i < n; i++) {
        size_t length = strcspn(text, " ");
        if (strlen(words[i]) != length || memcmp(words[i], text, length) != 0)
            return 0;
        text += length + (text[length] == ' ');
    }
    return *text ? 0 : i;
}

static int take(size_t at, const char *const *rest, size_t n, enum command *command, char **subject,
                struct error *err)
{
    if (n > (commands[at].subject ? 1 : 0))
        return error_set(err, "unexpected argument: %s (see --help)",
                         rest[commands[at].subject ? 1 : 0]);
    if (n == 0 && !commands[at].optional)
        return error_set(err, "%s: %s is missing", commands[at].words, commands[at].subject);
    *command = commands[at].command;
    *subject = n ? xstrdup(rest[0]) : NULL;
    return 0;
}

int command_read(const char *const *words, size_t n, enum command *command, char **subject,
                 struct error *err)
{
    for (size_t i = 0; i < COMMANDS && n; i++) {
        size_t taken = match(commands[i].words, words, n);
        if (taken)
            return take(i, words + taken, n - taken, command, subject, err);
    }
    return n ? error_set(err, "unknown command: %s (see --help)", words[0]) : 0;
}

const char *command_of_flag(const char *name, size_t length)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strlen(commands[i].words) == length && memcmp(commands[i].words, name, length) == 0)
            return commands[i].words;
    return NULL;
}

void commands_print(FILE *out)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        const char *subject = commands[i].subject;
        bool optional = commands[i].optional;
        fprintf(out, "  %s%s%s%s\n", commands[i].words,
                !subject   ? ""
                : optional ? " ["
                           : " ",
                subject ? subject : "", subject && optional ? "]" : "");
        setting_print_help(out, commands[i].help);
    }
}
