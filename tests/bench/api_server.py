#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Serves a big cluster as fast as it can: api_server.py SERVICES ENDPOINTS CERTIFICATES [--pace SECONDS]

Prints its port, the number of events of Services and EndpointSlices and their bytes in JSON and
protobuf when everything is prepared and serves on 127.0.0.1 until its standard input ends. It
answers streamed lists, whole lists and pages as kube-apiserver does, over HTTP/2 and HTTP/1.1, but looks
at nothing more than it must: not at tokens, selectors or versions. It is no stand-in for tests of
behaviour (that is tests/apiserver); bodies are made before the first request, and HTTP/2 frames by
hand, so that it takes little time beside whoever reads them.

For those who measure: below URL/ENCODING/stream, .../events and .../unfinished only streamed lists are answered,
below URL/ENCODING/pages only others, so that nobody measures the one for the other. ENCODING is json, or protobuf for
whoever accepts that. finish=1 ends a stream behind its initial events. In a stream the bytes are packed as
tightly as they go; of events each is flushed by itself, in an HTTP/2 frame and a TLS record of its own, as
kube-apiserver does it. With --pace the next one is sent so much later. What is unfinished has no end mark.

A line on its standard input makes events for the watches of EndpointSlices that are open (HTTP/2 only):

    steady RATE COUNT [N] one each 1/RATE seconds, of the services in turn: another first endpoint, the
                          N+1st, N+2nd ... that there ever was
    roll AT_A_TIME        the endpoints of service 0 are replaced, so many in each event, all at once

