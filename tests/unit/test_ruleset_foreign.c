/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of one family and other programs: who owns it, what they changed and how it is put
 * right. Against a kernel in memory (fake_kernel.h).
 */
#include "unit.h"

#include "ruleset_fixture.h"

#include "ruleset/drift.h"
#include "ruleset/guard.h"
#include "ruleset/held.h"
#include "ruleset/record.h"

#include <limits.h>

static const struct wish three = {.wanted = true, .all = "123"};

static void check_three(unsigned number)
{
    const struct world nothing = {0};
    check_wish(number, &three, &nothing);
}

static void begin_owned(int which)
{
    config.owned = true;
    begin(which);
    tell(1, &three);
    tell(2, &three);
    commit();
}

/* ---- owner ---- */

EACH_FAMILY(the_table_is_owned_if_it_shall_be)
{
    begin_owned(_i);
    ck_assert_uint_eq(fake_kernel_table_flags(family), NFT_TABLE_OWNED | NFT_TABLE_PERSISTENT);
    ck_assert(!ruleset_is_owned_elsewhere(ruleset));
    check_three(1);
}

EACH_FAMILY(the_table_is_everybodys_otherwise)
{
    begin(_i);
    tell(1, &three);
    commit();
    ck_assert_uint_eq(fake_kernel_table_flags(family), 0);
}

/* Or a packet would fall between the two (hand_over.h). */
EACH_FAMILY(a_table_that_is_replaced_is_asked_first)
{
    static const struct {
        const char *chain;
        int priority;
    } chains[] = {{"nat-prerouting-early", -101},
                  {"nat-output-early", -101},
                  {"filter-input-early", -1},
                  {"nat-postrouting-early", 99}};
    begin(_i);
    tell(1, &three);
    commit();
    fake_kernel_set_comment(family, "kube-nftd layout 0123");
    restart();
    tell(1, &three);
    fake_kernel_fail(2, FAKE_REFUSES);
    commit_fails();
    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++)
        ck_assert_int_eq(fake_kernel_priority(family, chains[i].chain), chains[i].priority);
    check_three(1);
    commit_replaces_the_table();
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 1); /* it was prepared before */
    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++)
        ck_assert_int_eq(fake_kernel_priority(family, chains[i].chain), INT_MAX);
    check_three(1);
}

/* The earlier daemon died. */
EACH_FAMILY(a_table_without_an_owner_is_claimed)
{
    begin_owned(_i);
    fake_kernel_set_owner(family, FAKE_OWNER_NONE);
    restart();
    tell(1, &three);
    tell(2, &three);
    commit();
    ck_assert_uint_eq(fake_kernel_table_flags(family), NFT_TABLE_OWNED | NFT_TABLE_PERSISTENT);
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 1); /* that claims it */
    ck_assert_uint_eq(fake_kernel_counts()->tables, 0);
    ck_assert_uint_eq(fake_kernel_counts()->added + fake_kernel_counts()->deleted, 0);
    check_three(2);
}

/* The earlier daemon is still running. */
EACH_FAMILY(an_owner_elsewhere_is_waited_for)
{
    begin_owned(_i);
    fake_kernel_set_owner(family, FAKE_OWNER_ELSEWHERE);
    restart();
    tell(1, &three);
    for (int i = 0; i < 3; i++) {
        struct error err = {0};
        ck_assert_int_eq(ruleset_commit(ruleset, sock, now, NULL, &err), -1);
        ck_assert_ptr_nonnull(strstr(err.text, "is owned by a running program"));
        ck_assert_ptr_nonnull(strstr(err.text, "4711"));
        error_clear(&err);
        ck_assert(ruleset_is_owned_elsewhere(ruleset));
    }
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 0);
    fake_kernel_set_owner(family, FAKE_OWNER_NONE);
    commit();
    ck_assert(!ruleset_is_owned_elsewhere(ruleset));
    check_three(1);
}

/* Whoever does not want to own the table cannot write to it either while another one does. */
EACH_FAMILY(an_owner_elsewhere_is_waited_for_without_owning)
{
    begin_owned(_i);
    fake_kernel_set_owner(family, FAKE_OWNER_ELSEWHERE);
    config.owned = false;
    restart();
    tell(1, &three);
    commit_fails();
    ck_assert(ruleset_is_owned_elsewhere(ruleset));
    fake_kernel_set_owner(family, FAKE_OWNER_NONE);
    commit();
    ck_assert_uint_eq(fake_kernel_counts()->tables, 0); /* as good as any other */
    ck_assert_uint_eq(fake_kernel_table_flags(family), NFT_TABLE_PERSISTENT);
}

/* A table cannot be made into one that has an owner. */
EACH_FAMILY(a_table_that_cannot_be_owned_is_replaced)
{
    begin(_i);
    tell(1, &three);
    commit();
    config.owned = true;
    restart();
    tell(1, &three);
    commit_replaces_the_table();
    ck_assert_uint_eq(fake_kernel_table_flags(family), NFT_TABLE_OWNED | NFT_TABLE_PERSISTENT);
    check_three(1);
}

/* Whoever owned the table may have touched rules, too, when it took the table over. */
EACH_FAMILY(what_an_owner_leaves_is_looked_at_anew)
{
    begin(_i);
    tell(1, &three);
    commit();
    fake_kernel_set_owner(family, FAKE_OWNER_ELSEWHERE);
    ruleset_suspect_rules(ruleset);
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 1);
    commit_fails();
    fake_kernel_set_owner(family, FAKE_OWNER_NONE);
    fake_kernel_forget_counts();
    commit();
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 0);
    ck_assert_uint_eq(ruleset_figures(ruleset)->replaced, 0);
    check_three(1);
}

