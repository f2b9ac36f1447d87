/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One copy of each string that very many objects repeat (node names). Two interned strings are
 * equal exactly if their pointers are. Counted: each intern() is paid back by one intern_release().
 */
#ifndef KUBE_NFTD_BASE_INTERN_H
#define KUBE_NFTD_BASE_INTERN_H

/** The one copy of @s; NULL for NULL. The caller holds a count of it. */
const char *intern(const char *s);

/** Gives back one count of @s, an interned string or NULL. */
void intern_release(const char *s);

#endif
