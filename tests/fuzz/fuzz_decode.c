/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Any JSON is an object, none of ours, or bad with an error and no payload. */
#include "kube-nftd/model/decode.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const cJSON *json, int expected)
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cJSON *json = cJSON_ParseWithLength((const char *)data, size);
    if (!json)
        return 0;
    for (int expected = -1; expected < KIND_COUNT; expected++)
        check(json, expected);
    cJSON_Delete(json);
    return 0;
}
