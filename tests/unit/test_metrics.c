/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The text of the metrics page, from values that are given. */
#include "script.h"

#include "kube-nftd/commit.h"
#include "serve/pages.h"
#include "source/api_protocol.h"

#define START 1000.5 /* of the process */

static struct sync_metrics syncs[FAMILY_COUNT];
static struct ruleset_stats tables[FAMILY_COUNT];
static struct flow_cleaner_stats stats[FAMILY_COUNT];
static struct request_stats requests;
static struct snapshot state;
static char *page;

static void set_up(void)
{
    memset(stats, 0, sizeof(stats));
    memset(tables, 0, sizeof(tables));
    state = (struct snapshot){.requests = &requests};
    for (int kind = 0; kind < KIND_COUNT; kind++)
        state.watch[kind].resource = collection_resource((enum object_kind)kind)->name;
    for (int f = 0; f < FAMILY_COUNT; f++) {
        sync_metrics_init(&syncs[f], START);
        state.family[f].in_use = true;
        state.family[f].syncs = &syncs[f];
        state.family[f].table = &tables[f];
        state.flows[f] = &stats[f];
        stats[f].scan_seconds.buckets = &histogram_exponential;
    }
}

static void tear_down(void)
{
    for (int f = 0; f < FAMILY_COUNT; f++)
        sync_metrics_clear(&syncs[f]);
    vec_free(&requests.counts);
    vec_free(&requests.times);
    free(page);
    page = NULL;
}

static void print(void)
{
    size_t length;
    free(page);
    page = metrics_print(metrics_write, &state, &length);
    ck_assert_uint_eq(strlen(page), length);
}

/* In place of src/conntrack/flowtable_flows.c. */
static bool flows_known = true;

bool flowtable_flows(struct flowtable_flows *flows)
{
    *flows = (struct flowtable_flows){.n = {7, 8}, .estimated = true};
    return flows_known;
}

/* ---- pages as text: cases/metrics ---- */

/* "flowtable 4" or "flowtable 6": of this family; "flowtable" and nothing: conntrack cannot be
 * read. */
COMMAND(flowtable)
{
    static struct device both[] = {{"eth0", 1}, {"veth1", 2}};
    static const device_vec devices = {both, 2, 2};
    const enum family family = *words == '6' ? FAMILY_IPV6 : FAMILY_IPV4;
    flows_known = *words;
    if (*words)
        state.family[family].flowtable =
            (struct ruleset_flowtable){.in_use = true, .devices = &devices};
}

static void count_syncs(void)
{
    struct histogram *const histograms[] = {
        &syncs[FAMILY_IPV6].all, &syncs[FAMILY_IPV6].full, &syncs[FAMILY_IPV6].partial,
        &syncs[FAMILY_IPV6].programming, &stats[FAMILY_IPV6].scan_seconds};
    for (int i = 0; i < COUNT(histograms); i++)
        for (int n = 0; n <= i; n++)
            histogram_add(histograms[i], n ? 1000 : 0.0005);
    syncs[FAMILY_IPV4].without_local = (struct ports_without_local){5, 6};
    syncs[FAMILY_IPV4].last_success = 1795280617.25;
    syncs[FAMILY_IPV6].failures = 3;
    syncs[FAMILY_IPV4].transactions = 11;
    syncs[FAMILY_IPV4].bytes = 12;
    syncs[FAMILY_IPV4].seconds = 1.5;
    syncs[FAMILY_IPV4].last_bytes = 13;
    syncs[FAMILY_IPV4].last_seconds = 0.25;
    syncs[FAMILY_IPV4].elements_added = 14;
    syncs[FAMILY_IPV4].elements_deleted = 15;
}

static void count_flows(void)
{
    for (unsigned f = 0; f < FAMILY_COUNT; f++) {
        stats[f].scans = 31 + 10 * f;
        stats[f].deleted = 32 + 10 * f;
        stats[f].failed_deletions = 33 + 10 * f;
        stats[f].failed_scans = 34 + 10 * f;
        stats[f].total_scan_seconds = f ? 0.000001 : 36.25;
    }
}

