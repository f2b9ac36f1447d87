# SPDX-License-Identifier: GPL-2.0-or-later
"""A node moves from kube-proxy to kube-nftd and back, under traffic. What stands for kube-proxy are tables in its shape."""

import contextlib
import re

import pytest

import objects
from connections import Kept, Steady
from daemon import FAMILY_TABLE, Daemon, call
from kube_proxy_iptables import rules
from kube_proxy_table import Service, Table
from lab import CLIENT_ADDRESS, FAMILIES, NODE_ADDRESS, Lab
from scenario import fresh_addresses

NODE_PORT = 30001
PHASE = 15  # new connections of each kind in each state of the node
FLAGS = ("--cluster-cidr", "10.244.0.0/16,fd00:10:244::/48")
EXTERNAL = {4: "203.0.113.251", 6: "2001:db8:5::fb"}


class Objects:
    """Services, for kube-nftd as manifests, for kube-proxy as what it makes of them."""

    def __init__(self, lab: Lab, folder) -> None:
        self.lab = lab
        self.manifests = objects.Manifests(folder / "manifests")
        self.manifests.put("node", objects.node())
        self.services: dict[int, list[Service]] = {4: [], 6: []}

    def add(self, name: str, pods: str, *, elsewhere: str | None = None, **spec) -> dict[int, str]:
        """A service over TCP and UDP in both families. @elsewhere: the endpoints that kube-proxy knew last.
        The cluster IPs."""
        addresses = fresh_addresses()
        ports = [objects.Port("tcp", "TCP", 80), objects.Port("udp", "UDP", 80)]
        if "nodePort" in spec:
            spec["type"] = "NodePort"
        service = objects.service(name, addresses, ports, **spec)
        for port in service["spec"]["ports"]:
            if "nodePort" in spec:
                port["nodePort"] = spec["nodePort"]
        service["spec"].pop("nodePort", None)
        self.manifests.put(f"{name}-service", service)
        for family in FAMILIES:
            targets = [objects.Port("tcp", "TCP", 8080), objects.Port("udp", "UDP", 8080)]
            endpoints = [
                objects.endpoint(self.lab.pods[pod].address[family], node=self.lab.pods[pod].node_name)
                for pod in pods
            ]
            self.manifests.put(
                f"{name}-{family}", objects.endpoint_slice(f"{name}-{family}", name, family, targets, endpoints)
            )
            self._add_old(family, name, addresses, pods if elsewhere is None else elsewhere, spec)
        return addresses

    def _add_old(self, family: int, name: str, addresses: dict[int, str], pods: str, spec: dict) -> None:
        known = [(self.lab.pods[pod].address[family], 8080) for pod in pods]
        here = [(self.lab.pods[pod].address[family], 8080) for pod in pods if pod not in "xy"]
        self.services[family] += [
            Service(
                name, protocol, addresses[family], 80, known,
                tuple(ip for ip in spec.get("externalIPs", ()) if (":" in ip) == (family == 6)),
                spec.get("nodePort"),
                here if spec.get("externalTrafficPolicy") == "Local" else None,
            )
            for protocol in ("TCP", "UDP")
        ]  # fmt: skip


class NftablesMode:
    def __init__(self, wanted: Objects) -> None:
        self.wanted = wanted
        self.node = wanted.lab.node

    def load(self) -> None:
        for family in FAMILIES:
            table = Table(family, self.wanted.services[family], (NODE_ADDRESS[family],))
            self.node.run("nft", "-f", "-", stdin=table.text())

    def is_there(self) -> bool:
        listing = self.node.run("nft", "list", "tables").stdout
        return "kube-proxy" in listing


class IptablesMode(NftablesMode):
    """By an iptables that keeps its tables in nf_tables."""

    def load(self) -> None:
        for family, program in ((4, "iptables-nft-restore"), (6, "ip6tables-nft-restore")):
            self.node.run(program, "--noflush", stdin=rules(family, self.wanted.services[family]))

    def is_there(self) -> bool:
        return "KUBE-" in self.node.run("nft", "list", "ruleset").stdout


MODES = {"nftables": NftablesMode, "iptables": IptablesMode}


@pytest.fixture
def wanted(lab, tmp_path):
    yield Objects(lab, tmp_path)
    lab.node.run("nft", "flush", "ruleset")


@pytest.fixture
def daemon(wanted, tmp_path):
    daemon = Daemon(wanted.lab.node, wanted.manifests.folder, tmp_path / "kube-nftd.log", FLAGS)
    yield daemon
    print(daemon.last_words())
    if daemon.running():
        assert daemon.stop() == 0


