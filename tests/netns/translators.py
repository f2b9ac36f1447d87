# SPDX-License-Identifier: GPL-2.0-or-later
"""What other programs load to publish a port of a container: the rules of CNI's portmap plugin with both of its
backends, of Podman's netavark and of firewalld, each for one port."""

import typing

from lab import Namespace


class Port(typing.NamedTuple):
    family: int
    address: str  # of the host; only portmap's rules name it
    port: int
    protocol: str
    container: str
    container_port: int

    @property
    def ip(self) -> str:
        return {4: "ip", 6: "ip6"}[self.family]

    @property
    def target(self) -> str:
        return f"[{self.container}]:{self.container_port}" if self.family == 6 else f"{self.container}:{self.container_port}"


def portmap_nftables(node: Namespace, port: Port) -> None:
    masquerade = f"{port.ip} saddr {port.container} {port.ip} daddr {port.container} masquerade"
    node.run("nft", "-f", "-", stdin=f"""
        table {port.ip} cni_hostport {{
            chain hostports {{ }}
            chain hostip_hostports {{
                {port.ip} daddr {port.address} {port.protocol} dport {port.port} dnat to {port.target}
            }}
            chain prerouting {{
                type nat hook prerouting priority -100
                jump hostip_hostports
                jump hostports
            }}
            chain output {{
                type nat hook output priority -100
                jump hostip_hostports
                fib daddr type local jump hostports
            }}
            chain masquerading {{
                type nat hook postrouting priority 100
                {masquerade}
            }}
        }}""")  # fmt: skip


def portmap_iptables(node: Namespace, port: Port) -> None:
    dnat = f"-d {port.address} -p {port.protocol} -m {port.protocol} --dport {port.port}"
    prefix = {4: "ip", 6: "ip6"}[port.family]
    node.run(f"{prefix}tables-nft-restore", "--noflush", stdin=f"""*nat
:CNI-HOSTPORT-DNAT - [0:0]
:CNI-HOSTPORT-SETMARK - [0:0]
:CNI-HOSTPORT-MASQ - [0:0]
:CNI-DN-0123456789abcdef01234 - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -j CNI-HOSTPORT-MASQ
-A CNI-HOSTPORT-SETMARK -j MARK --set-xmark 0x2000/0x2000
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A CNI-HOSTPORT-DNAT -p {port.protocol} -m multiport --dports {port.port} -j CNI-DN-0123456789abcdef01234
-A CNI-DN-0123456789abcdef01234 -s {port.container} {dnat} -j CNI-HOSTPORT-SETMARK
-A CNI-DN-0123456789abcdef01234 {dnat} -j DNAT --to-destination {port.target}
COMMIT
""")  # fmt: skip


def netavark(node: Namespace, port: Port) -> None:
    node.run("nft", "-f", "-", stdin=f"""
        table inet netavark {{
            chain FORWARD {{
                type filter hook forward priority 0
                ct state invalid drop
                {port.ip} daddr {port.container} ct state related,established accept
                {port.ip} saddr {port.container} accept
            }}
            chain POSTROUTING {{
                type nat hook postrouting priority 100
                meta mark & 0x2000 == 0x2000 masquerade
            }}
            chain NETAVARK-HOSTPORT-SETMARK {{
                meta mark set meta mark | 0x2000
            }}
            chain nv_dnat {{
                {port.ip} saddr {port.container} {port.protocol} dport {port.port} jump NETAVARK-HOSTPORT-SETMARK
                {port.protocol} dport {port.port} dnat {port.ip} to {port.target}
            }}
            chain NETAVARK-HOSTPORT-DNAT {{
                {port.protocol} dport {port.port} jump nv_dnat
            }}
            chain PREROUTING {{
                type nat hook prerouting priority -100
                fib daddr type local jump NETAVARK-HOSTPORT-DNAT
            }}
            chain OUTPUT {{
                type nat hook output priority -100
                fib daddr type local jump NETAVARK-HOSTPORT-DNAT
            }}
        }}""")  # fmt: skip


def firewalld(node: Namespace, port: Port) -> None:
    """A zone with the target accept and a forward-port."""
    node.run("nft", "-f", "-", stdin=f"""
        table inet firewalld {{
            chain nat_PREROUTING {{
                type nat hook prerouting priority -90
                {port.ip} daddr {port.address} {port.protocol} dport {port.port} dnat {port.ip} to {port.target}
            }}
            chain nat_POSTROUTING {{
                type nat hook postrouting priority 110
            }}
            chain filter_FORWARD {{
                type filter hook forward priority 10
                ct state {{ established, related }} accept
                ct status dnat accept
                {port.ip} daddr {port.container} accept
                reject with icmpx admin-prohibited
            }}
        }}""")  # fmt: skip


TRANSLATORS = {
    "portmap": portmap_nftables,
    "portmap-iptables": portmap_iptables,
    "netavark": netavark,
    "firewalld": firewalld,
}
