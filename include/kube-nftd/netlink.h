/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Talks to the kernel: nf_tables batches and dumps, events of tables, conntrack, addresses. Knows
 * nftables, not Kubernetes. Errors carry what the kernel said. Nothing here waits for anybody but
 * the kernel.
 */
#ifndef KUBE_NFTD_NETLINK_H
#define KUBE_NFTD_NETLINK_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <libmnl/libmnl.h>
#include <linux/filter.h>

struct ev_loop;
struct table_monitor;
struct nftnl_chain;
struct nftnl_rule;
struct nftnl_set;

/* ---- messages: message.c ---- */

/**
 * A socket for @protocol (NETLINK_NETFILTER, ...), bound to multicast @groups, with room for @room
 * bytes that wait to be read (0: as many as usual), which the caller closes with
 * mnl_socket_close(). NULL with an error that begins with @what.
 * @flags  SOCK_NONBLOCK or 0
 */
struct mnl_socket *netlink_open(int protocol, int flags, unsigned groups, int room,
                                const char *what, struct error *err);

/** A request in @buffer, which has room for it, with the header (@length bytes) that its protocol
 * has. */
struct nlmsghdr *netlink_request(void *buffer, uint16_t type, uint16_t flags, uint32_t sequence,
                                 const void *header, size_t length);

/**
 * Sends @request, which asks for a dump or an acknowledgement, and gives each message of the answer
 * to @fn (may be NULL). 0 or an errno. If what a dump reads changes meanwhile, some of it may be
 * missing or come twice: that is EINTR if @overtaken is NULL, else it is set (and not cleared
 * otherwise). Not for hot paths.
 */
int netlink_ask(struct mnl_socket *nl, const struct nlmsghdr *request, mnl_cb_t fn, void *ctx,
                bool *overtaken);

/** How many of @length bytes, from their beginning on, are whole messages. To be asked before
 * libmnl goes through them: it takes the length of a message for a number with a sign, and so one
 * of 2 GiB or more for one that fits. */
size_t netlink_whole(const void *messages, size_t length);

/** The errno that the kernel answered, 0 for an acknowledgement; EPROTO for a number that is none.
 */
int netlink_errno(const struct nlmsgerr *answer);

/** AF_INET or AF_INET6, which NFPROTO_IPV4 and NFPROTO_IPV6 are, too. */
uint8_t netlink_family(enum family family);

/** The family with that number. False if it is none of the two. */
bool netlink_family_of(uint8_t number, enum family *family);

/** The first attribute of @type behind the header (@length bytes) of a message, or NULL. */
const struct nlattr *netlink_attribute(const struct nlmsghdr *message, size_t length,
                                       uint16_t type);

/** The same of a message of nfnetlink (nf_tables, conntrack, ipset). */
const struct nlattr *nfnl_attribute(const struct nlmsghdr *message, uint16_t type);

/** The first attribute of @type in @nest; NULL if there is none or @nest is NULL. */
const struct nlattr *netlink_inside(const struct nlattr *nest, uint16_t type);

/** The text in @attribute; NULL if that is NULL or what it holds does not end with a NUL. */
const char *netlink_text(const struct nlattr *attribute);

/** The number of 32 bits in @attribute, in the network's byte order; @standard if there is none. */
uint32_t netlink_number(const struct nlattr *attribute, uint32_t standard);

/* An element of a set or map; borrowed. */
struct nft_element {
    const uint8_t *key;
    size_t key_length;
    const uint8_t *data;
    size_t data_length; /* 0 for sets and verdict maps */
    const char *chain;  /* that a verdict goes to; NULL if it is none, or another one */
    uint32_t flags;     /* NFT_SET_ELEM_INTERVAL_END, NFT_SET_ELEM_CATCHALL */
    uint64_t packets;   /* of its counter; 0 without one */
};

typedef void (*nft_element_fn)(void *ctx, const struct nft_element *element);

/** Gives each element in a NFT_MSG_NEWSETELEM to @fn. Returns how many there were. */
size_t nft_element_each(const struct nlmsghdr *message, nft_element_fn fn, void *ctx);

/*
 * ---- batches: batch.c ----
 *
 * Messages for one table (or for tables of one name in both families), which the kernel takes as
 * one transaction. They are written straight into one growing buffer, elements without an
 * allocation for each.
 */

/* Of NFTA_TABLE_FLAGS. Debian 12's header does not know the last one. */
#define NFT_TABLE_DORMANT 0x1u
#define NFT_TABLE_OWNED 0x2u
#define NFT_TABLE_PERSISTENT 0x4u

