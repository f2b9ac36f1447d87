/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/netlink.h"

#include "kube-nftd/base.h"

#include <errno.h>
#include <ev.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* The kernel puts at most about 4 KiB of events into a datagram. */
#define BUFFER_SIZE ((size_t)32 * 1024)

/* For events that wait to be read: some hundred datagrams. */
#define QUEUE_SIZE (1 << 20)

/* Datagrams taken in a turn of the loop, so that others have theirs. */
#define DATAGRAMS_A_TURN 1024

struct table_monitor {
    struct ev_loop *loop; /* NULL: without a socket */
    struct mnl_socket *socket;
    ev_io io;
    ev_timer pause;
    struct table_monitor_ops ops;
    char *table;
    char own_name[16]; /* of this process */
    struct nft_socket *own;
    uint32_t own_port;
    uint32_t left_at;             /* the generation when a large batch of our own began */
    bool missed;                  /* others committed something while nobody listened */
    bool touched;                 /* something was told and not settled yet */
    bool finished;                /* the transaction that did it has ended: program is known */
    bool waited;                  /* a turn for that */
    struct table_program program; /* of the last transaction that touched the table */
    _Alignas(struct nlmsghdr) char buffer[BUFFER_SIZE];
};

/* ---- messages ---- */

static void tell(struct table_monitor *m, const struct table_change *change)
{
    m->touched = true;
    m->finished = m->waited = false;
    m->ops.changed(m->ops.ctx, change);
}

struct told_set {
    struct table_monitor *monitor;
    enum family family;
    const char *name;
};

static void take_element(void *ctx, const struct nft_element *element)
{
    const struct told_set *set = ctx;
    tell(set->monitor, &(struct table_change){set->family, set->name, element});
}

static void take_elements(struct table_monitor *m, enum family family,
                          const struct nlmsghdr *header)
{
    struct told_set set = {m, family, netlink_text(nfnl_attribute(header, NFTA_SET_ELEM_LIST_SET))};
    if (set.name)
        nft_element_each(header, take_element, &set);
}

static void take_generation(struct table_monitor *m, const struct nlmsghdr *header)
{
    const char *name = netlink_text(nfnl_attribute(header, NFTA_GEN_PROC_NAME));
    if (!m->touched || m->finished)
        return;
    m->finished = true;
    memset(&m->program, 0, sizeof(m->program));
    snprintf(m->program.name, sizeof(m->program.name), "%s", name ? name : "");
    m->program.pid = netlink_number(nfnl_attribute(header, NFTA_GEN_PROC_PID), 0);
    m->program.peer = strcmp(m->program.name, m->own_name) == 0;
}

/* What is of no set is told without looking closer, but objects that our table does not have. */
static void take_object(struct table_monitor *m, const struct nlmsghdr *header)
{
    const struct nfgenmsg *message = mnl_nlmsg_get_payload(header);
    const char *table = netlink_text(nfnl_attribute(header, NFTA_TABLE_NAME));
    int type = NFNL_MSG_TYPE(header->nlmsg_type);
    enum family family;
    if (!table || strcmp(table, m->table) != 0 ||
        !netlink_family_of(message->nfgen_family, &family))
        return;
    if (type == NFT_MSG_NEWSETELEM || type == NFT_MSG_DELSETELEM)
        take_elements(m, family, header);
    else
        tell(m, &(struct table_change){.family = family});
}

static void take_message(struct table_monitor *m, const struct nlmsghdr *header)
{
    if (NFNL_SUBSYS_ID(header->nlmsg_type) != NFNL_SUBSYS_NFTABLES ||
        header->nlmsg_pid == m->own_port ||
        mnl_nlmsg_get_payload_len(header) < sizeof(struct nfgenmsg))
        return;
    if (NFNL_MSG_TYPE(header->nlmsg_type) == NFT_MSG_NEWGEN)
        take_generation(m, header);
    else
        take_object(m, header);
}

void table_monitor_take(struct table_monitor *m, const void *messages, size_t length)
{
    int left = (int)netlink_whole(messages, length < INT32_MAX ? length : INT32_MAX);
    for (const struct nlmsghdr *header = messages; mnl_nlmsg_ok(header, left);
         header = mnl_nlmsg_next(header, &left))
        take_message(m, header);
}

/* The end of the transaction comes right behind its events; if it is not there yet, it is in the
 * next turn, or it was lost. */
void table_monitor_settle(struct table_monitor *m)
{
    const struct table_program unknown = {0};
    if (!m->touched)
        return;
    if (!m->finished && !m->waited) {
        m->waited = true;
        return;
    }
    bool finished = m->finished;
    m->touched = m->finished = m->waited = false;
    m->ops.settled(m->ops.ctx, finished ? &m->program : &unknown);
}

/* ---- the socket ---- */

/* Takes one datagram off the queue; false when there is none. */
static bool take_datagram(struct table_monitor *m)
{
    ssize_t n =
        recv(mnl_socket_get_fd(m->socket), m->buffer, sizeof(m->buffer), MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && errno == EINTR)
        return true;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return false;
    if (n < 0 || (size_t)n > sizeof(m->buffer)) {
        log_debug(2, "monitor", "events were lost: %s", n < 0 ? strerror(errno) : "too long");
        m->touched = true;
        m->ops.lost(m->ops.ctx);
        return true;
    }
    table_monitor_take(m, m->buffer, (size_t)n);
    return true;
}

