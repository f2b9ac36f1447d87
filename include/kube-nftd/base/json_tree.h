/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cJSON trees, as YAML becomes (yaml.h), in the form that the decoders of objects read. */
#ifndef KUBE_NFTD_BASE_JSON_TREE_H
#define KUBE_NFTD_BASE_JSON_TREE_H

#include "kube-nftd/base/json.h"
#include "kube-nftd/base/vec.h"

#include <cjson/cJSON.h>

typedef VEC(struct json_value) json_value_vec;

/** The values of @tree, in @values, whose memory is used anew for each tree and freed by the
 * caller. The texts are those of the tree, which must live as long. NULL for NULL. */
const struct json_value *json_from_tree(const cJSON *tree, json_value_vec *values);

#endif
