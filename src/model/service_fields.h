/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of the decoder for Services that have a file of their own in src/model. */
#ifndef KUBE_NFTD_MODEL_SERVICE_FIELDS_H
#define KUBE_NFTD_MODEL_SERVICE_FIELDS_H

#include "field.h"

/* What spec.type says; absent and unknown ones are ClusterIP. */
/* All of them return 0, or -1 with the error of @d. @spec is not NULL. */

/** spec.clusterIP, clusterIPs and ipFamilies: the cluster IPs, or that the Service is skipped. */
int decode_cluster_ips(struct decoder *d, const struct json_value *spec, enum service_type type);

/** spec.externalIPs, loadBalancerSourceRanges and status.loadBalancer of @json, the whole Service.
 * Comes behind decode_cluster_ips(), since only the families of cluster IPs count. */
int decode_external_addresses(struct decoder *d, const struct json_value *json,
                              const struct json_value *spec);

/** The traffic policies, the session affinity and the health check. */
int decode_service_policies(struct decoder *d, const struct json_value *spec,
                            enum service_type type);

#endif
