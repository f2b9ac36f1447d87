# SPDX-License-Identifier: GPL-2.0-or-later
"""What the daemon is to its host: hooks, packet marks, preflight, figures, addresses of health checks."""

import pathlib
import re

import pytest

import objects
from connections import Kept, Steady
from daemon import FAMILY_TABLE, Daemon, call, http_get, wait_for
from lab import NODE_ADDRESS, NODE_PORTS, SECONDARY_ADDRESS, Namespace
from places import FIXED
from scenario import Proxy, Web, running
from terminal import on_terminal

CHECK_PORT = 30999

# Spec 4.11: what others rely on.
HOOKS = {
    ("nat", "prerouting", -100),
    ("nat", "output", -100),
    ("nat", "prerouting", 1000),
    ("nat", "output", 1000),
    ("nat", "postrouting", -198),
}


def test_hooks_and_priorities(proxy, family):
    """With a service that has source ranges: their chains come with the first one, and have no hook."""
    web = Web(proxy, family, "TCP")
    ranges = {4: "198.51.100.0/24", 6: "2001:db8:2::/64"}
    vip = {4: "192.0.2.250", 6: "2001:db8:1::250"}
    proxy.manifests.put("web-service", {
        **web.as_service(type="LoadBalancer", loadBalancerSourceRanges=[ranges[family]]),
        "status": {"loadBalancer": {"ingress": [{"ip": vip[family]}]}}})  # fmt: skip
    web.put_endpoints(a="ready")
    wait_for(lambda: "allowed_sources" in proxy.tables[family].listing("--numeric-priority")
             .partition("chain restricted")[2], "source ranges are in force")  # fmt: skip
    text = proxy.tables[family].listing("--numeric-priority")
    found = re.findall(r"type (\w+) hook (\w+) priority (-?\d+); policy accept;", text)
    assert HOOKS <= {(kind, hook, int(priority)) for kind, hook, priority in found}
    assert {kind for kind, _, _ in found} == {"nat"}


MARKS = """
table {ip} marks {{
    counter kept {{ }}
    counter lost {{ }}
    counter ours {{ }}
    chain before {{
        type filter hook prerouting priority -150;
        iifname "client" meta mark set 0xf00fb00f
    }}
    chain after {{
        type filter hook postrouting priority 150;
        iifname != "client" return
        meta l4proto != tcp return
        meta mark and 0xffffbfff == 0xf00fb00f counter name kept return
        counter name lost
    }}
    chain last {{
        type filter hook postrouting priority 160;
        iifname "client" meta mark and 0x4000 != 0 counter name ours
    }}
}}
"""


def packets(namespace: Namespace, table: str, name: str) -> int:
    text = namespace.run(namespace.nft, "list", "counter", table, "marks", name).stdout
    return int(re.search(r"packets (\d+)", text)[1])


def test_marks_of_others_survive(proxy, family):
    """Spec 4.4: just one bit is used, and cleared when masquerading."""
    web = Web(proxy, family, "TCP")
    node, table = proxy.lab.node, FAMILY_TABLE[family]
    address = {4: "203.0.113.254", 6: "2001:db8:5::fe"}[family]
    web.put_service(externalIPs=[address])
    web.put_endpoints(a="ready")
    web.settle("a")
    node.run(node.nft, "-f", "-", stdin=MARKS.format(ip=table))
    try:
        answer = proxy.lab.hail(proxy.lab.client, address, 80, "TCP")
        assert answer.name == "a" and answer.seen in proxy.lab.node_addresses
        assert packets(node, table, "kept") > 0
        assert packets(node, table, "lost") == packets(node, table, "ours") == 0
    finally:
        node.run(node.nft, "delete", "table", table, "marks")


