# SPDX-License-Identifier: GPL-2.0-or-later
"""A server that does to the requests for one resource whatever a script says, over TLS and HTTP/1.1,
down to bytes that are no HTTP. Watches of other resources are opened and bring nothing.

A script is a function of an Exchange. It may send without end: the client is free to leave.
"""

import contextlib
import dataclasses
import socket
import ssl
import threading
import time
import urllib.parse


@dataclasses.dataclass
class Request:
    target: str
    headers: dict  # names in lower case
    time: float = dataclasses.field(default_factory=time.monotonic)
    sent: int = 0  # bytes of the answer that the client's side has taken

    @property
    def plural(self):
        return self.target.partition("?")[0].split("/")[-1]

    @property
    def what(self):
        """"list", "watch", "stream": a watch that begins with a list, or "check": a list for its version alone."""
        query = dict(urllib.parse.parse_qsl(self.target.partition("?")[2]))
        if query.get("limit") == "1":
            return "check"
        if query.get("watch") != "true":
            return "list"
        return "stream" if "sendInitialEvents" in query else "watch"


def good_list(plural):
    """Of a server that has come far enough for its watches to go on."""
    api_version, kind = {"services": ("v1", "ServiceList"),
                         "endpointslices": ("discovery.k8s.io/v1", "EndpointSliceList")}[plural]
    return {"kind": kind, "apiVersion": api_version, "metadata": {"resourceVersion": "1000000"}, "items": []}


class Exchange:
    """One request and the means to answer it."""

    def __init__(self, request, sock, encoding, elsewhere=None):
        self.request, self.sock, self.encoding = request, sock, encoding
        self.elsewhere = elsewhere  # the port of another server
        self.what = request.what

    def raw(self, data):
        self.sock.sendall(data)
        self.request.sent += len(data)

    def head(self, status="200 OK", *fields):
        content_type = self.encoding.name if self.what in ("list", "check") else self.encoding.of_watches
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", *fields]
        self.raw("\r\n".join(lines).encode() + b"\r\n\r\n")

    def begin(self, status="200 OK", *fields):
        """The head of a body in chunks."""
        self.head(status, "Transfer-Encoding: chunked", *fields)

    def chunk(self, data):
        self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self):
        self.raw(b"0\r\n\r\n")

    def whole(self, data, status="200 OK", *fields):
        """An answer with its length."""
        self.head(status, f"Content-Length: {len(data)}", *fields)
        self.raw(data)

    def hold(self):
        """Waits until the client or the server ends the connection."""
        while self.sock.recv(4096):
            pass


class HostileServer:
    """Listens on 127.0.0.1:@port until close(); @script answers the requests for @plural, in @encoding if it
    sends what is called so. Checks are answered well: the scripts are about what comes then."""

    def __init__(self, certs, port, plural, script, encoding, elsewhere=None):
        self.plural, self.script, self.encoding, self.elsewhere = plural, script, encoding, elsewhere
        self.requests = []  # those for @plural
        self.accepted = 0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certs / "server.crt", certs / "server.key")
        self._context.set_alpn_protocols(["http/1.1"])
        self._open, self._closed = set(), False
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):  # the listener was closed
            while True:
                sock, _ = self._listener.accept()
                self.accepted += 1
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, plain):
        with contextlib.suppress(OSError, ValueError):
            self._open.add(plain)
            with plain, self._context.wrap_socket(plain, server_side=True) as sock:
                self._open.add(sock)  # close() may have looked before
                while not self._closed and (head := self._read_head(sock)):
                    self._answer(head, sock)

    @staticmethod
    def _read_head(sock):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            data = sock.recv(1)
            if not data:
                return ""
            head += data
        return head.decode("latin-1")

    def _answer(self, head, sock):
        first, *lines = head.rstrip().split("\r\n")
        headers = {name.lower(): value.strip()
                   for name, _, value in (line.partition(":") for line in lines)}
        request = Request(first.split(" ")[1], headers)
        exchange = Exchange(request, sock, self.encoding, self.elsewhere)
        if request.plural == self.plural and request.what == "check":
            exchange.whole(self.encoding.body(good_list(self.plural)))
        elif request.plural == self.plural:
            self.requests.append(request)
            self.script(exchange)
        elif request.what == "watch":
            exchange.begin()
            exchange.hold()
        else:
            exchange.whole(b"", "503 Service Unavailable")

    def close(self):
        """Ends it, and all connections."""
        self._closed = True
        for sock in (self._listener, *tuple(self._open)):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError):
                sock.close()
