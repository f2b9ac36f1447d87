# SPDX-License-Identifier: GPL-2.0-or-later
"""The objects of a big cluster as kube-apiserver writes them, managedFields included, and events of them.

A service has one port and so many endpoints, in slices of at most 100. What is many is made as text at
once: half a million endpoints come within seconds.
"""

import itertools
import json
import math
import re
import time
import typing

PAGE = 500  # the objects that the daemon asks for at a time
PER_SLICE = 100  # endpoints, kube-controller-manager's default
LIST_VERSION = 300000  # the resourceVersion of all lists; objects in them have lower ones, events higher ones
TIME = "2026-01-01T00:00:00Z"
NODES = 500
SERVICES = "services"
SLICES = "endpointslices"
KINDS = {SERVICES: ("Service", "v1"), SLICES: ("EndpointSlice", "discovery.k8s.io/v1")}
MAIN = tuple(kind for kind, _ in KINDS.values())
CONDITIONS = {"ready": '{"ready":true,"serving":true,"terminating":false}',
              "terminating": '{"ready":false,"serving":true,"terminating":true}'}


class Size(typing.NamedTuple):
    services: int
    endpoints: int  # of each service

    def __str__(self):
        return f"{self.services:,} x {self.endpoints:,}"

    @property
    def all_endpoints(self):
        return self.services * self.endpoints


def to_json(value):
    return json.dumps(value, separators=(",", ":"))


def address(network, number):
    return f"{network}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _uid(kind, number):
    return f"{kind:08x}-5f1c-4e0a-9d3b-{number:012x}"


def _managed(manager, version, fields):
    return {"manager": manager, "operation": "Update", "apiVersion": version, "time": TIME,
            "fieldsType": "FieldsV1", "fieldsV1": fields}


# ---- objects, as texts; without kind and apiVersion, as items of lists -----------------------------


def service(i, protocol="TCP"):
    port_fields = {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}
    fields = {"f:metadata": {"f:annotations": {".": {}, "f:example.com/owner": {}},
                             "f:labels": {".": {}, "f:app.kubernetes.io/name": {},
                                          "f:app.kubernetes.io/part-of": {}}},
              "f:spec": {"f:internalTrafficPolicy": {},
                         "f:ports": {".": {}, f'k:{{"port":80,"protocol":"{protocol}"}}': port_fields},
                         "f:selector": {}, "f:sessionAffinity": {}, "f:type": {}}}
    name = f"service-{i}"
    return to_json(
        {"metadata": {"name": name, "namespace": f"team-{i % 100}", "uid": _uid(1, i),
                      "resourceVersion": str(1000 + i), "creationTimestamp": TIME,
                      "labels": {"app.kubernetes.io/name": name,
                                 "app.kubernetes.io/part-of": "shop"},
                      "annotations": {"example.com/owner": f"team-{i % 100}@example.com"},
                      "managedFields": [_managed("kubectl-client-side-apply", "v1", fields)]},
         "spec": {"ports": [{"name": "http", "protocol": protocol, "port": 80, "targetPort": "http"}],
                  "selector": {"app.kubernetes.io/name": name},
                  "clusterIP": address(10, i + 1), "clusterIPs": [address(10, i + 1)],
                  "type": "ClusterIP", "sessionAffinity": "None", "ipFamilies": ["IPv4"],
                  "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster"},
         "status": {"loadBalancer": {}}})


def endpoint(i, number, network=11, state="ready"):
    """Endpoint @number of the whole cluster, which is one of service @i. Another @network: another
    pod in its place."""
    return (f'{{"addresses":["{address(network, number)}"],"conditions":{CONDITIONS[state]},'
            f'"targetRef":{{"kind":"Pod","namespace":"team-{i % 100}",'
            f'"name":"service-{i}-5d8f6c7b9-{number:05x}","uid":"{_uid(2, number)}"}},'
            f'"nodeName":"node-{number % NODES}","zone":"zone-{number % 3}"}}')


