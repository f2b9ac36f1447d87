# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the real daemon against the stand-in, in a network namespace, and reads its tables.

The daemon is $KUBE_NFTD, or build/kube-nftd of this tree.
"""

import collections
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
BINARY = pathlib.Path(os.environ.get("KUBE_NFTD")
                      or pathlib.Path(__file__).parents[2] / "build" / "kube-nftd")
HEALTHZ = "127.0.0.1:10256"
METRICS = "127.0.0.1:10249"
NODE_ADDRESS = "192.0.2.1"
libc = ctypes.CDLL(None, use_errno=True)


def _check(result):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _unshare():
    """Moves this thread to a new network namespace, and to a user namespace if it is not root."""
    if os.geteuid() == 0:
        _check(libc.unshare(CLONE_NEWNET))
        return
    user, group = os.geteuid(), os.getegid()
    _check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNET))
    pathlib.Path("/proc/self/setgroups").write_text("deny")
    pathlib.Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    pathlib.Path("/proc/self/gid_map").write_text(f"0 {group} 1")


@contextlib.contextmanager
def own_network():
    """A network namespace for this thread and for the threads and processes that it starts. It goes
    with the last of them, and with it every table: nothing has to be cleaned up."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _unshare()
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        subprocess.run(["ip", "addr", "add", f"{NODE_ADDRESS}/32", "dev", "lo"], check=True)
        yield
    finally:
        libc.setns(before, CLONE_NEWNET)  # not allowed after a user namespace was made; no harm
        os.close(before)


def with_mounts(mounts):
    """What to put before a command so that it runs in a mount namespace of its own with @mounts."""
    if not mounts:
        return []
    binds = "".join(f"mount --bind {shlex.quote(str(source))} {shlex.quote(str(target))} && "
                    for target, source in mounts.items())
    return ["unshare", "--mount", "sh", "-c", binds + 'exec "$@"', "sh"]


class Daemon:
    """One run of kube-nftd; its stderr is in .log(). @mounts are files and folders to put in place of
    others for it alone: {"/etc/hosts": its own}. @environment is added to what it inherits."""

    def __init__(self, folder, kubeconfig, *flags, node="node-a", mounts=None, environment=None):
        assert BINARY.exists(), f"no daemon at {BINARY}: build it, or set KUBE_NFTD"
        self.path = folder / "daemon.log"
        command = [*with_mounts(mounts or {}), BINARY, "--kubeconfig", kubeconfig, "--hostname-override", node,
                   "--healthz-bind-address", HEALTHZ, "-v", "2",
                   "--conntrack-max-per-core", "0",  # the whole host's, not the namespace's
                   *flags]
        with self.path.open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log,
                                            env={**os.environ, **(environment or {})})

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        status = self.stop()
        if kind or status:
            print(self.log())  # pytest shows it with the failure
        assert kind or status == 0, f"the daemon ended with status {status}"

    def stop(self):
        """Ends it by SIGTERM; returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def log(self):
        return self.path.read_text(errors="replace")

    def alive(self):
        return self.process.poll() is None

    def peak_memory(self):
        """The most that it has had resident up to now, in bytes."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) * 1024

    def lines(self, pattern):
        """The log lines of level info and above that match."""
        return [line for line in self.log().splitlines()
                if re.search(pattern, line) and not re.match(r"\S+ (debug |warn  daemon: no cluster CIDR)", line)]


def figures():
    """The daemon's counters of what came from the API server: {(name, resource): value}, the names
    without kube_nftd_ and _total, the resources without their group; in whatever encoding."""
    with contextlib.closing(http.client.HTTPConnection(METRICS, timeout=20)) as connection:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    found = re.findall(r'^kube_nftd_(\w+)_total\{(?:encoding="\w+",)?resource="(\w+)[^}]*\} (\d+)', text, re.M)
    counters = collections.Counter()
    for name, resource, value in found:
        counters[name, resource] += int(value)
    return counters


def status():
    with contextlib.closing(http.client.HTTPConnection(METRICS, timeout=20)) as connection:
        connection.request("GET", "/status")
        return json.load(connection.getresponse())


def prove_watches(server, timeout=20.0):
    """Waits until watches of all kinds are open and each has brought the daemon something: one that ends in its first
    second without that is not worth opening again at once."""
    told = before = None

    def brought():
        nonlocal told, before
        watches = {id(watch): watch.exchange.request.path for watch in tuple(server.api.watches)
                   if not watch.exchange.connection.closing}
        if watches == told:
            return all(value > before[counter] for counter, value in figures().items() if counter[0] == "received_bytes")
        if len(set(watches.values())) == 4 and {it["state"] for it in status()["source"]["watches"]} == {"watching"}:
            told, before = watches, figures()
            server.advance()
            server.bookmark()
        return False

    server.wait(brought, timeout)


