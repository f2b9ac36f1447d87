/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/config.h"

#include "kube-nftd/base.h"
#include "kube-nftd/values.h"
#include "setting.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- commands ---- */

static const struct {
    enum command command;
    const char *words;   /* separated by blanks; NULL: none */
    const char *flag;    /* that does the same; NULL: none */
    const char *subject; /* in brackets if optional; NULL: none */
    const char *help;
} commands[] = {
    {COMMAND_ENDPOINTS, "list endpoints", .subject = "NAMESPACE/SERVICE",
     .help = "the endpoints of a Service, and why this node does not use some of them"},
    {COMMAND_LIST, "list", .subject = "[NAMESPACE[/SERVICE]]",
     .help = "all Services, or those whose names match patterns: 'kube-*', '*/web'"},
    {COMMAND_STATUS, "status",
     .help = "state of the daemon; exit status 0: healthy, 1: not healthy, 2: no answer"},
    {COMMAND_TOP, "top", .subject = "[NAMESPACE/SERVICE]",
     .help = "the Services with the most new connections, or the endpoints of one; needs "
             "--count-connections"},
    {COMMAND_EXPLAIN, "explain", .subject = "WHAT",
     .help = "the Service that has ADDRESS[:PORT[/PROTOCOL]] or a node port, or everything about "
             "NAMESPACE/SERVICE[:PORT] or SERVICE.NAMESPACE: which endpoints this node uses, why "
             "others are not used, and whether the kernel's elements match"},
    {COMMAND_PREFLIGHT, "preflight",
     .help = "check whether this host's kernel supports the tables"},
    {COMMAND_DUMP, "dump", .flag = "dump-rules",
     .help = "the tables computed from the objects, in nft syntax"},
    {COMMAND_CLEANUP, "cleanup", .flag = "cleanup", .help = "remove the tables"},
    {COMMAND_CLEANUP_KUBE_PROXY, NULL, .flag = "cleanup-kube-proxy"},
    {COMMAND_INIT_ONLY, NULL, .flag = "init-only"},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static bool is_on(const struct configuration *configuration, const char *flag)
{
    return strcmp(configuration_value(configuration, flag), "true") == 0;
}

/* Parses @words into the command and its subject. */
static int read_command(const char *const *words, size_t n, struct options *options,
                        struct error *err)
{
    size_t i, taken = 0;
    if (n == 0)
        return 0;
    char *two = n > 1 ? xasprintf("%s %s", words[0], words[1]) : NULL;
    for (i = 0; i < COMMANDS && commands[i].words; i++) {
        bool both = two && strcmp(commands[i].words, two) == 0;
        taken = both ? 2 : strcmp(commands[i].words, words[0]) == 0;
        if (taken)
            break;
    }
    free(two);
    if (!taken)
        return error_set(err, "unknown command: %s (see --help)", words[0]);
    const char *subject = commands[i].subject;
    size_t most = taken + (subject ? 1 : 0);
    if (n > most)
        return error_set(err, "unexpected argument: %s (see --help)", words[most]);
    if (n == taken && subject && *subject != '[')
        return error_set(err, "%s: %s is missing", commands[i].words, subject);
    options->command = commands[i].command;
    options->subject = n > taken ? xstrdup(words[taken]) : NULL;
    return 0;
}

/* Only one action is allowed: a command or one of the flags. */
static int read_action_flags(const struct configuration *configuration, const char *command,
                             struct options *options, struct error *err)
{
    const char *first = command, *dashes = "";
    for (size_t i = 0; i < COMMANDS; i++) {
        const char *flag = commands[i].flag;
        if (!flag || !is_on(configuration, flag))
            continue;
        if (first)
            return error_set(err, "%s%s and --%s exclude each other", dashes, first, flag);
        options->command = commands[i].command;
        first = flag;
        dashes = "--";
    }
    return 0;
}

/* ---- options ---- */

void options_clear(struct options *options)
{
    settings_each (setting)
        setting_clear(setting, options);
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&options->node_port_addresses.cidrs[family]);
    cJSON_Delete(options->configuration);
    free(options->flags);
    free(options->subject);
    vec_each (&options->notes, note)
        free(note->text);
    vec_free(&options->notes);
    memset(options, 0, sizeof(*options));
}

void options_usage(FILE *out)
{
    fputs(
        "Usage: kube-nftd [COMMAND] [FLAG]...\n"
        "Replaces kube-proxy: watches Services and EndpointSlices and keeps the nftables "
        "tables\nip and ip6 kube-nftd up to date. Or runs a command: list, status, top and explain "
        "ask the daemon\nat --metrics-bind-address; with --manifests, list and explain compute "
        "the answer from files.\n\nCommands:\n",
        out);
    for (size_t i = 0; i < COMMANDS && commands[i].words; i++) {
        const char *subject = commands[i].subject;
        fprintf(out, "  %s%s%s\n", commands[i].words, subject ? " " : "", subject ? subject : "");
        setting_print_help(out, commands[i].help);
    }
    settings_print(out);
}

