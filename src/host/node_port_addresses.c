/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/host.h"

#include <string.h>

/* Whether @cidrs selects every address: it is empty or has a zero-length prefix. */
static bool means_all(const cidr_vec *cidrs)
{
    vec_each (cidrs, cidr)
        if (cidr->length == 0)
            return true;
    return cidrs->n == 0;
}

static bool is_inside(const cidr_vec *cidrs, const struct address *address)
{
    vec_each (cidrs, cidr)
        if (cidr_contains(cidr, address))
            return true;
    return false;
}

void node_port_addresses_select(const struct node_port_addresses *setting, enum family family,
                                const address_vec *host, const struct address *own,
                                struct node_port_selection *out)
{
    const cidr_vec *cidrs = &setting->cidrs[family];
    *out = (struct node_port_selection){.all = !setting->primary && means_all(cidrs)};
    vec_each (host, address) {
        bool is_own = own && memcmp(own, address, sizeof(*own)) == 0;
        bool answers = family == FAMILY_IPV4 || !address_is_link_local(family, address);
        bool selected = setting->primary ? is_own : out->all ? answers : is_inside(cidrs, address);
        if (selected && !address_is_loopback(family, address))
            vec_push(&out->addresses, *address);
    }
}

void node_port_selection_clear(struct node_port_selection *selection)
{
    vec_free(&selection->addresses);
    *selection = (struct node_port_selection){0};
}
