/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of one family: what it shall hold, what the kernel is known to hold, and the batches
 * that make the one into the other.
 *
 * Changes only note what is wanted (pending); a commit computes the difference for the frontends
 * concerned, sends it as one transaction and believes it only when the kernel has said so. After a
 * failure the table is read back before the next try. A table found at the start is adopted: what
 * it holds already is not sent again.
 *
 * A slot outlives its count by one transaction (docs/design.md): packets look up the two one
 * after the other. So slots that no count reaches any more are deleted by a later commit.
 */
#ifndef KUBE_NFTD_RULESET_RULESET_H
#define KUBE_NFTD_RULESET_RULESET_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/policy/route.h"

#include <stdbool.h>
#include <stdio.h>

#define RULESET_TABLE "kube-nftd"

/* How long an unreachable slot stays, in seconds: longer than a packet takes from one lookup to
 * the next. */
#define RULESET_TRIM_DELAY 0.1

struct ruleset;

/* How packets of this node's pods are told (docs/behaviour.md 4.6). */
enum pod_detector {
    DETECT_NONE,
    DETECT_CIDRS,           /* by source address: ruleset_set_pod_cidrs() */
    DETECT_INTERFACE,       /* by the name of the interface that they came in by */
    DETECT_INTERFACE_PREFIX /* by the beginning of that name */
};

/* Which connections the table counts (connections.h). */
enum connection_counting { COUNT_NOTHING, COUNT_SERVICES, COUNT_ENDPOINTS /* both */ };

/* What shapes the table's rules, for the life of a ruleset. */
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
                         * most slots of frontends with many: see ruleset_commit(); 0: thousands */
    /* Told of each UDP frontend that a table found in the kernel had and nobody wants any more: its
     * flows are stale once it is gone. NULL: nobody is told. */
    void (*abandoned)(void *ctx, const struct frontend *frontend);
    /* The name of who has a frontend, for the log; to be freed, NULL if nobody has it. May be NULL.
     */
    char *(*owner)(void *ctx, const struct frontend *frontend);
    void *ctx;
};

/* Figures of the last commit that sent something. */
struct ruleset_stats {
    size_t elements_added, elements_deleted; /* of maps and sets */
    size_t bytes;
    double seconds; /* inside the kernel */
};

/* What was done so far, and what there is. */
struct ruleset_figures {
    size_t elements;     /* of maps and sets in the kernel that we put there, by what is known */
    uint64_t read_backs; /* of a table that had been in force: its commit had failed */
    size_t refused;      /* frontends and service ports that are not as they shall be: the kernel
                          * refused that */
    size_t left_out;     /* likewise elements that belong to no frontend */
    uint64_t refusals;   /* how often something was refused and put aside */
    /* Of session affinity, by the last look: drift_count_records(). */
    uint32_t records, most_records; /* that clients have, and that there can be */
    bool records_known;             /* else the kernel does not count them, and there is room */
    uint64_t mistakes;              /* changes of backends that did not fit those in force */
    uint64_t replaced;  /* tables with other maps or sets: made anew in one transaction */
    uint64_t rewritten; /* transactions that put rules or chains right */
};

/** An empty ruleset for the table of @family; NULL if a template is broken (the error says where).
 */
struct ruleset *ruleset_new(enum family family, const struct ruleset_config *config,
                            struct error *err);
void ruleset_free(struct ruleset *ruleset);

/** The service port with @id (of routes) shall have the backends of @route (copied),
 * whichever frontends lead there. */
void ruleset_set_port(struct ruleset *ruleset, uint32_t id, const struct port_route *route);

/**
 * The backends of a service port that were set last change. Costs as much as the change, and one
 * look at those in force. False, and nothing is noted, if the port cannot be changed like that:
 * with session affinity, with as many backends as can be, after a refusal or a failed commit, or if
 * none were set. Then all of it is to be set.
 */
bool ruleset_change_port(struct ruleset *ruleset, uint32_t id,
                         const struct port_route_change *change);

/** Nobody has the service port any more. What is in force of it goes with the last frontend that is
 * to lead there, or does. */
void ruleset_remove_port(struct ruleset *ruleset, uint32_t id);

/** New connections to @frontend shall be treated as @route (copied) says. */
void ruleset_set(struct ruleset *ruleset, const struct frontend *frontend,
                 const struct route *route);

/** @frontend shall not be there. */
void ruleset_remove(struct ruleset *ruleset, const struct frontend *frontend);

/** @address shall be known as a cluster IP in use, or not (docs/behaviour.md 4.3). */
void ruleset_set_cluster_ip(struct ruleset *ruleset, const struct address *address, bool in_use);

/** What @backend, on this node, sends to itself shall be masqueraded, or not
 * (docs/behaviour.md 4.5). */
void ruleset_set_hairpin(struct ruleset *ruleset, uint8_t protocol, const struct backend *backend,
                         bool in_use);

/** The ranges that cluster IPs are allocated from, and the addresses of pods for DETECT_CIDRS:
 * disjoint and ascending, copied. They replace those of the last call. */
void ruleset_set_service_cidrs(struct ruleset *ruleset, const range_vec *ranges);
void ruleset_set_pod_cidrs(struct ruleset *ruleset, const range_vec *ranges);

/* Who gets the short-circuit of an external frontend with traffic policy Local
 * (docs/behaviour.md 4.6), and what a reject is: what the table's rules were made for. Borrowed
 * until the next change. */
