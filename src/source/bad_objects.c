/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bad_objects.h"

#include "kube-nftd/base/log.h"

#define LOG "reflector"
/* So many events of one answer: a server may send a million bad objects. */
#define REPORTED_LIMIT 100

void bad_objects_begin(struct bad_objects *bad)
{
    bad->reported = 0;
}

/* All nodes are sent the same object. */
static void report(const struct bad_objects *bad, const struct object *object,
                   const struct error *why)
{
    static const struct uid unknown;
    const struct object_event event = {
        .kind = object->kind,
        .id = object->id,
        .uid = object->uid ? *object->uid : unknown,
        .type = EVENT_WARNING,
        .reason = "InvalidObject",
        .action = "Read",
        .note = why->text,
        .everywhere = true,
    };
    if (object->id)
        event_report(bad->events, &event);
}

void bad_objects_add(struct bad_objects *bad, const struct object *object, struct error *why)
{
    bad->total++;
    log_warn(LOG, "bad object: %s", why->text);
    if (bad->reported < REPORTED_LIMIT) {
        bad->reported++;
        report(bad, object, why);
    }
    error_clear(why);
}
