# SPDX-License-Identifier: GPL-2.0-or-later
"""The stand-in answers as the recordings say a real server does, and its faults work."""

import contextlib
import dataclasses
import gzip
import json
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import h2.events
import h2.settings
import pytest

import apiserver
import recordings
import store as storage
import wire
from clients import Goaway, Http1, Http2, connect

SERVICES = "/api/v1/services"
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"


@dataclasses.dataclass
class Recording:
    target: str
    method: str
    request: dict
    status: int
    headers: list
    body: bytes


def recording(number):
    """The recording, or page of one, whose name begins so."""
    name, _, page = number.partition("/")
    [name] = [found for found in recordings.names(recordings.RECORDINGS) if found.startswith(name)]
    parts = recordings.parts(f"{name}/{page}" if page else name)
    line, *sent = parts["request.txt"].decode().split("\r\n")
    first, *got = parts["headers.txt"].decode().split("\r\n")
    method, target, _ = line.split(" ")
    return Recording(target, method, dict(field.split(": ", 1) for field in sent if ": " in field),
                     int(first.split(" ")[1]), [tuple(field.split(": ", 1)) for field in got if field],
                     next(data for part, data in parts.items() if part.startswith("body.")))


@pytest.fixture(name="certs", scope="session")
def make_certs(tmp_path_factory):
    return tmp_path_factory.mktemp("certs")


@pytest.fixture(name="server")
def run_server(certs):
    with apiserver.ApiServer(certs) as server:
        yield server


def service(name="web", namespace="shop", **metadata):
    return {"kind": "Service", "metadata": {"name": name, "namespace": namespace, **metadata},
            "spec": {"ports": [{"port": 80}], "clusterIP": "10.96.0.10"}}


def fill(server, body, version):
    """Puts the objects of a recorded body into the store as they are, and sets its version."""
    if body.startswith(b'{"type"'):
        objects = [json.loads(line)["object"] for line in body.splitlines()
                   if line.startswith(b'{"type":"ADDED"')]
    else:
        value = json.loads(body)
        kind = value["kind"].removesuffix("List")
        objects = [{"kind": kind, "apiVersion": value["apiVersion"], **item}
                   for item in value["items"]] if "items" in value else [value]
    for obj in objects:
        server.store.objects[obj["kind"]][storage.key_of(obj)] = obj
    server.store.version = version


def ask(server, recorded, token="a-token"):
    """Asks what was asked then. The token of 061 was a wrong one."""
    if recorded.status == 401:
        token = "wrong"
    client = Http1(server, token if "Authorization" in recorded.request else None)
    return client.get(recorded.target, recorded.method, User_Agent="test/1")


def same_head(client, recorded):
    """Status and header fields agree: names and order, and values but for ids, date and length."""
    assert client.status == recorded.status
    assert [name for name, _ in client.headers] == [name for name, _ in recorded.headers]
    for name in ("Content-Type", "Cache-Control", "Retry-After", "X-Content-Type-Options"):
        assert client.header(name) == dict(recorded.headers).get(name)


# Answers as recorded

@pytest.mark.parametrize("number", ["007", "008", "009", "016", "022"])
def test_list_and_get(server, number):
    recorded = recording(number)
    fill(server, recorded.body, int(json.loads(recorded.body)["metadata"]["resourceVersion"]))
    with ask(server, recorded) as client:
        assert client.body() == recorded.body
        same_head(client, recorded)


def test_pages(server):
    """Two pages, with the very token of the real server between them."""
    pages = [recording("012/page-01"), recording("012/page-02")]
    for page in pages:
        fill(server, page.body, int(json.loads(page.body)["metadata"]["resourceVersion"]))
    for page in pages:
        with ask(server, page) as client:
            assert client.body() == page.body


