# SPDX-License-Identifier: GPL-2.0-or-later
"""HTTP/2 frames that bring nothing, as many as a connection takes: what a broken or hostile server or proxy may
send between the events of its watches. Each kind is a function of an open stream that returns one as bytes."""

import asyncio
import struct

import wire

DATA, HEADERS, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION, UNKNOWN = 0, 1, 4, 6, 7, 8, 9, 0xbb
END_HEADERS = 4
AT_ONCE = 1 << 18  # bytes


def frame(kind, stream=0, payload=b"", flags=0):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def window_updates(_):
    return frame(WINDOW_UPDATE, 0, struct.pack(">I", 1))


def window_updates_of_a_stream(stream):
    return frame(WINDOW_UPDATE, stream, struct.pack(">I", 1))


def goaways(_):
    """Open streams may go on."""
    return frame(GOAWAY, 0, struct.pack(">II", 0x7fffffff, 0))


def pings(_):
    return frame(PING, 0, b"12345678")


def settings(_):
    return frame(SETTINGS)


def unknown_frames(_):
    return frame(UNKNOWN)


def large_unknown_frames(_):
    return frame(UNKNOWN, 0, bytes(16384))


def empty_data(stream):
    return frame(DATA, stream)


def headers_after_data(stream):
    """The field ":status: 100", which enters no table of HPACK."""
    return frame(HEADERS, stream, b"\x08\x03100", END_HEADERS)


def endless_headers(stream):
    """Blocks of them that do not end."""
    return frame(HEADERS, stream) + frame(CONTINUATION, stream) * 1000


KINDS = {kind.__name__: kind for kind in (
    window_updates, window_updates_of_a_stream, goaways, pings, settings, unknown_frames, large_unknown_frames,
    empty_data, headers_after_data, endless_headers)}


class Flood:
    """While it is entered, the stand-in @server sends them on all connections that it has then."""

    def __init__(self, server, kind):
        self.server, self.kind = server, kind
        self.sent, self.ended = 0, False

    def __enter__(self):
        for connection in tuple(self.server.connections):
            if isinstance(connection, wire.Http2Connection) and connection.tasks:
                self.server.call(lambda it: asyncio.ensure_future(self._send(it)) and None, connection)
        return self

    def __exit__(self, *_):
        self.ended = True

    async def _send(self, connection):
        data = self.kind(max(connection.tasks))
        data *= max(1, AT_ONCE // len(data))
        while not self.ended and not connection.closing:
            connection.writer.write(data)
            try:
                await connection.writer.drain()
            except ConnectionError:
                return
            self.sent += len(data)
