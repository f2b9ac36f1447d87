# SPDX-License-Identifier: GPL-2.0-or-later
"""The stand-in speaks JSON and protobuf as the pairs of ../recordings-protobuf say a real server does."""

import json
import struct

import pytest

import apiserver
import encoding
import protobuf
import store as storage
import recordings
from clients import Http1

PAIRS = [name for name in recordings.names(recordings.PAIRS)
         if "protobuf.body.pb" in recordings.parts(name) and "json.headers.txt" in recordings.parts(name)]
# The second of a pair was asked for a moment later.
LATER = {"208-stream-endpointslices": ('"342"', '"345"'), "210-stream-servicecidrs": ('"347"', '"348"'),
         "216-watch-future": ("current: 370", "current: 373")}
PROTOBUF, JSON = encoding.Protobuf.name, encoding.Json.name
SERVICES = "/api/v1/services"


def recorded_json(name):
    """The objects of a recording, or of its events: [(type, object)]; an answer of one object has no type."""
    text = recordings.parts(name)[recordings.body_part(name, "json.")].decode()
    text = text.replace(*LATER.get(name, ("", "")))
    if not text.startswith('{"type"'):
        return [(None, json.loads(text))]
    return [(event["type"], event["object"]) for event in map(json.loads, text.splitlines())]


def recorded_protobuf(name):
    return recordings.parts(name)["protobuf.body.pb"]


def frames(data):
    """The frames of a watch, each with its length."""
    while data:
        size, = struct.unpack(">I", data[:4])
        assert len(data) >= 4 + size
        yield data[:4 + size]
        data = data[4 + size:]


@pytest.mark.parametrize("name", [name for name in PAIRS if name not in (
    "214-watch-services", "217-not-found-path", "223-version")])
def test_each_pair_byte_for_byte(name):
    made = [protobuf.event(kind, obj) if kind else protobuf.envelope(obj) for kind, obj in recorded_json(name)]
    assert b"".join(made) == recorded_protobuf(name)


def test_changes_byte_for_byte():
    """Of 214: the protobuf watch saw the changes of its own Service as well."""
    seen = list(frames(recorded_protobuf("214-watch-services")))
    changes = [protobuf.event(kind, obj) for kind, obj in recorded_json("214-watch-services") if kind != "BOOKMARK"]
    assert len(changes) == 3 and changes == seen[:3]


def test_an_event_byte_for_byte():
    """The answer to an Event that was written, 226."""
    fields = dict.fromkeys(("f:action", "f:eventTime", "f:note", "f:reason", "f:regarding", "f:reportingController",
                            "f:reportingInstance", "f:type"), {})
    manager = {"manager": "kube-nftd", "operation": "Update", "apiVersion": "events.k8s.io/v1",
               "time": "2026-11-22T21:37:35Z", "fieldsType": "FieldsV1", "fieldsV1": fields}
    assert protobuf.envelope(
        {"kind": "Event", "apiVersion": "events.k8s.io/v1",
         "metadata": {"name": "x.1", "namespace": "default", "uid": "cc0508eb-1e45-4338-9600-086053e39c27",
                      "resourceVersion": "374", "creationTimestamp": "2026-11-22T21:37:35Z",
                      "managedFields": [manager]},
         "eventTime": "2026-11-22T00:00:00.000000Z", "reportingController": "kube-nftd", "reportingInstance": "n",
         "action": "A", "reason": "R", "regarding": {"kind": "Node", "name": "n"}, "note": "n",
         "type": "Normal"}) == recorded_protobuf("226-post-event")


def test_values_of_the_wrong_type_are_written_as_what_they_are():
    assert protobuf.message("ForZone", {"name": 7}) == b"\x08\x07"
    assert protobuf.message("ClientIPConfig", {"timeoutSeconds": "1"}) == b"\x0a\x011"
    assert protobuf.message("ClientIPConfig", {"timeoutSeconds": {}}) == b"\x0a\x02{}"
    assert protobuf.message("ClientIPConfig", {"timeoutSeconds": -1}) == b"\x08" + b"\xff" * 9 + b"\x01"
    assert protobuf.message("ServiceCIDRSpec", {"cidrs": "x"}) == b"\x0a\x01x"
    assert protobuf.message("SessionAffinityConfig", {"clientIP": 1.5}) == b"\x09" + struct.pack("<d", 1.5)


@pytest.fixture(name="server")
def run_server(certs):
    with apiserver.ApiServer(certs) as server:
        yield server


def fill(server, name):
    """What the recorded answer shows."""
    for kind, obj in recorded_json(name):
        of_list = obj["kind"].removesuffix("List")
        for item in obj["items"] if "items" in obj else [obj] if kind in ("ADDED", None) else []:
            server.store.objects[of_list][storage.key_of(item)] = {
                "kind": of_list, "apiVersion": obj["apiVersion"], **item}
        server.store.version = int(obj["metadata"]["resourceVersion"])


def ask(server, name, answer):
    """Asks what was asked then."""
    lines = recordings.parts(name)[f"{answer}.request.txt"].decode().splitlines()
    fields = dict(line.split(": ", 1) for line in lines[1:] if line)
    target = lines[0].split(" ")[1]
    return Http1(server).get(target.replace("timeoutSeconds=3", "timeoutSeconds=1"), accept=fields["Accept"])


