/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "json_read.h"

int json_read(const char *text, size_t length, value_fn fn, void *ctx, struct error *err)
{
    struct value_reader *reader = json_reader_new(UINT32_MAX, fn, ctx);
    int result = value_reader_feed(reader, text, length, err);
    if (result == 0)
        result = value_reader_finish(reader, err);
    value_reader_free(reader);
    return result;
}
