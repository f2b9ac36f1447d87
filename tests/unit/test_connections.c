/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is read of the connections that packets count, and when a count begins anew. */
#include "table_model.h"
#include "unit.h"

#include <math.h>

static void begin_counting(int which)
{
    config.counting = COUNT_ENDPOINTS;
    begin(which);
}

/* Frontends of the tests are alone with their service ports. */
static struct port_entry *port_record_of(unsigned number)
{
    struct frontend f = frontend(number);
    struct frontend_entry *record = ruleset_find_frontend(ruleset, &f);
    ck_assert_ptr_nonnull(record);
    return record->port;
}

static struct key counter_of(uint32_t number, const struct backend *backend)
{
    struct key key = key_of_number(number), value = {.length = 0};
    if (backend)
        value = value_of_backend(family, backend);
    memcpy(key.bytes + key.length, value.bytes, value.length);
    key.length += value.length;
    return key;
}

/* So many packets are counted by now. */
static void count(uint32_t number, uint64_t packets)
{
    fake_kernel_count(family, "service_connections", &number, sizeof(number), packets);
}

static uint64_t total(unsigned number)
{
    return ruleset_connections(ruleset, port_record_of(number)->id);
}

/* To the end of a reading that has begun, or of another one. */
static void end_reading(void)
{
    const double before = ruleset_connections_read(ruleset);
    while (ruleset_connections_read(ruleset) == before)
        ck_assert(!ruleset_read_connections(ruleset, INFINITY));
}

EACH_FAMILY(totals_are_those_of_the_last_reading)
{
    begin_counting(_i);
    want("1..2 123");
    commit();
    ck_assert_uint_eq(total(1), 0);
    count(77u << PORT_LOW_BITS, 9); /* of nobody */
    for (uint64_t packets = 5; packets < 7; packets++) {
        count(port_record_of(1)->number, packets);
        const double since = clock_monotonic();
        while (!ruleset_read_connections(ruleset, since))
            ;
        ck_assert_double_ge(ruleset_connections_read(ruleset), since);
        ck_assert_uint_eq(total(1), packets);
    }
    fake_kernel_take(family, "service_connections", &port_record_of(1)->number, sizeof(uint32_t));
    end_reading(); /* which misses it */
    ck_assert_uint_eq(total(1), 6);
    ck_assert_uint_eq(total(2), 0);
    ck_assert_uint_eq(ruleset_connections(ruleset, 77), 0);
}

/* A reading that began before may have seen what was counted for another one. */
EACH_FAMILY(a_number_that_goes_to_another_one)
{
    begin_counting(_i);
    want("1 123");
    commit();
    uint32_t number = port_record_of(1)->number;
    count(number, 5);
    fake_kernel_dump_in_pieces(1);
    ck_assert(!ruleset_read_connections(ruleset, INFINITY));
    want("1 gone");
    commit();
    now += 1;
    commit();
    ck_assert_ptr_null(ruleset_port_of_number(ruleset, number));
    ruleset->numbers.last = (number >> PORT_LOW_BITS) - 1;
    want("2 123");
    commit();
    ck_assert_uint_eq(port_record_of(2)->number, number);
    ck_assert_uint_eq(fake_kernel_size(family, "service_connections"), 0);
    count(number, 5);
    end_reading();
    ck_assert_uint_eq(total(2), 0);
    count(number, 2);
    end_reading();
    ck_assert_uint_eq(total(2), 2);
}

/* As another daemon reads them. */
EACH_FAMILY(a_table_that_is_made_anew_goes_on_counting)
{
    begin_counting(_i);
    want("1..2 123");
    commit();
    count(port_record_of(1)->number, 5);
    end_reading();
    fake_kernel_drop_table(family);
    ruleset_recheck_all(ruleset);
    ruleset_recheck(ruleset, sock);
    commit();
    restart();
    tell_desired();
    commit();
    end_reading();
    ck_assert_uint_eq(total(1), 5);
    ck_assert_uint_eq(total(2), 0);
}

