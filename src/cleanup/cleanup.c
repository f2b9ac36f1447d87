/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/cleanup.h"

#include "cleanup.h"
#include "kube-nftd/base.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The kernel's IPSET_MAXNAMELEN without the NUL. */
#define IP_SET_NAME_LENGTH 31

/* Chains of services and endpoints end in a hash in base32. */
#define HASH_LENGTH 16
#define HASH_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

/* ---- names of kube-proxy ---- */

static const struct {
    const char *table, *chain;
} chains[] = {
    /* mode iptables */
    {"filter", "KUBE-EXTERNAL-SERVICES"},
    {"filter", "KUBE-FORWARD"},
    {"filter", "KUBE-NODEPORTS"},
    {"filter", "KUBE-PROXY-CANARY"},
    {"filter", "KUBE-PROXY-FIREWALL"},
    {"filter", "KUBE-SERVICES"},
    {"mangle", "KUBE-PROXY-CANARY"},
    {"nat", "KUBE-MARK-MASQ"},
    {"nat", "KUBE-NODEPORTS"},
    {"nat", "KUBE-POSTROUTING"},
    {"nat", "KUBE-PROXY-CANARY"},
    {"nat", "KUBE-SERVICES"},
    /* mode ipvs, in addition to some of the above */
    {"filter", "KUBE-IPVS-FILTER"},
    {"filter", "KUBE-IPVS-OUT-FILTER"},
    {"filter", "KUBE-NODE-PORT"},
    {"filter", "KUBE-SOURCE-RANGES-FIREWALL"},
    {"nat", "KUBE-FIREWALL"}, /* older versions; the kubelet's is in the table filter */
    {"nat", "KUBE-FIRE-WALL"},
    {"nat", "KUBE-LOAD-BALANCER"},
    {"nat", "KUBE-NODE-PORT"},
};

/* KUBE-XLB- comes from versions before 1.24. */
static const char *const kinds[] = {"KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-",
                                    "KUBE-FW-",  "KUBE-SEP-", "KUBE-XLB-"};

static const char *const comments[] = {
    "kubernetes service portals",
    "kubernetes externally-visible service portals",
    "kubernetes health check service ports",
    "kubernetes forwarding rules",
    "kubernetes load balancer firewall",
    "kubernetes postrouting rules",
    /* mode ipvs */
    "kubernetes health check rules",
    "kube-proxy firewall rules",
    "kubernetes ipvs access filter",
};

/* Without the prefix: "KUBE-", or "KUBE-6-" for IPv6. */
static const char *const ip_sets[] = {
    "CLUSTER-IP",
    "EXTERNAL-IP",
    "EXTERNAL-IP-LOCAL",
    "HEALTH-CHECK-NODE-PORT",
    "IPVS-IPS",
    "LOAD-BALANCER",
    "LOAD-BALANCER-FW",
    "LOAD-BALANCER-LOCAL",
    "LOAD-BALANCER-SOURCE-CIDR",
    "LOAD-BALANCER-SOURCE-IP",
    "LOOP-BACK",
    "NODE-PORT-LOCAL-SCTP-HASH",
    "NODE-PORT-LOCAL-TCP",
    "NODE-PORT-LOCAL-UDP",
    "NODE-PORT-SCTP-HASH",
    "NODE-PORT-TCP",
    "NODE-PORT-UDP",
};

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

const char *kube_proxy_chain_kind(const char *chain)
{
    for (size_t i = 0; i < COUNT(kinds); i++) {
        if (!begins_with(chain, kinds[i]))
            continue;
        const char *hash = chain + strlen(kinds[i]);
        if (strlen(hash) == HASH_LENGTH && strspn(hash, HASH_LETTERS) == HASH_LENGTH)
            return kinds[i];
    }
    return NULL;
}

bool kube_proxy_has_chain(const char *table, const char *chain)
{
    for (size_t i = 0; i < COUNT(chains); i++)
        if (strcmp(chains[i].table, table) == 0 && strcmp(chains[i].chain, chain) == 0)
            return true;
    return strcmp(table, "nat") == 0 && kube_proxy_chain_kind(chain);
}

