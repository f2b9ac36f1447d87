/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One bad element must not stop the rest: what the kernel rejects is quarantined, its owner stays
 * as applied, and everything else goes on. A quarantined entry is never dirty, until its retry is
 * due or its desired state changes.
 */
#include "quarantine.h"

#include "plain.h"
#include "state.h"

#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <math.h>
#include <string.h>

/* Seconds before a retry: doubled each time. */
#define WAIT_FIRST 30.0
#define WAIT_MOST 600.0
/* Retries per portion, and seconds between portions: finding what is rejected takes one message per
 * element. */
#define PORTION 256
#define PORTION_PAUSE 0.5

static double longer(double wait)
{
    return fmin(fmax(2 * wait, WAIT_FIRST), WAIT_MOST);
}

/* ---- log ---- */

static void log_rejected(const struct ruleset *rs, const struct rejection *rejection, int why)
{
    char *name = ruleset_name(rs, rejection->entry);
    if (name)
        log_error("table",
                  "%s was rejected by the kernel and keeps its previous rules, retrying in "
                  "seconds=%.0f: %s",
                  name, rejection->wait, strerror(why));
    free(name);
}

static void log_accepted(const struct ruleset *rs, const struct entry *entry)
{
    char *name = ruleset_name(rs, entry);
    if (name)
        log_info("table", "%s is applied now, after the kernel had rejected it", name);
    free(name);
}

/* ---- entering ---- */

/* Context of a pass over rejections, and their number. */
struct taking {
    struct ruleset *rs;
    double now;
    size_t n;
};

/* Applied backends keep their numbers in the kernel, or get one: a cut batch may have left them
 * without. */
void port_keep_affinity(struct ruleset *rs, struct port_entry *port)
{
    struct backends applied[PARTS] = {{NULL, 0}};
    if (!port->affinity)
        return;
    affinity_release(rs, port, SIZE_MAX);
    if (!entry_applied(SET_AFFINITY_TIMEOUTS, &port->entry) || !ruleset_knows_kernel(rs))
        return;
    for (enum port_part which = 0; which < PARTS; which++) {
        const struct slot_table *slots = port_slots(port, which);
        const uint32_t n = low_of_value(entry_applied(set_of_count(which), &port->entry));
        if (slots)
            applied[which] =
                (struct backends){slots->slots, n < slots->n_slots ? n : slots->n_slots};
    }
    affinity_hold(rs, port, &applied[PART_ALL], &applied[PART_LOCAL]);
    port->affinity->current = false; /* numbers are those of the applied backends */
}

static void keep_port(struct ruleset *rs, struct port_entry *port)
{
    port_keep_affinity(rs, port);
    port_hold_sources(rs, port, false);
}

static void take_entry(struct taking *t, struct entry *entry, int why)
{
    struct ruleset *rs = t->rs;
    struct quarantine *quarantine = &rs->quarantine;
    if (entry->quarantined)
        return; /* another of its elements was rejected, too */
    const bool first = !entry->rejection;
    if (first) {
        vec_push(&quarantine->all, (struct rejection){.entry = entry});
        entry->rejection = quarantine->all.n & 0xffffff;
        quarantine->n_plain += entry->kind == ENTRY_PLAIN;
    }
    if (entry->kind == ENTRY_PORT)
        keep_port(rs, as_port(entry));
    entry_clean(entry);
    entry->quarantined = true;
    struct rejection *rejection = &quarantine->all.v[entry->rejection - 1];
    rejection->wait = longer(rejection->wait);
    rejection->retry_time = t->now + rejection->wait;
    rs->stats.rejections++;
    t->n++;
    if (first)
        log_rejected(rs, rejection, why);
}

/* A frontend that has the count of its service port stays as it is together with the slots that the
 * count reaches. */
static void take_owner(struct taking *t, struct entry *entry, int why)
{
    const struct frontend_entry *frontend =
        entry->kind == ENTRY_FRONTEND ? as_frontend(entry) : NULL;
    if (frontend && frontend->port && frontend_has_count(frontend, frontend->port))
        take_entry(t, &frontend->port->entry, why);
    else
        take_entry(t, entry, why);
}

/* The service port of a plain affinity element, or NULL. */
static struct port_entry *port_of_plain(const struct ruleset *rs, const struct plain *plain)
{
    uint32_t number;
    if (*set_schema[plain_set(plain)].key != FIELD_CLASSID)
        return NULL;
    memcpy(&number, plain_key(plain), sizeof(number));
    return ruleset_port_of_number(rs, port_of_value(number));
}

/* Unless it is no longer to be sent. */
static void take_plain(struct taking *t, struct plain *plain, int why)
{
    if (plain_desired(plain) != plain->applied)
        take_entry(t, &plain->entry, why);
}

