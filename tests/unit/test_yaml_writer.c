/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Trees as YAML: how it looks, and that it reads back as the same. */
#include "kube-nftd/base/yaml_writer.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/yaml.h"
#include "unit.h"

#include <string.h>

/* @tree as YAML; the caller frees it. Reads it back, too. */
static char *written(const cJSON *tree)
{
    char *text;
    size_t length;
    struct error err = {0};
    FILE *out = open_memstream(&text, &length);
    ck_assert_int_eq(yaml_write(out, tree, &err), 0);
    fclose(out);
    cJSON *again = yaml_parse(text, length, &err);
    ck_assert_msg(again != NULL, "%s: %s", text, err.text);
    ck_assert_msg(cJSON_Compare(tree, again, true), "%s", text);
    cJSON_Delete(again);
    return text;
}

static const struct {
    const char *json, *yaml;
} trees[] = {
    {"{}", "{}\n"},
    {"{\"a\":1}", "a: 1\n"},
    {"{\"a\":{\"b\":{\"c\":true}},\"d\":null}", "a:\n  b:\n    c: true\nd: null\n"},
    {"{\"a\":[],\"b\":{}}", "a: []\nb: {}\n"},
    {"{\"a\":[1,\"x\",[2,3],{}]}", "a:\n- 1\n- x\n- - 2\n  - 3\n- {}\n"},
    {"{\"a\":[{\"b\":1,\"c\":{\"d\":2}},{\"e\":[3]}]}",
     "a:\n- b: 1\n  c:\n    d: 2\n- e:\n  - 3\n"},
    {"{\"a\":-2.5,\"b c\":1e300}", "a: -2.5\n\"b c\": 1e+300\n"},
};

TEST_ROWS(tree, trees)
{
    cJSON *json = cJSON_Parse(row->json);
    char *text = written(json);
    ck_assert_str_eq(text, row->yaml);
    free(text);
    cJSON_Delete(json);
}

/* Those that may stand as they are. */
static const char *const plain[] = {"a", "30s", "1h30m0s", "0.0.0.0", "/var/lib/x.conf", "a-b_c"};

/* Those that somebody would take for something else. */
static const char *const quoted[] = {
    "",     "5",    "1.5", "0x10", "010", "1e3",  "true",  "True", "null",        "~",
    "Null", "yes",  "No",  "ON",   "off", "y",    "N",     "-",    "-a",          "---",
    "a b",  " a",   "a ",  "a: b", "a:",  "#a",   "a #b",  "*a",   "&a",          "!a",
    "[a]",  "{a}",  "a,b", "\"",   "\\",  "'a'",  "a\nb",  "\t",   "\x01\x7f",    "%a",
    "@a",   "`",    "|",   ">",    "? a", "1:30", "::1",   "a\r",  "\xc3\xa4",    "<<",
    ".inf", ".nan", "+1",  "=",    "...", "-1",   "1_000", "\x1b", "\xe2\x80\xa8"};

static void expect_text(const char *value, bool with_quotes)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "key", value);
    cJSON_AddNullToObject(json, value);
    char *text = written(json);
    ck_assert_msg((strncmp(text, "key: \"", 6) == 0) == with_quotes, "%s", text);
    free(text);
    cJSON_Delete(json);
}

TEST(texts)
{
    for (size_t i = 0; i < COUNT(plain); i++)
        expect_text(plain[i], false);
    for (size_t i = 0; i < COUNT(quoted); i++)
        expect_text(quoted[i], true);
}

TEST(what_is_no_text)
{
    char *text;
    size_t length;
    struct error err = {0};
    FILE *out = open_memstream(&text, &length);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "key", "a\xff");
    ck_assert_int_eq(yaml_write(out, json, &err), -1);
    ck_assert_str_eq(err.text, "\"a\xff\" is not UTF-8");
    fclose(out);
    free(text);
    error_clear(&err);
    cJSON_Delete(json);
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
