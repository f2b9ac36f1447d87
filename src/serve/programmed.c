/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "pages.h"

#include <string.h>

/* The state of an answer under construction. */
struct page {
    const struct snapshot *now;
    bool refused[FAMILY_COUNT]; /* the kernel rejected a frontend of the Service */
    cJSON *json;
    const char *reason; /* why not all is applied; NULL: it is */
};

/* Whether the kernel rejected a frontend of the Service @id. */
static bool is_refused(const struct snapshot *now, const char *id, enum family family)
{
    const struct service_state *service = policy_find_service(now->policy, id);
    const struct ruleset *ruleset = now->family[family].ruleset;
    for (const struct port_state *port = service ? service->ports : NULL; port; port = port->next)
        for (const struct claim *it = port->claims; it; it = it->next_of_port)
            if (port->family == family && it->target->winner == port &&
                ruleset_is_refused(ruleset, &it->target->frontend))
                return true;
    return false;
}

static void add_version(cJSON *object, const char *key, const struct object_version *version)
{
    char number[OBJECT_VERSION_SIZE];
    facts_add(object, fact_text(key, version ? object_version_text(version, number) : NULL));
}

static void add_versions(struct page *page, cJSON *object, const struct object_versions *versions)
{
    add_version(object, "received", versions->received);
    if (versions->rejected) {
        add_version(object, "leftOut", versions->rejected);
        page->reason = "an object is invalid, and its last good version stays active; the log says "
                       "what is wrong with it";
    }
    cJSON *kernel = cJSON_AddObjectToObject(object, "inKernel");
    for (int i = 0; i < FAMILY_COUNT; i++) {
        const struct table_view *table = &page->now->family[i];
        if (!table->in_use || !versions->family[i].concerned)
            continue;
        add_version(kernel, family_name((enum family)i),
                    table->lost || page->refused[i] ? NULL : versions->family[i].programmed);
        if (table->lost)
            page->reason = "the table is gone, or belongs to another program; the log says more";
        else if (page->refused[i] && !page->reason)
            page->reason = "the kernel rejected it; the log names the frontend";
        else if (!versions->family[i].applied && !page->reason)
            page->reason = "a change is not applied yet";
    }
}

static void add_slices(struct page *page, const char *service_id)
{
    object_versions_vec all = {0};
    cJSON *slices = cJSON_AddArrayToObject(page->json, "endpointSlices");
    endpoint_slice_cache_versions(page->now->slices, service_id, &all);
    vec_each (&all, it) {
        cJSON *slice = facts_append(slices);
        const char *slash = strchr(it->id, '/');
        facts_add(slice, fact_text("name", slash ? slash + 1 : it->id));
        add_versions(page, slice, it);
    }
    vec_free(&all);
}

/* Completes the page and returns the HTTP status. */
static unsigned answer_service(struct page *page, const char *id)
{
    const struct snapshot *now = page->now;
    struct object_versions versions;
    if (!service_cache_versions(now->services, id, &versions)) {
        page->reason = now->complete ? "no such Service is known"
                                     : "Services and EndpointSlices are not complete yet";
        return now->complete ? 404 : 503;
    }
    for (int i = 0; i < FAMILY_COUNT; i++)
        page->refused[i] = now->family[i].in_use && is_refused(now, id, (enum family)i);
    add_versions(page, cJSON_AddObjectToObject(page->json, "service"), &versions);
    add_slices(page, id);
    return page->reason ? 503 : 200;
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
    struct page page = {.now = &server->now, .json = cJSON_CreateObject()};
    unsigned status = 400;
    if (is_name(namespace) && is_name(name)) {
        char *id = xasprintf("%s/%s", namespace, name);
        facts_add(page.json, fact_text("namespace", namespace), fact_text("name", name));
        status = answer_service(&page, id);
        free(id);
    } else {
        page.reason = "the request is /programmed?namespace=NAMESPACE&service=NAME";
    }
    facts_add(page.json, fact_flag("programmed", status == 200));
    if (page.reason)
        facts_add(page.json, fact_text("reason", page.reason));
    http_json(http, status, facts_print(page.json));
    cJSON_Delete(page.json);
}
