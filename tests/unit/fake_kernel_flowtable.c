/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A table's flowtable, and the devices of the host. */
#include "fake_kernel_state.h"

#include "kube-nftd/base.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>

static struct fake_devices host;
static struct {
    bool keeps_names; /* also those of devices that are not there */
    const char *rejected;
    int why;
} manner;

void fake_reset_devices(void)
{
    vec_free(&host);
    memset(&manner, 0, sizeof(manner));
}

/* ---- lists ---- */

static char *find_device(const struct fake_devices *devices, const char *name)
{
    vec_each (devices, device)
        if (strcmp(device->name, name) == 0)
            return device->name;
    return NULL;
}

static void add_device(struct fake_devices *devices, const char *name)
{
    struct fake_device device = {""};
    ck_assert_uint_lt(strlen(name), sizeof(device.name));
    memcpy(device.name, name, strlen(name));
    vec_push(devices, device);
}

static void remove_device(struct fake_devices *devices, const char *name)
{
    size_t n = 0;
    vec_each (devices, device)
        if (strcmp(device->name, name) != 0)
            devices->v[n++] = *device;
    devices->n = n;
}

/* ---- messages ---- */

static const struct nlattr *inside(const struct nlattr *nest, uint16_t type)
{
    const struct nlattr *at, *found = NULL;
    if (!nest)
        return NULL;
    mnl_attr_for_each_nested(at, nest) if (mnl_attr_get_type(at) == type) found = at;
    return found;
}

static bool is_there(const char *name)
{
    return find_device(&host, name) || manner.keeps_names;
}

static int new_device(struct fake_table *table, const char *name)
{
    if (!is_there(name))
        return ENOENT;
    if (manner.rejected && strcmp(manner.rejected, name) == 0)
        return manner.why;
    if (!find_device(&table->devices, name))
        add_device(&table->devices, name);
    return 0;
}

static int delete_device(struct fake_table *table, const char *name)
{
    if (!is_there(name) || !find_device(&table->devices, name))
        return ENOENT;
    remove_device(&table->devices, name);
    return 0;
}

/* The kernel takes no more in one message. */
#define DEVICES_OF_MESSAGE 255

static int each_device(struct fake_table *table, const struct nlattr *devices,
                       int (*fn)(struct fake_table *table, const char *name))
{
    const struct nlattr *at;
    size_t n = 0;
    mnl_attr_for_each_nested(at, devices)
    {
        ck_assert_uint_eq(mnl_attr_get_type(at), NFTA_DEVICE_NAME);
        int why = ++n > DEVICES_OF_MESSAGE ? EFBIG : fn(table, mnl_attr_get_str(at));
        if (why)
            return why;
    }
    return 0;
}

int fake_new_flowtable(struct fake_table *table, const struct nlmsghdr *message)
{
    const struct nlattr *name = nfnl_attribute(message, NFTA_FLOWTABLE_NAME),
                        *hook = nfnl_attribute(message, NFTA_FLOWTABLE_HOOK),
                        *devices = inside(hook, NFTA_FLOWTABLE_HOOK_DEVS);
    ck_assert_ptr_nonnull(name);
    ck_assert_ptr_nonnull(hook);
    if (!*table->flowtable) {
        if (!inside(hook, NFTA_FLOWTABLE_HOOK_NUM) || !inside(hook, NFTA_FLOWTABLE_HOOK_PRIORITY))
            return EINVAL;
        fake_copy_name(table->flowtable, mnl_attr_get_str(name));
    }
    ck_assert_str_eq(table->flowtable, mnl_attr_get_str(name));
    return devices ? each_device(table, devices, new_device) : 0;
}

int fake_delete_flowtable(struct fake_table *table, const struct nlmsghdr *message, bool in_use)
{
    const struct nlattr *name = nfnl_attribute(message, NFTA_FLOWTABLE_NAME),
                        *hook = nfnl_attribute(message, NFTA_FLOWTABLE_HOOK);
    ck_assert_ptr_nonnull(name);
    if (strcmp(table->flowtable, mnl_attr_get_str(name)) != 0)
        return ENOENT;
    if (hook)
        return each_device(table, inside(hook, NFTA_FLOWTABLE_HOOK_DEVS), delete_device);
    if (in_use)
        return EBUSY;
    *table->flowtable = '\0';
    vec_clear(&table->devices);
    return 0;
}

/* ---- the host ---- */

void fake_keep_present(struct fake_table *table)
{
    size_t n = 0;
    vec_each (&table->devices, device)
        if (is_there(device->name))
            table->devices.v[n++] = *device;
    table->devices.n = n;
}

void fake_set_host_devices(const char *names)
{
    char *copy = xstrdup(names), *rest = copy;
    vec_clear(&host);
    for (const char *name; (name = strsep(&rest, " "));)
        if (*name)
            add_device(&host, name);
    free(copy);
}

void fake_kernel_keep_device_names(bool on)
{
    manner.keeps_names = on;
}

void fake_kernel_reject_device(const char *name, int why)
{
    manner.rejected = name;
    manner.why = why;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct fake_device *)a)->name, ((const struct fake_device *)b)->name);
}

char *fake_list_devices(const struct fake_table *table)
{
    char *text = xstrdup("");
    struct fake_devices sorted = {0};
    vec_append(&sorted, table->devices.v, table->devices.n);
    if (sorted.n)
        qsort(sorted.v, sorted.n, sizeof(*sorted.v), compare_names);
    vec_each (&sorted, device) {
        char *longer = xasprintf("%s%s%s", text, *text ? " " : "", device->name);
        free(text);
        text = longer;
    }
    vec_free(&sorted);
    return text;
}
