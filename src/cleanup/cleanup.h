/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel objects of kube-proxy: their names, how to find and remove them, and the report. */
#ifndef KUBE_NFTD_CLEANUP_CLEANUP_H
#define KUBE_NFTD_CLEANUP_CLEANUP_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/table.h"

#include <stdio.h>

/* ---- cleanup.c: the command and the names ---- */

struct cleanup {
    FILE *out; /* borrowed */
    bool dry_run;
    size_t removed; /* reported as removed, or as to be removed */
    size_t left;    /* reported as left */
};

/* The outcome for an object, with an example of its line. */
enum fate {
    FATE_REMOVED, /* "removed: table ip kube-proxy", "would remove: ..." in a dry run */
    FATE_LEFT,    /* "left: IP set KUBE-CLUSTER-IP: reason and remedy" */
    FATE_OTHERS,  /* "not kube-proxy's: virtual servers of ipvs: 3" */
    FATE_WARNING, /* "warning: side effect of the removal, done or planned" */
};

void cleanup_report(struct cleanup *cleanup, enum fate fate, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Removes the table of mode nftables of @family, unless a process owns it. -1 if the kernel cannot
 * be queried. */
int cleanup_table(struct cleanup *cleanup, struct nft_socket *socket, enum family family,
                  struct error *err);

/*
 * Names that kube-proxy uses in modes iptables and ipvs. They match exactly, since other programs
 * use the prefix KUBE- too: the kubelet (KUBE-FIREWALL in the table filter, KUBE-MARK-DROP,
 * KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT), kube-router (KUBE-ROUTER-..., KUBE-NWPLCY-...,
 * KUBE-POD-FW-...), CRI-O (KUBE-HOSTPORTS).
 */

/** Whether the chain @chain of the iptables table @table belongs to kube-proxy. */
bool kube_proxy_has_chain(const char *table, const char *chain);

/** The prefix, such as "KUBE-SVC-", if @chain is one that kube-proxy makes for a service or
 * endpoint; else NULL. */
const char *kube_proxy_chain_kind(const char *chain);

/** Whether kube-proxy puts @comment, of at most @size bytes, on rules that jump to its chains. */
bool kube_proxy_has_comment(const char *comment, size_t size);

/** Whether the IP set @name belongs to kube-proxy. */
bool kube_proxy_has_ip_set(const char *name);

/* ---- iptables_nft.c: tables that iptables keeps in nf_tables ---- */

/*
 * To remove: kube-proxy's chains with their rules, and the rules of base chains that jump to them
 * and carry its comments. A chain that any other rule refers to, or whose removal the kernel
 * rejects because of a reference, stays with all chains that it jumps to: another program needs it.
 */

struct iptables_chain;
typedef VEC(struct iptables_chain *) iptables_chain_vec;

struct iptables_chain {
    struct hash_link link; /* by name */
    char *name;
    bool base, kube_proxys;
    bool drops; /* the policy of a base chain is drop */
    size_t rules;
    iptables_chain_vec leads_to;            /* only kube-proxy's chains */
    const struct iptables_chain *needed_by; /* NULL: not needed; no name: a verdict map needs it */
};

/* A rule of kube-proxy in a base chain. */
struct iptables_jump {
    const struct iptables_chain *from, *to;
    uint64_t handle;
};

/* What one table holds. */
struct iptables_plan {
    enum family family;
    const char *table;         /* borrowed */
    iptables_chain_vec chains; /* in order of addition; owned */
    struct hash_table by_name;
    iptables_chain_vec needed; /* by other programs, directly needed ones first */
    size_t followed;           /* so many of them were followed */
    VEC(struct iptables_jump) jumps;
    bool interrupted; /* nf_tables changed during the dump, so the plan may have gaps */
};

/* The relevant fields of a rule; borrowed. */
struct iptables_rule {
    const char *chain;
    uint64_t handle;
    const char *to; /* the target of its jump or goto; NULL if none */
    bool commented; /* with a comment of kube-proxy */
};

/** A plan starts zeroed except for family and table. */
void iptables_plan_clear(struct iptables_plan *plan);

/** Adds a chain, unless it exists. Add all of them before any rule. */
struct iptables_chain *iptables_plan_add(struct iptables_plan *plan, const char *name, bool base);

/** Adds a rule; ignores one of an unknown chain. A duplicate only increases the chain's rule
 * count. */
void iptables_plan_add_rule(struct iptables_plan *plan, const struct iptables_rule *rule);

/** Call it after the last rule: determines which chains other programs need. */
void iptables_plan_finish(struct iptables_plan *plan);

/** Whether a chain belongs to kube-proxy and can be removed. */
bool iptables_chain_goes(const struct iptables_chain *chain);

/** Removes kube-proxy's chains and the rules that jump to them from the tables filter, mangle and
 * nat of @family, in one transaction per table. */
void cleanup_iptables_nft(struct cleanup *cleanup, struct nft_socket *socket, enum family family);

/* ---- iptables_legacy.c: tables that are not in nf_tables ---- */

/*
 * These are reported, never changed: the kernel replaces such a table as a whole, so a concurrent
 * change by another program would be lost, and this process cannot take xtables.lock.
 */

/** Counts kube-proxy's chains in @entries (@size bytes), the contents of @table as read from the
 * kernel. Stores the first name in *@first, owned by the caller. */
size_t iptables_legacy_chains(const char *table, const void *entries, size_t size, char **first);

/** Reports kube-proxy's chains in the legacy tables of @family. */
void cleanup_iptables_legacy(struct cleanup *cleanup, enum family family);

/* ---- ipvs.c ---- */

/*
 * Mode ipvs: its virtual servers, the device kube-ipvs0 with their addresses, and its IP sets. A
 * virtual server belongs to kube-proxy if its address is on that device or its port is a NodePort
 * in the IP sets. Others stay, such as those of a load balancer on the node.
 */

struct virtual_server {
    enum family family;
    uint8_t protocol;
    struct address address;
    uint16_t port;   /* host byte order */
    uint32_t fwmark; /* 0: identified by the fields above */
};

/** Parses one message of the kernel's list of virtual servers. False if it holds none. */
bool virtual_server_read(const struct nlmsghdr *message, struct virtual_server *server);

/** Removes kube-proxy's virtual servers, then kube-ipvs0 and the IP sets of both families. If a
 * server cannot be removed, device and sets stay, since they identify its owner. */
void cleanup_ipvs(struct cleanup *cleanup);

#endif
