/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Commands that change caches of Services and EndpointSlices. */
#ifndef KUBE_NFTD_TESTS_CACHE_SCRIPT_H
#define KUBE_NFTD_TESTS_CACHE_SCRIPT_H

#include "script_objects.h"

extern struct caches caches;

/* Passes on an object of @kind, and takes @payload. */
void put_object(enum object_kind kind, void *payload);

void remove_object(enum object_kind kind, const char *id);

/* For caches_init(): whether a slice triggered something is written. */
extern const struct caches_ops cache_ops;

#endif