static void count_requests(void)
{
    static char host[] = "10.0.0.1:6443";
    static const struct histogram_buckets buckets = {.n = 2, .bounds = {0.005, 0.025}};
    struct request_times get = {"GET", {.buckets = &buckets}}, post = {"POST", get.seconds};
    requests = (struct request_stats){.host = host};
    vec_push(&requests.counts, (struct request_count){"GET", 200, 2});
    vec_push(&requests.counts, (struct request_count){"GET", 0, 1});
    vec_push(&requests.counts, (struct request_count){"POST", 200, 1});
    vec_push(&requests.counts, (struct request_count){"GET", 410, 1});
    histogram_add(&get.seconds, 0.02);
    histogram_add(&get.seconds, 70);
    histogram_add(&post.seconds, 0.005);
    vec_push(&requests.times, get);
    vec_push(&requests.times, post);
    for (unsigned kind = 0; kind < KIND_COUNT; kind++) {
        struct reflector_stats *counts = &state.watch[kind];
        counts->lists = 100 + kind;
        counts->resumes = 110 + kind;
        counts->events = 120 + kind;
        counts->bad_objects = 130 + kind;
        counts->bad_answers = 140 + kind;
        counts->failures = 150 + kind;
    }
    struct reflector_stats *counts = state.watch;
    counts[KIND_SERVICE].received[ENCODING_JSON] = 7;
    counts[KIND_SERVICE].received[ENCODING_PROTOBUF] = 8;
    counts[KIND_NODE].received[ENCODING_PROTOBUF] = 9;
}

COMMAND(all)
{
    state.slices_pending = 1;
    state.slice_changes = 2;
    state.services_pending = 3;
    state.service_changes = 4;
    state.family[FAMILY_IPV4].frontends = 1;
    state.family[FAMILY_IPV6].frontends = 2;
    state.conflicts = 3;
    state.reserved = 24;
    state.service_addresses = 26;
    state.n_services = 4;
    state.n_slices = 5;
    state.invalid[KIND_SERVICE] = 6;
    state.invalid[KIND_NODE] = 7;
    state.family[FAMILY_IPV4].repairs = 19;
    state.family[FAMILY_IPV6].drift = 20;
    state.audits = 21;
    state.external_ips = true;
    tables[FAMILY_IPV4] = (struct ruleset_stats){.elements = 16,
                                                 .read_backs = 17,
                                                 .mistakes = 25,
                                                 .replaced = 18,
                                                 .rejected = 19,
                                                 .rejected_elements = 20,
                                                 .rejections = 21,
                                                 .records = 22,
                                                 .most_records = 23,
                                                 .records_known = true};
    state.health_counts.healthz.good = 4;
    state.health_counts.healthz.bad = 1;
    state.health_counts.livez.bad = 2;
    count_syncs();
    count_flows();
    count_requests();
}

/* A family that is not in use says nothing. */
COMMAND(one_family)
{
    state.family[FAMILY_IPV6].in_use = false;
    state.family[FAMILY_IPV6].syncs = NULL;
    state.family[FAMILY_IPV6].table = NULL;
}

/* Objects from files, a kernel without conntrack over netlink, nobody who asks for health. */
COMMAND(files)
{
    state.requests = NULL;
    memset(state.watch, 0, sizeof(state.watch));
    memset(state.flows, 0, sizeof(state.flows));
    state.health_counts = (struct health_counts){0};
}

/* The rest of a sample, which begins with the metric's @name. A bucket that has no more than the
 * one
 * @before is left out. */
static void write_sample(FILE *out, const char *name, const char *line, char **before)
{
    const char *count = strstr(line, "_bucket{") ? strrchr(line, ' ') : "";
    if (!*count || strcmp(*before, count) != 0)
        fprintf(out, " %s", line + strlen(name));
    free(*before);
    *before = xstrdup(count);
}

