/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kubernetes objects as plain values, and their parts: versions, uids, taints, zones. Decoders read
 * a tree of values; their errors name the object, the field and the rejected value. The caller that
 * receives an object owns it and frees it with the object's own function.
 */
#ifndef KUBE_NFTD_MODEL_H
#define KUBE_NFTD_MODEL_H

#include "kube-nftd/base.h"
#include "kube-nftd/net.h"
#include "kube-nftd/values.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Kind, resourceVersion and uid of an object. */

/* resourceVersions are opaque but go into URLs. Longer ones (in bytes) are not used. */
#define RESOURCE_VERSION_LIMIT 1024

/*
 * An object's resourceVersion. It is opaque to Kubernetes clients and stored exactly. With etcd it
 * is always a decimal number, which takes 8 bytes and no allocation.
 *
 * Starts zeroed, as unset; release with object_version_clear().
 */
struct object_version {
    uint64_t bits; /* 0: unset; odd: a number; else a pointer to the owned text */
};

/* Size of a number as text. */
#define OBJECT_VERSION_SIZE 21

/** Sets @version to the resourceVersion @text of an object; NULL or "": the object has none. */
void object_version_set(struct object_version *version, const char *text);

/** The resourceVersion: "" for an object without one, NULL if unset. Borrowed from @version, or
 * written to @number. */
const char *object_version_text(const struct object_version *version,
                                char number[OBJECT_VERSION_SIZE]);

/** Whether @version belongs to an object. */
bool object_version_is_set(const struct object_version *version);

bool object_version_equal(const struct object_version *a, const struct object_version *b);

void object_version_copy(struct object_version *version, const struct object_version *from);

/** Moves @from into @version; @from is unset afterwards. */
void object_version_move(struct object_version *version, struct object_version *from);

void object_version_clear(struct object_version *version);

/* metadata.uid as the 16 bytes of its UUID. All zero: unknown. */
struct uid {
    uint8_t bytes[16];
};

/* 36 characters and the NUL. */
#define UID_TEXT_SIZE 37

/** Writes @uid to @text, "" if unknown. Returns @text. */
const char *uid_format(const struct uid *uid, char text[UID_TEXT_SIZE]);

enum object_kind { KIND_SERVICE, KIND_ENDPOINTSLICE, KIND_SERVICECIDR, KIND_NODE, KIND_COUNT };

/** "Service", "EndpointSlice", "ServiceCIDR" or "Node". */
const char *object_kind_name(enum object_kind kind);

/* Taints of a Node, and patterns that select them. */

/* Texts are owned. In a Node's taint only time_added may be NULL. In a pattern a NULL value or
 * effect matches any. */
struct taint {
    char *key, *value, *effect;
    char *time_added; /* as written by the server; NULL in a pattern */
};

typedef VEC(struct taint) taint_vec;

/**
 * Parses a pattern: KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT, for the caller to clear. KEY
 * and VALUE follow the rules of labels; EFFECT is NoSchedule, PreferNoSchedule or NoExecute.
 * Anything else returns -1 with an error and clears @pattern.
 */
int taint_parse(const char *text, struct taint *pattern, struct error *err);

/** Frees the texts. */
void taint_clear(struct taint *taint);

/** Whether @pattern matches @taint. */
bool taint_matches(const struct taint *pattern, const struct taint *taint);

/*
 * Typed API objects with the fields of Service, EndpointSlice, ServiceCIDR and Node that are used
 * (docs/behaviour.md 1). Plain structs, created by object_decode() and freed by object_clear().
 *
 * An object's id is "namespace/name", or "name" for a ServiceCIDR or Node. API names have no slash.
 */

/* One entry of spec.ports. */
struct service_port {
    const char *name; /* interned; never NULL; "" if it has none */
    uint8_t protocol;
    uint16_t port;
    uint16_t node_port; /* 0: none */
};

enum service_type { TYPE_CLUSTER_IP, TYPE_NODE_PORT, TYPE_LOAD_BALANCER, TYPE_EXTERNAL_NAME };

