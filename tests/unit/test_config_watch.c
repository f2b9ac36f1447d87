/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What counts as an edit of the configuration file, and what does not. */
#include "kube-nftd/config/file_watch.h"

#include "kube-nftd/base/alloc.h"
#include "unit.h"

#include <ev.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOT "/tmp/test-config-watch-XXXXXX"

static char root[sizeof(ROOT)];
static char *path, *other;
static struct ev_loop *loop;
static struct config_watch *watch;
static const char *edited; /* how */

static void on_edited(void *ctx, const char *how)
{
    ck_assert_ptr_eq(ctx, &edited);
    ck_assert_ptr_null(edited);
    edited = how;
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(name, "we");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void set_up(void)
{
    struct error err = {0};
    strcpy(root, ROOT);
    ck_assert_ptr_nonnull(mkdtemp(root));
    path = xasprintf("%s/config.conf", root);
    other = xasprintf("%s/other", root);
    put(path, "a");
    edited = NULL;
    loop = ev_loop_new(0);
    watch = config_watch_new(loop, path, on_edited, &edited, &err);
    ck_assert_msg(watch != NULL, "%s", err.text);
}

static void tear_down(void)
{
    config_watch_free(watch);
    ev_loop_destroy(loop);
    unlink(path);
    unlink(other);
    rmdir(root);
    free(path);
    free(other);
}

/* What the loop has noticed by now: inotify tells at once. */
static void expect_edited(const char *how)
{
    ev_run(loop, EVRUN_NOWAIT);
    if (how)
        ck_assert_pstr_eq(edited, how);
    else
        ck_assert_ptr_null(edited);
}

START_TEST(nothing)
{
    expect_edited(NULL);
}
END_TEST

START_TEST(written_to)
{
    put(path, "b");
    expect_edited("written to");
}
END_TEST

START_TEST(appended_to)
{
    FILE *file = fopen(path, "ae");
    fputs("b", file);
    fclose(file);
    expect_edited("written to");
}
END_TEST

START_TEST(renamed_away)
{
    ck_assert_int_eq(rename(path, other), 0);
    expect_edited("renamed away");
}
END_TEST

START_TEST(read_or_touched)
{
    FILE *file = fopen(path, "re");
    ck_assert_int_eq(fgetc(file), 'a');
    fclose(file);
    ck_assert_int_eq(chmod(path, 0600), 0);
    expect_edited(NULL);
}
END_TEST

/* By another file in its place, or as a ConfigMap is: not noticed, as with kube-proxy. */
START_TEST(replaced)
{
    put(other, "b");
    ck_assert_int_eq(rename(other, path), 0);
    expect_edited(NULL);
    put(path, "c"); /* the new one is another file */
    expect_edited(NULL);
}
END_TEST

START_TEST(removed)
{
    unlink(path);
    expect_edited(NULL);
}
END_TEST

START_TEST(not_there)
{
    struct error err = {0};
    ck_assert_ptr_null(config_watch_new(loop, other, on_edited, NULL, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "other: No such file or directory"));
    error_clear(&err);
    config_watch_free(NULL);
}
END_TEST

static void add_tests(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, nothing);
    tcase_add_test(tcase, written_to);
    tcase_add_test(tcase, appended_to);
    tcase_add_test(tcase, renamed_away);
    tcase_add_test(tcase, read_or_touched);
    tcase_add_test(tcase, replaced);
    tcase_add_test(tcase, removed);
    tcase_add_test(tcase, not_there);
}

UNIT_MAIN("config_watch", add_tests)
