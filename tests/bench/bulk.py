# SPDX-License-Identifier: GPL-2.0-or-later
"""Bytes over TCP: who reads them, and who sends them in several connections at a time."""

import concurrent.futures
import socket
import threading

from results import MIB


def accept(listener, serve):
    while True:
        serve(listener.accept()[0])


def _sink(connection):
    """Reads to the end, and says that it was there."""
    room = bytearray(MIB)
    while connection.recv_into(room):
        pass
    connection.send(b"!")
    connection.close()


def serve_sinks(listener, streams):
    """Reads so many connections at a time, in threads."""
    for _ in range(streams):
        threading.Thread(target=accept, args=(listener, _sink), daemon=True).start()


def _stream(connect, size):
    """Sends it all, and waits until the other side has it."""
    piece = bytes(MIB)
    with connect() as sock:
        while size > 0:
            sock.sendall(piece[:size])
            size -= len(piece)
        sock.shutdown(socket.SHUT_WR)
        if sock.recv(2) != b"!":
            raise SystemExit("bench: not all bytes arrived")


def send(connect, size, streams):
    """Sends @size bytes in connections that @connect() makes, which share them."""
    with concurrent.futures.ThreadPoolExecutor(streams) as pool:
        for done in [pool.submit(_stream, connect, size // streams) for _ in range(streams)]:
            done.result()
