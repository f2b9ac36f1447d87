# SPDX-License-Identifier: GPL-2.0-or-later
"""What addresses cost that lead to the same endpoints: elements, memory here and in the kernel, and CPU time of the
daemon, from a file, to take all of it in and to replace all endpoints.

Memory of the kernel is what SUnreclaim of /proc/meminfo grows by: others' share of it is in that.
"""

import contextlib
import json
import os
import re
import time
import typing
import urllib.request

import cluster
import process
import subjects
from results import MIB, show, spread, table
from subjects import exposition, harness

TITLE = "Many addresses"
METRICS = "http://127.0.0.1:10249/metrics"
ROUNDS, QUICK_ROUNDS = 3, 1
STILL = 0.5  # seconds without any CPU time: it has done all it had to


class Case(typing.NamedTuple):
    services: int
    addresses: int  # external IPs of each, beside its cluster IP
    endpoints: int

    def __str__(self):
        return f"{self.services:,} x (1 + {self.addresses:,}) addresses x {self.endpoints:,} endpoints"


CASES = (Case(1, 1000, 1000), Case(10000, 0, 10), Case(10000, 3, 10))
QUICK_CASES = (Case(1, 10, 10), Case(10, 3, 10))


def write(path, case, network):
    """All objects in one file; endpoints of another @network are others."""
    size = cluster.Size(case.services, case.endpoints)
    items = []
    for i, text in enumerate(cluster.services(size)):
        service = json.loads(text) | {"apiVersion": "v1", "kind": "Service"}
        first = i * case.addresses
        service["spec"]["externalIPs"] = [cluster.address(192, number) for number in range(first, first + case.addresses)]
        items.append(json.dumps(service))
        for part in range(-(-case.endpoints // cluster.PER_SLICE)):
            endpoints = [cluster.endpoint(i, number, network) for number in cluster.numbers(i, size, part)]
            items.append('{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice",'
                         + cluster.endpoint_slice(i, endpoints, part)[1:])
    path.with_suffix(".new").write_text('{"apiVersion":"v1","kind":"List","items":[' + ",".join(items) + "]}")
    os.replace(path.with_suffix(".new"), path)


def unreclaimable():
    with open("/proc/meminfo", encoding="ascii") as lines:
        return 1024 * int(re.search(r"^SUnreclaim:\s+(\d+) kB", lines.read(), re.MULTILINE)[1])


def wait_still(pid):
    """The CPU seconds that it has used when it uses no more."""
    used, since = process.cpu_seconds(pid), time.monotonic()
    while time.monotonic() < since + STILL:
        time.sleep(0.02)
        now = process.cpu_seconds(pid)
        if now != used:
            used, since = now, time.monotonic()
    return used


def elements():
    with urllib.request.urlopen(METRICS) as answer:
        values = exposition.values(exposition.parse(answer.read().decode()))
    return sum(value for sample, value in values.items() if sample.startswith("kube_nftd_elements{"))


def measure_round(case, folder, options):
    manifest = folder / "objects.json"
    write(manifest, case, 11)
    with contextlib.ExitStack() as stack:
        stack.enter_context(harness.own_network())
        before = unreclaimable()
        flags = ["--manifests", manifest, "--audit-period", "0s", "--metrics-bind-address", "127.0.0.1:10249"]
        daemon = stack.enter_context(subjects.Daemon(options.build, flags, case.services * (1 + case.addresses)))
        first = wait_still(daemon.pid)
        row = {"first": first, "elements": elements(), "memory": process.memory(daemon.pid)["resident"],
               "kernel": unreclaimable() - before}
        write(manifest, case, 12)
        time.sleep(STILL)
        row["replaced"] = wait_still(daemon.pid) - first
    return row


def measure(options):
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    rows = []
    for case in QUICK_CASES if options.quick else CASES:
        with options.folder() as folder:
            found = [measure_round(case, folder, options) for _ in range(rounds)]
        rows.append({"case": str(case)} | {key: spread([row[key] for row in found]) for key in found[0]})
    return {"rows": rows}


def text(figures):
    return table(["", "elements", "resident, MiB", "in the kernel, MiB", "taken in, CPU s", "all replaced, CPU s"],
                 [[row["case"], f"{row['elements']['median']:,.0f}", show(row["memory"], scale=1 / MIB, digits=1),
                   show(row["kernel"], scale=1 / MIB, digits=1), show(row["first"]), show(row["replaced"])]
                  for row in figures["rows"]])
