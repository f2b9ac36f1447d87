/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What kube-proxy calls its things in the kernel, where they are, and what is said of each. */
#ifndef KUBE_NFTD_CLEANUP_CLEANUP_H
#define KUBE_NFTD_CLEANUP_CLEANUP_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/netlink.h"
#include "kube-nftd/table.h"

#include <libmnl/libmnl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- cleanup.c: the command ---- */

struct cleanup {
    FILE *out; /* borrowed */
    bool dry_run;
    size_t removed; /* lines of things that were, or would be */
    size_t left;    /* lines of things that stay */
};

/* What becomes of a thing, with an example of its line. */
enum fate {
    FATE_REMOVED, /* "removed: table ip kube-proxy", "would remove: ..." in a dry run */
    FATE_STAYS,   /* "left: IP set KUBE-CLUSTER-IP: why, and what a person can do" */
    FATE_OTHERS,  /* "not kube-proxy's: virtual servers of ipvs: 3" */
    FATE_WARNING, /* "warning: what the removal, done or planned, makes different for others" */
};

void cleanup_say(struct cleanup *cleanup, enum fate fate, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/**
 * Removes kube-proxy's own table of @family, that of its mode nftables; in one transaction. A table
 * that a process owns stays. -1 if the kernel cannot be asked.
 */
int cleanup_table(struct cleanup *cleanup, struct nft_socket *socket, enum family family,
                  struct error *err);

/* ---- cleanup.c: names ---- */

/*
 * What kube-proxy's modes iptables and ipvs call the things that they make in the kernel. Other
 * programs have names that begin with KUBE- as well: the kubelet (KUBE-FIREWALL in the table
 * filter, KUBE-MARK-DROP, KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT), kube-router (KUBE-ROUTER-...,
 * KUBE-NWPLCY-..., KUBE-POD-FW-...), CRI-O (KUBE-HOSTPORTS). So only the exact names count.
 */

/** Whether the chain @chain of the iptables table @table is one of kube-proxy's. */
bool kube_proxy_has_chain(const char *table, const char *chain);

/** The beginning that @chain has in common with others that kube-proxy makes for each service and
 * endpoint, "KUBE-SVC-" and the like; NULL for any other name. */
const char *kube_proxy_chain_kind(const char *chain);

/** Whether kube-proxy puts the comment @comment to the rules that lead to its chains. */
bool kube_proxy_has_comment(const char *comment);

/** Whether the IP set @name is one of kube-proxy's. */
bool kube_proxy_has_ip_set(const char *name);

/* ---- iptables_plan.c: which chains and rules of one table of iptables can go ---- */

/*
 * kube-proxy's are the chains with its names, all that is in them, and the rules of base chains
 * that lead to them with its comments. Where any other rule or a verdict map leads to one of its
 * chains, that chain stays, with all that it leads to: what leads there is another program's and
 * would be broken (the kernel would refuse to).
 */

struct iptables_chain;
typedef VEC(struct iptables_chain *) iptables_chain_vec;

/* A chain; or a verdict map, whose name here begins with "@". */
struct iptables_chain {
    struct hash_link link; /* by name */
    char *name;
    /* An anonymous map is part of the rule that looks into it. */
    enum { OTHER_CHAIN, BASE_CHAIN, KUBE_PROXY_CHAIN, MAP, ANONYMOUS_MAP } kind;
    bool drops; /* the policy of a base chain */
    size_t rules;
    iptables_chain_vec leads_to;            /* kube-proxy's chains and anonymous maps alone */
    const struct iptables_chain *needed_by; /* another program's; NULL: it can go */
    bool needed_directly;                   /* not only by way of other chains */
};

/* A rule of kube-proxy's in a base chain. */
struct iptables_jump {
    const struct iptables_chain *from, *to;
    uint64_t handle;
};

struct iptables_plan {
    enum family family;
    const char *table;         /* borrowed */
    iptables_chain_vec chains; /* in the order in which they were added; owned */
    struct hash_table by_name;
    VEC(struct iptables_jump) jumps;
};

/* A rule as far as it matters here; borrowed. */
struct iptables_rule {
    const char *chain;
    uint64_t handle;
    const char *to;      /* the chain it jumps or goes to; NULL if none */
    const char *map;     /* "@...", the map that it looks into; NULL if none */
    const char *comment; /* NULL if none */
};

/** A plan starts zeroed but for its family and table. */
void iptables_plan_clear(struct iptables_plan *plan);

/** Adds a chain or map, unless it is there. All of them come before all else. */
struct iptables_chain *iptables_plan_add(struct iptables_plan *plan, const char *name, int kind);

/** An element of the map @map leads to the chain @to. */
void iptables_plan_add_element(struct iptables_plan *plan, const char *map, const char *to);

/** A rule of a chain that is not there is passed over. One that comes twice counts twice to the
 * chain's rules, and once else. */
void iptables_plan_add_rule(struct iptables_plan *plan, const struct iptables_rule *rule);

/** All is there: finds out what is needed by others. */
void iptables_plan_finish(struct iptables_plan *plan);

/** The chain @name, or the map "@..."; NULL if there is none, or no name. */
struct iptables_chain *iptables_plan_find(const struct iptables_plan *plan, const char *name);

/** Whether a chain is kube-proxy's and can go. */
bool iptables_chain_goes(const struct iptables_chain *chain);

/* ---- iptables_nft.c: chains and rules that iptables keeps in nf_tables ---- */

/** Removes kube-proxy's chains and the rules that lead to them from the tables filter, mangle and
 * nat of @family, each in one transaction. */
void cleanup_iptables_nft(struct cleanup *cleanup, struct nft_socket *socket, enum family family);

/* ---- iptables_legacy.c: tables that are not in nf_tables ---- */

/*
 * They are only looked at: the kernel takes such a table as a whole or not at all, so a program
 * that changes one may lose what another does at the same time, and their lock is not ours to have.
 */

/** How many of kube-proxy's chains there are in @entries (@size bytes), the contents of @table as
 * the kernel hands it out. The name of the first goes into @first, for the caller to free. */
size_t iptables_legacy_chains(const char *table, const void *entries, size_t size, char **first);

/** Says which of kube-proxy's chains there are in tables of @family. */
void cleanup_iptables_legacy(struct cleanup *cleanup, enum family family);

/* ---- ipvs.c ---- */

/*
 * The virtual servers of kube-proxy's mode ipvs, the device kube-ipvs0 that has their addresses,
 * and its IP sets. kube-proxy's virtual servers are those at an address of this device, and those
 * at one of its node ports, which are in IP sets; others, of a load balancer on the node say, stay.
 */

struct virtual_server {
    enum family family;
    uint8_t protocol;
    struct address address;
    uint16_t port;   /* host byte order */
    uint32_t fwmark; /* 0: the others say which it is */
};

/** Reads one message of the kernel's list of virtual servers. False if it is none. */
bool virtual_server_read(const struct nlmsghdr *message, struct virtual_server *server);

/** Removes kube-proxy's virtual servers, then kube-ipvs0 and the IP sets of both families. If one
 * of the servers stays, device and sets stay too: they say whose it is. */
void cleanup_ipvs(struct cleanup *cleanup);

#endif
