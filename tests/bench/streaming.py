# SPDX-License-Identifier: GPL-2.0-or-later
"""What an event costs while the first contents stream in, each flushed by itself: CPU time of the daemon, TLS
included, its wake-ups, and bytes. JSON beside protobuf, and an API server that writes as fast as it can beside one
that needs a moment for each event, which is the dearer one: all are waited for alone.

The events that mark the end are withheld, so nothing is decided or programmed; what a start costs with next to no
objects is subtracted. The encodings take turns.
"""

import contextlib
import subprocess
import time

import process
import subjects
from cluster import Size
from results import show, spread, table
from subjects import harness, pki

TITLE = "Streaming"
SIZES = [Size(5000, 10), Size(10000, 10)]
QUICK_SIZES = [Size(100, 10)]
ROUNDS, QUICK_ROUNDS = 5, 1
PACES = (0.0, 0.0002)  # s that the server waits behind each event
ENCODINGS = ("protobuf", "json")
QUIET = 0.5  # s without CPU time: everything has been read, most likely
NOTHING = Size(1, 1)


def run_daemon(build, server, encoding):
    """CPU seconds and wake-ups from the start until everything has been read."""
    source = server.source("unfinished", encoding)
    with subprocess.Popen([build / "kube-nftd", *source, "--hostname-override", "node-1", "--healthz-bind-address",
                           harness.HEALTHZ, "--conntrack-max-per-core", "0"], stderr=subprocess.DEVNULL) as daemon:
        try:
            used = wait_quiet(daemon.pid)
            while subjects.Daemon.metrics().get("kube_nftd_received_bytes_total", 0) < server.bytes(encoding):
                used = wait_quiet(daemon.pid)
        finally:
            daemon.kill()
    return used


def wait_quiet(pid):
    """What it has used when it uses no more."""
    used, quiet_since = {"cpu": 0}, time.monotonic()
    while time.monotonic() - quiet_since < QUIET:
        time.sleep(0.02)
        cpu = process.cpu_seconds(pid)
        if cpu - used["cpu"] > 0.0005:
            used = {"cpu": cpu, "wake_ups": process.wake_ups(pid)}
            quiet_since = time.monotonic()
    return used


def measure_pace(options, size, pace, folder):
    rows = {encoding: {"cpu": [], "wake_ups": []} for encoding in ENCODINGS}
    with contextlib.ExitStack() as stack:
        certs = pki.make(folder / "certs")
        stack.enter_context(harness.own_network())
        server = stack.enter_context(subjects.Server(size, certs, "--pace", str(pace)))
        start = stack.enter_context(subjects.Server(NOTHING, certs))
        for _ in range(QUICK_ROUNDS if options.quick else ROUNDS):
            for encoding, row in rows.items():
                used, before = (run_daemon(options.build, each, encoding) for each in (server, start))
                row["cpu"].append((used["cpu"] - before["cpu"]) / server.events)
                row["wake_ups"].append(used["wake_ups"] / server.events)
        return [{"services": size.services, "endpoints": size.endpoints, "pace": pace, "encoding": encoding,
                 "events": server.events, "bytes": server.bytes(encoding) / server.events,
                 **{key: spread(values) for key, values in row.items()}} for encoding, row in rows.items()]


def measure(options):
    rows = []
    for size in QUICK_SIZES if options.quick else SIZES:
        for pace in PACES:
            with options.folder() as folder:
                rows += measure_pace(options, size, pace, folder)
    return {"rows": rows}


def text(figures):
    return table(["services x endpoints", "events", "the server waits", "encoding", "bytes an event", "CPU an event, us",
                  "wake-ups an event"],
                 [[f"{row['services']:,} x {row['endpoints']:,}", f"{row['events']:,}", f"{row['pace'] * 1e3} ms",
                   row["encoding"], f"{row['bytes']:,.0f}", show(row["cpu"], scale=1e6, digits=1),
                   show(row["wake_ups"])] for row in figures["rows"]])
