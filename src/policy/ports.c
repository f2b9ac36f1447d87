/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The service ports of all Services. */
#include "state.h"

#include "kube-nftd/table.h"

#include <linux/in.h>
#include <stdlib.h>
#include <string.h>

static struct hash_key service_key(const struct hash_link *link)
{
    return hash_key_of_text(((const struct service_state *)link)->service->id);
}

const struct service_state *policy_find_service(const struct policy *policy, const char *id)
{
    return hash_table_find(&policy->services, service_key, hash_key_of_text(id));
}

const struct hash_table *policy_services(const struct policy *policy)
{
    return &policy->services;
}

const struct service_port *port_state_spec(const struct port_state *port)
{
    return &port->owner->service->ports.v[port->index];
}

bool policy_serves_localhost(const struct policy *policy, const struct port_state *port)
{
    return policy->config.serves_localhost[port->family] && port->protocol == IPPROTO_TCP &&
           port_state_spec(port)->node_port != 0;
}

struct service_port_ref port_state_ref(const struct port_state *port)
{
    return (struct service_port_ref){port->owner->service->id, (enum family)port->family,
                                     port_state_spec(port)->name, port->protocol};
}

char *port_state_name(const struct port_state *port)
{
    const char *name = port_state_spec(port)->name;
    return xasprintf("%s%s%s", port->owner->service->id, *name ? ":" : "", name);
}

struct port_details *port_make_details(struct port_state *port)
{
    if (!port->details)
        port->details = xcalloc(1, sizeof(*port->details));
    return port->details;
}

void port_forget_deltas(struct port_state *port)
{
    struct port_details *details = port->details;
    if (!details)
        return;
    vec_free(&details->changes);
    if (details->hairpins.n > 0 || details->most || details->n_service_addresses)
        return;
    vec_free(&details->hairpins);
    free(details);
    port->details = NULL;
}

static void free_port(struct port_state *port)
{
    struct claim *claim, *next;
    for (claim = port->claims; claim; claim = next) {
        next = claim->next_of_port;
        free(claim);
    }
    if (port->details) {
        port_forget_deltas(port);
        if (port->details)
            vec_free(&port->details->hairpins);
    }
    free(port->details);
    free(port);
}

/* ---- the sets a service port needs (docs/behaviour.md 3.2) ---- */

static bool is_externally_reachable(const struct port_state *port)
{
    const struct outside *outside = service_outside(port->owner->service);
    return port_state_spec(port)->node_port != 0 || outside->external_ips[port->family].n > 0 ||
           outside->load_balancer_ips[port->family].n > 0;
}

bool only_local_endpoints(const struct port_state *port, bool external)
{
    const struct service *service = port->owner->service;
    return external ? service->external_local && is_externally_reachable(port)
                    : service->internal_local;
}

uint8_t port_sets_needed(const struct port_state *port)
{
    bool internal_local = only_local_endpoints(port, false);
    bool cluster = !internal_local || is_externally_reachable(port);
    bool local = internal_local || only_local_endpoints(port, true);
    return (uint8_t)((cluster ? BACKENDS_CLUSTER : 0) | (local ? BACKENDS_LOCAL : 0));
}

/* ---- the order of ports ---- */

static int compare_names(const struct service_port *a, const struct service_port *b)
{
    if (a->protocol != b->protocol)
        return (int)a->protocol - (int)b->protocol;
    return a->name == b->name ? 0 : strcmp(a->name, b->name);
}

/* By protocol and name, then by index. */
static int compare_specs(const void *a, const void *b)
{
    const struct service_port *p = *(const struct service_port *const *)a,
                              *q = *(const struct service_port *const *)b;
    int order = compare_names(p, q);
    return order ? order : (p > q) - (p < q);
}

/* ---- changes of Services ---- */

static struct port_state *new_port(struct policy *policy, struct service_state *owner, int family,
                                   uint8_t protocol)
{
    struct port_state *port = xcalloc(1, sizeof(*port));
    port->owner = owner;
    port->family = (uint8_t)family & 1;
    port->protocol = protocol;
    /* Ids are not reused soon, as state under an old id may not be cleaned up yet. */
    policy->last_id = policy->last_id % MOST_ROUTE_ID + 1;
    port->id = policy->last_id;
    return port;
}

static void remove_port(struct policy *policy, struct port_state *port)
{
    port->owner->n_removed++;
    port->removed = true;
    port->work = 0;
    port_mark(policy, port, 1U << STAGE_FRONTENDS);
}

/* Negative if @port, of the Service @before, sorts before @spec in @family. */
static int compare_port(const struct port_state *port, const struct service *before, int family,
                        const struct service_port *spec)
{
    int order = (int)port->family - family;
    return order ? order : compare_names(&before->ports.v[port->index], spec);
}

