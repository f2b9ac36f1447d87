# SPDX-License-Identifier: GPL-2.0-or-later
"""Connections counted: totals against clients that count, in the lists, in metrics and in top."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

import objects
from daemon import BINARY, call, environment, http_get, wait_for
from lab import NODE_ADDRESS, OTHER_NODE_ADDRESS, OUTSIDE_ADDRESS, POD_PORTS
from scenario import Proxy, Traffic, Web, running

METRICS_PORT = 10249
METRIC = re.compile(r'kube_nftd_service_connections_total\{namespace="(.*?)",service="(.*?)",port="(.*?)"\} (\d+)')
AFFINITY = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 100}}}


@pytest.fixture
def counting(lab, tmp_path, request):
    with running(lab, tmp_path, "--count-connections", *getattr(request, "param", "services").split()) as proxy:
        yield proxy


# Tables that nft can change.
FOR_OTHERS = pytest.mark.parametrize("counting", ["services --table-owner off"], indirect=True)


@pytest.fixture
def counted(counting, family, protocol) -> Web:
    return Web(counting, family, protocol)


@pytest.fixture
def plain(counting) -> Web:
    return Web(counting, 4, "TCP")


def page(proxy: Proxy, path: str) -> str:
    time.sleep(0.11)  # answers of a tenth of a second share a reading
    status, _, text = http_get(proxy.lab.node, "127.0.0.1", METRICS_PORT, path)
    assert status == 200, text
    return text


def totals(proxy: Proxy) -> dict[str, int]:
    """What list says of each Service; that is what /connections says, but for those without any."""
    items = json.loads(page(proxy, "/list"))["items"]
    listed = {item["name"]: item["connections"] for item in items}
    called = {item["name"]: item["connections"] for item in json.loads(page(proxy, "/connections"))["items"]}
    assert called == {name: total for name, total in listed.items() if total}
    return listed


def connect(web: Web, times: int, where=None, to: tuple[str, int] | None = None) -> None:
    """Each answered by some endpoint."""
    address, port, protocol = (*(to or web.call()[:2]), web.protocol)
    for _ in range(times):
        assert web.lab.ask(where or web.lab.client, address, port, protocol) in web.lab.pods


def endpoints(web: Web) -> dict[str, int]:
    """What list endpoints says, by pod."""
    answer = json.loads(call(web.lab.node, "list", "endpoints", f"default/{web.name}", "-o", "json").stdout)
    names = {pod.address[web.family]: name for name, pod in web.lab.pods.items()}
    names[NODE_ADDRESS[web.family]], names[OTHER_NODE_ADDRESS[web.family]] = "host", "host-b"
    (port,) = (port for port in answer["service"]["ports"] if port["endpoints"]["items"])
    return {names[it["address"]]: it["connections"] for it in port["endpoints"]["items"]}


def publish_with_host(web: Web, *pods: str) -> None:
    """These, and one with hostNetwork on the node."""
    web.put_service()
    slice = web.as_slice(dict.fromkeys(pods, "ready"))
    slice["endpoints"].append(objects.endpoint(NODE_ADDRESS[web.family]))
    web.proxy.manifests.put("web-slice", slice)
    addresses = [web.lab.pods[pod].address[web.family] for pod in pods] + [NODE_ADDRESS[web.family]]
    web.wait_backends(sorted((address, POD_PORTS[0]) for address in addresses))


def restart(proxy: Proxy, *flags: str) -> None:
    assert proxy.daemon.stop() == 0
    proxy.daemon.flags = flags or proxy.daemon.flags
    proxy.daemon.start()


def test_to_the_connection(counted):
    """While endpoints come and go, through restarts, and from the node itself."""
    counted.publish("a", "b", "c")
    assert totals(counted.proxy) == {"web": 0}
    connect(counted, 7)
    assert totals(counted.proxy) == {"web": 7}
    for pods in ("a",), ("a", "b", "x"), ("b",):
        counted.publish(*pods)
        connect(counted, 3)
    connect(counted, 5, counted.lab.node)
    assert totals(counted.proxy) == {"web": 21}
    restart(counted.proxy)
    assert totals(counted.proxy) == {"web": 21}
    connect(counted, 2, counted.lab.pods["d"].namespace)
    assert totals(counted.proxy) == {"web": 23}


@FOR_OTHERS
def test_a_table_that_is_made_anew_goes_on(counted):
    """With what was read last; then restarts lose nothing of that either."""
    counted.publish("a")
    connect(counted, 5)
    assert totals(counted.proxy) == {"web": 5}
    node, table = counted.lab.node, counted.proxy.tables[counted.family].name
    node.run(node.nft, f"delete table {table}")
    wait_for(lambda: "repaired changes by another program" in counted.proxy.daemon.log(), "it is put right")
    assert totals(counted.proxy) == {"web": 5}
    connect(counted, 2)
    restart(counted.proxy)
    assert totals(counted.proxy) == {"web": 7}


def test_every_address_of_a_service(plain):
    """Cluster IP, node port and external IP, with affinity and policy Local, count as one."""
    service = plain.as_service(type="NodePort", externalTrafficPolicy="Local", externalIPs=["203.0.113.7"], **AFFINITY)
    service["spec"]["ports"][0]["nodePort"] = 30001
    plain.proxy.manifests.put("web-service", service)
    plain.put_endpoints(a="ready", b="ready")
    plain.settle("a", "b")
    connect(plain, 2)
    connect(plain, 3, to=("203.0.113.7", 80))
    connect(plain, 4, to=(NODE_ADDRESS[4], 30001))
    connect(plain, 1, plain.lab.node)
    assert totals(plain.proxy) == {"web": 10}


@pytest.mark.parametrize("counting", ["endpoints"], indirect=True)
def test_endpoints_to_the_connection(counted):
    """Each is counted where it went, and once, wherever from: also if client or endpoint is the node itself."""
    lab = counted.lab
    publish_with_host(counted, "a", "b", "x")
    tallies = [counted.tally(where, 20) for where in (lab.client, lab.node, lab.pods["d"].namespace)]
    expected = {name: sum(tally[name] for tally in tallies) for name in ("a", "b", "x", "host")}
    assert sum(expected.values()) == 60 and endpoints(counted) == expected
    restart(counted.proxy)
    publish_with_host(counted, "a", "c")
    expected = {"a": expected["a"], "c": 0, "host": expected["host"]}
    assert endpoints(counted) == expected
    more = counted.tally(times=20)
    assert endpoints(counted) == {name: expected[name] + more[name] for name in expected}
    assert totals(counted.proxy) == {"web": 80}


@pytest.mark.parametrize("counting", ["endpoints"], indirect=True)
def test_endpoints_of_two_services(plain):
    """Each has its own count; and what another program translates is nobody's."""
    other = Web(plain.proxy, 4, "TCP", "other")
    plain.publish("a")
    other.publish("a")
    connect(plain, 3)
    connect(other, 2)
    pod = plain.lab.pods["a"].address[4]
    theirs = f"""table ip theirs {{
        chain prerouting {{
            type nat hook prerouting priority -101;
            ip daddr 203.0.113.77 tcp dport 80 dnat to {pod}:8080
        }}
        chain postrouting {{
            type nat hook postrouting priority 100;
            masquerade
        }}
    }}"""
    plain.lab.node.run(plain.lab.node.nft, "-f", "-", stdin=theirs)
    connect(plain, 4, to=("203.0.113.77", 80))
    connect(plain, 1)
    assert (endpoints(plain), endpoints(other)) == ({"a": 4}, {"a": 2})
    assert totals(plain.proxy) == {"web": 4, "other": 2}
    text = call(plain.lab.node, "list", "endpoints", "default/web", "-o", "wide").stdout
    assert re.search(r"SLICE +CONNECTIONS +FROM HERE\n.*web-1 +4 +used\n", text), text


