/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is left of initial events at their end. */
#include "source/initial_events.h"

#include "unit.h"

#include <string.h>

static struct initial_events initial;
static struct error err;

static void setup(void)
{
    initial = (struct initial_events){.limit = 1000000};
}

static void teardown(void)
{
    initial_events_reset(&initial);
    error_clear(&err);
}

static int put(const char *id)
{
    struct object object = {.kind = KIND_NODE, .id = xstrdup(id)};
    int rc = initial_events_put(&initial, &object, &err);
    ck_assert_int_eq(object.id != NULL, rc < 0);
    object_clear(&object);
    return rc;
}

/* Ends the events; of those objects that are left, @ids are the first letters in their order. */
static void expect_left(const char *ids)
{
    object_vec objects = {0};
    initial_events_finish(&initial, &objects);
    ck_assert_uint_eq(objects.n, strlen(ids));
    vec_each (&objects, object)
        ck_assert_int_eq(*object->id, ids[object - objects.v]);
    object_vec_clear(&objects);
    ck_assert_uint_eq(initial.objects.n, 0);
    ck_assert_uint_eq(initial.removals.n, 0);
}

START_TEST(all_in_their_order)
{
    expect_left("");
    put("b");
    put("a");
    put("b");
    expect_left("bab");
    put("c"); /* it starts over */
    expect_left("c");
}
END_TEST

START_TEST(what_was_removed_is_gone)
{
    put("a");
    put("b");
    put("a");
    initial_events_remove(&initial, "a", &err);
    initial_events_remove(&initial, "unknown", &err);
    put("c");
    put("a");
    expect_left("bca");
    put("a");
    initial_events_remove(&initial, "a", &err);
    put("a");
    initial_events_remove(&initial, "a", &err);
    expect_left("");
    put("a"); /* removals are forgotten, too */
    expect_left("a");
}
END_TEST

START_TEST(objects_without_a_name_only_count)
{
    struct object object = {.kind = KIND_NODE};
    initial.limit = 2;
    ck_assert_int_eq(initial_events_put(&initial, &object, &err), 0);
    ck_assert_int_eq(initial_events_put(&initial, &object, &err), 0);
    ck_assert_int_eq(initial_events_put(&initial, &object, &err), -1);
    expect_left("");
}
END_TEST

START_TEST(no_more_than_the_limit)
{
    initial.limit = 2;
    ck_assert_int_eq(put("a"), 0);
    ck_assert_int_eq(initial_events_remove(&initial, "a", &err), 0);
    ck_assert(!initial_events_overrun(&initial));
    ck_assert_int_eq(initial_events_remove(&initial, "b", &err), -1);
    ck_assert_str_eq(err.text, "more than 2 objects");
    ck_assert(initial_events_overrun(&initial));
    ck_assert_int_eq(put("b"), -1);
    initial_events_reset(&initial);
    ck_assert(!initial_events_overrun(&initial));
    ck_assert_int_eq(put("b"), 0);
}
END_TEST

/* Each of many is added, removed and added again: it would take minutes if each were looked for
 * among all. */
START_TEST(many)
{
    int n = unit_steps(100000);
    object_vec objects = {0};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < n; i++) {
            char *id = xasprintf("%d", i);
            put(id);
            if (round == 0)
                initial_events_remove(&initial, id, &err);
            free(id);
        }
    }
    initial_events_finish(&initial, &objects);
    ck_assert_int_eq((int)objects.n, n);
    vec_each (&objects, object)
        ck_assert_int_eq(atoi(object->id), (int)(object - objects.v));
    object_vec_clear(&objects);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, all_in_their_order);
    tcase_add_test(tcase, what_was_removed_is_gone);
    tcase_add_test(tcase, objects_without_a_name_only_count);
    tcase_add_test(tcase, no_more_than_the_limit);
    tcase_add_test(tcase, many);
}

UNIT_MAIN("initial_events", add_tests)
