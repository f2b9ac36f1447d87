/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Objects, their versions, uids, and the zones of endpoints. */
#include "decode.h"

#include <inttypes.h>
#include <stdio.h>

const struct outside *service_outside(const struct service *service)
{
    static const struct outside nothing;
    return service->own_outside ? service->own_outside : &nothing;
}

struct outside *service_make_outside(struct service *service)
{
    if (!service->own_outside)
        service->own_outside = xcalloc(1, sizeof(*service->own_outside));
    return service->own_outside;
}

static void outside_free(struct outside *outside)
{
    for (int family = 0; outside && family < FAMILY_COUNT; family++) {
        vec_free(&outside->external_ips[family]);
        vec_free(&outside->load_balancer_ips[family]);
        vec_free(&outside->source_ranges[family]);
    }
    free(outside);
}

void service_take_outside(struct service *service, const struct outside *outside)
{
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (outside->external_ips[family].n > 0 || outside->load_balancer_ips[family].n > 0 ||
            outside->source_ranges[family].n > 0)
            *service_make_outside(service) = *outside;
}

char *object_id(const char *namespace, size_t length, const char *name)
{
    size_t name_length = strlen(name);
    char *id = xreallocarray(NULL, length + 1 + name_length + 1, 1);
    memcpy(id, namespace, length);
    id[length] = '/';
    memcpy(id + length + 1, name, name_length + 1);
    return id;
}

static void service_free(struct service *service)
{
    vec_each (&service->ports, port)
        intern_release(port->name);
    vec_free(&service->ports);
    outside_free(service->own_outside);
    object_version_clear(&service->version);
    free(service->warnings);
    free(service->id);
    free(service);
}

static void hints_free(struct endpoint_hints *hints)
{
    if (!hints)
        return;
    for (size_t i = 0; i < (size_t)hints->n_nodes + hints->n_zones; i++)
        intern_release(hints->names[i]);
    free(hints);
}

static void endpoint_slice_free(struct endpoint_slice *slice)
{
    vec_each (&slice->ports, port)
        intern_release(port->name);
    vec_each (&slice->endpoints, endpoint) {
        intern_release(endpoint->node_name);
        hints_free(endpoint->hints);
    }
    vec_free(&slice->ports);
    vec_free(&slice->endpoints);
    free(slice->id);
    free(slice->service_id);
    object_version_clear(&slice->version);
    free(slice);
}

static void node_free(struct node *node)
{
    vec_each (&node->taints, taint)
        taint_clear(taint);
    vec_free(&node->taints);
    free(node->id);
    free(node->zone);
    free(node);
}

static bool string_equal(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool address_equal(const struct address *a, const struct address *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* Arrays of values without padding. */
static bool array_equal(const void *a, size_t n_a, const void *b, size_t n_b, size_t size)
{
    return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a * size) == 0);
}

#define VEC_EQUAL(a, b) array_equal((a)->v, (a)->n, (b)->v, (b)->n, sizeof(*(a)->v))

static bool service_ports_equal(const struct service *a, const struct service *b)
{
    if (a->ports.n != b->ports.n)
        return false;
    for (size_t i = 0; i < a->ports.n; i++) {
        const struct service_port *p = &a->ports.v[i], *q = &b->ports.v[i];
        if (p->name != q->name || p->protocol != q->protocol || p->port != q->port ||
            p->node_port != q->node_port)
            return false;
    }
    return true;
}

static bool service_family_equal(const struct service *a, const struct service *b, int family)
{
    const struct outside *p = service_outside(a), *q = service_outside(b);
    return a->has_cluster_ip[family] == b->has_cluster_ip[family] &&
           address_equal(&a->cluster_ip[family], &b->cluster_ip[family]) &&
           VEC_EQUAL(&p->external_ips[family], &q->external_ips[family]) &&
           VEC_EQUAL(&p->load_balancer_ips[family], &q->load_balancer_ips[family]) &&
           VEC_EQUAL(&p->source_ranges[family], &q->source_ranges[family]);
}

