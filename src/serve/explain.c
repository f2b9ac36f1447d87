/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/serve/explain_parts.h"

#include <linux/in.h>
#include <string.h>

bool explain_may_add(struct explainer *e, size_t *left_out)
{
    if (e->entries == 0) {
        (*left_out)++;
        return false;
    }
    e->entries--;
    return true;
}

/* ---- what was asked ---- */

static void describe_query(struct explainer *e)
{
    const struct explain_query *query = e->query;
    cJSON *to = json_add_object(e->root, "query");
    char text[ADDRESS_TEXT_SIZE];
    json_add_text(to, "text", query->text);
    json_add_bool(to, "all", query->all);
    if (!e->by_address) {
        json_add_text(to, "service", query->service_id);
        json_add_text(to, "portName", query->port_name);
        return;
    }
    json_add_text(to, "address",
                  address_format((enum family)e->asked.family, &e->asked.address, text));
    json_add_number(to, "port", e->asked.port);
    json_add_text(to, "protocol", protocol_name(e->asked.protocol));
    json_add_bool(to, "protocolGiven", query->protocol != 0);
}

static void describe_node(struct explainer *e)
{
    const struct surroundings *here = policy_surroundings(e->from->policy);
    cJSON *to = json_add_object(e->root, "node");
    json_add_text(to, "name", e->from->node_name);
    json_add_text(to, "zone", here->location.zone);
    if (policy_node_never_named(e->from->policy))
        json_append_format(e->notes,
                           "endpoints name their nodes, but none is on %s: if some are, see "
                           "--hostname-override",
                           e->from->node_name);
}

/* Without a protocol: TCP, unless only another one has the address and port. */
static const struct frontend_state *find_frontend(struct explainer *e)
{
    static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP};
    const struct explain_query *query = e->query;
    e->asked = (struct frontend){query->address, query->port, query->protocol, query->family};
    for (size_t i = 0; i < sizeof(protocols) && !query->protocol; i++) {
        e->asked.protocol = protocols[i];
        const struct frontend_state *target = policy_find_frontend(e->from->policy, &e->asked);
        if (target)
            return target;
    }
    if (!query->protocol)
        e->asked.protocol = IPPROTO_TCP;
    return policy_find_frontend(e->from->policy, &e->asked);
}

static void note_other_protocols(struct explainer *e)
{
    static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP};
    for (size_t i = 0; i < sizeof(protocols); i++) {
        struct frontend other = e->asked;
        other.protocol = protocols[i];
        const struct frontend_state *target = policy_find_frontend(e->from->policy, &other);
        if (other.protocol != e->asked.protocol && target)
            json_append_format(e->notes, "%s is there for %s", e->query->text,
                               protocol_name(other.protocol));
    }
    if (!e->query->protocol && e->asked.protocol != IPPROTO_TCP)
        json_append_format(e->notes, "no protocol was given: it is there for %s, and not for TCP",
                           protocol_name(e->asked.protocol));
}

/* ---- in short ---- */

static const char *text_at(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text ? text : "";
}

static const char *kind_text(const cJSON *frontend)
{
    static const struct {
        const char *kind, *text;
    } kinds[] = {{"clusterIP", "the cluster IP"},
                 {"externalIP", "an external IP"},
                 {"loadBalancerIP", "a load-balancer IP"},
                 {"nodePort", "a node port"}};
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(frontend, "kinds")->child;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kind->valuestring, kinds[i].kind) == 0)
            return kinds[i].text;
    return "an address";
}

static void sum_up_frontend(struct explainer *e, const cJSON *port, const cJSON *frontend)
{
    const char *name = text_at(port, "name");
    const cJSON *service = cJSON_GetObjectItemCaseSensitive(e->root, "service");
    json_append_format(e->summary, "%s is %s of %s/%s%s%s.", text_at(frontend, "frontend"),
                       kind_text(frontend), text_at(service, "namespace"), text_at(service, "name"),
                       *name ? ", port " : "", name);
    json_append_format(e->summary, "New connections: %s.", text_at(frontend, "text"));
}