/* Addresses for clients outside of the cluster, which few Services have. */
struct outside {
    /* externalIPs, and load-balancer ingress IPs of mode VIP: ascending, without duplicates, only
     * of families that have a cluster IP. */
    address_vec external_ips[FAMILY_COUNT];
    address_vec load_balancer_ips[FAMILY_COUNT];
    /* loadBalancerSourceRanges as disjoint, ascending ranges; empty: no restriction. */
    range_vec source_ranges[FAMILY_COUNT];
};

/* Kept small: the cache stores one per Service of the cluster. */
struct service {
    char *id;
    struct object_version version; /* ignored by service_equal() */
    int64_t created;               /* creationTimestamp, seconds since 1970; INT64_MAX: none */
    VEC(struct service_port) ports;
    struct outside *own_outside; /* NULL: empty, see service_outside() */
    /* Skipped fields and why, "spec.a: ...; spec.b: ..."; NULL: none. Ignored by
     * service_equal(). */
    char *warnings;
    uint32_t affinity_timeout; /* session affinity ClientIP, in seconds; 0: none */
    /* Set for type LoadBalancer with externalTrafficPolicy Local, else 0. */
    uint16_t health_check_node_port;
    /* An ExternalName or headless Service, or one without an address: no frontends. */
    bool skipped;
    bool external_local; /* externalTrafficPolicy Local, where it applies (docs/behaviour.md 1.2) */
    bool internal_local; /* internalTrafficPolicy Local */
    /* The load balancer has a hostname, or ipMode Proxy: clients go there, not to our addresses. */
    bool by_hostname, by_proxy;
    uint8_t type; /* enum service_type; ignored by service_equal() */
    bool has_cluster_ip[FAMILY_COUNT];
    struct address cluster_ip[FAMILY_COUNT];
    struct uid uid;
};

/* The conditions of an endpoint, with the defaults of docs/behaviour.md 1.3. */
enum endpoint_flag {
    ENDPOINT_READY = 1 << 0,
    ENDPOINT_SERVING = 1 << 1,
    ENDPOINT_TERMINATING = 1 << 2,
    /* In place of the others, in a decision: its address is a cluster IP or inside a ServiceCIDR.
     */
    ENDPOINT_SERVICE_ADDRESS = 1 << 3,
};

/* The nodes and zones that should use an endpoint (hints.forNodes, hints.forZones). Names are
 * interned: nodes first, then zones. */
struct endpoint_hints {
    uint16_t n_nodes, n_zones;
    const char *names[];
};

struct slice_endpoint {
    struct address address;
    const char *node_name;        /* interned; NULL: none */
    struct endpoint_hints *hints; /* owned; NULL: none */
    uint8_t flags;                /* of enum endpoint_flag */
    uint8_t zone;                 /* see zone_name(); 0: none */
};

/* One entry of a slice's ports. The decoder skips entries without a number. */
struct slice_port {
    const char *name; /* interned; never NULL; "" if it has none */
    uint8_t protocol;
    uint16_t port;
};

struct endpoint_slice {
    char *id;
    char *service_id;              /* its Service; NULL without the label */
    struct object_version version; /* ignored by endpoint_slice_equal() */
    /* False for FQDN and unknown address types: family is meaningless and endpoints is empty. */
    bool has_family;
    enum family family;
    VEC(struct slice_port) ports;         /* by protocol, name and number, without duplicates */
    VEC(struct slice_endpoint) endpoints; /* without those lacking an address */
};

/* Consecutive ports of a slice. */
struct slice_ports {
    const struct slice_port *v;
    size_t n;
};

/* The CIDRs of a ServiceCIDR, at most one per family. */
struct service_cidr {
    char *id;
    bool has_cidr[FAMILY_COUNT];
    struct cidr cidr[FAMILY_COUNT];
};

struct node {
    char *id;
    struct uid uid; /* all zero if unreadable */
    char *zone;     /* label topology.kubernetes.io/zone; NULL: none */
    /* The first address of each family, InternalIPs before ExternalIPs (docs/behaviour.md 1.4). */
    bool has_ip[FAMILY_COUNT];
    struct address ip[FAMILY_COUNT];
    /* The first of spec.podCIDRs of each family. */
    bool has_pod_cidr[FAMILY_COUNT];
    struct cidr pod_cidr[FAMILY_COUNT];
    bool deleting;      /* deletionTimestamp is set */
    bool to_be_deleted; /* has the taint ToBeDeletedByClusterAutoscaler */
    taint_vec taints;   /* in the Node's order; texts are owned */
};

