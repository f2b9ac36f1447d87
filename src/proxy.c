/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/proxy.h"

#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/cache/endpoint_slice_cache.h"
#include "kube-nftd/cache/service_cache.h"
#include "kube-nftd/cache/service_cidr_cache.h"
#include "kube-nftd/netlink/flow_cleaner.h"
#include "kube-nftd/policy/claims.h"
#include "kube-nftd/policy/policy.h"
#include "kube-nftd/table_guard.h"

#include <math.h>
#include <string.h>

/* kube-proxy's syncPeriod. A change that waits for twice as long makes the proxy unhealthy. */
#define DEFAULT_SYNC_PERIOD 30.0
/* Waits before a failed commit is tried again: doubled each time, up to kube-proxy's syncPeriod;
 * with a new change, no longer than its minSyncPeriod. */
#define RETRY_FIRST 0.1
#define RETRY_CHANGED 1.0
/* How often to ask whether the other program that owns the table is gone: nothing tells of it. */
#define OWNER_POLL 0.2

/* One family's table and how its commits go. */
struct family_state {
    struct ruleset *ruleset; /* NULL if the family is not in use */
    bool programmed;         /* committed at least once */
    double waiting_since;    /* a change waits to be committed; monotonic, or 0 */
    double last_updated;     /* last success or start; realtime */
    double retry_wait, retry_time, failed_time; /* monotonic; 0 while nothing failed */
    bool changed;                               /* since the last try */
    bool queued;                                /* a change that was not counted as one yet */
    char *said;                                 /* the failure that was logged last */
    double sync_period;                         /* seconds */
    struct sync_figures syncs;
    struct table_guard guard;
};

struct proxy {
    struct object_sink sink;
    struct service_cache *services;
    struct endpoint_slice_cache *slices;
    struct service_cidr_cache *service_cidrs;
    struct own_node *node;
    struct policy *policy;
    struct family_state families[FAMILY_COUNT];
    struct health *health;
    struct flow_cleaner *flows;
    void (*node_seen)(void *ctx, const struct node *node); /* NULL: nobody wants to know */
    void *node_seen_ctx;
    bool complete[KIND_COUNT];
    char *node_name;
    bool node_required;
    bool no_external_ips;
    bool node_name_checked; /* whether any endpoint names this node */
    uint64_t left_out[KIND_COUNT];
    uint64_t audits;
};

/* ---- to rulesets ---- */

/* The ruleset of a family, which is about to change; NULL if the family is not in use. */
static struct ruleset *changing(struct proxy *proxy, enum family which)
{
    struct family_state *family = &proxy->families[which];
    family->changed = family->queued = true;
    return family->ruleset;
}

static void on_set(void *ctx, const struct frontend *frontend, const struct route *route)
{
    struct ruleset *ruleset = changing(ctx, (enum family)frontend->family);
    if (ruleset)
        ruleset_set(ruleset, frontend, route);
}

static bool on_change(void *ctx, const struct frontend *frontend, const struct route_change *change)
{
    struct ruleset *ruleset = changing(ctx, (enum family)frontend->family);
    return !ruleset || ruleset_change(ruleset, frontend, change);
}

static void on_remove(void *ctx, const struct frontend *frontend)
{
    struct ruleset *ruleset = changing(ctx, (enum family)frontend->family);
    if (ruleset)
        ruleset_remove(ruleset, frontend);
}

static void on_cluster_ip(void *ctx, enum family family, const struct address *address, bool in_use)
{
    struct ruleset *ruleset = changing(ctx, family);
    if (ruleset)
        ruleset_set_cluster_ip(ruleset, address, in_use);
}

static void on_hairpin(void *ctx, enum family family, uint8_t protocol,
                       const struct backend *backend, bool in_use)
{
    struct ruleset *ruleset = changing(ctx, family);
    if (ruleset)
        ruleset_set_hairpin(ruleset, protocol, backend, in_use);
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

/* ---- to health checks and conntrack ---- */

static void on_health_check(void *ctx, const char *service_id, enum family family, uint16_t port,
                            size_t local_ready)
{
    struct proxy *proxy = ctx;
    if (proxy->health && proxy->families[family].ruleset)
        health_service(proxy->health, service_id, family, port, local_ready);
}

static void on_flows(void *ctx, const struct frontend *frontend, bool claimed,
                     const struct backend *serving, size_t n)
{
    struct proxy *proxy = ctx;
    if (proxy->flows && proxy->families[frontend->family].ruleset)
        flow_cleaner_note(proxy->flows, frontend, claimed, serving, n);
}

/* A frontend of an earlier run that is gone by now. */
static void on_abandoned(void *ctx, const struct frontend *frontend)
{
    on_flows(ctx, frontend, false, NULL, 0);
}

static char *owner_of(void *ctx, const struct frontend *frontend)
{
    return policy_owner(((struct proxy *)ctx)->policy, frontend);
}

/* ---- to policy ---- */

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
    if (proxy->health && proxy->families[family].ruleset)
        health_set_addresses(proxy->health, family, selection->all, selection->addresses.v,
                             selection->addresses.n);
}

