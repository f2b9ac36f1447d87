# SPDX-License-Identifier: GPL-2.0-or-later
"""What the table costs packets: CPU time of a new connection, and of a packet of a known one, to a service and to
an address that is no service's.

A client and a backend, and between them nodes, each with a table of its own:

    client ---- node 0 ---- backend        forwards; no table, no conntrack
           ---- node 1 ----                conntrack and NAT, without any rule
           ---- node 2 ----                one rule that translates one address
           ---- node 3 ----                kube-nftd with 10 services, 10,000, 50,000, with connections counted, and
                                           with a flowtable, where the kernel has them

bench_send on one CPU sends UDP packets through one of them; the kernel takes them the whole way, to the chain
that drops them in front of the backend, before the send returns, so the sender's CPU time holds all of it.
For new connections each packet has a source address and port that conntrack does not know; for known ones 200
flows were answered before. What is compared differs by a few percent, and a machine by more than that from one second
to the next. So it goes in short bursts, of some milliseconds: in each of many rounds each node gets one, in an order
made by lot, and is compared within the round. What sending alone takes (packets that the node drops as somebody
else's) is subtracted in "beyond sending".
"""

import contextlib
import json
import os
import random
import re
import socket
import struct
import subprocess
import tempfile
import time

import cluster
import process
import subjects  # noqa: F401 for the path to the next one
from cluster import Size
from results import quartiles, show, table
from subjects import harness

import lab

TITLE = "Packet path"
ENDPOINTS = 10  # of each service of kube-nftd
CHAIN_ENDPOINTS = 2  # of each service in a chain: ten of 10,000 are more jumps than the kernel allows
SPREAD = 10  # services that are called, unless all are
FLOWS = 200  # known ones
SERVICES, QUICK_SERVICES = (10, 10000, 50000), (10, 100)
COUNTED = {False: 10000, True: 100}  # services, without and with --quick
CHAIN_SERVICES, QUICK_CHAIN_SERVICES = (10, 10000), (10,)
BURST = 1000  # packets
ROUNDS, QUICK_ROUNDS = 120, 2
FLUSH = 10  # rounds until conntrack is emptied, which takes longer than a burst
NOBODY = "02:00:00:00:00:99"
IPCTNL_DELETE = 1 << 8 | 2
SENDING = "sending"
PLAIN = "forwarding"
TRACKING = "conntrack, no rule"
FIXED = "one fixed rule"
FLOWTABLE = "kube-nftd, known connections in a flowtable"
EVERYTHING = "everything in use"  # kube-nftd, with services of all kinds beside those that are called

# The rule that nobody gets to switches conntrack on.
NO_RULE = """
table ip nothing {
    chain prerouting {
        type nat hook prerouting priority dstnat;
    }
    chain unused {
        dnat to 11.0.0.0
    }
}
"""

FIXED_RULE = """
table ip fixed {
    chain prerouting {
        type nat hook prerouting priority dstnat;
        ip daddr 10.0.0.1 udp dport 80 dnat to 11.0.0.0:8080
    }
}
"""

# The chains around those of the services, as kube-proxy's nftables mode has them (without a detector of local
# traffic, so that cluster IPs are not masqueraded, as in the table it is measured beside).
CHAINS = """
table ip chains {
    map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
    map service-nodeports { type inet_proto . inet_service : verdict; }
    map no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict; }
    map firewall-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
    set cluster-ips { type ipv4_addr; }
    set nodeport-ips { type ipv4_addr; elements = { 192.0.2.1 } }
    chain mark-for-masquerade { meta mark set meta mark or 0x4000; }
    chain masquerading {
        meta mark & 0x4000 == 0 return
        meta mark set meta mark ^ 0x4000
        masquerade fully-random
    }
    chain services {
        ip daddr . meta l4proto . th dport vmap @service-ips
        ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
    }
    chain firewall-check { ip daddr . meta l4proto . th dport vmap @firewall-ips; }
    chain service-endpoints-check { ip daddr . meta l4proto . th dport vmap @no-endpoint-services; }
    chain cluster-ips-check {
        ip daddr @cluster-ips reject
        ip daddr 10.0.0.0/8 drop
    }
    chain filter-prerouting-pre-dnat {
        type filter hook prerouting priority -110;
        ct state new jump firewall-check
    }
    chain nat-prerouting { type nat hook prerouting priority -100; jump services; }
    chain filter-input { type filter hook input priority 0; ct state new jump service-endpoints-check; }
    chain filter-forward {
        type filter hook forward priority 0;
        ct state new jump service-endpoints-check
        ct state new jump cluster-ips-check
    }
    chain nat-postrouting { type nat hook postrouting priority 100; jump masquerading; }
"""