def check(client, name, answer):
    """The status, the Content-Type and the body are those of the recording."""
    first, *fields = recordings.parts(name)[f"{answer}.headers.txt"].decode().splitlines()
    kind = dict(field.split(": ", 1) for field in fields if field)["Content-Type"]
    assert (client.status, client.header("Content-Type")) == (int(first.split(" ")[1]), kind)


@pytest.mark.parametrize("name", [name for name in PAIRS if name < "205" or name.startswith("206")])
def test_lists_and_objects(server, name):
    fill(server, name)
    with ask(server, name, "json") as client:
        check(client, name, "json")
        assert json.loads(client.body()) == recorded_json(name)[0][1]
    with ask(server, name, "protobuf") as client:
        check(client, name, "protobuf")
        assert client.body() == recorded_protobuf(name)


@pytest.mark.parametrize("name", [name for name in PAIRS if "-stream-" in name])
def test_streamed_lists(server, name):
    fill(server, name)
    with ask(server, name, "protobuf") as client:
        check(client, name, "protobuf")
        assert client.body() == recorded_protobuf(name)


def test_each_event_is_flushed(server):
    """The chunks are those of 207, where no two events were ready at once."""
    name = "207-stream-services"
    sizes = {row["answer"]: row["chunks"] for row in recordings.read_table(recordings.PAIRS / "framing.tsv")
             if row["recording"] == name}
    fill(server, name)
    for answer in ("json", "protobuf"):
        with ask(server, name, answer) as client:
            assert " ".join(str(len(chunk)) for chunk in client.chunks()) == sizes[answer]


@pytest.mark.parametrize("name, answer", [
    ("211-stream-fallback", "protobuf-or-json"), ("212-list-fallback", "protobuf-or-json"),
    ("212-list-fallback", "json-or-protobuf"), ("213-watch-accept-without-stream", "protobuf"),
    ("217-not-found-path", "protobuf"), ("218-not-found-object", "protobuf"), ("222-not-acceptable", "protobuf")])
def test_who_gets_which(server, name, answer):
    with ask(server, name, answer) as client:
        check(client, name, answer)


@pytest.mark.parametrize("name", ["218-not-found-object", "219-forbidden", "220-unauthorized", "221-bad-parameter"])
def test_refusals(server, name):
    """A Status comes in the encoding that was asked for."""
    server.api.tokens["a-token"] = "nobody"
    server.api.denied = {"services"} if name == "219-forbidden" else set()
    if name == "220-unauthorized":
        server.api.tokens.clear()
    with ask(server, name, "protobuf") as client:
        check(client, name, "protobuf")
        assert client.body() == recorded_protobuf(name)


def test_an_error_event(server):
    server.error_next(1, 410)
    with Http1(server) as client:
        client.get(f"{SERVICES}?watch=true&resourceVersion=1", accept=PROTOBUF)
        [frame] = frames(client.body())
    assert b"\x05ERROR" in frame and b"k8s\0\n\x0c\n\x02v1\x12\x06Status" in frame and b"too old" in frame


def test_changes_and_bookmarks(server):
    """Each change is a frame, and half of one is half of one."""
    server.put({"kind": "Service", "metadata": {"name": "a", "namespace": "shop"}})
    with Http1(server) as client:
        client.get(f"{SERVICES}?watch=true&resourceVersion={server.store.version}&allowWatchBookmarks=true",
                   accept=PROTOBUF)
        server.wait(server.open_watches)
        changed = server.put({"kind": "Service", "metadata": {"name": "a", "namespace": "shop", "labels": {"a": "b"}}})
        assert client.chunk() == protobuf.event("MODIFIED", changed)
        server.advance()
        server.bookmark()
        assert b"\x08BOOKMARK" in client.chunk()
        server.close_watches("mid-event")
        whole = protobuf.event("MODIFIED", server.put({"kind": "Service", "metadata": {
            "name": "a", "namespace": "shop", "labels": {"a": "c"}}}))
        assert client.chunk() == whole[:len(whole) // 2]


@pytest.mark.parametrize("accept, kind", [
    (f"{PROTOBUF},{JSON}", JSON), (f"{PROTOBUF};stream=watch,{PROTOBUF},{JSON}", JSON), (PROTOBUF, None)])
def test_a_server_that_knows_json_alone(server, accept, kind):
    server.api.encodings = (encoding.Json,)
    with Http1(server) as client:
        client.get(SERVICES, accept=accept)
        assert (client.status, client.header("Content-Type")) == (200 if kind else 406, JSON)


def test_compressed(server):
    for number in range(300):
        server.put({"kind": "Service", "metadata": {"name": f"s{number}", "namespace": "shop"},
                    "spec": {"externalName": "x" * 500}})
    with Http1(server) as client:
        client.get(SERVICES, accept=PROTOBUF, Accept_Encoding="gzip")
        assert client.header("Content-Encoding") == "gzip" and client.header("Content-Type") == PROTOBUF
