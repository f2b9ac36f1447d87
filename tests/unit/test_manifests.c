/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files in a folder of their own and a sink that records what it gets. inotify queues an
 * event before the call that made it returns, so running the loop without waiting sees everything.
 * Cases are in cases/manifests; paths are those in the folder.
 */
#include "kube-nftd/source.h"
#include "script.h"

#include <ev.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static FILE *seen; /* what the sink got, in one line */
static char *seen_text;
static size_t seen_length;
static unsigned replaced; /* kinds */
static struct ev_loop *loop;
static struct manifests *manifests;
static FILE *half_written;

/* ---- the sink ---- */

/* "Service default/a:80": a Service with its first port, a slice with its number of endpoints. */
static void show(const char *what, struct object *object)
{
    int value = -1;
    if (object->kind == KIND_SERVICE && object->service)
        value = object->service->ports.n ? object->service->ports.v[0].port : 0;
    else if (object->kind == KIND_ENDPOINTSLICE && object->slice)
        value = (int)object->slice->endpoints.n;
    else if (object->payload)
        value = 0;
    fprintf(seen, "%s%s %s:%d, ", what, object_kind_name(object->kind), object->id, value);
    object_clear(object);
}

static void on_replace(void *ctx, enum object_kind kind, object_vec *objects)
{
    replaced++;
    vec_each (objects, object)
        show("", object);
    object_vec_clear(objects);
}

static void on_put(void *ctx, struct object *object)
{
    show("put ", object);
}

static void on_remove(void *ctx, enum object_kind kind, const char *id)
{
    fprintf(seen, "remove %s %s, ", object_kind_name(kind), id);
}

static const struct object_sink sink = {NULL, on_replace, on_put, on_remove};

/* And what was logged about it. */
static void write_seen(FILE *out)
{
    fclose(seen);
    if (seen_length > 0)
        fprintf(out, "%.*s\n", (int)seen_length - 2, seen_text);
    free(seen_text);
    seen = open_memstream(&seen_text, &seen_length);
    write_logged(out, LOG_LEVEL_WARN);
}

/* ---- files ---- */

static void setup(void)
{
    seen = open_memstream(&seen_text, &seen_length);
    loop = ev_loop_new(EVFLAG_AUTO);
}

static void teardown(void)
{
    manifests_free(manifests);
    manifests = NULL;
    ev_loop_destroy(loop);
    fclose(seen);
    free(seen_text);
}

/* "a:1 b:2" are two Services with a port each; then comes the text below. */
static void write_file(FILE *file, char *words)
{
    for (char *word; *(word = script_word(&words));)
        fprintf(file,
                "---\napiVersion: v1\nkind: Service\nmetadata: {name: %.*s}\n"
                "spec: {clusterIP: 10.96.0.1, ports: [{port: %s}]}\n",
                (int)(strrchr(word, ':') - word), word, strrchr(word, ':') + 1);
    fputs(script_text(), file);
    fflush(file);
}

/* ---- commands ---- */

static void make_file(char *words)
{
    FILE *file = fopen(in_folder(script_word(&words)), "we");
    ck_assert_ptr_nonnull(file);
    write_file(file, words);
    fclose(file);
}

/* One that is still open. */
static void begin_file(char *words)
{
    half_written = fopen(in_folder(script_word(&words)), "we");
    write_file(half_written, words);
}

static void add_to_file(char *words)
{
    write_file(half_written, words);
}

static void end_file(char *words)
{
    fclose(half_written);
}

static void make_folders(char *words)
{
    for (char *word; *(word = script_word(&words));)
        ck_assert_int_eq(mkdir(in_folder(word), 0700), 0);
}

static void remove_files(char *words)
{
    for (char *word; *(word = script_word(&words));)
        ck_assert_int_eq(remove(in_folder(word)), 0);
}

static void rename_file(char *words)
{
    const char *from = in_folder(script_word(&words));
    ck_assert_int_eq(rename(from, in_folder(words)), 0);
}

/* A target that begins with a slash is in the folder, too. */
static void make_link(char *words)
{
    const char *to = script_word(&words);
    to = *to == '/' ? in_folder(to + 1) : to;
    ck_assert_int_eq(symlink(to, in_folder(words)), 0);
}

