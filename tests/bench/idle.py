# SPDX-License-Identifier: GPL-2.0-or-later
"""What a daemon does when nothing happens: CPU seconds and wake-ups, of all its threads.

Two of them side by side, one with a quiet API server (no bookmarks: a real one sends one a minute for
each watch), one with a manifest file.
"""

import contextlib
import time

import cluster
import process
import subjects
from cluster import Size
from results import table
from subjects import harness, pki

TITLE = "Idle"
SIZE = Size(1000, 10)
SETTLE = 2.0  # seconds after the table is in force
SECONDS, QUICK_SECONDS = 60, 1


def measure(options):
    seconds = QUICK_SECONDS if options.quick else SECONDS
    with options.folder() as folder, contextlib.ExitStack() as stack:
        manifest = folder / "objects.json"
        cluster.write_manifest(manifest, SIZE)
        # Two tables, so two namespaces.
        files = stack.enter_context(subjects.Daemon(options.build, ["--manifests", manifest],
                                                    SIZE.services, prefix=["unshare", "-rn"]))
        stack.enter_context(harness.own_network())
        server = stack.enter_context(subjects.Server(SIZE, pki.make(folder / "certs")))
        api = stack.enter_context(subjects.Daemon(options.build, server.source("stream"),
                                                  SIZE.services))
        daemons = {"API server": api, "file": files}
        time.sleep(SETTLE)

        def used():
            return {name: (process.cpu_seconds(daemon.pid), process.wake_ups(daemon.pid))
                    for name, daemon in daemons.items()}
        before = used()
        time.sleep(seconds)
        after = used()
    return {"of": seconds, "rows": [
        {"from": name, "cpu": after[name][0] - before[name][0],
         "wake_ups": after[name][1] - before[name][1]} for name in daemons]}


def text(figures):
    return table([f"in {figures['of']} seconds", "CPU, ms", "wake-ups"],
                 [[f"from {row['from']}", f"{row['cpu'] * 1e3:.3f}", row["wake_ups"]]
                  for row in figures["rows"]])
