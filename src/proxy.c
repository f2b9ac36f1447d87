/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proxy.h"

#include "kube-nftd/conntrack.h"
#include "kube-nftd/source.h"

#include <string.h>

/* In backends, for each stage of policy: the kernel takes 2 to 4 microseconds for one. */
#define PORTION 4000

/* Runs the statement for each family in use. */
#define each_family(proxy, family)                                                                 \
    for (int family = 0; family < FAMILY_COUNT; family++)                                          \
        if ((proxy)->tables[family])

/* ---- callbacks ---- */

/* For the table's log. */
static char *owner_of(void *ctx, const struct frontend *frontend)
{
    return policy_owner(((struct proxy *)ctx)->policy, frontend);
}

static void on_limited(void *ctx, const struct frontend *frontend, const char *reason,
                       const char *note)
{
    policy_report_limit(((struct proxy *)ctx)->policy, frontend, reason, note);
}

/* A frontend of the previous process no longer exists. */
static void on_abandoned(void *ctx, const struct frontend *frontend)
{
    struct proxy *proxy = ctx;
    if (proxy->config.flows)
        flow_cleaner_set(proxy->config.flows, frontend, 0);
}

/* Whether the previous rules of @frontend, or of the service port @id, may still route flows. */
static bool is_outdated(const void *ruleset, const struct frontend *frontend, uint32_t id)
{
    if (!frontend)
        return ruleset_port_is_waiting(ruleset, id) || ruleset_port_is_rejected(ruleset, id);
    return ruleset_is_waiting(ruleset, frontend) || ruleset_is_rejected(ruleset, frontend);
}

static void on_service_changed(void *ctx, const struct service *before, const struct service *after)
{
    policy_change_service(((struct proxy *)ctx)->policy, before, after);
}

static void on_slice_changed(void *ctx, const struct slice_change *change)
{
    policy_change_slice(((struct proxy *)ctx)->policy, change);
}

static void on_service_cidrs(void *ctx, enum family family, const range_vec *ranges)
{
    struct proxy *proxy = ctx;
    if (proxy->tables[family])
        ruleset_set_service_cidrs(table_changing(proxy->tables[family]), ranges);
    policy_set_service_cidrs(proxy->policy, family, ranges);
}

static void on_node(void *ctx, const struct node *node)
{
    struct proxy *proxy = ctx;
    node_info_put(proxy->node, node);
    if (strcmp(node->id, proxy->config.node_name) == 0)
        startup_taint_node_seen(proxy->config.startup, node);
}

static void on_node_gone(void *ctx, const char *id)
{
    struct proxy *proxy = ctx;
    if (id)
        node_info_remove(proxy->node, id);
    if (!id || strcmp(id, proxy->config.node_name) == 0)
        startup_taint_node_seen(proxy->config.startup, NULL);
}

static void on_nodes_complete(void *ctx)
{
    node_info_complete(((struct proxy *)ctx)->node);
}

static void on_triggered(void *ctx, const struct endpoint_slice *slice, double time)
{
    struct proxy *proxy = ctx;
    struct table *table = slice->has_family ? proxy->tables[slice->family] : NULL;
    if (table)
        sync_metrics_triggered(table_syncs(table), slice->service_id, time);
}

void proxy_set_devices(void *ctx, const device_vec *devices)
{
    struct proxy *proxy = ctx;
    each_family (proxy, i)
        table_set_devices(proxy->tables[i], devices);
}

void proxy_set_api_server(void *ctx, const struct frontend *peers, size_t n)
{
    policy_set_api_server(((struct proxy *)ctx)->policy, peers, n);
}

void proxy_api_server_unreachable(void *ctx, const struct frontend *peer)
{
    struct proxy *proxy = ctx;
    vec_each (&proxy->unreachable, it)
        if (memcmp(it, peer, sizeof(*it)) == 0)
            return;
    vec_push(&proxy->unreachable, *peer);
}

/* ---- making and freeing ---- */

static int make_tables(struct proxy *proxy, struct error *err)
{
    struct proxy_config *config = &proxy->config;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (!config->families[i])
            continue;
        proxy_configure_ruleset(config, (enum family)i);
        config->rulesets[i].abandoned = on_abandoned;
        config->rulesets[i].owner = owner_of;
        config->rulesets[i].limited = on_limited;
        config->rulesets[i].ctx = proxy;
        proxy->tables[i] =
            table_new(&(struct table_config){.family = (enum family)i,
                                             .ruleset = config->rulesets[i],
                                             .sync_period = config->options->sync_period,
                                             .audit_period = config->options->audit_period},
                      err);
        if (!proxy->tables[i])
            return -1;
        if (config->flows)
            flow_cleaner_skip(config->flows, (enum family)i, is_outdated,
                              table_ruleset(proxy->tables[i]));
    }
    return 0;
}

