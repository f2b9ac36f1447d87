/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Netlink: nf_tables batches and dumps, table events, host addresses. Knows nftables, not
 * Kubernetes. Errors carry the kernel's reason. Calls block on the kernel only.
 */
#ifndef KUBE_NFTD_NETLINK_H
#define KUBE_NFTD_NETLINK_H

#include "kube-nftd/base.h"
#include "kube-nftd/net.h"

#include <libmnl/libmnl.h>

struct ev_loop;
struct table_monitor;
struct nftnl_chain;
struct nftnl_rule;
struct nftnl_set;

/* ---- requests and replies: netlink.c ---- */

/**
 * Opens a socket for @protocol (NETLINK_NETFILTER, ...), bound to multicast @groups, with a receive
 * buffer of @room bytes (0: the default). The caller closes it with mnl_socket_close(). NULL on
 * error; the text begins with @what.
 */
struct mnl_socket *netlink_open(int protocol, unsigned groups, int room, const char *what,
                                struct error *err);

/** The message after @last (NULL: the first) in the @length received bytes; NULL if no whole one
 * follows. (libmnl reads the message length as signed, so 2 GiB or more pass its check.) */
const struct nlmsghdr *netlink_next(const void *bytes, size_t length, const struct nlmsghdr *last);

#define netlink_each(message, bytes, length)                                                       \
    for (const struct nlmsghdr *message = NULL;                                                    \
         (message = netlink_next(bytes, length, message)) != NULL;)

/** The errno in a message of type NLMSG_ERROR or NLMSG_DONE: 0 for an acknowledgement or a complete
 * dump, EPROTO for a number out of range. */
int netlink_errno(const struct nlmsghdr *message);

/** Builds a request in @buffer, which must be large enough, with a protocol header of @length
 * bytes. */
struct nlmsghdr *netlink_request(void *buffer, uint16_t type, uint16_t flags, uint32_t sequence,
                                 const void *header, size_t length);

/* The reply to a request that was sent. */
struct netlink_reply {
    struct mnl_socket *nl;
    void *buffer; /* for one piece */
    size_t size;
    uint32_t sequence; /* of the request */
    mnl_cb_t fn;       /* gets each message; fails with MNL_CB_ERROR and errno. May be NULL */
    void *ctx;
    bool interrupted; /* a concurrent change may have made a dump miss or repeat entries */
};

/** Receives the next piece of a reply: 1 if more may follow, 0 at the end. -1 with errno: EAGAIN if
 * nothing is queued, else the reply failed. (libmnl ignores the error that ends a failed dump.) The
 * kernel queues the next piece of a dump when this one is read. Does not block. */
int netlink_receive(struct netlink_reply *reply);

/**
 * Sends @request, which requests a dump or an acknowledgement, and passes each message of the reply
 * to @fn (may be NULL). Returns 0 or an errno. If a concurrent change interrupted a dump: EINTR if
 * @interrupted is NULL, else *@interrupted is set (never cleared). Not for hot paths.
 */
int netlink_ask(struct mnl_socket *nl, const struct nlmsghdr *request, mnl_cb_t fn, void *ctx,
                bool *interrupted);

/** Whether a call that failed for @why may succeed at once if it is made again: it was interrupted,
 * or lacked memory or room in a buffer. */
bool netlink_is_transient(int why);

/** Throws away what is queued: late answers, which the next request would read. @buffer is scratch.
 */
void netlink_drain(struct mnl_socket *nl, void *buffer, size_t size);

/** AF_INET or AF_INET6; NFPROTO_IPV4 and NFPROTO_IPV6 have the same values. */
uint8_t netlink_family(enum family family);

/** Converts AF_INET or AF_INET6 to @family. False for any other number. */
bool netlink_family_of(uint8_t number, enum family *family);

/** The first attribute of @type after the protocol header (@length bytes), or NULL. */
const struct nlattr *netlink_attribute(const struct nlmsghdr *message, size_t length,
                                       uint16_t type);

