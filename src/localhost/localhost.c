/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The thread, and what it and the main loop tell each other. */
#include "state.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

/* Of the process, that are left to others. */
#define OTHER_DESCRIPTORS 512

/* ---- in the thread ---- */

static void set_port(struct proxy_thread *thread, const struct command *command)
{
    struct target *target = target_get(&thread->targets, command->id);
    target_set(target, command->backends, command->affinity_timeout);
    listener_renew(target->listener);
}

static void change_port(struct proxy_thread *thread, const struct command *command)
{
    struct target *target = target_get(&thread->targets, command->id);
    target_change(target, &command->changes);
    listener_renew(target->listener);
}

static void remove_port(struct proxy_thread *thread, const struct command *command)
{
    struct target *target = target_find(&thread->targets, command->id);
    if (!target)
        return;
    struct listener *listener = target->listener;
    target_free(&thread->targets, target);
    listener_renew(listener);
}

static void close_all(struct proxy_thread *thread)
{
    thread->ending = true;
    for (int family = 0; family < FAMILY_COUNT; family++)
        for (size_t i = 0; i < PORT_NUMBERS; i++)
            listener_renew(thread->listeners[family][i]);
}

static void run_command(struct proxy_thread *thread, const struct command *command)
{
    switch (command->kind) {
    case SET_PORT:
        set_port(thread, command);
        break;
    case CHANGE_PORT:
        change_port(thread, command);
        break;
    case REMOVE_PORT:
        remove_port(thread, command);
        break;
    case LISTEN:
        listener_set(thread, command->family, command->number,
                     target_get(&thread->targets, command->id));
        break;
    case CLOSE:
        listener_free(thread->listeners[command->family][command->number]);
        break;
    case DRAIN:
        close_all(thread);
        break;
    case STOP:
        ev_break(thread->loop, EVBREAK_ALL);
        break;
    }
}

static void on_wake(struct ev_loop *loop, ev_async *async, int events)
{
    struct localhost *localhost = async->data;
    __typeof__(localhost->commands) taken;
    (void)loop;
    (void)events;
    pthread_mutex_lock(&localhost->mutex);
    memcpy(&taken, &localhost->commands, sizeof(taken));
    memset(&localhost->commands, 0, sizeof(taken));
    pthread_mutex_unlock(&localhost->mutex);
    vec_each (&taken, command) {
        run_command(&localhost->thread, command);
        vec_free(&command->changes);
    }
    vec_free(&taken);
}

static void *run_thread(void *ctx)
{
    struct proxy_thread *thread = ctx;
    pthread_setname_np(pthread_self(), "localhost");
    ev_run(thread->loop, 0);
    return NULL;
}

void localhost_notice(struct localhost *localhost, struct notice notice)
{
    pthread_mutex_lock(&localhost->mutex);
    vec_push(&localhost->notices, notice);
    pthread_mutex_unlock(&localhost->mutex);
    ev_async_send(localhost->loop, &localhost->noticed);
}

/* ---- in the main loop ---- */

static void log_notice(const struct notice *notice)
{
    const char *family = family_name(notice->family);
    const unsigned number = notice->number;
    switch (notice->state) {
    case LISTENER_OPEN:
        log_debug(2, "localhost", "family=%s port=%u is served on loopback", family, number);
        break;
    case LISTENER_IDLE:
        log_debug(2, "localhost", "family=%s port=%u is no longer served on loopback", family,
                  number);
        break;
    case LISTENER_FAILED:
        log_warn("localhost", "family=%s port=%u cannot be served on loopback: %s; trying again",
                 family, number, strerror(notice->error));
        break;
    case LISTENER_RESTING:
        log_warn("localhost", "family=%s port=%u accepts no connections for a second: %s", family,
                 number, strerror(notice->error));
        break;
    }
}

static void on_noticed(struct ev_loop *loop, ev_async *async, int events)
{
    struct localhost *localhost = async->data;
    __typeof__(localhost->notices) taken;
    (void)loop;
    (void)events;
    pthread_mutex_lock(&localhost->mutex);
    memcpy(&taken, &localhost->notices, sizeof(taken));
    memset(&localhost->notices, 0, sizeof(taken));
    pthread_mutex_unlock(&localhost->mutex);
    vec_each (&taken, notice)
        log_notice(notice);
    vec_free(&taken);
}

static void post(struct localhost *localhost, const struct command *command)
{
    pthread_mutex_lock(&localhost->mutex);
    vec_push(&localhost->commands, *command);
    pthread_mutex_unlock(&localhost->mutex);
    ev_async_send(localhost->thread.loop, &localhost->thread.wake);
}

void localhost_set_port(struct localhost *localhost, uint32_t id, const struct backend *backends,
                        size_t n, uint32_t affinity_timeout)
{
    struct command command = {.kind = SET_PORT, .id = id, .affinity_timeout = affinity_timeout};
    vec_append(&command.backends, backends, n);
    post(localhost, &command);
}

void localhost_change_port(struct localhost *localhost, uint32_t id,
                           const backend_change_vec *changes, enum backend_set set)
{
    struct command command = {.kind = CHANGE_PORT, .id = id};
    vec_each (changes, change)
        if (backend_comes(change, set) || backend_goes(change, set))
            vec_push(&command.changes,
                     (struct backend_change){change->backend, change->before & set,
                                             change->after & set});
    if (command.changes.n > 0)
        post(localhost, &command);
}