struct ruleset_senders {
    bool host; /* this host itself */
    enum pod_detector pods;
    const range_vec *pod_cidrs; /* of DETECT_CIDRS */
    const char *pod_match;      /* the match for packets of pods, in nft's words; NULL: none */
    bool rejects;               /* false: this kernel cannot, and drops */
};
struct ruleset_senders ruleset_senders(const struct ruleset *ruleset);

/** Which connections the table counts (connections.h). */
enum connection_counting ruleset_counting(const struct ruleset *ruleset);

/** Whether it is known what the kernel holds, from a read-back or acknowledged commits since. */
bool ruleset_knows_kernel(const struct ruleset *ruleset);

/**
 * Whether the last commit failed since another program owns the table: another kube-nftd that is
 * still running, most likely. Nothing tells when it is gone, so ask again soon.
 */
bool ruleset_is_owned_elsewhere(const struct ruleset *ruleset);

/** Whether the last read-back found that the table is gone, another one or another program's, and
 * no commit has made it anew since: nothing that was in force is. */
bool ruleset_is_lost(const struct ruleset *ruleset);

/** Whether the kernel refused what @frontend shall be, so that something else is in force of it. */
bool ruleset_is_refused(const struct ruleset *ruleset, const struct frontend *frontend);

/** Whether the kernel may hold something else of @frontend, or of where it leads, than what it
 * shall be, and not since it refused that: no commit has sent it yet, or all of it, or what the
 * kernel holds is not known. */
bool ruleset_is_waiting(const struct ruleset *ruleset, const struct frontend *frontend);

/** The same for a service port and all frontends that are to lead there. */
bool ruleset_port_is_waiting(const struct ruleset *ruleset, uint32_t id);

/** Whether a commit at @now (clock_monotonic) would have something to do. */
bool ruleset_needs_commit(const struct ruleset *ruleset, double now);

/** Whether the last commit left something for the next one, which is due at once: frontends wait
 * until the list of their sources is complete, or their new slots are all there, of which each
 * commit sends a portion. */
bool ruleset_is_filling(const struct ruleset *ruleset);

/** When what nothing leads to any more is to be deleted (clock_monotonic), or 0 if there is none.
 */
double ruleset_trim_time(const struct ruleset *ruleset);

/** When chains that nothing leads to any more are looked for (clock_monotonic), or 0 if there are
 * none. They go some seconds after their last use. */
double ruleset_collect_time(const struct ruleset *ruleset);

/** When what the kernel refused is tried again (clock_monotonic), or 0 if there is none. */
double ruleset_retry_time(const struct ruleset *ruleset);

/**
 * Makes the kernel hold what is wanted. 0: it does, but for what it refused: such frontends stay as
 * they were in force, are said and counted (struct ruleset_figures), and tried again when they
 * change or at ruleset_retry_time(). -1: nothing that was wanted is lost; call again later.
 *
 * The kernel holds its caller until a transaction is in force, so frontends with more new slots
 * than a portion (see struct ruleset_config) get them in several, one a call, before anything else
 * of them changes: ruleset_is_filling() says that some are left. So do trims. What a table lacks
 * that was read back goes in one; one that is made where there was none in several, all of them in
 * this call.
 * @stats  filled in if not NULL; zero if nothing had to be sent
 */
int ruleset_commit(struct ruleset *ruleset, struct nft_socket *socket, double now,
                   struct ruleset_stats *stats, struct error *err);

/**
 * Another program changed an element of @set; or something else of the table; or anything, since it
 * was not seen what. This is only noted, until ruleset_check_suspects().
 */
void ruleset_suspect_element(struct ruleset *ruleset, const char *set,
                             const struct nft_element *element);
void ruleset_suspect_rules(struct ruleset *ruleset);
void ruleset_suspect_all(struct ruleset *ruleset);

bool ruleset_has_suspects(const struct ruleset *ruleset);

/**
 * Asks the kernel for the elements that were noted. What is not as it should be is put right by the
 * next commit, which is due then: by the elements or chains concerned, by reading back all of the
 * table, or by making it anew if its maps and sets are others. Returns how much of it there is, 0
 * if nothing.
 */
size_t ruleset_check_suspects(struct ruleset *ruleset, struct nft_socket *socket);

/**
 * If there is a table of an earlier run whose chains, rules or verdicts are not those that the
 * templates make, makes them so in one transaction, while nothing is known of what its elements
 * shall be: what another program did might keep this one from ever learning that. Elements and the
 * records of packets stay. Any other table, and one that another program owns, is left alone; one
 * that can be owned is claimed. For a ruleset that knows nothing of the kernel yet.
 * @mended  whether something was wrong
 * -1: it is as it was; the error says why
 */
int ruleset_mend(struct ruleset *ruleset, struct nft_socket *socket, bool *mended,
                 struct error *err);

/** How many frontends shall be there; of those that the kernel refused, how many are in force. */
size_t ruleset_frontends(const struct ruleset *ruleset);

/** Borrowed; they change with each commit. */
const struct ruleset_figures *ruleset_figures(const struct ruleset *ruleset);

/**
 * Prints the table as it shall be, in nft syntax that nft -f loads in place of an existing one.
 * For a ruleset that was never committed. Sorted, so that equal contents give equal text.
 */
void ruleset_dump(struct ruleset *ruleset, FILE *out);

/** Deletes the table of @family from the kernel, unless another program owns it. @existed says
 * whether there was one. */
int ruleset_cleanup(struct nft_socket *socket, enum family family, bool *existed,
                    struct error *err);

#endif
