# SPDX-License-Identifier: GPL-2.0-or-later
"""--flowtable-devices: known connections to Services that the kernel forwards past all chains. Whatever works without it
works with it; the scenarios run with it in tests/kernels, too."""

import contextlib
import json
import pathlib
import re
import socket
import struct
import time

import pytest

from daemon import FAMILY_TABLE, call, http_get, wait_for
from lab import CLIENT_ADDRESS, NODE_ADDRESS, NODE_NAME, NODE_PEER_ADDRESS, OTHER_NODE_ADDRESS, OTHER_NODE_NAME
from lab import Lab, LabError, ask_on, hail_on
from scenario import Proxy, Web, running

DEVICES = "client,stranger,node-b,cni0,port-*,pod-*,tunnel*"  # not the way outside
TUNNEL = {4: ("10.255.0.1", "10.255.0.2"), 6: ("fd00:255::1", "fd00:255::2")}
EXTERNAL = {4: "203.0.113.95", 6: "2001:db8:5::95"}
NODE_PORT = 30001
WARM = 6  # questions until a flow is in the flowtable
PACKETS = 20
# Behind all filters: what it does not see was forwarded by the flowtable.
OBSERVER = """
table inet observer {
    chain forward {
        type filter hook forward priority 500;
        meta l4proto { tcp, udp } counter
    }
}
"""


def has_flowtables(lab: Lab) -> bool:
    words = call(lab.node, "preflight").stdout
    return re.search(r"^IPv4 .*flowtables.* ok$", words, re.MULTILINE) is not None


@pytest.fixture(scope="module")
def flowtables(lab):
    if not has_flowtables(lab):
        pytest.skip("flowtables: this kernel has none")


def test_a_kernel_without_flowtables(lab, tmp_path):
    """Programs everything else, and says so."""
    if has_flowtables(lab):
        pytest.skip("a kernel without flowtables")
    with running(lab, tmp_path, "--flowtable-devices", DEVICES) as proxy:
        for family in FAMILY_TABLE:
            web = Web(proxy, family, "TCP", f"web-{family}")
            web.publish("a")
            assert web.ask() == "a"
            assert f"family=IPv{family} this kernel has no flowtables" in proxy.daemon.log()
        assert "--flowtable-devices has no effect" in call(lab.node, "preflight").stdout
        assert "flowtable of" not in call(lab.node, "status").stdout


@pytest.fixture
def fast(lab, tmp_path, flowtables):
    with running(lab, tmp_path, "--flowtable-devices", DEVICES, "--cluster-cidr", "10.244.0.0/16,fd00:10:244::/48",
                 "--table-owner", "off") as proxy:
        lab.node.run("nft", "-f", "-", stdin=OBSERVER)
        yield proxy


@pytest.fixture(params=["TCP", "UDP"])
def protocol(request) -> str:
    return request.param


@pytest.fixture
def web(fast, family, protocol) -> Web:
    return Web(fast, family, protocol)


@pytest.fixture
def udp(fast, family) -> Web:
    return Web(fast, family, "UDP")


@pytest.fixture
def tcp(fast, family) -> Web:
    return Web(fast, family, "TCP")


def seen(lab: Lab) -> int:
    """Packets that were forwarded the usual way."""
    listing = lab.node.run("nft", "list", "table", "inet", "observer").stdout
    return int(re.search(r"counter packets (\d+)", listing)[1])


def passes_by(lab: Lab, talk: socket.socket) -> bool:
    """Whether the packets of a connection are in the flowtable. Its answers stay the same."""
    answers = {ask_on(talk) for _ in range(WARM)}
    before = seen(lab)
    answers |= {ask_on(talk) for _ in range(PACKETS)}
    assert len(answers) == 1, answers
    return seen(lab) == before


def devices(proxy: Proxy, family: int) -> list[str] | None:
    """Those of the flowtable; None: there is no flowtable, or no table."""
    try:
        listing = proxy.tables[family].listing()
    except LabError:
        return None
    found = re.search(r"flowtable fast \{(.*?)\n\t\}", listing, re.DOTALL)
    names = re.search(r"devices = \{ (.*) \}", found[1]) if found else None
    return None if not found else sorted(names[1].replace('"', "").split(", ")) if names else []


