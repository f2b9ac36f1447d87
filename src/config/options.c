/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/config/options.h"

#include "kube-nftd/base/alloc.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An empty OPTIONAL_TEXT is the same as none, as kube-proxy has it. */
enum kind { TEXT, OPTIONAL_TEXT, SWITCH, NUMBER };

static const struct flag {
    const char *name; /* without dashes; one letter: with one dash or two */
    enum kind kind;
    size_t offset;
    const char *value, *help;
} flags[] = {
    {"manifests", TEXT, offsetof(struct options, manifests), "PATH",
     "take objects from a file or folder (YAML or JSON, as kubectl get -o writes them) and follow "
     "its changes"},
    {"kubeconfig", OPTIONAL_TEXT, offsetof(struct options, kubeconfig), "FILE",
     "how to reach the API server; without it and --master, the pod's service account"},
    {"master", OPTIONAL_TEXT, offsetof(struct options, master), "URL",
     "the API server, instead of the one in the kubeconfig"},
    {"hostname-override", OPTIONAL_TEXT, offsetof(struct options, hostname_override), "NAME",
     "the name of the own Node, instead of the host's name"},
    {"healthz-bind-address", OPTIONAL_TEXT, offsetof(struct options, healthz_bind_address),
     "IP:PORT", "where /healthz and /livez answer (default 0.0.0.0:10256)"},
    {"dump-rules", SWITCH, offsetof(struct options, dump_rules), NULL,
     "print the tables computed from the objects, in nft syntax, and exit"},
    {"cleanup", SWITCH, offsetof(struct options, cleanup), NULL, "remove the tables and exit"},
    {"v", NUMBER, offsetof(struct options, verbosity), "N", "how much to log: 0 (default) to 4"},
    {"version", SWITCH, offsetof(struct options, version), NULL, "print the version and exit"},
    {"help", SWITCH, offsetof(struct options, help), NULL, "print this and exit"},
};

#define N_FLAGS (sizeof(flags) / sizeof(flags[0]))

void options_clear(struct options *options)
{
    for (size_t i = 0; i < N_FLAGS; i++)
        if (flags[i].kind == TEXT || flags[i].kind == OPTIONAL_TEXT)
            free(*(char **)(void *)((char *)options + flags[i].offset));
    memset(options, 0, sizeof(*options));
}

void options_usage(FILE *out)
{
    fputs("Usage: kube-nftd [FLAG]...\n"
          "Watches Services and EndpointSlices and keeps the nftables tables ip and ip6 kube-nftd\n"
          "true to them, in place of kube-proxy.\n\n",
          out);
    for (size_t i = 0; i < N_FLAGS; i++) {
        const struct flag *flag = &flags[i];
        fprintf(out, "  %s%s%s%s\n        %s\n", flag->name[1] ? "--" : "-", flag->name,
                flag->value ? " " : "", flag->value ? flag->value : "", flag->help);
    }
}

/* ---- one flag ---- */

/* The flag of that name, with '_' for '-'. */
static const struct flag *find_flag(const char *name, size_t length)
{
    for (size_t i = 0; i < N_FLAGS; i++) {
        size_t at = 0;
        if (strlen(flags[i].name) != length)
            continue;
        while (at < length && flags[i].name[at] == (name[at] == '_' ? '-' : name[at]))
            at++;
        if (at == length)
            return &flags[i];
    }
    return NULL;
}

static int set_text(char **to, const struct flag *flag, const char *value, struct error *err)
{
    if (!*value && flag->kind == TEXT)
        return error_set(err, "--%s: the value is empty", flag->name);
    free(*to);
    *to = *value ? xstrdup(value) : NULL;
    return 0;
}

static int set_switch(bool *to, const struct flag *flag, const char *value, struct error *err)
{
    if (!value || strcmp(value, "true") == 0)
        *to = true;
    else if (strcmp(value, "false") == 0)
        *to = false;
    else
        return error_set(err, "--%s: \"%s\" is neither true nor false", flag->name, value);
    return 0;
}

