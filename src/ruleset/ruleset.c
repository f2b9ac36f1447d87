/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/ruleset/ruleset.h"

#include "kube-nftd/base/log.h"
#include "record.h"

#include <inttypes.h>
#include <string.h>

/* So many elements of lists of sources come or go in one transaction, and so many slots of
 * frontends with many. */
#define PORTION 4096

/* One more whenever elements come to mean something else in maps and sets that are declared as
 * before: tables of other meanings are made anew, of this one only the rules that differ. */
#define MEANING 1

/* ---- configuration ---- */

/* The match for packets of pods, and with @reverse for all others; NULL without a detector. */
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

static void set_vars(struct ruleset *rs, const struct ruleset_config *config)
{
    snprintf(rs->mark, sizeof(rs->mark), "0x%x", config->mark);
    rs->from_pod = detector_text(rs->family, config, false);
    rs->not_from_pod =
        config->masquerade_all ? xstrdup("") : detector_text(rs->family, config, true);
    rs->vars = (struct layout_vars){.family = rs->family,
                                    .mark = rs->mark,
                                    .from_pod = rs->from_pod,
                                    .not_from_pod = rs->not_from_pod,
                                    .from_host = config->no_fib ? NULL : "fib saddr type local",
                                    .reject = config->no_reject ? "drop" : "reject"};
}

struct ruleset *ruleset_new(enum family family, const struct ruleset_config *config,
                            struct error *err)
{
    struct ruleset *rs = xcalloc(1, sizeof(*rs));
    rs->family = rs->affinity.family = rs->lists.family = family;
    rs->owned = config->owned;
    rs->dump_most = config->dump_most;
    rs->portion = config->portion ? config->portion : PORTION;
    rs->detector = config->detector;
    rs->abandoned = config->abandoned;
    rs->owner = config->owner;
    rs->ctx = config->ctx;
    set_vars(rs, config);
    nft_batch_init(&rs->batch, family, RULESET_TABLE);
    if (layout_parse(&templates[TEMPLATE_BASE], &rs->vars, &rs->base, err)) {
        ruleset_free(rs);
        return NULL;
    }
    snprintf(rs->comment, sizeof(rs->comment), "kube-nftd layout %016" PRIx64,
             layout_fingerprint(&rs->base, MEANING));
    return rs;
}

/* ---- records ---- */

static void free_extras(struct ruleset *rs, struct record *record)
{
    struct extras *extras = record->extras;
    if (!extras)
        return;
    affinity_release(&rs->affinity, &rs->contents, &extras->hold);
    source_lists_release(&rs->lists, extras->sources, 0);
    record_release_list(rs, record, 0);
    free(extras);
}

static struct hash_key key_of(const struct hash_link *link)
{
    return hash_key_of_frontend(&((const struct record *)link)->frontend);
}

void ruleset_free_record(struct ruleset *rs, struct record *record)
{
    hash_table_remove(&rs->records, &record->link);
    free_extras(rs, record);
    part_clear(&record->all);
    if (record->local)
        part_clear(record->local);
    free(record->local);
    free(record);
}

void ruleset_free(struct ruleset *rs)
{
    if (!rs)
        return;
    refusals_free(rs);
    hash_table_each (&rs->records, struct record, record)
        ruleset_free_record(rs, record);
    source_lists_forget(&rs->lists, &rs->contents);
    vec_free(&rs->lists.unused);
    vec_free(&rs->pending);
    vec_free(&rs->waiting);
    vec_free(&rs->trims);
    vec_free(&rs->suspects);
    boundaries_clear(&rs->boundaries);
    vec_free(&rs->seen);
    vec_free(&rs->service_cidrs);
    vec_free(&rs->pod_cidrs);
    contents_free(&rs->contents);
    shapes_clear(&rs->shapes);
    vec_free(&rs->new_shapes);
    nft_batch_release(&rs->batch);
    layout_free(&rs->base);
    free(rs->from_pod);
    free(rs->not_from_pod);
    free(rs);
}

struct record *ruleset_find_record(const struct ruleset *rs, const struct frontend *frontend)
{
    return hash_table_find(&rs->records, key_of, hash_key_of_frontend(frontend));
}

