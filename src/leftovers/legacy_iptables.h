/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What kube-proxy left in the tables of iptables-legacy, which are not in nf_tables. They are only
 * looked at: the kernel takes such a table as a whole or not at all, so a program that changes one
 * may lose what another does at the same time, and their lock is not ours to have.
 */
#ifndef KUBE_NFTD_LEFTOVERS_LEGACY_IPTABLES_H
#define KUBE_NFTD_LEFTOVERS_LEGACY_IPTABLES_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/model/address.h"
#include "report.h"

typedef void (*legacy_chain_fn)(void *ctx, const char *name);

/**
 * Gives the names of the chains that users made in @entries (@size bytes), the contents of a table
 * as the kernel hands it out, to @fn. -1: it is not such contents.
 */
int legacy_iptables_chains(enum family family, const void *entries, size_t size, legacy_chain_fn fn,
                           void *ctx, struct error *err);

/** Says which of kube-proxy's chains there are in tables of @family. */
void leftovers_report_legacy(enum family family, struct leftovers_report *report);

#endif
