# SPDX-License-Identifier: GPL-2.0-or-later
"""The events that the daemon posts, and the startup taint that it takes from its Node."""

import contextlib
import json
import os
import re
import socket
import urllib.request

import pytest

import answers
import harness
from harness import (METRICS, NODE_ADDRESS, Daemon, endpoint_slice, node, service, table)

WEB = ("10.96.0.10", "tcp", 80)
TWO = {("10.1.0.1", 8080), ("10.1.0.2", 8080)}
POST_FAILED = "cannot create events: |an Event was dropped: "
TAINT = {"key": "example.com/not-ready", "effect": "NoSchedule"}


@pytest.fixture(name="start")
def make_start(server, tmp_path):
    def start(*flags, node="node-a"):
        return Daemon(tmp_path, server.kubeconfig(tmp_path / "kubeconfig"), *flags, node=node)
    return start


def counted(result):
    with urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=20) as answer:
        page = answer.read().decode()
    [value] = re.findall(rf'^kube_nftd_events_total{{result="{result}"}} (\d+)$', page, re.M)
    return int(value)


def one_event(server, reason):
    server.wait(lambda: server.events(reason))
    [event] = server.events(reason)
    return event


@contextlib.contextmanager
def taken(address, port):
    """Somebody else listens there."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen()
        yield


def loser(name="web2", **how):
    """A Service that claims the frontend of the fixture's."""
    return service(name, **how)


def local_service(number, name="front", address="10.96.0.30"):
    obj = service(name, address)
    obj["spec"] |= {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": number}
    obj["metadata"]["uid"] = "6b1bd2a0-9f1e-4b47-8e0e-1c8e9a8d7f00"
    return obj


def test_the_start_is_an_event_on_the_node(server, start):
    """As kube-proxy's (docs/behaviour.md 9.1)."""
    with start():
        event = one_event(server, "Starting")
        assert event["metadata"]["namespace"] == "default"
        assert re.fullmatch(r"node-a\.[0-9a-f]+", event["metadata"]["name"])
        assert event["regarding"] == {"kind": "Node", "name": "node-a", "uid": "node-a", "apiVersion": "v1"}
        assert (event["type"], event["action"]) == ("Normal", "StartKubeProxy")
        assert event["reportingController"] == "kube-proxy"
        assert event["reportingInstance"] == f"kube-proxy-{os.uname().nodename}"
        assert event["note"].startswith("kube-nftd ")
        assert "series" not in event
        [request] = server.written("POST", "events")
        assert request.headers["content-type"] == "application/json"
        server.wait(lambda: counted("posted") == 1)  # the answer is read a little later


def test_a_health_check_node_port_that_is_taken(server, start):
    server.put(local_service(30123), local_service(30124, "other", "10.96.0.31"))
    with taken(NODE_ADDRESS, 30123), start():
        event = one_event(server, "FailedToStartServiceHealthcheck")
        assert (event["type"], event["action"]) == ("Warning", "Listen")
        assert event["regarding"] == {"kind": "Service", "namespace": "shop", "name": "front", "apiVersion": "v1",
                                      "uid": "6b1bd2a0-9f1e-4b47-8e0e-1c8e9a8d7f00"}
        assert event["metadata"]["namespace"] == "shop"
        assert event["note"] == ("node node-a: failed to start the health check on "
                                 f"{NODE_ADDRESS}:30123: Address already in use")
        server.delete("Service", "shop", "other")  # a port that closes lets those that wait try again
        server.wait(lambda: counted("repeated") > 0)  # it is still taken
        assert len(server.events("FailedToStartServiceHealthcheck")) == 1


@pytest.mark.parametrize("reason, port, note", [
    ("FailedToStartProxierHealthcheck", 10256, "failed to start proxy healthz on 127.0.0.1:10256: "),
    ("FailedToStartMetricServer", 10249, "starting metrics server on 127.0.0.1:10249 failed: ")])
def test_an_own_address_that_is_taken(server, start, reason, port, note):
    """With bindAddressHardFail, the event is there when the process has ended, unless the server takes more than three
    seconds for it: on a busy machine it may."""
    def end():
        assert start("--bind-address-hard-fail").process.wait(60) == 1
        return server.events(reason)

    with taken("127.0.0.1", port):
        event, *others = server.wait(end, 30)
        assert not others
        assert (event["type"], event["action"]) == ("Warning", "StartKubeProxy")
        assert event["regarding"]["kind"] == "Node" and event["regarding"]["uid"] == "node-a"
        assert event["note"] == note + "Address already in use"
        with start() as daemon:
            server.wait(lambda: len(server.events(reason)) == 2)
            assert table() or server.wait(table)


def test_bind_address_hard_fail_does_not_wait_for_a_server_that_is_away(server, start):
    server.stop()
    with taken("127.0.0.1", 10256):
        daemon = start("--bind-address-hard-fail")
        assert daemon.process.wait(60) == 1


def test_a_bad_object(server, start):
    bad = service("bad", "10.96.0.66")
    bad["spec"]["ports"][0]["port"] = 70000
    stored = server.put(bad)
    broken = endpoint_slice("10.1.0.9", name="other")
    broken["endpoints"][0]["addresses"] = ["nonsense"]
    server.put(broken)
    with start():
        server.wait(lambda: len(server.events("InvalidObject")) == 2)
        found = {event["regarding"]["kind"]: event for event in server.events("InvalidObject")}
        event = found["Service"]
        assert event["regarding"] == {"kind": "Service", "namespace": "shop", "name": "bad", "apiVersion": "v1",
                                      "uid": stored["metadata"]["uid"]}
        assert (event["type"], event["action"]) == ("Warning", "Read")
        assert "spec.ports[0].port: 70000" in event["note"]
        assert found["EndpointSlice"]["regarding"]["apiVersion"] == "discovery.k8s.io/v1"
        assert "nonsense" in found["EndpointSlice"]["note"]


def test_a_frontend_claimed_twice_and_taken_over(server, start):
    first = server.put(service("web3", "10.96.0.30"), service("web4", "10.96.0.31"))
    obj = server.put(service("old", "10.96.0.40") | {"metadata": {
        "name": "old", "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z"}})
    obj["spec"]["externalIPs"] = ["198.51.100.1"]
    server.put(obj)
    first["spec"]["externalIPs"] = ["198.51.100.1"]
    server.put(first)
    with start():
        event = one_event(server, "FrontendClaimedTwice")
        assert event["note"] == "198.51.100.1:80/TCP goes to Service shop/old, which is older"
        assert event["regarding"]["name"] == "web4" and event["regarding"]["uid"] == first["metadata"]["uid"]
        assert (event["type"], event["action"]) == ("Warning", "AssignFrontend")
        server.delete("Service", "shop", "old")
        event = one_event(server, "FrontendTakenOver")
        assert (event["type"], event["regarding"]["name"]) == ("Normal", "web4")
        assert event["note"] == "198.51.100.1:80/TCP now belongs to this Service"


def service_addresses():
    with urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=20) as answer:
        page = answer.read().decode()
    [value] = re.findall(r"^kube_nftd_endpoints_at_service_addresses (\d+)$", page, re.M)
    return int(value)


