# SPDX-License-Identifier: GPL-2.0-or-later
"""One change of each kind, from the bytes of its event to the kernel's acknowledgement.

Measured inside one process that is the daemon's own pipeline behind libcurl (bench_events); beside each
change the same transaction is sent alone, into a table that holds the same. All sizes take turns, some
changes at a time. Events come in protobuf; those of one size in JSON as well.
"""

import contextlib

import cluster
import subjects
from cluster import SERVICES, SLICES, Size
from results import samples, table

TITLE = "One change"
SIZES = [100, 1000, 10000, 50000]
QUICK_SIZES = [100, 1000]
SIZE_IN_JSON, QUICK_SIZE_IN_JSON = 10000, 1000
ENDPOINTS = 10
SAMPLES, QUICK_SAMPLES = 1000, 20
AT_A_TIME = 50
UNDO = "(undone)"  # measured for nothing
LABELS = ["endpoint replaced", "endpoint added", "endpoint removed", "endpoint terminating",
          "service added", "service removed"]


def slice_event(i, endpoints):
    return "MODIFIED", cluster.endpoint_slice(i, endpoints)


def changes(i, size, k):
    """(label, resource, type and object) of each kind, on service @i, which ends as it began."""
    texts = [cluster.endpoint(i, number) for number in cluster.numbers(i, size)]
    other = cluster.endpoint(i, k + 1, network=12)
    terminating = cluster.endpoint(i, cluster.numbers(i, size)[0], state="terminating")
    service = cluster.service(i)
    return [("endpoint replaced", SLICES, slice_event(i, [other, *texts[1:]])),
            ("endpoint replaced", SLICES, slice_event(i, texts)),
            ("endpoint added", SLICES, slice_event(i, [*texts, other])),
            ("endpoint removed", SLICES, slice_event(i, texts)),
            ("endpoint terminating", SLICES, slice_event(i, [terminating, *texts[1:]])),
            (UNDO, SLICES, slice_event(i, texts)),
            ("service removed", SERVICES, ("DELETED", service)),
            ("service added", SERVICES, ("ADDED", service))]


def play(pipeline, size, ks, sizes):
    """@sizes: where the bytes of each event are noted, by label."""
    for k in ks:
        for label, resource, (what, text) in changes(k * 7919 % size.services, size, k):
            sizes.setdefault(label, []).append(
                pipeline.add(label, resource, cluster.change(what, text, resource)))
    pipeline.play()


def figures_of(series, size, encoding, sizes):
    rest = [whole - decode - commit for whole, decode, commit
            in zip(series["whole"], series["decode"], series["commit"])]
    whole, bare = samples(series["whole"]), samples(series["bare"])
    later = [value for value in series["later"] if value]
    return {"services": size.services, "encoding": encoding, "event_bytes": samples(sizes)["median"], "whole": whole, "bare": bare,
            "ratio": whole["median"] / bare["median"],
            "decode": samples(series["decode"]), "rest": samples(rest),
            "commit": samples(series["commit"]), "later": samples(later) if later else None,
            "bytes": samples(series["bytes"])["median"],
            "elements": samples(series["elements"])["median"]}


def measure(options):
    count = options.samples or (QUICK_SAMPLES if options.quick else SAMPLES)
    with contextlib.ExitStack() as stack:
        pipelines = []
        in_json = QUICK_SIZE_IN_JSON if options.quick else SIZE_IN_JSON
        for services in options.sizes or (QUICK_SIZES if options.quick else SIZES):
            size = Size(services, ENDPOINTS)
            for encoding in ("protobuf", "json")[:1 + (services == in_json)]:
                pipeline = stack.enter_context(subjects.Pipeline(options.build, size, encoding))
                pipelines.append((size, encoding, pipeline, {}))
        for start in range(0, count, AT_A_TIME):
            for size, _, pipeline, sizes in pipelines:
                play(pipeline, size, range(start, min(start + AT_A_TIME, count)), sizes)
        ended = [(size, encoding, pipeline.end(), sizes) for size, encoding, pipeline, sizes in pipelines]
    rows = [{"kind": label, **figures_of(series[label], size, encoding, sizes[label])}
            for label in LABELS for size, encoding, series, sizes in ended]
    smallest = {row["kind"]: row["whole"]["median"] for row in reversed(rows)}
    for row in rows:
        row["to_smallest"] = row["whole"]["median"] / smallest[row["kind"]]
    return {"endpoints": ENDPOINTS, "rows": rows}


def text(figures):
    def us(value, key="median"):
        return f"{value[key] * 1e6:.1f}" if value else "-"
    return "Microseconds; services of 10 endpoints\n" + table(
        ["change", "services", "encoding", "bytes", "elements", "median", "99%", "bare", "bare 99%", "ratio",
         "to fewest services", "decoding", "caches to batch", "kernel", "later"],
        [[row["kind"], f"{row['services']:,}", row["encoding"], f"{row['event_bytes']:,}", f"{row['elements']:.0f}", us(row["whole"]),
          us(row["whole"], "p99"), us(row["bare"]), us(row["bare"], "p99"), f"{row['ratio']:.2f}",
          f"{row['to_smallest']:.2f}", us(row["decode"]), us(row["rest"]), us(row["commit"]),
          us(row["later"])] for row in figures["rows"]])
