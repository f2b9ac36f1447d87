# SPDX-License-Identifier: GPL-2.0-or-later
"""What bytes of TCP cost the whole machine that has client, node and endpoint: CPU time of a MiB through a service
port, in one connection and in several at a time.

The nodes and their tables are those of packet_path.py, for TCP. All links are veth pairs, which hand over what the
sender's kernel made: up to 64 KiB as one packet; or, in the second half of the figures, 1,500 bytes, as they come from
a network. Everything that runs is counted, so the machine must have nothing else to do; in tests/kernels it has not,
and its CPU time is the number of its instructions. Nodes take turns, in an order made by lot in each round.
"""

import contextlib
import random
import socket
import subprocess
import sys

import bulk
import packet_path
import process
import subjects  # noqa: F401 for the path to the next one
from packet_path import FIXED, FIXED_RULE, FLOWTABLE, PLAIN, SPREAD, Node, chain_table, has_flowtables, program
from results import MIB, quartiles, show, table
from subjects import harness

import lab

TITLE = "Streams"
MORE = 16  # times the bytes, without --quick
ROUNDS, QUICK_ROUNDS = 7, 2
STREAMS = (1, 16)
SERVICE = ("10.0.0.1", 80)
ENDPOINT = ("11.0.0.0", 8080)
OURS = f"kube-nftd, {SPREAD} services"
CHAINS = f"chains, {SPREAD} services"  # kube-proxy's shape
# What a packet between veths may hold, by the interfaces' gso_max_segs; bytes with --quick.
SIZES = {"packets of up to 64 KiB": (65535, 64 * MIB), "packets of 1,500 bytes": (1, 8 * MIB)}


def be_endpoint():
    bulk.serve_sinks(socket.create_server(("", ENDPOINT[1]), backlog=64), max(STREAMS))
    print("ready", flush=True)
    sys.stdin.read()


class Path:
    """Client, endpoint, and the nodes between them."""

    def __init__(self):
        self.client, self.backend = lab.Namespace(), lab.Namespace()
        self.backend.sysctl({"ipv4.conf.all.rp_filter": 0, "ipv4.conf.default.rp_filter": 0})
        self.backend.ip("route add local 11.0.0.0/8 dev lo")
        self.endpoint = self.backend.start([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                           text=True)
        assert self.endpoint.stdout.readline() == "ready\n"
        self.nodes = []

    def close(self):
        self.endpoint.communicate()
        for node in self.nodes:
            node.netlink.close()
            node.namespace.close()
        self.client.close()
        self.backend.close()

    def add(self, kind, rules=""):
        node = Node(len(self.nodes), kind, self.client, self.backend)
        self.client.ip(f"addr add {node.network.replace('0.0/16', '1.1/32')} dev {node.interface}",
                       f"neigh add 192.0.2.1 lladdr {node.mac} dev {node.interface} nud permanent",
                       f"route add default via 192.0.2.1 dev {node.interface} onlink metric {node.number + 1}")
        if rules:
            node.load(rules.replace("udp", "tcp"))
        self.nodes.append(node)
        return node

    def connect(self, node):
        with self.client.inside():
            sock = socket.socket()
        sock.settimeout(60)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, node.interface.encode())
        sock.connect(SERVICE if node.has_services else ENDPOINT)
        return sock

    def set_segments(self, most):
        for namespace in (self.client, self.backend):
            namespace.ip(*(f"link set {node.interface} gso_max_segs {most}" for node in self.nodes))

    def cost(self, node, size, streams):
        """CPU microseconds of a MiB."""
        machine = process.Machine()
        bulk.send(lambda: self.connect(node), size, streams)
        return machine.busy() * 1e6 / (size / MIB)


def make_nodes(path, options):
    path.add(PLAIN).has_services = False
    path.add(FIXED, FIXED_RULE)
    path.add(CHAINS, "".join(chain_table(SPREAD)))
    program(path.add(OURS), SPREAD, options, protocol="TCP")
    if has_flowtables(options):
        program(path.add(FLOWTABLE), SPREAD, options, protocol="TCP",
                flags=("--flowtable-devices", "client*,backend*"))


def measure(options):
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    order, rows = random.Random(1), []
    with contextlib.ExitStack() as stack:
        stack.enter_context(harness.own_network())
        path = stack.enter_context(contextlib.closing(Path()))
        make_nodes(path, options)
        for what, (segments, size) in SIZES.items():
            path.set_segments(segments)
            size *= 1 if options.quick else MORE
            for streams in STREAMS:
                found = [{node.kind: path.cost(node, size, streams)
                          for node in order.sample(path.nodes, len(path.nodes))} for _ in range(rounds)]
                rows += [{"packets": what, "streams": streams, "kind": node.kind,
                          "us": quartiles([values[node.kind] for values in found]),
                          "ratio": quartiles([values[node.kind] / values[CHAINS] for values in found])}
                         for node in path.nodes]
    return {"rounds": rounds, "rows": rows}


def text(figures):
    head = ["packets", "streams", "through", "CPU us of a MiB", f"to '{CHAINS}'"]
    rows = [[row["packets"], row["streams"], row["kind"], show(row["us"], digits=0), show(row["ratio"])]
            for row in figures["rows"]]
    return f"{figures['rounds']} rounds; median (first to third quartile)\n\n{table(head, rows)}"


if __name__ == "__main__":
    be_endpoint()
