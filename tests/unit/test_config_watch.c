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

static const char *path, *other;
static struct ev_loop *loop;
static struct config_watch *watch;
static const char *edited; /* how */

static void on_edited(void *ctx, const char *how)
{
    ck_assert_ptr_eq(ctx, &edited);
    ck_assert_ptr_null(edited);
    edited = how;
}

static void set_up(void)
{
    struct error err = {0};
    path = in_folder("config.conf");
    other = in_folder("other");
    put_file("config.conf", "a");
    edited = NULL;
    loop = ev_loop_new(0);
    watch = config_watch_new(loop, path, on_edited, &edited, &err);
    ck_assert_msg(watch != NULL, "%s", err.text);
}

static void tear_down(void)
{
    config_watch_free(watch);
    ev_loop_destroy(loop);
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

TEST(nothing)
{
    expect_edited(NULL);
}

TEST(written_to)
{
    put_file("config.conf", "b");
    expect_edited("written to");
}

TEST(appended_to)
{
    FILE *file = fopen(path, "ae");
    fputs("b", file);
    fclose(file);
    expect_edited("written to");
}

TEST(renamed_away)
{
    ck_assert_int_eq(rename(path, other), 0);
    expect_edited("renamed away");
}

TEST(read_or_touched)
{
    FILE *file = fopen(path, "re");
    ck_assert_int_eq(fgetc(file), 'a');
    fclose(file);
    ck_assert_int_eq(chmod(path, 0600), 0);
    expect_edited(NULL);
}

/* By another file in its place, or as a ConfigMap is: not noticed, as with kube-proxy. */
TEST(replaced)
{
    put_file("other", "b");
    ck_assert_int_eq(rename(other, path), 0);
    expect_edited(NULL);
    put_file("config.conf", "c"); /* the new one is another file */
    expect_edited(NULL);
}

TEST(removed)
{
    unlink(path);
    expect_edited(NULL);
}

TEST(not_there)
{
    struct error err = {0};
    ck_assert_ptr_null(config_watch_new(loop, other, on_edited, NULL, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "other: No such file or directory"));
    error_clear(&err);
    config_watch_free(NULL);
}

UNIT_FIXTURE(set_up, tear_down)
