# SPDX-License-Identifier: GPL-2.0-or-later
"""NodePorts on 127.0.0.1 and ::1 (docs/behaviour.md 4.12): what goes through the daemon itself."""

import contextlib
import itertools
import json
import os
import pathlib
import resource
import signal
import socket
import struct
import threading
import time
import typing

import pytest

import exposition
import objects
from daemon import call, http_get, wait_for
from lab import NODE_ADDRESS, NODE_PORTS, OTHER_NODE_NAME, Namespace, ask_on
from scenario import Proxy, Web, running

LOOPBACK = {4: "127.0.0.1", 6: "::1"}
GATE = ("--feature-gates", "KubeProxyNFTablesLocalhostNodePorts=true")
ON = (*GATE, "--nodeport-addresses", "primary,localhost")
METRICS = "kubeproxy_nftables_localhost_nodeport_"
LISTENERS = METRICS + "listeners"
BIND_FAILURES = METRICS + "listener_creation_failures_total"
REJECTED = METRICS + "rejected_packets_total"
FAILURES = "kube_nftd_localhost_failures_total"
FAMILY_NAME = {4: "IPv4", 6: "IPv6"}

# Ports that no other test, nor the lab, has.
_numbers = itertools.count(30500)


@pytest.fixture
def served(lab, tmp_path):
    with running(lab, tmp_path, *ON) as proxy:
        yield proxy
        assert "runtime error" not in proxy.daemon.log()


class NodePort(Web):
    """A Service with a NodePort, and what is behind it on the loopback address."""

    def __init__(self, proxy: Proxy, family: int, protocol: str = "TCP", number: int = 0) -> None:
        self.number = number or next(_numbers)
        super().__init__(proxy, family, protocol, f"port-{self.number}-{family}-{protocol.lower()}")

    def as_service(self, **spec) -> dict:
        service = super().as_service(type="NodePort", **spec)
        service["spec"]["ports"][0]["nodePort"] = self.number
        return service

    def put_at(self, address: str, *ports: int) -> None:
        """Endpoints at this node's own pods, at any address and ports."""
        held = [objects.endpoint_slice(f"{self.name}-{port}", self.name, self.family,
                                       [objects.Port("http", self.protocol, port)], [objects.endpoint(address)])
                for port in ports]  # fmt: skip
        self.proxy.manifests.put(f"{self.name}-slice", *held)

    def knock(self, timeout: float = 2.0) -> str:
        return self.lab.ask(self.lab.node, LOOPBACK[self.family], self.number, self.protocol, timeout)

    def open(self, timeout: float = 5.0) -> socket.socket:
        """An ordinary connection, which closes by FIN."""
        with self.lab.node.inside():
            sock = socket.create_connection((LOOPBACK[self.family], self.number), timeout)
        return sock

    def reaches(self, *pods: str) -> None:
        """Waits until new connections reach all of these and nobody else."""
        wanted, seen = set(pods), set()

        def settled() -> bool:
            seen.clear()
            seen.update(self.knock() for _ in range(12 * max(1, len(pods))))
            return seen == wanted

        wait_for(settled, lambda: f"{self.number} reaches {wanted}; it reaches {seen}")


def metric(proxy: Proxy, name: str, **labels: str) -> float | None:
    text = http_get(proxy.lab.node, "127.0.0.1", 10249, "/metrics")[2]
    written = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
    return exposition.values(exposition.parse(text)).get(f"{name}{{{written}}}" if labels else name)


class Echo(threading.Thread):
    """A server in a namespace that does with each connection what @serve says."""

    def __init__(self, where: Namespace, address: str, serve, backlog: int = 1024) -> None:
        super().__init__(daemon=True)
        with where.inside():
            self.sock = socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                                             backlog=backlog)  # fmt: skip
        self.port = self.sock.getsockname()[1]
        self.serve = serve
        self.start()

    def run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.sock.accept()
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def close(self) -> None:
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


