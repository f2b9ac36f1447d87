/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any JSON is an object, none of ours, or bad with an error and no payload. */
#include "../unit/json_read.h"

#include "kube-nftd/model.h"
#include "kube-nftd/values.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct json_value *json, int expected)
{
    struct object object = {0};
    struct error err = {0};
    enum decode_result result = object_decode(json, expected, &object, &err);
    if ((result == DECODE_BAD) != (err.text != NULL))
        abort();
    if ((result == DECODE_OK) != (object.payload != NULL))
        abort();
    if (result == DECODE_OK && !object.id)
        abort();
    object_clear(&object);
    error_clear(&err);
}

static int take(void *ctx, const struct json_value *json, const struct json_value *list,
                struct error *err)
{
    (void)ctx;
    (void)list;
    (void)err;
    for (int expected = -1; expected < KIND_COUNT; expected++)
        check(json, expected);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    json_read((const char *)data, size, take, NULL, &err);
    error_clear(&err);
    return 0;
}
