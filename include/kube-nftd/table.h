/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Makes the kernel's table of each family match the routes that policy desires. Owns the desired
 * and the applied state; only observations of the kernel change the applied state. Times are in
 * seconds of clock_monotonic unless noted otherwise.
 *
 * Changes only mark frontends and service ports dirty. A commit computes their difference, sends it
 * as one transaction, and records it as applied only after the kernel has acknowledged it. After a
 * failure the table is read back before the next attempt. A table found at startup is adopted: its
 * contents are not sent again. Whatever the kernel rejects is quarantined: it keeps its previous
 * rules, is logged and counted, and is retried when it changes or after some time.
 */
#ifndef KUBE_NFTD_TABLE_H
#define KUBE_NFTD_TABLE_H

#include "kube-nftd/base.h"
#include "kube-nftd/net.h"
#include "kube-nftd/netlink.h"

#include <stdbool.h>
#include <stdio.h>

#define RULESET_TABLE "kube-nftd"

/* How packets from this node's pods are recognised (docs/behaviour.md 4.6). */
enum pod_detector {
    DETECT_NONE,
    DETECT_CIDRS,           /* by source address: ruleset_set_pod_cidrs() */
    DETECT_INTERFACE,       /* by the name of the input interface */
    DETECT_INTERFACE_PREFIX /* by the prefix of that name */
};

/* Which connections the table counts. */
enum connection_counting { COUNT_NOTHING, COUNT_SERVICES, COUNT_ENDPOINTS /* both */ };

/* What determines the table's rules; constant during its life. */
struct ruleset_config {
    enum pod_detector detector;
    const char *interface; /* name or prefix; borrowed; NULL for the other detectors */
    bool masquerade_all;
    uint32_t mark;    /* the packet mark bit that requests masquerading */
    bool no_fib;      /* the kernel lacks CONFIG_NFT_FIB_IPV4 or _IPV6 and does not know its own
                       * addresses: no short-circuit for the host, and those in service ranges drop */
    bool no_reject;   /* the kernel lacks CONFIG_NFT_REJECT: drops instead */
    bool no_counters; /* the kernel lacks what counting needs (preflight.c) */
    enum connection_counting counting;
    bool no_flowtable;     /* the kernel lacks flowtables, or old ones forget idle connections */
    bool flowtable;        /* forward known connections between devices: table_set_devices() */
    bool localhost;        /* count connections to NodePorts that loopback addresses do not serve */
    bool owned;            /* create the table with an owner: other programs cannot change it */
    uint32_t dump_most;    /* with more slots, a read-back fetches them by key; 0: the number from
                            * which that is faster */
    uint32_t portion;      /* a commit has about so many elements that can wait; 0: those of some 10
                            * milliseconds */
    uint32_t most_added;   /* slots that a service port gets at once; 0: as many as a slice has */
    uint32_t most_numbers; /* of service ports; 0: as many as the table can have */
    /* Called for each UDP frontend of an adopted table that is no longer desired: its flows are
     * stale once it is deleted. May be NULL. */
    void (*abandoned)(void *ctx, const struct frontend *frontend);
    /* Returns the name of the owner of a frontend, for logs; the caller frees it. NULL: no owner.
     * May be NULL. */
    char *(*owner)(void *ctx, const struct frontend *frontend);
    /* A limit of the table leaves out the service port of @frontend, or a part of it. @reason is
     * one word, @note a text without numbers, so that it stays the same. May be NULL. */
    void (*limited)(void *ctx, const struct frontend *frontend, const char *reason,
                    const char *note);
    void *ctx;
};

/* ---- desired state ---- */

/* Routes: the desired state of frontends and of the service ports behind them, as decided by
 * policy. */

/* Ids of service ports range from 1 to this. */
#define MOST_ROUTE_ID INT32_MAX

/* How new connections to a frontend are handled; a bit each (base.nft). */
enum frontend_class {
    /* An external IP, load-balancer IP or NodePort rather than a cluster IP. Masqueraded, unless
     * the traffic policy is Local. */
    CLASS_EXTERNAL = 1,
    /* The traffic policy is Local: connections go to local_backends. For external frontends, those
     * from pods and the host itself go to backends instead (short-circuit). */
    CLASS_LOCAL = 2,
    /* Session affinity is on. */
    CLASS_AFFINE = 4,
    /* Only the port's sources may connect. */
    CLASS_RESTRICTED = 8,
    CLASSES = 16
};

