/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Makes the kernel's table of each family equal to the routes that policy desires. Owns what is
 * desired and what is believed applied; only what it observes of the kernel changes the latter.
 * Times are clock_monotonic's, in seconds, unless something else is said.
 *
 * Changes only make frontends and service ports dirty. A commit computes the difference for these,
 * sends it as one transaction and believes it only when the kernel has acknowledged it. After a
 * failure the table is read back before the next try. A table found at the start is adopted: what
 * it holds already is not sent again. What the kernel rejects is quarantined: it keeps its previous
 * rules, is logged and counted, and tried again when it changes or some time has passed.
 */
#ifndef KUBE_NFTD_TABLE_H
#define KUBE_NFTD_TABLE_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/netlink.h"

#include <stdbool.h>
#include <stdio.h>

#define RULESET_TABLE "kube-nftd"

/* How packets of this node's pods are recognised (docs/behaviour.md 4.6). */
enum pod_detector {
    DETECT_NONE,
    DETECT_CIDRS,           /* by source address: ruleset_set_pod_cidrs() */
    DETECT_INTERFACE,       /* by the name of the interface that they came in by */
    DETECT_INTERFACE_PREFIX /* by the beginning of that name */
};

/* Which connections the table counts. */
enum connection_counting { COUNT_NOTHING, COUNT_SERVICES, COUNT_ENDPOINTS /* both */ };

/* What shapes the table's rules, for as long as it lives. */
struct ruleset_config {
    enum pod_detector detector;
    const char *interface; /* name or prefix; borrowed; NULL for the other detectors */
    bool masquerade_all;
    uint32_t mark;    /* the bit of the packet mark that asks for masquerading */
    bool no_fib;      /* this kernel cannot tell its own addresses (CONFIG_NFT_FIB_IPV4, _IPV6): no
                       * short-circuit for the host */
    bool no_reject;   /* this kernel cannot reject (CONFIG_NFT_REJECT): drops instead */
    bool no_counters; /* this kernel cannot count in elements (CONFIG_NFT_COUNTER) */
    enum connection_counting counting;
    bool owned;         /* the table is to be one that no other program can change */
    uint32_t dump_most; /* more slots than that are read back by their keys; 0: a number from which
                         * on that takes less time */
    uint32_t portion;   /* most elements of lists of sources that come or go in one transaction, and
                         * most slots of frontends with many; 0: thousands */
    /* Called for each UDP frontend that a table found in the kernel had and nobody desires any
     * more: its flows are stale once it is gone. May be NULL. */
    void (*abandoned)(void *ctx, const struct frontend *frontend);
    /* The name of who has a frontend, for the log; to be freed, NULL if nobody has it. May be NULL.
     */
    char *(*owner)(void *ctx, const struct frontend *frontend);
    void *ctx;
};

/* ---- what is desired ---- */

struct ruleset;

/** The service port with @id (of routes) shall have the backends of @route (copied), whichever
 * frontends lead there. */
void ruleset_set_port(struct ruleset *ruleset, uint32_t id, const struct port_route *route);

/**
 * The backends of a service port that were set last change. Costs as much as the change, and one
 * look at those applied. False if the port cannot be changed like that: with session affinity, with
 * as many backends as can be, while it waits for a commit, after the kernel rejected it, if none
 * were set, or if some of those that go are not there. Then all of it is to be set.
 */
bool ruleset_change_port(struct ruleset *ruleset, uint32_t id,
                         const struct port_route_change *change);

/** Nobody has the service port any more. What is applied of it goes with the last frontend that
 * leads there. */
void ruleset_remove_port(struct ruleset *ruleset, uint32_t id);

/** New connections to @frontend shall be treated as @route (copied) says; or it shall not be there.
 */
void ruleset_set(struct ruleset *ruleset, const struct frontend *frontend,
                 const struct route *route);
void ruleset_remove(struct ruleset *ruleset, const struct frontend *frontend);

