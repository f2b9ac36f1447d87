/* SPDX-License-Identifier: GPL-2.0-or-later */
/* GET /explain. */
#include "facts.h"
#include "kube-nftd/base/clock.h"
#include "kube-nftd/serve/explain.h"

#include <string.h>

/* An answer that took more is followed by a pause of so many times as long: so questions take a
 * quarter of the loop's time at most. */
#define CHEAP_SECONDS 0.002
#define PAUSE 3
/* While so many bytes of answers wait for somebody to read them, there are no new ones. */
#define UNREAD_MAX ((size_t)8 << 20)

bool explain_gate_is_open(const struct explain_gate *gate)
{
    return clock_monotonic() >= gate->closed_until && gate->unread <= UNREAD_MAX;
}

static void on_released(void *ctx, size_t length)
{
    ((struct explain_gate *)ctx)->unread -= length;
}

static void answer_with(const struct explain_sources *sources, const struct explain_query *query,
                        struct explain_gate *gate, struct http_answer *answer)
{
    double before = clock_cpu();
    cJSON *facts = explain(sources, query);
    char *text = facts_print(facts);
    cJSON_Delete(facts);
    http_answer_json(answer, 200, text);
    answer->released = on_released;
    answer->released_ctx = gate;
    gate->unread += strlen(text);
    double cost = clock_cpu() - before;
    if (cost > CHEAP_SECONDS)
        gate->closed_until = clock_monotonic() + PAUSE * cost;
}

/* "true" and what others write for it. False if it is none of the forms. */
static bool read_all(const struct http_request *request, bool *all)
{
    const char *text = http_request_argument(request, "all");
    *all = text && (!*text || strcmp(text, "true") == 0 || strcmp(text, "1") == 0);
    return *all || !text || strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
}

static void answer_query(const struct explain_sources *sources, const struct explain_query *query,
                         struct explain_gate *gate, struct http_answer *answer)
{
    if (!sources->complete) {
        http_answer_text(answer, 503,
                         "not all Services and EndpointSlices are known yet: nothing is decided, "
                         "and the previous rules stay active\n");
    } else if (!explain_gate_is_open(gate)) {
        http_answer_busy(answer);
    } else {
        answer_with(sources, query, gate, answer);
    }
}

void explain_answer(const struct explain_sources *sources, struct explain_gate *gate,
                    const struct http_request *request, struct http_answer *answer)
{
    const char *what = http_request_argument(request, "what");
    struct explain_query query;
    struct error err = {0};
    bool all;
    if (!http_answer_reads(request, answer))
        return;
    if (!what) {
        http_answer_text(answer, 400,
                         "?what= is missing: ADDRESS:PORT[/PROTOCOL] or "
                         "NAMESPACE/SERVICE[:PORT]\n");
    } else if (!read_all(request, &all)) {
        http_answer_text(answer, 400, "all: neither true nor false\n");
    } else if (http_request_argument_is_cut(request, "what")) {
        http_answer_text(answer, 400, "what: it contains a NUL\n");
    } else if (explain_query_parse(what, &query, &err)) {
        http_answer_text(answer, 400, "what: %s\n", err.text);
        error_clear(&err);
    } else {
        query.all = all;
        answer_query(sources, &query, gate, answer);
        explain_query_clear(&query);
    }
}