/* Where a frontend leads. */
struct route {
    uint32_t port;  /* id of the service port that provides the backends */
    unsigned class; /* of enum frontend_class */
};

/* The backends of a service port, shared by its frontends. Sorted by backend_compare. */
struct port_route {
    const char *service_id; /* "namespace/name", by whose namespace numbers are shared; or NULL */
    /* Some endpoint on any node can serve. If false, connections are rejected; if true but the
     * policy is Local and local_backends is empty, they are dropped. */
    bool has_any;
    /* Some frontend may use the Cluster set; the local set. */
    bool needs_cluster, needs_local;
    const struct backend *backends; /* the Cluster set */
    size_t n_backends;
    const struct backend *local_backends;
    size_t n_local;
    size_t left_out;           /* further backends, which the port's namespace has no room for */
    uint32_t affinity_timeout; /* of session affinity, in seconds; 0: none */
    /* With session affinity: a hash of the Service's uid and name and of the port's name and
     * protocol, for the next process; 0: unknown. */
    uint32_t identity;
    /* Sources that may connect to restricted frontends: disjoint, ascending ranges. NULL: no
     * frontend is restricted. */
    const struct address_range *sources;
    size_t n_sources;
};

struct ruleset;

/** Sets the backends of the service port with @id (from routes) to those of @route (copied), for
 * all frontends that lead to it. */
void ruleset_set_port(struct ruleset *ruleset, uint32_t id, const struct port_route *route);

/**
 * Applies changes to the backends last set for a service port: sorted by backend, one of each.
 * Costs as much as the changes, plus one scan of the applied backends. Returns false if the whole
 * route must be set instead: at the maximum number of backends, while the port waits for a commit,
 * after the kernel rejected it, if none were set, or if a removed backend is missing.
 */
bool ruleset_change_port(struct ruleset *ruleset, uint32_t id, const backend_change_vec *changes);

/** Removes a service port. Its applied elements go with the last frontend that leads to it. */
void ruleset_remove_port(struct ruleset *ruleset, uint32_t id);

/** Handles new connections to @frontend according to @route (copied); or removes the frontend. */
void ruleset_set(struct ruleset *ruleset, const struct frontend *frontend,
                 const struct route *route);
void ruleset_remove(struct ruleset *ruleset, const struct frontend *frontend);

/** Adds or removes one Service with the cluster IP @address (docs/behaviour.md 4.3). */
void ruleset_use_cluster_ip(struct ruleset *ruleset, const struct address *address, bool in_use);

/** Adds or removes one service port that may send connections to a backend at @address on this
 * node. Connections of the backend to itself are masqueraded (docs/behaviour.md 4.5). */
void ruleset_use_hairpin(struct ruleset *ruleset, const struct address *address, bool in_use);

/** Adds or removes one NodePort of @protocol that loopback addresses do not serve
 * (docs/behaviour.md 4.12): connections to it are counted. */
void ruleset_refuse_localhost(struct ruleset *ruleset, uint8_t protocol, uint16_t port,
                              bool refused);

/** Sets the ranges that cluster IPs are allocated from, and the pod addresses for DETECT_CIDRS:
 * disjoint, ascending, copied. They replace those of the last call. */
void ruleset_set_service_cidrs(struct ruleset *ruleset, const range_vec *ranges);
void ruleset_set_pod_cidrs(struct ruleset *ruleset, const range_vec *ranges);

/* The kernel lists no more than some 1,600. */
#define FLOWTABLE_DEVICES_MOST 1024

/* ---- applied state ---- */

/* A device that the kernel keeps out of the flowtable. */
struct device_rejection {
    struct device device;
    int why; /* an errno */
};
typedef VEC(struct device_rejection) device_rejection_vec;