/** One Service more, or less, has the cluster IP @address (docs/behaviour.md 4.3). */
void ruleset_use_cluster_ip(struct ruleset *ruleset, const struct address *address, bool in_use);

/** One service port more, or less, may send connections to @backend, on this node: what it sends
 * to itself is masqueraded (docs/behaviour.md 4.5). */
void ruleset_use_hairpin(struct ruleset *ruleset, uint8_t protocol, const struct backend *backend,
                         bool in_use);

/** The ranges that cluster IPs are allocated from, and the addresses of pods for DETECT_CIDRS:
 * disjoint and ascending, copied. They replace those of the last call. */
void ruleset_set_service_cidrs(struct ruleset *ruleset, const range_vec *ranges);
void ruleset_set_pod_cidrs(struct ruleset *ruleset, const range_vec *ranges);

/* ---- what is known of it ---- */

/* What was done so far, and what there is. */
struct ruleset_figures {
    size_t elements;     /* of maps and sets in the kernel that we put there, by what is known */
    uint64_t read_backs; /* of a table that had been applied: its commit had failed */
    size_t refused;      /* frontends and service ports that the kernel rejected last */
    size_t left_out;     /* elements that belong to no frontend, likewise */
    uint64_t refusals;   /* how often something was rejected */
    /* Of session affinity, by the last audit. */
    uint32_t records, most_records; /* that clients have, and that there can be */
    bool records_known;             /* else the kernel does not count them, and there is room */
    uint64_t mistakes;              /* changes of backends that did not fit those applied */
    uint64_t replaced;  /* tables with other maps or sets: made anew in one transaction */
    uint64_t rewritten; /* transactions that repaired rules or chains */
};
const struct ruleset_figures *ruleset_figures(const struct ruleset *ruleset);

/* Who gets the short-circuit of an external frontend with traffic policy Local
 * (docs/behaviour.md 4.6), and what a reject is. Borrowed until the next change. */
struct ruleset_senders {
    bool host; /* this host itself */
    enum pod_detector pods;
    const range_vec *pod_cidrs; /* of DETECT_CIDRS */
    const char *pod_match;      /* the match for packets of pods, in nft's words; NULL: none */
    bool rejects;               /* false: this kernel cannot, and drops */
};
struct ruleset_senders ruleset_senders(const struct ruleset *ruleset);

enum connection_counting ruleset_counting(const struct ruleset *ruleset);

/** Whether some Service has the cluster IP. */
bool ruleset_has_cluster_ip(const struct ruleset *ruleset, const struct address *address);

/** Whether it is known what the kernel holds, from a read-back or acknowledged commits since. */
bool ruleset_knows_kernel(const struct ruleset *ruleset);

/** Whether the last read-back found that the table is gone, another one or another program's, and
 * no commit has made it anew since: nothing that was applied is. */
bool ruleset_is_lost(const struct ruleset *ruleset);

/** Whether @frontend, or where it leads, is quarantined; when that is tried again, or 0. */
bool ruleset_is_refused(const struct ruleset *ruleset, const struct frontend *frontend);
double ruleset_retry_time(const struct ruleset *ruleset);

/** Whether the kernel may hold something else of @frontend, or of where it leads, than what is
 * desired, and not since it rejected that; the same for a service port and all frontends that are
 * to lead there. */
bool ruleset_is_waiting(const struct ruleset *ruleset, const struct frontend *frontend);
bool ruleset_port_is_waiting(const struct ruleset *ruleset, uint32_t id);

/** Prints the table as it is desired, in nft syntax that nft -f loads in place of an existing one.
 * For one that was never committed. Sorted, so that equal contents give equal text. */
void ruleset_dump(struct ruleset *ruleset, FILE *out);

/** Deletes the table of @family from the kernel, unless another program owns it. @existed says
 * whether there was one. */
int ruleset_cleanup(struct nft_socket *socket, enum family family, bool *existed,
                    struct error *err);