# Counts what gets to the backend, which does not see it.
DROP = """
table ip dropped {
    chain prerouting {
        type filter hook prerouting priority -300;
        udp dport 8080 counter drop
    }
}
"""
COUNT = """
table ip counted {
    chain prerouting {
        type filter hook prerouting priority -300;
        udp sport { 80, 8080 } counter drop
    }
}
"""


def chain_table(services):
    """A table with a chain for each service and each endpoint, for nft -f."""
    yield CHAINS
    for i in range(services):
        ends = [i * CHAIN_ENDPOINTS + e for e in range(CHAIN_ENDPOINTS)]
        for end in ends:
            address = cluster.address(11, end)
            yield (f"chain endpoint-{end} {{\nip saddr {address} jump mark-for-masquerade\n"
                   f"meta l4proto udp dnat to {address}:8080\n}}\n")
        picks = ", ".join(f"{place} : goto endpoint-{end}" for place, end in enumerate(ends))
        yield f"chain service-{i} {{\nnumgen random mod {CHAIN_ENDPOINTS} vmap {{ {picks} }}\n}}\n"
    yield "}\n"
    ips = [cluster.address(10, i + 1) for i in range(services)]
    yield f"add element ip chains cluster-ips {{ {', '.join(ips)} }}\n"
    elements = ", ".join(f"{ip} . udp . 80 : goto service-{i}" for i, ip in enumerate(ips))
    yield f"add element ip chains service-ips {{ {elements} }}\n"


class Node:
    """A node between the client and the backend. @kind is what the figures call it."""

    def __init__(self, number, kind, client, backend):
        self.number, self.kind = number, kind
        self.namespace = lab.Namespace()
        self.network = f"172.{16 + number}.0.0/16"
        self.mac = f"02:00:00:00:01:{number:02x}"
        back = f"02:00:00:00:02:{number:02x}"
        near, far = f"client{number}", f"backend{number}"
        self.interface = f"node{number}"
        self.namespace.connect(near, client, self.interface)
        self.namespace.connect(far, backend, self.interface)
        self.namespace.sysctl({"ipv4.ip_forward": 1, "ipv4.conf.all.rp_filter": 0,
                               "ipv4.conf.default.rp_filter": 0, f"ipv4.conf.{near}.rp_filter": 0,
                               f"ipv4.conf.{far}.rp_filter": 0})
        self.namespace.ip(f"link set {near} address {self.mac}",  # another one forgets neighbours
                          f"link set {far} address {back}",
                          f"addr add 192.0.2.1/32 dev {near}",
                          f"route add {self.network} via 192.0.2.2 dev {near} onlink",
                          f"neigh add 192.0.2.2 lladdr 02:00:00:00:03:00 dev {near} nud permanent",
                          f"route add 11.0.0.0/8 via 192.0.2.3 dev {far} onlink",
                          f"neigh add 192.0.2.3 lladdr 02:00:00:00:04:00 dev {far} nud permanent")
        client.ip(f"link set {self.interface} address 02:00:00:00:03:00")
        backend.ip(f"link set {self.interface} address 02:00:00:00:04:00",
                   f"route add {self.network} via 192.0.2.1 dev {self.interface} onlink",
                   f"neigh add 192.0.2.1 lladdr {back} dev {self.interface} nud permanent")
        backend.sysctl({f"ipv4.conf.{self.interface}.rp_filter": 0})
        with self.namespace.inside():
            self.netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
        self.destinations = 1  # services that are called
        self.has_services = True
        self.loading = None  # seconds that nft -f took

    def load(self, text):
        """Has nft load a table."""
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            start = time.monotonic()
            self.namespace.run("nft", "-f", file.name)
            self.loading = time.monotonic() - start

    def aim(self, at_service):
        """Address, port and number of addresses that packets go to."""
        if at_service and self.has_services:
            return "10.0.0.1", 80, self.destinations
        return "11.0.0.0", 8080, SPREAD

    def flush(self):
        """Deletes all that conntrack knows here."""
        self.netlink.send(struct.pack("=IHHIIBBH", 20, IPCTNL_DELETE, 5, 1, 0, 0, 0, 0))
        reply = self.netlink.recv(4096)
        code, = struct.unpack_from("=i", reply, 16)
        assert code == 0, os.strerror(-code)


def counter(namespace, name):
    listing = json.loads(namespace.run("nft", "-j", "list", "table", "ip", name).stdout)
    [rule] = [item["rule"] for item in listing["nftables"] if "rule" in item]
    [count] = [part["counter"]["packets"] for part in rule["expr"] if "counter" in part]
    return count


