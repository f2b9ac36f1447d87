# SPDX-License-Identifier: GPL-2.0-or-later
"""Kubernetes' protobuf, written as kube-apiserver writes it, from objects as JSON has them.

The numbers are those of the generated.proto files of Kubernetes 1.36. What Go holds in no pointer is always
on the wire, empty strings and zeros too; fields come in the order of their numbers, entries of maps by key.
A value of the wrong type is written as what it is (a text, a number, JSON of a list or an object): tests
send bad objects on purpose.
"""

import datetime
import functools
import json
import struct

MAGIC = b"k8s\0"  # before every body, and before every object of an event
VARINT, FIXED64, LENGTH = 0, 1, 2

# A message and its fields: number, JSON name, type. "?" behind the type: a pointer in Go, absent where JSON has
# none; "[]": any number of them. Other fields are always there.
MESSAGES = """
TypeMeta: 1 apiVersion string, 2 kind string
ObjectMeta: 1 name string, 2 generateName string, 3 namespace string, 4 selfLink string, 5 uid string,
    6 resourceVersion string, 7 generation int, 8 creationTimestamp Time, 9 deletionTimestamp Time?,
    10 deletionGracePeriodSeconds int?, 11 labels map[], 12 annotations map[], 13 ownerReferences OwnerReference[],
    14 finalizers string[], 17 managedFields ManagedFieldsEntry[]
ListMeta: 1 selfLink string, 2 resourceVersion string, 3 continue string, 4 remainingItemCount int?
ManagedFieldsEntry: 1 manager string, 2 operation string, 3 apiVersion string, 4 time Time?, 6 fieldsType string,
    7 fieldsV1 FieldsV1?, 8 subresource string
OwnerReference: 1 kind string, 3 name string, 4 uid string, 5 apiVersion string, 6 controller bool?,
    7 blockOwnerDeletion bool?
Condition: 1 type string, 2 status string, 3 observedGeneration int, 4 lastTransitionTime Time, 5 reason string,
    6 message string
ObjectReference: 1 kind string, 2 namespace string, 3 name string, 4 uid string, 5 apiVersion string,
    6 resourceVersion string, 7 fieldPath string

Status: 1 metadata ListMeta, 2 status string, 3 message string, 4 reason string, 5 details StatusDetails?, 6 code int
StatusDetails: 1 name string, 2 group string, 3 kind string, 4 causes StatusCause[], 5 retryAfterSeconds int,
    6 uid string
StatusCause: 1 reason string, 2 message string, 3 field string

Service: 1 metadata ObjectMeta, 2 spec ServiceSpec, 3 status ServiceStatus
ServiceSpec: 1 ports ServicePort[], 2 selector map[], 3 clusterIP string, 4 type string, 5 externalIPs string[],
    7 sessionAffinity string, 8 loadBalancerIP string, 9 loadBalancerSourceRanges string[], 10 externalName string,
    11 externalTrafficPolicy string, 12 healthCheckNodePort int, 13 publishNotReadyAddresses bool,
    14 sessionAffinityConfig SessionAffinityConfig?, 17 ipFamilyPolicy string?, 18 clusterIPs string[],
    19 ipFamilies string[], 20 allocateLoadBalancerNodePorts bool?, 21 loadBalancerClass string?,
    22 internalTrafficPolicy string?, 23 trafficDistribution string?
ServicePort: 1 name string, 2 protocol string, 3 port int, 4 targetPort IntOrString, 5 nodePort int,
    6 appProtocol string?
SessionAffinityConfig: 1 clientIP ClientIPConfig?
ClientIPConfig: 1 timeoutSeconds int?
ServiceStatus: 1 loadBalancer LoadBalancerStatus, 2 conditions Condition[]
LoadBalancerStatus: 1 ingress LoadBalancerIngress[]
LoadBalancerIngress: 1 ip string, 2 hostname string, 3 ipMode string?, 4 ports PortStatus[]
PortStatus: 1 port int, 2 protocol string, 3 error string?

EndpointSlice: 1 metadata ObjectMeta, 2 endpoints Endpoint[], 3 ports EndpointPort[], 4 addressType string
Endpoint: 1 addresses string[], 2 conditions EndpointConditions, 3 hostname string?, 4 targetRef ObjectReference?,
    5 deprecatedTopology map[], 6 nodeName string?, 7 zone string?, 8 hints EndpointHints?
EndpointConditions: 1 ready bool?, 2 serving bool?, 3 terminating bool?
EndpointHints: 1 forZones ForZone[], 2 forNodes ForNode[]
ForZone: 1 name string
ForNode: 1 name string
EndpointPort: 1 name string?, 2 protocol string?, 3 port int?, 4 appProtocol string?

Pod: 1 metadata ObjectMeta

ServiceCIDR: 1 metadata ObjectMeta, 2 spec ServiceCIDRSpec, 3 status ServiceCIDRStatus
ServiceCIDRSpec: 1 cidrs string[]
ServiceCIDRStatus: 1 conditions Condition[]

Node: 1 metadata ObjectMeta, 2 spec NodeSpec, 3 status NodeStatus
NodeSpec: 1 podCIDR string, 2 externalID string, 3 providerID string, 4 unschedulable bool, 5 taints Taint[],
    7 podCIDRs string[]
Taint: 1 key string, 2 value string, 3 effect string, 4 timeAdded Time?
NodeStatus: 1 capacity quantities[], 2 allocatable quantities[], 3 phase string, 4 conditions NodeCondition[],
    5 addresses NodeAddress[], 6 daemonEndpoints NodeDaemonEndpoints, 7 nodeInfo NodeSystemInfo
NodeCondition: 1 type string, 2 status string, 3 lastHeartbeatTime Time, 4 lastTransitionTime Time, 5 reason string,
    6 message string
NodeAddress: 1 type string, 2 address string
NodeDaemonEndpoints: 1 kubeletEndpoint DaemonEndpoint
DaemonEndpoint: 1 Port int
NodeSystemInfo: 1 machineID string, 2 systemUUID string, 3 bootID string, 4 kernelVersion string, 5 osImage string,
    6 containerRuntimeVersion string, 7 kubeletVersion string, 8 kubeProxyVersion string, 9 operatingSystem string,
    10 architecture string

Event: 1 metadata ObjectMeta, 2 eventTime Time, 3 series EventSeries?, 4 reportingController string,
    5 reportingInstance string, 6 action string, 7 reason string, 8 regarding ObjectReference,
    9 related ObjectReference?, 10 note string, 11 type string, 12 deprecatedSource EventSource,
    13 deprecatedFirstTimestamp Time, 14 deprecatedLastTimestamp Time, 15 deprecatedCount int
EventSeries: 1 count int, 2 lastObservedTime Time
EventSource: 1 component string, 2 host string
"""


