/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The elements of a set, read in pieces, on a socket of its own. The kernel makes the next piece
 * when it is asked for, by counting off from the beginning what it gave already. So changes between
 * two pieces may make it leave out elements or give them twice.
 */
#ifndef KUBE_NFTD_NETLINK_ELEMENT_DUMP_H
#define KUBE_NFTD_NETLINK_ELEMENT_DUMP_H

#include "kube-nftd/base/error.h"
#include "kube-nftd/netlink/nft_socket.h"

struct element_dump;

/** Asks for all elements of a set. NULL if the kernel does not give them. */
struct element_dump *element_dump_open(enum family family, const char *table, const char *set,
                                       struct error *err);
void element_dump_close(struct element_dump *dump);

enum element_dump_state { DUMP_GOES_ON, DUMP_ENDED, DUMP_FAILED };

/** Gives the next piece, some 32 KiB, to @fn. Does not wait. @err is set if it failed. */
enum element_dump_state element_dump_step(struct element_dump *dump, nft_element_fn fn, void *ctx,
                                          struct error *err);

#endif