const char *service_type_name(enum service_type type)
{
    static const char *const names[] = {
        [TYPE_CLUSTER_IP] = "ClusterIP",
        [TYPE_NODE_PORT] = "NodePort",
        [TYPE_LOAD_BALANCER] = "LoadBalancer",
        [TYPE_EXTERNAL_NAME] = "ExternalName",
    };
    return names[type];
}

bool service_equal(const struct service *a, const struct service *b)
{
    if (!string_equal(a->id, b->id) || a->created != b->created || a->skipped != b->skipped ||
        a->external_local != b->external_local || a->internal_local != b->internal_local ||
        a->by_hostname != b->by_hostname || a->by_proxy != b->by_proxy ||
        a->affinity_timeout != b->affinity_timeout ||
        a->health_check_node_port != b->health_check_node_port ||
        memcmp(&a->uid, &b->uid, sizeof(a->uid)) != 0)
        return false;
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (!service_family_equal(a, b, family))
            return false;
    return service_ports_equal(a, b);
}

/* Names are interned, so pointers are compared. */
static bool hints_equal(const struct endpoint_hints *a, const struct endpoint_hints *b)
{
    if (!a || !b)
        return a == b;
    return a->n_nodes == b->n_nodes && a->n_zones == b->n_zones &&
           array_equal(a->names, (size_t)a->n_nodes + a->n_zones, b->names,
                       (size_t)b->n_nodes + b->n_zones, sizeof(*a->names));
}

bool slice_endpoint_equal(const struct slice_endpoint *a, const struct slice_endpoint *b)
{
    return a->node_name == b->node_name && a->flags == b->flags && a->zone == b->zone &&
           hints_equal(a->hints, b->hints);
}

static bool slice_endpoints_equal(const struct endpoint_slice *a, const struct endpoint_slice *b)
{
    if (a->endpoints.n != b->endpoints.n)
        return false;
    for (size_t i = 0; i < a->endpoints.n; i++) {
        const struct slice_endpoint *p = &a->endpoints.v[i], *q = &b->endpoints.v[i];
        if (!address_equal(&p->address, &q->address) || !slice_endpoint_equal(p, q))
            return false;
    }
    return true;
}

bool slice_ports_equal(const struct endpoint_slice *a, const struct endpoint_slice *b)
{
    if (a->ports.n != b->ports.n)
        return false;
    for (size_t i = 0; i < a->ports.n; i++) {
        const struct slice_port *p = &a->ports.v[i], *q = &b->ports.v[i];
        if (p->name != q->name || p->protocol != q->protocol || p->port != q->port)
            return false;
    }
    return true;
}

bool endpoint_slice_equal(const struct endpoint_slice *a, const struct endpoint_slice *b)
{
    return string_equal(a->id, b->id) && string_equal(a->service_id, b->service_id) &&
           a->has_family == b->has_family && a->family == b->family && slice_ports_equal(a, b) &&
           slice_endpoints_equal(a, b);
}

void object_clear(struct object *object)
{
    if (!object->payload) {
        free(object->id);
    } else if (object->kind == KIND_SERVICE) {
        service_free(object->service);
    } else if (object->kind == KIND_ENDPOINTSLICE) {
        endpoint_slice_free(object->slice);
    } else if (object->kind == KIND_NODE) {
        node_free(object->node);
    } else {
        free(object->service_cidr->id);
        free(object->service_cidr);
    }
    object_version_clear(&object->version);
    free(object->owner);
    free(object->uid);
    memset(object, 0, sizeof(*object));
}

void object_vec_clear(object_vec *objects)
{
    vec_each (objects, object)
        object_clear(object);
    vec_free(objects);
}

/* ---- resourceVersions ---- */

/* An object without a resourceVersion; encoded as a number that never occurs. */
#define UNVERSIONED UINT64_MAX
#define NUMBER_MOST (UINT64_MAX / 2 - 1)