/* As if it were the events that nobody will see, and the end of them. */
static void take_missed(struct table_monitor *m)
{
    if (!m->missed)
        return;
    m->missed = false;
    m->touched = m->waited = true;
    m->ops.lost(m->ops.ctx);
}

static void take_all(struct table_monitor *m)
{
    take_missed(m);
    for (int i = 0; i < DATAGRAMS_A_TURN && take_datagram(m); i++)
        continue;
    table_monitor_settle(m);
}

/* The next ones have to wait: a program that commits all the time would wake us each time. */
static void on_events(struct ev_loop *loop, ev_io *io, int events)
{
    struct table_monitor *m = io->data;
    (void)events;
    take_all(m);
    ev_io_stop(loop, &m->io);
    ev_timer_set(&m->pause, TABLE_MONITOR_PAUSE, 0);
    ev_timer_start(loop, &m->pause);
}

static void on_pause_ended(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct table_monitor *m = timer->data;
    (void)events;
    if (m->touched || m->missed)
        take_all(m); /* even if nothing came */
    ev_io_start(loop, &m->io);
}

static void attach_filter(struct table_monitor *m)
{
    struct sock_filter steps[TABLE_MONITOR_FILTER_SIZE];
    const struct sock_fprog program = {
        .len = (unsigned short)table_monitor_filter(m->table, m->own_port, steps), .filter = steps};
    if (setsockopt(mnl_socket_get_fd(m->socket), SOL_SOCKET, SO_ATTACH_FILTER, &program,
                   sizeof(program)) < 0)
        log_warn("monitor",
                 "events of all tables are processed: cannot install a socket filter: %s",
                 strerror(errno));
}

static int membership(struct table_monitor *m, int option)
{
    int group = NFNLGRP_NFTABLES;
    return mnl_socket_setsockopt(m->socket, option, &group, sizeof(group));
}

/* ---- large batches of our own ---- */

/* What is in the queue stays there. A transaction of others between the two steps is counted as
 * missed, too. */
void table_monitor_leave(void *ctx)
{
    struct table_monitor *m = ctx;
    struct error err = {0};
    if (nft_socket_generation(m->own, &m->left_at, &err))
        m->missed = true;
    error_clear(&err);
    membership(m, NETLINK_DROP_MEMBERSHIP);
}

void table_monitor_listen_again(void *ctx, uint32_t transactions)
{
    struct table_monitor *m = ctx;
    struct error err = {0};
    uint32_t now;
    if (membership(m, NETLINK_ADD_MEMBERSHIP) < 0)
        log_error("monitor", "changes by other programs to the tables are no longer detected: %s",
                  strerror(errno));
    if (nft_socket_generation(m->own, &now, &err) || now - m->left_at != transactions)
        m->missed = true;
    error_clear(&err);
    if (!m->missed)
        return;
    log_debug(2, "monitor", "other programs committed during a large batch");
    ev_timer_stop(m->loop, &m->pause);
    ev_timer_set(&m->pause, 0, 0);
    ev_timer_start(m->loop, &m->pause);
}

static int open_socket(struct table_monitor *m, struct error *err)
{
    m->socket = netlink_open(NETLINK_NETFILTER, SOCK_NONBLOCK, 0, QUEUE_SIZE, "nf_tables", err);
    if (!m->socket)
        return -1;
    attach_filter(m);
    if (membership(m, NETLINK_ADD_MEMBERSHIP) < 0)
        return error_set(err, "nf_tables: cannot listen to events: %s", strerror(errno));
    return 0;
}

struct table_monitor *table_monitor_detached(const char *table, uint32_t own_port,
                                             const struct table_monitor_ops *ops)
{
    struct table_monitor *m = xcalloc(1, sizeof(*m));
    m->table = xstrdup(table);
    m->own_port = own_port;
    prctl(PR_GET_NAME, m->own_name);
    m->ops = *ops;
    return m;
}

struct table_monitor *table_monitor_new(struct ev_loop *loop, const char *table,
                                        struct nft_socket *own, const struct table_monitor_ops *ops,
                                        struct error *err)
{
    struct table_monitor *m = table_monitor_detached(table, nft_socket_port(own), ops);
    if (open_socket(m, err)) {
        table_monitor_free(m);
        return NULL;
    }
    const struct nft_large_watch watch = {table_monitor_leave, table_monitor_listen_again, m};
    m->loop = loop;
    m->own = own;
    nft_socket_watch_large(own, &watch);
    ev_io_init(&m->io, on_events, mnl_socket_get_fd(m->socket), EV_READ);
    ev_init(&m->pause, on_pause_ended);
    m->io.data = m->pause.data = m;
    ev_io_start(loop, &m->io);
    return m;
}

void table_monitor_free(struct table_monitor *m)
{
    if (!m)
        return;
    if (m->loop) {
        nft_socket_watch_large(m->own, NULL);
        ev_io_stop(m->loop, &m->io);
        ev_timer_stop(m->loop, &m->pause);
    }
    if (m->socket)
        mnl_socket_close(m->socket);
    free(m->table);
    free(m);
}
