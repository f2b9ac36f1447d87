/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A file that is written while it is waited for. The loop is fake_clock.h's: each look is the
 * test's. */
#include "kube-nftd/config/file_watch.h"

#include "fake_clock.h"
#include "kube-nftd/base/alloc.h"
#include "unit.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *path;
static int completed;
static struct awaited_file *file;

static void on_complete(void *ctx)
{
    (*(int *)ctx)++;
}

static void set_up(void)
{
    path = in_folder("awaited");
    completed = 0;
    file = awaited_file_new(NULL, path, on_complete, &completed);
}

static void tear_down(void)
{
    awaited_file_free(file);
    ck_assert_ptr_null(timer);
}

static void append(const char *text)
{
    FILE *out = fopen(path, "ae");
    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    fclose(out);
}

/* A look, and whether the file was taken as complete by it. */
static void look(bool expected)
{
    ck_assert_ptr_nonnull(timer);
    timer->cb(NULL, timer, EV_TIMER);
    ck_assert_int_eq(completed, expected);
    ck_assert_int_eq(timer == NULL, expected);
}

TEST(complete_when_it_rests)
{
    ck_assert(awaited_file_is_missing(path));
    look(false);
    look(false);
    append("apiVersion: v1\n");
    ck_assert(!awaited_file_is_missing(path));
    look(false);
    look(true);
}

TEST(written_piece_by_piece)
{
    append("");
    look(false);
    look(false); /* empty is not complete */
    append("a");
    look(false);
    append("b");
    look(false);
    unlink(path);
    look(false);
    append("ab");
    look(false);
    look(true);
}

TEST(other_trouble_is_no_absence)
{
    ck_assert(!awaited_file_is_missing("/"));
    ck_assert(!awaited_file_is_missing("/dev/null/x"));
    ck_assert(awaited_file_is_missing("/no/such/folder/x"));
    awaited_file_free(NULL);
}

UNIT_FIXTURE(set_up, tear_down)
