/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What people see of the daemon's answers. */
#include "view.h"

/* ---- explain: first in short, then what it rests on ---- */

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
     "[outdated?  slice         {name}: its last version is invalid, an older one is used]"
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
    {NULL, NULL, "  created       {created|unknown}", NULL},
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

const struct view view_explanation[] = {
    {"summary", NULL, "{}", NULL},
    {"kernel.differences", "\nDifferences in the kernel",
     "  [frontend?{frontend}][!frontend?{family}][  in {set}]: {text}", NULL},
    {"notes", "\nNotes", "  {}", NULL},
    {"service", NULL, "\nService {namespace}/{name}", service},
    {NULL, NULL,
     "\nSeen from node {node.name}[ in zone {node.zone}][!node.zone?, which has no zone]"
     "[computedFrom=manifests?; computed from files].",
     NULL},
    {0}};

/* ---- list ---- */

#define STATE                                                                                      \
    "[state=applied?" VIEW_GOOD "][state=pending?" VIEW_DOUBT "][state=claimed?" VIEW_DOUBT        \
    "][state=rejected?" VIEW_BAD "][state=lost?" VIEW_BAD "]{stateText}" VIEW_PLAIN

const struct view view_list[] = {
    {"items",
     VIEW_BOLD "SERVICE\tTYPE\tCLUSTER-IP\tEXTERNAL-IP\tPORTS\tREADY\tLOCAL\tSTATE" VIEW_PLAIN,
     "{namespace}/{name}\t{type}\t{clusterIPs|-}\t{loadBalancerIPs}"
     "[loadBalancerIPs?[externalIPs?, ]]{externalIPs}\t{ports|-}\t"
     "{endpoints.ready}/{endpoints.all}\t{endpoints.local}\t" STATE,
     NULL},
    {0}};

#define WIDE_TITLE                                                                                 \
    "SERVICE\tTYPE\tCLUSTER-IP\tEXTERNAL-IP\tPORTS\tREADY\tSERVING\tLOCAL\tINTERNAL\tEXTERNAL\t"   \
    "AFFINITY\t"
#define WIDE_LINE                                                                                  \
    "{namespace}/{name}\t{type}\t{clusterIPs|-}\t{loadBalancerIPs}"                                \
    "[loadBalancerIPs?[externalIPs?, ]]{externalIPs}\t{ports|-}\t"                                 \
    "{endpoints.ready}/{endpoints.all}\t{endpoints.serving}\t{endpoints.local}\t"                  \
    "{internalTrafficPolicy}\t{externalTrafficPolicy}\t[{affinitySeconds} s]\t"

const struct view view_wide_list[] = {
    {"items", VIEW_BOLD WIDE_TITLE "STATE" VIEW_PLAIN, WIDE_LINE STATE, NULL}, {0}};
const struct view view_counted_list[] = {{"items",
                                          VIEW_BOLD WIDE_TITLE "CONNECTIONS\tSTATE" VIEW_PLAIN,
                                          WIDE_LINE "{connections}\t" STATE, NULL},
                                         {0}};

const struct view view_names[] = {{"items", NULL, "{namespace}/{name}", NULL}, {0}};

/* ---- list endpoints ---- */

#define CONDITIONS                                                                                 \
    "[ready?ready][!ready?[serving?not ready, serving][!serving?not ready]]"                       \
    "[terminating?, terminating]"
#define FROM_HERE                                                                                  \
    "[used?" VIEW_GOOD "used" VIEW_PLAIN "][!used?" VIEW_DOUBT "not used" VIEW_PLAIN               \
    "][text?: {text}]"

static const struct view endpoints_of_port[] = {
    {"endpoints.items", VIEW_BOLD "ENDPOINT\tNODE\tZONE\tCONDITIONS\tFROM HERE" VIEW_PLAIN,
     "{endpoint}\t{node|-}\t{zone|-}\t" CONDITIONS "\t" FROM_HERE, NULL},
    {NULL, NULL, "[endpoints.truncated?and more]", NULL},
    {0}};

#define WIDE_ENDPOINT_TITLE                                                                        \
    VIEW_BOLD "ENDPOINT\tNODE\tZONE\tCONDITIONS\tZONE HINTS\tNODE HINTS\tSLICE\t"
#define WIDE_ENDPOINT                                                                              \
    "{endpoint}\t{node|-}\t{zone|-}\t" CONDITIONS "\t{zoneHints}\t{nodeHints}\t{slice}\t"

