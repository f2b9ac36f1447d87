# SPDX-License-Identifier: GPL-2.0-or-later
"""Beside other programs that translate: hostPorts on addresses that Services have, loaded before and after us; and
what is theirs in a packet, priority and mark, stays theirs."""

import itertools
import re

import pytest

from daemon import FAMILY_TABLE
from lab import CLIENT_ADDRESS, NODE_ADDRESS, HOST_LENGTH, POD_PORTS
from scenario import Proxy, Web, running
from translators import TRANSLATORS, Port

NODE_PORTS = itertools.count(30100)  # each test has its own: entries of UDP outlive a test
EXTERNAL = {4: "203.0.113.97", 6: "2001:db8:5::97"}
POD_NETWORKS = "10.244.0.0/16,fd00:10:244::/48"
PLACES = ("node port", "external IP", "cluster IP")


@pytest.fixture
def detecting(lab, tmp_path):
    """Connections from outside to cluster IPs are masqueraded."""
    flags = ("--cluster-cidr", POD_NETWORKS, "--count-connections", "endpoints")
    with running(lab, tmp_path, *flags) as proxy:
        yield proxy


def put(web: Web, node_port: int) -> None:
    service = web.as_service(type="NodePort", externalIPs=[EXTERNAL[web.family]])
    service["spec"]["ports"][0]["nodePort"] = node_port
    web.proxy.manifests.put("web-service", service)


def frontend(web: Web, place: str, node_port: int) -> tuple[str, int]:
    addresses = {"node port": NODE_ADDRESS[web.family], "external IP": EXTERNAL[web.family], "cluster IP": web.address}
    return addresses[place], node_port if place == "node port" else 80


# Each case with TCP in one family, with UDP in the other.
CASES = list(itertools.product(TRANSLATORS, ("before", "after"), PLACES))


@pytest.mark.parametrize(("translator", "loaded", "place"), CASES, ids=["-".join(case) for case in CASES])
def test_host_ports_on_frontends(lab, tmp_path, family, translator, loaded, place):
    """Where the Service has no endpoints, the container answers, and sees the client: nothing is rejected, and no mark
    stays. Where it has some, who comes first translates."""
    proxy = Proxy(lab, tmp_path, "--cluster-cidr", POD_NETWORKS, "--count-connections", "endpoints")
    protocol = ("TCP", "UDP")[(CASES.index((translator, loaded, place)) + family // 6) % 2]
    web, node = Web(proxy, family, protocol), lab.node
    node_port = next(NODE_PORTS)
    address, port = frontend(web, place, node_port)
    container = lab.pods["b"].address[family]
    host_port = Port(family, address, port, protocol.lower(), container, POD_PORTS[0])
    if place != "node port":
        node.ip(f"address add {address}/{HOST_LENGTH[family]} dev lo {'nodad' if family == 6 else ''}")
    try:
        if loaded == "before":
            TRANSLATORS[translator](node, host_port)
        proxy.daemon.start()
        put(web, node_port)
        web.settle()
        if loaded == "after":
            TRANSLATORS[translator](node, host_port)
        answer = lab.hail(lab.client, address, port, protocol)
        assert answer == ("b", CLIENT_ADDRESS[family], CLIENT_ADDRESS[family])
        web.put_endpoints(a="ready")
        web.settle("a")
        answer = lab.hail(lab.client, address, port, protocol)
        # firewalld's chains stand behind ours; of two in one place, the one loaded last comes first.
        if translator != "firewalld" and loaded == "after":
            assert answer == ("b", CLIENT_ADDRESS[family], CLIENT_ADDRESS[family])
        else:
            assert answer.name == "a" and answer.seen != CLIENT_ADDRESS[family]
    finally:
        if place != "node port":
            node.ip(f"address del {address}/{HOST_LENGTH[family]} dev lo")
        print(proxy.daemon.last_words())
        proxy.close()


# What others set before us, and what leaves the node.
FIELDS = """
table {ip} fields {{
    counter kept {{ }}
    counter marked {{ }}
    chain translate {{
        type nat hook prerouting priority -110
        iifname "client" udp dport 7777 dnat to {target}
    }}
    chain masquerade_first {{
        type nat hook postrouting priority 50
        iifname "client" udp dport 8080 {masquerade}
    }}
    chain prioritise {{
        type filter hook forward priority -150
        iifname "client" meta l4proto udp meta priority set 1:77
    }}
    chain sent {{
        type filter hook postrouting priority 150
        iifname "client" meta l4proto udp meta priority 1:77 counter name kept
        iifname "client" meta l4proto udp meta mark & 0x4000 != 0 counter name marked
    }}
}}
"""


def packets(web: Web, name: str) -> int:
    listing = web.lab.node.run("nft", "list", "counter", FAMILY_TABLE[web.family], "fields", name).stdout
    return int(re.search(r"packets (\d+)", listing)[1])


def load(web: Web, masquerade: str = "") -> None:
    target = Port(web.family, "", 0, "udp", web.lab.pods["b"].address[web.family], 8080).target
    ip = FAMILY_TABLE[web.family]
    web.lab.node.run("nft", "-f", "-", stdin=FIELDS.format(ip=ip, target=target, masquerade=masquerade))


def test_priorities_of_others_stay(detecting, family):
    """Those of connections that another program translates, first packets too."""
    web, lab = Web(detecting, family, "UDP"), detecting.lab
    web.publish("a")
    load(web)
    assert lab.ask(lab.client, NODE_ADDRESS[family], 7777, "UDP") == "b"
    assert packets(web, "kept") == 1


def test_no_mark_stays_where_others_masquerade(detecting, family):
    """Their chain comes first and ends the walk, so ours at 100 sees nothing of the connection."""
    web, lab = Web(detecting, family, "UDP"), detecting.lab
    web.publish("a")
    load(web, "masquerade")
    answer = lab.hail(lab.client, web.address, 80, "UDP")
    assert answer.name == "a" and answer.seen != CLIENT_ADDRESS[family]
    assert packets(web, "marked") == 0


FIREWALL = """
table {ip} firewall {{
    counter seen {{ }}
    chain forward {{
        type filter hook forward priority -10
        iifname "client" counter name seen drop
    }}
}}
"""


def test_rejects_come_before_forward_chains(proxy, family):
    """A firewall that drops the client sees its connections to a Service with endpoints, and no others."""
    web, lab, ip = Web(proxy, family, "TCP"), proxy.lab, FAMILY_TABLE[family]
    web.publish()
    lab.node.run("nft", "-f", "-", stdin=FIREWALL.format(ip=ip))

    def seen() -> int:
        return int(re.search(r"packets (\d+)", lab.node.run("nft", "list", "counter", ip, "firewall", "seen").stdout)[1])

    assert web.ask() == "refused" and seen() == 0
    web.put_endpoints(a="ready")
    web.settle("a")
    assert web.ask(timeout=0.3) == "timeout" and seen() > 0