/* ---- whom a message is about ---- */

struct owner_search {
    const struct ruleset *rs;
    enum table_set set;
    bool adds;
    struct entry *owner;
    uint32_t slot; /* of its element */
};

static void find_owner(void *ctx, const struct nft_element *element)
{
    struct owner_search *search = ctx;
    const struct ruleset *rs = search->rs;
    struct applied_element applied;
    if (set_owner(search->set) != OWNER_RANGES) {
        if (ruleset_find_applied(rs, search->set, element, &applied))
            search->owner = applied.entry;
        search->slot = applied.element.slot;
        return;
    }
    vec_each (&rs->differences, it) /* the kernel names one end of a range */
        if (it->set == search->set && (search->adds ? it->desired : it->applied) &&
            range_ends_at(rs->family, plain_key(as_plain(it->entry)), element))
            search->owner = it->entry;
}

/* The entry that has the element in a message of the batch. */
static struct owner_search find_owner_of(const struct ruleset *rs, size_t message)
{
    const struct nlmsghdr *header = (const void *)(rs->batch.buffer + message);
    const char *set = netlink_text(nfnl_attribute(header, NFTA_SET_ELEM_LIST_SET));
    struct owner_search search = {.rs = rs,
                                  .set = set ? set_of_name(set) : TABLE_SETS,
                                  .adds = NFNL_MSG_TYPE(header->nlmsg_type) == NFT_MSG_NEWSETELEM};
    if (search.set < TABLE_SETS)
        nft_element_each(header, find_owner, &search);
    return search;
}

/* No service port can have an incomplete list. */
static void blame_list(struct taking *t, struct plain *plain, int why)
{
    struct ruleset *rs = t->rs;
    uint32_t list;
    struct cidr prefix;
    if (!source_of_key(rs->family, plain_key(plain), plain->key_length, &list, &prefix))
        return;
    const uint32_t value = value_of_list(list);
    for (size_t i = 0; i < rs->dirty.n; i++) { /* others may become dirty */
        struct entry *entry = rs->dirty.v[i];
        if (entry->kind == ENTRY_PORT && !entry->quarantined &&
            entry_applied(SET_SOURCE_LISTS, entry) != value &&
            port_list_value(as_port(entry)) == value)
            take_entry(t, entry, why);
    }
    if (plain->entry.desired)
        take_plain(t, plain, why);
}

/* No backend of a service port that stays as applied has a number if one cannot have it. */
static void drop_numbers(struct taking *t, struct port_entry *port)
{
    affinity_release(t->rs, port, SIZE_MAX);
    t->n++;
}

static void blame_plain(struct taking *t, struct plain *plain, int why)
{
    struct port_entry *port = port_of_plain(t->rs, plain);
    if (port && port->entry.dirty)
        take_entry(t, &port->entry, why);
    else if (port && port->affinity && plain_desired(plain) > plain->applied)
        drop_numbers(t, port);
    else if (plain_set(plain) == SET_ALLOWED_SOURCES)
        blame_list(t, plain, why);
    else
        take_plain(t, plain, why);
}

/* Whether an instance or its base is @which, or, if that is NULL, a new one. */
static bool is_built_on(const struct ruleset *rs, struct instance instance,
                        const struct instance *which)
{
    struct instance base;
    if (which ? memcmp(&instance, which, sizeof(instance)) == 0
              : !instances_have(&rs->instances, instance))
        return true;
    return instance_needs(instance, &base) && is_built_on(rs, base, which);
}

/* Blames all entries that need it. */
static void blame_instance(struct taking *t, const struct instance *which, int why)
{
    struct instance instance;
    vec_each (&t->rs->differences, it)
        if (set_instance(it->set, it->desired, &instance) && is_built_on(t->rs, instance, which))
            take_owner(t, it->entry, why);
}

static void blame(struct taking *t, const struct nft_rejection *rejection)
{
    struct ruleset *rs = t->rs;
    if (rejection->message == NFT_NO_MESSAGE) { /* the table as a whole was rejected */
        if (!ruleset_makes_table(rs))
            blame_instance(t, NULL, rejection->why);
        return;
    }
    if (rejection->message < rs->instances_begin)
        return; /* the base of all others */
    vec_each (&rs->new_instances, it)
        if (rejection->message < it->end) {
            blame_instance(t, &it->instance, rejection->why);
            return;
        }
    const struct owner_search found = find_owner_of(rs, rejection->message);
    struct entry *owner = found.owner;
    if (owner && kept_give_up(rs, found.set, owner, found.slot))
        t->n++;
    else if (owner && owner->kind == ENTRY_PLAIN)
        blame_plain(t, as_plain(owner), rejection->why);
    else if (owner)
        take_owner(t, owner, rejection->why);
}

