/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cleanup.h"

#include <errno.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Attempts to read a table that changes between the two calls. */
#define TRIES 5

static const struct kind {
    int family;
    const char *program;
    const char *names; /* lists the existing tables; querying any other would create it */
    int level, get_info, get_entries;
} kinds[FAMILY_COUNT] = {
    [FAMILY_IPV4] = {AF_INET, "iptables-legacy", "/proc/net/ip_tables_names", IPPROTO_IP,
                     IPT_SO_GET_INFO, IPT_SO_GET_ENTRIES},
    [FAMILY_IPV6] = {AF_INET6, "ip6tables-legacy", "/proc/net/ip6_tables_names", IPPROTO_IPV6,
                     IP6T_SO_GET_INFO, IP6T_SO_GET_ENTRIES},
};

/* Jumps hold offsets, so the name of a chain occurs only in the entry at its beginning. A search
 * for the names needs no knowledge of the entries' layout. */
size_t iptables_legacy_chains(const char *table, const void *entries, size_t size, char **first)
{
    static const char beginning[] = "KUBE-";
    const char *at = entries, *end = at + size;
    size_t chains = 0;
    for (; (at = memmem(at, (size_t)(end - at), beginning, strlen(beginning))); at++) {
        char name[XT_FUNCTION_MAXNAMELEN + 1] = "";
        size_t left = (size_t)(end - at);
        memcpy(name, at, left < XT_FUNCTION_MAXNAMELEN ? left : XT_FUNCTION_MAXNAMELEN);
        bool is_whole = at == entries || at[-1] == '\0';
        if (is_whole && kube_proxy_has_chain(table, name) && chains++ == 0)
            *first = xstrdup(name);
    }
    return chains;
}

/* Returns the contents of a table, owned by the caller. NULL with errno. */
static void *read_entries(const struct kind *kind, int fd, const char *table, size_t *size)
{
    struct ipt_getinfo info = {.name = ""}; /* both families share these layouts */
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

static void report_table(struct cleanup *cleanup, const struct kind *kind, int fd,
                         const char *table)
{
    size_t size = 0;
    char *first = NULL;
    void *entries = read_entries(kind, fd, table, &size);
    if (!entries) {
        cleanup_report(cleanup, FATE_LEFT, "%s table %s: cannot read it: %s", kind->program, table,
                       strerror(errno));
        return;
    }
    size_t chains = iptables_legacy_chains(table, entries, size, &first);
    if (chains > 0)
        cleanup_report(cleanup, FATE_LEFT,
                       "%s table %s: chains of kube-proxy (chains: %zu, the first one: %s): "
                       "kube-nftd does not change such tables: run 'kube-proxy --cleanup' with the "
                       "program or image that made them",
                       kind->program, table, chains, first);
    free(first);
    free(entries);
}

void cleanup_iptables_legacy(struct cleanup *cleanup, enum family family)
{
    const struct kind *kind = &kinds[family];
    FILE *names = fopen(kind->names, "re");
    if (!names) {
        if (errno != ENOENT) /* no legacy tables in this kernel */
            cleanup_report(cleanup, FATE_LEFT, "%s: cannot tell whether tables exist: %s: %s",
                           kind->program, kind->names, strerror(errno));
        return;
    }
    int fd = socket(kind->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char table[XT_TABLE_MAXNAMELEN + 1];
    while (fgets(table, sizeof(table), names)) {
        table[strcspn(table, "\n")] = '\0';
        report_table(cleanup, kind, fd, table);
    }
    if (fd >= 0)
        close(fd);
    fclose(names);
}
