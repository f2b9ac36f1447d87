/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads all elements of a table but verdicts, set by set (walk.h), and records them as applied.
 *
 * The keys of frontends are known from what is desired, those of slots from the values in ports and
 * local_ports. Sending an element takes a third of looking it up, and does nothing if the kernel
 * has it: so frontends that should lead where others were found to lead are sent.
 */
#include "plain.h"
#include "state.h"

/* ---- frontends that are sent ---- */

/* Sent in a transaction, below LARGE_BATCH bytes; of these, the kernel may reject some. */
#define SENT_MOST 448
#define REJECTIONS_MOST 8

/* Work (see ADOPTION_PIECE) of each, and of an entry that is looked at; entries in a piece. */
#define SENT_WORK 48
#define ENTRY_WORK 4
#define ENTRIES_MOST 1024

/* Whether the element of a frontend may be sent unread: another one of its service port and class
 * leads where it should lead, so all that packets meet there is in place. Not with source ranges,
 * which must be there first, and no cluster IP: one a service port, which may have the count in its
 * value. */
static bool is_sent(const struct adoption *a, const struct frontend_entry *frontend)
{
    const struct port_entry *port = frontend->port;
    return port && frontend->class && !(frontend->class & CLASS_RESTRICTED) &&
           !frontend->entry.quarantined && !port->entry.quarantined &&
           port->found_classes >> frontend->class & 1 && a->rejections < REJECTIONS_MOST &&
           !frontend->applied;
}

/* That @frontend (may be NULL) leads as desired, by the counts that others use, too. */
static void note_class(const struct frontend_entry *frontend)
{
    struct port_entry *port = frontend ? frontend->port : NULL;
    if (port && !frontend->entry.quarantined && !value_is_counted(frontend->applied) &&
        frontend->applied == entry_desired(SET_SERVICES, &frontend->entry))
        port->found_classes |= (uint8_t)(1U << frontend->class);
}

static void record_sent(struct ruleset *rs)
{
    struct adoption *a = &rs->adoption;
    vec_each (&a->sent, entry)
        entry_set_applied(rs, SET_SERVICES, *entry, entry_desired(SET_SERVICES, *entry));
    a->found.counted += a->sent.n;
    a->found.elements += a->sent.n;
    a->recorded += a->sent.n;
}

/* The kernel may lack memory, or have another value. */
static void look_up_sent(struct adoption *a)
{
    a->rejections++;
    vec_each (&a->sent, entry) {
        const struct key key = entry_key(SET_SERVICES, *entry, 0);
        walk_ask(&a->walk, &key);
    }
}

static void send_some(struct ruleset *rs, struct nft_socket *socket)
{
    struct adoption *a = &rs->adoption;
    struct error err = {0};
    struct nft_batch batch;
    if (a->sent.n == 0)
        return;
    nft_batch_init(&batch, rs->family, RULESET_TABLE);
    vec_each (&a->sent, entry) {
        const struct key key = entry_key(SET_SERVICES, *entry, 0);
        const uint32_t value = entry_desired(SET_SERVICES, *entry);
        nft_batch_element(&batch, ELEMENT_ADD, set_name(SET_SERVICES), key.bytes, key.length,
                          &value, sizeof(value));
    }
    if (nft_socket_commit(socket, &batch, &err))
        look_up_sent(a);
    else
        record_sent(rs);
    a->walk.work += SENT_WORK * a->sent.n;
    error_clear(&err);
    nft_batch_release(&batch);
    vec_clear(&a->sent);
}

/* ---- elements ---- */

static uint64_t known(void *ctx, enum table_set set)
{
    const struct ruleset *rs = ctx;
    uint64_t n = 0;
    if (set_owner(set) == OWNER_FRONTEND)
        return rs->n_desired;
    if (set_owner(set) == OWNER_SLOTS)
        hash_table_each (&rs->ports, const struct port_entry, port)
            n += port_count(port, part_of_set(set));
    return n;
}

/* The keys that @entry should have in the set. */
static void ask_entry(struct adoption *a, struct entry *entry)
{
    const enum table_set set = a->walk.set;
    const bool slots = set_owner(set) == OWNER_SLOTS;
    if (entry->kind != (slots ? ENTRY_PORT : ENTRY_FRONTEND))
        return;
    if (!slots && is_sent(a, as_frontend(entry))) {
        vec_push(&a->sent, entry);
        return;
    }
    const uint32_t n = slots ? port_count(as_port(entry), part_of_set(set)) : entry->desired;
    for (uint32_t i = 0; i < n; i++) {
        const struct key key = entry_key(set, entry, i);
        walk_ask(&a->walk, &key);
    }
}

