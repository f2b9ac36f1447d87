/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Endpoints cost memory here and in the kernel once for each service port that has them. So the
 * service ports of a namespace share a quarter of what other namespaces leave of a total: none can
 * fill a node, and others' later Services go on. A service port over the bound keeps what it has,
 * gets a few endpoints in any case, and gets more when some are given back.
 */
#include "state.h"

#include <stdlib.h>
#include <string.h>

/* Of all service ports together: some 75 MB here and 400 MB in the kernel. */
#define MOST_ENDPOINTS (4U << 20)
/* A namespace gets this fraction of what others leave. */
#define PORTION_OF_NAMESPACE 4
/* A service port gets so many whatever its namespace has: few are better than none. */
#define LEAST_ENDPOINTS 8
/* Service ports that are decided again in one sync once there is room. */
#define WOKEN 16

struct share {
    struct hash_link link;
    size_t held; /* endpoints of the service ports of the namespace; never 0 */
    size_t length;
    char namespace[];
};

static struct hash_key share_key(const struct hash_link *link)
{
    const struct share *share = (const struct share *)link;
    return (struct hash_key){share->namespace, share->length};
}

static struct share *find_share(const struct policy *policy, const char *service_id)
{
    return hash_table_find(&policy->shares.by_namespace, share_key,
                           (struct hash_key){service_id, strcspn(service_id, "/")});
}

static struct share *add_share(struct policy *policy, const char *service_id)
{
    const size_t length = strcspn(service_id, "/");
    struct share *share = xcalloc(1, sizeof(*share) + length + 1);
    share->length = length;
    memcpy(share->namespace, service_id, length);
    hash_table_add(&policy->shares.by_namespace, share_key, &share->link);
    return share;
}

/* The service port of @service_id, in @share if that is known, now holds @n endpoints. */
static void hold(struct policy *policy, const char *service_id, struct port_state *port, size_t n)
{
    const size_t before = port->held;
    if (n == before)
        return;
    struct share *share = find_share(policy, service_id);
    if (!share)
        share = add_share(policy, service_id);
    share->held += n - before;
    policy->shares.held += n - before;
    if (n < before)
        policy->shares.n_wake = policy->shares.limited.n;
    if (share->held == 0) {
        hash_table_remove(&policy->shares.by_namespace, &share->link);
        free(share);
    }
    port->held = (uint32_t)n;
}

/* How many endpoints the service port may have. */
static size_t room_for(const struct policy *policy, const struct port_state *port)
{
    const struct share *share = find_share(policy, port->owner->service->id);
    const size_t most =
        policy->config.most_endpoints ? policy->config.most_endpoints : MOST_ENDPOINTS;
    const size_t of_port = port->held, of_namespace = share ? share->held : 0;
    const size_t of_others = policy->shares.held - of_namespace;
    const size_t portion = (most > of_others ? most - of_others : 0) / PORTION_OF_NAMESPACE;
    const size_t of_siblings = of_namespace - of_port;
    size_t room = portion > of_siblings ? portion - of_siblings : 0;
    room = room > of_port ? room : of_port;
    return room > LEAST_ENDPOINTS ? room : LEAST_ENDPOINTS;
}

/* ---- service ports over the bound ---- */

static void leave_limited(struct policy *policy, struct port_state *port)
{
    port_state_vec *limited = &policy->shares.limited;
    struct port_details *details = port->details;
    if (!details || !details->most)
        return;
    limited->v[details->place] = limited->v[--limited->n];
    limited->v[details->place]->details->place = details->place;
    details->most = 0;
}

static void log_limited(const struct port_state *port, size_t n, size_t most)
{
    char *name = port_state_name(port);
    log_warn("policy",
             "service=%s family=%s uses %zu of its %zu endpoints: its namespace has the most that "
             "one can have",
             name, family_name((enum family)port->family), most, n);
    free(name);
}

static void limit(struct policy *policy, struct port_state *port, size_t n, size_t most)
{
    struct port_details *details = port_make_details(port);
    if (!details->most) {
        details->place = (uint32_t)policy->shares.limited.n;
        vec_push(&policy->shares.limited, port);
        log_limited(port, n, most);
    }
    details->most = (uint32_t)most;
}

void shares_set(struct policy *policy, struct port_state *port, size_t n)
{
    const size_t most = room_for(policy, port);
    if (n > most)
        limit(policy, port, n, most);
    else
        leave_limited(policy, port);
    hold(policy, port->owner->service->id, port, n < most ? n : most);
}

bool shares_change(struct policy *policy, struct port_state *port, size_t came, size_t went)
{
    const size_t before = port->held;
    if ((port->details && port->details->most) || went > before + came)
        return false;
    const size_t n = before + came - went;
    if (n > before && n > room_for(policy, port))
        return false;
    hold(policy, port->owner->service->id, port, n);
    return true;
}

void shares_release(struct policy *policy, const char *service_id, struct port_state *port)
{
    leave_limited(policy, port);
    hold(policy, service_id, port, 0);
}

/* ---- when there is room again ---- */

bool shares_wake(struct policy *policy)
{
    struct shares *shares = &policy->shares;
    if (shares->n_wake > shares->limited.n)
        shares->n_wake = shares->limited.n;
    for (size_t woken = 0; shares->n_wake > 0 && woken < WOKEN; shares->n_wake--) {
        shares->next = shares->next + 1 < shares->limited.n ? shares->next + 1 : 0;
        struct port_state *port = shares->limited.v[shares->next];
        if (room_for(policy, port) <= port->held)
            continue;
        port_mark_whole(policy, port);
        woken++;
    }
    return shares->n_wake > 0;
}

void shares_clear(struct policy *policy)
{
    hash_table_each (&policy->shares.by_namespace, struct share, share) {
        hash_table_remove(&policy->shares.by_namespace, &share->link);
        free(share);
    }
    vec_free(&policy->shares.limited);
}
