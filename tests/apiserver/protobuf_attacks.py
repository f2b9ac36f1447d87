# SPDX-License-Identifier: GPL-2.0-or-later
"""What a broken or hostile API server may send in protobuf, as attacks.py has it in JSON."""

import functools
import struct

import attacks
from encoding import Protobuf
from protobuf import MAGIC, delimited, envelope, event, message, varint

MIB = attacks.MIB


def body(make):
    """A script that sends what @make(what) yields as chunks of a 200 answer in protobuf, and ends it cleanly."""
    @functools.wraps(make)
    def script(exchange):
        exchange.content_type = Protobuf.name if exchange.what == "list" else Protobuf.of_watches
        exchange.begin()
        for data in make(exchange.what):
            exchange.chunk(data)
        exchange.end()
    return script


def contents(make):
    """The same for lists and streams; a watch ends so that they are asked for."""
    return body(functools.wraps(make)(lambda what: [b"\0\0\0\1x"] if what == "watch" else make(what)))


def frame(data):
    return struct.pack(">I", len(data)) + data


def unknown(kind, raw, *, version="v1", encoding=b""):
    """An envelope around any bytes."""
    return (MAGIC + delimited(1, message("TypeMeta", {"kind": kind, "apiVersion": version})) + delimited(2, raw) +
            delimited(3, encoding) + delimited(4, b""))


def of_event(kind, data):
    """An event with an envelope of any bytes."""
    return frame(delimited(1, kind.encode()) + delimited(2, delimited(1, data)))


def listing(*items, kind="Service", version="50", **options):
    """A list of items that are bytes."""
    metadata = message("ListMeta", {"resourceVersion": version})
    return unknown(kind + "List", delimited(1, metadata) + b"".join(delimited(2, item) for item in items), **options)


def service_with(spec):
    """A Service whose spec is these bytes."""
    metadata = message("ObjectMeta", {"name": "odd", "namespace": "shop", "resourceVersion": "9"})
    return delimited(1, metadata) + delimited(2, spec)


def objects(*items):
    """A list or events of them, with what the stand-in holds."""
    good = [message("Service", obj) for obj in attacks.everything()]

    def make(what):
        if what == "list":
            yield listing(*good, *items)
            return
        yield from (of_event("ADDED", unknown("Service", item)) for item in (*good, *items))
        if what == "stream":
            yield end_mark()
    return make


def end_mark(kind="Service", version="50"):
    metadata = {"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}}
    return of_event("BOOKMARK", unknown(kind, delimited(1, message("ObjectMeta", metadata))))


# No protobuf

@body
def garbage(_):
    yield attacks.GARBAGE


@body
def json_in_place_of_it(what):
    obj = attacks.service(resourceVersion="9")
    yield attacks.listing(obj) if what == "list" else attacks.event("ADDED", obj)


def it_in_place_of_json(exchange):
    obj = attacks.service(resourceVersion="9")
    exchange.whole(envelope(obj) if exchange.what == "list" else event("ADDED", obj))


@body
def half_an_answer(what):
    whole = listing(message("Service", attacks.service())) if what == "list" else event("ADDED", attacks.service())
    yield whole[:len(whole) // 2]


@body
def endless_length(what):
    """4 GiB are announced, and begin to come."""
    if what == "list":
        kind = delimited(1, message("TypeMeta", {"kind": "ServiceList", "apiVersion": "v1"}))
        yield MAGIC + kind + varint(2 << 3 | 2) + varint((1 << 32) - 1) + varint(2 << 3 | 2) + varint((1 << 32) - 20)
    else:
        yield b"\xff\xff\xff\xff" + varint(2 << 3 | 2) + varint((1 << 32) - 10)
    for _ in range(attacks.ENDLESS):
        yield b"a" * MIB


@body
def contents_that_are_encoded(what):
    data = unknown("ServiceList" if what == "list" else "Service", b"\x1f\x8b" * 20, encoding=b"gzip")
    yield data if what == "list" else of_event("ADDED", data)


@body
def envelope_in_an_envelope(what):
    inner = listing() if what == "list" else unknown("Service", b"")
    outer = unknown("ServiceList" if what == "list" else "Service", inner)
    yield outer if what == "list" else of_event("ADDED", outer)


@contents
def two_lists(what):
    yield listing() + listing() if what == "list" else b"\0\0\0\1x"


@contents
def no_list_version(what):
    yield listing(version="") if what == "list" else b"\0\0\0\1x"


# Objects that are none

overlong_number = body(objects(service_with(varint(12 << 3) + b"\xff" * 11 + b"\1")))
group = body(objects(service_with(varint(3 << 3 | 3) + b"\x0a\x01x" + varint(3 << 3 | 4))))
length_beyond_its_end = body(objects(service_with(varint(1 << 3 | 2) + varint(1000) + b"x")))
number_for_a_message = body(objects(service_with(varint(1 << 3) + b"\7")))
no_utf_8 = body(objects(service_with(delimited(3, b"10.96.0.\xff"))))
nul_in_a_string = body(objects(service_with(delimited(3, b"10.96.0.9\0"))))


# Wrong contents

@contents
def pods(what):
    metadata = delimited(1, message("ObjectMeta", attacks.pod()["metadata"]))
    if what == "list":
        yield listing(metadata, kind="Pod")
    else:
        yield of_event("ADDED", unknown("Pod", metadata)) + end_mark("Pod")


@contents
def services_for_slices(what):
    one = attacks.service(resourceVersion="900")
    yield listing(message("Service", one)) if what == "list" else event("ADDED", one) + end_mark()


@body
def error_without_code(what):
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no code"}
    yield event("ERROR", status) if what != "list" else envelope(status)
