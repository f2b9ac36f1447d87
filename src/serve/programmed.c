/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whether the kernel has a Service and its EndpointSlices as they were received. */
#include "pages.h"

#include <string.h>

bool service_is_rejected(const struct snapshot *now, const struct service_state *service,
                         enum family family)
{
    for (const struct port_state *port = service->ports; port; port = port->next)
        for (const struct claim *it = port->claims; it; it = it->next_of_port)
            if (port->family == family && it->target->winner == it &&
                ruleset_is_rejected(now->family[family].ruleset, &it->target->frontend))
                return true;
    return false;
}

size_t service_limited(const struct snapshot *now, const struct service_state *service,
                       enum family family, enum ruleset_limit limit)
{
    const struct table_view *view = &now->family[family];
    size_t n = 0;
    if (!view->limited[limit])
        return 0;
    for (const struct port_state *port = service->ports; port; port = port->next)
        if (port->family == family)
            n += ruleset_port_limited(view->ruleset, port->id, limit);
    return n;
}

/* Whether all changes of a Service and its slices are applied: others may be in the middle of
 * theirs, which takes many transactions for a large one. */
static void find_applied(const struct snapshot *now, const char *id, bool applied[FAMILY_COUNT])
{
    for (enum family i = 0; i < FAMILY_COUNT; i++)
        applied[i] = now->family[i].current && !policy_service_waits(now->policy, id, i);
}

bool service_is_pending(const struct snapshot *now, const char *id)
{
    object_versions_vec all = {0};
    struct object_versions own;
    bool applied[FAMILY_COUNT];
    bool pending = false;
    /* Nearly always, nothing is. */
    if (now->services_pending == 0 && now->slices_pending == 0)
        return false;
    find_applied(now, id, applied);
    if (object_store_versions(now->services, id, applied, &own))
        vec_push(&all, own);
    endpoint_slice_cache_versions(now->slices, id, applied, &all);
    vec_each (&all, it)
        for (int i = 0; i < FAMILY_COUNT; i++)
            pending = pending ||
                      (now->family[i].in_use && it->family[i].concerned && !it->family[i].applied);
    vec_free(&all);
    return pending;
}

/* ---- /programmed?namespace=NAMESPACE&service=NAME ---- */

/* The state of an answer under construction. */
struct answer {
    const struct snapshot *now;
    const char *left_out[FAMILY_COUNT]; /* why a part of the Service is; NULL: none is */
    cJSON *json;
    const char *reason; /* why not all is applied; NULL: it is */
};

static void add_version(cJSON *object, const char *key, const struct object_version *version)
{
    char number[OBJECT_VERSION_SIZE];
    facts_add(object, fact_text(key, version ? object_version_text(version, number) : NULL));
}

static void add_versions(struct answer *a, cJSON *object, const struct object_versions *versions)
{
    add_version(object, "received", versions->received);
    if (versions->rejected) {
        add_version(object, "leftOut", versions->rejected);
        a->reason = "an object is invalid, and its last good version stays active; the log says "
                    "what is wrong with it";
    }
    cJSON *kernel = cJSON_AddObjectToObject(object, "inKernel");
    for (enum family i = 0; i < FAMILY_COUNT; i++) {
        bool lost = a->now->family[i].lost;
        if (!a->now->family[i].in_use || !versions->family[i].concerned)
            continue;
        add_version(kernel, family_name(i),
                    lost || a->left_out[i] ? NULL : versions->family[i].programmed);
        if (lost)
            a->reason = "the table is gone, or belongs to another program; the log says more";
        else if (a->left_out[i] && !a->reason)
            a->reason = a->left_out[i];
        else if (!versions->family[i].applied && !a->reason)
            a->reason = "a change is not applied yet";
    }
}

static const char *why_left_out(const struct snapshot *now, const struct service_state *service,
                                enum family family)
{
    if (!service || !now->family[family].in_use)
        return NULL;
    if (service_is_rejected(now, service, family))
        return "the kernel rejected it; the log names the frontend";
    if (service_limited(now, service, family, LIMIT_NUMBERS))
        return "no number left: some of its service ports are not programmed";
    if (service_limited(now, service, family, LIMIT_ENDPOINTS))
        return "it has more endpoints than fit: the rest is not used";
    return NULL;
}

/* Returns the HTTP status. */
static unsigned add_service(struct answer *a, const char *id)
{
    struct object_versions versions;
    object_versions_vec slices = {0};
    bool applied[FAMILY_COUNT];
    find_applied(a->now, id, applied);
    if (!object_store_versions(a->now->services, id, applied, &versions)) {
        a->reason = a->now->complete ? "no such Service is known"
                                     : "Services and EndpointSlices are not complete yet";
        return a->now->complete ? 404 : 503;
    }
    const struct service_state *service = policy_find_service(a->now->policy, id);
    for (enum family i = 0; i < FAMILY_COUNT; i++)
        a->left_out[i] = why_left_out(a->now, service, i);
    add_versions(a, cJSON_AddObjectToObject(a->json, "service"), &versions);
    cJSON *array = cJSON_AddArrayToObject(a->json, "endpointSlices");
    endpoint_slice_cache_versions(a->now->slices, id, applied, &slices);
    vec_each (&slices, it) {
        cJSON *slice = facts_append(array);
        const char *slash = strchr(it->id, '/');
        facts_add(slice, fact_text("name", slash ? slash + 1 : it->id));
        add_versions(a, slice, it);
    }
    vec_free(&slices);
    return a->reason ? 503 : 200;
}

/* Whether @text could be a name; it is repeated in the answer. */
static bool is_name(const char *text)
{
    if (!text || !*text)
        return false;
    for (; *text; text++)
        if (*text <= ' ' || *text > '~' || *text == '/')
            return false;
    return true;
}

void answer_programmed(struct server *server, struct http *http)
{
    const char *namespace = http_argument(http, "namespace"),
               *name = http_argument(http, "service");
    struct answer answer = {.now = &server->now, .json = cJSON_CreateObject()};
    unsigned status = 400;
    if (is_name(namespace) && is_name(name)) {
        char *id = xasprintf("%s/%s", namespace, name);
        facts_add(answer.json, fact_text("namespace", namespace), fact_text("name", name));
        status = add_service(&answer, id);
        free(id);
    } else {
        answer.reason = "the request is /programmed?namespace=NAMESPACE&service=NAME";
    }
    facts_add(answer.json, fact_flag("programmed", status == 200));
    if (answer.reason)
        facts_add(answer.json, fact_text("reason", answer.reason));
    http_json(http, status, facts_print(answer.json));
    cJSON_Delete(answer.json);
}