/** Likewise for nfnetlink messages (nf_tables, conntrack, ipset). */
const struct nlattr *nfnl_attribute(const struct nlmsghdr *message, uint16_t type);

/** The first attribute of @type in @nest; NULL if absent or if @nest is NULL. */
const struct nlattr *netlink_inside(const struct nlattr *nest, uint16_t type);

/** The string in @attribute; NULL if @attribute is NULL or not NUL-terminated. */
const char *netlink_text(const struct nlattr *attribute);

/** Copies the first @length bytes of @attribute to @to. False if it is NULL or shorter. */
bool netlink_copy(const struct nlattr *attribute, void *to, size_t length);

/** The big-endian u32 in @attribute, in host byte order; @standard if absent or too short. */
uint32_t netlink_number(const struct nlattr *attribute, uint32_t standard);

struct nft_element {
    const uint8_t *key;
    size_t key_length;
    const uint8_t *data;
    size_t data_length; /* 0 for sets and verdict maps */
    const char *chain;  /* target of a goto; NULL for other verdicts and plain data */
    uint32_t flags;     /* NFT_SET_ELEM_INTERVAL_END, NFT_SET_ELEM_CATCHALL */
    uint64_t packets;   /* of its counter; 0 without one */
};

typedef void (*nft_element_fn)(void *ctx, const struct nft_element *element);

/** Passes each element of a NFT_MSG_NEWSETELEM to @fn. Returns their number. */
size_t nft_element_each(const struct nlmsghdr *message, nft_element_fn fn, void *ctx);

/*
 * ---- batches: batch.c ----
 *
 * A batch holds messages for one table (or for the tables of one name in both families), which the
 * kernel applies as one transaction. Messages are encoded straight into one growing buffer;
 * elements need no allocation of their own.
 */

/* NFTA_TABLE_FLAGS. Debian 12's header lacks the last one. */
#define NFT_TABLE_DORMANT 0x1u
#define NFT_TABLE_OWNED 0x2u
#define NFT_TABLE_PERSISTENT 0x4u

enum nft_element_op { ELEMENT_ADD, ELEMENT_DELETE };

/* A message that the kernel rejected. */
struct nft_rejection {
    size_t message; /* offset in the buffer; NFT_NO_MESSAGE if the kernel named none */
    int why;        /* an errno */
};

#define NFT_NO_MESSAGE SIZE_MAX

#define NFT_PIECE_FITTING SIZE_MAX

struct nft_batch {
    char *buffer; /* messages, without the batch begin and end */
    size_t used, capacity;
    uint32_t sequence;    /* of the next message */
    uint32_t last_set_id; /* last id given to an anonymous set */
    uint8_t nf_family;    /* NFPROTO_IPV4 or NFPROTO_IPV6 */
    char *table;
    size_t elements[2]; /* number of elements, by enum nft_element_op */
    /* Bytes per transaction, about. 0: the batch is one transaction, never cut; NFT_PIECE_FITTING:
     * it is cut only where the send buffer cannot hold more. */
    size_t piece;
    VEC(size_t) cuts; /* else the offsets where it may be cut */
    /* While set, elements must stay in one transaction and no cuts are recorded. */
    bool together;
    /* One message per element. The kernel checks every message, but stops within a message at its
     * first error. Reset by nft_batch_clear(). */
    bool singly;
    /* Errors of the last failed nft_socket_commit(). */
    VEC(struct nft_rejection) rejections;
    bool nothing_applied; /* the failed commit changed nothing in the kernel */
    bool short_of_memory; /* likewise, for lack of memory: the same batch may succeed later */
    /* The last message, while more elements may be appended to it. */
    struct {
        bool open;
        enum nft_element_op op;
        const char *set;
        size_t message, list; /* offsets in buffer */
    } current;
};