@contextlib.contextmanager
def served_by(node_port: NodePort, serve):
    """@serve runs in pod a, which is the only endpoint."""
    pod = node_port.lab.pods["a"]
    server = Echo(pod.namespace, pod.address[node_port.family], serve)
    node_port.put_service()
    node_port.put_at(pod.address[node_port.family], server.port)
    wait_listening(node_port)
    try:
        yield server
    finally:
        server.close()


def wait_listening(node_port: NodePort) -> None:
    wait_for(lambda: listens(node_port), f"{node_port.number} is served")


def listens(node_port: NodePort) -> bool:
    """Without a connection."""
    with node_port.lab.node.inside():
        tables = [pathlib.Path(f"/proc/thread-self/net/{name}").read_text() for name in ("tcp", "tcp6")]
    wanted = {4: "0100007F", 6: "00000000000000000000000001000000"}[node_port.family]
    return any(f" {wanted}:{node_port.number:04X} " in line and " 0A " in line
               for table in tables for line in table.splitlines())  # fmt: skip


# ---- where connections go -------------------------------------------------------------------------


def test_all_endpoints(served, family):
    """The same number is served on the node's own address by the table."""
    web = NodePort(served, family)
    web.publish("a", "b", "x")
    web.reaches("a", "b", "x")
    table = {web.lab.ask(web.lab.client, NODE_ADDRESS[family], web.number, "TCP") for _ in range(40)}
    assert table == {"a", "b", "x"}


def test_pods_see_the_node(served, family):
    web = NodePort(served, family)
    web.publish("a")
    web.reaches("a")
    answer = web.lab.hail(web.lab.node, LOOPBACK[family], web.number, "TCP")
    assert answer.name == "a" and answer.seen in web.lab.node_addresses


def test_endpoints_change(served, family):
    web = NodePort(served, family)
    web.publish("a", "b")
    web.reaches("a", "b")
    web.put_endpoints(b="ready", c="ready")
    web.reaches("b", "c")
    web.put_endpoints(b="unready", c="terminating")
    web.reaches("c")


def test_local_policy(served, family):
    """Unlike connections of the node to its own address, which get all endpoints."""
    web = NodePort(served, family)
    web.put_service(externalTrafficPolicy="Local")
    here = web.as_slice({"a": "ready", "b": "terminating"})
    there = web.as_slice({"x": "ready"}, "2")
    there["endpoints"][0]["nodeName"] = OTHER_NODE_NAME
    served.manifests.put(f"{web.name}-slice", here, there)
    web.reaches("a")
    here["endpoints"][0]["conditions"] = objects.CONDITIONS["unready"]
    served.manifests.put(f"{web.name}-slice", here, there)
    web.reaches("b")
    served.manifests.put(f"{web.name}-slice", there)
    web.reaches("refused")
    web.put_service()
    web.reaches("x")


def test_affinity(served, family):
    """One endpoint for all clients; it stays while it is used, and goes with the endpoint."""
    web = NodePort(served, family)
    timeout = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 2}}}
    web.put_service(**timeout)
    web.put_endpoints(a="ready", b="ready", c="ready")
    web.settle("a", "b", "c")
    wait_listening(web)
    first = web.knock()
    end = time.monotonic() + 3
    while time.monotonic() < end:
        assert web.knock() == first
        time.sleep(0.1)
    rest = {"a", "b", "c"} - {first}
    web.put_endpoints(**dict.fromkeys(rest, "ready"))
    web.settle(*rest)
    second = {web.knock() for _ in range(20)}
    assert len(second) == 1 and second <= rest
    seen = set()
    for _ in range(12):  # each time after its end
        time.sleep(2.2)
        seen.add(web.knock())
        if seen == rest:
            break
    assert seen == rest
    web.put_service()
    web.reaches(*rest)