/* Standard output under whatever name is written to, like a pipe, and not truncated: what others
 * wrote there before stays. */
static FILE *open_output(const char *path)
{
    struct stat ours, file;
    bool is_ours = fstat(STDOUT_FILENO, &ours) == 0 && stat(path, &file) == 0 &&
                   ours.st_dev == file.st_dev && ours.st_ino == file.st_ino;
    int fd = is_ours ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0) : -1;
    return is_ours ? fdopen(fd, "w") : fopen(path, "we");
}

int options_write(const struct options *options, struct error *err)
{
    static const char *const limits[] = {"maxPerCore", "min"};
    const char *path = options->write_config_to;
    FILE *file = open_output(path);
    if (!file)
        return error_set(err, "--write-config-to %s: %s", path, strerror(errno));
    cJSON *tree = cJSON_Duplicate(options->configuration, true);
    cJSON *conntrack = cJSON_GetObjectItemCaseSensitive(tree, "conntrack");
    for (size_t i = 0; i < 2 && !options->conntrack.max_given; i++)
        cJSON_ReplaceItemInObjectCaseSensitive(conntrack, limits[i], cJSON_CreateNull());
    int result = yaml_write(file, tree, err);
    cJSON_Delete(tree);
    if (fclose(file) != 0 && result == 0)
        result = error_set(err, "%s", strerror(errno));
    return result ? error_prefix(err, "--write-config-to %s", path) : 0;
}

void options_log_notes(const struct options *options)
{
    vec_each (&options->notes, note)
        if (note->level == LOG_LEVEL_WARN || log_enabled(note->level == LOG_LEVEL_DEBUG ? 2 : 0))
            log_write(NULL, note->level, "config", "%s", note->text);
}

/* ---- flags ---- */

/* Sets all settings that share the flag. */
static int set_flag(struct configuration *configuration, const struct setting *flag,
                    const char *text, struct error *err)
{
    settings_each (setting) {
        if (!setting->flag || strcmp(setting->flag, flag->flag) != 0)
            continue;
        const char *before = configuration_of(configuration, setting)->value;
        char *value = setting_read_flag(setting, text, before, err);
        if (!value) {
            char *name = setting_flag_name(setting);
            error_prefix(err, "%s", name);
            free(name);
            return -1;
        }
        configuration_set(configuration, setting, value, FROM_FLAG);
    }
    return 0;
}

/* @text has @length bytes with dashes. Some former flags are commands now. */
static int unknown_flag(const char *text, size_t length, struct error *err)
{
    const char *name = text + strspn(text, "-");
    for (size_t i = 0; i < COMMANDS && commands[i].words; i++)
        if (strlen(commands[i].words) == (size_t)(text + length - name) &&
            strncmp(commands[i].words, name, strlen(commands[i].words)) == 0)
            return error_set(err, "unknown flag: %.*s (it is a command: kube-nftd %s; see --help)",
                             (int)length, text, commands[i].words);
    const struct setting *near = setting_near_flag(text, length);
    if (!near)
        return error_set(err, "unknown flag: %.*s (see --help)", (int)length, text);
    char *meant = setting_flag_name(near);
    error_set(err, "unknown flag: %.*s (did you mean %s? see --help)", (int)length, text, meant);
    free(meant);
    return -1;
}

/* Reads the flag at argv[*at] and its value, which may be the next argument. */
static int parse_flag(struct configuration *configuration, int argc, char *const *argv, int *at,
                      struct error *err)
{
    const char *text = argv[*at];
    bool one_dash = text[1] != '-';
    const char *name = text + 2 - one_dash;
    size_t length = strcspn(name, "=");
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    const struct setting *flag = setting_by_flag(name, length);
    if (one_dash && flag && flag->flag[1])
        flag = NULL;
    if (strcmp(text, "-h") == 0)
        flag = setting_by_flag("help", 4);
    if (one_dash && length == 1 && *name == 'o')
        flag = setting_by_flag("output", 6);
    /* "-v4" for "-v 4" */
    if (one_dash && *name == 'v' && isdigit((unsigned char)name[1])) {
        flag = setting_by_flag("v", 1);
        value = name + 1;
    }
    if (!flag)
        return unknown_flag(text, (size_t)(name - text) + length, err);
    if (flag->type != SETTING_SWITCH && flag->type != SETTING_VERSION && !value) {
        if (*at + 1 >= argc)
            return error_set(err, "%s: the value is missing", text);
        value = argv[++*at];
    }
    return set_flag(configuration, flag, value, err);
}

/* ---- combinations ---- */

#define ONLY(command) (1u << (COMMAND_##command))