def test_an_endpoint_that_is_a_service_address(server, start):
    """Once for all service ports, and not again when it comes back."""
    obj = service("front", "10.96.0.30")
    obj["spec"]["ports"].append({"name": "more", "port": 81, "protocol": "TCP"})
    stored = server.put(obj)
    front = endpoint_slice("10.1.0.7", "10.96.0.10", name="front")
    front["ports"].append({"name": "more", "port": 8081, "protocol": "TCP"})
    server.put(front)
    with start():
        event = one_event(server, "EndpointIsServiceAddress")
        assert event["note"] == "endpoint 10.96.0.10 is not used: a cluster IP, or inside a ServiceCIDR"
        assert event["regarding"]["name"] == "front" and event["regarding"]["uid"] == stored["metadata"]["uid"]
        assert (event["type"], event["action"]) == ("Warning", "SelectEndpoints")
        assert service_addresses() == 2
        server.wait(lambda: counted("repeated") == 1)
        front["endpoints"].pop()
        server.put(front)
        server.wait(lambda: service_addresses() == 0)  # else both changes may be one
        front["endpoints"].append({"addresses": ["10.96.0.10"], "conditions": {"ready": True}})
        server.put(front)
        server.wait(lambda: counted("repeated") == 3)
        assert len(server.events("EndpointIsServiceAddress")) == 1


