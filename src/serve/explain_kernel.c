/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kernel holds, beside what was decided. */
#include "explainer.h"
#include "kube-nftd/base.h"
#include "kube-nftd/table.h"

#include <math.h>

/* What is asked of each frontend besides its slots and source ranges, about. */
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

/* Computed from files: the table here is that of a daemon, if there is any at all. */
static void miss_table(struct explainer *e, enum family family)
{
    char *text = xasprintf("there is no table %s " RULESET_TABLE " here", nft_family_name(family));
    if (e->from->from_manifests)
        do_not_ask(e, text);
    else
        add_difference(e, family, NULL, NULL, text);
    free(text);
}

/* Why there is nothing to compare @family with yet, or ever; NULL: there is. */
static const char *reason_to_pass(const struct explainer *e, enum family family)
{
    if (!e->from->family[family].ruleset)
        return e->by_address ? "this family is not proxied on this node" : NULL;
    if (!e->from->from_manifests && !e->from->family[family].programmed &&
        !e->from->family[family].failure)
        return "nothing is applied yet, what follows is pending";
    return NULL;
}

static void find_table(struct explainer *e, enum family family)
{
    const struct ruleset *ruleset = e->from->family[family].ruleset;
    struct error err = {0};
    bool same = false;
    const char *reason = reason_to_pass(e, family);
    if (reason)
        do_not_ask(e, reason);
    if (!ruleset || !e->socket)
        return;
    if (ruleset_audit_table(ruleset, e->socket, &e->table[family], &same, &err)) {
        e->table[family] = false;
        do_not_ask(e, err.text);
        error_clear(&err);
    } else if (!e->table[family]) {
        miss_table(e, family);
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
    /* Of an address, just its own family's. */
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (!e->by_address || family == e->asked.family)
            find_table(e, (enum family)family);
}

/* ---- one frontend ---- */

static void add_value(cJSON *to, const char *key, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof(text), "%x:%x", value >> 16, value & UINT16_MAX);
    facts_add(to, fact_text(key, value ? text : NULL));
}

static void add_part(cJSON *to, const char *value_key, const char *key, enum family family,
                     const struct audit_part *part)
{
    char text[BACKEND_TEXT_SIZE];
    add_value(to, value_key, part->value);
    cJSON *array = cJSON_AddArrayToObject(to, key);
    vec_each (&part->found, backend)
        facts_append_text(array, "%s", backend_format(family, backend, text));
}

/* Whether what was decided is still on its way to the kernel. */
static bool is_pending(const struct explainer *e, const struct frontend *frontend)
{
    const struct frontend_state *target = policy_find_frontend(e->from->policy, frontend);
    bool decided = !target || !(target->noted || (target->winner && target->winner->noted));
    return !e->from->from_manifests &&
           (!decided || ruleset_is_waiting(e->from->family[frontend->family].ruleset, frontend));
}

static void write_audit(const struct audit *audit, enum family family, bool refused, bool pending,
                        cJSON *to)
{
    add_value(to, "services", audit->service);
    add_part(to, "ports", "endpoints", family, &audit->all);
    add_part(to, "localPorts", "localEndpoints", family, &audit->local);
    facts_add(to, fact_flag("rejected", audit->rejected), fact_flag("dropped", audit->dropped),
              fact_flag("restricted", audit->source_list != 0),
              fact_flag("clusterIP", audit->cluster_ip),
              fact_number("affinityTimeoutSeconds", audit->affinity_timeout),
              fact_number("sourceList", audit->source_list),
              fact_number("sourceRanges", (double)audit->sources),
              fact_number("notLookedAt", (double)audit->skipped),
              fact_flag("agrees", audit->differences.n == 0), fact_flag("refused", refused),
              fact_flag("pending", pending));
}

/* Of an address of nobody it matters, too. */
static int audit_service_cidrs(struct explainer *e, const struct frontend *frontend,
                               struct error *err)
{
    enum family family = (enum family)frontend->family;
    char text[FRONTEND_TEXT_SIZE];
    bool held = false;
    bool wanted = service_cidr_cache_contains(e->from->service_cidrs, family, &frontend->address);
    if (ruleset_audit_address(e->from->family[family].ruleset, e->socket, "service_cidrs",
                              &frontend->address, &held, err))
        return -1;
    if (held != wanted)
        add_difference(e, family, frontend_format(frontend, text), "service_cidrs",
                       wanted ? "it is missing" : "it exists, but should not");
    return 0;
}