# ---- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags,open_too", [([], False), (["--nodeport-addresses", "0.0.0.0/0,::/0"], True)])
def test_health_checks_listen_where_node_ports_answer(lab, tmp_path, family, flags, open_too):
    proxy = Proxy(lab, tmp_path, *flags)
    web = Web(proxy, family, "TCP")
    try:
        proxy.daemon.start()
        spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": CHECK_PORT}
        web.put_service(**spec)
        web.put_endpoints(a="ready")
        web.settle("a")

        def status(place: dict[int, str]) -> int | None:
            return (http_get(lab.client, place[family], CHECK_PORT) or (None,))[0]

        wait_for(lambda: status(NODE_ADDRESS) == 200, "the health check answers on the node's address")
        assert status(SECONDARY_ADDRESS) == (200 if open_too else None)
    finally:
        print(proxy.daemon.last_words())
        proxy.close()


@pytest.mark.parametrize("addresses,own,loopback", [
    ("primary", True, False), ("primary,localhost", True, True), ("localhost", False, True), ("127.0.0.2/32,primary", True, False),
])  # fmt: skip
def test_health_checks_on_loopback_addresses(lab, tmp_path, family, addresses, own, loopback):
    """They answer there if the list has these addresses: no feature gate has a part in it."""
    with running(lab, tmp_path, "--nodeport-addresses", addresses) as proxy:
        web = Web(proxy, family, "TCP")
        web.put_service(type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=CHECK_PORT)
        web.put_endpoints(a="ready")
        web.settle("a")
        localhost = {4: "127.0.0.1", 6: "::1"}[family]
        places = (NODE_ADDRESS[family], own), (localhost, loopback)
        for place, is_open in places:
            if is_open:
                wait_for(lambda: http_get(lab.node, place, CHECK_PORT) is not None, f"it answers on {place}")
        assert [http_get(lab.node, place, CHECK_PORT) is not None for place, _ in places] == [own, loopback]


def publish_node_port(web: Web, port: int) -> None:
    service = web.as_service(type="NodePort")
    service["spec"]["ports"][0]["nodePort"] = port
    web.proxy.manifests.put("web-service", service)
    web.put_endpoints(a="ready", b="ready")
    web.settle("a", "b")


def test_node_port_addresses_follow_the_host(lab, tmp_path, family):
    """Elements only, and just those of the address."""
    proxy = Proxy(lab, tmp_path, "--nodeport-addresses", "192.0.2.0/24,2001:db8:1::/64")
    web = Web(proxy, family, "TCP")
    extra = FIXED["node@extra"][family]
    port = NODE_PORTS[0]
    try:
        proxy.daemon.start()
        publish_node_port(web, port)
        before = proxy.shape()
        table = proxy.tables[family]
        for _ in range(3):
            lab.add_node_address(extra)
            wait_for(lambda: lab.ask(lab.client, extra, port, "TCP") in ("a", "b"), "the address answers")
            lab.remove_node_address(extra)
            wait_for(lambda: extra not in table.listing(), "the address is forgotten")
        assert proxy.shape() == before
        assert lab.ask(lab.client, NODE_ADDRESS[family], port, "TCP") in ("a", "b")
    finally:
        print(proxy.daemon.last_words())
        proxy.close()


def test_the_node_that_gets_other_addresses_and_goes(lab, tmp_path, family):
    """kube-proxy 1.37 exits for both. The daemon goes on: NodePorts move, no connection is lost, and without a Node
    object what it said last is used."""
    proxy = Proxy(lab, tmp_path)
    web = Web(proxy, family, "TCP")
    port = NODE_PORTS[0]
    try:
        proxy.daemon.start()
        publish_node_port(web, port)
        process = proxy.daemon.process.pid
        address, other = NODE_ADDRESS[family], SECONDARY_ADDRESS[family]
        answers = lambda where: lab.ask(lab.client, where, port, "TCP") in ("a", "b")  # noqa: E731
        assert answers(address) and not answers(other)
        kept = Kept(lab, web.address, "TCP")
        with Steady(lab, web.address, "TCP", {"a", "b"}) as steady:
            for here, there in ((other, address), (address, other)):
                proxy.manifests.put("node", objects.node(addresses=[("InternalIP", here)]))
                wait_for(lambda: answers(here), "NodePorts are at the new address")  # noqa: B023
                wait_for(lambda: not answers(there), "and not at the old one")  # noqa: B023
            proxy.manifests.remove("node")
            wait_for(lambda: "the Node object was deleted" in proxy.daemon.log(), "it is noticed")
            steady.wait_more(2)
            assert answers(address)
            web.put_endpoints(b="ready")
            web.settle("b")
            proxy.manifests.put("node", objects.node(addresses=[("InternalIP", other)]))
            wait_for(lambda: answers(other), "the Node that comes back counts")
        kept.check()
        assert steady.bad == []
        assert proxy.daemon.running() and proxy.daemon.process.pid == process
    finally:
        print(proxy.daemon.last_words())
        proxy.close()


