/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kubernetes objects as plain values, and their parts: addresses, CIDRs, versions, taints. Decoders
 * read a tree of values; their errors name the object, the field and the rejected value. The caller
 * that receives an object owns it and frees it with the object's own function.
 */
#ifndef KUBE_NFTD_MODEL_H
#define KUBE_NFTD_MODEL_H

#include "kube-nftd/base.h"
#include "kube-nftd/values.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* IP addresses, families and protocols. */

enum family { FAMILY_IPV4, FAMILY_IPV6, FAMILY_COUNT };

/* Network byte order. An IPv4 address uses the first four bytes; the others are zero. */
struct address {
    uint8_t bytes[16];
};

typedef VEC(struct address) address_vec;

/* Size of any address as text, with its NUL. */
#define ADDRESS_TEXT_SIZE 46

/**
 * Parses an address (docs/behaviour.md 1.6): octets with leading zeros are decimal, and an
 * IPv4-mapped IPv6 address is IPv4. Returns false and leaves the outputs unchanged if @text is not
 * an address.
 */
bool address_parse(const char *text, enum family *family, struct address *address);

/** Writes @address as text. Returns @out. */
const char *address_format(enum family family, const struct address *address,
                           char out[ADDRESS_TEXT_SIZE]);

/** Orders addresses of one family, for qsort() and bsearch(). */
int address_compare(const void *a, const void *b);

/** Sorts addresses of one family and removes duplicates. */
void addresses_normalize(address_vec *addresses);

/** Whether @addresses, in any order, contain @address. */
bool addresses_contain(const address_vec *addresses, const struct address *address);

/** Whether @address is in 127.0.0.0/8 or is ::1. */
bool address_is_loopback(enum family family, const struct address *address);

/** Whether @address is in 169.254.0.0/16 or fe80::/10. */
bool address_is_link_local(enum family family, const struct address *address);

/** Why no client outside of the host can reach @address: "a loopback address" (static); NULL if
 * nothing rules it out. */
const char *address_special(enum family family, const struct address *address);

/** Hashes an address and a port (or 0) for in-memory tables. */
static inline uint64_t address_hash(const struct address *address, uint16_t port)
{
    uint64_t low, high;
    memcpy(&low, address->bytes, sizeof(low));
    memcpy(&high, address->bytes + sizeof(low), sizeof(high));
    uint64_t mixed = (low ^ (uint64_t)port << 48) * UINT64_C(0x9e3779b97f4a7c15) + high;
    mixed = (mixed ^ mixed >> 32) * UINT64_C(0xc2b2ae3d27d4eb4f);
    return mixed ^ mixed >> 32;
}

/** 4 or 16 bytes. */
static inline size_t address_length(enum family family)
{
    return family == FAMILY_IPV4 ? 4 : 16;
}

/** "IPv4" or "IPv6", as the Kubernetes API writes it. */
const char *family_name(enum family family);

/** "TCP", "UDP" or "SCTP" for the IP protocol number; NULL for others. */
const char *protocol_name(uint8_t protocol);

/** The IP protocol number of "TCP", "UDP" or "SCTP"; 0 for other names. */
uint8_t protocol_parse(const char *name);

/** Parses @length bytes of @text as a port from 1 to 65535, without other characters. */
bool port_parse(const char *text, size_t length, uint16_t *port);

/* Where a server listens. */
struct listen_address {
    enum family family;
    struct address address;
    bool both_families; /* every address of both families; the fields above are ignored */
    uint16_t port;
};

/**
 * Parses "IP:port", "[IPv6]:port" or a bare address, which gets @default_port. 0.0.0.0 and [::]
 * mean both families. Returns 0, or -1 with an error and @address unchanged.
 */
int listen_address_parse(const char *text, uint16_t default_port, struct listen_address *address,
                         struct error *err);

/** "IP:port" or "[IPv6]:port", as listen_address_parse() reads it, for the caller to free. */
char *listen_address_format(const struct listen_address *address);

/* CIDRs and address ranges. */

/* Host bits are zero. */
struct cidr {
    struct address address;
    uint8_t length; /* prefix length in bits */
};

typedef VEC(struct cidr) cidr_vec;

/* Includes both ends. */
struct address_range {
    struct address first, last;
};

typedef VEC(struct address_range) range_vec;