def expected(lab: Lab) -> list[str]:
    return sorted(["client", "stranger", "node-b", "cni0", "port-e", "port-f", *(f"pod-{name}" for name in "abcd")])


# ---- packets --------------------------------------------------------------------------------------


def test_known_packets_go_past_all_chains(web):
    """To all kinds of addresses and endpoints, masqueraded and not."""
    lab, family = web.lab, web.family
    service = web.as_service(type="NodePort", externalIPs=[EXTERNAL[family]])
    service["spec"]["ports"][0]["nodePort"] = NODE_PORT
    web.proxy.manifests.put("web-service", service)
    for pod in ("a", "x", "e"):
        web.put_endpoints(**{pod: "ready"})
        web.settle(pod)
        ways = [(lab.client, web.address, 80), (lab.client, EXTERNAL[family], 80), (lab.stranger, web.address, 80),
                (lab.client, NODE_ADDRESS[family], NODE_PORT), (lab.pods["b"].namespace, web.address, 80)]
        for where, address, port in ways:
            with lab.open(where, address, port, web.protocol, timeout=2) as talk:
                assert ask_on(talk) == pod
                assert passes_by(lab, talk), (pod, where, address)


def test_what_is_not_of_a_service_stays_outside(web):
    lab = web.lab
    web.publish("a")
    with lab.open(lab.client, lab.pods["b"].address[web.family], 8080, web.protocol, timeout=2) as talk:
        assert ask_on(talk) == "b"
        assert not passes_by(lab, talk)


def test_what_another_program_translates_stays_outside(web):
    lab, family = web.lab, web.family
    ip = FAMILY_TABLE[family]
    pod = lab.pods["b"].address[family]
    lab.node.run("nft", f"add table {ip} other; add chain {ip} other c {{ type nat hook prerouting priority -90; }}; "
                        f"add rule {ip} other c {ip} daddr {EXTERNAL[family]} dnat to {pod}")
    with lab.open(lab.client, EXTERNAL[family], 8080, web.protocol, timeout=2) as talk:
        assert ask_on(talk) == "b"
        assert not passes_by(lab, talk)


@contextlib.contextmanager
def tunnel(lab: Lab, family: int):
    """Pod x of the other node is behind one, and so is b of this node for it."""
    ends = (NODE_PEER_ADDRESS[4], OTHER_NODE_ADDRESS[4])
    for here, own, there, towards in ((lab.node, 0, 1, "x"), (lab.node_b, 1, 0, "b")):
        link = "node-b" if here is lab.node else "eth0"
        here.ip(f"link add tunnel0 type vxlan id 7 dstport 4789 local {ends[own]} remote {ends[there]} dev {link}",
                "link set tunnel0 up",
                f"addr add {TUNNEL[family][own]}/{24 if family == 4 else '64 nodad'} dev tunnel0",
                f"route add {lab.pods[towards].address[family]} via {TUNNEL[family][there]} dev tunnel0")
    try:
        yield
    finally:
        lab.node.ip("link del tunnel0")
        lab.node_b.ip("link del tunnel0")


def test_a_tunnel(web):
    lab = web.lab
    with tunnel(lab, web.family):
        wait_for(lambda: "tunnel0" in devices(web.proxy, web.family), "it is one of the devices")
        web.publish("x")
        for where in (lab.pods["b"].namespace, lab.client):
            with lab.open(where, *web.call(), timeout=2) as talk:
                assert ask_on(talk) == "x"
                assert passes_by(lab, talk)


def test_hairpin(web):
    """A pod that reaches itself."""
    lab = web.lab
    web.publish("a")
    with lab.open(lab.pods["a"].namespace, *web.call(), timeout=2) as talk:
        first = hail_on(talk)
        assert first.name == "a" and first.seen != first.sent
        assert {hail_on(talk) for _ in range(PACKETS)} == {first}


def test_masquerading(web):
    """The endpoint goes on seeing the address that it saw first."""
    lab = web.lab
    web.publish("a")
    for where, own in ((lab.client, False), (lab.pods["b"].namespace, True)):
        with lab.open(where, *web.call(), timeout=2) as talk:
            first = hail_on(talk)
            assert (first.seen == first.sent) == own
            assert passes_by(lab, talk)
            assert hail_on(talk) == first


