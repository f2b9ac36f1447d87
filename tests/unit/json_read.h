/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef KUBE_NFTD_TESTS_JSON_READ_H
#define KUBE_NFTD_TESTS_JSON_READ_H

#include "kube-nftd/values.h"

/* Reads a text that is there as a whole: gives its values to @fn, as a reader without a limit of
 * bytes does. -1 as the reader. */
static inline int json_read(const char *text, size_t length, value_fn fn, void *ctx,
                            struct error *err)
{
    struct value_reader *reader = json_reader_new(UINT32_MAX, fn, ctx);
    int result = value_reader_feed(reader, text, length, err);
    if (result == 0)
        result = value_reader_finish(reader, err);
    value_reader_free(reader);
    return result;
}

#endif
