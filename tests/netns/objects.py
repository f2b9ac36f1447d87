# SPDX-License-Identifier: GPL-2.0-or-later
"""API objects as kubectl writes them, and the folder of manifests that the daemon follows."""

import json
import os
import pathlib
import typing

from lab import FAMILIES, NODE_ADDRESS, NODE_NAME

NAMESPACE = "default"
FAMILY_NAME = {4: "IPv4", 6: "IPv6"}

# What the conditions of an endpoint say in the life of a pod.
CONDITIONS = {
    "ready": {"ready": True, "serving": True, "terminating": False},
    "unready": {"ready": False, "serving": False, "terminating": False},
    "terminating": {"ready": False, "serving": True, "terminating": True},
    "failing": {"ready": False, "serving": False, "terminating": True},
    # Of a Service with publishNotReadyAddresses: its pod is not ready.
    "published": {"ready": True, "serving": False, "terminating": False},
    "published-terminating": {"ready": True, "serving": False, "terminating": True},
}


class Port(typing.NamedTuple):
    """A port of a Service, or of a slice."""

    name: str
    protocol: str
    number: int


def metadata(name: str, namespace: str | None = NAMESPACE, **more) -> dict:
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "creationTimestamp": "2026-01-02T03:04:05Z", "resourceVersion": "7", **more}


def service(name: str, addresses: dict[int, str], ports: list[Port], **spec) -> dict:
    """@addresses: the cluster IP of each family, the primary one first."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name),
        "spec": {
            "clusterIP": next(iter(addresses.values())),
            "clusterIPs": list(addresses.values()),
            "ipFamilies": [FAMILY_NAME[family] for family in addresses],
            "internalTrafficPolicy": "Cluster",
            "ports": [
                {"name": port.name, "port": port.number, "protocol": port.protocol, "targetPort": "named"}
                for port in ports
            ],
            "sessionAffinity": "None",
            "type": "ClusterIP",
            **spec,
        },
        "status": {"loadBalancer": {}},
    }


def endpoint(address: str, state: str = "ready", node: str = NODE_NAME) -> dict:
    return {"addresses": [address], "conditions": dict(CONDITIONS[state]), "nodeName": node}


def endpoint_slice(name: str, of: str, family: int, ports: list[Port], endpoints: list[dict]) -> dict:
    """@of: the name of the Service."""
    return {
        "addressType": FAMILY_NAME[family],
        "apiVersion": "discovery.k8s.io/v1",
        "endpoints": endpoints,
        "kind": "EndpointSlice",
        "metadata": metadata(name, labels={"kubernetes.io/service-name": of}),
        "ports": [{"name": port.name, "port": port.number, "protocol": port.protocol} for port in ports],
    }


def node(
    *,
    taints: list[dict] | None = None,
    addresses: typing.Iterable[tuple[str, str]] = tuple(("InternalIP", NODE_ADDRESS[f]) for f in FAMILIES),
    labels: dict[str, str] | None = None,
    **spec,
) -> dict:
    """@addresses: (type, address)."""
    told = [{"address": address, "type": kind} for kind, address in (*addresses, ("Hostname", NODE_NAME))]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(NODE_NAME, namespace=None, labels=labels or {}),
        "spec": {**({"taints": taints} if taints else {}), **spec},
        "status": {"addresses": told},
    }


def service_cidr(name: str, cidrs: list[str]) -> dict:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": metadata(name, namespace=None),
        "spec": {"cidrs": cidrs},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def as_list(objects: typing.Iterable[dict]) -> str:
    """What `kubectl get -o json` prints."""
    return json.dumps({"apiVersion": "v1", "items": list(objects), "kind": "List", "metadata": {}}, indent=4)


class Manifests:
    """A folder of manifest files. A file changes in one piece: written aside, then renamed."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def put(self, name: str, *objects: dict) -> None:
        self.put_text(name + ".json", as_list(objects))

    def put_text(self, filename: str, text: str) -> None:
        aside = self.folder / f".{filename}.new"
        aside.write_text(text)
        os.replace(aside, self.folder / filename)

    def remove(self, name: str) -> None:
        (self.folder / (name + ".json")).unlink()