def test_services_come_and_go(served, family):
    web = NodePort(served, family)
    web.publish("a")
    web.reaches("a")
    assert metric(served, LISTENERS, ip_family=FAMILY_NAME[family]) == 1
    web.put_endpoints()
    web.reaches("refused")
    assert not listens(web)
    web.put_endpoints(b="ready")
    web.reaches("b")
    old, web.number = web.number, next(_numbers)
    web.put_service()
    web.reaches("b")
    assert web.lab.ask(web.lab.node, LOOPBACK[family], old, "TCP") == "refused"
    web.remove_service()
    web.reaches("refused")
    assert metric(served, LISTENERS, ip_family=FAMILY_NAME[family]) == 0


def test_two_services_swap(served, family):
    """In one change of a file: no port is without a listener, or taken."""
    first, second = NodePort(served, family), NodePort(served, family)

    def put() -> None:
        served.manifests.put("services", first.as_service(), second.as_service())

    put()
    first.put_endpoints(a="ready")
    second.put_endpoints(b="ready")
    first.reaches("a")
    second.reaches("b")
    first.number, second.number = second.number, first.number
    put()
    first.reaches("a")
    second.reaches("b")
    assert "cannot be served" not in served.daemon.log()
    assert "no longer served" not in served.daemon.log()


def test_a_restart(served, family):
    web = NodePort(served, family)
    web.publish("a")
    web.reaches("a")
    with web.open() as sock:
        served.daemon.stop()
        with pytest.raises(ConnectionResetError):
            sock.recv(10)  # nobody takes it for an answer's end
    assert web.knock() == "refused"
    served.daemon.start()
    web.reaches("a")


# ---- bytes ----------------------------------------------------------------------------------------


def count_up(sock: socket.socket) -> None:
    """Reads to the end, then says how much it was."""
    n = 0
    while data := sock.recv(1 << 16):
        n += len(data)
    sock.sendall(struct.pack("!Q", n))
    sock.close()


def test_half_closed_by_the_client(served, family):
    web = NodePort(served, family)
    with served_by(web, count_up), web.open(20) as sock:
        for _ in range(100):
            sock.sendall(bytes(100_000))
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(8, socket.MSG_WAITALL) == struct.pack("!Q", 10_000_000)
        assert sock.recv(1) == b""


def test_half_closed_by_the_endpoint(served, family):
    got: list[bytes] = []

    def serve(sock: socket.socket) -> None:
        sock.sendall(b"hello")
        sock.shutdown(socket.SHUT_WR)
        got.append(sock.recv(1000))
        got.append(sock.recv(1000))
        sock.close()

    web = NodePort(served, family)
    with served_by(web, serve), web.open() as sock:
        assert sock.recv(5, socket.MSG_WAITALL) == b"hello"
        assert sock.recv(1) == b""
        sock.sendall(b"after")
        sock.shutdown(socket.SHUT_WR)
        wait_for(lambda: got == [b"after", b""], lambda: f"it gets the rest: {got}")
    wait_for(lambda: metric(served, "kube_nftd_localhost_connections") == 0, "both ends have ended it")


def test_a_reset_stays_one(served, family):
    """An answer that was cut off does not look complete."""

    def serve(sock: socket.socket) -> None:
        sock.sendall(b"half of it")
        time.sleep(0.2)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()

    web = NodePort(served, family)
    with served_by(web, serve), web.open() as sock:
        assert sock.recv(10, socket.MSG_WAITALL) == b"half of it"
        with pytest.raises(ConnectionResetError):
            sock.recv(10)


