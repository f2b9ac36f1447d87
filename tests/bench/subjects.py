# SPDX-License-Identifier: GPL-2.0-or-later
"""What is measured, started and ended: the daemon, the server that it reads from, the pipeline alone."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.request

import cluster
import process

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "apiserver"), str(HERE.parent / "netns")]
import exposition  # noqa: E402
import harness  # noqa: E402
import pki  # noqa: E402
from encoding import Protobuf  # noqa: E402

TIMEOUT = 300  # until a table is in force, seconds


class Server:
    """api_server.py with a cluster of @size; @certs as pki.make() makes them, @options are its own."""

    def __init__(self, size, certs, *options):
        self.certs = certs
        self.process = subprocess.Popen(
            [sys.executable, HERE / "api_server.py", *map(str, size), certs, *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        told = self.process.stdout.readline().split()
        if not told:
            sys.exit("bench: the API server did not start")
        port, self.events, self._in_json, self._in_protobuf = map(int, told)
        self.url = f"https://127.0.0.1:{port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    @property
    def pid(self):
        return self.process.pid

    def bytes(self, encoding):
        """Of all events of the first Services and EndpointSlices, without those that mark the end."""
        return self._in_protobuf if encoding == "protobuf" else self._in_json

    def source(self, mode, encoding="protobuf"):
        """The daemon's flags that make it read from here; @mode: "stream", "events", "unfinished" or "pages"."""
        kubeconfig = pki.write_kubeconfig(self.certs / f"{encoding}-{mode}.kubeconfig", f"{self.url}/{encoding}/{mode}",
                                          {"certificate-authority": self.certs / "ca.crt"},
                                          {"token": "a-token"})
        return ["--kubeconfig", kubeconfig]

    def order(self, *words):
        """Has it send events (api_server.py says which)."""
        print(*words, file=self.process.stdin, flush=True)

    def sent(self):
        """Waits for the end of the order. When each event was sent."""
        return json.loads(self.process.stdout.readline())


class Daemon:
    """kube-nftd, with nothing in the kernel before; ended, it leaves nothing there. .seconds is the time
    from its start until its log says that the table is in force. @prefix goes before the command."""

    def __init__(self, build, source, services, prefix=()):
        self.binary = build / "kube-nftd"
        self.prefix = prefix
        start = time.monotonic()
        self.process = subprocess.Popen(
            [*prefix, self.binary, *source, "--hostname-override", "node-1",
             "--healthz-bind-address", harness.HEALTHZ, "--conntrack-max-per-core", "0"],
            stderr=subprocess.PIPE, text=True)
        try:
            self._wait_in_force(services)
        except BaseException:
            self.stop()
            raise
        self.seconds = time.monotonic() - start
        self.cpu = process.cpu_seconds(self.pid)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        if not self.prefix:  # else the namespace is gone
            subprocess.run([self.binary, "--cleanup"], check=True, capture_output=True)

    def stop(self):
        self.process.kill()
        self.process.communicate()

    @property
    def pid(self):
        return self.process.pid

    def _wait_in_force(self, services):
        lines = []
        signal.alarm(TIMEOUT)
        for line in self.process.stderr:
            lines.append(line)
            if f"family=IPv4 applied frontends={services} " in line:
                signal.alarm(0)
                return
        sys.exit("bench: the daemon ended:\n" + "".join(lines))

    @staticmethod
    def metrics():
        """{name: the sum over all labels} of what the daemon in this network counts."""
        with urllib.request.urlopen(f"http://{harness.METRICS}/metrics", timeout=20) as page:
            families = exposition.parse(page.read().decode())
        return {name: sum(family.samples.values()) for name, family in families.items()
                if family.type == "counter"}


class Pipeline:
    """bench_events: the daemon's pipeline in one process, without a network. Events are lines of a watch in JSON.
    @alone: without the bare transactions. @prefix goes before the command."""

    def __init__(self, build, size, encoding="json", alone=False, prefix=()):
        self.in_protobuf = encoding == "protobuf"
        command = [*prefix, build / "tests/bench_events", encoding, *["alone"] * alone]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for resource in cluster.KINDS:
            for line in cluster.initial_events(resource, size):
                self.add("", resource, line)
        self.first = self._ask("program")["program"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def _ask(self, word):
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit("bench: bench_events ended")
        return json.loads(answer)

    def bare_programming(self):
        """What the kernel takes for the first contents, sent once more: seconds, CPU seconds."""
        return self._ask("replay")["replay"]

    def add(self, label, resource, event):
        """An event to be played; without a label, of the first contents. Returns its bytes."""
        size = len(event)
        if self.in_protobuf:
            decoded = json.loads(event)
            data = Protobuf.event(decoded["type"], decoded["object"])
            event, size = f"{data.hex()}\n", len(data)
        self.process.stdin.write(f"{label}\t{resource}\t{event}")
        return size

    def play(self):
        """Plays what was added, and waits for it."""
        self._ask("play")

    def end(self):
        """{label: {figure: [of each event]}}"""
        output, _ = self.process.communicate()
        series = [json.loads(line) for line in output.splitlines()]
        if self.process.returncode:
            sys.exit("bench: bench_events failed")
        return {each.pop("label"): each for each in series}


def commit_of(repository):
    done = subprocess.run(["git", "-C", repository, "describe", "--always", "--dirty"],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def load():
    return os.getloadavg()[0]
