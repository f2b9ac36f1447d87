/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/client.h"

#include "ask.h"
#include "kube-nftd/base.h"
#include "kube-nftd/serve.h"
#include "top.h"
#include "view.h"

#include <string.h>
#include <unistd.h>

/* Prints @answer as is asked for: @wide if there is such a view, or not. */
static int print(const struct options *options, const cJSON *answer, const struct view *views,
                 const struct view *wide, struct error *err)
{
    const struct view_style style = view_style(stdout);
    if (options->output == OUTPUT_JSON)
        view_print_json(answer, stdout);
    else
        view_print(options->output == OUTPUT_NAME   ? view_names
                   : options->output == OUTPUT_WIDE ? wide
                                                    : views,
                   answer, &style, stdout);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    return error_set(err, "cannot write to standard output");
}

/* ---- explain, list endpoints ---- */

static cJSON *compute_explanation(const struct explain_sources *sources, const void *query)
{
    return explain(sources, query);
}

static cJSON *ask_for_explanation(const struct options *options, command_compute_fn compute,
                                  const struct explain_query *query, struct error *err)
{
    bool unreachable;
    if (options->manifests)
        return compute(options, compute_explanation, query, err);
    char *what = url_escape(query->text);
    char *path = xasprintf("/explain?what=%s%s", what, query->all ? "&all=true" : "");
    cJSON *answer =
        ask_daemon(options->metrics_bind_address, path, EXPLAIN_KIND, &unreachable, err);
    free(path);
    free(what);
    return answer;
}

static enum explain_status explain_status_of(const cJSON *answer)
{
    static const char *const known[] = {"service", "noFrontends", "endpoint", "address"};
    const char *found = cJSON_GetStringValue(facts_at(answer, "found"));
    if (cJSON_IsFalse(facts_at(facts_at(answer, "kernel"), "agrees")))
        return EXPLAIN_DIFFERS;
    for (size_t i = 0; found && i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(found, known[i]) == 0)
            return EXPLAIN_AGREES;
    return EXPLAIN_UNKNOWN;
}

static int print_endpoints(const struct options *options, const cJSON *answer, struct error *err)
{
    const cJSON *ports = facts_at(facts_at(answer, "service"), "ports"), *port;
    bool some = ports && ports->child, counted = false;
    cJSON_ArrayForEach (port, ports) {
        const cJSON *items = facts_at(facts_at(port, "endpoints"), "items");
        counted = counted || (items && facts_at(items->child, "connections"));
    }
    if (print(options, answer, some ? view_endpoints : view_summary,
              counted ? view_counted_endpoints
              : some  ? view_wide_endpoints
                      : view_summary,
              err))
        return -1;
    return some ? EXPLAIN_AGREES : EXPLAIN_UNKNOWN;
}

static int run_explain(const struct options *options, command_compute_fn compute, struct error *err)
{
    bool endpoints = options->command == COMMAND_ENDPOINTS;
    struct explain_query query;
    if (explain_query_parse(options->subject, &query, err) == 0 && endpoints && !query.service_id) {
        explain_query_clear(&query);
        error_set(err, "not NAMESPACE/SERVICE");
    }
    if (!query.text) {
        error_prefix(err, "%s %s", endpoints ? "list endpoints" : "explain", options->subject);
        return error_of_configuration(err);
    }
    query.all = endpoints || options->explain_all;
    cJSON *answer = ask_for_explanation(options, compute, &query, err);
    explain_query_clear(&query);
    if (!answer)
        return -1;
    int result = endpoints ? print_endpoints(options, answer, err)
                           : print(options, answer, view_explanation, NULL, err);
    if (result == 0 && !endpoints)
        result = (int)explain_status_of(answer);
    cJSON_Delete(answer);
    return result;
}

/* ---- list ---- */

static cJSON *compute_list(const struct explain_sources *sources, const void *query)
{
    return list_facts(sources, query);
}

static cJSON *ask_for_list(const struct options *options, command_compute_fn compute,
                           const struct list_query *query, struct error *err)
{
    bool unreachable;
    if (options->manifests)
        return compute(options, compute_list, query, err);
    char *namespace = query->namespace ? url_escape(query->namespace) : NULL;
    char *name = query->name ? url_escape(query->name) : NULL;
    char *path = xasprintf("/list%s%s%s%s", namespace ? "?namespace=" : "",
                           namespace ? namespace : "", name ? "&name=" : "", name ? name : "");
    cJSON *answer = ask_daemon(options->metrics_bind_address, path, LIST_KIND, &unreachable, err);
    free(path);
    free(name);
    free(namespace);
    return answer;
}