enum nft_element_op { ELEMENT_ADD, ELEMENT_DELETE };

/* A message that the kernel refused. */
struct nft_refusal {
    size_t message; /* its offset in the buffer; NFT_NO_MESSAGE if the kernel names none */
    int why;        /* an errno */
};

#define NFT_NO_MESSAGE SIZE_MAX

struct nft_batch {
    char *buffer; /* messages, without the begin and end of the transaction */
    size_t used, capacity;
    uint32_t sequence;    /* of the next message */
    uint32_t last_set_id; /* of anonymous sets: the next one is one more */
    uint8_t nf_family;    /* NFPROTO_IPV4 or NFPROTO_IPV6 */
    char *table;
    size_t elements[2]; /* how many, by enum nft_element_op */
    /* Where the buffer may be cut if the kernel cannot take it in one piece, */
    VEC(size_t) cuts;
    size_t piece; /* or if it is longer than so many bytes; 0: never for that */
    /* Set while elements are added that must be in one transaction: they make no place to cut. */
    bool together;
    /* Each element has a message of its own: the kernel judges all messages, but each only up to
     * its first error. Until nft_batch_clear(). */
    bool singly;
    /* What the last nft_socket_commit() that failed has said. */
    VEC(struct nft_refusal) refusals;
    bool nothing_applied; /* of all of it: the kernel holds what it held before */
    /* The last message, if more elements may come to it. */
    struct {
        bool open;
        enum nft_element_op op;
        const char *set;
        size_t message, list; /* offsets in buffer */
    } current;
};

/** An empty batch for table @table (copied) of @family. Release with nft_batch_release(). */
void nft_batch_init(struct nft_batch *batch, enum family family, const char *table);
void nft_batch_release(struct nft_batch *batch);

/** Empties the batch; gives memory back if it holds much. */
void nft_batch_clear(struct nft_batch *batch);

/** What follows is about the table of that name of @family. */
void nft_batch_turn_to(struct nft_batch *batch, enum family family);

bool nft_batch_is_empty(const struct nft_batch *batch);

/** Makes the table, with a comment that nft shows (at most 127 bytes). @owned: only this program's
 * socket can change it until that is closed; then the table stays and may be claimed. From Linux
 * 6.9 on; older kernels refuse with EOPNOTSUPP. */
void nft_batch_add_table(struct nft_batch *batch, bool owned, const char *comment);

/** Gives a table that is there other flags: to become the owner of one that can be owned (EPERM if
 * it has another one), or to wake up one that was made dormant. */
void nft_batch_set_table_flags(struct nft_batch *batch, uint32_t flags);

/** Deletes the table, which must be there, with all that is in it. */
void nft_batch_delete_table(struct nft_batch *batch);

/** Deletes all elements of a set. */
void nft_batch_flush_set(struct nft_batch *batch, const char *set);

/** Deletes one rule, all rules of a chain, or a chain that has none and that no rule names. */
void nft_batch_delete_rule(struct nft_batch *batch, const char *chain, uint64_t handle);
void nft_batch_flush_chain(struct nft_batch *batch, const char *chain);
void nft_batch_delete_chain(struct nft_batch *batch, const char *chain);

/** Makes a set, chain or rule. The table is filled in; the objects are borrowed. A chain must not
 * be there yet: rules that two programs add to it for the first time would be in it twice. */
void nft_batch_add_set(struct nft_batch *batch, struct nftnl_set *set);
void nft_batch_add_chain(struct nft_batch *batch, struct nftnl_chain *chain);
void nft_batch_add_rule(struct nft_batch *batch, struct nftnl_rule *rule);

/** Adds or deletes one element of @set (a string that lives until nft_batch_finish()). @data is
 * NULL for sets and deletions. Elements of the same set in a row share messages. */
void nft_batch_element(struct nft_batch *batch, enum nft_element_op op, const char *set,
                       const void *key, size_t key_length, const void *data, size_t data_length);

/** Adds or deletes a range of a set with the flag interval. Both ends belong to it. The kernel
 * holds it as two elements, the second one (flagged NFT_SET_ELEM_INTERVAL_END) right behind @last,
 * unless that is the highest key there is. */
void nft_batch_range(struct nft_batch *batch, enum nft_element_op op, const char *set,
                     const void *first, const void *last, size_t key_length);

/** Adds an element to a verdict map: @key -> goto @chain. */
void nft_batch_goto_element(struct nft_batch *batch, const char *set, const void *key,
                            size_t key_length, const char *chain);

/** Adds an element that packets count themselves in, with so many to begin with. It is none of
 * those that the batch counts. */