When the last byte has been sent, it prints a JSON array on one line: when each event was, as time.monotonic()
(of "roll": when all were).
"""

import argparse
import collections
import functools
import gzip
import http
import itertools
import json
import os
import pathlib
import select
import socket
import ssl
import struct
import sys
import threading
import time
import urllib.parse

import cluster
import hpack

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "apiserver"))
from encoding import Protobuf  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("services", type=int)
    parser.add_argument("endpoints", type=int)
    parser.add_argument("certificates", type=pathlib.Path)
    parser.add_argument("--pace", type=float, default=0.0)
    return parser.parse_args()


ARGUMENTS = arguments()
SIZE = cluster.Size(ARGUMENTS.services, ARGUMENTS.endpoints)
CERTS = ARGUMENTS.certificates
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
GZIP_FROM = 128 * 1024  # smaller answers are never compressed
GZIP_LEVEL = 1
AT_ONCE = 512 * 1024  # bytes that are ready for the socket
JSON = "application/json"


class Collection:
    """All objects of one kind, as texts. What is served is joined once."""

    of_lists = of_watches = JSON

    def __init__(self, kind, version, objects):
        self.kind, self.version = kind, version
        self.items = [item.encode() for item in objects]

    @functools.cache
    def page(self, start, limit):
        end = start + limit if limit else len(self.items)
        metadata = {"resourceVersion": str(cluster.LIST_VERSION)}
        if end < len(self.items):
            metadata["continue"] = str(end)
            metadata["remainingItemCount"] = len(self.items) - end
        return self.make_page({"kind": f"{self.kind}List", "apiVersion": self.version, "metadata": metadata},
                              self.items[start:end])

    @staticmethod
    def make_page(head, items):
        return cluster.to_json(head).encode()[:-1] + b',"items":[' + b",".join(items) + b"]}\n"

    @functools.cache
    def compressed_page(self, start, limit):
        return gzip.compress(self.page(start, limit), GZIP_LEVEL)

    def added(self):
        begin, end = cluster.event("ADDED", "{?", self.kind, self.version).encode().split(b"?")
        return [begin + item[1:] + end for item in self.items]

    @staticmethod
    def translate(event):
        """An event, from a line of JSON."""
        return event.encode()

    @functools.cached_property
    def stream(self):
        """All bytes of a streamed list, and where each event ends."""
        events = self.added() + [self.translate(cluster.end_of_contents(self.kind, self.version))]
        return b"".join(events), list(itertools.accumulate(map(len, events)))

    def first_contents(self, mode):
        """Likewise, as @mode has it."""
        body, cuts = self.stream
        if mode == "unfinished" and self.kind in cluster.MAIN:
            return memoryview(body)[:cuts[-2]], cuts[:-1]
        return body, cuts if mode == "events" else ()


class ProtobufCollection(Collection):
    of_lists, of_watches = Protobuf.name, Protobuf.of_watches

    def __init__(self, kind, version, items):
        super().__init__(kind, version, ())
        self.items = [json.loads(item) for item in items]

    @staticmethod
    def make_page(head, items):
        return Protobuf.body({**head, "items": items})

    def added(self):
        return [Protobuf.event("ADDED", {"kind": self.kind, "apiVersion": self.version, **item}) for item in self.items]

    @staticmethod
    def translate(event):
        event = json.loads(event)
        return Protobuf.event(event["type"], event["object"])


COLLECTIONS = {
    "/api/v1/services": Collection(*cluster.KINDS[cluster.SERVICES], cluster.services(SIZE)),
    SLICES: Collection(*cluster.KINDS[cluster.SLICES], cluster.endpoint_slices(SIZE)),
    "/apis/networking.k8s.io/v1/servicecidrs":
        Collection("ServiceCIDR", "networking.k8s.io/v1", [cluster.service_cidr()]),
    "/api/v1/nodes": Collection("Node", "v1", [cluster.node()]),
}
MAIN = ("/api/v1/services", SLICES)
IN_PROTOBUF = {path: ProtobufCollection(each.kind, each.version, each.items) for path, each in COLLECTIONS.items()}


class Answer:
    """A status, headers and a body, which may have no end. @cuts: where frames and records end, if it is not to be
    packed."""

    def __init__(self, status, body=b"", ends=True, kind=JSON, cuts=(), collection=None):
        self.status, self.body, self.ends = status, memoryview(body), ends
        self.cuts = collections.deque(cuts)
        self.collection = collection
        self.headers = [("content-type", kind), ("cache-control", "no-cache, private")]


def refusal(status, message):
    return Answer(status, cluster.to_json(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
         "message": message, "code": status}).encode())


def answer(target, headers):
    path, _, query = target.partition("?")
    query = dict(urllib.parse.parse_qsl(query))
    encoding, mode, path = path.removeprefix("/").split("/", 2)
    accepted = Protobuf.name in headers.get("accept", "")
    collection = (IN_PROTOBUF if encoding == "protobuf" and accepted else COLLECTIONS).get(f"/{path}")
    if not collection or mode not in ("stream", "events", "unfinished", "pages"):
        return refusal(404, "there is no such resource")
    if query.get("watch") == "true":
        return watch(collection, mode, query)
    if mode != "pages":
        return refusal(403, "lists are not answered here")
    where = int(query.get("continue", 0)), int(query.get("limit", 0))
    body = collection.page(*where)
    if "gzip" not in headers.get("accept-encoding", "") or len(body) < GZIP_FROM:
        return Answer(200, body, kind=collection.of_lists)
    reply = Answer(200, collection.compressed_page(*where), kind=collection.of_lists)
    reply.headers.append(("content-encoding", "gzip"))
    return reply


def watch(collection, mode, query):
    body, cuts = b"", ()
    if "sendInitialEvents" in query:
        if mode == "pages":
            return refusal(422, "sendInitialEvents is forbidden")
        body, cuts = collection.first_contents(mode)
    return Answer(200, body, "finish" in query, collection.of_watches, cuts, collection)


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
            self.send(answer(target, headers))

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
    def __init__(self, number, window, path, reply):
        self.number, self.window, self.path, self.reply = number, window, path, reply
        self.at = 0

    @property
    def left(self):
        return len(self.reply.body) - self.at

    @property
    def together(self):
        """Bytes that may go in one frame."""
        return (self.reply.cuts[0] if self.reply.cuts else len(self.reply.body)) - self.at

    def append(self, events):
        data = b"".join(map(self.reply.collection.translate, events))
        self.reply.body = memoryview(bytes(self.reply.body[self.at:]) + data)
        self.at = 0


CONNECTIONS = []  # those of HTTP/2 that are open
SENT = []  # when each of the events went out


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
        self.cuts = collections.deque()  # where records end in it
        self.streams = {}
        self.turn = collections.deque()  # streams with something to send
        self.window, self.initial_window, self.frame_size = 65535, 65535, 16384
        self.begun = False
        self.events = collections.deque()  # of other threads, for an open watch
        self.news = os.eventfd(0, os.EFD_NONBLOCK)
        self.unsent = 0  # events that wait for the next send
        CONNECTIONS.append(self)

    @staticmethod
    def frame(kind, flags, stream, payload=b""):
        return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload

    def run(self):
        self.sock.setblocking(False)
        try:
            while True:
                self.fill()
                writing = [self.sock] if self.output else []
                if not self.sock.pending():
                    select.select([self.sock, self.news], writing, [])
                self.take_events()
                if not self.receive():
                    return
                self.flush()
        finally:
            CONNECTIONS.remove(self)

    def push(self, events):
        """Called by other threads: more events, texts, for the open watch of EndpointSlices."""
        self.events.append(events)
        os.eventfd_write(self.news, 1)

    def take_events(self):
        try:
            os.eventfd_read(self.news)
        except BlockingIOError:
            return
        watches = [stream for stream in self.streams.values()
                   if not stream.reply.ends and stream.path.endswith(SLICES)]
        while self.events and watches:
            self.unsent += 1  # before: obey() looks whether there is anything left
            watches[-1].append(self.events.popleft())
        for watch in watches:
            if watch.left and watch not in self.turn:
                self.turn.append(watch)
        self.fill()

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
        if sent < len(view) and self.unsent:
            SENT.extend([time.monotonic()] * self.unsent)
            self.unsent = 0
        try:
            while sent < len(view):
                end = self.cuts[0] if self.cuts else len(view)
                sent += self.sock.send(view[sent:end])
                if self.cuts and sent == end:
                    self.cuts.popleft()
                    time.sleep(ARGUMENTS.pace)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        view.release()
        del self.output[:sent]
        self.cuts = collections.deque(cut - sent for cut in self.cuts)

    def fill(self):
        """Puts frames of the streams behind one another, in turn, as far as the windows allow."""
        blocked = 0
        while len(self.output) < AT_ONCE and blocked < len(self.turn):
            stream = self.turn[0]
            room = min(self.window, stream.window, self.frame_size, stream.together)
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
        if stream.reply.cuts and stream.at == stream.reply.cuts[0]:
            stream.reply.cuts.popleft()
            self.cuts.append(len(self.output))
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
        reply = answer(headers[":path"], headers)
        head = self.encoder.encode([(":status", str(reply.status)), *reply.headers])
        self.output += self.frame(self.HEADERS, self.END_HEADERS, number, head)
        path = headers[":path"].partition("?")[0]
        self.streams[number] = Stream(number, self.initial_window, path, reply)
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


def steady(rate, count, earlier=0):
    start = time.monotonic()
    for k in range(count):
        i = k % SIZE.services
        event = cluster.endpoint_replaced(i, SIZE, earlier + k + 1)
        time.sleep(max(0, start + k / rate - time.monotonic()))
        CONNECTIONS[-1].push([event])


def roll(at_a_time):
    CONNECTIONS[-1].push(list(cluster.rolling_update(SIZE, at_a_time)))


def obey():
    """Does what the standard input says, to its end."""
    for line in sys.stdin:
        word, *numbers = line.split()
        SENT.clear()
        {"steady": steady, "roll": roll}[word](*map(int, numbers))
        while any(c.events or c.unsent or c.output or any(stream.left for stream in c.turn)
                  for c in CONNECTIONS):
            time.sleep(0.001)
        print(json.dumps(SENT), flush=True)


def listen(context):
    listener = socket.create_server(("127.0.0.1", 0))
    events = [len(COLLECTIONS[path].stream[1]) - 1 for path in MAIN]
    sizes = [sum(all_of[path].stream[1][-2] for path in MAIN) for all_of in (COLLECTIONS, IN_PROTOBUF)]
    print(listener.getsockname()[1], sum(events), *sizes, flush=True)
    while True:
        plain, _ = listener.accept()
        threading.Thread(target=serve, args=(plain, context), daemon=True).start()


def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "server.crt", CERTS / "server.key")
    context.set_alpn_protocols(["h2", "http/1.1"])
    for collection in (*COLLECTIONS.values(), *IN_PROTOBUF.values()):
        len(collection.stream[1])
        for start in range(0, len(collection.items), cluster.PAGE):
            if len(collection.page(start, cluster.PAGE)) >= GZIP_FROM:
                collection.compressed_page(start, cluster.PAGE)
    threading.Thread(target=listen, args=(context,), daemon=True).start()
    obey()


main()