static void make_hard_link(char *words)
{
    const char *to = in_folder(script_word(&words));
    ck_assert_int_eq(link(to, in_folder(words)), 0);
}

static void make_fifo(char *words)
{
    ck_assert_int_eq(mkfifo(in_folder(words), 0600), 0);
}

static const struct {
    const char *name;
    void (*make)(char *words);
} changes[] = {
    {"file", make_file},          {"begin", begin_file}, {"more", add_to_file}, {"end", end_file},
    {"mkdir", make_folders},      {"rm", remove_files},  {"mv", rename_file},   {"ln", make_link},
    {"hardlink", make_hard_link}, {"fifo", make_fifo},
};

/* Changes files. */
COMMAND_AS("-", change)
{
    const char *name = script_word(&words);
    for (int i = 0; i < COUNT(changes); i++)
        if (strcmp(changes[i].name, name) == 0)
            changes[i].make(words);
}

/* And then the loop runs on what is there. */
COMMAND_AS("+", change_and_look)
{
    run_change(words, out);
    ev_run(loop, EVRUN_NOWAIT);
    ev_run(loop, EVRUN_NOWAIT);
    write_seen(out);
}

/* And then rescans, as polls do in the end. */
COMMAND_AS("*", change_and_ask)
{
    run_change(words, out);
    manifests_rescan(manifests);
    write_seen(out);
}

/* "." is the folder itself; "./NAME" is as one types it, there. */
static const char *path_of(const char *word)
{
    if (strncmp(word, "./", 2) != 0)
        return *word == '.' ? test_folder() : in_folder(word);
    ck_assert_int_eq(chdir(test_folder()), 0);
    return word + 2;
}

/* "!" before the path: strictly; "?": all or nothing. A text below is the file's. */
COMMAND(load)
{
    struct error err = {0};
    enum manifests_mode mode = *words == '!'   ? MANIFESTS_STRICT
                               : *words == '?' ? MANIFESTS_WHOLE
                                               : MANIFESTS_PARTIAL;
    words += mode != MANIFESTS_PARTIAL;
    if (*script_text())
        put_file(words, script_text());
    manifests_free(manifests);
    replaced = 0;
    manifests = manifests_open(path_of(words), &sink, mode, NULL, &err);
    if (!manifests)
        fprintf(out, "%s\n", err.text + (*err.text == '/' ? strlen(test_folder()) + 1 : 0));
    ck_assert(replaced == (manifests ? KIND_COUNT : 0) ||
              (mode == MANIFESTS_WHOLE && replaced == 0 && manifests_problem(manifests)));
    error_clear(&err);
    write_seen(out);
}

/* "whole", "partly" or "waiting", and the problem. */
COMMAND(state)
{
    const char *problem = manifests_problem(manifests);
    fprintf(out, "%s%s%s\n",
            manifests_are_whole(manifests) ? "whole"
            : replaced                     ? "partly"
                                           : "waiting",
            problem ? ": " : "", problem ? problem + strlen(test_folder()) + 1 : "");
}

COMMAND(begin_partly)
{
    bool previous = strcmp(words, "previous") == 0;
    fprintf(out, "%s\n", manifests_begin(manifests, previous) ? "begun" : "nothing to begin");
    write_seen(out);
}

COMMAND(follow_loaded)
{
    struct error err = {0};
    ck_assert_msg(manifests_follow(manifests, loop, &err) == 0, "%s", err.text);
    write_seen(out);
}

/* The initial contents are not shown. */
COMMAND(follow)
{
    FILE *nowhere = fopen("/dev/null", "we");
    run_load(words, nowhere);
    fclose(nowhere);
    run_follow_loaded(words, out);
}

COMMAND(rescan)
{
    manifests_rescan(manifests);
    write_seen(out);
}

/* Runs the loop until the sink gets something; or for so many seconds. */
COMMAND(wait)
{
    double end = *words ? ev_time() + atof(words) : INFINITY;
    for (fflush(seen); seen_length == 0 && ev_time() < end; fflush(seen)) {
        ev_run(loop, EVRUN_NOWAIT);
        usleep(1000);
    }
    write_seen(out);
}

