/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The objects whose last version could not be read: what the caches say of them is an older one, or
 * nothing. For telling people; so it holds at most UNREAD_OBJECTS_MAX, those that came first.
 */
#ifndef KUBE_NFTD_CACHE_UNREAD_OBJECTS_H
#define KUBE_NFTD_CACHE_UNREAD_OBJECTS_H

#include "kube-nftd/model/object.h"

#define UNREAD_OBJECTS_MAX 10000

struct unread_objects;

struct unread_objects *unread_objects_new(void);
void unread_objects_free(struct unread_objects *unread);

/** The object @id could not be read. */
void unread_objects_note(struct unread_objects *unread, enum object_kind kind, const char *id);

/** It could, or it is gone. */
void unread_objects_forget(struct unread_objects *unread, enum object_kind kind, const char *id);

/** All of @kind come anew. */
void unread_objects_forget_all(struct unread_objects *unread, enum object_kind kind);

bool unread_objects_has(const struct unread_objects *unread, enum object_kind kind, const char *id);

/** How many there are of @kind. */
size_t unread_objects_count(const struct unread_objects *unread, enum object_kind kind);

#endif
