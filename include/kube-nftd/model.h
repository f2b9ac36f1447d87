/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kubernetes' objects as plain values, and what they are made of: addresses, CIDRs, versions,
 * taints. Decoders read a tree of values and name the object, the field and the value of what they
 * refuse. An object is owned by who got it, and freed by its own function.
 */
#ifndef KUBE_NFTD_MODEL_H
#define KUBE_NFTD_MODEL_H

#include "kube-nftd/base.h"
#include "kube-nftd/values.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* IP addresses, families and protocols, as plain values. */

enum family { FAMILY_IPV4, FAMILY_IPV6, FAMILY_COUNT };

/* Network byte order; an IPv4 address is in the first four bytes, the others are zero. */
struct address {
    uint8_t bytes[16];
};

typedef VEC(struct address) address_vec;

/* Room for the text of any address and its NUL. */
#define ADDRESS_TEXT_SIZE 46

/**
 * Reads an address (docs/behaviour.md 1.6): octets with leading zeros are decimal, IPv4-mapped IPv6
 * is IPv4. Returns false and leaves the outputs alone if @text is none.
 */
bool address_parse(const char *text, enum family *family, struct address *address);

/** Writes @address as text. Returns @out. */
const char *address_format(enum family family, const struct address *address,
                           char out[ADDRESS_TEXT_SIZE]);

/** The order of addresses of one family, for qsort() and bsearch(). */
int address_compare(const void *a, const void *b);

/** Sorts addresses of one family and leaves each of them once. */
void addresses_normalize(address_vec *addresses);

/** Whether @address is one of @addresses, in whatever order. */
bool addresses_contain(const address_vec *addresses, const struct address *address);

/** Whether @address is in 127.0.0.0/8 or is ::1. */
bool address_is_loopback(enum family family, const struct address *address);

/** Whether @address is in 169.254.0.0/16 or fe80::/10. */
bool address_is_link_local(enum family family, const struct address *address);

/** What @address is that no client outside of the host can reach it by: "a loopback address"
 * (static). NULL: nothing of that sort. */
const char *address_special(enum family family, const struct address *address);

/** Of an address and a port (or 0): for tables in memory. Inline, since it is a few instructions.
 */
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

/** The IP protocol number of "TCP", "UDP" or "SCTP"; 0 for any other text. */
uint8_t protocol_parse(const char *name);

/** Reads a port from 1 to 65535, which is all that @text (@length bytes) says. */
bool port_parse(const char *text, size_t length, uint16_t *port);

/* Where a server listens. */
struct listen_address {
    enum family family;
    struct address address;
    bool both_families; /* every address of both families; the two fields above do not count */
    uint16_t port;
};

/**
 * Reads "IP:port" or "[IPv6]:port", or a bare address, which gets @default_port. 0.0.0.0 and [::]
 * mean both families. Returns 0, or -1 with an error and @address left alone.
 */
int listen_address_parse(const char *text, uint16_t default_port, struct listen_address *address,
                         struct error *err);

/** "IP:port" or "[IPv6]:port", which listen_address_parse() would read, for the caller to free. */
char *listen_address_format(const struct listen_address *address);

/* CIDRs and ranges of addresses, as plain values. */

/* Host bits are zero. */
struct cidr {
    struct address address;
    uint8_t length; /* of the prefix, in bits */
};

typedef VEC(struct cidr) cidr_vec;

/* Both ends belong to it. */
struct address_range {
    struct address first, last;
};

typedef VEC(struct address_range) range_vec;

/**
 * Reads a CIDR (docs/behaviour.md 1.6): the address as address_parse() reads it, host bits are
 * cleared. Returns false and leaves the outputs alone if @text is none.
 */
bool cidr_parse(const char *text, enum family *family, struct cidr *cidr);

bool cidr_equal(const struct cidr *a, const struct cidr *b);

/** Whether @address, of the same family, is inside. */
bool cidr_contains(const struct cidr *cidr, const struct address *address);