/* While nothing is applied, all entries are dirty, unless they are quarantined. */
static struct entry *entry_at(const struct ruleset *rs, size_t at)
{
    const size_t quarantined = rs->quarantine.all.n;
    if (at < quarantined)
        return rs->quarantine.all.v[at].entry;
    return at - quarantined < rs->dirty.n ? rs->dirty.v[at - quarantined] : NULL;
}

static bool ask(void *ctx)
{
    struct ruleset *rs = ctx;
    struct adoption *a = &rs->adoption;
    struct entry *entry = entry_at(rs, a->next);
    for (unsigned left = ENTRIES_MOST;
         entry && left > 0 && a->sent.n < SENT_MOST && walk_asked(&a->walk) < NFT_KEYS_MOST;
         left--) {
        ask_entry(a, entry);
        a->walk.work += ENTRY_WORK;
        entry = entry_at(rs, ++a->next);
    }
    return entry != NULL;
}

static uint64_t recorded(void *ctx, enum table_set set)
{
    const struct ruleset *rs = ctx;
    (void)set;
    return rs->adoption.recorded;
}

static void take_read_element(void *ctx, const struct nft_element *from)
{
    struct ruleset *rs = ctx;
    struct adoption *a = &rs->adoption;
    const enum table_set set = a->walk.set;
    struct applied_element applied;
    if (!ruleset_find_applied(rs, set, from, &applied) ||
        !element_take_value(set, rs->family, from, &applied.element)) {
        a->found.foreign = true;
        return;
    }
    if (applied.there) {
        a->repeated++;
        return;
    }
    a->found.counted += kernel_elements(rs->family, set, from->key);
    a->found.elements++;
    a->recorded++;
    ruleset_record(rs, set, from, &applied, true);
    if (set == SET_SERVICES)
        note_class(applied.entry ? as_frontend(applied.entry) : NULL);
}

/* ---- sets ---- */

static void begin_set(struct adoption *a, enum table_set set)
{
    walk_begin(&a->walk, set);
    a->recorded = a->repeated = a->next = 0;
    a->rejections = 0;
}

void reading_begin(struct ruleset *rs)
{
    static const struct walk_ops ops = {known, ask, take_read_element, recorded};
    struct adoption *a = &rs->adoption;
    reading_stop(rs);
    a->walk.ops = &ops;
    a->walk.ctx = rs;
}

void reading_stop(struct ruleset *rs)
{
    struct adoption *a = &rs->adoption;
    begin_set(a, WALK_FIRST);
    vec_free(&a->sent);
    a->found = (struct table_contents){.elements = 0};
}

/* Whether each element was read. The kernel may skip and repeat some while it resizes a set or
 * another program changes it. Without a count, any change in the network namespace is suspicious; a
 * last try does not look for them, since they may never end. */
static bool is_whole(const struct ruleset *rs, struct nft_socket *socket, struct error *err)
{
    const struct adoption *a = &rs->adoption;
    const struct walk *walk = &a->walk;
    uint32_t generation = walk->generation;
    if (walk->counted)
        return a->recorded == walk->count || set_owner(walk->set) == OWNER_RANGES;
    if (a->tries + 1 < ADOPTION_TRIES && nft_socket_generation(socket, &generation, err))
        return false;
    return a->repeated == 0 && generation == walk->generation;
}

static int end_set(struct ruleset *rs, struct nft_socket *socket, struct error *err)
{
    struct adoption *a = &rs->adoption;
    const enum table_set set = a->walk.set;
    if (!a->found.foreign && !is_whole(rs, socket, err))
        return err->text ? -1 : error_set(err, "%s changed while it was read", set_name(set));
    begin_set(a, a->found.foreign ? TABLE_SETS : walk_after(set));
    if (a->walk.set == TABLE_SETS)
        a->state = ADOPTION_RULES;
    return 0;
}

int reading_step(struct ruleset *rs, struct nft_socket *socket, struct error *err)
{
    struct adoption *a = &rs->adoption;
    const enum walk_result result = walk_step(&a->walk, rs, socket, err);
    a->found.foreign = a->found.foreign || result == WALK_MISSING || result == WALK_FOREIGN;
    if (result == WALK_FAILED)
        return -1;
    if (result == WALK_GOES_ON) {
        send_some(rs, socket);
        return 0;
    }
    return end_set(rs, socket, err);
}
