/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What an explanation is asked of: "10.96.0.10:80", "[fd00::1]:53/UDP", "localhost:30001", an
 * address alone, a node port alone, "default/web:http", "web.default.svc". */
#ifndef KUBE_NFTD_SERVE_EXPLAIN_QUERY_H
#define KUBE_NFTD_SERVE_EXPLAIN_QUERY_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/model/address.h"

#include <stdbool.h>
#include <stdint.h>

struct explain_query {
    char *text; /* as it was asked; owned */
    bool all;   /* list every endpoint, however many there are */
    /* A Service, if service_id is not NULL; else an address, a port, or both. */
    bool has_address;
    enum family family;
    struct address address;
    uint16_t port;    /* 0: not given */
    uint8_t protocol; /* likewise */
    char *service_id; /* "namespace/name"; owned */
    char *port_name;  /* or its number; NULL: all ports; owned */
};

/** Reads @text, which may come from anywhere. -1 with an error that says what is wrong with it;
 * @query is cleared then. */
int explain_query_parse(const char *text, struct explain_query *query, struct error *err);

void explain_query_clear(struct explain_query *query);

#endif