def test_slow_readers(served, family):
    """What a client does not read is not read from the endpoint either, beyond what sockets and a pipe
    hold; it costs the daemon no CPU time meanwhile, and nobody else waits."""
    sent = [0]

    def serve(sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                sent[0] += sock.send(bytes(1 << 16))

    web = NodePort(served, family)
    other = NodePort(served, family)
    other.publish("b")
    with served_by(web, serve), web.open() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        wait_for(lambda: rests_for_a_second(served, lambda: sent[0]), "it stops", 30)
        before = sent[0]
        other.reaches("b")
        assert sent[0] == before
        n = 0
        while n < before + (1 << 20):  # it goes on
            n += len(sock.recv(1 << 20))


def rests_for_a_second(proxy: Proxy, value: typing.Callable[[], int]) -> bool:
    """Whether a value above 0 stays the same, and the daemon uses next to no CPU time."""
    before, cpu = value(), cpu_seconds(proxy)
    time.sleep(1)
    return value() == before > 0 and cpu_seconds(proxy) - cpu < 0.3


def cpu_seconds(proxy: Proxy) -> float:
    fields = pathlib.Path(f"/proc/{proxy.daemon.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_thousand_connections(served, family):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    web = NodePort(served, family)
    web.publish("a", "b")
    web.reaches("a", "b")
    with contextlib.ExitStack() as opened:
        talks = [opened.enter_context(web.open(20)) for _ in range(1000)]
        assert {ask_on(talk) for talk in talks} == {"a", "b"}
        assert metric(served, "kube_nftd_localhost_connections") == 1000
        assert len(os.listdir(f"/proc/{served.daemon.process.pid}/fd")) < 2 * 1000 + 200  # idle ones have no pipes
        assert {ask_on(talk) for talk in talks} == {"a", "b"}
    wait_for(lambda: metric(served, "kube_nftd_localhost_connections") == 0, "all have ended")
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ---- what goes wrong ------------------------------------------------------------------------------


def test_an_endpoint_that_refuses(served, family):
    """Another one gets the connection, and it is counted."""
    web = NodePort(served, family)
    pod = web.lab.pods["a"]
    web.put_service()
    web.put_at(pod.address[family], 8080, 9)  # nothing listens at 9
    wait_listening(web)
    before = metric(served, FAILURES, reason="endpoint")
    assert {web.knock() for _ in range(30)} == {"a"}
    assert metric(served, FAILURES, reason="endpoint") > before
    web.put_at(pod.address[family], 9)
    web.reaches("reset")


def test_endpoints_on_loopback_addresses(served, family):
    """No API server lets them in. A connection does not come back to the daemon, nor to others here."""
    web = NodePort(served, family)
    server = Echo(web.lab.node, "::", lambda sock: (sock.sendall(b"theirs"), sock.close()))
    web.put_service()
    before = metric(served, FAILURES, reason="endpoint")
    web.put_at(web.lab.pods["a"].address[family], 8080)
    web.reaches("a")
    for address in {4: ("127.0.0.1", "127.0.0.2"), 6: ("::1",)}[family]:
        web.put_at(address, server.port, web.number)
        web.reaches("reset")
    server.close()
    assert metric(served, FAILURES, reason="endpoint") < before + 1000  # two for each connection


LOST = """
table {ip} lost {{
    chain prerouting {{
        type filter hook prerouting priority -300;
        {ip} daddr {silent} drop
    }}
}}
"""


def test_an_endpoint_that_does_not_answer(served, family):
    """For five seconds; then another one is tried."""
    web = NodePort(served, family)
    silent = {4: "10.244.0.200", 6: "fd00:10:244::200"}[family]
    ip, pod = {4: "ip", 6: "ip6"}[family], web.lab.pods["b"]
    web.put_service()
    ports = [objects.Port("http", "TCP", 8080)]
    endpoints = [objects.endpoint(silent), objects.endpoint(web.lab.pods["a"].address[family])]
    # Its packets get lost on their way to a pod that has no such address.
    web.lab.node.ip(f"route add {silent} via {pod.address[family]} dev pod-b onlink")
    pod.namespace.run("nft", "-f", "-", stdin=LOST.format(ip=ip, silent=silent))
    try:
        held = objects.endpoint_slice(f"{web.name}-1", web.name, family, ports, endpoints)
        served.manifests.put(f"{web.name}-slice", held)
        wait_listening(web)
        begin = time.monotonic()
        with contextlib.ExitStack() as opened:
            talks = [opened.enter_context(web.open(20)) for _ in range(12)]
            assert {ask_on(talk) for talk in talks} == {"a"}
        assert time.monotonic() - begin > 4
        assert metric(served, FAILURES, reason="endpoint") >= 1
    finally:
        web.lab.node.ip(f"route del {silent}")
        pod.namespace.run("nft", f"delete table {ip} lost")


def test_a_taken_port(served, family):
    """A process of the host has it: it stays that one's, until it goes."""
    web = NodePort(served, family)
    before = metric(served, BIND_FAILURES, ip_family=FAMILY_NAME[family])
    server = Echo(web.lab.node, LOOPBACK[family], lambda sock: (sock.sendall(b"theirs"), sock.close()))
    web.number = server.port
    web.publish("a")
    wait_for(lambda: metric(served, BIND_FAILURES, ip_family=FAMILY_NAME[family]) > before, "it is tried")
    assert web.knock() == "theirs"
    other = NodePort(served, family)
    other.publish("b")
    other.reaches("b")
    assert f"port={web.number} cannot be served on loopback: Address already in use" in served.daemon.log()
    server.close()
    web.reaches("a")


def test_the_limit(lab, tmp_path, family):
    """One NodePort leaves half of what others have left; what is beyond is closed at once, and counted."""
    with running(lab, tmp_path, *ON, "--localhost-connections", "10") as proxy:
        web, other = NodePort(proxy, family), NodePort(proxy, family)
        web.publish("a")
        other.publish("b")
        web.reaches("a")
        other.reaches("b")
        wait_for(lambda: metric(proxy, "kube_nftd_localhost_connections") == 0, "all have ended")
        with contextlib.ExitStack() as opened:
            talks = [opened.enter_context(web.open()) for _ in range(5)]
            assert [ask_on(talk) for talk in talks] == ["a"] * 5
            assert web.knock() == "reset"
            more = [opened.enter_context(other.open()) for _ in range(3)]
            assert [ask_on(talk) for talk in more] == ["b"] * 3
            assert other.knock() == "reset"
            assert metric(proxy, FAILURES, reason="limit") >= 2
        web.reaches("a")


def test_without_descriptors(served, family):
    """accept() fails; the listener rests, and goes on once there are some."""
    web = NodePort(served, family)
    web.publish("a")
    web.reaches("a")
    pid = served.daemon.process.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")), limits[1]))
    cpu = cpu_seconds(served)
    with web.open(20) as sock:
        wait_for(lambda: "accepts no connections for a second" in served.daemon.log(), "it rests")
        assert cpu_seconds(served) - cpu < 0.5
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        assert ask_on(sock) == "a"


def test_descriptors_are_left_to_others(lab, tmp_path):
    """512 of them; each connection may take six of the others."""
    proxy = Proxy(lab, tmp_path, *ON)
    proxy.daemon.wrapper = "/usr/bin/prlimit", f"--nofile={512 + 67}"
    try:
        proxy.daemon.start()
        web = NodePort(proxy, 4)
        web.publish("a")
        web.reaches("a")
        wait_for(lambda: metric(proxy, "kube_nftd_localhost_connections") == 0, "all have ended")
        with contextlib.ExitStack() as opened:
            talks = [opened.enter_context(web.open()) for _ in range(6)]  # 66 / 6 is 11, of which one leaves 5
            assert [ask_on(talk) for talk in talks] == ["a"] * 6
            assert web.knock() == "reset"
        proxy.daemon.stop()
        proxy.daemon.wrapper = "/usr/bin/prlimit", f"--nofile={512 + 1}"
        proxy.daemon.start()
        assert web.knock() == "refused"
        wait_for(lambda: "cannot be served on loopback: Too many open files" in proxy.daemon.log(), "it is said")
        assert web.lab.ask(web.lab.client, NODE_ADDRESS[4], web.number, "TCP") == "a"
    finally:
        print(proxy.daemon.last_words())
        proxy.close()


def test_draining(served):
    """Connections outlive their endpoint; and their listener, for thirty seconds."""
    web = NodePort(served, 4)
    web.publish("a")
    web.reaches("a")
    with web.open(60) as busy, web.open(60) as idle:
        assert ask_on(busy) == ask_on(idle) == "a"
        web.put_endpoints(b="ready")
        web.reaches("b")
        assert ask_on(busy) == "a"
        begin = time.monotonic()
        web.remove_service()
        web.reaches("refused")
        assert ask_on(busy) == "a"
        with pytest.raises(ConnectionResetError):
            idle.recv(1)
        assert time.monotonic() - begin > 29
    wait_for(lambda: metric(served, "kube_nftd_localhost_connections") == 0, "all have ended")


def test_the_end_waits_for_connections(lab, tmp_path, family):
    """Those that are open; nobody listens for new ones, and everything else goes on."""
    with running(lab, tmp_path, *ON) as proxy:
        web, later = NodePort(proxy, family), Web(proxy, family, "TCP")
        web.publish("a")
        web.reaches("a")
        process = proxy.daemon.process
        with web.open(60) as busy:
            assert ask_on(busy) == "a"
            process.send_signal(signal.SIGTERM)
            wait_for(lambda: web.knock() == "refused", "nobody listens")
            later.publish("b")  # waits until it is served
            web.put_endpoints(b="ready")
            later.put_endpoints(a="ready")
            later.settle("a")
            assert web.knock() == "refused" and ask_on(busy) == "a" and process.poll() is None
        assert process.wait(30) == 0
        assert "to loopback NodePorts are closed" not in proxy.daemon.log()


@pytest.mark.parametrize("again", [True, False], ids=["second-signal", "time"])
def test_the_end_does_not_wait_for_ever(lab, tmp_path, again):
    with running(lab, tmp_path, *ON) as proxy:
        web = NodePort(proxy, 4)
        web.publish("a")
        web.reaches("a")
        process = proxy.daemon.process
        with web.open(60) as idle:
            assert ask_on(idle) == "a"
            begin = time.monotonic()
            process.send_signal(signal.SIGTERM)
            wait_for(lambda: web.knock() == "refused", "nobody listens")
            if again:
                process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            with pytest.raises(ConnectionResetError):
                idle.recv(1)
        assert again or time.monotonic() - begin > 9
        assert ("connections=1 to loopback NodePorts are closed" in proxy.daemon.log()) != again


def test_an_edit_of_the_configuration_waits_for_connections(lab, tmp_path):
    """The daemon ends, so that it is started anew: with status 1, as without connections."""
    file = tmp_path / "config.conf"
    file.write_text("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
                    "nodePortAddresses: [localhost]\nfeatureGates: {KubeProxyNFTablesLocalhostNodePorts: true}\n")
    with contextlib.ExitStack() as stack:
        proxy = Proxy(lab, tmp_path, "--config", str(file))
        stack.callback(lambda: lab.node.run(lab.node.nft, "flush", "ruleset"))
        proxy.daemon.start()
        stack.callback(proxy.daemon.process.kill)
        web = NodePort(proxy, 4)
        web.publish("a")
        web.reaches("a")
        with web.open(60) as busy:
            assert ask_on(busy) == "a"
            for text in ("# one\n", "# two\n"):
                with file.open("a") as out:
                    out.write(text)
                wait_for(lambda: web.knock() == "refused", "nobody listens")
            assert ask_on(busy) == "a"
        assert proxy.daemon.process.wait(30) == 1
        assert "was written to: exiting" in proxy.daemon.log()


# ---- what is not served ---------------------------------------------------------------------------


def refused_count(proxy: Proxy, family: int, protocol: str) -> float | None:
    return metric(proxy, REJECTED, ip_family=FAMILY_NAME[family], protocol=protocol)


@pytest.mark.parametrize("protocol", ["UDP", "SCTP"])
def test_other_protocols(served, family, protocol):
    """They are refused, and counted. What a process of the host serves at such a number stays reachable."""
    web = NodePort(served, family, protocol)
    web.publish("a")
    assert refused_count(served, family, "TCP") is None
    before = refused_count(served, family, protocol)
    # sctp.py does not hear the kernel's refusal: an ABORT, or that there is no such protocol.
    assert web.knock(timeout=0.5) == {"UDP": "refused", "SCTP": "timeout"}[protocol]
    assert refused_count(served, family, protocol) == before + 1
    web.remove_service()
    wait_for(lambda: served.tables[family].elements("localhost_ports") == [[]], "it is no NodePort any more")
    web.knock(timeout=0.5)
    assert refused_count(served, family, protocol) == before + 1


def test_a_process_of_the_host(served, family):
    web = NodePort(served, family, "UDP", NODE_PORTS[0])
    web.publish("a")
    assert web.knock() == f"host/{NODE_PORTS[0]}"


@pytest.mark.parametrize("addresses", ["primary", "all", "127.0.0.2/32,::/0"])
def test_families_that_are_not_served(lab, tmp_path, family, addresses):
    """With the gate alone; 127.0.0.2/32 serves nothing at 127.0.0.1."""
    with running(lab, tmp_path, *GATE, "--nodeport-addresses", addresses) as proxy:
        web = NodePort(proxy, family)
        web.publish("a")
        assert web.knock() == "refused"
        assert refused_count(proxy, family, "TCP") == 1
        assert metric(proxy, LISTENERS, ip_family=FAMILY_NAME[family]) == 0


def test_one_family(lab, tmp_path):
    with running(lab, tmp_path, *GATE, "--nodeport-addresses", "::1/128,primary") as proxy:
        four, six = NodePort(proxy, 4), NodePort(proxy, 6)
        four.publish("a")
        six.publish("a")
        six.reaches("a")
        assert four.knock() == "refused"
        assert (refused_count(proxy, 4, "TCP"), refused_count(proxy, 6, "TCP")) == (1, None)


def test_without_the_gate(lab, tmp_path, family):
    with running(lab, tmp_path, "--nodeport-addresses", "primary,localhost") as proxy:
        web = NodePort(proxy, family)
        web.publish("a")
        assert web.knock() == "refused"
        assert refused_count(proxy, family, "TCP") is None
        assert proxy.tables[family].elements("localhost_ports", "localhost_connections") == [[], []]


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL], ids=lambda by: by.name)
def test_a_restart_with_another_setting(lab, tmp_path, family, by):
    """What the process before refused and counted is served; and the other way round."""
    with running(lab, tmp_path, *GATE) as proxy:
        web = NodePort(proxy, family)
        web.publish("a")
        assert web.knock() == "refused"
        proxy.daemon.stop(by)
        proxy.daemon.flags = ON
        proxy.daemon.start()
        web.reaches("a")
        assert refused_count(proxy, family, "TCP") is None
        proxy.daemon.stop(by)
        proxy.daemon.flags = GATE
        proxy.daemon.start()
        before = refused_count(proxy, family, "TCP")
        assert web.knock() == "refused"
        assert refused_count(proxy, family, "TCP") == before + 1
        proxy.daemon.stop(by)
        proxy.daemon.flags = ()
        proxy.daemon.start()
        assert web.knock() == "refused"
        assert "@localhost_ports" not in proxy.tables[family].listing()