/* The flowtable; borrowed until the next sync. */
struct ruleset_flowtable {
    bool in_use;
    const device_vec *devices; /* that it has, as of the last change */
    const device_rejection_vec *rejected;
    const char *failure; /* why a change waits; NULL: none does */
};
struct ruleset_flowtable ruleset_flowtable(const struct ruleset *ruleset);

/* What the table's limits leave out (docs/limits.md). */
enum ruleset_limit {
    LIMIT_NUMBERS,   /* service ports without a number: nothing of them is applied */
    LIMIT_ENDPOINTS, /* endpoints of service ports that have more than slots */
    PORT_LIMITS,     /* those below are not about single service ports; 1: is reached */
    LIMIT_AFFINITY_RECORDS = PORT_LIMITS,
    LIMIT_COUNTERS, /* sets of counted connections that are full */
    RULESET_LIMITS
};

/* Statistics. */
struct ruleset_stats {
    size_t limited[RULESET_LIMITS]; /* left out now */
    size_t elements;          /* our elements in the kernel's maps and sets, by applied state */
    uint64_t read_backs;      /* of a table already applied, after a failed commit */
    size_t rejected;          /* frontends and service ports rejected by the kernel */
    size_t rejected_elements; /* rejected elements that belong to no frontend */
    uint64_t rejections;      /* total number of rejections */
    /* Session affinity records, as of the last look. */
    uint32_t records, most_records; /* of clients; capacity */
    bool records_known;             /* else the kernel does not count them, and has room */
    uint64_t mistakes;              /* backend changes that did not match the applied backends */
    uint64_t replaced;  /* tables replaced in one transaction, since their maps or sets differed */
    uint64_t rewritten; /* transactions that repaired rules or chains */
};
const struct ruleset_stats *ruleset_stats(const struct ruleset *ruleset);

/* Who gets the short-circuit of an external frontend with traffic policy Local (docs/behaviour.md
 * 4.6), and what a reject does. Borrowed until the next change. */
struct ruleset_senders {
    bool host; /* this host */
    enum pod_detector pods;
    const range_vec *pod_cidrs; /* with DETECT_CIDRS */
    const char *pod_match;      /* nft match for packets from pods; NULL: none */
    bool rejects;               /* false: drops, since the kernel cannot reject */
};
struct ruleset_senders ruleset_senders(const struct ruleset *ruleset);

enum connection_counting ruleset_counting(const struct ruleset *ruleset);

/** Whether any Service has the cluster IP. */
bool ruleset_has_cluster_ip(const struct ruleset *ruleset, const struct address *address);

/** Whether the kernel's contents are known, from a read-back or from commits acknowledged since. */
bool ruleset_knows_kernel(const struct ruleset *ruleset);

/** Whether @frontend or its service port is quarantined; whether a service port is; the time of the
 * next retry, or 0. */
bool ruleset_is_rejected(const struct ruleset *ruleset, const struct frontend *frontend);
bool ruleset_port_is_rejected(const struct ruleset *ruleset, uint32_t id);
double ruleset_retry_time(const struct ruleset *ruleset);

/** How much of the service port with @id a limit leaves out; 0: nothing. */
uint32_t ruleset_port_limited(const struct ruleset *ruleset, uint32_t id, enum ruleset_limit limit);

/** Whether the kernel may still differ from the desired state of @frontend or its service port,
 * other than by a rejection. The second: the same for a service port and all frontends that lead to
 * it. */
bool ruleset_is_waiting(const struct ruleset *ruleset, const struct frontend *frontend);
bool ruleset_port_is_waiting(const struct ruleset *ruleset, uint32_t id);

/** Prints the desired table in nft syntax; nft -f loads it in place of an existing table. For a
 * ruleset that was never committed. Sorted: equal contents give equal text. */
void ruleset_dump(struct ruleset *ruleset, FILE *out);

/** Deletes the table of @family from the kernel, unless another program owns it. Sets @existed to
 * whether the table existed. */
int ruleset_cleanup(struct nft_socket *socket, enum family family, bool *existed,
                    struct error *err);

/* ---- probe: desired and actual state of one frontend ----
 *
 * Reads single elements, so the cost depends on the frontend, not on the table. Read-only.
 */