static bool serves(const struct proxy *proxy, enum family family)
{
    return proxy_serves_localhost(&proxy->config, family);
}

struct proxy *proxy_new(const struct proxy_config *config, struct error *err)
{
    struct proxy *proxy = xcalloc(1, sizeof(*proxy));
    const struct caches_ops caches_ops = {.service_changed = on_service_changed,
                                          .slice_changed = on_slice_changed,
                                          .node = on_node,
                                          .node_gone = on_node_gone,
                                          .nodes_complete = on_nodes_complete,
                                          .triggered = on_triggered,
                                          .covered = on_service_cidrs,
                                          .ctx = proxy};
    proxy->config = *config;
    caches_init(&proxy->caches, &caches_ops);
    proxy->caches.no_external_ips = config->options->no_external_ips;
    if (make_tables(proxy, err)) {
        proxy_free(proxy);
        return NULL;
    }
    proxy->policy = policy_new(&(struct policy_config){
        .node_name = config->node_name,
        .caches = &proxy->caches,
        .tables = {proxy->tables[0], proxy->tables[1]},
        .flows = config->flows,
        .flowtables = {proxy->config.rulesets[0].flowtable, proxy->config.rulesets[1].flowtable},
        .counts_localhost = config->options->localhost_node_ports,
        .serves_localhost = {serves(proxy, FAMILY_IPV4), serves(proxy, FAMILY_IPV6)},
        .localhost = config->localhost,
        .health = config->health,
        .set_health_checks = health_set_checks,
        .events = config->events});
    proxy->node =
        node_info_new(&(struct node_info_config){.options = config->options,
                                                 .name = config->node_name,
                                                 .offline = config->offline,
                                                 .policy = proxy->policy,
                                                 .tables = {proxy->tables[0], proxy->tables[1]},
                                                 .health = config->health});
    return proxy;
}

void proxy_free(struct proxy *proxy)
{
    if (!proxy)
        return;
    node_info_free(proxy->node);
    if (proxy->policy)
        policy_free(proxy->policy);
    caches_clear(&proxy->caches);
    for (int i = 0; i < FAMILY_COUNT; i++)
        table_free(proxy->tables[i]);
    vec_free(&proxy->unreachable);
    free(proxy);
}

/* ---- other programs ---- */

void proxy_foreign_change(void *ctx, const struct table_change *change)
{
    struct table *table = ((struct proxy *)ctx)->tables[change->family];
    if (table)
        table_foreign_change(table, change);
}

void proxy_foreign_lost(void *ctx)
{
    struct proxy *proxy = ctx;
    each_family (proxy, i)
        table_foreign_lost(proxy->tables[i]);
}

void proxy_foreign_finished(void *ctx, enum family family, const struct table_program *program)
{
    struct proxy *proxy = ctx;
    if (proxy->tables[family])
        table_foreign_finished(proxy->tables[family], program);
}

/* ---- syncs ---- */

/* Updates health checks (docs/behaviour.md 6.1), latencies and stale flows, which all depend on
 * applied changes. Works per Service and frontend, as others may still be pending. Returns true if
 * all changes are applied. */
static bool report_applied(struct proxy *proxy, enum family which)
{
    struct table *table = proxy->tables[which];
    const bool all = table ? table_is_applied(table) : proxy->policy_is_done;
    if (table && !ruleset_knows_kernel(table_ruleset(table)))
        return all;
    policy_sync_health_checks(proxy->policy, which);
    if (!table)
        return all;
    struct sync_metrics *syncs = table_syncs(table);
    if (syncs->triggers.n)
        sync_metrics_applied(syncs, clock_realtime(), all ? NULL : policy_service_waits,
                             proxy->policy, which);
    if (proxy->config.flows)
        flow_cleaner_run(proxy->config.flows, which);
    if (all)
        syncs->without_local = policy_view(proxy->policy).without_local[which];
    return all;
}

/* Runs once, after the first complete decision. */
static void check_node_name(struct proxy *proxy)
{
    if (proxy->node_name_checked)
        return;
    proxy->node_name_checked = true;
    if (policy_view(proxy->policy).node_never_named)
        log_warn("daemon",
                 "no endpoint is on node=%s, though endpoints name their nodes: traffic policy "
                 "Local finds no endpoints here. If some are here, see --hostname-override",
                 proxy->config.node_name);
}

