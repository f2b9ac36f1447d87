# SPDX-License-Identifier: GPL-2.0-or-later
"""Chains and rules in the shape of kube-proxy's mode iptables, as input of iptables-restore --noflush."""

import typing

from kube_proxy_table import CLUSTER_CIDR, MARK, Service

# table, chain, what it leads to, the comment
JUMPS = (
    ("filter", "INPUT", "KUBE-PROXY-FIREWALL", "kubernetes load balancer firewall", True),
    ("filter", "INPUT", "KUBE-NODEPORTS", "kubernetes health check service ports", False),
    ("filter", "INPUT", "KUBE-EXTERNAL-SERVICES", "kubernetes externally-visible service portals", True),
    ("filter", "FORWARD", "KUBE-PROXY-FIREWALL", "kubernetes load balancer firewall", True),
    ("filter", "FORWARD", "KUBE-FORWARD", "kubernetes forwarding rules", False),
    ("filter", "FORWARD", "KUBE-SERVICES", "kubernetes service portals", True),
    ("filter", "FORWARD", "KUBE-EXTERNAL-SERVICES", "kubernetes externally-visible service portals", True),
    ("filter", "OUTPUT", "KUBE-PROXY-FIREWALL", "kubernetes load balancer firewall", True),
    ("filter", "OUTPUT", "KUBE-SERVICES", "kubernetes service portals", True),
    ("nat", "PREROUTING", "KUBE-SERVICES", "kubernetes service portals", False),
    ("nat", "OUTPUT", "KUBE-SERVICES", "kubernetes service portals", False),
    ("nat", "POSTROUTING", "KUBE-POSTROUTING", "kubernetes postrouting rules", False),
)
CHAINS = {
    "filter": [
        "KUBE-EXTERNAL-SERVICES", "KUBE-FORWARD", "KUBE-NODEPORTS", "KUBE-PROXY-CANARY", "KUBE-PROXY-FIREWALL",
        "KUBE-SERVICES",
    ],
    "mangle": ["KUBE-PROXY-CANARY"],
    "nat": ["KUBE-MARK-MASQ", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-PROXY-CANARY", "KUBE-SERVICES"],
}  # fmt: skip


def rules(family: int, services: typing.Iterable[Service]) -> str:
    nat = [f":{chain} - [0:0]" for chain in CHAINS["nat"]] + jumps("nat")
    nat += [
        f"-A KUBE-MARK-MASQ -j MARK --or-mark {MARK:#x}",
        f"-A KUBE-POSTROUTING -m mark ! --mark {MARK:#x}/{MARK:#x} -j RETURN",
        f"-A KUBE-POSTROUTING -j MARK --xor-mark {MARK:#x}",
        "-A KUBE-POSTROUTING -j MASQUERADE --random-fully",
    ]
    for service in services:
        nat += service_rules(family, service)
    nat.append(
        '-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; last" '
        "-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS"
    )
    filters = [f":{chain} - [0:0]" for chain in CHAINS["filter"]] + jumps("filter")
    filters += [f"-A KUBE-FORWARD -m mark --mark {MARK:#x}/{MARK:#x} -j ACCEPT"]
    mangle = [f":{chain} - [0:0]" for chain in CHAINS["mangle"]]
    parts = [("filter", filters), ("mangle", mangle), ("nat", nat)]
    return "".join(f"*{table}\n" + "\n".join(lines) + "\nCOMMIT\n" for table, lines in parts)


def jumps(table: str) -> list[str]:
    return [
        f'-A {chain} {"-m conntrack --ctstate NEW " if new else ""}-m comment --comment "{comment}" -j {to}'
        for held_in, chain, to, comment, new in JUMPS
        if held_in == table
    ]


def service_rules(family: int, service: Service) -> list[str]:
    name, protocol = service.hash(), service.protocol.lower()
    match = f"-p {protocol} -m {protocol} --dport"
    lines = [f":KUBE-SVC-{name} - [0:0]"]
    lines += [f"-A KUBE-SERVICES -d {service.address} {match} {service.port} -j KUBE-SVC-{name}"]
    lines += [
        f"-A KUBE-SVC-{name} ! -s {CLUSTER_CIDR[family]} -d {service.address} {match} {service.port} -j KUBE-MARK-MASQ"
    ]
    lines += picks(service, "KUBE-SVC-", service.endpoints)
    if not service.external_addresses and not service.node_port:
        return lines
    lines += [f":KUBE-EXT-{name} - [0:0]"]
    if service.local_endpoints is None:
        lines += [f"-A KUBE-EXT-{name} -j KUBE-MARK-MASQ", f"-A KUBE-EXT-{name} -j KUBE-SVC-{name}"]
    else:
        lines += [
            f":KUBE-SVL-{name} - [0:0]",
            f"-A KUBE-EXT-{name} -s {CLUSTER_CIDR[family]} -j KUBE-SVC-{name}",
            f"-A KUBE-EXT-{name} -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ",
            f"-A KUBE-EXT-{name} -m addrtype --src-type LOCAL -j KUBE-SVC-{name}",
            f"-A KUBE-EXT-{name} -j KUBE-SVL-{name}",
            *picks(service, "KUBE-SVL-", service.local_endpoints, declare=False),
        ]
    for address in service.external_addresses:
        lines.append(f"-A KUBE-SERVICES -d {address} {match} {service.port} -j KUBE-EXT-{name}")
    if service.node_port:
        lines.append(f"-A KUBE-NODEPORTS {match} {service.node_port} -j KUBE-EXT-{name}")
    return lines


def picks(service: Service, kind: str, endpoints: list[tuple[str, int]], declare: bool = True) -> list[str]:
    lines = []
    for number, (address, port) in enumerate(endpoints):
        chain = f"KUBE-SEP-{service.hash(address)}"
        left = len(endpoints) - number
        chance = f"-m statistic --mode random --probability {1 / left:.10f} " if left > 1 else ""
        lines.append(f"-A {kind}{service.hash()} {chance}-j {chain}")
        if declare:
            to = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
            protocol = service.protocol.lower()
            lines.insert(0, f":{chain} - [0:0]")
            lines.append(f"-A {chain} -s {address} -j KUBE-MARK-MASQ")
            lines.append(f"-A {chain} -p {protocol} -m {protocol} -j DNAT --to-destination {to}")
    return lines
