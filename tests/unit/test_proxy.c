/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The pipeline as a whole, step by step in cases/proxy: objects in at the sink, transactions out at
 * a kernel in memory. */
#include "proxy.h"
#include "serve/pages.h"
#include "table/element.h"

#include "facts.h"
#include "fake_clock.h"
#include "fake_flows.h"
#include "fake_health.h"
#include "fake_kernel.h"
#include "kube-nftd/base.h"
#include "kube-nftd/netlink.h"
#include "script_objects.h"

#include <errno.h>
#include <math.h>

static struct proxy *proxy;
static struct proxy_config config; /* of the proxy */
static struct options options;
static struct nft_socket *kernel;
static double next;  /* time of the next sync, as the last one returned it */
static double begun; /* clock_realtime of the proxy's start */
static struct {
    double queued, success;
} times[FAMILY_COUNT]; /* as last shown */

static struct fake_flows flows;
static struct facts checks;
static VEC(struct frontend) stale[FAMILY_COUNT]; /* not yet deleted, or skipped */
static flow_not_applied_fn not_applied[FAMILY_COUNT];
static const void *not_applied_ctx[FAMILY_COUNT];

void receive(char *about, char *what)
{
    if (script_out())
        fprintf(script_out(), "%s %s\n", about, what ? what : "gone");
    free(about);
    free(what);
}

void receive_check(char *about, char *what)
{
    const bool known = facts_set(&checks, xstrdup(about), xstrdup(what));
    if (what || known)
        receive(about, what);
    else
        free(about);
}

/* Not written where there are many. */
void receive_flows(const struct frontend *frontend, char *text)
{
    char about[FRONTEND_TEXT_SIZE];
    if (config.portion)
        free(text);
    else
        receive(xstrdup(frontend_format(frontend, about)), text);
    vec_push(&stale[frontend->family], *frontend);
}

bool health_service_is_listening(const struct health *health, const char *service_id,
                                 enum family family)
{
    return health == config.health;
}

void flow_cleaner_skip(struct flow_cleaner *cleaner, enum family family, flow_not_applied_fn fn,
                       const void *ctx)
{
    ck_assert_ptr_eq(cleaner, config.flows);
    ck_assert(config.families[family] && fn && ctx);
    not_applied[family] = fn;
    not_applied_ctx[family] = ctx;
}

/* Runs that delete nothing are not written. */
void flow_cleaner_run(struct flow_cleaner *cleaner, enum family family)
{
    ck_assert_ptr_eq(cleaner, config.flows);
    ck_assert(config.families[family]);
    size_t waiting = 0, n = stale[family].n;
    vec_each (&stale[family], it)
        if (not_applied[family](not_applied_ctx[family], it, 0))
            stale[family].v[waiting++] = *it;
    if (waiting < n)
        receive(xstrdup("run"), xstrdup(family_name(family)));
    stale[family].n = waiting;
}

static void on_event(void *ctx, const struct object_event *event)
{
    (void)ctx;
    receive(xasprintf("event %s %s", event->reason, event->id), xstrdup(event->note));
}

/* ---- daemons ---- */

static void configure(const char *word)
{
    static const struct event_sink events = {NULL, on_event};
    enum family family;
    if (strcmp(word, "events") == 0) {
        config.events = &events;
    } else if (strncmp(word, "numbers=", 8) == 0) {
        for (int i = 0; i < FAMILY_COUNT; i++)
            config.rulesets[i].most_numbers = (uint32_t)atoi(word + 8);
    } else if (strcmp(word, "no-ipv6") == 0) {
        config.families[FAMILY_IPV6] = false;
    } else if (strcmp(word, "no-receivers") == 0) {
        config.health = NULL;
        config.flows = NULL;
    } else if (strcmp(word, "no-external-ips") == 0) {
        options.no_external_ips = true;
    } else if (strcmp(word, "optional") == 0) {
        options.manifests = (char *)"manifests";
    } else if (strcmp(word, "offline") == 0) {
        config.offline = true;
    } else if (strcmp(word, "follow") == 0) {
        options.detect_local_mode = DETECT_LOCAL_NODE_CIDR;
    } else if (strncmp(word, "period=", 7) == 0) {
        options.sync_period = atof(word + 7);
    } else if (strncmp(word, "portion=", 8) == 0) {
        config.portion = (size_t)atoi(word + 8);
    } else if (strncmp(word, "made=", 5) == 0) {
        config.rulesets[FAMILY_IPV4].portion = (uint32_t)atoi(word + 5);
    } else if (strncmp(word, "dump=", 5) == 0) {
        config.rulesets[FAMILY_IPV4].dump_most = (uint32_t)atoi(word + 5);
    } else {
        ck_assert_msg(strncmp(word, "pods=", 5) == 0, "%s", word);
        struct cidr cidr = make_cidr(word + 5, &family);
        options.has_cluster_cidr[family] = true;
        options.cluster_cidr[family] = cidr;
    }
}

