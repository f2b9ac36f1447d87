# SPDX-License-Identifier: GPL-2.0-or-later
"""Real connections through the daemon's table, all from and to the network namespace of the caller.

The node's own connections are proxied in the output hook, so a client, a table and an endpoint on
an address of lo are all it takes.
"""

import contextlib
import secrets
import socket
import subprocess
import threading
import time

from harness import NODE_ADDRESS

PAUSE = 0.005  # between two connections
PATIENCE = 20.0  # a loaded machine is slow, a lost packet of a handshake costs 1 s


def local_address(address):
    """Gives @address to lo, and a way to everything else: cluster IPs need a route to be sent."""
    subprocess.run(["ip", "addr", "replace", f"{address}/32", "dev", "lo"], check=True)
    subprocess.run(["ip", "route", "replace", "default", "dev", "lo", "src", NODE_ADDRESS],
                   check=True)


class EchoServer:
    """Sends back what it gets, one connection after the other."""

    def __init__(self, address, port=8080):
        local_address(address)
        self.listener = socket.create_server((address, port), backlog=128)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):  # the listener was closed
            while True:
                connection, _ = self.listener.accept()
                with connection, contextlib.suppress(OSError):
                    while data := connection.recv(4096):
                        connection.sendall(data)

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def ask(address, port):
    """One connection: sends something that nobody else knows and gets it back. OSError if not."""
    sent = secrets.token_bytes(16)
    with socket.create_connection((address, port), PATIENCE) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        got = b""
        while data := connection.recv(64):
            got += data
    if got != sent:
        raise ConnectionError(f"{len(got)} of {len(sent)} bytes came back")


class Probe:
    """Asks (address, port) all the time, one connection after the other, while it is entered."""

    def __init__(self, address, port):
        self.target = (address, port)
        self.good = 0
        self.failures = []  # (time.monotonic(), error)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self._stopped.is_set():
            try:
                ask(*self.target)
                self.good += 1
            except OSError as error:
                self.failures.append((time.monotonic(), repr(error)))
            time.sleep(PAUSE)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        self._stopped.set()
        self._thread.join()
        if not kind:
            assert not self.failures, (len(self.failures), self.good, self.failures[:3])
            assert self.good > 0