def test_local_policy(web):
    lab, family = web.lab, web.family
    web.put_service(type="LoadBalancer", externalIPs=[EXTERNAL[family]], externalTrafficPolicy="Local")
    there = web.as_slice({"a": "ready", "x": "ready"})
    there["endpoints"][1]["nodeName"] = OTHER_NODE_NAME
    web.proxy.manifests.put("web-slice", there)
    web.settle("a", "x")
    for _ in range(5):
        with lab.open(lab.client, EXTERNAL[family], 80, web.protocol, timeout=2) as talk:
            first = hail_on(talk)
            assert first.name == "a" and first.seen == first.sent == CLIENT_ADDRESS[family]
            assert passes_by(lab, talk)


def test_affinity(web):
    web.put_service(sessionAffinity="ClientIP")
    web.put_endpoints(a="ready", b="ready", c="ready")
    web.settle("a", "b", "c")
    name = web.ask()
    for _ in range(5):
        with web.lab.open(web.lab.client, *web.call(), timeout=2) as talk:
            assert ask_on(talk) == name
            assert passes_by(web.lab, talk)


def test_source_ranges_that_change(web):
    """As without: existing connections stay."""
    lab, family = web.lab, web.family
    everywhere = {4: "192.0.2.0/24", 6: "2001:db8:1::/64"}[family]
    elsewhere = {4: "198.18.0.0/24", 6: "2001:db8:3::/64"}[family]
    for ranges, answer in (([everywhere], "a"), ([elsewhere], "timeout")):
        service = web.as_service(type="LoadBalancer", loadBalancerSourceRanges=ranges)
        service["status"] = {"loadBalancer": {"ingress": [{"ip": EXTERNAL[family]}]}}
        web.proxy.manifests.put("web-service", service)
        if answer == "a":
            web.put_endpoints(a="ready")
            web.settle("a")
            talk = lab.open(lab.client, EXTERNAL[family], 80, web.protocol, timeout=2)
            assert ask_on(talk) == "a" and passes_by(lab, talk)
        wait_for(lambda: lab.ask(lab.client, EXTERNAL[family], 80, web.protocol, timeout=0.5) == answer, answer)
    assert passes_by(lab, talk)
    talk.close()


def test_counting(lab, tmp_path, flowtables, family, protocol):
    """First packets are counted, before they are known."""
    flags = ("--flowtable-devices", DEVICES, "--count-connections", "endpoints")
    with running(lab, tmp_path, *flags) as proxy:
        lab.node.run("nft", "-f", "-", stdin=OBSERVER)
        web = Web(proxy, family, protocol)
        web.publish("a")
        for number in range(1, 4):
            with lab.open(lab.client, *web.call(), timeout=2) as talk:
                assert passes_by(lab, talk)
            listed = " ".join(proxy.tables[family].elements("service_connections")[0])
            assert f"packets {number} " in listed


def test_a_packet_too_large_for_the_way(tcp):
    """Goes the usual way, which answers that it is; then smaller ones pass."""
    lab, family = tcp.lab, tcp.family
    tcp.publish("a")
    device = lab.pods["a"].namespace
    lab.node.ip("link set pod-a mtu 1300")
    device.ip("link set eth0 mtu 1300")
    try:
        with lab.open(lab.client, *tcp.call(), timeout=5) as talk:
            assert passes_by(lab, talk)
            talk.send(b"x" * 8000)
            assert talk.recv(4096).startswith(b"a ")
    finally:
        lab.node.ip("link set pod-a mtu 1500")
        device.ip("link set eth0 mtu 1500")


# ---- the end of connections -----------------------------------------------------------------------


def entries(lab: Lab, address: str) -> list[str]:
    """What conntrack has of connections to an address, if it says so."""
    with lab.node.inside():
        path = pathlib.Path("/proc/thread-self/net/nf_conntrack")
        if not path.exists():
            pytest.skip("/proc/net/nf_conntrack: this kernel has none")
        full = socket.inet_ntop(socket.AF_INET, socket.inet_aton(address)) if ":" not in address else ":".join(
            f"{number:04x}" for number in struct.unpack("!8H", socket.inet_pton(socket.AF_INET6, address)))
        return [line for line in path.read_text().splitlines() if f"dst={full} " in line]


