# SPDX-License-Identifier: GPL-2.0-or-later
"""The words that tests and the demo are written in: a proxied node, its services, traffic."""

import collections
import contextlib
import itertools
import pathlib
import subprocess
import typing

import objects
from background import Background
from daemon import Daemon, Frontend, Table, wait_for
from lab import POD_PORTS, Lab, Namespace, ask_on, describe

# Every service gets addresses that no other had: conntrack never mixes two tests up.
_numbers = itertools.count(1)


def fresh_addresses() -> dict[int, str]:
    number = next(_numbers)
    return {4: f"10.96.{number // 250}.{number % 250 + 1}", 6: f"fd00:10:96::{number:x}"}


class Proxy:
    """A lab whose node runs kube-nftd, with some flags, on a folder of manifests."""

    def __init__(self, lab: Lab, folder: pathlib.Path, *flags: str) -> None:
        self.lab = lab
        self.manifests = objects.Manifests(folder / "manifests")
        self.daemon = Daemon(lab.node, self.manifests.folder, folder / "kube-nftd.log", flags)
        self.tables = {family: Table(lab.node, family) for family in (4, 6)}
        self.manifests.put("node", objects.node())

    def close(self) -> None:
        if self.daemon.running():
            status = self.daemon.stop()
            assert status == 0, f"exit status {status} after SIGTERM"
        self.lab.node.run(self.lab.node.nft, "flush", "ruleset")

    def shape(self) -> str:
        return "".join(table.shape() for table in self.tables.values())


@contextlib.contextmanager
def running(lab: Lab, folder: pathlib.Path, *flags: str) -> typing.Iterator[Proxy]:
    """A proxy that is started, and at the end closed."""
    proxy = Proxy(lab, folder, *flags)
    try:
        proxy.daemon.start()
        yield proxy
    finally:
        print(proxy.daemon.last_words())
        proxy.close()


class Web:
    """A service with one port in one family, and one slice. Pods are called by their names."""

    def __init__(self, proxy: Proxy, family: int, protocol: str, name: str = "web") -> None:
        self.proxy = proxy
        self.lab = proxy.lab
        self.family = family
        self.protocol = protocol
        self.name = name
        self.address = fresh_addresses()[family]
        self.frontend = Frontend(self.address, protocol, 80)

    # -- objects --

    def as_service(self, **spec) -> dict:
        ports = [objects.Port("http", self.protocol, 80)]
        return objects.service(self.name, {self.family: self.address}, ports, **spec)

    def as_slice(self, states: dict[str, str], name: str = "1", port: int = POD_PORTS[0]) -> dict:
        """@states: pod name -> state, see objects.CONDITIONS."""
        ports = [objects.Port("http", self.protocol, port)]
        endpoints = [
            objects.endpoint(self.lab.pods[pod].address[self.family], state) for pod, state in states.items()
        ]
        return objects.endpoint_slice(f"{self.name}-{name}", self.name, self.family, ports, endpoints)

    def put_service(self, **spec) -> None:
        self.proxy.manifests.put(f"{self.name}-service", self.as_service(**spec))

    def put_endpoints(self, **states: str) -> None:
        self.proxy.manifests.put(f"{self.name}-slice", self.as_slice(states))

    def remove_service(self) -> None:
        self.proxy.manifests.remove(f"{self.name}-service")

    def remove_endpoints(self) -> None:
        self.proxy.manifests.remove(f"{self.name}-slice")

    def publish(self, *pods: str) -> None:
        """The service with these pods ready, and in the kernel."""
        self.put_service()
        self.put_endpoints(**dict.fromkeys(pods, "ready"))
        self.settle(*pods)

    # -- the kernel --

    def settle(self, *pods: str) -> None:
        """Waits until new connections can reach just these pods; without any: until they are rejected."""
        wanted = sorted((self.lab.pods[pod].address[self.family], POD_PORTS[0]) for pod in pods)
        self.wait_backends(wanted)

    def settle_absent(self) -> None:
        self.wait_backends(None)

    def wait_backends(self, wanted: list[tuple[str, int]] | None) -> None:
        """@wanted in order; None: the frontend is not there."""
        held: list[tuple[str, int]] | None = None

        def settled() -> bool:
            nonlocal held
            held = self.proxy.tables[self.family].backends(self.frontend)
            return held == wanted if held is None or wanted is None else sorted(held) == wanted

        wait_for(settled, lambda: f"{self.frontend} has the backends {wanted}; they are {held}")

    # -- packets --

    def ask(self, where: Namespace | None = None, timeout: float = 2.0) -> str:
        return self.lab.ask(where or self.lab.client, *self.call(), timeout=timeout)

    def tally(self, where: Namespace | None = None, times: int = 60) -> collections.Counter:
        return collections.Counter(self.ask(where) for _ in range(times))

    def call(self) -> tuple[str, int, str]:
        return self.address, self.frontend.port, self.protocol


@contextlib.contextmanager
def table_of_another(proxy: Proxy, family: int) -> typing.Iterator[None]:
    """Another program owns the table of this name, and the kernel refuses whatever the daemon sends."""
    name = proxy.tables[family].name
    with proxy.lab.node.inside():
        other = subprocess.Popen(
            [proxy.lab.node.nft, "-i"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
    try:
        other.stdin.write(f"delete table {name}; add table {name} {{ flags owner; }}\n")
        other.stdin.flush()
        wait_for(lambda: "flags owner" in proxy.tables[family].listing(), "the table has another owner")
        yield
    finally:
        other.stdin.close()
        other.wait(timeout=10)


class Traffic(Background):
    """New connections one after the other, until the with-block ends. .answers counts what came back.

    As UDP clients do, a question without an answer is asked once more on the same socket: when an endpoint
    goes, its flows are forgotten, and then an answer that is just on its way is lost (docs/behaviour.md 5.1)."""

    def __init__(self, lab: Lab, where: Namespace, address: str, port: int, protocol: str) -> None:
        super().__init__()
        self.lab = lab
        self.where = where
        self.target = address, port, protocol
        self.answers: collections.Counter = collections.Counter()

    def run(self) -> None:
        while not self.ended.is_set():
            self.answers[self.ask()] += 1

    def ask(self) -> str:
        try:
            with self.lab.open(self.where, *self.target, timeout=2) as sock:
                answer = ask_on(sock)
                return ask_on(sock) if answer == "timeout" and self.target[2] == "UDP" else answer
        except OSError as error:
            return describe(error)