def endpoint_slice(i, endpoints, part=0, protocol="TCP"):
    """Slice @part of service @i with @endpoints, a list of texts."""
    labels = {"app.kubernetes.io/name": f"service-{i}", "app.kubernetes.io/part-of": "shop",
              "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
              "kubernetes.io/service-name": f"service-{i}"}
    fields = {"f:addressType": {}, "f:endpoints": {},
              "f:metadata": {
                  "f:annotations": {".": {},
                                    "f:endpoints.kubernetes.io/last-change-trigger-time": {}},
                  "f:generateName": {},
                  "f:labels": {".": {}, **{f"f:{label}": {} for label in labels}},
                  "f:ownerReferences": {".": {}, f'k:{{"uid":"{_uid(1, i)}"}}': {}}},
              "f:ports": {}}
    owner = {"apiVersion": "v1", "kind": "Service", "name": f"service-{i}", "uid": _uid(1, i),
             "controller": True, "blockOwnerDeletion": True}
    number = i * 1000 + part
    metadata = {"name": f"service-{i}-{number * 7919 % 60466176:05x}",
                "generateName": f"service-{i}-", "namespace": f"team-{i % 100}",
                "uid": _uid(3, number), "resourceVersion": "200000", "generation": 4,
                "creationTimestamp": TIME, "labels": labels,
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": TIME},
                "ownerReferences": [owner],
                "managedFields": [_managed("kube-controller-manager", "discovery.k8s.io/v1",
                                           fields)]}
    return (f'{{"metadata":{to_json(metadata)},"addressType":"IPv4","endpoints":['
            f'{",".join(endpoints)}],"ports":[{{"name":"http","protocol":"{protocol}","port":8080}}]}}')


def numbers(i, size, part=0):
    """The endpoints in a slice of service @i."""
    first = i * size.endpoints + part * PER_SLICE
    return range(first, min(first + PER_SLICE, (i + 1) * size.endpoints))


