/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "client/view.h"

#include "unit.h"

#include <stdlib.h>
#include <string.h>

static char *print(const struct view *views, const char *json, struct view_style style)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    cJSON *facts = cJSON_Parse(json);
    ck_assert_ptr_nonnull(facts);
    view_print(views, facts, &style, out);
    cJSON_Delete(facts);
    fclose(out);
    return text;
}

static const struct {
    const char *line, *json, *text;
} lines[] = {
    {"{name} is {kind}.", "{\"name\":\"web\",\"kind\":\"x\"}", "web is x.\n"},
    {"{a.b.c}", "{\"a\":{\"b\":{\"c\":7}}}", "7\n"},
    {"{n} {big} {half}", "{\"n\":0,\"big\":4294967296,\"half\":0.5}", "0 4294967296 0.5\n"},
    {"{list}", "{\"list\":[\"a\",\"b\",3]}", "a, b, 3\n"},
    {"{name|none}, {zero|none}, {no|none}", "{\"name\":\"\",\"zero\":0,\"no\":null}",
     "none, none, none\n"},
    {"x[, {name}][, {port}]", "{\"port\":80}", "x, 80\n"},
    {"x[used? yes {port}][!used? no]", "{\"used\":true,\"port\":0}", "x yes 0\n"},
    {"x[used? yes][!used? no]", "{}", "x no\n"},
    {"x[kind=a?1][kind=ab?2][!kind=ab?3]", "{\"kind\":\"ab\"}", "x2\n"},
    {"x[a? a[b? b[c? c]]]", "{\"a\":true,\"b\":true}", "x a b\n"},
    {"[a?text]", "{}", ""},
    {"[{a} and {b}]", "{\"a\":1}", ""},
    {"{broken", "{}", "{broken\n"},
    {"[broken", "{}", "broken\n"},
    {"{evil}", "{\"evil\":\"a\\u001b[31m\\u009b\\u202eb\\u0001\"}", "a?[31m??b?\n"},
};

TEST_ROWS(a_line, lines)
{
    const struct view views[] = {{NULL, NULL, row->line, NULL}, {0}};
    char *text = print(views, row->json, (struct view_style){0, false});
    ck_assert_str_eq(text, row->text);
    free(text);
}

static const struct view notes[] = {{"notes", NULL, "      note: {}", NULL}, {0}};
static const struct view table[] = {{"items", VIEW_BOLD "NAME\tSTATE\tWHY" VIEW_PLAIN,
                                     "{name}\t" VIEW_BAD "{state}" VIEW_PLAIN "\t{why}", notes},
                                    {"none", "NEVER", "{}", NULL},
                                    {0}};
static const char items[] = "{\"items\":[{\"name\":\"a\",\"state\":\"applied\"},"
                            "{\"name\":\"\\u00fc\\u00fc\\u00fc\\u00fc\\u00fc\",\"state\":\"lost\","
                            "\"why\":\"because\",\"notes\":[\"one\"]}],\"none\":[]}";

static const struct {
    struct view_style style;
    const char *text;
} tables[] = {
    {{0, false},
     "NAME   STATE    WHY\na      applied  \nüüüüü  lost     because\n      note: one\n"},
    {{12, false}, "NAME   STATE\na      appli\nüüüüü  lost \n      note: one\n"},
    {{3, false}, "NAM\na  \nüüü\n      note: one\n"},
    {{12, true},
     "\033[1mNAME   STATE\033[0m\na      \033[31mappli\033[0m\nüüüüü  \033[31mlost\033[0m \n"
     "      note: one\n"},
};

TEST_ROWS(a_table, tables)
{
    char *text = print(table, items, row->style);
    ck_assert_str_eq(text, row->text);
    free(text);
}
