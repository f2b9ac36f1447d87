# SPDX-License-Identifier: GPL-2.0-or-later
"""explain: what the running daemon, or files, say of an address or a Service, and of the kernel."""

import contextlib
import copy
import json
import os
import socket
import threading
import urllib.parse

import pytest

import objects
from daemon import AFFINE, FAMILY_TABLE, PORT, call, class_of, classid, http_get, number, wait_for
from lab import CLIENT_ADDRESS, CLUSTER_NETWORK, NODE_ADDRESS, OTHER_NODE_NAME, Lab
from scenario import Proxy, Web, table_of_another
from test_refusals import one_is_rejected

METRICS_PORT = 10249
AGREES, FAILED, UNKNOWN, DIFFERS = 0, 1, 2, 3
HTTP = [objects.Port("http", "TCP", 80)]
BACKEND = [objects.Port("http", "TCP", 8080)]
POWERLESS = ("/usr/bin/setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")


def ask(proxy: Proxy, what: str, *flags: str) -> tuple[int, dict]:
    """Exit status and answer of the command against the running daemon."""
    done = call(proxy.lab.node, "explain", what, "-o", "json", *flags)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def read(proxy: Proxy, what: str) -> str:
    done = call(proxy.lab.node, "explain", what)
    assert done.stderr == ""
    return done.stdout


def get(proxy: Proxy, what: str, **more: str):
    query = urllib.parse.urlencode({"what": what, **more})
    return http_get(proxy.lab.node, "127.0.0.1", METRICS_PORT, f"/explain?{query}")


def frontends(answer: dict) -> dict[str, dict]:
    return {it["frontend"]: it for port in answer["service"]["ports"] for it in port["frontends"]}


def reasons(answer: dict, family: str = "IPv4") -> dict[str, tuple[str, str]]:
    """Endpoint -> why it is or is not in the Cluster and in the Local set."""
    port = next(port for port in answer["service"]["ports"] if port["family"] == family)
    return {it["address"]: (it["cluster"]["reason"], it["local"]["reason"]) for it in port["endpoints"]["items"]}


