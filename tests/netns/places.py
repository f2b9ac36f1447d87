# SPDX-License-Identifier: GPL-2.0-or-later
"""The names that scenario files have for addresses; see README.md."""

import itertools
import re
import typing

import lab as lab_module
from lab import HOST_LENGTH, NODE_PORTS, Lab, Namespace

OTHER_FAMILY = {4: 6, 6: 4}
FRESH = re.compile(r"(cluster-ip|unallocated-low|unallocated|external-ip|lb-ip)(-[a-z0-9]+)?")
FIRST_NUMBER = {"cluster-ip": 1, "unallocated-low": 100, "unallocated": 200}
SUBSTITUTE = re.compile(r"\$\(([^)]+)\)")

FIXED = {
    "client": lab_module.CLIENT_ADDRESS,
    "stranger": lab_module.STRANGER_ADDRESS,
    "node": lab_module.NODE_ADDRESS,
    "node@secondary": lab_module.SECONDARY_ADDRESS,
    "node@extra": {4: "192.0.2.3", 6: "2001:db8:1::3"},
    "node@stranger": lab_module.NODE_STRANGER_ADDRESS,
    "node@outside": lab_module.NODE_OUTSIDE_ADDRESS,
    "node@gateway": lab_module.POD_GATEWAY,
    "node@loopback": {4: "127.0.0.1", 6: "::1"},
    "node-b": lab_module.OTHER_NODE_ADDRESS,
    "client-network": {4: "192.0.2.0/24", 6: "2001:db8:1::/64"},
    "stranger-network": {4: "198.18.0.0/24", 6: "2001:db8:3::/64"},
    "pod-network": lab_module.POD_NETWORK,
    "cluster-network": lab_module.CLUSTER_NETWORK,
    "everywhere": lab_module.EVERYWHERE,
    "loopback-network": {4: "127.0.0.0/8", 6: "::1/128"},
    "host-length": {family: str(length) for family, length in HOST_LENGTH.items()},
    "family": {4: "IPv4", 6: "IPv6"},
}

# Every run gets addresses that no other had: conntrack never mixes two of them up.
_runs = itertools.count()
_vips = itertools.count()


class Target(typing.NamedTuple):
    address: str
    port: int

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


class Places:
    """What each name stands for in one run, in the run's own family and in the other."""

    def __init__(self, lab: Lab, family: int, protocol: str) -> None:
        self.lab = lab
        self.family = family
        self.protocol = protocol
        self._run = next(_runs)
        self._numbers: dict[str, int] = {}

    def address(self, name: str, family: int | None = None) -> str:
        family = family or self.family
        if name.startswith("other:"):
            return self.address(name.removeprefix("other:"), OTHER_FAMILY[family])
        if name in FIXED:
            return FIXED[name][family]
        if name.startswith("pod-"):
            return self.lab.pods[name.removeprefix("pod-")].address[family]
        if name in ("host", "host-b"):
            return FIXED["node" if name == "host" else "node-b"][family]
        if name.startswith("service-network"):
            return self._network(family, half=name == "service-network-half")
        return self._fresh(name, family)

    def _network(self, family: int, half: bool) -> str:
        if family == 4:
            return self._in_network(4, 0) + ("/25" if half else "/24")
        return self._in_network(6, 0) + ("/121" if half else "/120")

    def _in_network(self, family: int, number: int) -> str:
        if family == 4:
            return f"10.{100 + self._run // 250}.{self._run % 250}.{number}"
        return f"fd00:10:100:{self._run:x}::{number:x}".removesuffix("::0") + ("" if number else "::")

    def _fresh(self, name: str, family: int) -> str:
        kind = FRESH.fullmatch(name)
        if not kind:
            raise ValueError(f"no such place: {name}")
        number = self._number(name, kind[1])
        if kind[1] in FIRST_NUMBER:
            return self._in_network(family, number)
        return f"203.0.113.{number}" if family == 4 else f"2001:db8:5::{number:x}"

    def _number(self, name: str, kind: str) -> int:
        """Of a name that any run may give to an address of its own."""
        if name not in self._numbers:
            if kind in FIRST_NUMBER:
                alike = [known for known in self._numbers if FRESH.fullmatch(known)[1] == kind]
                self._numbers[name] = FIRST_NUMBER[kind] + len(alike)
            else:
                self._numbers[name] = next(_vips) % 250 + 1
        return self._numbers[name]

    def target(self, text: str, family: int | None = None) -> Target:
        """@text: "NAME", "NAME:PORT", "node-port" or "node-port@WHERE"."""
        name, _, port = text.partition(":") if not text.startswith("other:") else (text, "", "")
        number = 80
        if name.startswith("node-port"):
            name, number = name.replace("node-port", "node"), NODE_PORTS[0]
        return Target(self.address(name, family), int(port or number))

    def fill(self, value):
        """@value with every $(NAME) in it replaced."""
        if isinstance(value, str):
            return SUBSTITUTE.sub(lambda match: self._word(match[1]), value)
        if isinstance(value, dict):
            return {self.fill(key): self.fill(held) for key, held in value.items()}
        return [self.fill(held) for held in value] if isinstance(value, list) else value

    def _word(self, name: str) -> str:
        return self.protocol if name == "protocol" else self.address(name)

    def namespace(self, name: str) -> Namespace:
        hosts = {
            "client": self.lab.client,
            "stranger": self.lab.stranger,
            "node": self.lab.node,
            "node-b": self.lab.node_b,
        }
        return hosts.get(name) or self.lab.pods[name.removeprefix("pod-")].namespace