# ---- what is said of it ---------------------------------------------------------------------------


def explain(proxy: Proxy, what: str) -> tuple[int, list[str], list[str]]:
    """Exit status, summary and notes."""
    done = call(proxy.lab.node, "explain", what, "-o", "json")
    assert done.stderr == ""
    answer = json.loads(done.stdout)
    return done.returncode, answer["summary"], answer["notes"]


def target(web: NodePort, host: str | None = None) -> str:
    host = host or LOOPBACK[web.family]
    return f"[{host}]:{web.number}" if ":" in host else f"{host}:{web.number}"


def test_metrics(served):
    """With the names, types and labels of kube-proxy 1.37."""
    families = exposition.parse(http_get(served.lab.node, "127.0.0.1", 10249, "/metrics")[2])
    found = {name: (family.type, {labels for _, labels in family.samples})
             for name, family in families.items() if name.startswith(METRICS)}  # fmt: skip
    ip_families = {frozenset({("ip_family", name)}) for name in FAMILY_NAME.values()}
    protocols = {labels | {("protocol", name)} for labels in ip_families for name in ("UDP", "SCTP")}
    assert found == {LISTENERS: ("gauge", ip_families), BIND_FAILURES: ("counter", ip_families),
                     REJECTED: ("counter", protocols)}  # fmt: skip