struct record *ruleset_record(struct ruleset *rs, const struct frontend *frontend)
{
    struct record *record = ruleset_find_record(rs, frontend);
    if (!record) {
        record = xcalloc(1, sizeof(*record));
        record->frontend = *frontend;
        hash_table_add(&rs->records, key_of, &record->link);
    }
    return record;
}

struct part *record_local(struct record *record)
{
    if (!record->local)
        record->local = xcalloc(1, sizeof(*record->local));
    return record->local;
}

struct extras *record_extras(struct record *record)
{
    if (!record->extras)
        record->extras = xcalloc(1, sizeof(*record->extras));
    return record->extras;
}

void record_list_wishes(struct record *record)
{
    part_list(&record->all);
    if (record->local)
        part_list(record->local);
}

void ruleset_mark_pending(struct ruleset *rs, struct record *record)
{
    if (record->pending)
        return;
    record->pending = true;
    vec_push(&rs->pending, record);
}

/* ---- wanted ---- */

static void want_backends(const struct record *record, struct part *part,
                          const struct backend *backends, size_t n)
{
    if (n > MAX_BACKENDS) {
        char text[FRONTEND_TEXT_SIZE];
        if (part->n_wanted < MAX_BACKENDS) /* or it was said before */
            log_error("ruleset", "frontend=%s uses %u of its %zu endpoints: more do not fit",
                      frontend_format(&record->frontend, text), MAX_BACKENDS, n);
        n = MAX_BACKENDS;
    }
    part_want(part, backends, n);
}

static void want_sources(struct ruleset *rs, struct extras *extras, const struct route *route)
{
    struct source_list *before = extras->sources;
    extras->sources =
        route->sources ? source_lists_hold(&rs->lists, route->sources, route->n_sources) : NULL;
    source_lists_release(&rs->lists, before, 0);
}

static void want_extras(struct ruleset *rs, struct record *record, const struct route *route)
{
    bool affine = route->has_any && route->affinity_timeout > 0;
    if (!record->extras && !affine && !route->sources)
        return;
    struct extras *extras = record_extras(record);
    extras->group = affine ? route->affinity_group : 0;
    extras->timeout = affine ? route->affinity_timeout : 0;
    want_sources(rs, extras, route);
}

static void want(struct ruleset *rs, const struct frontend *frontend, const struct route *route,
                 bool wanted)
{
    struct record *record = ruleset_record(rs, frontend);
    struct frontend_plan plan = ruleset_plan_frontend(rs, route, 0);
    size_t n = plan.n ? route->n_backends : 0, n_local = plan.n_local ? route->n_local : 0;
    rs->n_wanted += wanted;
    rs->n_wanted -= refusals_is_wanted(record);
    refusals_forget_wish(rs, record);
    record->wanted = wanted;
    record->wanted_flags = wanted ? plan.flags : 0;
    want_backends(record, &record->all, route->backends, n);
    if (n_local > 0 || record->local)
        want_backends(record, record_local(record), route->local_backends, n_local);
    want_extras(rs, record, route);
    ruleset_mark_pending(rs, record);
}

void ruleset_set(struct ruleset *rs, const struct frontend *frontend, const struct route *route)
{
    want(rs, frontend, route, true);
}

static bool wants_local(const struct record *record)
{
    return record->local && record->local->n_wanted > 0;
}

/* Whether what is wanted of @record is known as a list or difference that changes can be put on.
 * Session affinity gives each backend a number, so it wants to see them all. */
static bool can_change(const struct record *record, const struct route_change *change)
{
    return record && record->wanted && !record->refusal &&
           !(record->extras && record->extras->group) &&
           part_can_change(&record->all, change->backends, change->n_backends) &&
           (record->local ? part_can_change(record->local, change->local_backends, change->n_local)
                          : change->n_local == 0);
}

bool ruleset_change(struct ruleset *rs, const struct frontend *frontend,
                    const struct route_change *change)
{
    struct record *record = ruleset_find_record(rs, frontend);
    if (!can_change(record, change))
        return false;
    part_change(&record->all, change->backends, change->n_backends);
    if (record->local)
        part_change(record->local, change->local_backends, change->n_local);
    if (record->wanted_flags & FLAG_LOCAL && !(record->wanted_flags & FLAG_REJECTED))
        record->wanted_flags = (uint8_t)((record->wanted_flags & ~(unsigned)FLAG_DROPPED) |
                                         (wants_local(record) ? 0 : FLAG_DROPPED));
    ruleset_mark_pending(rs, record);
    return true;
}

