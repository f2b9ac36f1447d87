/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "commands.h"

#include "spelling.h"

#include <string.h>

static const struct command_spec {
    enum command command;
    const char *words;   /* separated by blanks; NULL: none */
    const char *flag;    /* that does the same; NULL: none */
    const char *subject; /* in brackets if optional; NULL: none */
    const char *help;
    const char *more;  /* for the command's own help; NULL: nothing */
    const char *flags; /* that concern it beside --help, separated by blanks; NULL: none */
} commands[] = {
    {COMMAND_ENDPOINTS, "list endpoints", .subject = "[NAMESPACE/SERVICE]",
     .help = "the endpoints of a Service, and why this node does not use some of them; without a "
             "Service all addresses that clients use, with the endpoints each leads to",
     .more = "Example: kube-nftd list endpoints default/web -o wide",
     .flags = "namespace output manifests hostname-override metrics-bind-address"},
    {COMMAND_LIST, "list", .subject = "[NAMESPACE[/SERVICE]]",
     .help = "all Services, or those whose names match patterns: 'kube-*', '*/web'",
     .more = "READY counts the endpoints that are ready, of all; LOCAL those of them on this node. "
             "If the ports of a Service differ, READY has the fewest and the most; ports without "
             "any are in NOTE. STATE is applied if the kernel holds all of it; otherwise pending, "
             "rejected (by the kernel), limited (something is left out), claimed (another Service "
             "has an address of it), no endpoints (connections are refused), lost (the table is), "
             "headless or ExternalName (nothing to do), no Service or invalid (only EndpointSlices "
             "name it, or it cannot be read). "
             "Exit status 0 also if no Service matches.",
     .flags = "namespace all-namespaces output manifests hostname-override metrics-bind-address"},
    {COMMAND_STATUS, "status",
     .help = "state of the daemon; exit status 0: healthy, 1: not healthy, 2: no answer",
     .flags = "output metrics-bind-address"},
    {COMMAND_TOP, "top", .subject = "[NAMESPACE/SERVICE]",
     .help = "the Services with the most new connections, or the endpoints of one; needs "
             "--count-connections",
     .more = "On a terminal: q quits, s sorts by another column, the arrows choose, enter shows "
             "the endpoints of a Service, escape goes back.",
     .flags = "namespace once output metrics-bind-address"},
    {COMMAND_EXPLAIN, "explain", .subject = "WHAT",
     .help = "the Service that has ADDRESS[:PORT[/PROTOCOL]] or a node port, or everything about "
             "NAMESPACE/SERVICE[:PORT] or SERVICE.NAMESPACE: which endpoints this node uses, why "
             "others are not used, and whether the kernel's elements match",
     .more = "Exit status 0: the kernel holds what it should; 2: no Service has it; 3: the kernel "
             "holds something else. "
             "Examples: kube-nftd explain 10.96.0.10:53/UDP; kube-nftd explain 30080; kube-nftd "
             "explain web.default",
     .flags = "namespace all output manifests hostname-override metrics-bind-address"},
    {COMMAND_PREFLIGHT, "preflight",
     .help = "check whether this host's kernel supports the tables"},
    {COMMAND_DUMP, "dump", .flag = "dump-rules",
     .help = "the tables computed from the objects, in nft syntax",
     .more = "Takes the flags of the daemon that concern objects, traffic and pods.",
     .flags = "manifests kubeconfig config hostname-override"},
    {COMMAND_CLEANUP, "cleanup", .flag = "cleanup", .help = "remove the tables"},
    {COMMAND_HELP, "help", .subject = "[COMMAND]", .help = "this, or help for a command"},
    {COMMAND_VERSION, "version", .help = "the version and the commit that was built"},
    {COMMAND_CLEANUP_KUBE_PROXY, NULL, .flag = "cleanup-kube-proxy"},
    {COMMAND_INIT_ONLY, NULL, .flag = "init-only"},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

#define commands_each(it)                                                                          \
    for (const struct command_spec *it = commands; it < commands + COMMANDS && it->words; it++)

/* ---- words ---- */

/* How many of the @n words are those of @spec; 0: others. */
static size_t match(const struct command_spec *spec, const char *const *words, size_t n)
{
    const char *rest = spec->words;
    size_t taken = 0;
    while (*rest) {
        size_t length = strcspn(rest, " ");
        if (taken == n || strlen(words[taken]) != length ||
            strncmp(rest, words[taken], length) != 0)
            return 0;
        taken++;
        rest += length + (rest[length] == ' ');
    }
    return taken;
}

/* The command nearest to @text: its words, or the last of them; NULL: none is near. */
static const char *find_near(const char *text)
{
    const char *nearest = NULL;
    size_t least = SPELLING_FAR, length = strlen(text);
    commands_each(it)
    {
        const char *last = strrchr(it->words, ' ');
        const size_t whole = spelling_errors(text, length, it->words);
        const size_t part = last ? spelling_errors(text, length, last + 1) : whole;
        const size_t errors = part < whole ? part : whole;
        if (errors < least) {
            least = errors;
            nearest = it->words;
        }
    }
    return nearest;
}

static int unknown_command(const char *word, struct error *err)
{
    const char *near = find_near(word);
    return near ? error_set(err, "unknown command: %s (did you mean %s? see --help)", word, near)
                : error_set(err, "unknown command: %s (see --help)", word);
}

const char *command_meant(const char *first, const char *second)
{
    char *two = xasprintf("%s %s", first, second);
    const char *near = find_near(two);
    const bool differs = near && strcmp(near, two) != 0 && strchr(near, ' ');
    free(two);
    return differs ? near : NULL;
}

/* A word too many, as in "list endpoint a/b". */
static int unexpected_word(const char *const *words, size_t at, struct error *err)
{
    const char *near = at > 1 ? command_meant(words[0], words[1]) : NULL;
    if (near)
        return error_set(err, "unexpected argument: %s (did you mean %s? see --help)", words[at],
                         near);
    return error_set(err, "unexpected argument: %s (see --help)", words[at]);
}

/* The command that the words begin with; NULL with an error. */
static const struct command_spec *find_command(const char *const *words, size_t n, size_t *taken,
                                               struct error *err)
{
    commands_each(it)
    {
        *taken = match(it, words, n);
        if (*taken)
            return it;
    }
    unknown_command(words[0], err);
    return NULL;
}

int command_read_help(const char *const *words, size_t n, struct options *options,
                      struct error *err)
{
    size_t taken = 0;
    const struct command_spec *about = n ? find_command(words, n, &taken, err) : NULL;
    options->help = true;
    if (n && !about)
        return -1;
    options->command = about ? about->command : COMMAND_HELP;
    return 0;
}

int command_read(const char *const *words, size_t n, struct options *options, struct error *err)
{
    size_t taken;
    if (n == 0)
        return 0;
    const struct command_spec *spec = find_command(words, n, &taken, err);
    if (!spec)
        return -1;
    if (spec->command == COMMAND_HELP)
        return command_read_help(words + 1, n - 1, options, err);
    const char *subject = spec->subject;
    size_t most = taken + (subject ? 1 : 0);
    if (n > most)
        return unexpected_word(words, most, err);
    if (n == taken && subject && *subject != '[')
        return error_set(err, "%s: %s is missing (see kube-nftd help %s)", spec->words, subject,
                         spec->words);
    options->command = spec->command;
    options->subject = n > taken ? xstrdup(words[taken]) : NULL;
    if (spec->command == COMMAND_VERSION)
        options->version = VERSION_FULL;
    return 0;
}

const char *command_named(const char *name, size_t length)
{
    commands_each(it) if (strlen(it->words) == length &&
                          strncmp(it->words, name, length) == 0) return it->words;
    return NULL;
}

int command_add_namespace(struct options *options, struct error *err)
{
    const char *subject = options->subject, *namespace = options->namespace;
    if (!namespace)
        return 0;
    if (options->all_namespaces)
        return error_set(err, "--namespace and --all-namespaces exclude each other");
    if (subject && strchr(subject, '/'))
        return error_set(err, "--namespace: %s has a namespace already", subject);
    char *whole = subject ? xasprintf("%s/%s", namespace, subject) : xstrdup(namespace);
    free(options->subject);
    options->subject = whole;
    return 0;
}

/* ---- flags that stand for a command ---- */

int command_read_flags(const struct configuration *configuration, const char *command,
                       struct options *options, struct error *err)
{
    const char *first = command, *dashes = "";
    for (size_t i = 0; i < COMMANDS; i++) {
        const char *flag = commands[i].flag;
        if (!flag || strcmp(configuration_value(configuration, flag), "true") != 0)
            continue;
        if (first)
            return error_set(err, "%s%s and --%s exclude each other", dashes, first, flag);
        options->command = commands[i].command;
        first = flag;
        dashes = "--";
    }
    return 0;
}

/* ---- help ---- */

static void print_command_help(const struct command_spec *spec, FILE *out)
{
    const char *subject = spec->subject ? spec->subject : "";
    fprintf(out, "Usage: kube-nftd %s%s%s [FLAG]...\n\n", spec->words, *subject ? " " : "",
            subject);
    setting_print_text(out, 0, spec->help);
    if (spec->more) {
        fputc('\n', out);
        setting_print_text(out, 0, spec->more);
    }
    if (spec->flags)
        fputs("\nFlags:\n", out);
    for (const char *name = spec->flags; name && *name; name += *name == ' ') {
        size_t length = strcspn(name, " ");
        setting_print(out, setting_by_flag(name, length));
        name += length;
    }
    fputs("\nAll flags: kube-nftd --help\n", out);
}

void options_usage(const struct options *options, FILE *out)
{
    commands_each(it) if (it->command == options->command && it->command != COMMAND_HELP)
    {
        print_command_help(it, out);
        return;
    }
    fputs("Usage: kube-nftd [COMMAND] [FLAG]...\n", out);
    setting_print_text(
        out, 0,
        "Replaces kube-proxy: watches Services and EndpointSlices and keeps the nftables tables ip "
        "and ip6 kube-nftd up to date. Or runs a command: list, status, top and explain ask the "
        "daemon at --metrics-bind-address; with --manifests, list and explain compute the answer "
        "from files.");
    fputs("\nCommands:\n", out);
    commands_each(it)
    {
        fprintf(out, "  %s%s%s\n", it->words, it->subject ? " " : "",
                it->subject ? it->subject : "");
        setting_print_text(out, HELP_INDENT, it->help);
    }
    settings_print(out);
}
