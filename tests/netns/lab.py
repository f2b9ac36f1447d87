# SPDX-License-Identifier: GPL-2.0-or-later
"""A small network in namespaces of its own: a node with pods, a client, and the world outside.

        client 192.0.2.10 ----+                 +---- pod "a" 10.244.0.11
                              |                 |
                         node 192.0.2.1 --------+---- pod "b" 10.244.0.12
                              |                 |
      outside (default route) +                 +---- ...

Each line is a veth pair; everything also has IPv6. The kube-nftd under test runs in the node's
namespace. The pods and the outside run echo_server.py. The outside answers for every address, so that a
packet to a service IP that nothing rewrote comes back with the name "outside" instead of getting lost.

enter() moves the whole test process into fresh user, network, mount and pid namespaces. It needs no
root, touches nothing of the machine, and the kernel removes all of it, processes included, when
the test process ends in whatever way.
"""

import contextlib
import ctypes
import errno
import itertools
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import typing

import sctp

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1

SCRATCH = "/run"
NODE_NAME = "node-a"
POD_PORTS = (8080, 9090)
SERVICE_PORTS = (80, 443)
CLIENT_ADDRESS = {4: "192.0.2.10", 6: "2001:db8:1::10"}
NODE_ADDRESS = {4: "192.0.2.1", 6: "2001:db8:1::1"}
OUTSIDE_ADDRESS = {4: "198.51.100.1", 6: "2001:db8:2::1"}
NODE_OUTSIDE_ADDRESS = {4: "198.51.100.254", 6: "2001:db8:2::fe"}
POD_GATEWAY = {4: "10.244.0.1", 6: "fd00:10:244::1"}
POD_NETWORK = {4: "10.244.0.0/24", 6: "fd00:10:244::/64"}

PROTOCOLS = ("TCP", "UDP", "SCTP")
SOCKET_KINDS = {"TCP": socket.SOCK_STREAM, "UDP": socket.SOCK_DGRAM}

libc = ctypes.CDLL(None, use_errno=True)


class LabError(RuntimeError):
    pass


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


