# SPDX-License-Identifier: GPL-2.0-or-later
"""Other programs that publish a port of a container, which answers as "b": CNI's portmap plugin with iptables and
Podman's netavark run themselves; of portmap with nftables and of firewalld it is what they loaded (tables/)."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import tempfile
import typing

import pytest

from daemon import FAMILY_TABLE
from lab import POD_PORTS, PREFIX_LENGTH, Lab, Namespace, Server

# Debian 12's, which know iptables only. A newer netavark is fetched by newer-nft, beside nft.
PORTMAP = "/usr/lib/cni/portmap"
NETAVARK = "/usr/lib/podman/netavark"
TABLES = pathlib.Path(__file__).with_name("tables")
# netavark makes the container's network itself.
NETWORKS = {4: ("10.88.0.0/24", "10.88.0.1", "10.88.0.2"), 6: ("fd00:10:88::/64", "fd00:10:88::1", "fd00:10:88::2")}
RECORDED_RULE = re.compile(r"^(.*)tcp dport 30099(.*\n)", re.MULTILINE)


class Ports(typing.NamedTuple):
    """Ports of the host that lead to the first one of the container."""

    family: int
    protocol: str
    of: list[tuple[str, int]]  # address, if not all that the host has, and number


def newer_netavark() -> str:
    program = pathlib.Path(os.environ.get("KUBE_NFTD_NEWER_NFT") or "none").with_name("netavark")
    if not program.is_file():
        pytest.skip("a newer netavark: see tests/netns/newer-nft")
    return str(program)


def installed(program: str) -> str:
    if not pathlib.Path(program).is_file():
        pytest.skip(f"{program}: see tests/setup test")
    return program


def path_of(namespace: Namespace) -> str:
    return f"/proc/{os.getpid()}/fd/{namespace.fd}"


# ---- CNI's portmap --------------------------------------------------------------------------------


def portmap_iptables(lab: Lab, ports: Ports, at_end: contextlib.ExitStack) -> None:
    pod = lab.pods["b"]
    sandbox = path_of(pod.namespace)
    mappings = [
        {"hostPort": number, "containerPort": POD_PORTS[0], "protocol": ports.protocol, "hostIP": address}
        for address, number in ports.of
    ]
    address = {"version": str(ports.family), "interface": 0, "address": f"{pod.address[ports.family]}/{PREFIX_LENGTH[ports.family]}"}
    configuration = {
        "cniVersion": "0.4.0",
        "name": "pods",
        "type": "portmap",
        "runtimeConfig": {"portMappings": mappings},
        "prevResult": {
            "cniVersion": "0.4.0",
            "interfaces": [{"name": "eth0", "sandbox": sandbox}],
            "ips": [address],
        },
    }
    environment = {
        "PATH": os.environ["PATH"], "CNI_COMMAND": "ADD", "CNI_CONTAINERID": "b", "CNI_NETNS": sandbox, "CNI_IFNAME": "eth0",
        "CNI_PATH": str(pathlib.Path(PORTMAP).parent),
    }  # fmt: skip
    lab.node.run(installed(PORTMAP), stdin=json.dumps(configuration), env=environment)


# ---- Podman's netavark ----------------------------------------------------------------------------


def netavark(lab: Lab, ports: Ports, at_end: contextlib.ExitStack, program: str, driver: str) -> None:
    subnet, gateway, address = NETWORKS[ports.family]
    container = Namespace()
    at_end.callback(container.close)
    folder = tempfile.mkdtemp(dir="/run")
    at_end.callback(shutil.rmtree, folder)
    network = {
        "name": "podman", "id": "0123456789abcdef" * 4, "driver": "bridge", "network_interface": "podman0",
        "subnets": [{"subnet": subnet, "gateway": gateway}], "ipv6_enabled": ports.family == 6, "internal": False,
        "dns_enabled": False, "ipam_options": {"driver": "host-local"},
    }  # fmt: skip
    mappings = [
        {"host_ip": address, "host_port": number, "container_port": POD_PORTS[0], "protocol": ports.protocol, "range": 1}
        for address, number in ports.of
    ]
    options = {
        "container_id": "fedcba9876543210" * 4,
        "container_name": "b",
        "networks": {"podman": {"interface_name": "eth0", "static_ips": [address]}},
        "network_info": {"podman": network},
        "port_mappings": mappings,
    }
    at_end.callback(lab.node.run, "ip", "link", "del", "podman0")
    environment = {"PATH": os.environ["PATH"], "NETAVARK_FW": driver}
    lab.node.run(
        program, "--config", folder, "setup", path_of(container), stdin=json.dumps(options), env=environment
    )
    server = Server(container, "b", POD_PORTS)
    at_end.callback(server.stop)
    server.wait_ready()


def netavark_nftables(lab: Lab, ports: Ports, at_end: contextlib.ExitStack) -> None:
    netavark(lab, ports, at_end, newer_netavark(), "nftables")


def netavark_iptables(lab: Lab, ports: Ports, at_end: contextlib.ExitStack) -> None:
    netavark(lab, ports, at_end, installed(NETAVARK), "iptables")


# ---- what others load, as it was recorded ----------------------------------------------------------


def recorded(lab: Lab, name: str, ports: Ports, has_addresses: bool) -> None:
    """The rule of the port that was recorded, for each of @ports. Tables of the other family are left out."""
    ip = FAMILY_TABLE[ports.family]
    matches = [
        (f"{ip} daddr {address} " if address and has_addresses else "") + f"{ports.protocol} dport {number}"
        for address, number in ports.of
    ]
    _, *tables = (TABLES / name).read_text().split("\ntable ")
    for table in tables:
        if table.split()[0] in (ip, "inet"):
            rules = RECORDED_RULE.sub(lambda rule: "".join(f"{rule[1]}{match}{rule[2]}" for match in matches), table)
            assert rules != table
            lab.node.run("nft", "-f", "-", stdin=f"table {rules}")


def portmap_nftables(lab: Lab, ports: Ports, at_end: contextlib.ExitStack) -> None:
    recorded(lab, "portmap.nft", ports, True)


def firewalld(lab: Lab, ports: Ports, at_end: contextlib.ExitStack) -> None:
    """Its forward-ports have no address."""
    recorded(lab, "firewalld.nft", ports, False)


TRANSLATORS = {
    "portmap": portmap_nftables,
    "portmap-iptables": portmap_iptables,
    "netavark": netavark_nftables,
    "netavark-iptables": netavark_iptables,
    "firewalld": firewalld,
}
