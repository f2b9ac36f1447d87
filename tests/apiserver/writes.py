# SPDX-License-Identifier: GPL-2.0-or-later
"""What may be written to the stand-in API server: Events are created and patched, Nodes are patched.
Bodies are checked as the real server checks them (Kubernetes' rules for events.k8s.io/v1); whatever
breaks a rule is refused with 422.
"""

import copy
import json
import re

from answers import NO_SNIFF, Refusal, bad_request, make_status

MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
EVENT_FIELDS = {"kind", "apiVersion", "metadata", "eventTime", "reportingController", "reportingInstance",
                "action", "reason", "regarding", "related", "note", "type"}
REFERENCE_FIELDS = {"kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"}


def unprocessable(message):
    return Refusal(422, make_status(422, message, "Invalid", {}))


def _check(good, field):
    if not good:
        raise unprocessable(f'Event "" is invalid: {field}: Invalid value')


def _check_word(event, field):
    _check(0 < len(event.get(field, "").encode()) <= 128, field)


def check_event(event, namespace):
    """As ValidateEventCreate does for events.k8s.io/v1, and no fields that nobody knows."""
    _check(event.get("kind") == "Event" and event.get("apiVersion") == "events.k8s.io/v1", "kind")
    _check(set(event) <= EVENT_FIELDS, "unknown field")
    meta, regarding = event["metadata"], event.get("regarding", {})
    _check(len(meta["name"]) <= 253 and SUBDOMAIN.fullmatch(meta["name"]), "metadata.name")
    _check(meta.get("namespace") == namespace, "metadata.namespace")
    _check(set(regarding) <= REFERENCE_FIELDS, "regarding")
    _check(namespace == (regarding.get("namespace") or "default"), "regarding.namespace")
    _check(MICRO_TIME.fullmatch(event.get("eventTime") or ""), "eventTime")
    for field in ("reportingController", "reportingInstance", "action", "reason"):
        _check_word(event, field)
    _check(len(event.get("note", "").encode()) <= 1024, "note")
    _check(event.get("type") in ("Normal", "Warning"), "type")


def _read(request, *types):
    if request.headers.get("content-type") not in types:
        raise Refusal(415, make_status(415, "the body of the request was in an unknown format",
                                       "UnsupportedMediaType", {}))
    try:
        return json.loads(request.body)
    except ValueError as error:
        raise bad_request(f"json: {error}") from None


class Events:
    """The events that were posted."""

    def __init__(self):
        self.stored = {}  # (namespace, name): as it is now

    def create(self, request, target):
        event = _read(request, "application/json")
        check_event(event, target.namespace)
        key = (target.namespace, event["metadata"]["name"])
        if key in self.stored:
            raise Refusal(409, make_status(409, f'events.events.k8s.io "{key[1]}" already exists',
                                           "AlreadyExists", target.details))
        self.stored[key] = event
        return 201, event


def _resolve(document, pointer):
    """The container and the last key of a JSON pointer."""
    *way, last = pointer.split("/")[1:]
    for key in way:
        document = document[int(key) if isinstance(document, list) else key]
    return document, int(last) if isinstance(document, list) else last


def apply_json_patch(document, patch):
    """RFC 6902's test and remove, all or nothing."""
    document = copy.deepcopy(document)
    try:
        for operation in patch:
            parent, key = _resolve(document, operation["path"])
            if operation["op"] == "test":
                if parent[key] != operation["value"]:
                    raise KeyError(key)
            elif operation["op"] == "remove":
                del parent[key]
            else:
                raise KeyError(operation["op"])
    except (KeyError, IndexError, ValueError):
        raise unprocessable("the server rejected our request due to an error in our request") from None
    return document


def patch_node(store, request, target):
    patch = _read(request, "application/json-patch+json")
    node = store.objects["Node"].get(target.name)
    if node is None:
        raise Refusal(404, make_status(404, f'nodes "{target.name}" not found', "NotFound", target.details), NO_SNIFF)
    return 200, store.put(apply_json_patch(node, patch))
