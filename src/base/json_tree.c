/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kube-nftd/base/json_tree.h"

#include "kube-nftd/base/utf8.h"

#include <math.h>

static enum json_type type_of(const cJSON *tree)
{
    if (cJSON_IsObject(tree))
        return JSON_OBJECT;
    if (cJSON_IsArray(tree))
        return JSON_ARRAY;
    if (cJSON_IsString(tree))
        return utf8_is_valid(tree->valuestring) ? JSON_STRING : JSON_BAD_STRING;
    if (cJSON_IsNumber(tree))
        return JSON_NUMBER;
    if (cJSON_IsBool(tree))
        return cJSON_IsTrue(tree) ? JSON_TRUE : JSON_FALSE;
    return JSON_NULL;
}

/* What is an integer once it is turned into JSON, as Kubernetes' tools turn YAML: 80.0 becomes 80,
 * 1e21 stays what it is. */
static void set_number(struct json_value *value, double number)
{
    value->number = number;
    value->integer = number == floor(number) && fabs(number) < 1e21;
}

/* By recursion, which whoever made the tree has bounded (yaml.c). */
static void add(const cJSON *tree, json_value_vec *values)
{
    struct json_value value = {.key = tree->string,
                               .type = (uint8_t)type_of(tree),
                               .key_length =
                                   json_key_length(tree->string ? strlen(tree->string) : 0)};
    size_t at = values->n;
    const cJSON *child;
    if (json_has_string(&value))
        value.string = tree->valuestring;
    else if (value.type == JSON_NUMBER)
        set_number(&value, tree->valuedouble);
    vec_push(values, value);
    cJSON_ArrayForEach (child, tree) {
        add(child, values);
    }
    values->v[at].size = (uint32_t)(values->n - at);
}

const struct json_value *json_from_tree(const cJSON *tree, json_value_vec *values)
{
    vec_clear(values);
    if (!tree)
        return NULL;
    add(tree, values);
    return values->v;
}