static void on_service_changed(void *ctx, const struct service *before, const struct service *after)
{
    policy_service_changed(((struct proxy *)ctx)->policy, before, after);
}

static void on_endpoints_changed(void *ctx, const struct service_port_ref *ref,
                                 const struct endpoint_change *changes, size_t n)
{
    policy_endpoints_changed(((struct proxy *)ctx)->policy, ref, changes, n);
}

/* ---- from sources to caches ---- */

static void put_service(struct proxy *proxy, struct service *service)
{
    for (int family = 0; proxy->no_external_ips && service->own_outside && family < FAMILY_COUNT;
         family++)
        vec_clear(&service->own_outside->external_ips[family]);
    service_cache_put(proxy->services, service);
}

static void put_slice(struct proxy *proxy, struct object *object)
{
    const struct endpoint_slice *slice = object->slice;
    struct family_state *family = slice->has_family ? &proxy->families[slice->family] : NULL;
    if (endpoint_slice_cache_put(proxy->slices, object->slice) && family && family->ruleset)
        sync_figures_triggered(&family->syncs, object->trigger_time);
}

static void put_node(struct proxy *proxy, const struct node *node)
{
    own_node_put(proxy->node, node);
    if (proxy->node_seen && strcmp(node->id, proxy->node_name) == 0)
        proxy->node_seen(proxy->node_seen_ctx, node);
}

static void no_node(struct proxy *proxy)
{
    if (proxy->node_seen)
        proxy->node_seen(proxy->node_seen_ctx, NULL);
}

static void remove_node(struct proxy *proxy, const char *id)
{
    own_node_remove(proxy->node, id);
    if (strcmp(id, proxy->node_name) == 0)
        no_node(proxy);
}

static void count_left_out(struct proxy *proxy, const struct object *object)
{
    proxy->left_out[object->kind] += !object->payload;
}

/* What was known of it stays. */
static void leave_out(struct proxy *proxy, const struct object *object)
{
    if (object->kind == KIND_SERVICE)
        service_cache_leave_out(proxy->services, object);
    else if (object->kind == KIND_ENDPOINTSLICE)
        endpoint_slice_cache_leave_out(proxy->slices, object);
}

static void take(struct proxy *proxy, struct object *object)
{
    if (!object->payload) {
        leave_out(proxy, object);
    } else {
        switch (object->kind) {
        case KIND_SERVICE:
            put_service(proxy, object->service);
            object->payload = NULL;
            break;
        case KIND_ENDPOINTSLICE:
            put_slice(proxy, object);
            object->payload = NULL;
            break;
        case KIND_NODE:
            put_node(proxy, object->node);
            break;
        case KIND_SERVICECIDR:
            service_cidr_cache_put(proxy->service_cidrs, object->service_cidr);
            object->payload = NULL;
            break;
        case KIND_COUNT:
            break;
        }
    }
    object_clear(object);
}

static void sink_put(void *ctx, struct object *object)
{
    count_left_out(ctx, object);
    take(ctx, object);
}

static void sink_remove(void *ctx, enum object_kind kind, const char *id)
{
    struct proxy *proxy = ctx;
    if (kind == KIND_SERVICE)
        service_cache_remove(proxy->services, id);
    else if (kind == KIND_ENDPOINTSLICE)
        endpoint_slice_cache_remove(proxy->slices, id);
    else if (kind == KIND_SERVICECIDR)
        service_cidr_cache_remove(proxy->service_cidrs, id);
    else if (kind == KIND_NODE)
        remove_node(proxy, id);
}