void ruleset_remove(struct ruleset *rs, const struct frontend *frontend)
{
    const struct route nothing = {0};
    want(rs, frontend, &nothing, false);
}

size_t ruleset_frontends(const struct ruleset *rs)
{
    size_t n = rs->n_wanted;
    vec_each (&rs->refusals.records, it)
        if (refusals_holds_back(*it))
            n += (size_t)(*it)->wanted - (size_t)refusals_is_wanted(*it);
    return n;
}

const struct ruleset_figures *ruleset_figures(const struct ruleset *rs)
{
    return &rs->figures;
}

static void want_or_drop(struct ruleset *rs, enum table_set set, const struct key *key, bool want)
{
    if (want)
        contents_want(&rs->contents, set, key, NULL);
    else
        contents_drop(&rs->contents, set, key);
}

static void want_once(struct ruleset *rs, enum table_set set, const struct key *key, bool want)
{
    const struct content *known = contents_find(&rs->contents, set, key);
    if (want != (known && known->wanted))
        want_or_drop(rs, set, key, want);
}

void ruleset_set_cluster_ip(struct ruleset *rs, const struct address *address, bool in_use)
{
    struct key key = {.length = 0};
    key_put_address(&key, rs->family, address);
    want_once(rs, SET_CLUSTER_IPS, &key, in_use);
}

void ruleset_set_hairpin(struct ruleset *rs, uint8_t protocol, const struct backend *backend,
                         bool in_use)
{
    struct key key = {.length = 0};
    key_put_address(&key, rs->family, &backend->address);
    key_put_address(&key, rs->family, &backend->address);
    key_put_protocol(&key, protocol);
    key_put_port(&key, backend->port);
    want_once(rs, SET_HAIRPIN, &key, in_use);
}

static void want_ranges(struct ruleset *rs, enum table_set set, const range_vec *ranges,
                        bool wanted)
{
    vec_each (ranges, range) {
        struct key key = key_of_range(rs->family, range);
        want_or_drop(rs, set, &key, wanted);
    }
}

static void set_ranges(struct ruleset *rs, enum table_set set, range_vec *held,
                       const range_vec *ranges)
{
    want_ranges(rs, set, ranges, true);
    want_ranges(rs, set, held, false);
    vec_clear(held);
    vec_each (ranges, range)
        vec_push(held, *range);
}

void ruleset_set_service_cidrs(struct ruleset *rs, const range_vec *ranges)
{
    set_ranges(rs, SET_SERVICE_CIDRS, &rs->service_cidrs, ranges);
}

struct ruleset_senders ruleset_senders(const struct ruleset *rs)
{
    return (struct ruleset_senders){.host = rs->vars.from_host != NULL,
                                    .pods = rs->detector,
                                    .pod_cidrs = &rs->pod_cidrs,
                                    .pod_match = rs->from_pod,
                                    .rejects = strcmp(rs->vars.reject, "reject") == 0};
}

void ruleset_set_pod_cidrs(struct ruleset *rs, const range_vec *ranges)
{
    set_ranges(rs, SET_POD_CIDRS, &rs->pod_cidrs, ranges);
}

int ruleset_say_owner(enum family family, const struct nft_table_state *state, struct error *err)
{
    return error_set(err,
                     "table %s " RULESET_TABLE
                     " is owned by a running program, most likely another kube-nftd; its netlink "
                     "port, often its process ID, is %" PRIu32,
                     nft_family_name(family), state->owner);
}

int ruleset_cleanup(struct nft_socket *socket, enum family family, bool *existed, struct error *err)
{
    struct nft_table_state state;
    if (nft_socket_read_table(socket, family, RULESET_TABLE, &state, err))
        return -1;
    free(state.comment);
    *existed = state.exists;
    if (!state.exists)
        return 0;
    if (state.owned_elsewhere)
        return ruleset_say_owner(family, &state, err);
    struct nft_batch batch;
    nft_batch_init(&batch, family, RULESET_TABLE);
    nft_batch_delete_table(&batch);
    int result = nft_socket_commit(socket, &batch, err);
    nft_batch_release(&batch);
    return result;
}