/*
 * An object of any kind. All payload pointers NULL means: the object exists but cannot be decoded
 * now; its last known state stays active.
 */
struct object {
    enum object_kind kind;
    char *id; /* the payload's, if there is one; else owned */
    /* Of Services and EndpointSlices without payload; otherwise in the payload. */
    struct object_version version;
    char *owner; /* owned; Service of an EndpointSlice without payload, if readable */
    /* Time of the change behind an EndpointSlice, seconds since 1970 (annotation
     * endpoints.kubernetes.io/last-change-trigger-time, docs/behaviour.md 7); 0: none. Not part of
     * the slice, since it is unused once the slice is applied. */
    double trigger_time;
    struct uid *uid; /* owned; of an object without payload, if readable; else NULL */
    union {
        struct service *service;
        struct endpoint_slice *slice;
        struct service_cidr *service_cidr;
        struct node *node;
        void *payload;
    };
};

typedef VEC(struct object) object_vec;

/** The external addresses of @service; empty lists if it has none. */
const struct outside *service_outside(const struct service *service);

/** The same, to add to. */
struct outside *service_make_outside(struct service *service);

/** Moves the contents of @outside to @service, which has none. An empty @outside leaves it so. */
void service_take_outside(struct service *service, const struct outside *outside);

/** The id of @name in the namespace in the first @length bytes, for the caller to free. */
char *object_id(const char *namespace, size_t length, const char *name);

/** The API's name of @type: "LoadBalancer". */
const char *service_type_name(enum service_type type);

/** Whether all stored fields are equal, except for versions, warnings and types. */
bool service_equal(const struct service *a, const struct service *b);
bool endpoint_slice_equal(const struct endpoint_slice *a, const struct endpoint_slice *b);

/** Whether two endpoints with the same address have equal attributes. */
bool slice_endpoint_equal(const struct slice_endpoint *a, const struct slice_endpoint *b);

/** Sorts the ports and removes duplicates. */
void endpoint_slice_sort_ports(struct endpoint_slice *slice);

/** The ports of that name and protocol, which serve one service port. */
struct slice_ports endpoint_slice_ports(const struct endpoint_slice *slice, const char *name,
                                        uint8_t protocol);

/** Whether both have equal ports. */
bool slice_ports_equal(const struct endpoint_slice *a, const struct endpoint_slice *b);

/** Frees what @object owns and zeroes it. */
void object_clear(struct object *object);

/** Clears every object of @objects and frees the array. */
void object_vec_clear(object_vec *objects);

/* Decoding of JSON objects into typed ones. */

enum decode_result {
    DECODE_OK,    /* the object is filled in */
    DECODE_OTHER, /* unused kind or API version; @out is unchanged */
    DECODE_BAD,   /* a field is missing, mistyped or out of range; the error names it */
};

/** Whether @json is of @kind, or has neither kind nor apiVersion. */
bool object_may_be(const struct json_value *json, enum object_kind kind);

/**
 * Decodes one object (docs/behaviour.md 1.2 to 1.4).
 *
 * @json      the object as the API writes it; unknown fields are ignored
 * @expected  the default kind (with its apiVersion) for objects that carry none, as list items do;
 *            -1: no default
 * @out       DECODE_OK: the object, for the caller to clear. DECODE_BAD: no payload (see struct
 *            object), only the kind and, if metadata was readable, the id, the version and (of a
 *            slice) the Service; clear it too
 * @err       DECODE_BAD: kind, namespace/name, field and the fault
 */
enum decode_result object_decode(const struct json_value *json, int expected, struct object *out,
                                 struct error *err);

/** The kind of the items of a @list_kind ("ServiceList" ...), or -1 if unknown. */
int object_kind_of_list(const char *list_kind);

/* Zones of endpoints, numbered in one byte since a cluster has few. Zones are only displayed, so
 * those after the first 255 are not stored. */

/** The number of a zone (copied); 0 for NULL, "" or a zone beyond the limit. */
uint8_t zone_number(const char *name);

/** The zone with a number, valid forever; NULL for 0. */
const char *zone_name(uint8_t number);

#endif