/* A proxy as @config says; the kernel stays as it is. */
static void restart(void)
{
    struct error err = {0};
    proxy_free(proxy);
    fake_flows_clear(&flows);
    facts_clear(&checks);
    begun = clock_realtime();
    proxy = proxy_new(&config, &err);
    ck_assert_msg(proxy, "%s", err.text);
    for (int i = 0; i < FAMILY_COUNT; i++)
        vec_free(&stale[i]);
    memset(times, 0, sizeof(times));
}

static void set_up(void)
{
    struct error err = {0};
    fake_kernel_reset();
    options = (struct options){.masquerade_bit = 14, .node_port_addresses.primary = true};
    config = (struct proxy_config){.options = &options,
                                   .node_name = "n1",
                                   .families = {true, true},
                                   .health = (struct health *)(void *)&stale,
                                   .flows = (struct flow_cleaner *)(void *)&flows};
    kernel = nft_socket_open(&err);
    ck_assert_ptr_nonnull(kernel);
    now = 1000;
    clock_step = 1e-9;
    script_show_log(LOG_LEVEL_WARN);
    restart();
    forget_logged();
}

static void tear_down(void)
{
    proxy_free(proxy);
    proxy = NULL;
    fake_flows_clear(&flows);
    facts_clear(&checks);
    for (int i = 0; i < FAMILY_COUNT; i++)
        vec_free(&stale[i]);
    nft_socket_close(kernel);
}

COMMAND(start)
{
    each_word(words, word) configure(word);
    restart();
}

/* ---- what goes in ---- */

/* Takes the payload. */
static void put(enum object_kind kind, void *payload, const char *trigger)
{
    struct object object = {.kind = kind, .payload = payload};
    const struct object_sink *sink = &proxy->caches.sink;
    if (trigger)
        object.trigger_time = begun + atof(trigger);
    sink->put(sink->ctx, &object);
    ck_assert_ptr_null(object.payload);
}

COMMAND(service)
{
    put(KIND_SERVICE, script_service(words), NULL);
}

/* shop/web; its endpoints, those of both families. */
COMMAND(web)
{
    char *all = xasprintf("shop/web 10.96.0.1 fd00:96::1 /TCP:80+30080 %s", words);
    run_service(all, out);
    free(all);
}

static void put_slices(const char *id, const char *ports, const char *words)
{
    for (int family = 0; family < FAMILY_COUNT; family++) {
        char *slice_id = xasprintf("%s-%c", id, "46"[family]);
        struct endpoint_slice *slice = make_slice(slice_id, id, (enum family)family, ports, "");
        each_word(words, word)
        {
            if ((strchr(word, ':') != NULL) == (family == FAMILY_IPV6))
                vec_push(&slice->endpoints, make_endpoint(word, (enum family)family));
        }
        put(KIND_ENDPOINTSLICE, slice, NULL);
        free(slice_id);
    }
}

COMMAND(endpoints)
{
    put_slices("shop/web", "/TCP:8080", words);
}

/* One over UDP, with its endpoints. */
COMMAND(dns)
{
    put(KIND_SERVICE, make_service("shop/dns", "10.96.0.53 fd00:96::53", "/UDP:53"), NULL);
    put_slices("shop/dns", "/UDP:5353", words);
}

/* "trigger=S slice": when it became another, in seconds since the proxy began. */
COMMAND(slice)
{
    char *trigger = NULL;
    if (strncmp(words, "trigger=", 8) == 0)
        script_option(script_word(&words), "trigger", &trigger);
    put(KIND_ENDPOINTSLICE, script_slice(words), trigger);
}

COMMAND(node)
{
    const char *id = script_word(&words);
    put(KIND_NODE, make_node(id, words), NULL);
}

COMMAND(cidrs)
{
    const char *id = script_word(&words);
    put(KIND_SERVICECIDR, make_service_cidr(id, words), NULL);
}

static enum object_kind kind_of(const char *name)
{
    for (int kind = 0; kind < KIND_COUNT; kind++)
        if (strcmp(object_kind_name((enum object_kind)kind), name) == 0)
            return (enum object_kind)kind;
    ck_abort_msg("no kind %s", name);
}