void localhost_remove_port(struct localhost *localhost, uint32_t id)
{
    post(localhost, &(struct command){.kind = REMOVE_PORT, .id = id});
}

void localhost_listen(struct localhost *localhost, enum family family, uint16_t number, uint32_t id)
{
    post(localhost,
         &(struct command){.kind = LISTEN, .family = family, .number = number, .id = id});
}

void localhost_close(struct localhost *localhost, enum family family, uint16_t number)
{
    post(localhost, &(struct command){.kind = CLOSE, .family = family, .number = number});
}

/* ---- queries ---- */

struct localhost_status localhost_status(const struct localhost *localhost, enum family family,
                                         uint16_t number)
{
    const int status = localhost ? localhost->status[family][number] : LOCALHOST_NONE;
    if (status < 0)
        return (struct localhost_status){LOCALHOST_FAILED, -status};
    return (struct localhost_status){(enum localhost_state)status, 0};
}

struct localhost_stats localhost_stats(const struct localhost *localhost)
{
    const struct proxy_counts *counts = localhost ? &localhost->counts : NULL;
    struct localhost_stats stats = {.connections = 0};
    if (!counts)
        return stats;
    stats.unbound = counts->unbound;
    stats.connections = counts->connections;
    stats.accepted = counts->accepted;
    stats.endpoint_failures = counts->endpoint_failures;
    stats.refused = counts->refused;
    for (int i = 0; i < FAMILY_COUNT; i++) {
        stats.listeners[i] = counts->listeners[i];
        stats.listener_failures[i] = counts->listener_failures[i];
    }
    return stats;
}

/* ---- beginning and end ---- */

/* The thread takes no signals: they belong to the main loop. */
static int start(struct localhost *localhost)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&localhost->id, NULL, run_thread, &localhost->thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void clear(struct localhost *localhost)
{
    struct proxy_thread *thread = &localhost->thread;
    for (int family = 0; family < FAMILY_COUNT; family++) {
        for (size_t i = 0; i < PORT_NUMBERS; i++)
            listener_free(thread->listeners[family][i]);
        free(thread->listeners[family]);
    }
    while (thread->draining)
        connection_end(thread->draining, false);
    hash_table_each (&thread->targets.by_id, struct target, target)
        target_free(&thread->targets, target);
    relay_close_pipes(thread);
    free(thread->all);
}

static void free_shared(struct localhost *localhost)
{
    ev_async_stop(localhost->loop, &localhost->noticed);
    if (localhost->thread.loop)
        ev_loop_destroy(localhost->thread.loop);
    vec_each (&localhost->commands, command) {
        vec_free(&command->backends);
        vec_free(&command->changes);
    }
    vec_free(&localhost->commands);
    vec_free(&localhost->notices);
    for (int family = 0; family < FAMILY_COUNT; family++)
        free(localhost->status[family]);
    pthread_mutex_destroy(&localhost->mutex);
    free(localhost);
}

/* How many descriptors the thread may use. */
static size_t read_descriptors(void)
{
    struct rlimit limit = {.rlim_cur = 0};
    getrlimit(RLIMIT_NOFILE, &limit);
    const size_t all = limit.rlim_cur < INT_MAX ? (size_t)limit.rlim_cur : INT_MAX;
    return all > OTHER_DESCRIPTORS ? all - OTHER_DESCRIPTORS : 0;
}

struct localhost *localhost_new(struct ev_loop *loop, size_t most, struct error *err)
{
    struct localhost *localhost = xcalloc(1, sizeof(*localhost));
    struct proxy_thread *thread = &localhost->thread;
    pthread_mutex_init(&localhost->mutex, NULL);
    localhost->loop = loop;
    ev_async_init(&localhost->noticed, on_noticed);
    localhost->noticed.data = localhost;
    ev_async_start(loop, &localhost->noticed);
    thread->owner = localhost;
    thread->most = most;
    thread->descriptors = read_descriptors();
    thread->all = xcalloc(most, sizeof(*thread->all));
    for (int family = 0; family < FAMILY_COUNT; family++) {
        thread->listeners[family] = xcalloc(PORT_NUMBERS, sizeof(*thread->listeners[family]));
        localhost->status[family] = xcalloc(PORT_NUMBERS, sizeof(*localhost->status[family]));
    }
    thread->loop = ev_loop_new(EVFLAG_AUTO);
    ev_async_init(&thread->wake, on_wake);
    thread->wake.data = localhost;
    if (thread->loop)
        ev_async_start(thread->loop, &thread->wake);
    const int error = thread->loop ? start(localhost) : ENOMEM;
    if (error == 0)
        return localhost;
    error_set(err, "cannot start a thread: %s", strerror(error));
    clear(localhost);
    free_shared(localhost);
    return NULL;
}

void localhost_drain(struct localhost *localhost)
{
    post(localhost, &(struct command){.kind = DRAIN});
}

void localhost_free(struct localhost *localhost)
{
    if (!localhost)
        return;
    post(localhost, &(struct command){.kind = STOP});
    pthread_join(localhost->id, NULL);
    clear(localhost);
    free_shared(localhost);
}
