/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Takes a taint from the own Node that keeps pods away until the node can reach services: when the
 * first programming is applied everywhere, and again whenever the Node has it after that. A JSON
 * patch that tests each taint it removes as a whole, so nothing else is ever lost; what has changed
 * meanwhile is tried again with what the watch has brought by then.
 *
 * Somebody else may put the taint back each time. So between two removals from the same Node there
 * is a pause: 1 s, doubled up to 5 minutes while the taint comes back within 10 minutes. A Node
 * with another uid waits for nothing.
 */
#ifndef KUBE_NFTD_SOURCE_STARTUP_TAINT_H
#define KUBE_NFTD_SOURCE_STARTUP_TAINT_H

#include "kube-nftd/model/object.h"

struct apiserver;
struct ev_loop;
struct startup_taint;

/** @node_name and @pattern (any taint that it means) are copied. */
struct startup_taint *startup_taint_new(struct ev_loop *loop, struct apiserver *apiserver,
                                        const char *node_name, const struct taint *pattern);

/** Before the apiserver is freed. NULL is fine. */
void startup_taint_free(struct startup_taint *startup);

/** The own Node as it is now; NULL: it is gone. */
void startup_taint_node_seen(struct startup_taint *startup, const struct node *node);

/**
 * All tables are applied, but for @refused frontends and elements that the kernel refuses: the
 * taint goes if there are none. Cheap to be told again; the first time without any counts for good.
 */
void startup_taint_programmed(struct startup_taint *startup, size_t refused);

#endif
