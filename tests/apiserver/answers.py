# SPDX-License-Identifier: GPL-2.0-or-later
"""What the stand-in API server answers: lists, watches and every way to refuse, as recorded from a
real server. The tests compare it with the recordings.
"""

import asyncio
import base64
import binascii
import collections.abc
import dataclasses
import email.utils
import gzip
import json
import random
import re
import time
import uuid

import encoding
import store as storage

GZIP_FROM = 128 * 1024
WRITE_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
FLOW_SCHEMA = [("X-Kubernetes-Pf-Flowschema-Uid", str(uuid.uuid4())),
               ("X-Kubernetes-Pf-Prioritylevel-Uid", str(uuid.uuid4()))]
NO_FLOW_SCHEMA_YET = [(name, "") for name, _ in FLOW_SCHEMA]
NO_SNIFF = [("X-Content-Type-Options", "nosniff")]
CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list.")
NOT_ACCEPTABLE = (
    "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
    "application/vnd.kubernetes.protobuf, application/json;stream=watch, "
    "application/vnd.kubernetes.protobuf;stream=watch")
NOT_FOUND = "the server could not find the requested resource"
OLD_STORE = ("a watch stream was requested by the client but the required storage feature "
             "RequestWatchProgress is disabled")


def make_status(code, message, reason=None, details=None, metadata=None):
    status = {"kind": "Status", "apiVersion": "v1", "metadata": metadata or {}, "status": "Failure",
              "message": message, "reason": reason, "details": details, "code": code}
    return {name: value for name, value in status.items() if value is not None}


class Refusal(Exception):
    """An answer that is not 200."""

    def __init__(self, code, body, headers=(), flow_schema=FLOW_SCHEMA, goodbye=False):
        super().__init__(code)
        self.code = code
        self.body = body  # a Status, or bytes of plain text
        self.headers = list(headers)
        self.flow_schema = flow_schema  # header fields
        self.goodbye = goodbye  # over HTTP/2 a GOAWAY goes first


def bad_request(message):
    return Refusal(400, make_status(400, message, "BadRequest"))


def invalid(*causes):
    """422 for combinations of parameters: (field, reason, message)."""
    texts = [f"{field}: {message}" for field, _, message in causes]
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details = {"group": "meta.k8s.io", "kind": "ListOptions",
               "causes": [{"reason": reason, "message": message, "field": field}
                          for field, reason, message in causes]}
    return Refusal(422, make_status(422, f'ListOptions.meta.k8s.io "" is invalid: {text}',
                                    "Invalid", details))


def not_found():
    return Refusal(404, make_status(404, NOT_FOUND, "NotFound", {}))


def plain_text(code, text, headers=()):
    return Refusal(code, text.encode(), headers)


@dataclasses.dataclass
class Target:
    """What a path names."""
    group: str
    version: str
    namespace: str
    plural: str
    name: str
    old_watch: bool  # /watch/ in the path

    @property
    def details(self):
        found = {"name": self.name, "group": self.group, "kind": self.plural}
        return {name: value for name, value in found.items() if value}

    @property
    def qualified(self):
        return f"{self.plural}.{self.group}" if self.group else self.plural


PATH = re.compile(r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)(?P<watch>/watch)?"
                  r"(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?")


def parse_path(path):
    match = PATH.fullmatch(path)
    if not match:
        return None
    return Target(match["group"] or "", match["version"], match["namespace"], match["plural"],
                  match["name"], bool(match["watch"]))


def forbidden(user, verb, target):
    what = f'{target.qualified} "{target.name}"' if target.name else target.qualified
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    message = (f'{what} is forbidden: User "{user}" cannot {verb} resource "{target.plural}" '
               f'in API group "{target.group}" {where}')
    return Refusal(403, make_status(403, message, "Forbidden", target.details), NO_SNIFF,
                   goodbye=user == "system:anonymous")


def unauthorized():
    return Refusal(401, make_status(401, "Unauthorized", "Unauthorized"), flow_schema=(),
                   goodbye=True)