double proxy_sync(struct proxy *proxy, struct nft_socket *socket, double now)
{
    bool applied[FAMILY_COUNT];
    if (!caches_are_synced(&proxy->caches))
        return 0;
    vec_free(&proxy->unreachable); /* policy assigns these frontends now */
    size_t portion = proxy->config.portion ? proxy->config.portion : PORTION;
    proxy->policy_is_done = policy_sync_some(proxy->policy, portion);
    /* What is not decided yet would be deleted from the previous process's table. */
    if (!proxy->begun && !proxy->policy_is_done)
        return now;
    proxy->begun = true;
    check_node_name(proxy);
    double next = proxy->policy_is_done ? 0 : now;
    /* Sorting the names of all Services is not for each turn of a first programming. */
    char *about = proxy_is_programmed(proxy) ? policy_changed_services(proxy->policy) : NULL;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (proxy->tables[i])
            next = clock_earlier(
                next, table_sync(proxy->tables[i], !proxy->policy_is_done, about, socket, now));
        applied[i] = report_applied(proxy, (enum family)i);
    }
    free(about);
    if (applied[FAMILY_IPV4] && applied[FAMILY_IPV6])
        policy_mark_applied(proxy->policy);
    caches_applied(&proxy->caches, applied);
    return next;
}

double proxy_keep(struct proxy *proxy, struct nft_socket *socket, double now)
{
    double next = 0;
    vec_each (&proxy->unreachable, it)
        if (proxy->tables[it->family])
            table_withdraw(proxy->tables[it->family], it, socket);
    vec_free(&proxy->unreachable);
    each_family (proxy, i)
        next = clock_earlier(next, table_protect(proxy->tables[i], socket, now));
    return next;
}

void proxy_dump(struct proxy *proxy, FILE *out)
{
    policy_sync(proxy->policy);
    each_family (proxy, i)
        ruleset_dump(table_changing(proxy->tables[i]), out);
}

/* ---- queries ---- */

bool proxy_is_programmed(const struct proxy *proxy)
{
    bool all = true;
    each_family (proxy, i)
        all = all && table_is_programmed(proxy->tables[i]);
    return all;
}

bool proxy_has_previous(const struct proxy *proxy)
{
    bool any = false;
    each_family (proxy, i) {
        struct table_view view;
        table_view(proxy->tables[i], clock_monotonic(), &view);
        any = any || view.previous;
    }
    return any;
}

size_t proxy_rejected(const struct proxy *proxy)
{
    size_t rejected = 0;
    each_family (proxy, i) {
        const struct ruleset_stats *stats = ruleset_stats(table_ruleset(proxy->tables[i]));
        rejected += stats->rejected + stats->rejected_elements;
    }
    return rejected;
}

void proxy_snapshot(const struct proxy *proxy, struct snapshot *now)
{
    const struct policy_view policy = policy_view(proxy->policy);
    const struct object_counts services = object_store_counts(proxy->caches.stores[KIND_SERVICE]);
    const struct object_counts slices =
        object_store_counts(proxy->caches.stores[KIND_ENDPOINTSLICE]);
    bool any = false;
    now->node_name = proxy->config.node_name;
    now->zone = policy.here->location.zone;
    now->node_unknown = !node_info_is_known(proxy->node);
    now->node_eligible = node_info_is_eligible(proxy->node);
    now->complete = caches_are_synced(&proxy->caches);
    now->external_ips = !proxy->caches.no_external_ips;
    now->services = proxy->caches.stores[KIND_SERVICE];
    now->slices = proxy->caches.slices;
    now->service_cidrs = proxy->caches.covered;
    now->policy = proxy->policy;
    now->n_services = services.known;
    now->n_slices = slices.known;
    memcpy(now->invalid, proxy->caches.rejected, sizeof(now->invalid));
    now->conflicts = policy.conflicts;
    now->reserved = policy.reserved;
    now->service_addresses = policy.service_addresses;
    now->services_pending = services.pending;
    now->slices_pending = slices.pending;
    now->programmed = proxy_is_programmed(proxy);
    now->health = proxy->config.health;
    now->counts_localhost = proxy->config.options->localhost_node_ports;
    now->localhost = proxy->config.localhost;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        struct table_view *view = &now->family[i];
        now->tables[i] = proxy->tables[i];
        now->node_ports_unserved[i] = node_info_unserved(proxy->node, (enum family)i);
        table_view(proxy->tables[i], clock_monotonic(), view);
        if (!view->in_use)
            continue;
        now->counting = ruleset_counting(view->ruleset);
        now->serves_localhost[i] = serves(proxy, (enum family)i);
        now->overdue = now->overdue || view->overdue;
        now->service_changes += services.seen[i];
        now->slice_changes += slices.seen[i];
        /* The lowest count of all tables. */
        if (!any || view->audits < now->audits)
            now->audits = view->audits;
        any = true;
    }
}
