/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Typed API objects: just the fields of Service, EndpointSlice, ServiceCIDR and Node that are used
 * (docs/behaviour.md 1). Plain structs; decode.h makes them from JSON, object_clear() frees them.
 *
 * An object's id is "namespace/name", or "name" for a ServiceCIDR or Node. API names hold no slash.
 */
#ifndef KUBE_NFTD_MODEL_OBJECT_H
#define KUBE_NFTD_MODEL_OBJECT_H

#include "kube-nftd/base/vec.h"
#include "kube-nftd/model/address.h"
#include "kube-nftd/model/cidr.h"
#include "kube-nftd/model/object_metadata.h"
#include "kube-nftd/model/taint.h"

#include <stdbool.h>
#include <stdint.h>

/* One entry of spec.ports. */
struct service_port {
    const char *name; /* interned; never NULL; "" if it has none */
    uint8_t protocol;
    uint16_t port;
    uint16_t node_port; /* 0: none */
};

enum service_type { TYPE_CLUSTER_IP, TYPE_NODE_PORT, TYPE_LOAD_BALANCER, TYPE_EXTERNAL_NAME };

/* What few Services have: addresses for clients outside of the cluster. */
struct outside {
    /* externalIPs, and load-balancer ingress IPs of mode VIP: each in ascending order and once,
     * none of a family without a cluster IP. */
    address_vec external_ips[FAMILY_COUNT];
    address_vec load_balancer_ips[FAMILY_COUNT];
    /* loadBalancerSourceRanges, as disjoint ranges in ascending order; none: everybody is allowed.
     */
    range_vec source_ranges[FAMILY_COUNT];
};

/* Kept small: there is one for every Service of the cluster. */
struct service {
    char *id;
    struct object_version version; /* says nothing about whether two Services are equal */
    int64_t created; /* creationTimestamp, seconds since 1970; INT64_MAX if it has none */
    VEC(struct service_port) ports;
    struct outside *own_outside; /* NULL if there is nothing in it: see service_outside() */
    /* Fields that are ignored and why, "spec.a: ...; spec.b: ..."; NULL if there are none. Says
     * nothing about whether two Services are equal. */
    char *warnings;
    uint32_t affinity_timeout; /* session affinity ClientIP, in seconds; 0: none */
    /* In force: type LoadBalancer with externalTrafficPolicy Local. Else 0. */
    uint16_t health_check_node_port;
    /* An ExternalName or headless Service, or one without an address: it has no frontends. */
    bool skipped;
    bool external_local; /* externalTrafficPolicy Local, where it counts (docs/behaviour.md 1.2) */
    bool internal_local; /* internalTrafficPolicy Local */
    uint8_t type;        /* enum service_type; says nothing about whether two Services are equal */
    bool has_cluster_ip[FAMILY_COUNT];
    struct address cluster_ip[FAMILY_COUNT];
    struct uid uid; /* says nothing about whether two Services are equal, too */
};

/* The conditions of an endpoint, absent ones filled in as docs/behaviour.md 1.3 says. */
enum endpoint_flag {
    ENDPOINT_READY = 1 << 0,
    ENDPOINT_SERVING = 1 << 1,
    ENDPOINT_TERMINATING = 1 << 2,
};

/* Which nodes and zones should use an endpoint (hints.forNodes, hints.forZones). The names are
 * interned: first those of nodes, then those of zones. */
struct endpoint_hints {
    uint16_t n_nodes, n_zones;
    const char *names[];
};

struct slice_endpoint {
    struct address address;
    const char *node_name;        /* interned; NULL if it has none */
    struct endpoint_hints *hints; /* owned; NULL if it has none */
    uint8_t flags;                /* of enum endpoint_flag */
    uint8_t zone;                 /* see zone.h; 0: none */
};

/* One entry of a slice's ports. Entries without a number are left out by the decoder. */
struct slice_port {
    const char *name; /* interned; never NULL; "" if it has none */
    uint8_t protocol;
    uint16_t port;
};

struct endpoint_slice {
    char *id;
    char *service_id;              /* the Service it belongs to; NULL without the label */
    struct object_version version; /* says nothing about whether two slices are equal */
    /* False for FQDN and unknown address types; then family means nothing and it has no endpoints.
     */
    bool has_family;
    enum family family;
    VEC(struct slice_port) ports;         /* by protocol, name and number, each once */
    VEC(struct slice_endpoint) endpoints; /* endpoints without any address are left out */
};

