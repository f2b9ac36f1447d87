# SPDX-License-Identifier: GPL-2.0-or-later
"""Beside other programs that translate: hostPorts on addresses that Services have, loaded before and after us; and
what is theirs in a packet, priority and mark, stays theirs."""

import contextlib
import itertools
import re

import pytest

from daemon import FAMILY_TABLE, HEALTH_PORT, call
from lab import CLIENT_ADDRESS, HOST_LENGTH, NODE_ADDRESS, Answer, ask_on
from scenario import Proxy, Web, running
from translators import TRANSLATORS, Ports

NUMBERS = itertools.count(30100)  # each test has its own: entries of UDP outlive a test
EXTERNAL = {4: "203.0.113.97", 6: "2001:db8:5::97"}
POD_NETWORKS = "10.244.0.0/16,fd00:10:244::/48"
# What every daemon here needs: its harness asks there, and conntrack is not the test's to set.
KUBE_PROXY = f"""\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
healthzBindAddress: 127.0.0.1:{HEALTH_PORT}
conntrack: {{maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}
"""
COUNTING = ("--cluster-cidr", POD_NETWORKS, "--count-connections", "endpoints")


@pytest.fixture
def detecting(lab, tmp_path):
    """Connections from outside to cluster IPs are masqueraded."""
    with running(lab, tmp_path, *COUNTING) as proxy:
        yield proxy


@pytest.fixture
def external_ip(lab, family) -> str:
    """An address that the node has."""
    lab.node.ip(f"address add {EXTERNAL[family]}/{HOST_LENGTH[family]} dev lo {'nodad' if family == 6 else ''}")
    yield EXTERNAL[family]
    lab.node.ip(f"address del {EXTERNAL[family]}/{HOST_LENGTH[family]} dev lo")


def put(web: Web, number: int) -> None:
    """A Service with the node port @number, and with a port @number of its cluster IP."""
    service = web.as_service(type="NodePort", externalIPs=[EXTERNAL[web.family]])
    (port,) = service["spec"]["ports"]
    service["spec"]["ports"] = [{**port, "nodePort": number}, {**port, "name": "more", "port": number}]
    web.proxy.manifests.put("web-service", service)


def put_pod_a(web: Web) -> None:
    """As its endpoint, for both ports."""
    slice = web.as_slice({"a": "ready"})
    slice["ports"] += [{**port, "name": "more"} for port in slice["ports"]]
    web.proxy.manifests.put("web-slice", slice)
    web.settle("a")


def counted_endpoints(web: Web) -> set[str]:
    """The addresses that connections were counted to."""
    (elements,) = web.proxy.tables[web.family].elements("endpoint_connections")
    return {element.split(" . ")[1] for element in elements}


# Each case with TCP in one family, with UDP in the other.
CASES = list(itertools.product(TRANSLATORS, ("before", "after")))


