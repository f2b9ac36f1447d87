# SPDX-License-Identifier: GPL-2.0-or-later
"""Only a connection's first packet meets a chain of ours, whatever the table has."""

import re

import pytest

import objects
from daemon import FAMILY_TABLE
from lab import NODE_ADDRESS, ask_on
from scenario import Proxy, Web, running

PACKETS = 20  # at least, of a connection that is known
VIP = {4: "203.0.113.92", 6: "2001:db8:5::92"}
BARE = {4: "203.0.113.93", 6: "2001:db8:5::93"}
ELSEWHERE = {4: "203.0.113.94", 6: "2001:db8:5::94"}
NETWORK = {4: "198.51.100.0/24", 6: "2001:db8:2::/64"}
POD_NETWORKS = "10.244.0.0/16,fd00:10:244::/48"
# How pods are detected, or that it does not matter.
FLAGS = {
    "masquerade-all": ("--masquerade-all",),
    "cluster-cidr": ("--cluster-cidr", POD_NETWORKS),
    "bridge": ("--detect-local-mode", "BridgeInterface", "--pod-bridge-interface", "cni0"),
}
AFFINITY = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 100}}}
HOOK = re.compile(r"chain (\S+) \{\n\t\ttype (\w+) hook (\w+) priority (-?\d+);")


def put_everything(web: Web, everywhere: str) -> None:
    """Affinity, source ranges, node ports, rejects, drops, ranges of addresses."""
    family, proxy = web.family, web.proxy
    service = web.as_service(
        type="LoadBalancer", externalTrafficPolicy="Local", loadBalancerSourceRanges=[everywhere], **AFFINITY
    )
    service["spec"]["ports"][0]["nodePort"] = 30001
    service["status"] = {"loadBalancer": {"ingress": [{"ip": VIP[family]}]}}
    proxy.manifests.put("web-service", service)
    web.put_endpoints(a="ready")
    bare, elsewhere = (Web(proxy, family, web.protocol, name) for name in ("bare", "elsewhere"))
    bare.put_service(externalIPs=[BARE[family]])
    elsewhere.put_service(externalIPs=[ELSEWHERE[family]], externalTrafficPolicy="Local")
    elsewhere.put_endpoints(x="ready")
    proxy.manifests.put("cidrs", objects.service_cidr("cidrs", [NETWORK[family]]))
    web.settle("a")
    bare.settle()


def hooks(proxy: Proxy, family: int) -> dict[str, tuple[str, str, int]]:
    """Chain -> type, hook, priority."""
    found = HOOK.findall(proxy.tables[family].listing("--numeric-priority"))
    return {name: (kind, hook, int(priority)) for name, kind, hook, priority in found}


def count(proxy: Proxy, family: int) -> dict[str, int]:
    """Chain with a hook -> packets, by the counters at their beginnings."""
    listing = proxy.tables[family].listing()
    return {
        name: int(re.search(rf"chain {name} {{\n.*\n\t\tcounter packets (\d+)", listing)[1])
        for name in hooks(proxy, family)
    }


@pytest.fixture(params=FLAGS)
def everything(lab, tmp_path, request):
    flags = (*FLAGS[request.param], "--count-connections", "endpoints", "--table-owner", "off")
    with running(lab, tmp_path, *flags) as proxy:
        yield proxy


@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
def test_known_packets_meet_no_chain(everything, family, protocol):
    proxy, lab = everything, everything.lab
    web = Web(proxy, family, protocol)
    put_everything(web, {4: "192.0.2.0/24", 6: "2001:db8:1::/64"}[family])
    there = hooks(proxy, family)
    assert {kind for kind, _, _ in there.values()} == {"nat"}
    assert {(hook, priority) for _, hook, priority in there.values()} == {
        *((hook, priority) for hook in ("prerouting", "output") for priority in (-100, 1000)),
        *(("postrouting", priority) for priority in (-199, -198)), ("input", -199),
    }  # fmt: skip
    table = f"{FAMILY_TABLE[family]} kube-nftd"
    assert proxy.daemon.stop() == 0
    lab.node.run("nft", "".join(f"insert rule {table} {chain} counter\n" for chain in there))
    ways = [  # to services from outside and from the node; past them through the node, from it and to it
        (lab.client, web.address, 80),
        (lab.client, VIP[family], 80),
        (lab.client, NODE_ADDRESS[family], 30001),
        (lab.node, web.address, 80),
        (lab.client, lab.pods["b"].address[family], 8080),
        (lab.node, lab.pods["b"].address[family], 8080),
        (lab.client, NODE_ADDRESS[family], 8080),
    ]
    talks = [lab.open(where, address, port, protocol, timeout=2) for where, address, port in ways]
    assert [ask_on(talk) for talk in talks] == ["a", "a", "a", "a", "b", "b", "host"]
    first = count(proxy, family)
    assert all(first.values()), first
    for _ in range(PACKETS):
        for talk in talks:
            ask_on(talk)
    assert count(proxy, family) == first
    for talk in talks:
        talk.close()
    proxy.daemon.start()