/* One that cannot be read. */
COMMAND(bad)
{
    struct object object = {.kind = kind_of(script_word(&words))};
    const struct object_sink *sink = &proxy->caches.sink;
    object.id = xstrdup(script_word(&words));
    if (*words)
        object_version_set(&object.version, words);
    sink->put(sink->ctx, &object);
}

COMMAND(remove)
{
    const struct object_sink *sink = &proxy->caches.sink;
    enum object_kind kind = kind_of(script_word(&words));
    sink->remove(sink->ctx, kind, words);
}

/* Of these kinds there is nothing; without any, of Services and EndpointSlices. */
COMMAND(complete)
{
    const struct object_sink *sink = &proxy->caches.sink;
    each_word(*words ? words : "Service EndpointSlice", word)
    {
        object_vec none = {0};
        sink->replace(sink->ctx, kind_of(word), &none);
    }
}

COMMAND(host)
{
    address_vec addresses = make_addresses(words);
    enum family family = strchr(words, ':') ? FAMILY_IPV6 : FAMILY_IPV4;
    node_info_set_host_addresses(proxy->node, family, &addresses);
    vec_free(&addresses);
}

COMMAND(api_server)
{
    struct frontend server = {0};
    if (*words)
        server = script_frontend(words);
    proxy_set_api_server(proxy, &server, server.port != 0);
}

COMMAND(unreachable)
{
    struct frontend server = script_frontend(words);
    proxy_api_server_unreachable(proxy, &server);
}

/* ---- the kernel ---- */

/* Transaction number N is rejected. */
COMMAND(fail)
{
    fake_kernel_fail((unsigned)atoi(words), FAKE_REJECTS);
}

/* So many reads, those of tables too. */
COMMAND(unreadable)
{
    fake_kernel_fail_reads(1, (unsigned)atoi(words), true, EINTR);
}

COMMAND(reject)
{
    struct frontend frontend = script_frontend(words);
    fake_kernel_reject_frontend("services", &frontend, ENFILE);
}

/* "full SET [N]": it has room for no more than N. */
COMMAND(full)
{
    const char *set = intern(script_word(&words));
    fake_kernel_limit(set, (size_t)atoi(words));
}

COMMAND(uncounted)
{
    fake_kernel_tell_counts(false);
}

COMMAND(accept)
{
    fake_kernel_accept();
}

COMMAND(drop_table)
{
    fake_kernel_drop_table(FAMILY_IPV4);
}

/* A frontend, by another program, which is seen. */
COMMAND(take)
{
    const struct frontend frontend = script_frontend(words);
    const struct key key = key_of_frontend(&frontend);
    const struct nft_element element = {.key = key.bytes, .key_length = key.length};
    const struct table_change change = {FAMILY_IPV4, "services", &element};
    const struct table_program by = {.pid = 4711, .name = "nft"};
    fake_kernel_take(FAMILY_IPV4, "services", key.bytes, key.length);
    proxy_foreign_change(proxy, &change);
    proxy_foreign_finished(proxy, FAMILY_IPV4, &by);
}

/* From now on the clock goes on by so many seconds whenever somebody looks at it. */
COMMAND(slow)
{
    clock_step = atof(words);
}

/* Events of another program's change, of more than an element. */
COMMAND(news)
{
    const struct table_program by = {.pid = 4711, .name = "nft"};
    const struct table_change change = {.family = FAMILY_IPV4};
    proxy_foreign_change(proxy, &change);
    proxy_foreign_finished(proxy, FAMILY_IPV4, &by);
}

/* By another program, of IPv4. */
COMMAND(break_rules)
{
    fake_kernel_tolerate();
    fake_kernel_flush_chain(FAMILY_IPV4, "port");
    run_news(words, out);
}

/* Events about the tables, whosever they were. */
COMMAND(lose)
{
    const struct table_program unknown = {0};
    proxy_foreign_lost(proxy);
    proxy_foreign_finished(proxy, FAMILY_IPV4, &unknown);
}

/* ---- syncs ---- */

static void sync_after(double seconds)
{
    now += seconds;
    fake_kernel_set_time(now);
    next = proxy_sync(proxy, kernel, now);
}

/* "S", in seconds since the last one; "next", when that requested it, or so many times that. Writes
 * what the receivers get. */
COMMAND(sync)
{
    if (strncmp(words, "next", 4) != 0)
        sync_after(atof(words));
    else
        for (int n = words[4] ? atoi(words + 4) : 1; n > 0; n--)
            sync_after(fmax(next - now, 0));
}

COMMAND(keep)
{
    proxy_keep(proxy, kernel, now);
}

