/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Objects as lines of a script:
 *
 *     a/web 10.96.0.1 fd00::1 http/TCP:80+30080 created=7 external=192.0.2.1 balancer=203.0.113.1
 *           from=10.0.0.0/8 check=30000 affinity=60 external-local internal-local
 *           skipped version=1
 *     a/web-1 of=a/web http/TCP:8080 10.0.0.1@here 10.0.0.2=st version=2
 *
 * A Service has addresses and ports, a slice ports and endpoints, as in objects.h.
 */
#ifndef KUBE_NFTD_TESTS_SCRIPT_OBJECTS_H
#define KUBE_NFTD_TESTS_SCRIPT_OBJECTS_H

#include "objects.h"
#include "script.h"

static inline void add_address(struct service *service, const char *word)
{
    enum family family;
    struct address address = make_address(word, &family);
    service->has_cluster_ip[family] = true;
    service->cluster_ip[family] = address;
}

static inline void add_service_word(struct service *service, char *word)
{
    char *value;
    if (strcmp(word, "external-local") == 0)
        service->external_local = true;
    else if (strcmp(word, "internal-local") == 0)
        service->internal_local = true;
    else if (strcmp(word, "skipped") == 0)
        service->skipped = true;
    else if (script_option(word, "version", &value))
        object_version_set(&service->version, value);
    else if (script_option(word, "created", &value))
        service->created = strcmp(value, "never") == 0 ? INT64_MAX : atoll(value);
    else if (script_option(word, "external", &value))
        add_external_ips(service, value);
    else if (script_option(word, "balancer", &value))
        add_load_balancer_ips(service, value);
    else if (script_option(word, "from", &value))
        add_source_ranges(service, value);
    else if (script_option(word, "check", &value))
        service->health_check_node_port = (uint16_t)atoi(value);
    else if (script_option(word, "affinity", &value))
        service->affinity_timeout = (uint32_t)atoi(value);
    else if (strchr(word, '/'))
        vec_push(&service->ports, make_port(word));
    else
        add_address(service, word);
}

static inline struct service *script_service(char *words)
{
    struct service *service = make_service(script_word(&words), "", "");
    for (char *word; *(word = script_word(&words));)
        add_service_word(service, word);
    return service;
}

static inline struct endpoint_slice *script_slice(char *words)
{
    char *value = NULL, *id = script_word(&words), *of = script_word(&words);
    ck_assert(script_option(of, "of", &value));
    enum family family = strstr(words, "::") ? FAMILY_IPV6 : FAMILY_IPV4;
    struct endpoint_slice *slice = make_slice(id, value, family, "", "");
    for (char *word; *(word = script_word(&words));) {
        if (script_option(word, "version", &value)) {
            object_version_set(&slice->version, value);
            continue;
        }
        if (!strchr(word, '/')) {
            vec_push(&slice->endpoints, make_endpoint(word, family));
            continue;
        }
        struct service_port port = make_port(word);
        vec_push(&slice->ports, (struct slice_port){port.name, port.protocol, port.port});
    }
    endpoint_slice_sort_ports(slice);
    return slice;
}

#endif
