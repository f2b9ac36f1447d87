/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the events of a watch as the bytes come, however they are cut. */
#ifndef KUBE_NFTD_SOURCE_WATCH_READER_H
#define KUBE_NFTD_SOURCE_WATCH_READER_H

#include "body_reader.h"
#include "kube-nftd/base/error.h"
#include "watch_event.h"

#include <stdbool.h>
#include <stddef.h>

/* Takes one event other than ERROR; may take out of it what it keeps. -1: give the watch up. */
typedef int (*watch_event_fn)(void *ctx, struct watch_event *event, struct error *err);

/* Starts zeroed, but for the kind and who takes the events. */
struct watch_reader {
    enum object_kind kind;
    watch_event_fn take;
    void *ctx;

    bool refused;             /* an ERROR event ended the watch */
    struct api_status status; /* what it said */

    struct body_reader body;
    struct error broken; /* why the callback stopped it */
};

/** Gets ready for a new watch. */
void watch_reader_begin(struct watch_reader *reader, enum encoding encoding);

/** Takes bytes of the watch. -1: they are no events, without an error if the watch was refused. */
int watch_reader_feed(struct watch_reader *reader, const char *bytes, size_t length,
                      struct error *err);

/** Frees what it holds. */
void watch_reader_clear(struct watch_reader *reader);

#endif
