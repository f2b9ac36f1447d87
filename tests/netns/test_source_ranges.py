# SPDX-License-Identifier: GPL-2.0-or-later
"""Source ranges: every length of a prefix; lists that are replaced, come and go while new flows come; how much is sent
for it; which packets meet the check."""

import http.client
import ipaddress
import json
import re
import time

import pytest

from daemon import wait_for
from lab import CLIENT_ADDRESS, FAMILIES, Lab
from scenario import Proxy, Web, running
from test_shrink import Witness

VIP = {4: "203.0.113.90", 6: "2001:db8:5::90"}
OTHER_VIP = {4: "203.0.113.91", 6: "2001:db8:5::91"}
LENGTHS = {4: (1, 2, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32), 6: (1, 2, 15, 16, 32, 47, 48, 63, 64, 65, 96, 127, 128)}
FULL = {4: 32, 6: 128}  # the length of an address
DROP_TIMEOUT = 0.3

SWITCHES = 100
LEAST_RATE = 50  # packets for each switch, or it would prove little
LONG = 6000  # ranges

# New flows to the load-balancer address, before and behind the place where sources are looked up.
COUNTERS = """
table ip sources {{
    counter arrived {{ }}
    counter passed {{ }}
    chain before {{ type filter hook prerouting priority -111; ip protocol udp ip daddr {vip} counter name arrived; }}
    chain behind {{
        type filter hook prerouting priority -99
        ip protocol udp ct direction original ct original ip daddr {vip} counter name passed
    }}
}}
"""


def with_ranges(service: dict, vip: str, ranges: list[str]) -> dict:
    service["spec"] |= {"type": "LoadBalancer", "loadBalancerSourceRanges": ranges}
    return service | {"status": {"loadBalancer": {"ingress": [{"ip": vip}]}}}


def network(address: str, length: int) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(f"{address}/{length}", strict=False)


def neighbour(address: str, length: int) -> str:
    """The prefix of the same length that differs in its last bit."""
    whole = ipaddress.ip_address(address)
    return str(network(str(whole.__class__(int(whole) ^ 1 << whole.max_prefixlen - length)), length))


@pytest.mark.parametrize("family", FAMILIES)
def test_prefixes_of_any_length(proxy, family):
    """One service lets the client in by the prefix that it is in, another one those beside it."""
    lab, client = proxy.lab, CLIENT_ADDRESS[family]
    webs = {VIP[family]: Web(proxy, family, "TCP", "in"), OTHER_VIP[family]: Web(proxy, family, "TCP", "out")}
    for web in webs.values():
        web.put_endpoints(a="ready")
    for length in LENGTHS[family]:
        ranges = {VIP[family]: str(network(client, length)), OTHER_VIP[family]: neighbour(client, length)}
        proxy.manifests.put("services", *(
            with_ranges(web.as_service(), vip, [ranges[vip]]) for vip, web in webs.items()
        ))  # fmt: skip
        wanted = {f"{prefix.partition('/')[0]} . 0:{length:x}" for prefix in ranges.values()}
        wait_for(lambda: wanted <= prefixes(proxy, family), lambda: f"{wanted} are in force")
        assert lab.ask(lab.client, VIP[family], 80, "TCP") == "a", length
        assert lab.ask(lab.client, OTHER_VIP[family], 80, "TCP", DROP_TIMEOUT) == "timeout", length
    halves = [str(half) for half in network(client, 0).subnets()]
    proxy.manifests.put("services", with_ranges(webs[OTHER_VIP[family]].as_service(), OTHER_VIP[family], halves))
    wanted = {f"{half.partition('/')[0]} . 0:1" for half in halves}
    wait_for(lambda: wanted <= prefixes(proxy, family), lambda: f"{wanted} are in force")
    assert lab.ask(lab.client, OTHER_VIP[family], 80, "TCP") == "a"


def prefixes(proxy: Proxy, family: int) -> set[str]:
    """The elements of allowed_sources, but for the numbers of their lists."""
    node = proxy.lab.node
    listing = node.run("nft", "list", "set", *proxy.tables[family].name.split(), "allowed_sources").stdout
    found = re.search(r"elements = \{(.*?)\}", listing, re.DOTALL)
    elements = " ".join(found[1].split()).split(", ") if found else []
    return {re.sub(r"[0-9a-f]+:[0-9a-f]*?([0-9a-f]{2})$", lambda m: f"0:{int(m[1], 16):x}", each) for each in elements}


class Switcher:
    """Gives a service other source ranges, and waits until they are in force."""

    def __init__(self, proxy: Proxy, web: Web) -> None:
        self.web = web
        self.manifests = proxy.manifests
        self._version = 100
        self._page = http.client.HTTPConnection("127.0.0.1", 10249, timeout=10)
        with proxy.lab.node.inside():
            self._page.connect()

    def put(self, ranges: list[str], ports: int = 1) -> None:
        self._version += 1
        service = with_ranges(self.web.as_service(), VIP[4], ranges)
        service["metadata"]["resourceVersion"] = str(self._version)
        [port] = service["spec"]["ports"]
        service["spec"]["ports"] = [port | {"name": f"p{i}", "port": 80 + i} for i in range(ports)]
        self.manifests.put("service", service)
        wait_for(self.in_force, f"{len(ranges)} ranges are in force")

    def in_force(self) -> bool:
        self._page.request("GET", f"/programmed?namespace=default&service={self.web.name}")
        told = json.loads(self._page.getresponse().read())
        return told.get("service", {}).get("inKernel", {}).get("IPv4") == str(self._version)


