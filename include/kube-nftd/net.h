/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Addresses, CIDRs, ports and protocols, and what is made of them: frontends and backends. Plain
 * values: what a function allocates is for the caller to free. Texts that do not parse change no
 * output.
 */
#ifndef KUBE_NFTD_NET_H
#define KUBE_NFTD_NET_H

#include "kube-nftd/base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

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

/** Fills in a socket address. Returns its length. */
socklen_t socket_address(enum family family, const struct address *address, uint16_t port,
                         struct sockaddr_storage *out);

typedef VEC(struct backend) backend_vec;

/** Whether @backend is among @backends, which are sorted by backend_compare. */
bool backends_contain(const backend_vec *backends, const struct backend *backend);

/* The sets of a service port's backends that one can be in; a bit each. */
enum backend_set {
    BACKENDS_CLUSTER = 1 << 0, /* for traffic policy Cluster, and the short-circuit under Local */
    BACKENDS_LOCAL = 1 << 1,   /* for traffic policy Local */
    BACKENDS_HAIRPIN = 1 << 2, /* on this node, and in one of the others */
};

/* The sets that a backend was in, and is in now: bits of enum backend_set. */
struct backend_change {
    struct backend backend;
    uint8_t before, after;
};

typedef VEC(struct backend_change) backend_change_vec;

static inline bool backend_comes(const struct backend_change *change, enum backend_set set)
{
    return ~change->before & change->after & set;
}

static inline bool backend_goes(const struct backend_change *change, enum backend_set set)
{
    return change->before & ~change->after & set;
}

/** How many backends come to a set, and go from it. */
size_t backends_coming(const backend_change_vec *changes, enum backend_set set);
size_t backends_going(const backend_change_vec *changes, enum backend_set set);

/** Sorts the changes by backend, and makes those of each backend one, without the sets that it
 * stays in. */
void backend_changes_sum(backend_change_vec *changes);

#endif
