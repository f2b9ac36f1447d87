# SPDX-License-Identifier: GPL-2.0-or-later
"""Session affinity as time goes by. What needs no clock is in scenarios/4.9-*.yaml."""

import contextlib
import re
import signal
import time

import pytest

from lab import CLIENT_ADDRESS, POD_PORTS, ask_on
from scenario import Web

TIMEOUT = 2
PODS = ("a", "b", "c", "e")


def sticky(timeout: int) -> dict:
    return {
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": timeout}},
    }


def put(web: Web, *pods: str) -> None:
    web.put_endpoints(**dict.fromkeys(pods, "ready"))
    web.settle(*pods)


def clients(web: Web) -> dict:
    """None of them is an endpoint, or beside one: its answers would go around the node."""
    lab = web.lab
    pods = {name: lab.pods[name].namespace for name in ("d", "f", "y")}
    return {"client": lab.client, "stranger": lab.stranger, "node": lab.node, "node-b": lab.node_b, **pods}


def records(web: Web) -> list[str]:
    return web.proxy.tables[web.family].elements("affinity")[0]


def test_records_end_and_new_connections_refresh_them(web):
    """One client goes on making connections. The others just talk on those that they have."""
    web.put_service(**sticky(TIMEOUT))
    put(web, "a")
    others = clients(web)
    busy = others.pop("client")
    with contextlib.ExitStack() as opened:
        opening = [web.lab.open(where, *web.call(), timeout=2) for where in others.values()]
        talks = [opened.enter_context(talk) for talk in opening]
        assert [ask_on(talk) for talk in talks] == ["a"] * len(talks)
        assert web.ask(busy) == "a"
        put(web, *PODS)
        end = time.monotonic() + 1.5 * TIMEOUT
        while time.monotonic() < end:
            assert web.ask(busy) == "a"
            assert [ask_on(talk) for talk in talks] == ["a"] * len(talks)
            time.sleep(TIMEOUT / 10)
    (record,) = records(web)
    assert record.split()[2] == CLIENT_ADDRESS[web.family]
    picked = [web.ask(where) for where in others.values()]
    assert set(picked) <= set(PODS)
    assert web.ask(busy) == "a"
    assert [web.ask(where) for where in others.values()] == picked


def test_packets_of_a_flow_without_replies_refresh_nothing(proxy, family):
    """For conntrack such a flow is new with each packet."""
    web = Web(proxy, family, "UDP")
    web.put_service(**sticky(TIMEOUT))
    silent = web.as_slice({"a": "ready"}, port=9)
    proxy.manifests.put("silent", silent)
    web.wait_backends([(web.lab.pods["a"].address[family], 9)])
    with web.lab.open(web.lab.client, *web.call(), timeout=2) as sock:
        end = time.monotonic() + 2 * TIMEOUT
        seen = 0
        while time.monotonic() < end:
            with contextlib.suppress(ConnectionRefusedError):  # the pod's, for the packet before
                sock.send(b"who?")
            seen += len(records(web))
            time.sleep(TIMEOUT / 10)
        assert seen > 0
        assert records(web) == []


def test_a_new_timeout_is_for_new_connections(web):
    web.put_service(**sticky(10800))
    put(web, "a")
    assert web.ask() == "a"
    put(web, "a", "b", "x")
    assert re.search(r" expires (2h|3h)", records(web)[0])
    web.put_service(**sticky(3600))
    Web(web.proxy, web.family, "TCP", "later").publish("a")  # what came before it is in force
    assert re.search(r" expires (2h|3h)", records(web)[0])
    assert web.ask() == "a"
    (record,) = records(web)
    assert re.search(r" expires (59m|1h)", record)


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL], ids=lambda by: by.name)
def test_records_outlive_the_daemon(tcp, by):
    """Even if all other endpoints change while it is away."""
    tcp.put_service(**sticky(10800))
    put(tcp, "b")
    assert [tcp.ask(where) for where in clients(tcp).values()] == ["b"] * len(clients(tcp))
    put(tcp, "a", "b", "c")
    tcp.proxy.daemon.stop(by)
    assert [tcp.ask(where) for where in clients(tcp).values()] == ["b"] * len(clients(tcp))
    tcp.put_endpoints(b="ready", e="ready")
    tcp.proxy.daemon.start()
    tcp.settle("b", "e")
    assert [tcp.ask(where) for where in clients(tcp).values()] == ["b"] * len(clients(tcp))


