/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes are read or refused, and the same way whether they come at once or in pieces. */
#include "../unit/json_read.h"

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
    VEC(char) out; /* JSON */
};

static int take(void *ctx, const char *json, size_t length)
{
    struct run *run = ctx;
    vec_reserve(&run->out, length);
    memcpy(run->out.v + run->out.n, json, length);
    run->out.n += length;
    return 0;
}

static int ignore(void *ctx, const struct json_value *value, const struct json_value *list,
                  struct error *err)
{
    (void)ctx;
    (void)value;
    (void)list;
    (void)err;
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

static void check_error(int result, struct error *err)
{
    if ((result != 0) != (err->text != NULL))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error first = {0}, second = {0}, third = {0}, fourth = {0};
    struct run whole = {.data = data, .left = size, .piece = size};
    struct run cut = {.data = data, .left = size, .piece = 1 + size % 13};
    int result = yaml_to_json(input, take, &whole, &first);
    check_error(result, &first);
    check_error(yaml_to_json(input, take, &cut, &second), &second);
    /* Of two errors either may be met first: libyaml decodes ahead as far as it has bytes. */
    if ((first.text == NULL) != (second.text == NULL))
        abort();
    if (result == 0 && (whole.out.n != cut.out.n ||
                        (cut.out.n > 0 && memcmp(whole.out.v, cut.out.v, cut.out.n) != 0)))
        abort();
    /* What comes out is JSON, but for what the bound of its reader on nesting says. */
    if (result == 0 && json_read(whole.out.v, whole.out.n, ignore, NULL, &fourth) &&
        !strstr(fourth.text, "nested"))
        abort();
    cJSON *json = yaml_parse((const char *)data, size, false, &third);
    check_error(json ? 0 : -1, &third);
    cJSON_Delete(json);
    error_clear(&first);
    error_clear(&second);
    error_clear(&third);
    error_clear(&fourth);
    vec_free(&whole.out);
    vec_free(&cut.out);
    return 0;
}
