# SPDX-License-Identifier: GPL-2.0-or-later
"""Serves an answer that a real API server once gave to the daemon, byte for byte: in JSON those of ../recordings,
in protobuf those of ../recordings-protobuf, where a JSON answer beside it says the same.

The daemon asks in its own words, so a recording is the answer to its request for the same resource
and of the same kind: a "stream" of initial events, a "list", a "page" behind the first, or a "watch".
What comes before is made up, and no more than is needed for that request:

    stream  nothing; or, if the recorded one named a resourceVersion, what made the daemon know it:
            a stream, ended, then a watch that is told that its version is too old
    list    the same, then a stream that is refused with 422
    page    the same, then a first page: the recorded one of another recording
    watch   a stream that names the version that the recorded watch began from, and ends

That stream holds one object, named "known" (and bears the recording's node name, of a Node). Requests
for the resource behind the recording are noted and get no answer. Other resources are streamed at once
and then quiet.

Minutes of silence are cut short. Only a watch that brought nothing has to last a moment: that is how a
client tells it from one that cannot be had.
"""

import asyncio
import dataclasses
import functools
import gzip
import json
import re
import ssl
import threading
import urllib.parse
from time import monotonic

import encoding
import wire
from protobuf import delimited
from recordings import PAIRS, RECORDINGS, body_part, names, parse_table, parts, read_table

NOT_OF_OBJECTS = ("223-version", "226-post-event")
PATHS = {"services": "/api/v1/services",
         "endpointslices": "/apis/discovery.k8s.io/v1/endpointslices",
         "servicecidrs": "/apis/networking.k8s.io/v1/servicecidrs",
         "nodes": "/api/v1/nodes"}
KINDS = {"services": ("v1", "Service"), "endpointslices": ("discovery.k8s.io/v1", "EndpointSlice"),
         "servicecidrs": ("networking.k8s.io/v1", "ServiceCIDR"), "nodes": ("v1", "Node")}
# What the daemon never asks for, as the nearest that it does.
NEAREST = {"things": "servicecidrs", "nosuchthings": "servicecidrs", "endpoints": "endpointslices",
           "readyz": "services"}
JSON = [("Content-Type", "application/json")]
SHUTDOWN = 0.1  # s from the last stream to the end of TCP; whoever writes before reading would miss the stream's end
# s; a watch that brought nothing for a second is worth opening again (docs/behaviour.md 10.2 C), and the daemon counts from
# when it reads that the watch is open.
QUIET = 2.5


@functools.cache
def index():
    """{recording: the rows of its answers}: one, or a row a page."""
    found = {}
    for row in read_table(RECORDINGS / "index.tsv"):
        found.setdefault(row["folder"].split("/")[0], []).append({**row, "answer": "", "said": row["body"]})
    return found | {name: [pair_row(name)] for name in names(PAIRS)
                    if any(part.startswith("protobuf.body.") for part in parts(name)) and name not in NOT_OF_OBJECTS}


def pair_row(name):
    """The protobuf answer of a pair, as index() has those of index.tsv."""
    request, head = (parts(name)[f"protobuf.{part}.txt"].decode() for part in ("request", "headers"))
    body = body_part(name, "protobuf.")
    return {"folder": name, "protocol": "http/1.1", "path": request.split(" ")[1], "status": head.split(" ")[1],
            "end": "terminating zero chunk" if "\nTransfer-Encoding: chunked" in head else "Content-Length reached",
            "answer": "protobuf.", "body": body.removeprefix("protobuf."),
            "said": body_part(name, "json.") if body.endswith(".pb") else body}


@functools.cache
def framing():
    found = {row["folder"]: row for row in read_table(RECORDINGS / "framing.tsv")}
    pairs = {row["recording"]: row["chunks"] for row in read_table(PAIRS / "framing.tsv")
             if row["answer"] == "protobuf"}
    return found | {name: {"chunks": pairs.get(name, "-"), "connection": "closed"} for name in names(PAIRS)}


