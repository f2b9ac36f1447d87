# SPDX-License-Identifier: GPL-2.0-or-later
"""First sync: from the start of a daemon with nothing in the kernel to its table in force.

From a streamed list whose events are flushed one by one and from compressed pages, both in protobuf and in JSON,
and from a JSON file. The limit beside it: curl downloads the same bytes in the same way and throws them away, and the kernel is sent the same transaction with nothing
computed (bench_events). Daemon, curl and bare programming take turns; the ratios are made in each round, of
seconds and of CPU seconds. On a busy machine only the latter mean something.
"""

import contextlib
import subprocess
import sys
import time
import urllib.parse

import cluster
import process
import subjects
from cluster import Size
from results import MIB, ratios, show, spread, table
from subjects import harness, pki

TITLE = "First sync"
SIZES = [Size(1000, 10), Size(10000, 10), Size(44000, 2), Size(50000, 10), Size(5000, 50),
         Size(1, 20000), Size(100, 1000)]
QUICK_SIZES = [Size(100, 10), Size(1, 200)]
ROUNDS = 3
MODES = (("events", "protobuf"), ("events", "json"), ("pages", "protobuf"), ("pages", "json"), ("file", "json"))
ACCEPT = "application/vnd.kubernetes.protobuf,application/json"  # the URL says which it becomes
LISTED = ("/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices")
STREAM = {"watch": "true", "allowWatchBookmarks": "true", "sendInitialEvents": "true",
          "resourceVersionMatch": "NotOlderThan", "finish": "1"}


def targets_of(mode, encoding, size, server, manifest):
    if mode == "file":
        return [manifest.as_uri()]
    url = f"{server.url}/{encoding}/{mode}"
    if mode == "events":
        return [f"{url}{path}?{urllib.parse.urlencode(STREAM)}" for path in LISTED]
    slices = -(-size.endpoints // cluster.PER_SLICE) * size.services
    return [f"{url}{path}?limit={cluster.PAGE}&continue={start}"
            for path, count in zip(LISTED, (size.services, slices))
            for start in range(0, count, cluster.PAGE)]


def run_curl(targets, certs):
    """Seconds, CPU seconds and bytes of one download over one connection."""
    command = ["curl", "-sS", "--fail", "--cacert", certs / "ca.crt", "--compressed",
               "--header", f"Accept: {ACCEPT}",
               "--write-out", "%{size_download} %{http_version}\n"]
    for target in targets:
        command += [target, "--output", "/dev/null"]
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as curl:
        written = curl.stdout.read()
        used = process.ended(curl)
    seconds = time.monotonic() - start
    rows = [line.split() for line in written.splitlines()]
    if curl.returncode or len(rows) != len(targets) or {version for _, version in rows} - {"0", "2"}:
        sys.exit(f"bench: curl ended with status {curl.returncode}: {written}")
    return {"seconds": seconds, "cpu": used["cpu"], "bytes": sum(int(size) for size, _ in rows)}


def run_daemon(build, source, services):
    with subjects.Daemon(build, source, services) as daemon:
        return {"seconds": daemon.seconds, "cpu": daemon.cpu, "wake_ups": process.wake_ups(daemon.pid),
                "peak": process.memory(daemon.pid)["peak"]}


def measure_mode(name, size, source, targets, certs, pipeline, options, rounds):
    daemons, curls, bares = [], [], []
    for _ in range(rounds):
        curls.append(run_curl(targets, certs))
        bares.append(pipeline.bare_programming())
        daemons.append(run_daemon(options.build, source, size.services))
    limits = {key: [curl[key] + bare[key] for curl, bare in zip(curls, bares)]
              for key in ("seconds", "cpu")}
    return {"services": size.services, "endpoints": size.endpoints, "from": name, "rounds": rounds,
            "bytes": curls[0]["bytes"],
            **{f"daemon_{key}": spread([daemon[key] for daemon in daemons])
               for key in ("seconds", "cpu", "peak", "wake_ups")},
            **{f"curl_{key}": spread([curl[key] for curl in curls]) for key in ("seconds", "cpu")},
            **{f"bare_{key}": spread([bare[key] for bare in bares]) for key in ("seconds", "cpu")},
            **{f"limit_{key}": spread(limits[key]) for key in limits},
            **{f"ratio_{key}": ratios([daemon[key] for daemon in daemons], limits[key])
               for key in limits}}


def measure_size(size, folder, options):
    manifest = folder / "objects.json"
    cluster.write_manifest(manifest, size)
    certs = pki.make(folder / "certs")
    rounds = 1 if options.quick else ROUNDS
    with contextlib.ExitStack() as stack:
        stack.enter_context(harness.own_network())
        server = stack.enter_context(subjects.Server(size, certs))
        pipeline = stack.enter_context(subjects.Pipeline(options.build, size))
        return [measure_mode(f"{mode}, {encoding}", size,
                             ["--manifests", manifest] if mode == "file" else server.source(mode, encoding),
                             targets_of(mode, encoding, size, server, manifest), certs, pipeline, options, rounds)
                for mode, encoding in MODES]


def measure(options):
    rows = []
    for size in QUICK_SIZES if options.quick else SIZES:
        with options.folder() as folder:
            rows += measure_size(size, folder, options)
    return {"rows": rows}


def text(figures):
    def seconds(row, who):
        return f"{row[f'{who}_seconds']['median']:.3f}", f"{row[f'{who}_cpu']['median']:.3f}"
    return table(
        ["services x endpoints", "from", "MiB", "peak MiB", "wake-ups", "daemon, s", "CPU", "curl, s", "CPU",
         "bare, s", "CPU", "daemon / (curl + bare)", "likewise, CPU"],
        [[f"{row['services']:,} x {row['endpoints']:,}", row["from"], f"{row['bytes'] / MIB:.1f}",
          f"{row['daemon_peak']['median'] / MIB:.1f}", f"{row['daemon_wake_ups']['median']:,.0f}", *seconds(row, "daemon"), *seconds(row, "curl"),
          *seconds(row, "bare"), show(row["ratio_seconds"]), show(row["ratio_cpu"])]
         for row in figures["rows"]])