static int compare_items(const void *a, const void *b)
{
    const cJSON *p = *(cJSON *const *)a, *q = *(cJSON *const *)b;
    int order = strcmp(facts_text_at(p, "namespace"), facts_text_at(q, "namespace"));
    return order ? order : strcmp(facts_text_at(p, "name"), facts_text_at(q, "name"));
}

/* By namespace and name, each once: one that moved in the daemon meanwhile may be there again. */
static void sort_items(cJSON *answer)
{
    VEC(cJSON *) all = {0};
    cJSON *items = cJSON_GetObjectItemCaseSensitive(answer, "items"), *it;
    while (items && (it = items->child))
        vec_push(&all, cJSON_DetachItemViaPointer(items, it));
    if (all.n > 1)
        qsort(all.v, all.n, sizeof(*all.v), compare_items);
    for (size_t i = 0; i < all.n; i++) {
        if (i > 0 && compare_items(&all.v[i - 1], &all.v[i]) == 0)
            cJSON_Delete(all.v[i]);
        else
            cJSON_AddItemToArray(items, all.v[i]);
    }
    vec_free(&all);
}

/* Of "NAMESPACE[/NAME]". */
static int run_list(const struct options *options, command_compute_fn compute, struct error *err)
{
    char *namespace = xstrdup(options->subject);
    char *slash = namespace ? strchr(namespace, '/') : NULL;
    if (slash)
        *slash = '\0';
    const struct list_query query = {namespace, slash ? slash + 1 : NULL};
    cJSON *answer = ask_for_list(options, compute, &query, err);
    free(namespace);
    if (!answer)
        return -1;
    sort_items(answer);
    if (!facts_at(answer, "items")->child && options->output != OUTPUT_JSON)
        fputs("no such Service\n", stderr);
    bool counted = facts_at(facts_at(answer, "items")->child, "connections");
    int result =
        print(options, answer, view_list, counted ? view_counted_list : view_wide_list, err);
    cJSON_Delete(answer);
    return result;
}

/* ---- status ---- */

static int run_status(const struct options *options, command_compute_fn compute, struct error *err)
{
    (void)compute;
    bool unreachable = false;
    cJSON *answer =
        ask_daemon(options->metrics_bind_address, "/status", STATUS_KIND, &unreachable, err);
    if (!answer && !unreachable)
        return -1;
    if (!answer) {
        fprintf(stderr, "kube-nftd: %s\n", err->text);
        return NOT_REACHABLE;
    }
    bool well = cJSON_IsTrue(facts_at(answer, "well"));
    int result = print(options, answer, view_status, NULL, err);
    cJSON_Delete(answer);
    return result ? -1 : well ? WELL : NOT_WELL;
}

/* ---- top ---- */

static int run_top(const struct options *options, command_compute_fn compute, struct error *err)
{
    (void)compute;
    if (!options->once && options->output == OUTPUT_TEXT && isatty(STDIN_FILENO) &&
        isatty(STDOUT_FILENO))
        return top_live(options, err);
    cJSON *facts = top_once(options, err);
    if (!facts)
        return -1;
    int result = print(options, facts, options->subject ? view_top_endpoints : view_top, NULL, err);
    cJSON_Delete(facts);
    return result;
}

/* ---- all of them ---- */

static const struct {
    enum command command;
    int (*run)(const struct options *options, command_compute_fn compute, struct error *err);
} commands[] = {{COMMAND_LIST, run_list},
                {COMMAND_ENDPOINTS, run_explain},
                {COMMAND_EXPLAIN, run_explain},
                {COMMAND_STATUS, run_status},
                {COMMAND_TOP, run_top}};

bool command_asks(enum command command)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (commands[i].command == command)
            return true;
    return false;
}

int command_run(const struct options *options, command_compute_fn compute, struct error *err)
{
    size_t i = 0;
    while (commands[i].command != options->command)
        i++;
    return commands[i].run(options, compute, err);
}
