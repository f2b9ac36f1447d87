# SPDX-License-Identifier: GPL-2.0-or-later
"""A small network in namespaces of its own: a node with pods, another one, clients, the world outside.

        client 192.0.2.10 -----+                +---- pods "a" 10.244.0.11, "b", "c", "d"
                               |                |
       stranger 198.18.0.10 ---+                +---- bridge cni0: pods "e" and "f"
                               |                |
                          node 192.0.2.1 -------+
                               |                |
       outside (default route) +                +---- node-b 172.18.0.2 ---- pods "x" 10.244.1.17, "y"

Each line is a veth pair; everything also has IPv6. The kube-nftd under test runs in the node's
namespace; node-b just routes. The pods run echo_server.py, and so do the nodes themselves: "host" and
"host-b" are pods with hostNetwork. "host" also serves the numbers of node ports, so that whatever
nothing rewrote is seen there. The outside answers for every address, so that a packet to a service IP
that nothing rewrote comes back with the name "outside" instead of getting lost.

enter() moves the whole test process into fresh user, network, mount and pid namespaces. It needs no
root, touches nothing of the machine, and the kernel removes all of it, processes included, when
the test process ends in whatever way.
"""

import contextlib
import ctypes
import errno
import ipaddress
import itertools
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import typing

import icmp
import sctp

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1

SCRATCH = "/run"
NODE_NAME = "node-a"
OTHER_NODE_NAME = "node-b"
POD_PORTS = (8080, 9090)
SERVICE_PORTS = (80, 443)
NODE_PORTS = (30001, 30002)
SOURCE_PORTS = range(30100, 60000)

NODE_ADDRESS = {4: "192.0.2.1", 6: "2001:db8:1::1"}
SECONDARY_ADDRESS = {4: "192.0.2.2", 6: "2001:db8:1::2"}
CLIENT_ADDRESS = {4: "192.0.2.10", 6: "2001:db8:1::10"}
NODE_STRANGER_ADDRESS = {4: "198.18.0.1", 6: "2001:db8:3::1"}
STRANGER_ADDRESS = {4: "198.18.0.10", 6: "2001:db8:3::10"}
NODE_OUTSIDE_ADDRESS = {4: "198.51.100.254", 6: "2001:db8:2::fe"}
OUTSIDE_ADDRESS = {4: "198.51.100.1", 6: "2001:db8:2::1"}
NODE_PEER_ADDRESS = {4: "172.18.0.1", 6: "fd00:172:18::1"}
OTHER_NODE_ADDRESS = {4: "172.18.0.2", 6: "fd00:172:18::2"}
POD_GATEWAY = {4: "10.244.0.1", 6: "fd00:10:244::1"}
POD_NETWORK = {4: "10.244.0.0/24", 6: "fd00:10:244::/64"}
OTHER_POD_GATEWAY = {4: "10.244.1.1", 6: "fd00:10:244:1::1"}
OTHER_POD_NETWORK = {4: "10.244.1.0/24", 6: "fd00:10:244:1::/64"}
CLUSTER_NETWORK = {4: "10.244.0.0/16", 6: "fd00:10:244::/48"}
PREFIX_LENGTH = {4: 24, 6: 64}  # of every link but those of pods
HOST_LENGTH = {4: 32, 6: 128}
EVERYWHERE = {4: "0.0.0.0/0", 6: "::/0"}

BRIDGE = "cni0"
POD_INTERFACE_PREFIX = "pod-"
LINKED_PODS = ("a", "b", "c", "d")  # each with an interface of its own in the node, "pod-a"
BRIDGED_PODS = ("e", "f")
REMOTE_PODS = ("x", "y")
ALL_PODS = LINKED_PODS + BRIDGED_PODS + REMOTE_PODS

FAMILIES = (4, 6)
PROTOCOLS = ("TCP", "UDP", "SCTP")
SOCKET_KINDS = {"TCP": socket.SOCK_STREAM, "UDP": socket.SOCK_DGRAM}

libc = ctypes.CDLL(None, use_errno=True)


class LabError(RuntimeError):
    pass


class Answer(typing.NamedTuple):
    """What became of a question."""

    name: str  # of who answered, or what went wrong: "refused", "timeout", ...
    seen: str | None = None  # the address that the question came from, as the other side saw it
    sent: str | None = None  # and as it was sent


def checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise LabError(f"{what}: {os.strerror(code)}")


# ---- entering -------------------------------------------------------------------------------------


