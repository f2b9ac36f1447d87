#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What a first sync from an API server costs, beside curl that downloads the same bytes.

    tests/bench/first_sync.py [--build FOLDER] [--services N] [--endpoints N] [--rounds N] [--json]

A daemon with nothing in the kernel starts against first_sync_server.py (HTTP/2 over TLS) and is
measured until its table is in force: from its start to that line of its log, with its CPU time and
its peak memory up to then. Beside it curl downloads the same bytes, over one connection too, and throws
them away. Once with streamed lists, once with pages, which come compressed as from a real server.
Daemon and curl take turns; medians are printed, with the lowest and the highest. --json prints one
JSON object a line instead.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests/apiserver"))
import first_sync_objects  # noqa: E402
import harness  # noqa: E402
import pki  # noqa: E402

LISTED = ("/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices")
STREAM = {"watch": "true", "allowWatchBookmarks": "true", "sendInitialEvents": "true",
          "resourceVersionMatch": "NotOlderThan", "finish": "1"}
TIMEOUT = 300  # of one run of the daemon, seconds
MIB = 1024 * 1024


def cpu_seconds(pid):
    """What a process has used, by its CPU clock (clock_getcpuclockid)."""
    return time.clock_gettime((~pid << 3) | 2)


def peak_memory(pid):
    """In MiB."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) / 1024


@contextlib.contextmanager
def serving(services, endpoints, certs):
    """Starts the server in a process of its own; gives its port and its pid."""
    command = [sys.executable, pathlib.Path(__file__).with_name("first_sync_server.py"),
               str(services), str(endpoints), certs]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = server.stdout.readline().strip()
            if not port:
                sys.exit("first_sync: the server did not start")
            yield int(port), server.pid
        finally:
            server.kill()


def wait_in_force(daemon, services):
    """Reads the log until the table of IPv4 holds all services. Returns the lines."""
    lines = []
    signal.alarm(TIMEOUT)
    for line in daemon.stderr:
        lines.append(line)
        if f"family=IPv4 in force frontends={services} " in line:
            signal.alarm(0)
            return lines
    sys.exit("first_sync: the daemon ended:\n" + "".join(lines))


def run_daemon(binary, kubeconfig, services):
    """Seconds, CPU seconds and peak MiB of one first sync."""
    start = time.monotonic()
    daemon = subprocess.Popen(
        [binary, "--kubeconfig", kubeconfig, "--hostname-override", "node-1",
         "--healthz-bind-address", harness.HEALTHZ, "--conntrack-max-per-core", "0"],
        stderr=subprocess.PIPE, text=True)
    try:
        wait_in_force(daemon, services)
        seconds = time.monotonic() - start
        return {"seconds": seconds, "cpu": cpu_seconds(daemon.pid),
                "peak": peak_memory(daemon.pid)}
    finally:
        daemon.kill()
        daemon.communicate()
        subprocess.run([binary, "--cleanup"], check=True, capture_output=True)


def run_curl(port, certs, targets):
    """The same of curl, and the bytes."""
    command = ["curl", "-sS", "--fail", "--cacert", certs / "ca.crt", "--compressed",
               "--write-out", "%{size_download} %{http_version}\n"]
    for target in targets:
        command += [f"https://127.0.0.1:{port}{target}", "--output", "/dev/null"]
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as curl:
        written = curl.stdout.read()
        _, status, usage = os.wait4(curl.pid, 0)
        curl.returncode = status
    seconds = time.monotonic() - start
    rows = [line.split() for line in written.splitlines()]
    if status or len(rows) != len(targets) or {version for _, version in rows} != {"2"}:
        sys.exit(f"first_sync: curl ended with status {status}: {written}")
    return {"seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss / 1024,
            "bytes": sum(int(size) for size, _ in rows)}


def targets_of(mode, services):
    if mode == "stream":
        return [f"/stream{path}?{urllib.parse.urlencode(STREAM)}" for path in LISTED]
    return [f"/pages{path}?limit={first_sync_objects.PAGE}&continue={start}" for path in LISTED
            for start in range(0, services, first_sync_objects.PAGE)]


def spread(runs, key):
    values = sorted(run[key] for run in runs)
    return {"median": statistics.median(values), "low": values[0], "high": values[-1]}


def measure(mode, port, server, certs, options, binary):
    """All rounds of one way to list; one dictionary of figures."""
    kubeconfig = pki.write_kubeconfig(certs / f"{mode}.kubeconfig",
                                      f"https://127.0.0.1:{port}/{mode}",
                                      {"certificate-authority": certs / "ca.crt"},
                                      {"token": "a-token"})
    daemons, curls = [], []
    for _ in range(options.rounds):
        before = cpu_seconds(server)
        curls.append(run_curl(port, certs, targets_of(mode, options.services)))
        curls[-1]["server"] = cpu_seconds(server) - before
        daemons.append(run_daemon(binary, kubeconfig, options.services))
    both = [{key: daemon[key] / curl[key] for key in ("seconds", "cpu")}
            for daemon, curl in zip(daemons, curls)]
    return {"mode": mode, "services": options.services, "endpoints": options.endpoints,
            "rounds": options.rounds, "bytes": curls[0]["bytes"],
            **{f"{name}_{key}": spread(runs, key)
               for name, runs in (("daemon", daemons), ("curl", curls))
               for key in ("seconds", "cpu", "peak")},
            "server_cpu": spread(curls, "server"),
            "ratio_seconds": spread(both, "seconds"), "ratio_cpu": spread(both, "cpu")}


def text_of(figures):
    def show(key, unit, digits=2):
        value = figures[key]
        return (f"{value['median']:.{digits}f}{unit} "
                f"({value['low']:.{digits}f} to {value['high']:.{digits}f})")
    return "\n".join([
        f"first sync by {figures['mode']}: {figures['services']} services x "
        f"{figures['endpoints']} endpoints, {figures['bytes'] / MIB:.1f} MiB of bodies over HTTP/2, "
        f"{figures['rounds']} rounds",
        f"daemon, start to table in force: {show('daemon_seconds', ' s')}, "
        f"CPU {show('daemon_cpu', ' s')}, peak {show('daemon_peak', ' MiB', 1)}",
        f"curl, the same bytes:            {show('curl_seconds', ' s')}, "
        f"CPU {show('curl_cpu', ' s')}, peak {show('curl_peak', ' MiB', 1)}; "
        f"the server's CPU {show('server_cpu', ' s')}",
        f"ratios to curl:                  {show('ratio_seconds', '')}, "
        f"CPU {show('ratio_cpu', '')}"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=REPO / "build")
    parser.add_argument("--services", type=int, default=10000)
    parser.add_argument("--endpoints", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    binary = options.build.resolve() / "kube-nftd"
    with tempfile.TemporaryDirectory(prefix="kube-nftd-bench-") as name, harness.own_network():
        certs = pki.make(pathlib.Path(name) / "certs")
        with serving(options.services, options.endpoints, certs) as (port, server):
            for mode in ("stream", "pages"):
                figures = measure(mode, port, server, certs, options, binary)
                print(json.dumps(figures) if options.json else text_of(figures) + "\n", flush=True)


main()
