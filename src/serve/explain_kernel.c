/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kernel holds, beside what was decided. */
#include "kube-nftd/base/clock.h"
#include "kube-nftd/ruleset/audit.h"
#include "kube-nftd/serve/explain_parts.h"

#include <math.h>

/* What is asked of each frontend besides its slots and source ranges, about. */
#define FRONTEND_LOOKUPS 12

static const char *table_name(enum family family)
{
    return family == FAMILY_IPV4 ? "ip " RULESET_TABLE : "ip6 " RULESET_TABLE;
}

/* @place is a frontend; NULL: the table as a whole. */
static void add_difference(struct explainer *e, enum family family, const char *place,
                           const char *set, const char *text)
{
    cJSON *difference = json_append_object(e->differences);
    json_add_text(difference, "family", family_name(family));
    json_add_text(difference, "frontend", place);
    json_add_text(difference, "set", set);
    json_add_text(difference, "text", text);
}

static void not_asked(struct explainer *e, const char *why)
{
    cJSON *kernel = cJSON_GetObjectItemCaseSensitive(e->root, "kernel");
    cJSON_DeleteItemFromObjectCaseSensitive(kernel, "reason");
    json_add_text(kernel, "reason", why);
    nft_socket_close(e->socket);
    e->socket = NULL;
}

/* Computed from files: the table here is that of a daemon, if there is any at all. */
static void miss_table(struct explainer *e, enum family family)
{
    char *text = xasprintf("there is no table %s here", table_name(family));
    if (e->from->from_manifests)
        not_asked(e, text);
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
        return "nothing is programmed yet, what follows is on its way";
    return NULL;
}

static void find_table(struct explainer *e, enum family family)
{
    const struct ruleset *ruleset = e->from->family[family].ruleset;
    struct error err = {0};
    bool exists = false, same = false;
    const char *reason = reason_to_pass(e, family);
    if (reason)
        not_asked(e, reason);
    if (!ruleset || !e->socket)
        return;
    if (ruleset_audit_table(ruleset, e->socket, &exists, &same, &err)) {
        not_asked(e, err.text);
        error_clear(&err);
        return;
    }
    e->table[family] = exists;
    if (!exists)
        miss_table(e, family);
    else if (!same)
        add_difference(e, family, NULL, NULL,
                       "the table has rules of another version or of other settings");
}

void explain_kernel_open(struct explainer *e)
{
    struct error err = {0};
    cJSON *kernel = json_add_object(e->root, "kernel");
    json_add_null(kernel, "reason");
    e->differences = json_add_array(kernel, "differences");
    e->socket = nft_socket_open(&err);
    if (!e->socket)
        not_asked(e, err.text);
    error_clear(&err);
    /* Of an address, just its own family's. */
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (!e->by_address || family == e->asked.family)
            find_table(e, (enum family)family);
}

static void add_backends(cJSON *to, const char *key, enum family family,
                         const struct audit_part *part)
{
    cJSON *array = json_add_array(to, key);
    vec_each (&part->found, backend) {
        char text[BACKEND_TEXT_SIZE];
        json_append_format(array, "%s", backend_format(family, backend, text));
    }
}

static void add_value(cJSON *to, const char *key, uint32_t value)
{
    if (value)
        json_add_format(to, key, "%x:%x", value >> 16, value & UINT16_MAX);
    else
        json_add_null(to, key);
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
                       wanted ? "it is not there" : "it is there and should not be");
    return 0;
}

static void write_audit(const struct audit *audit, enum family family, cJSON *to)
{
    add_value(to, "services", audit->all.value);
    add_backends(to, "endpoints", family, &audit->all);
    add_value(to, "localServices", audit->local.value);
    add_backends(to, "localEndpoints", family, &audit->local);
    json_add_bool(to, "rejected", audit->rejected);
    json_add_bool(to, "dropped", audit->dropped);
    json_add_bool(to, "restricted", audit->source_list != 0);
    json_add_bool(to, "clusterIP", audit->cluster_ip);
    add_value(to, "affinityID", audit->affinity_id);
    json_add_number(to, "affinityTimeoutSeconds", audit->affinity_timeout);
    json_add_number(to, "sourceList", audit->source_list);
    json_add_number(to, "sourceRanges", (double)audit->sources);
    json_add_number(to, "notLookedAt", (double)audit->skipped);
    json_add_bool(to, "agrees", audit->differences.n == 0);
}