void nft_batch_counting_element(struct nft_batch *batch, const char *set, const void *key,
                                size_t key_length, uint64_t packets);

/** Adds the elements of an anonymous set, each @key_length bytes long, one behind the other. */
void nft_batch_anonymous_elements(struct nft_batch *batch, uint32_t set_id, const void *keys,
                                  size_t key_length, size_t n);

/** Says that a later message does not need to be in one transaction with the earlier ones. */
void nft_batch_may_cut(struct nft_batch *batch);

/** The next element begins a message. */
void nft_batch_finish(struct nft_batch *batch);

/*
 * ---- the socket: nft_socket.c ----
 *
 * The one netlink socket to nf_tables: sends batches, reads tables back. The kernel works on a
 * batch inside the send, so its answers are there when the send returns.
 */

struct nft_socket;

struct nft_socket *nft_socket_open(struct error *err);
void nft_socket_close(struct nft_socket *socket);

/** By which the kernel names the socket in events. */
uint32_t nft_socket_port(const struct nft_socket *socket);

/** @monitor does not listen while large batches are committed; NULL: nobody listens. */
void nft_socket_set_monitor(struct nft_socket *socket, struct table_monitor *monitor);

/**
 * Sends @batch and reads the kernel's answers. 0: everything is applied. -1: the error names
 * what was refused first, @batch->refusals has all that the kernel named (they may be less than
 * it found: there is room for some thousands), and @batch->nothing_applied says whether it holds
 * what it held before. If that is not so, some of it may be applied, or all if the kernel's
 * answer was lost.
 * A batch that the socket's buffer cannot hold even after growing it (that takes CAP_NET_ADMIN in
 * the first user namespace), that the kernel has no memory for in one piece, or that is longer than
 * @batch->piece, is cut where the batch allows it and goes in several transactions; then the first
 * ones may be applied after a -1.
 */
int nft_socket_commit(struct nft_socket *socket, struct nft_batch *batch, struct error *err);

/** Whether the kernel would take @batch; nothing of it is applied. 0: it would. -1: the error says
 * what was refused, and @why (if not NULL) is the errno. Chains of a new table that lead to each
 * other are not found: there the kernel looks for them when it commits, and only then. */
int nft_socket_check(struct nft_socket *socket, struct nft_batch *batch, int *why,
                     struct error *err);

/* ---- what the kernel holds: nft_reading.c ---- */

/** The number of the ruleset's generation: one more after each transaction of anybody in this
 * network namespace. */
int nft_socket_generation(struct nft_socket *socket, uint32_t *generation, struct error *err);

struct nft_table_state {
    bool exists;
    char *comment; /* to be freed by the caller; NULL if it has none */
    uint32_t flags;
    uint32_t owner;       /* the netlink port of who alone may change it; 0: everybody may */
    bool owned_elsewhere; /* by another socket than this one */
};

int nft_socket_read_table(struct nft_socket *socket, enum family family, const char *table,
                          struct nft_table_state *state, struct error *err);

/** Gives all elements of a set or map to @fn. -1 also if the set changed meanwhile: read again. */
int nft_socket_read_elements(struct nft_socket *socket, enum family family, const char *table,
                             const char *set, nft_element_fn fn, void *ctx, struct error *err);

/** How many elements a set or map has, in @count. @known: whether the kernel says so, as new ones
 * do (Linux 6.18); false, too, for a set that is not there. */
int nft_socket_count_elements(struct nft_socket *socket, enum family family, const char *table,
                              const char *set, uint32_t *count, bool *known, struct error *err);

/* Keys of one length, one behind the other. */
struct nft_keys {
    const uint8_t *bytes;
    size_t length; /* of each */
    size_t n;      /* NFT_KEYS_MOST at most */
};

/* The answers to so many fit into a socket's buffer as it is. */
#define NFT_KEYS_MOST 32

/** Gives the elements of a set or map with @keys to @fn, in their order, up to the first one that
 * is not there; @found: how many. For a set of ranges, the one that a key is in (of single fields:
 * its start). Costs a lookup each, whatever the set holds. A set or table that is not there is as
 * good as an empty one. */
int nft_socket_get_elements(struct nft_socket *socket, enum family family, const char *table,
                            const char *set, const struct nft_keys *keys, nft_element_fn fn,
                            void *ctx, size_t *found, struct error *err);

/** The same of one key. */
int nft_socket_get_element(struct nft_socket *socket, enum family family, const char *table,
                           const char *set, const void *key, size_t key_length, nft_element_fn fn,
                           void *ctx, struct error *err);