def run(*argv: str, stdin: str | None = None, **options) -> subprocess.CompletedProcess:
    """Runs a test tool; its failure is a failure of the lab, with its words."""
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise LabError(f"{' '.join(argv)}: exit {done.returncode}: {done.stderr.strip()}\n{stdin or ''}")
    return done


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
        argv = [sys.executable, "-EsSB", str(script), name, *map(str, ports)]
        self.process = namespace.start(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

    def wait_ready(self) -> None:
        if self.process.stdout.readline() != "ready\n":
            raise LabError(f"an echo server did not start: {self.process.args}")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Pod:
    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.address = {4: f"10.244.0.{10 + number}", 6: f"fd00:10:244::{10 + number:x}"}
        self.namespace = Namespace()


# ---- the lab --------------------------------------------------------------------------------------


class Lab:
    def __init__(self, pod_names: tuple[str, ...] = ("a", "b", "c", "d")) -> None:
        self.node = Namespace()
        self.client = Namespace()
        self.outside = Namespace()
        self.pods = {name: Pod(name, number) for number, name in enumerate(pod_names, start=1)}
        self._source_ports = itertools.cycle(range(20000, 60000))
        self._settings()
        self._wire_client()
        self._wire_outside()
        for pod in self.pods.values():
            self._wire_pod(pod)
        self._servers = [Server(pod.namespace, pod.name, POD_PORTS) for pod in self.pods.values()]
        self._servers.append(Server(self.outside, "outside", SERVICE_PORTS))
        for server in self._servers:
            server.wait_ready()

    def close(self) -> None:
        for server in self._servers:
            server.stop()
        for namespace in self._namespaces():
            namespace.close()

    def _namespaces(self) -> list[Namespace]:
        return [self.node, self.client, self.outside, *(pod.namespace for pod in self.pods.values())]

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
                }
            )
        self.node.sysctl(
            {
                "ipv4.ip_forward": 1,
                "ipv6.conf.all.forwarding": 1,
                # Rejects are ICMP errors; the tests count on each of them.
                "ipv4.icmp_ratelimit": 0,
                "ipv6.icmp.ratelimit": 0,
            }
        )

    def _wire_client(self) -> None:
        self.node.connect("client", self.client, "eth0")
        self.node.ip(
            f"addr add {NODE_ADDRESS[4]}/24 dev client",
            f"addr add {NODE_ADDRESS[6]}/64 dev client nodad",
        )
        self.client.ip(
            f"addr add {CLIENT_ADDRESS[4]}/24 dev eth0",
            f"addr add {CLIENT_ADDRESS[6]}/64 dev eth0 nodad",
            f"route add default via {NODE_ADDRESS[4]}",
            f"route add default via {NODE_ADDRESS[6]}",
        )

    def _wire_outside(self) -> None:
        self.node.connect("outside", self.outside, "eth0")
        self.node.ip(
            f"addr add {NODE_OUTSIDE_ADDRESS[4]}/24 dev outside",
            f"addr add {NODE_OUTSIDE_ADDRESS[6]}/64 dev outside nodad",
            f"route add default via {OUTSIDE_ADDRESS[4]}",
            f"route add default via {OUTSIDE_ADDRESS[6]}",
        )
        back = NODE_OUTSIDE_ADDRESS
        self.outside.ip(
            f"addr add {OUTSIDE_ADDRESS[4]}/24 dev eth0",
            f"addr add {OUTSIDE_ADDRESS[6]}/64 dev eth0 nodad",
            f"route add 192.0.2.0/24 via {back[4]}",
            f"route add 2001:db8:1::/64 via {back[6]}",
            f"route add {POD_NETWORK[4]} via {back[4]}",
            f"route add {POD_NETWORK[6]} via {back[6]}",
            "route add local 0.0.0.0/0 dev lo table main",
            "route add local ::/0 dev lo table main",
        )

    def _wire_pod(self, pod: Pod) -> None:
        link = f"pod-{pod.name}"
        self.node.connect(link, pod.namespace, "eth0")
        self.node.ip(
            f"addr add {POD_GATEWAY[4]}/32 dev {link}",
            f"addr add {POD_GATEWAY[6]}/128 dev {link} nodad",
            f"route add {pod.address[4]}/32 dev {link}",
            f"route add {pod.address[6]}/128 dev {link}",
        )
        pod.namespace.ip(
            f"addr add {pod.address[4]}/32 dev eth0",
            f"addr add {pod.address[6]}/128 dev eth0 nodad",
            f"route add {POD_GATEWAY[4]}/32 dev eth0",
            f"route add default via {POD_GATEWAY[4]} src {pod.address[4]}",
            f"route add {POD_GATEWAY[6]}/128 dev eth0",
            f"route add default via {POD_GATEWAY[6]} src {pod.address[6]}",
        )

    # -- calls --

    def open(
        self, where: Namespace, address: str, port: int, protocol: str, timeout: float
    ) -> socket.socket | sctp.Association:
        """A connected socket; raises OSError as the kernel says it."""
        if protocol == "SCTP":
            with where.inside():
                return sctp.Association(address, port, next(self._source_ports), timeout)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with where.inside():
            sock = socket.socket(family, SOCKET_KINDS[protocol])
        sock.settimeout(timeout)
        try:
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

    def ask(self, where: Namespace, address: str, port: int, protocol: str, timeout: float = 2.0) -> str:
        """One new connection and one question: the name of who answers, or what went wrong."""
        try:
            with self.open(where, address, port, protocol, timeout) as sock:
                return ask_on(sock)
        except OSError as error:
            return describe(error)


def ask_on(sock: socket.socket | sctp.Association) -> str:
    """One question on an open connection."""
    try:
        sock.send(b"who?")
        return sock.recv(4096).decode() or "closed"
    except OSError as error:
        return describe(error)


def describe(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    names = {errno.ECONNREFUSED: "refused", errno.EPERM: "denied", errno.ECONNRESET: "reset"}
    return names.get(error.errno) or errno.errorcode.get(error.errno, str(error))