static void sink_replace(void *ctx, enum object_kind kind, object_vec *objects)
{
    struct proxy *proxy = ctx;
    vec_each (objects, object)
        count_left_out(proxy, object);
    if (kind == KIND_SERVICE)
        service_cache_retain(proxy->services, objects);
    else if (kind == KIND_ENDPOINTSLICE)
        endpoint_slice_cache_retain(proxy->slices, objects);
    else if (kind == KIND_SERVICECIDR)
        service_cidr_cache_replace(proxy->service_cidrs, objects);
    else if (kind == KIND_NODE)
        no_node(proxy); /* unless it is among them */
    vec_each (objects, object)
        take(proxy, object);
    vec_free(objects);
    if (kind == KIND_NODE)
        own_node_complete(proxy->node);
    proxy->complete[kind] = true;
}

void proxy_set_host_addresses(void *ctx, enum family family, const address_vec *addresses)
{
    own_node_set_host_addresses(((struct proxy *)ctx)->node, family, addresses);
}

const struct object_sink *proxy_sink(struct proxy *proxy)
{
    return &proxy->sink;
}

bool proxy_is_synced(const struct proxy *proxy)
{
    return proxy->complete[KIND_SERVICE] && proxy->complete[KIND_ENDPOINTSLICE];
}

struct uid proxy_service_uid(const struct proxy *proxy, const char *id)
{
    static const struct uid unknown;
    const struct service *service = service_cache_get(proxy->services, id);
    return service ? service->uid : unknown;
}

bool proxy_is_programmed(const struct proxy *proxy)
{
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (proxy->families[i].ruleset && !proxy->families[i].programmed)
            return false;
    return true;
}

size_t proxy_refused(const struct proxy *proxy)
{
    size_t refused = 0;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (!proxy->families[i].ruleset)
            continue;
        const struct ruleset_figures *figures = ruleset_figures(proxy->families[i].ruleset);
        refused += figures->refused + figures->left_out;
    }
    return refused;
}

/* ---- making and freeing ---- */

static bool is_frontend_refused(const void *ruleset, const struct frontend *frontend)
{
    return ruleset_is_refused(ruleset, frontend);
}

static int make_rulesets(struct proxy *proxy, const struct proxy_config *config, struct error *err)
{
    for (int i = 0; i < FAMILY_COUNT; i++) {
        struct family_state *family = &proxy->families[i];
        struct ruleset_config ruleset = config->rulesets[i];
        family->last_updated = clock_realtime();
        family->sync_period = config->sync_period > 0 ? config->sync_period : DEFAULT_SYNC_PERIOD;
        sync_figures_init(&family->syncs, family->last_updated);
        if (!config->families[i])
            continue;
        ruleset.abandoned = on_abandoned;
        ruleset.owner = owner_of;
        ruleset.ctx = proxy;
        family->ruleset = ruleset_new((enum family)i, &ruleset, err);
        if (!family->ruleset)
            return -1;
        if (proxy->flows)
            flow_cleaner_hold_back(proxy->flows, (enum family)i, is_frontend_refused,
                                   family->ruleset);
    }
    return 0;
}

struct proxy *proxy_new(const struct proxy_config *config, struct error *err)
{
    struct proxy *proxy = xcalloc(1, sizeof(*proxy));
    const struct policy_ops policy_ops = {on_set,     on_change, on_remove,       on_cluster_ip,
                                          on_hairpin, on_flows,  on_health_check, proxy};
    const struct own_node_ops node_ops = {on_zone, on_address, on_node_ports, on_pod_cidrs, proxy};
    proxy->sink = (struct object_sink){proxy, sink_replace, sink_put, sink_remove};
    proxy->node_name = xstrdup(config->node.name);
    proxy->node_required = config->node.required;
    proxy->no_external_ips = config->no_external_ips;
    proxy->health = config->health;
    proxy->flows = config->flows;
    proxy->node_seen = config->node_seen;
    proxy->node_seen_ctx = config->node_seen_ctx;
    proxy->services = service_cache_new(on_service_changed, proxy);
    proxy->slices = endpoint_slice_cache_new(on_endpoints_changed, proxy);
    proxy->service_cidrs = service_cidr_cache_new(on_service_cidrs, proxy);
    proxy->policy = policy_new(proxy->services, proxy->slices, config->node.name, &policy_ops);
    policy_set_events(proxy->policy, config->events);
    if (make_rulesets(proxy, config, err)) {
        proxy_free(proxy);
        return NULL;
    }
    proxy->node = own_node_new(&config->node, &node_ops);
    return proxy;
}

void proxy_free(struct proxy *proxy)
{
    if (!proxy)
        return;
    own_node_free(proxy->node);
    policy_free(proxy->policy);
    service_cache_free(proxy->services);
    service_cidr_cache_free(proxy->service_cidrs);
    endpoint_slice_cache_free(proxy->slices);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        sync_figures_clear(&proxy->families[i].syncs);
        ruleset_free(proxy->families[i].ruleset);
        free(proxy->families[i].said);
    }
    free(proxy->node_name);
    free(proxy);
}

