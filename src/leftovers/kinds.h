/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What kube-proxy's things are called, where they lie, and what is said of each. */
#ifndef KUBE_NFTD_LEFTOVERS_KINDS_H
#define KUBE_NFTD_LEFTOVERS_KINDS_H

#include "kube-nftd/base.h"
#include "kube-nftd/model.h"
#include "kube-nftd/netlink.h"

#include <libmnl/libmnl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- leftovers.c ---- */

/*
 * What is said of things that kube-proxy left in the kernel, one line a thing:
 *
 *     removed: table ip kube-proxy
 *     would remove: table ip nat: chain KUBE-SERVICES
 *     left: IP set KUBE-CLUSTER-IP: ...why, and what a person can do
 *     not kube-proxy's: virtual servers of ipvs: 3
 *     warning: table ip filter: ...what will be different, and what a person can do
 */
struct leftovers_report {
    FILE *out; /* borrowed */
    bool dry_run;
    size_t removed; /* lines of things that were, or would be */
    size_t left;    /* lines of things that stay */
};

/* What becomes of a thing. */
enum fate {
    FATE_REMOVED, /* or would be, in a dry run */
    FATE_STAYS,   /* the text ends with why, and what a person can do */
    FATE_OTHERS,  /* near to kube-proxy's, but taken for somebody else's */
    FATE_WARNING, /* what the removal, done or planned, makes different for others, and what a
                     person can do */
};

/** Says what becomes of the thing that @format tells. */
void leftovers_say(struct leftovers_report *report, enum fate fate, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * What kube-proxy's modes iptables and ipvs call the things that they make in the kernel. Other
 * programs have names that begin with KUBE- as well: the kubelet (KUBE-FIREWALL in the table
 * filter, KUBE-MARK-DROP, KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT), kube-router (KUBE-ROUTER-...,
 * KUBE-NWPLCY-..., KUBE-POD-FW-...), CRI-O (KUBE-HOSTPORTS). So only the exact names count.
 */

/** The tables of iptables in which kube-proxy has chains: filter, mangle, nat. */
extern const char *const kube_proxy_tables[];
extern const size_t kube_proxy_tables_count;

/** Whether the chain @chain of the iptables table @table is one of kube-proxy's. */
bool kube_proxy_has_chain(const char *table, const char *chain);

/**
 * The beginning that @chain has in common with others of its kind, "KUBE-SVC-" and the like: what
 * kube-proxy makes for each service and endpoint. NULL for any other name.
 */
const char *kube_proxy_chain_kind(const char *chain);

/** Whether kube-proxy puts the comment @comment to the rules that lead to its chains. */
bool kube_proxy_has_comment(const char *comment);

/** Whether the IP set @name is one of kube-proxy's. */
bool kube_proxy_has_ip_set(const char *name);

/* ---- nf_tables.c ---- */

/*
 * What kube-proxy left in nf_tables: the tables of its mode nftables, and the chains and rules that
 * its modes iptables and ipvs made by an iptables that keeps its tables there (iptables-nft).
 */

/**
 * Removes the table kube-proxy of @family, or says that it would; in one transaction. A table that
 * a process owns stays. -1 if the kernel cannot be asked.
 */
int leftovers_remove_table(struct nft_socket *socket, enum family family,
                           struct leftovers_report *report, struct error *err);

/**
 * Removes kube-proxy's chains and the rules that lead to them from the tables filter, mangle and
 * nat of @family, each in one transaction, or says that it would; nothing of anybody else.
 */
void leftovers_remove_chains(struct nft_socket *socket, enum family family,
                             struct leftovers_report *report);

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
    uint32_t fwmark; /* 0: told by the others */
};

/** Reads one message of the kernel's list of virtual servers. False if it is none. */
bool virtual_server_read(const struct nlmsghdr *message, struct virtual_server *server);

/**
 * Removes kube-proxy's virtual servers, then kube-ipvs0 and the IP sets of both families, or says
 * that it would. If one of the servers stays, device and sets stay too: they tell whose it is.
 */
void leftovers_remove_ipvs(struct leftovers_report *report);

/* ---- legacy_iptables.c ---- */

/*
 * What kube-proxy left in the tables of iptables-legacy, which are not in nf_tables. They are only
 * looked at: the kernel takes such a table as a whole or not at all, so a program that changes one
 * may lose what another does at the same time, and their lock is not ours to have.
 */

/** How many of kube-proxy's chains there are in @entries (@size bytes), the contents of @table as
 * the kernel hands it out. The name of the first goes into @first, for the caller to free. */
size_t legacy_iptables_chains(const char *table, const void *entries, size_t size, char **first);

/** Says which of kube-proxy's chains there are in tables of @family. */
void leftovers_report_legacy(enum family family, struct leftovers_report *report);

#endif
