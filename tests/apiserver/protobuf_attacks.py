# SPDX-License-Identifier: GPL-2.0-or-later
"""What a broken or hostile API server may send in protobuf alone, beside attacks.py."""

import struct

import attacks
from attacks import body, contents
from encoding import Protobuf
from protobuf import MAGIC, delimited, message, varint


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

    def make(exchange):
        if exchange.what == "list":
            yield listing(*good, *items)
            return
        yield from (of_event("ADDED", unknown("Service", item)) for item in (*good, *items))
        if exchange.what == "stream":
            yield Protobuf.event(*attacks.end_mark())
    return make


# Envelopes

@body
def endless_length(exchange):
    """4 GiB are announced, and begin to come."""
    if exchange.what == "list":
        kind = delimited(1, message("TypeMeta", {"kind": "ServiceList", "apiVersion": "v1"}))
        yield MAGIC + kind + varint(2 << 3 | 2) + varint((1 << 32) - 1) + varint(2 << 3 | 2) + varint((1 << 32) - 20)
    else:
        yield b"\xff\xff\xff\xff" + varint(2 << 3 | 2) + varint((1 << 32) - 10)
    for _ in range(attacks.ENDLESS):
        yield b"a" * attacks.MIB


@body
def contents_that_are_encoded(exchange):
    data = unknown("ServiceList" if exchange.what == "list" else "Service", b"\x1f\x8b" * 20, encoding=b"gzip")
    yield data if exchange.what == "list" else of_event("ADDED", data)


@body
def envelope_in_an_envelope(exchange):
    inner = listing() if exchange.what == "list" else unknown("Service", b"")
    outer = unknown("ServiceList" if exchange.what == "list" else "Service", inner)
    yield outer if exchange.what == "list" else of_event("ADDED", outer)


@contents
def kind_behind_contents(exchange):
    kind = "ServiceList" if exchange.what == "list" else "Service"
    behind = MAGIC + delimited(2, b"") + delimited(1, message("TypeMeta", {"kind": kind, "apiVersion": "v1"}))
    yield behind if exchange.what == "list" else of_event("ADDED", behind)


# Objects that are none

overlong_number = body(objects(service_with(varint(12 << 3) + b"\xff" * 11 + b"\1")))
group = body(objects(service_with(varint(3 << 3 | 3) + b"\x0a\x01x" + varint(3 << 3 | 4))))
length_beyond_its_end = body(objects(service_with(varint(1 << 3 | 2) + varint(1000) + b"x")))
number_for_a_message = body(objects(service_with(varint(1 << 3) + b"\7")))
no_utf_8 = body(objects(service_with(delimited(3, b"10.96.0.\xff"))))
nul_in_a_string = body(objects(service_with(delimited(3, b"10.96.0.9\0"))))
