/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adopts a table: at startup, when one may exist from the previous process, and after a failed
 * commit, when its state is uncertain. Reads all of it back.
 */
#include "state.h"

#include <linux/in.h>
#include <string.h>

/* ---- slots by key ----
 *
 * The values in ports and local_ports give the keys of all slots. For each 32 KiB of a dump the
 * kernel walks a map from its beginning: half a million slots take 14 s, but only 2 s by key.
 */

/* Number of slots at which both take equally long. */
#define DUMP_MOST 65536

/* A query of keys. */
struct asking {
    struct nft_socket *socket;
    enum family family;
    enum table_set set;
    nft_element_fn fn;
    void *ctx;
    uint8_t bytes[NFT_KEYS_MOST * KEY_SIZE];
    struct nft_keys keys;
    bool missing; /* an element was missing: the keys are wrong */
};

static uint32_t count_of(const struct port_entry *port, enum table_set set)
{
    return low_of_value(entry_applied(set_of_count(part_of_set(set)), &port->entry));
}

static int ask(struct asking *asking, struct error *err)
{
    const size_t n = asking->keys.n;
    size_t found;
    asking->keys.n = 0;
    const struct nft_keys keys = {asking->bytes, asking->keys.length, n};
    if (n == 0)
        return 0;
    if (nft_socket_get_elements(asking->socket, asking->family, RULESET_TABLE,
                                set_name(asking->set), &keys, asking->fn, asking->ctx, &found, err))
        return -1;
    asking->missing = asking->missing || found != n;
    return 0;
}

static int ask_for_all(struct asking *asking, const struct ruleset *rs, struct error *err)
{
    hash_table_each (&rs->ports, const struct port_entry, port)
        for (uint32_t i = 0; i < count_of(port, asking->set); i++) {
            const struct key key = key_of_slot(port->number, i);
            asking->keys.length = key.length;
            memcpy(asking->bytes + asking->keys.n++ * key.length, key.bytes, key.length);
            if (asking->keys.n == NFT_KEYS_MOST && ask(asking, err))
                return -1;
        }
    return ask(asking, err);
}

/* Passes all of the map to @fn and sets @done, but only if it is large and the kernel reports the
 * expected number of elements. -1 also if some elements are missing. */
static int read_by_keys(const struct ruleset *rs, struct nft_socket *socket, enum table_set set,
                        nft_element_fn fn, void *ctx, bool *done, struct error *err)
{
    struct asking asking = {
        .socket = socket, .family = rs->family, .set = set, .fn = fn, .ctx = ctx};
    uint64_t expected = 0;
    uint32_t count;
    bool counted;
    hash_table_each (&rs->ports, const struct port_entry, port)
        expected += count_of(port, set);
    if (expected <= (rs->config.dump_most ? rs->config.dump_most : DUMP_MOST))
        return 0;
    if (nft_socket_count_elements(socket, rs->family, RULESET_TABLE, set_name(set), &count,
                                  &counted, err))
        return -1;
    if (!counted || count != expected)
        return 0;
    if (ask_for_all(&asking, rs, err))
        return -1;
    *done = true;
    return asking.missing ? error_set(err, "%s does not have the expected slots", set_name(set))
                          : 0;
}

/* ---- all elements ---- */

struct reading {
    struct ruleset *rs;
    enum table_set set; /* being read */
    struct table_contents *found;
    bool torn; /* an element came twice: the kernel resized the table and may have skipped some */
    struct boundaries boundaries; /* in a set of ranges */
};

static void on_element(void *ctx, const struct nft_element *from)
{
    struct reading *r = ctx;
    struct applied_element applied;
    r->found->counted++;
    if (set_owner(r->set) == OWNER_RANGES) {
        boundaries_take(&r->boundaries, r->rs->family, from);
        return;
    }
    if (!ruleset_find_applied(r->rs, r->set, from, &applied) ||
        !element_take_value(r->set, r->rs->family, from, &applied.element)) {
        r->found->foreign = true;
        return;
    }
    r->found->elements++;
    r->torn = r->torn || applied.there;
    ruleset_record(r->rs, r->set, from, &applied, true);
}

static void take_ranges(struct reading *r)
{
    range_vec ranges = {0};
    enum boundaries_verdict verdict = boundaries_pair(&r->boundaries, r->rs->family, &ranges);
    r->torn = r->torn || verdict == BOUNDARIES_TORN;
    r->found->foreign = r->found->foreign || verdict == BOUNDARIES_FOREIGN;
    r->found->elements += ranges.n;
    vec_each (&ranges, range) {
        const struct key key = key_of_range(r->rs->family, range);
        r->torn = !plain_observe(&r->rs->plain, r->set, &key, NULL, true) || r->torn;
    }
    vec_free(&ranges);
    boundaries_clear(&r->boundaries);
}

