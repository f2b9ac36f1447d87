/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/model/frontend.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(struct frontend) == 20, "frontends are hashed as bytes");

const char *frontend_format(const struct frontend *frontend, char out[FRONTEND_TEXT_SIZE])
{
    char address[ADDRESS_TEXT_SIZE];
    enum family family = (enum family)frontend->family;
    snprintf(out, FRONTEND_TEXT_SIZE, family == FAMILY_IPV4 ? "%s:%u/%s" : "[%s]:%u/%s",
             address_format(family, &frontend->address, address), frontend->port,
             protocol_name(frontend->protocol));
    return out;
}

int backend_compare(const void *a, const void *b)
{
    const struct backend *p = a, *q = b;
    int order = memcmp(&p->address, &q->address, sizeof(p->address));
    return order ? order : (int)p->port - (int)q->port;
}