/** The range that a CIDR of @family covers. */
struct address_range cidr_range(enum family family, const struct cidr *cidr);

/** Puts the prefixes that a range is made of behind @out, as few as can be, in ascending order.
 * None has a length of 0: two halves stand for everything. */
void range_prefixes(enum family family, const struct address_range *range, cidr_vec *out);

/** Whether @address is in one of the ranges. */
bool ranges_contain(const range_vec *ranges, const struct address *address);

/* Room for two addresses with a dash, or one with the length of a prefix. */
#define RANGE_TEXT_SIZE (2 * ADDRESS_TEXT_SIZE + 1)

/** Writes @range as "10.0.0.0/8" if it is a CIDR, else as "10.0.0.1-10.0.0.9". Returns @out. */
const char *range_format(enum family family, const struct address_range *range,
                         char out[RANGE_TEXT_SIZE]);

/**
 * Sorts ranges of one family and merges those that overlap or touch, so that they are disjoint and
 * ascending, as an interval set wants them.
 */
void ranges_normalize(enum family family, range_vec *ranges);

/* Kind, resourceVersion and uid of an object. */

/* resourceVersions are opaque, but they go into URLs: of more bytes than this they are not taken.
 */
#define RESOURCE_VERSION_LIMIT 1024

/*
 * An object's resourceVersion. To Kubernetes' clients that is an opaque text, and it is kept
 * exactly; but since it is a decimal number wherever etcd is behind, it takes 8 bytes then and no
 * allocation.
 *
 * Starts zeroed, as the version of nothing; release with object_version_clear().
 */
struct object_version {
    uint64_t bits; /* 0: of nothing; odd: a number; else a pointer to the text, which is owned */
};

/* Room for a number as text. */
#define OBJECT_VERSION_SIZE 21

/** Makes @version that of an object whose resourceVersion is @text; NULL or "": it has none. */
void object_version_set(struct object_version *version, const char *text);

/** The resourceVersion: "" for an object that has none, NULL for the version of nothing. Borrowed
 * from @version, or put into @number. */
const char *object_version_text(const struct object_version *version,
                                char number[OBJECT_VERSION_SIZE]);

/** Whether it is the version of an object at all. */
bool object_version_is_set(const struct object_version *version);

bool object_version_equal(const struct object_version *a, const struct object_version *b);

/** Makes @version a copy of @from. */
void object_version_copy(struct object_version *version, const struct object_version *from);

/** Moves @from into @version; @from is that of nothing then. */
void object_version_move(struct object_version *version, struct object_version *from);

void object_version_clear(struct object_version *version);

/* metadata.uid, which the API server makes as UUIDs: the 16 bytes that it stands for. All zero:
 * unknown. */
struct uid {
    uint8_t bytes[16];
};

/* Room for 36 characters and the NUL. */
#define UID_TEXT_SIZE 37

/** Reads a UUID in lower case as the server writes it. What is none (NULL too) is as good as
 * unknown: false, and @uid is all zero. */
bool uid_parse(const char *text, struct uid *uid);

/** Writes @uid into @text and returns it; "" if it is unknown. */
const char *uid_format(const struct uid *uid, char text[UID_TEXT_SIZE]);

enum object_kind { KIND_SERVICE, KIND_ENDPOINTSLICE, KIND_SERVICECIDR, KIND_NODE, KIND_COUNT };

/** "Service", "EndpointSlice", "ServiceCIDR" or "Node". */
const char *object_kind_name(enum object_kind kind);

/* A taint of a Node, and what may be asked for of one. */

/* Texts are owned. Of a Node's taint just time_added may be NULL; of a pattern a NULL value or
 * effect means any. */
struct taint {
    char *key, *value, *effect;
    char *time_added; /* as the server wrote it; a pattern has none */
};

typedef VEC(struct taint) taint_vec;

/**
 * Reads a pattern: KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT, for the caller to clear. KEY and
 * VALUE as label keys and values are, EFFECT NoSchedule, PreferNoSchedule or NoExecute. -1 with an
 * error, and @pattern all NULL, for anything else.
 */
