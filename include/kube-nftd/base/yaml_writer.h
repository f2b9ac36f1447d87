/* SPDX-License-Identifier: GPL-2.0-or-later */
/* cJSON trees as YAML. */
#ifndef KUBE_NFTD_BASE_YAML_WRITER_H
#define KUBE_NFTD_BASE_YAML_WRITER_H

#include "kube-nftd/base/error.h"

#include <cjson/cJSON.h>
#include <stdio.h>

/**
 * Writes @tree in block style, members in their order; yaml_parse() reads the same tree again.
 * Returns -1 for a text that is not UTF-8, and for what @out does not take.
 */
int yaml_write(FILE *out, const cJSON *tree, struct error *err);

#endif
