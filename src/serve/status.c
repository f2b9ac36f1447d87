/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "pages.h"

#include "kube-nftd/commit.h"
#include "kube-nftd/localhost.h"

#include <math.h>
#include <string.h>

/* Seconds after which a pending change is a problem. */
#define PATIENCE 5.0

/* Adds the number as @key, and "1h2m3s" for people as @key with the suffix "Text". */
static void add_seconds(cJSON *to, const char *key, double seconds)
{
    char *name = xasprintf("%sText", key);
    double step = seconds < 1 ? 1e-5 : seconds < 10 ? 1e-3 : 1;
    char *text = duration_format((int64_t)(floor(seconds / step) * step * 1e9));
    facts_add(to, fact_number(key, seconds), fact_text(name, text));
    free(text);
    free(name);
}

/* ---- problems ---- */

/* Adds "WHAT: ERROR (3 s ago, next try in 2 s)"; @more belongs to what failed. */
static void add_failure(cJSON *problems, const char *what, const char *more, const char *error,
                        double age, double next)
{
    char *then =
        next > 0 ? xasprintf("next try in %.0f s", ceil(next)) : xstrdup("it is being tried again");
    facts_append_text(problems, "%s%s: %s (%.0f s ago, %s)", what, more, error, floor(age), then);
    free(then);
}

/* Whether some Service has a NodePort in @family. */
static bool has_node_ports(const struct snapshot *now, enum family family)
{
    hash_table_each (policy_services(now->policy), const struct service_state, it) {
        const struct service *service = it->service;
        for (size_t i = 0; service->has_cluster_ip[family] && i < service->ports.n; i++)
            if (service->ports.v[i].node_port)
                return true;
    }
    return false;
}

static void judge_ports(const struct snapshot *now, cJSON *problems)
{
    const char *service = NULL;
    uint16_t port = 0;
    size_t unbound = now->health ? health_unbound(now->health, &service, &port) : 0;
    for (enum family i = 0; i < FAMILY_COUNT; i++)
        if (now->family[i].in_use && now->node_ports_unserved[i] && has_node_ports(now, i))
            facts_append_text(problems, "%s: NodePorts are not served: %s", family_name(i),
                              now->node_ports_unserved[i]);
    if (now->health_closed)
        facts_append_text(problems, "/healthz is not served: its address cannot be bound (see the "
                                    "log; it is retried)");
    if (unbound == 1)
        facts_append_text(problems,
                          "healthCheckNodePort %u of %s cannot be bound (see the log; it "
                          "is retried)",
                          port, service);
    else if (unbound)
        facts_append_text(problems,
                          "%zu health check ports cannot be bound, as %u of %s (see the "
                          "log; they are retried)",
                          unbound, port, service);
}

static void judge_family(const struct table_view *it, const char *name, bool complete,
                         cJSON *problems)
{
    if (it->lost)
        facts_append_text(problems, "%s: the table is gone, or belongs to another program", name);
    else if (it->failure)
        add_failure(problems, name, ": the kernel rejected the last changes", it->failure,
                    it->failure_age, it->next_try);
    else if (!it->programmed && it->previous)
        facts_append_text(problems, "%s: the table of the previous process stays active", name);
    else if (complete && !it->programmed)
        facts_append_text(problems, "%s: nothing is programmed yet", name);
    else if (it->waiting >= PATIENCE)
        facts_append_text(problems, "%s: a change has waited for %.0f s", name, floor(it->waiting));
    if (it->flowtable.failure)
        facts_append_text(problems, "%s: the devices of the flowtable cannot be changed: %s", name,
                          it->flowtable.failure);
    if (it->rejected)
        facts_append_text(problems,
                          "%s: %zu frontends or other elements are rejected by the kernel: the log "
                          "and list name them",
                          name, it->rejected);
}

static void judge_limits(const struct table_view *it, const char *name, cJSON *problems)
{
    static const char *const texts[PORT_LIMITS] = {
        [LIMIT_NUMBERS] = "service ports are not programmed, no number left",
        [LIMIT_ENDPOINTS] = "endpoints are not used: their service ports have too many"};
    for (enum ruleset_limit i = 0; i < PORT_LIMITS; i++)
        if (it->limited[i])
            facts_append_text(problems, "%s: %zu %s; list names the Services", name, it->limited[i],
                              texts[i]);
    if (it->limited[LIMIT_AFFINITY_RECORDS])
        facts_append_text(problems,
                          "%s: session affinity has no room: new clients are balanced without it",
                          name);
    if (it->limited[LIMIT_COUNTERS])
        facts_append_text(problems, "%s: counters have no room: some connections are not counted",
                          name);
}