int taint_parse(const char *text, struct taint *pattern, struct error *err);

/** Frees the texts. */
void taint_clear(struct taint *taint);

/** Whether @taint is one that @pattern means. */
bool taint_matches(const struct taint *pattern, const struct taint *taint);

/*
 * Typed API objects: just the fields of Service, EndpointSlice, ServiceCIDR and Node that are used
 * (docs/behaviour.md 1). Plain structs; object_decode() makes them, object_clear() frees them.
 *
 * An object's id is "namespace/name", or "name" for a ServiceCIDR or Node. API names hold no slash.
 */

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
    uint8_t zone;                 /* see zone_name(); 0: none */
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

/* JSON objects of the API into typed ones. */

enum decode_result {
    DECODE_OK,    /* the object is filled in */
    DECODE_OTHER, /* a kind or API version that kube-nftd does not use; nothing was written */
    DECODE_BAD,   /* a field is missing, mistyped or out of range; the error names it */
};

/** Whether @json says that it is of @kind, or says nothing of kind and apiVersion. */
bool object_may_be(const struct json_value *json, enum object_kind kind);

/**
 * Decodes one object (docs/behaviour.md 1.2 to 1.4).
 *
 * @json      the object as the API writes it; unknown fields are ignored
 * @expected  the kind and apiVersion to assume where the object carries none, as list items do:
 *            one of enum object_kind, or -1 for "it must say itself"
 * @out       DECODE_OK: the object, for the caller to clear. DECODE_BAD: the kind and, where
 *            metadata could be read, the id, the version and (of a slice) the Service, with no
 *            payload (see struct object); clear it too
 * @err       DECODE_BAD: kind, namespace/name, field and what is wrong with it
 */
enum decode_result object_decode(const struct json_value *json, int expected, struct object *out,
                                 struct error *err);

/** The kind of items of a list of @list_kind ("ServiceList" ...), or -1 for an unknown one. */
int object_kind_of_list(const char *list_kind);

/*
 * What is worth telling whoever owns an object: it becomes an Event of the API server. Whoever has
 * something to tell calls an event_sink and forgets it; where it goes, how often and whether at all
 * is the sink's affair (kube-nftd/source.h).
 */

enum event_type { EVENT_NORMAL, EVENT_WARNING };

/* All is borrowed for the time of the call. */
struct object_event {
    enum object_kind kind; /* what it is about */
    const char *id;
    struct uid uid; /* unknown: looked up, if it is a Service's that is known */
    enum event_type type;
    const char *reason; /* one word for programs: "FailedToStartServiceHealthcheck"; static */
    const char *action; /* what was done or tried, one word: "Listen"; static */
    const char *note;   /* for people; cut at 1024 bytes */
    /* Every node sees the same and would say the same: one Event of it is enough. */
    bool everywhere;
};

struct event_sink {
    void *ctx;
    void (*report)(void *ctx, const struct object_event *event);
};

/** Tells @sink, if it is not NULL. */
static inline void event_report(const struct event_sink *sink, const struct object_event *event)
{
    if (sink)
        sink->report(sink->ctx, event);
}

/* Frontends and backends as plain values. */

/* An address, protocol and port that clients talk to. No padding: used as a hash key. */
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

/* Where a connection goes. The family is that of its frontend. */
struct backend {
    struct address address;
    uint16_t port;
};

/* Room for "[address]:port/SCTP" and its NUL. */
#define FRONTEND_TEXT_SIZE (ADDRESS_TEXT_SIZE + 16)

/** Writes @frontend as "10.96.0.1:80/TCP" or "[fd00::1]:80/TCP". Returns @out. */
const char *frontend_format(const struct frontend *frontend, char out[FRONTEND_TEXT_SIZE]);

/* Room for "[address]:port" and its NUL. */
#define BACKEND_TEXT_SIZE (ADDRESS_TEXT_SIZE + 9)

