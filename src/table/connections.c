/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "connections.h"

#include "fill.h"
#include "kube-nftd/base.h"
#include "state.h"

#include <math.h>
#include <string.h>

/* After a background piece, the reading pauses this many times as long. */
#define SHARE 20.0
/* A reading is in the background if no piece was requested for this long. */
#define PATIENCE 0.1
/* Seconds between searches for unused elements; the number of elements from which they are deleted;
 * the most per deletion. */
#define COLLECT_PERIOD 600.0
#define COLLECT_FROM (CONNECTIONS_MOST / 2)
#define COLLECT_MOST 2000
/* Bytes per transaction that restores counts. */
#define PIECE ((size_t)64 * 1024)

static const char *const set_names[COUNTING_SETS] = {"service_connections", "endpoint_connections"};

/* By P; ports that were never read take no memory. */
struct counted_port {
    uint64_t total;
    uint32_t since; /* the first reading that applies to it */
};

/* Ends a reading. */
static void stop(struct connections *c)
{
    element_dump_close(&c->dump);
    for (int set = 0; set < COUNTING_SETS; set++)
        vec_free(&c->unused[set]);
    c->running = false;
    c->elements = 0;
}

void connections_clear(struct connections *c)
{
    stop(c);
    free(c->of_number);
    memset(c, 0, sizeof(*c));
}

static struct counted_port *counted(const struct connections *c, uint32_t number)
{
    return c->of_number ? &c->of_number[number >> PORT_LOW_BITS] : NULL;
}

/* The current reading may have seen the element that is about to be deleted. */
void connections_forget(struct connections *c, uint32_t number)
{
    struct counted_port *port = counted(c, number);
    if (port)
        *port = (struct counted_port){.since = c->reading + 1};
}

/* The element may be missing, so it is added before it is deleted. Counts of the previous port's
 * endpoints are unknown here; they are collected when there are many. */
void connections_encode(struct ruleset *rs)
{
    if (rs->config.counting == COUNT_NOTHING || ruleset_makes_table(rs))
        return;
    for (enum nft_element_op op = ELEMENT_ADD; op <= ELEMENT_DELETE; op++)
        vec_each (&rs->dirty, it)
            if ((*it)->kind == ENTRY_PORT && as_port(*it)->renumbered && as_port(*it)->number)
                nft_batch_element(&rs->batch, op, set_names[OF_SERVICES], &as_port(*it)->number,
                                  sizeof(uint32_t), NULL, 0);
}

/* Packets may have created the element meanwhile. */
static void restore(struct nft_batch *batch, const struct port_entry *port, uint64_t total)
{
    const char *set = set_names[OF_SERVICES];
    const uint32_t *key = &port->number;
    batch->together = true;
    nft_batch_element(batch, ELEMENT_ADD, set, key, sizeof(*key), NULL, 0);
    nft_batch_element(batch, ELEMENT_DELETE, set, key, sizeof(*key), NULL, 0);
    nft_batch_counting_element(batch, set, key, sizeof(*key), total);
    batch->together = false;
    nft_batch_may_cut(batch);
}

void connections_restore(struct ruleset *rs, struct nft_socket *socket)
{
    struct nft_batch batch;
    struct error err = {0};
    nft_batch_init(&batch, rs->family, RULESET_TABLE);
    batch.piece = PIECE;
    hash_table_each (&rs->ports, const struct port_entry, port) {
        const struct counted_port *count = counted(&rs->connections, port->number);
        if (count && count->total > 0)
            restore(&batch, port, count->total);
    }
    if (nft_socket_commit(socket, &batch, &err))
        log_warn("table", "family=%s counts of connections begin at 0: %s",
                 nft_family_name(rs->family), err.text);
    error_clear(&err);
    nft_batch_release(&batch);
    stop(&rs->connections);
}

static void on_any(void *ctx, const struct nft_element *element)
{
    (void)element;
    *(bool *)ctx = true;
}

/* Port numbers get reused, so the totals would be wrong once counting is on again. */
void connections_end(struct ruleset *rs, struct nft_socket *socket)
{
    struct nft_batch batch;
    struct error err = {0};
    nft_batch_init(&batch, rs->family, RULESET_TABLE);
    for (enum counting_set set = rs->config.counting >= COUNT_SERVICES ? OF_ENDPOINTS : OF_SERVICES;
         set < COUNTING_SETS && rs->config.counting < COUNT_ENDPOINTS; set++) {
        bool any = false;
        if (nft_socket_read_elements(socket, rs->family, RULESET_TABLE, set_names[set], on_any,
                                     &any, &err) == 0 &&
            any)
            nft_batch_flush_set(&batch, set_names[set]);
        error_clear(&err);
    }
    if (nft_socket_commit(socket, &batch, &err))
        log_debug(1, "table", "family=%s counts of the previous process stay: %s",
                  nft_family_name(rs->family), err.text);
    error_clear(&err);
    nft_batch_release(&batch);
}