def kind_of(path, query):
    """What a request asks for: (kind, resource). The resource is None if it is about none, the server's /version say."""
    parts = path.strip("/").split("/")
    known = [part for part in parts if part in PATHS or part in NEAREST]
    resource = NEAREST.get(known[-1], known[-1]) if known else None
    if query.get("sendInitialEvents") == "true" and query.get("watch") == "true":
        return "stream", resource
    if query.get("watch") == "true" or "watch" in parts:
        return "watch", resource
    return ("page" if "continue" in query else "list"), resource


def cut(body, sizes):
    """The pieces that @body was sent in; what @sizes does not cover in the server's usual ones."""
    pieces = []
    for size in sizes:
        pieces.append(body[:size])
        body = body[size:]
    return pieces + [body[start:start + 2048] for start in range(0, len(body), 2048)]


def stream_of(frame):
    """The stream of a line of frames.tsv, 0 for the whole connection."""
    found = re.search(r" stream=(\d+)", frame)
    return int(found[1]) if found else 0


class Recording:
    """One recorded answer."""

    def __init__(self, row):
        self.folder, self.answer, self.end = row["folder"], row["answer"], row["end"]
        self.http2 = row["protocol"] == "h2"
        path, _, query = row["path"].partition("?")
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        self.kind, self.resource = kind_of(path, self.query)
        self.path = path
        self.head = self._part("headers.txt")
        self.body = self._part(row["body"])
        if row["body"].endswith(".stored.gz"):
            self.body = gzip.decompress(self.body)
        self.is_protobuf = row["body"] == "body.pb"
        self.said = parts(self.folder)[row["said"]] if self.is_protobuf else self.body  # in JSON
        self.of_events = row["said"].endswith(".ndjson")
        if self.kind == "watch" and self.query.get("resourceVersion", "0") == "0" and self.of_events and self.said:
            self.kind = "stream"  # it begins with all objects, in no order

    def _part(self, name):
        return parts(self.folder)[self.answer + name]

    @property
    def chunked(self):
        return b"\r\nTransfer-Encoding: chunked\r\n" in self.head

    @property
    def connection(self):
        return framing()[self.folder]["connection"]

    def pieces(self):
        """The body as it came: chunks, or for a counted body two pieces and an unlucky cut."""
        if not self.chunked:
            third = len(self.body) // 3
            return [self.body[:third], self.body[third:]]
        sizes = framing()[self.folder]["chunks"]
        return cut(self.body, [int(size) for size in sizes.split()] if sizes != "-" else [])

    def fields(self):
        """The header fields of an HTTP/2 answer."""
        lines = self.head.decode().splitlines()
        return [tuple(re.match(r"(:?[^:]+): (.*)", line).groups()) for line in lines if line]

    def frames(self):
        """What the server sent that concerns this stream: (kind, rest of the line)."""
        rows = parse_table(self._part("frames.tsv").decode().splitlines())
        mine, *_ = [stream_of(row["frame"]) for row in rows if row["direction"] == ">"
                    and row["frame"].startswith("HEADERS") and self._is_mine(row["frame"])]
        for row in rows:
            if row["direction"] == "<" and stream_of(row["frame"]) in (0, mine):
                yield row["frame"].split(" ")[0], row["frame"]

    def frame_sizes(self):
        return [int(re.search(r"(\d+) bytes", frame)[1]) for kind, frame in self.frames() if kind == "DATA"]

    def _is_mine(self, frame):
        return re.search(rf" {re.escape(self.path)}( \(watch\))?$", frame) and frame.endswith(
            " (watch)") == (self.query.get("watch") == "true")

    def status(self):
        """As text; None where no answer came."""
        return self.head.split()[1].decode() if self.head else None

    def quiet(self):
        """Whether the watch, or what followed the initial events, ended without having brought anything."""
        last = self.said.splitlines()[-1:]
        return self.status() == "200" and (
            self.kind == "watch" and not last or self.kind == "stream" and b'"k8s.io/initial-events-end"' in last[0])

    def node_name(self):
        found = re.search(r"metadata\.name=(.+)", self.query.get("fieldSelector", "")) or re.search(
            r"/nodes/(.+)", self.path)
        if found:
            return found[1]
        return "node-a" if self.resource == "nodes" else "elsewhere"  # a name that no hint and no endpoint has

    def version(self):
        """The resourceVersion that the daemon has to know beforehand, or None."""
        version = self.query.get("resourceVersion")
        if self.kind == "watch":
            return version if version not in (None, "0") else "1"
        return version if version != "0" and self.kind != "page" else None

    def objects(self):
        """[(type, object)]: the events, or the items as ADDED; [] for what is no list."""
        if self.of_events:
            lines = map(json.loads, self.said.splitlines())
            return [(event["type"], event["object"]) for event in lines if event["type"] != "ERROR"]
        return [("ADDED", item) for item in self.value().get("items") or []]

    def value(self):
        """What the body holds if it is JSON, else {}."""
        try:
            return json.loads(gzip.decompress(self.said) if b"Content-Encoding: gzip" in self.head else self.said)
        except ValueError:
            return {}

    def leads_to(self, token):
        """Whether the next page is asked for by @token, which the two of a pair have each of its own."""
        if self.is_protobuf:
            return delimited(3, token.encode()) in self.body
        return self.value()["metadata"]["continue"] == token


