/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Takes a taint from the own Node that keeps pods away until the node can reach services: when the
 * first programming is in force everywhere, and again whenever the Node has it after that (it was
 * made anew). A JSON patch that tests each taint it removes, so nothing else is ever lost; what has
 * changed meanwhile is tried again with what the watch has brought by then.
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

/** The own Node as it is now. */
void startup_taint_node_seen(struct startup_taint *startup, const struct node *node);

/** Everything is in force; cheap to be told again. */
void startup_taint_programmed(struct startup_taint *startup);

#endif