static int set_number(int *to, const struct flag *flag, const char *value, struct error *err)
{
    char *end;
    errno = 0;
    long number = strtol(value, &end, 10);
    if (!isdigit((unsigned char)*value) || *end || errno || number > INT_MAX)
        return error_set(err, "-%s: \"%s\" is not a number from 0 on", flag->name, value);
    *to = (int)number;
    return 0;
}

static int set_flag(struct options *options, const struct flag *flag, const char *value,
                    struct error *err)
{
    void *field = (char *)options + flag->offset;
    switch (flag->kind) {
    case TEXT:
    case OPTIONAL_TEXT:
        return set_text(field, flag, value, err);
    case SWITCH:
        return set_switch(field, flag, value, err);
    case NUMBER:
        return set_number(field, flag, value, err);
    }
    return 0;
}

/* Reads the flag at argv[*at] and its value, which may be the next argument. */
static int parse_flag(struct options *options, int argc, char *const *argv, int *at,
                      struct error *err)
{
    const char *text = argv[*at];
    if (text[0] != '-' || text[1] == '\0')
        return error_set(err, "unexpected argument: %s (there are only flags)", text);
    const char *name = text + 1 + (text[1] == '-');
    size_t length = strcspn(name, "=");
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    const struct flag *flag = find_flag(name, length);
    if (strcmp(text, "-h") == 0)
        flag = find_flag("help", 4);
    /* "-v4" for "-v 4" */
    if (!flag && text[1] == 'v' && isdigit((unsigned char)text[2])) {
        flag = find_flag("v", 1);
        value = text + 2;
    }
    bool short_name = text[1] != '-' && strcmp(text, "-h") != 0;
    if (!flag || (short_name && flag->name[1]))
        return error_set(err, "unknown flag: %.*s", (int)(name - text + (ptrdiff_t)length), text);
    if (flag->kind != SWITCH && !value) {
        if (*at + 1 >= argc)
            return error_set(err, "%s: a value is missing", text);
        value = argv[++*at];
    }
    return set_flag(options, flag, value, err);
}

/* ---- all of them ---- */

static int check(const struct options *options, struct error *err)
{
    if (options->manifests && options->kubeconfig)
        return error_set(err, "--manifests and --kubeconfig exclude each other: "
                              "objects come from one place");
    if (options->manifests && options->master)
        return error_set(err, "--manifests and --master exclude each other: "
                              "objects come from one place");
    if (options->dump_rules && options->cleanup)
        return error_set(err, "--dump-rules and --cleanup exclude each other");
    return 0;
}

int options_parse(int argc, char *const *argv, struct options *options, struct error *err)
{
    memset(options, 0, sizeof(*options));
    int result = 0;
    for (int at = 1; at < argc && result == 0; at++)
        result = parse_flag(options, argc, argv, &at, err);
    if (result == 0 && !options->help && !options->version)
        result = check(options, err);
    if (result)
        options_clear(options);
    return result;
}

char *node_name(const char *override, struct error *err)
{
    char host[HOST_NAME_MAX + 1] = "";
    if (!override && gethostname(host, sizeof(host)) < 0) {
        error_set(err, "cannot read the host's name: %s", strerror(errno));
        return NULL;
    }
    const char *name = override ? override : host;
    while (isspace((unsigned char)*name))
        name++;
    size_t length = strlen(name);
    while (length > 0 && isspace((unsigned char)name[length - 1]))
        length--;
    if (length == 0) {
        error_set(err, override ? "--hostname-override: the name is empty"
                                : "the host has no name: give --hostname-override");
        return NULL;
    }
    char *copy = xstrndup(name, length);
    for (char *s = copy; *s; s++)
        *s = (char)tolower((unsigned char)*s);
    return copy;
}
