# SPDX-License-Identifier: GPL-2.0-or-later
"""What a broken or hostile API server may send, each a script for hostile.HostileServer.

Scripts that take what they send from exchange.encoding are for JSON and protobuf alike, others for JSON;
those for protobuf are in protobuf_attacks.py.
"""

import functools
import gzip
import json
import random
import time

from encoding import Json, Protobuf

MIB = 1 << 20
GARBAGE = random.Random(9).randbytes(200_000)
ENDLESS = 1024  # times 1 MiB


# Versions that are taken are old ones for the server that comes afterwards, so that it refuses them. Those of
# wrong kinds (900) are none of ours: whoever took them would be deaf, as the server has not come so far.


def service(name="web", address="10.96.0.10", port=80, **metadata):
    return {"kind": "Service", "apiVersion": "v1",
            "metadata": {"name": name, "namespace": "shop", **metadata},
            "spec": {"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address],
                     "ports": [{"name": "http", "protocol": "TCP", "port": port}]}}


def pod(name="a-pod", **metadata):
    return {"kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": name, "namespace": "shop", "resourceVersion": "900", **metadata},
            "spec": {}}


def end_mark(kind="Service", version="50"):
    """Type and object of the event behind the last initial one."""
    return "BOOKMARK", {"kind": kind, "apiVersion": "v1", "metadata": {
        "resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}}}


def listing(*items, kind="ServiceList", version="50", **metadata):
    return {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": version, **metadata},
            "items": list(items)}


# An event without an object.
NO_EVENT = {Json: b'{"type":"ADDED"}\n', Protobuf: b"\0\0\0\7\n\5ADDED"}


def body(make):
    """A script that sends what @make(exchange) yields as chunks of a 200 answer, and ends it cleanly."""
    @functools.wraps(make)
    def script(exchange):
        exchange.begin()
        for data in make(exchange):
            exchange.chunk(data)
        exchange.end()
    return script


def contents(make):
    """The same for lists and streams; a watch ends so that they are asked for."""
    return body(functools.wraps(make)(
        lambda exchange: [NO_EVENT[exchange.encoding]] if exchange.what == "watch" else make(exchange)))


def objects_of(exchange, *objects):
    """A list of them, or that they are added."""
    if exchange.what == "list":
        return exchange.encoding.body(listing(*objects, kind=f"{objects[0]['kind']}List"))
    return b"".join(exchange.encoding.event("ADDED", obj) for obj in objects)


def everything():
    """What the stand-in holds: nothing is taken away by it."""
    return service(), service("echo", "10.96.0.100")


def value_begins(what):
    """The beginning of a list or an event, as far as the place of a Service's unknown field."""
    begin = b'{"kind":"Service","metadata":{"name":"x","namespace":"y"},"x":'
    return (b'{"kind":"ServiceList","metadata":{"resourceVersion":"50"},"items":[' + begin
            if what == "list" else b'{"type":"ADDED","object":' + begin)


# No JSON

@body
def garbage(_):
    yield GARBAGE


@body
def not_an_event(exchange):
    yield b"[]\n" if exchange.what == "list" else b'{"type":"SOMETHING","object":{}}\n'


@body
def the_other_encoding(exchange):
    """Another one than Content-Type says."""
    exchange.encoding = Protobuf if exchange.encoding is Json else Json
    yield objects_of(exchange, service(resourceVersion="9"))


@body
def html(_):
    yield b"<html><body>Welcome to the portal</body></html>"


@body
def nothing(_):
    yield from ()


@body
def nul_bytes(exchange):
    yield value_begins(exchange.what) + b"\0" * 100


@body
def half_an_answer(exchange):
    whole = objects_of(exchange, service())
    yield whole[:len(whole) // 2]


# Too much of it

@body
def endless_string(exchange):
    yield value_begins(exchange.what) + b'"'
    for _ in range(ENDLESS):
        yield b"a" * MIB


@body
def endless_number(exchange):
    yield value_begins(exchange.what)
    for _ in range(ENDLESS):
        yield b"1" * MIB


@body
def endless_key(_):
    yield b'{"'
    for _ in range(ENDLESS):
        yield b"a" * MIB


@body
def endless_escapes(exchange):
    yield value_begins(exchange.what) + b'"'
    for _ in range(ENDLESS):
        yield b"\\u00e9\\n" * (MIB // 8)


@body
def deep_arrays(exchange):
    yield value_begins(exchange.what)
    for _ in range(ENDLESS):
        yield b"[" * MIB


@body
def deep_objects(exchange):
    yield value_begins(exchange.what)
    for _ in range(ENDLESS):
        yield b'{"":' * (MIB // 4)


@body
def wide_array(exchange):
    """Below the limit of bytes, but a tree of many millions of values."""
    yield value_begins(exchange.what) + b"[0"
    for _ in range(14):
        yield b",0" * (MIB // 2)
    yield b"]}" + (b"]}\n" if exchange.what == "list" else b"}\n")


@body
def wide_object(exchange):
    yield value_begins(exchange.what) + b'{"":0'
    for _ in range(14):
        yield b',"":0' * (MIB // 5)
    yield b"}}" + (b"]}\n" if exchange.what == "list" else b"}\n")


@body
def many_trees(exchange):
    """Wide ones one after the other, each below every limit."""
    wide = b"[0" + b",0" * 400_000 + b"]}"
    if exchange.what == "list":
        yield b'{"kind":"ServiceList","metadata":{"resourceVersion":"50"},"items":[{}'
    for _ in range(50):
        yield b',{"x":' + wide if exchange.what == "list" else b'{"type":"ADDED","object":{"x":' + wide + b"}\n"


@contents
def endless_items(exchange):
    """As many objects as the client will take."""
    item = json.dumps(service("s")).encode()
    if exchange.what != "list":
        item = b'{"type":"ADDED","object":' + item + b"}\n"
    else:
        yield b'{"kind":"ServiceList","metadata":{"resourceVersion":"50"},"items":[' + item
        item = b"," + item
    for _ in range(10_000):
        yield item * 1000


@contents
def endless_pods(exchange):
    """The same of a wrong kind."""
    item = json.dumps(pod()).encode()
    if exchange.what != "list":
        item = b'{"type":"ADDED","object":' + item + b"}\n"
    else:
        yield b'{"kind":"PodList","metadata":{"resourceVersion":"50"},"items":[' + item
        item = b"," + item
    for _ in range(10_000):
        yield item * 1000


def endless_pages(exchange):
    """Empty pages, always with another one to come."""
    if exchange.what == "list":
        exchange.whole(exchange.encoding.body(listing(**{"continue": "more"})))
    elif exchange.what == "stream":
        exchange.whole(b"", "422 Unprocessable Entity")
    else:
        exchange.whole(NO_EVENT[exchange.encoding])


def gzip_bomb(exchange):
    """1 GiB of one string in some KiB."""
    packed = gzip.compress(value_begins(exchange.what) + b'"' + b"a" * (64 * MIB), 9)
    exchange.begin("200 OK", "Content-Encoding: gzip")
    exchange.chunk(packed)
    for _ in range(16):
        exchange.chunk(gzip.compress(b"a" * (64 * MIB), 1))
    exchange.end()


def gzip_garbage(exchange):
    exchange.begin("200 OK", "Content-Encoding: gzip")
    exchange.chunk(GARBAGE)
    exchange.end()


# Wrong contents

@contents
def pods(exchange):
    """A Pod list, and Pods as initial events with their end mark."""
    yield objects_of(exchange, pod(), pod("b-pod"))
    if exchange.what != "list":
        yield exchange.encoding.event(*end_mark("Pod"))


@body
def pods_in_a_watch(exchange):
    yield exchange.encoding.event("ADDED", pod()) + exchange.encoding.event("MODIFIED", pod())


@contents
def services_for_slices(exchange):
    """Where EndpointSlices were asked for."""
    yield objects_of(exchange, service(resourceVersion="900"))
    if exchange.what != "list":
        yield exchange.encoding.event(*end_mark())


@body
def service_in_a_watch_of_slices(exchange):
    yield exchange.encoding.event("MODIFIED", service(resourceVersion="900"))


@contents
def end_mark_of_pods(exchange):
    """No object, and an end mark that says that Pods were streamed."""
    encoding = exchange.encoding
    yield encoding.body(listing(kind="PodList")) if exchange.what == "list" else encoding.event(*end_mark("Pod"))


@contents
def no_list_version(exchange):
    encoding = exchange.encoding
    yield encoding.body(listing(version="")) if exchange.what == "list" else NO_EVENT[encoding]


@contents
def two_lists(exchange):
    encoding = exchange.encoding
    yield encoding.body(listing()) * 2 if exchange.what == "list" else NO_EVENT[encoding]


# No HTTP, or odd HTTP

def no_http(exchange):
    exchange.raw(GARBAGE)


def slammed(exchange):
    """The connection ends without an answer."""
    raise ConnectionError


def header_flood(exchange):
    exchange.raw(b"HTTP/1.1 200 OK\r\n")
    for _ in range(ENDLESS):
        exchange.raw(b"X-Flood: " + b"a" * 1000 + b"\r\n")


def endless_header(exchange):
    exchange.raw(b"HTTP/1.1 200 OK\r\nX-Flood: ")
    for _ in range(ENDLESS):
        exchange.raw(b"a" * MIB)


def bad_chunks(exchange):
    exchange.begin()
    exchange.raw(b"zz\r\nnot a size\r\n" * 10)


def cut_body(exchange):
    """Shorter than its length."""
    exchange.head("200 OK", "Content-Length: 1000000")
    exchange.raw(exchange.encoding.body(listing())[:40])
    raise ConnectionError


def status(line, *fields):
    def script(exchange):
        exchange.head(line, *fields)
        exchange.hold()
    return script


def status_with_body(line, *fields):
    def script(exchange):
        exchange.whole(b'{"kind":"Status"}', line, *fields)
    return script


def continue_for_ever(exchange):
    """One interim answer after the other, and none that counts."""
    for _ in range(100_000):
        exchange.raw(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.01)


def redirect(line):
    """To another path here for lists, to another server for watches."""
    def script(exchange):
        place = "" if exchange.what == "list" else f"https://127.0.0.1:{exchange.elsewhere}"
        exchange.whole(b"", line, f"Location: {place}/stolen{exchange.request.target}")
    return script


def endless_error(exchange):
    """500 with a body without end."""
    exchange.begin("500 Internal Server Error")
    for _ in range(ENDLESS):
        exchange.chunk(b"a" * MIB)


def never_ends(exchange):
    """A list that is whole, or a stream's first events, and then nothing more at all."""
    encoding = exchange.encoding
    exchange.begin()
    exchange.chunk({"list": encoding.body(listing()), "stream": encoding.event("ADDED", service(resourceVersion="7")),
                    "watch": NO_EVENT[encoding]}[exchange.what])
    exchange.hold()


def white_space(exchange):
    """Nothing but, without end, and slowly enough for a test."""
    exchange.begin()
    for _ in range(100_000):
        exchange.chunk(b" \n" * 4096)
        time.sleep(0.01)


# Ends that invite to ask at once

def bookmark_and_end(exchange):
    """Each watch brings one bookmark, always the same, and is over."""
    encoding = exchange.encoding
    bookmark = {"kind": "Service", "apiVersion": "v1", "metadata": {"resourceVersion": "50"}}
    exchange.whole(encoding.event("BOOKMARK", bookmark) if exchange.what == "watch" else NO_EVENT[encoding])


def failure(code, reason="", message="", **details):
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
            "message": message, "details": details}


def expired_for_ever(exchange, then=b""):
    """Whatever was listed is too old a moment later."""
    event = exchange.encoding.event
    gone = event("ERROR", failure(410, "Expired", "too old resource version"))
    if exchange.what == "watch":
        exchange.whole(gone)
    elif exchange.what == "stream":
        exchange.whole(objects_of(exchange, *everything()) + event(*end_mark()) + then + gone)
    else:
        exchange.whole(objects_of(exchange, *everything()))


def expired_after_an_event(exchange):
    """The same, with a change before each end."""
    expired_for_ever(exchange, exchange.encoding.event("MODIFIED", service(resourceVersion="51")))


def too_large_for_ever(exchange):
    refused = failure(504, "Timeout", "Timeout: Too large resource version: 9, current: 8",
                      causes=[{"reason": "ResourceVersionTooLarge", "message": "Too large"}])
    if exchange.what == "list":
        exchange.whole(exchange.encoding.body(refused), "504 Gateway Timeout")
    else:
        exchange.whole(exchange.encoding.event("ERROR", refused))


def error_without_code(exchange):
    unknown = {"kind": "Status", "apiVersion": "v1"}
    if exchange.what == "list":
        exchange.whole(exchange.encoding.body(unknown), "500 Internal Server Error")
    else:
        exchange.whole(exchange.encoding.event("ERROR", unknown))