@pytest.mark.parametrize("counting", ["endpoints"], indirect=True)
def test_an_endpoint_at_the_address_of_its_service(counted):
    """Translation changes nothing, so conntrack does not call it translated. A service port's number leaves the node no
    more than with other endpoints, and the priority that another program gives its own packets stays."""
    lab, family, nft = counted.lab, counted.family, counted.lab.node.nft
    ip, outside = "ip" if family == 4 else "ip6", OUTSIDE_ADDRESS[family]
    theirs = f"""table {ip} theirs {{
        chain before {{
            type filter hook postrouting priority 98;
            {ip} daddr {outside} meta priority set 7:7
        }}
        chain after {{
            type filter hook postrouting priority 101;
            meta priority 7:7 counter return
            meta priority & ffff:8000 != 0 counter
        }}
    }}"""
    own = [NODE_ADDRESS[family], OTHER_NODE_ADDRESS[family]]
    service = counted.as_service(externalIPs=own)
    service["spec"]["ports"][0]["port"] = POD_PORTS[0]
    slice = counted.as_slice({"a": "ready"})
    slice["endpoints"] += [objects.endpoint(address) for address in own]
    counted.proxy.manifests.put("web-service", service)
    counted.proxy.manifests.put("web-slice", slice)
    wait_for(lambda: len(counted.proxy.tables[family].elements("endpoints")[0]) == 3, "all are there")
    lab.node.run(nft, "-f", "-", stdin=theirs)
    ways = [(where, own[0]) for where in (lab.client, lab.node, lab.pods["d"].namespace)]
    ways += [(where, own[1]) for where in (lab.node, lab.pods["d"].namespace)]
    reached = [lab.ask(*way, POD_PORTS[0], counted.protocol) for way in ways for _ in range(10)]
    assert set(reached) <= {"a", "host", "host-b"}
    assert endpoints(counted) == {name: reached.count(name) for name in ("a", "host", "host-b")}
    assert lab.ask(lab.pods["d"].namespace, outside, 80, counted.protocol) == "outside"
    counters = re.findall(r"counter packets (\d+)", lab.node.run(nft, f"list chain {ip} theirs after").stdout)
    assert int(counters[0]) > 0 and counters[1] == "0", counters


