# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables in the shape of kube-proxy's, for tests and benchmarks of what stands beside ours or in place of it.

    python3 kube_proxy_table.py SERVICES [ENDPOINTS] | nft -f -

One chain a service port, one an endpoint, and verdict maps that lead to them; hooks and priorities as in
section 4.11 of the behaviour spec. Own text: what packets meet is kube-proxy's, not each rule's wording.
"""

import base64
import hashlib
import ipaddress
import sys
import typing

IP = {4: "ip", 6: "ip6"}
ADDRESS_TYPE = {4: "ipv4_addr", 6: "ipv6_addr"}
CLUSTER_CIDR = {4: "10.244.0.0/16", 6: "fd00:10:244::/48"}
MARK = 0x4000


class Service(typing.NamedTuple):
    """A service port in one family, its endpoints as (address, port)."""

    name: str
    protocol: str  # "TCP", ...
    address: str
    port: int
    endpoints: list[tuple[str, int]]
    external_addresses: tuple[str, ...] = ()
    node_port: int | None = None
    # With externalTrafficPolicy Local: the endpoints of this node.
    local_endpoints: list[tuple[str, int]] | None = None
    source_ranges: tuple[str, ...] = ()  # for external addresses

    def id(self) -> str:
        return f"default/{self.name}/{self.protocol.lower()}/http"

    def hash(self, more: str = "") -> str:
        """As many letters as kube-proxy's iptables chains have."""
        digest = hashlib.sha256(f"{self.id()}{more}".encode()).digest()
        return base64.b32encode(digest).decode()[:16]

    def key(self, address: str) -> str:
        return f"{address} . {self.protocol.lower()} . {self.port}"


def endpoint_id(address: str, port: int) -> str:
    return f"{address.replace(':', '.')}/{port}"


class Table:
    def __init__(
        self, family: int, services: typing.Iterable[Service], node_addresses: tuple[str, ...] = ()
    ) -> None:
        self.ip = IP[family]
        self.family = family
        self.services = list(services)
        self.node_addresses = node_addresses
        self.elements: dict[str, list[str]] = {}
        self.chains: list[str] = []
        for service in self.services:
            self._add(service)

    # -- one service port --

    def _chain(self, name: str, *rules: str) -> str:
        self.chains.append(f"chain {name} {{\n" + "".join(f"{rule}\n" for rule in rules) + "}\n")
        return name

    def _element(self, holder: str, element: str) -> None:
        self.elements.setdefault(holder, []).append(element)

    def _endpoints(self, service: Service, endpoints: list[tuple[str, int]], kind: str) -> list[str]:
        """The rules that choose one."""
        picks = []
        for number, (address, port) in enumerate(endpoints):
            name = f"{kind}-{service.hash(address)[:8]}-{service.id()}__{endpoint_id(address, port)}"
            self._chain(
                name,
                f"{self.ip} saddr {address} jump mark-for-masquerade",
                f"meta l4proto {service.protocol.lower()} dnat to {join(address, port)}",
            )
            picks.append(f"{number} : goto {name}")
        return [f"numgen random mod {len(picks)} vmap {{ {', '.join(picks)} }}"] if picks else []

    def _add(self, service: Service) -> None:
        suffix = f"{service.hash()[:8]}-{service.id()}"
        self._element("cluster-ips", service.address)
        if not service.endpoints:
            for address in (service.address, *service.external_addresses):
                self._element("no-endpoint-services", f"{service.key(address)} : goto reject-chain")
            return
        self._chain(
            f"service-{suffix}",
            f"{self.ip} daddr {service.address} meta l4proto {service.protocol.lower()} th dport {service.port} "
            f"{self.ip} saddr != {CLUSTER_CIDR[self.family]} jump mark-for-masquerade",
            *self._endpoints(service, service.endpoints, "endpoint"),
        )
        self._element("service-ips", f"{service.key(service.address)} : goto service-{suffix}")
        if service.external_addresses or service.node_port:
            self._add_external(service, suffix)

    def _add_external(self, service: Service, suffix: str) -> None:
        if service.local_endpoints is None:
            rules = ["jump mark-for-masquerade", f"goto service-{suffix}"]
        else:
            rules = [
                f"{self.ip} saddr {CLUSTER_CIDR[self.family]} goto service-{suffix}",
                "fib saddr type local jump mark-for-masquerade",
                f"fib saddr type local goto service-{suffix}",
                *self._endpoints(service, service.local_endpoints, "local-endpoint"),
            ]
        self._chain(f"external-{suffix}", *rules)
        for address in service.external_addresses:
            self._element("service-ips", f"{service.key(address)} : goto external-{suffix}")
            if service.source_ranges:
                allowed = ", ".join(service.source_ranges)
                name = self._chain(f"firewall-{suffix}", f"{self.ip} saddr != {{ {allowed} }} drop")
                self._element("firewall-ips", f"{service.key(address)} : goto {name}")
        if service.node_port:
            key = f"{service.protocol.lower()} . {service.node_port}"
            self._element("service-nodeports", f"{key} : goto external-{suffix}")

    # -- all of it --

    def _holder(self, kind: str, name: str, types: str) -> str:
        held = self.elements.get(name, [])
        body = f"elements = {{ {', '.join(held)} }}\n" if held else ""
        return f"{kind} {name} {{\ntype {types}\n{body}}}\n"

    def text(self) -> str:
        ip, address = self.ip, ADDRESS_TYPE[self.family]
        frontend = f"{address} . inet_proto . inet_service : verdict"
        self.elements["nodeport-ips"] = list(self.node_addresses)
        return (
            f"table {ip} kube-proxy {{\n"
            + self._holder("set", "cluster-ips", address)
            + self._holder("set", "nodeport-ips", address)
            + self._holder("map", "no-endpoint-services", frontend)
            + self._holder("map", "firewall-ips", frontend)
            + self._holder("map", "service-ips", frontend)
            + self._holder("map", "service-nodeports", "inet_proto . inet_service : verdict")
            + FIXED.format(ip=ip, mark=MARK)
            + "".join(self.chains)
            + "}\n"
        )