/* ---- what the kernel holds for one frontend ----
 *
 * Beside what it should hold. Reads single elements, so the cost follows the frontend and not the
 * table; changes nothing.
 */

/* ports with endpoints, or local_ports with local_endpoints. */
struct probe_part {
    uint32_t value;    /* P:N; 0: the service port is not there */
    size_t looked_at;  /* slots, from 0 */
    backend_vec found; /* what is in them, sorted */
};

/* Something that is not as it should be. */
struct probe_difference {
    const char *set; /* of base.nft; static */
    char *text;      /* owned; what is wrong in it, for people */
};

/* Starts zeroed, release with probe_clear(). */
struct probe {
    uint32_t service; /* P:class; 0: the frontend is not there, and nothing more is known */
    struct probe_part all, local;
    bool rejected, dropped, cluster_ip; /* is in the set for it */
    uint32_t affinity_timeout;          /* 0: it has none */
    uint32_t source_list;               /* likewise */
    size_t sources;                     /* prefixes of it found as they should be */
    size_t skipped; /* elements that were not looked at: there were no lookups left */
    VEC(struct probe_difference) differences;
};

/* What a frontend should be. */
struct probe_subject {
    const struct frontend *frontend;
    const struct route *route;     /* NULL: nobody has the frontend */
    const struct port_route *port; /* of the port that it leads to; NULL likewise */
};

/**
 * Fills in @probe for @subject.
 * @lookups  how many slots and source ranges may be looked at; what was is taken off
 * -1 if the kernel could not be asked.
 */
int ruleset_probe(const struct ruleset *ruleset, struct nft_socket *socket,
                  const struct probe_subject *subject, size_t *lookups, struct probe *probe,
                  struct error *err);

void probe_clear(struct probe *probe);

/** Whether the kernel has the table, and whether its rules are those that it should have. */
int ruleset_probe_table(const struct ruleset *ruleset, struct nft_socket *socket, bool *exists,
                        bool *same, struct error *err);

/** Whether @address is in a set of addresses ("cluster_ips", "service_cidrs"). */
int ruleset_probe_address(const struct ruleset *ruleset, struct nft_socket *socket, const char *set,
                          const struct address *address, bool *held, struct error *err);

/* ---- counted connections ----
 *
 * Packets count themselves in elements of two sets of the table (base.nft), so the kernel has the
 * totals. They are read when somebody wants to know, in pieces: table_read_connections().
 */

/** When the last complete reading of the totals of service ports was begun; 0: there was none. */
double ruleset_connections_read(const struct ruleset *ruleset);

/** New connections to the service port with @id, by what was read of it last. */
uint64_t ruleset_connections(const struct ruleset *ruleset, uint32_t id);

/** Those that left for @backend, by asking the kernel; -1: it does not answer. */
int ruleset_endpoint_connections(const struct ruleset *ruleset, struct nft_socket *socket,
                                 uint32_t id, const struct backend *backend, uint64_t *total,
                                 struct error *err);

/* ---- whether this kernel can do what the table needs ----
 *
 * Each expression in use is put into a throwaway batch that the kernel judges and forgets.
 */

/* The table of the throwaway batches. */
#define PREFLIGHT_TABLE "kube-nftd-preflight"

enum preflight_need {
    NEED_ALWAYS, /* without it, the family cannot be proxied */
    NEED_FIB,    /* without it, see struct ruleset_config */
    NEED_REJECT,
    NEED_OWNER,
    NEED_COUNTERS, /* only where connections are counted */
};

/* One feature and what the kernel said to it. */
struct preflight_result {
    const char *feature; /* "random choice (numgen)" */
    const char *config;  /* the kernel's options: "CONFIG_NFT_NUMGEN" */
    const char *purpose; /* what it is needed for: "picking an endpoint" */
    enum preflight_need need;
    bool works; /* or cannot be told now, since memory is short or the kernel busy */
    int why;    /* errno; 0 if it works, and for what was not tried, since nf_tables is not there */
    char *error; /* the kernel's words; NULL if why is 0 */
};

