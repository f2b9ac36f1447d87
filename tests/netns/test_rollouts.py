# SPDX-License-Identifier: GPL-2.0-or-later
"""Deployments roll over under load on two nodes, each with a kube-nftd (KEP-1669). No connection may fail.

Time is compressed, the order of things is real: new pods get ready, the old ones get the terminating condition and
go on serving; when each node has that in force and the balancer had time to see it, their processes end, and only
then the slices stop naming them. Balancer and processes are in this test: see Balancer and Pods.
"""

import collections
import contextlib
import dataclasses
import itertools
import json
import selectors
import threading

import pytest

import objects
from background import Background
from daemon import Daemon, http_get, wait_for
from echo_server import EchoServer, datagrams, listener, reply
from lab import (
    FAMILIES, NODE_ADDRESS, NODE_NAME, OTHER_NODE_ADDRESS, OTHER_NODE_NAME, Lab, Namespace, ask_on, describe,
    hail_on, on_link,
)  # fmt: skip
from scenario import fresh_addresses

ROLLOUTS = 50
CHECK_PORT = 30998
PROTOCOLS = ("TCP", "UDP")
METRICS = "127.0.0.1", 10249
VIP = {4: "203.0.113.240", 6: "2001:db8:5::f0"}
# The client's second link, to node-b.
LINK_B = "eth1"
ROUTER_B = {4: "172.20.0.1", 6: "fd00:172:20::1"}
CLIENT_B = {4: "172.20.0.10", 6: "fd00:172:20::10"}
NODES = {NODE_NAME: NODE_ADDRESS, OTHER_NODE_NAME: OTHER_NODE_ADDRESS}
LINKS = {NODE_NAME: "eth0", OTHER_NODE_NAME: LINK_B}  # by which the client reaches a node
INTERVAL = 0.015  # between new connections of a stream, in seconds
POLL = 0.02  # between two rounds of the balancer's health checks


class Pods(EchoServer, threading.Thread):
    """The processes in the pods. One that ends refuses new connections, but answers those that it was given."""

    def __init__(self, lab: Lab) -> None:
        threading.Thread.__init__(self, daemon=True)
        self.selector = selectors.DefaultSelector()
        self.lab = lab
        self.open: dict[tuple[str, int], tuple] = {}
        self.end = False

    def begin(self, pod: str, port: int) -> None:
        with self.lab.pods[pod].namespace.inside():
            sockets = listener(port), datagrams(port)
        self.open[pod, port] = sockets
        self.watch(sockets[0], self.accept, pod)
        self.watch(sockets[1], self.answer_datagram, pod)

    def finish(self, pod: str, port: int) -> None:
        """Waits until it is done: the selector's thread does it."""
        done = threading.Event()
        self.open[pod, port] += (done,)
        assert done.wait(10)

    def close_finished(self) -> None:
        for key, (accepting, answering, *done) in list(self.open.items()):
            if done:
                self.drain(key[0], accepting, answering)
                del self.open[key]
                done[0].set()

    def drain(self, name: str, accepting, answering) -> None:
        self.selector.unregister(accepting)
        self.selector.unregister(answering)
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, client = accepting.accept()
                connection.setblocking(False)
                self.watch(connection, self.answer, reply(name, client))
        for _ in range(64):
            self.answer_datagram(answering, name)
        accepting.close()
        answering.close()

    def run(self) -> None:
        while not self.end:
            for key, _ in self.selector.select(0.01):
                handler, knowledge = key.data
                handler(key.fileobj, knowledge)
            self.close_finished()


class Balancer(Background):
    """Asks each node for the service's health again and again, and gives new connections to the nodes that said
    200 in the last round; to all if none did, as balancers do."""

    def __init__(self, lab: Lab, family: int) -> None:
        super().__init__()
        self.lab = lab
        self.family = family
        self.rounds = 0
        self.seen: collections.Counter = collections.Counter()
        self.healthy = tuple(NODES)
        self._turn = itertools.count()

    def says_200(self, node: str) -> bool:
        answer = http_get(self.lab.client, NODES[node][self.family], CHECK_PORT)
        return answer is not None and answer[0] == 200

    def run(self) -> None:
        while not self.ended.wait(POLL):
            good = tuple(node for node in NODES if self.says_200(node))
            self.healthy = good or tuple(NODES)
            self.seen[good] += 1
            self.rounds += 1

    def choose(self) -> str:
        healthy = self.healthy
        return healthy[next(self._turn) % len(healthy)]

    def wait_rounds(self, number: int) -> None:
        """Until it has asked so many times more, from the first question on."""
        until = self.rounds + number + 1  # one may be half through
        wait_for(lambda: self.rounds >= until, "the balancer has asked")


