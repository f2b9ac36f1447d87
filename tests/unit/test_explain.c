/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What may be asked of explanations, and how facts are printed: cases/explain. */
#include "kube-nftd/serve.h"
#include "script.h"

static void write_query(FILE *out, const struct explain_query *query)
{
    char address[ADDRESS_TEXT_SIZE];
    if (query->service_id)
        fprintf(out, "service=%s", query->service_id);
    if (query->port_name)
        fprintf(out, " port-name=%s", query->port_name);
    if (query->has_address)
        fputs(address_format(query->family, &query->address, address), out);
    if (query->port)
        fprintf(out, " port=%u", query->port);
    if (query->protocol)
        fprintf(out, " %s", protocol_name(query->protocol));
    fputc('\n', out);
}

COMMAND(query)
{
    struct explain_query query;
    struct error err = {0};
    script_bytes(words);
    if (explain_query_parse(words, &query, &err) == 0) {
        ck_assert_str_eq(query.text, words);
        ck_assert(!query.all);
        write_query(out, &query);
        explain_query_clear(&query);
        return;
    }
    ck_assert_ptr_null(query.text);
    ck_assert_ptr_null(query.service_id);
    bool is_none = strncmp(err.text, "not one of ", 11) == 0;
    fprintf(out, "%s\n", is_none ? "not one of them" : err.text);
    error_clear(&err);
}

COMMAND(long_query)
{
    char text[2000];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    text[1] = '/';
    run_query(text, out);
}

/* Writes the text below, which is JSON, with @views. */
static void write_view(FILE *out, const struct view *views, const struct view_style *style)
{
    char *text;
    size_t length;
    FILE *printed = open_memstream(&text, &length);
    cJSON *facts = cJSON_Parse(script_text());
    ck_assert_ptr_nonnull(facts);
    view_print(views, facts, style, printed);
    cJSON_Delete(facts);
    fclose(printed);
    for (const char *at = text; *at; at++)
        fprintf(out, *at == '\033' ? "<1b>" : "%c", *at);
    free(text);
}

COMMAND(line)
{
    const struct view views[] = {{.line = words}, {0}};
    write_view(out, views, &(struct view_style){0});
}

/* "WIDTH LINE": on a terminal; a "|" in the line is a tab. */
COMMAND(line_of)
{
    struct view_style style = {(size_t)strtol(words, &words, 10), false, false};
    const struct view views[] = {{.line = words + 1}, {0}};
    for (char *bar; (bar = strchr(words, '|'));)
        *bar = '\t';
    write_view(out, views, &style);
}

/* "WIDTH [colours] [wide]": a table of items, and one without any. */
COMMAND(table)
{
    static const struct view notes[] = {{"notes", .line = "      note: {}"}, {0}};
    static const struct column columns[] = {{"NAME", "{name}", ALWAYS, 6, 0},
                                            {"KIND", "{kind}", WIDE, 0, 2},
                                            {"STATE", VIEW_BAD "{state}" VIEW_PLAIN, ALWAYS, 0, 0},
                                            {"LIST", "{2:list}", WIDE, 5, 1},
                                            {"CONNECTIONS", "{connections}", COUNTED, 0, 0},
                                            {"WHY", "{why}", ALWAYS, 8, 0},
                                            {0}};
    static const struct view table[] = {
        {"items", .columns = columns, .inner = notes}, {"none", "NEVER", .line = "{}"}, {0}};
    struct view_style style = {atoi(words), strstr(words, "colours"), strstr(words, "wide")};
    write_view(out, table, &style);
}

CASES("explain")
