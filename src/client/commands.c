/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "commands.h"

#include "kube-nftd/values.h"

#include <string.h>
#include <unistd.h>

/* Exit statuses, documented in kube-nftd(8). */
enum explain_status {
    EXPLAIN_AGREES = 0,  /* or the kernel was not queried */
    EXPLAIN_UNKNOWN = 2, /* not found */
    EXPLAIN_DIFFERS = 3, /* the kernel differs from the decision */
};
enum well_status { WELL = 0, NOT_WELL = 1, NOT_REACHABLE = 2 };

/* Prints @answer in the requested format and deletes it. Returns @status, or -1 with an error. */
static int print(const struct options *options, cJSON *answer, const struct view *view, int status,
                 struct error *err)
{
    struct view_style style = view_style(stdout);
    style.wide = options->output == OUTPUT_WIDE;
    if (options->output == OUTPUT_YAML && yaml_write(stdout, answer, err))
        status = -1;
    else if (options->output == OUTPUT_JSON)
        view_print_json(answer, stdout);
    else if (options->output != OUTPUT_YAML)
        view_print(options->output == OUTPUT_NAME ? view_names : view, answer, &style, stdout);
    cJSON_Delete(answer);
    if (status < 0)
        return status;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    return error_set(err, "cannot write to standard output");
}

/* ---- explain, list endpoints ---- */

static enum explain_status explain_status_of(const cJSON *answer)
{
    static const char *const known[] = {"service", "noFrontends", "endpoint", "address"};
    if (cJSON_IsFalse(facts_at(facts_at(answer, "kernel"), "agrees")))
        return EXPLAIN_DIFFERS;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(facts_text_at(answer, "found"), known[i]) == 0)
            return EXPLAIN_AGREES;
    return EXPLAIN_UNKNOWN;
}

static int run_explain(const struct options *options, command_compute_fn compute, struct error *err)
{
    bool endpoints = options->command == COMMAND_ENDPOINTS;
    struct explain_query query;
    /* "80/tcp" is a port, unless it can only be a Service. */
    char *subject = endpoints || options->namespace ? service_query(options->subject)
                                                    : xstrdup(options->subject);
    int result = explain_query_parse(subject, &query, err);
    free(subject);
    if (result == 0 && endpoints && !query.service_id) {
        explain_query_clear(&query);
        error_set(err, "not NAMESPACE/SERVICE");
    }
    if (!query.text) {
        error_prefix(err, "%s %s", endpoints ? "list endpoints" : "explain", options->subject);
        return error_of_configuration(err);
    }
    query.all = endpoints || options->explain_all;
    cJSON *answer =
        options->manifests
            ? compute(options, explain, &query, err)
            : ask_daemon(options->metrics_bind_address, EXPLAIN_KIND, "/explain",
                         ASK_QUERY({"what", query.text}, {"all", query.all ? "true" : NULL}), NULL,
                         err);
    explain_query_clear(&query);
    if (!answer)
        return -1;
    if (!endpoints)
        return print(options, answer, view_explanation, (int)explain_status_of(answer), err);
    const cJSON *ports = facts_at(facts_at(answer, "service"), "ports");
    bool some = ports && ports->child;
    return print(options, answer, some ? view_endpoints : view_summary,
                 some ? EXPLAIN_AGREES : EXPLAIN_UNKNOWN, err);
}

/* ---- list ---- */

static int compare_items(const void *a, const void *b)
{
    const cJSON *p = *(cJSON *const *)a, *q = *(cJSON *const *)b;
    int order = strcmp(facts_text_at(p, "namespace"), facts_text_at(q, "namespace"));
    return order ? order : strcmp(facts_text_at(p, "name"), facts_text_at(q, "name"));
}

/* By namespace and name, without duplicates: the daemon may list a moving Service twice. */
static void sort_items(cJSON *items)
{
    VEC(cJSON *) all = {0};
    while (items->child)
        vec_push(&all, cJSON_DetachItemViaPointer(items, items->child));
    vec_sort(&all, compare_items);
    for (size_t i = 0; i < all.n; i++) {
        if (i > 0 && compare_items(&all.v[i - 1], &all.v[i]) == 0)
            cJSON_Delete(all.v[i]);
        else
            cJSON_AddItemToArray(items, all.v[i]);
    }
    vec_free(&all);
}

/* A mistyped "list endpoints" reads as a namespace. */
static void print_no_service(const struct options *options)
{
    const bool has_word =
        options->command == COMMAND_LIST && options->subject && !options->namespace;
    const char *meant = has_word ? command_meant("list", options->subject) : NULL;
    fputs("no such Service (those with the label service.kubernetes.io/service-proxy-name are "
          "another proxy's)\n",
          stderr);
    if (meant)
        fprintf(stderr, "did you mean %s?\n", meant);
}

/* The list at @path, of Services whose names match the subject, "NAMESPACE[/NAME]"; sorted. NULL
 * with an error. */
