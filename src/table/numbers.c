/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "numbers.h"

#include "state.h"

#include <string.h>
#include <utlist.h>

#define WORD_BITS 64u

void numbers_init(struct port_numbers *n, uint32_t most)
{
    n->most = most && most < MOST_PORTS ? most : MOST_PORTS;
    n->ports = xcalloc(MOST_PORTS + 1, sizeof(struct port_entry *));
    n->unused = xcalloc(n->most / WORD_BITS + 1, sizeof(*n->unused));
    for (uint32_t p = 1; p <= n->most; p++)
        n->unused[p / WORD_BITS] |= UINT64_C(1) << p % WORD_BITS;
    n->n_unused = n->most;
}

void numbers_free(struct port_numbers *n)
{
    free(n->ports);
    free(n->unused);
}

/* ---- numbers ---- */

/* The next unused number; 0 if none. Looks at 2,048 words at most. */
static uint32_t next_unused(struct port_numbers *n)
{
    const uint32_t from = n->last % n->most + 1, words = n->most / WORD_BITS + 1;
    uint32_t word = from / WORD_BITS;
    uint64_t bits = n->unused[word] & UINT64_MAX << from % WORD_BITS;
    if (n->n_unused == 0)
        return 0;
    while (!bits) {
        word = (word + 1) % words;
        bits = n->unused[word];
    }
    n->last = word * WORD_BITS + (uint32_t)__builtin_ctzll(bits);
    return n->last << PORT_LOW_BITS;
}

/* Numbers above the configured limit, found in the kernel, are never unused. */
static void mark_unused(struct port_numbers *n, uint32_t p, bool unused)
{
    if (p > n->most)
        return;
    n->unused[p / WORD_BITS] ^= UINT64_C(1) << p % WORD_BITS;
    n->n_unused += unused ? 1 : -1u;
    n->returned = n->returned || unused;
}

static void stop_waiting(struct ruleset *rs, struct port_entry *port);

void ruleset_number_port(struct ruleset *rs, struct port_entry *port, uint32_t number)
{
    struct port_numbers *n = &rs->numbers;
    if (port->number) {
        n->ports[port->number >> PORT_LOW_BITS] = NULL;
        mark_unused(n, port->number >> PORT_LOW_BITS, true);
    }
    if (port->share)
        port->share->held += (number != 0) - (port->number != 0);
    port->number = number;
    if (!number)
        return;
    n->ports[number >> PORT_LOW_BITS] = port;
    mark_unused(n, number >> PORT_LOW_BITS, false);
    stop_waiting(rs, port);
}

/* ---- namespaces ---- */

static struct hash_key key_of_share(const struct hash_link *link)
{
    return hash_key_of_text(((const struct number_share *)link)->namespace);
}

static struct number_share *get_share(struct port_numbers *n, const char *service_id)
{
    const char *id = service_id ? service_id : "";
    const struct hash_key key = {id, strcspn(id, "/")};
    struct number_share *share = hash_table_find(&n->shares, key_of_share, key);
    if (!share) {
        share = xcalloc(1, sizeof(*share) + key.length + 1);
        memcpy(share->namespace, id, key.length);
        hash_table_add(&n->shares, key_of_share, &share->link);
    }
    return share;
}

void numbers_join(struct ruleset *rs, struct port_entry *port, const char *service_id)
{
    if (port->share)
        return;
    port->share = get_share(&rs->numbers, service_id);
    port->share->ports++;
    port->share->held += port->number != 0;
}

void numbers_leave(struct ruleset *rs, struct port_entry *port)
{
    struct number_share *share = port->share;
    stop_waiting(rs, port);
    ruleset_number_port(rs, port, 0);
    port->share = NULL;
    if (!share || --share->ports > 0)
        return;
    hash_table_remove(&rs->numbers.shares, &share->link);
    free(share);
}

/* ---- waiting ---- */