# ---- preflight and figures ------------------------------------------------------------------------


def test_preflight():
    """Everything that the tests need is there, or they would not run; and nothing is left behind."""
    namespace = Namespace()
    try:
        done = call(namespace, "preflight")
        assert (done.returncode, done.stderr) == (0, "")
        for family in ("IPv4", "IPv6"):
            lines = [line for line in done.stdout.splitlines() if line.startswith(family)]
            assert any("CONFIG_NFT_NUMGEN" in line and re.search(r"\bok\b", line) for line in lines)
            assert len(lines) > 5
        assert namespace.run("nft", "list", "ruleset").stdout == ""
    finally:
        namespace.close()


def test_preflight_on_a_terminal():
    """It fits; what has no room is named."""
    namespace = Namespace()
    try:
        lines = on_terminal(namespace, 80, "preflight", NO_COLOR="1")
    finally:
        namespace.close()
    assert all(len(line) <= 80 for line in lines), lines
    assert lines[0].split("  ")[0] == "FAMILY" and lines[0].endswith("RESULT") and lines[1].endswith("  ok")
    assert [line for line in lines if "columns are too few" in line] == ["(not shown, 80 columns are too few: NEEDED FOR)"] * 2


def test_metrics(proxy):
    Web(proxy, 4, "TCP").publish("a")
    status, headers, body = http_get(proxy.lab.node, "127.0.0.1", 10249, "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    samples = dict(line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#"))
    assert float(samples['kube_nftd_frontends{ip_family="IPv4"}']) == 1


SYSCTLS = {
    "nf_conntrack_tcp_timeout_established": (["--conntrack-tcp-timeout-established", "2h"], 7200),
    "nf_conntrack_tcp_timeout_close_wait": (["--conntrack-tcp-timeout-close-wait", "90s"], 90),
    "nf_conntrack_tcp_be_liberal": (["--conntrack-tcp-be-liberal"], 1),
    "nf_conntrack_udp_timeout": (["--conntrack-udp-timeout", "42s"], 42),
    "nf_conntrack_udp_timeout_stream": (["--conntrack-udp-timeout-stream", "0"], None),
}


def sysctls(namespace: Namespace) -> dict[str, int]:
    folder = pathlib.Path("/proc/sys/net/netfilter")
    with namespace.inside():
        return {name: int((folder / name).read_text()) for name in SYSCTLS}


def test_conntrack_settings(tmp_path):
    """Spec 5.2: once at start, just what is asked for."""
    namespace = Namespace()
    manifests = objects.Manifests(tmp_path / "manifests")
    manifests.put("node", objects.node())
    try:
        namespace.run(namespace.nft, "add table ip t; add chain ip t c; add rule ip t c ct state new")
        before = sysctls(namespace)
        flags = [word for words, _ in SYSCTLS.values() for word in words]
        daemon = Daemon(namespace, manifests.folder, tmp_path / "log", flags)
        daemon.start()
        print(daemon.last_words())
        assert daemon.stop() == 0
        wanted = {name: before[name] if value is None else value for name, (_, value) in SYSCTLS.items()}
        assert sysctls(namespace) == wanted
    finally:
        namespace.close()
