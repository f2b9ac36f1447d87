/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Frontends and backends as plain values. */
#ifndef KUBE_NFTD_MODEL_FRONTEND_H
#define KUBE_NFTD_MODEL_FRONTEND_H

#include "kube-nftd/base/hash_table.h"
#include "kube-nftd/model/address.h"

#include <stdint.h>

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

#endif
