/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "state.h"
#include "template.h"

#include <inttypes.h>

/* Incremented when elements change their meaning in maps and sets with unchanged declarations:
 * tables with another value are recreated, else only differing rules are rewritten. */
#define MEANING 3

/* ---- configuration ---- */

/* The match for packets from pods, with @reverse for all others; NULL without a detector. */
static char *detector_text(enum family family, const struct ruleset_config *config, bool reverse)
{
    const char *no = reverse ? "!= " : "";
    switch (config->detector) {
    case DETECT_CIDRS:
        return xasprintf("%s saddr %s@pod_cidrs", nft_family_name(family), no);
    case DETECT_INTERFACE:
        return xasprintf("iifname %s\"%s\"", no, config->interface);
    case DETECT_INTERFACE_PREFIX:
        return xasprintf("iifname %s\"%s*\"", no, config->interface);
    default:
        return NULL;
    }
}

static const char *to_localhost(enum family family, const struct ruleset_config *config)
{
    return !config->localhost || config->no_counters ? NULL
           : family == FAMILY_IPV4                   ? "ip daddr and 255.0.0.0 == 127.0.0.0"
                                                     : "ip6 daddr == ::1";
}

int ruleset_add_base(const struct ruleset *rs, struct layout *layout, struct error *err)
{
    if (layout_parse(&templates[TEMPLATE_BASE], &rs->vars, layout, err))
        return -1;
    return rs->config.flowtable ? layout_parse(&flowtable_template, &rs->vars, layout, err) : 0;
}

struct ruleset *ruleset_new(enum family family, const struct ruleset_config *config,
                            struct error *err)
{
    struct ruleset *rs = xcalloc(1, sizeof(*rs));
    rs->family = family;
    numbers_init(&rs->numbers, config->most_numbers);
    rs->config = *config;
    snprintf(rs->mark, sizeof(rs->mark), "0x%x", config->mark);
    rs->from_pod = detector_text(family, config, false);
    rs->not_from_pod = config->masquerade_all ? xstrdup("") : detector_text(family, config, true);
    rs->vars =
        (struct layout_vars){.family = family,
                             .mark = rs->mark,
                             .from_pod = rs->from_pod,
                             .not_from_pod = rs->not_from_pod,
                             .from_host = config->no_fib ? NULL : "fib saddr type local",
                             .to_others = config->no_fib ? "" : "fib daddr type != local",
                             .reject = config->no_reject ? "drop" : "reject",
                             .to_localhost = to_localhost(family, config),
                             .count_services = config->counting >= COUNT_SERVICES ? "" : NULL,
                             .count_endpoints = config->counting >= COUNT_ENDPOINTS ? "" : NULL};
    nft_batch_init(&rs->batch, family, RULESET_TABLE);
    if (ruleset_add_base(rs, &rs->base, err)) {
        ruleset_free(rs);
        return NULL;
    }
    snprintf(rs->comment, sizeof(rs->comment), "kube-nftd layout %016" PRIx64,
             layout_fingerprint(&rs->base, MEANING));
    return rs;
}

void ruleset_free(struct ruleset *rs)
{
    if (!rs)
        return;
    reading_stop(rs);
    quarantine_free(rs);
    kept_forget(rs);
    portions_end(rs);
    hash_table_each (&rs->frontends, struct entry, frontend)
        ruleset_free_entry(rs, frontend);
    hash_table_each (&rs->ports, struct entry, port)
        ruleset_free_entry(rs, port);
    source_lists_forget(rs);
    hash_table_each (&rs->plains, struct entry, plain)
        ruleset_free_entry(rs, plain);
    vec_free(&rs->dirty);
    vec_free(&rs->differences);
    vec_free(&rs->steps);
    vec_free(&rs->rechecks);
    vec_free(&rs->keeping.restored);
    vec_free(&rs->service_cidrs);
    vec_free(&rs->service_ranges);
    vec_free(&rs->pod_cidrs);
    connections_clear(&rs->connections);
    flowtable_free(&rs->flowtable);
    instances_clear(&rs->instances);
    vec_free(&rs->new_instances);
    nft_batch_release(&rs->batch);
    layout_free(&rs->base);
    free(rs->from_pod);
    free(rs->not_from_pod);
    numbers_free(&rs->numbers);
    free(rs);
}