static void add_audit(struct explainer *e, const struct frontend *frontend,
                      const struct audit *audit, cJSON *to)
{
    enum family family = (enum family)frontend->family;
    const struct ruleset *ruleset = e->from->family[family].ruleset;
    bool refused = ruleset_is_refused(ruleset, frontend), pending = is_pending(e, frontend);
    char text[FRONTEND_TEXT_SIZE];
    frontend_format(frontend, text);
    e->audited = true;
    e->left_out[LEFT_ELEMENTS] += audit->skipped;
    write_audit(audit, family, refused, pending, cJSON_AddObjectToObject(to, "kernel"));
    vec_each (&audit->differences, it)
        add_difference(e, family, text, it->set, it->text);
    /* What is in force is not what was decided then, and nobody changed it. */
    if (pending)
        facts_append_text(e->notes, "%s: a change of it is not in the kernel yet", text);
    if (refused)
        facts_append_text(e->notes,
                          "%s: the kernel rejected this, and the previous rules stay active: the "
                          "log says why. It is retried when it changes, and in %.0f s",
                          text, fmax(ceil(ruleset_retry_time(ruleset) - clock_monotonic()), 0));
}

void explain_kernel(struct explainer *e, const struct frontend *frontend, const struct route *route,
                    cJSON *to)
{
    enum family family = (enum family)frontend->family;
    struct audit audit = {0};
    struct error err = {0};
    struct port_route port;
    struct audit_subject subject = {.frontend = frontend, .route = route};
    bool can = e->socket && e->table[family], may = can && e->lookups >= FRONTEND_LOOKUPS;
    if (can && !may)
        e->left_out[LEFT_ELEMENTS] += FRONTEND_LOOKUPS;
    if (!may) {
        facts_add(to, fact_text("kernel", NULL));
        return;
    }
    e->lookups -= FRONTEND_LOOKUPS;
    if (route) {
        port = decision_port_route(&e->decision);
        subject.port = &port;
    }
    if (ruleset_audit(e->from->family[family].ruleset, e->socket, &subject, &e->lookups, &audit,
                      &err) ||
        (!route && audit_service_cidrs(e, frontend, &err))) {
        facts_add(to, fact_text("kernel", NULL));
        do_not_ask(e, err.text);
        error_clear(&err);
    } else {
        add_audit(e, frontend, &audit, to);
    }
    audit_clear(&audit);
}

/* ---- all of it ---- */

static void sum_up(struct explainer *e)
{
    int n = cJSON_GetArraySize(e->differences);
    bool some = e->left_out[LEFT_ELEMENTS] > 0;
    if (n > 0)
        facts_append_text(e->summary, "The kernel's elements do NOT match: see the %d %s.", n,
                          n == 1 ? "difference" : "differences");
    else if (e->not_asked)
        facts_append_text(e->summary, "The kernel was not asked: %s.", e->not_asked);
    else if (e->audited)
        facts_append_text(e->summary, "The kernel's elements %s; %s.",
                          some ? "that were compared match" : "match",
                          some ? "others, and its rules, were not compared"
                               : "its rules were not compared");
}

void explain_kernel_close(struct explainer *e)
{
    bool differs = e->differences->child != NULL, asked = e->audited && !e->not_asked;
    facts_add(e->kernel, fact_flag("asked", asked), fact_text("reason", e->not_asked),
              differs || asked ? fact_flag("agrees", !differs) : fact_text("agrees", NULL));
    cJSON *failures = cJSON_AddObjectToObject(e->kernel, "failures");
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const char *failure = e->from->family[i].failure, *name = family_name((enum family)i);
        facts_add(failures, fact_text(name, failure));
        if (failure)
            facts_append_text(e->notes,
                              "%s: the last changes are not applied, the kernel rejected them: %s",
                              name, failure);
    }
    sum_up(e);
    nft_socket_close(e->socket);
    free(e->not_asked);
}
