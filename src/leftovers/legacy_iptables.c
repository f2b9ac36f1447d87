/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kinds.h"

#include <errno.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A table that grows between two questions is asked for again. */
#define TRIES 5

static const struct kind {
    int family;
    const char *program;
    const char *names; /* the file that names the tables that exist; asking for others makes them */
    int level, get_info, get_entries;
    size_t entry_size, target_offset_at, next_offset_at;
} kinds[FAMILY_COUNT] = {
    [FAMILY_IPV4] = {AF_INET, "iptables-legacy", "/proc/net/ip_tables_names", IPPROTO_IP,
                     IPT_SO_GET_INFO, IPT_SO_GET_ENTRIES, sizeof(struct ipt_entry),
                     offsetof(struct ipt_entry, target_offset),
                     offsetof(struct ipt_entry, next_offset)},
    [FAMILY_IPV6] = {AF_INET6, "ip6tables-legacy", "/proc/net/ip6_tables_names", IPPROTO_IPV6,
                     IP6T_SO_GET_INFO, IP6T_SO_GET_ENTRIES, sizeof(struct ip6t_entry),
                     offsetof(struct ip6t_entry, target_offset),
                     offsetof(struct ip6t_entry, next_offset)},
};

/* ---- contents ---- */

static uint16_t number_at(const char *bytes)
{
    uint16_t number;
    memcpy(&number, bytes, sizeof(number));
    return number;
}

/* A chain begins with an entry whose target is an "error" that has the chain's name. The table
 * ends with one, too, whose name is the target's. */
static void take_entry(const char *target, size_t size, legacy_chain_fn fn, void *ctx)
{
    char name[XT_FUNCTION_MAXNAMELEN + 1] = "";
    if (size < sizeof(struct xt_error_target) ||
        strncmp(target + offsetof(struct xt_entry_target, u.user.name), XT_ERROR_TARGET,
                XT_EXTENSION_MAXNAMELEN) != 0)
        return;
    memcpy(name, target + offsetof(struct xt_error_target, errorname), XT_FUNCTION_MAXNAMELEN);
    if (strcmp(name, XT_ERROR_TARGET) != 0)
        fn(ctx, name);
}

int legacy_iptables_chains(enum family family, const void *entries, size_t size, legacy_chain_fn fn,
                           void *ctx, struct error *err)
{
    const struct kind *kind = &kinds[family];
    const char *at = entries;
    while (size > 0) {
        if (size < kind->entry_size)
            return error_set(err, "an entry is cut off");
        size_t target = number_at(at + kind->target_offset_at);
        size_t next = number_at(at + kind->next_offset_at);
        if (target < kind->entry_size || next < target || next > size)
            return error_set(err, "an entry does not end where it says");
        take_entry(at + target, next - target, fn, ctx);
        at += next;
        size -= next;
    }
    return 0;
}

/* ---- the kernel's tables ---- */

/* The contents of a table, to be freed. NULL with errno. */
static void *read_entries(const struct kind *kind, int fd, const char *table, size_t *size)
{
    struct ipt_getinfo info = {.name = ""}; /* the same for both families, as what follows */
    for (int tries = 0; tries < TRIES; tries++) {
        socklen_t length = sizeof(info);
        memcpy(info.name, table, strnlen(table, sizeof(info.name) - 1));
        if (getsockopt(fd, kind->level, kind->get_info, &info, &length) < 0)
            return NULL;
        length = (socklen_t)(sizeof(struct ipt_get_entries) + info.size);
        struct ipt_get_entries *entries = xcalloc(1, length);
        memcpy(entries->name, info.name, sizeof(info.name));
        entries->size = info.size;
        if (getsockopt(fd, kind->level, kind->get_entries, entries, &length) == 0) {
            *size = info.size;
            memmove(entries, entries->entrytable, info.size);
            return entries;
        }
        int why = errno;
        free(entries);
        errno = why;
        if (why != EAGAIN)
            return NULL;
    }
    return NULL;
}

struct tally {
    const char *table;
    size_t chains;
    char *first; /* names of some of them */
};

static void count_chain(void *ctx, const char *name)
{
    struct tally *tally = ctx;
    if (!kube_proxy_has_chain(tally->table, name))
        return;
    if (tally->chains++ == 0)
        tally->first = xstrdup(name);
}

static void report_table(const struct kind *kind, enum family family, int fd, const char *table,
                         struct leftovers_report *report)
{
    struct tally tally = {.table = table};
    struct error err = {0};
    size_t size = 0;
    void *entries = read_entries(kind, fd, table, &size);
    if (!entries)
        error_set(&err, "%s", strerror(errno));
    else
        legacy_iptables_chains(family, entries, size, count_chain, &tally, &err);
    if (err.text)
        leftovers_say(report, FATE_STAYS, "%s table %s: cannot read it: %s", kind->program, table,
                      err.text);
    else if (tally.chains > 0)
        leftovers_say(report, FATE_STAYS,
                      "%s table %s: chains of kube-proxy (chains: %zu, the first one: %s): "
                      "kube-nftd does not change such tables: run 'kube-proxy --cleanup' with the "
                      "program or image that made them",
                      kind->program, table, tally.chains, tally.first);
    error_clear(&err);
    free(tally.first);
    free(entries);
}

void leftovers_report_legacy(enum family family, struct leftovers_report *report)
{
    const struct kind *kind = &kinds[family];
    FILE *names = fopen(kind->names, "re");
    if (!names) {
        if (errno != ENOENT) /* a kernel without them */
            leftovers_say(report, FATE_STAYS, "%s: cannot tell whether tables exist: %s: %s",
                          kind->program, kind->names, strerror(errno));
        return;
    }
    int fd = socket(kind->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char table[XT_TABLE_MAXNAMELEN + 1];
    while (fgets(table, sizeof(table), names)) {
        table[strcspn(table, "\n")] = '\0';
        report_table(kind, family, fd, table, report);
    }
    if (fd >= 0)
        close(fd);
    fclose(names);
}
