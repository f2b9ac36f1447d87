/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "route_monitor.h"

#include "kube-nftd/netlink.h"

#include <errno.h>
#include <ev.h>
#include <string.h>
#include <sys/socket.h>

#define REQUEST_ROOM 128

/* Limit per loop iteration, so that other watchers run. */
#define MESSAGES_AT_ONCE 4096

/* Delay after a failed read. */
#define READ_AGAIN_SECONDS 0.5

/* Retries in a row while the list changes during the read. */
#define READS_AT_ONCE 8

struct route_monitor {
    struct ev_loop *loop;
    struct route_list list;
    struct mnl_socket *changes, *reads;
    ev_io io;
    ev_timer pause;
    uint32_t sequence;
    bool unread; /* the last read failed or was interrupted */
    bool failure_logged;
};

/* Reads until a read is not interrupted and does not fail, READS_AT_ONCE times at most. After an
 * interrupted read what was found is valid, but some may be missing. 0 or an errno. */
static int read_list(struct route_monitor *m, bool *interrupted)
{
    _Alignas(struct nlmsghdr) char request[REQUEST_ROOM] = {0};
    const struct route_list *list = &m->list;
    int why = 0;
    *interrupted = true;
    for (int i = 0; i < READS_AT_ONCE && (netlink_is_transient(why) || (why == 0 && *interrupted));
         i++) {
        *interrupted = false;
        list->begin(list->ctx);
        why = netlink_ask(m->reads,
                          netlink_request(request, list->type, NLM_F_DUMP, ++m->sequence,
                                          list->request, list->length),
                          list->take, list->ctx, interrupted);
        if (*interrupted)
            log_debug(2, "netlink", "%s changed while they were read: reading again",
                      list->component);
    }
    return why;
}

/* 0 or an errno; on error nothing is reported. */
static int update(struct route_monitor *m)
{
    bool interrupted;
    int why = read_list(m, &interrupted);
    m->unread = why != 0 || interrupted;
    if (why == 0)
        m->list.end(m->list.ctx, !interrupted);
    return why;
}

static void update_and_pause(struct route_monitor *m)
{
    int why = update(m);
    if (why && !m->failure_logged)
        log_warn("netlink", "cannot read %s, retrying: %s", m->list.what, strerror(why));
    m->failure_logged = why != 0;
    ev_io_stop(m->loop, &m->io);
    m->pause.repeat = why ? READ_AGAIN_SECONDS : m->list.pause;
    ev_timer_again(m->loop, &m->pause);
}

static void on_pause_ended(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct route_monitor *m = timer->data;
    (void)events;
    ev_timer_stop(loop, &m->pause);
    ev_io_start(loop, &m->io);
    if (m->unread)
        update_and_pause(m);
}

/* The messages only trigger a new read, so a lost one (ENOBUFS) does as well. */
static void on_changes(struct ev_loop *loop, ev_io *io, int events)
{
    struct route_monitor *m = io->data;
    char first; /* the rest of a message is dropped */
    (void)loop;
    (void)events;
    for (int i = 0; i < MESSAGES_AT_ONCE; i++)
        if (recv(mnl_socket_get_fd(m->changes), &first, sizeof(first), MSG_DONTWAIT) < 0 &&
            errno == EAGAIN)
            break;
    update_and_pause(m);
}

struct route_monitor *route_monitor_new(struct ev_loop *loop, const struct route_list *list,
                                        struct error *err)
{
    struct route_monitor *m = xcalloc(1, sizeof(*m));
    m->loop = loop;
    m->list = *list;
    ev_init(&m->io, on_changes);
    ev_timer_init(&m->pause, on_pause_ended, 0, list->pause);
    m->io.data = m->pause.data = m;
    m->changes = netlink_open(NETLINK_ROUTE, list->groups, 0, list->component, err);
    m->reads = m->changes ? netlink_open(NETLINK_ROUTE, 0, 0, list->component, err) : NULL;
    int why = m->reads ? update(m) : 0;
    if (why)
        error_set(err, "cannot read %s: %s", list->what, strerror(why));
    if (why || !m->reads) {
        route_monitor_free(m);
        return NULL;
    }
    ev_io_set(&m->io, mnl_socket_get_fd(m->changes), EV_READ);
    ev_io_start(loop, &m->io);
    if (m->unread)
        ev_timer_again(loop, &m->pause);
    return m;
}

void route_monitor_free(struct route_monitor *m)
{
    if (!m)
        return;
    ev_io_stop(m->loop, &m->io);
    ev_timer_stop(m->loop, &m->pause);
    if (m->changes)
        mnl_socket_close(m->changes);
    if (m->reads)
        mnl_socket_close(m->reads);
    free(m);
}
