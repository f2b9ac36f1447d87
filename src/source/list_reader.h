/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Collects the objects of a list over its pages, as the bytes come. Nothing of it is of use before
 * the last page is whole.
 */
#ifndef KUBE_NFTD_SOURCE_LIST_READER_H
#define KUBE_NFTD_SOURCE_LIST_READER_H

#include "body_reader.h"
#include "kube-nftd/base/error.h"
#include "kube-nftd/model/object.h"

#include <stdbool.h>
#include <stddef.h>

struct bad_objects;

/* Starts zeroed, but for the first three. */
struct list_reader {
    enum object_kind kind;
    size_t limit;            /* of objects */
    struct bad_objects *bad; /* borrowed; they are in @objects without payload if they have an id */
    object_vec objects;
    size_t count; /* of items, whatever became of them */
    int empty_pages;
    char *version; /* the list's resourceVersion, that of its first page */
    char *token;   /* of the next page; NULL if the last page was the last one */

    struct body_reader body;
    bool has_envelope;   /* the page's metadata was seen */
    bool has_item;       /* and one of its items */
    struct error broken; /* why the callback stopped it */
};

/** Forgets what was read, for a new list. */
void list_reader_reset(struct list_reader *reader);

/** Gets ready for the next page. The token of the last one stays until it ends. */
void list_reader_begin_page(struct list_reader *reader, enum encoding encoding);

/** Takes bytes of the page. -1: it is no list of the kind, or too long. */
int list_reader_feed(struct list_reader *reader, const char *bytes, size_t length,
                     struct error *err);

/** The page is over. -1: it is no whole page. */
int list_reader_end_page(struct list_reader *reader, struct error *err);

#endif
