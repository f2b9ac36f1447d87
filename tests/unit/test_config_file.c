/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * KubeProxyConfiguration files: every field, what is rejected, which flags count beside one, and
 * that a configuration that is written down reads back as the same. Cases are in cases/config_file.
 */
#include "config/setting.h"
#include "kube-nftd/values.h"
#include "options_text.h"

#include <unistd.h>

#define HEAD "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"

/* The fields of the present case, and the values that they took: "field: value". */
static VEC(char *) defaults, taken;
static cJSON *last; /* the configuration of the last file */

static void set_up(void)
{
    ck_assert_int_eq(chdir(test_folder()), 0);
}

static void tear_down(void)
{
    ck_assert_int_eq(chdir("/"), 0);
    vec_each (&defaults, it)
        free(*it);
    vec_each (&taken, it)
        free(*it);
    vec_free(&defaults);
    vec_free(&taken);
    cJSON_Delete(last);
    last = NULL;
}

/* What main() does with "--config config" and @flags. */
static int parse_file(const char *flags, struct options *options, struct error *err)
{
    char *line = xasprintf("--config config %s", flags);
    int result = parse(line, options, err);
    free(line);
    return result;
}

static void write_error(FILE *out, struct error *err)
{
    static const char file[] = "--config config: ";
    ck_assert_msg(strncmp(err->text, file, strlen(file)) == 0, "%s", err->text);
    fprintf(out, "error: %s\n", err->text + strlen(file));
    error_clear(err);
}

/* Why the file with @flags is rejected, or the notes, each with its level, and the options. */
static void parse_text(const char *text_of_file, const char *flags, FILE *out)
{
    struct options options;
    struct error err = {0};
    put_file("config", text_of_file);
    if (parse_file(flags, &options, &err)) {
        write_error(out, &err);
        return;
    }
    vec_each (&options.notes, note)
        fprintf(out, "%d %s\n", note->level - LOG_LEVEL_WARN, note->text);
    char *text = options_text(&options);
    fprintf(out, "%s\n", text);
    free(text);
    cJSON_Delete(last);
    last = cJSON_Duplicate(options.configuration, true);
    options_clear(&options);
}

/* Flags, with the file that is below. */
COMMAND(whole_file)
{
    parse_text(script_text(), words, out);
}

/* The same behind the lines that each file must have. */
COMMAND(file)
{
    char *text = xasprintf("%s%s", HEAD, script_text());
    parse_text(text, words, out);
    free(text);
}

/* ---- fields ---- */

/* A file with @value, YAML in one line, at @field and @more behind it. */
static void put_field(const char *field, const char *value, const char *more)
{
    char *text, *copy = xstrdup(field), *rest = copy, *name;
    size_t length;
    int closing = 0;
    FILE *out = open_memstream(&text, &length);
    fputs(HEAD, out);
    for (; (name = strsep(&rest, ".")); closing += rest != NULL)
        fprintf(out, "%s%s: ", closing ? "{" : "", name);
    fprintf(out, "%s%.*s\n%s\n", value, closing, "}}}}", more);
    fclose(out);
    put_file("config", text);
    free(text);
    free(copy);
}

/* The value at @field of the configuration in effect, or why there is none. */
static char *in_effect(const char *field)
{
    struct options options;
    struct error err = {0};
    char *text, *copy = xstrdup(field), *rest = copy, *name;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (parse_file("", &options, &err)) {
        write_error(out, &err);
    } else {
        const cJSON *at = options.configuration;
        while ((name = strsep(&rest, ".")))
            at = cJSON_GetObjectItemCaseSensitive(at, name);
        char *json = at ? cJSON_PrintUnformatted(at) : xstrdup("absent");
        fprintf(out, "%s\n", json);
        free(json);
        options_clear(&options);
    }
    fclose(out);
    free(copy);
    return text;
}

/* null is as good as nothing. */
COMMAND(default)
{
    put_file("config", HEAD);
    char *standard = in_effect(words);
    put_field(words, "null", "");
    char *text = in_effect(words);
    ck_assert_str_eq(text, standard);
    fputs(text, out);
    free(text);
    free(standard);
    vec_push(&defaults, xstrdup(words));
}

/* "FIELD VALUE; MORE", where the latter is another field that it needs. */
COMMAND(set)
{
    const char *field = script_word(&words);
    char *more = strstr(words, "; ");
    if (more)
        *more = '\0';
    put_field(field, words, more ? more + 2 : "");
    char *text = in_effect(field);
    fputs(text, out);
    if (strncmp(text, "error: ", 7) == 0)
        ck_assert_ptr_nonnull(strstr(text, field));
    else
        vec_push(&taken, xasprintf("%s %s", field, words));
    free(text);
}

