# SPDX-License-Identifier: GPL-2.0-or-later
"""HTTP/1.1 and HTTP/2 under the stand-in API server, framed as the real one frames them.

A connection reads requests and starts a task for each; the task answers through an Exchange, which
is the same for both protocols. Faults that change bytes on the wire (drip, stall) live in
Exchange.write, the one place that all of a body passes.
"""

import asyncio
import contextlib
import dataclasses
import http
import itertools
import socket
import ssl
import struct
import urllib.parse
from time import monotonic

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import hyperframe.frame

GOODBYE = 1.0  # seconds from a GOAWAY to the end of an idle connection
H2_SETTINGS = {
    h2.settings.SettingCodes.MAX_FRAME_SIZE: 262144,
    h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 100,
    h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: 1048896,
    h2.settings.SettingCodes.HEADER_TABLE_SIZE: 4096,
    h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 262144,
}
CONNECTION_WINDOW = 26148865  # what the server adds to the window of the whole connection


@dataclasses.dataclass
class Request:
    """One request as the log keeps it."""
    method: str
    path: str
    query: dict
    target: str  # path and query as sent
    headers: dict  # names in lower case
    protocol: str  # "HTTP/1.1" or "HTTP/2"
    connection: int
    stream: int  # 0 on HTTP/1.1
    client_cert: str  # the common name, or None
    body: bytes = b""
    time: float = dataclasses.field(default_factory=monotonic)
    user: str = None
    status: int = None  # as answered, None before
    done: bool = False  # the answer is over, whole or not

    @property
    def watch(self):
        return self.query.get("watch") in ("true", "1")

    def __str__(self):
        return (f"{self.protocol} connection {self.connection} stream {self.stream}: {self.method} "
                f"{self.target} -> {self.status}")


def make_request(method, target, headers, protocol, connection, stream, client_cert):
    path, _, query = target.partition("?")
    return Request(method, path, dict(urllib.parse.parse_qsl(query, keep_blank_values=True)),
                   target, headers, protocol, connection, stream, client_cert)


class Flow:
    """Faults that act on all bytes of bodies."""

    def __init__(self):
        self.drip = 0  # bytes a chunk, 0 for the natural size
        self.open = asyncio.Event()  # cleared: nothing is sent
        self.open.set()


class Exchange:
    """One request and its answer."""

    buffer = 2048  # what the server holds back before it gives up on a Content-Length

    def __init__(self, request, flow):
        self.request = request
        self.flow = flow

    async def answer(self, status, headers, body):
        """A whole answer."""
        await self.flow.open.wait()
        whole = len(body) <= self.buffer
        await self._head(status, headers + ([("Content-Length", str(len(body)))] if whole else []),
                         whole)
        await self.write_packed(body)
        await self.end()

    async def begin(self, status, headers):
        """The head of an answer whose length nobody knows."""
        await self.flow.open.wait()
        await self._head(status, headers, False)

    async def _head(self, status, headers, whole):
        self.request.status = status
        await self._send_head(status, headers, whole)

    async def write_packed(self, data):
        """Much at once comes in pieces of the buffer's size, which cut events anywhere."""
        for start in range(0, len(data), self.buffer):
            await self.write(data[start:start + self.buffer])

    async def write(self, data):
        """One chunk, or what a fault makes of it."""
        while data:
            await self.flow.open.wait()
            size = self.flow.drip or len(data)
            await self._send(data[:size])
            data = data[size:]

    async def end(self):
        await self.flow.open.wait()
        await self._finish()


class Protocol(asyncio.StreamReaderProtocol):
    """What listens for connections that serve_connection() serves. One that was closed in order, and whose client does
    not answer the end of TLS in time (it is busy, or stopped), is lost as any other: asyncio would have it fail with a
    TimeoutError, which in the tasks of the connection means something else."""

    def __init__(self, connected):
        super().__init__(asyncio.StreamReader(), connected)

    def connection_lost(self, exc):
        super().connection_lost(ConnectionAbortedError(str(exc)) if isinstance(exc, TimeoutError) else exc)


