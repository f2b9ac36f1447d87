/* SPDX-License-Identifier: GPL-2.0-or-later */
/* However a text is cut into pieces, the cutter gives out the same values. */
#include "kube-nftd/base/alloc.h"
#include "kube-nftd/base/vec.h"
#include "kube-nftd/source/json_cutter.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
    struct json_cutter *cutter;
    size_t limit;
    VEC(char) out; /* every value, its line and whether it is an item */
    int result;
};

static void add(struct run *run, const void *bytes, size_t n)
{
    vec_reserve(&run->out, n);
    memcpy(run->out.v + run->out.n, bytes, n);
    run->out.n += n;
}

static bool take(void *ctx, const char *text, size_t length, bool is_item)
{
    struct run *run = ctx;
    if (strlen(text) != length || length == 0 || length > run->limit)
        abort();
    char *envelope = json_cutter_envelope(run->cutter);
    if ((envelope != NULL) != is_item)
        abort();
    free(envelope);
    size_t line = json_cutter_line(run->cutter);
    add(run, &line, sizeof(line));
    add(run, &is_item, sizeof(is_item));
    add(run, text, length + 1);
    return true;
}

static void run_pieces(struct run *run, const uint8_t *data, size_t size, size_t piece)
{
    struct error err = {0};
    run->cutter = json_cutter_new(run->limit, take, run);
    for (size_t at = 0; at < size && run->result == 0; at += piece) {
        size_t n = size - at < piece ? size - at : piece;
        char *copy = xcalloc(n, 1);
        memcpy(copy, data + at, n);
        run->result = json_cutter_feed(run->cutter, copy, n, &err);
        free(copy);
    }
    if (run->result == 0)
        run->result = json_cutter_finish(run->cutter, &err);
    if ((run->result != 0) != (err.text != NULL))
        abort();
    error_clear(&err);
    json_cutter_free(run->cutter);
}

static void compare(const uint8_t *data, size_t size, size_t limit, size_t piece)
{
    struct run whole = {.limit = limit}, cut = {.limit = limit};
    run_pieces(&whole, data, size, size);
    run_pieces(&cut, data, size, piece);
    if (whole.result != cut.result || whole.out.n != cut.out.n ||
        (cut.out.n > 0 && memcmp(whole.out.v, cut.out.v, cut.out.n) != 0))
        abort();
    vec_free(&whole.out);
    vec_free(&cut.out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t mix = size;
    for (size_t i = 0; i < size && i < 64; i++)
        mix = mix * 31 + data[i];
    compare(data, size, size + 1, 1);
    compare(data, size, size + 1, 2 + mix % 61);
    compare(data, size, 1 + mix % 97, 1 + mix % 7);
    return 0;
}
