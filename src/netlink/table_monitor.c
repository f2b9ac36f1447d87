/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "table_monitor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* The kernel puts at most about 4 KiB of events into a datagram. */
#define BUFFER_SIZE ((size_t)32 * 1024)

/* Receive buffer: some hundred datagrams. */
#define QUEUE_SIZE (1 << 20)

/* Limit per loop iteration, so that other watchers run. */
#define DATAGRAMS_AT_ONCE 1024

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
    uint32_t left_at;             /* the generation before a large batch of our own */
    bool missed;                  /* others committed while we did not listen */
    bool touched[FAMILY_COUNT];   /* changes were reported, finished() is due */
    bool finished;                /* their transaction has ended: program is known */
    bool waited;                  /* one loop iteration, for that */
    struct table_program program; /* of the last transaction that touched the table */
    _Alignas(struct nlmsghdr) char buffer[BUFFER_SIZE];
};

/* ---- messages ---- */

static bool is_touched(const struct table_monitor *m)
{
    return m->touched[FAMILY_IPV4] || m->touched[FAMILY_IPV6];
}

static void report_lost(struct table_monitor *m)
{
    m->touched[FAMILY_IPV4] = m->touched[FAMILY_IPV6] = true;
    m->ops.lost(m->ops.ctx);
}

static void report_change(struct table_monitor *m, const struct table_change *change)
{
    m->touched[change->family] = true;
    m->finished = m->waited = false;
    m->ops.changed(m->ops.ctx, change);
}

struct changed_set {
    struct table_monitor *monitor;
    enum family family;
    const char *name;
};

static void take_element(void *ctx, const struct nft_element *element)
{
    const struct changed_set *set = ctx;
    report_change(set->monitor, &(struct table_change){set->family, set->name, element});
}

/* Changes other than elements are reported without their details. */
static void take_object(struct table_monitor *m, const struct nlmsghdr *header)
{
    const struct nfgenmsg *message = mnl_nlmsg_get_payload(header);
    const char *table = netlink_text(nfnl_attribute(header, NFTA_TABLE_NAME));
    int type = NFNL_MSG_TYPE(header->nlmsg_type);
    enum family family;
    if (!table || strcmp(table, m->table) != 0 ||
        !netlink_family_of(message->nfgen_family, &family))
        return;
    if (type != NFT_MSG_NEWSETELEM && type != NFT_MSG_DELSETELEM) {
        report_change(m, &(struct table_change){.family = family});
        return;
    }
    const char *name = netlink_text(nfnl_attribute(header, NFTA_SET_ELEM_LIST_SET));
    struct changed_set set = {m, family, name};
    if (name)
        nft_element_each(header, take_element, &set);
}

static void take_generation(struct table_monitor *m, const struct nlmsghdr *header)
{
    const char *name = netlink_text(nfnl_attribute(header, NFTA_GEN_PROC_NAME));
    if (!is_touched(m) || m->finished)
        return;
    m->finished = true;
    memset(&m->program, 0, sizeof(m->program));
    snprintf(m->program.name, sizeof(m->program.name), "%s", name ? name : "");
    m->program.pid = netlink_number(nfnl_attribute(header, NFTA_GEN_PROC_PID), 0);
    m->program.peer = strcmp(m->program.name, m->own_name) == 0;
}

void table_monitor_take(struct table_monitor *m, const void *messages, size_t length)
{
    netlink_each (header, messages, length) {
        if (NFNL_SUBSYS_ID(header->nlmsg_type) != NFNL_SUBSYS_NFTABLES ||
            header->nlmsg_pid == m->own_port ||
            mnl_nlmsg_get_payload_len(header) < sizeof(struct nfgenmsg))
            continue;
        if (NFNL_MSG_TYPE(header->nlmsg_type) == NFT_MSG_NEWGEN)
            take_generation(m, header);
        else
            take_object(m, header);
    }
}

/* The end of a transaction directly follows its events. If it has not arrived, it comes in the next
 * loop iteration or was lost. */
