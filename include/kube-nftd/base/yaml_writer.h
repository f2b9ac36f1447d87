/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cJSON trees as YAML. */
#ifndef KUBE_NFTD_BASE_YAML_WRITER_H
#define KUBE_NFTD_BASE_YAML_WRITER_H

#include <cjson/cJSON.h>
#include <stdio.h>

/** Writes @object in block style, members in their order. yaml_parse() reads the same tree again,
 * if its texts are UTF-8. */
void yaml_write(FILE *out, const cJSON *object);

#endif
