/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Plays events of a watch into the daemon's own pipeline, from the bytes that libcurl would hand
 * over to the kernel's acknowledgement, and beside each the bare transaction of the same elements
 * (mirror.h). Reads what to play from its standard input, one event a line, prints JSON, one object
 * a line; judges nothing. Works in a network namespace of its own. Called with "protobuf", each
 * TEXT is the hexadecimal form of an event in that; else it is JSON. With "alone" behind that,
 * there are no bare transactions.
 *
 *     LABEL <tab> RESOURCE <tab> TEXT   an event to be played; times are gathered by label
 *     <tab> RESOURCE <tab> TEXT         hand it over, no more: the first contents
 *     program                           put the first contents into force, and say what it cost
 *     replay                            say what the same costs the kernel alone, once more
 *     play                              play the events up to here, and say so
 *
 * instructions.py has callgrind count inside of the functions marked COUNTED.
 */
#include "canned_server.h"
#include "kube-nftd/base.h"
#include "kube-nftd/source.h"
#include "mirror.h"
#include "proxy.h"

#include <errno.h>
#include <ev.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COUNTED __attribute__((noinline)) static
#define LATER 1.0 /* seconds: everything that is put off is due */
#define MAX_LABELS 16

/* One event, in seconds. */
struct sample {
    double whole;      /* from its bytes to the acknowledgement, of which */
    double decode;     /*     until the object is handed on */
    double commit;     /*     in the kernel and around it */
    double bare;       /* the same transaction alone */
    double later;      /* what was put off: slots that no count reaches any more */
    double later_bare; /* the same transaction alone */
    double bytes;      /* of netlink messages, those put off included */
    double elements;   /* likewise */
    double transactions;
};

struct series {
    char *label;
    VEC(struct sample) samples;
};

static struct ev_loop *loop;
static struct nft_socket *nft;
static struct proxy *proxy;
static struct series series[MAX_LABELS];
static double handed_on_at; /* when an object came out of the decoder last */
static double replacing;    /* seconds that the caches took for the first contents */
static double time_ahead;   /* how far the pipeline's time is before the clock */
static enum encoding encoding;
static double feeding; /* seconds for the first contents up to now, caches included */

static void die(const char *what, struct error *err)
{
    fprintf(stderr, "bench_events: %s: %s\n", what, err && err->text ? err->text : strerror(errno));
    exit(EXIT_FAILURE);
}

/* ---- between the source and the caches ---- */

static void on_replace(void *ctx, enum object_kind kind, object_vec *objects)
{
    const struct object_sink *sink = &((struct proxy *)ctx)->caches.sink;
    double start = clock_monotonic();
    sink->replace(sink->ctx, kind, objects);
    replacing += clock_monotonic() - start;
}

static void on_put(void *ctx, struct object *object)
{
    const struct object_sink *sink = &((struct proxy *)ctx)->caches.sink;
    handed_on_at = clock_monotonic();
    sink->put(sink->ctx, object);
}

static void on_remove(void *ctx, enum object_kind kind, const char *id)
{
    const struct object_sink *sink = &((struct proxy *)ctx)->caches.sink;
    handed_on_at = clock_monotonic();
    sink->remove(sink->ctx, kind, id);
}

static void send_bytes(const char *resource, const char *text, size_t length)
{
    if (!canned_server_send(resource, encoding, text, length))
        die("an event was not taken", NULL);
}

/* ---- the first contents ---- */

COUNTED void count_first_event(const char *resource, const char *text, size_t length)
{
    send_bytes(resource, text, length);
}

COUNTED void count_first_syncs(void)
{
    double next;
    do
        next = proxy_sync(proxy, nft, clock_monotonic());
    while (!proxy_is_programmed(proxy) && next > 0 && next <= clock_monotonic());
}