class Stream(Background):
    """New connections to one address, or flows of UDP; each is asked once and nothing is tried again."""

    def __init__(self, lab: Lab, where: Namespace, address: str, protocol: str, balancer: Balancer | None) -> None:
        super().__init__()
        self.lab = lab
        self.where = where
        self.target = address, 80, protocol
        self.balancer = balancer
        self.answers: collections.Counter = collections.Counter()
        self.asked = 0
        self.bad: list[str] = []
        self.pods: set[str] = set()  # which may answer at all

    def run(self) -> None:
        while not self.ended.wait(INTERVAL):
            node = self.balancer.choose() if self.balancer else None
            answer = self.ask(node)
            self.answers[answer] += 1
            if answer not in self.pods:
                self.bad.append(f"{answer} from {self.target} by {node}")
            self.asked += 1

    def wait_turn(self) -> None:
        """Until what it was about to ask, of a node chosen before, has its answer."""
        before = self.asked
        wait_for(lambda: self.asked > before, f"{self.target} has been asked")

    def ask(self, node: str | None) -> str:
        try:
            with self.lab.open(self.where, *self.target, timeout=3, link=LINKS.get(node)) as sock:
                return ask_on(sock)
        except OSError as error:
            return describe(error)


@dataclasses.dataclass(eq=False)
class Deployment:
    name: str
    port: int  # of its pods
    generations: tuple[str, ...]  # its pods, each generation by name; neighbours share none
    surge: bool  # new pods are ready before old ones are deleted; else after, and just what terminates is there
    addresses: dict[int, str]
    spec: dict

    def service(self) -> dict:
        ports = [objects.Port(protocol.lower(), protocol, 80) for protocol in PROTOCOLS]
        service = objects.service(self.name, self.addresses, ports, **self.spec)
        if self.spec.get("type") == "LoadBalancer":
            service["status"]["loadBalancer"]["ingress"] = [{"ip": VIP[family]} for family in FAMILIES]
        return service

    def slices(self, lab: Lab, states: dict[str, str], version: str) -> list[dict]:
        ports = [objects.Port(protocol.lower(), protocol, self.port) for protocol in PROTOCOLS]
        slices = []
        for family in FAMILIES:
            pods = [(lab.pods[pod], state) for pod, state in states.items()]
            endpoints = [objects.endpoint(pod.address[family], state, pod.node_name) for pod, state in pods]
            slices.append(objects.endpoint_slice(f"{self.name}-{family}", self.name, family, ports, endpoints))
            slices[-1]["metadata"]["resourceVersion"] = version
        return slices

    def phases(self, old: str, new: str) -> list[dict[str, str]]:
        """What its slices say one after the other while @new replaces @old."""
        during = [("ready", "ready"), ("terminating", "ready")]
        if not self.surge:
            during = [("terminating", "unready"), ("terminating", "ready")]
        return [dict.fromkeys(old, was) | dict.fromkeys(new, comes) for was, comes in [("ready", "unready"), *during]]


@pytest.fixture
def two_nodes(lab):
    """The lab, where the client has a link to node-b, too, and routes to everything by it."""
    lab.client.connect(LINK_B, lab.node_b, "client")
    for family in FAMILIES:
        lab.node_b.ip(f"addr add {on_link(ROUTER_B, family)} dev client")
        lab.client.ip(f"addr add {on_link(CLIENT_B, family)} dev {LINK_B}",
                      f"route add default via {ROUTER_B[family]} dev {LINK_B} metric 9999")  # fmt: skip
    yield lab
    lab.client.ip(f"link del {LINK_B}")


def node_object(name: str) -> dict:
    node = objects.node(addresses=[("InternalIP", NODES[name][family]) for family in FAMILIES])
    node["metadata"]["name"] = name
    return node


class Cluster:
    """Two nodes with a daemon each; both follow one folder of objects."""

    def __init__(self, lab: Lab, folder) -> None:
        self.lab = lab
        self.manifests = objects.Manifests(folder / "manifests")
        self.namespaces = {NODE_NAME: lab.node, OTHER_NODE_NAME: lab.node_b}
        self.manifests.put("nodes", *map(node_object, NODES))
        self.daemons = [
            Daemon(namespace, self.manifests.folder, folder / f"{name}.log", ("--hostname-override", name))
            for name, namespace in self.namespaces.items()
        ]
        self._versions = itertools.count(100)

    def __enter__(self) -> "Cluster":
        for daemon in self.daemons:
            daemon.launch()
        for daemon in self.daemons:
            daemon.wait_programmed()
        return self

    def __exit__(self, *_) -> None:
        for daemon in self.daemons:
            print(daemon.last_words())
            if daemon.running():
                assert daemon.stop() == 0
            daemon.namespace.run("nft", "flush ruleset")

    def publish(self, states: dict[Deployment, dict[str, str]]) -> None:
        """Slices that say @states; returns when they are in force on both nodes."""
        version = str(next(self._versions))
        slices = [each for deployment, held in states.items() for each in deployment.slices(self.lab, held, version)]
        self.manifests.put("slices", *slices)
        for namespace in self.namespaces.values():
            for deployment in states:
                wait_for(lambda: self.in_force(namespace, deployment, version), f"{states} are in force")

    def in_force(self, namespace: Namespace, deployment: Deployment, version: str) -> bool:
        status, _, body = http_get(namespace, *METRICS, f"/programmed?namespace=default&service={deployment.name}")
        held = json.loads(body).get("endpointSlices", [])
        return status == 200 and len(held) == len(FAMILIES) and {each["received"] for each in held} == {version}


