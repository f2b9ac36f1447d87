/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "commands.h"

/* ---- endpoints ---- */

#define CONDITIONS "[ready?ready][!ready?not ready[serving?, serving]][terminating?, terminating]"
#define REASON                                                                                     \
    "{text}[cluster.reason=otherZone? ({zoneHints})][cluster.reason=otherNodeHint? ({nodeHints})]"

/* ---- explain: the summary, then the details ---- */

static const struct view rivals[] = {
    {"alsoWantedBy", .line = "      also wanted by {service}, but this one {reason}"}, {0}};

static const struct view whole_port[] = {
    {"frontends", "  addresses", "[asked?  > ][!asked?    ]{frontend}\t{kind}\t{text}",
     .inner = rivals},
    {.line = "  endpoints     {endpoints.total} in the slices"
             "[needsCluster?, {endpoints.inCluster} used[needsLocal? with policy Cluster]]"
             "[needsLocal?, {endpoints.inLocal} used with policy Local]"},
    {"endpoints.items", .line = "    {endpoint}\t{node|-}\t" CONDITIONS
                                "\t[used?used[text?, but " REASON "]]"
                                "[!used?not used[text?: " REASON "]]"},
    {.line = "[endpoints.truncated?    and more (--all lists them)]"},
    {"slices",
     .line = "[outdated?  slice         {name}: its last version is invalid, an older one is used]"
             "[!outdated?[!used?  slice         {name}: {text}]]"},
    {0}};

/* A query for an address abbreviates the other family. */
static const struct view port[] = {
    {.line = "[brief?  {endpoints.total} endpoint[!endpoints.total=1?s]; ask for the Service to "
             "see them]"},
    {.line = "[!brief?  picked from   {topology.text}]", .inner = whole_port},
    {0}};

#define HEALTH_CHECK(family)                                                                       \
    "[healthCheck.answers." family "?  health check  port {healthCheck.port}, " family ": "        \
    "[!healthCheck.answers." family ".status?not open]"                                            \
    "[healthCheck.answers." family ".status?{healthCheck.answers." family ".status}, "             \
    "{healthCheck.answers." family ".localEndpoints} ready on this node]]"

static const struct view service[] = {
    {.line = "  created       {created|unknown}"},
    {.line = "  policies      internal {internalTrafficPolicy}, external {externalTrafficPolicy}"},
    {.line = "[sessionAffinity.timeoutSeconds?  affinity      by client address, for "
             "{sessionAffinity.timeoutSeconds} s]"},
    {.line = "[sourceRanges?  sources       {sourceRanges}]"},
    {.line = HEALTH_CHECK("IPv4")},
    {.line = HEALTH_CHECK("IPv6")},
    {"ports",
     .line = "\nPort {name|without a name}: {port}/{protocol}, {family}"
             "[nodePort?, node port {nodePort}]",
     .inner = port},
    {0}};

const struct view view_explanation[] = {
    {"summary", .line = "{}"},
    {"kernel.differences", "\nDifferences in the kernel",
     .line = "  [frontend?{frontend}][!frontend?{family}][set?  in {set}]: {text}"},
    {"notes", "\nNotes", .line = "  {}"},
    {"service", .line = "\nService {namespace}/{name}", .inner = service},
    {.line = "\nSeen from node {node.name}[node.zone? in zone {node.zone}]"
             "[!node.zone?, which has no zone][computedFrom=manifests?; computed from files]."},
    {0}};

const struct view view_summary[] = {{"summary", .line = "{}"}, {0}};

/* ---- list ---- */

static const struct column list_columns[] = {
    {"SERVICE", "{namespace}/{name}", ALWAYS, 20, 0},
    {"STATE",
     "[state=applied?" VIEW_GOOD "][state=pending?" VIEW_DOUBT "][state=claimed?" VIEW_DOUBT
     "][state=no endpoints?" VIEW_DOUBT "][state=rejected?" VIEW_BAD "][state=limited?" VIEW_BAD
     "][state=lost?" VIEW_BAD "][state=invalid?" VIEW_BAD "][state=no Service?" VIEW_DOUBT
     "]{state}" VIEW_PLAIN,
     ALWAYS, 0, 0},
    {"TYPE", "{type|-}", ALWAYS, 0, 1},
    {"CLUSTER-IP", "{clusterIPs|-}", ALWAYS, 15, 5},
    {"EXTERNAL-IP", "{5:loadBalancerIPs+externalIPs}", ALWAYS, 15, 2},
    {"PORTS", "{5:ports|-}", ALWAYS, 11, 3},
    {"READY", "{endpoints.ready}[endpoints.readyMost?-{endpoints.readyMost}]/{endpoints.all}",
     ALWAYS, 0, 0},
    {"SERVING", "{endpoints.serving}", WIDE, 0, 1},
    {"LOCAL", "{endpoints.local}", ALWAYS, 0, 4},
    {"INTERNAL", "{internalTrafficPolicy}", WIDE, 0, 1},
    {"EXTERNAL", "{externalTrafficPolicy}", WIDE, 0, 1},
    {"AFFINITY", "[affinitySeconds?{affinitySeconds} s]", WIDE, 0, 1},
    {"CONNECTIONS", "{connections}", COUNTED, 0, 1},
    {"NOTE", "{note}", ALWAYS, 20, 0},
    {0}};