/* Ports of a slice that follow each other. */
struct slice_ports {
    const struct slice_port *v;
    size_t n;
};

/* The CIDRs of a ServiceCIDR, at most one a family. */
struct service_cidr {
    char *id;
    bool has_cidr[FAMILY_COUNT];
    struct cidr cidr[FAMILY_COUNT];
};

struct node {
    char *id;
    struct uid uid; /* unknown where it could not be read */
    char *zone;     /* of the label topology.kubernetes.io/zone; NULL if it has none */
    /* The first address of each family, InternalIPs before ExternalIPs (docs/behaviour.md 1.4). */
    bool has_ip[FAMILY_COUNT];
    struct address ip[FAMILY_COUNT];
    /* The first of spec.podCIDRs of each family. */
    bool has_pod_cidr[FAMILY_COUNT];
    struct cidr pod_cidr[FAMILY_COUNT];
    bool deleting;      /* has a deletionTimestamp */
    bool to_be_deleted; /* carries the taint ToBeDeletedByClusterAutoscaler */
    taint_vec taints;   /* in their order; texts are owned */
};

/*
 * An object of one of the kinds. With all payload pointers NULL it says: this object exists, but
 * cannot be read now; what was known of it stays active.
 */
struct object {
    enum object_kind kind;
    char *id; /* owned; also while the payload has its own */
    /* Of Services and EndpointSlices without payload; else the payload has it. */
    struct object_version version;
    char *owner; /* owned; the Service of an EndpointSlice without payload, if that could be read */
    /* When what an EndpointSlice says began to be so, seconds since 1970 (annotation
     * endpoints.kubernetes.io/last-change-trigger-time, docs/behaviour.md 7); 0 if it does not say.
     * Here and not in the slice, since nobody needs it once the slice is applied. */
    double trigger_time;
    struct uid *uid; /* owned; of one without payload, where it could be read; else NULL */
    union {
        struct service *service;
        struct endpoint_slice *slice;
        struct service_cidr *service_cidr;
        struct node *node;
        void *payload;
    };
};

typedef VEC(struct object) object_vec;

/** The addresses of @service for clients outside of the cluster; empty lists if it has none. */
const struct outside *service_outside(const struct service *service);

/** The same, to be added to. */
struct outside *service_make_outside(struct service *service);

/** Takes over what is in @outside, which @service has none of; of nothing, it still has none. */
void service_take_outside(struct service *service, const struct outside *outside);

/** The id of @name in a namespace, of whose text @length bytes count; for the caller to free. */
char *object_id(const char *namespace, size_t length, const char *name);

void service_free(struct service *service);
void endpoint_slice_free(struct endpoint_slice *slice);
void service_cidr_free(struct service_cidr *service_cidr);
void node_free(struct node *node);

/** "LoadBalancer", for one of enum service_type. */
const char *service_type_name(enum service_type type);

/** Whether the two say the same in every field that is kept (but for versions, warnings, types). */
bool service_equal(const struct service *a, const struct service *b);
bool endpoint_slice_equal(const struct endpoint_slice *a, const struct endpoint_slice *b);

/** Whether the two endpoints of one address have the same attributes. */
bool slice_endpoint_equal(const struct slice_endpoint *a, const struct slice_endpoint *b);

/** Brings ports that came in any order, some perhaps more than once, into that of a slice's. */
void endpoint_slice_sort_ports(struct endpoint_slice *slice);

/** The ports of that name and protocol: what @slice gives to a service port. */
struct slice_ports endpoint_slice_ports(const struct endpoint_slice *slice, const char *name,
                                        uint8_t protocol);

/** Takes the first of @rest, of which there are some, and those of its name and protocol. */
struct slice_ports slice_ports_take(struct slice_ports *rest);

/** Whether @slice has a port of that name, protocol and number. */
bool endpoint_slice_has_port(const struct endpoint_slice *slice, const struct slice_port *port);

/** The order of ports as far as names and protocols decide. */
int slice_port_compare_keys(const struct slice_port *a, const struct slice_port *b);

/** Whether the two have the same endpoints in the same order. */
bool slice_endpoints_equal(const struct endpoint_slice *a, const struct endpoint_slice *b);

/** Frees what @object owns and zeroes it. */
void object_clear(struct object *object);

/** Clears every object of @objects and frees the array. */
void object_vec_clear(object_vec *objects);

#endif
