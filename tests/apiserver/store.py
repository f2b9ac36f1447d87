# SPDX-License-Identifier: GPL-2.0-or-later
"""The objects of the stand-in API server: one global resourceVersion, a bounded history of changes,
and selectors. Knows nothing of HTTP, and is used from one thread only.

Every change becomes an Event that holds the object before and after. Which of ADDED, MODIFIED and
DELETED a watch makes of it depends on its selectors, so that is decided for each watch alone.
"""

import collections
import copy
import dataclasses
import datetime
import re
import uuid


class BadRequest(Exception):
    """A parameter that does not parse; the message is the server's own."""


class Expired(Exception):
    """The state asked for is older than the history."""


@dataclasses.dataclass(frozen=True)
class Resource:
    kind: str
    plural: str
    group: str
    namespaced: bool
    fields: tuple  # what a field selector may name, besides metadata.name and metadata.namespace
    skeleton: dict  # what a BOOKMARK's object has besides kind, apiVersion and metadata

    @property
    def api_version(self):
        return f"{self.group}/v1" if self.group else "v1"

    @property
    def qualified(self):
        return f"{self.plural}.{self.group}" if self.group else self.plural


NODE_INFO = ("machineID systemUUID bootID kernelVersion osImage containerRuntimeVersion "
             "kubeletVersion kubeProxyVersion operatingSystem architecture").split()
EMPTY_NODE_STATUS = {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                     "nodeInfo": dict.fromkeys(NODE_INFO, "")}

RESOURCES = (
    Resource("Service", "services", "", True, ("spec.clusterIP", "spec.type"),
             {"spec": {}, "status": {"loadBalancer": {}}}),
    Resource("EndpointSlice", "endpointslices", "discovery.k8s.io", True, (),
             {"addressType": "", "endpoints": None, "ports": None}),
    Resource("ServiceCIDR", "servicecidrs", "networking.k8s.io", False, (),
             {"spec": {}, "status": {}}),
    Resource("Node", "nodes", "", False, ("spec.unschedulable",),
             {"spec": {}, "status": EMPTY_NODE_STATUS}),
)
BY_KIND = {resource.kind: resource for resource in RESOURCES}

META_ORDER = ("name generateName namespace uid resourceVersion generation creationTimestamp "
              "deletionTimestamp deletionGracePeriodSeconds labels annotations ownerReferences "
              "finalizers managedFields").split()
TOP_ORDER = "kind apiVersion metadata addressType endpoints ports spec status".split()


def ordered(mapping, order):
    """The same mapping with the keys in the server's order, unknown ones at the end."""
    rank = {key: place for place, key in enumerate(order)}
    return dict(sorted(mapping.items(), key=lambda item: rank.get(item[0], len(rank))))


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def key_of(obj):
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else meta["name"]


def fill_in(obj):
    """What the real server adds while it stores an object. Nothing is validated: tests send bad
    objects on purpose."""
    if obj["kind"] == "Service":
        spec = obj.setdefault("spec", {})
        for name, value in (("type", "ClusterIP"), ("sessionAffinity", "None"),
                            ("internalTrafficPolicy", "Cluster")):
            spec.setdefault(name, value)
        for port in spec.get("ports") or ():
            if isinstance(port, dict):
                port.setdefault("protocol", "TCP")
        obj.setdefault("status", {"loadBalancer": {}})
    elif obj["kind"] == "EndpointSlice":
        for field in ("endpoints", "ports"):  # never absent, never []
            obj[field] = obj.get(field) or None
        for endpoint in obj["endpoints"] or ():
            if isinstance(endpoint, dict):
                endpoint.setdefault("conditions", {})
    elif obj["kind"] == "ServiceCIDR":
        obj.setdefault("status", {})
    elif obj["kind"] == "Node":
        obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
        for name, value in EMPTY_NODE_STATUS.items():
            status.setdefault(name, value)


@dataclasses.dataclass(frozen=True)
class Event:
    version: int
    kind: str
    key: str
    old: dict
    new: dict