def test_pages_of_one_state(server):
    """All pages show the state of the first one; the count is left out with a selector."""
    for number in range(7):
        server.put(service(f"s{number}"))
    with Http1(server) as client:
        first = json.loads(client.get(f"{SERVICES}?limit=3").body())
        assert first["metadata"]["remainingItemCount"] == 4
        server.delete("Service", "shop", "s4")
        server.put(service("s4x"))
        token = first["metadata"]["continue"]
        second = json.loads(client.get(f"{SERVICES}?limit=3&continue={token}").body())
        assert [item["metadata"]["name"] for item in second["items"]] == ["s3", "s4", "s5"]
        assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        token = second["metadata"]["continue"]
        last = json.loads(client.get(f"{SERVICES}?limit=3&continue={token}").body())
        assert list(last["metadata"]) == ["resourceVersion"] and len(last["items"]) == 1
        chosen = json.loads(client.get(f"{SERVICES}?limit=3&labelSelector=%21x").body())
        assert list(chosen["metadata"]) == ["resourceVersion", "continue"]
        everything = json.loads(client.get(f"{SERVICES}?limit=3&resourceVersion=0").body())
        assert len(everything["items"]) == 7
        server.expire_history()
        assert client.get(f"{SERVICES}?limit=3&continue={token}").status == 410
        rest = json.loads(client.body())["metadata"]["continue"]
        again = json.loads(client.get(f"{SERVICES}?limit=3&continue={rest}").body())
        assert [item["metadata"]["name"] for item in again["items"]] == ["s6"]


REFUSED = ("053 055 061 062 067 068 069 070 072 073 074 075 076 077 079 080 082 097 099 "
           "136").split()


@pytest.mark.parametrize("number", REFUSED)
def test_refusals(server, number):
    recorded = recording(number)
    server.store.version = server.store.floor = 2000
    with ask(server, recorded) as client:
        same_head(client, recorded)
        assert client.body() == recorded.body
        client.get("/api/v1/nodes/none")  # the connection lives on
        assert client.status in (401, 403, 404) and client.body()


@pytest.mark.parametrize("number", ["064", "065", "066"])
def test_forbidden(server, number):
    recorded = recording(number)
    server.api.tokens["other"] = "system:serviceaccount:kube-system:kube-nftd"
    server.api.denied |= {"endpointslices", "nodes", "servicecidrs"}
    with ask(server, recorded, "other") as client:
        same_head(client, recorded)
        assert client.body() == recorded.body


def test_scripted_answers(server):
    server.answer_next(1, 429)
    server.answer_next(1, 504)
    server.answer_next(1, 500, when=lambda request: request.watch)
    with ask(server, recording("086")) as client:
        same_head(client, recording("086"))
        assert client.body() == recording("086").body
    with ask(server, recording("117")) as client:
        assert client.status == 504 and client.body() == recording("117").body
        assert client.header("Content-Type") == dict(recording("117").headers)["Content-Type"]
        assert client.get(SERVICES).status == 200 and client.body()
        assert client.get(f"{SERVICES}?watch=true").status == 500 and client.body()
        server.answer_next(1, 429, retry_after=7)
        assert client.get(SERVICES).header("Retry-After") == "7" and client.body()
        server.answer_next(1, 0)
        with pytest.raises((IndexError, ConnectionError)):
            client.get(SERVICES)


STREAM = ("watch=true&allowWatchBookmarks=true&sendInitialEvents=true"
          "&resourceVersionMatch=NotOlderThan&timeoutSeconds=20")


def test_a_server_without_streamed_lists(server):
    """As 053 and others say 422, and it is the only thing that it refuses."""
    server.api.streaming = "refused"
    with Http1(server) as client:
        status = json.loads(client.get(f"{SERVICES}?{STREAM}").body())
        assert client.status == 422 == status["code"] and status["reason"] == "Invalid"
        assert [cause["field"] for cause in status["details"]["causes"]] == ["sendInitialEvents"]
        assert client.get(SERVICES).status == 200 and client.body()
        assert client.get(f"{SERVICES}?watch=true&timeoutSeconds=-1").status == 200


def test_a_store_too_old_for_streamed_lists(server):
    server.api.streaming = "old store"
    recorded = recording("046")
    with ask(server, recorded) as client:
        same_head(client, recorded)
        assert client.body() == recorded.body
        assert client.get(f"{SERVICES}?watch=true&timeoutSeconds=-1").status == 200


def test_a_streamed_list_that_hangs(server):
    """No header before its own time is over."""
    server.api.streaming = "hangs"
    recorded = recording("114")
    short = recorded.target.replace("timeoutSeconds=100", "timeoutSeconds=1")
    begin = time.monotonic()
    with ask(server, dataclasses.replace(recorded, target=short)) as client:
        assert time.monotonic() - begin >= 1
        same_head(client, recorded)
        assert client.body() == recorded.body
        assert client.get(f"{SERVICES}?watch=true&timeoutSeconds=-1").status == 200