struct preflight {
    enum family family;
    struct preflight_result *results;
    size_t n;
};

/** Probes everything for the families in use. Always fills in all of @out, which the caller clears;
 * of others it has nothing. */
void preflight_run(struct nft_socket *socket, const bool families[FAMILY_COUNT],
                   struct preflight out[FAMILY_COUNT]);
void preflight_clear(struct preflight *preflight);

/** Whether the family can be proxied; whether what @need says is there. */
bool preflight_passed(const struct preflight *preflight);
bool preflight_has(const struct preflight *preflight, enum preflight_need need);

/** Everything that is missing in one line: "random choice (numgen): CONFIG_NFT_NUMGEN; ...", with
 * the kernel's words instead of the option where they speak of something else (a capability that
 * is missing, say). The caller frees it; NULL if nothing is. */
char *preflight_missing(const struct preflight *preflight);

/** Prints the table of preflight: family, feature, option, what it is needed for, ok or what the
 * kernel said; then what follows from what is missing. */
void preflight_print(const struct preflight *preflight, FILE *out);

/* ---- what is counted of one family's syncs, in kube-proxy's terms ----
 *
 * A sync is one try to make the kernel's table what is desired (docs/behaviour.md 7, 9.2 to 9.4).
 * It is full if the table had to be read back, that is for the first programming and after each
 * failure, and partial otherwise. So a rejected partial sync and the full one that makes up for it
 * in the same turn are two. A later transaction that deletes what packets may just still have
 * looked up is a partial sync as well, as it is for kube-proxy, who deletes chains later.
 *
 * kube-proxy's time of a sync holds the work on Services and endpoints, too. Here that is done once
 * for both families, before; it is not in it.
 */

/* So many trigger times wait for a sync to succeed; those of further changes are not sampled. */
#define SYNC_TRIGGERS_MOST 65536

/* When what made a slice another one happened. */
struct sync_trigger {
    const char *service_id; /* of the slice, interned; or NULL */
    double time;            /* seconds since 1970 */
};

struct sync_figures {
    struct histogram all, full, partial; /* seconds of syncs, failed ones too */
    struct histogram programming;        /* seconds from the trigger to the sync's success */
    VEC(struct sync_trigger) triggers;   /* not applied yet */
    double started;                      /* seconds since 1970; triggers before do not count */
    double last_success, last_queued;    /* likewise; 0: never. A change asks for a sync */
    uint64_t failures;
    uint64_t transactions; /* that the kernel took; the next ones are of them */
    uint64_t elements_added, elements_deleted;
    uint64_t bytes;
    double seconds; /* inside the kernel */
    size_t last_bytes;
    double last_seconds;
    struct ports_without_local without_local; /* as of the last success */
};

/** No sync yet; the loop begins at @now. Release with sync_figures_clear(). */
void sync_figures_init(struct sync_figures *figures, double now);
void sync_figures_clear(struct sync_figures *figures);

/** A slice of @service_id (NULL: of none) whose trigger time is @trigger, 0 for none, became
 * another. */
void sync_figures_triggered(struct sync_figures *figures, const char *service_id, double trigger);

/** All triggers so far are applied at @now (seconds since 1970), but those of Services that wait;
 * with @waits NULL, all. Those of slices that made no difference needed no sync, where kube-proxy
 * makes one. */
void sync_figures_in_force(struct sync_figures *figures, double now,
                           bool (*waits)(const void *ctx, const char *service_id,
                                         enum family family),
                           const void *ctx, enum family family);

/* ---- one family's table and its time ----
 *
 * When it is committed and, after a failure, committed again (docs/behaviour.md 9.4), when what
 * other programs changed is repaired, when it is audited, and since when a change waits. What is
 * logged and counted of all that.
 */

