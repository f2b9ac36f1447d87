/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef KUBE_NFTD_VALUES_YAML_SCALAR_H
#define KUBE_NFTD_VALUES_YAML_SCALAR_H

#include "kube-nftd/values.h"

/** The type of the plain scalar @text, as Kubernetes' tools see it (sigs.k8s.io/yaml: YAML 1.1, but
 * 1:30 and dates are strings). Stores a number's value in @number. */
enum json_type yaml_scalar_type(const char *text, double *number);

#endif