static cJSON *fetch_list(const struct options *options, const char *kind, const char *path,
                         command_compute_fn compute, answer_fn answer, struct error *err)
{
    char *name = xstrdup(options->subject), *namespace = strsep(&name, "/");
    char *pattern = xasprintf("%s/%s", namespace ? namespace : "*", name ? name : "*");
    cJSON *facts = options->manifests
                       ? compute(options, answer, pattern, err)
                       : ask_daemon(options->metrics_bind_address, kind, path,
                                    ASK_QUERY({"namespace", namespace}, {"name", name}), NULL, err);
    free(pattern);
    free(namespace);
    cJSON *items = cJSON_GetObjectItemCaseSensitive(facts, "items");
    if (items)
        sort_items(items);
    bool people = options->output != OUTPUT_JSON && options->output != OUTPUT_YAML;
    if (facts && (!items || !items->child) && people)
        print_no_service(options);
    return facts;
}

static int run_list(const struct options *options, command_compute_fn compute, struct error *err)
{
    cJSON *answer = fetch_list(options, LIST_KIND, "/list", compute, list_services, err);
    return answer ? print(options, answer, view_list, 0, err) : -1;
}

/* ---- list endpoints, of all Services ---- */

/* How many endpoints of a frontend a line has. */
#define BACKENDS_SHOWN 3

/* "10.244.0.1:80, 10.244.0.2:80 and 7 more" */
static void add_backends(cJSON *row, const cJSON *frontend, size_t most)
{
    size_t left = (size_t)cJSON_GetNumberValue(facts_at(frontend, "endpoints"));
    char *text = NULL;
    const cJSON *it;
    cJSON_ArrayForEach (it, facts_at(frontend, "backends")) {
        if (most-- == 0)
            break;
        xjoin(&text, "%s", it->valuestring ? it->valuestring : "");
        left--;
    }
    facts_format(row, "text", left ? "%s and %zu more" : "%s", text ? text : "", left);
    free(text);
}

/* Adds a row for each frontend, and a text for each Service that has too many. */
static void add_rows(cJSON *answer, bool wide)
{
    cJSON *rows = cJSON_AddArrayToObject(answer, "rows"),
          *left_out = cJSON_AddArrayToObject(answer, "leftOut");
    const cJSON *item, *frontend;
    cJSON_ArrayForEach (item, facts_at(answer, "items")) {
        char *service =
            xasprintf("%s/%s", facts_text_at(item, "namespace"), facts_text_at(item, "name"));
        cJSON_ArrayForEach (frontend, facts_at(item, "frontends")) {
            cJSON *row = facts_append(rows);
            facts_add(row, fact_text("frontend", facts_text_at(frontend, "frontend")),
                      fact_text("service", service),
                      fact_text("kind", facts_text_at(frontend, "kind")),
                      fact_text("policy", facts_text_at(frontend, "policy")),
                      fact_text("action", facts_text_at(frontend, "action")));
            add_backends(row, frontend, wide ? SIZE_MAX : BACKENDS_SHOWN);
        }
        double n = cJSON_GetNumberValue(facts_at(item, "leftOut"));
        if (n > 0)
            facts_append_text(left_out, "(and %.0f more of %s: ask for one with explain)", n,
                              service);
        free(service);
    }
}

static int run_frontends(const struct options *options, command_compute_fn compute,
                         struct error *err)
{
    cJSON *answer = fetch_list(options, FRONTENDS_KIND, "/frontends", compute, list_frontends, err);
    if (answer && options->output != OUTPUT_JSON && options->output != OUTPUT_YAML)
        add_rows(answer, options->output == OUTPUT_WIDE);
    return answer ? print(options, answer, view_frontends, 0, err) : -1;
}

/* Whether "list endpoints" is not about a single Service. */
static bool is_of_many(const struct options *options)
{
    const char *subject = options->subject;
    return !subject || strpbrk(subject, "*?") || (options->namespace && !strchr(subject, '/'));
}

/* ---- all of them ---- */

static int run_status(const struct options *options, struct error *err)
{
    bool unreachable = false;
    cJSON *answer = ask_daemon(options->metrics_bind_address, STATUS_KIND, "/status",
                               ASK_QUERY({NULL}), &unreachable, err);
    if (answer)
        return print(options, answer, view_status,
                     cJSON_IsTrue(facts_at(answer, "well")) ? WELL : NOT_WELL, err);
    if (!unreachable)
        return -1;
    fprintf(stderr, "kube-nftd: %s\n", err->text);
    return NOT_REACHABLE;
}

static int run_top(const struct options *options, struct error *err)
{
    if (!options->once && options->output == OUTPUT_TEXT && isatty(STDIN_FILENO) &&
        isatty(STDOUT_FILENO))
        return top_live(options, err);
    cJSON *facts = top_once(options, err);
    return facts ? print(options, facts, options->subject ? view_top_endpoints : view_top, 0, err)
                 : -1;
}

bool command_asks(enum command command)
{
    return command == COMMAND_LIST || command == COMMAND_ENDPOINTS || command == COMMAND_EXPLAIN ||
           command == COMMAND_STATUS || command == COMMAND_TOP;
}

int command_run(const struct options *options, command_compute_fn compute, struct error *err)
{
    switch (options->command) {
    case COMMAND_LIST:
        return run_list(options, compute, err);
    case COMMAND_ENDPOINTS:
        return is_of_many(options) ? run_frontends(options, compute, err)
                                   : run_explain(options, compute, err);
    case COMMAND_STATUS:
        return run_status(options, err);
    case COMMAND_TOP:
        return run_top(options, err);
    default:
        return run_explain(options, compute, err);
    }
}