/* ---- elements ---- */

static struct port_entry *port_of(const struct ruleset *rs, const struct nft_element *element)
{
    uint32_t number = 0;
    if (element->key_length >= sizeof(number))
        memcpy(&number, element->key, sizeof(number));
    return ruleset_port_of_number(rs, number);
}

/* Takes the total of a service port. */
static void take_total(struct ruleset *rs, const struct nft_element *element)
{
    const struct port_entry *port = port_of(rs, element);
    struct counted_port *count = port ? counted(&rs->connections, port->number) : NULL;
    if (count && count->since <= rs->connections.reading)
        count->total = element->packets;
}

static bool has_backend(const struct slot_table *slots, const struct backend *backend)
{
    for (uint32_t i = 0; slots && i < slots->n_slots; i++)
        if (backend_equal(&slots->slots[i], backend))
            return true;
    return false;
}

/* Whether the service port of a counting element exists and its endpoint is in use. */
static bool counts_for_somebody(const struct ruleset *rs, const struct nft_element *element)
{
    const struct port_entry *port = port_of(rs, element);
    struct backend backend;
    if (!port || element->key_length == sizeof(uint32_t))
        return port != NULL;
    return backend_of_value(rs->family, element->key + sizeof(uint32_t),
                            element->key_length - sizeof(uint32_t), &backend) &&
           (has_backend(&port->all, &backend) || has_backend(port->local, &backend));
}

static void add_unused(struct connections *c, const struct nft_element *element)
{
    struct key key = {.length = element->key_length};
    if (c->unused[c->set].n == COLLECT_MOST || key.length > sizeof(key.bytes))
        return;
    memcpy(key.bytes, element->key, key.length);
    vec_push(&c->unused[c->set], key);
}

static void count_element(void *ctx, const struct nft_element *element)
{
    struct ruleset *rs = ctx;
    struct connections *c = &rs->connections;
    c->elements++;
    if (!element->key)
        return;
    if (c->set == OF_SERVICES)
        take_total(rs, element);
    if (c->collects && !counts_for_somebody(rs, element))
        add_unused(c, element);
}

/* ---- readings ---- */

static bool is_to_read(const struct ruleset *rs)
{
    const struct connections *c = &rs->connections;
    return ruleset_has_table(rs) &&
           (c->set == OF_SERVICES || (c->collects && rs->config.counting == COUNT_ENDPOINTS));
}

static void end_set(struct ruleset *rs)
{
    struct connections *c = &rs->connections;
    element_dump_close(&c->dump);
    if (c->elements < COLLECT_FROM)
        vec_free(&c->unused[c->set]);
    c->elements = 0;
    if (++c->set < COUNTING_SETS)
        return;
    c->running = false;
    c->last_begun = c->begun;
    if (c->collects)
        c->collected = c->begun;
}

/* A set that cannot be read now is read in the next reading. */
static void step(struct ruleset *rs)
{
    struct connections *c = &rs->connections;
    struct error err = {0};
    enum element_dump_state state = DUMP_ENDED;
    if (is_to_read(rs))
        state = element_dump_step(&c->dump, rs->family, RULESET_TABLE, set_names[c->set],
                                  count_element, rs, &err);
    if (err.text)
        log_debug(2, "table", "family=%s %s", nft_family_name(rs->family), err.text);
    error_clear(&err);
    if (state != DUMP_GOES_ON)
        end_set(rs);
}

static void begin_reading(struct ruleset *rs, double now)
{
    struct connections *c = &rs->connections;
    if (!c->of_number)
        c->of_number = xcalloc(MOST_PORTS + 1, sizeof(struct counted_port));
    c->reading++;
    c->running = true;
    c->begun = now;
    c->collects = now >= c->collected + COLLECT_PERIOD;
    c->set = OF_SERVICES;
}

bool ruleset_read_connections(struct ruleset *rs, double since)
{
    struct connections *c = &rs->connections;
    if (rs->config.counting == COUNT_NOTHING || c->last_begun >= since)
        return true;
    if (!c->running)
        begin_reading(rs, clock_monotonic());
    step(rs);
    c->due = clock_monotonic() + PATIENCE;
    return c->last_begun >= since;
}

/* ---- background readings ---- */