/* Two daemons of one node learn of a change at the same time, and both need a new chain for it. */
EACH_FAMILY(two_that_add_the_same_chain)
{
    static const struct wish four = {.wanted = true, .all = "1234"};
    begin(_i);
    tell(1, &three);
    commit();
    struct ruleset *first = ruleset;
    ruleset = new_ruleset();
    tell(1, &three);
    commit();
    tell(1, &four);
    struct ruleset *second = ruleset;
    ruleset = first;
    tell(1, &four);
    commit();
    ruleset = second;
    fake_kernel_forget_counts();
    commit_fails();
    commit();
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 0); /* it is all there */
    ruleset_free(first);
    restart(); /* which finds the rules that it expects */
    tell(1, &four);
    commit();
    ck_assert_uint_eq(fake_kernel_counts()->transactions, 0);
}

static size_t deleted_by(struct ruleset *which)
{
    ruleset = which;
    fake_kernel_forget_counts();
    commit();
    return fake_kernel_counts()->deleted;
}

/* Or delete the same: the second one is refused, reads the table back, and has nothing to do. */
EACH_FAMILY(two_that_delete_the_same)
{
    static const struct wish none = {.wanted = false}, one = {.wanted = true, .all = "1"};
    struct ruleset *both[2];
    family = (enum family)_i;
    for (int i = 0; i < 2; i++) {
        ruleset = both[i] = new_ruleset();
        tell(1, &three);
        tell(2, &three);
        commit();
    }
    for (int i = 0; i < 2; i++) {
        ruleset = both[i];
        tell(1, &one);
        tell(2, &none);
    }
    ck_assert_uint_eq(deleted_by(both[0]), 2); /* a count, and a frontend */
    ruleset = both[1];
    commit_fails();
    ck_assert_uint_eq(deleted_by(both[1]), 0);
    ck_assert_uint_eq(ruleset_figures(ruleset)->read_backs, 1);
    wait_for_trims();
    ck_assert_uint_eq(deleted_by(both[1]),
                      6); /* slots, a count; and now the first one comes late */
    ruleset = both[0];
    commit_fails();
    ck_assert_uint_eq(deleted_by(both[0]), 0);
    for (int i = 0; i < 2; i++) {
        const struct world nothing = {0};
        ruleset = both[i];
        settle();
        ck_assert_uint_eq(deleted_by(both[i]), 0);
        ck_assert_uint_eq(ruleset_figures(ruleset)->read_backs, 1);
        check_wish(1, &one, &nothing);
        ck_assert_uint_eq(fake_kernel_size(family, "endpoints"), 1);
    }
    ruleset_free(both[0]);
}

/* No rule and no verdict tells of it. */
EACH_FAMILY(an_emptied_chain_is_filled_again)
{
    static const struct wish none = {.wanted = false};
    begin(_i);
    tell(1, &three);
    commit();
    tell(1, &none);
    settle();
    struct key key = {.length = 0};
    key_put_number(&key, 3);
    fake_kernel_take(family, "picks", key.bytes, key.length);
    fake_kernel_flush_chain(family, "pick-3");
    restart();
    tell(1, &three);
    commit();
    ck_assert_uint_eq(fake_kernel_counts()->tables, 0);
    check_three(1);
}

EACH_FAMILY(an_owned_table_is_not_cleaned_up)
{
    struct error err = {0};
    bool existed;
    begin_owned(_i);
    fake_kernel_set_owner(family, FAKE_OWNER_ELSEWHERE);
    ck_assert_int_eq(ruleset_cleanup(sock, family, &existed, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.text, "is owned by a running program"));
    error_clear(&err);
    ck_assert_ptr_nonnull(fake_kernel_comment(family));
    fake_kernel_set_owner(family, FAKE_OWNER_NONE);
    ck_assert_int_eq(ruleset_cleanup(sock, family, &existed, &err), 0);
    ck_assert(existed);
    ck_assert_ptr_null(fake_kernel_comment(family));
}

/* ---- what others changed ---- */

static void suspect(const char *set, const struct key *key)
{
    const struct nft_element element = {.key = key->bytes, .key_length = key->length};
    ruleset_suspect_element(ruleset, set, &element);
}

static void begin_two(int which)
{
    begin(which);
    tell(1, &three);
    tell(2, &three);
    commit();
}

static struct key key_of(unsigned number)
{
    struct frontend f = frontend(number);
    return key_of_frontend(&f);
}

static struct key key_of_place(unsigned number, uint32_t slot)
{
    return key_of_slot(port_of(number), slot);
}

static struct key key_of_port(unsigned number)
{
    struct key key = {.length = 0};
    key_put_number(&key, port_of(number));
    return key;
}

/* What is noted is looked at when that is asked for; until then nothing is read or sent. */
static void repair_sends(size_t changed, size_t added, size_t deleted)
{
    ck_assert(!ruleset_needs_commit(ruleset, now));
    fake_kernel_tolerate(); /* it was broken before */
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), changed);
    ck_assert_int_eq(ruleset_needs_commit(ruleset, now), changed > 0);
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 0);
    commit_sends(added, deleted);
    check_three(1);
    check_three(2);
}

EACH_FAMILY(what_was_not_changed_is_left_alone)
{
    begin_two(_i);
    struct key service = key_of(1), slot = key_of_place(2, 1);
    suspect("services", &service);
    suspect("endpoints", &slot);
    suspect("affinity", &service);
    repair_sends(0, 0, 0);
}