/**
 * Parses a CIDR (docs/behaviour.md 1.6): the address as in address_parse(), with host bits cleared.
 * Returns false and leaves the outputs unchanged if @text is not a CIDR.
 */
bool cidr_parse(const char *text, enum family *family, struct cidr *cidr);

bool cidr_equal(const struct cidr *a, const struct cidr *b);

/** Whether @cidr contains @address of the same family. One with host bits contains none. */
bool cidr_contains(const struct cidr *cidr, const struct address *address);

/** Shortens @cidr to the longest prefix that contains @address, of the same family, too. */
void cidr_widen(struct cidr *cidr, const struct address *address);

/** The address range of a CIDR of @family. */
struct address_range cidr_range(enum family family, const struct cidr *cidr);

/** Appends the fewest prefixes that cover exactly @range to @out, in ascending order. No prefix has
 * length 0: two halves stand for all addresses. */
void range_prefixes(enum family family, const struct address_range *range, cidr_vec *out);

/** Whether any of the ranges contains @address. */
bool ranges_contain(const range_vec *ranges, const struct address *address);

/* Size of two addresses with a dash, or of a CIDR, as text. */
#define RANGE_TEXT_SIZE (2 * ADDRESS_TEXT_SIZE + 1)

/** Writes @range as "10.0.0.0/8" if it is a CIDR, else as "10.0.0.1-10.0.0.9". Returns @out. */
const char *range_format(enum family family, const struct address_range *range,
                         char out[RANGE_TEXT_SIZE]);

/**
 * Sorts ranges of one family and merges those that overlap or touch. The result is disjoint and
 * ascending, as an interval set requires.
 */
void ranges_normalize(enum family family, range_vec *ranges);

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

/** Parses a UUID in lower case, as the server writes it. Anything else, and NULL, counts as
 * unknown: returns false, and @uid is all zero. */
bool uid_parse(const char *text, struct uid *uid);

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
    char *id; /* owned, independent of the payload's id */
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

void service_free(struct service *service);
void endpoint_slice_free(struct endpoint_slice *slice);
void service_cidr_free(struct service_cidr *service_cidr);
void node_free(struct node *node);

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

/** Whether @slice has a port of that name, protocol and number. */
bool endpoint_slice_has_port(const struct endpoint_slice *slice, const struct slice_port *port);

/** Orders ports by protocol and name only. */
int slice_port_compare_keys(const struct slice_port *a, const struct slice_port *b);

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

/*
 * Events about objects, for their owners; the API server's source posts them. Reporters call an
 * event_sink and do not wait; delivery is the sink's concern (kube-nftd/source.h).
 */

enum event_type { EVENT_NORMAL, EVENT_WARNING };

/* Pointers are borrowed for the call. */
struct object_event {
    enum object_kind kind; /* of the object concerned */
    const char *id;
    struct uid uid; /* unknown: looked up for a known Service */
    enum event_type type;
    const char *reason; /* one word for programs: "FailedToStartServiceHealthcheck"; static */
    const char *action; /* the attempted action in one word */
    const char *note;   /* free text; cut at 1024 bytes */
    /* Every node would report the same event: post it once. */
    bool everywhere;
};

struct event_sink {
    void *ctx;
    void (*report)(void *ctx, const struct object_event *event);
};

/** Reports to @sink, if not NULL. */
static inline void event_report(const struct event_sink *sink, const struct object_event *event)
{
    if (sink)
        sink->report(sink->ctx, event);
}

/* Frontends and backends. */

/* An address, protocol and port that clients connect to. No padding: used as a hash key. */
struct frontend {
    struct address address;
    uint16_t port;
    uint8_t protocol;
    uint8_t family; /* of enum family */
};

static inline struct hash_key hash_key_of_frontend(const struct frontend *frontend)
{
    return (struct hash_key){frontend, sizeof(*frontend)};
}

/* The destination of a connection, of the same family as its frontend. */
struct backend {
    struct address address;
    uint16_t port;
};

/* Size of "[address]:port/SCTP" with its NUL. */
#define FRONTEND_TEXT_SIZE (ADDRESS_TEXT_SIZE + 16)

/** Writes @frontend as "10.96.0.1:80/TCP" or "[fd00::1]:80/TCP". Returns @out. */
const char *frontend_format(const struct frontend *frontend, char out[FRONTEND_TEXT_SIZE]);