def recordings(name):
    """The answers of a recording: pages in order, else one."""
    found = [Recording(row) for row in index()[name]]
    for page in found[1:]:
        assert page.kind == "page"
    return found


# Answers that are made up

def line(kind, obj):
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def bookmark(resource, version, annotations=None):
    return line("BOOKMARK", make_object(resource, {
        "metadata": {"resourceVersion": version, **({"annotations": annotations} if annotations else {})}}))


def end_mark(resource, version):
    return bookmark(resource, version, {"k8s.io/initial-events-end": "true"})


def make_object(resource, obj):
    api_version, kind = KINDS[resource]
    return {"kind": kind, "apiVersion": api_version, **obj}


def make_list(resource, objects):
    api_version, kind = KINDS[resource]
    return {"kind": f"{kind}List", "apiVersion": api_version, "metadata": {"resourceVersion": "1"}, "items": objects}


def status(code, reason, message):
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, "code": code}


@dataclasses.dataclass
class Asked:
    """A request of the daemon behind the recording."""
    kind: str
    query: dict
    time: float


class Replay:
    """A server in a thread of its own, in the network namespace of the thread that makes it.

    @answers    the recording, page by page
    @known      the object of the resource that there was before, if the recording needs one
    @beside     {resource: objects} that are streamed of the other resources
    @measure    called (in a thread) in the moment before the recording is served; see .before
    """

    def __init__(self, certs, name, known, beside, measure):
        self.name = name
        self.answers = recordings(name)
        self.first = self.answers[0]
        self.known, self.beside, self.measure = known, beside, measure
        self.resource = self.first.resource
        self.plain = self.first.end == "TCP end"  # a client that does not speak TLS
        self.certs = certs
        self.before = None  # what @measure returned
        self.unexpected = []  # kinds of requests before the recording that should not have come
        self.ended = None  # when the last byte of the recording was sent
        self.after = []  # what was asked of the resource then
        self.connections, self.log = set(), []
        self.steps = list(self._steps())
        self._refused_beside = asyncio.Event()
        self._beside_asked = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="replay")
        self._thread.start()
        self.port = self._call(self._listen())

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def close(self):
        wire.end(self._loop, self._thread)

    @property
    def url(self):
        return f"{'http' if self.plain else 'https'}://127.0.0.1:{self.port}"

    def _tls(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certs / "server.crt", self.certs / "server.key")
        context.set_alpn_protocols(["h2", "http/1.1"] if self.first.http2 else ["http/1.1"])
        return context

    async def _listen(self):
        tls = {} if self.plain else {"ssl": self._tls(), "ssl_shutdown_timeout": 0.2}
        serve = self._connected_plain if self.plain else self._connected
        listener = await self._loop.create_server(functools.partial(wire.Protocol, serve), "127.0.0.1", 0, **tls)
        return listener.sockets[0].getsockname()[1]

    async def _connected(self, reader, writer):
        await wire.serve_connection(reader, writer, wire.Flow(), self._handle, self.log, self.connections)

    async def _connected_plain(self, reader, writer):
        """What a TLS port says to a client that does not speak TLS, whatever it asked for."""
        head = await reader.readuntil(b"\r\n\r\n")
        path, _, query = head.split(b" ")[1].decode().partition("?")
        kind, resource = kind_of(path, dict(urllib.parse.parse_qsl(query)))
        if resource == self.resource and self.ended:
            self._note(kind, {})
            await hold()
        if resource == self.resource and kind == self.first.kind:
            self.before = await asyncio.to_thread(self.measure)
        writer.write(self.first.head + self.first.body)
        await writer.drain()
        writer.close()
        if self.before is not None:
            self.ended = self.ended or monotonic()

    # The script

    def _steps(self):
        """(kind of request, answer) for the resource, in order."""
        first = self.first
        if first.kind == "watch":
            yield "stream", self._stream_of_known
        elif first.version() is not None:
            yield "stream", self._stream_of_known
            yield "watch", self._too_old
        if first.kind in ("list", "page"):
            yield "stream", self._no_stream
        previous = None
        if first.kind == "page":
            previous, = recordings("095-continue-first-page")
            yield "list", functools.partial(self._send, previous)
        for recording in self.answers:
            yield recording.kind, functools.partial(self._replay, recording, previous)
            previous = recording

    def _note(self, kind, query):
        self.after.append(Asked(kind, query, monotonic()))

    async def _handle(self, exchange):
        request = exchange.request
        if request.method == "POST":  # an event, which is no matter of the recording
            await self._answer_last(exchange, 201, request.body)
            return
        kind, resource = kind_of(request.path, request.query)
        if resource is None:
            await exchange.answer(200, JSON, b"{}")
            return
        if request.query.get("limit") == "1":
            await self._confirm(exchange, resource)
        elif resource != self.resource:
            await self._answer_beside(exchange, kind, resource)
        elif not self.steps:
            self._note(kind, request.query)
            await hold()
        elif kind != self.steps[0][0]:
            self.unexpected.append(kind)
            await hold()
        else:
            await self.steps.pop(0)[1](exchange)

    async def _answer_beside(self, exchange, kind, resource):
        if self.name == "126-h2-401-beside-watch" and resource == "services" and not self._refused_beside.is_set():
            await self._refuse_beside(exchange)
            return
        objects = [make_object(resource, obj) for obj in self.beside.get(resource, [])]
        if kind == "list":
            await exchange.answer(200, JSON, json.dumps(make_list(resource, objects)).encode())
            return
        await exchange.begin(200, JSON)
        if kind == "stream":
            await exchange.write_packed(b"".join(line("ADDED", obj) for obj in objects) + end_mark(resource, "1"))
        await hold()

    async def _confirm(self, exchange, resource):
        """A check of the server's version, which no recording is: it has come far enough. Behind the recording in
        its encoding, which the daemon names as that of the last answer."""
        version = self.first.version() or ""
        version = version if version and not version.isdigit() else "9" * 18
        answer = {**make_list(resource, []), "metadata": {"resourceVersion": version}}
        if resource == self.resource and self.steps:
            await self._answer_last(exchange, 200, json.dumps(answer).encode())
        else:
            mine = resource == self.resource and self.first.is_protobuf
            chosen = encoding.Protobuf if mine else encoding.Json
            await exchange.answer(200, [("Content-Type", chosen.name)], chosen.body(answer))

    async def _refuse_beside(self, exchange):
        """The other request of recording 126, answered as in 124."""
        self._beside_asked.set()
        await self._refused_beside.wait()
        refusal, = recordings("124-h2-401")
        connection = exchange.connection
        connection.h2.send_headers(exchange.request.stream, refusal.fields())
        connection.h2.send_data(exchange.request.stream, refusal.body, end_stream=True)
        await connection.flush()

    async def _stream_of_known(self, exchange):
        """A bookmark comes behind the end mark, since a watch that brings nothing is not resumed at once."""
        version = self.first.version()
        await exchange.begin(200, JSON)
        await exchange.write(line("ADDED", make_object(self.resource, self.known)))
        await exchange.write(end_mark(self.resource, version))
        await exchange.write(bookmark(self.resource, version))
        await exchange.end()

    async def _too_old(self, exchange):
        await exchange.begin(200, JSON)
        await exchange.write(line("ERROR", status(410, "Expired", "too old resource version")))
        await exchange.end()

    async def _no_stream(self, exchange):
        body = status(422, "Invalid", "sendInitialEvents is forbidden for watch")
        await self._answer_last(exchange, 422, json.dumps(body).encode())

    async def _answer_last(self, exchange, code, body):
        """An answer in front of the recording. If the recording is no answer at all, it has to come on a
        connection of its own: a request on one that served before would be tried anew by the client's
        library, so that what the recording is to show would come twice."""
        close = [] if self.first.http2 or self.first.head else [("Connection", "close")]
        await exchange.answer(code, JSON + close, body)
        if close:
            exchange.connection.close()

    # The recording

    def _check_page(self, request, previous):
        """A page is asked for by just the token of the one before (079 shows what else gives)."""
        if not previous.leads_to(request.query["continue"]) or "resourceVersion" in request.query:
            self.unexpected.append(request.target)

    async def _replay(self, recording, previous, exchange):
        if recording.kind == "page":
            self._check_page(exchange.request, previous)
        if recording is self.first:
            self.before = await asyncio.to_thread(self.measure)
        await self._send(recording, exchange)
        if recording is self.answers[-1]:
            self.ended = monotonic()
        if recording.end == "the client stopped reading":
            await hold()

    async def _send(self, recording, exchange):
        if recording.http2:
            await self._send_http2(recording, exchange)
        else:
            await self._send_http1(recording, exchange.connection)

    @staticmethod
    async def _send_http1(recording, connection):
        if recording.head:
            await connection.send(recording.head)
        for piece in recording.pieces():
            if piece:
                await connection.send(b"%x\r\n%s\r\n" % (len(piece), piece) if recording.chunked else piece)
        if recording.quiet():
            await asyncio.sleep(QUIET)
        if recording.end == "terminating zero chunk":
            await connection.send(b"0\r\n\r\n")
        if recording.connection == "closed":
            connection.close()
        elif recording.connection == "killed":
            connection.abort()

    async def _send_http2(self, recording, exchange):
        connection, stream = exchange.connection, exchange.request.stream
        body = recording.body
        for kind, frame in recording.frames():
            if kind == "HEADERS":
                connection.h2.send_headers(stream, recording.fields())
                await connection.flush()
            elif kind == "DATA":
                if recording.quiet() and "[END_STREAM" in frame:
                    await asyncio.sleep(QUIET)
                size = int(re.search(r"(\d+) bytes", frame)[1])
                connection.h2.send_data(stream, body[:size], end_stream="[END_STREAM" in frame)
                body = body[size:]
                await connection.flush()
            elif kind == "GOAWAY":
                await self._goodbye(connection)
            elif frame == "TCP end without TLS close_notify":
                await asyncio.sleep(SHUTDOWN)
                connection.abort()
        assert not body, "frames.tsv does not cover the body"

    async def _goodbye(self, connection):
        """Behind it the connection ends by itself a second after its last stream (wire.py)."""
        if self.name == "126-h2-401-beside-watch":
            await self._beside_asked.wait()
            self._refused_beside.set()
        connection.goodbye()


async def hold():
    """No (further) answer until the connection ends."""
    await asyncio.Event().wait()
