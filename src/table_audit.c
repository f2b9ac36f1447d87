/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/table_audit.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/log.h"
#include "kube-nftd/netlink/nft_element.h"
#include "kube-nftd/ruleset/drift.h"
#include "kube-nftd/ruleset/held.h"

#include <ev.h>
#include <math.h>
#include <string.h>
#include <time.h>

/* A piece is followed by a rest so many times as long. */
#define SHARE 200.0

#define SHORTEST_REST 0.001

struct table_audit {
    struct ev_loop *loop;
    struct proxy *proxy;
    struct nft_socket *socket;
    double period;
    ev_timer timer;
    /* Where it is. */
    enum family family;
    enum table_set set;
    struct element_dump *dump; /* of them; NULL: not begun */
    double seconds;            /* of CPU that it took */
};

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct ruleset *ruleset_of(const struct table_audit *a)
{
    struct ruleset *ruleset = proxy_ruleset(a->proxy, a->family);
    return ruleset && ruleset_knows_kernel(ruleset) ? ruleset : NULL;
}

static void on_element(void *ctx, const struct nft_element *element)
{
    const struct table_audit *a = ctx;
    struct ruleset *ruleset = ruleset_of(a);
    if (ruleset)
        drift_take(ruleset, a->set, element);
}

/* Goes on to the next set or family. Returns whether that was the last one. */
static bool advance(struct table_audit *a)
{
    element_dump_close(a->dump);
    a->dump = NULL;
    if (++a->set < TABLE_SETS)
        return false;
    struct ruleset *ruleset = ruleset_of(a);
    if (ruleset)
        drift_check_rules(ruleset, a->socket);
    if (ruleset)
        drift_count_records(ruleset, a->socket);
    if (ruleset && ruleset_has_suspects(ruleset))
        proxy_audited(a->proxy, a->family);
    a->set = 0;
    a->family = a->family == FAMILY_IPV4 ? FAMILY_IPV6 : FAMILY_IPV4;
    return a->family == FAMILY_IPV4;
}

static void finish_set(struct table_audit *a, bool whole)
{
    struct ruleset *ruleset = proxy_ruleset(a->proxy, a->family);
    if (!ruleset)
        return;
    drift_finish(ruleset, a->set, whole);
    if (ruleset_has_suspects(ruleset))
        proxy_audited(a->proxy, a->family);
}

/* One piece of work. Returns whether everything was looked through. */
static bool step(struct table_audit *a)
{
    struct error err = {0};
    enum element_dump_state state = DUMP_FAILED;
    if (!a->dump && ruleset_of(a))
        a->dump = element_dump_open(a->family, RULESET_TABLE, set_name(a->set), &err);
    if (a->dump)
        state = element_dump_step(a->dump, on_element, a, &err);
    if (err.text)
        log_debug(2, "audit", "family=%s %s", family_name(a->family), err.text);
    error_clear(&err);
    if (state == DUMP_GOES_ON)
        return false;
    finish_set(a, state == DUMP_ENDED);
    return advance(a);
}

static void rest(struct table_audit *a, double seconds)
{
    ev_now_update(a->loop);
    ev_timer_set(&a->timer, seconds, 0);
    ev_timer_start(a->loop, &a->timer);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct table_audit *a = timer->data;
    double begun = cpu_seconds();
    (void)loop;
    (void)events;
    bool done = step(a);
    double spent = cpu_seconds() - begun;
    a->seconds += spent;
    if (done) {
        log_debug(2, "audit", "audit completed cpu_seconds=%.6f", a->seconds);
        proxy_audit_ended(a->proxy);
        a->seconds = 0;
    }
    rest(a, done ? a->period : fmax(SHARE * spent, SHORTEST_REST));
}

struct table_audit *table_audit_new(struct ev_loop *loop, struct proxy *proxy,
                                    struct nft_socket *socket, double period)
{
    struct table_audit *a = xcalloc(1, sizeof(*a));
    a->loop = loop;
    a->proxy = proxy;
    a->socket = socket;
    a->period = period;
    a->family = FAMILY_IPV4;
    ev_init(&a->timer, on_timer);
    a->timer.data = a;
    rest(a, period);
    return a;
}

void table_audit_free(struct table_audit *a)
{
    if (!a)
        return;
    ev_timer_stop(a->loop, &a->timer);
    element_dump_close(a->dump);
    free(a);
}