COMMAND(later)
{
    now += atof(words);
}

COMMAND(next)
{
    if (next == 0)
        fputs("never\n", out);
    else if (next == now)
        fputs("at once\n", out);
    else
        fprintf(out, "in %.3g s\n", next - now);
}

static struct snapshot snapshot(void)
{
    struct snapshot now_ = {0};
    proxy_snapshot(proxy, &now_);
    return now_;
}

/* Whether a change of a Service is reported as pending. */
static bool is_pending(const char *id)
{
    struct snapshot state = snapshot();
    struct explain_query query;
    struct error err = {0};
    ck_assert_int_eq(explain_query_parse(id, &query, &err), 0);
    cJSON *answer = explain(&state, &query);
    char *text = cJSON_PrintUnformatted(answer);
    bool waits = strstr(text, "\"pending\":true");
    ck_assert(waits || strstr(text, "\"pending\":false"));
    ck_assert(waits == (strstr(text, "a change of it is not in the kernel yet") != NULL));
    ck_assert(service_is_pending(&state, id) == waits); /* as /programmed and list say */
    cJSON_free(text);
    cJSON_Delete(answer);
    explain_query_clear(&query);
    return waits;
}

static char *waiting_text(const char *services)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    const struct histogram *timed = &snapshot().family[FAMILY_IPV4].syncs->programming;
    fprintf(out, "timed=%d waiting:", (int)histogram_count(timed));
    each_word(services, id)
    {
        if (is_pending(id))
            fprintf(out, " %s", id);
    }
    fputs(stale[FAMILY_IPV4].n > 0 ? " flows\n" : "\n", out);
    fclose(out);
    return text;
}

/* "Services": syncs, as long as the next is due at once; what waits meanwhile, which is the
 * same, and in the end. */
COMMAND(syncs)
{
    unsigned n = 0;
    char *meanwhile = waiting_text(words);
    fputs(meanwhile, out);
    for (; next == now; sync_after(0), n++)
        expect_text(waiting_text(words), meanwhile);
    ck_assert_uint_gt(n, 2);
    free(meanwhile);
    char *in_the_end = waiting_text(words);
    fputs(in_the_end, out);
    free(in_the_end);
}

/* ---- what comes out ---- */

static void write_destination(FILE *out, const struct frontend *frontend)
{
    struct backend backends[16];
    size_t n = fake_kernel_backends(frontend, backends, COUNT(backends));
    if (!fake_kernel_has("services", frontend))
        fputs("not there", out);
    else
        fputs(fake_kernel_rejects(frontend) ? "rejected" : "to", out);
    write_backends(out, (enum family)frontend->family, backends, n);
}

/* Where these frontends lead. */
COMMAND(leads)
{
    while (*words) {
        struct frontend frontend = script_frontend(script_word(&words));
        write_destination(out, &frontend);
        fputs(*words ? "; " : "\n", out);
    }
}

/* How many elements sets of IPv4 and of IPv6 have; -1: they are not there. */
COMMAND(size)
{
    for (char *set; *(set = script_word(&words));)
        fprintf(out, "%s=%zd/%zd%s", set, (ssize_t)fake_kernel_size(FAMILY_IPV4, set),
                (ssize_t)fake_kernel_size(FAMILY_IPV6, set), *words ? " " : "\n");
}

/* The ranges in a set, of IPv4 and of IPv6. */
COMMAND(ranges)
{
    for (int i = 0; i < FAMILY_COUNT; i++) {
        range_vec ranges = {0};
        fake_kernel_ranges((enum family)i, words, &ranges);
        fputs(i ? "; " : "", out);
        if (ranges.n)
            write_ranges(out, (enum family)i, &ranges);
        else
            fputs("none", out);
        vec_free(&ranges);
    }
    fputc('\n', out);
}

/* Who may use a frontend. */
COMMAND(sources)
{
    range_vec ranges = {0};
    struct frontend frontend = script_frontend(words);
    fake_kernel_sources(&frontend, &ranges);
    write_ranges(out, FAMILY_IPV4, &ranges);
    fputc('\n', out);
    vec_free(&ranges);
}

/* Whether what these send to the cluster IP of shop/web is masqueraded. */
COMMAND(masquerades)
{
    for (char *word; *(word = script_word(&words));) {
        char ipv4[] = "10.96.0.1", ipv6[] = "fd00:96::1";
        struct frontend frontend = script_frontend(strchr(word, ':') ? ipv6 : ipv4);
        enum family family;
        struct fake_client client = {.address = make_address(word, &family)};
        struct fake_route route = fake_kernel_route(&frontend, &client);
        ck_assert_int_eq(route.fate, FAKE_BALANCED);
        fprintf(out, "%s%s", route.to[0].masqueraded ? "yes" : "no", *words ? " " : "\n");
        fake_route_free(&route);
    }
}

