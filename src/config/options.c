/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/config.h"

#include "kube-nftd/base.h"
#include "setting.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- commands ---- */

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
    {COMMAND_TOP, "top", "NAMESPACE/SERVICE", true,
     "the Services with the most new connections, or the endpoints of one; needs "
     "--count-connections"},
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

/* Reads the @n @words into @command, and @subject (for the caller to free, NULL if there is none).
 * -1 if they are none, or too few or many. */
static int command_read(const char *const *words, size_t n, enum command *command, char **subject,
                        struct error *err)
{
    for (size_t i = 0; i < COMMANDS && n; i++) {
        size_t taken = match(commands[i].words, words, n);
        if (taken)
            return take(i, words + taken, n - taken, command, subject, err);
    }
    return n ? error_set(err, "unknown command: %s (see --help)", words[0]) : 0;
}

/* "explain WHAT" for a flag @name (@length bytes) that has become a command, or NULL. */
static const char *command_of_flag(const char *name, size_t length)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strlen(commands[i].words) == length && memcmp(commands[i].words, name, length) == 0)
            return commands[i].words;
    return NULL;
}

static void commands_print(FILE *out)
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

/* ---- options ---- */

void options_clear(struct options *options)
{
    for (size_t i = 0; i < settings_count; i++)
        setting_clear(&settings[i], options);
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
    commands_print(out);
    settings_print(out);
}

int options_write(const struct options *options, struct error *err)
{
    static const char *const limits[] = {"maxPerCore", "min"};
    cJSON *tree = cJSON_Duplicate(options->configuration, true);
    cJSON *conntrack = cJSON_GetObjectItemCaseSensitive(tree, "conntrack");
    for (size_t i = 0; i < 2 && !options->conntrack.max_given; i++)
        cJSON_ReplaceItemInObjectCaseSensitive(conntrack, limits[i], cJSON_CreateNull());
    int result = config_file_write(options->write_config_to, tree, err);
    cJSON_Delete(tree);
    return result;
}

void options_log_notes(const struct options *options)
{
    vec_each (&options->notes, note) {
        if (note->importance == NOTE_WARNING)
            log_write(NULL, LOG_LEVEL_WARN, "config", "%s", note->text);
        else if (note->importance == NOTE_INFO && log_enabled(0))
            log_write(NULL, LOG_LEVEL_INFO, "config", "%s", note->text);
        else if (note->importance == NOTE_DETAIL && log_enabled(2))
            log_write(NULL, LOG_LEVEL_DEBUG, "config", "%s", note->text);
    }
}

/* ---- one flag ---- */

