/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether a Service is applied, in one word. */
#include "explain.h"
#include "kube-nftd/localhost.h"
#include "pages.h"

#include <math.h>
#include <string.h>

/* Why the daemon cannot listen at the frontend of @claim, a loopback address; 0: it can. */
static int localhost_error(const struct snapshot *now, const struct claim *claim)
{
    const struct frontend *frontend = &claim->target->frontend;
    return frontend_winner(claim->target) == claim && explain_is_localhost(now, claim)
               ? localhost_status(now->localhost, (enum family)frontend->family, frontend->port)
                     .error
               : 0;
}

/* Says which frontends belong to other Services or the API server, in @text, or leaves it NULL. */
static void find_lost_claims(const struct snapshot *now, const struct service_state *state,
                             char **text)
{
    char frontend[FRONTEND_TEXT_SIZE];
    size_t n = 0;
    for (const struct port_state *port = state->ports; port; port = port->next)
        for (const struct claim *it = port->claims; it; it = it->next_of_port) {
            const struct frontend_state *target = it->target;
            const struct claim *winner = frontend_winner(target);
            bool lost = target->reserved || (winner && winner != it);
            int error = localhost_error(now, it);
            if (error && n++ == 0)
                *text = xasprintf("%s is not served: %s",
                                  frontend_format(&target->frontend, frontend), strerror(error));
            if (lost && n++ == 0)
                *text = xasprintf("%s belongs to %s", frontend_format(&target->frontend, frontend),
                                  target->reserved ? "the API server"
                                                   : winner->port->owner->service->id);
        }
    if (n > 1)
        xjoin(text, "and %zu more to others", n - 1);
}

/* Says what limits leave out of a Service, in @text, or leaves it NULL. */
static void find_limits(const struct snapshot *now, const struct service_state *state, char **text)
{
    size_t n[PORT_LIMITS] = {0}, ports = 0;
    for (enum family i = 0; i < FAMILY_COUNT; i++)
        for (enum ruleset_limit limit = 0; limit < PORT_LIMITS; limit++)
            n[limit] += service_limited(now, state, i, limit);
    for (const struct port_state *port = state->ports; port; port = port->next)
        ports++;
    if (n[LIMIT_NUMBERS] == ports && ports > 0)
        *text = xstrdup("no number left");
    else if (n[LIMIT_NUMBERS])
        *text = xasprintf("no number left for %zu of %zu ports", n[LIMIT_NUMBERS], ports);
    if (n[LIMIT_ENDPOINTS])
        xjoin(text, "%zu endpoints do not fit", n[LIMIT_ENDPOINTS]);
}

/* Says which ports have no endpoint that can serve, in @text, or leaves it NULL. Returns whether
 * that is so of all. */
static bool find_unserved(const struct snapshot *now, const struct service_state *state,
                          char **text)
{
    enum { NAMED = 3 };
    size_t ports = 0, without = 0;
    bool several = state->service->ports.n > 1;
    for (const struct port_state *port = state->ports; port; port = port->next) {
        const struct service_port *spec = port_state_spec(port);
        if (!now->family[port->family].in_use)
            continue;
        ports++;
        if (port->has_any || without++ >= NAMED)
            continue;
        if (several)
            xjoin(text, "%s %u/%s", family_name(port->family), spec->port,
                  protocol_name(spec->protocol));
        else
            xjoin(text, "%s", family_name(port->family));
    }
    if (without > NAMED)
        xjoin(text, "%zu more", without - NAMED);
    if (*text) {
        char *list = *text;
        *text = without < ports ? xasprintf("no endpoints for %s", list) : NULL;
        free(list);
    }
    return ports > 0 && without == ports;
}

const char *service_word(const struct snapshot *now, const struct service_state *state, char **text)
{
    const struct service *service = state->service;
    bool lost = false, rejected = false, pending = service_is_pending(now, service->id);
    double waiting = 0;
    for (enum family i = 0; i < FAMILY_COUNT; i++) {
        const struct table_view *view = &now->family[i];
        if (!view->in_use || !service->has_cluster_ip[i])
            continue;
        lost = lost || view->lost;
        pending = pending || !view->programmed;
        waiting = fmax(waiting, view->waiting);
        rejected = rejected || (view->rejected > 0 && service_is_rejected(now, state, i));
    }
    if (service->skipped)
        return service->type == TYPE_EXTERNAL_NAME ? "ExternalName" : "headless";
    if (lost)
        *text = xstrdup("the table is gone, or belongs to another program");
    else if (rejected)
        *text = xstrdup("see explain");
    else if (pending && !now->from_manifests && waiting >= 1)
        *text = xasprintf("for %.0f s", floor(waiting));
    if (lost || rejected || (pending && !now->from_manifests))
        return lost ? "lost" : rejected ? "rejected" : "pending";
    find_limits(now, state, text);
    if (*text)
        return "limited";
    find_lost_claims(now, state, text);
    if (*text)
        return "claimed";
    if (find_unserved(now, state, text))
        return "no endpoints";
    return now->from_manifests ? "computed" : "applied";
}
