/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A growing array. Declare with VEC(type), start zeroed, release with vec_free (which does not
 * free what the elements own).
 */
#ifndef KUBE_NFTD_BASE_VEC_H
#define KUBE_NFTD_BASE_VEC_H

#include "kube-nftd/base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *v;                                                                                   \
        size_t n;                                                                                  \
        size_t cap;                                                                                \
    }

/* Makes room for @extra more elements. */
#define vec_reserve(vec, extra)                                                                    \
    do {                                                                                           \
        if ((vec)->n + (extra) > (vec)->cap) {                                                     \
            size_t cap_ = (vec)->cap ? (vec)->cap * 2 : 4;                                         \
            if (cap_ < (vec)->n + (extra))                                                         \
                cap_ = (vec)->n + (extra);                                                         \
            (vec)->v = xreallocarray((vec)->v, cap_, sizeof(*(vec)->v));                           \
            (vec)->cap = cap_;                                                                     \
        }                                                                                          \
    } while (0)

/* Makes room for just @count elements, of an array that has none as yet. */
#define vec_make_room(vec, count)                                                                  \
    do {                                                                                           \
        (vec)->cap = (count);                                                                      \
        (vec)->v = xreallocarray((vec)->v, (vec)->cap, sizeof(*(vec)->v));                         \
    } while (0)

/* The new element as an lvalue to assign to. */
#define vec_push(vec, ...)                                                                         \
    do {                                                                                           \
        vec_reserve(vec, 1);                                                                       \
        (vec)->v[(vec)->n++] = (__VA_ARGS__);                                                      \
    } while (0)

/* Copies of @count elements at @items, in another place. */
#define vec_append(vec, items, count)                                                              \
    do {                                                                                           \
        size_t n_ = (count);                                                                       \
        if (n_ > 0) {                                                                              \
            vec_reserve(vec, n_);                                                                  \
            memcpy((vec)->v + (vec)->n, (items), n_ * sizeof(*(vec)->v));                          \
            (vec)->n += n_;                                                                        \
        }                                                                                          \
    } while (0)

/* Gives back the room for more elements, of an array that is kept for long. */
#define vec_trim(vec)                                                                              \
    do {                                                                                           \
        if ((vec)->cap > (vec)->n) {                                                               \
            (vec)->v = xreallocarray((vec)->v, (vec)->n, sizeof(*(vec)->v));                       \
            (vec)->cap = (vec)->n;                                                                 \
        }                                                                                          \
    } while (0)

/* Forgets the elements and keeps the memory. */
#define vec_clear(vec) ((void)((vec)->n = 0))

/* The same, but gives back the memory of many: for what is filled over and over, with few elements
 * nearly always. */
#define vec_clear_few(vec)                                                                         \
    do {                                                                                           \
        if ((vec)->cap > VEC_FEW)                                                                  \
            vec_free(vec);                                                                         \
        else                                                                                       \
            vec_clear(vec);                                                                        \
    } while (0)
#define VEC_FEW 64

#define vec_free(vec)                                                                              \
    do {                                                                                           \
        free((vec)->v);                                                                            \
        (vec)->v = NULL;                                                                           \
        (vec)->n = (vec)->cap = 0;                                                                 \
    } while (0)

/* Forgets the first @count elements, and keeps the memory while there are others. */
#define vec_drop_first(vec, count)                                                                 \
    do {                                                                                           \
        size_t n_ = (count);                                                                       \
        (vec)->n -= n_;                                                                            \
        if ((vec)->n == 0)                                                                         \
            vec_clear_few(vec);                                                                    \
        else if (n_ > 0)                                                                           \
            memmove((vec)->v, (vec)->v + n_, (vec)->n * sizeof(*(vec)->v));                        \
    } while (0)

/* Runs the statement with @it pointing at each element in turn. */
#define vec_each(vec, it)                                                                          \
    for (__typeof__(*(vec)->v) *it = (vec)->v, *it##_end_ = (vec)->n ? it + (vec)->n : it;         \
         it < it##_end_; it++)

#endif