/* Each takes one object, borrowed. */
typedef void (*nft_rule_fn)(void *ctx, struct nftnl_rule *rule);
typedef void (*nft_chain_fn)(void *ctx, struct nftnl_chain *chain);

/** Gives all rules of a table to @fn, chain by chain. -1 also if they changed meanwhile. */
int nft_socket_read_rules(struct nft_socket *socket, enum family family, const char *table,
                          nft_rule_fn fn, void *ctx, struct error *err);

/** Gives all chains of a table to @fn. -1 also if they changed meanwhile. */
int nft_socket_read_chains(struct nft_socket *socket, enum family family, const char *table,
                           nft_chain_fn fn, void *ctx, struct error *err);

/* What to dump of a table. */
struct nft_dump {
    uint16_t type; /* NFT_MSG_GETCHAIN, NFT_MSG_GETSET, NFT_MSG_GETSETELEM or NFT_MSG_GETRULE */
    const char *table;
    const char *set; /* whose elements; for NFT_MSG_GETSETELEM alone */
};

/** Gives each message of a dump to @fn as the kernel sends it: for tables of others, whose contents
 * libnftnl need not know. @overtaken as in netlink_ask(); for elements the kernel does not tell.
 * Chains of other tables may come too. */
int nft_socket_dump(struct nft_socket *socket, enum family family, const struct nft_dump *what,
                    mnl_cb_t fn, void *ctx, bool *overtaken, struct error *err);

/* The elements of a set, read in pieces, on a socket of its own. The kernel makes the next piece
 * when it is asked for, by counting off from the beginning what it gave already. So changes between
 * two pieces may make it leave out elements or give them twice. */
struct element_dump;

/** Asks for all elements of a set. NULL if the kernel does not give them. */
struct element_dump *element_dump_open(enum family family, const char *table, const char *set,
                                       struct error *err);
void element_dump_close(struct element_dump *dump);

enum element_dump_state { DUMP_GOES_ON, DUMP_ENDED, DUMP_FAILED };

/** Gives the next piece, some 32 KiB, to @fn. Does not wait. @err is set if it failed. */
enum element_dump_state element_dump_step(struct element_dump *dump, nft_element_fn fn, void *ctx,
                                          struct error *err);

/*
 * ---- other programs: table_monitor.c ----
 *
 * Reports what other programs do to a table of ours, by nf_tables' own events: an event for each
 * object that a transaction touched, then one that says which process it was. A socket filter drops
 * what is neither about the table nor the end of another program's transaction, and all that comes
 * from our own socket. However often others commit, the loop is woken at most every
 * TABLE_MONITOR_PAUSE for it.
 *
 * While a listener is there, the kernel keeps a message of 8 KiB for each element of a transaction
 * until that is committed. So while our own socket commits a large batch, nobody listens. If others
 * committed meanwhile, it is as if events were lost.
 */

#define TABLE_MONITOR_PAUSE 0.02 /* seconds */

/* Who committed a transaction. Its process may be gone by now. */
struct table_program {
    uint32_t pid;  /* as the host sees it, outside of containers; 0: not known */
    char name[16]; /* what the process calls itself; others chose it, so it may be anything */
    bool peer;     /* it calls itself as this process does: the same program, in an upgrade say */
};

/* What another program did; borrowed. The element is as it was then: it may have changed since. */
struct table_change {
    enum family family;
    const char *set; /* whose element came or went; NULL: something else of the table did */
    const struct nft_element *element;
};

struct table_monitor_ops {
    void (*changed)(void *ctx, const struct table_change *change);
    /* Events were lost: anything may have changed. */
    void (*lost)(void *ctx);
    /* What was reported since then is to be looked at now; @program did (the last of) it. */
    void (*settled)(void *ctx, const struct table_program *program);
    void *ctx;
};

/**
 * Follows table @table (copied; its name has three letters at least) of both families on @loop.
 * @own  the socket whose changes are not reported; it outlives the monitor, and has no other one
 */
struct table_monitor *table_monitor_new(struct ev_loop *loop, const char *table,
                                        struct nft_socket *own, const struct table_monitor_ops *ops,
                                        struct error *err);
void table_monitor_free(struct table_monitor *monitor);

/* For nft_socket.c: a large batch begins; it has ended, and so many transactions of it were
 * applied.
 */
void table_monitor_leave(struct table_monitor *monitor);
void table_monitor_listen_again(struct table_monitor *monitor, uint32_t transactions);

/* For tests: a monitor without a socket; takes messages as they come from the kernel; all that came
 * in this turn was taken; the socket filter, and how many instructions it has. */