const struct view view_list[] = {{"items", .columns = list_columns}, {0}};
/* Without those that only slices name. */
const struct view view_names[] = {{"items", .line = "[type?{namespace}/{name}]"}, {0}};

/* ---- list endpoints ---- */

static const struct column endpoint_columns[] = {{"ENDPOINT", "{endpoint}", ALWAYS, 0, 0},
                                                 {"NODE", "{node|-}", ALWAYS, 16, 3},
                                                 {"ZONE", "{zone|-}", ALWAYS, 12, 2},
                                                 {"CONDITIONS", CONDITIONS, ALWAYS, 0, 0},
                                                 {"ZONE HINTS", "{5:zoneHints}", WIDE, 12, 1},
                                                 {"NODE HINTS", "{5:nodeHints}", WIDE, 12, 1},
                                                 {"SLICE", "{slice}", WIDE, 16, 1},
                                                 {"CONNECTIONS", "{connections}", COUNTED, 0, 1},
                                                 {"FROM HERE",
                                                  "[used?" VIEW_GOOD "used][!used?" VIEW_DOUBT
                                                  "not used]" VIEW_PLAIN "[text?: " REASON "]",
                                                  ALWAYS, 20, 0},
                                                 {0}};

static const struct view endpoints_of_port[] = {{"endpoints.items", .columns = endpoint_columns},
                                                {.line = "[endpoints.truncated?and more]"},
                                                {0}};

const struct view view_endpoints[] = {
    {"service.ports",
     .line = "Port {name|without a name}: {port}/{protocol}, {family}, {endpoints.total} "
             "endpoint[!endpoints.total=1?s]; {topology.text}",
     .inner = endpoints_of_port},
    {0}};

/* ---- list endpoints, of all Services ---- */

static const struct column frontend_columns[] = {
    {"FRONTEND", "{frontend}", ALWAYS, 0, 0},
    {"SERVICE", "{service}", ALWAYS, 20, 0},
    {"KIND", "{kind}", ALWAYS, 0, 1},
    {"POLICY", "{policy}", WIDE, 0, 1},
    {"ENDPOINTS",
     "[action=reject?" VIEW_DOUBT "rejected: no endpoints" VIEW_PLAIN "]"
     "[action=drop?" VIEW_DOUBT "dropped: no endpoint on this node" VIEW_PLAIN "]"
     "{text}",
     ALWAYS, 24, 0},
    {0}};
const struct view view_frontends[] = {
    {"rows", .columns = frontend_columns}, {"leftOut", .line = "{}"}, {0}};

/* ---- top ---- */

#define CHOSEN "[chosen?" VIEW_BOLD "> ]"

static const struct column top_columns[] = {
    {"SERVICE", CHOSEN "{name}", ALWAYS, 12, 0},
    {"NEW/S", "{perSecond}", ALWAYS, 0, 0},
    {"CONNECTIONS", "{connections}" VIEW_PLAIN, ALWAYS, 0, 0},
    {0}};
static const struct column top_endpoint_columns[] = {
    {"ENDPOINT", CHOSEN "{name}", ALWAYS, 12, 0},
    {"NEW/S", "{perSecond}", ALWAYS, 0, 0},
    {"CONNECTIONS", "{connections}" VIEW_PLAIN, ALWAYS, 0, 0},
    {0}};
const struct view view_top[] = {
    {"items", .columns = top_columns},
    {.line = "[!items?" VIEW_BOLD "SERVICE  NEW/S  CONNECTIONS" VIEW_PLAIN "]"},
    {.line = "[!items?(no connection was counted yet)]"},
    {0}};
const struct view view_top_endpoints[] = {{"items", .columns = top_endpoint_columns}, {0}};
