/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proxy.h"

#include "kube-nftd/base.h"
#include "kube-nftd/netlink.h"
#include "proxy_state.h"

#include <string.h>

/* Of backends, for each queue of what waits: the kernel takes one in 2 to 4 microseconds. */
#define PORTION 4000

/* ---- to the tables ---- */

/* The ruleset of a family, which is about to change; NULL if the family is not in use. */
static struct ruleset *changing(struct proxy *proxy, enum family which)
{
    return proxy->tables[which] ? table_changing(proxy->tables[which]) : NULL;
}

/* For the log of a table. */
static char *owner_of(void *ctx, const struct frontend *frontend)
{
    return policy_owner(((struct proxy *)ctx)->policy, frontend);
}

static void on_service_cidrs(void *ctx, enum family family, const range_vec *ranges)
{
    struct ruleset *ruleset = changing(ctx, family);
    if (ruleset)
        ruleset_set_service_cidrs(ruleset, ranges);
}

static void on_pod_cidrs(void *ctx, enum family family, const range_vec *ranges)
{
    struct ruleset *ruleset = changing(ctx, family);
    if (ruleset)
        ruleset_set_pod_cidrs(ruleset, ranges);
}

/* A frontend of an earlier run that is gone by now. */
static void on_abandoned(void *ctx, const struct frontend *frontend)
{
    struct proxy *proxy = ctx;
    if (proxy->flows)
        flow_cleaner_note(proxy->flows, frontend, false, NULL, 0);
}

/* ---- from the node ---- */

static void on_zone(void *ctx, const char *zone)
{
    policy_set_zone(((struct proxy *)ctx)->policy, zone);
}

static void on_address(void *ctx, enum family family, const struct address *address)
{
    policy_set_node_ip(((struct proxy *)ctx)->policy, family, address);
}

static void on_node_ports(void *ctx, enum family family,
                          const struct node_port_selection *selection)
{
    struct proxy *proxy = ctx;
    policy_set_node_port_addresses(proxy->policy, family, selection->addresses.v,
                                   selection->addresses.n);
    if (proxy->health && proxy->tables[family])
        health_set_addresses(proxy->health, family, selection->all, selection->addresses.v,
                             selection->addresses.n);
}

/* ---- what no cache keeps ---- */

static void on_node(void *ctx, const struct node *node)
{
    struct proxy *proxy = ctx;
    node_info_put(proxy->node, node);
    if (proxy->node_seen && strcmp(node->id, proxy->node_name) == 0)
        proxy->node_seen(proxy->node_seen_ctx, node);
}

static void on_node_gone(void *ctx, const char *id)
{
    struct proxy *proxy = ctx;
    if (id)
        node_info_remove(proxy->node, id);
    if (proxy->node_seen && (!id || strcmp(id, proxy->node_name) == 0))
        proxy->node_seen(proxy->node_seen_ctx, NULL);
}

static void on_nodes_complete(void *ctx)
{
    node_info_complete(((struct proxy *)ctx)->node);
}

static void on_triggered(void *ctx, const struct endpoint_slice *slice, double time)
{
    struct proxy *proxy = ctx;
    struct table *table = slice->has_family ? proxy->tables[slice->family] : NULL;
    if (!table || time <= table_syncs(table)->started)
        return;
    const char *service_id = intern(slice->service_id);
    sync_figures_triggered(table_syncs(table), service_id, time);
    intern_release(service_id);
}

void proxy_set_host_addresses(void *ctx, enum family family, const address_vec *addresses)
{
    node_info_set_host_addresses(((struct proxy *)ctx)->node, family, addresses);
}

void proxy_set_api_server(void *ctx, const struct frontend *peers, size_t n)
{
    policy_set_api_server(((struct proxy *)ctx)->policy, peers, n);
}

void proxy_api_server_unreachable(void *ctx, const struct frontend *peer)
{
    struct proxy *proxy = ctx;
    vec_each (&proxy->in_the_way, it)
        if (memcmp(it, peer, sizeof(*it)) == 0)
            return;
    vec_push(&proxy->in_the_way, *peer);
}

const struct object_sink *proxy_sink(struct proxy *proxy)
{
    return &proxy->caches.sink;
}

/* ---- making and freeing ---- */

/* Whether flows may still be sent by what @frontend was before. */
static bool is_held_back(const void *ruleset, const struct frontend *frontend)
{
    return ruleset_is_waiting(ruleset, frontend) || ruleset_is_refused(ruleset, frontend);
}

static int make_tables(struct proxy *proxy, const struct proxy_config *config, struct error *err)
{
    for (int i = 0; i < FAMILY_COUNT; i++) {
        struct table_config table = {.family = (enum family)i,
                                     .ruleset = config->rulesets[i],
                                     .sync_period = config->sync_period,
                                     .audit_period = config->audit_period};
        if (!config->families[i])
            continue;
        table.ruleset.abandoned = on_abandoned;
        table.ruleset.owner = owner_of;
        table.ruleset.ctx = proxy;
        proxy->tables[i] = table_new(&table, err);
        if (!proxy->tables[i])
            return -1;
        if (proxy->flows)
            flow_cleaner_hold_back(proxy->flows, (enum family)i, is_held_back,
                                   table_ruleset(proxy->tables[i]));
    }
    return 0;
}

