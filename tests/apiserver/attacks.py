# SPDX-License-Identifier: GPL-2.0-or-later
"""What a broken or hostile API server may send, each a script for hostile.HostileServer."""

import functools
import gzip
import json
import random
import time

MIB = 1 << 20
GARBAGE = random.Random(9).randbytes(200_000)
ENDLESS = 1024  # times 1 MiB


# Versions that are taken are old ones for the server that comes afterwards, so that it refuses them. Those of
# wrong kinds (900) are none of ours: whoever took them would be deaf, as the server has not come so far.


def event(kind, obj):
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


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
    return event("BOOKMARK", {"kind": kind, "apiVersion": "v1",
                              "metadata": {"resourceVersion": version, "annotations": {
                                  "k8s.io/initial-events-end": "true"}}})


def listing(*items, kind="ServiceList", **metadata):
    return json.dumps({"kind": kind, "apiVersion": "v1",
                       "metadata": {"resourceVersion": "50", **metadata},
                       "items": items}).encode() + b"\n"


def body(make):
    """A script that sends what @make(what) yields as chunks of a 200 answer, and ends it cleanly."""
    @functools.wraps(make)
    def script(exchange):
        exchange.begin()
        for data in make(exchange.what):
            exchange.chunk(data)
        exchange.end()
    return script


def contents(make):
    """The same for lists and streams; a watch ends so that they are asked for."""
    return body(functools.wraps(make)(
        lambda what: [garbage_line()] if what == "watch" else make(what)))


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
def not_an_event(what):
    yield b"[]\n" if what == "list" else b'{"type":"SOMETHING","object":{}}\n'


@body
def html(_):
    yield b"<html><body>Welcome to the portal</body></html>"


@body
def nothing(_):
    yield from ()


@body
def nul_bytes(what):
    yield value_begins(what) + b"\0" * 100


@body
def half_an_answer(what):
    yield value_begins(what) + b'{"a":'


# Too much of it

@body
def endless_string(what):
    yield value_begins(what) + b'"'
    for _ in range(ENDLESS):
        yield b"a" * MIB


@body
def endless_number(what):
    yield value_begins(what)
    for _ in range(ENDLESS):
        yield b"1" * MIB


@body
def endless_key(_):
    yield b'{"'
    for _ in range(ENDLESS):
        yield b"a" * MIB


@body
def endless_escapes(what):
    yield value_begins(what) + b'"'
    for _ in range(ENDLESS):
        yield b"\\u00e9\\n" * (MIB // 8)


@body
def deep_arrays(what):
    yield value_begins(what)
    for _ in range(ENDLESS):
        yield b"[" * MIB


@body
def deep_objects(what):
    yield value_begins(what)
    for _ in range(ENDLESS):
        yield b'{"":' * (MIB // 4)


@body
def wide_array(what):
    """Below the limit of bytes, but a tree of many millions of values."""
    yield value_begins(what) + b"[0"
    for _ in range(14):
        yield b",0" * (MIB // 2)
    yield b"]}" + (b"]}\n" if what == "list" else b"}\n")


@body
def wide_object(what):
    yield value_begins(what) + b'{"":0'
    for _ in range(14):
        yield b',"":0' * (MIB // 5)
    yield b"}}" + (b"]}\n" if what == "list" else b"}\n")


@body
def many_trees(what):
    """Wide ones one after the other, each below every limit."""
    wide = b"[0" + b",0" * 400_000 + b"]}"
    if what == "list":
        yield b'{"kind":"ServiceList","metadata":{"resourceVersion":"50"},"items":[{}'
    for _ in range(50):
        yield b',{"x":' + wide if what == "list" else b'{"type":"ADDED","object":{"x":' + wide + b"}\n"


@contents
def endless_items(what):
    """As many objects as the client will take."""
    item = json.dumps(service("s")).encode()
    if what != "list":
        item = b'{"type":"ADDED","object":' + item + b"}\n"
    else:
        yield b'{"kind":"ServiceList","metadata":{"resourceVersion":"50"},"items":[' + item
        item = b"," + item
    for _ in range(10_000):
        yield item * 1000


@contents
def endless_pods(what):
    """The same of a wrong kind."""
    item = json.dumps(pod()).encode()
    if what != "list":
        item = b'{"type":"ADDED","object":' + item + b"}\n"
    else:
        yield b'{"kind":"PodList","metadata":{"resourceVersion":"50"},"items":[' + item
        item = b"," + item
    for _ in range(10_000):
        yield item * 1000


def endless_pages(exchange):
    """Empty pages, always with another one to come."""
    if exchange.what == "list":
        exchange.whole(listing(**{"continue": "more"}))
    elif exchange.what == "stream":
        exchange.whole(b"", "422 Unprocessable Entity")
    else:
        exchange.whole(garbage_line())


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
def pods(what):
    """A Pod list, and Pods as initial events with their end mark."""
    if what == "list":
        yield listing(pod(), pod("b-pod"), kind="PodList")
    else:
        yield event("ADDED", pod()) + event("ADDED", pod("b-pod")) + end_mark("Pod")


@body
def pods_in_a_watch(_):
    yield event("ADDED", pod()) + event("MODIFIED", pod())


@contents
def services_for_slices(what):
    """Where EndpointSlices were asked for."""
    one = service(resourceVersion="900")
    yield listing(one) if what == "list" else event("ADDED", one) + end_mark()


@body
def service_in_a_watch_of_slices(_):
    yield event("MODIFIED", service(resourceVersion="900"))


@contents
def end_mark_of_pods(what):
    """No object, and an end mark that says that Pods were streamed."""
    yield listing(kind="PodList") if what == "list" else end_mark("Pod")


@contents
def no_list_version(what):
    yield b'{"kind":"ServiceList","metadata":{},"items":[]}\n' if what == "list" else garbage_line()


@contents
def two_lists(what):
    yield listing() + listing() if what == "list" else garbage_line()


def garbage_line():
    return b'{"type":"ADDED"}\n'


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
    exchange.raw(listing()[:40])
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
    exchange.begin()
    exchange.chunk({"list": listing(), "stream": event("ADDED", service(resourceVersion="7")),
                    "watch": garbage_line()}[exchange.what])
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
    if exchange.what == "watch":
        exchange.whole(event("BOOKMARK", {"kind": "Service", "apiVersion": "v1",
                                          "metadata": {"resourceVersion": "50"}}))
    else:
        exchange.whole(garbage_line())


def expired_for_ever(exchange, then=b""):
    """Whatever was listed is too old a moment later."""
    gone = event("ERROR", {"kind": "Status", "apiVersion": "v1", "status": "Failure",
                           "message": "too old resource version", "reason": "Expired", "code": 410})
    if exchange.what == "watch":
        exchange.whole(gone)
    elif exchange.what == "stream":
        added = b"".join(event("ADDED", obj) for obj in everything())
        exchange.whole(added + end_mark() + then + gone)
    else:
        exchange.whole(listing(*everything()))


def expired_after_an_event(exchange):
    """The same, with a change before each end."""
    expired_for_ever(exchange, event("MODIFIED", service(resourceVersion="51")))


def too_large_for_ever(exchange):
    refused = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 504,
               "message": "Timeout: Too large resource version: 9, current: 8", "reason": "Timeout",
               "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large"}]}}
    if exchange.what == "list":
        exchange.whole(json.dumps(refused).encode(), "504 Gateway Timeout")
    else:
        exchange.whole(event("ERROR", refused))


def error_without_code(exchange):
    if exchange.what == "list":
        exchange.whole(b"{}", "500 Internal Server Error")
    else:
        exchange.whole(event("ERROR", {}))
