/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two sockets: one is told of changes, the other reads everything. The first one is told before the
 * second one reads, so what changes in between is heard of; hearing it after it was read already
 * does no harm.
 */
#include "kube-nftd/netlink.h"

#include "kube-nftd/base.h"

#include <errno.h>
#include <ev.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* The kernel fills this much of a part of an answer, if the reader has room for it. */
#define BUFFER_SIZE ((size_t)32 * 1024)

/* For messages of changes that wait to be read: about a thousand. */
#define QUEUE_SIZE (1 << 20)

/* Messages taken in a turn of the loop, so that others have theirs. */
#define MESSAGES_A_TURN 4096

/* Addresses that change while they are read: how often to read again at once, then when. */
#define READS_AT_ONCE 8
#define READ_AGAIN_SECONDS 0.5

/* What tells the addresses of a host from each other. The kernel lets an interface have an IPv4
 * address several times, with different prefixes or peers. Without padding, as a key must be. */
struct held_key {
    uint32_t interface;
    uint16_t family; /* enum family */
    uint16_t prefix; /* IPv4 only, as peer */
    struct address address, peer;
};

struct held {
    struct hash_link link; /* by key */
    struct held_key key;
    unsigned round; /* of reading; the last one that it was in, or during which it came */
};

struct address_monitor {
    struct ev_loop *loop;
    struct mnl_socket *changes, *reads;
    ev_io io;
    ev_timer again; /* reads everything */
    addresses_changed_fn changed;
    void *ctx;
    struct hash_table held;
    unsigned round;
    bool touched[FAMILY_COUNT]; /* something came or went since it was told */
    address_vec told[FAMILY_COUNT];
    bool lost; /* messages; everything is to be read */
    bool said_failure;
    _Alignas(struct nlmsghdr) char buffer[BUFFER_SIZE];
};

/* ---- what is held ---- */

static struct hash_key key_of(const struct hash_link *link)
{
    return (struct hash_key){&((const struct held *)link)->key, sizeof(struct held_key)};
}

static struct held *find(const struct address_monitor *m, const struct held_key *key)
{
    return hash_table_find(&m->held, key_of, (struct hash_key){key, sizeof(*key)});
}

static void put(struct address_monitor *m, const struct held_key *key)
{
    struct held *held = find(m, key);
    if (!held) {
        held = xcalloc(1, sizeof(*held));
        held->key = *key;
        hash_table_add(&m->held, key_of, &held->link);
        m->touched[key->family] = true;
    }
    held->round = m->round;
}

static void drop(struct address_monitor *m, struct held *held)
{
    m->touched[held->key.family] = true;
    hash_table_remove(&m->held, &held->link);
    free(held);
}

static void take_away(struct address_monitor *m, const struct held_key *key)
{
    struct held *held = find(m, key);
    if (held)
        drop(m, held);
}

/* Drops what was not in the last round of reading. */
static void sweep(struct address_monitor *m)
{
    hash_table_each (&m->held, struct held, held)
        if (held->round != m->round)
            drop(m, held);
}

/* ---- telling ---- */

static address_vec collect(const struct address_monitor *m, enum family family)
{
    address_vec all = {0};
    hash_table_each (&m->held, const struct held, held)
        if (held->key.family == family)
            vec_push(&all, held->key.address);
    addresses_normalize(&all);
    return all;
}

static bool same(const address_vec *a, const address_vec *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->v, b->v, a->n * sizeof(*a->v)) == 0);
}

static void tell(struct address_monitor *m, enum family family, bool always)
{
    address_vec now = collect(m, family);
    m->touched[family] = false;
    if (same(&now, &m->told[family]) && !always) {
        vec_free(&now);
        return;
    }
    vec_free(&m->told[family]);
    m->told[family] = now;
    m->changed(m->ctx, family, &m->told[family]);
}

static void tell_touched(struct address_monitor *m)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (m->touched[family])
            tell(m, (enum family)family, false);
}

/* ---- messages ---- */

/* Puts what @attribute says into @out, if it has as many bytes as an address of @family. */
static bool read_address(const struct nlattr *attribute, enum family family, struct address *out)
{
    size_t length = address_length(family);
    if (!attribute || mnl_attr_get_payload_len(attribute) != length)
        return false;
    memcpy(out->bytes, mnl_attr_get_payload(attribute), length);
    return true;
}

/* What a message says; false if it is about no address that counts. */
static bool read_message(const struct nlmsghdr *header, struct held_key *key, uint32_t *flags)
{
    const struct ifaddrmsg *message = mnl_nlmsg_get_payload(header);
    enum family family;
    if (mnl_nlmsg_get_payload_len(header) < sizeof(*message) ||
        !netlink_family_of(message->ifa_family, &family))
        return false;
    const struct nlattr *local = netlink_attribute(header, sizeof(*message), IFA_LOCAL);
    const struct nlattr *address = netlink_attribute(header, sizeof(*message), IFA_ADDRESS);
    const struct nlattr *all_flags = netlink_attribute(header, sizeof(*message), IFA_FLAGS);
    *flags = all_flags && mnl_attr_validate(all_flags, MNL_TYPE_U32) == 0
                 ? mnl_attr_get_u32(all_flags)
                 : message->ifa_flags;
    *key = (struct held_key){.interface = message->ifa_index, .family = (uint16_t)family};
    if (family == FAMILY_IPV4) {
        key->prefix = message->ifa_prefixlen;
        read_address(address, family, &key->peer);
    }
    return read_address(local ? local : address, family, &key->address) &&
           !address_is_loopback(family, &key->address);
}