def test_an_entry_is_shown_as_offloaded(tcp):
    lab = tcp.lab
    tcp.publish("a")
    with lab.open(lab.client, *tcp.call(), timeout=2) as talk:
        assert passes_by(lab, talk)
        (entry,) = entries(lab, tcp.address)
        assert "[OFFLOAD]" in entry


@pytest.mark.parametrize("by", ["FIN", "RST"])
def test_a_connection_that_ends(tcp, by):
    """conntrack forgets it as it does without."""
    lab = tcp.lab
    tcp.publish("a")
    talk = lab.open(lab.client, *tcp.call(), timeout=2)
    assert passes_by(lab, talk)
    if by == "FIN":
        talk.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        talk.shutdown(socket.SHUT_WR)
        assert talk.recv(10) == b""
    talk.close()
    most = 130 if by == "FIN" else 12

    def is_ending() -> bool:
        found = entries(lab, tcp.address)
        left = [int(re.search(r" tcp +6 (\d+) ", line)[1]) if "[OFFLOAD]" not in line else 10**6 for line in found]
        return all(seconds <= most for seconds in left)

    wait_for(is_ending, lambda: f"{entries(lab, tcp.address)}", 60)


def open_from(lab: Lab, web: Web, port: int) -> socket.socket:
    """A connection from one source port, as often as one likes."""
    family = socket.AF_INET6 if web.family == 6 else socket.AF_INET
    with lab.client.inside():
        talk = socket.socket(family, socket.SOCK_STREAM)
    talk.settimeout(3)
    talk.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    talk.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    talk.bind(("", port))
    talk.connect((web.address, 80))
    return talk


@contextlib.contextmanager
def stale_entries_looked_for(web: Web):
    """Once more than before what is done inside."""
    def scans() -> int:
        _, _, page = http_get(web.lab.node, "127.0.0.1", 10249, "/metrics")
        return int(re.search(rf'^kube_nftd_conntrack_scans_total{{ip_family="IPv{web.family}"}} (\d+)', page, re.MULTILINE)[1])

    before = scans()
    yield
    wait_for(lambda: scans() > before, "stale entries are looked for")


@pytest.mark.parametrize("first", ["reset", "endpoint goes"])
def test_the_same_port_again_when_the_endpoint_is_gone(tcp, first):
    lab = tcp.lab
    tcp.publish("a")
    talk = open_from(lab, tcp, 29999)
    assert ask_on(talk) == "a" and passes_by(lab, talk)
    if first == "reset":
        talk.close()
    with stale_entries_looked_for(tcp):
        tcp.put_endpoints(b="ready")
        tcp.settle("b")
    talk.close()
    with open_from(lab, tcp, 29999) as again:
        assert ask_on(again) == "b"


def test_a_terminating_endpoint_keeps_its_connections(tcp):
    """As without: only new ones go elsewhere."""
    lab = tcp.lab
    tcp.publish("a")
    with lab.open(lab.client, *tcp.call(), timeout=2) as talk:
        assert passes_by(lab, talk)
        tcp.put_endpoints(a="terminating", b="ready")
        tcp.settle("b")
        time.sleep(0.5)  # longer than it takes to look for stale entries
        assert ask_on(talk) == "a" and passes_by(lab, talk)
        assert tcp.ask() == "b"


def test_udp_whose_endpoint_goes(udp):
    lab = udp.lab
    udp.publish("a")
    with lab.open(lab.client, *udp.call(), timeout=2) as talk:
        assert ask_on(talk) == "a" and passes_by(lab, talk)
        udp.put_endpoints(b="ready")
        udp.settle("b")
        wait_for(lambda: ask_on(talk) == "b", "the flow has moved")
        assert passes_by(lab, talk)


# ---- what is said of it --------------------------------------------------------------------------


