/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Looks through the kernel's tables from time to time, in small pieces between other work: all
 * elements that are known one by one, and the rules. Measures what its pieces take and rests so
 * long after each that it has 1/200 of a core at most, however much the tables hold.
 */
#ifndef KUBE_NFTD_TABLE_AUDIT_H
#define KUBE_NFTD_TABLE_AUDIT_H

#include "kube-nftd/netlink/nft_socket.h"
#include "kube-nftd/proxy.h"

struct ev_loop;
struct table_audit;

/**
 * Begins the first look @period seconds from now, and each further one as long after the last.
 * What is found is put right by turns of @proxy. All is borrowed.
 */
struct table_audit *table_audit_new(struct ev_loop *loop, struct proxy *proxy,
                                    struct nft_socket *socket, double period);
void table_audit_free(struct table_audit *audit);

#endif