/** Initialises an empty batch for @table (copied) of @family. Release with nft_batch_release(). */
void nft_batch_init(struct nft_batch *batch, enum family family, const char *table);
void nft_batch_release(struct nft_batch *batch);

/** Empties the batch; frees a large buffer. */
void nft_batch_clear(struct nft_batch *batch);

/** Later messages address the table of @family. */
void nft_batch_set_family(struct nft_batch *batch, enum family family);

/** Creates the table, with a comment that nft shows (at most 127 bytes). @owned: only this socket
 * can change it. When the socket closes, the table stays and another process may claim it. Needs
 * Linux 6.9; older kernels return EOPNOTSUPP. */
void nft_batch_add_table(struct nft_batch *batch, bool owned, const char *comment);

/** Changes the flags of an existing table: to claim an unowned one (EPERM if another socket owns
 * it), or to wake a dormant one. */
void nft_batch_set_table_flags(struct nft_batch *batch, uint32_t flags);

/** Deletes the table, which must exist, with its contents. */
void nft_batch_delete_table(struct nft_batch *batch);

/** Deletes all elements of a set. */
void nft_batch_flush_set(struct nft_batch *batch, const char *set);

/** Deletes one rule, all rules of a chain, or an empty, unreferenced chain. */
void nft_batch_delete_rule(struct nft_batch *batch, const char *chain, uint64_t handle);
void nft_batch_flush_chain(struct nft_batch *batch, const char *chain);
void nft_batch_delete_chain(struct nft_batch *batch, const char *chain);

/** Creates a set, chain or rule. The table name is filled in; the objects are borrowed. A chain
 * must not exist yet: if two programs created it at once, both would append their rules to it. */
void nft_batch_add_set(struct nft_batch *batch, struct nftnl_set *set);
void nft_batch_add_chain(struct nft_batch *batch, struct nftnl_chain *chain);
void nft_batch_add_rule(struct nft_batch *batch, struct nftnl_rule *rule);

/** Creates a flowtable without devices; nothing happens if it exists. Deletes it: no rule may use
 * it any more. */
void nft_batch_add_flowtable(struct nft_batch *batch, const char *flowtable, int32_t priority);
void nft_batch_delete_flowtable(struct nft_batch *batch, const char *flowtable);

/** Has an existing flowtable see the packets that arrive by @device, or no longer. One message
 * each, so that the kernel names the devices that it rejects: ENOENT if there is no such device
 * (any more). */
void nft_batch_flowtable_device(struct nft_batch *batch, enum nft_element_op op,
                                const char *flowtable, const char *device);

/** Adds or deletes one element of @set, a string that must live until the next message for
 * something else, nft_batch_finish() or the commit. @data is NULL for sets and deletions.
 * Consecutive elements of one set share messages. */
void nft_batch_element(struct nft_batch *batch, enum nft_element_op op, const char *set,
                       const void *key, size_t key_length, const void *data, size_t data_length);

/** Adds or deletes an inclusive range of an interval set. The kernel stores it as two elements:
 * @first, and the key after @last, flagged NFT_SET_ELEM_INTERVAL_END. The second is omitted if
 * @last is the highest possible key. */
void nft_batch_range(struct nft_batch *batch, enum nft_element_op op, const char *set,
                     const void *first, const void *last, size_t key_length);

/** Adds a verdict map element: @key -> goto @chain. */
void nft_batch_goto_element(struct nft_batch *batch, const char *set, const void *key,
                            size_t key_length, const char *chain);

/** Adds an element with a counter that starts at @packets. Not included in batch->elements. */
void nft_batch_counting_element(struct nft_batch *batch, const char *set, const void *key,
                                size_t key_length, uint64_t packets);

/** Adds the elements of an anonymous set: @n consecutive keys of @key_length bytes. */
void nft_batch_anonymous_elements(struct nft_batch *batch, uint32_t set_id, const void *keys,
                                  size_t key_length, size_t n);

/** Allows a cut here, if the batch may be cut: later messages need not share a transaction with
 * earlier ones. */
