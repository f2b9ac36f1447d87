/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "chains.h"

#include "state.h"
#include "template.h"

#include <math.h>
#include <stdlib.h>

/* ---- chains that are needed ---- */

bool set_instance(enum table_set set, uint32_t value, struct instance *instance)
{
    if (value == 0)
        return false;
    switch (set) {
    case SET_SERVICES:
        *instance = (struct instance){TEMPLATE_PICK, low_of_value(value)};
        return value_is_counted(value) && instance->key > 0;
    case SET_PORTS:
        *instance = (struct instance){TEMPLATE_PICK, low_of_value(value)};
        return true;
    case SET_LOCAL_PORTS:
        *instance = (struct instance){TEMPLATE_LOCAL_PICK, low_of_value(value)};
        return true;
    case SET_AFFINITY_TIMEOUTS:
        *instance = (struct instance){TEMPLATE_LEARN, timeout_of_value(value)};
        return true;
    case SET_SOURCE_LISTS:
        *instance = (struct instance){TEMPLATE_SOURCE_RANGES, 0};
        return true;
    default:
        return false;
    }
}

static void need_instance(const struct ruleset *rs, struct instances *seen,
                          struct instance instance, instance_vec *out)
{
    struct instance base;
    if (instances_have(&rs->instances, instance) || !instances_add(seen, instance))
        return;
    vec_push(out, instance);
    if (instance_needs(instance, &base))
        need_instance(rs, seen, base, out);
}

void ruleset_new_instances(const struct ruleset *rs, instance_vec *out)
{
    struct instances seen = {0};
    struct instance instance;
    vec_clear(out);
    vec_each (&rs->differences, it)
        if (set_instance(it->set, it->desired, &instance))
            need_instance(rs, &seen, instance, out);
    instances_clear(&seen);
    instances_sort(out);
}

void ruleset_add_template(const struct ruleset *rs, struct instance instance, struct layout *layout)
{
    struct layout_vars vars = rs->vars;
    struct error err = {0};
    vars.n = instance.key;
    if (layout_parse(&templates[instance.template], &vars, layout, &err))
        abort(); /* part of the program, which test_template checks */
}

void ruleset_add_templates(const struct ruleset *rs, const instance_vec *instances,
                           struct layout *layout)
{
    struct error err = {0};
    if (ruleset_add_base(rs, layout, &err))
        abort(); /* likewise */
    vec_each (instances, instance)
        ruleset_add_template(rs, *instance, layout);
}

/* ---- unused chains ----
 *
 * A separate transaction deletes them some seconds after their last use, when no packet is about to
 * enter them. Chains that another program's rule uses are retried later.
 */

/* Seconds between checks: a chain unused at two of them is deleted. */
#define LOOK_PERIOD 5.0
#define LOOK_PERIOD_MOST 600.0
/* Instances per transaction. */
#define MOST_INSTANCES 512

/* Verdicts go before the chains they lead to, and rules before the chains they name. */
static void encode_deletion(struct ruleset *rs, struct instance instance, struct nft_batch *batch)
{
    struct layout layout = {.sets = {0}};
    ruleset_add_template(rs, instance, &layout);
    vec_each (&layout.sets, set)
        vec_each (&set->verdicts, verdict)
            nft_batch_element(batch, ELEMENT_DELETE, rules_map(rs, set->name), &verdict->key,
                              sizeof(verdict->key), NULL, 0);
    vec_each (&layout.chains, chain)
        nft_batch_flush_chain(batch, chain->name);
    vec_each (&layout.chains, chain)
        nft_batch_delete_chain(batch, chain->name);
    layout_free(&layout);
}

/* @instances is sorted with dependencies first and deleted in reverse; those beyond the limit wait,
 * with their dependencies. */
static void delete_instances(struct ruleset *rs, struct nft_socket *socket, instance_vec *instances)
{
    struct error err = {0};
    struct nft_batch batch;
    if (instances->n > MOST_INSTANCES)
        vec_drop_first(instances, instances->n - MOST_INSTANCES);
    nft_batch_init(&batch, rs->family, RULESET_TABLE);
    for (size_t i = instances->n; i > 0; i--)
        encode_deletion(rs, instances->v[i - 1], &batch);
    if (nft_socket_commit(socket, &batch, &err) == 0) {
        vec_each (instances, instance)
            instances_drop(&rs->instances, *instance);
        rs->stats.elements -= batch.elements[ELEMENT_DELETE];
        rs->collect_wait = LOOK_PERIOD;
        log_debug(2, "table", "family=%s deleted unused chains instances=%zu",
                  nft_family_name(rs->family), instances->n);
    } else { /* deleted by another daemon, or used by another program's rule */
        log_debug(1, "table", "family=%s cannot delete unused chains: %s",
                  nft_family_name(rs->family), err.text);
        rs->collect_wait = fmin(2 * rs->collect_wait, LOOK_PERIOD_MOST);
        if (!batch.nothing_applied)
            ruleset_enter(rs, TABLE_UNKNOWN);
    }
    error_clear(&err);
    nft_batch_release(&batch);
}

void ruleset_collect(struct ruleset *rs, struct nft_socket *socket, double now)
{
    if (rs->instances.unused == 0)
        rs->collect_time = 0;
    else if (rs->collect_time == 0)
        rs->collect_time = now + LOOK_PERIOD;
    if (rs->collect_time == 0 || now < rs->collect_time)
        return;
    instance_vec idle = {0};
    instances_look_for_idle(&rs->instances, &idle);
    rs->collect_wait = fmax(rs->collect_wait, LOOK_PERIOD);
    if (idle.n > 0)
        delete_instances(rs, socket, &idle);
    else
        rs->collect_wait = LOOK_PERIOD;
    rs->collect_time = rs->instances.unused > 0 ? now + rs->collect_wait : 0;
    vec_free(&idle);
}
