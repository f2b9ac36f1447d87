/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes are read or rejected, and the same way whether they come at once or in pieces. */
#include "kube-nftd/base.h"
#include "kube-nftd/values.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
    const uint8_t *data;
    size_t left;
    size_t piece;
    VEC(char) out; /* types and strings of all values */
};

static int take(void *ctx, const struct json_value *value, const struct json_value *list,
                struct error *err)
{
    struct run *run = ctx;
    (void)err;
    vec_push(&run->out, list ? 'i' : 'v');
    for (uint32_t i = 0; i < value->size; i++) {
        vec_push(&run->out, (char)value[i].type);
        if (value[i].key)
            vec_append(&run->out, value[i].key, strlen(value[i].key));
        if (json_has_string(&value[i]))
            vec_append(&run->out, value[i].string, strlen(value[i].string));
    }
    return 0;
}

static int input(void *ctx, char *buffer, size_t size, size_t *n)
{
    struct run *run = ctx;
    *n = run->piece < size ? run->piece : size;
    if (*n > run->left)
        *n = run->left;
    memcpy(buffer, run->data, *n);
    run->data += *n;
    run->left -= *n;
    return 0;
}

static int run_pieces(struct run *run)
{
    struct error err = {0};
    struct value_reader *reader = json_reader_new(SIZE_MAX, take, run);
    int result = yaml_read(reader, input, run, &err);
    if ((result != 0) != (err.text != NULL))
        abort();
    value_reader_free(reader);
    error_clear(&err);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    struct run whole = {.data = data, .left = size, .piece = size};
    struct run cut = {.data = data, .left = size, .piece = 1 + size % 13};
    int result = run_pieces(&whole);
    /* Of two errors either may be met first: libyaml decodes ahead as far as it has bytes. */
    if (run_pieces(&cut) != result)
        abort();
    if (result == 0 && (whole.out.n != cut.out.n ||
                        (cut.out.n > 0 && memcmp(whole.out.v, cut.out.v, cut.out.n) != 0)))
        abort();
    cJSON *json = yaml_parse((const char *)data, size, false, &err);
    if ((json == NULL) != (err.text != NULL))
        abort();
    cJSON_Delete(json);
    error_clear(&err);
    vec_free(&whole.out);
    vec_free(&cut.out);
    return 0;
}