/* ---- queries ---- */

size_t ruleset_frontends(const struct ruleset *rs)
{
    size_t n = 0;
    if (rs->quarantine.all.n == 0)
        return rs->n_desired - rs->numbers.n_refused;
    hash_table_each (&rs->frontends, const struct frontend_entry, it)
        n += it->entry.quarantined || (it->port && it->port->entry.quarantined)
                 ? it->applied != 0
                 : it->entry.desired && !(it->port && it->port->waits);
    return n;
}

uint32_t ruleset_port_limited(const struct ruleset *rs, uint32_t id, enum ruleset_limit limit)
{
    const struct port_entry *port = rs->stats.limited[limit] ? ruleset_find_port(rs, id) : NULL;
    return !port ? 0 : limit == LIMIT_NUMBERS ? port->waits : port->excess;
}

const struct ruleset_stats *ruleset_stats(const struct ruleset *rs)
{
    return &rs->stats;
}

enum connection_counting ruleset_counting(const struct ruleset *rs)
{
    return rs->config.counting;
}

struct ruleset_senders ruleset_senders(const struct ruleset *rs)
{
    return (struct ruleset_senders){.host = rs->vars.from_host != NULL,
                                    .pods = rs->config.detector,
                                    .pod_cidrs = &rs->pod_cidrs,
                                    .pod_match = rs->from_pod,
                                    .rejects = !rs->config.no_reject};
}

void ruleset_enter(struct ruleset *rs, enum table_state state)
{
    static const char *const names[] = {"unknown", "owned elsewhere", "missing", "replaced",
                                        "ours"};
    if (state != rs->state)
        log_debug(2, "table", "family=%s the table is %s, was %s", family_name(rs->family),
                  names[state], names[rs->state]);
    rs->state = state;
}

bool ruleset_knows_kernel(const struct ruleset *rs)
{
    return rs->state > TABLE_OWNED_ELSEWHERE;
}

bool ruleset_is_lost(const struct ruleset *rs)
{
    return rs->state == TABLE_OWNED_ELSEWHERE || (rs->adopted && !rs->has_applied);
}

bool ruleset_is_rejected(const struct ruleset *rs, const struct frontend *frontend)
{
    if (rs->quarantine.all.n == 0)
        return false;
    const struct frontend_entry *entry = ruleset_find_frontend(rs, frontend);
    return entry && (entry->entry.quarantined || (entry->port && entry->port->entry.quarantined));
}

bool ruleset_port_is_rejected(const struct ruleset *rs, uint32_t id)
{
    const struct port_entry *port = rs->quarantine.all.n == 0 ? NULL : ruleset_find_port(rs, id);
    return port && port->entry.quarantined;
}

/* Or nobody knows. */
static bool nothing_waits(const struct ruleset *rs)
{
    return !ruleset_knows_kernel(rs) || (rs->dirty.n == 0 && !rs->portions.left && !rs->growing);
}

static bool port_waits(const struct port_entry *port)
{
    return port->entry.dirty || port_grows(port);
}

bool ruleset_is_waiting(const struct ruleset *rs, const struct frontend *frontend)
{
    if (nothing_waits(rs))
        return !ruleset_knows_kernel(rs);
    const struct frontend_entry *entry = ruleset_find_frontend(rs, frontend);
    return entry && (entry->entry.dirty || (entry->port && port_waits(entry->port)));
}

bool ruleset_port_is_waiting(const struct ruleset *rs, uint32_t id)
{
    if (nothing_waits(rs))
        return !ruleset_knows_kernel(rs);
    const struct port_entry *port = ruleset_find_port(rs, id);
    return port && (port_waits(port) || port->n_dirty > 0);
}
