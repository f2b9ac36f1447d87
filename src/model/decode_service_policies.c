/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Service: how its traffic is to be treated. A policy that is unknown is taken for the usual one,
 * so that the Service goes on working with a daemon that is older than the policy. */
#include "service_fields.h"

#include "kube-nftd/base/json.h"

/* kube-proxy's; the API server always fills it in. */
#define AFFINITY_TIMEOUT 10800
#define AFFINITY_TIMEOUT_MOST 86400

/* Whether externalTrafficPolicy means anything (docs/behaviour.md 1.2). */
static bool has_outside(const struct json_value *spec, enum service_type type)
{
    return type != TYPE_CLUSTER_IP || !json_is_empty(json_member(spec, "externalIPs"));
}

static int health_check(struct decoder *d, const struct json_value *spec,
                        const struct field_path *up, enum service_type type)
{
    struct service *service = d->out->service;
    uint16_t port;
    if (field_port(d, spec, up, "healthCheckNodePort", 0, &port))
        return -1;
    if (type != TYPE_LOAD_BALANCER || !service->external_local)
        return 0;
    if (port == 0)
        field_warn(d, &(struct field_path){up, "healthCheckNodePort", 0},
                   "missing, so no health check is answered");
    service->health_check_node_port = port;
    return 0;
}

static int session_affinity(struct decoder *d, const struct json_value *spec,
                            const struct field_path *up)
{
    struct field_path config_path = {up, "sessionAffinityConfig", 0},
                      client_path = {&config_path, "clientIP", 0};
    uint32_t timeout = AFFINITY_TIMEOUT;
    const struct json_value *config, *client;
    bool affine;
    if (field_choice(d, spec, up, "sessionAffinity", "None", "ClientIP", &affine) ||
        field_object(d, spec, up, "sessionAffinityConfig", &config) ||
        field_object(d, config, &config_path, "clientIP", &client) ||
        field_integer(d, client, &client_path, "timeoutSeconds", 1, AFFINITY_TIMEOUT_MOST,
                      &timeout))
        return -1;
    d->out->service->affinity_timeout = affine ? timeout : 0;
    return 0;
}

int decode_service_policies(struct decoder *d, const struct json_value *spec,
                            enum service_type type)
{
    struct service *service = d->out->service;
    struct field_path path = {NULL, "spec", 0};
    bool external_local;
    if (field_choice(d, spec, &path, "externalTrafficPolicy", "Cluster", "Local",
                     &external_local) ||
        field_choice(d, spec, &path, "internalTrafficPolicy", "Cluster", "Local",
                     &service->internal_local))
        return -1;
    service->external_local = external_local && has_outside(spec, type);
    return health_check(d, spec, &path, type) || session_affinity(d, spec, &path) ? -1 : 0;
}