struct table;

struct table_config {
    enum family family;
    struct ruleset_config ruleset;
    double sync_period;  /* kube-proxy's, in seconds; 0: its default */
    double audit_period; /* seconds from one audit to the next; 0: none */
};

/** A table of which nothing is desired yet; NULL if a template is broken (the error says where). */
struct table *table_new(const struct table_config *config, struct error *err);
void table_free(struct table *table);

/** Where to say what is desired: table_changing() for those who are about to. Both are borrowed. */
const struct ruleset *table_ruleset(const struct table *table);
struct ruleset *table_changing(struct table *table);

/** What is counted of commits, for those who know when changes began. */
struct sync_figures *table_syncs(struct table *table);

/**
 * Commits if there is something to commit and its time has come, and goes on with an audit. Logs
 * and counts failures itself.
 * @more_to_come  the ruleset was not told of all that has changed so far
 * @about         the Services of a commit, for its line; NULL: none
 * Returns when it wants to be called again, or 0.
 */
double table_turn(struct table *table, bool more_to_come, const char *about,
                  struct nft_socket *socket, double now);

/** Whether the last complete reading of connections was begun at @since or later. If not, reads a
 * piece, which may be the last one. Where nothing is counted there is nothing to read. */
bool table_read_connections(struct table *table, double since);

/**
 * Before the first turn, while rules from the previous process stay active: repairs them if another
 * program changed them. Looks at once, when such a program was seen, and every 2 s, since that of
 * an earlier owner is not. Logs and counts what it did. Returns when it wants to be called again.
 */
double table_keep(struct table *table, struct nft_socket *socket, double now);

/** Likewise, while nothing is known of what is desired: takes @frontend out of the table, unless
 * its address is a cluster IP. Logs that, and why not if it fails. */
void table_give_way(struct table *table, const struct frontend *frontend,
                    struct nft_socket *socket);

/** What came from the monitor (kube-nftd/netlink.h); table_foreign_lost() if events were lost.
 * It is repaired by turns that follow. */
void table_foreign_change(struct table *table, const struct table_change *change);
void table_foreign_lost(struct table *table);
void table_foreign_settled(struct table *table, const struct table_program *program);

/** Whether all was committed at least once, be it without what is quarantined. */
bool table_is_programmed(const struct table *table);

/**
 * Whether the kernel holds all that has come so far, but for what is quarantined: nothing waits for
 * a commit, for the repair of what another program changed, or for a later turn. /programmed and
 * readiness speak of that; health checks, stale flows and programming times ask for each frontend
 * (ruleset_is_waiting()).
 */
bool table_is_in_force(const struct table *table);

/* How it does. What is pointed to is borrowed until the next turn. */
struct table_view {
    bool in_use;         /* else all the rest is zero */
    bool programmed;     /* table_is_programmed() */
    bool overdue;        /* a change has waited for so long that the proxy counts as unhealthy
                          * (docs/behaviour.md 6.2): twice the sync period */
    double waiting;      /* seconds that a change has waited to be applied; 0: none does */
    double last_updated; /* the last success, or the start; seconds since 1970 */
    const char *failure; /* why it waits, as it was logged; NULL: it does not */
    uint64_t repairs;    /* commits that repaired what a program was seen doing */
    uint64_t drift;      /* elements that were sent to repair what an audit found */
    uint64_t audits;     /* that were completed */
    size_t frontends;    /* desired; of those in quarantine, applied */
    size_t refused;      /* frontends and other elements that the kernel rejects by now */
    bool lost;           /* ruleset_is_lost() */
    const struct ruleset *ruleset;
    const struct sync_figures *syncs;
    const struct ruleset_figures *table;
};

/** @table NULL: it is not in use. */
void table_view(const struct table *table, double now, struct table_view *view);

/** "ip" or "ip6", as nft names the family. */
const char *nft_family_name(enum family family);

#endif