static void program(void)
{
    mirror_start();
    double start = clock_monotonic();
    count_first_syncs();
    double turn = clock_monotonic() - start;
    const struct mirror_figures *did = mirror_figures();
    struct error err = {0};
    if (did->commits == 0 || !proxy_is_programmed(proxy))
        die("the first contents are not in force", NULL);
    double bare = mirror_replay(nft, &err);
    if (bare < 0)
        die("replay", &err);
    printf("{\"program\": {\"decode\": %.9f, \"caches\": %.9f, \"turn\": %.9f, \"commit\": %.9f, "
           "\"bare\": %.9f, \"bytes\": %zu, \"elements\": %zu, \"transactions\": %u}}\n",
           feeding - replacing, replacing, turn - did->aside, did->commit, bare, did->bytes,
           did->elements, did->commits);
}

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void replay(void)
{
    struct error err = {0};
    if (mirror_remove(nft, &err))
        die("removal", &err);
    /* The kernel frees what was deleted behind our back. */
    usleep((useconds_t)(10000 + mirror_figures()->elements));
    double cpu = cpu_seconds();
    double bare = mirror_replay(nft, &err);
    if (bare < 0)
        die("replay", &err);
    printf("{\"replay\": {\"seconds\": %.9f, \"cpu\": %.9f}}\n", bare, cpu_seconds() - cpu);
}

/* ---- events ---- */

static struct series *series_of(const char *label)
{
    for (int i = 0; i < MAX_LABELS; i++) {
        if (!series[i].label)
            series[i].label = xstrdup(label);
        if (strcmp(series[i].label, label) == 0)
            return &series[i];
    }
    die("too many labels", NULL);
    return NULL;
}

static double replay_of(struct sample *sample)
{
    struct error err = {0};
    const struct mirror_figures *did = mirror_figures();
    sample->bytes += (double)did->bytes;
    sample->elements += (double)did->elements;
    sample->transactions += did->commits;
    double bare = mirror_replay(nft, &err);
    if (bare < 0)
        die("replay", &err);
    return bare;
}

/* Returns when it began. */
COUNTED double count_change(const char *resource, const char *text, size_t length)
{
    double start = clock_monotonic();
    send_bytes(resource, text, length);
    proxy_sync(proxy, nft, start + time_ahead);
    return start;
}

static void play(const char *label, const char *resource, const char *text, size_t length)
{
    struct sample sample = {0};
    mirror_start();
    double start = count_change(resource, text, length);
    const struct mirror_figures *did = mirror_figures();
    sample.whole = clock_monotonic() - start - did->aside;
    sample.decode = handed_on_at - start;
    sample.commit = did->commit;
    sample.bare = replay_of(&sample);

    time_ahead += LATER;
    mirror_start();
    start = clock_monotonic();
    proxy_sync(proxy, nft, start + time_ahead);
    did = mirror_figures();
    sample.later = did->commits ? clock_monotonic() - start - did->aside : 0;
    sample.later_bare = replay_of(&sample);
    vec_push(&series_of(label)->samples, sample);
}

static void print_values(const struct series *from, const char *name, size_t offset, int digits)
{
    printf(", \"%s\": [", name);
    vec_each (&from->samples, sample)
        printf("%s%.*f", sample == from->samples.v ? "" : ", ", digits,
               *(const double *)((const char *)sample + offset));
    putchar(']');
}

static void print_series(void)
{
    for (int i = 0; i < MAX_LABELS && series[i].label; i++) {
        printf("{\"label\": \"%s\"", series[i].label);
        print_values(&series[i], "whole", offsetof(struct sample, whole), 9);
        print_values(&series[i], "decode", offsetof(struct sample, decode), 9);
        print_values(&series[i], "commit", offsetof(struct sample, commit), 9);
        print_values(&series[i], "bare", offsetof(struct sample, bare), 9);
        print_values(&series[i], "later", offsetof(struct sample, later), 9);
        print_values(&series[i], "later_bare", offsetof(struct sample, later_bare), 9);
        print_values(&series[i], "bytes", offsetof(struct sample, bytes), 0);
        print_values(&series[i], "elements", offsetof(struct sample, elements), 0);
        print_values(&series[i], "transactions", offsetof(struct sample, transactions), 0);
        puts("}");
    }
}

