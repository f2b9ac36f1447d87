/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One socket is notified of changes; the other then reads all addresses, which takes 0.4 ms for a
 * thousand. Changes during a read are still queued on the first, so none is missed.
 */
#include "kube-nftd/netlink.h"

#include <errno.h>
#include <ev.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

#define REQUEST_ROOM 64

/* Limit per loop iteration, so that other watchers run. */
#define MESSAGES_AT_ONCE 4096

/* Minimum interval between reads. */
#define PAUSE_SECONDS 0.02

/* Delay after a failed read. */
#define READ_AGAIN_SECONDS 0.5

/* Retries in a row while addresses change during the read. */
#define READS_AT_ONCE 8

struct address_monitor {
    struct ev_loop *loop;
    struct mnl_socket *changes, *reads;
    ev_io io;
    ev_timer pause;
    addresses_changed_fn changed;
    void *ctx;
    uint32_t sequence;
    address_vec addresses[FAMILY_COUNT]; /* as last reported */
    bool unread;                         /* the last read failed or was interrupted */
    bool failure_logged;
};

/* ---- reading ---- */

static int on_address(const struct nlmsghdr *header, void *data)
{
    const struct ifaddrmsg *message = mnl_nlmsg_get_payload(header);
    address_vec *found = data;
    enum family family;
    if (header->nlmsg_type != RTM_NEWADDR || mnl_nlmsg_get_payload_len(header) < sizeof(*message) ||
        !netlink_family_of(message->ifa_family, &family))
        return MNL_CB_OK;
    /* On point-to-point links IFA_ADDRESS is the peer. */
    const struct nlattr *address = netlink_attribute(header, sizeof(*message), IFA_LOCAL);
    if (!address)
        address = netlink_attribute(header, sizeof(*message), IFA_ADDRESS);
    struct address out = {.bytes = {0}};
    uint32_t flags;
    if (!netlink_copy(netlink_attribute(header, sizeof(*message), IFA_FLAGS), &flags,
                      sizeof(flags)))
        flags = message->ifa_flags;
    if (!(flags & IFA_F_DADFAILED) && netlink_copy(address, out.bytes, address_length(family)) &&
        !address_is_loopback(family, &out))
        vec_push(&found[family], out);
    return MNL_CB_OK;
}

/* Reads until a read is not interrupted and does not fail, READS_AT_ONCE times at most. After an
 * interrupted read the addresses found are valid, but some may be missing. 0 or an errno. */
static int read_addresses(struct address_monitor *m, address_vec found[FAMILY_COUNT],
                          bool *interrupted)
{
    _Alignas(struct nlmsghdr) char request[REQUEST_ROOM] = {0};
    const struct ifaddrmsg both = {.ifa_family = AF_UNSPEC};
    int why = 0;
    *interrupted = true;
    for (int i = 0; i < READS_AT_ONCE && (netlink_is_transient(why) || (why == 0 && *interrupted));
         i++) {
        *interrupted = false;
        for (int family = 0; family < FAMILY_COUNT; family++)
            vec_clear(&found[family]);
        why = netlink_ask(
            m->reads,
            netlink_request(request, RTM_GETADDR, NLM_F_DUMP, ++m->sequence, &both, sizeof(both)),
            on_address, found, interrupted);
        if (*interrupted)
            log_debug(2, "addresses", "addresses changed while they were read: reading again");
    }
    return why;
}

/* Reads all addresses and reports changed families, or both if @begins. 0 or an errno; on error the
 * known addresses stay. They are also kept if the read may have missed some. */
static int update(struct address_monitor *m, bool begins)
{
    address_vec found[FAMILY_COUNT] = {{0}};
    bool interrupted;
    int why = read_addresses(m, found, &interrupted);
    m->unread = why != 0 || interrupted;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        address_vec *known = &m->addresses[i];
        if (interrupted)
            vec_append(&found[i], known->v, known->n);
        addresses_normalize(&found[i]);
        bool same =
            found[i].n == known->n &&
            (known->n == 0 || memcmp(found[i].v, known->v, known->n * sizeof(*known->v)) == 0);
        if (why || (same && !begins)) {
            vec_free(&found[i]);
            continue;
        }
        vec_free(known);
        *known = found[i];
        m->changed(m->ctx, (enum family)i, known);
    }
    return why;
}

/* ---- changes ---- */

static void update_and_pause(struct address_monitor *m)
{
    int why = update(m, false);
    if (why && !m->failure_logged)
        log_warn("addresses", "cannot read the addresses of this host, retrying: %s",
                 strerror(why));
    m->failure_logged = why != 0;
    ev_io_stop(m->loop, &m->io);
    m->pause.repeat = why ? READ_AGAIN_SECONDS : PAUSE_SECONDS;
    ev_timer_again(m->loop, &m->pause);
}

static void on_pause_ended(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct address_monitor *m = timer->data;
    (void)events;
    ev_timer_stop(loop, &m->pause);
    ev_io_start(loop, &m->io);
    if (m->unread)
        update_and_pause(m);
}

/* The messages only trigger a new read, so a lost one (ENOBUFS) does as well. */
static void on_changes(struct ev_loop *loop, ev_io *io, int events)
{
    struct address_monitor *m = io->data;
    char first; /* the rest of a message is dropped */
    (void)loop;
    (void)events;
    for (int i = 0; i < MESSAGES_AT_ONCE; i++)
        if (recv(mnl_socket_get_fd(m->changes), &first, sizeof(first), MSG_DONTWAIT) < 0 &&
            errno == EAGAIN)
            break;
    update_and_pause(m);
}

/* ---- begin and end ---- */

struct address_monitor *address_monitor_new(struct ev_loop *loop, addresses_changed_fn changed,
                                            void *ctx, struct error *err)
{
    struct address_monitor *m = xcalloc(1, sizeof(*m));
    m->loop = loop;
    m->changed = changed;
    m->ctx = ctx;
    ev_init(&m->io, on_changes);
    ev_timer_init(&m->pause, on_pause_ended, 0, PAUSE_SECONDS);
    m->io.data = m->pause.data = m;
    m->changes =
        netlink_open(NETLINK_ROUTE, RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR, 0, "addresses", err);
    m->reads = m->changes ? netlink_open(NETLINK_ROUTE, 0, 0, "addresses", err) : NULL;
    int why = m->reads ? update(m, true) : 0;
    if (why)
        error_set(err, "cannot read the addresses of this host: %s", strerror(why));
    if (why || !m->reads) {
        address_monitor_free(m);
        return NULL;
    }
    ev_io_set(&m->io, mnl_socket_get_fd(m->changes), EV_READ);
    ev_io_start(loop, &m->io);
    if (m->unread)
        ev_timer_again(loop, &m->pause);
    return m;
}

void address_monitor_free(struct address_monitor *m)
{
    if (!m)
        return;
    ev_io_stop(m->loop, &m->io);
    ev_timer_stop(m->loop, &m->pause);
    if (m->changes)
        mnl_socket_close(m->changes);
    if (m->reads)
        mnl_socket_close(m->reads);
    for (int i = 0; i < FAMILY_COUNT; i++)
        vec_free(&m->addresses[i]);
    free(m);
}