def scripted(code, retry_after, user, verb, target, request):
    """The body that goes with a status which a test has asked for."""
    retry = [("Retry-After", str(retry_after))] if retry_after is not None else []
    if code == 401:
        return unauthorized()
    if code == 403:
        return forbidden(user, verb, target)
    if code == 404:
        return not_found()
    if code == 410:
        return expired(request.query.get("continue"))
    if code == 429:
        return plain_text(429, "Too many requests, please try again later.\n",
                          (retry or [("Retry-After", "1")]) + NO_SNIFF)
    if code == 504:
        body = make_status(504, "Timeout: request did not complete within the allotted timeout",
                           "Timeout", {})
        del body["kind"], body["apiVersion"]
        return Refusal(504, encoding.to_json(body), retry, flow_schema=())
    if code == 503:
        return Refusal(503, make_status(503, "the server is currently unable to handle the request",
                                        "ServiceUnavailable"), retry)
    return Refusal(code, make_status(code, "Internal error occurred: asked for by a test",
                                     "InternalError"), retry)


def continue_token(version, start):
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start + "\0"},
                      separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def read_token(token):
    try:
        padded = token + "=" * (-len(token) % 4)
        value = json.loads(base64.urlsafe_b64decode(padded))
        return int(value["rv"]), value["start"].lstrip("/").rstrip("\0")
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from None


def expired(token=None):
    if token is None:
        return Refusal(410, make_status(
            410, "The resourceVersion for the provided list is too old.", "Expired"))
    _, start = read_token(token)
    return Refusal(410, make_status(410, CONTINUE_EXPIRED, "Expired",
                                    metadata={"continue": continue_token(-1, start)}))


def too_large(version, current):
    return make_status(504, f"Timeout: Too large resource version: {version}, current: {current}",
                       "Timeout", {"causes": [{"reason": "ResourceVersionTooLarge",
                                               "message": "Too large resource version"}],
                                   "retryAfterSeconds": 1})


def reinitializing():
    return make_status(429, "storage is (re)initializing", "TooManyRequests",
                       {"retryAfterSeconds": 1})


def too_old(version, floor):
    return make_status(410, f"too old resource version: {version} ({floor})", "Expired")


def internal_error(message):
    return make_status(500, message, "InternalError")


def event_status(code, wanted, store):
    """The Status of an ERROR event that a test has asked for."""
    if code == 410:
        return too_old(wanted, store.floor)
    if code == 429:
        return reinitializing()
    if code == 504:
        return too_large(wanted, store.version)
    return internal_error("context deadline exceeded") if code == 500 else make_status(
        code, "asked for by a test")