void nft_batch_may_cut(struct nft_batch *batch);

/** Closes the open element message; the next element starts a new one. */
void nft_batch_finish(struct nft_batch *batch);

/*
 * ---- the socket: nft_socket.c ----
 *
 * The one netlink socket to nf_tables: sends batches, reads tables back. The kernel processes a
 * batch within the send, so its answers are queued when the send returns.
 */

struct nft_socket;

struct nft_socket *nft_socket_open(struct error *err);
void nft_socket_close(struct nft_socket *socket);

/** The netlink port that events of this socket's changes carry. */
uint32_t nft_socket_port(const struct nft_socket *socket);

/** Sets the monitor that is muted while large batches are committed; NULL: none. */
void nft_socket_set_monitor(struct nft_socket *socket, struct table_monitor *monitor);

/**
 * Sends @batch, unless it is empty, and reads the answers. 0: all of it is applied. -1: @err names
 * the first rejected message, @batch->rejections lists all that the kernel reported (possibly not
 * all: the receive buffer holds some thousands), and @batch->nothing_applied says whether the
 * kernel's state is unchanged. If it is false, the batch may be applied in part, or in full if the
 * answer was lost. @batch->short_of_memory says that the kernel's state is unchanged and that only
 * memory or room in the socket's buffer was missing.
 *
 * A batch is one transaction, or fails. One with @batch->piece is split at its cuts: into pieces of
 * that size, or smaller ones if they exceed the socket buffer even after growing (which takes
 * CAP_NET_ADMIN in the initial user namespace), or, without NFT_PIECE_FITTING, if the kernel lacks
 * memory for them. After -1 the first pieces may then be applied.
 */
int nft_socket_commit(struct nft_socket *socket, struct nft_batch *batch, struct error *err);

/** Dry run: checks @batch without applying it. 0: the kernel would accept it. -1: @err names the
 * first error, @why (if not NULL) gets the errno. Loops between chains of a new table are not
 * detected: the kernel checks for them only on commit. */
int nft_socket_check(struct nft_socket *socket, struct nft_batch *batch, int *why,
                     struct error *err);

/* ---- reading the kernel's state: nft_reading.c ---- */

/** Reads the ruleset's generation, which every transaction in this network namespace increments. */
int nft_socket_generation(struct nft_socket *socket, uint32_t *generation, struct error *err);

struct nft_table_state {
    bool exists;
    char *comment; /* the caller frees it; NULL: none, or not the only user data */
    uint32_t flags;
    uint32_t owner; /* netlink port of the owner; 0: unowned */
    bool owned_elsewhere;
};

int nft_socket_read_table(struct nft_socket *socket, enum family family, const char *table,
                          struct nft_table_state *state, struct error *err);

/** Passes all elements of a set or map to @fn. -1 also if the set changed meanwhile: read again. */
int nft_socket_read_elements(struct nft_socket *socket, enum family family, const char *table,
                             const char *set, nft_element_fn fn, void *ctx, struct error *err);

/** Reads the number of elements of a set or map. @known is false if the kernel does not report it
 * (before Linux 6.18) or the set does not exist. */
int nft_socket_count_elements(struct nft_socket *socket, enum family family, const char *table,
                              const char *set, uint32_t *count, bool *known, struct error *err);

/* Consecutive keys of one length. */
struct nft_keys {
    const uint8_t *bytes;
    size_t length; /* of each */
    size_t n;      /* at most NFT_KEYS_MOST */
};

/* The answers to this many fit the default socket buffer. */
#define NFT_KEYS_MOST 32

/** Looks up @keys in a set or map and passes the elements to @fn in order, up to the first missing
 * one; @found gets their number. In an interval set a key finds the range that contains it (for
 * single fields: its start). Costs one lookup per key, whatever the size of the set. A missing set
 * or table counts as empty. */