/* Size of "[address]:port" with its NUL. */
#define BACKEND_TEXT_SIZE (ADDRESS_TEXT_SIZE + 9)

/** Writes @backend as "10.244.0.1:8080" or "[fd00::1]:8080". Returns @out. */
const char *backend_format(enum family family, const struct backend *backend,
                           char out[BACKEND_TEXT_SIZE]);

/** Orders backends by address, then port. */
int backend_compare(const void *a, const void *b);

static inline bool backend_equal(const struct backend *a, const struct backend *b)
{
    return a->port == b->port && memcmp(&a->address, &b->address, sizeof(a->address)) == 0;
}

/* Routes: the desired state of frontends and of the service ports behind them, as decided by
 * policy. */

/* Ids of service ports range from 1 to this. */
#define MOST_ROUTE_ID INT32_MAX

/* How new connections to a frontend are handled. */
struct route {
    uint32_t port; /* id of the service port that provides the backends */
    /* An external IP, load-balancer IP or NodePort rather than a cluster IP. Masqueraded, unless
     * the traffic policy is Local. */
    bool external;
    /* The traffic policy is Local: connections go to local_backends. For external frontends, those
     * from pods and the host itself go to backends instead (short-circuit). */
    bool local;
    /* Session affinity is on. */
    bool affine;
    /* Only the port's sources may connect. */
    bool restricted;
};

/* The backends of a service port, shared by its frontends. Sorted by backend_compare. */
struct port_route {
    const char *service_id; /* "namespace/name", by whose namespace numbers are shared; or NULL */
    /* Some endpoint on any node can serve. If false, connections are rejected; if true but the
     * policy is Local and local_backends is empty, they are dropped. */
    bool has_any;
    /* Some frontend may use the Cluster set; the local set. */
    bool needs_cluster, needs_local;
    const struct backend *backends; /* the Cluster set */
    size_t n_backends;
    const struct backend *local_backends;
    size_t n_local;
    size_t left_out;           /* further backends, which the port's namespace has no room for */
    uint32_t affinity_timeout; /* of session affinity, in seconds; 0: none */
    /* With session affinity: a hash of the Service's uid and name and of the port's name and
     * protocol, for the next process; 0: unknown. */
    uint32_t identity;
    /* Sources that may connect to restricted frontends: disjoint, ascending ranges. NULL: no
     * frontend is restricted. */
    const struct address_range *sources;
    size_t n_sources;
};

/* A backend is added to a service port or removed. */
struct backend_change {
    struct backend backend;
    bool comes;
};

/* Changes to the backends of a service port; the rest of it is unchanged. Several changes of one
 * backend alternate between adding and removing; the first one changes its current state. */
struct port_route_change {
    const struct backend_change *backends; /* of the Cluster set */
    size_t n_backends;
    const struct backend_change *local_backends;
    size_t n_local;
};

typedef VEC(struct backend) backend_vec;

/* Counts of service ports with endpoints, but none on this node although their internal or external
 * traffic policy is Local. */
struct ports_without_local {
    size_t internal, external;
};

/*
 * Kubernetes' protobuf messages: the numbers of the fields that decoders in src/model and
 * src/source read. All other fields are skipped.
 */

/** The body of an answer: a list or a Status in its envelope. */
extern const struct proto_format message_body;

/** The frames of a watch: {"type": ..., "object": ...}. */
extern const struct proto_format message_watch;

/* The interface from sources to the cache. A source does not know the receiver. */

struct object_sink {
    void *ctx;

    /* The complete contents of a kind: objects not listed are gone. An object without payload keeps
     * its known state. The first replace of a kind is its first sync. Takes the objects and leaves
     * the vector empty. */
    void (*replace)(void *ctx, enum object_kind kind, object_vec *objects);

    /* One object was added or changed; one without payload is only counted. Takes the object and
     * leaves it zeroed. */
    void (*put)(void *ctx, struct object *object);

    /* One object was deleted. Unknown ids are fine. */
    void (*remove)(void *ctx, enum object_kind kind, const char *id);
};

/* Zones of endpoints, numbered in one byte since a cluster has few. Zones are only displayed, so
 * those after the first 255 are not stored. */

/** The number of a zone (copied); 0 for NULL, "" or a zone beyond the limit. */
uint8_t zone_number(const char *name);

/** The zone with a number, valid forever; NULL for 0. */
const char *zone_name(uint8_t number);

#endif
