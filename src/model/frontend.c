/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/model.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(struct frontend) == 20, "frontends are hashed as bytes");

const char *backend_format(enum family family, const struct backend *backend,
                           char out[BACKEND_TEXT_SIZE])
{
    char address[ADDRESS_TEXT_SIZE];
    snprintf(out, BACKEND_TEXT_SIZE, family == FAMILY_IPV4 ? "%s:%u" : "[%s]:%u",
             address_format(family, &backend->address, address), backend->port);
    return out;
}

const char *frontend_format(const struct frontend *frontend, char out[FRONTEND_TEXT_SIZE])
{
    const struct backend place = {frontend->address, frontend->port};
    char text[BACKEND_TEXT_SIZE];
    snprintf(out, FRONTEND_TEXT_SIZE, "%s/%s",
             backend_format((enum family)frontend->family, &place, text),
             protocol_name(frontend->protocol));
    return out;
}

int backend_compare(const void *a, const void *b)
{
    const struct backend *p = a, *q = b;
    int order = memcmp(&p->address, &q->address, sizeof(p->address));
    return order ? order : (int)p->port - (int)q->port;
}