DEPLOYMENTS = [
    Deployment("balanced", 7070, ("ax", "by", "cd", "xy", "bd"), True, fresh_addresses(),
               {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": CHECK_PORT}),
    Deployment("here", 7071, ("a", "b", "cd"), False, fresh_addresses(), {"internalTrafficPolicy": "Local"}),
    Deployment("anywhere", 7072, ("ax", "by", "c"), True, fresh_addresses(), {}),
]  # fmt: skip


def check_fallback(lab: Lab, old: str, new: str) -> None:
    """A node that has no other pods than terminating ones sends what comes from a slow balancer to them."""
    for node in NODES:
        def here(pods: str) -> set[str]:
            return {pod for pod in pods if lab.pods[pod].node_name == node}  # noqa: B023

        served = here(new) or here(old)
        for family in FAMILIES if served else ():
            with lab.open(lab.client, VIP[family], 80, "TCP", 3, link=LINKS[node]) as sock:
                assert hail_on(sock).name in served, f"at {node}: {old} terminate, {new} are ready"


def test_rollouts_lose_nothing(two_nodes, tmp_path):
    lab = two_nodes
    pods = Pods(lab)
    balancers = {family: Balancer(lab, family) for family in FAMILIES}
    streams = {deployment: [] for deployment in DEPLOYMENTS}
    balanced, here, anywhere = DEPLOYMENTS
    for family, protocol in itertools.product(FAMILIES, PROTOCOLS):
        streams[balanced].append(Stream(lab, lab.client, VIP[family], protocol, balancers[family]))
        streams[here].append(Stream(lab, lab.pods["e"].namespace, here.addresses[family], protocol, None))
        streams[anywhere].append(Stream(lab, lab.pods["f"].namespace, anywhere.addresses[family], protocol, None))
    for deployment, held in streams.items():
        for stream in held:
            stream.pods = set("".join(deployment.generations))

    def begin(deployment: Deployment, generation: str) -> None:
        for pod in generation:
            pods.begin(pod, deployment.port)

    def roll(number: int) -> None:
        turns = {each: [each.generations[(number + i) % len(each.generations)] for i in (0, 1)] for each in DEPLOYMENTS}
        for deployment, (_, new) in turns.items():
            begin(deployment, new)
        kept = [lab.open(lab.pods["f"].namespace, anywhere.addresses[4], 80, "TCP", 3)]
        assert ask_on(kept[0]) in turns[anywhere][0]
        for phase in zip(*(deployment.phases(*turn) for deployment, turn in turns.items())):
            cluster.publish(dict(zip(turns, phase)))
        assert ask_on(kept[0]) in turns[anywhere][0], "an old connection goes on as long as the pod does"
        kept[0].close()
        check_fallback(lab, *turns[balanced])
        for balancer in balancers.values():
            balancer.wait_rounds(1)
        for stream in itertools.chain(*streams.values()):
            stream.wait_turn()
        for deployment, (old, _) in turns.items():
            for pod in old:
                pods.finish(pod, deployment.port)
        cluster.publish({deployment: dict.fromkeys(new, "ready") for deployment, (_, new) in turns.items()})

    with Cluster(lab, tmp_path) as cluster:
        cluster.manifests.put("services", *(deployment.service() for deployment in DEPLOYMENTS))
        pods.start()
        for deployment in DEPLOYMENTS:
            begin(deployment, deployment.generations[0])
        cluster.publish({each: dict.fromkeys(each.generations[0], "ready") for each in DEPLOYMENTS})
        threads = [*balancers.values(), *itertools.chain(*streams.values())]
        for thread in threads:
            thread.start()
        try:
            for balancer in balancers.values():
                balancer.wait_rounds(1)
            for number in range(ROLLOUTS):
                roll(number)
        finally:
            for thread in threads:
                thread.stop()
            pods.end = True
    for deployment, held in streams.items():
        for stream in held:
            assert stream.bad == []
            assert set(stream.answers) == stream.pods, f"each pod of {deployment.name} had its share"
            assert stream.answers.total() > 5 * ROLLOUTS
    for balancer in balancers.values():
        # Both nodes were taken out, each for good reason.
        assert {(NODE_NAME,), (OTHER_NODE_NAME,), tuple(NODES)} <= set(balancer.seen)
