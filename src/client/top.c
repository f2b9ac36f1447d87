/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "top.h"

#include "ask.h"
#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/text.h"
#include "kube-nftd/serve/connections.h"

#include <math.h>
#include <string.h>

void top_clear(struct top_table *table)
{
    vec_each (&table->rows, row)
        free(row->name);
    vec_free(&table->rows);
    table->at = 0;
}

static const cJSON *at(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static const char *text_at(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(at(object, key));
    return text ? text : "";
}

static double number_at(const cJSON *object, const char *key)
{
    double number = cJSON_GetNumberValue(at(object, key));
    return isnan(number) ? 0 : number;
}

/* Takes @name. */
static void add_row(struct top_table *table, char *name, const cJSON *item)
{
    struct top_row row = {.name = name, .total = (uint64_t)number_at(item, "connections")};
    vec_push(&table->rows, row);
}

/* ---- reading ---- */

static int read_services(const char *bind, struct top_table *table, struct error *err)
{
    bool unreachable;
    const cJSON *item;
    cJSON *answer = ask_daemon(bind, "/connections", CONNECTIONS_KIND, &unreachable, err);
    if (!answer)
        return -1;
    table->at = number_at(answer, "countedAt");
    cJSON_ArrayForEach (item, at(answer, "items"))
        add_row(table, xasprintf("%s/%s", text_at(item, "namespace"), text_at(item, "name")), item);
    cJSON_Delete(answer);
    return table->at > 0
               ? 0
               : error_set(err, "the daemon does not count connections: --count-connections");
}

/* One that several ports have is listed for each of them. */
static bool add_endpoints(const cJSON *port, struct top_table *table)
{
    bool counted = false;
    const cJSON *item;
    cJSON_ArrayForEach (item, at(at(port, "endpoints"), "items")) {
        if (!at(item, "connections"))
            continue;
        add_row(table, xstrdup(text_at(item, "endpoint")), item);
        counted = true;
    }
    return counted;
}

static int read_endpoints(const char *bind, const char *service, struct top_table *table,
                          struct error *err)
{
    bool unreachable, counted = false;
    const cJSON *port;
    char *what = url_escape(service), *path = xasprintf("/explain?what=%s&all=true", what);
    cJSON *answer = ask_daemon(bind, path, EXPLAIN_KIND, &unreachable, err);
    free(path);
    free(what);
    if (!answer)
        return -1;
    table->at = clock_monotonic();
    cJSON_ArrayForEach (port, at(at(answer, "service"), "ports"))
        counted = add_endpoints(port, table) || counted;
    bool found = at(answer, "service") && !cJSON_IsNull(at(answer, "service"));
    cJSON_Delete(answer);
    if (counted)
        return 0;
    return found ? error_set(err,
                             "%s has no endpoints, or the daemon does not count for them: "
                             "--count-connections endpoints",
                             service)
                 : error_set(err, "no such Service: %s", service);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct top_row *)a)->name, ((const struct top_row *)b)->name);
}

int top_read(const char *bind, const char *service, struct top_table *table, struct error *err)
{
    int result =
        service ? read_endpoints(bind, service, table, err) : read_services(bind, table, err);
    if (table->rows.n > 1)
        qsort(table->rows.v, table->rows.n, sizeof(*table->rows.v), compare_names);
    return result;
}

/* ---- rates ---- */

/* Who was not there had none; a total that is less began anew. */
void top_compare(struct top_table *table, const struct top_table *before)
{
    double seconds = table->at - before->at;
    vec_each (&table->rows, row) {
        const struct top_row *was = before->rows.n ? bsearch(row, before->rows.v, before->rows.n,
                                                             sizeof(*row), compare_names)
                                                   : NULL;
        uint64_t total = was && was->total <= row->total ? was->total : 0;
        if (before->at > 0 && seconds > 0)
            row->rate = (double)(row->total - total) / seconds;
        else if (was)
            row->rate = was->rate;
    }
}

/* ---- facts ---- */

static int compare_numbers(double a, double b)
{
    return (a < b) - (a > b);
}

static int compare_totals(const void *a, const void *b)
{
    const struct top_row *p = a, *q = b;
    int order = compare_numbers((double)p->total, (double)q->total);
    return order ? order : compare_names(a, b);
}

static int compare_rates(const void *a, const void *b)
{
    const struct top_row *p = a, *q = b;
    int order = compare_numbers(p->rate, q->rate);
    return order ? order : compare_totals(a, b);
}

cJSON *top_facts(const struct top_table *table, enum top_order order)
{
    static int (*const compare[TOP_ORDERS])(const void *,
                                            const void *) = {[TOP_BY_RATE] = compare_rates,
                                                             [TOP_BY_TOTAL] = compare_totals,
                                                             [TOP_BY_NAME] = compare_names};
    cJSON *facts = cJSON_CreateObject(), *items = cJSON_AddArrayToObject(facts, "items");
    VEC(struct top_row) rows = {0};
    vec_append(&rows, table->rows.v, table->rows.n);
    if (rows.n > 1)
        qsort(rows.v, rows.n, sizeof(*rows.v), compare[order]);
    vec_each (&rows, row) {
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "name", row->name);
        cJSON_AddNumberToObject(item, "connections", (double)row->total);
        cJSON_AddNumberToObject(item, "perSecond", round(row->rate * 10) / 10);
        cJSON_AddItemToArray(items, item);
    }
    vec_free(&rows);
    return facts;
}