int nft_socket_get_elements(struct nft_socket *socket, enum family family, const char *table,
                            const char *set, const struct nft_keys *keys, nft_element_fn fn,
                            void *ctx, size_t *found, struct error *err);

/** The same for one key. */
int nft_socket_get_element(struct nft_socket *socket, enum family family, const char *table,
                           const char *set, const void *key, size_t key_length, nft_element_fn fn,
                           void *ctx, struct error *err);

typedef void (*nft_rule_fn)(void *ctx, struct nftnl_rule *rule);
typedef void (*nft_chain_fn)(void *ctx, struct nftnl_chain *chain);

/** Passes all rules of a table to @fn, chain by chain; or all its chains. -1 also if they changed
 * meanwhile. */
int nft_socket_read_rules(struct nft_socket *socket, enum family family, const char *table,
                          nft_rule_fn fn, void *ctx, struct error *err);
int nft_socket_read_chains(struct nft_socket *socket, enum family family, const char *table,
                           nft_chain_fn fn, void *ctx, struct error *err);

/* What to dump of a table. */
struct nft_dump {
    uint16_t type; /* NFT_MSG_GETCHAIN, _GETSET, _GETSETELEM, _GETRULE or _GETFLOWTABLE */
    const char *table;
    const char *set; /* for NFT_MSG_GETSETELEM only */
};

/** Reads whether @flowtable exists, and passes the names of its devices to @fn. It must not have
 * more than fit 32 KiB, some 1,600; else it seems to be missing. */
int nft_socket_read_flowtable(struct nft_socket *socket, enum family family, const char *table,
                              const char *flowtable, bool *exists,
                              void (*fn)(void *ctx, const char *device), void *ctx,
                              struct error *err);

/** Passes each message of a dump to @fn undecoded, for tables of other programs, whose contents
 * libnftnl may not know. @interrupted as in netlink_ask(); the kernel does not report it for
 * elements. Chains of other tables may be included. */
int nft_socket_dump(struct nft_socket *socket, enum family family, const struct nft_dump *what,
                    mnl_cb_t fn, void *ctx, bool *interrupted, struct error *err);

/*
 * ---- what stands beside our tables: base_chains.c ----
 *
 * On sockets of their own, and best effort: what cannot be read is left out.
 */

/* Strings are valid during the call. */
struct base_chain {
    uint8_t family; /* NFPROTO_IPV4, NFPROTO_IPV6, NFPROTO_INET, ... */
    const char *table, *name;
    const char *type; /* "filter", "nat", "route" */
    uint32_t hook;    /* NF_INET_... */
    int32_t priority;
    bool drops; /* what no rule accepts */
};
typedef void (*base_chain_fn)(void *ctx, const struct base_chain *chain);

/** Passes the base chains of all tables to @fn; looks at @most chains. */
void base_chains_each(size_t most, base_chain_fn fn, void *ctx);

/** The chain of the first rule in @table whose expressions contain @bytes, for the caller to free;
 * NULL: none of the first @most. */
char *rules_find_bytes(uint8_t family, const char *table, const void *bytes, size_t length,
                       size_t most);

/** The same of the first rule that compares a port with @port. */
char *rules_find_port(uint8_t family, const char *table, uint16_t port, size_t most);

/* Reads the elements of a set in pieces, on its own socket. The kernel produces each piece on
 * request and finds its place by counting from the start, so a change between two pieces may skip
 * or repeat elements. */
struct element_dump;
enum element_dump_state {
    DUMP_GOES_ON,
    DUMP_ENDED,
    DUMP_FAILED,
    DUMP_MISSING /* likewise: there is no such set */
};

/** Passes the next piece of a set (about 32 KiB) to @fn. Does not block. The first call, with
 * *@dump NULL, requests the elements; *@dump is NULL again after the end or a failure (@err). */
enum element_dump_state element_dump_step(struct element_dump **dump, enum family family,
                                          const char *table, const char *set, nft_element_fn fn,
                                          void *ctx, struct error *err);