def check_paths(lab: Lab, web: dict[int, str], loner: dict[int, str]) -> None:
    """Every kind of path, by new connections: who answers, and as whom it sees the client."""
    for family in FAMILIES:
        for protocol in ("TCP", "UDP"):
            inside = lab.hail(lab.pods["d"].namespace, web[family], 80, protocol)
            assert inside.name in "abx" and inside.seen == lab.pods["d"].address[family], "a pod keeps its address"
            outside = lab.hail(lab.client, web[family], 80, protocol)
            assert outside.name in "abx" and outside.seen != CLIENT_ADDRESS[family], "others do not, to cluster IPs"
            hairpin = lab.hail(lab.pods["a"].namespace, loner[family], 80, protocol)
            assert hairpin.name == "a" and hairpin.seen != lab.pods["a"].address[family], "hairpin"
            local = lab.hail(lab.client, EXTERNAL[family], 80, protocol)
            assert local == (local.name, CLIENT_ADDRESS[family], CLIENT_ADDRESS[family]), "policy Local"
            assert local.name in "ab", "policy Local"
            port = lab.hail(lab.client, NODE_ADDRESS[family], NODE_PORT, protocol)
            assert port.name in "abx" and port.seen != CLIENT_ADDRESS[family], "node port"
            host = lab.hail(lab.node, web[family], 80, protocol)
            assert host.name in "abx", "from the node"


def ours(node) -> list[str]:
    """Our tables, with everything in them but what packets learned."""
    return [node.run("nft", "list", "table", ip, "kube-nftd").stdout for ip in FAMILY_TABLE.values()]


@pytest.mark.parametrize("mode", MODES)
def test_there_and_back_under_traffic(lab, wanted, daemon, mode):
    web = wanted.add("web", "abx", nodePort=NODE_PORT)
    wanted.add("local", "abx", externalIPs=list(EXTERNAL.values()), externalTrafficPolicy="Local")
    loner = wanted.add("loner", "a")
    old = MODES[mode](wanted)
    old.load()
    check_paths(lab, web, loner)

    def cleanup() -> None:
        before = ours(lab.node)
        done = call(lab.node, "--cleanup-kube-proxy", "--dry-run")
        assert done.returncode == 0 and "would remove" in done.stdout and old.is_there()
        done = call(lab.node, "--cleanup-kube-proxy")
        assert done.returncode == 0 and "removed" in done.stdout, done.stderr
        assert not old.is_there()
        assert ours(lab.node) == before

    def go_home() -> None:
        assert daemon.stop() == 0
        check_paths(lab, web, loner)
        assert call(lab.node, "--cleanup").returncode == 0
        assert "kube-nftd" not in lab.node.run("nft", "list", "tables").stdout

    steps = [daemon.start, cleanup, old.load, go_home]
    kinds = [(web[family], protocol) for family in FAMILIES for protocol in ("TCP", "UDP")]
    with contextlib.ExitStack() as held:
        kept = [Kept(lab, *kind) for kind in kinds]
        traffic = [held.enter_context(Steady(lab, *kind, {"a", "b", "x"})) for kind in kinds]
        for step in steps:
            step()
            check_paths(lab, web, loner)
            kept += [Kept(lab, *kind) for kind in kinds]
            for each in traffic:
                each.wait_more(PHASE)
            for connection in kept:
                connection.check()
    for each in traffic:
        assert each.bad == []
    assert old.is_there()


@pytest.mark.parametrize("mode", MODES)
def test_who_hooked_in_last_is_asked_first(lab, wanted, daemon, mode, family):
    """While both are there, each new connection is translated by one of them alone."""
    web = wanted.add("web", "b", elsewhere="a")
    old = MODES[mode](wanted)

    def who() -> set[str]:
        return {lab.ask(lab.client, web[family], 80, protocol) for protocol in ("TCP", "UDP") for _ in range(5)}

    old.load()
    assert who() == {"a"}
    daemon.start()
    assert who() == {"b"}
    daemon.stop()
    daemon.start()  # finds its table, and leaves it where it is
    assert who() == {"b"}
    assert call(lab.node, "--cleanup-kube-proxy").returncode == 0
    assert who() == {"b"}
    old.load()
    # What is hooked in of iptables are its own chains, PREROUTING and the like. They were there all the time.
    assert who() == ({"a"} if mode == "nftables" else {"b"})
    assert call(lab.node, "--cleanup-kube-proxy").returncode == 0
    assert who() == {"b"}


def test_what_only_kube_proxy_knows_stays_in_force_until_it_is_removed(lab, wanted, daemon, family):
    """The limits of having both, as docs/migration.md names them."""
    gone = fresh_addresses()
    empty = wanted.add("empty", "", elsewhere="a")
    wanted.add("narrow", "b", externalIPs=list(EXTERNAL.values()))
    wanted.services[family] = [
        service._replace(source_ranges=("198.51.100.0/24" if family == 4 else "2001:db8:2::/64",))
        if service.name == "narrow"
        else service
        for service in wanted.services[family]
    ]
    wanted.services[family].append(Service("gone", "TCP", gone[family], 80, [(lab.pods["a"].address[family], 8080)]))
    NftablesMode(wanted).load()
    daemon.start()

    def who(address: str, timeout: float = 2) -> str:
        return lab.ask(lab.client, address, 80, "TCP", timeout)

    assert who(gone[family]) == "a", "a service that is gone"
    assert who(empty[family]) == "a", "one without endpoints"
    assert who(EXTERNAL[family], 0.3) == "timeout", "source ranges that are not wanted any more"
    assert call(lab.node, "--cleanup-kube-proxy").returncode == 0
    assert who(gone[family]) == "outside"
    assert who(empty[family]) == "refused"
    assert who(EXTERNAL[family]) == "b"
    assert not re.search(" (warn|error) +(?!daemon: no cluster CIDR)\\S", daemon.log())