def test_an_endpoint_that_went_while_the_daemon_was_down(tcp):
    """Its records lead nobody to the one that has its place now."""
    tcp.put_service(**sticky(10800))
    put(tcp, "a")
    assert tcp.ask() == "a"
    tcp.proxy.daemon.stop()
    tcp.put_endpoints(b="ready", c="ready")
    tcp.proxy.daemon.start()
    tcp.settle("b", "c")
    pod = tcp.ask()
    assert pod in ("b", "c")
    put(tcp, "a", "b", "c")
    assert set(tcp.tally(times=10)) == {pod}


NIL = "00000000-0000-4000-8000-00000000000"


def as_objects(web: Web, pods, uid: str, ports: dict[str, int] | None = None) -> list[dict]:
    """A Service and its endpoints."""
    ports = ports or {"http": 80}
    service, slice = web.as_service(**sticky(10800)), web.as_slice(dict.fromkeys(pods, "ready"))
    service["metadata"]["uid"] = NIL + uid
    service["spec"]["ports"] = [{"name": n, "port": ports[n], "protocol": web.protocol} for n in ports]
    slice["ports"] = [{"name": n, "port": POD_PORTS[0], "protocol": web.protocol} for n in ports]
    return [service, slice]


def successor(web: Web, name: str) -> Web:
    """Another Service at the same address."""
    other = Web(web.proxy, web.family, web.protocol, name)
    other.address, other.frontend = web.address, web.frontend
    return other


@pytest.mark.parametrize("away", [True, False], ids=["while the daemon is away", "while it runs"])
@pytest.mark.parametrize("how", ["another Service", "another port", "a Service created again"])
def test_records_stay_with_their_service_port(web, how, away):
    """Whoever has the address afterwards starts without any, also if the endpoints are the same."""
    ports = {"http": 80, "admin": 443}
    web.proxy.manifests.put("web", *as_objects(web, "a", "1", ports))
    web.settle("a")
    assert {web.ask(where) for where in clients(web).values()} == {"a"}
    if away:
        web.proxy.daemon.stop()
    heir, uid = successor(web, "heir") if how == "another Service" else web, "1"
    if how == "another port":
        ports = {"http": 443, "admin": 80}
    elif how == "a Service created again":
        uid = "2"
    web.proxy.manifests.put("web", *as_objects(heir, PODS, uid, ports))
    if away:
        web.proxy.daemon.start()
    web.settle(*PODS)
    picked = {name: web.ask(where) for name, where in clients(web).items()}
    assert set(picked.values()) <= set(PODS) and set(picked.values()) != {"a"}
    assert {name: web.ask(where) for name, where in clients(web).items()} == picked


def test_records_stay_where_addresses_were_exchanged(tcp):
    """A Service that gave an address away while the daemon was down, and got one of another, keeps its records for the
    address that it still has."""
    other = Web(tcp.proxy, tcp.family, "TCP", "other")
    addresses = ["203.0.113.81", "203.0.113.82"]
    for after in False, True:
        pods = PODS if after else "a"
        for web, address in zip((tcp, other), addresses[::-1] if after else addresses, strict=True):
            service, slice = as_objects(web, pods, "1")
            service["spec"]["externalIPs"] = [address]
            tcp.proxy.manifests.put(web.name, service, slice)
        if after:
            tcp.proxy.daemon.start()
        tcp.settle(*pods)
        for where in clients(tcp).values():
            assert tcp.ask(where) == other.ask(where) == "a"
        if not after:
            tcp.proxy.daemon.stop()


def test_one_record_a_client_and_port(web):
    """However often it comes, and whatever goes."""
    web.put_service(**sticky(10800))
    put(web, "a", "b", "c")
    pod = web.ask()
    assert set(web.tally(times=20)) == {pod}
    assert len(records(web)) == 1
    put(web, *({"a", "b", "c"} - {pod}))
    assert len(web.tally(times=20)) == 1
    assert len(records(web)) == 1
    assert re.match(r"\S+ \. \S+ timeout 3h expires \S+ : \S+", records(web)[0])
