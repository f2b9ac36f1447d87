/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache/unread_objects.h"

#include "unit.h"

#include <stdio.h>

static struct unread_objects *unread;

static void set_up(void)
{
    unread = unread_objects_new();
}

static void tear_down(void)
{
    unread_objects_free(unread);
}

START_TEST(noted_until_forgotten)
{
    unread_objects_note(unread, KIND_SERVICE, "a/b");
    unread_objects_note(unread, KIND_SERVICE, "a/b");
    unread_objects_note(unread, KIND_SERVICE, "a/c");
    unread_objects_note(unread, KIND_ENDPOINTSLICE, "a/b");
    ck_assert_uint_eq(unread_objects_count(unread, KIND_SERVICE), 2);
    ck_assert(unread_objects_has(unread, KIND_SERVICE, "a/b"));
    ck_assert(!unread_objects_has(unread, KIND_SERVICE, "a/d"));
    unread_objects_forget(unread, KIND_SERVICE, "a/b");
    unread_objects_forget(unread, KIND_SERVICE, "a/d");
    ck_assert(!unread_objects_has(unread, KIND_SERVICE, "a/b"));
    ck_assert(unread_objects_has(unread, KIND_ENDPOINTSLICE, "a/b"));
    unread_objects_forget_all(unread, KIND_ENDPOINTSLICE);
    ck_assert_uint_eq(unread_objects_count(unread, KIND_ENDPOINTSLICE), 0);
    ck_assert_uint_eq(unread_objects_count(unread, KIND_SERVICE), 1);
}
END_TEST

START_TEST(bounded)
{
    for (int i = 0; i < UNREAD_OBJECTS_MAX + 10; i++) {
        char id[32];
        snprintf(id, sizeof(id), "a/%d", i);
        unread_objects_note(unread, KIND_SERVICE, id);
    }
    ck_assert_uint_eq(unread_objects_count(unread, KIND_SERVICE), UNREAD_OBJECTS_MAX);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, noted_until_forgotten);
    tcase_add_test(tcase, bounded);
}

UNIT_MAIN("unread_objects", add_tests)
