/* SPDX-License-Identifier: GPL-2.0-or-later */
/* YAML: the values that are given out of texts, what is refused, and trees as YAML. Cases are in
 * cases/yaml. */
#include "value_text.h"

struct input {
    const char *at;
    size_t piece; /* bytes at once */
    int pieces;   /* that can be read; -1: all */
};

static int give_yaml(void *ctx, char *buffer, size_t size, size_t *n)
{
    struct input *input = ctx;
    if (input->pieces == 0)
        return -1;
    input->pieces -= input->pieces > 0;
    *n = strnlen(input->at, input->piece < size ? input->piece : size);
    memcpy(buffer, input->at, *n);
    input->at += *n;
    return 0;
}

/* What comes of it in pieces of @piece bytes, of which so many can be read. */
static char *read_yaml(const char *text, size_t piece, int pieces)
{
    struct error err = {0};
    struct input input = {text, piece, pieces};
    struct seen seen;
    begin_reading(&seen);
    int result = yaml_read(seen.reader, give_yaml, &input, &err);
    ck_assert_int_eq(result, err.text ? -1 : 0);
    if (result < 0)
        fprintf(seen.out, "%s\n", err.text);
    error_clear(&err);
    return end_reading(&seen, &err);
}

COMMAND(yaml)
{
    struct text text = given_text(words);
    char *seen = read_yaml(text.v, SIZE_MAX, -1);
    for (size_t piece = 1; piece < 40; piece++) {
        char *again = read_yaml(text.v, piece, -1);
        ck_assert_str_eq(again, seen);
        free(again);
    }
    fputs(seen, out);
    free(seen);
    free(text.v);
}

TEST(yaml_that_cannot_be_read)
{
    char *seen = read_yaml("a: 1\n", 3, 1);
    ck_assert_str_eq(seen, "the text could not be read\n");
    free(seen);
}

TEST(yaml_that_is_not_wanted)
{
    stop_after = 2;
    char *seen = read_yaml("items: [1, 2, 3, 4]\n", SIZE_MAX, -1);
    ck_assert_str_eq(seen, "item 1 1\nitem 1 2\nitem 1 3\nstopped by the reader of the values\n");
    free(seen);
    stop_after = -1;
}

static void parse_yaml(char *words, FILE *out, bool lenient)
{
    struct error err = {0};
    struct text text = given_text(words);
    cJSON *json = yaml_parse(text.v, text.n, lenient, &err);
    ck_assert_int_eq(json == NULL, err.text != NULL);
    char *printed = json ? cJSON_PrintUnformatted(json) : xstrdup(err.text);
    write_short(out, printed, strlen(printed));
    fputs("\n", out);
    free(printed);
    error_clear(&err);
    cJSON_Delete(json);
    free(text.v);
}

/* A document as a whole. */
COMMAND(parse)
{
    parse_yaml(words, out, false);
}

COMMAND(lenient)
{
    parse_yaml(words, out, true);
}

/* ---- trees as YAML ---- */

/* And reads it back. */
static char *written(const cJSON *tree, struct error *err)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    int result = yaml_write(out, tree, err);
    fclose(out);
    ck_assert_int_eq(result, err->text ? -1 : 0);
    cJSON *again = result ? NULL : yaml_parse(text, length, false, err);
    ck_assert_msg(result || (again && cJSON_Compare(tree, again, true)), "%s: %s", text, err->text);
    cJSON_Delete(again);
    return text;
}

COMMAND(write)
{
    struct error err = {0};
    script_bytes(words);
    cJSON *tree = cJSON_Parse(words);
    char *text = written(tree, &err);
    if (err.text)
        write_bytes(out, err.text, strlen(err.text));
    fprintf(out, "%s", err.text ? "\n" : text);
    error_clear(&err);
    free(text);
    cJSON_Delete(tree);
}

/* As a value, and as a key. */
COMMAND(text)
{
    struct error err = {0};
    cJSON *tree = cJSON_CreateObject();
    script_bytes(words);
    cJSON_AddStringToObject(tree, "key", words);
    cJSON_AddNullToObject(tree, words);
    char *text = written(tree, &err);
    fputs(strncmp(text, "key: \"", 6) == 0 ? "quoted\n" : "plain\n", out);
    free(text);
    cJSON_Delete(tree);
}

TEST(what_cannot_be_written)
{
    struct error err = {0};
    FILE *out = fopen("/dev/full", "we");
    cJSON *json = cJSON_Parse("{\"key\":1}");
    setvbuf(out, NULL, _IONBF, 0);
    ck_assert_int_eq(yaml_write(out, json, &err), -1);
    ck_assert_str_eq(err.text, "write error");
    fclose(out);
    error_clear(&err);
    cJSON_Delete(json);
}

CASES("yaml")
