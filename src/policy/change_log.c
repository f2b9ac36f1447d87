/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "change_log.h"

#include "kube-nftd/base.h"

#include <string.h>

/* How many Services are named of a commit. */
#define NAMED 5

void change_log_service(struct change_log *log, const char *id)
{
    bool again = log->ids.n && strcmp(log->ids.v[log->ids.n - 1], id) == 0;
    if (log_enabled(2) && !again)
        vec_push(&log->ids, xstrdup(id));
}

/* ---- endpoints ---- */

static const char *state_of(const struct slice_endpoint *endpoint)
{
    if (!endpoint)
        return "none";
    if (endpoint->flags & ENDPOINT_READY)
        return "ready";
    if (endpoint->flags & ENDPOINT_SERVING)
        return endpoint->flags & ENDPOINT_TERMINATING ? "serving-terminating" : "serving";
    return endpoint->flags & ENDPOINT_TERMINATING ? "terminating" : "not-ready";
}

static void log_endpoint(const struct service_port_ref *ref, const struct endpoint_delta *delta)
{
    const struct slice_endpoint *known = delta->after ? delta->after : delta->before;
    char text[BACKEND_TEXT_SIZE];
    log_debug(4, "endpoints", "service=%s port=%s endpoint=%s node=%s before=%s after=%s",
              ref->service_id, ref->port_name, backend_format(ref->family, &delta->backend, text),
              known->node_name ? known->node_name : "none", state_of(delta->before),
              state_of(delta->after));
}

void change_log_endpoints(struct change_log *log, const struct service_port_ref *ref,
                          const struct endpoint_delta *deltas, size_t n)
{
    change_log_service(log, ref->service_id);
    if (!deltas)
        log_debug(4, "endpoints", "service=%s port=%s family=%s its only slice came or went",
                  ref->service_id, ref->port_name, family_name(ref->family));
    for (size_t i = 0; deltas && i < n && log_enabled(4); i++)
        log_endpoint(ref, &deltas[i]);
}

/* ---- frontends and service ports ---- */

void change_log_route(const struct frontend_state *target, const struct route *route)
{
    char text[FRONTEND_TEXT_SIZE];
    if (!log_enabled(4))
        return;
    frontend_format(&target->frontend, text);
    if (!route) {
        log_debug(4, "policy", "frontend=%s belongs to no Service now", text);
        return;
    }
    char *name = port_state_name(target->winner);
    log_debug(4, "policy", "frontend=%s service=%s policy=%s", text, name,
              route->local ? "Local" : "Cluster");
    free(name);
}

void change_log_port(const struct port_state *port, const struct port_route *route)
{
    if (!log_enabled(4))
        return;
    const char *family = family_name((enum family)port->family);
    char *name = port_state_name(port);
    if (route->has_any)
        log_debug(4, "policy", "service=%s family=%s endpoints=%zu local=%zu", name, family,
                  route->n_backends, route->n_local);
    else
        log_debug(4, "policy", "service=%s family=%s is rejected: no endpoint can serve", name,
                  family);
    free(name);
}

static size_t count_coming(const struct backend_change *changes, size_t n)
{
    size_t coming = 0;
    for (size_t i = 0; i < n; i++)
        coming += changes[i].comes;
    return coming;
}

void change_log_port_change(const struct port_state *port, const struct port_route_change *change)
{
    if (!log_enabled(4))
        return;
    size_t coming = count_coming(change->backends, change->n_backends);
    size_t local = count_coming(change->local_backends, change->n_local);
    char *name = port_state_name(port);
    log_debug(4, "policy",
              "service=%s family=%s joined=%zu left=%zu joined_local=%zu left_local=%zu", name,
              family_name((enum family)port->family), coming, change->n_backends - coming, local,
              change->n_local - local);
    free(name);
}

/* ---- commits ---- */

static int compare_ids(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char *change_log_services(struct change_log *log)
{
    char *names = NULL, *text;
    size_t n = 0;
    if (log->ids.n == 0)
        return NULL;
    qsort(log->ids.v, log->ids.n, sizeof(*log->ids.v), compare_ids);
    vec_each (&log->ids, id) {
        if (id > log->ids.v && strcmp(id[0], id[-1]) == 0)
            continue;
        if (n++ >= NAMED)
            continue;
        text = xasprintf("%s%s%s", names ? names : "", names ? "," : "", *id);
        free(names);
        names = text;
    }
    text = n > NAMED ? xasprintf("services=%s more=%zu ", names, n - NAMED)
                     : xasprintf("services=%s ", names);
    free(names);
    return text;
}

void change_log_clear(struct change_log *log)
{
    vec_each (&log->ids, id)
        free(*id);
    vec_free(&log->ids);
}