/* ---- the script ---- */

struct event {
    char *label; /* with the resource and the text behind it */
    const char *resource, *text;
    size_t length;
};

/* Those to be played: one after the other when whoever writes them is done, so that the two are not
 * in each other's way. */
static VEC(struct event) events;

/* Puts the bytes of @text in its place, returns how many. */
static size_t from_hex(char *text)
{
    size_t n = 0;
    for (char digits[3] = {0}; text[2 * n] && text[2 * n + 1]; n++) {
        memcpy(digits, text + 2 * n, 2);
        text[n] = (char)strtoul(digits, NULL, 16);
    }
    return n;
}

static struct event split(char *line, size_t length)
{
    char *first = strchr(line, '\t'), *second = strchr(first + 1, '\t');
    if (!second)
        die("a line without a second tab", NULL);
    *first = *second = '\0';
    length -= (size_t)(second + 1 - line);
    if (encoding == ENCODING_PROTOBUF)
        length = from_hex(second + 1);
    return (struct event){line, first + 1, second + 1, length};
}

static void take_event(char *line, size_t length)
{
    struct event event = split(line, length);
    if (*event.label) {
        char *copy = xcalloc(1, length + 1);
        memcpy(copy, line, length);
        event.resource = copy + (event.resource - line);
        event.text = copy + (event.text - line);
        event.label = copy;
        vec_push(&events, event);
        return;
    }
    double start = clock_monotonic();
    count_first_event(event.resource, event.text, event.length);
    feeding += clock_monotonic() - start;
}

static void play_events(void)
{
    vec_each (&events, event) {
        play(event->label, event->resource, event->text, event->length);
        free(event->label);
    }
    vec_clear(&events);
    puts("{}");
}

static void take_line(char *line, size_t length)
{
    char *tab = strchr(line, '\t');
    if (tab)
        take_event(line, length);
    else if (strcmp(line, "program\n") == 0)
        program();
    else if (strcmp(line, "replay\n") == 0)
        replay();
    else if (strcmp(line, "play\n") == 0)
        play_events();
    else
        die("a line that says nothing", NULL);
    if (!tab)
        fflush(stdout);
}

static void start(struct object_sink *sink)
{
    struct error err = {0};
    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        die("cannot make a network namespace", NULL);
    static const struct options options = {.masquerade_bit = 14};
    struct proxy_config config = {
        .options = &options, .node_name = "node-1", .families = {true, false}};
    loop = ev_loop_new(EVFLAG_AUTO);
    nft = nft_socket_open(&err);
    proxy = proxy_new(&config, &err);
    if (!loop || !nft || !proxy)
        die("start", &err);
    *sink = (struct object_sink){proxy, on_replace, on_put, on_remove};
}

static void drop_line(void *ctx, enum log_level level, const char *line)
{
    (void)ctx;
    if (level <= LOG_LEVEL_WARN)
        fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv)
{
    encoding = argc > 1 && strcmp(argv[1], "protobuf") == 0 ? ENCODING_PROTOBUF : ENCODING_JSON;
    if (argc > 2 && strcmp(argv[2], "alone") == 0)
        mirror_keep_nothing();
    struct object_sink sink;
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    log_set_sink(drop_line, NULL);
    start(&sink);
    struct reflector *reflectors[] = {
        reflector_start(loop, NULL, KIND_SERVICE, NULL, &sink, NULL),
        reflector_start(loop, NULL, KIND_ENDPOINTSLICE, NULL, &sink, NULL)};
    while ((length = getline(&line, &size, stdin)) > 0)
        take_line(line, (size_t)length);
    print_series();
    free(line);
    vec_free(&events);
    for (int i = 0; i < 2; i++)
        reflector_free(reflectors[i]);
    proxy_free(proxy);
    nft_socket_close(nft);
    ev_loop_destroy(loop);
    return EXIT_SUCCESS;
}