/* The lines of a dump that have these words. */
COMMAND(dump)
{
    char *text, *rest;
    size_t length;
    FILE *dump = open_memstream(&text, &length);
    proxy_dump(proxy, dump);
    fclose(dump);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (strstr(line, words))
            fprintf(out, "%s\n", line + strspn(line, " \t"));
    free(text);
}

COMMAND(health)
{
    struct snapshot status = snapshot();
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (status.family[i].in_use)
            fprintf(out, "%s %s, ", family_name((enum family)i),
                    status.family[i].overdue ? "unhealthy" : "healthy");
    fprintf(out, "%s, %s, %s\n", caches_are_synced(&proxy->caches) ? "synced" : "not synced",
            proxy_is_programmed(proxy) ? "programmed" : "not programmed",
            status.node_eligible ? "eligible" : "not eligible");
}

static void write_stat(FILE *out, const char *name, uint64_t number)
{
    if (number)
        fprintf(out, " %s=%d", name, (int)number);
}

/* Of a family, in kube-proxy's terms and its own, but zeros; and the seconds that it took to
 * program what was timed, in sum. */
COMMAND(stats)
{
    enum family family = strcmp(words, "IPv6") == 0 ? FAMILY_IPV6 : FAMILY_IPV4;
    struct snapshot all = snapshot();
    const struct table_view *it = &all.family[family];
    fprintf(out, "frontends=%zu", it->frontends);
    if (it->in_use) {
        const struct sync_metrics *syncs = it->syncs;
        ck_assert(fabs(syncs->all.sum - syncs->full.sum - syncs->partial.sum) < 1e-9);
        write_stat(out, "syncs", histogram_count(&syncs->all));
        write_stat(out, "full", histogram_count(&syncs->full));
        write_stat(out, "partial", histogram_count(&syncs->partial));
        write_stat(out, "timed", histogram_count(&syncs->programming));
        if (histogram_count(&syncs->programming))
            fprintf(out, " seconds=%.3g", syncs->programming.sum);
        write_stat(out, "failures", syncs->failures);
        write_stat(out, "read-backs", it->table->read_backs);
        write_stat(out, "rejected", it->table->rejected);
        write_stat(out, "rewritten", it->table->rewritten);
    }
    fputs(it->in_use ? "\n" : " not in use\n", out);
}

/* What came, and how many of them wait. */
COMMAND(changes)
{
    struct snapshot all = snapshot();
    fprintf(out, "services=%d/%d slices=%d/%d reserved=%d\n", (int)all.service_changes,
            (int)all.services_pending, (int)all.slice_changes, (int)all.slices_pending,
            (int)all.reserved);
}

/* What the kernel was sent since the last time. */
COMMAND(sent)
{
    const struct fake_counts *counts = fake_kernel_counts();
    fprintf(out, "transactions=%zu added=%zu deleted=%zu\n", counts->transactions, counts->added,
            counts->deleted);
    fake_kernel_forget_counts();
}

/* Which times are others than they were the last time, and whether they are of since then. */
COMMAND(times)
{
    static double shown;
    double from = times[0].queued > 0 ? shown : begun;
    shown = clock_realtime();
    for (int i = 0; i < FAMILY_COUNT; i++) {
        double queued = snapshot().family[i].syncs->last_queued;
        double success = snapshot().family[i].syncs->last_success;
        ck_assert(queued == times[i].queued || (from <= queued && queued <= shown));
        ck_assert(success == times[i].success || (fmax(from, queued) <= success));
        ck_assert(success <= shown);
        fprintf(out, "%s:%s%s%s", family_name((enum family)i),
                queued != times[i].queued ? " queued" : "",
                success != times[i].success ? " success" : "", i ? "\n" : " ");
        times[i].queued = queued;
        times[i].success = success;
    }
}

COMMAND(versions)
{
    struct object_versions versions;
    struct snapshot state = snapshot();
    fputs(state.complete ? "" : "not complete: ", out);
    if (object_store_versions(state.services, words, NULL, &versions))
        write_versions(out, &versions);
    else
        fputs("unknown\n", out);
}

/* What a sync logs, from these words on. */
COMMAND(logs)
{
    sync_after(1);
    fprintf(out, "%u\n", logged_with(words));
    forget_logged();
}

CASES("proxy")

UNIT_FIXTURE(set_up, tear_down)