class Store:
    def __init__(self, history=1000):
        self.version = 100
        self.floor = self.version  # the oldest resourceVersion that a watch may begin from
        self.objects = {resource.kind: {} for resource in RESOURCES}
        self.history = collections.deque()
        self.history_limit = history
        self.listeners = set()

    def put(self, obj):
        """Creates or replaces; returns the object as stored. One that is the same as before makes
        no event. Taking the last finalizer from an object that is being deleted deletes it."""
        obj = copy.deepcopy(obj)
        resource = BY_KIND[obj["kind"]]
        obj["apiVersion"] = resource.api_version
        if resource.namespaced:
            obj["metadata"].setdefault("namespace", "default")
        fill_in(obj)
        key = key_of(obj)
        old = self.objects[resource.kind].get(key)
        meta = self._metadata(obj["metadata"], old, resource.kind == "EndpointSlice")
        obj["metadata"] = ordered(meta, META_ORDER)
        obj = ordered(obj, TOP_ORDER)
        if old is not None:
            if without_version(old) == without_version(obj):
                return old
            if "deletionTimestamp" in old["metadata"] and not meta.get("finalizers"):
                return self._change(resource.kind, key, old, None)
        return self._change(resource.kind, key, old, obj)

    @staticmethod
    def _metadata(meta, old, counts_generations):
        before = old["metadata"] if old else {}
        meta = dict(meta)
        meta["uid"] = before.get("uid") or meta.get("uid") or str(uuid.uuid4())
        created = before.get("creationTimestamp") or meta.get("creationTimestamp")
        meta["creationTimestamp"] = created or now()
        meta["resourceVersion"] = before.get("resourceVersion", "")
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            if name in before:
                meta[name] = before[name]
        if counts_generations:
            meta["generation"] = before.get("generation", 0) + 1
        return meta

    def delete(self, kind, namespace, name):
        """Deletes; an object with finalizers is only marked. KeyError if it is not there."""
        key = f"{namespace}/{name}" if namespace else name
        old = self.objects[kind][key]
        if not old["metadata"].get("finalizers"):
            return self._change(kind, key, old, None)
        new = copy.deepcopy(old)
        new["metadata"].setdefault("deletionTimestamp", now())
        new["metadata"].setdefault("deletionGracePeriodSeconds", 0)
        new["metadata"] = ordered(new["metadata"], META_ORDER)
        return old if new == old else self._change(kind, key, old, new)

    def _change(self, kind, key, old, new):
        self.version += 1
        if new is not None:
            new["metadata"]["resourceVersion"] = str(self.version)
            self.objects[kind][key] = new
        else:
            del self.objects[kind][key]
        event = Event(self.version, kind, key, old, new)
        self.history.append(event)
        while len(self.history) > self.history_limit:
            self.floor = self.history.popleft().version
        for listener in tuple(self.listeners):
            listener(event)
        return new or old

    def advance(self):
        """A change of something that nobody here watches: only the resourceVersion moves."""
        self.version += 1

    def expire(self):
        """Forgets the history: no resourceVersion given out so far is good for a watch any more."""
        self.history.clear()
        self.version += 1
        self.floor = self.version

    def backup(self):
        """All there is, for restore()."""
        return self.version, copy.deepcopy(self.objects)

    def restore(self, backup=None):
        """Goes back to @backup, or to an empty store: the versions given out since are from the future, and will
        be given out again. The server ends its watches by itself when this happens below it."""
        self.version, objects = backup or (1, {})
        self.floor = self.version
        self.objects = {resource.kind: copy.deepcopy(objects.get(resource.kind, {})) for resource in RESOURCES}
        self.history.clear()

    def items(self, kind, version=None):
        """[(key, object)] by key, now or at an older @version."""
        state = dict(self.objects[kind])
        if version is not None and version < self.version:
            if version < self.floor:
                raise Expired()
            for event in reversed(self.history):
                if event.version <= version:
                    break
                if event.kind == kind and event.old is None:
                    state.pop(event.key, None)
                elif event.kind == kind:
                    state[event.key] = event.old
        return sorted(state.items())

    def since(self, kind, version):
        """The events after @version."""
        if version < self.floor:
            raise Expired()
        return [event for event in self.history if event.kind == kind and event.version > version]


def without_version(obj):
    """For comparison: what a write that changes nothing leaves as it was."""
    meta = {name: value for name, value in obj["metadata"].items()
            if name not in ("resourceVersion", "generation")}
    return {**obj, "metadata": meta}


NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
LABEL = rf"(?:{NAME}/)?{NAME}"
REQUIREMENT = re.compile(rf"(?P<no>!)?\s*(?P<key>{LABEL})\s*"
                         rf"(?:(?P<op>==|=|!=)\s*(?P<value>{NAME})?)?")


def parse_labels(text):
    """A label selector as a function of an object. `!key`, `key`, `key=value`, `key!=value`."""
    tests = []
    for part in filter(None, (text or "").split(",")):
        match = REQUIREMENT.fullmatch(part.strip())
        if not match or (match["no"] and match["op"]):
            found = re.sub(r"^!?\s*", "", part.strip())[:1]
            raise BadRequest(f"unable to parse requirement: found '{found}', expected: identifier")
        tests.append((match["key"], match["op"], match["value"] or "", bool(match["no"])))

    def accepts(obj):
        labels = obj["metadata"].get("labels") or {}
        for key, operator, value, absent in tests:
            if operator == "!=":
                good = labels.get(key) != value
            elif operator:
                good = labels.get(key) == value
            else:
                good = (key in labels) != absent
            if not good:
                return False
        return True

    return accepts


def parse_fields(resource, text):
    """A field selector as a function of an object."""
    known = {"metadata.name", *resource.fields}
    if resource.namespaced:
        known.add("metadata.namespace")
    tests = []
    for part in filter(None, (text or "").split(",")):
        match = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", part)
        if not match:
            raise BadRequest(f"invalid selector: '{part}'; can't understand '{part}'")
        if match[1] not in known:
            raise BadRequest(f"field label not supported: {match[1]}")
        tests.append((match[1].split("."), match[2] != "!=", match[3]))

    def accepts(obj):
        return all((field_of(obj, path) == value) == equal for path, equal, value in tests)

    return accepts


def field_of(obj, path):
    for name in path:
        obj = obj.get(name, "") if isinstance(obj, dict) else ""
    return str(obj)
