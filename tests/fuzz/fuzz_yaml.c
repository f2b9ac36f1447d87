/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any bytes are read or refused, and the same way whether they come at once or in pieces. */
#include "kube-nftd/base/vec.h"
#include "kube-nftd/base/yaml.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
    const uint8_t *data;
    size_t left;
    size_t piece;
    VEC(char) out; /* every value as JSON, its line and whether it is an item */
};

static void add(struct run *run, const void *bytes, size_t n)
{
    vec_reserve(&run->out, n);
    memcpy(run->out.v + run->out.n, bytes, n);
    run->out.n += n;
}

static bool take(void *ctx, const struct yaml_value *value)
{
    struct run *run = ctx;
    if (value->line == 0 || (value->envelope != NULL) != value->is_item)
        abort();
    char *text = cJSON_PrintUnformatted(value->json);
    add(run, &value->line, sizeof(value->line));
    add(run, &value->is_item, sizeof(value->is_item));
    add(run, text, strlen(text) + 1);
    free(text);
    return true;
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
    struct error first = {0}, second = {0}, third = {0};
    struct run whole = {0}, cut = {.data = data, .left = size, .piece = 1 + size % 13};
    int result = yaml_read((const char *)data, size, take, &whole, &first);
    check_error(result, &first);
    check_error(yaml_read_from(input, take, &cut, &second), &second);
    /* Of two errors either may be met first: libyaml decodes ahead as far as it has bytes. */
    if ((first.text == NULL) != (second.text == NULL))
        abort();
    if (result == 0 && (whole.out.n != cut.out.n ||
                        (cut.out.n > 0 && memcmp(whole.out.v, cut.out.v, cut.out.n) != 0)))
        abort();
    cJSON *json = yaml_parse((const char *)data, size, &third);
    check_error(json ? 0 : -1, &third);
    cJSON_Delete(json);
    error_clear(&first);
    error_clear(&second);
    error_clear(&third);
    vec_free(&whole.out);
    vec_free(&cut.out);
    return 0;
}