def shape(value):
    """The names of fields and the types of values, of the first of each list."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def differences(answer: dict) -> list[tuple[str, str]]:
    return [(it["set"], it["text"]) for it in answer["kernel"]["differences"]]


# ---- what is served ----


@pytest.fixture
def published(proxy) -> Web:
    """A load balancer with everything, over IPv4; its newest rival; endpoints in each state."""
    web = Web(proxy, 4, "TCP")
    service = web.as_service(
        type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=30999, externalIPs=["203.0.113.7"],
        loadBalancerSourceRanges=["192.0.2.0/24"], sessionAffinity="ClientIP",
        sessionAffinityConfig={"clientIP": {"timeoutSeconds": 100}},
    )  # fmt: skip
    service["spec"]["ports"][0]["nodePort"] = 30001
    service["status"] = {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}
    rival = objects.service("rival", {4: "10.96.200.1"}, HTTP, externalIPs=["203.0.113.7"])
    rival["metadata"]["creationTimestamp"] = "2026-02-02T00:00:00Z"
    endpoints = [
        web.as_slice({"a": "ready", "b": "unready", "c": "terminating"})["endpoints"],
        [objects.endpoint(proxy.lab.pods["x"].address[4], "ready", OTHER_NODE_NAME)],
    ]
    first = objects.endpoint_slice("web-1", "web", 4, BACKEND, sum(endpoints, []))
    copies = objects.endpoint_slice("web-2", "web", 4, BACKEND, [copy.deepcopy(first["endpoints"][0])])
    other = objects.endpoint_slice("web-3", "web", 4, [objects.Port("x", "TCP", 1)], [objects.endpoint("10.244.0.99")])
    theirs = objects.endpoint_slice("rival-1", "rival", 4, BACKEND, [objects.endpoint("10.244.0.11")])
    proxy.manifests.put("all", service, rival, first, copies, other, theirs, objects.service_cidr("k", ["10.96.0.0/16"]))
    wait_for(lambda: len(proxy.tables[4].backends(web.frontend) or []) == 2, "it is in the kernel")
    wait_for(lambda: proxy.tables[4].holds("service_cidrs", "10.96.0.1"), "so are the ServiceCIDRs")
    return web


def test_an_address_with_everything(proxy, published):
    status, answer = ask(proxy, f"{published.address}:80")
    assert status == AGREES and answer["found"] == "service"
    assert answer["kernel"] == {
        "reason": None, "differences": [], "asked": True, "agrees": True, "failures": {"IPv4": None, "IPv6": None},
    }  # fmt: skip
    service = answer["service"]
    assert (service["namespace"], service["name"]) == ("default", "web")
    assert (service["internalTrafficPolicy"], service["externalTrafficPolicy"]) == ("Cluster", "Local")
    assert service["sessionAffinity"] == {"type": "ClientIP", "timeoutSeconds": 100}
    assert service["sourceRanges"] == ["192.0.2.0/24"]
    assert service["healthCheck"] == {"port": 30999, "answers": {"IPv4": {"status": 200, "localEndpoints": 1}}}
    assert http_get(proxy.lab.client, NODE_ADDRESS[4], 30999)[0] == 200

    pods = {name: proxy.lab.pods[name].address[4] for name in "abcx"}
    (port,) = service["ports"]
    assert [it["cluster"]["reason"] for it in port["endpoints"]["items"]][-2:] == ["duplicate", "portNotInSlice"]
    found = {it["address"]: it for it in reversed(port["endpoints"]["items"])}
    assert {name: (found[at]["cluster"]["reason"], found[at]["local"]["reason"]) for name, at in pods.items()} == {
        "a": ("used", "used"), "b": ("notReady", "notReady"), "c": ("terminating", "terminating"),
        "x": ("used", "otherNode"),
    }  # fmt: skip
    assert [found[pods[name]]["used"] for name in "abcx"] == [True, False, False, True]
    assert port["endpoints"] | {"items": 0} == {
        "items": 0, "total": 6, "inCluster": 2, "inLocal": 1, "truncated": False,
    }  # fmt: skip
    assert [it["used"] for it in port["slices"]] == [True, True, False]
    assert [it["slice"][-1] for it in port["endpoints"]["items"]] == list("111123")

    there = frontends(answer)
    assert [it["kinds"] for it in there.values()] == [["clusterIP"], ["externalIP"], ["loadBalancerIP"], ["nodePort"]]
    assert [it["asked"] for it in there.values()] == [True, False, False, False]
    assert there[f"{NODE_ADDRESS[4]}:30001/TCP"]["traffic"] == [
        {"from": "host", "action": "forward", "endpoints": 2, "set": "cluster"},
        {"from": "elsewhere", "action": "forward", "endpoints": 1, "set": "local"},
    ]
    # The node itself is in the range, so what it speaks to the address from is let in, too (docs/behaviour.md 4.8).
    assert there["203.0.113.9:80/TCP"]["sourceRanges"] == ["192.0.2.0/24", "203.0.113.9/32"]
    assert there["203.0.113.7:80/TCP"]["alsoWantedBy"] == [
        {"service": "default/rival", "port": "http", "reason": "is older"}
    ]
    kernel = there[f"{published.address}:80/TCP"]["kernel"]
    assert class_of(number(kernel["services"])) == AFFINE and number(kernel["ports"]) & ~PORT == 2
    assert kernel["affinityTimeoutSeconds"] == 100
    assert kernel["endpoints"] == sorted(f"{pods[name]}:8080" for name in "ax")


def test_text_for_people(proxy, published):
    text = read(proxy, f"{published.address}:80/tcp")
    lines = text.splitlines()
    assert lines[0] == f"{published.address}:80/TCP is the cluster IP of default/web, port http."
    assert lines[1:3] == [
        "New connections: to 2 endpoints.",
        "The kernel's elements match; its rules were not compared.",
    ]
    for pod, words in {"b": "not used: not ready", "c": "not used: terminating", "x": "not on this node"}.items():
        assert any(proxy.lab.pods[pod].address[4] in line and words in line for line in lines), text
    assert any("also wanted by default/rival, but this one is older" in line for line in lines)


def test_what_another_service_has(proxy, published):
    status, answer = ask(proxy, "default/rival:http")
    assert status == AGREES
    lost = frontends(answer)["203.0.113.7:80/TCP"]
    assert lost["claimedBy"] == {"service": "default/web", "port": "http", "reason": "is older"}
    assert lost["traffic"] == [] and "belongs to default/web, which is older" in lost["text"]


def test_every_kind_of_address_is_found(proxy, published):
    for what in ("203.0.113.7:80", "203.0.113.9:80", f"{NODE_ADDRESS[4]}:30001", "default/web", "default/web:80"):
        status, answer = ask(proxy, what)
        assert (status, answer["found"], answer["service"]["name"]) == (AGREES, "service", "web"), what


def test_other_ways_to_ask(proxy, published):
    """As DNS names a Service, by its node port alone, by an address alone, by an endpoint."""
    pods = {name: proxy.lab.pods[name].address[4] for name in "abx"}
    for what in ("web.default", "web.default.svc", "web.default.svc.cluster.local:http", "30001", "30001/tcp"):
        status, answer = ask(proxy, what)
        assert (status, answer["found"], answer["service"]["name"]) == (AGREES, "service", "web"), what
    status, answer = ask(proxy, "30001")
    assert answer["summary"][0] == f"{NODE_ADDRESS[4]}:30001/TCP is a node port of default/web, port http."
    assert [it["asked"] for it in frontends(answer).values()] == [True, False, False, False]
    for what, found, words in (
        (published.address, "address", "is the cluster IP of default/web, which has port 80/TCP."),
        ("203.0.113.9", "address", "is a load-balancer IP of default/web, which has port 80/TCP."),
        (f"{pods['a']}:8080", "endpoint", "of default/web, port http: new connections are sent to it from"),
        (pods["x"], "endpoint", "is an endpoint of default/web, port http: new connections are sent to it from"),
        (pods["b"], "endpoint", "not used from this node (ask for default/web to see why)"),
    ):
        status, answer = ask(proxy, what)
        assert (status, answer["found"]) == (AGREES, found), what
        assert any(words in line for line in answer["summary"]), answer
    (use,) = ask(proxy, pods["x"])[1]["endpointOf"]
    assert f"{published.address}:80/TCP" in use["frontends"] and use["endpoint"] == f"{pods['x']}:8080"
    for what, words in (("30002", "No Service has node port 30002"), ("localhost:30001", "127.0.0.1:30001/TCP")):
        status, answer = ask(proxy, what)
        assert (status, answer["found"]) == (UNKNOWN, "nothing") and words in answer["summary"][0]
    assert "NodePorts are served on" in " ".join(ask(proxy, "localhost:30001")[1]["notes"])
    assert "healthCheckNodePort of default/web" in " ".join(ask(proxy, "30999")[1]["notes"])


def test_addresses_of_nobody(proxy, published):
    for what, found, note in (
        (f"{published.address}:81", "clusterIPWithoutPort", "the cluster IP of default/web, which has port 80/TCP"),
        ("10.96.250.250:80", "unusedServiceCIDR", ""),
        (f"{CLIENT_ADDRESS[4]}:80", "nothing", ""),
        ("127.0.0.1:30001", "nothing", f"NodePorts are served on {NODE_ADDRESS[4]} only"),
        (f"{NODE_ADDRESS[4]}:30999", "nothing", "healthCheckNodePort of default/web"),
        (f"{published.address}:80/udp", "clusterIPWithoutPort", "exists for TCP"),
        ("default/nothing", "noSuchService", ""),
        ("default/web:https", "noSuchPort", ""),
    ):
        status, answer = ask(proxy, what)
        assert (status, answer["found"]) == (UNKNOWN, found), what
        assert note in " ".join(answer["notes"])


def test_the_fields_are_those_of_every_answer(proxy, published):
    """What scripts rely on (docs/operating.md): names and types, whatever was asked."""
    status, whole = ask(proxy, "default/web")
    expected = {"kind": "str", "schema": "int", "version": "str", "computedFrom": "str", "summary": ["str"]}
    assert expected.items() <= shape(whole).items()
    assert whole["kind"] == "KubeNftdExplanation" and whole["schema"] == 3
    for what in (f"{published.address}:80", "203.0.113.7:80/TCP", "default/rival"):
        status, answer = ask(proxy, what)
        assert answer.keys() == whole.keys()
        assert answer["service"].keys() == whole["service"].keys()
        for port in answer["service"]["ports"]:
            assert port.keys() == whole["service"]["ports"][0].keys()
            for key in ("frontends", "slices"):
                assert {tuple(it) for it in port[key]} == {tuple(whole["service"]["ports"][0][key][0])}
            assert len({tuple(it) for it in port["endpoints"]["items"]}) == 1


# ---- what becomes of traffic ----


def test_both_families_and_no_endpoints(proxy):
    addresses = {4: "10.96.70.1", 6: "fd00:10:96::70"}
    proxy.manifests.put("web", objects.service("web", addresses, [objects.Port("dns", "UDP", 53)]))
    wait_for(lambda: proxy.tables[6].rejects("fd00:10:96::70 . udp . 53"), "it is in the kernel")
    status, answer = ask(proxy, "[fd00:10:96::70]:53")
    assert status == AGREES and answer["query"]["protocol"] == "UDP" and not answer["query"]["protocolGiven"]
    assert "no protocol was given: it exists for UDP, not for TCP" in answer["notes"]
    assert [port["family"] for port in answer["service"]["ports"]] == ["IPv6", "IPv4"]
    for frontend in frontends(answer).values():
        assert [it["action"] for it in frontend["traffic"]] == ["reject"]
    assert "rejected: there are no endpoints" in answer["summary"][1]


def test_local_policy_without_an_endpoint_here(proxy, family):
    web = Web(proxy, family, "TCP")
    web.put_service(internalTrafficPolicy="Local")
    slice = web.as_slice({"x": "ready"})
    slice["endpoints"][0]["nodeName"] = OTHER_NODE_NAME
    proxy.manifests.put("slice", slice)
    wait_for(lambda: proxy.tables[family].drops(web.frontend.key()), "it drops")
    status, answer = ask(proxy, "default/web")
    assert status == AGREES
    (frontend,) = frontends(answer).values()
    assert [it["action"] for it in frontend["traffic"]] == ["drop"] and frontend["kernel"]["dropped"]
    assert list(reasons(answer, objects.FAMILY_NAME[family]).values()) == [("used", "otherNode")]
    assert "traffic policy Local" in answer["summary"][1]


@pytest.mark.parametrize("flags", [(), ("--cluster-cidr", CLUSTER_NETWORK[4])], ids=["none", "cidr"])
def test_packets_go_where_it_says_by_who_sends_them(lab, tmp_path, flags):
    """Traffic policy Local without an endpoint here: what counts is who is taken for a pod, and that is not the
    pods of this node (docs/behaviour.md 4.6)."""
    proxy = Proxy(lab, tmp_path, *flags)
    try:
        proxy.daemon.start()
        service = objects.service("web", {4: "10.96.70.2"}, HTTP, type="LoadBalancer", externalTrafficPolicy="Local")
        service["status"] = {"loadBalancer": {"ingress": [{"ip": "203.0.113.20"}]}}
        remote = objects.endpoint(lab.pods["x"].address[4], "ready", OTHER_NODE_NAME)
        proxy.manifests.put("web", service, objects.endpoint_slice("web-1", "web", 4, BACKEND, [remote]))
        wait_for(lambda: proxy.tables[4].holds("services", "203.0.113.20 . tcp . 80"), "it is in the kernel")
        status, answer = ask(proxy, "203.0.113.20:80")
        (asked,) = [it for it in frontends(answer).values() if it["asked"]]
        traffic = {it["from"]: it["action"] for it in asked["traffic"]}
        assert status == AGREES and ("pods" in traffic) == bool(flags)
        expected = {
            lab.node: traffic["host"], lab.client: traffic["elsewhere"],
            lab.pods["d"].namespace: traffic.get("pods", traffic["elsewhere"]),
        }  # fmt: skip
        for sender, action in expected.items():
            answer, seconds = {"forward": ("x", 2), "drop": ("timeout", 0.6)}[action]
            assert lab.ask(sender, "203.0.113.20", 80, "TCP", seconds) == answer
    finally:
        proxy.close()


def test_source_ranges_go_before_everything(proxy):
    """Also before a refusal: whoever is not let in gets no answer at all (docs/behaviour.md 4.8)."""
    web = Web(proxy, 4, "TCP")
    service = web.as_service(type="LoadBalancer", loadBalancerSourceRanges=["198.51.100.0/24"])
    service["status"] = {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}
    proxy.manifests.put("web", service, web.as_slice({"a": "unready"}))
    wait_for(lambda: proxy.tables[4].rejects("203.0.113.9 . tcp . 80"), "it is in the kernel")
    status, answer = ask(proxy, "203.0.113.9:80")
    (asked,) = [it for it in frontends(answer).values() if it["asked"]]
    assert status == AGREES
    assert [(it["from"], it["action"]) for it in asked["traffic"]] == [
        ("outsideSourceRanges", "drop"), ("everywhere", "reject"),
    ]  # fmt: skip
    kernel = asked["kernel"]
    assert (kernel["restricted"], kernel["sourceList"], kernel["sourceRanges"], kernel["agrees"]) == (True, 1, 1, True)
    assert answer["summary"][1].endswith(
        "rejected: no endpoint is ready; sources outside the source ranges are dropped."
    )
    assert proxy.lab.ask(proxy.lab.client, "203.0.113.9", 80, "TCP", 0.6) == "timeout"


@pytest.fixture
def lab_without_ipv6():
    """Of its own: switched off, IPv6 loses all addresses and routes."""
    lab = Lab()
    try:
        lab.node.sysctl({"ipv6.conf.all.disable_ipv6": 1})
        yield lab
    finally:
        lab.close()


def test_a_family_that_is_not_proxied(lab_without_ipv6, tmp_path):
    proxy = Proxy(lab_without_ipv6, tmp_path)
    try:
        proxy.daemon.start()
        proxy.manifests.put("web", objects.service("web", {4: "10.96.70.3", 6: "fd00:10:96::73"}, HTTP))
        wait_for(lambda: proxy.tables[4].rejects("10.96.70.3 . tcp . 80"), "it is in the kernel")
        status, answer = ask(proxy, "[fd00:10:96::73]:80")
        assert "New connections: IPv6 is not proxied on this node." in answer["summary"]
        assert [it["action"] for it in frontends(answer)["[fd00:10:96::73]:80/TCP"]["traffic"]] == ["none"]
        assert answer["kernel"]["asked"] is False and "not proxied" in answer["kernel"]["reason"]
        assert proxy.lab.node.run("nft", "list", "tables").stdout.splitlines() == ["table ip kube-nftd"]
    finally:
        proxy.close()


def test_what_the_kernel_rejected_is_said(proxy, tmp_path, monkeypatch):
    webs, _ = one_is_rejected(proxy, monkeypatch, tmp_path)
    status, answer = ask(proxy, "default/three")
    (frontend,) = frontends(answer).values()
    assert status == DIFFERS and frontend["kernel"]["refused"] is True
    assert any("the kernel rejected this" in note and "retried" in note for note in answer["notes"])
    assert frontends(ask(proxy, "default/one")[1])[f"{webs['one'].address}:80/TCP"]["kernel"]["refused"] is False


def test_a_health_check_port_that_another_program_has(proxy):
    web = Web(proxy, 4, "TCP")
    service = web.as_service(type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=30998)
    with proxy.lab.node.inside():
        squatter = socket.create_server(("0.0.0.0", 30998))
    with squatter:
        proxy.manifests.put("web", service, web.as_slice({"a": "ready"}))
        web.settle("a")
        status, answer = ask(proxy, "default/web")
        assert answer["service"]["healthCheck"]["answers"]["IPv4"] == {"status": None, "localEndpoints": 1}
        assert any("healthCheckNodePort 30998" in note for note in answer["notes"])
        assert "port 30998, IPv4: not open" in read(proxy, "default/web")


def test_texts_of_others_are_shown_with_care(proxy):
    """Nothing is done to the terminal; what is no UTF-8 comes this far nowhere."""
    web = Web(proxy, 4, "TCP")
    web.publish("a")
    slice = json.dumps(web.as_slice({"a": "ready"}))
    evil = b"N\xc2\x9b31m\xe2\x80\xaeX"
    file = proxy.manifests.folder / "web-slice.json"
    file.write_bytes(slice.encode().replace(b'"node-a"', b'"' + evil + b'"'))

    def name() -> str:
        (port,) = ask(proxy, "default/web")[1]["service"]["ports"]
        return port["endpoints"]["items"][0]["node"]

    wait_for(lambda: name() == "N\x9b31m\u202eX", "it is read")
    file.write_bytes(slice.encode().replace(b'"node-a"', b'"node-\xff"'))
    wait_for(lambda: r'nodeName: "node-\xff" is not UTF-8' in proxy.daemon.log(), "it is refused")
    assert name() == "N\x9b31m\u202eX"
    for flags in ((), ("-o", "json")):
        text = call(proxy.lab.node, "explain", "default/web", *flags).stdout
        assert "31m" in text and "\x9b" not in text and "\u202e" not in text


def test_hints_do_not_count_with_policy_local(proxy):
    web = Web(proxy, 4, "TCP")
    proxy.manifests.put("node", objects.node(labels={"topology.kubernetes.io/zone": "here"}))
    web.put_service(internalTrafficPolicy="Local")
    slice = web.as_slice({"a": "ready", "b": "ready"})
    for endpoint in slice["endpoints"]:
        endpoint["hints"] = {"forZones": [{"name": "here"}]}
    proxy.manifests.put("slice", slice)
    wait_for(lambda: '"inLocal":2' in get(proxy, "default/web")[2], "it is known")
    (port,) = ask(proxy, "default/web")[1]["service"]["ports"]
    assert port["topology"]["mode"] == "none" and "hints are ignored" in port["topology"]["text"]


def test_hints(proxy):
    web = Web(proxy, 4, "TCP")
    proxy.manifests.put("node", objects.node(labels={"topology.kubernetes.io/zone": "here"}))
    web.put_service(trafficDistribution="PreferClose")
    slice = web.as_slice({"a": "ready", "b": "ready"})
    for endpoint, zone in zip(slice["endpoints"], ("here", "far")):
        endpoint["hints"] = {"forZones": [{"name": zone}]}
    proxy.manifests.put("slice", slice)
    web.settle("a")
    status, answer = ask(proxy, "default/web")
    (port,) = answer["service"]["ports"]
    assert status == AGREES and answer["node"] == {"name": "node-a", "zone": "here"}
    assert port["topology"] == {
        "mode": "zone", "nodeHints": "absent", "zoneHints": "applied", "text": "endpoints whose hints name this zone",
    }  # fmt: skip
    assert [it["cluster"]["reason"] for it in port["endpoints"]["items"]] == ["used", "otherZone"]
    assert port["endpoints"]["items"][1]["zoneHints"] == ["far"]
    assert "not used: its hints are for other zones (far)" in read(proxy, "default/web")


def test_an_endpoint_that_is_a_service_address(proxy):
    """All of them at the end, and then the Service is rejected."""
    web = Web(proxy, 4, "TCP")
    web.put_service()
    pods = {name: proxy.lab.pods[name].address[4] for name in "ab"}
    proxy.manifests.put("slice", web.as_slice(dict.fromkeys(pods, "ready")))
    web.settle(*pods)
    proxy.manifests.put("cidr", objects.service_cidr("kubernetes", [f"{pods['b']}/32"]))
    web.settle("a")
    status, answer = ask(proxy, "default/web")
    (port,) = answer["service"]["ports"]
    assert status == AGREES
    assert [(it["cluster"]["reason"], it["ready"]) for it in port["endpoints"]["items"]] == [("used", True), ("serviceAddress", True)]
    text = "not used: a cluster IP, or inside a ServiceCIDR"
    assert text in read(proxy, "default/web")
    listed = call(proxy.lab.node, "list", "endpoints", "default/web").stdout
    assert [text in line for line in listed.splitlines() if ":8080" in line] == [False, True], listed
    assert f"{pods['b']}:8080 is an endpoint of default/web, port http: not used from this node" in read(proxy, pods["b"])
    assert f"endpoint={pods['b']}:8080 is not used" in proxy.daemon.log()
    proxy.manifests.put("thief", objects.service("thief", {4: pods["a"]}, HTTP))
    wait_for(lambda: '"inCluster":0' in get(proxy, "default/web")[2], "no endpoint is used")
    status, answer = ask(proxy, f"{web.address}:80/TCP")
    assert status == AGREES and "reject" in json.dumps(answer["summary"])


def test_headless(proxy):
    proxy.manifests.put("web", objects.service("web", {4: "None"}, HTTP))
    wait_for(lambda: get(proxy, "default/web")[2].find("noFrontends") > 0, "it is known")
    assert ask(proxy, "default/web")[0] == AGREES


def test_an_older_version_is_said_to_be_one(proxy):
    web = Web(proxy, 4, "TCP")
    web.publish("a")
    broken = web.as_service()
    broken["spec"]["ports"][0]["port"] = 70000
    proxy.manifests.put("web-service", broken)
    wait_for(lambda: '"outdated":true' in get(proxy, "default/web")[2], "it is seen")
    status, answer = ask(proxy, "default/web")
    assert status == AGREES and "is invalid" in " ".join(answer["notes"])
    slice = web.as_slice({"a": "ready"}, name="broken")
    slice["endpoints"][0]["addresses"] = ["nowhere"]
    proxy.manifests.put("broken-slice", slice)
    note = "EndpointSlice default/web-broken is invalid"
    wait_for(lambda: note in get(proxy, "default/web")[2], "that one is named")
    web.put_service()
    wait_for(lambda: '"outdated":true' not in get(proxy, "default/web")[2], "it was repaired")


# ---- a kernel that somebody changed ----


def compare(proxy: Proxy, what: str) -> tuple[int, dict]:
    """By the files, while no daemon runs that would repair its tables."""
    flags = ("--manifests", str(proxy.manifests.folder), "--hostname-override", "node-a")
    done = call(proxy.lab.node, "explain", what, "-o", "json", *flags)
    return done.returncode, json.loads(done.stdout)


def test_what_was_taken_out_of_the_kernel_is_named(proxy, family):
    web = Web(proxy, family, "TCP")
    web.publish("a", "b")
    proxy.daemon.stop()
    assert compare(proxy, "default/web")[0] == AGREES

    table = proxy.tables[family]
    port = classid(table.value("services", web.frontend.key()) & PORT)

    def change(verb: str, name: str, key: str) -> None:
        proxy.lab.node.run(proxy.lab.node.nft, verb, "element", *table.name.split(), name, f"{{ {key} }}")

    change("delete", "endpoints", f"{port} . 0")
    status, answer = compare(proxy, "default/web")
    assert status == DIFFERS and answer["kernel"]["agrees"] is False
    assert ("endpoints", "slot 0 is empty") in differences(answer)
    change("delete", "services", web.frontend.key())
    change("add", "services", f"{web.frontend.key()} : {port}")
    change("add", "rejected_ports", port)
    status, answer = compare(proxy, "default/web")
    assert status == DIFFERS and [name for name, _ in differences(answer)] == ["services", "rejected_ports"]
    change("delete", "services", web.frontend.key())
    status, answer = compare(proxy, "default/web")
    assert status == DIFFERS and differences(answer) == [("services", "it is missing")]


def test_what_somebody_added_is_named(proxy):
    proxy.daemon.stop()
    assert compare(proxy, "192.0.2.77:80")[0] == UNKNOWN
    element = "{ 192.0.2.77 . tcp . 80 : 0:8002 }"
    proxy.lab.node.run(proxy.lab.node.nft, "add", "element", "ip", "kube-nftd", "services", element)
    status, answer = compare(proxy, "192.0.2.77:80")
    assert status == DIFFERS and differences(answer) == [("services", "it is 0:8002, and should not exist")]
    proxy.manifests.put("cidr", objects.service_cidr("k", ["10.96.0.0/16"]))  # that nobody programs
    status, answer = compare(proxy, "10.96.250.250:80")
    assert status == DIFFERS and differences(answer) == [("service_cidrs", "it is missing")]


@pytest.mark.usefixtures("table_owners")
def test_a_daemon_whose_table_was_taken_from_it_says_so(lab, tmp_path):
    """By a program that owns it from then on, so that nothing can be repaired."""
    proxy = Proxy(lab, tmp_path, "--table-owner", "off")
    try:
        proxy.daemon.start()
        web = Web(proxy, 4, "TCP")
        web.publish("a", "b")
        assert ask(proxy, "default/web")[0] == AGREES
        with table_of_another(proxy, 4):
            status, answer = ask(proxy, "default/web")
            assert status == DIFFERS and answer["computedFrom"] == "daemon"
            found = differences(answer)
            assert (None, "the table has rules of another version or of other settings") in found
            assert {name for name, _ in found} == {None, "services", "cluster_ips"}
            text = call(lab.node, "explain", "default/web").stdout
            assert "The kernel's elements do NOT match: see the 3 differences." in text
            assert "in services: it is missing" in text
    finally:
        print(proxy.daemon.last_words())
        proxy.close()


# ---- bounds and bad questions ----


def test_long_lists_are_cut(proxy):
    web = Web(proxy, 4, "TCP")
    many = [objects.endpoint(f"10.77.{i // 250}.{i % 250 + 1}") for i in range(1200)]
    web.put_service()
    proxy.manifests.put("slice", objects.endpoint_slice("web-1", "web", 4, BACKEND, many))
    wait_for(lambda: '"total":1200' in get(proxy, "default/web")[2], "it is known")
    for flags, listed in (((), 1000), (("--all",), 1200)):
        status, answer = ask(proxy, "default/web", *flags)
        (port,) = answer["service"]["ports"]
        assert status == AGREES
        assert len(port["endpoints"]["items"]) == listed
        assert port["endpoints"]["truncated"] == (listed < 1200)


def test_one_answer_is_bounded_whatever_it_is_of(proxy):
    """By addresses, ports and slices, too; what is left out is counted."""
    ports = [objects.Port(f"p{i}", "TCP", 1000 + i) for i in range(50)]
    addresses = [f"203.0.113.{i}" for i in range(1, 101)]
    service = objects.service("wide", {4: "10.96.70.4"}, ports, externalIPs=addresses)
    behind = [objects.Port(port.name, "TCP", 8080) for port in ports]
    slices = [objects.endpoint_slice(f"wide-{i}", "wide", 4, behind, [objects.endpoint("10.77.0.1")]) for i in range(60)]
    proxy.manifests.put("wide", service, *slices)
    wait_for(lambda: proxy.tables[4].holds("services", "203.0.113.100 . tcp . 1049"), "it is in the kernel", 20)
    status, answer = ask(proxy, "default/wide")
    left_out = answer["leftOut"]
    assert status == AGREES and left_out["ports"] > 0 and left_out["elements"] > 0
    assert len(json.dumps(answer)) < 1_000_000
    listed = sum(len(port["frontends"]) for port in answer["service"]["ports"])
    assert listed + left_out["frontends"] + 101 * left_out["ports"] == 50 * 101
    numbers = [port["port"] for port in answer["service"]["ports"]]
    assert numbers == list(range(1000, 1000 + len(numbers))) and len(numbers) > 2  # p10 is not before p2
    assert any("omitted" in note for note in answer["notes"])
    assert "that were compared" in answer["summary"][-1]
    status, answer = ask(proxy, "203.0.113.100:1049")
    assert status == AGREES and answer["service"]["ports"][0]["frontends"][0]["kernel"]["agrees"]


def test_questions_leave_the_daemon_its_time(proxy):
    """After an answer that cost much the next one waits, and the command waits with it."""
    web = Web(proxy, 4, "TCP")
    web.put_service()
    many = [objects.endpoint(f"10.77.{i // 250}.{i % 250 + 1}") for i in range(6000)]
    proxy.manifests.put("slice", *[
        objects.endpoint_slice(f"web-{i}", "web", 4, BACKEND, many[i * 1000 : i * 1000 + 1000]) for i in range(6)
    ])  # fmt: skip
    wait_for(lambda: '"total":6000' in get(proxy, "default/web")[2], "it is known")

    def is_refused_after_another() -> bool:
        get(proxy, "default/web", all="true")
        status, headers, body = get(proxy, "default/nothing")
        return status == 503 and body.startswith("busy") and headers["Retry-After"] == "1"

    wait_for(is_refused_after_another, "the second one is put off")
    get(proxy, "default/web", all="true")
    assert ask(proxy, "default/web")[0] == AGREES


def test_changes_meanwhile_are_no_differences(proxy):
    web = Web(proxy, 4, "TCP")
    web.put_service()
    seen, done = set(), threading.Event()

    def look() -> None:
        while not done.is_set():
            status, _, body = get(proxy, "default/web")
            seen.add(json.loads(body)["kernel"]["agrees"] if status == 200 else status)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(200):
        web.put_endpoints(**({"a": "ready", "b": "ready"} if i % 2 else {"c": "ready"}))
        web.put_endpoints(c="ready")
    done.set()
    for thread in threads:
        thread.join()
    assert True in seen and False not in seen


BAD = ("", "web", "10.96.0.1:", "10.96.0.1:0", "10.96.0.1:65536", "10.96.0.1:80/ICMP", "10.96.0.1/TCP", "0", "a/b/c", "web.default.cluster.local",
       "Default/web", "default/", "/web", "default/web:", "10.96.0.1:80x", "[10.0.0.1:80", "a/" + "b" * 600, "%n/%s",
       "default/web\n", "[fd00::1]80", "::1:80/", "1.2.3.4:80/")  # fmt: skip


def test_bad_questions(proxy):
    for what in BAD:
        status, headers, body = get(proxy, what)
        assert status == 400 and body.startswith("what: ") and len(body.splitlines()) == 1, what
    for what in BAD[1:]:
        done = call(proxy.lab.node, "explain", what)
        assert (done.returncode, done.stdout) == (os.EX_CONFIG, "") and f"explain {what}"[:18] in done.stderr
    status, headers, body = http_get(proxy.lab.node, "127.0.0.1", METRICS_PORT, "/explain")
    assert status == 400 and "?what=" in body
    for more in ({"all": "yes"}, {"all": "TRUE"}):
        assert get(proxy, "default/web", **more)[0] == 400
    assert get(proxy, "default/web\0")[0] == 400
    status, headers, body = get(proxy, "default/web", all="1")
    assert status == 200 and headers["Content-Type"] == "application/json" and '"all":true' in body


def test_only_get_is_answered(proxy):
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", METRICS_PORT, timeout=20)
    with proxy.lab.node.inside():
        connection.request("DELETE", "/explain?what=default/web")
        answer = connection.getresponse()
    assert answer.status == 405 and answer.getheader("Allow") == "GET, HEAD"
    connection.close()


# ---- nobody there, or somebody else ----


@pytest.fixture
def stranger(lab):
    """Something that answers with a text of its own where a daemon would."""
    with lab.client.inside():
        listener = socket.create_server(("127.0.0.1", METRICS_PORT))
    answers = []

    def serve() -> None:
        while answers:
            connection, _ = listener.accept()
            connection.recv(4096)
            connection.sendall(answers.pop(0))
            connection.close()

    def begin(answer: bytes) -> None:
        answers.append(answer)
        threading.Thread(target=serve, daemon=True).start()

    yield begin
    listener.close()


def test_nobody_answers(lab):
    done = call(lab.client, "explain", "default/web", "--metrics-bind-address", "127.0.0.1:7777")
    assert (done.returncode, done.stdout) == (FAILED, "")
    assert "no kube-nftd answers at 127.0.0.1:7777 (Connection refused)" in done.stderr


@pytest.mark.parametrize("answer", [
    b"HTTP/1.0 404 Not Found\r\n\r\n404 page not found\n", b"HTTP/1.0 200 OK\r\n\r\n{\"kind\": \"Pod\"}",
    b"HTTP/1.0 200 OK\r\n\r\n<html>\x1b[31m", b"SSH-2.0-OpenSSH_9.2\r\n",
], ids=["404", "another kind", "no JSON", "no HTTP"])  # fmt: skip
def test_somebody_else_answers(lab, stranger, answer):
    stranger(answer)
    done = call(lab.client, "explain", "default/web")
    assert (done.returncode, done.stdout) == (FAILED, "")
    assert "127.0.0.1:10249" in done.stderr and "kube-nftd: the server at" in done.stderr and "\x1b" not in done.stderr


@pytest.mark.parametrize("begin", [b"", b'{"kind":"Pod",'], ids=["text", "another kind"])
def test_an_endless_answer_of_somebody_else(lab, begin):
    """It is not read for long."""
    sent = 0
    with lab.client.inside():
        listener = socket.create_server(("127.0.0.1", 10249))

    def serve() -> None:
        nonlocal sent
        connection, _ = listener.accept()
        connection.recv(4096)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + begin)
        with contextlib.suppress(OSError):
            while True:
                sent += connection.send(b"x" * 65536)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    done = call(lab.client, "explain", "default/web")
    thread.join(timeout=10)
    listener.close()
    assert done.returncode == FAILED and "too long" in done.stderr
    assert sent < 16 << 20  # what the sockets hold, too


# ---- from files ----


def test_from_files_without_any_right(proxy, published, tmp_path):
    """No daemon is asked, and the kernel is only if it lets us."""
    flags = ("--manifests", str(proxy.manifests.folder), "--hostname-override", "node-a", "-o", "json")
    what = ("explain", "default/web")
    with_rights = json.loads(call(proxy.lab.node, *what, *flags).stdout)
    assert with_rights["kernel"]["agrees"] is True and with_rights["computedFrom"] == "manifests"
    done = call(proxy.lab.node, *what, *flags, wrapper=POWERLESS)
    without = json.loads(done.stdout)
    assert done.returncode == AGREES
    assert without["kernel"]["asked"] is False and "not permitted" in without["kernel"]["reason"]
    asked = json.loads(call(proxy.lab.node, *what, "-o", "json").stdout)
    for answer in (with_rights, without, asked):
        for frontend in frontends(answer).values():
            frontend.pop("kernel")
    assert with_rights["service"] == without["service"] == asked["service"]
    done = call(proxy.lab.client, *what, *flags)  # where there is no table
    assert done.returncode == AGREES and "there is no table" in json.loads(done.stdout)["kernel"]["reason"]


def test_a_config_file_says_where_to_ask(proxy, tmp_path):
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
        "metricsBindAddress: 127.0.0.1:7778\n"
    )
    done = call(proxy.lab.node, "explain", "default/web", "--config", str(config))
    assert done.returncode == FAILED and "127.0.0.1:7778" in done.stderr
    config.write_text(config.read_text().replace("127.0.0.1:7778", f"0.0.0.0:{METRICS_PORT}"))
    assert call(proxy.lab.node, "explain", "default/web", "--config", str(config)).returncode == UNKNOWN


def test_nat_chains_of_others(proxy):
    """Those that see new connections before ours are named, and a rule that has the address; later ones are not."""
    web = Web(proxy, 4, "TCP")
    web.publish("a")
    node = proxy.lab.node
    asked = f"{web.address}:80"
    assert ask(proxy, asked)[1]["translators"] == []
    try:
        node.run(node.nft, "add table ip late; add chain ip late pre { type nat hook prerouting priority -99; }")
        node.run(node.nft, "add table ip early; add chain ip early pre { type nat hook prerouting priority -110; }")
        node.run(node.nft, "add table inet both; add chain inet both out { type nat hook output priority -100; }")
        answer = ask(proxy, asked)[1]
        assert sorted((it["family"], it["table"], it["chains"], it["chainWithAddress"]) for it in answer["translators"]) == [
            ("inet", "both", "out at -100", None), ("ip", "early", "pre at -110", None),
        ]  # fmt: skip
        assert any("table ip early has nat chains that see new connections first (pre at -110)" in it for it in answer["notes"])
        node.run(node.nft, f"add chain ip early more; add rule ip early pre jump more; add rule ip early more ip daddr {web.address} tcp dport 80 dnat to 10.244.0.99:1")
        answer = ask(proxy, asked)[1]
        assert any("a rule in chain more of table ip early has this address" in it for it in answer["notes"])
        assert proxy.lab.ask(proxy.lab.client, web.address, 80, "TCP", 0.3) != "a"
        other = {it["table"]: (it["chainWithAddress"], it["chainWithPort"]) for it in ask(proxy, "10.96.99.99:80")[1]["translators"]}
        assert other == {"early": (None, "more"), "both": (None, None)}
        other = {it["table"]: (it["chainWithAddress"], it["chainWithPort"]) for it in ask(proxy, "10.96.99.99:81")[1]["translators"]}
        assert other == {"early": (None, None), "both": (None, None)}
    finally:
        for table in ("ip late", "ip early", "inet both"):
            node.run(node.nft, f"add table {table}; delete table {table}")


def test_a_host_that_does_not_forward(proxy, family):
    """A right table is useless there: explain and preflight say so."""
    web = Web(proxy, family, "TCP")
    web.publish("a")
    node = proxy.lab.node
    setting = {4: "net.ipv4.ip_forward", 6: "net.ipv6.conf.all.forwarding"}[family]
    asked = f"{web.address}:80" if family == 4 else f"[{web.address}]:80"
    notes = lambda: " ".join(ask(proxy, asked)[1]["notes"])  # noqa: E731
    assert setting not in notes() and setting not in call(node, "preflight").stdout
    try:
        node.run("sysctl", "-qw", f"{setting}=0")
        assert f"{setting} is 0: this host forwards no IPv{family} packets" in notes()
        assert f"Host  {setting} is 0: " in call(node, "preflight").stdout
        ip = FAMILY_TABLE[family]
        node.run(node.nft, f"add table {ip} fw; add chain {ip} fw forwarded {{ type filter hook forward priority 0; policy drop; }}")
        assert f"chain forwarded of table {ip} fw drops what it forwards" in notes()
        assert f"Host  chain forwarded of table {ip} fw drops " in call(node, "preflight").stdout
        node.run(node.nft, f"add chain {ip} fw forwarded {{ policy accept; }}")
        assert "drops what it forwards" not in notes()
    finally:
        node.run("sysctl", "-qw", f"{setting}=1")
        node.run(node.nft, f"add table {FAMILY_TABLE[family]} fw; delete table {FAMILY_TABLE[family]} fw")
