/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ServiceCIDR: the fields of docs/behaviour.md 1.5 that are used. */
#include "field.h"

#include "kube-nftd/base/json.h"

static int add_cidr(struct decoder *d, const struct json_value *entry,
                    const struct field_path *path, void *ctx)
{
    struct service_cidr *service_cidr = ctx;
    enum family family;
    struct cidr cidr;
    if (!cidr_parse(entry->string, &family, &cidr))
        return field_bad(d, path, "\"%s\" is not a CIDR", entry->string);
    if (!service_cidr->has_cidr[family])
        service_cidr->cidr[family] = cidr;
    service_cidr->has_cidr[family] = true;
    return 0;
}

int decode_service_cidr(struct decoder *d, const struct json_value *json)
{
    struct service_cidr *service_cidr = d->out->service_cidr = xcalloc(1, sizeof(*service_cidr));
    struct field_path spec_path = {NULL, "spec", 0};
    const struct json_value *spec;
    service_cidr->id = xstrdup(d->out->id);
    if (field_object(d, json, NULL, "spec", &spec) ||
        field_each_string(d, spec, &spec_path, "cidrs", add_cidr, service_cidr))
        return -1;
    if (json_is_empty(json_member(spec, "cidrs")))
        return field_bad(d, &(struct field_path){&spec_path, "cidrs", 0}, "missing");
    return 0;
}
