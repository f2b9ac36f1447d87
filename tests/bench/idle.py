# SPDX-License-Identifier: GPL-2.0-or-later
"""What a daemon does when nothing happens: CPU seconds and wake-ups, of all its threads.

They run side by side: with a quiet API server (no bookmarks: a real one sends one a minute for each
watch), with a manifest file, and both again without audits, whose time comes once a minute.
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
        # The daemon watches the folder above, too: others are busy in that for temporary files.
        manifest = folder / "manifests" / "objects.json"
        manifest.parent.mkdir()
        cluster.write_manifest(manifest, SIZE)
        certs = pki.make(folder / "certs")
        daemons = {}
        for also, flags in (("", []), (", no audits", ["--audit-period", "0s"])):
            # Each has a table, and so a namespace of its own.
            daemons["file" + also] = stack.enter_context(subjects.Daemon(
                options.build, ["--manifests", manifest, *flags], SIZE.services,
                prefix=["unshare", "-rn"]))
            stack.enter_context(harness.own_network())
            server = stack.enter_context(subjects.Server(SIZE, certs))
            daemons["API server" + also] = stack.enter_context(subjects.Daemon(
                options.build, [*server.source("stream"), *flags], SIZE.services))
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
