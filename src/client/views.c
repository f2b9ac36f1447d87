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
    {.line = "[brief?  {endpoints.total} endpoints; ask for the Service to see them]"},
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
    {"SERVICE", "{namespace}/{name}", ALWAYS},
    {"TYPE", "{type}", ALWAYS},
    {"CLUSTER-IP", "{clusterIPs|-}", ALWAYS},
    {"EXTERNAL-IP", "{loadBalancerIPs}[loadBalancerIPs?[externalIPs?, ]]{externalIPs}", ALWAYS},
    {"PORTS", "{ports|-}", ALWAYS},
    {"READY", "{endpoints.ready}/{endpoints.all}", ALWAYS},
    {"SERVING", "{endpoints.serving}", WIDE},
    {"LOCAL", "{endpoints.local}", ALWAYS},
    {"INTERNAL", "{internalTrafficPolicy}", WIDE},
    {"EXTERNAL", "{externalTrafficPolicy}", WIDE},
    {"AFFINITY", "[affinitySeconds?{affinitySeconds} s]", WIDE},
    {"CONNECTIONS", "{connections}", COUNTED},
    {"STATE",
     "[state=applied?" VIEW_GOOD "][state=pending?" VIEW_DOUBT "][state=claimed?" VIEW_DOUBT
     "][state=rejected?" VIEW_BAD "][state=limited?" VIEW_BAD "][state=lost?" VIEW_BAD
     "]{stateText}" VIEW_PLAIN,
     ALWAYS},
    {0}};

const struct view view_list[] = {{"items", .columns = list_columns}, {0}};
const struct view view_names[] = {{"items", .line = "{namespace}/{name}"}, {0}};

/* ---- list endpoints ---- */

static const struct column endpoint_columns[] = {
    {"ENDPOINT", "{endpoint}", ALWAYS},
    {"NODE", "{node|-}", ALWAYS},
    {"ZONE", "{zone|-}", ALWAYS},
    {"CONDITIONS", "[ready?ready][!ready?not ready[serving?, serving]][terminating?, terminating]",
     ALWAYS},
    {"ZONE HINTS", "{zoneHints}", WIDE},
    {"NODE HINTS", "{nodeHints}", WIDE},
    {"SLICE", "{slice}", WIDE},
    {"CONNECTIONS", "{connections}", COUNTED},
    {"FROM HERE",
     "[used?" VIEW_GOOD "used][!used?" VIEW_DOUBT "not used]" VIEW_PLAIN "[text?: " REASON "]",
     ALWAYS},
    {0}};

static const struct view endpoints_of_port[] = {{"endpoints.items", .columns = endpoint_columns},
                                                {.line = "[endpoints.truncated?and more]"},
                                                {0}};

const struct view view_endpoints[] = {
    {"service.ports",
     .line = "Port {name|without a name}: {port}/{protocol}, {family}, {endpoints.total} "
             "endpoints; {topology.text}",
     .inner = endpoints_of_port},
    {0}};

/* ---- top ---- */

#define CHOSEN "[chosen?" VIEW_BOLD "> ]"

static const struct column top_columns[] = {{"SERVICE", CHOSEN "{name}", ALWAYS},
                                            {"NEW/S", "{perSecond}", ALWAYS},
                                            {"CONNECTIONS", "{connections}" VIEW_PLAIN, ALWAYS},
                                            {0}};
static const struct column top_endpoint_columns[] = {
    {"ENDPOINT", CHOSEN "{name}", ALWAYS},
    {"NEW/S", "{perSecond}", ALWAYS},
    {"CONNECTIONS", "{connections}" VIEW_PLAIN, ALWAYS},
    {0}};
const struct view view_top[] = {{"items", .columns = top_columns}, {0}};
const struct view view_top_endpoints[] = {{"items", .columns = top_endpoint_columns}, {0}};
