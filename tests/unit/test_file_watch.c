/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What counts as an edit of the configuration file, and when a file that is waited for is complete.
 * Cases are in cases/file_watch. The timer is fake_clock.h's: each look is the test's. */
#include "fake_clock.h"
#include "kube-nftd/config.h"
#include "script.h"

#include <sys/stat.h>
#include <unistd.h>

static struct ev_loop *loop;
static struct config_watch *watch;
static struct awaited_file *file;
static const char *edited; /* how */
static int completed;

static void on_edited(void *ctx, const char *how)
{
    ck_assert_ptr_eq(ctx, &edited);
    ck_assert_ptr_null(edited);
    edited = how;
}

static void on_complete(void *ctx)
{
    (*(int *)ctx)++;
}

static void set_up(void)
{
    struct error err = {0};
    put_file("watched", "a");
    edited = NULL;
    completed = 0;
    loop = ev_loop_new(0);
    watch = config_watch_new(loop, in_folder("watched"), on_edited, &edited, &err);
    ck_assert_msg(watch != NULL, "%s", err.text);
    file = awaited_file_new(NULL, in_folder("awaited"), on_complete, &completed);
}

static void tear_down(void)
{
    config_watch_free(watch);
    config_watch_free(NULL);
    awaited_file_free(file);
    awaited_file_free(NULL);
    ck_assert_ptr_null(timer);
    ev_loop_destroy(loop);
}

/* inotify tells at once. */
static void write_edited(FILE *out)
{
    ev_run(loop, EVRUN_NOWAIT);
    if (edited)
        fprintf(out, "%s\n", edited);
    edited = NULL;
}

COMMAND(write)
{
    const char *name = script_word(&words);
    put_file(name, words);
    write_edited(out);
}

COMMAND(append)
{
    FILE *opened = fopen(in_folder(script_word(&words)), "ae");
    fputs(words, opened);
    fclose(opened);
    write_edited(out);
}

COMMAND(rename)
{
    const char *from = in_folder(script_word(&words));
    ck_assert_int_eq(rename(from, in_folder(words)), 0);
    write_edited(out);
}

/* Neither changes it. */
COMMAND(touch)
{
    FILE *opened = fopen(in_folder(words), "re");
    ck_assert_int_eq(fgetc(opened), 'a');
    fclose(opened);
    ck_assert_int_eq(chmod(in_folder(words), 0600), 0);
    write_edited(out);
}

COMMAND(remove)
{
    ck_assert_int_eq(unlink(in_folder(words)), 0);
    write_edited(out);
}

COMMAND(watch)
{
    struct error err = {0};
    ck_assert_ptr_null(config_watch_new(loop, in_folder(words), on_edited, NULL, &err));
    fprintf(out, "%s\n", strstr(err.text, words));
    error_clear(&err);
}

COMMAND(look)
{
    ck_assert_ptr_nonnull(timer);
    timer->cb(NULL, timer, EV_TIMER);
    ck_assert_int_eq(timer == NULL, completed);
    fputs(completed ? "complete\n" : "not yet\n", out);
}

/* With a slash in front it is no file of the test's. */
COMMAND(missing)
{
    fputs(awaited_file_is_missing(*words == '/' ? words : in_folder(words)) ? "yes\n" : "no\n",
          out);
}

CASES("file_watch")

UNIT_FIXTURE(set_up, tear_down)