static void begin_waiting(struct ruleset *rs, struct port_entry *port)
{
    struct port_numbers *n = &rs->numbers;
    if (!port->share->waiting)
        CDL_APPEND(n->turns, port->share);
    DL_APPEND(port->share->waiting, port);
    port->waits = true;
    n->n_waiting++;
    n->n_refused += port->refs;
}

static void stop_waiting(struct ruleset *rs, struct port_entry *port)
{
    struct port_numbers *n = &rs->numbers;
    struct number_share *share = port->waits ? port->share : NULL;
    if (!share)
        return;
    DL_DELETE(share->waiting, port);
    if (!share->waiting)
        CDL_DELETE(n->turns, share);
    port->waits = false;
    n->n_waiting--;
    n->n_refused -= port->refs;
    if (!port->number)
        return;
    limits_log_number(rs, port);
    ruleset_mark_dirty(rs, &port->entry);
    struct frontend_entry *frontend;
    DL_FOREACH(port->frontends, frontend)
    ruleset_mark_dirty(rs, &frontend->entry);
}

static bool may_have_more(const struct port_numbers *n, const struct number_share *share)
{
    return share->held < n->n_unused;
}

static void give(struct ruleset *rs, struct port_entry *port)
{
    const uint32_t number = next_unused(&rs->numbers);
    ruleset_number_port(rs, port, number);
    connections_forget(&rs->connections, number);
    port->renumbered = true;
}

bool numbers_request(struct ruleset *rs, struct port_entry *port)
{
    if (!port->entry.desired)
        stop_waiting(rs, port);
    else if (port->number)
        return false;
    else if (!port->waits && may_have_more(&rs->numbers, port->share))
        give(rs, port);
    else if (!port->waits)
        begin_waiting(rs, port);
    if (port->waits)
        limits_log_number(rs, port);
    return port->waits;
}

bool numbers_hand_out(struct ruleset *rs)
{
    struct port_numbers *n = &rs->numbers;
    const struct number_share *refused = NULL; /* the first one since a number was given */
    bool some = false;
    if (!n->returned)
        return false;
    n->returned = false;
    while (n->turns && n->turns != refused) {
        struct number_share *share = n->turns;
        n->turns = share->next;
        if (may_have_more(n, share)) {
            give(rs, share->waiting);
            refused = NULL;
            some = true;
        } else if (!refused) {
            refused = share;
        }
    }
    return some;
}

/* ---- numbers found in the kernel ---- */

/* Whether affinity records under the number of @found, if any, are those of @port. */
static bool inherits_records(const struct port_entry *port, const struct port_entry *found)
{
    const uint32_t before = identity_of_value(entry_applied(SET_AFFINITY_TIMEOUTS, &found->entry));
    return !port->affinity || !port->affinity->timeout || before == 0 ||
           before == identity_of_value(affinity_value(port->affinity));
}

/* Other frontends that lead there may have been found before, and its timeout. */
void ruleset_adopt_number(struct ruleset *rs, struct frontend_entry *frontend, uint32_t number)
{
    struct port_entry *port = frontend->port, *found = ruleset_port_of_number(rs, number);
    if (!port || port->number || (found && (found->id < FOUND_ID || found->refs > 0)))
        return;
    if (found) {
        const uint32_t timeout = entry_applied(SET_AFFINITY_TIMEOUTS, &found->entry);
        for (enum table_set set = FRONTEND_SETS; set < NUMBER_SETS; set++)
            if (set != SET_AFFINITY_TIMEOUTS && entry_applied(set, &found->entry))
                return;
        if (!inherits_records(port, found))
            return;
        entry_set_applied(rs, SET_AFFINITY_TIMEOUTS, &port->entry, timeout);
        entry_set_applied(rs, SET_AFFINITY_TIMEOUTS, &found->entry, 0);
        port->led = found->led;
        found->led = (struct led){{0}, 0, 0, 0};
        port->counted = found->counted;
        found->counted = NULL;
        ruleset_number_port(rs, found, 0);
    }
    port->adopted = true;
    ruleset_number_port(rs, port, number);
    ruleset_mark_dirty(rs, &port->entry);
}
