#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Serves a big cluster as fast as it can: first_sync_server.py SERVICES ENDPOINTS CERTIFICATES

Prints its port when everything is prepared and serves on 127.0.0.1 until it is killed. It answers
streamed lists, whole lists and pages as kube-apiserver does, over HTTP/2 and HTTP/1.1, but looks at
nothing more than it must: not at tokens, selectors or versions. It is no stand-in for tests of
behaviour (that is tests/apiserver); bodies are made before the first request, and HTTP/2 frames by
hand, so that it takes little time beside whoever reads them.

For those who measure: below URL/stream only streamed lists are answered, below URL/pages only
others, so that nobody measures the one for the other. finish=1 ends a stream behind its initial
events.
"""

import collections
import functools
import gzip
import http
import pathlib
import select
import socket
import ssl
import struct
import sys
import threading
import urllib.parse

import first_sync_objects
import hpack

SERVICES, ENDPOINTS = int(sys.argv[1]), int(sys.argv[2])
CERTS = pathlib.Path(sys.argv[3])
GZIP_FROM = 128 * 1024  # smaller answers are never compressed
GZIP_LEVEL = 1
AT_ONCE = 512 * 1024  # bytes that are ready for the socket
JSON = "application/json"


class Collection:
    """All objects of one kind, as texts. What is served is joined once."""

    def __init__(self, kind, version, objects):
        self.kind, self.version = kind, version
        self.items = [first_sync_objects.to_json(item) for item in objects]

    @functools.cache
    def page(self, start, limit):
        end = start + limit if limit else len(self.items)
        metadata = {"resourceVersion": "900000"}
        if end < len(self.items):
            metadata["continue"] = str(end)
            metadata["remainingItemCount"] = len(self.items) - end
        head = first_sync_objects.to_json({"kind": f"{self.kind}List", "apiVersion": self.version,
                                           "metadata": metadata})
        return head[:-1] + b',"items":[' + b",".join(self.items[start:end]) + b"]}\n"

    @functools.cache
    def compressed_page(self, start, limit):
        return gzip.compress(self.page(start, limit), GZIP_LEVEL)

    @functools.cached_property
    def stream(self):
        head = first_sync_objects.to_json({"kind": self.kind, "apiVersion": self.version})[:-1]
        events = [b'{"type":"ADDED","object":' + head + b"," + item[1:] + b"}\n"
                  for item in self.items]
        end = {"resourceVersion": "900000", "annotations": {"k8s.io/initial-events-end": "true"}}
        bookmark = first_sync_objects.to_json({"metadata": end})
        events.append(b'{"type":"BOOKMARK","object":' + head + b"," + bookmark[1:] + b"}\n")
        return b"".join(events)


COLLECTIONS = {
    "/api/v1/services": Collection("Service", "v1",
                                   map(first_sync_objects.service, range(SERVICES))),
    "/apis/discovery.k8s.io/v1/endpointslices":
        Collection("EndpointSlice", "discovery.k8s.io/v1",
                   (first_sync_objects.endpoint_slice(i, ENDPOINTS) for i in range(SERVICES))),
    "/apis/networking.k8s.io/v1/servicecidrs":
        Collection("ServiceCIDR", "networking.k8s.io/v1", [first_sync_objects.service_cidr()]),
    "/api/v1/nodes": Collection("Node", "v1", [first_sync_objects.node()]),
}


class Answer:
    """A status, headers and a body, which may have no end."""

    def __init__(self, status, body=b"", ends=True, encoding=None):
        self.status, self.body, self.ends = status, memoryview(body), ends
        self.headers = [("content-type", JSON), ("cache-control", "no-cache, private")]
        if encoding:
            self.headers.append(("content-encoding", encoding))


def refusal(status, message):
    return Answer(status, first_sync_objects.to_json(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
         "message": message, "code": status}))


def answer(target, accept_encoding):
    path, _, query = target.partition("?")
    query = dict(urllib.parse.parse_qsl(query))
    mode, _, path = path.removeprefix("/").partition("/")
    collection = COLLECTIONS.get(f"/{path}")
    if not collection or mode not in ("stream", "pages"):
        return refusal(404, "there is no such resource")
    if query.get("watch") == "true":
        if "sendInitialEvents" not in query:
            return Answer(200, ends=False)
        if mode == "pages":
            return refusal(422, "sendInitialEvents is forbidden")
        return Answer(200, collection.stream, ends="finish" in query)
    if mode == "stream":
        return refusal(403, "lists are not answered here")
    where = int(query.get("continue", 0)), int(query.get("limit", 0))
    body = collection.page(*where)
    if "gzip" in accept_encoding and len(body) >= GZIP_FROM:
        return Answer(200, collection.compressed_page(*where), encoding="gzip")
    return Answer(200, body)


class Http1:
    """One connection; requests come one after the other."""

    def __init__(self, sock):
        self.sock = sock
        self.reader = sock.makefile("rb")

    def run(self):
        while line := self.reader.readline():
            target = line.decode().split(" ")[1]
            headers = {}
            while line := self.reader.readline().decode().strip():
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            self.send(answer(target, headers.get("accept-encoding", "")))

    def send(self, reply):
        lines = [f"HTTP/1.1 {reply.status} {http.HTTPStatus(reply.status).phrase}",
                 *(f"{name}: {value}" for name, value in reply.headers),
                 "transfer-encoding: chunked"]
        self.sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        for start in range(0, len(reply.body), AT_ONCE):
            piece = reply.body[start:start + AT_ONCE]
            self.sock.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        if reply.ends:
            self.sock.sendall(b"0\r\n\r\n")


class Stream:
    def __init__(self, number, window, reply):
        self.number, self.window, self.reply = number, window, reply
        self.at = 0

    @property
    def left(self):
        return len(self.reply.body) - self.at


class Http2:
    """One connection, RFC 9113 as far as a GET needs it."""

    PREFACE = 24  # bytes before the first frame
    DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
    END_STREAM, END_HEADERS, ACK = 1, 4, 1
    HEADER_TABLE_SIZE, INITIAL_WINDOW, FRAME_SIZE = 1, 4, 5

    def __init__(self, sock):
        self.sock = sock
        self.decoder, self.encoder = hpack.Decoder(), hpack.Encoder()
        self.encoder.header_table_size = 0  # each head stands for itself
        self.input = bytearray()
        self.output = bytearray(self.frame(self.SETTINGS, 0, 0))
        self.streams = {}
        self.turn = collections.deque()  # streams with something to send
        self.window, self.initial_window, self.frame_size = 65535, 65535, 16384
        self.begun = False

    @staticmethod
    def frame(kind, flags, stream, payload=b""):
        return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload

    def run(self):
        self.sock.setblocking(False)
        while True:
            self.fill()
            writing = [self.sock] if self.output else []
            if not self.sock.pending():
                select.select([self.sock], writing, [])
            if not self.receive():
                return
            self.flush()

    def receive(self):
        """Takes what is there. False at the end."""
        try:
            while data := self.sock.recv(65536):
                self.input += data
                self.take_frames()
            return False
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True

    def flush(self):
        sent, view = 0, memoryview(self.output)
        try:
            while sent < len(view):
                sent += self.sock.send(view[sent:])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        view.release()
        del self.output[:sent]

    def fill(self):
        """Puts frames of the streams behind one another, in turn, as far as the windows allow."""
        blocked = 0
        while len(self.output) < AT_ONCE and blocked < len(self.turn):
            stream = self.turn[0]
            room = min(self.window, stream.window, self.frame_size, stream.left)
            if room > 0 or stream.left == 0:
                self.put_data(stream, room)
                blocked = 0
            else:
                blocked += 1
            self.turn.rotate(-1)
            if stream.left == 0:
                self.turn.remove(stream)

    def put_data(self, stream, room):
        last = room == stream.left and stream.reply.ends
        self.output += self.frame(self.DATA, self.END_STREAM if last else 0, stream.number)[:9]
        self.output[-9:-6] = struct.pack(">I", room)[1:]
        self.output += stream.reply.body[stream.at:stream.at + room]
        stream.at += room
        stream.window -= room
        self.window -= room

    def take_frames(self):
        if not self.begun:
            if len(self.input) < self.PREFACE:
                return
            del self.input[:self.PREFACE]
            self.begun = True
        while len(self.input) >= 9:
            size = int.from_bytes(self.input[:3], "big")
            if len(self.input) < 9 + size:
                return
            kind, flags, stream = struct.unpack(">BBI", self.input[3:9])
            payload = bytes(self.input[9:9 + size])
            del self.input[:9 + size]
            self.take(kind, flags, stream, payload)

    def take(self, kind, flags, number, payload):
        if kind == self.HEADERS:
            self.request(number, flags, payload)
        elif kind == self.SETTINGS and not flags & self.ACK:
            self.settings(payload)
        elif kind == self.PING and not flags & self.ACK:
            self.output += self.frame(self.PING, self.ACK, 0, payload)
        elif kind == self.WINDOW:
            more = int.from_bytes(payload, "big")
            if number == 0:
                self.window += more
            elif number in self.streams:
                self.streams[number].window += more
        elif kind == self.RESET and number in self.streams:
            stream = self.streams.pop(number)
            if stream in self.turn:
                self.turn.remove(stream)

    def settings(self, payload):
        for name, value in struct.iter_unpack(">HI", payload):
            if name == self.INITIAL_WINDOW:
                for stream in self.streams.values():
                    stream.window += value - self.initial_window
                self.initial_window = value
            elif name == self.FRAME_SIZE:
                self.frame_size = value
        self.output += self.frame(self.SETTINGS, self.ACK, 0)

    def request(self, number, flags, payload):
        padded, priority = flags & 0x8, flags & 0x20
        end = len(payload) - (payload[0] if padded else 0)
        payload = payload[(1 if padded else 0) + (5 if priority else 0):end]
        assert flags & self.END_HEADERS
        headers = dict(self.decoder.decode(payload))
        reply = answer(headers[":path"], headers.get("accept-encoding", ""))
        head = self.encoder.encode([(":status", str(reply.status)), *reply.headers])
        self.output += self.frame(self.HEADERS, self.END_HEADERS, number, head)
        self.streams[number] = Stream(number, self.initial_window, reply)
        if reply.ends or len(reply.body) > 0:
            self.turn.append(self.streams[number])


def serve(plain, context):
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with context.wrap_socket(plain, server_side=True) as sock:
            protocol = Http2 if sock.selected_alpn_protocol() == "h2" else Http1
            protocol(sock).run()
    except OSError:  # the client went
        pass


def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "server.crt", CERTS / "server.key")
    context.set_alpn_protocols(["h2", "http/1.1"])
    for collection in COLLECTIONS.values():
        len(collection.stream)
        for limit in (0, first_sync_objects.PAGE):
            for start in range(0, len(collection.items), limit or len(collection.items)):
                if len(collection.page(start, limit)) >= GZIP_FROM:
                    collection.compressed_page(start, limit)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        plain, _ = listener.accept()
        threading.Thread(target=serve, args=(plain, context), daemon=True).start()


main()
