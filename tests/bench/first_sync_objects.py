# SPDX-License-Identifier: GPL-2.0-or-later
"""The objects of a big cluster as kube-apiserver writes them, managedFields included."""

import json

PAGE = 500  # the objects that the daemon asks for at a time
TIME = "2026-01-01T00:00:00Z"
NODES = 500


def to_json(value):
    return json.dumps(value, separators=(",", ":")).encode()


def _address(network, number):
    return f"{network}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _uid(kind, number):
    return f"{kind:08x}-5f1c-4e0a-9d3b-{number:012x}"


def _managed(manager, version, fields):
    return {"manager": manager, "operation": "Update", "apiVersion": version, "time": TIME,
            "fieldsType": "FieldsV1", "fieldsV1": fields}


def service(i):
    port_fields = {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}
    fields = {"f:metadata": {"f:annotations": {".": {}, "f:example.com/owner": {}},
                             "f:labels": {".": {}, "f:app.kubernetes.io/name": {},
                                          "f:app.kubernetes.io/part-of": {}}},
              "f:spec": {"f:internalTrafficPolicy": {},
                         "f:ports": {".": {}, 'k:{"port":80,"protocol":"TCP"}': port_fields},
                         "f:selector": {}, "f:sessionAffinity": {}, "f:type": {}}}
    name = f"service-{i}"
    return {"metadata": {"name": name, "namespace": f"team-{i % 100}", "uid": _uid(1, i),
                         "resourceVersion": str(1000 + i), "creationTimestamp": TIME,
                         "labels": {"app.kubernetes.io/name": name,
                                    "app.kubernetes.io/part-of": "shop"},
                         "annotations": {"example.com/owner": f"team-{i % 100}@example.com"},
                         "managedFields": [_managed("kubectl-client-side-apply", "v1", fields)]},
            "spec": {"ports": [{"name": "http", "protocol": "TCP", "port": 80,
                                "targetPort": "http"}],
                     "selector": {"app.kubernetes.io/name": name},
                     "clusterIP": _address(10, i + 1), "clusterIPs": [_address(10, i + 1)],
                     "type": "ClusterIP", "sessionAffinity": "None", "ipFamilies": ["IPv4"],
                     "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster"},
            "status": {"loadBalancer": {}}}


def _endpoint(service_number, number, place):
    return {"addresses": [_address(11, number)],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "targetRef": {"kind": "Pod", "namespace": f"team-{service_number % 100}",
                          "name": f"service-{service_number}-5d8f6c7b9-{place:05x}",
                          "uid": _uid(2, number)},
            "nodeName": f"node-{number % NODES}", "zone": f"zone-{number % 3}"}


def endpoint_slice(i, endpoints):
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
    return {"metadata": {"name": f"service-{i}-{i * 7919 % 60466176:05x}",
                         "generateName": f"service-{i}-", "namespace": f"team-{i % 100}",
                         "uid": _uid(3, i), "resourceVersion": str(200000 + i), "generation": 4,
                         "creationTimestamp": TIME, "labels": labels,
                         "annotations": {
                             "endpoints.kubernetes.io/last-change-trigger-time": TIME},
                         "ownerReferences": [owner],
                         "managedFields": [_managed("kube-controller-manager",
                                                    "discovery.k8s.io/v1", fields)]},
            "addressType": "IPv4",
            "endpoints": [_endpoint(i, i * endpoints + place, place)
                          for place in range(endpoints)],
            "ports": [{"name": "http", "protocol": "TCP", "port": 8080}]}


def service_cidr():
    return {"metadata": {"name": "kubernetes", "uid": _uid(4, 0), "resourceVersion": "7",
                         "creationTimestamp": TIME},
            "spec": {"cidrs": ["10.0.0.0/8"]},
            "status": {"conditions": [{"type": "Ready", "status": "True",
                                       "lastTransitionTime": TIME, "reason": "", "message": ""}]}}


def node(name="node-1", address="192.0.2.1"):
    return {"metadata": {"name": name, "uid": _uid(5, 0), "resourceVersion": "8",
                         "creationTimestamp": TIME, "labels": {"kubernetes.io/hostname": name}},
            "spec": {"podCIDR": "11.0.0.0/24", "podCIDRs": ["11.0.0.0/24"]},
            "status": {"addresses": [{"type": "InternalIP", "address": address}]}}
