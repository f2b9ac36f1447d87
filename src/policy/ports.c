/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The service ports of all Services, and the changes to their endpoints between two syncs. */
#include "state.h"

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
    port_mark(policy, port, 1U << STAGE_CLAIM | 1U << STAGE_FRONTENDS);
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
    if (policy->order.n > 1)
        qsort(policy->order.v, policy->order.n, sizeof(*policy->order.v), compare_specs);
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

bool service_has_departed(const struct policy *policy, const char *id)
{
    return hash_table_find(&policy->departed, service_key, hash_key_of_text(id)) != NULL;
}

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
    shares_clear(policy);
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

/* ---- endpoints ---- */

struct port_details *port_make_details(struct port_state *port)
{
    if (!port->details)
        port->details = xcalloc(1, sizeof(*port->details));
    return port->details;
}

struct selection_counts port_counts(const struct port_state *port)
{
    struct selection_counts counts;
    if (port->details && port->details->many)
        return port->details->counts;
    for (int i = 0; i < SORTS; i++)
        counts.n[i] = port->few[i];
    return counts;
}

void port_keep_counts(struct port_state *port, const struct selection_counts *counts)
{
    bool many = counts->n[SORT_ANY] > UINT8_MAX; /* the other counts are no larger */
    if (many) {
        port_make_details(port)->counts = *counts;
    } else {
        for (int i = 0; i < SORTS; i++)
            port->few[i] = (uint8_t)counts->n[i];
    }
    if (port->details)
        port->details->many = many;
}

static unsigned traits_of(const struct slice_endpoint *endpoint, const struct location *here)
{
    return endpoint ? endpoint_traits(endpoint->flags, endpoint->node_name, endpoint->hints, here)
                    : 0;
}

static void add_change(backend_change_vec *changes, const struct backend *backend, bool before,
                       bool after)
{
    if (before != after)
        vec_push(changes, (struct backend_change){*backend, after});
}

bool port_add_deltas(const struct policy *policy, struct port_state *port,
                     const endpoint_delta_vec *deltas, unsigned *seen)
{
    const struct location *here = &policy->here.location;
    const uint8_t needed = decision_sets_needed(port);
    struct selection_counts counts = port_counts(port);
    const struct selection_basis was = selection_basis_of(&counts);
    unsigned changed = 0;
    bool comes_or_goes = false;
    vec_each (deltas, it) {
        if (service_addresses_concern(policy, (enum family)port->family, &it->backend.address))
            return false;
        unsigned before = traits_of(it->before, here), after = traits_of(it->after, here);
        selection_count(&counts, before, -1);
        selection_count(&counts, after, 1);
        if (!it->before != !it->after)
            comes_or_goes = true;
        changed |= before ^ after;
        *seen |= after;
    }
    const struct selection_basis basis = selection_basis_of(&counts);
    if (!selection_basis_equal(&was, &basis) ||
        (changed & TRAIT_IN_USE && port->protocol == IPPROTO_UDP) ||
        (comes_or_goes && port->protocol == IPPROTO_TCP &&
         policy_cleans_flows(policy, (enum family)port->family, IPPROTO_TCP)))
        return false;
    struct port_details *details = port_make_details(port);
    vec_each (deltas, it) {
        unsigned before = traits_of(it->before, here), after = traits_of(it->after, here);
        uint8_t left = selection_sets(before, &basis) & needed,
                joined = selection_sets(after, &basis) & needed;
        add_change(&details->cluster, &it->backend, left & SET_CLUSTER, joined & SET_CLUSTER);
        add_change(&details->local, &it->backend, left & SET_LOCAL, joined & SET_LOCAL);
        add_change(&details->hairpin_changes, &it->backend, left && before & TRAIT_LOCAL,
                   joined && after & TRAIT_LOCAL);
    }
    port_keep_counts(port, &counts);
    return true;
}

void port_forget_deltas(struct port_state *port)
{
    struct port_details *details = port->details;
    if (!details)
        return;
    vec_free(&details->cluster);
    vec_free(&details->local);
    vec_free(&details->hairpin_changes);
    if (details->many || details->hairpins.n > 0 || details->held || details->most ||
        details->n_service_addresses)
        return;
    vec_free(&details->hairpins);
    free(details);
    port->details = NULL;
}