static void add_counts(size_t n, uint32_t from)
{
    struct nft_batch batch;
    struct error err = {0};
    nft_batch_init(&batch, family, RULESET_TABLE);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t number = (from + i) << PORT_LOW_BITS;
        nft_batch_element(&batch, ELEMENT_ADD, "service_connections", &number, sizeof(number), NULL,
                          0);
    }
    ck_assert_int_eq(nft_socket_commit(sock, &batch, &err), 0);
    nft_batch_release(&batch);
}

/* Turns of the loop for as long as an hour. */
static size_t deleted_in_an_hour(void)
{
    fake_kernel_forget_counts();
    for (double end = now + 3600; now < end; now += 1)
        connections_step(ruleset, sock, now);
    return fake_kernel_counts()->deleted;
}

EACH_FAMILY(what_counts_for_nobody_goes_when_it_is_much)
{
    begin_counting(_i);
    want("1 123");
    commit();
    const uint32_t number = port_record_of(1)->number;
    add_counts(CONNECTIONS_MOST / 2 - 1, number >> PORT_LOW_BITS);
    ck_assert_uint_eq(deleted_in_an_hour(), 0);
    add_counts(1001, 100000);
    ck_assert_uint_eq(deleted_in_an_hour(), 2000); /* less than half is left */
    ck_assert_uint_eq(fake_kernel_number(family, "service_connections", number), 1);
    ck_assert_uint_eq(ruleset_connections(ruleset, 77), 0);
}

/* Counts of endpoints, until half of the room is in use. */
static void fill_room(uint32_t number)
{
    const size_t size = fake_kernel_size(family, "endpoint_connections");
    for (unsigned i = 0; i < CONNECTIONS_MOST / 2 - size; i++) {
        const struct backend b = backend(1000000 * (unsigned)(size > 0) + i);
        const struct key key = counter_of(number, &b);
        fake_kernel_put(family, "endpoint_connections", key.bytes, key.length, NULL, 0);
    }
}

static unsigned first_read;

static void take_first(void *ctx, const struct nft_element *element)
{
    bool *taken = ctx;
    for (unsigned i = 0; !*taken; i++) {
        const struct backend b = backend(i);
        const struct key value = value_of_backend(family, &b);
        *taken = memcmp(element->key + sizeof(uint32_t), value.bytes, value.length) == 0;
        first_read = i;
    }
}

/* Those that are read first go first: of them, the one that is in use stays. */
EACH_FAMILY(what_counts_for_an_endpoint_stays)
{
    struct error err = {0};
    size_t length;
    bool taken = false;
    begin_counting(_i);
    want("1 0..0");
    commit();
    const uint32_t number = port_record_of(1)->number;
    fill_room(number);
    ck_assert_int_eq(nft_socket_read_elements(sock, family, RULESET_TABLE, "endpoint_connections",
                                              take_first, &taken, &err),
                     0);
    const struct backend first = backend(first_read);
    const struct key key = counter_of(number, &first);
    char *in_use = xasprintf("%u..%u", first_read, first_read);
    set_desired(1, in_use);
    free(in_use);
    commit();
    for (int stays = 1; stays >= 0; stays--) {
        fill_room(number);
        ck_assert_uint_eq(deleted_in_an_hour(), 2000);
        ck_assert_int_eq(fake_kernel_value(family, "endpoint_connections", key.bytes, key.length,
                                           &length) != NULL,
                         stays);
        want("1 0..0");
        commit();
    }
}

/* Without counting, a new service port is not two elements more. */
EACH_FAMILY(only_who_counts_begins_anew)
{
    size_t deleted[2];
    for (int counting = 0; counting < 2; counting++) {
        config.counting = counting ? COUNT_SERVICES : COUNT_NOTHING;
        begin(_i);
        commit();
        fake_kernel_forget_counts();
        want("1 123");
        commit();
        deleted[counting] = fake_kernel_counts()->deleted;
        ruleset_free(ruleset);
        ruleset = NULL;
        fake_kernel_reset();
    }
    ck_assert_uint_eq(deleted[0], 0);
    ck_assert_uint_eq(deleted[1], 1);
}

UNIT_FIXTURE(set_up_desired, teardown)