static int read_set(struct reading *r, struct nft_socket *socket, bool by_keys, struct error *err)
{
    bool done = false;
    if (by_keys && set_owner(r->set) == OWNER_SLOTS &&
        read_by_keys(r->rs, socket, r->set, on_element, r, &done, err))
        return -1;
    if (!done && nft_socket_read_elements(socket, r->rs->family, RULESET_TABLE, set_name(r->set),
                                          on_element, r, err))
        return -1;
    if (set_owner(r->set) == OWNER_RANGES)
        take_ranges(r);
    return 0;
}

int ruleset_read_back(struct ruleset *rs, struct nft_socket *socket, bool by_keys,
                      struct table_contents *found, struct error *err)
{
    struct reading r = {.rs = rs, .found = found};
    int result = 0;
    *found = (struct table_contents){.elements = 0};
    for (r.set = 0; r.set < TABLE_SETS && result == 0; r.set++)
        result = read_set(&r, socket, by_keys, err);
    boundaries_clear(&r.boundaries);
    if (result == 0 && r.torn)
        result = error_set(err, "the kernel returned elements twice");
    return result;
}

/* ---- adoption ---- */

/* Attempts to read a set that changes meanwhile. */
#define READ_TRIES 3

static void forget_entry(struct ruleset *rs, struct entry *entry)
{
    if (entry->is_port) {
        struct port_entry *port = as_port(entry);
        port_list_desired(port);
        slots_forget(&port->all);
        if (port->local)
            slots_forget(port->local);
        entry->trimming = entry->trim = false;
    } else {
        frontend_release_list(rs, as_frontend(entry), 0);
    }
    ruleset_mark_dirty(rs, entry);
    for (enum table_set set = first_set(entry); set < end_of_sets(entry); set++)
        entry_set_applied(rs, set, entry, 0);
}

static void forget_applied(struct ruleset *rs)
{
    hash_table_each (&rs->frontends, struct entry, frontend)
        forget_entry(rs, frontend);
    hash_table_each (&rs->ports, struct entry, port)
        forget_entry(rs, port);
    vec_clear(&rs->trims);
    source_lists_forget(&rs->lists, &rs->plain);
    plain_forget_applied(&rs->plain);
    instances_clear(&rs->instances);
    rs->collect_time = 0;
}

/* Frontends hold the lists that they lead to. */
static void adopt_lists(struct ruleset *rs, double now)
{
    list_value_vec values = {0};
    hash_table_each (&rs->frontends, struct frontend_entry, it)
        if (it->applied[SET_RESTRICTED])
            vec_push(&values, it->applied[SET_RESTRICTED]);
    source_lists_adopt(&rs->lists, &rs->plain, &values, now);
    vec_each (&values, value)
        source_list_hold(source_lists_find(&rs->lists, *value));
    vec_free(&values);
}

static void report_abandoned(const struct ruleset *rs)
{
    vec_each (&rs->dirty, it) {
        const struct frontend_entry *frontend = (*it)->is_port ? NULL : as_frontend(*it);
        if (frontend && !(*it)->desired && frontend->applied[SET_SERVICES] &&
            frontend->frontend.protocol == IPPROTO_UDP)
            rs->config.abandoned(rs->config.ctx, &frontend->frontend);
    }
}

/* Logs tables found at startup; not those found during repeated failures. */
static void log_found(const struct ruleset *rs, const char *what, size_t elements)
{
    if (!rs->adopted)
        log_info("ruleset", "family=%s %s elements=%zu", nft_family_name(rs->family), what,
                 elements);
    else
        log_debug(2, "ruleset", "family=%s %s elements=%zu", nft_family_name(rs->family), what,
                  elements);
}

/* One attempt. Returns 0 and the result in @ours, or -1: read again. */
static int try_take_over(struct ruleset *rs, struct nft_socket *socket, bool by_keys, bool *ours,
                         struct error *err)
{
    struct table_contents found;
    struct rules_repaired rules;
    forget_applied(rs);
    if (ruleset_read_back(rs, socket, by_keys, &found, err))
        return -1;
    *ours = !found.foreign;
    if (!*ours)
        return 0;
    if (ruleset_repair_rules(rs, socket, &rules, err))
        return -1;
    if (!rs->adopted)
        connections_end(rs, socket);
    if (rs->numbers.last == 0) /* affinity records of removed service ports may exist */
        rs->numbers.last = arc4random() % MOST_PORTS;
    if (rs->config.abandoned)
        report_abandoned(rs);
    rs->stats.elements = found.counted + rules.verdicts;
    log_found(rs, "adopted the table", found.elements);
    return 0;
}

/* Adopts a table of our layout; false if it must be recreated. */
static bool take_over(struct ruleset *rs, struct nft_socket *socket)
{
    struct error err = {0};
    for (int i = 0; i < READ_TRIES; i++) {
        bool ours;
        error_clear(&err);
        if (try_take_over(rs, socket, i == 0, &ours, &err) == 0)
            return ours;
    }
    /* A table without one of its maps, or one that never stops changing, is recreated. */
    log_warn("ruleset", "family=%s rebuilding the table: %s", nft_family_name(rs->family),
             err.text);
    error_clear(&err);
    return false;
}