static char *text_of(const struct object_version *version)
{
    if (version->bits == 0 || (version->bits & 1))
        return NULL;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): as the header says */
    return (char *)(uintptr_t)version->bits;
}

/* Parses @text if it is a canonical decimal number that fits. */
static bool version_number(const char *text, uint64_t *number)
{
    uint64_t n = 0;
    if (text[0] == '0' && text[1])
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        uint64_t digit = (uint64_t)(*text - '0');
        if (n > (NUMBER_MOST - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *number = n;
    return true;
}

void object_version_set(struct object_version *version, const char *text)
{
    uint64_t number;
    object_version_clear(version);
    if (!text || !*text)
        version->bits = UNVERSIONED;
    else if (version_number(text, &number))
        version->bits = number << 1 | 1;
    else
        version->bits = (uintptr_t)xstrdup(text);
}

const char *object_version_text(const struct object_version *version,
                                char number[OBJECT_VERSION_SIZE])
{
    if (version->bits == UNVERSIONED)
        return "";
    if (!(version->bits & 1))
        return text_of(version);
    snprintf(number, OBJECT_VERSION_SIZE, "%" PRIu64, version->bits >> 1);
    return number;
}

bool object_version_is_set(const struct object_version *version)
{
    return version->bits != 0;
}

bool object_version_equal(const struct object_version *a, const struct object_version *b)
{
    const char *text = text_of(a), *other = text_of(b);
    return text && other ? strcmp(text, other) == 0 : a->bits == b->bits;
}

void object_version_copy(struct object_version *version, const struct object_version *from)
{
    const char *text = text_of(from);
    object_version_clear(version);
    version->bits = text ? (uintptr_t)xstrdup(text) : from->bits;
}

void object_version_move(struct object_version *version, struct object_version *from)
{
    object_version_clear(version);
    *version = *from;
    from->bits = 0;
}

void object_version_clear(struct object_version *version)
{
    free(text_of(version));
    version->bits = 0;
}

/* ---- uid ---- */

/* 8-4-4-4-12 digits. */
static bool is_dash(size_t at)
{
    return at == 8 || at == 13 || at == 18 || at == 23;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool uid_parse(const char *text, struct uid *uid)
{
    struct uid parsed = {0};
    int found = 0; /* negative: an invalid digit */
    *uid = parsed;
    if (!text || strlen(text) != UID_TEXT_SIZE - 1)
        return false;
    const char *at = text;
    for (size_t i = 0; i < sizeof(parsed.bytes); i++, at += 2) {
        if (is_dash((size_t)(at - text)) && *at++ != '-')
            return false;
        int high = digit_value(at[0]), low = digit_value(at[1]);
        parsed.bytes[i] = (uint8_t)((unsigned)high << 4 | (unsigned)low);
        found |= high | low;
    }
    if (found < 0)
        return false;
    *uid = parsed;
    return true;
}

const char *uid_format(const struct uid *uid, char text[UID_TEXT_SIZE])
{
    static const struct uid unknown;
    char *at = text;
    *at = '\0';
    if (memcmp(uid, &unknown, sizeof(unknown)) == 0)
        return text;
    for (size_t i = 0; i < sizeof(uid->bytes); i++) {
        if (is_dash((size_t)(at - text)))
            *at++ = '-';
        at += snprintf(at, 3, "%02x", uid->bytes[i]);
    }
    return text;
}

/* ---- zones ---- */

static const char *zones[UINT8_MAX]; /* interned; zone number 1 first */

uint8_t zone_number(const char *name)
{
    if (!name || !*name)
        return 0;
    for (uint8_t i = 0; i < UINT8_MAX; i++) {
        if (!zones[i])
            zones[i] = intern(name);
        if (strcmp(zones[i], name) == 0)
            return i + 1;
    }
    return 0;
}

const char *zone_name(uint8_t number)
{
    return number ? zones[number - 1] : NULL;
}