def enter(at_end: typing.Callable[[int], None] | None = None) -> None:
    """Returns in a child process that lives in namespaces of its own. The parent waits for it, calls
    @at_end with its exit status, and ends with the same."""
    uid, gid = os.geteuid(), os.getegid()
    checked(
        libc.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID),
        "cannot make namespaces (unprivileged user namespaces may be switched off on this machine)",
    )
    pathlib.Path("/proc/self/setgroups").write_text("deny")
    pathlib.Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    pathlib.Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        wait_and_exit(child, at_end)
    checked(libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    # A /proc that fits the pid namespace. Where a container forbids it, the old one does.
    libc.mount(b"proc", b"/proc", b"proc", 0, None)
    # Files that go with the namespaces.
    checked(libc.mount(b"tmpfs", SCRATCH.encode(), b"tmpfs", 0, None), f"cannot mount on {SCRATCH}")
    run("ip", "link", "set", "lo", "up")


def wait_and_exit(child: int, at_end: typing.Callable[[int], None] | None) -> typing.NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child gets it too, and reports
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if at_end:
        at_end(status)
        sys.stdout.flush()
    os._exit(status if status >= 0 else 128 - status)


def writes_other_user_data(nft: str) -> bool:
    """Whether a table that this nft restores has user data that nft 1.0.6 cannot list."""
    said = subprocess.run([nft, "--version"], check=True, capture_output=True, text=True).stdout
    return tuple(int(part) for part in re.search(r"v(\d+)\.(\d+)", said).groups()) >= (1, 1)


def linux() -> tuple[int, ...]:
    """The kernel's version: (6, 12)."""
    return tuple(int(number) for number in os.uname().release.split(".")[:2])


def run(*argv: str, stdin: str | None = None, **options) -> subprocess.CompletedProcess:
    """Runs a test tool; its failure is a failure of the lab, with its words."""
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise LabError(f"{' '.join(argv)}: exit {done.returncode}: {done.stderr.strip()}\n{stdin or ''}")
    return done


# ---- addresses ------------------------------------------------------------------------------------


def on_link(address: dict[int, str], family: int) -> str:
    return f"{address[family]}/{PREFIX_LENGTH[family]}{'' if family == 4 else ' nodad'}"


def alone(address: dict[int, str], family: int) -> str:
    return f"{address[family]}/{HOST_LENGTH[family]}{'' if family == 4 else ' nodad'}"


def network(interface: str) -> str:
    """The network of an address with a length."""
    return str(ipaddress.ip_interface(interface.split()[0]).network)


# ---- namespaces -----------------------------------------------------------------------------------


class Namespace:
    """A network namespace, held by a file descriptor."""

    def __init__(self) -> None:
        self.nft = "nft"  # the program that the tests look into it with
        self.fd = -1
        failure: list[Exception] = []

        def make() -> None:
            try:
                checked(libc.unshare(CLONE_NEWNET), "unshare")
                self.fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            except Exception as error:
                failure.append(error)

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        if failure:
            raise failure[0]
        self.ip("link set lo up")

    def close(self) -> None:
        os.close(self.fd)

    @contextlib.contextmanager
    def inside(self):
        """Sockets made and programs started by this thread belong to the namespace."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            checked(libc.setns(self.fd, CLONE_NEWNET), "setns")
            yield
        finally:
            checked(libc.setns(before, CLONE_NEWNET), "setns")
            os.close(before)

    def run(self, *argv: str, **options) -> subprocess.CompletedProcess:
        with self.inside():
            return run(*argv, **options)

    def start(self, argv: list[str], **options) -> subprocess.Popen:
        with self.inside():
            return subprocess.Popen(argv, **options)

    def ip(self, *commands: str, pass_fds: tuple[int, ...] = ()) -> None:
        self.run("ip", "-batch", "-", stdin="\n".join(commands) + "\n", pass_fds=pass_fds)

    def sysctl(self, values: dict[str, int]) -> None:
        with self.inside():
            for name, value in values.items():
                pathlib.Path("/proc/sys/net", *name.split(".")).write_text(str(value))

    def connect(self, name: str, other: "Namespace", other_name: str) -> None:
        """A veth pair: @name here, @other_name there. Both ends are up."""
        self.ip(
            f"link add {name} type veth peer name {other_name} netns /proc/self/fd/{other.fd}",
            f"link set {name} up",
            pass_fds=(other.fd,),
        )
        other.ip(f"link set {other_name} up")


class Server:
    """echo_server.py in a namespace."""

    def __init__(self, namespace: Namespace, name: str, ports: tuple[int, ...]) -> None:
        script = pathlib.Path(__file__).with_name("echo_server.py")
        self.name = name
        argv = [sys.executable, "-EsSB", str(script), name, *map(str, ports)]
        self.process = namespace.start(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

    def wait_ready(self) -> None:
        if self.process.stdout.readline() != "ready\n":
            raise LabError(f"an echo server did not start: {self.process.args}")

    @contextlib.contextmanager
    def paused(self):
        """Inside, questions wait; they are answered at the end."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Pod:
    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.node_name = OTHER_NODE_NAME if name in REMOTE_PODS else NODE_NAME
        networks = OTHER_POD_NETWORK if name in REMOTE_PODS else POD_NETWORK
        self.address = {4: networks[4].removesuffix("0/24") + str(10 + number)}
        self.address[6] = networks[6].removesuffix("/64") + str(10 + number)
        self.namespace = Namespace()


# ---- the lab --------------------------------------------------------------------------------------


class Lab:
    def __init__(self, pod_names: tuple[str, ...] = ALL_PODS) -> None:
        self.node = Namespace()
        self.node_b = Namespace()
        self.client = Namespace()
        self.stranger = Namespace()
        self.outside = Namespace()
        self.pods = {name: Pod(name, ALL_PODS.index(name) + 1) for name in pod_names}
        self._source_ports = itertools.cycle(SOURCE_PORTS)
        self._settings()
        self._wire_host("client", self.client, NODE_ADDRESS, CLIENT_ADDRESS)
        self._wire_host("stranger", self.stranger, NODE_STRANGER_ADDRESS, STRANGER_ADDRESS)
        self._wire_host(OTHER_NODE_NAME, self.node_b, NODE_PEER_ADDRESS, OTHER_NODE_ADDRESS)
        self._wire_outside()
        self._wire_bridge()
        self._add_addresses()
        for pod in self.pods.values():
            self._wire_pod(pod)
        self._servers = self._start_servers()
        self.node_addresses = self._read_node_addresses()

    def close(self) -> None:
        for server in self._servers:
            server.stop()
        for namespace in self._namespaces():
            namespace.close()

    def server(self, name: str) -> Server:
        return next(server for server in self._servers if server.name == name)

    def _namespaces(self) -> list[Namespace]:
        hosts = [self.node, self.node_b, self.client, self.stranger, self.outside]
        return [*hosts, *(pod.namespace for pod in self.pods.values())]

    def _start_servers(self) -> list[Server]:
        servers = [Server(pod.namespace, pod.name, POD_PORTS) for pod in self.pods.values()]
        servers.append(Server(self.node, "host", POD_PORTS + NODE_PORTS))
        servers.append(Server(self.node_b, "host-b", POD_PORTS))
        servers.append(Server(self.outside, "outside", SERVICE_PORTS))
        for server in servers:
            server.wait_ready()
        return servers

    def _settings(self) -> None:
        for namespace in self._namespaces():
            namespace.sysctl(
                {
                    # Addresses are there at once, without a search for duplicates.
                    "ipv6.conf.all.disable_ipv6": 0,
                    "ipv6.conf.default.disable_ipv6": 0,
                    "ipv6.conf.default.accept_dad": 0,
                    "ipv4.conf.all.rp_filter": 0,
                    "ipv4.conf.default.rp_filter": 0,
                    # Every packet takes the way that the routes say.
                    "ipv4.conf.all.accept_redirects": 0,
                    "ipv4.conf.default.accept_redirects": 0,
                    "ipv6.conf.all.accept_redirects": 0,
                    "ipv6.conf.default.accept_redirects": 0,
                    # Rejects are ICMP errors; the tests count on each of them.
                    "ipv4.icmp_ratelimit": 0,
                    "ipv6.icmp.ratelimit": 0,
                }
            )
        for router in (self.node, self.node_b):
            router.sysctl(
                {
                    "ipv4.ip_forward": 1,
                    "ipv4.conf.all.send_redirects": 0,
                    "ipv4.conf.default.send_redirects": 0,
                    "ipv6.conf.all.forwarding": 1,
                }
            )

    def _wire_host(self, name: str, host: Namespace, gateway: dict[int, str], address: dict[int, str]) -> None:
        """A host on a link of its own, with the node as its router."""
        self.node.connect(name, host, "eth0")
        self.node.ip(*(f"addr add {on_link(gateway, family)} dev {name}" for family in FAMILIES))
        host.ip(
            *(f"addr add {on_link(address, family)} dev eth0" for family in FAMILIES),
            *(f"route add default via {gateway[family]}" for family in FAMILIES),
        )

    def _wire_outside(self) -> None:
        self._wire_host("outside", self.outside, NODE_OUTSIDE_ADDRESS, OUTSIDE_ADDRESS)
        self.node.ip(*(f"route add default via {OUTSIDE_ADDRESS[family]}" for family in FAMILIES))
        for family in FAMILIES:
            # Ways back, since everything else is local there.
            links = [NODE_ADDRESS, NODE_STRANGER_ADDRESS, NODE_PEER_ADDRESS, POD_GATEWAY, OTHER_POD_GATEWAY]
            networks = [network(on_link(link, family)) for link in links]
            self.outside.ip(
                f"route del {EVERYWHERE[family]}",
                *(f"route add {there} via {NODE_OUTSIDE_ADDRESS[family]}" for there in networks),
                f"route add local {EVERYWHERE[family]} dev lo table main",
            )

    def _wire_bridge(self) -> None:
        self.node.ip(
            f"link add {BRIDGE} type bridge mcast_snooping 0",
            f"link set {BRIDGE} up",
            *(f"addr add {alone(POD_GATEWAY, family)} dev {BRIDGE}" for family in FAMILIES),
        )

    def _add_addresses(self) -> None:
        """What the nodes have besides those of their links."""
        for family in FAMILIES:
            self.node.ip(f"route add {OTHER_POD_NETWORK[family]} via {OTHER_NODE_ADDRESS[family]}")
            # Never the source of anything by itself.
            self.add_node_address(SECONDARY_ADDRESS[family])

    def add_node_address(self, address: str) -> None:
        length, more = (128, " nodad preferred_lft 0") if ":" in address else (32, "")
        self.node.ip(f"addr add {address}/{length} dev client{more}")

    def remove_node_address(self, address: str) -> None:
        self.node.ip(f"addr del {address}/{128 if ':' in address else 32} dev client")

    def _read_node_addresses(self) -> set[str]:
        lines = self.node.run("ip", "-o", "addr").stdout.splitlines()
        return {line.split()[3].split("/")[0] for line in lines} | {*SECONDARY_ADDRESS.values()}

    def _wire_pod(self, pod: Pod) -> None:
        node, gateway = self.node, POD_GATEWAY
        if pod.name in REMOTE_PODS:
            node, gateway = self.node_b, OTHER_POD_GATEWAY
        link = device = f"{POD_INTERFACE_PREFIX}{pod.name}"
        if pod.name in BRIDGED_PODS:
            link, device = f"port-{pod.name}", BRIDGE
        node.connect(link, pod.namespace, "eth0")
        if device == BRIDGE:
            # A pod may get back what it sent to itself, as bridges of container networks do it.
            node.ip(f"link set {link} master {BRIDGE}", f"link set {link} type bridge_slave hairpin on")
        else:
            node.ip(*(f"addr add {alone(gateway, family)} dev {link}" for family in FAMILIES))
        node.ip(*(f"route add {pod.address[family]} dev {device}" for family in FAMILIES))
        for family in FAMILIES:
            pod.namespace.ip(
                f"addr add {alone(pod.address, family)} dev eth0",
                f"route add {gateway[family]} dev eth0",
                f"route add default via {gateway[family]} src {pod.address[family]}",
            )

    # -- calls --

    def open(
        self, where: Namespace, address: str, port: int, protocol: str, timeout: float, link: str | None = None
    ) -> socket.socket | sctp.Association | icmp.Echo:
        """A connected socket; raises OSError as the kernel says it. @link: the interface that its packets (of TCP
        or UDP) leave by, whatever the routes say."""
        if protocol == "ping":
            with where.inside():
                return icmp.Echo(address, timeout)
        if protocol == "SCTP":
            with where.inside():
                return sctp.Association(address, port, next(self._source_ports), timeout)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with where.inside():
            sock = socket.socket(family, SOCKET_KINDS[protocol])
        sock.settimeout(timeout)
        try:
            if link:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, link.encode())
            if protocol == "UDP":
                self._bind_fresh_port(sock)
            else:
                # Close by reset: no TIME_WAIT, so a test never runs out of source ports.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.connect((address, port))
        except BaseException:
            sock.close()
            raise
        return sock

    def _bind_fresh_port(self, sock: socket.socket) -> None:
        """Takes a source port that was not used lately: conntrack remembers UDP flows for a while, and a
        reused port would follow the endpoint of the flow before it."""
        while True:
            try:
                sock.bind(("", next(self._source_ports)))
                return
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise

    def hail(
        self, where: Namespace, address: str, port: int, protocol: str, timeout: float = 2.0
    ) -> Answer:
        """One new connection and one question."""
        try:
            with self.open(where, address, port, protocol, timeout) as sock:
                return hail_on(sock)
        except OSError as error:
            return Answer(describe(error))

    def ask(self, where: Namespace, address: str, port: int, protocol: str, timeout: float = 2.0) -> str:
        """The same, for who just wants the name."""
        return self.hail(where, address, port, protocol, timeout).name


def hail_on(sock: "socket.socket | sctp.Association | icmp.Echo") -> Answer:
    """One question on an open connection."""
    try:
        sock.send(b"who?")
        words = sock.recv(4096).decode().split()
        return Answer(*words, sent=sock.getsockname()[0]) if words else Answer("closed")
    except OSError as error:
        return Answer(describe(error))


def ask_on(sock: "socket.socket | sctp.Association") -> str:
    return hail_on(sock).name


def describe(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    names = {errno.ECONNREFUSED: "refused", errno.EPERM: "denied", errno.ECONNRESET: "reset"}
    return names.get(error.errno) or errno.errorcode.get(error.errno, str(error))
