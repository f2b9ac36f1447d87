/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Listeners: one for each NodePort whose service port has endpoints. */
#include "state.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

/* Between two attempts to bind, doubled each time. */
#define DELAY_FIRST 1.0
#define DELAY_MOST 10.0

/* After accept() failed for lack of descriptors or memory. */
#define REST 1.0

/* At one event, so that others have their turn. */
#define ACCEPTED_AT_ONCE 64

#define BACKLOG 4096

struct address localhost_address(enum family family)
{
    return family == FAMILY_IPV4 ? (struct address){{127, 0, 0, 1}} : (struct address){{[15] = 1}};
}

bool localhost_is_address(enum family family, const struct address *address)
{
    const struct address ours = localhost_address(family);
    return memcmp(address, &ours, sizeof(ours)) == 0;
}

/* ---- states ---- */

static bool is_bound(enum listener_state state)
{
    return state == LISTENER_OPEN || state == LISTENER_RESTING;
}

/* Enters a state, in which a bound listener keeps its socket. @error: errno, or 0. */
static void enter(struct listener *l, enum listener_state state, int error)
{
    struct proxy_thread *thread = l->thread;
    struct localhost *owner = thread->owner;
    const bool was_bound = is_bound(l->state);
    ev_io_stop(thread->loop, &l->io);
    ev_timer_stop(thread->loop, &l->timer);
    if (was_bound && !is_bound(state)) {
        close(l->io.fd);
        connections_drain(l);
        owner->counts.listeners[l->family]--;
    } else if (!was_bound && is_bound(state)) {
        owner->counts.listeners[l->family]++;
    }
    if ((state == LISTENER_FAILED) != (l->state == LISTENER_FAILED))
        owner->counts.unbound += state == LISTENER_FAILED ? 1 : UINT64_MAX;
    owner->status[l->family][l->number] = state == LISTENER_FAILED ? -error
                                          : is_bound(state)        ? LOCALHOST_LISTENING
                                                                   : LOCALHOST_IDLE;
    if (state == LISTENER_OPEN)
        ev_io_start(thread->loop, &l->io);
    if (state != l->state)
        localhost_notice(owner, (struct notice){state, l->family, l->number, error});
    if (state != LISTENER_FAILED)
        l->delay = DELAY_FIRST;
    l->state = state;
}

static void wait_for(struct listener *l, double seconds)
{
    ev_timer_set(&l->timer, seconds, 0);
    ev_timer_start(l->thread->loop, &l->timer);
}

/* ---- binding ---- */

static void set_option(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof(value)); /* without it, too, it works */
}

/* Accepted sockets inherit what is set here. Returns the socket, or -1 with errno. */
static int bind_to(const struct proxy_thread *thread, enum family family, uint16_t number)
{
    struct sockaddr_storage where;
    const struct address address = localhost_address(family);
    const socklen_t length = socket_address(family, &address, number, &where);
    const int fd = socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    const bool fits = (size_t)fd < thread->descriptors; /* the lowest that is unused */
    if (fits && bind(fd, (const struct sockaddr *)&where, length) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    const int error = fits ? errno : EMFILE;
    close(fd);
    errno = error;
    return -1;
}

static void open_listener(struct listener *l)
{
    const int fd = bind_to(l->thread, l->family, l->number);
    if (fd >= 0) {
        ev_io_set(&l->io, fd, EV_READ);
        enter(l, LISTENER_OPEN, 0);
        return;
    }
    l->thread->owner->counts.listener_failures[l->family]++;
    enter(l, LISTENER_FAILED, errno);
    wait_for(l, l->delay);
    l->delay = 2 * l->delay < DELAY_MOST ? 2 * l->delay : DELAY_MOST;
}

static void on_bind_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct listener *l = timer->data;
    (void)loop;
    (void)events;
    if (l->state == LISTENER_RESTING)
        enter(l, LISTENER_OPEN, 0);
    else
        open_listener(l);
}

struct target *listener_target(const struct listener *l)
{
    return target_find(&l->thread->targets, l->target);
}

void listener_renew(struct listener *l)
{
    const struct target *target = l ? listener_target(l) : NULL;
    const bool serves = target && target->backends.n > 0 && !l->thread->ending;
    if (!l)
        return;
    if (serves && l->state == LISTENER_IDLE)
        open_listener(l);
    else if (!serves && l->state != LISTENER_IDLE)
        enter(l, LISTENER_IDLE, 0);
}

/* ---- accepting ---- */

static bool is_short_of(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
    struct listener *l = io->data;
    (void)loop;
    (void)events;
    for (int i = 0; i < ACCEPTED_AT_ONCE; i++) {
        const int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            connection_begin(l, fd);
            continue;
        }
        if (is_short_of(errno)) {
            enter(l, LISTENER_RESTING, errno);
            wait_for(l, REST);
        }
        return;
    }
}

/* ---- coming and going ---- */

static struct listener *listener_new(struct proxy_thread *thread, enum family family,
                                     uint16_t number)
{
    struct listener *l = xcalloc(1, sizeof(*l));
    *l = (struct listener){.state = LISTENER_IDLE,
                           .family = family,
                           .number = number,
                           .thread = thread,
                           .delay = DELAY_FIRST};
    ev_init(&l->io, on_readable);
    ev_init(&l->timer, on_bind_timer);
    l->io.data = l->timer.data = l;
    thread->owner->status[family][number] = LOCALHOST_IDLE;
    return l;
}

static void lead_away(struct listener *l)
{
    struct target *target = listener_target(l);
    if (target && target->listener == l)
        target->listener = NULL;
    l->target = 0;
}

void listener_set(struct proxy_thread *thread, enum family family, uint16_t number,
                  struct target *target)
{
    struct listener **place = &thread->listeners[family][number];
    if (!*place)
        *place = listener_new(thread, family, number);
    lead_away(*place);
    (*place)->target = target->id;
    target->listener = *place;
    listener_renew(*place);
}

void listener_free(struct listener *l)
{
    if (!l)
        return;
    lead_away(l);
    listener_renew(l);
    l->thread->listeners[l->family][l->number] = NULL;
    l->thread->owner->status[l->family][l->number] = LOCALHOST_NONE;
    free(l);
}