/* Of an address, that one; of a Service, the first address of each port and family. */
static void sum_up(struct explainer *e)
{
    const cJSON *service = cJSON_GetObjectItemCaseSensitive(e->root, "service"), *port, *frontend;
    cJSON_ArrayForEach (port, cJSON_GetObjectItemCaseSensitive(service, "ports"))
        cJSON_ArrayForEach (frontend, cJSON_GetObjectItemCaseSensitive(port, "frontends")) {
            bool asked = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(frontend, "asked"));
            if (e->by_address && !asked)
                continue;
            sum_up_frontend(e, port, frontend);
            break;
        }
}

/* ---- the two sorts of questions ---- */

static void explain_address(struct explainer *e, const struct frontend_state *target)
{
    note_other_protocols(e);
    if (!target) {
        explain_nobodys(e);
        return;
    }
    const struct port_state *port = target->winner ? target->winner : target->claims->port;
    json_add_text(e->root, "found", "service");
    explain_service(e, port->owner, port, NULL);
    sum_up(e);
}

static void miss(struct explainer *e, const char *found, const char *format, const char *first,
                 const char *second)
{
    json_add_text(e->root, "found", found);
    char *text = xasprintf("%s%s%s.", first, format, second ? second : "");
    json_append_format(e->summary, "%s", text);
    free(text);
}

static void explain_named(struct explainer *e)
{
    const char *id = e->query->service_id, *port_name = e->query->port_name;
    const struct service_state *state = policy_find_service(e->from->policy, id);
    if (!state) {
        bool unread = explain_is_outdated(e, id);
        miss(e, "noSuchService",
             unread ? " could not be read: the log names the field" : ": there is no such Service",
             id, NULL);
        return;
    }
    if (explain_service(e, state, NULL, port_name) > 0) {
        json_add_text(e->root, "found", "service");
        sum_up(e);
    } else if (state->service->skipped) {
        miss(e, "noFrontends",
             " has no cluster IP (headless, or ExternalName): there is nothing to proxy", id, NULL);
    } else {
        miss(e, "noSuchPort", " has no port ", id, port_name ? port_name : "at all");
    }
}

/* ---- what is not in it ---- */

static void add_left_out(struct explainer *e)
{
    const struct {
        const char *key, *text;
        size_t n;
    } parts[] = {{"ports", "ports", e->left_out.ports},
                 {"frontends", "addresses", e->left_out.frontends},
                 {"rivals", "Services that want the same address", e->left_out.rivals},
                 {"sourceRanges", "source ranges", e->left_out.source_ranges},
                 {"slices", "slices", e->left_out.slices},
                 {"endpoints", "endpoints", e->left_out.endpoints},
                 {"elements", "elements of the kernel", e->left_out.elements}};
    cJSON *to = json_add_object(e->root, "leftOut");
    char *text = xstrdup("");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        json_add_number(to, parts[i].key, (double)parts[i].n);
        if (!parts[i].n)
            continue;
        char *longer = xasprintf("%s%s%zu %s", text, *text ? ", " : "", parts[i].n, parts[i].text);
        free(text);
        text = longer;
    }
    if (*text)
        json_append_format(e->notes,
                           "left out, to keep this short: %s (ask for one port or "
                           "address%s)",
                           text, e->query->all ? "" : ", or --all");
    free(text);
}

cJSON *explain(const struct explain_sources *sources, const struct explain_query *query)
{
    size_t times = query->all ? EXPLAIN_ALL : 1;
    struct explainer e = {.from = sources,
                          .query = query,
                          .by_address = !query->service_id,
                          .endpoints = times * EXPLAIN_ENDPOINTS,
                          .lookups = times * EXPLAIN_LOOKUPS,
                          .entries = times * EXPLAIN_ENTRIES,
                          .root = json_new_object()};
    const struct frontend_state *target = e.by_address ? find_frontend(&e) : NULL;
    json_add_text(e.root, "kind", EXPLAIN_KIND);
    json_add_number(e.root, "schema", EXPLAIN_SCHEMA);
    json_add_text(e.root, "version", KUBE_NFTD_VERSION);
    json_add_text(e.root, "computedFrom", sources->from_manifests ? "manifests" : "daemon");
    e.summary = json_add_array(e.root, "summary");
    e.notes = json_add_array(e.root, "notes");
    describe_query(&e);
    describe_node(&e);
    explain_kernel_open(&e);
    if (e.by_address)
        explain_address(&e, target);
    else
        explain_named(&e);
    add_left_out(&e);
    explain_kernel_close(&e);
    decision_free(&e.decision);
    return e.root;
}