class Path:
    """The client, the backend and the nodes between them."""

    def __init__(self, options):
        self.client, self.backend = lab.Namespace(), lab.Namespace()
        self.client.run("nft", "-f", "-", stdin=COUNT)
        self.client.sysctl({"ipv4.conf.all.rp_filter": 0, "ipv4.conf.default.rp_filter": 0})
        self.backend.sysctl({"ipv4.conf.all.rp_filter": 0, "ipv4.conf.default.rp_filter": 0})
        self.backend.ip("route add local 11.0.0.0/8 dev lo")
        self.server = lab.Server(self.backend, "backend", (8080,))
        self.server.wait_ready()
        self.nodes = []
        processor = max(os.sched_getaffinity(0))
        self.helper = process.ksoftirqd(processor)
        with self.client.inside():
            self.sender = subprocess.Popen(
                [options.build / "tests/bench_send"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                preexec_fn=lambda: os.sched_setaffinity(0, {processor}))

    def close(self):
        self.sender.kill()
        self.sender.communicate()
        self.server.stop()
        for node in self.nodes:
            node.netlink.close()
            node.namespace.close()
        self.client.close()
        self.backend.close()

    def add(self, kind):
        self.nodes.append(Node(len(self.nodes), kind, self.client, self.backend))
        return self.nodes[-1]

    def send(self, node, at_service, flows, packets, mac=None, client=0):
        """CPU nanoseconds of one of @packets through @node, from client number @client."""
        source = node.network.replace("0.0/16", f"1.{client}")
        before = process.running_time(self.helper)
        print(node.interface, mac or node.mac, source, *node.aim(at_service), flows, packets,
              file=self.sender.stdin, flush=True)
        answer = self.sender.stdout.readline()
        if not answer:
            raise SystemExit("bench: bench_send ended")
        return (json.loads(answer)["cpu"] + process.running_time(self.helper) - before) / packets

    def check(self, node, at_service, flows, packets):
        """Sends, and ends the bench if not all of it arrives."""
        before = counter(self.backend, "dropped")
        self.send(node, at_service, flows, packets)
        arrived = counter(self.backend, "dropped") - before
        if arrived != packets:
            raise SystemExit(f"bench: of {packets} packets through '{node.kind}' {arrived} arrived")

    def drop(self, on):
        if on:
            self.backend.run("nft", "-f", "-", stdin=DROP)
        else:
            self.backend.run("nft", "delete table ip dropped")

    def establish(self, node, at_service):
        """Has the flows answered."""
        before = counter(self.client, "counted")
        for _ in range(20):
            self.send(node, at_service, FLOWS, FLOWS)
            time.sleep(0.05)
            if counter(self.client, "counted") - before >= FLOWS:
                return
        raise SystemExit(f"bench: flows through '{node.kind}' were not answered")

    def flush(self, is_due):
        if is_due:
            for node in self.nodes:
                node.flush()

    def bursts(self, at_service, known, rounds):
        """[of each round {kind: nanoseconds of a packet}]"""
        flows, order, client, found = FLOWS if known else BURST, random.Random(1), 0, []
        if known:
            for node in self.nodes:
                self.establish(node, at_service)
        self.drop(True)
        for node in self.nodes:
            self.check(node, at_service, flows, BURST)
        before = counter(self.backend, "dropped")
        for place in range(rounds):
            if not known:
                client = 1 + place % FLUSH
                self.flush(place % FLUSH == 0)
            values = {node.kind: 0 for node in self.nodes}  # in this order
            values[SENDING] = self.send(self.nodes[0], at_service, flows, BURST, mac=NOBODY)
            for node in order.sample(self.nodes, len(self.nodes)):
                values[node.kind] = self.send(node, at_service, flows, BURST, client=client)
            found.append(values)
        arrived, sent = counter(self.backend, "dropped") - before, rounds * BURST * len(self.nodes)
        if arrived != sent:
            raise SystemExit(f"bench: of {sent} packets {arrived} arrived")
        self.drop(False)
        self.flush(True)
        return found


def has_flowtables(options):
    """Whether this kernel has, as kube-nftd sees it."""
    said = subprocess.run([options.build / "kube-nftd", "preflight"], capture_output=True, text=True, check=False)
    return re.search(r"^IPv4 .*flowtables.* ok$", said.stdout, re.MULTILINE) is not None


def make_nodes(path, options):
    path.add(PLAIN).has_services = False
    tracking = path.add(TRACKING)
    tracking.load(NO_RULE)
    tracking.has_services = False
    path.add(FIXED).load(FIXED_RULE)
    for services in QUICK_SERVICES if options.quick else SERVICES:
        node = path.add(f"kube-nftd, {services:,} services")
        program(node, services, options)
        node.destinations = SPREAD
    node = path.add(f"kube-nftd, {services:,} services, all called")
    program(node, services, options)
    node.destinations = services
    for counted in ("services", "endpoints"):
        node = path.add(f"kube-nftd, {COUNTED[options.quick]:,} services, connections to {counted} counted")
        program(node, COUNTED[options.quick], options, flags=("--count-connections", counted))
        node.destinations = SPREAD
    node = path.add(f"kube-nftd, {EVERYTHING}")
    program(node, SPREAD, options, everything=True)
    node.destinations = SPREAD
    if has_flowtables(options):
        node = path.add(FLOWTABLE)
        program(node, SPREAD, options, flags=("--flowtable-devices", "client*,backend*"))
        node.destinations = SPREAD
    for services in QUICK_CHAIN_SERVICES if options.quick else CHAIN_SERVICES:
        node = path.add(f"chains, {services:,} services")
        node.load("".join(chain_table(services)))
        node.destinations = SPREAD


def has_devices(node):
    return "devices = " in node.namespace.run("nft", "list", "flowtables").stdout


def program(node, services, options, everything=False, flags=(), protocol="UDP"):
    """Has the daemon make the table, and ends it: the table stays."""
    with options.folder() as folder, node.namespace.inside():
        manifest = folder / "objects.json"
        cluster.write_manifest(manifest, Size(services, ENDPOINTS), protocol=protocol,
                               others=cluster.services_of_all_kinds() if everything else ())
        frontends = services + (cluster.FRONTENDS_OF_ALL_KINDS if everything else 0)
        daemon = subjects.Daemon(options.build, ["--manifests", manifest, *flags], frontends)
        while "--flowtable-devices" in flags and not has_devices(node):
            time.sleep(0.05)
        daemon.stop()


# What is sent: by which name the figures have it, whether to services, whether of known connections.
WAYS = {"new": ("a new connection to a service", True, False),
        "known": ("a packet of a known one", True, True),
        "new_other": ("a new connection that is no service's", False, False),
        "known_other": ("a packet of a known one", False, True)}


def compare(rounds, base):
    """Nanoseconds of each kind, and ratios to that of the name @base in the same round."""
    rows = {}
    for kind in rounds[0]:
        row = {"ns": quartiles([values[kind] for values in rounds]),
               "ratio": quartiles([values[kind] / values[base] for values in rounds])}
        if kind != SENDING:
            row["ratio_beyond_sending"] = quartiles(
                [(values[kind] - values[SENDING]) / (values[base] - values[SENDING]) for values in rounds])
        rows[kind] = row
    return rows


def flatness(rounds):
    """kube-nftd with many services against 10, in the same round."""
    few, *many = [kind for kind in rounds[0] if kind.startswith("kube-nftd")]
    return {kind: quartiles([values[kind] / values[few] for values in rounds]) for kind in many}


def measure(options):
    figures = {"rounds": options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS), "flat": {}}
    with contextlib.ExitStack() as stack:
        stack.enter_context(harness.own_network())
        path = stack.enter_context(contextlib.closing(Path(options)))
        make_nodes(path, options)
        for name, (_, at_service, known) in WAYS.items():
            rounds = path.bursts(at_service, known, figures["rounds"])
            figures[name] = compare(rounds, FIXED if at_service else TRACKING)
            figures["flat"][name] = flatness(rounds)
        figures["loading"] = {node.kind: node.loading for node in path.nodes if node.loading}
    return figures


def text(figures):
    def lines(rows):
        return [[kind, show(row["ns"], digits=0), show(row["ratio"]),
                 show(row["ratio_beyond_sending"]) if "ratio_beyond_sending" in row else "-"]
                for kind, row in rows.items()]
    tables = [table([what, "CPU ns", f"to '{FIXED if at_service else TRACKING}'", "beyond sending"],
                    lines(figures[name]))
              for name, (what, at_service, _) in WAYS.items()]
    new, known = figures["flat"]["new"], figures["flat"]["known"]
    flat = table(["to 10 services", "a new connection", "a packet of a known one"],
                 [[kind, show(value, digits=3), show(known[kind], digits=3)] for kind, value in new.items()])
    loading = ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in figures["loading"].items())
    return "\n\n".join([f"{figures['rounds']} rounds; median (first to third quartile)", *tables, flat,
                        f"Loaded by nft -f: {loading}"])
