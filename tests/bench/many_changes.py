# SPDX-License-Identifier: GPL-2.0-or-later
"""Many changes: a rolling update of one service with very many endpoints, and a steady stream of changes.

First the events one by one in the pipeline alone (bench_events), with the bare transaction beside each: what
a step costs, and what all of them cost at least. Then a whole daemon with an API server: CPU time, how many
transactions, and (in a run of its own, see observer.py) the time from the last byte of an event written to
the socket until the kernel says that its elements are in force.
"""

import contextlib
import ipaddress
import itertools
import time

import cluster
import process
import subjects
from cluster import SLICES, Size
from observer import Observer
from results import percentile, samples, table
from subjects import harness, pki

TITLE = "Many changes"
BIG, SMALL = Size(1, 20000), Size(1, 100)
QUICK_BIG = Size(1, 400)
AT_A_TIME = 10  # endpoints in one event of the rolling update
ROUND = 200  # events of each pipeline in turn
STEADY, QUICK_STEADY = Size(10000, 10), Size(1000, 10)
RATE = 1000  # changes a second
SECONDS, QUICK_SECONDS = 60, 1
OBSERVED, QUICK_OBSERVED = 15, 1
ALONE = 2000  # events of the steady stream in the pipeline alone
PATIENCE = 60  # seconds, for what was sent to come into force


def sums(series):
    total = {name: sum(series[name]) for name in ("whole", "decode", "commit", "bare", "later", "later_bare")}
    total["limit"] = total["decode"] + total["bare"] + total["later_bare"]
    total["ratio"] = (total["whole"] + total["later"]) / total["limit"]
    total["steps"] = len(series["whole"])
    return total


def in_turns(pipelines_and_events):
    """Plays some events in each pipeline, then in the next, to the end of all."""
    sources = [(pipeline, iter(events)) for pipeline, events in pipelines_and_events]
    while sources:
        for source in list(sources):
            pipeline, events = source
            some = list(itertools.islice(events, ROUND))
            for event in some:
                pipeline.add("step", SLICES, event)
            pipeline.play()
            if len(some) < ROUND:
                sources.remove(source)


def small_steps(count):
    """As many steps as the big service has, of one slice, over and over."""
    network = 14
    while True:
        for event in cluster.rolling_update(SMALL, AT_A_TIME, network=network):
            if count == 0:
                return
            count -= 1
            yield event
        network = 15 if network == 14 else 14


