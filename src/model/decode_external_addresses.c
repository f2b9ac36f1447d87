/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Service: the addresses that it has for clients outside of the cluster, and which clients. */
#include "service_fields.h"

#include "kube-nftd/base/json.h"

#include <string.h>

/* Adds what @text says to the list of its family. Written by hand or by others, so what is no
 * address costs just itself. */
static void add_address(struct decoder *d, const char *text, const struct field_path *path,
                        address_vec lists[FAMILY_COUNT])
{
    enum family family;
    struct address address;
    if (!*text)
        return;
    if (!address_parse(text, &family, &address))
        field_warn(d, path, "\"%s\" is not an IP address", text);
    else if (d->out->service->has_cluster_ip[family])
        vec_push(&lists[family], address);
}

/* ---- addresses ---- */

/* An API server refuses such an address; one that a tenant got past it would take the host's own
 * traffic. */
static int take_external_ip(struct decoder *d, const struct json_value *entry,
                            const struct field_path *path, void *ctx)
{
    enum family family;
    struct address address;
    const char *special =
        address_parse(entry->string, &family, &address) ? address_special(family, &address) : NULL;
    if (special)
        field_warn(d, path, "\"%s\" is %s", entry->string, special);
    else
        add_address(d, entry->string, path, ctx);
    return 0;
}

/* Of any mode but VIP, the balancer delivers to the nodes itself (docs/behaviour.md 1.2). */
static int take_ingress(struct decoder *d, const struct json_value *entry,
                        const struct field_path *path, void *ctx)
{
    const char *ip, *mode;
    if (field_string(d, entry, path, "ip", &ip) || field_string(d, entry, path, "ipMode", &mode))
        return -1;
    if (ip && (!mode || strcmp(mode, "VIP") == 0))
        add_address(d, ip, &(struct field_path){path, "ip", 0}, ctx);
    return 0;
}

static int load_balancer_ips(struct decoder *d, const struct json_value *json,
                             address_vec lists[FAMILY_COUNT])
{
    struct field_path status_path = {NULL, "status", 0}, path = {&status_path, "loadBalancer", 0};
    const struct json_value *status, *balancer;
    if (field_object(d, json, NULL, "status", &status) ||
        field_object(d, status, &status_path, "loadBalancer", &balancer) ||
        field_each_object(d, balancer, &path, "ingress", take_ingress, lists))
        return -1;
    return 0;
}

/* ---- source ranges ---- */

/* @text without the blanks around it; the caller frees it. */
static char *trimmed(const char *text)
{
    static const char blanks[] = " \t\r\n\v\f";
    text += strspn(text, blanks);
    size_t length = strlen(text);
    while (length > 0 && strchr(blanks, text[length - 1]))
        length--;
    return xstrndup(text, length);
}

/* Everybody of a family may connect once a range is /0, so there is nothing to compare with. */
struct source_search {
    range_vec *ranges;
    bool everybody[FAMILY_COUNT];
};

static int take_source_range(struct decoder *d, const struct json_value *entry,
                             const struct field_path *path, void *ctx)
{
    struct source_search *search = ctx;
    enum family family;
    struct cidr cidr;
    char *text = trimmed(entry->string);
    if (!cidr_parse(text, &family, &cidr)) {
        if (*text)
            field_warn(d, path, "\"%s\" is not a CIDR", text);
    } else if (cidr.length == 0) {
        search->everybody[family] = true;
    } else {
        vec_push(&search->ranges[family], cidr_range(family, &cidr));
    }
    free(text);
    return 0;
}

static int source_ranges(struct decoder *d, const struct json_value *spec,
                         const struct field_path *up, range_vec lists[FAMILY_COUNT])
{
    struct source_search search = {.ranges = lists};
    if (field_each_string(d, spec, up, "loadBalancerSourceRanges", take_source_range, &search))
        return -1;
    for (int family = 0; family < FAMILY_COUNT; family++) {
        if (search.everybody[family])
            vec_free(&search.ranges[family]);
        ranges_normalize((enum family)family, &search.ranges[family]);
    }
    return 0;
}

int decode_external_addresses(struct decoder *d, const struct json_value *json,
                              const struct json_value *spec)
{
    struct outside *outside = service_make_outside(d->out->service);
    struct field_path path = {NULL, "spec", 0};
    if (field_each_string(d, spec, &path, "externalIPs", take_external_ip, outside->external_ips) ||
        load_balancer_ips(d, json, outside->load_balancer_ips) ||
        source_ranges(d, spec, &path, outside->source_ranges))
        return -1;
    for (int family = 0; family < FAMILY_COUNT; family++) {
        addresses_normalize(&outside->external_ips[family]);
        addresses_normalize(&outside->load_balancer_ips[family]);
    }
    service_settle_outside(d->out->service);
    return 0;
}
