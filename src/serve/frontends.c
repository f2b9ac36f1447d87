/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The frontends of Services, and the endpoints that new connections to them are sent to. */
#include "pages.h"

/* Limits of one Service, so that the largest holds up the loop for some milliseconds: endpoints
 * that are decided, frontends, and the endpoints that are listed of each. */
#define DECIDED_MOST 20000
#define FRONTENDS_MOST 1000
#define BACKENDS_MOST 100

static const char *kind_text(uint8_t kinds)
{
    return kinds & CLAIM_CLUSTER_IP         ? "cluster IP"
           : kinds & CLAIM_EXTERNAL_IP      ? "external IP"
           : kinds & CLAIM_LOAD_BALANCER_IP ? "load-balancer IP"
                                            : "node port";
}

/* What happens to connections from outside of this node and its pods. */
static void add_frontend(const struct decision *decision, const struct claim *claim, cJSON *to)
{
    const bool local = claim_route(claim).class & CLASS_LOCAL;
    const backend_vec *backends = local ? &decision->local : &decision->cluster;
    enum family family = decision->port->family;
    char text[BACKEND_TEXT_SIZE], frontend[FRONTEND_TEXT_SIZE];
    size_t listed = backends->n < BACKENDS_MOST ? backends->n : BACKENDS_MOST;
    facts_add(to, fact_text("frontend", frontend_format(&claim->target->frontend, frontend)),
              fact_text("kind", kind_text(claim->kinds)),
              fact_text("policy", local ? "Local" : "Cluster"),
              fact_text("action", backends->n                   ? "forward"
                                  : decision->selection.has_any ? "drop"
                                                                : "reject"),
              fact_number("endpoints", backends->n));
    cJSON *array = cJSON_AddArrayToObject(to, "backends");
    for (size_t i = 0; i < listed; i++)
        facts_append_text(array, "%s", backend_format(family, &backends->v[i], text));
    facts_add(to, fact_number("more", backends->n - listed));
}

cJSON *describe_frontends(const struct snapshot *now, const struct service_state *state)
{
    struct decision decision = {0};
    size_t decided = 0, listed = 0, left_out = 0;
    if (state->service->skipped)
        return NULL;
    cJSON *item = cJSON_CreateObject();
    facts_add_id(item, state->service->id);
    cJSON *array = cJSON_AddArrayToObject(item, "frontends");
    for (const struct port_state *port = state->ports; port; port = port->next) {
        if (!now->family[port->family].in_use)
            continue;
        bool room = decided < DECIDED_MOST && listed < FRONTENDS_MOST;
        if (room)
            policy_decide(now->policy, port, &decision);
        decided += room ? decision.walked : 0;
        for (const struct claim *it = port->claims; it; it = it->next_of_port) {
            if (!it->target || frontend_winner(it->target) != it)
                continue;
            if (room && listed++ < FRONTENDS_MOST)
                add_frontend(&decision, it, facts_append(array));
            else
                left_out++;
        }
    }
    facts_add(item, fact_number("leftOut", left_out));
    decision_free(&decision);
    return item;
}