class Connection:
    numbers = itertools.count(1)

    def __init__(self, reader, writer, flow, handle, log):
        self.number = next(self.numbers)
        self.reader, self.writer, self.flow = reader, writer, flow
        self.handle, self.log = handle, log
        subject = (writer.get_extra_info("peercert") or {}).get("subject", ())
        names = dict(pair for names in subject for pair in names)
        self.client_cert = names.get("commonName")
        self.tasks = {}

    @property
    def closing(self):
        return self.writer.transport.is_closing()

    async def send(self, data):
        if self.closing:
            raise ConnectionResetError("the connection was ended before")
        self.writer.write(data)
        await self.writer.drain()
        await asyncio.sleep(0)  # others have their turn, and a connection that broke is seen

    def reset(self):
        """Ends with a TCP reset: nothing that is still in a buffer arrives."""
        if self.closing:
            return
        raw = self.writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def abort(self):
        """Ends like a killed process: no last chunk and no TLS close_notify."""
        if not self.closing:
            self.writer.transport.abort()

    def close(self):
        """Ends in order. A second close() of the transport would cut that short."""
        if not self.closing:
            self.writer.close()

    def logged(self, method, target, headers, protocol, stream):
        request = make_request(method, target, headers, protocol, self.number, stream,
                               self.client_cert)
        self.log.append(request)
        return request

    async def run(self, exchange):
        try:
            await self.handle(exchange)
        finally:
            exchange.request.done = True

    async def serve(self):
        try:
            await self._serve()
        except (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError,
                h2.exceptions.ProtocolError):
            pass
        finally:
            for task in self.tasks.values():
                task.cancel()
            self.close()


class Http1Exchange(Exchange):
    def __init__(self, request, flow, connection):
        super().__init__(request, flow)
        self.connection = connection
        self.chunked = False

    async def _send_head(self, status, headers, whole):
        self.chunked = not whole
        if self.chunked:
            headers = headers + [("Transfer-Encoding", "chunked")]
        lines = [f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers]
        await self.connection.send("\r\n".join(lines).encode() + b"\r\n\r\n")

    async def _send(self, data):
        if self.chunked:
            data = b"%x\r\n%s\r\n" % (len(data), data)
        await self.connection.send(data)

    async def _finish(self):
        if self.chunked:
            await self.connection.send(b"0\r\n\r\n")

    def goodbye(self):
        """Over HTTP/1.1 the connection lives on, whatever the answer was."""


class Http1Connection(Connection):
    leaving = False

    def leave(self):
        """What is open goes on; a request that comes now gets no answer."""
        self.leaving = True

    async def _serve(self):
        gone = asyncio.ensure_future(self.writer.wait_closed())
        gone.add_done_callback(lambda task: task.cancelled() or task.exception())
        self.tasks["gone"] = gone
        while not gone.done():
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip("\r\n").split("\r\n")
            method, target, _ = first.split(" ")
            headers = {name.lower(): value.strip()
                       for name, _, value in (line.partition(":") for line in lines)}
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
            if self.leaving:
                return
            request = self.logged(method, target, headers, "HTTP/1.1", 0)
            request.body = body
            task = asyncio.ensure_future(self.run(Http1Exchange(request, self.flow, self)))
            self.tasks["request"] = task
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if task.done() and not task.cancelled():
                task.result()


class Http2Exchange(Exchange):
    buffer = 4096

    def __init__(self, request, flow, connection):
        super().__init__(request, flow)
        self.connection = connection

    async def _send_head(self, status, headers, whole):
        fields = [(":status", str(status))] + [(name.lower(), value) for name, value in headers]
        self.connection.h2.send_headers(self.request.stream, fields)
        await self.connection.flush()

    async def _send(self, data):
        await self.connection.send_data(self.request.stream, data)

    async def _finish(self):
        self.connection.h2.end_stream(self.request.stream)
        await self.connection.flush()

    def goodbye(self):
        self.connection.goodbye()