/* Where the file is cut, as long as that changes nothing and is said: from line @words on, at each
 * byte. The first place where it does change something. */
COMMAND(cut)
{
    const char *text = script_text(), *from = text;
    put_file("a.yaml", text);
    run_follow("a.yaml", out);
    for (int line = 1; line < atoi(words); line++)
        from = strchr(from, '\n') + 1;
    for (; *from; from++) {
        put_file_bytes("a.yaml", text, (size_t)(from - text));
        ev_run(loop, EVRUN_NOWAIT);
        fflush(seen);
        if (seen_length > 0 || !logged_with("; its previous objects stay active"))
            break;
        forget_logged();
    }
    while (from > text && from[-1] != '\n')
        from--;
    fprintf(out, "harmless before the end of \"%.*s\"\n", (int)strcspn(from, "\n"), from);
    write_seen(out);
}

CASES("manifests")

static void touch(const char *name)
{
    close(open(in_folder(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
}

/* The folder goes while names of it are looked at: more events than are read at once. */
TEST(folder_goes_meanwhile)
{
    put_file("in/a.yaml", "kind: List\napiVersion: v1\nitems: []\n");
    run_follow("in", stderr);
    for (int i = 0; i < 1500; i++) {
        touch("in/x.txt");
        touch("in/y.txt");
    }
    ck_assert_int_eq(rename(in_folder("in"), in_folder("old")), 0);
    ev_run(loop, EVRUN_NOWAIT);
    ck_assert_str_eq(last_logged(LOG_LEVEL_WARN), "");
    ev_run(loop, EVRUN_NOWAIT);
    ev_run(loop, EVRUN_NOWAIT);
    ck_assert_uint_eq(logged_with("the folder is gone"), 1);
}

static void on_turn(struct ev_loop *of, ev_prepare *watcher, int events)
{
    ++*(unsigned *)watcher->data;
}

/* Of which there are some, each of about a megabyte. */
TEST(the_loop_runs_while_a_large_file_is_read)
{
    struct error err = {0};
    unsigned turns = 0;
    ev_prepare counter;
    FILE *file = fopen(in_folder("large.json"), "we");
    fputs("{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[", file);
    for (unsigned i = 0; i < 4; i++)
        fprintf(
            file,
            "%s{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"s%u\"},"
            "\"spec\":{\"clusterIP\":\"10.96.0.%u\",\"ports\":[{\"port\":80}]},\"note\":\"%*s\"}",
            i ? "," : "", i, i + 1, 1 << 20, "");
    fputs("]}", file);
    fclose(file);
    ev_prepare_init(&counter, on_turn);
    counter.data = &turns;
    ev_prepare_start(loop, &counter);
    manifests = manifests_open(in_folder("large.json"), &sink, MANIFESTS_STRICT, loop, &err);
    ck_assert_msg(manifests, "%s", err.text);
    ck_assert_uint_ge(turns, 4);
    fflush(seen);
    ck_assert(replaced > 0 && replaced % KIND_COUNT == 0); /* on a slow machine once more */
    ev_prepare_stop(loop, &counter);
}

/* More events than the kernel queues: the last change has no event of its own. */
TEST(overflow)
{
    long limit = 0;
    FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
    if (!file || fscanf(file, "%ld", &limit) != 1 || limit <= 0 || limit > 100000)
        return;
    fclose(file);
    make_file((char[]){"a.yaml a:1"});
    make_file((char[]){"gone.yaml gone:1"});
    run_follow(".", stderr);
    for (long i = 0; i <= limit / 2; i++) {
        touch("x.txt");
        touch("y.txt");
    }
    make_file((char[]){"a.yaml a:22"});
    remove_files((char[]){"gone.yaml"});
    for (long i = 0; i < limit / 100; i++)
        ev_run(loop, EVRUN_NOWAIT);
    fflush(seen);
    ck_assert_str_eq(seen_text, "remove Service default/gone, put Service default/a:22, ");
}

UNIT_FIXTURE(setup, teardown)