def measure_steps(options):
    big = QUICK_BIG if options.quick else BIG
    with subjects.Pipeline(options.build, big) as many, subjects.Pipeline(options.build, SMALL) as few:
        in_turns([(many, cluster.rolling_update(big, AT_A_TIME)),
                  (few, small_steps(big.endpoints // AT_A_TIME))])
        many, few = many.end()["step"], few.end()["step"]
    tenth = max(1, len(many["whole"]) // 10)
    return {"endpoints": big.endpoints, "at_a_time": AT_A_TIME, "whole": samples(many["whole"]),
            "bare": samples(many["bare"]), "decode": samples(many["decode"]),
            "small": samples(few["whole"]), "small_bare": samples(few["bare"]),
            "ratio_to_small": samples(many["whole"])["median"] / samples(few["whole"])["median"],
            "first_tenth": samples(many["whole"][:tenth]), "last_tenth": samples(many["whole"][-tenth:]),
            "sums": sums(many)}


def counts(daemon):
    metrics = daemon.metrics()
    return {"cpu": process.cpu_seconds(daemon.pid),
            "transactions": metrics["kube_nftd_transactions_total"],
            "events": metrics["kube_nftd_watch_events_total"]}


def wait_in_force(daemon, events):
    """Until it has read so many events in all. They are in force before it answers the next question. What
    asking costs is in the daemon's CPU time: little."""
    deadline = time.monotonic() + PATIENCE
    while (now := counts(daemon))["events"] < events:
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: {now['events']} events were read, not {events}")
        time.sleep(0.05)
    return counts(daemon)


def run_order(daemon, server, order, events, changes):
    before = counts(daemon)
    server.order(*order)
    sent = server.sent()
    after = wait_in_force(daemon, before["events"] + events)
    return sent, {"changes": changes, "cpu": after["cpu"] - before["cpu"],
                  "transactions": after["transactions"] - before["transactions"]}


@contextlib.contextmanager
def daemon_with(size, options):
    with options.folder() as folder, contextlib.ExitStack() as stack:
        stack.enter_context(harness.own_network())
        server = stack.enter_context(subjects.Server(size, pki.make(folder / "certs")))
        yield (stack.enter_context(subjects.Daemon(options.build, server.source("stream"), size.services)),
               server)


def measure_roll(options):
    big = QUICK_BIG if options.quick else BIG
    with daemon_with(big, options) as (daemon, server):
        peak = process.memory(daemon.pid)["peak"]
        observer = Observer()
        sent, figures = run_order(daemon, server, ["roll", AT_A_TIME],
                                  big.endpoints // AT_A_TIME, big.endpoints)
        times = observer.end()
        figures["seconds"] = max(times.values()) - sent[0]
        figures["peak_before"], figures["peak"] = peak, process.memory(daemon.pid)["peak"]
    return figures


def delays(sent, times):
    """Of each change, by the endpoint that it brought. One that was replaced before it was in force has
    none."""
    values = []
    for number, when in enumerate(sent, 1):
        value = ipaddress.ip_address(cluster.address(12, number)).packed + b"\x1f\x90\0\0"  # port 8080
        if value in times:
            values.append(times[value] - when)
    return values


def measure_steady(options):
    size = QUICK_STEADY if options.quick else STEADY
    count = RATE * (QUICK_SECONDS if options.quick else SECONDS)
    observed = RATE * (QUICK_OBSERVED if options.quick else OBSERVED)
    with daemon_with(size, options) as (daemon, server):
        observer = Observer()
        sent, with_observer = run_order(daemon, server, ["steady", RATE, observed], observed, observed)
        seen = delays(sent, observer.end())
        # What the first run brought is replaced by others in the second one.
        sent, figures = run_order(daemon, server, ["steady", RATE, count, observed], count, count)
    figures["seconds"] = sent[-1] - sent[0]
    figures["delay"] = {**samples(seen), "p90": percentile(seen, 0.9), "max": max(seen),
                        "overtaken": observed - len(seen)}
    figures["observed_transactions"] = with_observer["transactions"]
    figures["observed_changes"] = observed
    with subjects.Pipeline(options.build, size) as pipeline:
        alone = min(ALONE, count)
        in_turns([(pipeline, (cluster.endpoint_replaced(k % size.services, size, k + 1)
                              for k in range(alone)))])
        figures["alone"] = sums(pipeline.end()["step"])
    return {"size": str(size), "rate": RATE, **figures}


def measure(options):
    return {"steps": measure_steps(options), "roll": measure_roll(options),
            "steady": measure_steady(options)}


def text(figures):
    steps, roll, steady = figures["steps"], figures["roll"], figures["steady"]
    total, alone = steps["sums"], steady["alone"]

    def ms(value):
        return f"{value['median'] * 1e3:.3f}"
    each = steady["cpu"] / steady["changes"]
    limit = alone["limit"] / alone["steps"]
    return "\n".join([
        f"A rolling update of {steps['endpoints']:,} endpoints of one service, {cluster.PER_SLICE} a slice, "
        f"{steps['at_a_time']} replaced in each event",
        table(["ms, median of all steps", "a step", "bare", "decoding"],
              [["the big service", ms(steps["whole"]), ms(steps["bare"]), ms(steps["decode"])],
               ["    first tenth of the steps", ms(steps["first_tenth"]), "", ""],
               ["    last tenth of the steps", ms(steps["last_tenth"]), "", ""],
               ["a service of one slice", ms(steps["small"]), ms(steps["small_bare"]), ""]]),
        f"big to small: {steps['ratio_to_small']:.2f}",
        f"all {total['steps']:,} steps: {total['whole'] + total['later']:.3f} s; decoding {total['decode']:.3f} s "
        f"+ bare transactions {total['bare'] + total['later_bare']:.3f} s; ratio {total['ratio']:.2f}",
        f"daemon, all events sent at once: CPU {roll['cpu']:.3f} s, {roll['transactions']:.0f} transactions, in "
        f"force {roll['seconds']:.3f} s after the first byte; peak {roll['peak_before'] / 2**20:.1f} MiB before, "
        f"{roll['peak'] / 2**20:.1f} MiB after",
        "",
        f"{steady['rate']:,} changes a second over {steady['size']} for {steady['seconds']:.0f} s, each an "
        f"endpoint replaced",
        f"daemon: CPU {steady['cpu']:.2f} s, {each * 1e6:.0f} microseconds a change; "
        f"{steady['transactions']:.0f} transactions for {steady['changes']:,} changes",
        f"decoding and bare transactions alone: {limit * 1e6:.0f} microseconds a change; ratio "
        f"{each / limit:.2f}",
        f"from the event's last byte to the kernel's word that it is in force ({steady['observed_changes']:,} "
        f"changes, {steady['observed_transactions']:.0f} transactions): median "
        f"{steady['delay']['median'] * 1e3:.3f} ms, 90% {steady['delay']['p90'] * 1e3:.3f} ms, 99% "
        f"{steady['delay']['p99'] * 1e3:.3f} ms, most {steady['delay']['max'] * 1e3:.3f} ms; {steady['delay']['overtaken']} overtaken"])