/* Those fields that have a default above are all there are. */
COMMAND(all_fields)
{
    settings_each (s) {
        const char *field = s->field;
        bool seen = !field || strcmp(field, "kind") == 0 || strcmp(field, "apiVersion") == 0;
        vec_each (&defaults, it)
            seen = seen || strcmp(*it, field) == 0;
        if (!seen)
            fprintf(out, "missing: %s\n", field);
    }
}

COMMAND(beside_file)
{
    settings_each (s)
        if (s->traits & BESIDE_FILE)
            fprintf(out, "--%s\n", s->flag);
}

/* Whether the configuration of the file below is the one of the file before. */
COMMAND(same)
{
    cJSON *before = cJSON_Duplicate(last, true);
    FILE *nowhere = fopen("/dev/null", "we");
    run_whole_file(words, nowhere);
    fclose(nowhere);
    fputs(cJSON_Compare(before, last, true) ? "yes\n" : "no\n", out);
    cJSON_Delete(before);
}

/* ---- written and read again ---- */

/* Puts @value, which is taken, at @field in place of what is there. */
static void put_at(cJSON *tree, const char *field, cJSON *value)
{
    char *copy = xstrdup(field), *rest = copy, *name;
    while ((name = strsep(&rest, ".")) && rest) {
        cJSON *section = cJSON_GetObjectItemCaseSensitive(tree, name);
        tree = section ? section : cJSON_AddObjectToObject(tree, name);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(tree, name);
    cJSON_AddItemToObject(tree, name, value);
    free(copy);
}

/* Settings at random: each that was taken above, or its default. */
static cJSON *random_tree(unsigned *seed)
{
    static const char *const modes[] = {"iptables", "ipvs", "nftables", ""};
    struct error err = {0};
    cJSON *tree = yaml_parse(HEAD, strlen(HEAD), false, &err);
    vec_each (&taken, it) {
        char *field = xstrdup(*it), *value = field;
        script_word(&value);
        if (rand_r(seed) % 2)
            put_at(tree, field, yaml_parse(value, strlen(value), false, &err));
        free(field);
    }
    put_at(tree, "mode", cJSON_CreateString(modes[(unsigned)rand_r(seed) % COUNT(modes)]));
    return tree;
}

static void expect_the_same(const struct options *first, const struct options *second)
{
    char *once = cJSON_Print(first->configuration), *again = cJSON_Print(second->configuration);
    ck_assert_msg(strcmp(once, again) == 0, "%s\n%s", once, again);
    free(once);
    free(again);
    /* What was written is what the daemon does: nothing is left to say of the mode. */
    vec_each (&second->notes, note)
        ck_assert_int_ne(note->level, LOG_LEVEL_INFO);
    ck_assert_int_eq(first->masquerade_bit, second->masquerade_bit);
    ck_assert_double_eq(first->sync_period, second->sync_period);
    ck_assert(first->masquerade_all == second->masquerade_all);
    ck_assert(first->conntrack.max_given == second->conntrack.max_given);
}

COMMAND(round_trip)
{
    unsigned seed = 5;
    static char path[] = "config";
    ck_assert_uint_gt(taken.n, settings_count / 2);
    for (int i = 0; i < unit_steps(300); i++) {
        struct options first, second;
        struct error err = {0};
        cJSON *tree = random_tree(&seed);
        struct options written = {
            .write_config_to = path, .configuration = tree, .conntrack.max_given = true};
        ck_assert_msg(options_write(&written, &err) == 0, "%s", err.text);
        ck_assert_msg(parse_file("", &first, &err) == 0, "%s", err.text);
        first.write_config_to = path;
        ck_assert_msg(options_write(&first, &err) == 0, "%s", err.text);
        first.write_config_to = NULL;
        ck_assert_msg(parse_file("", &second, &err) == 0, "%s", err.text);
        expect_the_same(&first, &second);
        cJSON_Delete(tree);
        options_clear(&first);
        options_clear(&second);
    }
}

COMMAND(write)
{
    struct error err = {0};
    struct options options = {.write_config_to = words,
                              .configuration = cJSON_CreateObject(),
                              .conntrack.max_given = true};
    ck_assert_int_eq(options_write(&options, &err), -1);
    fprintf(out, "%s\n", err.text);
    error_clear(&err);
    cJSON_Delete(options.configuration);
}

CASES("config_file")

/* Each default is of its own form and in its own range, each place one for values. */
TEST(table)
{
    settings_each (s) {
        struct error err = {0};
        ck_assert(s->flag || s->field);
        ck_assert_msg(s->group == GROUP_IGNORED || s->help, "%s", s->flag);
        if (!s->standard)
            continue;
        char *value = setting_read_flag(s, s->standard, NULL, &err);
        ck_assert_msg(value != NULL, "%s: %s", s->field, err.text);
        ck_assert_str_eq(value, s->standard);
        ck_assert_msg(setting_check(s, value, &err) == 0, "%s: %s", s->field, err.text);
        free(value);
    }
}

UNIT_FIXTURE(set_up, tear_down)
