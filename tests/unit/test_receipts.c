/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cache/receipts.h"

#include "kube-nftd/base/alloc.h"
#include "unit.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

enum { V4 = 1, V6 = 2, BOTH = 3 };

static struct receipts *receipts;

/* The one object that most tests are about: what a cache would have of it. */
static bool there;
static char *owner;
static struct object_version version;
static struct received_object object;

static void set_up(void)
{
    receipts = receipts_new();
    there = false;
    owner = NULL;
    version = (struct object_version){0};
}

static void tear_down(void)
{
    receipts_free(receipts);
    object_version_clear(&version);
    free(owner);
}

/* It comes or becomes another: version @text, for the families @concerned. */
static void put(const char *text, int concerned)
{
    receipts_change(receipts, "a", owner, there ? &object : NULL, false);
    object_version_set(&version, text);
    object = (struct received_object){
        &version, receipts_now(receipts), {(concerned & V4) != 0, (concerned & V6) != 0}};
    there = true;
}

static void drop(void)
{
    receipts_change(receipts, "a", owner, &object, true);
    there = false;
}

static void turn(int in_force)
{
    receipts_next(receipts, (const bool[]){(in_force & V4) != 0, (in_force & V6) != 0});
}

static void write_version(FILE *out, const char *what, const struct object_version *of)
{
    char number[OBJECT_VERSION_SIZE];
    if (of)
        fprintf(out, "%s%s", what, object_version_text(of, number));
}

/* As "2 out=3 IPv4=1! IPv6=2": what came, was left out, and is held; ! where that is not it. */
static void expect(const char *expected)
{
    struct receipt receipt;
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!receipts_of(receipts, "a", there ? &object : NULL, &receipt))
        fputs("unknown", out);
    write_version(out, "", receipt.received);
    write_version(out, " out=", receipt.left_out);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (!receipt.family[i].concerned)
            continue;
        fprintf(out, " %s", i == FAMILY_IPV4 ? "IPv4" : "IPv6");
        write_version(out, "=", receipt.family[i].held);
        fputs(receipt.family[i].in_force ? "" : "!", out);
    }
    fclose(out);
    ck_assert_str_eq(text, expected);
    free(text);
}

TEST(one_family_fails)
{
    put("1", BOTH);
    turn(V4);
    expect("1 IPv4=1 IPv6!");
    turn(BOTH);
    put("2", BOTH);
    turn(V4);
    expect("2 IPv4=2 IPv6=1!");
    put("3", BOTH);
    expect("3 IPv4=2! IPv6=1!");
    turn(V4);
    expect("3 IPv4=3 IPv6=1!");
    put("4", BOTH);
    put("5", BOTH);
    expect("5 IPv4=3! IPv6=1!");
    turn(V6);
    expect("5 IPv4=3! IPv6=5");
    turn(V4);
    expect("5 IPv4=5 IPv6=5");
}

TEST(goes_and_comes_while_a_family_fails)
{
    put("1", BOTH);
    turn(BOTH);
    drop();
    turn(V4);
    expect(" IPv6=1!");
    put("2", BOTH);
    expect("2 IPv4! IPv6=1!");
    turn(V4);
    expect("2 IPv4=2 IPv6=1!");
    drop();
    expect(" IPv4=2! IPv6=1!");
    turn(V6);
    expect(" IPv4=2!");
    turn(V4);
    expect("unknown");
}

/* What was there and is not wanted any more is still to be told of. */
TEST(families_change)
{
    put("1", BOTH);
    turn(BOTH);
    put("2", V4);
    expect("2 IPv4=1! IPv6=1!");
    turn(V4);
    expect("2 IPv4=2 IPv6=1!");
    turn(BOTH);
    expect("2 IPv4=2");
    put("3", BOTH);
    expect("3 IPv4=2! IPv6!");
    turn(BOTH);
    put("4", 0);
    expect("4 IPv4=3! IPv6=3!");
    turn(BOTH);
    expect("4");
}

/* The caches do not call for a version that says the same. */
TEST(a_version_without_a_change)
{
    put("1", V4);
    turn(BOTH);
    object_version_set(&version, "2");
    expect("2 IPv4=2");
    put("3", V4);
    object_version_set(&version, "4");
    expect("4 IPv4=2!");
    turn(V4);
    expect("4 IPv4=4");
}

static char former[64];

static void take_id(void *ctx, const char *id)
{
    ck_assert_ptr_eq(ctx, former);
    strcat(strcat(former, " "), id);
}

static void expect_former(const char *of, const char *expected)
{
    former[0] = '\0';
    receipts_each_of_owner(receipts, of, take_id, former);
    ck_assert_str_eq(former, expected);
}

/* The owner is that of what is held. */
TEST(owners)
{
    struct object_version bad = {0};
    owner = xstrdup("x");
    put("1", V4);
    expect_former("x", "");
    turn(BOTH);
    expect_former("x", "");
    put("2", V4);
    expect_former("x", " a");
    owner[0] = 'y';
    put("3", V4);
    expect_former("x", " a");
    expect_former("y", "");
    turn(V6);
    expect_former("x", " a");
    receipts_leave_out(receipts, "a", "x", &bad);
    expect_former("x", " a");
    receipts_leave_out(receipts, "a", "z", &bad);
    expect_former("z", " a");
    receipts_leave_out(receipts, "b", NULL, &bad);
    turn(V4);
    expect_former("x", "");
    expect_former("z", " a");
}

/* One family fails for ever while objects of the other come and go: they take no memory for ever.
 */
TEST(a_long_failure)
{
    struct object_version first = {0};
    struct received_object one = {&first, 0, {true, false}};
    struct receipt receipt;
    object_version_set(&first, "1");
    put("1", BOTH);
    turn(BOTH);
    put("2", BOTH);
    turn(V4);
    size_t in_use = mallinfo2().uordblks;
    for (int i = 0; i < 20000; i++) {
        char id[16];
        snprintf(id, sizeof(id), "id-%d", i);
        receipts_change(receipts, id, "z", NULL, false);
        one.changed = receipts_now(receipts);
        turn(V4);
        receipts_change(receipts, id, "z", &one, true);
        ck_assert(receipts_of(receipts, id, NULL, &receipt));
        turn(V4);
        ck_assert(!receipts_of(receipts, id, NULL, &receipt));
    }
    expect("2 IPv4=2 IPv6=1!");
    ck_assert_uint_lt(mallinfo2().uordblks, in_use + 1024 * 1024);
    object_version_clear(&first);
}

UNIT_FIXTURE(set_up, tear_down)
