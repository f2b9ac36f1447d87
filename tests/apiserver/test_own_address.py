# SPDX-License-Identifier: GPL-2.0-or-later
"""Services that name an address and port of the API server: they must not cut the daemon off from it."""

import http.client
import json
import subprocess

import pytest

import apiserver
from harness import (BINARY, METRICS, Daemon, endpoint_slice, explain, node, own_network, rejected, service, table)

WEB = ("10.96.0.10", "tcp", 80)
HOST = "192.0.2.80"  # no loopback address: those are no load balancer's
TOLD = "is not programmed: the API server uses that address and port"


@pytest.fixture(name="server")
def run_server(certs):
    with own_network():
        subprocess.run(["ip", "addr", "add", f"{HOST}/32", "dev", "lo"], check=True)
        with apiserver.ApiServer(certs, hosts=(HOST,)) as server:
            server.put(node(), service(), endpoint_slice("10.1.0.1"))
            yield server


def thief(port, address=HOST):
    made = service("thief", "10.96.0.66", port)
    made["spec"]["type"] = "LoadBalancer"
    made["status"] = {"loadBalancer": {"ingress": [{"ip": address}]}}
    return made


def reserved():
    """How many frontends are, says the daemon."""
    connection = http.client.HTTPConnection(METRICS, timeout=20)
    connection.request("GET", "/metrics")
    [value] = [line.split()[1] for line in connection.getresponse().read().decode().splitlines()
               if line.startswith("kube_nftd_frontends_reserved ")]
    connection.close()
    return int(float(value))


def start(server, folder):
    cluster = {"certificate-authority": server.certs / "ca.crt", "tls-server-name": "localhost"}
    return Daemon(folder, server.kubeconfig(folder / "kubeconfig", cluster=cluster), node="node-a")


def has_endpoints(*addresses):
    return table().get(WEB) == {(address, 8080) for address in addresses}


def test_a_service_cannot_cut_a_running_daemon_off(server, tmp_path):
    with start(server, tmp_path) as daemon:
        server.wait(lambda: has_endpoints("10.1.0.1"))
        server.put(thief(server.port))
        server.wait(lambda: ("10.96.0.66", "tcp", server.port) in rejected())
        assert (HOST, "tcp", server.port) not in rejected()
        assert len(daemon.lines(f"frontend={HOST}:{server.port}/TCP of service=shop/thief {TOLD}")) == 1
        [event] = server.wait(lambda: server.events("FrontendReserved"))
        assert event["note"] == f"{HOST}:{server.port}/TCP {TOLD}" and event["regarding"]["name"] == "thief"
        assert reserved() == 1
        said = explain(f"{HOST}:{server.port}")
        assert "New connections: not programmed: the API server uses this address and port." in said.stdout
        assert said.returncode == 0
        server.stop()  # so that it has to connect anew
        server.put(endpoint_slice("10.1.0.2"))
        server.start()
        server.wait(lambda: has_endpoints("10.1.0.2"), 20)
        server.delete("Service", "shop", "thief")
        server.wait(lambda: reserved() == 0)


@pytest.mark.parametrize("endpoints", [[], ["192.0.2.1"]], ids=["rejected", "elsewhere"])
def test_a_start_over_a_table_that_cuts_it_off(server, tmp_path, endpoints):
    """As one has left that knew of no API server, or of another one."""
    files = tmp_path / "objects"
    files.mkdir()
    made = [thief(server.port), service(), endpoint_slice("10.1.0.1"),
            endpoint_slice(*endpoints, name="thief", port=1)]
    for number, held in enumerate(made):
        api = "discovery.k8s.io/v1" if held["kind"] == "EndpointSlice" else "v1"
        (files / f"{number}.json").write_text(json.dumps({"apiVersion": api} | held))
    with subprocess.Popen([BINARY, "--manifests", files, "--conntrack-max-per-core", "0"]) as earlier:
        server.wait(lambda: has_endpoints("10.1.0.1"))
        earlier.terminate()
    taken = rejected() | set(table())
    assert (HOST, "tcp", server.port) in taken
    server.put(endpoint_slice("10.1.0.2"))
    with start(server, tmp_path) as daemon:
        server.wait(lambda: has_endpoints("10.1.0.2"), 20)
        assert daemon.lines(f"frontend={HOST}:{server.port}/TCP of the previous process is withdrawn")
        assert (HOST, "tcp", server.port) not in rejected() | set(table())


def test_endpoints_of_the_service_kubernetes(server, tmp_path):
    own = endpoint_slice("203.0.113.5", name="kubernetes", namespace="default", port=6443)
    own["metadata"]["name"] = "kubernetes"  # as the API server itself names it
    server.put(own, thief(6443, "203.0.113.5"))
    with start(server, tmp_path):
        server.wait(lambda: ("10.96.0.66", "tcp", 6443) in rejected())
        assert ("203.0.113.5", "tcp", 6443) not in rejected() and reserved() == 1
        server.delete("EndpointSlice", "default", "kubernetes")
        server.wait(lambda: ("203.0.113.5", "tcp", 6443) in rejected())
        server.put(own)
        server.wait(lambda: ("203.0.113.5", "tcp", 6443) not in rejected())
