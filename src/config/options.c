/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/config.h"

#include "commands.h"
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

static bool is_on(const struct configuration *configuration, const char *flag)
{
    return strcmp(configuration_value(configuration, flag), "true") == 0;
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
    const char *command = command_named(name, (size_t)(text + length - name));
    if (command && !setting_by_flag(command, strlen(command)))
        return error_set(err, "unknown flag: %.*s (it is a command: kube-nftd %s; see --help)",
                         (int)length, text, command);
    const struct setting *near = setting_near_flag(text, length);
    if (!near)
        return error_set(err, "unknown flag: %.*s (see --help)", (int)length, text);
    char *meant = setting_flag_name(near);
    error_set(err, "unknown flag: %.*s (did you mean %s? see --help)", (int)length, text, meant);
    free(meant);
    return -1;
}

/* The flag that a letter stands for. */
static const struct setting *short_flag(char letter, const struct setting *otherwise)
{
    static const char *const names[] = {
        ['h'] = "help", ['o'] = "output", ['n'] = "namespace", ['A'] = "all-namespaces"};
    size_t i = (unsigned char)letter;
    const char *name = i < sizeof(names) / sizeof(names[0]) ? names[i] : NULL;
    return name ? setting_by_flag(name, strlen(name)) : otherwise;
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
    if (one_dash && length == 1)
        flag = short_flag(*name, flag);
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
        {"namespace", NULL, ONLY(LIST) | ONLY(ENDPOINTS) | ONLY(TOP) | ONLY(EXPLAIN),
         "list, top and explain"},
        {"all-namespaces", NULL, ONLY(LIST) | ONLY(ENDPOINTS) | ONLY(TOP), "list and top"},
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
    bool help = is_on(configuration, "help");
    bool informs = help || (*version && strcmp(version, "false") != 0);
    if (result == 0 && (!informs || help))
        result = help ? command_read_help(words.v, words.n, options, err)
                      : command_read(words.v, words.n, options, err);
    informs = informs || options->help || options->version;
    if (result == 0 && !informs) {
        const char *command = words.n ? words.v[0] : NULL;
        result = configuration_read_file(configuration, err) ||
                         check_sources(configuration, options->command, err) ||
                         command_read_flags(configuration, command, options, err) ||
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
    if (result == 0) {
        configuration_store(&configuration, options);
        result = command_add_namespace(options, err);
    }
    if (result)
        options_clear(options);
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
    char *name = xstrdup(override ? override : host);
    text_trim(name);
    if (!*name) {
        error_set(err, override ? "--hostname-override: the name is empty"
                                : "the host has no name: give --hostname-override");
        free(name);
        return NULL;
    }
    for (char *s = name; *s; s++)
        *s = (char)tolower((unsigned char)*s);
    return name;
}
