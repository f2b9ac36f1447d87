/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Typed API objects: just the fields of Service, EndpointSlice and Node that are used (spec,
 * section 1). Plain structs; decode.h makes them from JSON, object_clear() frees them.
 *
 * An object's id is "namespace/name", or "name" for a Node. API names hold no slash.
 */
#ifndef KUBE_NFTD_MODEL_OBJECT_H
#define KUBE_NFTD_MODEL_OBJECT_H

#include "kube-nftd/base/vec.h"
#include "kube-nftd/model/address.h"

#include <stdbool.h>
#include <stdint.h>

enum object_kind { KIND_SERVICE, KIND_ENDPOINTSLICE, KIND_NODE, KIND_COUNT };

/* One entry of spec.ports. */
struct service_port {
    char *name; /* never NULL; "" if it has none */
    uint8_t protocol;
    uint16_t port;
};

struct service {
    char *id;
    int64_t created; /* creationTimestamp, seconds since 1970; INT64_MAX if it has none */
    /* An ExternalName or headless Service, or one without an address: it has no frontends. */
    bool skipped;
    bool has_cluster_ip[FAMILY_COUNT];
    struct address cluster_ip[FAMILY_COUNT];
    /* In force: type LoadBalancer with externalTrafficPolicy Local. Else 0. */
    uint16_t health_check_node_port;
    VEC(struct service_port) ports;
};

/* The conditions of an endpoint, absent ones filled in as spec 1.3 says. */
enum endpoint_flag {
    ENDPOINT_READY = 1 << 0,
    ENDPOINT_SERVING = 1 << 1,
    ENDPOINT_TERMINATING = 1 << 2,
};

struct slice_endpoint {
    struct address address;
    const char *node_name; /* interned; NULL if it has none */
    uint8_t flags;         /* of enum endpoint_flag */
};

/* One entry of a slice's ports. Entries without a number are left out by the decoder. */
struct slice_port {
    char *name; /* never NULL; "" if it has none */
    uint8_t protocol;
    uint16_t port;
};

struct endpoint_slice {
    char *id;
    char *service_id; /* the Service it belongs to; NULL without the label */
    /* False for FQDN and unknown address types; then family means nothing and it has no endpoints.
     */
    bool has_family;
    enum family family;
    VEC(struct slice_port) ports;
    VEC(struct slice_endpoint) endpoints; /* endpoints without any address are left out */
};

struct node {
    char *id;
    bool deleting;      /* has a deletionTimestamp */
    bool to_be_deleted; /* carries the taint ToBeDeletedByClusterAutoscaler */
};

/*
 * An object of one of the kinds. With all payload pointers NULL it says: this object exists, but
 * cannot be read now; what was known of it stays in force.
 */
struct object {
    enum object_kind kind;
    char *id; /* owned; also while the payload has its own */
    union {
        struct service *service;
        struct endpoint_slice *slice;
        struct node *node;
        void *payload;
    };
};

typedef VEC(struct object) object_vec;

/** "Service", "EndpointSlice" or "Node". */
const char *object_kind_name(enum object_kind kind);

void service_free(struct service *service);
void endpoint_slice_free(struct endpoint_slice *slice);
void node_free(struct node *node);

/** Whether the two say the same in every field that is kept. */
bool service_equal(const struct service *a, const struct service *b);
bool endpoint_slice_equal(const struct endpoint_slice *a, const struct endpoint_slice *b);

/** Whether the two have the same endpoints in the same order. */
bool slice_endpoints_equal(const struct endpoint_slice *a, const struct endpoint_slice *b);

/** Frees what @object owns and zeroes it. */
void object_clear(struct object *object);

/** Clears every object of @objects and frees the array. */
void object_vec_clear(object_vec *objects);

#endif