/** Ends a dump early; *@dump may be NULL. */
void element_dump_close(struct element_dump **dump);

/*
 * ---- other programs: table_monitor.c ----
 *
 * Reports changes that other programs make to our table, from nf_tables events: one event per
 * object, then one that names the process. A socket filter drops events of our own socket and all
 * others that neither concern the table nor end a transaction. However often other programs commit,
 * they wake the loop at most once per TABLE_MONITOR_PAUSE.
 *
 * While anyone listens, the kernel keeps an 8 KiB message for each element of a transaction until
 * the commit. So the monitor leaves the multicast group while our own socket commits a large batch.
 * If another program committed meanwhile, this is reported as lost events.
 */

#define TABLE_MONITOR_PAUSE 0.02 /* seconds */

/* The program that committed a transaction. The process may have exited. */
struct table_program {
    uint32_t pid;  /* in the host's PID namespace; 0: unknown */
    char name[16]; /* process name; untrusted */
    bool peer;     /* same name as this process: the same program, for example in an upgrade */
};

/* A change by another program; borrowed. The element may have changed again since. */
struct table_change {
    enum family family;
    const char *set; /* set of the element; NULL: something else in the table changed */
    const struct nft_element *element;
};

struct table_monitor_ops {
    void (*changed)(void *ctx, const struct table_change *change);
    void (*lost)(void *ctx);
    /* Ends a group of reports about a family: check them now. @program made the last change; its
     * pid is 0 if the end of that transaction was lost. */
    void (*finished)(void *ctx, enum family family, const struct table_program *program);
    void *ctx;
};

/**
 * Follows @table (copied; at least seven letters) in both families on @loop.
 * @own  its changes are not reported; it must outlive the monitor and has no other monitor
 */
struct table_monitor *table_monitor_new(struct ev_loop *loop, const char *table,
                                        struct nft_socket *own, const struct table_monitor_ops *ops,
                                        struct error *err);
void table_monitor_free(struct table_monitor *monitor);

/*
 * ---- addresses of this host: address_monitor.c ----
 *
 * The addresses of all interfaces, up or down, except loopback addresses (127.0.0.0/8, ::1) and
 * IPv6 addresses that failed duplicate address detection.
 */

struct address_monitor;

/* Gets all current addresses of a family that changed: sorted by bytes, without duplicates,
 * borrowed. Must not free the monitor. */
typedef void (*addresses_changed_fn)(void *ctx, enum family family, const address_vec *addresses);

/** Reads the addresses and follows them on @loop. Reports both families before it returns (even if
 * empty), then every change, at most 50 times a second. */
struct address_monitor *address_monitor_new(struct ev_loop *loop, addresses_changed_fn changed,
                                            void *ctx, struct error *err);
void address_monitor_free(struct address_monitor *monitor);

/*
 * ---- devices of this host: device_monitor.c ----
 *
 * The network devices, up or down, whose names match one of some patterns; never loopback.
 */

struct device_monitor;

/* Zero-padded, so that devices can be compared as bytes. */
struct device {
    char name[16]; /* IFNAMSIZ */
    uint32_t index;
};

typedef VEC(struct device) device_vec;

/* Gets all matching devices: sorted by name, borrowed. Must not free the monitor. */
typedef void (*devices_changed_fn)(void *ctx, const device_vec *devices);

/** Reads the devices and follows them on @loop. Reports them before it returns (even if there are
 * none), then every change, also if a device was replaced by another one of its name, at most ten
 * times a second. @patterns is as for device_matches(), copied. */
struct device_monitor *device_monitor_new(struct ev_loop *loop, const char *patterns,
                                          devices_changed_fn changed, void *ctx, struct error *err);
void device_monitor_free(struct device_monitor *monitor);

/** Whether @name matches one of @patterns, which are separated by commas; "*" stands for any part
 * of a name. */
bool device_matches(const char *patterns, const char *name);

#endif