def many(n: int, first: int) -> list[str]:
    """None of them has the client, and no two touch."""
    return [f"{10 + number // 2**15}.{number // 2**7 % 256}.{number % 2**7 * 2}.0/24" for number in range(first, first + n)]


def counted(lab: Lab, name: str) -> int:
    return int(re.search(r"packets (\d+)", lab.node.run("nft", "list", "counter", "ip", "sources", name).stdout)[1])


def test_lists_are_replaced_under_traffic(proxy):
    """A client that the old and the new list let in is never refused, however long the lists are, nor when ranges come
    and go."""
    lab, client = proxy.lab, CLIENT_ADDRESS[4]
    web = Web(proxy, 4, "UDP")
    switcher = Switcher(proxy, web)
    slices = web.as_slice({"a": "ready"})
    slices["ports"][0]["name"] = "p0"
    proxy.manifests.put("slices", slices)
    switcher.put([f"{client}/32"])
    lab.node.run("nft", "-f", "-", stdin=COUNTERS.format(vip=VIP[4]))
    web.address = VIP[4]
    with Witness(lab, [web]) as witness:
        for number in range(SWITCHES):
            own = str(network(client, (32, 24, 16, 9)[number % 4]))
            ranges = [own, *many(LONG if number % 10 == 0 else number, 3 * number)]
            switcher.put(ranges if number % 6 else [])
            if number % 7 == 0:
                time.sleep(0.15)  # the old one goes meanwhile
    arrived, passed = counted(lab, "arrived"), counted(lab, "passed")
    print(f"{SWITCHES} lists under {arrived} new flows")
    assert arrived - passed == witness.missed == 0
    assert witness.found > LEAST_RATE * SWITCHES


def transactions(proxy: Proxy) -> list[tuple[int, int]]:
    """The elements that each one added and deleted in IPv4."""
    lines = re.findall(r"family=IPv4 committed (?:services=\S+ )?(?:more=\d+ )?added=(\d+) deleted=(\d+) ", proxy.daemon.log())
    return [(int(added), int(deleted)) for added, deleted in lines]


def test_what_is_sent_for_another_list(proxy):
    """A list counts once, however many ports have it; one transaction brings it, one removes it."""
    ports = 30
    web = Web(proxy, 4, "UDP")
    switcher = Switcher(proxy, web)
    slices = web.as_slice({"a": "ready"})
    slices["ports"] = [slices["ports"][0] | {"name": f"p{i}"} for i in range(ports)]
    proxy.manifests.put("slices", slices)
    switcher.put(many(1000, 0), ports)
    before = len(transactions(proxy))
    switcher.put(many(1000, 1000), ports)
    wait_for(lambda: (0, 1000) in transactions(proxy)[before:], "the old list is gone")
    assert len(prefixes(proxy, 4)) == 1000
    sent = transactions(proxy)[before:]
    assert sent == [(1000 + ports, ports), (0, 1000)]
    switcher.put(many(10_000, 2000), ports)
    wait_for(lambda: (0, 1000) in transactions(proxy)[before + 2:], "the old list is gone")
    assert len(prefixes(proxy, 4)) == 10_000
    sent = transactions(proxy)[before + 2:]
    assert sent[0][0] > 10_000 and sent[-1] == (0, 1000)  # its ports may follow in portions
    assert (sum(added for added, _ in sent), sum(deleted for _, deleted in sent)) == (10_000 + ports, 1000 + ports)


def test_what_the_check_costs_others(lab, tmp_path, family):
    """Of one service port, connections to the balancer's address alone meet the check; refused ones are not counted."""
    with running(lab, tmp_path, "--count-connections", "services", "--table-owner", "off") as proxy:
        web = Web(proxy, family, "TCP")
        ranges = [f"{CLIENT_ADDRESS[family]}/{FULL[family]}"]
        service = with_ranges(web.as_service(externalIPs=[OTHER_VIP[family]]), VIP[family], ranges)
        proxy.manifests.put("service", service)
        web.put_endpoints(a="ready")
        web.settle("a")
        table = proxy.tables[family]
        wait_for(lambda: "chain restricted" in table.listing(), "the check is there")
        assert proxy.daemon.stop() == 0
        lab.node.run("nft", f"insert rule {table.name} restricted counter")

        def met() -> int:
            return int(re.search(r"chain restricted {\n\t\tcounter packets (\d+)", table.listing())[1])

        def connections() -> int:
            counters = table.listing().partition("set service_connections {")[2].partition("\n\t}")[0]
            return sum(map(int, re.findall(r"counter packets (\d+)", counters)))

        before = connections()
        for address in (web.address, OTHER_VIP[family]):
            assert lab.ask(lab.stranger, address, 80, "TCP") == "a"
        assert (met(), connections() - before) == (0, 2)
        assert lab.ask(lab.client, VIP[family], 80, "TCP") == "a"
        assert (met(), connections() - before) == (1, 3)
        assert lab.ask(lab.stranger, VIP[family], 80, "TCP", DROP_TIMEOUT) == "timeout"
        assert met() > 1 and connections() - before == 3
        proxy.daemon.start()