class Http2Connection(Connection):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.h2.local_settings = h2.settings.Settings(client=False, initial_values=H2_SETTINGS)
        self.window = asyncio.Event()
        self.last = None  # the last stream that is served, once a GOAWAY is out
        self.bodies = {}  # by stream: the request, and what came of its body so far

    async def flush(self):
        await self.send(self.h2.data_to_send())

    async def send_data(self, stream, data):
        while data:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if room <= 0:
                self.window.clear()
                await self.window.wait()
                continue
            self.h2.send_data(stream, data[:room])
            data = data[room:]
            await self.flush()

    def goodbye(self):
        """GOAWAY as after 401: open streams go on, new ones get no answer. Made by hand, since the
        library would end the connection for itself too."""
        if self.last is not None or self.closing:
            return
        self.last = self.h2.highest_inbound_stream_id
        self.writer.write(self.h2.data_to_send())
        self.writer.write(hyperframe.frame.GoAwayFrame(0, last_stream_id=self.last).serialize())
        asyncio.get_running_loop().call_later(GOODBYE, self._close_if_idle)

    leave = goodbye

    def _close_if_idle(self):
        if not self.tasks:
            self.close()

    async def _serve(self):
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(CONNECTION_WINDOW)
        await self.flush()
        while data := await self.reader.read(65536):
            for event in self.h2.receive_data(data):
                self._take(event)
            await self.flush()

    def _take(self, event):
        if isinstance(event, h2.events.RequestReceived):
            if self.last is None or event.stream_id <= self.last:
                self.bodies[event.stream_id] = (event, bytearray())
        elif isinstance(event, h2.events.StreamEnded):
            if event.stream_id in self.bodies:
                self._start(*self.bodies.pop(event.stream_id))
        elif isinstance(event, h2.events.DataReceived):
            if event.stream_id in self.bodies:
                self.bodies[event.stream_id][1].extend(event.data)
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, (h2.events.WindowUpdated, h2.events.RemoteSettingsChanged)):
            self.window.set()
        elif isinstance(event, h2.events.StreamReset) and event.stream_id in self.tasks:
            self.tasks[event.stream_id].cancel()

    def _start(self, event, body):
        headers = {name: value for name, value in event.headers if not name.startswith(":")}
        pseudo = dict(event.headers)
        request = self.logged(pseudo[":method"], pseudo[":path"], headers, "HTTP/2",
                              event.stream_id)
        request.body = bytes(body)
        task = asyncio.ensure_future(self.run(Http2Exchange(request, self.flow, self)))
        self.tasks[event.stream_id] = task
        task.add_done_callback(lambda task: self._ended(event.stream_id, task))

    def _ended(self, stream, task):
        self.tasks.pop(stream, None)
        if self.last is not None and not self.tasks:
            asyncio.get_running_loop().call_later(GOODBYE, self._close_if_idle)
        if not task.cancelled() and task.exception():
            if not isinstance(task.exception(), (ConnectionError, h2.exceptions.ProtocolError)):
                task.get_loop().call_exception_handler(
                    {"message": "request failed", "exception": task.exception()})
            self.abort()


async def cancel_all():
    """Whatever waits still, say for a client that is held."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def end(loop, thread):
    """The end of a server's loop, and of the thread that runs it."""
    asyncio.run_coroutine_threadsafe(cancel_all(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def serve_connection(reader, writer, flow, handle, log, connections):
    """Serves one connection by the protocol that ALPN has chosen."""
    tls = writer.get_extra_info("ssl_object")
    kind = Http2Connection if tls.selected_alpn_protocol() == "h2" else Http1Connection
    connection = kind(reader, writer, flow, handle, log)
    connections.add(connection)
    try:
        await connection.serve()
    finally:
        connections.discard(connection)