/* ports with endpoints, or local_ports with local_endpoints. */
struct probe_part {
    uint32_t value;    /* P:N; 0: the service port is missing */
    size_t looked_at;  /* number of slots read, from 0 */
    backend_vec found; /* their backends, sorted */
};

/* A deviation from the desired state. */
struct probe_difference {
    const char *set; /* name in base.nft; static */
    char *text;      /* owned; description for people */
};

/* Starts zeroed; release with probe_clear(). */
struct probe {
    uint32_t service; /* P:class or P:N; 0: the frontend is missing, and the rest is unknown */
    struct probe_part all, local;
    bool rejected, dropped, cluster_ip; /* is in the respective set */
    uint32_t affinity_timeout;          /* 0: none */
    bool restricted;                    /* by its class */
    uint32_t source_list;               /* that of its service port, if restricted; 0: none */
    size_t sources;                     /* prefixes of the list found correct */
    size_t skipped;                     /* elements not read: out of lookups */
    VEC(struct probe_difference) differences;
};

/* Desired state of a frontend. */
struct probe_subject {
    const struct frontend *frontend;
    const struct route *route;     /* NULL: the frontend is not desired */
    const struct port_route *port; /* its service port; NULL likewise */
};

/**
 * Fills in @probe for @subject.
 * @lookups  limit of slots and source ranges to read; decremented by those read
 * -1 if the kernel could not be queried.
 */
int ruleset_probe(const struct ruleset *ruleset, struct nft_socket *socket,
                  const struct probe_subject *subject, size_t *lookups, struct probe *probe,
                  struct error *err);

void probe_clear(struct probe *probe);

/** Whether the kernel has the table, and whether its rules are the expected ones. */
int ruleset_probe_table(const struct ruleset *ruleset, struct nft_socket *socket, bool *exists,
                        bool *same, struct error *err);

/** Whether @address is in an address set ("cluster_ips", "service_cidrs"). */
int ruleset_probe_address(const struct ruleset *ruleset, struct nft_socket *socket, const char *set,
                          const struct address *address, bool *there, struct error *err);

/* ---- counted connections ----
 *
 * Rules count packets in the elements of two sets (base.nft), so the kernel keeps the totals.
 * table_read_connections() reads them on request, in pieces.
 */

/** When the last complete reading of the service ports' totals began; 0: never. */
double ruleset_connections_read(const struct ruleset *ruleset);

/** New connections to the service port with @id, as of the last reading. */
uint64_t ruleset_connections(const struct ruleset *ruleset, uint32_t id);

/** Connections of the service port to @backend, queried from the kernel; -1: no answer. */
int ruleset_endpoint_connections(const struct ruleset *ruleset, struct nft_socket *socket,
                                 uint32_t id, const struct backend *backend, uint64_t *total,
                                 struct error *err);

/** Connections with @protocol to NodePorts that loopback addresses do not serve, queried from the
 * kernel; -1: no answer. */
int ruleset_localhost_connections(const struct ruleset *ruleset, struct nft_socket *socket,
                                  uint8_t protocol, uint64_t *total, struct error *err);

/* ---- preflight: kernel features that the table needs ----
 *
 * Puts each expression in use into a throwaway batch, which the kernel checks and discards.
 */

/* The table of these batches. */
#define PREFLIGHT_TABLE "kube-nftd-preflight"

enum preflight_need {
    NEED_ALWAYS, /* required to proxy the family */
    NEED_FIB,    /* optional: see struct ruleset_config */
    NEED_REJECT,
    NEED_OWNER,
    NEED_COUNTERS,  /* required only to count connections */
    NEED_FLOWTABLE, /* required only for --flowtable-devices */
};

/* A feature and the kernel's answer. */
struct preflight_result {
    const char *feature; /* "random choice (numgen)" */
    const char *config;  /* kernel options: "CONFIG_NFT_NUMGEN" */
    const char *purpose; /* use of the feature: "picking an endpoint" */
    enum preflight_need need;
    bool works;  /* or unknown: the kernel is busy or short of memory */
    int why;     /* errno; 0 if it works, or if not tested since nf_tables is missing */
    char *error; /* the kernel's message; NULL if why is 0 */
};

struct preflight {
    enum family family;
    struct preflight_result *results;
    size_t n;
};

