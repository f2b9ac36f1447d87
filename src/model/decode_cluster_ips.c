/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Service: its cluster IP of each family. */
#include "service_fields.h"

#include "kube-nftd/base/json.h"

#include <string.h>

static int service_cluster_ip(struct decoder *d, const char *text, const struct field_path *path,
                              const char *wanted_family)
{
    struct service *service = d->out->service;
    enum family family;
    struct address address;
    if (!address_parse(text, &family, &address))
        return field_bad(d, path, "\"%s\" is not an IP address", text);
    /* An address of another family than its entry in ipFamilies is skipped, never fatal. */
    if (wanted_family && strcmp(wanted_family, family_name(family)) != 0)
        return 0;
    service->has_cluster_ip[family] = true;
    service->cluster_ip[family] = address;
    return 0;
}

static int check_family(struct decoder *d, const struct json_value *json,
                        const struct field_path *path)
{
    if (!json_is(json, JSON_STRING))
        return field_is_not(d, json, path, "a string");
    for (int family = 0; family < FAMILY_COUNT; family++)
        if (strcmp(json->string, family_name((enum family)family)) == 0)
            return 0;
    return field_bad(d, path, "\"%s\" is not IPv4 or IPv6", json->string);
}

/* Each family that ipFamilies lists has the address at the same place of clusterIPs; where that
 * list is absent, the first one has clusterIP. */
static int service_cluster_ips(struct decoder *d, const struct json_value *spec,
                               const struct field_path *up, const struct json_value *families,
                               const char *cluster_ip)
{
    const struct json_value *addresses;
    if (field_list(d, spec, up, "clusterIPs", &addresses))
        return -1;
    bool alone = json_is_empty(addresses);
    struct field_path families_path = {up, "ipFamilies", 0}, addresses_path = {up, "clusterIPs", 0},
                      alone_path = {up, "clusterIP", 0};
    int i = 0;
    const struct json_value *address = addresses ? addresses + 1 : NULL;
    const struct json_value *end = addresses ? addresses + addresses->size : NULL;
    json_each (families, family) {
        struct field_path path = {&addresses_path, NULL, i};
        if (check_family(d, family, &(struct field_path){&families_path, NULL, i}))
            return -1;
        if (address == end)
            address = NULL;
        if (address && !json_is(address, JSON_STRING))
            return field_is_not(d, address, &path, "a string");
        const char *text = address ? address->string : alone && i == 0 ? cluster_ip : NULL;
        if (text && service_cluster_ip(d, text, alone ? &alone_path : &path, family->string))
            return -1;
        address = address ? address + address->size : NULL;
        i++;
    }
    return 0;
}

int decode_cluster_ips(struct decoder *d, const struct json_value *spec, enum service_type type)
{
    struct field_path path = {NULL, "spec", 0};
    const char *cluster_ip;
    const struct json_value *families;
    if (field_string(d, spec, &path, "clusterIP", &cluster_ip) ||
        field_list(d, spec, &path, "ipFamilies", &families))
        return -1;
    if (type == TYPE_EXTERNAL_NAME || !cluster_ip || !*cluster_ip ||
        strcmp(cluster_ip, "None") == 0) {
        d->out->service->skipped = true;
        return 0;
    }
    if (!json_is_empty(families))
        return service_cluster_ips(d, spec, &path, families, cluster_ip);
    return service_cluster_ip(d, cluster_ip, &(struct field_path){&path, "clusterIP", 0}, NULL);
}
