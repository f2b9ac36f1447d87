/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Passes bytes on between two sockets, through a pipe and without a copy (splice(2)). */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Most bytes in a pipe: the kernel's buffers there may be larger than a page. */
#define PIPE_BYTES ((size_t)64 * 1024)

/* ---- pipes: only streams with bytes in transit have one ---- */

static bool take_pipe(struct proxy_thread *thread, struct pipe *out)
{
    int descriptors[2];
    if (thread->n_idle > 0) {
        *out = thread->idle[--thread->n_idle];
        return true;
    }
    if (pipe2(descriptors, O_CLOEXEC | O_NONBLOCK) < 0)
        return false;
    *out = (struct pipe){descriptors[0], descriptors[1]};
    return true;
}

static void close_pipe(const struct pipe *pipe)
{
    close(pipe->read);
    close(pipe->write);
}

/* @empty: nothing is left in it. */
static void give_back(struct proxy_thread *thread, struct stream *stream, bool empty)
{
    if (stream->pipe.write == 0)
        return;
    if (empty && thread->n_idle < IDLE_PIPES)
        thread->idle[thread->n_idle++] = stream->pipe;
    else
        close_pipe(&stream->pipe);
    stream->pipe = (struct pipe){0, 0};
}

void relay_close_pipes(struct proxy_thread *thread)
{
    while (thread->n_idle > 0)
        close_pipe(&thread->idle[--thread->n_idle]);
}

void relay_end(struct connection *c)
{
    for (enum side side = 0; side < SIDES; side++)
        give_back(c->thread, &c->streams[side], c->streams[side].bytes == 0);
}

/* ---- one direction ---- */

/* What became of a step. */
enum step { STEP_DONE, STEP_WAITS, STEP_FAILED };

static enum step step_of_error(void)
{
    return errno == EAGAIN || errno == EINTR ? STEP_WAITS : STEP_FAILED;
}

static enum step fill(struct connection *c, enum side from)
{
    struct stream *stream = &c->streams[from];
    if (stream->pipe.write == 0 && !take_pipe(c->thread, &stream->pipe))
        return STEP_FAILED;
    const ssize_t n = splice(c->io[from].fd, NULL, stream->pipe.write, NULL, PIPE_BYTES,
                             SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n < 0)
        return step_of_error();
    if (n == 0)
        stream->state = STREAM_ENDED;
    stream->bytes = (size_t)n;
    return STEP_DONE;
}

static enum step drain(struct connection *c, enum side from)
{
    struct stream *stream = &c->streams[from];
    const ssize_t n = splice(stream->pipe.read, NULL, c->io[!from].fd, NULL, stream->bytes,
                             SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n < 0)
        return step_of_error();
    stream->bytes -= (size_t)n;
    return STEP_DONE;
}

/* Passes on what is there, once: false if the connection has failed. */
static bool pass_on(struct connection *c, enum side from)
{
    struct stream *stream = &c->streams[from];
    enum step step = STEP_DONE;
    if (stream->bytes == 0 && stream->state == STREAM_OPEN)
        step = fill(c, from);
    if (stream->bytes > 0)
        step = drain(c, from);
    if (step == STEP_FAILED)
        return false;
    if (stream->bytes > 0)
        return true;
    give_back(c->thread, stream, true);
    if (stream->state == STREAM_ENDED) {
        /* Closing both does it, too. It fails if the peer has closed: that is read then. */
        if (c->streams[!from].state != STREAM_CLOSED)
            shutdown(c->io[!from].fd, SHUT_WR);
        stream->state = STREAM_CLOSED;
    }
    return true;
}

/* ---- both ---- */

static void watch(struct connection *c, enum side side)
{
    const struct stream *out = &c->streams[side], *in = &c->streams[!side];
    const int events = (out->state == STREAM_OPEN && out->bytes == 0 ? EV_READ : 0) |
                       (in->bytes > 0 ? EV_WRITE : 0);
    ev_io *io = &c->io[side];
    if (ev_is_active(io) && (io->events & (EV_READ | EV_WRITE)) == events)
        return;
    ev_io_stop(c->thread->loop, io);
    ev_io_set(io, io->fd, events);
    if (events)
        ev_io_start(c->thread->loop, io);
}

static void on_socket(struct ev_loop *loop, ev_io *io, int events)
{
    struct connection *c = io->data;
    const enum side side = io == &c->io[CLIENT] ? CLIENT : ENDPOINT;
    (void)loop;
    if ((events & EV_READ && !pass_on(c, side)) || (events & EV_WRITE && !pass_on(c, !side)))
        connection_end(c, false);
    else if (c->streams[CLIENT].state == STREAM_CLOSED &&
             c->streams[ENDPOINT].state == STREAM_CLOSED)
        connection_end(c, true);
    else
        for (enum side i = 0; i < SIDES; i++)
            watch(c, i);
}

void relay_begin(struct connection *c)
{
    for (enum side side = 0; side < SIDES; side++) {
        ev_set_cb(&c->io[side], on_socket);
        watch(c, side);
    }
}
