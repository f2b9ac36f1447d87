# SPDX-License-Identifier: GPL-2.0-or-later
"""What a restart costs, over the table of the daemon that was killed, and an audit after it: CPU time of the daemon,
from a file, until its table is applied, and what it holds then. The first start, into an empty kernel, is beside it.

An audit rests 200 times as long as it works, so it is waited for at one size alone.
"""

import contextlib
import re

import cluster
import process
import subjects
from cluster import Size
from results import MIB, show, spread, table
from subjects import harness

TITLE = "Restart"
SIZES, QUICK_SIZES = (Size(10000, 10), Size(50000, 10)), (Size(10, 10), Size(20, 10))
ROUNDS, QUICK_ROUNDS = 3, 1
AUDITED = re.compile(r"audit: (?:family=(IPv.) )?audit completed cpu_seconds=(\S+)")


def audit_cpu(daemon):
    """CPU seconds of one audit of both families, by its log."""
    found = {}
    for line in daemon.process.stderr:
        match = AUDITED.search(line)
        if match:
            found[match[1]] = float(match[2])
        if len(found) == 2 or None in found:
            return sum(found.values())
    raise SystemExit("bench: the daemon ended")


def measure_round(size, manifest, options, audited):
    flags = ["--manifests", manifest, "-v", "2", "--audit-period", "1s" if audited else "0s"]
    with harness.own_network():
        first = subjects.Daemon(options.build, flags, size.services)
        first.stop()
        with subjects.Daemon(options.build, flags, size.services) as daemon:
            row = {"first": first.cpu, "again": daemon.cpu, "memory": process.memory(daemon.pid)["resident"]}
            if audited:
                row["audit"] = audit_cpu(daemon)
    return row


def measure(options):
    sizes, rows = QUICK_SIZES if options.quick else SIZES, []
    for size in sizes:
        with contextlib.ExitStack() as stack:
            manifest = stack.enter_context(options.folder()) / "objects.json"
            cluster.write_manifest(manifest, size)
            found = [measure_round(size, manifest, options, size == sizes[0])
                     for _ in range(QUICK_ROUNDS if options.quick else ROUNDS)]
        rows.append({"services": size.services, "endpoints": size.endpoints}
                    | {key: spread([row[key] for row in found]) for key in found[0]})
    return {"rows": rows}


def text(figures):
    return table(["services x endpoints", "first start, CPU s", "restart, CPU s", "resident, MiB", "an audit, CPU s"],
                 [[f"{row['services']:,} x {row['endpoints']:,}", show(row["first"]), show(row["again"]),
                   show(row["memory"], scale=1 / MIB, digits=1), show(row["audit"], digits=3) if "audit" in row else "-"]
                  for row in figures["rows"]])
