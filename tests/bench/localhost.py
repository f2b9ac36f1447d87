# SPDX-License-Identifier: GPL-2.0-or-later
"""What TCP NodePorts on 127.0.0.1 cost the daemon, beside other programs that pass TCP connections on: socat and
haproxy (from $PATH, or named in SOCAT and HAPROXY; which are missing is said).

A client and the programs in one namespace, one endpoint in another, a veth pair between them. In each round each
program passes on the same bytes, and the same number of connections with one byte each way; its CPU seconds count,
with those of its children and of the kernel in its system calls.
"""

import contextlib
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import time

import bulk
import process
import subjects  # noqa: F401 for the path to the next one
from results import MIB, ratios, show, spread, table

import lab
import objects

TITLE = "NodePorts on loopback addresses"
ROUNDS, QUICK_ROUNDS = 7, 1
BYTES, QUICK_BYTES = 1024 * MIB, MIB
STREAMS = 4  # at a time, which share the bytes
CONNECTIONS, QUICK_CONNECTIONS = 3000, 20
NODE, POD = "192.0.2.1", "192.0.2.2"
SINK, ANSWER = 8080, 8081  # ports of the endpoint
OURS = "kube-nftd"
GATE = "KubeProxyNFTablesLocalhostNodePorts=true"

HAPROXY = """
global
    nbthread 1
    maxconn 4000
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    {splice}
listen sink
    bind 127.0.0.1:{sink}
    server pod {pod}:{to_sink}
listen answer
    bind 127.0.0.1:{answer}
    server pod {pod}:{to_answer}
"""


# ---- the endpoint ---------------------------------------------------------------------------------


def answer(connection):
    connection.send(connection.recv(1))
    connection.close()


def be_endpoint():
    sinks, answers = (socket.create_server((POD, port), backlog=1024) for port in (SINK, ANSWER))
    bulk.serve_sinks(sinks, STREAMS)
    print("ready", flush=True)
    bulk.accept(answers, answer)


# ---- the programs ---------------------------------------------------------------------------------