@contextlib.contextmanager
def without_waiting(daemon):
    """What happens inside is done without a wait before another try. On a busy machine the clock would not tell."""
    before = len(daemon.log())
    yield
    assert "next try in" not in daemon.log()[before:]


def encodings():
    """In which what is watched comes, by resource without its group."""
    return {it["resource"].split(".")[0]: it["encoding"] for it in status()["source"]["watches"]}


def dump_rules(kubeconfig, node="node-a", mounts=None):
    """What --dump-rules prints."""
    command = [*with_mounts(mounts or {}), BINARY, "--kubeconfig", kubeconfig,
               "--hostname-override", node, "--dump-rules"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout


def explain(what, *flags):
    """What explain says of an address or a Service, asking the daemon in this network."""
    return subprocess.run([BINARY, "explain", what, *flags], check=False, capture_output=True, text=True, timeout=20)


def _elements(kind, name, family):
    done = subprocess.run(["nft", "-j", "list", kind, family, "kube-nftd", name],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        return []
    [found] = [item[kind] for item in json.loads(done.stdout)["nftables"] if kind in item]
    return found.get("elem", [])


PORT = 0xffff8000  # what of a classid is the number of a service port


def _number(classid):
    high, low = classid.split(":")
    return int(high, 16) << 16 | int(low, 16)


CLASS = 0x7ff0  # with these bits the rest is a class, else the number of endpoints


def _services(family):
    """{frontend: its value}"""
    return {tuple(key["concat"]): _number(value) for key, value in _elements("map", "services", family)}


def table(family="ip"):
    """{(address, protocol, port): {(endpoint address, port), ...}} of all frontends with endpoints.
    Slots that no count reaches are left out, as a packet never sees them."""
    counts = {_number(key): _number(value) & ~PORT for key, value in _elements("map", "ports", family)}
    services = {frontend: (value & PORT, counts.get(value & PORT, 0) if value & CLASS == CLASS else value & ~PORT)
                for frontend, value in _services(family).items()}
    slots = {(_number(port), slot): tuple(value["concat"])
             for (port, slot), value in ((key["concat"], value)
                                         for key, value in _elements("map", "endpoints", family))}
    return {frontend: {slots.get((port, slot)) for slot in range(count)}
            for frontend, (port, count) in services.items() if count}


def rejected(family="ip"):
    """The frontends that are refused since they have no endpoints."""
    without = {_number(element) for element in _elements("set", "rejected_ports", family)}
    return {frontend for frontend, value in _services(family).items() if value & PORT in without}


def service_cidrs(family="ip"):
    """The ranges of which addresses in no use are dropped: "10.96.0.0/12" or "first-last"."""
    def text(element):
        if isinstance(element, str):
            return element
        if "prefix" in element:
            return f"{element['prefix']['addr']}/{element['prefix']['len']}"
        return "-".join(element["range"])
    return {text(element) for element in _elements("set", "service_cidrs", family)}


def service(name="web", address="10.96.0.10", port=80, namespace="shop", labels=None):
    return {"kind": "Service",
            "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
            "spec": {"ports": [{"name": "http", "protocol": "TCP", "port": port,
                                "targetPort": 8080}],
                     "selector": {"app": name}, "clusterIP": address, "clusterIPs": [address],
                     "type": "ClusterIP", "sessionAffinity": "None", "ipFamilies": ["IPv4"],
                     "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster"}}


def endpoint_slice(*addresses, name="web", namespace="shop", port=8080):
    ready = {"ready": True, "serving": True, "terminating": False}
    return {"kind": "EndpointSlice",
            "metadata": {"name": f"{name}-x", "namespace": namespace,
                         "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address], "conditions": ready, "nodeName": "node-a"}
                          for address in addresses],
            "ports": [{"name": "http", "protocol": "TCP", "port": port}]}


def service_cidr(name, *cidrs):
    return {"kind": "ServiceCIDR", "metadata": {"name": name}, "spec": {"cidrs": list(cidrs)}}


def node(name="node-a"):
    return {"kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"addresses": [{"type": "InternalIP", "address": NODE_ADDRESS}]}}