/* ---- commits ---- */

/* Each failure once. */
static void say_failure(struct family_state *family, const char *name, const char *text)
{
    if (family->said && strcmp(family->said, text) == 0)
        return;
    if (ruleset_is_owned_elsewhere(family->ruleset))
        log_warn("proxy", "family=%s waiting until the owner is gone: %s", name, text);
    else
        log_error("proxy", "family=%s not programmed, what is in force stays: %s", name, text);
    free(family->said);
    family->said = xstrdup(text);
}

static double wait_after_failure(const struct family_state *family)
{
    return ruleset_is_owned_elsewhere(family->ruleset)
               ? OWNER_POLL
               : fmin(fmax(2 * family->retry_wait, RETRY_FIRST), family->sync_period);
}

static void commit_failed(struct family_state *family, const char *name, double now,
                          struct error *err)
{
    say_failure(family, name, err->text);
    if (family->waiting_since == 0)
        family->waiting_since = now;
    family->retry_wait = wait_after_failure(family);
    family->retry_time = now + family->retry_wait;
    family->failed_time = now;
    error_clear(err);
}

static void commit_succeeded(struct family_state *family, const char *name,
                             const struct ruleset_stats *stats)
{
    if (!family->programmed || family->said)
        log_info("proxy", "family=%s in force frontends=%zu added=%zu deleted=%zu seconds=%.6f",
                 name, ruleset_frontends(family->ruleset), stats->elements_added,
                 stats->elements_deleted, stats->seconds);
    else if (stats->bytes)
        log_debug(2, "proxy", "family=%s committed added=%zu deleted=%zu bytes=%zu seconds=%.6f",
                  name, stats->elements_added, stats->elements_deleted, stats->bytes,
                  stats->seconds);
    family->programmed = true;
    family->waiting_since = 0;
    family->last_updated = clock_realtime();
    sync_figures_succeeded(&family->syncs, family->last_updated);
    family->retry_wait = family->retry_time = family->failed_time = 0;
    free(family->said);
    family->said = NULL;
}

/* When a failed family is tried again: a new change makes it sooner (spec 9.4). */
static double next_try(const struct family_state *family)
{
    double soon = family->failed_time + RETRY_CHANGED;
    return family->changed && soon < family->retry_time ? soon : family->retry_time;
}

/* One sync, as sync_figures.h says. */
static int sync_family(struct family_state *family, struct nft_socket *socket, double now,
                       struct ruleset_stats *stats, struct error *err)
{
    bool full = !ruleset_knows_kernel(family->ruleset);
    double begin = clock_monotonic();
    int result = ruleset_commit(family->ruleset, socket, now, stats, err);
    if (result && ruleset_is_owned_elsewhere(family->ruleset))
        return result; /* nothing was tried */
    sync_figures_count(&family->syncs, full, clock_monotonic() - begin, result ? NULL : stats);
    return result;
}

/* A commit that fails because the table is not as it was believed to be goes through when the
 * table has been read back, so that is done at once. */
static int commit(struct family_state *family, const char *name, struct nft_socket *socket,
                  double now, struct ruleset_stats *stats, struct error *err)
{
    bool believed = ruleset_knows_kernel(family->ruleset);
    family->changed = false;
    if (sync_family(family, socket, now, stats, err) == 0)
        return 0;
    if (!believed)
        return -1;
    log_warn("proxy", "family=%s reading the table back: %s", name, err->text);
    error_clear(err);
    return sync_family(family, socket, now, stats, err);
}

/* The time of the last change that there was something to do for. */
static void count_queued(struct family_state *family, double now)
{
    if (family->queued && ruleset_needs_commit(family->ruleset, now))
        sync_figures_queued(&family->syncs, clock_realtime());
    family->queued = false;
}