@pytest.mark.parametrize(("translator", "loaded"), CASES, ids=["-".join(case) for case in CASES])
def test_host_ports_on_frontends(lab, tmp_path, family, external_ip, translator, loaded):
    """Where the Service has no endpoints, the container answers, and sees the client: nothing is rejected, and no mark
    stays. Where it has some, who comes first translates. A cluster IP is no address of the host, which firewalld does
    not ask for. What the others translate is not counted."""
    proxy = Proxy(lab, tmp_path, *COUNTING)
    protocol = ("TCP", "UDP")[(CASES.index((translator, loaded)) + family // 6) % 2]
    web, number = Web(proxy, family, protocol), next(NUMBERS)
    ports = Ports(family, protocol.lower(), [("", number), (external_ip, 80)])
    container = "b", CLIENT_ADDRESS[family], CLIENT_ADDRESS[family]

    def answers() -> list[Answer]:
        places = (NODE_ADDRESS[family], number), (external_ip, 80), (web.address, number)
        return [lab.hail(lab.client, *place, protocol) for place in places]

    with contextlib.ExitStack() as at_end:
        at_end.callback(proxy.close)
        at_end.callback(lambda: print(proxy.daemon.last_words()))
        if loaded == "before":
            TRANSLATORS[translator](lab, ports, at_end)
        proxy.daemon.start()
        put(web, number)
        web.settle()
        if loaded == "after":
            TRANSLATORS[translator](lab, ports, at_end)
        *of_host, of_cluster_ip = answers()
        assert of_host == [container, container]
        assert of_cluster_ip.name == ("b" if translator == "firewalld" else "refused")
        assert counted_endpoints(web) == set()
        put_pod_a(web)
        *of_host, of_cluster_ip = answers()
        assert of_cluster_ip.name == "a" and of_cluster_ip.seen != CLIENT_ADDRESS[family]
        # firewalld's chains stand behind ours; of two in one place, the one loaded last comes first.
        if loaded == "after" and translator != "firewalld":
            assert of_host == [container, container]
        else:
            assert all(answer.name == "a" and answer.seen != CLIENT_ADDRESS[family] for answer in of_host)
        assert counted_endpoints(web) == {lab.pods["a"].address[family]}


def test_a_mark_of_both(lab, tmp_path, family, external_ip):
    """The log warns. Nobody's address is lost, and what is to be masqueraded is."""
    config = tmp_path / "config.conf"
    config.write_text(f"{KUBE_PROXY}clusterCIDR: {POD_NETWORKS}\nnftables: {{masqueradeBit: 13}}\n")
    proxy, number = Proxy(lab, tmp_path, "--config", str(config)), next(NUMBERS)
    web = Web(proxy, family, "TCP")
    with contextlib.ExitStack() as at_end:
        at_end.callback(proxy.close)
        at_end.callback(lambda: print(proxy.daemon.last_words()))
        TRANSLATORS["portmap-iptables"](lab, Ports(family, "tcp", [("", number)]), at_end)
        proxy.daemon.start()
        assert "masqueradeBit=13 is also the mark of CNI's portmap plugin" in proxy.daemon.log()
        put(web, number)
        web.settle()
        answer = lab.hail(lab.client, NODE_ADDRESS[family], number, "TCP")
        assert answer == ("b", CLIENT_ADDRESS[family], CLIENT_ADDRESS[family])
        put_pod_a(web)
        answer = lab.hail(lab.client, NODE_ADDRESS[family], number, "TCP")
        assert answer.name == "a" and answer.seen != CLIENT_ADDRESS[family]


@pytest.mark.parametrize(
    ("translator", "chain"), [("portmap-iptables", "CNI-DN-[0-9a-f]+"), ("netavark-iptables", "NETAVARK-[-A-Z0-9]+")]
)
def test_explain_names_the_chain(proxy, translator, chain):
    """That of a hostPort with the number of a node port."""
    web, number = Web(proxy, 4, "TCP"), next(NUMBERS)
    put(web, number)
    put_pod_a(web)
    with contextlib.ExitStack() as at_end:
        TRANSLATORS[translator](web.lab, Ports(4, "tcp", [("", number)]), at_end)
        answer = call(web.lab.node, "explain", str(number))
    assert re.search(f"a rule in chain {chain} of table ip nat has this port: if it translates", answer.stdout), answer.stdout


def test_a_udp_host_port_ends_flows(proxy):
    """portmap deletes those to its number, whoever's address they are to: these are to a cluster IP."""
    web = Web(proxy, 4, "UDP")
    web.publish("a", "c")
    with contextlib.ExitStack() as at_end:
        flows = [at_end.enter_context(web.lab.open(web.lab.client, *web.call(), timeout=2)) for _ in range(24)]
        answers = [ask_on(flow) for flow in flows]
        assert [ask_on(flow) for flow in flows] == answers
        TRANSLATORS["portmap-iptables"](web.lab, Ports(4, "udp", [("", 80)]), at_end)
        again = [ask_on(flow) for flow in flows]
        assert again != answers and set(again) == {"a", "c"}


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
        iifname "client" meta l4proto udp ct mark & 0x4000 != 0 counter name marked
    }}
}}
"""


def packets(web: Web, name: str) -> int:
    listing = web.lab.node.run("nft", "list", "counter", FAMILY_TABLE[web.family], "fields", name).stdout
    return int(re.search(r"packets (\d+)", listing)[1])


def load(web: Web, masquerade: str = "") -> None:
    pod = web.lab.pods["b"].address[web.family]
    target = f"[{pod}]:8080" if web.family == 6 else f"{pod}:8080"
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
    """Nor in the connection, where endpoints are counted."""
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