def test_403_just_after_the_start(server):
    recorded = recording("110")
    server.forbid_for(60)
    with ask(server, recorded) as client:
        same_head(client, recorded)
        assert client.body() == recorded.body
        empty = [name for name, value in client.headers if not value]
        assert empty == [name for name, value in recorded.headers if not value]
        server.forbid_for(0)
        assert client.get(SERVICES).status == 200


@pytest.mark.parametrize("code, reason", [(410, "Expired"), (429, "TooManyRequests"),
                                          (500, "InternalError"), (504, "Timeout")])
def test_error_events_by_script(server, code, reason):
    server.error_next(1, code, when=lambda request: request.path == SERVICES)
    with Http1(server) as client:
        assert client.get(SERVICES).status == 200 and client.body()  # not for a list
        assert client.get(f"{SERVICES}?watch=true&resourceVersion=7").status == 200
        event = json.loads(client.body())
        assert event["type"] == "ERROR" and event["object"]["kind"] == "Status"
        assert (event["object"]["code"], event["object"]["reason"]) == (code, reason)
        if code == 429:
            assert event["object"] == json.loads(recording("119").body)
        client.get(f"{SERVICES}?watch=true&timeoutSeconds=-1")
        assert client.body() == b""  # one was asked for


def test_a_streamed_list_cut_short(server):
    server.put(service("a"), service("b"))
    server.cut_next(1, 1)
    with Http1(server) as client:
        body = client.get(f"{SERVICES}?{STREAM}").body()
        assert body.count(b"\n") == 1 and b"BOOKMARK" not in body
        client.get(f"{SERVICES}?{STREAM}")
        assert b"BOOKMARK" in [client.chunk() for _ in range(3)][-1]


def test_resource_version_from_the_future(server):
    server.api.future_wait = 0.2
    server.store.version = 674
    for number in ("083", "084"):
        begin = time.monotonic()
        with ask(server, recording(number)) as client:
            same_head(client, recording(number))
            assert time.monotonic() - begin >= 0.2
            assert client.body() == recording(number).body


def test_large_bodies_are_chunked_and_small_ones_are_not(server):
    server.put(service(annotations={"x": "y" * 5000}))
    with Http1(server) as client:
        sizes = [len(chunk) for chunk in client.get(SERVICES).chunks()]
        assert sizes[:2] == [2048, 2048] and sizes[-1] < 2048
        assert client.header("Transfer-Encoding") == "chunked"
        assert client.get(f"{SERVICES}?labelSelector=none").header("Content-Length")
        assert client.body().endswith(b'"items":[]}\n')


def test_gzip_for_large_lists_only(server):
    with Http1(server) as client:
        assert client.get(SERVICES, Accept_Encoding="gzip").header("Content-Encoding") is None
        client.body()
        server.put(service(annotations={"x": "y" * 140_000}))
        packed = client.get(SERVICES, Accept_Encoding="gzip")
        assert [name for name, _ in packed.headers][2:5] == [
            "Content-Encoding", "Content-Type", "Vary"]
        plain = gzip.decompress(packed.body())
        assert client.get(SERVICES).body() == plain


def test_pretty_for_curl(server):
    with Http1(server) as client:
        body = client.get(SERVICES, User_Agent="curl/7.88").body()
        assert body.startswith(b'{\n  "kind": "ServiceList",\n') and not body.endswith(b"\n")
        assert b"\n" not in client.get(f"{SERVICES}?pretty=false", User_Agent="curl/7").body()[:-1]


def test_html_characters_are_escaped(server):
    server.put(service(annotations={"x": "<a&b>\u2028é\x7f"}))
    with Http1(server) as client:
        assert b'"\\u003ca\\u0026b\\u003e\\u2028\xc3\xa9\x7f"' in client.get(SERVICES).body()


# Watches as recorded

@pytest.mark.parametrize("number", ["041", "045", "049"])
def test_initial_events(server, number):
    recorded = recording(number)
    lines = recorded.body.splitlines(keepends=True)
    end = next(place for place, line in enumerate(lines) if b"initial-events-end" in line)
    version = int(json.loads(lines[end])["object"]["metadata"]["resourceVersion"])
    fill(server, recorded.body, version)
    with ask(server, recorded) as client:
        body = b""
        while b"initial-events-end" not in body:
            body += client.chunk()
        assert body == b"".join(lines[:end + 1])
        same_head(client, recorded)