def test_what_is_there_for_people(plain):
    plain.publish("a")
    connect(plain, 3)
    quiet = Web(plain.proxy, 4, "TCP", "quiet")
    quiet.publish("b")
    node = plain.lab.node
    time.sleep(0.11)
    lines = call(node, "list", "-o", "wide").stdout.splitlines()
    column = lines[0].index("CONNECTIONS")
    shown = {line.split()[0]: line[column:].split()[0] for line in lines[1:]}
    assert shown == {"default/quiet": "0", "default/web": "3"}
    assert "CONNECTIONS" not in call(node, "list").stdout
    sample = [("default", "web", "http", "3")]
    wait_for(lambda: METRIC.findall(page(plain.proxy, "/metrics")) == sample, "it is read")
    assert "kube_nftd_service_connections_omitted 0\n" in page(plain.proxy, "/metrics")


@FOR_OTHERS
def test_metrics_have_the_most(counting):
    """A thousand service ports, and how many others there are."""
    proxy = counting
    port = [objects.Port("", "TCP", 80)]
    proxy.manifests.put("many", *(objects.service(f"s{i}", {4: f"10.96.{i >> 8}.{i & 255}"}, port) for i in range(1005)))
    wait_for(lambda: len(proxy.tables[4].elements("services")[0]) == 1005, "all are in the kernel")
    totals = {}
    for element in proxy.tables[4].elements("services")[0]:
        frontend, number = element.split(" : ")
        high, low = (int(part) for part in frontend.split(" ")[0].split(".")[2:])
        totals[number] = (high << 8 | low) + 1
    counted = ", ".join(f"{number} counter packets {total} bytes 9" for number, total in totals.items())
    nft = proxy.lab.node.nft
    proxy.lab.node.run(nft, "-f", "-", stdin=f"add element ip kube-nftd service_connections {{ {counted} }}")
    wait_for(lambda: "kube_nftd_service_connections_omitted 5\n" in page(proxy, "/metrics"), "all were read")
    samples = METRIC.findall(page(proxy, "/metrics"))
    assert samples == [("default", f"s{i}", "80", str(i + 1)) for i in range(1004, 4, -1)]


def test_nobody_counts_unless_asked(tcp):
    tcp.publish("a")
    connect(tcp, 1)
    assert "connections" not in page(tcp.proxy, "/list") and "connections" not in page(tcp.proxy, "/metrics")
    assert json.loads(page(tcp.proxy, "/connections"))["items"] == []
    assert "CONNECTIONS" not in call(tcp.lab.node, "list", "-o", "wide").stdout
    assert "counter" not in tcp.proxy.tables[4].listing() and "99" not in tcp.proxy.tables[4].listing()


def test_switched_on_and_off(tcp):
    """Rules change; the table and what packets wrote stay, but for the counts."""
    tcp.put_service(**AFFINITY)
    tcp.put_endpoints(a="ready", b="ready")
    tcp.settle("a", "b")
    pod = tcp.ask()
    for flags, expected in (("services", 4), ("endpoints", 8), ("services", 12)):
        restart(tcp.proxy, "--count-connections", flags)
        assert [tcp.ask() for _ in range(4)] == [pod] * 4
        assert totals(tcp.proxy) == {"web": expected}
    restart(tcp.proxy, "--count-connections", "off")
    assert tcp.ask() == pod and tcp.proxy.tables[4].elements("service_connections") == [[]]
    assert "replacing a table" not in tcp.proxy.daemon.log()


@FOR_OTHERS
def test_a_number_that_is_used_again(counting):
    """What another service port had is not counted for the one that gets its number."""
    proxy = counting
    first, second = Web(proxy, 4, "TCP", "first"), Web(proxy, 4, "TCP", "second")
    first.publish("a")
    upper, lower = proxy.tables[4].elements("services")[0][0].split(" : ")[1].split(":")
    number = (int(upper, 16) << 16 | int(lower, 16)) >> 15
    later = [value << 15 for value in range(number + 1, number + 9)]
    elements = ", ".join(f"{it >> 16:x}:{it & 0xffff:x} counter packets 9 bytes 9" for it in later)
    nft = proxy.lab.node.nft
    proxy.lab.node.run(nft, "add", "element", "ip", "kube-nftd", "service_connections", f"{{ {elements} }}")
    connect(first, 2)
    second.publish("b")
    assert totals(proxy) == {"first": 2, "second": 0}
    connect(second, 3)
    assert totals(proxy) == {"first": 2, "second": 3}
    assert len(proxy.tables[4].elements("service_connections")[0]) == 9  # 7 of nobody: left alone