/** Writes @backend as "10.244.0.1:8080" or "[fd00::1]:8080". Returns @out. */
const char *backend_format(enum family family, const struct backend *backend,
                           char out[BACKEND_TEXT_SIZE]);

/** A total order of backends: by address, then port. */
int backend_compare(const void *a, const void *b);

static inline bool backend_equal(const struct backend *a, const struct backend *b)
{
    return a->port == b->port && memcmp(&a->address, &b->address, sizeof(a->address)) == 0;
}

/* Routes: what the table is to hold of frontends, and of the service ports that they lead to, as
 * policy decides it. */

/* Service ports have ids from 1 to this. */
#define MOST_ROUTE_ID INT32_MAX

/* What is done with new connections to a frontend. */
struct route {
    uint32_t port; /* the id of the service port whose backends they go to */
    /* Not the cluster IP: an external IP, load-balancer IP or node port. Masqueraded, unless the
     * traffic policy is Local. */
    bool external;
    /* The traffic policy is Local: connections go to local_backends. For external frontends,
     * those from pods and from the host itself go to backends instead (short-circuit). */
    bool local;
    /* With session affinity. */
    bool affine;
    /* Only sources in these disjoint, ascending ranges may connect; NULL: everybody may. */
    const struct address_range *sources;
    size_t n_sources;
};

/* The backends of a service port, for all of its frontends. Sorted by backend_compare. */
struct port_route {
    /* Some endpoint on some node could serve. If not, connections are rejected; if so, but local is
     * asked for and empty, what is for it is dropped. */
    bool has_any;
    /* Some frontend may ask for the Cluster set; for the local one. */
    bool needs_cluster, needs_local;
    const struct backend *backends; /* the Cluster set */
    size_t n_backends;
    const struct backend *local_backends;
    size_t n_local;
    uint32_t affinity_timeout; /* of session affinity, in seconds; 0: there is none */
};

/* A backend joins those of a service port, or goes. */
struct backend_change {
    struct backend backend;
    bool comes;
};

/* How the backends of a service port change, which is otherwise as it was. Several changes of one
 * backend take turns, coming and going, beginning with what it is not. */
struct port_route_change {
    const struct backend_change *backends; /* of the Cluster set */
    size_t n_backends;
    const struct backend_change *local_backends;
    size_t n_local;
};

typedef VEC(struct backend) backend_vec;

/* Numbers of service ports that have endpoints, but none on this node although their internal, or
 * external, traffic policy is Local. */
struct ports_without_local {
    size_t internal, external;
};

/*
 * Kubernetes' messages in protobuf: the numbers of the fields that the decoders of this folder and
 * of src/source read. What is not here is skipped.
 */

/** The body of an answer: a list or a Status in its envelope, as in JSON. */
extern const struct proto_format message_body;

/** The frames of a watch: {"type": ..., "object": ...}, as in JSON. */
extern const struct proto_format message_watch;

/*
 * Where sources hand their objects on: the one arrow from source to cache. A source knows nothing
 * of who is behind it.
 */

struct object_sink {
    void *ctx;

    /* The complete present contents of a kind: what is not named here is gone. An object without
     * payload keeps what was known of it. The first replace of a kind is its first sync. Takes
     * the objects and leaves the vector empty. */
    void (*replace)(void *ctx, enum object_kind kind, object_vec *objects);

    /* One object was added or changed; without payload, nothing happens but a count. Takes the
     * object and leaves it zeroed. */
    void (*put)(void *ctx, struct object *object);

    /* One object is gone. Unknown ids are fine. */
    void (*remove)(void *ctx, enum object_kind kind, const char *id);
};

/* The zones of endpoints: a cluster has few, so each has a number of one byte. They are only shown,
 * so those beyond the first 255 that ever came are not known. */

/** The number of a zone (copied); 0 for NULL, the empty one, and when there are too many. */
uint8_t zone_number(const char *name);

/** The zone with a number, valid for ever; NULL for 0. */
const char *zone_name(uint8_t number);

#endif