def endpoint_slices(size, protocol="TCP"):
    for i in range(size.services):
        for part in range(-(-size.endpoints // PER_SLICE)):
            yield endpoint_slice(i, [endpoint(i, number) for number in numbers(i, size, part)], part,
                                 protocol)


def services(size, protocol="TCP"):
    return (service(i, protocol) for i in range(size.services))


FRONTENDS_OF_ALL_KINDS = 6


def services_of_all_kinds():
    """Services beside the others, as texts with kind and apiVersion: with session affinity, with source
    ranges, with traffic policy Local, without endpoints, and their slices; and what cluster IPs there are."""
    def make(number, endpoints, **spec):
        name, ip = f"kind-{number}", f"10.200.0.{number}"
        yield {"apiVersion": "v1", "kind": "Service",
               "metadata": {"name": name, "namespace": "kinds", "creationTimestamp": TIME},
               "spec": {"clusterIP": ip, "clusterIPs": [ip], "ipFamilies": ["IPv4"], "ports":
                        [{"name": "http", "protocol": "UDP", "port": 80, "targetPort": 8080}],
                        **{key: value for key, value in spec.items() if key != "vip"}},
               "status": {"loadBalancer": {"ingress": [{"ip": spec["vip"]}] if "vip" in spec else []}}}
        yield {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
               "metadata": {"name": name, "namespace": "kinds", "labels": {"kubernetes.io/service-name": name}},
               "endpoints": [{"addresses": [f"11.200.{number}.{each}"], "nodeName": f"node-{each}",
                              "conditions": {"ready": True}} for each in range(1, endpoints + 1)],
               "ports": [{"name": "http", "protocol": "UDP", "port": 8080}]}

    balancer = {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}
    kinds = [*make(1, 3, sessionAffinity="ClientIP"),
             *make(2, 3, vip="192.0.2.102", loadBalancerSourceRanges=["172.16.0.0/12"], **balancer),
             *make(3, 3, vip="192.0.2.103", externalTrafficPolicy="Local", **balancer),
             *make(4, 0),
             {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", **json.loads(service_cidr())}]
    return [to_json(each) for each in kinds]


def service_cidr():
    return to_json({"metadata": {"name": "kubernetes", "uid": _uid(4, 0), "resourceVersion": "7",
                                 "creationTimestamp": TIME},
                    "spec": {"cidrs": ["10.0.0.0/8"]},
                    "status": {"conditions": [{"type": "Ready", "status": "True",
                                               "lastTransitionTime": TIME, "reason": "",
                                               "message": ""}]}})


def node(name="node-1", own_address="192.0.2.1"):
    return to_json({"metadata": {"name": name, "uid": _uid(5, 0), "resourceVersion": "8",
                                 "creationTimestamp": TIME,
                                 "labels": {"kubernetes.io/hostname": name}},
                    "spec": {"podCIDR": "11.0.0.0/24", "podCIDRs": ["11.0.0.0/24"]},
                    "status": {"addresses": [{"type": "InternalIP", "address": own_address}]}})


# ---- what they come in -----------------------------------------------------------------------------


def with_kind(text, kind, version):
    return f'{{"kind":"{kind}","apiVersion":"{version}",{text[1:]}'


def event(what, text, kind, version):
    """One line of a watch: ADDED, MODIFIED, DELETED or BOOKMARK."""
    return f'{{"type":"{what}","object":{with_kind(text, kind, version)}}}\n'


def end_of_contents(kind, version):
    """The bookmark behind a streamed list."""
    metadata = {"resourceVersion": str(LIST_VERSION), "annotations": {"k8s.io/initial-events-end": "true"}}
    return event("BOOKMARK", to_json({"metadata": metadata}), kind, version)


def initial_events(resource, size, protocol="TCP"):
    """A streamed list, line by line."""
    kind = KINDS[resource]
    make = services if resource == SERVICES else endpoint_slices
    for text in make(size, protocol):
        yield event("ADDED", text, *kind)
    yield end_of_contents(*kind)


def write_manifest(path, size, protocol="TCP", others=()):
    """Writes all objects as kubectl get -o json would, in one List, and the texts @others (with kind and
    apiVersion) behind them. Returns the bytes."""
    with open(path, "w") as out:
        separator = '{"apiVersion":"v1","kind":"List","items":[\n'
        for make, kind in ((services, KINDS[SERVICES]), (endpoint_slices, KINDS[SLICES])):
            for text in make(size, protocol):
                out.write(separator + with_kind(text, *kind))
                separator = ",\n"
        for text in others:
            out.write(separator + text)
        out.write("\n]}\n")
        return out.tell()


# ---- changes ---------------------------------------------------------------------------------------

_versions = itertools.count(LIST_VERSION + 1)


def change(what, text, resource):
    """An event of now: its version is above those of all before it, and a slice names the time of what it is about."""
    text = re.sub(r'"resourceVersion":"\d+"', f'"resourceVersion":"{next(_versions)}"', text, count=1)
    now = time.strftime("%FT%TZ", time.gmtime(math.ceil(time.time())))
    text = re.sub(r'(trigger-time":)"[^"]+"', rf'\1"{now}"', text, count=1)
    return event(what, text, *KINDS[resource])


def endpoint_replaced(i, size, number):
    """An event: other endpoint @number takes the place of the first one of service @i."""
    texts = [endpoint(i, each) for each in numbers(i, size)]
    texts[0] = endpoint(i, number, network=12)
    return change("MODIFIED", endpoint_slice(i, texts), SLICES)


def rolling_update(size, at_a_time, network=13):
    """Events: the endpoints of the first service are replaced by others, so many of a slice in each
    event, until none is left."""
    for part in range(-(-size.endpoints // PER_SLICE)):
        texts = [endpoint(0, number) for number in numbers(0, size, part)]
        for start in range(0, len(texts), at_a_time):
            for place in range(start, min(start + at_a_time, len(texts))):
                texts[place] = endpoint(0, numbers(0, size, part)[place], network=network)
            yield change("MODIFIED", endpoint_slice(0, texts, part), SLICES)
