/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Compares the kernel's elements with the decision. */
#include "explain.h"

#include <math.h>

/* Approximate lookups per frontend, without slots and source ranges. */
#define FRONTEND_LOOKUPS 12

/* @place is a frontend; NULL: the table as a whole. */
static void add_difference(struct explainer *e, enum family family, const char *place,
                           const char *set, const char *text)
{
    facts_add(facts_append(e->differences), fact_text("family", family_name(family)),
              fact_text("frontend", place), fact_text("set", set), fact_text("text", text));
}

static void do_not_ask(struct explainer *e, const char *why)
{
    free(e->not_asked);
    e->not_asked = xstrdup(why);
    nft_socket_close(e->socket);
    e->socket = NULL;
}

/* ---- the tables ---- */

static void find_table(struct explainer *e, enum family family)
{
    const struct table_view *view = &e->now->family[family];
    struct error err = {0};
    bool same = false;
    if (!view->ruleset && e->by_address)
        do_not_ask(e, "this family is not proxied on this node");
    if (view->ruleset && !e->now->from_manifests && !view->programmed && !view->failure)
        do_not_ask(e, "nothing is applied yet, what follows is pending");
    if (!view->ruleset || !e->socket)
        return;
    if (ruleset_probe_table(view->ruleset, e->socket, &e->table[family], &same, &err)) {
        e->table[family] = false;
        do_not_ask(e, err.text);
        error_clear(&err);
    } else if (!e->table[family]) {
        char *text =
            xasprintf("there is no table %s " RULESET_TABLE " here", nft_family_name(family));
        /* With --manifests a table may be absent: it would belong to a daemon. */
        if (e->now->from_manifests)
            do_not_ask(e, text);
        else
            add_difference(e, family, NULL, NULL, text);
        free(text);
    } else if (!same) {
        add_difference(e, family, NULL, NULL,
                       "the table has rules of another version or of other settings");
    }
}

void explain_kernel_open(struct explainer *e)
{
    struct error err = {0};
    e->kernel = cJSON_AddObjectToObject(e->root, "kernel");
    e->differences = cJSON_AddArrayToObject(e->kernel, "differences");
    e->socket = nft_socket_open(&err);
    if (!e->socket)
        do_not_ask(e, err.text);
    error_clear(&err);
    /* A query for an address needs only the table of its family. */
    for (enum family family = 0; family < FAMILY_COUNT; family++)
        if (!e->by_address || family == e->asked.family)
            find_table(e, family);
}

/* ---- one frontend ---- */

static void add_value(cJSON *to, const char *key, uint32_t value)
{
    if (value)
        facts_format(to, key, "%x:%x", value >> 16, value & UINT16_MAX);
    else
        cJSON_AddNullToObject(to, key);
}

static void add_backends(cJSON *to, const char *key, enum family family,
                         const struct probe_part *part)
{
    cJSON *array = cJSON_AddArrayToObject(to, key);
    vec_each (&part->found, backend)
        facts_append_text(array, "%s", BACKEND_TEXT(family, backend));
}

static void add_probe(struct explainer *e, const struct frontend *frontend,
                      const struct probe *probe, cJSON *to)
{
    enum family family = frontend->family;
    const struct ruleset *ruleset = e->now->family[family].ruleset;
    const struct frontend_state *target = policy_find_frontend(e->now->policy, frontend);
    const char *text = FRONTEND_TEXT(frontend);
    /* A difference is expected while the decision is pending or outdated. */
    bool waits = (target && frontend_waits(target)) || ruleset_is_waiting(ruleset, frontend);
    bool pending = !e->now->from_manifests && waits;
    bool rejected = ruleset_is_rejected(ruleset, frontend);
    e->probed = true;
    e->omitted[ITEM_ELEMENT] += probe->skipped;
    add_value(to, "services", probe->service);
    if (probe->all.value != probe->service)
        add_value(to, "ports", probe->all.value);
    add_backends(to, "endpoints", family, &probe->all);
    add_value(to, "localPorts", probe->local.value);
    add_backends(to, "localEndpoints", family, &probe->local);
    facts_add(
        to, fact_flag("rejected", probe->rejected), fact_flag("dropped", probe->dropped),
        fact_flag("restricted", probe->restricted), fact_flag("clusterIP", probe->cluster_ip),
        fact_number("affinityTimeoutSeconds", probe->affinity_timeout),
        fact_number("sourceList", probe->source_list), fact_number("sourceRanges", probe->sources),
        fact_number("notLookedAt", probe->skipped), fact_flag("agrees", probe->differences.n == 0),
        fact_flag("refused", rejected), fact_flag("pending", pending));
    const bool numbered = !target || !target->winner ||
                          !ruleset_port_limited(ruleset, target->winner->port->id, LIMIT_NUMBERS);
    for (size_t i = 0; numbered && i < probe->differences.n; i++)
        add_difference(e, family, text, probe->differences.v[i].set, probe->differences.v[i].text);
    if (!numbered)
        explain_note(e, "%s: no number left: its service port is not programmed", text);
    if (pending)
        explain_note(e, "%s: a change of it is not in the kernel yet", text);
    if (rejected)
        explain_note(e,
                     "%s: the kernel rejected this, and the previous rules stay active: the log "
                     "says why. It is retried when it changes, and in %.0f s",
                     text, fmax(ceil(ruleset_retry_time(ruleset) - clock_monotonic()), 0));
}