def test_initial_events_without_bookmarks_have_no_end_mark(server):
    server.put(service())
    with Http1(server) as client:
        streamed = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        for more in ("", "&resourceVersion=0", streamed):
            client.get(f"{SERVICES}?watch=true&timeoutSeconds=20{more}")
            assert json.loads(client.chunk())["type"] == "ADDED"
            server.close_watches()
            assert client.chunk() == b""


class Replay:
    """Does to the stand-in what was done to the real server, at the same resourceVersions."""

    def __init__(self, server, recorded, monkeypatch):
        self.store = server.store
        self.lines = recorded.body.splitlines(keepends=True)
        self.objects = [json.loads(line)["object"] for line in self.lines]
        first = int(recorded.target.split("resourceVersion=")[1].split("&")[0])
        self.store.version = self.store.floor = first
        monkeypatch.setattr(storage, "now", lambda: "2026-11-21T17:10:05Z")

    def put(self, obj, version=None):
        self.store.version = int(version or obj["metadata"]["resourceVersion"]) - 1
        self.store.put(obj)

    def delete(self, obj, version):
        self.store.version = int(version) - 1
        self.store.delete(obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"])


def changed(obj, **metadata):
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


def test_service_events(server, monkeypatch):
    """Creation, changes, leaving the selector, coming back, deletion, finalizers."""
    recorded = recording("030")
    replay = Replay(server, recorded, monkeypatch)
    seen = replay.objects
    for obj in seen[:5]:
        replay.put(obj)
    other = {"tier": "front", "service.kubernetes.io/service-proxy-name": "other"}
    replay.put(changed(seen[4], labels=other), 543)  # leaves: DELETED with the state before
    replay.put(changed(seen[4], labels=other, annotations={"while": "outside"}), 545)
    replay.put(seen[6])  # comes back: ADDED
    headless = changed(service("w-head"), resourceVersion="549")
    headless["spec"]["clusterIP"] = "None"
    replay.put(headless)
    replay.delete(seen[6], 555)
    replay.put(seen[8])
    replay.delete(seen[8], 562)  # has a finalizer: MODIFIED
    replay.put(changed(seen[9], finalizers=[]), 563)  # the last finalizer goes: DELETED
    replay.delete(headless, 564)
    replay.store.version = 566
    with ask(server, recorded) as client:
        body = b""
        while body.count(b"\n") < len(replay.lines) - 1:
            body += client.chunk()
        server.bookmark()
        body += client.chunk()
        assert body.splitlines(keepends=True) == replay.lines


def test_slice_events(server, monkeypatch):
    """Of one slice; the other one of the recording was there before."""
    recorded = recording("032")
    recorded.body = b"".join(line for line in recorded.body.splitlines(keepends=True) if b'"hundred"' not in line)
    replay = Replay(server, recorded, monkeypatch)
    for obj in replay.objects[:5]:
        replay.put(obj)
    last = replay.objects[4]
    replay.put(changed(last, labels={**last["metadata"]["labels"],
                                     "service.kubernetes.io/headless": ""}), 577)
    replay.delete(last, 578)
    with ask(server, recorded) as client:
        body = b""
        while body.count(b"\n") < len(replay.lines) - 1:
            body += client.chunk()
        server.bookmark()
        assert (body + client.chunk()).splitlines(keepends=True) == replay.lines


def test_node_events(server, monkeypatch):
    """Live, one event one chunk; a Node that comes again under its name has another uid."""
    recorded = recording("034")
    replay = Replay(server, recorded, monkeypatch)
    seen = replay.objects
    replay.store.objects["Node"]["node-d"] = changed(seen[0], labels={})
    with ask(server, recorded) as client:
        for place in (0, 1, 2):
            server.call(replay.put, seen[place])
            assert client.chunk() == replay.lines[place]
        server.call(replay.delete, seen[2], 594)
        assert client.chunk() == replay.lines[3]
        server.call(replay.put, seen[4])
        assert client.chunk() == replay.lines[4]
        server.advance()
        server.bookmark()
        assert client.chunk() == replay.lines[5]


def test_service_cidr_events(server, monkeypatch):
    """A ServiceCIDR is marked for deletion until its finalizer goes. The real server's bookmarks in
    between came with time."""
    recorded = recording("033")
    replay = Replay(server, recorded, monkeypatch)
    monkeypatch.setattr(storage, "now", lambda: "2026-11-21T17:10:24Z")
    lines = [line for line in replay.lines if b'"BOOKMARK"' not in line]
    seen = [json.loads(line)["object"] for line in lines]
    with ask(server, recorded) as client:
        for place in (0, 1, 2):
            server.call(replay.put, seen[place])
            assert client.chunk() == lines[place]
        server.call(replay.delete, seen[2], 585)
        assert client.chunk() == lines[3]
        server.call(replay.put, changed(seen[3], finalizers=[]), 589)
        assert client.chunk() == lines[4]
        same_head(client, recorded)


def test_bookmark_before_the_end(server):
    recorded = recording("035")
    server.store.version = 631
    server.store.floor = 600
    short = recorded.target.replace("timeoutSeconds=6", "timeoutSeconds=3")
    with Http1(server) as client:
        begin = time.monotonic()
        assert client.get(short).body() == recorded.body
        assert time.monotonic() - begin > 2.8
        assert client.get(f"{SERVICES}?watch=true&timeoutSeconds=1&resourceVersion=631"
                          "&allowWatchBookmarks=true").body() == b""  # nothing new to say
        assert client.get(f"{SERVICES}?watch=true&timeoutSeconds=-1").status == 200
        assert client.body() == b""


def test_a_too_old_version_is_an_error_event(server):
    recorded = recording("101")
    server.store.version = server.store.floor = 1192
    with ask(server, recorded) as client:
        same_head(client, recorded)
        assert client.body() == recorded.body


def test_history_is_bounded(certs):
    with apiserver.ApiServer(certs, history=3) as server:
        first = server.put(service())["metadata"]["resourceVersion"]
        for number in range(5):
            server.put(service(labels={"n": str(number)}))
        with Http1(server) as client:
            client.get(f"{SERVICES}?watch=true&resourceVersion={first}&timeoutSeconds=1")
            assert json.loads(client.body())["object"]["code"] == 410
            newer = int(first) + 2
            client.get(f"{SERVICES}?watch=true&resourceVersion={newer}&timeoutSeconds=1")
            assert len(client.body().splitlines()) == 3


def test_the_same_again_is_no_event(server):
    before = server.put(service())
    assert server.put(service()) == before
    assert server.store.version == int(before["metadata"]["resourceVersion"])


@pytest.mark.parametrize("selector, names", [
    ("", "abcd"), ("x", "abc"), ("!x", "d"), ("x=1", "a"), ("x==1", "a"), ("x!=1", "bcd"),
    ("x=", "c"), ("x,y", "b"), ("!y,x!=1", "cd"), ("example.com/z", "d"), (" x = 1 , !y", "a")])
def test_label_selectors(selector, names):
    labels = {"a": {"x": "1"}, "b": {"x": "2", "y": "3"}, "c": {"x": ""},
              "d": {"example.com/z": "q"}}
    accepts = storage.parse_labels(selector)
    found = [name for name in labels if accepts({"metadata": {"labels": labels[name]}})]
    assert found == list(names)


@pytest.mark.parametrize("selector, accepted", [
    ("spec.clusterIP!=None", ["a", "c"]), ("spec.clusterIP=None", ["b"]),
    ("metadata.name=a", ["a"]), ("metadata.namespace==n,metadata.name!=a", ["b", "c"])])
def test_field_selectors(selector, accepted):
    services = [{"metadata": {"name": name, "namespace": "n"}, "spec": spec} for name, spec in
                (("a", {"clusterIP": "10.0.0.1"}), ("b", {"clusterIP": "None"}), ("c", {}))]
    accepts = storage.parse_fields(storage.BY_KIND["Service"], selector)
    assert [obj["metadata"]["name"] for obj in services if accepts(obj)] == accepted


# HTTP/2, TLS, credentials

def test_alpn(server):
    for offer, chosen in ((["http/1.1", "h2"], "h2"), (["http/1.1"], "http/1.1"), (None, None)):
        with connect(server, offer) as sock:
            assert sock.selected_alpn_protocol() == chosen


def test_http2_settings_and_shared_connection(server):
    server.put(service())
    with Http2(server) as client:
        watches = [client.get(f"{path}?watch=true&timeoutSeconds=20")
                   for path in (SERVICES, SLICES)]
        assert [client.status(stream) for stream in watches] == [200, 200]
        listed = client.get(SERVICES)
        client.wait(listed)
        assert json.loads(client.body(listed))["kind"] == "ServiceList"
        assert client.h2.remote_settings.max_concurrent_streams == 100
        assert client.h2.remote_settings.max_frame_size == 262144
        assert client.h2.remote_settings.initial_window_size == 262144
        server.close_watches()
        for stream in watches:
            client.wait(stream)
        assert client.body(watches[0]).count(b"\n") == 1
    assert len({request.connection for request in server.requests}) == 1
    assert [request.stream for request in server.requests] == watches + [listed]


def test_http2_goaway_after_401(server):
    """GOAWAY comes before the 401, an open watch lives on, a new stream gets nothing."""
    with Http2(server) as client:
        watch = client.get(f"{SERVICES}?watch=true&timeoutSeconds=20")
        assert client.status(watch) == 200
        refused = client.get(SERVICES, token="wrong")
        client.wait(refused)
        assert client.status(refused) == 401
        goaway = client.seen.index(Goaway(refused))
        answer = client.seen.index(client.of(refused, h2.events.ResponseReceived)[0])
        assert goaway < answer
        server.put(service())
        client.wait(watch, h2.events.DataReceived)
        ignored = client.get(SERVICES)
        server.close_watches()
        client.wait(watch)
        while client.read():  # a second later the server closes
            pass
        assert not client.of(ignored, h2.events.ResponseReceived)


def test_http2_goaway_comes_once_and_names_the_newest_stream(server):
    with Http2(server) as client:
        refused = [client.get(SERVICES, "wrong", flush=False) for _ in range(3)]
        client.flush()
        for stream in refused:
            assert client.status(stream) == 401
        seen = [event for event in client.seen if isinstance(event, Goaway)]
        assert seen == [Goaway(refused[-1])]


def test_http2_large_bodies_wait_for_the_window(server):
    server.put(service(annotations={"x": "y" * 200_000}))
    with Http2(server) as client:
        stream = client.get(SERVICES)
        client.wait(stream)
        assert len(client.body(stream)) > 200_000


def test_client_certificate(server):
    with Http1(server, token=None, client_cert=True) as client:
        assert client.get(SERVICES).status == 200
    assert server.requests[-1].client_cert == server.requests[-1].user == "system:kube-proxy"
    with Http1(server, token="wrong", client_cert=True) as client:
        assert client.get(SERVICES).status == 401


def test_hidden_resource(server):
    server.api.hidden.add("services")
    with ask(server, dataclasses.replace(recording("067"), target=SERVICES)) as client:
        assert client.status == 404 and client.body() == recording("067").body


def test_request_log(server):
    with Http1(server) as client:
        client.get(f"{SERVICES}?labelSelector=%21a%2Fb&watch=true&timeoutSeconds=-1",
                   User_Agent="me/1").body()
    [request] = server.asked("services", watch=True)
    assert request.query["labelSelector"] == "!a/b" and "%21a%2Fb" in request.target
    assert request.headers["user-agent"] == "me/1"
    assert (request.protocol, request.stream, request.status) == ("HTTP/1.1", 0, 200)
    server.wait(lambda: request.done)


# Faults

def open_watch(server, client, query="&timeoutSeconds=20"):
    version = server.store.version
    client.get(f"{SERVICES}?watch=true&resourceVersion={version}{query}")
    return client


def test_close_watches_clean(server):
    with open_watch(server, Http1(server)) as client:
        server.close_watches()
        assert client.chunk() == b""
        assert client.get(SERVICES).status == 200  # same connection


def test_close_watches_by_reset(server):
    with open_watch(server, Http1(server)) as client:
        server.close_watches("reset")
        with pytest.raises((ConnectionResetError, EOFError)):
            client.chunk()
    server.wait(lambda: not server.api.watches)


def test_close_watches_in_the_middle_of_an_event(server):
    with open_watch(server, Http1(server)) as client:
        server.close_watches("mid-event")
        server.put(service())
        assert client.chunk().startswith(b'{"type":"ADDED"')
        with pytest.raises((ConnectionError, EOFError, OSError)):
            client.chunk()


def test_refuse_connections(server):
    with open_watch(server, Http1(server)) as client:
        server.refuse_connections()
        with pytest.raises(ConnectionRefusedError):
            connect(server)
        server.put(service())
        assert b"ADDED" in client.chunk()  # open watches live on
        server.accept_connections()
        with Http1(server) as other:
            assert other.get(SERVICES).status == 200


@pytest.mark.parametrize("how", ["kill", "clean"])
@pytest.mark.parametrize("fresh", [False, True])
def test_stop_and_start(server, how, fresh):
    version = server.put(service())["metadata"]["resourceVersion"]
    port = server.port
    with open_watch(server, Http1(server)) as client:
        server.stop(how)
        if how == "clean":
            assert client.chunk() == b""
        else:
            with pytest.raises((ConnectionError, EOFError, OSError)):
                client.chunk()
    server.put(service("later"))
    server.start(fresh_history=fresh)
    assert server.port == port
    with Http1(server) as client:
        client.get(f"{SERVICES}?watch=true&resourceVersion={version}&timeoutSeconds=1")
        event = json.loads(client.body())
    assert event["type"] == ("ERROR" if fresh else "ADDED")
    assert not fresh or event["object"]["code"] == 410


@pytest.mark.parametrize("protocol", [Http1, Http2])
@pytest.mark.parametrize("how", ["kill", "clean", "reset"])
def test_restart_behind_other_servers(server, protocol, how):
    """What was open ends as asked for; the next connection is served at once."""
    with protocol(server) as client:
        stream = client.get(f"{SERVICES}?watch=true&timeoutSeconds=20")
        server.wait(lambda: server.api.watches)
        server.restart(how)
        if how == "clean":
            assert (client.chunks() == []) if protocol is Http1 else client.wait(stream)
        else:
            with pytest.raises((ConnectionError, EOFError, OSError)):
                client.chunk() if protocol is Http1 else client.wait(stream)
        server.wait(lambda: not server.api.watches)
        with protocol(server) as other:
            other.get(SERVICES)
            server.wait(lambda: server.requests[-1].status == 200)


def test_restart_in_the_middle_of_an_event(server):
    with Http1(server) as client:
        client.get(f"{SERVICES}?watch=true&timeoutSeconds=20")
        server.wait(lambda: server.api.watches)
        server.restart("mid-event")
        with Http1(server) as later:  # a connection to the next server
            later.get(f"{SERVICES}?watch=true&timeoutSeconds=20")
            server.wait(lambda: len(server.api.watches) == 2)
            server.put(service())
            assert client.chunk().startswith(b'{"type":"ADDED"')
            with pytest.raises((ConnectionError, EOFError, OSError)):
                client.chunk()
            assert json.loads(later.chunk())["type"] == "ADDED"


def test_goaway_by_script(server):
    """The open watch lives on, a new stream gets nothing."""
    with Http2(server) as client:
        watch = client.get(f"{SERVICES}?watch=true&timeoutSeconds=20")
        assert client.status(watch) == 200
        server.goaway()
        server.put(service())
        client.wait(watch, h2.events.DataReceived)
        assert Goaway(watch) in client.seen
        ignored = client.get(SERVICES)
        server.close_watches()
        client.wait(watch)
        while client.read():
            pass
        assert not client.of(ignored, h2.events.ResponseReceived)


def test_hold(server):
    """Requests that are held get their answer when they are released; others do not wait."""
    with open_watch(server, Http1(server)) as watch, Http1(server) as client:
        server.hold(lambda request: request.path == SERVICES)
        client.sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.get(SERVICES)
        server.put(service())
        assert b"ADDED" in watch.chunk()
        with Http1(server) as other:
            assert other.get(SLICES).status == 200
        server.release()
        client.sock.settimeout(5)
        assert client.sock.recv(12) == b"HTTP/1.1 200"


def watch_again_and_again(client):
    """What a client does whose watches end at once."""
    with contextlib.suppress(OSError, EOFError, IndexError, ValueError):
        while True:
            watch = client.get(f"{SERVICES}?watch=true&timeoutSeconds=20")
            if isinstance(client, Http1):
                client.chunks()
            else:
                client.wait(watch)


@pytest.mark.parametrize("protocol", [Http1, Http2])
def test_a_clean_stop_opens_no_new_watches(server, protocol):
    with protocol(server) as client:
        thread = threading.Thread(target=watch_again_and_again, args=(client,))
        thread.start()
        for _ in range(3):
            server.wait(lambda: server.api.watches)
            server.close_watches("clean")
        server.stop("clean")
        thread.join(5)
        assert not thread.is_alive()
    assert not server.api.watches and not server.connections


@pytest.mark.parametrize("protocol", [Http1, Http2])
def test_a_clean_stop_after_half_an_event(server, protocol):
    with protocol(server) as client:
        version = server.store.version
        client.get(f"{SERVICES}?watch=true&timeoutSeconds=20&resourceVersion={version}")
        server.wait(lambda: server.api.watches)
        server.close_watches("mid-event")
        server.put(service())
        with protocol(server) as other:
            thread = threading.Thread(target=watch_again_and_again, args=(other,))
            thread.start()
            server.wait(lambda: server.open_watches())
            server.stop("clean")
            thread.join(5)
            assert not thread.is_alive()


@pytest.mark.parametrize("how", ["reset", "abort", "close"])
def test_nothing_is_sent_on_a_connection_that_was_ended(server, how):
    with Http2(server) as client:
        client.status(client.get(f"{SERVICES}?watch=true&timeoutSeconds=20"))
        [connection] = server.connections

        async def end_twice_and_send():
            getattr(connection, how)()
            connection.close()
            with pytest.raises(ConnectionError):
                await connection.flush()

        server.call(end_twice_and_send)
        server.wait(lambda: not server.connections)


@pytest.mark.parametrize("protocol", [Http1, Http2])
def test_a_client_that_does_not_answer_the_end_of_tls(server, protocol, caplog):
    """The connection is lost as any other, and nobody reports an error."""
    with protocol(server) as client:
        client.get(f"{SERVICES}?watch=true&timeoutSeconds=20")
        server.wait(lambda: server.api.watches)
        [connection] = server.connections
        server.call(connection.close)
        server.wait(lambda: not server.connections)
        server.call(lambda: None)  # what follows the end of its task
    assert not caplog.records


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@pytest.mark.parametrize("protocol", [Http1, Http2])
def test_a_client_that_goes_as_it_is_answered(server, protocol, monkeypatch, caplog):
    """The rest of the answer is not written to a connection that broke with a piece of it."""
    server.put(service(annotations={"x": "y" * 60_000}))
    begun, write_packed = [], wire.Exchange.write_packed

    async def reset_and_write(exchange, data):
        reset(sock)
        begun.append(exchange.request)
        await write_packed(exchange, data)

    monkeypatch.setattr(wire.Exchange, "write_packed", reset_and_write)
    if protocol is Http1:
        sock = connect(server)
        sock.sendall(f"GET {SERVICES} HTTP/1.1\r\nAuthorization: Bearer a-token\r\n\r\n".encode())
    else:
        client = Http2(server)
        sock = client.sock
        client.get(SERVICES)
    server.wait(lambda: begun and begun[0].done)
    server.wait(lambda: not server.connections)
    assert not caplog.records


def test_stall(server):
    with open_watch(server, Http1(server)) as client:
        server.stall()
        server.put(service())
        client.sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.sock.recv(1)
        server.go_on()
        client.sock.settimeout(5)
        assert client.sock.recv(100)


def test_drip(server):
    server.put(service(annotations={"x": "y" * 5000}))
    with Http1(server) as client, Http2(server) as other:
        whole = client.get(SERVICES).body()
        server.drip(1)
        chunks = client.get(SERVICES).chunks()
        assert b"".join(chunks) == whole and {len(chunk) for chunk in chunks} == {1}
        stream = other.get(SERVICES)
        other.wait(stream)
        assert other.body(stream) == whole
        frames = other.of(stream, h2.events.DataReceived)
        assert {len(frame.data) for frame in frames} <= {0, 1}


# The command

def test_command(tmp_path):
    path = tmp_path / "objects.json"
    path.write_text(json.dumps({"kind": "List", "items": [service(), {"kind": "Pod"}]}))
    command = [sys.executable, pathlib.Path(__file__).parent / "apiserver.py", "--manifests", path,
               "--certs", tmp_path / "c"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline().split()
        assert line[:2] == ["listening", "on"]
        assert line[3] == f"kubeconfig={tmp_path}/c/kubeconfig"
        token = (tmp_path / "c" / "token").read_text()
        ask_names = ["curl", "-sS", "--cacert", tmp_path / "c" / "ca.crt", "-H",
                     f"Authorization: Bearer {token}", f"{line[2]}{SERVICES}?pretty=false"]

        def names():
            answer = json.loads(subprocess.run(ask_names, check=True, capture_output=True).stdout)
            return [item["metadata"]["name"] for item in answer["items"]]

        apiserver.ApiServer.wait(lambda: names() == ["web"])
        path.write_text(json.dumps([service("other")]))
        apiserver.ApiServer.wait(lambda: names() == ["other"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