EACH_FAMILY(a_missing_frontend_comes_back)
{
    begin_two(_i);
    struct key key = key_of(1);
    fake_kernel_take(family, "services", key.bytes, key.length);
    suspect("services", &key);
    repair_sends(1, 1, 0);
}

EACH_FAMILY(a_missing_slot_comes_back)
{
    begin_two(_i);
    struct key key = key_of_place(2, 1);
    fake_kernel_take(family, "endpoints", key.bytes, key.length);
    suspect("endpoints", &key);
    repair_sends(1, 1, 0);
}

EACH_FAMILY(another_backend_is_replaced)
{
    begin_two(_i);
    struct backend wrong = backend(7);
    struct key key = key_of_place(1, 2), value = value_of_backend(family, &wrong);
    fake_kernel_take(family, "endpoints", key.bytes, key.length);
    fake_kernel_put(family, "endpoints", key.bytes, key.length, value.bytes, value.length);
    suspect("endpoints", &key); /* deleted */
    suspect("endpoints", &key); /* added */
    repair_sends(1, 1, 1);
}

EACH_FAMILY(another_count_is_replaced)
{
    begin_two(_i);
    uint32_t two = port_of(1) | 2;
    struct key key = key_of_port(1);
    fake_kernel_take(family, "ports", key.bytes, key.length);
    fake_kernel_put(family, "ports", key.bytes, key.length, &two, sizeof(two));
    suspect("ports", &key);
    repair_sends(1, 1, 1);
}

EACH_FAMILY(another_service_port_is_replaced)
{
    begin_two(_i);
    uint32_t other = port_of(2);
    struct key key = key_of(1);
    fake_kernel_take(family, "services", key.bytes, key.length);
    fake_kernel_put(family, "services", key.bytes, key.length, &other, sizeof(other));
    suspect("services", &key);
    repair_sends(1, 1, 1);
}

EACH_FAMILY(strangers_go)
{
    begin_two(_i);
    uint32_t port = port_of(1);
    struct backend wrong = backend(7);
    struct key key = key_of(9), slot = key_of_place(1, 3), value = value_of_backend(family, &wrong);
    struct key nobodys = {.length = 0};
    key_put_number(&nobodys, 77 << PORT_LOW_BITS);
    fake_kernel_put(family, "services", key.bytes, key.length, &port, sizeof(port));
    fake_kernel_put(family, "rejected_ports", nobodys.bytes, nobodys.length, NULL, 0);
    fake_kernel_put(family, "endpoints", slot.bytes, slot.length, value.bytes, value.length);
    suspect("services", &key);
    suspect("rejected_ports", &nobodys);
    suspect("endpoints", &slot);
    repair_sends(3, 0, 2);
    ck_assert_uint_eq(fake_kernel_size(family, "endpoints"), 7);
    wait_for_trims(); /* as any slot that no count reaches */
    commit_sends(0, 1);
    ck_assert_uint_eq(fake_kernel_size(family, "endpoints"), 6);
    ck_assert_uint_eq(fake_kernel_size(family, "services"), 2);
    ck_assert_uint_eq(fake_kernel_size(family, "rejected_ports"), 0);
}

EACH_FAMILY(contents_are_put_right)
{
    begin_two(_i);
    struct frontend f = frontend(1), other = frontend(5);
    struct key ours = {.length = 0}, strange = {.length = 0};
    ruleset_set_cluster_ip(ruleset, &f.address, true);
    commit();
    key_put_address(&ours, family, &f.address);
    key_put_address(&strange, family, &other.address);
    fake_kernel_take(family, "cluster_ips", ours.bytes, ours.length);
    fake_kernel_put(family, "cluster_ips", strange.bytes, strange.length, NULL, 0);
    suspect("cluster_ips", &ours);
    suspect("cluster_ips", &strange);
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 2);
    commit_sends(1, 1);
    commit_sends(0, 0);
}

/* A change that was not committed yet goes with the repair. */
EACH_FAMILY(a_pending_change_is_kept)
{
    begin_two(_i);
    struct key key = key_of(1);
    SET(1, .all = "12");
    fake_kernel_take(family, "services", key.bytes, key.length);
    suspect("services", &key);
    fake_kernel_tolerate();
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 1);
    commit();
    const struct wish two = {.wanted = true, .all = "12"};
    const struct world nothing = {0};
    check_wish(1, &two, &nothing);
    check_three(2);
    settle();
    ck_assert_uint_eq(fake_kernel_size(family, "endpoints"), 5);
}

/* ---- ranges ---- */

static struct key key_of_address(const struct address *address)
{
    struct key key = {.length = 0};
    key_put_address(&key, family, address);
    return key;
}

/* What another program does with a range of service CIDRs that does not reach to the top. */
static void put_service_cidr(const char *text)
{
    range_vec ranges = {0};
    ranges_of(text, &ranges);
    struct key key = key_of_address(&ranges.v[0].first);
    fake_kernel_put(family, "service_cidrs", key.bytes, key.length, NULL, 0);
    key = key_of_address(&ranges.v[0].last);
    for (size_t i = key.length; i-- > 0 && ++key.bytes[i] == 0;)
        ;
    fake_kernel_put_end(family, "service_cidrs", key.bytes, key.length);
    vec_free(&ranges);
}