def test_what_all_nodes_see_is_one_event(server, start):
    """Its name is the same from all, so the second one is told that it is there."""
    bad = service("bad", "10.96.0.66")
    bad["spec"]["ports"][0]["port"] = 70000
    server.put(bad)
    for run in (1, 2):
        with start() as daemon:
            server.wait(lambda: len([r for r in server.written("POST", "events") if r.status]) == 2 * run)
            server.wait(lambda: counted("posted") == 2)
            assert not daemon.lines(POST_FAILED)
    assert len(server.events("InvalidObject")) == 1
    assert len(server.events("Starting")) == 2
    assert [request.status for request in server.written("POST", "events")].count(409) == 1


def test_a_flood_of_bad_objects_stays_within_the_rate(server, start):
    for number in range(150):
        bad = service(f"bad-{number}", f"10.96.1.{number}")
        bad["spec"]["ports"][0]["port"] = 70000
        server.put(bad)
    with start("--kube-api-qps", "20", "--kube-api-burst", "5"):
        server.wait(lambda: table() == {WEB: TWO})
        server.wait(lambda: len(server.written("POST", "events")) > 40, 15)
        times = [request.time for request in server.written("POST", "events")]
        for first, second in zip(times, times[25:]):
            assert second - first > (25 - 5) / 20 * 0.9
        server.put(endpoint_slice("10.1.0.1"))
        server.wait(lambda: table() == {WEB: {("10.1.0.1", 8080)}})


@pytest.mark.parametrize("trouble", [403, 404, 429, 500, "slow"])
def test_a_server_that_does_not_take_events(server, start, trouble):
    """Said once if at all; traffic does not wait for it."""
    is_event = lambda request: "events" in request.path.split("/")
    if trouble == 403:
        server.api.denied.add("events")
    elif trouble == 404:
        server.api.hidden.add("events")
    elif trouble == "slow":
        server.hold(is_event)
    else:
        server.answer_next(1000, trouble, when=is_event)
    bad = service("bad", "10.96.0.66")
    bad["spec"]["ports"][0]["port"] = 70000
    server.put(bad)
    with start() as daemon:
        server.wait(lambda: table() == {WEB: TWO})
        server.wait(lambda: server.written("POST", "events"))
        server.put(endpoint_slice("10.1.0.1"))
        server.wait(lambda: table() == {WEB: {("10.1.0.1", 8080)}})
        if trouble != "slow":
            server.wait(lambda: daemon.lines(POST_FAILED))
            [line] = daemon.lines(POST_FAILED)
            assert f"status={trouble}" in line
        if trouble == 403:
            assert 'verb=create resource=events apiGroup="events.k8s.io"' in line
        assert not server.events()


def test_events_wait_for_a_server_in_trouble(server, start):
    server.answer_next(1, 503, when=lambda request: request.method == "POST")
    with start() as daemon:
        one_event(server, "Starting")
        server.wait(lambda: daemon.lines("the server accepts events again"))


def test_one_namespace_s_quota_holds_up_nobody(server, start):
    real = server.api.events.create

    def create(request, target):
        if target.namespace == "full":
            raise answers.Refusal(403, answers.make_status(403, 'events.events.k8s.io "bad.1" is forbidden: exceeded '
                                                           "quota: q", "Forbidden", target.details))
        return real(request, target)

    server.api.events.create = create
    for number, namespace in enumerate(("full", "full", "shop")):
        bad = service(f"bad-{number}", f"10.96.0.{66 + number}", namespace=namespace)
        bad["spec"]["ports"][0]["port"] = 70000
        server.put(bad)
    with start() as daemon:
        assert one_event(server, "InvalidObject")["regarding"]["namespace"] == "shop"
        server.wait(lambda: counted("failed") == 2)
        [line] = daemon.lines(POST_FAILED)
        assert "exceeded quota" in line and "RBAC" not in line


def test_a_namespace_s_name_leads_nowhere_else(server, start):
    bad = service("bad", "10.96.0.66", namespace="..")
    bad["spec"]["ports"][0]["port"] = 70000
    server.put(bad)
    with start():
        server.wait(lambda: len([r for r in server.requests if r.method == "POST"]) == 2)
        assert "/apis/events.k8s.io/v1/namespaces/../events" in [r.path for r in server.requests]


# The startup taint


def tainted(*taints, **more):
    obj = node()
    obj["spec"] = {"taints": list(taints)}
    obj["metadata"] |= more
    return obj


def taints_of(server):
    return server.store.objects["Node"]["node-a"]["spec"].get("taints") or []


OTHER = {"key": "other", "value": "1", "effect": "NoExecute"}


