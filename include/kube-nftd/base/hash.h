/* uthash, with a failed allocation going the way of every other one (base/alloc.h). */
#ifndef KUBE_NFTD_BASE_HASH_H
#define KUBE_NFTD_BASE_HASH_H

#include "kube-nftd/base/alloc.h"

#define uthash_fatal(message) alloc_failed()
#include <uthash.h>

#endif