/* Chains the ports of the owner's Service in order: matching ports of @old, which belong to the
 * Service @before, and new ones. Removes the others of @old. */
static void chain_ports(struct policy *policy, struct service_state *owner,
                        const struct service *before, struct port_state *old)
{
    const struct service *service = owner->service;
    struct port_state **end = &owner->ports, *next;
    vec_clear_few(&policy->order);
    for (size_t i = 0; service && !service->skipped && i < service->ports.n; i++)
        vec_push(&policy->order, &service->ports.v[i]);
    vec_sort(&policy->order, compare_specs);
    for (int family = 0; family < FAMILY_COUNT; family++) {
        vec_each (&policy->order, spec) {
            int order = 1;
            if (!service->has_cluster_ip[family])
                break;
            for (; old && (order = compare_port(old, before, family, *spec)) < 0; old = next) {
                next = old->next;
                remove_port(policy, old);
            }
            struct port_state *port = old;
            if (old && order == 0)
                old = old->next;
            else
                port = new_port(policy, owner, family, (*spec)->protocol);
            port->index = (uint32_t)(*spec - service->ports.v) & 0xffffff;
            port->whole = true;
            port_mark(policy, port, WORK_ALL);
            *end = port;
            end = &port->next;
        }
    }
    *end = NULL;
    for (; old; old = next) {
        next = old->next;
        remove_port(policy, old);
    }
}

/* ---- Services, and departed ones: what is left of them has their place in the order of claims
 * ---- */

static void free_departed(struct policy *policy, struct service_state *state)
{
    struct service *service = (struct service *)state->service;
    hash_table_remove(&policy->departed, &state->link);
    free(service->id);
    free(service);
    free(state);
}

void port_forget(struct policy *policy, struct port_state *port)
{
    struct service_state *owner = port->owner;
    free_port(port);
    if (--owner->n_removed == 0 && owner->departed)
        free_departed(policy, owner);
}

static void depart(struct policy *policy, struct service_state *state, const struct service *before)
{
    struct service *left = xcalloc(1, sizeof(*left));
    left->id = xstrdup(before->id);
    left->created = before->created;
    hash_table_remove(&policy->services, &state->link);
    state->service = left;
    state->departed = true;
    chain_ports(policy, state, before, state->ports);
    hash_table_add(&policy->departed, service_key, &state->link);
    if (state->n_removed == 0)
        free_departed(policy, state);
}

/* Whether a Service was deleted and created again under the same name. */
static bool is_another(const struct service *before, const struct service *after)
{
    return before && after &&
           (before->created != after->created ||
            memcmp(&before->uid, &after->uid, sizeof(after->uid)) != 0);
}

void ports_change(struct policy *policy, const struct service *before, const struct service *after)
{
    struct service_state *state = NULL;
    if (is_another(before, after)) { /* inherits neither affinity records nor counts */
        ports_change(policy, before, NULL);
        before = NULL;
    }
    if (before)
        state = hash_table_find(&policy->services, service_key, hash_key_of_text(before->id));
    if (state && !after) {
        depart(policy, state, before);
        return;
    }
    if (!state) {
        state = xcalloc(1, sizeof(*state));
        state->service = after;
        hash_table_add(&policy->services, service_key, &state->link);
    }
    state->service = after;
    chain_ports(policy, state, before, before ? state->ports : NULL);
}

bool policy_service_waits(const void *ctx, const char *service_id, enum family family)
{
    const struct policy *policy = ctx;
    const struct service_state *service = policy_find_service(policy, service_id);
    if ((service && service->n_removed > 0) ||
        hash_table_find(&policy->departed, service_key, hash_key_of_text(service_id)))
        return true;
    for (const struct port_state *port = service ? service->ports : NULL; port; port = port->next) {
        const struct table *table = policy->config.tables[port->family];
        if (port->family == family &&
            (port->work || (table && ruleset_port_is_waiting(table_ruleset(table), port->id))))
            return true;
    }
    return false;
}

static void clear_services(struct hash_table *services)
{
    hash_table_each (services, struct service_state, state) {
        struct port_state *port, *next;
        for (port = state->ports; port; port = next) {
            next = port->next;
            free_port(port);
        }
        hash_table_remove(services, &state->link);
        free(state);
    }
}

void ports_clear(struct policy *policy)
{
    port_state_vec *queues = policy->queues[0];
    for (int i = 0; i < LEVELS * STAGES; i++)
        vec_each (&queues[i], it) {
            (*it)->listed &= ~(1U << i % STAGES) & WORK_ALL;
            if ((*it)->removed && !(*it)->listed)
                free_port(*it);
        }
    queue_clear(policy);
    hash_table_each (&policy->departed, struct service_state, state)
        free_departed(policy, state);
    clear_services(&policy->services);
    vec_free(&policy->order);
}
