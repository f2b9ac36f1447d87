/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ServiceCIDRs that are known, by id, and what they cover together (KEP-1880,
 * docs/behaviour.md 1.5). They may overlap or be equal; a range is covered until the last of them
 * that holds it is gone.
 */
#ifndef KUBE_NFTD_CACHE_SERVICE_CIDR_CACHE_H
#define KUBE_NFTD_CACHE_SERVICE_CIDR_CACHE_H

#include "kube-nftd/model/object.h"

struct service_cidr_cache;

/* Told when what is covered in @family became different: disjoint ranges in ascending order,
 * borrowed. */
typedef void (*service_cidrs_changed_fn)(void *ctx, enum family family, const range_vec *ranges);

struct service_cidr_cache *service_cidr_cache_new(service_cidrs_changed_fn changed, void *ctx);
void service_cidr_cache_free(struct service_cidr_cache *cache);

/** Adds @service_cidr or replaces the one of its id. Takes @service_cidr. */
void service_cidr_cache_put(struct service_cidr_cache *cache, struct service_cidr *service_cidr);

/** Forgets the ServiceCIDR @id; an unknown one is fine. */
void service_cidr_cache_remove(struct service_cidr_cache *cache, const char *id);

/** Whether a ServiceCIDR holds @address. */
bool service_cidr_cache_contains(const struct service_cidr_cache *cache, enum family family,
                                 const struct address *address);

/** Replaces all: forgets what is not in @objects (of KIND_SERVICECIDR; one without payload keeps
 * what was known of it) and takes the payloads of the others, telling of the result once. */
void service_cidr_cache_replace(struct service_cidr_cache *cache, object_vec *objects);

#endif