def varint(value):
    value &= (1 << 64) - 1  # negative numbers take ten bytes
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def delimited(number, data):
    return varint(number << 3 | LENGTH) + varint(len(data)) + data


def _foreign(number, value):
    """A value that is not what the field is for."""
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(int(value))
    if isinstance(value, float):
        return varint(number << 3 | FIXED64) + struct.pack("<d", value)
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return delimited(number, text.encode())


@functools.lru_cache(4096)
def _time(text):
    if not text:
        return b""
    point = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return b"\x08" + varint(int(point.timestamp())) + b"\x10" + varint(point.microsecond * 1000)


@functools.lru_cache(4096)
def _entry(key, value):
    return delimited(1, key.encode()) + delimited(2, value)


def _int_or_string(value):
    kind, number, text = (1, 0, value) if isinstance(value, str) else (0, value or 0, "")
    return b"\x08" + varint(kind) + b"\x10" + varint(number) + delimited(3, text.encode())


def _quantity(value):
    return delimited(1, value.encode())


# What the bytes of a field with a length hold: (types of good values, writer)
TEXTS = {"string": (str, str.encode), "Time": (str, _time), "IntOrString": ((int, str), _int_or_string),
         "FieldsV1": (dict, lambda value: delimited(1, json.dumps(
             value, separators=(",", ":"), ensure_ascii=False).encode()))}
ENTRIES = {"map": str.encode, "quantities": _quantity}


class _Field:
    def __init__(self, text):
        number, self.name, kind = text.split()
        self.number = int(number)
        self.many, self.pointer = kind.endswith("[]"), kind.endswith("?")
        self.kind = kind.removesuffix("[]").removesuffix("?")
        self.is_number = self.kind in ("int", "bool")
        self.tag = varint(self.number << 3 | (VARINT if self.is_number else LENGTH))
        self.empty = b"" if self.many or self.pointer else self.tag + (
            varint(len(_int_or_string(0))) + _int_or_string(0) if self.kind == "IntOrString" else b"\0")
        self.good, self.write = TEXTS.get(self.kind) or (dict, functools.partial(message, self.kind))

    def encode(self, value):
        if self.kind in ENTRIES:
            return self._entries(value)
        if not self.many:
            return self._one(value)
        return b"".join(map(self._one, value)) if isinstance(value, list) else _foreign(self.number, value)

    def _one(self, value):
        if self.is_number and isinstance(value, int):
            return self.tag + varint(value)
        if self.is_number or not isinstance(value, self.good):
            return _foreign(self.number, value)
        data = self.write(value)
        return self.tag + varint(len(data)) + data

    def _entries(self, value):
        if not isinstance(value, dict):
            return _foreign(self.number, value)
        write = ENTRIES[self.kind]
        entries = [_entry(key, write(text)) if isinstance(text, str) else
                   delimited(1, key.encode()) + _foreign(2, text) for key, text in sorted(value.items())]
        return b"".join(self.tag + varint(len(entry)) + entry for entry in entries)


def _parse(text):
    found = {}
    for part in text.replace("\n    ", " ").split("\n"):
        name, _, fields = part.partition(": ")
        if fields:
            found[name] = sorted(map(_Field, fields.split(",")), key=lambda field: field.number)
    return found


def message(name, value):
    """The bytes of @value, a dict, as a message of that name."""
    out = []
    for field in FIELDS[name]:
        found = value.get(field.name)
        if found is not None:
            out.append(field.encode(found))
        elif field.empty and field.kind in FIELDS:
            out.append(delimited(field.number, _nothing(field.kind)))
        else:
            out.append(field.empty)
    return b"".join(out)


@functools.cache
def _nothing(name):
    return message(name, {})


FIELDS = _parse(MESSAGES)


def _body(obj):
    kind = obj["kind"]
    if not kind.endswith("List"):
        return message(kind, obj)
    items = [delimited(2, message(kind.removesuffix("List"), item)) for item in obj["items"]]
    return delimited(1, message("ListMeta", obj["metadata"])) + b"".join(items)


def envelope(obj):
    """The body of an answer: an object, a list or a Status, each with kind and apiVersion."""
    return (MAGIC + delimited(1, message("TypeMeta", obj)) + delimited(2, _body(obj)) +
            delimited(3, b"") + delimited(4, b""))


def event(kind, obj):
    """One frame of a watch."""
    data = delimited(1, kind.encode()) + delimited(2, delimited(1, envelope(obj)))
    return struct.pack(">I", len(data)) + data