static const struct view wide_endpoints_of_port[] = {
    {"endpoints.items", WIDE_ENDPOINT_TITLE "FROM HERE" VIEW_PLAIN, WIDE_ENDPOINT FROM_HERE, NULL},
    {NULL, NULL, "[endpoints.truncated?and more]", NULL},
    {0}};

static const struct view counted_endpoints_of_port[] = {
    {"endpoints.items", WIDE_ENDPOINT_TITLE "CONNECTIONS\tFROM HERE" VIEW_PLAIN,
     WIDE_ENDPOINT "{connections}\t" FROM_HERE, NULL},
    {NULL, NULL, "[endpoints.truncated?and more]", NULL},
    {0}};

#define PORT                                                                                       \
    "Port {name|without a name}: {port}/{protocol}, {family}, {endpoints.total} endpoints; "       \
    "{topology.text}"

const struct view view_endpoints[] = {{"service.ports", NULL, PORT, endpoints_of_port}, {0}};
const struct view view_wide_endpoints[] = {{"service.ports", NULL, PORT, wide_endpoints_of_port},
                                           {0}};
const struct view view_counted_endpoints[] = {
    {"service.ports", NULL, PORT, counted_endpoints_of_port}, {0}};
const struct view view_summary[] = {{"summary", NULL, "{}", NULL}, {0}};

/* ---- top ---- */

#define CHOSEN "[chosen?" VIEW_BOLD "][chosen?> ]"
#define TOP_LINE CHOSEN "{name}\t{perSecond}\t{connections}" VIEW_PLAIN

const struct view view_top[] = {
    {"items", VIEW_BOLD "SERVICE\tNEW/S\tCONNECTIONS" VIEW_PLAIN, TOP_LINE, NULL}, {0}};
const struct view view_top_endpoints[] = {
    {"items", VIEW_BOLD "ENDPOINT\tNEW/S\tCONNECTIONS" VIEW_PLAIN, TOP_LINE, NULL}, {0}};

/* ---- status ---- */

const struct view view_status[] = {
    {NULL, NULL,
     VIEW_BOLD "kube-nftd {version}" VIEW_PLAIN "[ (commit {commit})], up {uptimeSecondsText}: "
               "[well?" VIEW_GOOD "well" VIEW_PLAIN "][!well?" VIEW_BAD "not well" VIEW_PLAIN "]",
     NULL},
    {"problems", NULL, "  " VIEW_BAD "{}" VIEW_PLAIN, NULL},
    {NULL, NULL, "\nNode         {node.name}[ in zone {node.zone}][!node.zone?, without a zone]",
     NULL},
    {NULL, NULL,
     "Objects      {source.services} Services, {source.endpointSlices} EndpointSlices"
     "[!source.complete?, not complete yet][, {source.unreadable} invalid objects received]",
     NULL},
    {NULL, NULL,
     "             from {source.from}"
     "[source.heardSecondsText?, last heard of {source.heardSecondsText} ago]",
     NULL},
    {NULL, NULL, "[Frontends    {claimedByOthers} are claimed by several Services]", NULL},
    {NULL, NULL, "[Frontends    {reservedForServer} are left to the API server]", NULL},
    {NULL, NULL, "Conntrack    {conntrack.entries} of {conntrack.limit} entries", NULL},
    {NULL, NULL, "Memory       {memoryMiB} MiB[; {logLinesDropped} log lines were dropped]", NULL},
    {"families",
     "\n" VIEW_BOLD
     "TABLE\tSTATE\tFRONTENDS\tREJECTED\tPENDING FOR\tLAST COMMIT\tTOOK\tREPAIRS\tDRIFT\t"
     "OWNED" VIEW_PLAIN,
     "{family}\t[state=applied?" VIEW_GOOD "][!state=applied?" VIEW_BAD "]{state}" VIEW_PLAIN
     "\t{frontends}\t{rejected}\t[pendingSeconds?{pendingSecondsText}][!pendingSeconds?-]"
     "\t{lastCommit|never}\t{lastCommitSecondsText}\t{repairs}\t{drift}\t[owned?yes][!owned?no]",
     NULL},
    {"source.watches", "\n" VIEW_BOLD "WATCH\tSTATE\tENCODING\tEVENTS\tLISTS\tFAILURES" VIEW_PLAIN,
     "{resource}\t{state}\t{encoding|-}\t{events}\t{lists}\t{failures}", NULL},
    {0}};