static void service_cidrs_are(const char *text)
{
    range_vec ranges = {0}, expected = {0};
    ranges_of(text, &expected);
    fake_kernel_ranges(family, "service_cidrs", &ranges);
    ck_assert_uint_eq(ranges.n, expected.n);
    for (size_t i = 0; i < ranges.n; i++)
        ck_assert_mem_eq(&ranges.v[i], &expected.v[i], sizeof(ranges.v[i]));
    vec_free(&ranges);
    vec_free(&expected);
}

/* Both ends are told of; the set is looked at once. */
static void suspect_service_cidrs(void)
{
    struct address address = client(30);
    struct key key = key_of_address(&address);
    suspect("service_cidrs", &key);
    suspect("service_cidrs", &key);
}

EACH_FAMILY(a_strange_range_goes)
{
    begin_two(_i);
    set_service_cidrs("10-19 50-top");
    commit();
    size_t elements = ruleset_figures(ruleset)->elements;
    put_service_cidr("30-39");
    suspect_service_cidrs();
    fake_kernel_tolerate();
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 1);
    ck_assert(ruleset_knows_kernel(ruleset));
    ck_assert_uint_eq(ruleset_figures(ruleset)->elements, elements + 2);
    commit_sends(0, 2);
    ck_assert_uint_eq(ruleset_figures(ruleset)->elements, elements);
    service_cidrs_are("10-19 50-top");
}

EACH_FAMILY(a_missing_range_comes_back)
{
    begin_two(_i);
    set_service_cidrs("10-19 50-top");
    commit();
    range_vec top = {0};
    ranges_of("50-top", &top);
    struct key key = key_of_address(&top.v[0].first);
    fake_kernel_take(family, "service_cidrs", key.bytes, key.length);
    vec_free(&top);
    suspect_service_cidrs();
    fake_kernel_tolerate();
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 1);
    commit_sends(1, 0);
    service_cidrs_are("10-19 50-top");
}

EACH_FAMILY(ranges_that_are_right_are_left_alone)
{
    begin_two(_i);
    set_service_cidrs("10-19 50-top");
    commit();
    suspect_service_cidrs();
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 0);
    commit_sends(0, 0);
}

/* What is none of ours by itself: all of the table is read back. */
EACH_FAMILY(ends_that_make_no_ranges_are_read_back)
{
    begin_two(_i);
    set_service_cidrs("10-19");
    commit();
    struct address address = client(30);
    struct key key = key_of_address(&address);
    fake_kernel_put_end(family, "service_cidrs", key.bytes, key.length);
    suspect_service_cidrs();
    fake_kernel_tolerate();
    ck_assert_uint_gt(ruleset_check_suspects(ruleset, sock), 0);
    ck_assert(!ruleset_knows_kernel(ruleset));
    commit_replaces_the_table();
    service_cidrs_are("10-19");
}

/* Frontend 6 of begin_restricted() may be talked to by "10-19 30-39". */
static void begin_restricted(int which)
{
    begin_two(which);
    SET(6, .external = true, .all = "12", .sources = "10-19 30-39");
    commit();
}

/* The only prefix of a range. */
static struct key source(uint32_t list, const char *text)
{
    range_vec ranges = {0};
    cidr_vec prefixes = {0};
    ranges_of(text, &ranges);
    range_prefixes(family, &ranges.v[0], &prefixes);
    ck_assert_uint_eq(prefixes.n, 1);
    struct key key = key_of_source(family, list, &prefixes.v[0]);
    vec_free(&ranges);
    vec_free(&prefixes);
    return key;
}

static uint32_t list_of(unsigned number)
{
    struct frontend f = frontend(number);
    return fake_kernel_source_list(&f);
}

static void put_source(uint32_t list, const char *text)
{
    struct key key = source(list, text);
    fake_kernel_put(family, "allowed_sources", key.bytes, key.length, NULL, 0);
}

static void take_source(uint32_t list, const char *text)
{
    struct key key = source(list, text);
    fake_kernel_take(family, "allowed_sources", key.bytes, key.length);
}

static void suspect_source(uint32_t list, const char *text)
{
    struct key key = source(list, text);
    const struct nft_element element = {.key = key.bytes, .key_length = key.length};
    ruleset_suspect_element(ruleset, "allowed_sources", &element);
}

static void sources_are(unsigned number, const char *text)
{
    struct frontend f = frontend(number);
    range_vec ranges = {0}, expected = {0};
    ranges_of(text, &expected);
    fake_kernel_sources(&f, &ranges);
    ck_assert_uint_eq(ranges.n, expected.n);
    for (size_t i = 0; i < ranges.n; i++)
        ck_assert_mem_eq(&ranges.v[i], &expected.v[i], sizeof(ranges.v[i]));
    vec_free(&ranges);
    vec_free(&expected);
}

static void repair_of_sources_sends(size_t changed, size_t added, size_t deleted)
{
    fake_kernel_tolerate();
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), changed);
    ck_assert(ruleset_knows_kernel(ruleset));
    commit_sends(added, deleted);
    sources_are(6, "10-19 30-39");
}

EACH_FAMILY(sources_that_are_right_are_left_alone)
{
    begin_restricted(_i);
    suspect_source(list_of(6), "10-11");
    suspect_source(list_of(6), "32-39");
    suspect_source(list_of(6), "50-51"); /* came and went */
    repair_of_sources_sends(0, 0, 0);
}

EACH_FAMILY(a_missing_source_comes_back)
{
    begin_restricted(_i);
    take_source(list_of(6), "12-15");
    suspect_source(list_of(6), "12-15");
    repair_of_sources_sends(1, 1, 0);
}