struct table_monitor *table_monitor_detached(const char *table, uint32_t own_port,
                                             const struct table_monitor_ops *ops);
void table_monitor_take(struct table_monitor *monitor, const void *messages, size_t length);
void table_monitor_settle(struct table_monitor *monitor);
#define TABLE_MONITOR_FILTER_SIZE 1000
size_t table_monitor_filter(const char *table, uint32_t own_port,
                            struct sock_filter out[TABLE_MONITOR_FILTER_SIZE]);

/*
 * ---- stale UDP flows: flow_cleaner.c, conntrack.c ----
 *
 * Deletes conntrack entries of UDP flows whose backend is not in use any more (docs/behaviour.md
 * 5.1), so that unbroken sockets move on.
 *
 * Only frontends that were named since they were clean are looked at. A scan streams the kernel's
 * table through one buffer, a piece a turn of the loop, and never keeps rule updates waiting.
 *
 * A flow to a frontend (its original destination) is stale if the source of its replies, address
 * and port, is none of the serving backends and
 *
 *     - the frontend is claimed: whether the flow is translated or not. A client may have spoken to
 *       the address before there was a service, and would go on past it;
 *     - the frontend is not claimed: if the flow is translated, that is if its replies come from
 *       elsewhere than it went to.
 *
 * A flow from a claimed frontend's own address and port is stale too, if nothing of it is
 * translated: it is the answer to a client that spoke to the address before there was a service,
 * and takes the client's next question past the service. Such an answer may be on its way while a
 * scan runs, so a scan that finds an untranslated flow to delete is followed by some more for that
 * frontend, over some 3 seconds.
 *
 * What is noted counts from the next flow_cleaner_run() on. Until then the kernel may hold the old
 * rules or the new ones, so a scan that runs deletes only what is stale by both.
 *
 * Flows of other protocols, to other destinations and of other network namespaces are left alone.
 */

struct flow_cleaner;

/* Whether something else than what was noted of @frontend last may be applied. */
typedef bool (*flow_held_back_fn)(const void *ctx, const struct frontend *frontend);

/* What was done so far, by family. */
struct flow_cleaner_stats {
    uint64_t scans; /* that saw the whole table; the seconds are theirs */
    uint64_t deleted, failed_deletions, failed_scans;
    double total_scan_seconds;
    struct histogram scan_seconds; /* likewise */
};

/** NULL if the kernel has no conntrack over netlink (CONFIG_NF_CT_NETLINK); the error says so. */
struct flow_cleaner *flow_cleaner_new(struct ev_loop *loop, struct error *err);
void flow_cleaner_free(struct flow_cleaner *cleaner);

/** The @n @serving backends (sorted by backend_compare, copied) of @frontend are these from now on.
 * If @claimed is false nobody has the frontend any more. Other protocols than UDP are ignored. */
void flow_cleaner_note(struct flow_cleaner *cleaner, const struct frontend *frontend, bool claimed,
                       const struct backend *serving, size_t n);

/** From now on flow_cleaner_run() passes over frontends of @family that are held back, since they
 * wait for their commit or the kernel refused them. */
void flow_cleaner_hold_back(struct flow_cleaner *cleaner, enum family family,
                            flow_held_back_fn held_back, const void *ctx);

/** What was noted of @family and is not held back is applied in its table: look for stale flows, a
 * moment later (packets that are on their way by the old rules arrive before) or after the scan
 * that runs and a pause as long as it took. Cheap if nothing was noted. A scan that fails is tried
 * again. */
void flow_cleaner_run(struct flow_cleaner *cleaner, enum family family);

const struct flow_cleaner_stats *flow_cleaner_stats(const struct flow_cleaner *cleaner,
                                                    enum family family);

/*
 * ---- addresses of this host: address_monitor.c ----
 *
 * Those that the interfaces hold, up or down. Not among them are loopback addresses (127.0.0.0/8,
 * ::1), and IPv6 addresses that another host turned out to have already.
 */

struct address_monitor;

/* The addresses of a family became others: all that there are now, sorted by their bytes, without
 * duplicates, borrowed. Must not free the monitor. */
typedef void (*addresses_changed_fn)(void *ctx, enum family family, const address_vec *addresses);

/** Reads the addresses and follows them on @loop. Reports those of both families before it returns
 * (also none), then every change, at most 50 times a second. */
struct address_monitor *address_monitor_new(struct ev_loop *loop, addresses_changed_fn changed,
                                            void *ctx, struct error *err);
void address_monitor_free(struct address_monitor *monitor);

#endif