def test_status_and_metrics(tcp):
    lab, proxy = tcp.lab, tcp.proxy
    tcp.publish("a")
    ip = f"IPv{tcp.family}"
    with lab.open(lab.client, *tcp.call(), timeout=2) as talk:
        assert passes_by(lab, talk)
        wait_for(lambda: devices(proxy, tcp.family) == expected(lab), "the devices are there")
        told = json.loads(call(lab.node, "status", "-o", "json").stdout)
        (family,) = (it for it in told["families"] if it["family"] == ip)
        assert sorted(family["flowtable"]["devices"]) == expected(lab)
        assert family["flowtable"]["flows"] == 1 and not family["flowtable"]["leftOut"]
        text = call(lab.node, "status").stdout
        assert re.search(r"flowtable of client, cni0, .* and \d+ more: 1 connections go through it", text), text
        _, _, page = http_get(lab.node, "127.0.0.1", 10249, "/metrics")
        for name, value in (("devices", len(expected(lab))), ("flows", 1)):
            assert f'kube_nftd_flowtable_{name}{{ip_family="{ip}"}} {value}\n' in page
        explained = call(lab.node, "explain", f"{tcp.address}:80" if tcp.family == 4 else f"[{tcp.address}]:80")
        assert explained.returncode == 0, explained.stdout


# ---- the table ------------------------------------------------------------------------------------


def test_devices_come_and_go(fast, lab):
    def wait_devices(*more: str) -> None:
        wanted = sorted([*expected(lab), *more])
        wait_for(lambda: all(devices(fast, family) == wanted for family in (4, 6)),
                 lambda: f"{wanted}: {devices(fast, 4)}, {devices(fast, 6)}")

    wait_devices()
    lab.node.ip("link add pod-new type dummy", "link add other type dummy")
    wait_devices("pod-new")
    lab.node.ip("link set pod-new name renamed", "link set other name pod-other")
    wait_devices("pod-other")
    lab.node.ip("link del renamed", "link del pod-other")
    wait_devices()


def test_hundreds_of_devices_at_once(fast, lab):
    many = [f"pod-{number:03}" for number in range(300)]
    wanted = sorted([*expected(lab), *many])
    lab.node.ip(*(f"link add {name} type dummy" for name in many))
    wait_for(lambda: devices(fast, 4) == wanted, lambda: f"{len(devices(fast, 4))} devices", 30)
    changes = re.findall(r"family=IPv4 devices=\d+ added=\d+", fast.daemon.log())
    assert len(changes) < len(many) / 4, changes
    lab.node.ip(*(f"link del {name}" for name in many))
    wait_for(lambda: devices(fast, 4) == expected(lab), lambda: f"{len(devices(fast, 4))} devices", 30)


def test_a_restart_leaves_it_as_it_is(web):
    lab, proxy = web.lab, web.proxy
    web.publish("a")
    with lab.open(lab.client, *web.call(), timeout=2) as talk:
        assert passes_by(lab, talk)
        before = proxy.shape()
        proxy.daemon.stop()
        assert passes_by(lab, talk)
        proxy.daemon.start()
        wait_for(lambda: devices(proxy, web.family) == expected(lab), "the devices are there")
        assert proxy.shape() == before
        assert passes_by(lab, talk)


def test_switched_off_and_on_again(web):
    lab, proxy = web.lab, web.proxy
    web.publish("a")
    flags = proxy.daemon.flags
    with lab.open(lab.client, *web.call(), timeout=2) as talk:
        assert passes_by(lab, talk)
        proxy.daemon.stop()
        proxy.daemon.flags = ("--table-owner", "off")
        proxy.daemon.start()
        assert devices(proxy, web.family) is None
        assert "flow add" not in proxy.tables[web.family].listing()
        assert ask_on(talk) == "a" and not passes_by(lab, talk)
        proxy.daemon.stop()
        proxy.daemon.flags = flags
        proxy.daemon.start()
        wait_for(lambda: devices(proxy, web.family) == expected(lab), "the devices are there")
        assert passes_by(lab, talk)


def test_an_upgrade_replaces_the_table(web):
    """Another layout: the table is made anew, with the flowtable."""
    lab, proxy = web.lab, web.proxy
    web.publish("a")
    with lab.open(lab.client, *web.call(), timeout=2) as talk:
        assert passes_by(lab, talk)
        proxy.daemon.stop()
        for family in FAMILY_TABLE.values():
            lab.node.run("nft", f"add set {family} kube-nftd pod_cidrs2 {{ type inet_service; }}; "
                                f"delete set {family} kube-nftd localhost_connections")
        proxy.daemon.start()
        assert "replacing the table" in proxy.daemon.log()
        wait_for(lambda: devices(proxy, web.family) == expected(lab), "the devices are there")
        assert passes_by(lab, talk)


