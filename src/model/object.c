/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/model/object.h"

#include "kube-nftd/base/intern.h"

#include <stdlib.h>
#include <string.h>

const char *object_kind_name(enum object_kind kind)
{
    static const char *const names[KIND_COUNT] = {
        [KIND_SERVICE] = "Service", [KIND_ENDPOINTSLICE] = "EndpointSlice", [KIND_NODE] = "Node"};
    return names[kind];
}

void service_free(struct service *service)
{
    if (!service)
        return;
    vec_each (&service->ports, port)
        free(port->name);
    vec_free(&service->ports);
    free(service->id);
    free(service);
}

void endpoint_slice_free(struct endpoint_slice *slice)
{
    if (!slice)
        return;
    vec_each (&slice->ports, port)
        free(port->name);
    vec_each (&slice->endpoints, endpoint)
        intern_release(endpoint->node_name);
    vec_free(&slice->ports);
    vec_free(&slice->endpoints);
    free(slice->id);
    free(slice->service_id);
    free(slice);
}

void node_free(struct node *node)
{
    if (!node)
        return;
    free(node->id);
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

bool service_equal(const struct service *a, const struct service *b)
{
    if (!string_equal(a->id, b->id) || a->created != b->created || a->skipped != b->skipped ||
        a->health_check_node_port != b->health_check_node_port || a->ports.n != b->ports.n)
        return false;
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (a->has_cluster_ip[family] != b->has_cluster_ip[family] ||
            !address_equal(&a->cluster_ip[family], &b->cluster_ip[family]))
            return false;
    for (size_t i = 0; i < a->ports.n; i++) {
        const struct service_port *p = &a->ports.v[i], *q = &b->ports.v[i];
        if (!string_equal(p->name, q->name) || p->protocol != q->protocol || p->port != q->port)
            return false;
    }
    return true;
}

bool slice_endpoints_equal(const struct endpoint_slice *a, const struct endpoint_slice *b)
{
    if (a->endpoints.n != b->endpoints.n)
        return false;
    for (size_t i = 0; i < a->endpoints.n; i++) {
        const struct slice_endpoint *p = &a->endpoints.v[i], *q = &b->endpoints.v[i];
        if (!address_equal(&p->address, &q->address) || p->node_name != q->node_name ||
            p->flags != q->flags)
            return false;
    }
    return true;
}

bool endpoint_slice_equal(const struct endpoint_slice *a, const struct endpoint_slice *b)
{
    if (!string_equal(a->id, b->id) || !string_equal(a->service_id, b->service_id) ||
        a->has_family != b->has_family || a->family != b->family || a->ports.n != b->ports.n)
        return false;
    for (size_t i = 0; i < a->ports.n; i++) {
        const struct slice_port *p = &a->ports.v[i], *q = &b->ports.v[i];
        if (!string_equal(p->name, q->name) || p->protocol != q->protocol || p->port != q->port)
            return false;
    }
    return slice_endpoints_equal(a, b);
}

void object_clear(struct object *object)
{
    switch (object->kind) {
    case KIND_SERVICE:
        service_free(object->service);
        break;
    case KIND_ENDPOINTSLICE:
        endpoint_slice_free(object->slice);
        break;
    case KIND_NODE:
        node_free(object->node);
        break;
    case KIND_COUNT:
        break;
    }
    free(object->id);
    memset(object, 0, sizeof(*object));
}

void object_vec_clear(object_vec *objects)
{
    vec_each (objects, object)
        object_clear(object);
    vec_free(objects);
}