struct proxy *proxy_new(const struct proxy_config *config, struct error *err)
{
    struct proxy *proxy = xcalloc(1, sizeof(*proxy));
    const struct caches_ops caches_ops = {on_node, on_node_gone, on_nodes_complete, on_triggered,
                                          proxy};
    const struct node_info_ops node_ops = {on_zone, on_address, on_node_ports, on_pod_cidrs, proxy};
    proxy->node_name = xstrdup(config->node.name);
    proxy->portion = config->portion ? config->portion : PORTION;
    proxy->health = config->health;
    proxy->flows = config->flows;
    proxy->node_seen = config->node_seen;
    proxy->node_seen_ctx = config->node_seen_ctx;
    caches_init(&proxy->caches, &caches_ops, on_service_cidrs);
    proxy->caches.no_external_ips = config->no_external_ips;
    if (make_tables(proxy, config, err)) {
        proxy_free(proxy);
        return NULL;
    }
    proxy->policy =
        policy_new(&(struct policy_config){.node_name = config->node.name,
                                           .services = proxy->caches.services,
                                           .slices = proxy->caches.slices,
                                           .tables = {proxy->tables[0], proxy->tables[1]},
                                           .flows = proxy->flows,
                                           .health = proxy->health,
                                           .health_check = health_service,
                                           .events = config->events});
    proxy->node = node_info_new(&config->node, &node_ops);
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
    vec_free(&proxy->in_the_way);
    free(proxy->node_name);
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
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (proxy->tables[i])
            table_foreign_lost(proxy->tables[i]);
}

void proxy_foreign_settled(void *ctx, const struct table_program *program)
{
    struct proxy *proxy = ctx;
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (proxy->tables[i])
            table_foreign_settled(proxy->tables[i], program);
}

/* ---- syncs ---- */

/* What has come so far is in the kernel. */
static bool is_in_force(const struct proxy *proxy, enum family which)
{
    const struct table *table = proxy->tables[which];
    return table ? table_is_in_force(table) : proxy->all_handed_on;
}

/* Flows and times. */
static void tell_of_table(struct proxy *proxy, enum family which)
{
    struct sync_figures *syncs = table_syncs(proxy->tables[which]);
    bool all = is_in_force(proxy, which);
    if (syncs->triggers.n)
        sync_figures_in_force(syncs, clock_realtime(), all ? NULL : policy_service_waits,
                              proxy->policy, which);
    if (proxy->flows)
        flow_cleaner_run(proxy->flows, which);
    if (all)
        syncs->without_local = policy_ports_without_local(proxy->policy, which);
}

/* Health checks speak of what is in force (docs/behaviour.md 6.1), and flows are stale only by it:
 * of each Service and frontend for itself, since others may go in portions. */
static void tell_in_force(struct proxy *proxy, enum family which)
{
    const struct table *table = proxy->tables[which];
    if (table && !ruleset_knows_kernel(table_ruleset(table)))
        return;
    policy_sync_health_checks(proxy->policy, which);
    if (table)
        tell_of_table(proxy, which);
}

static void note_in_force(struct proxy *proxy)
{
    bool in_force[FAMILY_COUNT];
    for (int i = 0; i < FAMILY_COUNT; i++)
        in_force[i] = is_in_force(proxy, (enum family)i);
    if (in_force[FAMILY_IPV4] && in_force[FAMILY_IPV6])
        policy_note_applied(proxy->policy);
    service_cache_applied(proxy->caches.services, in_force);
    endpoint_slice_cache_applied(proxy->caches.slices, in_force);
}

/* Once, when everything is known for the first time. */
static void check_node_name(struct proxy *proxy)
{
    if (proxy->node_name_checked)
        return;
    proxy->node_name_checked = true;
    if (policy_node_never_named(proxy->policy))
        log_warn("proxy",
                 "no endpoint is on node=%s, though endpoints name their nodes: traffic policy "
                 "Local finds no endpoints here. If some are here, see --hostname-override",
                 proxy->node_name);
}

double proxy_sync(struct proxy *proxy, struct nft_socket *socket, double now)
{
    if (!proxy_is_synced(proxy))
        return 0;
    vec_free(&proxy->in_the_way); /* policy has decided who has them */
    proxy->all_handed_on =
        policy_sync_some(proxy->policy, proxy->begun ? proxy->portion : SIZE_MAX);
    proxy->begun = true;
    check_node_name(proxy);
    double next = proxy->all_handed_on ? 0 : now;
    char *about = policy_changed_services(proxy->policy);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (proxy->tables[i])
            next = clock_earlier(
                next, table_turn(proxy->tables[i], !proxy->all_handed_on, about, socket, now));
        tell_in_force(proxy, (enum family)i);
    }
    free(about);
    note_in_force(proxy);
    return next;
}

double proxy_keep(struct proxy *proxy, struct nft_socket *socket, double now)
{
    double next = 0;
    vec_each (&proxy->in_the_way, it)
        if (proxy->tables[it->family])
            table_give_way(proxy->tables[it->family], it, socket);
    vec_free(&proxy->in_the_way);
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (proxy->tables[i])
            next = clock_earlier(next, table_keep(proxy->tables[i], socket, now));
    return next;
}

void proxy_dump(struct proxy *proxy, FILE *out)
{
    policy_sync(proxy->policy);
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (proxy->tables[i])
            ruleset_dump(table_changing(proxy->tables[i]), out);
}

void proxy_decide(struct proxy *proxy)
{
    policy_sync(proxy->policy);
}
