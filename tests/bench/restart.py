# SPDX-License-Identifier: GPL-2.0-or-later
"""What a restart costs, over the table of the daemon that was killed, and an audit after it: CPU time of the daemon,
from a file, until its table is applied, and what it holds then. The first start, into an empty kernel, is beside it.
Last come Services with very many addresses, to which they add nothing else.

An audit rests 200 times as long as it works, so it is waited for at one size alone.
"""

import contextlib
import functools
import re

import addresses
import cluster
import process
import subjects
from cluster import Size
from results import MIB, show, spread, table
from subjects import harness

TITLE = "Restart"
SIZES, QUICK_SIZES = (Size(10000, 10), Size(50000, 10)), (Size(10, 10), Size(20, 10))
CASES, QUICK_CASES = (addresses.Case(40, 10000, 1), addresses.Case(80, 10000, 1)), (addresses.Case(2, 10, 1),)
ROUNDS, QUICK_ROUNDS = 3, 1
AUDITED = re.compile(r"table: (?:family=(IPv.) )?audit completed cpu_seconds=(\S+)")


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


def measure_round(frontends, manifest, options, audited):
    flags = ["--manifests", manifest, "-v", "2", "--audit-period", "1s" if audited else "0s"]
    with harness.own_network():
        first = subjects.Daemon(options.build, flags, frontends)
        first.stop()
        with subjects.Daemon(options.build, flags, frontends) as daemon:
            row = {"first": first.cpu, "again": daemon.cpu, "memory": process.memory(daemon.pid)["resident"]}
            if audited:
                row["audit"] = audit_cpu(daemon)
    return row


def contents(options):
    """Name, frontends, and what writes them to a file."""
    for size in QUICK_SIZES if options.quick else SIZES:
        yield f"{size.services:,} x {size.endpoints:,}", size.services, functools.partial(cluster.write_manifest, size=size)
    for case in QUICK_CASES if options.quick else CASES:
        yield str(case), case.services * (1 + case.addresses), functools.partial(addresses.write, case=case, network=11)


def measure(options):
    rows = []
    for name, frontends, write in contents(options):
        with contextlib.ExitStack() as stack:
            manifest = stack.enter_context(options.folder()) / "objects.json"
            write(manifest)
            found = [measure_round(frontends, manifest, options, not rows)
                     for _ in range(QUICK_ROUNDS if options.quick else ROUNDS)]
        rows.append({"name": name} | {key: spread([row[key] for row in found]) for key in found[0]})
    return {"rows": rows}


def text(figures):
    return table(["services x endpoints", "first start, CPU s", "restart, CPU s", "resident, MiB", "an audit, CPU s"],
                 [[row["name"], show(row["first"]), show(row["again"]),
                   show(row["memory"], scale=1 / MIB, digits=1), show(row["audit"], digits=3) if "audit" in row else "-"]
                  for row in figures["rows"]])