EACH_FAMILY(a_strange_source_goes)
{
    begin_restricted(_i);
    put_source(list_of(6), "50-51");
    suspect_source(list_of(6), "50-51");
    repair_of_sources_sends(1, 0, 1);
}

/* Where 12-15 was, others are let in as well. */
EACH_FAMILY(a_wider_source_is_replaced)
{
    begin_restricted(_i);
    take_source(list_of(6), "12-15");
    put_source(list_of(6), "8-15");
    suspect_source(list_of(6), "12-15");
    suspect_source(list_of(6), "8-15");
    repair_of_sources_sends(2, 1, 1);
}

/* Of a list that is none of ours. */
EACH_FAMILY(sources_of_others_go)
{
    begin_restricted(_i);
    put_source(list_of(6) + 1, "10-11");
    put_source(MOST_LISTS, "10-11");
    suspect_source(list_of(6) + 1, "10-11");
    suspect_source(MOST_LISTS, "10-11");
    repair_of_sources_sends(2, 0, 2);
}

static void suspect_restriction(unsigned number)
{
    struct key key = key_of(number);
    const struct nft_element element = {.key = key.bytes, .key_length = key.length};
    ruleset_suspect_element(ruleset, "restricted", &element);
}

static void restrict_to(unsigned number, uint32_t list)
{
    struct key key = key_of(number);
    const uint32_t value = value_of_list(list);
    fake_kernel_put(family, "restricted", key.bytes, key.length, &value, sizeof(value));
    suspect_restriction(number);
}

static void lift_restriction(unsigned number)
{
    struct key key = key_of(number);
    fake_kernel_take(family, "restricted", key.bytes, key.length);
    suspect_restriction(number);
}

EACH_FAMILY(a_missing_restriction_comes_back)
{
    begin_restricted(_i);
    uint32_t list = list_of(6);
    lift_restriction(6);
    repair_of_sources_sends(1, 1, 0);
    ck_assert_uint_eq(list_of(6), list);
}

/* To a list that is none of ours, and to one of another frontend: all is read back. */
EACH_FAMILY(a_strange_restriction_goes)
{
    begin_restricted(_i);
    SET(7, .external = true, .all = "12", .sources = "50-51");
    commit();
    for (uint32_t list = list_of(7); list <= 77; list += 77 - list_of(7)) {
        lift_restriction(6);
        restrict_to(6, list);
        restrict_to(1, list);
        fake_kernel_tolerate();
        ck_assert_uint_gt(ruleset_check_suspects(ruleset, sock), 0);
        ck_assert(!ruleset_knows_kernel(ruleset));
        commit_sends(1, 2);
        sources_are(6, "10-19 30-39");
        sources_are(7, "50-51");
        ck_assert_uint_eq(list_of(1), 0);
        check_three(1);
    }
}

/* Only what differs is written; elements stay, those of packets too. */
static void put_right_without_elements(size_t most_rules)
{
    size_t records = fake_kernel_size(family, "affinity");
    ck_assert(ruleset_has_suspects(ruleset));
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 1);
    ck_assert(ruleset_knows_kernel(ruleset));
    fake_kernel_tolerate();
    commit_sends_rules(most_rules);
    ck_assert_uint_eq(fake_kernel_counts()->looked_up, 0);
    ck_assert_uint_eq(fake_kernel_size(family, "affinity"), records);
    ck_assert_uint_eq(ruleset_figures(ruleset)->replaced, 0);
    check_three(1);
}

EACH_FAMILY(touched_rules_that_are_right_are_left_alone)
{
    begin_two(_i);
    ruleset_suspect_rules(ruleset);
    repair_sends(0, 0, 0);
}

EACH_FAMILY(touched_rules_are_put_right)
{
    const uint8_t record[24] = {1};
    begin_two(_i);
    fake_kernel_put(family, "affinity", record, address_length(family) + 4, record, 4);
    for (unsigned nth = 0; nth < 5; nth++) {
        char *what = fake_kernel_change_operand(family, nth, nth);
        ck_assert_ptr_nonnull(what);
        free(what);
        ruleset_suspect_rules(ruleset);
        put_right_without_elements(4);
    }
    ck_assert_uint_eq(ruleset_figures(ruleset)->rewritten, 5);
}

EACH_FAMILY(rules_are_put_right_however_often_others_commit)
{
    begin_two(_i);
    fake_kernel_churn(true);
    fake_kernel_flush_chain(family, "dispatch");
    ruleset_suspect_rules(ruleset);
    put_right_without_elements(1);
    fake_kernel_flush_chain(family, "dispatch");
    restart();
    tell(1, &three);
    tell(2, &three);
    commit_sends_rules(1);
}

/* It is not known any more what is in force: all is read back, which says so. */
EACH_FAMILY(rules_that_cannot_be_put_right)
{
    begin_two(_i);
    fake_kernel_flush_chain(family, "dispatch");
    ruleset_suspect_rules(ruleset);
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 1);
    fake_kernel_tolerate();
    fake_kernel_fail(1, FAKE_REFUSES);
    commit_fails();
    ck_assert(!ruleset_knows_kernel(ruleset));
    commit_sends_rules(1);
    fake_kernel_flush_chain(family, "dispatch");
    ruleset_suspect_rules(ruleset);
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 1);
    fake_kernel_fail(1, FAKE_LOSES_ANSWER);
    commit_fails();
    commit_sends(0, 0);
    check_three(1);
}

EACH_FAMILY(a_dormant_table_is_woken_up)
{
    begin_two(_i);
    fake_kernel_set_flags(family, NFT_TABLE_DORMANT);
    ruleset_suspect_rules(ruleset);
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 1);
    commit_sends_rules(0);
    ck_assert_uint_eq(fake_kernel_table_flags(family), 0);
    check_three(1);
}

