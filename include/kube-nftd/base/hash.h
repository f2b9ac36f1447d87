/* SPDX-License-Identifier: GPL-2.0-or-later */
/* uthash, with a failed allocation going the way of every other one (base/alloc.h). */
#ifndef KUBE_NFTD_BASE_HASH_H
#define KUBE_NFTD_BASE_HASH_H

#include "kube-nftd/base/alloc.h"

#define uthash_fatal(message) alloc_failed()
#include <uthash.h>

/* The static analyzer loses track of an item inside the table's lists and takes each free() after
 * a removal for a use of freed memory. It is shown what matters to it: the item leaves. */
#ifdef __clang_analyzer__
#undef HASH_DELETE
#define HASH_DELETE(hh, head, item) hash_forget((void **)&(head), (item))
void hash_forget(void **head, const void *item);
#endif

#endif
