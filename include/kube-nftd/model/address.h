/* SPDX-License-Identifier: GPL-2.0-or-later */
/* IP addresses, families and protocols, as plain values. */
#ifndef KUBE_NFTD_MODEL_ADDRESS_H
#define KUBE_NFTD_MODEL_ADDRESS_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

#endif