/** Probes all features for the families in use, flowtables only with @flowtables. Always fills in
 * all of @out, with no results for other families; the caller clears it. */
void preflight_run(struct nft_socket *socket, const bool families[FAMILY_COUNT], bool flowtables,
                   struct preflight out[FAMILY_COUNT]);
void preflight_clear(struct preflight *preflight);

/** Whether the family can be proxied; whether the features of @need work. */
bool preflight_passed(const struct preflight *preflight);
bool preflight_has(const struct preflight *preflight, enum preflight_need need);

/** All missing features in one line: "random choice (numgen): CONFIG_NFT_NUMGEN; ...". Gives the
 * kernel's message instead of the option if the cause is another one (a missing capability, say).
 * The caller frees it; NULL if nothing is missing. */
char *preflight_missing(const struct preflight *preflight);

/** The kernel's answer in words ("ok"), and what follows if it lacks the feature; NULL: nothing.
 * The caller frees both. */
char *preflight_answer(const struct preflight_result *result);
char *preflight_consequence(enum family family, const struct preflight_result *result);

/* ---- sync metrics of one family, as defined by kube-proxy ----
 *
 * A sync is one attempt to make the kernel's table match the desired state (docs/behaviour.md 7,
 * 9.2 to 9.4). It is full if the table had to be read back (for the first programming and after
 * each failure), else partial. A rejected partial sync and the full sync that follows it at once
 * count as two. A later transaction that deletes elements packets may still have looked up is a
 * partial sync of its own, as in kube-proxy, which deletes chains later.
 *
 * kube-proxy's sync time includes processing Services and endpoints. kube-nftd does that before a
 * sync, once for both families, and does not count it.
 */

/* Limit of trigger times pending until a sync succeeds; further changes are not sampled. */
#define SYNC_TRIGGERS_MOST 65536

/* Counts of service ports with endpoints, but none on this node although their internal or external
 * traffic policy is Local. */
struct ports_without_local {
    size_t internal, external;
};

/* When the change of a slice happened. */
struct sync_trigger {
    const char *service_id; /* the slice's; interned; or NULL */
    double time;            /* seconds since 1970 */
};

struct sync_metrics {
    struct histogram all, full, partial; /* seconds per sync, including failed ones */
    struct histogram programming;        /* seconds from trigger to successful sync */
    VEC(struct sync_trigger) triggers;   /* not applied yet */
    double started;                      /* seconds since 1970; earlier triggers do not count */
    double last_success, last_queued;    /* likewise; 0: never. A change queues a sync */
    uint64_t failures;
    uint64_t transactions; /* accepted by the kernel; so are those below */
    uint64_t elements_added, elements_deleted;
    uint64_t bytes;
    double seconds; /* spent in the kernel */
    size_t last_bytes;
    double last_seconds;
    struct ports_without_local without_local; /* at the last success */
};

/** Starts with no sync; the main loop begins at @now. Release with sync_metrics_clear(). */
void sync_metrics_init(struct sync_metrics *metrics, double now);
void sync_metrics_clear(struct sync_metrics *metrics);

/** A slice of @service_id (NULL: none) changed, with the trigger time @trigger (0: none). */
void sync_metrics_triggered(struct sync_metrics *metrics, const char *service_id, double trigger);

/** Records that all triggers are applied at @now (seconds since 1970), except those of Services for
 * which @waits returns true (NULL: none). Slices whose change made no difference needed no sync
 * here; kube-proxy performs one. */
void sync_metrics_applied(struct sync_metrics *metrics, double now,
                          bool (*waits)(const void *ctx, const char *service_id,
                                        enum family family),
                          const void *ctx, enum family family);

/* ---- one family's table and its timing ----
 *
 * Decides when to commit and when to retry after a failure (docs/behaviour.md 9.4), when to repair
 * changes of other programs, and when to audit. Tracks how long changes have waited. Logs and
 * counts all of this.
 */

struct table;

struct table_config {
    enum family family;
    struct ruleset_config ruleset;
    double sync_period;  /* as kube-proxy's, in seconds; 0: default */
    double audit_period; /* seconds between audits; 0: none */
};