/* Sets all that share the flag. */
static int set_flag(struct configuration *configuration, const struct setting *flag,
                    const char *text, struct error *err)
{
    for (size_t i = 0; i < settings_count; i++) {
        const struct setting *setting = &settings[i];
        if (!setting->flag || strcmp(setting->flag, flag->flag) != 0)
            continue;
        const cJSON *before = configuration_of(configuration, setting)->json;
        cJSON *value = setting_read_text(setting, text, before, err);
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

static int unknown_flag(const char *text, size_t length, struct error *err)
{
    size_t dashes = strspn(text, "-");
    const char *command = command_of_flag(text + dashes, length - dashes);
    if (command)
        return error_set(err, "unknown flag: %.*s (it is a command: kube-nftd %s; see --help)",
                         (int)length, text, command);
    const struct setting *near = setting_near_flag(text, length);
    char *name = near ? setting_flag_name(near) : NULL;
    error_set(err, "unknown flag: %.*s (%s%s%ssee --help)", (int)length, text,
              near ? "did you mean " : "", near ? name : "", near ? "? " : "");
    free(name);
    return -1;
}

static bool needs_value(const struct setting *flag)
{
    return flag->type != SETTING_SWITCH && flag->type != SETTING_VERSION;
}

/* Reads the flag at argv[*at] and its value, which may be the next argument. */
static int parse_flag(struct configuration *configuration, int argc, char *const *argv, int *at,
                      struct error *err)
{
    const char *text = argv[*at];
    const char *name = text + 1 + (text[1] == '-');
    size_t length = strcspn(name, "=");
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    const struct setting *flag = setting_by_flag(name, length);
    if (strcmp(text, "-h") == 0)
        flag = setting_by_flag("help", 4);
    /* "-v4" for "-v 4" */
    if (!flag && text[1] == 'v' && isdigit((unsigned char)text[2])) {
        flag = setting_by_flag("v", 1);
        value = text + 2;
    }
    if (text[1] == 'o' && (text[2] == '\0' || text[2] == '='))
        flag = setting_by_flag("output", 6);
    bool short_name = text[1] != '-' && strcmp(text, "-h") != 0 && text[1] != 'o';
    if (!flag || (short_name && flag->flag[1]))
        return unknown_flag(text, (size_t)(name - text) + length, err);
    if (needs_value(flag) && !value) {
        if (*at + 1 >= argc)
            return error_set(err, "%s: the value is missing", text);
        value = argv[++*at];
    }
    return set_flag(configuration, flag, value, err);
}

/* ---- flags of commands ---- */

/* What a flag that has no field says. */
static const cJSON *flag_value(const struct configuration *configuration, const char *name)
{
    return configuration_of(configuration, setting_by_flag(name, strlen(name)))->json;
}

static bool is_asked_for(const cJSON *value)
{
    return cJSON_IsTrue(value) || cJSON_IsString(value);
}

/* Only one of these is done. */
static int check_commands(const struct configuration *configuration, const char *command,
                          struct error *err)
{
    static const char *const flags[] = {"dump-rules", "cleanup", "cleanup-kube-proxy", "init-only"};
    const char *first = command, *dashes = "";
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (!is_asked_for(flag_value(configuration, flags[i])))
            continue;
        if (first)
            return error_set(err, "%s%s and --%s exclude each other", dashes, first, flags[i]);
        first = flags[i];
        dashes = "--";
    }
    return 0;
}

/* With anything else they would be ignored. */
static int check_companions(const struct configuration *configuration, enum command command,
                            struct error *err)
{
    bool list = command == COMMAND_LIST || command == COMMAND_ENDPOINTS;
    bool prints =
        list || command == COMMAND_STATUS || command == COMMAND_EXPLAIN || command == COMMAND_TOP;
    const cJSON *output = flag_value(configuration, "output");
    if (is_asked_for(flag_value(configuration, "dry-run")) &&
        !is_asked_for(flag_value(configuration, "cleanup-kube-proxy")))
        return error_set(err, "--dry-run works only with --cleanup-kube-proxy");
    if (is_asked_for(flag_value(configuration, "all")) && command != COMMAND_EXPLAIN)
        return error_set(err, "--all works only with explain");
    if (is_asked_for(output) && !prints)
        return error_set(err, "--output works only with list, status, top and explain");
    const char *format = is_asked_for(output) ? output->valuestring : "text";
    if (!list && strcmp(format, "text") != 0 && strcmp(format, "json") != 0)
        return error_set(err, "--output %s works only with list", format);
    if (command == COMMAND_ENDPOINTS && strcmp(format, "name") == 0)
        return error_set(err, "--output name works only with a list of Services");
    if (is_asked_for(flag_value(configuration, "once")) && command != COMMAND_TOP)
        return error_set(err, "--once works only with top");
    if ((command == COMMAND_STATUS || command == COMMAND_TOP) &&
        flag_value(configuration, "manifests")) {
        const char *name = command == COMMAND_TOP ? "top" : "status";
        return error_set(err, "%s and --manifests exclude each other: %s asks a running daemon",
                         name, name);
    }
    return 0;
}

/* A kubeconfig that a file names is for when objects come from an API server. */
static int check_sources(const struct configuration *configuration, struct error *err)
{
    static const char *const others[] = {"kubeconfig", "master"};
    if (flag_value(configuration, "manifests") && flag_value(configuration, "remove-startup-taint"))
        return error_set(err, "--manifests and --remove-startup-taint exclude each other: the Node "
                              "object is on an API server");
    for (size_t i = 0; i < 2 && flag_value(configuration, "manifests"); i++) {
        const struct setting *other = setting_by_flag(others[i], strlen(others[i]));
        const struct configured *value = configuration_of(configuration, other);
        if (value->source == FROM_FLAG && cJSON_IsString(value->json))
            return error_set(
                err, "--manifests and --%s exclude each other: objects have one source", others[i]);
    }
    return 0;
}

/* ---- the file ---- */

static bool gives_way_to_file(const struct setting *setting)
{
    return (setting->field && !(setting->traits & BESIDE_FILE)) ||
           (setting->traits & NOT_BESIDE_FILE);
}

/* Forgets the flags that do not count beside a file (docs/behaviour.md 8.1). */
static void drop_flags(struct configuration *configuration, note_vec *notes)
{
    char *names = NULL;
    for (size_t i = 0; i < settings_count; i++) {
        const struct setting *setting = &settings[i];
        if (configuration_of(configuration, setting)->source != FROM_FLAG ||
            !gives_way_to_file(setting))
            continue;
        configuration_set(configuration, setting, NULL, FROM_NOWHERE);
        if (setting_by_flag(setting->flag, strlen(setting->flag)) != setting)
            continue; /* named already */
        xjoin(&names, "--%s", setting->flag);
    }
    if (!names)
        return;
    char *text = xasprintf("flags ignored because of --config: %s", names);
    vec_push(notes, (struct note){NOTE_WARNING, text});
    free(names);
}

static int read_file(struct configuration *configuration, note_vec *notes, struct error *err)
{
    const cJSON *path = flag_value(configuration, "config");
    if (!path)
        return 0;
    drop_flags(configuration, notes);
    return config_file_read(path->valuestring, configuration, notes, err);
}

/* ---- all of it ---- */

/* @command is its first word, NULL for none. */
static int complete(struct configuration *configuration, const char *command,
                    struct options *options, struct error *err)
{
    if (read_file(configuration, &options->notes, err) || check_sources(configuration, err) ||
        check_commands(configuration, command, err) ||
        check_companions(configuration, options->command, err) ||
        configuration_settle(configuration, &options->notes, err))
        return -1;
    options->configuration = configuration_tree(configuration);
    options->flags = configuration_flags(configuration);
    return 0;
}

static bool wants_information(const struct configuration *configuration)
{
    return is_asked_for(flag_value(configuration, "help")) ||
           is_asked_for(flag_value(configuration, "version"));
}

/* Flags and words in any order. */
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
    if (result == 0 && !wants_information(configuration)) {
        result = command_read(words.v, words.n, &options->command, &options->subject, err);
        if (result == 0)
            result = complete(configuration, words.n ? words.v[0] : NULL, options, err);
    }
    vec_free(&words);
    return result;
}

int options_parse(int argc, char *const *argv, struct options *options, struct error *err)
{
    struct configuration configuration;
    memset(options, 0, sizeof(*options));
    configuration_init(&configuration);
    int result = parse(&configuration, argc, argv, options, err);
    options->argc = argc;
    options->argv = argv;
    if (result == 0)
        configuration_land(&configuration, options);
    else
        options_clear(options);
    options->dump_rules = options->dump_rules || options->command == COMMAND_DUMP;
    options->cleanup = options->cleanup || options->command == COMMAND_CLEANUP;
    configuration_clear(&configuration);
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