/* The earlier of two times, of which 0 is never. */
static double earlier(double a, double b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Commits one family if it has to. Returns when it wants to be looked at again, or 0. */
static double turn_family(struct proxy *proxy, enum family which, struct nft_socket *socket,
                          double now)
{
    struct family_state *family = &proxy->families[which];
    if (!family->ruleset)
        return 0;
    count_queued(family, now);
    if (next_try(family) > now)
        return next_try(family);
    double held = table_guard_check(&family->guard, family->ruleset, socket, now, family->changed);
    if (held > now)
        return held;
    if (ruleset_needs_commit(family->ruleset, now)) {
        struct error err = {0};
        struct ruleset_stats stats;
        double begin = clock_monotonic();
        if (commit(family, family_name(which), socket, now, &stats, &err)) {
            commit_failed(family, family_name(which), now, &err);
            return next_try(family);
        }
        commit_succeeded(family, family_name(which), &stats);
        table_guard_committed(&family->guard, family_name(which), family->ruleset, &stats,
                              clock_monotonic() - begin);
    }
    return earlier(ruleset_trim_time(family->ruleset), ruleset_retry_time(family->ruleset));
}

/* ---- other programs ---- */

/* Before the first programming, and while a family is not in use, nothing is ours. */
static bool is_guarded(const struct family_state *family)
{
    return family->ruleset && family->programmed;
}

void proxy_foreign_change(void *ctx, const struct table_change *change)
{
    struct family_state *family = &((struct proxy *)ctx)->families[change->family];
    if (is_guarded(family))
        table_guard_changed(&family->guard, family->ruleset, change);
}

void proxy_foreign_lost(void *ctx)
{
    struct proxy *proxy = ctx;
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (is_guarded(&proxy->families[i]))
            table_guard_lost(&proxy->families[i].guard, proxy->families[i].ruleset);
}

void proxy_foreign_settled(void *ctx, const struct table_program *program)
{
    struct proxy *proxy = ctx;
    for (int i = 0; i < FAMILY_COUNT; i++)
        table_guard_settled(&proxy->families[i].guard, program);
}

struct ruleset *proxy_ruleset(struct proxy *proxy, enum family family)
{
    return is_guarded(&proxy->families[family]) ? proxy->families[family].ruleset : NULL;
}

void proxy_audited(struct proxy *proxy, enum family family)
{
    table_guard_audited(&proxy->families[family].guard);
}

void proxy_audit_ended(struct proxy *proxy)
{
    proxy->audits++;
}

/* ---- turns ---- */

/* Health checks speak of what is in force in their family (spec 6.1), and flows are stale only by
 * it. */
static void tell_in_force(struct proxy *proxy, enum family family)
{
    policy_settle_health_checks(proxy->policy, family);
    if (proxy->flows && proxy->families[family].ruleset)
        flow_cleaner_run(proxy->flows, family);
    proxy->families[family].syncs.without_local = policy_ports_without_local(proxy->policy, family);
}

/* Where nothing waits for a sync, all that has come so far is in force. */
static void note_in_force(struct proxy *proxy)
{
    bool in_force[FAMILY_COUNT];
    for (int i = 0; i < FAMILY_COUNT; i++)
        in_force[i] = proxy->families[i].waiting_since == 0;
    service_cache_turn_over(proxy->services, in_force);
    endpoint_slice_cache_turn_over(proxy->slices, in_force);
}

/* Once, when everything is known for the first time. */
static void check_node_name(struct proxy *proxy)
{
    if (proxy->node_name_checked)
        return;
    proxy->node_name_checked = true;
    if (policy_node_never_named(proxy->policy))
        log_warn("proxy",
                 "endpoints name their nodes, but none is on node=%s: traffic policy Local finds "
                 "no endpoints here. If some are, see --hostname-override",
                 proxy->node_name);
}

double proxy_turn(struct proxy *proxy, struct nft_socket *socket, double now)
{
    if (!proxy_is_synced(proxy))
        return 0;
    policy_settle(proxy->policy);
    check_node_name(proxy);
    double next = 0;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        next = earlier(next, turn_family(proxy, (enum family)i, socket, now));
        if (proxy->families[i].waiting_since == 0)
            tell_in_force(proxy, (enum family)i);
    }
    note_in_force(proxy);
    return next;
}

/* Whether the kernel refused a frontend that @port has. */
static bool port_is_refused(const struct ruleset *ruleset, const struct port_state *port)
{
    for (const struct claim *claim = port->claims; claim; claim = claim->next_of_port)
        if (claim->target->winner == port && ruleset_is_refused(ruleset, &claim->target->frontend))
            return true;
    return false;
}

static bool is_refused(const void *ctx, const char *service_id, enum family family)
{
    const struct proxy *proxy = ctx;
    const struct service_state *service = policy_find_service(proxy->policy, service_id);
    const struct port_state *port = service ? service->ports : NULL;
    for (; port; port = port->next)
        if (port->family == family && port_is_refused(proxy->families[family].ruleset, port))
            return true;
    return false;
}