def test_the_taint_goes_when_everything_is_in_force(server, start):
    server.put(tainted(OTHER, TAINT))
    server.hold(lambda request: request.path.endswith("/endpointslices"))
    with start("--remove-startup-taint", "example.com/not-ready") as daemon:
        server.wait(lambda: server.asked("nodes", watch=True))
        server.wait(lambda: server.events("Starting"))
        assert taints_of(server) == [OTHER, TAINT] and not table()
        server.release()
        server.wait(lambda: taints_of(server) == [OTHER])
        assert table() == {WEB: TWO}
        [request] = server.written("PATCH", "nodes")
        assert request.headers["content-type"] == "application/json-patch+json"
        assert json.loads(request.body) == [
            {"op": "test", "path": "/spec/taints/1", "value": TAINT},
            {"op": "remove", "path": "/spec/taints/1"}]
        server.wait(lambda: daemon.lines("removed from the Node taint=example.com/not-ready"))
        server.delete("Node", None, "node-a")  # and registered again
        server.put(tainted(TAINT))
        server.wait(lambda: taints_of(server) == [])


def test_a_node_without_the_taint_is_left_alone(server, start):
    server.put(tainted(OTHER))
    with start("--remove-startup-taint", "other=2"):
        server.wait(lambda: table() == {WEB: TWO})
        server.put(tainted(OTHER, labels={"a": "b"}))
        server.wait(lambda: server.events("Starting"))
        assert not server.written("PATCH", "nodes")


def test_who_puts_the_taint_back_is_not_raced(server, start):
    server.put(tainted(TAINT))
    real, times = server.api.patch_node, []

    def patch(store, request, target):
        answer = real(store, request, target)
        times.append(request.time)
        store.put(tainted(TAINT))
        return answer

    server.api.patch_node = patch
    with start("--remove-startup-taint", "example.com/not-ready") as daemon:
        server.wait(lambda: len(times) == 3)
        assert times[1] - times[0] > 0.9 and times[2] - times[1] > 1.9
        [line] = daemon.lines("another program puts it back")
        assert "taint=example.com/not-ready" in line


def test_the_taint_stays_while_the_kernel_rejects_a_frontend(server, start, tmp_path, monkeypatch):
    """In kube-nftd-faulty, which has the kernel reject elements with this address (tests/faults); that Service goes."""
    server.put(tainted(TAINT))
    (tmp_path / "rejected").write_text("10.96.0.99")
    monkeypatch.setenv("NETLINK_REJECTS", str(tmp_path / "rejected"))
    monkeypatch.setattr(harness, "BINARY", harness.BINARY.parent / "tests" / "kube-nftd-faulty")
    server.put(service("more", "10.96.0.99"), endpoint_slice("10.1.0.3", name="more"))
    with start("--table-owner", "off", "--remove-startup-taint", "example.com/not-ready") as daemon:
        server.wait(lambda: daemon.lines("the kernel rejects some elements taint=example.com/not-ready"))
        assert taints_of(server) == [TAINT] and not server.written("PATCH", "nodes")
        server.delete("Service", "shop", "more")
        server.wait(lambda: taints_of(server) == [])


def test_a_conflict_is_tried_again(server, start):
    """Between what the daemon saw and its patch, the order of the taints has become another."""
    server.put(tainted(TAINT))
    refuse = writes_conflict_once(server)
    with start("--remove-startup-taint", "example.com/not-ready:NoSchedule"):
        server.wait(lambda: taints_of(server) == [OTHER])
    statuses = [request.status for request in server.written("PATCH", "nodes")]
    assert refuse["done"] and statuses == [422, 200]


def writes_conflict_once(server):
    """The Node changes just before the first patch of it is looked at."""
    state = {"done": False}
    real = server.api.patch_node

    def patch(store, request, target):
        if not state["done"]:
            state["done"] = True
            store.put(tainted(OTHER, TAINT))
        return real(store, request, target)

    server.api.patch_node = patch
    return state


def test_without_the_right_to_patch_nodes(server, start):
    server.put(tainted(TAINT))
    server.answer_next(1000, 403, when=lambda request: request.method == "PATCH")
    with start("--remove-startup-taint", "example.com/not-ready") as daemon:
        server.wait(lambda: daemon.lines("cannot patch nodes: "))
        [line] = daemon.lines("cannot patch nodes: ")
        assert 'verb=patch resource=nodes apiGroup=""' in line
        assert table() == {WEB: TWO} and taints_of(server) == [TAINT]