static int on_message(const struct nlmsghdr *header, void *data)
{
    struct held_key key;
    uint32_t flags;
    if (header->nlmsg_type != RTM_NEWADDR && header->nlmsg_type != RTM_DELADDR)
        return MNL_CB_OK;
    if (!read_message(header, &key, &flags))
        return MNL_CB_OK;
    if (header->nlmsg_type == RTM_NEWADDR && !(flags & IFA_F_DADFAILED))
        put(data, &key);
    else
        take_away(data, &key);
    return MNL_CB_OK;
}

/* ---- reading everything ---- */

/* Returns 0 or an errno; EINTR if addresses changed meanwhile, so that some may be missing. */
static int read_once(struct address_monitor *m)
{
    bool changed = false;
    const struct ifaddrmsg both_families = {.ifa_family = AF_UNSPEC};
    const struct nlmsghdr *request = netlink_request(m->buffer, RTM_GETADDR, NLM_F_DUMP, ++m->round,
                                                     &both_families, sizeof(both_families));
    int why = netlink_ask(m->reads, request, on_message, m, &changed);
    return why == 0 && changed ? EINTR : why;
}

/* Reads until nothing changes meanwhile. If that does not come about, all that was seen counts for
 * now. Returns 0 or an errno. */
static int read_all(struct address_monitor *m)
{
    int why = EINTR;
    for (int i = 0; i < READS_AT_ONCE && why == EINTR; i++) {
        why = read_once(m);
        if (why == EINTR)
            log_debug(2, "addresses", "addresses changed while they were read: reading again");
    }
    if (why == 0)
        sweep(m);
    else
        ev_timer_again(m->loop, &m->again);
    return why == EINTR ? 0 : why;
}

/* The addresses last known stay; said once. */
static void read_again(struct address_monitor *m)
{
    ev_timer_stop(m->loop, &m->again);
    int why = read_all(m);
    if (why && !m->said_failure)
        log_warn("addresses", "cannot read the addresses of this host, retrying: %s",
                 strerror(why));
    m->said_failure = why != 0;
}

static void on_again(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct address_monitor *m = timer->data;
    (void)loop;
    (void)events;
    read_again(m);
    tell_touched(m);
}

/* ---- changes ---- */

/* Takes one message off the queue; false when there is none. */
static bool take_change(struct address_monitor *m)
{
    ssize_t n = mnl_socket_recvfrom(m->changes, m->buffer, sizeof(m->buffer));
    if (n < 0 && errno == EINTR)
        return true;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return false;
    /* Messages bear the numbers of whoever made the change, so these are not looked at. */
    if (n < 0 ||
        mnl_cb_run(m->buffer, netlink_whole(m->buffer, (size_t)n), 0, 0, on_message, m) < 0)
        m->lost = true;
    return true;
}

/* When messages were lost, the kernel leaves out more of them, and does not say so again, until the
 * queue has been empty. So it is emptied first. */
static void on_changes(struct ev_loop *loop, ev_io *io, int events)
{
    struct address_monitor *m = io->data;
    bool empty = false;
    (void)loop;
    (void)events;
    for (int i = 0; i < MESSAGES_A_TURN && !empty; i++)
        empty = !take_change(m);
    if (m->lost && empty) {
        log_debug(2, "addresses", "messages were lost: reading all addresses again");
        m->lost = false;
        read_again(m);
    }
    tell_touched(m);
}

/* ---- begin and end ---- */

static int open_sockets(struct address_monitor *m, struct error *err)
{
    m->changes = netlink_open(NETLINK_ROUTE, SOCK_NONBLOCK, RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
                              QUEUE_SIZE, "addresses", err);
    m->reads = m->changes ? netlink_open(NETLINK_ROUTE, 0, 0, 0, "addresses", err) : NULL;
    return m->reads ? 0 : -1;
}

static int start(struct address_monitor *m, struct error *err)
{
    if (open_sockets(m, err))
        return -1;
    m->round = (unsigned)time(NULL);
    int why = read_all(m);
    if (why)
        return error_set(err, "cannot read the addresses of this host: %s", strerror(why));
    ev_io_set(&m->io, mnl_socket_get_fd(m->changes), EV_READ);
    ev_io_start(m->loop, &m->io);
    for (int family = 0; family < FAMILY_COUNT; family++)
        tell(m, (enum family)family, true);
    return 0;
}

struct address_monitor *address_monitor_new(struct ev_loop *loop, addresses_changed_fn changed,
                                            void *ctx, struct error *err)
{
    struct address_monitor *m = xcalloc(1, sizeof(*m));
    m->loop = loop;
    m->changed = changed;
    m->ctx = ctx;
    ev_init(&m->io, on_changes);
    ev_timer_init(&m->again, on_again, 0, READ_AGAIN_SECONDS);
    m->io.data = m->again.data = m;
    if (start(m, err) == 0)
        return m;
    address_monitor_free(m);
    return NULL;
}

void address_monitor_free(struct address_monitor *m)
{
    if (!m)
        return;
    ev_io_stop(m->loop, &m->io);
    ev_timer_stop(m->loop, &m->again);
    if (m->changes)
        mnl_socket_close(m->changes);
    if (m->reads)
        mnl_socket_close(m->reads);
    m->round++; /* so that nothing is of it */
    sweep(m);
    for (int family = 0; family < FAMILY_COUNT; family++)
        vec_free(&m->told[family]);
    free(m);
}