/* Whether an errno may be about the messages, not the kernel's state. */
static bool is_about_content(int why)
{
    static const int others[] = {EEXIST, ENOENT, EPERM, EACCES,   ENOMEM,   ENOBUFS,
                                 EINTR,  EAGAIN, EBUSY, ERESTART, ETIMEDOUT};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (why == others[i])
            return false;
    return true;
}

/* Updates the time of the first retry. */
static void update_next(struct quarantine *quarantine)
{
    double next = 0;
    vec_each (&quarantine->all, it)
        if (it->entry->quarantined && (next == 0 || it->retry_time < next))
            next = it->retry_time;
    quarantine->next = next;
}

static bool is_quarantined(struct ruleset *rs, struct entry *entry)
{
    (void)rs;
    return entry->quarantined;
}

bool quarantine_take(struct ruleset *rs, double now, bool singly)
{
    struct taking t = {.rs = rs, .now = now};
    bool some_about_content = false;
    vec_each (&rs->batch.rejections, rejection) {
        if (!is_about_content(rejection->why))
            continue;
        some_about_content = true;
        if (singly)
            blame(&t, rejection);
    }
    ruleset_drop_dirty(rs, is_quarantined);
    update_next(&rs->quarantine);
    return t.n > 0 || (some_about_content && !singly);
}

/* ---- leaving ---- */

void quarantine_leave(struct ruleset *rs, struct entry *entry)
{
    if (!entry->quarantined)
        return;
    entry->quarantined = false;
    rs->quarantine.ports_left = rs->quarantine.ports_left || entry->kind == ENTRY_PORT;
}

/* The desired values of frontends that waited for a service port may have changed. */
static void wake_frontends(struct ruleset *rs)
{
    if (!rs->quarantine.ports_left)
        return;
    rs->quarantine.ports_left = false;
    hash_table_each (&rs->frontends, struct entry, entry)
        if (!entry->dirty && entry_desired(SET_SERVICES, entry) != as_frontend(entry)->applied)
            ruleset_mark_dirty(rs, entry);
}

void quarantine_retry(struct ruleset *rs, double now)
{
    struct quarantine *quarantine = &rs->quarantine;
    const bool due = quarantine->next != 0 && now >= quarantine->next;
    size_t n = 0, portion = isinf(now) ? SIZE_MAX : PORTION;
    for (size_t i = 0; due && i < quarantine->all.n; i++) {
        struct rejection *it = &quarantine->all.v[i];
        if (!it->entry->quarantined || now < it->retry_time)
            continue;
        if (n++ < portion) {
            quarantine_leave(rs, it->entry);
            ruleset_mark_dirty(rs, it->entry);
        } else {
            it->retry_time = now + PORTION_PAUSE;
        }
    }
    update_next(quarantine);
    wake_frontends(rs);
}

void quarantine_applied(struct ruleset *rs)
{
    update_next(&rs->quarantine);
}

static void forget_rejection(struct ruleset *rs, struct entry *entry)
{
    struct quarantine *quarantine = &rs->quarantine;
    struct rejection last = quarantine->all.v[--quarantine->all.n];
    quarantine_leave(rs, entry);
    quarantine->n_plain -= entry->kind == ENTRY_PLAIN;
    if (last.entry != entry) {
        last.entry->rejection = entry->rejection;
        quarantine->all.v[last.entry->rejection - 1] = last;
    }
    entry->rejection = 0;
}

void quarantine_end(struct ruleset *rs, struct entry *entry)
{
    if (!entry->rejection)
        return;
    log_accepted(rs, entry);
    forget_rejection(rs, entry);
}

void quarantine_free(struct ruleset *rs)
{
    while (rs->quarantine.all.n > 0)
        forget_rejection(rs, rs->quarantine.all.v[rs->quarantine.all.n - 1].entry);
    vec_free(&rs->quarantine.all);
}

/* ---- order ---- */

static bool grows(const struct entry *entry)
{
    for (enum table_set set = first_set(entry); set < end_of_sets(entry); set++)
        if (!entry_applied(set, entry) && entry_desired(set, entry))
            return true;
    return false;
}

void quarantine_sort_dirty(struct ruleset *rs)
{
    const size_t n = rs->dirty.n;
    size_t at = 0;
    struct entry **sorted = xcalloc(n ? n : 1, sizeof(struct entry *));
    for (int growing = 0; growing < 2; growing++)
        vec_each (&rs->dirty, it)
            if (grows(*it) == growing)
                sorted[at++] = *it;
    if (n)
        memcpy(rs->dirty.v, sorted, n * sizeof(struct entry *));
    free(sorted);
}
