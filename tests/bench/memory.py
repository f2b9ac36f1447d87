# SPDX-License-Identifier: GPL-2.0-or-later
"""What the daemon holds when its table is in force, and the most that it held on the way.

"Not of files" is what the daemon alone has: pages of files (its code, libraries) are shared with others
that use them, and come back from the page cache.

Bytes a service and a further endpoint, of what is not of files: of all sizes together, by least squares of
    bytes = something + services * a + endpoints * b
"""

import contextlib
import time

import cluster
import process
import subjects
from cluster import Size
from first_sync import SIZES as FIRST_SYNC_SIZES
from results import MIB, table
from subjects import harness, pki

TITLE = "Memory"
SIZES = [Size(100, 10), *FIRST_SYNC_SIZES]
QUICK_SIZES = [Size(100, 10), Size(200, 10), Size(10, 100)]
STEPS = [(Size(100, 10), Size(200, 10)), (Size(1000, 10), Size(10000, 10)), (Size(1000, 10), Size(5000, 50)),
         (Size(10000, 10), Size(50000, 10))]
SETTLE, QUICK_SETTLE = 1.0, 0.1  # seconds: what is put off is done
SOURCES = ("stream", "file")


def measure_size(size, folder, options):
    manifest = folder / "objects.json"
    cluster.write_manifest(manifest, size)
    certs = pki.make(folder / "certs")
    row = {"services": size.services, "endpoints": size.endpoints}
    with contextlib.ExitStack() as stack:
        stack.enter_context(harness.own_network())
        server = stack.enter_context(subjects.Server(size, certs))
        for name, source in (("stream", server.source("stream")), ("file", ["--manifests", manifest])):
            with subjects.Daemon(options.build, source, size.services) as daemon:
                time.sleep(QUICK_SETTLE if options.quick else SETTLE)
                row[name] = process.memory(daemon.pid)
    return row


def solve(matrix, values):
    """A small system of linear equations, by Gauss and Jordan."""
    rows = [[*line, value] for line, value in zip(matrix, values)]
    for i, _ in enumerate(rows):
        rows[i:] = sorted(rows[i:], key=lambda row: -abs(row[i]))
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j, other in enumerate(rows):
            if i != j:
                rows[j] = [a - other[i] * b for a, b in zip(other, rows[i])]
    return [row[-1] for row in rows]


def least_squares(points, values):
    columns = list(zip(*points))
    normal = [[sum(a * b for a, b in zip(p, q)) for q in columns] for p in columns]
    return solve(normal, [sum(a * b for a, b in zip(column, values)) for column in columns])


def measure(options):
    rows = []
    for size in QUICK_SIZES if options.quick else SIZES:
        with options.folder() as folder:
            rows.append(measure_size(size, folder, options))
    points = [(1, row["services"], row["services"] * row["endpoints"]) for row in rows]
    fits = {name: dict(zip(("base", "service", "endpoint"),
                           least_squares(points, [row[name]["anonymous"] for row in rows])))
            for name in SOURCES}
    figures = {"rows": rows, "fits": fits}
    by_size = {Size(row["services"], row["endpoints"]): row for row in rows}
    figures["steps"] = [{"from": small, "to": big, **step(by_size[small], by_size[big])}
                        for small, big in STEPS if small in by_size and big in by_size]
    return figures


def step(small, big):
    """How much a further endpoint takes, with the services that it belongs to."""
    further = big["services"] * big["endpoints"] - small["services"] * small["endpoints"]
    return {name: (big[name]["anonymous"] - small[name]["anonymous"]) / further for name in SOURCES}


def text(figures):
    lines = [table(
        ["MiB; services x endpoints", *(f"{name}: {what}" for name in SOURCES
                                        for what in ("resident", "not of files", "peak"))],
        [[f"{row['services']:,} x {row['endpoints']:,}",
          *(f"{row[name][what] / MIB:.1f}" for name in SOURCES
            for what in ("resident", "anonymous", "peak"))] for row in figures["rows"]])]
    for name, fit in figures["fits"].items():
        lines.append(f"from a {name}: {fit['base'] / MIB:.1f} MiB + {fit['service']:.0f} bytes a service "
                     f"+ {fit['endpoint']:.0f} bytes an endpoint")
    for each in figures["steps"]:
        sizes = " to ".join(f"{services:,} x {endpoints:,}" for services, endpoints in (each["from"], each["to"]))
        lines += [f"from a {name}, {sizes}: {each[name]:.0f} bytes an endpoint, the services included"
                  for name in SOURCES]
    return "\n".join(lines)