/* A line for each metric, with its type and samples, but those of every program; or just those with
 * a word somewhere. */
COMMAND(page)
{
    char *before = xstrdup(""), *name = xstrdup(""), *line, *rest;
    print();
    for (line = strtok_r(page, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        bool wanted = strstr(line, words) && !strstr(line, "process_") && !strstr(line, "_build_");
        if (!wanted || strncmp(line, "# HELP", 6) == 0)
            continue;
        if (*line != '#') {
            write_sample(out, name, line, &before);
            continue;
        }
        free(name);
        name = xstrndup(line + 7, strcspn(line + 7, " "));
        fprintf(out, "%s%s", ftell(out) ? "\n" : "", line + 7);
    }
    fputs(ftell(out) ? "\n" : "", out);
    free(name);
    free(before);
}

CASES("metrics")

/* What it says of the build, without what each build has of its own. */
COMMAND(build)
{
    static const char *const labels[] = {"build_date",     "compiler",    "git_commit",
                                         "git_tree_state", "git_version", "go_version",
                                         "major",          "minor",       "platform"};
    print();
    const char *at = strstr(page, "\nkubernetes_build_info");
    ck_assert_ptr_nonnull(at);
    for (int i = 0; i < COUNT(labels); i++) {
        char *label = xasprintf("%c%s=\"", i ? ',' : '{', labels[i]);
        at = strstr(at, label);
        ck_assert_msg(at, "%s", label);
        free(label);
    }
    ck_assert_int_eq(strncmp(strchr(at, '}'), "} 1\n", 4), 0);
    ck_assert(strstr(page,
                     ",git_commit=\"" KUBE_NFTD_COMMIT "\",git_tree_state=\"" KUBE_NFTD_TREE_STATE
                     "\",git_version=\"v" KUBE_NFTD_VERSION "\","));
    ck_assert(strstr(page, ",platform=\"linux/"));
    ck_assert(strstr(page, ",version=\"" KUBE_NFTD_VERSION "\"} 1\n"));
}

/* ---- how long programming takes ---- */

/* "SERVICE S": a change of it that happened so many seconds after the start; "-": it lost its
 * Service. */
COMMAND(triggered)
{
    const char *service = script_word(&words), *id = *service == '-' ? NULL : intern(service);
    sync_metrics_triggered(&syncs[FAMILY_IPV6], id, START + atof(words));
    intern_release(id);
}

static bool is_big(const void *ctx, const char *service_id, enum family family)
{
    ck_assert_ptr_eq(ctx, &state);
    ck_assert_int_eq(family, FAMILY_IPV6);
    fputs("is it waiting? ", script_out());
    return strcmp(service_id, "shop/big") == 0;
}

/* "S [SERVICE]": all is applied then, except shop/big if it waits. */
COMMAND(applied)
{
    struct sync_metrics *it = &syncs[FAMILY_IPV6];
    double then = START + atof(script_word(&words));
    it->last_success = then;
    ck_assert(it->last_success == then);
    sync_metrics_applied(it, then, *words ? is_big : NULL, &state, FAMILY_IPV6);
    fprintf(out, "%d took %g s\n", (int)histogram_count(&it->programming), it->programming.sum);
}

/* While no sync succeeds, memory does not grow for ever. */
COMMAND(triggered_too_often)
{
    const char *id = intern("shop/web");
    for (int i = 0; i < SYNC_TRIGGERS_MOST + 1000; i++)
        sync_metrics_triggered(&syncs[FAMILY_IPV6], id, START + 1);
    ck_assert_uint_eq(syncs[FAMILY_IPV6].triggers.n, SYNC_TRIGGERS_MOST);
    intern_release(id);
}

UNIT_FIXTURE(set_up, tear_down)