def test_cleanup_takes_it_along(web):
    lab, proxy = web.lab, web.proxy
    web.publish("a")
    with lab.open(lab.client, *web.call(), timeout=2) as talk:
        assert passes_by(lab, talk)
        proxy.daemon.stop()
        assert call(lab.node, "cleanup").returncode == 0
        assert "kube-nftd" not in lab.node.run("nft", "list", "ruleset").stdout


def test_somebody_flushes_the_ruleset(web):
    """Until it is repaired, packets of known connections go where they were sent: an acknowledgement that comes late would
    get to the outside, which resets the connection. So it goes first."""
    lab, proxy = web.lab, web.proxy
    web.publish("a")
    with lab.open(lab.client, *web.call(), timeout=2) as talk:
        assert passes_by(lab, talk)
        if web.protocol == "TCP":
            talk.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        lab.node.run("nft", "flush", "ruleset")
        wait_for(lambda: devices(proxy, web.family) == expected(lab), "the devices are there again")
        lab.node.run("nft", "-f", "-", stdin=OBSERVER)
        assert passes_by(lab, talk)
        assert web.ask() == "a"


@pytest.mark.parametrize("what", ["device", "rules", "flowtable"])
def test_somebody_changes_it(fast, lab, family, what):
    if what == "device":
        family = 4  # to remove one, nft names priority 0, whatever it was told
    table = f"{FAMILY_TABLE[family]} kube-nftd"
    wait_for(lambda: devices(fast, family) == expected(lab), "the devices are there")
    lab.node.run("nft", {
        "device": f"delete flowtable {table} fast {{ hook ingress priority 0; devices = {{ client }}; }}",
        "rules": f"flush chain {table} flows",
        "flowtable": f"flush chain {table} flows; delete flowtable {table} fast",
    }[what])  # fmt: skip
    wait_for(lambda: devices(fast, family) == expected(lab) and "flow add @fast" in fast.tables[family].listing(),
             lambda: f"{devices(fast, family)}")


def test_a_table_with_an_owner(lab, tmp_path, flowtables, kept_tables, family):
    with running(lab, tmp_path, "--flowtable-devices", DEVICES) as proxy:
        wait_for(lambda: devices(proxy, family) == expected(lab), "the devices are there")
        lab.node.ip("link add pod-new type dummy")
        wait_for(lambda: "pod-new" in devices(proxy, family), "it has the new one")
        lab.node.ip("link del pod-new")


def test_a_device_that_cannot_be_hooked(lab, tmp_path, fast, family):
    """It is in another flowtable of the table, as of another program."""
    table = f"{FAMILY_TABLE[family]} kube-nftd"
    fast.daemon.stop()
    lab.node.ip("link add pod-odd type dummy", "link add pod-new type dummy")
    lab.node.run("nft", f"add flowtable {table} theirs {{ hook ingress priority 0; devices = {{ pod-odd }}; }}")
    try:
        fast.daemon.start()
        wait_for(lambda: "pod-new" in devices(fast, family), "it has the others")
        wait_for(lambda: "device=pod-odd is left out" in fast.daemon.log(), "that is logged")
        status = call(lab.node, "status").stdout
        assert "pod-odd" in status
        assert len(re.findall(f"family=IPv{family} device=pod-odd is left out", fast.daemon.log())) == 1
    finally:
        lab.node.ip("link del pod-odd", "link del pod-new")


def test_the_dump_is_the_table(fast, lab, family, tmp_path):
    wait_for(lambda: devices(fast, family) == expected(lab), "the devices are there")
    listing = fast.tables[family].listing()
    done = call(lab.node, "dump", "--manifests", str(fast.manifests.folder), "--hostname-override", NODE_NAME,
                *fast.daemon.flags)
    fast.daemon.stop()
    lab.node.run("nft", "-f", "-", stdin=done.stdout)
    assert fast.tables[family].listing() == listing