def number(text):
    if not re.fullmatch(r"[+-]?\d+", text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def truth(text):
    return text is not None and text not in ("false", "0")


def forbid(field, message):
    return field, "FieldValueForbidden", f"Forbidden: {message}"


def unsupported(match, *good):
    names = ", ".join(f'"{name}"' for name in good)
    return ("resourceVersionMatch", "FieldValueNotSupported",
            f'Unsupported value: "{match}": supported values: {names}')


class Options:
    """The query of a list or a watch, checked as the server checks it."""

    def __init__(self, resource, target, query):
        self.limit = number(query.get("limit") or "0")
        self.timeout = number(query.get("timeoutSeconds") or "0")
        self.watch = truth(query.get("watch")) or target.old_watch
        self.bookmarks = truth(query.get("allowWatchBookmarks"))
        self.version = query.get("resourceVersion", "")
        self.match = query.get("resourceVersionMatch", "")
        self.token = query.get("continue", "")
        initial = query.get("sendInitialEvents")
        self.initial = None if initial is None else truth(initial)
        try:
            labels = storage.parse_labels(query.get("labelSelector"))
            fields = storage.parse_fields(resource, query.get("fieldSelector"))
        except storage.BadRequest as error:
            raise bad_request(str(error)) from None
        self.selects = bool(query.get("labelSelector") or query.get("fieldSelector"))
        namespace = target.namespace
        self.accepts = lambda obj: (labels(obj) and fields(obj) and
                                    namespace in (None, obj["metadata"].get("namespace")))
        causes = self._watch_causes() if self.watch else self._list_causes()
        if causes:
            raise invalid(*causes)

    def _list_causes(self):
        causes = []
        field = "resourceVersionMatch"
        if self.match and not self.version:
            causes.append(forbid(field, f"{field} is forbidden unless resourceVersion is provided"))
        if self.match and self.token:
            causes.append(forbid(field, f"{field} is forbidden when continue is provided"))
        if self.match not in ("", "Exact", "NotOlderThan"):
            causes.append(unsupported(self.match, "Exact", "NotOlderThan", ""))
        if self.match == "Exact" and self.version == "0":
            causes.append(forbid(field, f'{field} "exact" is forbidden for resourceVersion "0"'))
        if self.initial is not None:
            causes.append(forbid("sendInitialEvents", "sendInitialEvents is forbidden for list"))
        return causes

    def _watch_causes(self):
        causes = []
        field = "resourceVersionMatch"
        if self.initial is not None and self.match != "NotOlderThan":
            causes.append(forbid(
                field, f"sendInitialEvents requires setting {field} to NotOlderThan"))
        if self.match and self.initial is None:
            causes.append(forbid(
                field, f"{field} is forbidden for watch unless sendInitialEvents is provided"))
        if self.match not in ("", "NotOlderThan"):
            causes.append(unsupported(self.match, "NotOlderThan"))
        return causes

    def wanted_version(self):
        """The resourceVersion as a number, 0 if there is none."""
        if not re.fullmatch(r"\d*", self.version):
            message = (f'resourceVersion: Invalid value: "{self.version}": strconv.ParseUint: '
                       f'parsing "{self.version}": invalid syntax')
            if self.watch:
                raise Refusal(500, make_status(500, message))
            raise bad_request(f"invalid resource version: {message}")
        return int(self.version or "0")


class Watch:
    """One open watch: what it has been told to do by the store and by a test."""

    def __init__(self, resource, options, exchange, chosen):
        self.resource, self.options, self.exchange = resource, options, exchange
        self.line = chosen.event  # its bytes, from its type and object
        self.send = exchange.write if chosen.event_is_one_write else exchange.write_packed
        self.queue = asyncio.Queue()
        self.cut_next = ()  # connections to abort in the middle of the next event
        self.sent = 0  # the newest resourceVersion that the client knows

    def line_for(self, event):
        """The event as this watch's selectors show it, or None."""
        before = event.old is not None and self.options.accepts(event.old)
        after = event.new is not None and self.options.accepts(event.new)
        if not before and not after:
            return None
        if after:
            return self.line("MODIFIED" if before else "ADDED", event.new)
        meta = {**event.old["metadata"], "resourceVersion": str(event.version)}
        return self.line("DELETED", {**event.old, "metadata": meta})

    def bookmark(self, version, initial_end=False):
        meta = {"resourceVersion": str(version)}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        return self.line("BOOKMARK", {"kind": self.resource.kind,
                                      "apiVersion": self.resource.api_version, "metadata": meta,
                                      **self.resource.skeleton})


@dataclasses.dataclass
class Script:
    """What the next @count requests get that @when accepts. @status 0 is no answer but the end of
    the connection; with @event it comes as an ERROR event in a watch that was answered with 200;
    with @cut the watch ends cleanly after so many of the events that it begins with."""
    count: int
    when: collections.abc.Callable
    status: int = 200
    retry_after: int = None
    event: bool = False
    cut: int = None


class Api:
    """Answers requests from a Store. The settings below are public: tests change them."""

    END = object()  # in a watch's queue: end it cleanly
    BOOKMARK = object()  # in a watch's queue: send a bookmark now

    def __init__(self, store):
        self.store = store
        self.tokens = {}  # token -> user
        self.denied = set()  # plurals that nobody may read (403)
        self.hidden = set()  # plurals that are not served (404)
        self.scripts = []  # each a Script
        self.held = []  # predicates: a request that one of them accepts waits
        self.forbidden_until = 0.0  # time.monotonic(): 403 for everybody, as just after a start
        # What streamed initial lists get: None is what they ask for; "refused" 422, as on servers
        # before 1.32; "old store" an ERROR event; "hangs" nothing until their timeoutSeconds.
        self.streaming = None
        self.watches = set()
        self.events = None  # writes.Events; None: events are not served
        self.patch_node = None  # writes.patch_node; None: nothing is written
        self.bookmark_interval = 60.0
        self.future_wait = 3.0
        self.page_limit = None  # at most so many items a page, and limit counts with version 0 too
        self.encodings = encoding.BOTH  # what it can answer in

    async def handle(self, exchange):
        request = exchange.request
        try:
            await self._answer(exchange)
        except Refusal as refusal:
            if refusal.goodbye:
                exchange.goodbye()
            pretty = wants_pretty(request) or refusal.code == 406
            body, kind = refusal.body, "text/plain; charset=utf-8"
            if not isinstance(body, bytes):
                chosen = self._encoding(request) or encoding.Json
                body, kind = chosen.body(body, pretty), chosen.name
            headers = head(kind, refusal.headers, refusal.flow_schema)
            await exchange.answer(refusal.code, headers, body)

    async def _answer(self, exchange):
        request = exchange.request
        target = parse_path(request.path)
        user = request.user = self._authenticate(request)
        if target is None:
            raise plain_text(404, "404 page not found\n", NO_SNIFF)
        verb = WRITE_VERBS.get(request.method) or (
            "get" if target.name else "watch" if request.watch or target.old_watch else "list")
        while any(when(request) for when in self.held):
            await asyncio.sleep(0.01)
        if time.monotonic() < self.forbidden_until:
            refusal = forbidden(user, verb, target)
            refusal.flow_schema = NO_FLOW_SCHEMA_YET
            raise refusal
        script = self._next_script(request)
        self._follow_script(script, exchange, user, verb, target)
        if user == "system:anonymous" or target.plural in self.denied:
            raise forbidden(user, verb, target)
        write = self._write(request, target)
        if write:
            status, obj = write(request, target)
            await self._send(exchange, obj, status)
            return
        resource = self._resource(request, target)
        if target.name:
            await self._get(exchange, resource, target)
            return
        options = Options(resource, target, request.query)
        if options.watch:
            await self._watch(exchange, resource, options, script)
        else:
            await self._list(exchange, resource, options)

    def _authenticate(self, request):
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            if token not in self.tokens:
                raise unauthorized()
            return self.tokens[token]
        return request.client_cert or "system:anonymous"

    def _next_script(self, request):
        for script in self.scripts:
            if script.when(request):
                script.count -= 1
                if script.count <= 0:
                    self.scripts.remove(script)
                return script
        return None

    @staticmethod
    def _follow_script(script, exchange, user, verb, target):
        """Whatever is no matter of a watch."""
        if not script or script.event or script.cut is not None:
            return
        if script.status == 0:
            exchange.connection.abort()
            raise ConnectionAbortedError("asked for by a test")
        raise scripted(script.status, script.retry_after, user, verb, target, exchange.request)

    def _write(self, request, target):
        """What does the write that is asked for; None if there is none for it."""
        what = (request.method, target.group, target.plural, bool(target.name))
        if target.plural in self.hidden:
            return None
        if self.events and what == ("POST", "events.k8s.io", "events", False):
            return self.events.create
        if self.patch_node and what == ("PATCH", "", "nodes", True):
            return lambda request, target: self.patch_node(self.store, request, target)
        return None

    def _resource(self, request, target):
        groups = {resource.group for resource in storage.RESOURCES}
        if target.group not in groups:
            raise plain_text(404, "404 page not found\n", NO_SNIFF)
        found = [resource for resource in storage.RESOURCES
                 if (resource.group, resource.plural) == (target.group, target.plural)]
        if not found or target.version != "v1" or target.plural in self.hidden:
            raise not_found()
        if request.method != "GET":
            raise Refusal(405, make_status(
                405, "the server does not allow this method on the requested resource",
                "MethodNotAllowed", {}))
        if not self._encoding(request):
            raise Refusal(406, make_status(406, NOT_ACCEPTABLE, "NotAcceptable", {}))
        return found[0]

    def _encoding(self, request):
        """What @request is answered in, None if it accepts nothing that is known here."""
        return encoding.choose(request.headers.get("accept", "*/*"), request.watch, self.encodings)

    async def _send(self, exchange, obj, status=200):
        chosen = self._encoding(exchange.request) or encoding.Json
        await exchange.answer(status, head(chosen.name), chosen.body(obj, wants_pretty(exchange.request)))

    async def _get(self, exchange, resource, target):
        key = f"{target.namespace}/{target.name}" if target.namespace else target.name
        obj = self.store.objects[resource.kind].get(key)
        if obj is None:
            raise Refusal(404, make_status(404, f'{target.qualified} "{target.name}" not found',
                                           "NotFound", target.details))
        await self._send(exchange, obj)

    async def _list(self, exchange, resource, options):
        chosen = self._encoding(exchange.request)
        body = chosen.body(await self._list_body(resource, options), wants_pretty(exchange.request))
        headers = head(chosen.name)
        if len(body) > GZIP_FROM and "gzip" in exchange.request.headers.get("accept-encoding", ""):
            body = gzip.compress(body, 1)
            headers = head(chosen.name, [("Vary", "Accept-Encoding")])
            headers.insert(2, ("Content-Encoding", "gzip"))
        await exchange.answer(200, headers, body)

    async def _list_body(self, resource, options):
        if options.token:
            if options.version not in ("", "0"):
                raise bad_request("specifying resource version is not allowed when using continue")
            version, start = read_token(options.token)
            version = self.store.version if version < 0 else version
        else:
            version, start = await self._list_version(options), None
        try:
            items = self.store.items(resource.kind, version)
        except storage.Expired:
            raise expired(options.token or None) from None
        items = [(key, obj) for key, obj in items
                 if options.accepts(obj) and (start is None or key > start)]
        meta = {"resourceVersion": str(version)}
        limit = self._page_size(options)
        if limit and len(items) > limit:
            meta["continue"] = continue_token(version, "/" + items[limit - 1][0])
            if not options.selects:
                meta["remainingItemCount"] = len(items) - limit
            items = items[:limit]
        plain = [{name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
                 for _, obj in items]
        return {"kind": resource.kind + "List", "apiVersion": resource.api_version,
                "metadata": meta, "items": plain}

    def _page_size(self, options):
        if self.page_limit and options.limit:
            return min(options.limit, self.page_limit)
        return options.limit if options.version != "0" else 0

    async def _list_version(self, options):
        """The version that a list shows, once the store has come that far."""
        wanted = options.wanted_version()
        if wanted > self.store.version:
            await asyncio.sleep(self.future_wait)
            raise Refusal(504, too_large(wanted, self.store.version), [("Retry-After", "1")])
        exact = options.match == "Exact" or (wanted and options.limit and not options.match)
        return wanted if exact else self.store.version

    async def _refuse_stream(self, options, wanted):
        """The Status that a streamed list ends with at once, or None."""
        if self.streaming == "refused":
            raise invalid(forbid("sendInitialEvents", "sendInitialEvents is forbidden for watch "
                                 "unless the WatchList feature gate is enabled"))
        if self.streaming == "old store":
            return internal_error(OLD_STORE)
        if self.streaming == "hangs":
            await asyncio.sleep(options.timeout)
            return internal_error("context deadline exceeded")
        if wanted > self.store.version:
            await asyncio.sleep(self.future_wait)
            return too_large(wanted, self.store.version)
        return None

    async def _watch(self, exchange, resource, options, script):
        wanted = options.wanted_version()
        initial = options.initial or (options.initial is None and wanted == 0)
        status = await self._refuse_stream(options, wanted) if options.initial else None
        if script and script.event:
            status = event_status(script.status, wanted, self.store)
        chosen = self._encoding(exchange.request)
        if status:
            await exchange.begin(200, head(chosen.of_watches))
            await exchange.write(chosen.event("ERROR", status))
            await exchange.end()
            return
        watch = Watch(resource, options, exchange, chosen)
        self.store.listeners.add(watch.queue.put_nowait)
        try:
            backlog, refused = self._backlog(watch, wanted, initial)
            if script and script.cut is not None:
                backlog, refused = backlog[:script.cut], True
            if not refused:
                self.watches.add(watch)
            await exchange.begin(200, head(chosen.of_watches))
            for line in backlog:
                await watch.send(line)
            if not refused:
                await self._follow(watch)
            await exchange.end()
        finally:
            self.watches.discard(watch)
            self.store.listeners.discard(watch.queue.put_nowait)

    def _backlog(self, watch, wanted, initial):
        """The events that a watch begins with, and whether it ends with them."""
        current = self.store.version
        options = watch.options
        if initial:
            watch.sent = current
            lines = [watch.line("ADDED", obj) for _, obj in self.store.items(watch.resource.kind)
                     if options.accepts(obj)]
            return lines + [watch.bookmark(current, True)] * options.bookmarks, False
        watch.sent = wanted
        if not wanted:
            return [], False
        try:
            events = self.store.since(watch.resource.kind, wanted)
        except storage.Expired:
            return [watch.line("ERROR", too_old(wanted, self.store.floor))], True
        if wanted <= current:
            shown = [event.version for event in events if watch.line_for(event)]
            watch.sent = max([wanted] + shown)
        return [line for line in map(watch.line_for, events) if line], False

    async def _follow(self, watch):
        """Sends what comes until the time is over or a test ends the watch."""
        loop = asyncio.get_running_loop()
        timeout = watch.options.timeout or random.uniform(1800, 3600)
        deadline = loop.time() + timeout
        marks = [deadline - 2.0] if timeout > 2 else []
        regular = loop.time() + self.bookmark_interval
        while loop.time() < deadline:
            wake = min([deadline, regular] + marks)
            try:
                item = await asyncio.wait_for(watch.queue.get(), max(wake - loop.time(), 0))
            except asyncio.TimeoutError:
                if loop.time() >= deadline:
                    return
                if marks and loop.time() >= marks[0]:
                    marks.clear()
                if loop.time() >= regular:
                    regular += self.bookmark_interval
                item = self.BOOKMARK
            if item is self.END:
                return
            await self._pass_on(watch, item)

    async def _pass_on(self, watch, item):
        if item is self.BOOKMARK:
            if not watch.options.bookmarks or self.store.version <= watch.sent:
                return
            version, line = self.store.version, watch.bookmark(self.store.version)
        elif item.kind != watch.resource.kind or item.version <= watch.sent:
            return
        else:
            version, line = item.version, watch.line_for(item)
        if line is None:
            return
        if watch.cut_next:
            await watch.exchange.write(line[:len(line) // 2])
            for connection in watch.cut_next:
                connection.abort()
            raise ConnectionAbortedError("asked for by a test")
        await watch.send(line)
        watch.sent = version


def wants_pretty(request):
    asked = request.query.get("pretty")
    if asked is not None:
        return truth(asked)
    return request.headers.get("user-agent", "").startswith("curl/")


def head(content_type, more=(), flow_schema=FLOW_SCHEMA):
    """Header fields in the order the server has them."""
    return [("Audit-Id", str(uuid.uuid4())), ("Cache-Control", "no-cache, private"),
            ("Content-Type", content_type), *more, *flow_schema,
            ("Date", email.utils.formatdate(usegmt=True))]
