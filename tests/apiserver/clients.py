# SPDX-License-Identifier: GPL-2.0-or-later
"""Small clients that see what a library hides: header order, chunk sizes, frames."""

import dataclasses
import socket
import ssl

import h2.config
import h2.connection
import h2.events

GOAWAY = 7  # the type of the frame


@dataclasses.dataclass
class Goaway:
    last_stream: int


def connect(server, alpn=None, client_cert=False):
    context = ssl.create_default_context(cafile=server.certs / "ca.crt")
    if client_cert:
        context.load_cert_chain(server.certs / "client.crt", server.certs / "client.key")
    if alpn:
        context.set_alpn_protocols(alpn)
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


class Http1:
    """One HTTP/1.1 connection; get() sends, the other methods read."""

    def __init__(self, server, token="a-token", client_cert=False):
        self.sock = connect(server, ["http/1.1"], client_cert)
        self.stream = self.sock.makefile("rb")
        self.token = token
        self.status, self.headers = None, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.sock.close()

    def get(self, target, method="GET", accept="application/json", **headers):
        lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", f"Accept: {accept}"]
        if self.token:
            lines.append(f"Authorization: Bearer {self.token}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        first = self.stream.readline().decode().split(" ", 2)
        self.status = int(first[1])
        self.headers = []
        while line := self.stream.readline().decode().rstrip("\r\n"):
            self.headers.append(tuple(line.split(": ", 1)))
        return self

    def header(self, name):
        return dict(self.headers).get(name)

    def chunk(self):
        """The next chunk; b"" is the clean end, EOFError any other."""
        line = self.stream.readline()
        if not line:
            raise EOFError
        size = int(line, 16)
        data = self.stream.read(size)
        if len(data) != size or self.stream.read(2) != b"\r\n":
            raise EOFError
        return data

    def chunks(self):
        return list(iter(self.chunk, b""))

    def body(self):
        length = self.header("Content-Length")
        return b"".join(self.chunks()) if length is None else self.stream.read(int(length))


class Http2:
    """One HTTP/2 connection; events(stream) reads on until that stream has ended."""

    def __init__(self, server, token="a-token"):
        self.sock = connect(server, ["http/1.1", "h2"])
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.token = token
        self.seen = []  # every event, in order
        self.pending = b""
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def get(self, target, token=None, flush=True):
        """Sends a request, or with the next one if not @flush; returns its stream."""
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [
            (":method", "GET"), (":path", target), (":scheme", "https"),
            (":authority", "127.0.0.1"), ("accept", "application/json"),
            ("authorization", f"Bearer {token or self.token}"),
        ], end_stream=True)
        if flush:
            self.flush()
        return stream

    def read(self):
        """Takes what comes next; False at the end of the connection."""
        data = self.sock.recv(65536)
        self.pending += data
        while frame := self._frame():
            if frame[3] == GOAWAY:
                self.seen.append(Goaway(int.from_bytes(frame[9:13], "big")))
                continue
            for event in self.h2.receive_data(frame):
                self._take(event)
        self.flush()
        return bool(data)

    def _frame(self):
        """The next whole frame. The library would give up at a GOAWAY, so that is kept from it."""
        size = 9 + int.from_bytes(self.pending[:3], "big")
        if len(self.pending) < 9 or len(self.pending) < size:
            return b""
        frame, self.pending = self.pending[:size], self.pending[size:]
        return frame

    def _take(self, event):
        self.seen.append(event)
        if isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)

    def of(self, stream, kind):
        return [event for event in self.seen
                if isinstance(event, kind) and getattr(event, "stream_id", 0) == stream]

    def wait(self, stream, kind=h2.events.StreamEnded):
        while not self.of(stream, kind):
            if not self.read():
                raise EOFError
        return self

    def status(self, stream):
        self.wait(stream, h2.events.ResponseReceived)
        return int(dict(self.of(stream, h2.events.ResponseReceived)[0].headers)[":status"])

    def body(self, stream):
        return b"".join(event.data for event in self.of(stream, h2.events.DataReceived))