/* Checks again: a service port or endpoint may have appeared since its element was read. */
static void delete_unused(struct ruleset *rs, struct nft_socket *socket, enum counting_set set)
{
    struct connections *c = &rs->connections;
    struct nft_batch batch;
    struct error err = {0};
    nft_batch_init(&batch, rs->family, RULESET_TABLE);
    vec_each (&c->unused[set], key) {
        const struct nft_element element = {.key = key->bytes, .key_length = key->length};
        if (!counts_for_somebody(rs, &element))
            nft_batch_element(&batch, ELEMENT_DELETE, set_names[set], key->bytes, key->length, NULL,
                              0);
    }
    if (nft_socket_commit(socket, &batch, &err))
        log_debug(1, "table", "family=%s unused counts remain: %s", nft_family_name(rs->family),
                  err.text);
    error_clear(&err);
    nft_batch_release(&batch);
    vec_free(&c->unused[set]);
}

double connections_step(struct ruleset *rs, struct nft_socket *socket, double now)
{
    struct connections *c = &rs->connections;
    if (rs->config.counting == COUNT_NOTHING)
        return 0;
    if (c->collected == 0)
        c->collected = now;
    for (enum counting_set set = 0; set < COUNTING_SETS && !c->running; set++)
        if (c->unused[set].n)
            delete_unused(rs, socket, set);
    double next = c->running ? c->due : c->collected + COLLECT_PERIOD;
    if (now < next)
        return next;
    if (!c->running)
        begin_reading(rs, now);
    double begun = clock_monotonic();
    step(rs);
    c->due = walk_rest(now, clock_monotonic() - begun, SHARE);
    return c->due;
}

/* ---- room ---- */

/* A kernel that does not count says that it is full, and nothing else. */
static bool is_full(struct ruleset *rs, struct nft_socket *socket, enum counting_set set)
{
    struct key key = key_of_number(0);
    uint32_t n = 0;
    if (set == OF_ENDPOINTS) {
        key_put_address(&key, rs->family, &(struct address){{0}});
        key_put_port(&key, 0);
    }
    const enum fill fill = set_fill(rs, socket, set_names[set], &key, false, &n);
    return fill == FILL_FULL || (fill == FILL_COUNTED && n >= CONNECTIONS_MOST);
}

void connections_check_room(struct ruleset *rs, struct nft_socket *socket)
{
    bool *logged = rs->connections.full_logged;
    const enum counting_set end = rs->config.counting == COUNT_ENDPOINTS  ? COUNTING_SETS
                                  : rs->config.counting == COUNT_SERVICES ? OF_ENDPOINTS
                                                                          : OF_SERVICES;
    rs->stats.limited[LIMIT_COUNTERS] = 0;
    for (enum counting_set set = 0; set < end; set++) {
        const bool full = is_full(rs, socket, set);
        if (full && !logged[set])
            log_warn("table",
                     "family=%s set=%s is full: connections to what is not in it are not counted",
                     nft_family_name(rs->family), set_names[set]);
        logged[set] = full;
        rs->stats.limited[LIMIT_COUNTERS] += full;
    }
}

/* ---- queries ---- */

double ruleset_connections_read(const struct ruleset *rs)
{
    return rs->connections.last_begun;
}

uint64_t ruleset_connections(const struct ruleset *rs, uint32_t id)
{
    const struct port_entry *port = ruleset_find_port(rs, id);
    const struct counted_port *count = port ? counted(&rs->connections, port->number) : NULL;
    return count ? count->total : 0;
}

static void on_counted(void *ctx, const struct nft_element *element)
{
    *(uint64_t *)ctx = element->packets;
}

int ruleset_localhost_connections(const struct ruleset *rs, struct nft_socket *socket,
                                  uint8_t protocol, uint64_t *total, struct error *err)
{
    *total = 0;
    return nft_socket_get_element(socket, rs->family, RULESET_TABLE, "localhost_connections",
                                  &protocol, sizeof(protocol), on_counted, total, err);
}

int ruleset_endpoint_connections(const struct ruleset *rs, struct nft_socket *socket, uint32_t id,
                                 const struct backend *backend, uint64_t *total, struct error *err)
{
    const struct port_entry *port = ruleset_find_port(rs, id);
    const struct key value = value_of_backend(rs->family, backend);
    struct key key = {.length = 0};
    *total = 0;
    if (!port || !port->number)
        return 0;
    key_put_number(&key, port->number);
    memcpy(key.bytes + key.length, value.bytes, value.length);
    return nft_socket_get_element(socket, rs->family, RULESET_TABLE, set_names[OF_ENDPOINTS],
                                  key.bytes, key.length + value.length, on_counted, total, err);
}
