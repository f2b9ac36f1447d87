/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "object_text.h"

void write_service(FILE *out, const struct service *service)
{
    fputs(service->id, out);
    if (service->created == INT64_MAX)
        fputs(" created=never", out);
    else
        fprintf(out, " created=%lld", (long long)service->created);
    fputs(service->skipped ? " skipped" : "", out);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (!service->has_cluster_ip[i])
            continue;
        fprintf(out, " %s=", family_name((enum family)i));
        write_address(out, (enum family)i, &service->cluster_ip[i]);
    }
    vec_each (&service->ports, port)
        write_port(out, port->name, port->protocol, port->port);
    if (service->health_check_node_port)
        fprintf(out, " check=%u", service->health_check_node_port);
}

void write_traffic(FILE *out, const struct service *service)
{
    vec_each (&service->ports, port)
        fprintf(out, "%s%u", port == service->ports.v ? " node-ports=" : ",", port->node_port);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        vec_each (&service_outside(service)->external_ips[i], address) {
            fputs(" external=", out);
            write_address(out, (enum family)i, address);
        }
        vec_each (&service_outside(service)->load_balancer_ips[i], address) {
            fputs(" balancer=", out);
            write_address(out, (enum family)i, address);
        }
        fputs(service_outside(service)->source_ranges[i].n ? " from=" : "", out);
        write_ranges(out, (enum family)i, &service_outside(service)->source_ranges[i]);
    }
    fputs(service->external_local ? " external-local" : "", out);
    fputs(service->internal_local ? " internal-local" : "", out);
    if (service->affinity_timeout)
        fprintf(out, " affinity=%u", service->affinity_timeout);
    if (service->warnings)
        fprintf(out, " (%s)", service->warnings);
}

void write_slice(FILE *out, const struct endpoint_slice *slice)
{
    fprintf(out, "%s of=%s %s", slice->id, slice->service_id ? slice->service_id : "nothing",
            slice->has_family ? family_name(slice->family) : "no family");
    vec_each (&slice->ports, port)
        write_port(out, port->name, port->protocol, port->port);
    vec_each (&slice->endpoints, endpoint) {
        fputs(" ", out);
        write_address(out, slice->family, &endpoint->address);
        write_conditions(out, endpoint->flags, endpoint->node_name);
        if (endpoint->zone)
            fprintf(out, "/%s", zone_name(endpoint->zone));
        write_hints(out, endpoint->hints);
    }
}

void write_service_cidr(FILE *out, const struct service_cidr *service_cidr)
{
    fputs(service_cidr->id, out);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (!service_cidr->has_cidr[i])
            continue;
        fputs(" ", out);
        write_cidr(out, (enum family)i, &service_cidr->cidr[i]);
    }
}

void write_node(FILE *out, const struct node *node)
{
    fputs(node->id, out);
    if (node->zone)
        fprintf(out, " zone=%s", node->zone);
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (node->has_ip[i]) {
            fprintf(out, " %s=", family_name((enum family)i));
            write_address(out, (enum family)i, &node->ip[i]);
        }
    }
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (node->has_pod_cidr[i]) {
            fputs(" pods=", out);
            write_cidr(out, (enum family)i, &node->pod_cidr[i]);
        }
    }
    fputs(node->deleting ? " deleting" : "", out);
    fputs(node->to_be_deleted ? " to_be_deleted" : "", out);
}

static void write_uid(FILE *out, const struct uid *uid)
{
    char text[UID_TEXT_SIZE];
    fprintf(out, " uid=%s", uid ? uid_format(uid, text) : "none");
}

static void write_version(FILE *out, const struct object_version *version)
{
    char number[OBJECT_VERSION_SIZE];
    const char *text = object_version_text(version, number);
    fprintf(out, " version=%s", text ? text : "none");
}

void write_whole_object(FILE *out, const struct object *object)
{
    fprintf(out, "%s %s", object_kind_name(object->kind), object->id ? object->id : "(no name)");
    write_version(out, &object->version);
    fprintf(out, " owner=%s since=%.3f", object->owner ? object->owner : "", object->trigger_time);
    write_uid(out, object->uid);
    fputs(": ", out);
    if (!object->payload)
        return;
    if (object->kind == KIND_SERVICE) {
        write_service(out, object->service);
        write_traffic(out, object->service);
        write_version(out, &object->service->version);
        write_uid(out, &object->service->uid);
    } else if (object->kind == KIND_ENDPOINTSLICE) {
        write_slice(out, object->slice);
        write_version(out, &object->slice->version);
    } else if (object->kind == KIND_SERVICECIDR) {
        write_service_cidr(out, object->service_cidr);
    } else {
        write_node(out, object->node);
        write_uid(out, &object->node->uid);
        vec_each (&object->node->taints, taint)
            fprintf(out, " %s=%s:%s since %s", taint->key, taint->value, taint->effect,
                    taint->time_added ? taint->time_added : "never");
    }
}