/** Creates a table with no desired state. NULL if a template is broken; the error has its line. */
struct table *table_new(const struct table_config *config, struct error *err);
void table_free(struct table *table);

/** The ruleset, to read; table_changing() is for callers about to change the desired state. Both
 * are borrowed. */
const struct ruleset *table_ruleset(const struct table *table);
struct ruleset *table_changing(struct table *table);

/** Sets the devices whose packets the flowtable sees: sorted, copied; of more than
 * FLOWTABLE_DEVICES_MOST, the first ones. Needs no commit; ignored without a flowtable. */
void table_set_devices(struct table *table, const device_vec *devices);

/** Sync metrics, for callers that know when changes began. */
struct sync_metrics *table_syncs(struct table *table);

/**
 * Commits if a commit is pending and due, and continues an audit. Logs and counts failures.
 * @more_to_come  the ruleset has not yet received all changes
 * @about         the Services in a commit, for its log line; NULL: none
 * Returns the time of the next call, or 0.
 */
double table_sync(struct table *table, bool more_to_come, const char *about,
                  struct nft_socket *socket, double now);

/** Whether the last complete reading of connections began at @since or later. If not, reads the
 * next piece, which may complete it. True if nothing is counted. */
bool table_read_connections(struct table *table, double since);

/**
 * Before the first turn, while rules from the previous process stay active: repairs changes by
 * other programs. Checks at once after an event that reports one, else every 2 s, since changes by
 * an earlier owner cause no events. Logs and counts repairs, but not that of the first check: the
 * previous process may have had other settings. Returns the time of the next call.
 */
double table_protect(struct table *table, struct nft_socket *socket, double now);

/** Likewise, while the desired state is unknown: removes @frontend from the table, unless its
 * address is a cluster IP. Logs the removal or its failure. */
void table_withdraw(struct table *table, const struct frontend *frontend,
                    struct nft_socket *socket);

/** Events from the monitor (kube-nftd/netlink.h); table_foreign_lost() if some were lost. Later
 * turns repair the changes. */
void table_foreign_change(struct table *table, const struct table_change *change);
void table_foreign_lost(struct table *table);
void table_foreign_finished(struct table *table, const struct table_program *program);

/** Whether everything, except what is quarantined, was committed at least once. */
bool table_is_programmed(const struct table *table);

/**
 * Whether the kernel has all changes received so far, except what is quarantined: no commit, repair
 * or later turn is pending. /programmed and readiness report this; health checks, stale flows and
 * programming times ask per frontend (ruleset_is_waiting()).
 */
bool table_is_applied(const struct table *table);

/* Status of a table. Pointers are borrowed until the next turn. */
struct table_view {
    bool in_use;         /* else all other fields are zero */
    bool programmed;     /* table_is_programmed() */
    bool overdue;        /* a change has waited for twice the sync period: the proxy is unhealthy
                          * (docs/behaviour.md 6.2) */
    bool current;        /* all that was passed to it is applied; more may come for a change */
    double waiting;      /* seconds a change has waited; 0: none waits */
    double last_updated; /* last success, or startup; seconds since 1970 */
    bool previous;       /* nothing is programmed yet, and services of the previous process stay
                          * active */
    const char *failure; /* why it waits, as logged; NULL: it does not */
    double failure_age;  /* seconds since it came last */
    double next_try;     /* in so many seconds */
    uint64_t repairs;    /* commits that repaired changes seen as events */
    uint64_t drift;      /* elements that audits found different, of each set 900 at a time */
    uint64_t audits;     /* completed */
    size_t frontends;    /* desired; for quarantined ones, applied */
    size_t rejected;     /* frontends and other elements rejected now */
    size_t limited[RULESET_LIMITS]; /* what limits leave out now */
    bool lost; /* nothing is applied: the last read-back found the table missing,
                * replaced, or owned by another program */
    const struct ruleset *ruleset;
    const struct sync_metrics *syncs;
    const struct ruleset_stats *table;
    struct ruleset_flowtable flowtable;
};

/** @table NULL: the family is not in use. */
void table_view(const struct table *table, double now, struct table_view *view);

/** "ip" or "ip6", the family's name in nft. */
const char *nft_family_name(enum family family);

#endif
