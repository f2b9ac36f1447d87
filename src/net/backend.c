/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Frontends, backends, and what changes in sets of backends. */
#include "kube-nftd/net.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
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

socklen_t socket_address(enum family family, const struct address *address, uint16_t port,
                         struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof(*out));
    if (family == FAMILY_IPV4) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, address->bytes, sizeof(v4->sin_addr));
        return sizeof(*v4);
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    memcpy(&v6->sin6_addr, address->bytes, sizeof(v6->sin6_addr));
    return sizeof(*v6);
}

bool backends_contain(const backend_vec *backends, const struct backend *backend)
{
    return backends->n > 0 &&
           bsearch(backend, backends->v, backends->n, sizeof(*backend), backend_compare);
}

/* ---- changes ---- */

size_t backends_coming(const backend_change_vec *changes, enum backend_set set)
{
    size_t n = 0;
    vec_each (changes, change)
        n += backend_comes(change, set);
    return n;
}

size_t backends_going(const backend_change_vec *changes, enum backend_set set)
{
    size_t n = 0;
    vec_each (changes, change)
        n += backend_goes(change, set);
    return n;
}

/* @n changes of one backend. In each set they alternate, in whatever order they stand here. */
static struct backend_change sum_of(const struct backend_change *changes, size_t n)
{
    struct backend_change sum = {.backend = changes->backend};
    for (unsigned set = BACKENDS_CLUSTER; set <= BACKENDS_HAIRPIN; set <<= 1) {
        int balance = 0;
        for (size_t i = 0; i < n; i++)
            balance += backend_comes(&changes[i], set) - backend_goes(&changes[i], set);
        sum.before |= balance < 0 ? set : 0;
        sum.after |= balance > 0 ? set : 0;
    }
    return sum;
}

void backend_changes_sum(backend_change_vec *changes)
{
    size_t n = 0, end;
    vec_sort(changes, backend_compare);
    for (size_t at = 0; at < changes->n; at = end) {
        for (end = at + 1; end < changes->n; end++)
            if (!backend_equal(&changes->v[end].backend, &changes->v[at].backend))
                break;
        const struct backend_change sum = sum_of(&changes->v[at], end - at);
        if (sum.before | sum.after)
            changes->v[n++] = sum;
    }
    changes->n = n;
}
