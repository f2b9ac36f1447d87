/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What an explanation is asked of: "10.96.0.10:80", "[fd00::1]:53/UDP", "default/web:http". */
#ifndef KUBE_NFTD_SERVE_EXPLAIN_QUERY_H
#define KUBE_NFTD_SERVE_EXPLAIN_QUERY_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/model/address.h"

#include <stdbool.h>
#include <stdint.h>

struct explain_query {
    char *text; /* as it was asked; owned */
    bool all;   /* list every endpoint, however many there are */
    /* An address and port, or a Service: then service_id is not NULL. */
    enum family family;
    struct address address;
    uint16_t port;
    uint8_t protocol; /* 0: not given */
    char *service_id; /* "namespace/name"; owned */
    char *port_name;  /* or its number; NULL: all ports; owned */
};

/** Reads @text, which may come from anywhere. -1 with an error that says what is wrong with it;
 * @query is cleared then. */
int explain_query_parse(const char *text, struct explain_query *query, struct error *err);

void explain_query_clear(struct explain_query *query);

#endif