# ---- top ----


class Screen:
    """kube-nftd top on a terminal of 24 x 80, and what is to be seen there."""

    def __init__(self, namespace, *arguments: str) -> None:
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.ours)
        with namespace.inside():
            self.process = subprocess.Popen(
                [str(BINARY), "top", *arguments], stdin=theirs, stdout=theirs, stderr=theirs,
                env=environment() | {"NO_COLOR": "1"},
            )  # fmt: skip
        self.theirs = theirs
        self.text = ""

    def lines(self) -> list[str]:
        """Of the last picture that is complete."""
        while select.select([self.ours], [], [], 0.05)[0]:
            self.text += os.read(self.ours, 65536).decode()
        pictures = self.text.split("\033[H")
        return [line.replace("\033[K", "").rstrip("\r") for line in pictures[-1].split("\033[J")[0].split("\n")]

    def wait(self, pattern: str) -> re.Match:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if match := re.search(pattern, "\n".join(self.lines())):
                return match
        raise AssertionError(f"no {pattern} on the screen: {self.lines()}")

    def press(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def end(self) -> int:
        status = self.process.wait(30)
        self.lines()
        assert self.text.endswith("\033[?25h\033[?1049l"), self.text[-100:]
        assert termios.tcgetattr(self.ours) == self.before
        os.close(self.ours)
        os.close(self.theirs)
        return status


@pytest.fixture
def two(counting):
    """Services web (endpoint a) and quiet (endpoint b), of which web is called all the time."""
    web, quiet = Web(counting, 4, "TCP"), Web(counting, 4, "TCP", "quiet")
    web.publish("a")
    quiet.publish("b")
    connect(quiet, 500)
    with Traffic(web.lab, web.lab.client, *web.call()):
        yield web


@pytest.mark.parametrize("counting", ["endpoints"], indirect=True)
def test_top(two):
    """Sorts, chooses, shows endpoints and comes back; and the terminal is as it was."""
    pod = two.lab.pods["a"].address[4]
    screen = Screen(two.lab.node)
    screen.wait(r"Services, by new connections\nSERVICE +NEW/S +CONNECTIONS\n> default/web +[1-9][0-9.]* +\d+\ndefault/quiet +0 +500\n")
    screen.press("\033[B")
    screen.wait(r"\ndefault/web .*\n> default/quiet ")
    screen.press("s")
    screen.wait(r"by total\n")
    screen.press("s")
    screen.wait(r"by name\n.*\n> default/quiet .*\ndefault/web ")
    screen.press("j\r")
    screen.wait(rf"Endpoints of default/web, by name\nENDPOINT +NEW/S +CONNECTIONS\n> {pod}:8080 +[1-9][0-9.]* +\d+\n")
    screen.press("\033")
    screen.wait(r"Services, by name\n")
    screen.press("q")
    assert screen.end() == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_top_ends_by_signals(two, how):
    screen = Screen(two.lab.node, "default/web")
    assert screen.process.wait(30) == 1  # endpoints are not counted: said before the terminal is taken
    assert "--count-connections endpoints" in "".join(screen.lines())
    os.close(screen.ours)
    screen = Screen(two.lab.node)
    screen.wait("default/web")
    screen.process.send_signal(how)
    assert screen.end() == 0


@pytest.mark.parametrize("counting", ["endpoints"], indirect=True)
def test_top_without_a_terminal(two):
    node, pod = two.lab.node, two.lab.pods["a"].address[4]
    lines = call(node, "top").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["SERVICE", "default/web", "default/quiet"]
    assert lines[2].split() == ["default/quiet", "0", "500"] and float(lines[1].split()[1]) > 0
    answer = json.loads(call(node, "top", "default/web", "-o", "json").stdout)
    assert (answer["kind"], answer["schema"]) == ("KubeNftdTop", 1)
    (item,) = answer["items"]
    assert item["name"] == f"{pod}:8080" and item["perSecond"] > 0 and item["connections"] > 0
    done = call(node, "top", "default/nothing", "--once")
    assert done.returncode == 1 and "no such Service: default/nothing" in done.stderr


def test_top_of_what_is_not_counted(tcp):
    done = call(tcp.lab.node, "top")
    assert done.returncode == 1 and "does not count connections: --count-connections" in done.stderr