EACH_FAMILY(a_deleted_table_is_made_anew)
{
    begin_two(_i);
    fake_kernel_drop_table(family);
    ruleset_suspect_rules(ruleset);
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 1);
    fake_kernel_tolerate();
    commit_replaces_the_table();
    check_three(1);
}

EACH_FAMILY(lost_events_read_everything_back)
{
    begin_two(_i);
    struct key key = key_of(2);
    fake_kernel_take(family, "services", key.bytes, key.length);
    ruleset_suspect_all(ruleset);
    fake_kernel_tolerate();
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 1);
    commit_sends(1, 0);
    check_three(2);
}

EACH_FAMILY(many_suspects_are_all)
{
    begin_two(_i);
    struct key key = key_of(1);
    for (int i = 0; i < 5000; i++)
        suspect("services", &key);
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 1);
    ck_assert(!ruleset_knows_kernel(ruleset));
    commit_sends(0, 0);
}

/* The kernel's figure of elements follows. */
EACH_FAMILY(elements_are_counted)
{
    begin_two(_i);
    size_t before = ruleset_figures(ruleset)->elements;
    struct key key = key_of(1);
    fake_kernel_take(family, "services", key.bytes, key.length);
    suspect("services", &key);
    fake_kernel_tolerate();
    ruleset_check_suspects(ruleset, sock);
    ck_assert_uint_eq(ruleset_figures(ruleset)->elements, before - 1);
    commit();
    ck_assert_uint_eq(ruleset_figures(ruleset)->elements, before);
}

/* ---- audits ---- */

static int set_looked_through;

static void take_one(void *ctx, const struct nft_element *element)
{
    unsigned *left = ctx;
    if (*left == 0)
        return;
    --*left;
    drift_take(ruleset, set_looked_through, element);
}

/* Looks through all sets; of @torn, only one element is given. */
static void audit(const char *torn)
{
    struct error err = {0};
    for (int set = 0; set < TABLE_SETS; set++) {
        const char *name = set_name(set);
        unsigned left = torn && strcmp(torn, name) == 0 ? 1 : UINT32_MAX;
        set_looked_through = set;
        ck_assert_int_eq(set_of_name(name), set);
        ck_assert_int_eq(
            nft_socket_read_elements(sock, family, RULESET_TABLE, name, take_one, &left, &err), 0);
        drift_finish(ruleset, set, true);
    }
    drift_check_rules(ruleset, sock);
}

/* Of all kinds. */
static void begin_many(int which)
{
    begin(which);
    tell(1, &three);
    tell(2, &three);
    SET(3, .all = "");
    SET(4, .external = true, .local = true, .all = "123", .here = "1");
    SET(5, .all = "12", .timeout = 60, .group = 5);
    SET(6, .external = true, .local = true, .all = "12", .here = "1", .timeout = 60, .group = 6,
        .sources = "10-19 30-39");
    SET(7, .local = true, .all = "12");
    struct frontend f = frontend(1);
    ruleset_set_cluster_ip(ruleset, &f.address, true);
    struct backend b = backend(1);
    ruleset_set_hairpin(ruleset, IPPROTO_TCP, &b, true);
    set_service_cidrs("10-19");
    commit();
}

/* An audit that finds what is missing, and what the monitor tells of it before it is put right. */
static const struct news {
    const char *name;
    int heard, settled; /* milliseconds behind the audit; 0: never */
    int held;           /* until when nothing is put right */
    uint64_t repairs, drift;
} all_news[] = {
    {"nobody did it", 0, 0, 40, 0, 1},
    {"events that come later", 10, 20, 20, 1, 0},
    {"events that come much later", 40, 60, 60, 1, 0},
};

TEST_ROWS(an_audit_waits_for_the_news, all_news)
{
    const struct table_program by = {.pid = 4711, .name = "nft"};
    struct guard guard = {0};
    begin_two(FAMILY_IPV4);
    struct key key = key_of(1);
    const struct nft_element element = {.key = key.bytes, .key_length = key.length};
    const struct table_change change = {.family = family, .set = "services", .element = &element};
    fake_kernel_take(family, "services", key.bytes, key.length);
    fake_kernel_tolerate();
    audit(NULL);
    ck_assert(ruleset_has_suspects(ruleset));
    for (int ms = 0; ms < 100; ms += 10) {
        const double at = 1000 + ms / 1000.0 + 1e-6;
        if (ms == 0 || ruleset_has_suspects(ruleset))
            guard_audited(&guard, at);
        if (ms > 0 && ms == row->heard)
            guard_changed(&guard, ruleset, &change);
        if (ms > 0 && ms == row->settled)
            guard_settled(&guard, &by);
        bool held = guard_check(&guard, ruleset, sock, at, ms % 20 == 0) > at;
        ck_assert_int_eq(held, ms < row->held);
        if (held || !ruleset_needs_commit(ruleset, now))
            continue;
        struct ruleset_stats stats = commit();
        guard_committed(&guard, "IPv4", ruleset, &stats, at);
    }
    ck_assert_uint_eq(guard.repairs, row->repairs);
    ck_assert_uint_eq(guard.drift, row->drift);
    ck_assert_uint_eq(fake_kernel_size(family, "services"), 2);
}

/* ---- affinity records ---- */

