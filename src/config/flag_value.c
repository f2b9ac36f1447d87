/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/config/flag_value.h"

#include "kube-nftd/base/alloc.h"
#include "kube-nftd/config/duration.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <linux/if.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

int flag_optional_text(const char *text, char **out, struct error *err)
{
    (void)err;
    free(*out);
    *out = *text ? xstrdup(text) : NULL;
    return 0;
}

int flag_text(const char *text, char **out, struct error *err)
{
    return *text ? flag_optional_text(text, out, err) : error_set(err, "the value is empty");
}

int flag_interface(const char *text, char **out, struct error *err)
{
    if (strlen(text) >= IFNAMSIZ)
        return error_set(err, "\"%s\" is longer than the %d bytes that interface names have", text,
                         IFNAMSIZ - 1);
    for (const char *s = text; *s; s++)
        if (!isgraph((unsigned char)*s) || strchr("\"'\\/*:", *s))
            return error_set(err,
                             "\"%s\" is not for an interface name: no blanks, quotes, '\\', '/', "
                             "'*' or ':', and ASCII only",
                             text);
    return flag_optional_text(text, out, err);
}

int flag_address(const char *text, char **out, struct error *err)
{
    enum family family;
    struct address address;
    if (*text && !address_parse(text, &family, &address))
        return error_set(err, "\"%s\" is not an IP address", text);
    return flag_optional_text(text, out, err);
}

/* ---- numbers ---- */

int flag_switch(const char *text, bool *out, struct error *err)
{
    if (!text || strcmp(text, "true") == 0)
        *out = true;
    else if (strcmp(text, "false") == 0)
        *out = false;
    else
        return error_set(err, "\"%s\" is neither true nor false", text);
    return 0;
}

int flag_number(const char *text, int *out, struct error *err)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno || number > INT_MAX)
        return error_set(err, "\"%s\" is not a number from 0 to %d", text, INT_MAX);
    *out = (int)number;
    return 0;
}

int flag_count(const char *text, uint32_t *out, struct error *err)
{
    int number = 0;
    if (flag_number(text, &number, err))
        return -1;
    *out = (uint32_t)number;
    return 0;
}

int flag_seconds(const char *text, uint32_t *out, struct error *err)
{
    int64_t nanoseconds;
    if (!duration_parse(text, &nanoseconds))
        return error_set(err, "\"%s\" is not a duration like 30s, 1h30m or 0s", text);
    if (nanoseconds < 0)
        return error_set(err, "\"%s\" is below zero", text);
    int64_t seconds = nanoseconds / 1000000000;
    if (seconds > INT_MAX)
        return error_set(err, "\"%s\" is more than %d seconds", text, INT_MAX);
    *out = (uint32_t)seconds;
    return 0;
}

int flag_detect_local_mode(const char *text, enum detect_local_mode *out, struct error *err)
{
    static const char *const names[] = {
        [DETECT_LOCAL_CLUSTER_CIDR] = "ClusterCIDR",
        [DETECT_LOCAL_NODE_CIDR] = "NodeCIDR",
        [DETECT_LOCAL_BRIDGE_INTERFACE] = "BridgeInterface",
        [DETECT_LOCAL_INTERFACE_NAME_PREFIX] = "InterfaceNamePrefix",
    };
    if (!*text)
        text = names[DETECT_LOCAL_CLUSTER_CIDR];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], text) == 0) {
            *out = (enum detect_local_mode)i;
            return 0;
        }
    }
    return error_set(err,
                     "\"%s\" is none of ClusterCIDR, NodeCIDR, BridgeInterface and "
                     "InterfaceNamePrefix",
                     text);
}

/* ---- lists ---- */

/* Gives what stands between the commas of @text to @add. */
static int each_entry(const char *text, int (*add)(const char *entry, void *out, struct error *err),
                      void *out, struct error *err)
{
    if (!*text)
        return 0;
    char *copy = xstrdup(text), *rest = copy, *entry;
    int result = 0;
    while (result == 0 && (entry = strsep(&rest, ",")))
        result = add(entry, out, err);
    free(copy);
    return result;
}

static int add_cidr(const char *entry, void *out, struct error *err)
{
    cidr_vec *cidrs = out;
    enum family family;
    struct cidr cidr;
    if (!cidr_parse(entry, &family, &cidr))
        return error_set(err, "\"%s\" is not a CIDR like 192.0.2.0/24 or 2001:db8::/64", entry);
    vec_push(&cidrs[family], cidr);
    return 0;
}

int flag_cidrs(const char *text, cidr_vec out[FAMILY_COUNT], struct error *err)
{
    return each_entry(text, add_cidr, out, err);
}

static int add_node_port_entry(const char *entry, void *out, struct error *err)
{
    struct node_port_addresses *list = out;
    bool primary = strcmp(entry, "primary") == 0;
    bool others = list->cidrs[FAMILY_IPV4].n + list->cidrs[FAMILY_IPV6].n > 0;
    if (list->primary || (primary && others))
        return error_set(err, "\"%s\" stands beside other entries, but \"primary\" must be alone",
                         entry);
    list->primary = primary;
    return primary ? 0 : add_cidr(entry, list->cidrs, err);
}

int flag_node_port_addresses(const char *text, struct node_port_addresses *out, struct error *err)
{
    return each_entry(text, add_node_port_entry, out, err);
}