/* What is in force is not what was decided then, and nobody changed it. */
static void note_refused(struct explainer *e, const struct frontend *frontend)
{
    const struct ruleset *ruleset = e->from->family[frontend->family].ruleset;
    char text[FRONTEND_TEXT_SIZE];
    double wait = ruleset_retry_time(ruleset) - clock_monotonic();
    json_append_format(e->notes,
                       "%s: the kernel refused this, and what was in force before stays: the log "
                       "says why. It is tried again when it changes, and in %.0f s",
                       frontend_format(frontend, text), wait > 0 ? ceil(wait) : 0);
}

void explain_kernel(struct explainer *e, const struct frontend *frontend, const struct route *route,
                    cJSON *to)
{
    enum family family = (enum family)frontend->family;
    char text[FRONTEND_TEXT_SIZE];
    struct audit audit = {0};
    struct error err = {0};
    const struct audit_subject subject = {
        frontend, route, policy_has_cluster_ip(e->from->policy, family, &frontend->address)};
    if (!e->socket || !e->table[family]) {
        json_add_null(to, "kernel");
        return;
    }
    if (e->lookups < FRONTEND_LOOKUPS) {
        json_add_null(to, "kernel");
        e->left_out.elements += FRONTEND_LOOKUPS;
        return;
    }
    e->lookups -= FRONTEND_LOOKUPS;
    if (ruleset_audit(e->from->family[family].ruleset, e->socket, &subject, &e->lookups, &audit,
                      &err) ||
        (!route && audit_service_cidrs(e, frontend, &err))) {
        json_add_null(to, "kernel");
        not_asked(e, err.text);
        error_clear(&err);
    } else {
        e->audited = true;
        e->left_out.elements += audit.skipped;
        cJSON *kernel = json_add_object(to, "kernel");
        bool refused = ruleset_is_refused(e->from->family[family].ruleset, frontend);
        write_audit(&audit, family, kernel);
        json_add_bool(kernel, "refused", refused);
        if (refused)
            note_refused(e, frontend);
        vec_each (&audit.differences, difference)
            add_difference(e, family, frontend_format(frontend, text), difference->set,
                           difference->text);
    }
    audit_clear(&audit);
}

static void say(struct explainer *e, const char *reason)
{
    int n = cJSON_GetArraySize(e->differences);
    if (n > 0)
        json_append_format(e->summary, "The kernel does NOT hold what it should: see the %d %s.", n,
                           n == 1 ? "difference" : "differences");
    else if (reason)
        json_append_format(e->summary, "The kernel was not asked: %s.", reason);
    else if (e->audited)
        json_append_format(e->summary, "The kernel's elements %s as they should be; %s.",
                           e->left_out.elements ? "that were looked at are" : "are",
                           e->left_out.elements ? "others, and its rules, were not compared"
                                                : "its rules were not compared");
}

void explain_kernel_close(struct explainer *e)
{
    cJSON *kernel = cJSON_GetObjectItemCaseSensitive(e->root, "kernel");
    const char *reason = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(kernel, "reason"));
    bool differs = e->differences->child != NULL;
    json_add_bool(kernel, "asked", !reason && e->audited);
    if (differs || (e->audited && !reason))
        json_add_bool(kernel, "agrees", !differs);
    else
        json_add_null(kernel, "agrees");
    cJSON *failures = json_add_object(kernel, "failures");
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const char *failure = e->from->family[i].failure;
        json_add_text(failures, family_name((enum family)i), failure);
        if (failure)
            json_append_format(e->notes,
                               "%s: the last changes are not in force, the kernel refused them: %s",
                               family_name((enum family)i), failure);
    }
    say(e, reason);
    nft_socket_close(e->socket);
}