FIXED = """
chain reject-chain {{
    reject
}}
chain mark-for-masquerade {{
    meta mark set meta mark or {mark:#x}
}}
chain masquerading {{
    meta mark and {mark:#x} == 0 return
    meta mark set meta mark xor {mark:#x}
    masquerade fully-random
}}
chain services {{
    {ip} daddr . meta l4proto . th dport vmap @service-ips
    {ip} daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
}}
chain firewall-check {{
    {ip} daddr . meta l4proto . th dport vmap @firewall-ips
}}
chain service-endpoints-check {{
    {ip} daddr . meta l4proto . th dport vmap @no-endpoint-services
}}
chain cluster-ips-check {{
    {ip} daddr @cluster-ips reject
}}
chain filter-prerouting {{
    type filter hook prerouting priority dstnat - 10; policy accept;
    ct state new jump firewall-check
}}
chain filter-output-before-dnat {{
    type filter hook output priority -110; policy accept;
    ct state new jump firewall-check
}}
chain nat-prerouting {{
    type nat hook prerouting priority dstnat; policy accept;
    jump services
}}
chain nat-output {{
    type nat hook output priority -100; policy accept;
    jump services
}}
chain nat-postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    jump masquerading
}}
chain filter-input {{
    type filter hook input priority filter; policy accept;
    ct state new jump service-endpoints-check
}}
chain filter-forward {{
    type filter hook forward priority filter; policy accept;
    ct state new jump service-endpoints-check
    ct state new jump cluster-ips-check
}}
chain filter-output {{
    type filter hook output priority filter; policy accept;
    ct state new jump service-endpoints-check
    ct state new jump cluster-ips-check
}}
"""


def join(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def many(count: int, endpoints: int = 10, family: int = 4) -> typing.Iterator[Service]:
    """@count services, each with cluster IP and endpoints of its own, for benchmarks."""
    addresses = {4: ("10.96.0.0", "10.128.0.0"), 6: ("fd00:10:96::", "fd00:10:244::")}[family]
    first, first_pod = (ipaddress.ip_address(address) for address in addresses)
    for number in range(count):
        pods = [(str(first_pod + number * endpoints + i + 1), 8080) for i in range(endpoints)]
        yield Service(f"svc-{number}", "TCP", str(first + number + 1), 80, pods)


def main() -> None:
    count, *more = map(int, sys.argv[1:])
    sys.stdout.write(Table(4, many(count, *more)).text())


if __name__ == "__main__":
    main()
