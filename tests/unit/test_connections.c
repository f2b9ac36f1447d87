/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is read of the connections that packets count, and when a count begins anew. */
#include "table_model.h"
#include "unit.h"

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

static struct nft_element element_of(struct key *key, uint64_t packets)
{
    return (struct nft_element){.key = key->bytes, .key_length = key->length, .packets = packets};
}

static void take(uint32_t number, uint64_t packets)
{
    struct key key = {.length = 0};
    key_put_number(&key, number);
    struct nft_element element = element_of(&key, packets);
    connections_take(ruleset, &element);
}

static bool counts_for(uint32_t number, const struct backend *backend)
{
    struct key key = {.length = 0}, value = {.length = 0};
    key_put_number(&key, number);
    if (backend)
        value = value_of_backend(family, backend);
    memcpy(key.bytes + key.length, value.bytes, value.length);
    key.length += value.length;
    struct nft_element element = element_of(&key, 1);
    return connections_are_for(ruleset, &element);
}

EACH_FAMILY(totals_are_those_of_the_last_reading)
{
    begin_counting(_i);
    want("1..2 123");
    commit();
    ck_assert_uint_eq(ruleset_connections(ruleset, port_record_of(1)->id), 0);
    for (uint64_t total = 5; total < 7; total++) {
        connections_begin(ruleset, now);
        take(port_record_of(1)->number, total);
        ck_assert_uint_eq(ruleset_connections(ruleset, port_record_of(1)->id), total);
    }
    connections_begin(ruleset, now); /* one that misses it */
    ck_assert_uint_eq(ruleset_connections(ruleset, port_record_of(1)->id), 6);
    ck_assert_uint_eq(ruleset_connections(ruleset, port_record_of(2)->id), 0);
    ck_assert_uint_eq(ruleset_connections(ruleset, 77), 0);
    take(77u << PORT_LOW_BITS, 9); /* of nobody */
}

/* A reading that began before may have seen what was counted for another one. */
EACH_FAMILY(a_number_that_goes_to_another_one)
{
    begin_counting(_i);
    want("1 123");
    commit();
    uint32_t number = port_record_of(1)->number;
    connections_begin(ruleset, now);
    take(number, 5);
    want("1 gone");
    commit();
    now += 1;
    commit();
    ck_assert_ptr_null(ruleset_port_of_number(ruleset, number));
    ruleset->numbers.last = (number >> PORT_LOW_BITS) - 1;
    want("2 123");
    commit();
    ck_assert_uint_eq(port_record_of(2)->number, number);
    take(number, 5);
    ck_assert_uint_eq(ruleset_connections(ruleset, port_record_of(2)->id), 0);
    connections_begin(ruleset, now);
    take(number, 2);
    ck_assert_uint_eq(ruleset_connections(ruleset, port_record_of(2)->id), 2);
}

EACH_FAMILY(what_counts_for_somebody)
{
    begin_counting(_i);
    const struct backend used = backend(1), unused = backend(9);
    want("1 123");
    commit();
    uint32_t number = port_record_of(1)->number, other = number + (1u << PORT_LOW_BITS);
    ck_assert(counts_for(number, NULL) && !counts_for(other, NULL));
    ck_assert(counts_for(number, &used) && !counts_for(number, &unused));
    ck_assert(!counts_for(other, &used));
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
    add_counts(CONNECTIONS_MOST / 2 - 1, port_record_of(1)->number >> PORT_LOW_BITS);
    ck_assert_uint_eq(deleted_in_an_hour(), 0);
    add_counts(1001, 100000);
    ck_assert_uint_eq(deleted_in_an_hour(), 2000); /* less than half is left */
    ck_assert_uint_eq(ruleset_connections(ruleset, 77), 0);
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
