/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The ports of a slice, in an order of their own: who writes a slice may bring them in any order,
 * and tens of thousands of them. */
#include "kube-nftd/base.h"
#include "kube-nftd/model.h"

#include <stdlib.h>
#include <string.h>

int slice_port_compare_keys(const struct slice_port *a, const struct slice_port *b)
{
    if (a->protocol != b->protocol)
        return (int)a->protocol - (int)b->protocol;
    return a->name == b->name ? 0 : strcmp(a->name, b->name);
}

static int compare(const void *a, const void *b)
{
    const struct slice_port *p = a, *q = b;
    int order = slice_port_compare_keys(p, q);
    return order ? order : (int)p->port - (int)q->port;
}

static bool is_sorted(const struct endpoint_slice *slice)
{
    for (size_t i = 1; i < slice->ports.n; i++)
        if (compare(&slice->ports.v[i - 1], &slice->ports.v[i]) >= 0)
            return false;
    return true;
}

void endpoint_slice_sort_ports(struct endpoint_slice *slice)
{
    size_t kept = 1;
    if (is_sorted(slice))
        return;
    qsort(slice->ports.v, slice->ports.n, sizeof(*slice->ports.v), compare);
    for (size_t i = 1; i < slice->ports.n; i++) {
        if (compare(&slice->ports.v[kept - 1], &slice->ports.v[i]) == 0)
            intern_release(slice->ports.v[i].name);
        else
            slice->ports.v[kept++] = slice->ports.v[i];
    }
    slice->ports.n = kept;
}

/* Where @port is, or would be. */
static size_t place_of(const struct endpoint_slice *slice, const struct slice_port *port)
{
    size_t low = 0, high = slice->ports.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare(&slice->ports.v[middle], port) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool endpoint_slice_has_port(const struct endpoint_slice *slice, const struct slice_port *port)
{
    size_t place = place_of(slice, port);
    return place < slice->ports.n && compare(&slice->ports.v[place], port) == 0;
}

struct slice_ports endpoint_slice_ports(const struct endpoint_slice *slice, const char *name,
                                        uint8_t protocol)
{
    const struct slice_port key = {name, protocol, 0};
    size_t place = place_of(slice, &key);
    if (place == slice->ports.n || slice_port_compare_keys(&slice->ports.v[place], &key) != 0)
        return (struct slice_ports){0};
    struct slice_ports rest = {&slice->ports.v[place], slice->ports.n - place};
    return slice_ports_take(&rest);
}

struct slice_ports slice_ports_take(struct slice_ports *rest)
{
    struct slice_ports first = {rest->v, 1};
    while (first.n < rest->n && slice_port_compare_keys(&first.v[first.n], first.v) == 0)
        first.n++;
    rest->v += first.n;
    rest->n -= first.n;
    return first;
}