static void judge(const struct snapshot *now, cJSON *to)
{
    cJSON *problems = cJSON_AddArrayToObject(to, "problems");
    if (!now->complete)
        facts_append_text(problems, "not all Services and EndpointSlices are known yet");
    if (now->manifests_problem)
        facts_append_text(problems, "%s", now->manifests_problem);
    if (now->heard > APISERVER_SILENCE)
        facts_append_text(problems, "the API server has sent nothing for %.0f s",
                          floor(now->heard));
    for (int kind = 0; kind < KIND_COUNT; kind++)
        if (now->watch[kind].error)
            add_failure(problems, now->watch[kind].resource, "", now->watch[kind].error,
                        now->watch[kind].error_age, now->watch[kind].next_try);
    for (enum family i = 0; i < FAMILY_COUNT; i++)
        if (now->family[i].in_use)
            judge_family(&now->family[i], family_name(i), now->complete, problems);
    for (enum family i = 0; i < FAMILY_COUNT; i++)
        if (now->family[i].in_use)
            judge_limits(&now->family[i], family_name(i), problems);
    judge_ports(now, problems);
    facts_add(to, fact_flag("well", !problems->child));
}

/* ---- facts ---- */

static void add_source(const struct snapshot *now, cJSON *source)
{
    uint64_t invalid = 0;
    for (int kind = 0; kind < KIND_COUNT; kind++)
        invalid += now->invalid[kind];
    facts_add(source, fact_text("from", now->objects_from), fact_flag("complete", now->complete),
              fact_number("services", now->n_services),
              fact_number("endpointSlices", now->n_slices), fact_number("unreadable", invalid));
    if (now->heard >= 0)
        add_seconds(source, "heardSeconds", now->heard);
    cJSON *watches = cJSON_AddArrayToObject(source, "watches");
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        const struct reflector_stats *it = &now->watch[kind];
        if (it->resource)
            facts_add(facts_append(watches), fact_text("resource", it->resource),
                      fact_text("state", it->state), fact_text("encoding", it->encoding),
                      fact_number("events", it->events), fact_number("lists", it->lists),
                      fact_number("failures", it->failures), fact_text("trouble", it->error));
    }
}

static void add_flowtable(const struct ruleset_flowtable *it, uint64_t flows, bool known,
                          bool estimated, cJSON *to)
{
    cJSON *facts = cJSON_AddObjectToObject(to, "flowtable");
    cJSON *devices = cJSON_AddArrayToObject(facts, "devices");
    cJSON *left_out = cJSON_AddArrayToObject(facts, "leftOut");
    vec_each (it->devices, device)
        facts_append_text(devices, "%s", device->name);
    vec_each (it->rejected, rejection)
        facts_append_text(left_out, "%s (%s)", rejection->device.name, strerror(rejection->why));
    facts_add(facts, fact_text("failure", it->failure), fact_flag("counted", known));
    if (known)
        facts_add(facts, fact_number("flows", flows), fact_flag("estimated", estimated));
}

static void add_family(const struct table_view *it, const char *name, bool owned, cJSON *to)
{
    facts_add(to, fact_text("family", name),
              fact_text("state", it->lost          ? "lost"
                                 : it->failure     ? "refused"
                                 : it->previous    ? "previous"
                                 : !it->programmed ? "waiting"
                                 : it->waiting > 0 ? "pending"
                                                   : "applied"),
              fact_number("frontends", it->frontends), fact_number("rejected", it->rejected),
              fact_number("transactions", it->syncs->transactions),
              fact_number("repairs", it->repairs), fact_number("drift", it->drift),
              fact_flag("owned", owned), fact_text("failure", it->failure));
    facts_add_time(to, "lastCommit", it->syncs->last_success);
    add_seconds(to, "lastCommitSeconds", it->syncs->last_seconds);
    add_seconds(to, "pendingSeconds", it->waiting);
}

static void add_families(const struct snapshot *now, cJSON *families)
{
    struct flowtable_flows flows = {.estimated = false};
    bool any = false;
    for (enum family i = 0; i < FAMILY_COUNT; i++)
        any = any || (now->family[i].in_use && now->family[i].flowtable.in_use);
    const bool known = any && flowtable_flows(&flows);
    for (enum family i = 0; i < FAMILY_COUNT; i++) {
        const struct table_view *it = &now->family[i];
        if (!it->in_use)
            continue;
        cJSON *facts = facts_append(families);
        add_family(it, family_name(i), now->owned[i], facts);
        if (it->flowtable.in_use)
            add_flowtable(&it->flowtable, flows.n[i], known, flows.estimated, facts);
    }
}

static void add_localhost(const struct snapshot *now, cJSON *to)
{
    const struct localhost_stats stats = localhost_stats(now->localhost);
    if (!now->localhost)
        return;
    facts_add(cJSON_AddObjectToObject(to, "localhost"),
              fact_number("listeners", stats.listeners[FAMILY_IPV4] + stats.listeners[FAMILY_IPV6]),
              fact_number("unbound", stats.unbound), fact_number("connections", stats.connections));
}

