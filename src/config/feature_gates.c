/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The feature gates of kube-proxy 1.37, and what they mean here. */
#include "setting.h"

#include "kube-nftd/base.h"
#include "kube-nftd/config.h"

#include <string.h>

#define CHANGES(member) offsetof(struct options, member)

static const struct gate {
    const char *name;
    bool standard;       /* the default */
    size_t changes;      /* a bool in struct options: the gate is not as by default; 0: none */
    const char *meaning; /* why a change has no effect; NULL: it has one */
} gates[] = {
    {"AllowServiceExternalIPs", true, CHANGES(no_external_ips), NULL},
    {"KubeProxyNFTablesLocalhostNodePorts", false, CHANGES(localhost_node_ports), NULL},
    {"KubeProxyIPVS", true, 0, NULL}, /* see configuration_complete() */
    {"NFTablesNetlink", true, 0, "the kernel is always reached by netlink"},
    {"NFTablesProxyMode", true, 0, "nftables is always used"},
    {"MultiCIDRServiceAllocator", true, 0, "ServiceCIDRs always count"},
    {"PreferSameTrafficDistribution", true, 0, "hints for nodes and zones always count"},
};

static const struct gate *find_gate(const char *name)
{
    for (size_t i = 0; i < sizeof(gates) / sizeof(gates[0]); i++)
        if (strcmp(gates[i].name, name) == 0)
            return &gates[i];
    return NULL;
}

void feature_gate_store(const char *name, bool on, struct options *options)
{
    const struct gate *gate = find_gate(name);
    if (gate && gate->changes)
        *(bool *)(void *)((char *)options + gate->changes) = on != gate->standard;
}

void feature_gates_note(const cJSON *given, struct configuration *configuration)
{
    const cJSON *value;
    char *unknown = NULL;
    cJSON_ArrayForEach (value, given) {
        const struct gate *gate = find_gate(value->string);
        const bool on = cJSON_IsTrue(value);
        if (!gate)
            xjoin(&unknown, "%s", value->string);
        else if (gate->meaning && on != gate->standard)
            configuration_note(configuration, LOG_LEVEL_WARN,
                               "feature gate %s=%s has no effect here: %s", gate->name,
                               on ? "true" : "false", gate->meaning);
    }
    if (unknown)
        configuration_note(configuration, LOG_LEVEL_WARN, "feature gates without effect here: %s",
                           unknown);
    free(unknown);
}