def test_explanations(served, family):
    web = NodePort(served, family)
    web.publish("a", "b")
    wait_listening(web)
    status, summary, _ = explain(served, target(web))
    assert status == 0
    assert summary[0] == f"{target(web)}/TCP is a node port of default/{web.name}, port http."
    assert summary[1] == "New connections: to 2 endpoints, by kube-nftd itself (from this node)."
    if family == 4:
        assert explain(served, f"localhost:{web.number}")[1] == summary
    web.put_endpoints()
    web.reaches("refused")
    assert explain(served, target(web))[1][1] == "New connections: nobody listens, as no endpoint is ready."
    web.put_service(externalTrafficPolicy="Local")
    wait_for(lambda: "no endpoint on this node is ready" in explain(served, target(web))[1][1], "policy Local")
    udp = NodePort(served, family, "UDP")
    udp.publish("a")
    assert "refused unless a process of this host listens there" in " ".join(explain(served, target(udp) + "/UDP")[2])


def test_explanations_without_node_addresses(lab, tmp_path):
    """"localhost" alone: no other address serves NodePorts."""
    with running(lab, tmp_path, *GATE, "--nodeport-addresses", "localhost") as proxy:
        web = NodePort(proxy, 4)
        web.publish("a")
        web.reaches("a")
        assert web.lab.ask(web.lab.client, NODE_ADDRESS[4], web.number, "TCP") == "refused"
        _, summary, notes = explain(proxy, str(web.number))
        assert summary[0] == f"127.0.0.1:{web.number}/TCP is a node port of default/{web.name}, port http."
        assert not any("is not served over" in note for note in notes)


