/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/client/ask.h"
#include "kube-nftd/client/commands.h"
#include "kube-nftd/client/view.h"
#include "kube-nftd/daemon.h"
#include "kube-nftd/serve/explain.h"

#include <string.h>

/* ---- the answer for people: first in short, then what it rests on ---- */

static const struct view rivals[] = {
    {"alsoWantedBy", NULL, "      also wanted by {service}, but this one {reason}", NULL}, {0}};

static const struct view whole_port[] = {
    {"frontends", "  addresses", "[asked?  > ][!asked?    ]{frontend}\t{kind}\t{text}", rivals},
    {NULL, NULL,
     "  endpoints     {endpoints.total} in the slices"
     "[needsCluster?, {endpoints.inCluster} used[needsLocal? with policy Cluster]]"
     "[needsLocal?, {endpoints.inLocal} used with policy Local]",
     NULL},
    {"endpoints.items", NULL,
     "    {endpoint}\t{node|-}\t[used?used[text?, but {text}]][!used?not used[text?: {text}]]",
     NULL},
    {NULL, NULL, "[endpoints.truncated?    and more (--all lists them)]", NULL},
    {"slices", NULL,
     "[outdated?  slice         {name}: its last version could not be read, an older one counts]"
     "[!outdated?[!used?  slice         {name}: {text}]]",
     NULL},
    {0}};

/* Of an address, the other family is summed up. */
static const struct view port[] = {
    {NULL, NULL, "[brief?  {endpoints.total} endpoints; ask for the Service to see them]", NULL},
    {NULL, NULL, "[!brief?  picked from   {topology.text}]", whole_port},
    {0}};

#define HEALTH_CHECK(family)                                                                       \
    "[healthCheck.answers." family "?  health check  port {healthCheck.port}, " family ": "        \
    "[!healthCheck.answers." family ".status?not open]"                                            \
    "[healthCheck.answers." family ".status?{healthCheck.answers." family ".status}, "             \
    "{healthCheck.answers." family ".localEndpoints} ready on this node]]"

static const struct view service[] = {
    {NULL, NULL, "  created       {created|it does not say}", NULL},
    {NULL, NULL,
     "  policies      internal {internalTrafficPolicy}, external {externalTrafficPolicy}", NULL},
    {NULL, NULL,
     "[sessionAffinity.timeoutSeconds?  affinity      by client address, for "
     "{sessionAffinity.timeoutSeconds} s]",
     NULL},
    {NULL, NULL, "[  sources       {sourceRanges}]", NULL},
    {NULL, NULL, HEALTH_CHECK("IPv4"), NULL},
    {NULL, NULL, HEALTH_CHECK("IPv6"), NULL},
    {"ports", NULL,
     "\nPort {name|without a name}: {port}/{protocol}, {family}[, node port {nodePort}]", port},
    {0}};

static const struct view explanation[] = {
    {"summary", NULL, "{}", NULL},
    {"kernel.differences", "\nWhat differs in the kernel",
     "  [frontend?{frontend}][!frontend?{family}][  in {set}]: {text}", NULL},
    {"notes", "\nNotes", "  {}", NULL},
    {"service", NULL, "\nService {namespace}/{name}", service},
    {NULL, NULL,
     "\nSeen from node {node.name}[ in zone {node.zone}][!node.zone?, which is in no zone]"
     "[computedFrom=manifests?; computed from files].",
     NULL},
    {0}};

/* ---- the command ---- */

static enum explain_status status_of(const cJSON *answer)
{
    static const char *const known[] = {"service", "noFrontends", "endpoint", "address"};
    const cJSON *kernel = cJSON_GetObjectItemCaseSensitive(answer, "kernel");
    const char *found = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, "found"));
    if (cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(kernel, "agrees")))
        return EXPLAIN_DIFFERS;
    for (size_t i = 0; found && i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(found, known[i]) == 0)
            return EXPLAIN_AGREES;
    return EXPLAIN_UNKNOWN;
}

static cJSON *ask_for(const struct options *options, struct error *err)
{
    bool unreachable;
    char *what = ask_escape(options->explain);
    char *path = xasprintf("/explain?what=%s%s", what, options->explain_all ? "&all=true" : "");
    cJSON *answer =
        ask_daemon(options->metrics_bind_address, path, EXPLAIN_KIND, &unreachable, err);
    free(path);
    free(what);
    return answer;
}

static int print(const struct options *options, const cJSON *answer, struct error *err)
{
    const struct view_style style = view_style(stdout);
    if (options->output == OUTPUT_JSON)
        view_print_json(answer, stdout);
    else
        view_print(explanation, answer, &style, stdout);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    return error_set(err, "cannot write to standard output");
}

int command_explain(const struct options *options, struct error *err)
{
    struct explain_query query;
    if (explain_query_parse(options->explain, &query, err)) {
        error_prefix(err, "--explain %s", options->explain);
        return error_of_configuration(err);
    }
    query.all = options->explain_all;
    cJSON *answer =
        options->manifests ? daemon_explain(options, &query, err) : ask_for(options, err);
    explain_query_clear(&query);
    if (!answer)
        return -1;
    int result = print(options, answer, err);
    enum explain_status status = status_of(answer);
    cJSON_Delete(answer);
    return result ? -1 : (int)status;
}