class Program:
    """One that passes connections to 127.0.0.1 on; .ports are those for sink and answer."""

    def __init__(self, name, node, ports, *commands):
        self.name, self.ports = name, ports
        self.processes = [node.start([str(word) for word in command], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for command in commands]

    def close(self):
        for each in self.processes:
            each.kill()
            each.wait()

    def cpu(self):
        """With its children that have ended, to the hundredth of a second."""
        ticks = os.sysconf("SC_CLK_TCK")
        total = 0
        for each in self.processes:
            fields = pathlib.Path(f"/proc/{each.pid}/stat").read_text().rpartition(")")[2].split()
            total += process.cpu_seconds(each.pid) + (int(fields[13]) + int(fields[14])) / ticks
        return total


def kube_nftd(node, folder, build):
    """Its manifests have a Service for each of the two ports."""
    ports = {SINK: 30080, ANSWER: 30081}
    held = []
    for number, (port, node_port) in enumerate(ports.items(), 1):
        name = f"web-{number}"
        web = objects.service(name, {4: f"10.96.0.{number}"}, [objects.Port("tcp", "TCP", 80)], type="NodePort")
        web["spec"]["ports"][0]["nodePort"] = node_port
        held += [web, objects.endpoint_slice(name, name, 4, [objects.Port("tcp", "TCP", port)],
                                             [objects.endpoint(POD)])]
    objects.Manifests(folder / "manifests").put("objects", *held)
    return Program(OURS, node, list(ports.values()), [
        build / "kube-nftd", "--manifests", folder / "manifests", "--hostname-override", "node-1",
        "--feature-gates", GATE, "--nodeport-addresses", "localhost", "--audit-period", "0s",
        "--conntrack-max-per-core", "0"])


def haproxy(node, folder, binary, ports, splice):
    name = "haproxy, splice" if splice else "haproxy"
    file = folder / f"haproxy-{ports[0]}.cfg"
    file.write_text(HAPROXY.format(sink=ports[0], answer=ports[1], pod=POD, to_sink=SINK, to_answer=ANSWER,
                                   splice="option splice-auto" if splice else ""))
    return Program(name, node, ports, [binary, "-db", "-f", file])


def socat(node, binary, ports):
    commands = [[binary, f"TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr,backlog=1024", f"TCP:{POD}:{to}"]
                for port, to in zip(ports, (SINK, ANSWER))]
    return Program("socat", node, ports, *commands)


def start(node, folder, build, missing):
    """All programs that are there."""
    found = {name: os.environ.get(name.upper()) or shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
             for name in ("socat", "haproxy")}
    missing += [name for name, path in found.items() if not path]
    programs = [kube_nftd(node, folder, build)]
    if found["socat"]:
        programs.append(socat(node, found["socat"], [31080, 31081]))
    if found["haproxy"]:
        programs.append(haproxy(node, folder, found["haproxy"], [32080, 32081], False))
        programs.append(haproxy(node, folder, found["haproxy"], [33080, 33081], True))
    return programs


# ---- the client -----------------------------------------------------------------------------------


def connect(node, port):
    with node.inside():
        return socket.create_connection(("127.0.0.1", port), 60)


def wait_ready(node, program):
    for port in program.ports:
        for _ in range(500):
            with contextlib.suppress(ConnectionRefusedError):
                connect(node, port).close()
                break
            time.sleep(0.02)
        else:
            raise SystemExit(f"bench: {program.name} does not listen")


def send_bytes(node, program, size):
    bulk.send(lambda: connect(node, program.ports[0]), size, STREAMS)


def make_connections(node, program, n):
    with node.inside():
        for _ in range(n):
            with socket.create_connection(("127.0.0.1", program.ports[1]), 60) as sock:
                sock.send(b"?")
                if sock.recv(1) != b"?" or sock.recv(1):
                    raise SystemExit("bench: a connection was not passed on")


def per_cpu_second(program, amount, work):
    before = program.cpu()
    work()
    time.sleep(0.1)  # children end
    return amount / max(program.cpu() - before, 1e-9)


# ---- the figures ----------------------------------------------------------------------------------


def measure(options):
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    size = QUICK_BYTES if options.quick else BYTES
    n = QUICK_CONNECTIONS if options.quick else CONNECTIONS
    order, missing, found = random.Random(1), [], {}
    node, pod = lab.Namespace(), lab.Namespace()
    node.connect("pod", pod, "eth0")
    node.ip(f"addr add {NODE}/24 dev pod")
    pod.ip(f"addr add {POD}/24 dev eth0")
    endpoint = pod.start([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
    with options.folder() as folder:
        programs = start(node, folder, options.build, missing)
        try:
            assert endpoint.stdout.readline() == "ready\n"
            for program in programs:
                wait_ready(node, program)
            for _ in range(rounds):
                for program in order.sample(programs, len(programs)):
                    figures = found.setdefault(program.name, {"bytes": [], "connections": []})
                    figures["bytes"].append(per_cpu_second(
                        program, size, lambda of=program: send_bytes(node, of, size)))
                    figures["connections"].append(per_cpu_second(
                        program, n, lambda of=program: make_connections(node, of, n)))
        finally:
            for program in programs:
                program.close()
            endpoint.kill()
            endpoint.communicate()
            node.close()
            pod.close()
    return {"bytes": size, "connections": n, "missing": missing, "rows": [
        {"name": program.name, **{kind: {
            "each": spread(found[program.name][kind]),
            "ratio": ratios(found[OURS][kind], found[program.name][kind])} for kind in ("bytes", "connections")}}
        for program in programs]}  # fmt: skip


def text(figures):
    rows = [[row["name"], show(row["bytes"]["each"], scale=1 / MIB, digits=0), show(row["bytes"]["ratio"]),
             show(row["connections"]["each"], digits=0), show(row["connections"]["ratio"])] for row in figures["rows"]]
    head = ["per CPU second", "MiB", OURS + " is", "connections", OURS + " is"]
    note = "".join(f"\nnot there: {name}" for name in figures["missing"])
    return table(head, rows) + note


if __name__ == "__main__":
    be_endpoint()