struct programmed proxy_programmed(const struct proxy *proxy)
{
    struct programmed facts = {.services = proxy->services,
                               .slices = proxy->slices,
                               .complete = proxy_is_synced(proxy),
                               .refused = is_refused,
                               .ctx = proxy};
    for (int i = 0; i < FAMILY_COUNT; i++) {
        facts.families[i] = proxy->families[i].ruleset != NULL;
        facts.lost[i] = facts.families[i] && ruleset_is_lost(proxy->families[i].ruleset);
    }
    return facts;
}

void proxy_dump(struct proxy *proxy, FILE *out)
{
    policy_settle(proxy->policy);
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (proxy->families[i].ruleset)
            ruleset_dump(proxy->families[i].ruleset, out);
}

void proxy_settle(struct proxy *proxy)
{
    policy_settle(proxy->policy);
}

void proxy_explain_sources(const struct proxy *proxy, struct explain_sources *sources)
{
    *sources = (struct explain_sources){.complete = proxy_is_synced(proxy),
                                        .node_name = proxy->node_name,
                                        .slices = proxy->slices,
                                        .service_cidrs = proxy->service_cidrs,
                                        .services = proxy->services,
                                        .policy = proxy->policy,
                                        .health = proxy->health,
                                        .no_external_ips = proxy->no_external_ips};
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct family_state *family = &proxy->families[i];
        sources->family[i].ruleset = family->ruleset;
        sources->family[i].programmed = family->programmed;
        sources->family[i].failure = family->waiting_since != 0 ? family->said : NULL;
        if (family->waiting_since != 0 &&
            clock_monotonic() - family->waiting_since >= 2 * family->sync_period)
            sources->unhealthy = true;
    }
}

static void family_figures(const struct proxy *proxy, enum family which,
                           struct proxy_figures *figures)
{
    const struct family_state *family = &proxy->families[which];
    if (!family->ruleset)
        return;
    figures->family[which].in_use = true;
    figures->family[which].frontends = ruleset_frontends(family->ruleset);
    figures->family[which].syncs = &family->syncs;
    figures->family[which].repairs = family->guard.repairs;
    figures->family[which].drift = family->guard.drift;
    figures->family[which].table = ruleset_figures(family->ruleset);
    figures->service_changes += service_cache_changes(proxy->services).seen;
    figures->slice_changes += endpoint_slice_cache_changes(proxy->slices).seen[which];
}

void proxy_figures(const struct proxy *proxy, struct proxy_figures *figures)
{
    memset(figures, 0, sizeof(*figures));
    figures->external_ips = !proxy->no_external_ips;
    figures->audits = proxy->audits;
    figures->conflicts = policy_conflicts(proxy->policy);
    figures->services = service_cache_count(proxy->services);
    figures->slices = endpoint_slice_cache_count(proxy->slices);
    figures->services_pending = service_cache_changes(proxy->services).pending;
    figures->slices_pending = endpoint_slice_cache_changes(proxy->slices).pending;
    memcpy(figures->left_out, proxy->left_out, sizeof(figures->left_out));
    for (int i = 0; i < FAMILY_COUNT; i++)
        family_figures(proxy, (enum family)i, figures);
}

void proxy_status(const struct proxy *proxy, struct daemon_status *status)
{
    double now = clock_monotonic();
    status->complete = proxy_is_synced(proxy);
    status->services = service_cache_count(proxy->services);
    status->slices = endpoint_slice_cache_count(proxy->slices);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct family_state *family = &proxy->families[i];
        if (!family->ruleset)
            continue;
        status->family[i].in_use = true;
        status->family[i].programmed = family->programmed;
        status->family[i].last_success = family->syncs.last_success;
        status->family[i].waiting = family->waiting_since > 0 ? now - family->waiting_since : 0;
        status->family[i].frontends = ruleset_frontends(family->ruleset);
    }
}

void proxy_health_status(void *ctx, struct health_status *status)
{
    const struct proxy *proxy = ctx;
    double now = clock_monotonic();
    memset(status, 0, sizeof(*status));
    status->programmed = proxy_is_programmed(proxy);
    status->node_eligible =
        own_node_is_seen(proxy->node) ? !own_node_is_leaving(proxy->node) : !proxy->node_required;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct family_state *family = &proxy->families[i];
        status->family[i].reported = family->ruleset != NULL;
        status->family[i].healthy =
            family->waiting_since == 0 || now - family->waiting_since < 2 * family->sync_period;
        status->family[i].last_updated = family->last_updated;
    }
}