/* Whether the table has our maps and sets, and is ownable if configured. An existing table cannot
 * be made ownable. */
static bool is_like_ours(const struct ruleset *rs, const struct nft_table_state *state)
{
    return state->exists && state->comment && strcmp(state->comment, rs->comment) == 0 &&
           (!rs->config.owned || state->flags & NFT_TABLE_PERSISTENT);
}

bool ruleset_is_still_ours(struct ruleset *rs, struct nft_socket *socket)
{
    struct error err = {0};
    struct nft_table_state state;
    bool same = false;
    if (nft_socket_read_table(socket, rs->family, RULESET_TABLE, &state, &err) == 0) {
        same = is_like_ours(rs, &state) && !state.owned_elsewhere &&
               !(state.flags & NFT_TABLE_DORMANT);
        free(state.comment);
    }
    error_clear(&err);
    return same;
}

/* Before the table is read, so that the result stays valid: claims it if configured, and clears the
 * dormant flag. */
static int set_flags(struct ruleset *rs, struct nft_socket *socket, uint32_t before,
                     struct error *err)
{
    const uint32_t flags = (before & ~NFT_TABLE_DORMANT) |
                           (rs->config.owned ? NFT_TABLE_OWNED | NFT_TABLE_PERSISTENT : 0);
    if (flags == before)
        return 0;
    struct nft_batch batch;
    nft_batch_init(&batch, rs->family, RULESET_TABLE);
    nft_batch_set_table_flags(&batch, flags);
    int result = nft_socket_commit(socket, &batch, err);
    rs->repaired += result == 0 && before & NFT_TABLE_DORMANT ? batch.used : 0;
    nft_batch_release(&batch);
    return result;
}

static int owned_elsewhere(enum family family, const struct nft_table_state *state,
                           struct error *err)
{
    return error_set(err,
                     "table %s " RULESET_TABLE
                     " is owned by a running program, most likely another kube-nftd; its netlink "
                     "port, often its process ID, is %u",
                     nft_family_name(family), state->owner);
}

/* Looks for a table and checks whether it is like ours. */
static int look(struct ruleset *rs, struct nft_socket *socket, bool *exists, bool *ours,
                struct error *err)
{
    struct nft_table_state state;
    rs->owned_elsewhere = *ours = false;
    if (nft_socket_read_table(socket, rs->family, RULESET_TABLE, &state, err))
        return -1;
    *exists = state.exists;
    *ours = is_like_ours(rs, &state);
    free(state.comment);
    rs->owned_elsewhere = state.owned_elsewhere;
    if (state.owned_elsewhere)
        return owned_elsewhere(rs->family, &state, err);
    return *ours ? set_flags(rs, socket, state.flags, err) : 0;
}

int ruleset_claim(struct ruleset *rs, struct nft_socket *socket, bool *ours, struct error *err)
{
    bool exists;
    const int result = look(rs, socket, &exists, ours, err);
    if (!rs->owned_elsewhere)
        return result;
    *ours = false;
    error_clear(err);
    return 0;
}

int ruleset_adopt(struct ruleset *rs, struct nft_socket *socket, double now, struct error *err)
{
    bool exists, ours;
    if (look(rs, socket, &exists, &ours, err))
        return -1;
    rs->strangers_stay = false;
    rs->table_missing = !ours || !take_over(rs, socket);
    rs->table_replaced = exists && rs->table_missing;
    rs->kernel_known = true;
    rs->recheck_rules = rs->rules_wrong = false;
    rs->stats.read_backs += rs->adopted;
    if (rs->table_missing) {
        forget_applied(rs);
        rs->stats.elements = 0;
    } else {
        adopt_lists(rs, now);
    }
    if (rs->table_replaced)
        log_found(rs, "replacing a table that has other maps or sets", 0);
    rs->adopted = true;
    return 0;
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
        return owned_elsewhere(family, &state, err);
    struct nft_batch batch;
    nft_batch_init(&batch, family, RULESET_TABLE);
    nft_batch_delete_table(&batch);
    int result = nft_socket_commit(socket, &batch, err);
    nft_batch_release(&batch);
    return result;
}

/* ---- rules ---- */

int ruleset_repair_rules(struct ruleset *rs, struct nft_socket *socket, struct rules_repaired *done,
                         struct error *err)
{
    int result = rules_repair(rs, socket, done, err);
    rs->repaired += done->bytes;
    if (done->bytes > 0)
        log_found(rs, "rewrote rules that differed from the desired ones", 0);
    return result;
}

int ruleset_repair_previous(struct ruleset *rs, struct nft_socket *socket, bool *repaired,
                            struct error *err)
{
    bool ours = false;
    struct rules_repaired done = {.bytes = 0};
    *repaired = false;
    if (ruleset_claim(rs, socket, &ours, err))
        return -1;
    if (!ours)
        return 0;
    const int result = rules_repair(rs, socket, &done, err);
    instances_clear(&rs->instances); /* the applied state is read back later */
    *repaired = done.bytes > 0;
    return result;
}
