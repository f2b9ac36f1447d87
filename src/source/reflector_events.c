/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What comes: initial events, changes, whole contents. */
#include "reflector_parts.h"

#include "kube-nftd/base/clock.h"
#include "kube-nftd/base/log.h"

#include <stdlib.h>

#define LOG "reflector"

void reflector_prove(struct reflector *r)
{
    if (r->proven)
        return;
    r->proven = true;
    r->told_to_wait = 0;
    if (r->state == STATE_STREAMING) {
        reflector_start_timer(r, SILENCE_TIMEOUT);
        return;
    }
    ev_timer_stop(r->loop, &r->timer);
    if (trouble_over(&r->trouble))
        log_info(LOG, "watching again resource=%s", resource_of(r));
}

void reflector_begin_watching(struct reflector *r)
{
    r->proven = false;
    r->opened_at = clock_monotonic();
    reflector_enter(r, STATE_WATCHING);
    reflector_start_timer(r, WATCH_PROOF);
}

void reflector_take_contents(struct reflector *r, object_vec *objects, char **version)
{
    if (r->figures.lists++ == 0)
        log_info(LOG, "listed resource=%s objects=%zu encoding=%s", resource_of(r), objects->n,
                 encoding_name(r->figures.encoding));
    free(r->version);
    r->version = *version;
    *version = NULL;
    r->version_unusable = false;
    r->restreamed = false;
    r->answered = true;
    r->sink->replace(r->sink->ctx, r->collection.kind, objects);
}

/* The end mark: the same answer goes on as the watch. */
static int end_initial_events(struct reflector *r, struct watch_event *event, struct error *err)
{
    object_vec objects = {0};
    if (!event->version)
        return error_set(err, "the end of the initial events has no resourceVersion");
    initial_events_finish(&r->initial, &objects);
    reflector_take_contents(r, &objects, &event->version);
    r->purpose = WATCH;
    reflector_begin_watching(r);
    return 0;
}

/* No version is remembered here: those of initial events are in no order. */
static int take_initial_event(struct reflector *r, struct watch_event *event, struct error *err)
{
    reflector_prove(r);
    if (event->type == WATCH_BOOKMARK)
        return event->initial_end ? end_initial_events(r, event, err) : 0;
    if (event->type == WATCH_REMOVE)
        return initial_events_remove(&r->initial, event->object.id, err);
    return initial_events_put(&r->initial, &event->object, err);
}

static void take_change(struct reflector *r, struct watch_event *event)
{
    struct object *object = &event->object;
    if (event->type != WATCH_BOOKMARK)
        r->figures.events++;
    if (event->type == WATCH_REMOVE)
        r->sink->remove(r->sink->ctx, object->kind, object->id);
    else if (object->id)
        r->sink->put(r->sink->ctx, object);
    if (event->version) {
        free(r->version);
        r->version = event->version;
        event->version = NULL;
    }
    reflector_prove(r);
}

int reflector_take_event(void *ctx, struct watch_event *event, struct error *err)
{
    struct reflector *r = ctx;
    if (event->type == WATCH_BAD)
        bad_objects_add(&r->bad, &event->object, &event->problem);
    if (r->state == STATE_STREAMING)
        return take_initial_event(r, event, err);
    take_change(r, event);
    return 0;
}
