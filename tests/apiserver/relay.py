# SPDX-License-Identifier: GPL-2.0-or-later
"""A balancer in front of the stand-in: it ends TCP itself, so what happens behind it no TCP can tell."""

import asyncio
import contextlib
import threading


class Relay:
    """Passes connections on to @port. .url is the address to use."""

    def __init__(self, port):
        self.port = port
        self.url = None
        self.connections = set()
        self.swallowed = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        start = asyncio.start_server(self._serve, "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(start, self._loop).result(30)
        self.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def swallow(self):
        """What comes over the connections of now is taken and thrown away, both ways. New ones are
        passed on."""
        self.swallowed |= self.connections

    async def _serve(self, reader, writer):
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.port)
        number = object()
        self.connections.add(number)
        await asyncio.gather(self._pass(number, reader, there_writer),
                             self._pass(number, there_reader, writer))
        self.connections.discard(number)

    async def _pass(self, number, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if number not in self.swallowed:
                    writer.write(data)
                    await writer.drain()
        if number not in self.swallowed:
            writer.close()
