/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Taking over a table: at the start, when one may be there from an earlier run, and after a failed
 * commit, when nothing is sure.
 */
#include "kube-nftd/base.h"
#include "record.h"

#include <linux/in.h>
#include <string.h>

/* A set that changes while it is read is read again, up to so many times. */
#define READ_TRIES 3

/* ---- forgetting ---- */

static void forget_port(struct port_record *port)
{
    if (!port->record.pending && !port->record.held_back)
        port_want_in_force(port);
    port_list_wishes(port);
    part_forget_kernel(&port->all);
    if (port->local)
        part_forget_kernel(port->local);
    port->record.trimming = false;
}

static void forget_record(struct ruleset *rs, struct record *record)
{
    if (record->is_port) {
        forget_port(as_port(record));
    } else {
        frontend_release_list(rs, as_frontend(record), 0);
    }
    ruleset_mark_pending(rs, record);
    for (enum table_set set = 0; set < NUMBER_SETS; set++)
        if (set_is_of(set, record))
            set_hold_number(rs, set, record, 0);
}

static void forget_kernel(struct ruleset *rs)
{
    hash_table_each (&rs->frontends, struct record, frontend)
        forget_record(rs, frontend);
    hash_table_each (&rs->ports, struct record, port)
        forget_record(rs, port);
    vec_clear(&rs->trims);
    source_lists_forget(&rs->lists, &rs->contents);
    contents_forget_kernel(&rs->contents);
    shapes_clear(&rs->shapes);
    rs->collect_time = 0;
}

/* ---- taking over ---- */

static void tell_abandoned(const struct ruleset *rs)
{
    vec_each (&rs->pending, it) {
        const struct frontend_record *frontend = (*it)->is_port ? NULL : as_frontend(*it);
        if (frontend && !(*it)->wanted && frontend->service.held &&
            frontend->frontend.protocol == IPPROTO_UDP)
            rs->abandoned(rs->ctx, &frontend->frontend);
    }
}

/* What is found at the start is worth a line; what is found after a failure, while it lasts, not.
 */
static void say(const struct ruleset *rs, const char *what, size_t elements)
{
    if (!rs->adopted)
        log_info("ruleset", "family=%s %s elements=%zu", nft_family_name(rs->family), what,
                 elements);
    else
        log_debug(2, "ruleset", "family=%s %s elements=%zu", nft_family_name(rs->family), what,
                  elements);
}

/* One try: 0 with the answer in @ours, or -1 if it has to be read again. */
static int try_take_over(struct ruleset *rs, struct nft_socket *socket, bool by_keys, bool *ours,
                         struct error *err)
{
    struct table_contents found;
    struct rules_repaired rules;
    forget_kernel(rs);
    if (ruleset_read_back(rs, socket, by_keys, &found, err))
        return -1;
    *ours = !found.foreign;
    if (!*ours)
        return 0;
    if (ruleset_repair_rules(rs, socket, &rules, err))
        return -1;
    if (!rs->adopted)
        connections_end(rs, socket);
    if (rs->last_number == 0) /* there may be affinity records of service ports that are gone */
        rs->last_number = arc4random() % MOST_PORTS;
    if (rs->abandoned)
        tell_abandoned(rs);
    rs->figures.elements = found.held + rules.verdicts;
    say(rs, "adopted the table", found.elements);
    return 0;
}

/* Takes over what a table of our shape holds; false if it has to be made anew. */
static bool take_over(struct ruleset *rs, struct nft_socket *socket)
{
    struct error err = {0};
    for (int i = 0; i < READ_TRIES; i++) {
        bool ours;
        error_clear(&err);
        if (try_take_over(rs, socket, i == 0, &ours, &err) == 0)
            return ours;
    }
    /* A table that lost a map, or never stops changing, is not worth more trouble. */
    log_warn("ruleset", "family=%s rebuilding the table: %s", nft_family_name(rs->family),
             err.text);
    error_clear(&err);
    return false;
}

/* Whether its maps and sets are those that we would make, and it is ours alone or everybody's as it
 * shall be. A table cannot become one that can be owned. */
static bool is_like_ours(const struct ruleset *rs, const struct nft_table_state *state)
{
    return state->exists && state->comment && strcmp(state->comment, rs->comment) == 0 &&
           (!rs->owned || state->flags & NFT_TABLE_PERSISTENT);
}

/* Before it is read, so that what is read stays true: claims it if that shall be, and wakes it up
 * if somebody made it dormant. */
static int set_flags(struct ruleset *rs, struct nft_socket *socket, uint32_t before,
                     struct error *err)
{
    const uint32_t flags =
        (before & ~NFT_TABLE_DORMANT) | (rs->owned ? NFT_TABLE_OWNED | NFT_TABLE_PERSISTENT : 0);
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

/* Looks for a table, and whether it is like ours. */
static int look(struct ruleset *rs, struct nft_socket *socket, bool *exists, bool *ours,
                struct error *err)
{
    struct nft_table_state state;
    rs->owned_elsewhere = false;
    if (nft_socket_read_table(socket, rs->family, RULESET_TABLE, &state, err))
        return -1;
    *exists = state.exists;
    *ours = is_like_ours(rs, &state);
    free(state.comment);
    rs->owned_elsewhere = state.owned_elsewhere;
    if (state.owned_elsewhere)
        return ruleset_say_owner(rs->family, &state, err);
    return *ours ? set_flags(rs, socket, state.flags, err) : 0;
}

bool ruleset_has_changed(struct ruleset *rs, struct nft_socket *socket)
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
    return !same;
}

int ruleset_claim(struct ruleset *rs, struct nft_socket *socket, bool *ours, struct error *err)
{
    bool exists;
    return look(rs, socket, &exists, ours, err);
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
    rs->rules_suspect = rs->rules_wrong = false;
    rs->figures.read_backs += rs->adopted;
    if (rs->table_missing) {
        forget_kernel(rs);
        rs->figures.elements = 0;
    } else {
        ruleset_adopt_lists(rs, now);
    }
    if (rs->table_replaced)
        say(rs, "replacing a table that has other maps or sets", 0);
    rs->adopted = true;
    return 0;
}

/* ---- rules ---- */

int ruleset_repair_rules(struct ruleset *rs, struct nft_socket *socket, struct rules_repaired *done,
                         struct error *err)
{
    int result = rules_repair(rs, socket, done, err);
    rs->repaired += done->bytes;
    if (done->bytes > 0)
        say(rs, "rewrote rules that differed from the desired ones", 0);
    return result;
}

int ruleset_mend(struct ruleset *rs, struct nft_socket *socket, bool *mended, struct error *err)
{
    bool exists, ours = false;
    struct rules_repaired done = {.bytes = 0};
    int result = look(rs, socket, &exists, &ours, err);
    *mended = false;
    if (rs->owned_elsewhere) {
        error_clear(err);
        return 0;
    }
    if (result || !ours)
        return result;
    result = rules_repair(rs, socket, &done, err);
    shapes_clear(&rs->shapes); /* what is in force is read back when it counts */
    *mended = done.bytes > 0;
    return result;
}