/* Rejects flags that have an effect only with other commands. */
static int check_companions(const struct configuration *configuration, enum command command,
                            struct error *err)
{
    static const struct {
        const char *flag;
        const char *value; /* NULL: any but false */
        unsigned commands;
        const char *with;
    } companions[] = {
        {"all", NULL, ONLY(EXPLAIN), "explain"},
        {"output", NULL, ONLY(LIST) | ONLY(ENDPOINTS) | ONLY(STATUS) | ONLY(TOP) | ONLY(EXPLAIN),
         "list, status, top and explain"},
        {"output", "wide", ONLY(LIST) | ONLY(ENDPOINTS), "list"},
        {"output", "name", ONLY(LIST) | ONLY(ENDPOINTS), "list"},
        {"output", "name", ~ONLY(ENDPOINTS), "a list of Services"},
        {"once", NULL, ONLY(TOP), "top"},
    };
    if (is_on(configuration, "dry-run") && !is_on(configuration, "cleanup-kube-proxy"))
        return error_set(err, "--dry-run works only with --cleanup-kube-proxy");
    for (size_t i = 0; i < sizeof(companions) / sizeof(companions[0]); i++) {
        const char *only = companions[i].value;
        const char *value = configuration_value(configuration, companions[i].flag);
        bool given = only ? strcmp(value, only) == 0 : *value && strcmp(value, "false") != 0;
        if (given && !(companions[i].commands & 1u << command))
            return error_set(err, "--%s%s%s works only with %s", companions[i].flag,
                             only ? " " : "", only ? only : "", companions[i].with);
    }
    return 0;
}

/* A kubeconfig from the file does not conflict with --manifests: it is just unused. */
static int check_sources(const struct configuration *configuration, enum command command,
                         struct error *err)
{
    static const char *const others[] = {"kubeconfig", "master"};
    const char *name = command == COMMAND_TOP ? "top" : "status";
    if (!*configuration_value(configuration, "manifests"))
        return 0;
    if (*configuration_value(configuration, "remove-startup-taint"))
        return error_set(err, "--manifests and --remove-startup-taint exclude each other: the Node "
                              "object is on an API server");
    for (size_t i = 0; i < 2; i++) {
        const struct configured *other =
            configuration_of(configuration, setting_by_flag(others[i], strlen(others[i])));
        if (other->source == FROM_FLAG && *other->value)
            return error_set(
                err, "--manifests and --%s exclude each other: objects have one source", others[i]);
    }
    if (command != COMMAND_STATUS && command != COMMAND_TOP)
        return 0;
    return error_set(err, "%s and --manifests exclude each other: %s asks a running daemon", name,
                     name);
}

/* ---- all of it ---- */

static int parse(struct configuration *configuration, int argc, char *const *argv,
                 struct options *options, struct error *err)
{
    VEC(const char *) words = {0};
    int result = 0;
    for (int at = 1; at < argc && result == 0; at++) {
        if (argv[at][0] == '-' && argv[at][1])
            result = parse_flag(configuration, argc, argv, &at, err);
        else
            vec_push(&words, argv[at]);
    }
    const char *version = configuration_value(configuration, "version");
    bool informs = is_on(configuration, "help") || (*version && strcmp(version, "false") != 0);
    if (result == 0 && !informs) {
        const char *command = words.n ? words.v[0] : NULL;
        result = read_command(words.v, words.n, options, err) ||
                         configuration_read_file(configuration, err) ||
                         check_sources(configuration, options->command, err) ||
                         read_action_flags(configuration, command, options, err) ||
                         check_companions(configuration, options->command, err) ||
                         configuration_complete(configuration, err)
                     ? -1
                     : 0;
    }
    if (result == 0 && !informs) {
        options->configuration = configuration_tree(configuration);
        options->flags = configuration_flags(configuration);
    }
    vec_free(&words);
    return result;
}

int options_parse(int argc, char *const *argv, struct options *options, struct error *err)
{
    struct configuration configuration;
    memset(options, 0, sizeof(*options));
    configuration_init(&configuration, &options->notes);
    int result = parse(&configuration, argc, argv, options, err);
    options->argc = argc;
    options->argv = argv;
    if (result == 0)
        configuration_store(&configuration, options);
    else
        options_clear(options);
    configuration_clear(&configuration);
    return result;
}

char *node_name(const char *override, struct error *err)
{
    static const char blanks[] = " \t\n\v\f\r";
    char host[HOST_NAME_MAX + 1] = "";
    if (!override && gethostname(host, sizeof(host)) < 0) {
        error_set(err, "cannot read the host's name: %s", strerror(errno));
        return NULL;
    }
    const char *given = override ? override : host;
    char *name = xstrdup(given + strspn(given, blanks));
    size_t length = strlen(name);
    while (length > 0 && strchr(blanks, name[length - 1]))
        name[--length] = '\0';
    if (length == 0) {
        error_set(err, override ? "--hostname-override: the name is empty"
                                : "the host has no name: give --hostname-override");
        free(name);
        return NULL;
    }
    for (char *s = name; *s; s++)
        *s = (char)tolower((unsigned char)*s);
    return name;
}