static cJSON *status_facts(const struct snapshot *now)
{
    cJSON *root = cJSON_CreateObject();
    struct process_usage usage;
    process_usage_read(&usage);
    double resident = isnan(usage.resident) ? 0 : usage.resident;
    facts_add(root, fact_text("kind", STATUS_KIND), fact_number("schema", 1),
              fact_text("version", KUBE_NFTD_VERSION), fact_text("commit", KUBE_NFTD_COMMIT));
    facts_format(root, "build", *KUBE_NFTD_COMMIT ? "%s (commit %.12s)" : "%s", KUBE_NFTD_VERSION,
                 KUBE_NFTD_COMMIT);
    judge(now, root);
    facts_add_time(root, "started", now->started);
    add_seconds(root, "uptimeSeconds", fmax(clock_realtime() - now->started, 0));
    facts_add(cJSON_AddObjectToObject(root, "node"), fact_text("name", now->node_name),
              fact_text("zone", now->zone), fact_flag("known", !now->node_unknown));
    add_source(now, cJSON_AddObjectToObject(root, "source"));
    add_families(now, cJSON_AddArrayToObject(root, "families"));
    add_localhost(now, root);
    facts_add(
        cJSON_AddObjectToObject(root, "conntrack"),
        fact_number("entries", fmax((double)host_net_setting("netfilter/nf_conntrack_count"), 0)),
        fact_number("limit", fmax((double)host_net_setting("netfilter/nf_conntrack_max"), 0)));
    facts_add(root, fact_number("claimedByOthers", now->conflicts),
              fact_number("reservedForServer", now->reserved), fact_number("memoryBytes", resident),
              fact_number("memoryMiB", round(resident / 1048576)),
              fact_number("logLinesDropped", log_lines_dropped()));
    return root;
}

void answer_status(struct server *server, struct http *http)
{
    cJSON *facts = status_facts(&server->now);
    http_json(http, 200, facts_print(facts));
    cJSON_Delete(facts);
}

/* ---- for people ---- */

static const struct view family_lines[] = {
    {.line =
         "             last commit {lastCommit|never}[lastCommit?, took {lastCommitSecondsText}]"
         "[pendingSeconds?; a change is pending for {pendingSecondsText}]"},
    {.line = "             {transactions} transactions, {repairs} repairs, drift {drift}, "
             "[owned?owned][!owned?not owned]"},
    {.line = "[flowtable?             flowtable of {8:flowtable.devices|no device}"
             "[flowtable.leftOut?, without {8:flowtable.leftOut}]: "
             "[flowtable.counted?[flowtable.estimated?about ]{flowtable.flows} connections go "
             "through it][!flowtable.counted?its connections cannot be counted]]"},
    {0}};

static const struct column watch_columns[] = {{"WATCH", "{resource}", ALWAYS, 0, 0},
                                              {"STATE", "{state}", ALWAYS, 0, 0},
                                              {"ENCODING", "{encoding|-}", ALWAYS, 0, 0},
                                              {"EVENTS", "{events}", ALWAYS, 0, 0},
                                              {"LISTS", "{lists}", ALWAYS, 0, 0},
                                              {"FAILURES", "{failures}", ALWAYS, 0, 0},
                                              {0}};

const struct view view_status[] = {
    {.line = VIEW_BOLD "kube-nftd {build}" VIEW_PLAIN ", up "
                       "{uptimeSecondsText}: [well?" VIEW_GOOD "well" VIEW_PLAIN "][!well?" VIEW_BAD
                       "not well" VIEW_PLAIN "]"},
    {"problems", .line = "  " VIEW_BAD "{}" VIEW_PLAIN},
    {.line = "\nNode         {node.name}[node.zone? in zone {node.zone}]"
             "[!node.known?, whose Node object is not known]"
             "[node.known?[!node.zone?, without a zone]]"},
    {.line =
         "Objects      {source.services} Service[!source.services=1?s], {source.endpointSlices} "
         "EndpointSlice[!source.endpointSlices=1?s]"
         "[!source.complete?, not complete yet]"
         "[source.unreadable?, {source.unreadable} invalid object[!source.unreadable=1?s] "
         "received]"},
    {.line = "             from {source.from}"
             "[source.heardSecondsText?, last heard of {source.heardSecondsText} ago]"},
    {"families",
     .line = "Table {family}   [state=applied?" VIEW_GOOD "][!state=applied?" VIEW_BAD
             "]{state}" VIEW_PLAIN
             ": {frontends} frontend[!frontends=1?s], {rejected} rejected by the kernel",
     .inner = family_lines},
    {.line = "[claimedByOthers?Frontends    {claimedByOthers} are claimed by several Services]"},
    {.line = "[reservedForServer?Frontends    {reservedForServer} are left to the API server]"},
    {.line =
         "[localhost?Localhost    {localhost.listeners} NodePort[!localhost.listeners=1?s] served, "
         "{localhost.connections} connection[!localhost.connections=1?s][localhost.unbound?; "
         "{localhost.unbound} cannot be "
         "bound: list names the Services]]"},
    {.line = "Conntrack    {conntrack.entries} of {conntrack.limit} entries"},
    {.line = "Memory       {memoryMiB} MiB[logLinesDropped?; {logLinesDropped} log lines were "
             "dropped]"},
    {"source.watches", "", .columns = watch_columns},
    {0}};

char *status_text(const struct snapshot *now)
{
    cJSON *facts = status_facts(now);
    char *text = view_text(view_status, facts, &(struct view_style){0});
    cJSON_Delete(facts);
    return text;
}