bool kube_proxy_has_comment(const char *comment, size_t size)
{
    size_t length = strnlen(comment, size);
    for (size_t i = 0; i < COUNT(comments); i++)
        if (strlen(comments[i]) == length && memcmp(comments[i], comment, length) == 0)
            return true;
    return false;
}

bool kube_proxy_has_ip_set(const char *name)
{
    const char *prefix = begins_with(name, "KUBE-6-") ? "KUBE-6-" : "KUBE-";
    if (!begins_with(name, prefix))
        return false;
    /* kube-proxy truncates names that are too long, such as KUBE-6-NODE-PORT-LOCAL-SCTP-HASH. */
    const char *rest = name + strlen(prefix);
    size_t room = IP_SET_NAME_LENGTH - strlen(prefix), length = strlen(rest);
    for (size_t i = 0; i < COUNT(ip_sets); i++)
        if (strncmp(ip_sets[i], rest, room) == 0 && length <= room)
            return true;
    return false;
}

/* ---- the command ---- */

/* The table of mode nftables. */
#define KUBE_PROXY_TABLE "kube-proxy"

void cleanup_report(struct cleanup *cleanup, enum fate fate, const char *format, ...)
{
    static const char *const words[] = {[FATE_REMOVED] = "removed",
                                        [FATE_LEFT] = "left",
                                        [FATE_OTHERS] = "not kube-proxy's",
                                        [FATE_WARNING] = "warning"};
    bool planned = fate == FATE_REMOVED && cleanup->dry_run;
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    fprintf(cleanup->out, "%s: %s\n", planned ? "would remove" : words[fate], text);
    free(text);
    cleanup->removed += fate == FATE_REMOVED;
    cleanup->left += fate == FATE_LEFT;
}

int cleanup_table(struct cleanup *cleanup, struct nft_socket *socket, enum family family,
                  struct error *err)
{
    const char *ip = nft_family_name(family);
    struct nft_table_state state;
    if (nft_socket_read_table(socket, family, KUBE_PROXY_TABLE, &state, err))
        return -1;
    free(state.comment);
    if (!state.exists)
        return 0;
    if (state.owned_elsewhere) {
        cleanup_report(cleanup, FATE_LEFT,
                       "table %s %s: a process owns it, so kube-proxy is still running: stop it",
                       ip, KUBE_PROXY_TABLE);
        return 0;
    }
    struct nft_batch batch;
    nft_batch_init(&batch, family, KUBE_PROXY_TABLE);
    nft_batch_delete_table(&batch);
    if (!cleanup->dry_run && nft_socket_commit(socket, &batch, err)) {
        cleanup_report(cleanup, FATE_LEFT, "table %s %s: %s", ip, KUBE_PROXY_TABLE, err->text);
        error_clear(err);
    } else {
        cleanup_report(cleanup, FATE_REMOVED, "table %s %s", ip, KUBE_PROXY_TABLE);
    }
    nft_batch_release(&batch);
    return 0;
}

int kube_proxy_cleanup(bool dry_run, FILE *out, struct error *err)
{
    struct cleanup cleanup = {.out = out, .dry_run = dry_run};
    struct nft_socket *socket = nft_socket_open(err);
    if (!socket)
        return -1;
    int result = 0;
    for (int family = 0; family < FAMILY_COUNT && result == 0; family++)
        result = cleanup_table(&cleanup, socket, (enum family)family, err);
    for (int family = 0; family < FAMILY_COUNT && result == 0; family++)
        cleanup_iptables_nft(&cleanup, socket, (enum family)family);
    nft_socket_close(socket);
    if (result)
        return -1; /* most likely CAP_NET_ADMIN is missing, and the rest would fail too */
    for (int family = 0; family < FAMILY_COUNT; family++)
        cleanup_iptables_legacy(&cleanup, (enum family)family);
    cleanup_ipvs(&cleanup); /* after the rules that refer to its sets */
    if (cleanup.removed + cleanup.left == 0)
        fprintf(out, "nothing of kube-proxy was found\n");
    fflush(out);
    if (cleanup.left > 0)
        return error_set(err, "not everything of kube-proxy can be removed (lines 'left': %zu)",
                         cleanup.left);
    return 0;
}
