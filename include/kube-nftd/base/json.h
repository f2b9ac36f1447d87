/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What cJSON lacks. */
#ifndef KUBE_NFTD_BASE_JSON_H
#define KUBE_NFTD_BASE_JSON_H

#include <cjson/cJSON.h>
#include <stddef.h>

/** The value of @key in @object (which may be NULL or no object), borrowed; NULL if it is absent or
 * null, which mean the same everywhere in the Kubernetes API. */
static inline const cJSON *json_member(const cJSON *object, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNull(value) ? NULL : value;
}

#endif
