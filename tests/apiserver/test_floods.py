# SPDX-License-Identifier: GPL-2.0-or-later
"""A server that sends HTTP/2 frames without contents as fast as they are read costs CPU time, and nothing else:
probes and metrics are answered meanwhile. libnghttp2 itself ends what has to be answered (PING, SETTINGS) and
headers without end."""

import http.client
import pathlib
import time

import pytest

import floods
from harness import BINARY, HEALTHZ, METRICS, Daemon, endpoint_slice, table

WEB = ("10.96.0.10", "tcp", 80)
SECONDS = 1.5
SANITIZED = b"__asan_init" in BINARY.read_bytes()
MOST = 0.3 if SANITIZED else 0.1  # of CPU, until an answer
ENOUGH = 8 << 20  # bytes, so that without a bound they would be read in one go
ENDED = "Flooding was detected|Too many CONTINUATION"


def cpu_seconds(daemon):
    return int(pathlib.Path(f"/proc/{daemon.process.pid}/schedstat").read_text().split()[0]) / 1e9


def ask(daemon, address, page):
    """The daemon's CPU seconds until the answer is there."""
    before = cpu_seconds(daemon)
    connection = http.client.HTTPConnection(address, timeout=20)
    connection.request("GET", page)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 200
    return cpu_seconds(daemon) - before


@pytest.mark.parametrize("kind", floods.KINDS.values(), ids=floods.KINDS)
def test_frames_without_contents(server, tmp_path, kind):
    with Daemon(tmp_path, server.kubeconfig(tmp_path / "kubeconfig")) as daemon:
        server.wait(lambda: len(table()) == 1 and len(server.open_watches()) == 4)
        with floods.Flood(server, kind) as flood:
            begin, waits = time.monotonic(), []
            while time.monotonic() < begin + SECONDS or not (flood.sent >= ENOUGH or daemon.lines(ENDED)):
                waits += ask(daemon, HEALTHZ, "/livez"), ask(daemon, METRICS, "/metrics")
                assert time.monotonic() < begin + 60, f"it has sent {flood.sent} bytes"
                time.sleep(0.02)
        assert max(waits) < MOST, sorted(waits)[-5:]
        server.put(endpoint_slice("10.1.0.3"))
        server.wait(lambda: table() == {WEB: {("10.1.0.3", 8080)}}, 60)