/* A table with room for so many records of one service port. */
static void begin_affine(int which, uint32_t room)
{
    begin(which);
    SET(1, .all = "12", .timeout = 60, .group = 5);
    vec_each (&ruleset->base.sets, set)
        if (strcmp(set->name, "affinity") == 0)
            set->size = room;
    fake_kernel_limit("affinity", room);
    commit();
    forget_logged();
}

static struct key record_of_client(unsigned number)
{
    struct key key = {.length = 0};
    const struct address address = client(number);
    key_put_number(&key, port_of(1));
    key_put_address(&key, family, &address);
    return key;
}

/* The records of clients @from to @to - 1. */
static void learn(unsigned from, unsigned to)
{
    const uint32_t value = port_of(1) | 1;
    for (unsigned i = from; i < to; i++) {
        struct key key = record_of_client(i);
        fake_kernel_put(family, "affinity", key.bytes, key.length, &value, sizeof(value));
    }
}

static void forget(unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        struct key key = record_of_client(i);
        fake_kernel_take(family, "affinity", key.bytes, key.length);
    }
}

static void records_are(bool known, uint32_t n, unsigned warned)
{
    drift_count_records(ruleset, sock);
    const struct ruleset_figures *figures = ruleset_figures(ruleset);
    ck_assert_int_eq(figures->records_known, known);
    ck_assert_uint_eq(figures->records, n);
    ck_assert_uint_eq(logged(LOG_LEVEL_WARN), warned);
}

EACH_FAMILY(records_that_fill_their_map_are_told)
{
    begin_affine(_i, 10);
    records_are(true, 0, 0);
    ck_assert_uint_eq(ruleset_figures(ruleset)->most_records, 10);
    learn(0, 8);
    records_are(true, 8, 0);
    learn(8, 9);
    records_are(true, 9, 1);
    records_are(true, 9, 1);
    learn(9, 10);
    records_are(true, 10, 2);
    records_are(true, 10, 2);
    forget(0, 1);
    records_are(true, 9, 2);
    forget(1, 3);
    records_are(true, 7, 2);
    learn(0, 3);
    records_are(true, 10, 3); /* again, in one line */
}

/* Then it shows only when there is no room for another one, which is not put in. */
EACH_FAMILY(records_that_the_kernel_does_not_count)
{
    begin_affine(_i, 10);
    fake_kernel_tell_counts(false);
    learn(0, 9);
    records_are(false, 0, 0);
    ck_assert_uint_eq(fake_kernel_size(family, "affinity"), 9);
    learn(9, 10);
    records_are(true, 10, 1);
    ck_assert_uint_eq(fake_kernel_size(family, "affinity"), 10);
}

EACH_FAMILY(records_are_not_asked_for_without_affinity)
{
    begin(_i);
    tell(1, &three);
    commit();
    fake_kernel_refuse_reads(1, 1, false);
    drift_count_records(ruleset, sock);
    ck_assert(ruleset_figures(ruleset)->records_known);
}

EACH_FAMILY(an_audit_of_what_is_right_finds_nothing)
{
    begin_many(_i);
    for (int i = 0; i < 2; i++) {
        audit(NULL);
        ck_assert(!ruleset_has_suspects(ruleset));
    }
    SET(1, .all = "1"); /* its slots are there a while longer */
    commit();
    audit(NULL);
    ck_assert(!ruleset_has_suspects(ruleset));
    settle();
    audit(NULL);
    ck_assert(!ruleset_has_suspects(ruleset));
}

/* Asked again, the kernel has what was left out. */
EACH_FAMILY(an_audit_with_holes_changes_nothing)
{
    static const char *const holes[] = {"services", "endpoints", "affinity_numbers",
                                        "allowed_sources", "service_cidrs"};
    begin_many(_i);
    for (size_t i = 0; i < sizeof(holes) / sizeof(holes[0]); i++) {
        audit(holes[i]);
        ck_assert(ruleset_has_suspects(ruleset));
        ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 0);
        commit_sends(0, 0);
    }
}

/* Set by set, each when it is due, and then after a period all of it again. */
EACH_FAMILY(audits_go_on_in_pieces)
{
    const double period = 60;
    struct drift drift = {.due = 0};
    bool found = false;
    begin_many(_i);
    struct key key = key_of(1);
    fake_kernel_take(family, "services", key.bytes, key.length);
    double start = now, next = drift_turn(&drift, ruleset, sock, period, now, &found);
    ck_assert_double_eq(next, start + period);
    for (int audits = 0; audits < 2; audits++) {
        for (int set = 0; set < TABLE_SETS; set++) {
            ck_assert_uint_eq(drift.ended, audits);
            now = next - 0.0001;
            ck_assert_double_eq(drift_turn(&drift, ruleset, sock, period, now, &found), next);
            now = next;
            next = drift_turn(&drift, ruleset, sock, period, now, &found);
            ck_assert_double_gt(next, now);
        }
        ck_assert_uint_eq(drift.ended, audits + 1);
        ck_assert_double_eq(next, now + period);
        ck_assert(found == (audits == 0));
        found = false;
        repair_sends(audits == 0, audits == 0, 0);
    }
    drift_stop(&drift);
}

EACH_FAMILY(an_audit_finds_what_is_missing)
{
    begin_many(_i);
    struct key key = key_of(1), slot = key_of_place(2, 1), rejected = key_of_port(3);
    struct key ip = {.length = 0};
    struct frontend f = frontend(1);
    key_put_address(&ip, family, &f.address);
    fake_kernel_take(family, "services", key.bytes, key.length);
    fake_kernel_take(family, "endpoints", slot.bytes, slot.length);
    fake_kernel_take(family, "rejected_ports", rejected.bytes, rejected.length);
    fake_kernel_take(family, "cluster_ips", ip.bytes, ip.length);
    audit(NULL);
    repair_sends(4, 4, 0);
    audit(NULL);
    ck_assert(!ruleset_has_suspects(ruleset));
}

