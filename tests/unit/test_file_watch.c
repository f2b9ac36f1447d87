/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What counts as an edit of the configuration file, and when a file that is waited for is complete.
 * Cases are in cases/file_watch. */
#include "kube-nftd/host.h"
#include "script.h"

#include <sys/stat.h>
#include <unistd.h>

static int edits;
static struct stat seen; /* of the awaited file */

static void set_up(void)
{
    struct error err = {0};
    put_file("watched", "a");
    edits = edits_open(in_folder("watched"), &err);
    ck_assert_msg(edits >= 0, "%s", err.text);
    seen = (struct stat){.st_size = 0};
}

static void tear_down(void)
{
    close(edits);
}

/* inotify reports at once. */
static void write_edited(FILE *out)
{
    const char *edited = edits_read(edits);
    if (edited)
        fprintf(out, "%s\n", edited);
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
    ck_assert_int_eq(edits_open(in_folder(words), &err), -1);
    fprintf(out, "%s\n", strstr(err.text, words));
    error_clear(&err);
}

COMMAND(look)
{
    fputs(file_is_complete(in_folder("awaited"), &seen) ? "complete\n" : "not yet\n", out);
}

CASES("file_watch")

UNIT_FIXTURE(set_up, tear_down)
