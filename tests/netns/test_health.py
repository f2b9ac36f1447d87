# SPDX-License-Identifier: GPL-2.0-or-later
"""What balancers and probes see: healthCheckNodePort, /healthz and /livez."""

import json

import pytest

import objects
from daemon import HEALTH_PORT, Frontend, http_get, wait_for
from lab import NODE_ADDRESS
from scenario import Web

CHECK_PORT = 30999
LOCAL = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": CHECK_PORT}


@pytest.fixture
def checked(proxy, family) -> Web:
    """A LoadBalancer service that only wants local endpoints, in one family."""
    web = Web(proxy, family, "TCP")
    web.put_service(**LOCAL)
    return web


def check(web: Web):
    """The answer to a balancer: (status, headers, decoded body) or None."""
    answer = http_get(web.lab.client, NODE_ADDRESS[web.family], CHECK_PORT)
    return answer and (answer[0], answer[1], json.loads(answer[2]))


def wait_status(web: Web, status: int) -> None:
    wait_for(lambda: (check(web) or (None,))[0] == status, f"the health check says {status}")


def test_ready_here_is_healthy(checked):
    checked.put_endpoints(a="ready", b="ready", c="terminating")
    wait_status(checked, 200)
    status, headers, body = check(checked)
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Load-Balancing-Endpoint-Weight"] == "2"
    assert body == {
        "service": {"namespace": "default", "name": "web"},
        "localEndpoints": 2,
        "serviceProxyHealthy": True,
    }


def test_terminating_here_is_not_healthy_but_still_served(checked):
    checked.put_endpoints(a="ready")
    wait_status(checked, 200)
    checked.put_endpoints(a="terminating")
    wait_status(checked, 503)
    status, headers, body = check(checked)
    assert headers["X-Load-Balancing-Endpoint-Weight"] == "0"
    assert body["localEndpoints"] == 0
    checked.settle("a")
    assert set(checked.tally(times=10)) == {"a"}
    checked.put_endpoints(a="ready")
    wait_status(checked, 200)


def test_ready_elsewhere_is_not_healthy(checked):
    remote = checked.as_slice({"a": "ready"})
    remote["endpoints"][0]["nodeName"] = "node-b"
    checked.proxy.manifests.put("web-slice", remote)
    checked.settle("a")
    wait_status(checked, 503)
    assert checked.ask() == "a"


def test_the_listener_comes_and_goes_with_the_service(checked):
    checked.put_endpoints(a="ready")
    wait_status(checked, 200)
    checked.put_service(type="LoadBalancer", externalTrafficPolicy="Cluster")
    wait_for(lambda: check(checked) is None, "the listener is closed")
    checked.put_service(**LOCAL)
    wait_status(checked, 200)
    checked.remove_service()
    wait_for(lambda: check(checked) is None, "the listener is closed")


def test_listeners_of_two_services_swap(proxy, family):
    """In one change of a file: neither finds its new port taken."""
    services = [Web(proxy, family, "TCP", name) for name in ("first", "second")]

    def put(*ports: int) -> None:
        proxy.manifests.put("services", *(web.as_service(**{**LOCAL, "healthCheckNodePort": port})
                                          for web, port in zip(services, ports)))  # fmt: skip

    def names() -> list[str]:
        answers = [http_get(proxy.lab.node, NODE_ADDRESS[family], port) for port in (CHECK_PORT, CHECK_PORT - 1)]
        return [json.loads(answer[2])["service"]["name"] for answer in answers if answer]

    for ports in ((CHECK_PORT, CHECK_PORT - 1), (CHECK_PORT - 1, CHECK_PORT)):
        put(*ports)
        expected = ["first", "second"] if ports[0] == CHECK_PORT else ["second", "first"]
        wait_for(lambda expected=expected: names() == expected, f"the ports answer for {expected}")
    assert "cannot listen" not in proxy.daemon.log()


def probe(proxy, path: str):
    status, headers, body = http_get(proxy.lab.node, "127.0.0.1", HEALTH_PORT, path)
    return status, headers, body


def test_healthz_and_livez(proxy):
    wait_for(lambda: probe(proxy, "/healthz")[0] == 200, "/healthz says 200")
    for path in ("/healthz", "/livez"):
        status, headers, text = probe(proxy, path)
        body = json.loads(text)
        assert status == 200
        assert headers["Content-Type"] == "application/json"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert body["healthy"] is True
        assert body.get("nodeEligible") == (True if path == "/healthz" else None)
        assert set(body["status"]) == {"IPv4", "IPv6"}
        assert {"lastUpdated", "currentTime"} <= set(body)
    assert probe(proxy, "/other")[0] == 404


def test_a_node_that_goes_is_not_eligible(proxy):
    wait_for(lambda: probe(proxy, "/healthz")[0] == 200, "/healthz says 200")
    taint = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}
    proxy.manifests.put("node", objects.node(taints=[taint]))
    wait_for(lambda: probe(proxy, "/healthz")[0] == 503, "/healthz says 503")
    body = json.loads(probe(proxy, "/healthz")[2])
    assert body["nodeEligible"] is False and body["healthy"] is True
    assert probe(proxy, "/livez")[0] == 200
    proxy.manifests.put("node", objects.node(taints=[{"key": "other", "effect": "NoExecute"}]))
    wait_for(lambda: probe(proxy, "/healthz")[0] == 200, "/healthz says 200 again")


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_balancer_with_an_address_of_the_node_itself(proxy, address):
    """Its status says so: whoever may write that gets nothing of what the node answers on loopback."""
    balancer = objects.service("balancer", {4: "10.96.99.9"}, [objects.Port("http", "TCP", HEALTH_PORT)])
    balancer["spec"]["type"] = "LoadBalancer"
    balancer["status"] = {"loadBalancer": {"ingress": [{"ip": address}, {"ip": "203.0.113.99"}]}}
    proxy.manifests.put("balancer", balancer)
    other = Frontend("203.0.113.99", "TCP", HEALTH_PORT)
    wait_for(lambda: proxy.tables[4].backends(other) == [], "the other address is served")
    assert proxy.tables[4].backends(Frontend(address, "TCP", HEALTH_PORT)) is None
    assert probe(proxy, "/livez")[0] == 200
    assert f'"{address}" is ' in proxy.daemon.log()