void table_monitor_finish(struct table_monitor *m)
{
    const struct table_program unknown = {0};
    if (!is_touched(m))
        return;
    if (!m->finished && !m->waited) {
        m->waited = true;
        return;
    }
    for (enum family family = 0; family < FAMILY_COUNT; family++) {
        const bool touched = m->touched[family];
        m->touched[family] = false;
        if (touched)
            m->ops.finished(m->ops.ctx, family, m->finished ? &m->program : &unknown);
    }
    m->finished = m->waited = false;
}

/* ---- the socket ---- */

/* Processes one datagram; false if the queue is empty. */
static bool take_datagram(struct table_monitor *m)
{
    ssize_t n =
        recv(mnl_socket_get_fd(m->socket), m->buffer, sizeof(m->buffer), MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return false;
    if (n >= 0 && (size_t)n <= sizeof(m->buffer)) {
        table_monitor_take(m, m->buffer, (size_t)n);
    } else if (n >= 0 || errno != EINTR) {
        log_debug(2, "netlink", "events were lost: %s", n < 0 ? strerror(errno) : "too long");
        report_lost(m);
    }
    return true;
}

static void take_all(struct table_monitor *m)
{
    if (m->missed) { /* as events that were lost; no program that comes next has made them */
        m->missed = false;
        m->waited = true;
        report_lost(m);
        table_monitor_finish(m);
    }
    for (int i = 0; i < DATAGRAMS_AT_ONCE && take_datagram(m); i++)
        continue;
    table_monitor_finish(m);
}

static void pause_for(struct table_monitor *m, double seconds)
{
    ev_timer_stop(m->loop, &m->pause);
    ev_timer_set(&m->pause, seconds, 0);
    ev_timer_start(m->loop, &m->pause);
}

/* Then pause: a program that commits continuously would wake us every time. */
static void on_events(struct ev_loop *loop, ev_io *io, int events)
{
    struct table_monitor *m = io->data;
    (void)events;
    take_all(m);
    ev_io_stop(loop, &m->io);
    pause_for(m, TABLE_MONITOR_PAUSE);
}

static void on_pause_ended(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct table_monitor *m = timer->data;
    (void)events;
    if (is_touched(m) || m->missed)
        take_all(m); /* even without events */
    ev_io_start(loop, &m->io);
}

static int membership(struct table_monitor *m, int option)
{
    int group = NFNLGRP_NFTABLES;
    return mnl_socket_setsockopt(m->socket, option, &group, sizeof(group));
}

/* ---- large batches of our own ---- */

/* Queued events stay. A transaction of another program between the two calls counts as missed. */
void table_monitor_leave(struct table_monitor *m)
{
    struct error err = {0};
    if (nft_socket_generation(m->own, &m->left_at, &err))
        m->missed = true;
    error_clear(&err);
    membership(m, NETLINK_DROP_MEMBERSHIP);
}

void table_monitor_rejoin(struct table_monitor *m, uint32_t transactions)
{
    struct error err = {0};
    uint32_t now;
    if (membership(m, NETLINK_ADD_MEMBERSHIP) < 0)
        log_error("netlink", "changes by other programs to the tables are no longer detected: %s",
                  strerror(errno));
    if (nft_socket_generation(m->own, &now, &err) || now - m->left_at != transactions)
        m->missed = true;
    error_clear(&err);
    if (!m->missed)
        return;
    log_debug(2, "netlink", "other programs committed during a large batch");
    pause_for(m, 0);
}

/* ---- the socket filter ---- */

/* A datagram holds several messages and a filter cannot loop, so the code for one message is
 * repeated for the usual number of them; longer datagrams pass. Kernels before 6.7 charge the
 * filter against a 20 KiB limit, at 8 or 16 bytes per instruction. */
#define MESSAGES 40

#define PASS 0xffffffffu
#define DROP 0u

/* The table name is the first attribute of all messages except NEWGEN. */
#define NAME_AT (NLMSG_HDRLEN + sizeof(struct nfgenmsg) + NLA_HDRLEN)

/* Offsets of low-order bytes: netlink headers are in host byte order. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LOW_BYTE 0
#define NEXT_BYTE 1
#define TYPE_LOW 0
#define TYPE_HIGH 1
#else
#define LOW_BYTE 3
#define NEXT_BYTE 2
#define TYPE_LOW 1
#define TYPE_HIGH 0
#endif

static uint32_t letters(const char *text)
{
    uint32_t four;
    memcpy(&four, text, sizeof(four));
    return ntohl(four);
}

size_t table_monitor_filter(const char *table, uint32_t own_port,
                            struct sock_filter out[TABLE_MONITOR_FILTER_SIZE])
{
    const uint32_t type = offsetof(struct nlmsghdr, nlmsg_type),
                   length = (uint32_t)strlen(table) + 1, last = length - 4;
    const struct sock_filter begin[] = {
        /* Drop our own changes, pass the ends of other transactions. */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct nlmsghdr, nlmsg_pid)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htonl(own_port), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, DROP),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, type + TYPE_HIGH),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NFNL_SUBSYS_NFTABLES, 0, 3),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, type + TYPE_LOW),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NFT_MSG_NEWGEN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, PASS),
        BPF_STMT(BPF_LDX | BPF_IMM, 0),
    };
    const struct sock_filter message[] = {
        /* Drop the datagram if X, where the message begins, is its end. */
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
        BPF_STMT(BPF_ALU | BPF_SUB | BPF_X, 0),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, NAME_AT + length, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, DROP),
        /* Pass it if the first eight and the last four bytes of the name are those of our table. */
        BPF_STMT(BPF_LD | BPF_W | BPF_IND, NAME_AT),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, letters(table), 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_IND, NAME_AT + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, letters(table + 4), 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_IND, NAME_AT + last),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, letters(table + last), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, PASS),
        /* Advance X by the aligned length of the message. */
        BPF_STMT(BPF_LD | BPF_B | BPF_IND, NEXT_BYTE),
        BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 8),
        BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
        BPF_STMT(BPF_ST, 0),
        BPF_STMT(BPF_LD | BPF_B | BPF_IND, LOW_BYTE),
        BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, NLMSG_ALIGNTO - 1),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~(NLMSG_ALIGNTO - 1)),
        BPF_STMT(BPF_LDX | BPF_W | BPF_MEM, 0),
        BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
    };
    const struct sock_filter end = BPF_STMT(BPF_RET | BPF_K, PASS);
    const size_t n_begin = sizeof(begin) / sizeof(begin[0]),
                 n_message = sizeof(message) / sizeof(message[0]);
    _Static_assert(sizeof(begin) + MESSAGES * sizeof(message) + sizeof(end) <=
                       TABLE_MONITOR_FILTER_SIZE * sizeof(end),
                   "the filter fits");
    memcpy(out, begin, sizeof(begin));
    for (size_t i = 0; i < MESSAGES; i++)
        memcpy(out + n_begin + i * n_message, message, sizeof(message));
    out[n_begin + MESSAGES * n_message] = end;
    return n_begin + MESSAGES * n_message + 1;
}

/* ---- begin and end ---- */

static int open_monitor_socket(struct table_monitor *m, struct error *err)
{
    struct sock_filter steps[TABLE_MONITOR_FILTER_SIZE];
    const struct sock_fprog program = {
        .len = (unsigned short)table_monitor_filter(m->table, m->own_port, steps), .filter = steps};
    m->socket = netlink_open(NETLINK_NETFILTER, 0, QUEUE_SIZE, "nf_tables", err);
    if (!m->socket)
        return -1;
    if (setsockopt(mnl_socket_get_fd(m->socket), SOL_SOCKET, SO_ATTACH_FILTER, &program,
                   sizeof(program)) < 0)
        log_warn("netlink",
                 "events of all tables are processed: cannot install a socket filter: %s",
                 strerror(errno));
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
    if (open_monitor_socket(m, err)) {
        table_monitor_free(m);
        return NULL;
    }
    m->loop = loop;
    m->own = own;
    nft_socket_set_monitor(own, m);
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
        nft_socket_set_monitor(m->own, NULL);
        ev_io_stop(m->loop, &m->io);
        ev_timer_stop(m->loop, &m->pause);
    }
    if (m->socket)
        mnl_socket_close(m->socket);
    free(m->table);
    free(m);
}
