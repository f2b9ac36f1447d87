/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Node: the fields of spec 1.4 that are used. */
#include "kube-nftd/model/field.h"

#include "kube-nftd/base/json.h"

#include <string.h>

int decode_node(struct decoder *d, const cJSON *json)
{
    struct node *node = d->out->node = xcalloc(1, sizeof(*node));
    struct field_path metadata_path = {NULL, "metadata", 0}, spec_path = {NULL, "spec", 0},
                      taints_path = {&spec_path, "taints", 0};
    const cJSON *spec, *taints, *taint;
    const char *deletion, *key;
    node->id = xstrdup(d->out->id);
    if (field_string(d, json_member(json, "metadata"), &metadata_path, "deletionTimestamp",
                     &deletion) ||
        field_object(d, json, NULL, "spec", &spec) ||
        field_list(d, spec, &spec_path, "taints", &taints))
        return -1;
    node->deleting = deletion != NULL;
    int i = 0;
    cJSON_ArrayForEach (taint, taints) {
        struct field_path path = {&taints_path, NULL, i++};
        if (!cJSON_IsObject(taint))
            return field_bad(d, &path, "not an object");
        if (field_string(d, taint, &path, "key", &key))
            return -1;
        if (key && strcmp(key, "ToBeDeletedByClusterAutoscaler") == 0)
            node->to_be_deleted = true;
    }
    return 0;
}