/* An unclaimed address may still be in a ServiceCIDR. */
static int probe_service_cidrs(struct explainer *e, const struct frontend *frontend,
                               struct error *err)
{
    enum family family = frontend->family;
    bool present = false;
    bool desired = ranges_contain(&e->now->service_cidrs[family], &frontend->address);
    if (ruleset_probe_address(e->now->family[family].ruleset, e->socket, "service_cidrs",
                              &frontend->address, &present, err))
        return -1;
    if (present != desired)
        add_difference(e, family, FRONTEND_TEXT(frontend), "service_cidrs",
                       desired ? "it is missing" : "it exists, but should not");
    return 0;
}

void explain_kernel(struct explainer *e, const struct frontend *frontend, const struct route *route,
                    cJSON *to)
{
    const struct ruleset *ruleset = e->now->family[frontend->family].ruleset;
    const struct port_route port =
        route ? decision_port_route(&e->decision) : (struct port_route){0};
    const struct probe_subject subject = {frontend, route, route ? &port : NULL};
    struct probe probe = {0};
    struct error err = {0};
    bool done = false;
    if (e->socket && e->table[frontend->family] &&
        explain_take(e, ITEM_ELEMENT, FRONTEND_LOOKUPS)) {
        done = ruleset_probe(ruleset, e->socket, &subject, &e->elements, &probe, &err) == 0 &&
               (route || probe_service_cidrs(e, frontend, &err) == 0);
        if (!done)
            do_not_ask(e, err.text);
    }
    if (done)
        add_probe(e, frontend, &probe, cJSON_AddObjectToObject(to, "kernel"));
    else
        cJSON_AddNullToObject(to, "kernel");
    error_clear(&err);
    probe_clear(&probe);
}

/* ---- all of it ---- */

void explain_kernel_close(struct explainer *e)
{
    int n = cJSON_GetArraySize(e->differences);
    bool asked = e->probed && !e->not_asked, some = e->omitted[ITEM_ELEMENT] > 0;
    facts_add(e->kernel, fact_flag("asked", asked), fact_text("reason", e->not_asked),
              n || asked ? fact_flag("agrees", n == 0) : fact_text("agrees", NULL));
    cJSON *failures = cJSON_AddObjectToObject(e->kernel, "failures");
    for (enum family family = 0; family < FAMILY_COUNT; family++) {
        const char *failure = e->now->family[family].failure, *name = family_name(family);
        facts_add(failures, fact_text(name, failure));
        if (failure)
            explain_note(e, "%s: the last changes are not applied, the kernel rejected them: %s",
                         name, failure);
    }
    if (n > 0)
        explain_summary(e, "The kernel's elements do NOT match: see the %d %s.", n,
                        n == 1 ? "difference" : "differences");
    else if (e->not_asked)
        explain_summary(e, "The kernel was not asked: %s.", e->not_asked);
    else if (asked)
        explain_summary(
            e, "The kernel's elements %s; %s.", some ? "that were compared match" : "match",
            some ? "others, and its rules, were not compared" : "its rules were not compared");
    nft_socket_close(e->socket);
    free(e->not_asked);
}