/* As the kernel may give them while it moves them to a larger table. */
EACH_FAMILY(an_audit_finds_what_is_missing_behind_what_came_twice)
{
    begin_many(_i);
    struct frontend f = frontend(5);
    struct backend backends[70];
    for (unsigned i = 0; i < 70; i++)
        backends[i] = backend(i + 1);
    const struct port_route port = {
        .backends = backends, .n_backends = 70, .has_any = true, .needs_cluster = true};
    const struct route route = {.port = 70};
    ruleset_set_port(ruleset, route.port, &port);
    ruleset_set(ruleset, &f, &route);
    commit();
    struct key slot = key_of_place(5, 68), few = key_of_place(1, 2);
    fake_kernel_take(family, "endpoints", slot.bytes, slot.length);
    fake_kernel_take(family, "endpoints", few.bytes, few.length);
    for (int set = 0; set < TABLE_SETS; set++) {
        struct error err = {0};
        for (int again = 0; again < 3; again++) {
            unsigned left = UINT32_MAX;
            set_looked_through = set;
            nft_socket_read_elements(sock, family, RULESET_TABLE, set_name(set), take_one, &left,
                                     &err);
        }
        drift_finish(ruleset, set, true);
    }
    fake_kernel_tolerate();
    ck_assert_uint_eq(ruleset_check_suspects(ruleset, sock), 2);
    commit_sends(2, 0);
}

EACH_FAMILY(an_audit_finds_what_is_strange)
{
    begin_many(_i);
    uint32_t two = port_of(1) | 2;
    struct backend wrong = backend(7);
    struct key key = key_of_port(1), nobodys = {.length = 0}, slot = key_of_place(2, 0);
    struct key value = value_of_backend(family, &wrong);
    key_put_number(&nobodys, 77 << PORT_LOW_BITS | CLASS_LOCAL);
    fake_kernel_take(family, "ports", key.bytes, key.length);
    fake_kernel_put(family, "ports", key.bytes, key.length, &two, sizeof(two));
    fake_kernel_put(family, "dropped_ports", nobodys.bytes, nobodys.length, NULL, 0);
    fake_kernel_take(family, "endpoints", slot.bytes, slot.length);
    fake_kernel_put(family, "endpoints", slot.bytes, slot.length, value.bytes, value.length);
    audit(NULL);
    repair_sends(3, 2, 3);
}

/* For each: what was done, and what its repair adds and deletes. */
EACH_FAMILY(an_audit_finds_other_ranges)
{
    static const struct {
        const char *taken, *put, *cidr;
        size_t added, deleted;
    } cases[] = {{"12-15", NULL, NULL, 1, 0},
                 {NULL, "50-51", NULL, 0, 1},
                 {"12-15", "8-15", NULL, 1, 1},
                 {NULL, NULL, "30-39", 0, 2}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin_many(_i);
        if (cases[i].taken)
            take_source(list_of(6), cases[i].taken);
        if (cases[i].put)
            put_source(list_of(6), cases[i].put);
        if (cases[i].cidr)
            put_service_cidr(cases[i].cidr);
        audit(NULL);
        ck_assert(ruleset_has_suspects(ruleset));
        fake_kernel_tolerate();
        ck_assert_uint_gt(ruleset_check_suspects(ruleset, sock), 0);
        commit_sends(cases[i].added, cases[i].deleted);
        sources_are(6, "10-19 30-39");
        service_cidrs_are("10-19");
        audit(NULL);
        ck_assert(!ruleset_has_suspects(ruleset));
        teardown();
        setup();
    }
}

/* Between two pieces of what is read, commits go on. */
EACH_FAMILY(an_audit_and_changes_meanwhile)
{
    struct error err = {0};
    unsigned left = 2;
    begin_many(_i);
    set_looked_through = set_of_name("endpoints");
    ck_assert_int_eq(
        nft_socket_read_elements(sock, family, RULESET_TABLE, "endpoints", take_one, &left, &err),
        0);
    SET(1, .all = "1");
    drop(2);
    SET(8, .all = "123");
    commit();
    settle();
    left = UINT32_MAX;
    ck_assert_int_eq(
        nft_socket_read_elements(sock, family, RULESET_TABLE, "endpoints", take_one, &left, &err),
        0);
    drift_finish(ruleset, set_looked_through, true);
    ruleset_check_suspects(ruleset, sock);
    ck_assert(ruleset_knows_kernel(ruleset));
    commit_sends(0, 0);
}

EACH_FAMILY(an_audit_finds_missing_rules)
{
    begin_many(_i);
    fake_kernel_flush_chain(family, "dispatch");
    audit(NULL);
    put_right_without_elements(1);
}

/* Each verdict leads somewhere, but not all where they shall. */
EACH_FAMILY(an_audit_finds_another_verdict)
{
    begin_many(_i);
    fake_kernel_lead(family, "picks", 3, "no-endpoints");
    audit(NULL);
    put_right_without_elements(1);
}

EACH_FAMILY(another_verdict_is_put_right)
{
    begin_two(_i);
    struct key key = {.length = 0};
    key_put_number(&key, 3);
    fake_kernel_lead(family, "picks", 3, "no-endpoints");
    suspect("picks", &key);
    put_right_without_elements(0);
}

UNIT_FIXTURE(setup, teardown)