def test_a_taken_port_is_told(served, family):
    web = NodePort(served, family)
    server = Echo(web.lab.node, LOOPBACK[family], lambda sock: sock.close())
    web.number = server.port
    web.publish("a")
    wait_for(lambda: f"port={web.number} cannot be served" in served.daemon.log(), "it is tried")
    listed = call(served.lab.node, "list", f"default/{web.name}").stdout
    assert f"{target(web)}/TCP is not served: Address already in use" in listed
    words = explain(served, target(web))[1][1]
    assert words == "New connections: not served, cannot listen: Address already in use; this is tried again."
    status = call(served.lab.node, "status").stdout
    assert "Localhost    0 NodePorts served, 0 connections; 1 cannot be bound: list names the Services" in status
    server.close()
    web.reaches("a")
    assert "Localhost    1 NodePort served, " in call(served.lab.node, "status").stdout
    assert "applied" in call(served.lab.node, "list", f"default/{web.name}").stdout


def test_computed_from_files(lab, tmp_path, family):
    with running(lab, tmp_path, *ON) as proxy:
        web = NodePort(proxy, family)
        web.publish("a")
    done = call(lab.node, "explain", target(web), "--manifests", str(proxy.manifests.folder), *ON,
                "--hostname-override", "node-a")  # fmt: skip
    assert "to 1 endpoint, by kube-nftd itself" in done.stdout
