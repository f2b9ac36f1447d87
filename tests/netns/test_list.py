# SPDX-License-Identifier: GPL-2.0-or-later
"""list, list endpoints and status: what they say of a running daemon, on a terminal and in a pipe."""

import json
import os
import re
import socket
import subprocess
import threading

import pytest

import objects
from daemon import BINARY, START_SECONDS, Frontend, call, environment, http_get, wait_for
from lab import NODE_ADDRESS, OTHER_NODE_NAME
from scenario import Proxy, Web, table_of_another
from terminal import on_terminal
from test_refusals import one_is_rejected

METRICS_PORT = 10249
HTTP = [objects.Port("http", "TCP", 80)]
NO_SUCH_SERVICE = "no such Service (those with the label service.kubernetes.io/service-proxy-name are another proxy's)\n"
BACKEND = [objects.Port("http", "TCP", 8080)]


def run(proxy, *arguments: str, status: int = 0) -> str:
    done = call(proxy.lab.node, *arguments)
    assert (done.returncode, done.stderr) == (status, ""), done
    return done.stdout


def items(proxy, *arguments: str) -> dict[str, dict]:
    """What list says of each Service, by its name."""
    answer = json.loads(run(proxy, "list", *arguments, "-o", "json"))
    assert answer["kind"] == "KubeNftdServiceList" and answer["schema"] == 1
    return {f"{it['namespace']}/{it['name']}": it for it in answer["items"]}


@pytest.fixture
def published(proxy) -> Web:
    """A load balancer, a younger Service that wants its address, and a headless one."""
    web = Web(proxy, 4, "TCP")
    service = web.as_service(
        type="LoadBalancer", externalTrafficPolicy="Local", externalIPs=["203.0.113.7"], sessionAffinity="ClientIP",
        sessionAffinityConfig={"clientIP": {"timeoutSeconds": 100}},
    )  # fmt: skip
    service["spec"]["ports"][0]["nodePort"] = 30001
    service["status"] = {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}]}}
    rival = objects.service("rival", {4: "10.96.200.1"}, HTTP, externalIPs=["203.0.113.7"])
    rival["metadata"]["creationTimestamp"] = "2026-02-02T00:00:00Z"
    slice = web.as_slice({"a": "ready", "b": "unready", "c": "terminating"})
    slice["endpoints"].append(objects.endpoint(proxy.lab.pods["x"].address[4], "ready", OTHER_NODE_NAME))
    slice["endpoints"][-1]["zone"] = "zone-b"
    theirs = objects.endpoint_slice("rival-1", "rival", 4, BACKEND, [objects.endpoint("10.244.0.11")])
    proxy.manifests.put("all", service, rival, slice, theirs, objects.service("none", {4: "None"}, HTTP))
    wait_for(lambda: len(proxy.tables[4].backends(web.frontend) or []) == 2, "it is in the kernel")
    return web


def test_what_a_service_has(proxy, published):
    there = items(proxy)
    assert list(there) == ["default/none", "default/rival", "default/web"]
    assert there["default/web"] == {
        "namespace": "default", "name": "web", "type": "LoadBalancer", "clusterIPs": [published.address],
        "externalIPs": ["203.0.113.7"], "loadBalancerIPs": ["203.0.113.9"], "ports": ["80:30001/TCP"],
        "endpoints": {"all": 4, "ready": 2, "serving": 3, "local": 1}, "internalTrafficPolicy": "Cluster",
        "externalTrafficPolicy": "Local", "affinitySeconds": 100, "state": "applied", "note": None,
    }  # fmt: skip
    assert there["default/rival"]["state"] == "claimed"
    assert there["default/rival"]["note"] == "203.0.113.7:80/TCP belongs to default/web"
    assert there["default/none"]["state"] == "headless"


def test_patterns(proxy, published):
    for pattern, names in (
        ("default", ["none", "rival", "web"]), ("default/web", ["web"]), ("*/r*", ["rival"]), ("def*/[nw]*", ["none", "web"]),
    ):  # fmt: skip
        assert list(items(proxy, pattern)) == [f"default/{name}" for name in names]
        assert run(proxy, "list", pattern, "-o", "name").split() == [f"default/{name}" for name in names]
    for pattern, meant in (("kube-system/*", ""), ("other", ""), ("endpionts", "did you mean list endpoints?\n")):
        done = call(proxy.lab.node, "list", pattern)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", NO_SUCH_SERVICE + meant)
    done = call(proxy.lab.node, "list", "-n", "endpionts")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", NO_SUCH_SERVICE)


def test_a_table_for_people(proxy, published):
    lines = run(proxy, "list").splitlines()
    titles = ["SERVICE", "STATE", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORTS", "READY", "LOCAL", "NOTE"]
    assert lines[0].split() == titles
    assert lines[3].split() == [
        "default/web", "applied", "LoadBalancer", published.address, "203.0.113.9,", "203.0.113.7", "80:30001/TCP",
        "2/4", "1",
    ]  # fmt: skip
    assert lines[2].endswith("  1/1    1      203.0.113.7:80/TCP belongs to default/web")
    for title in ("TYPE", "PORTS", "STATE"):
        assert {line[lines[0].index(title) - 1] for line in lines} == {" "}, lines
    assert "EXTERNAL  AFFINITY" in run(proxy, "list", "-o", "wide") and "100 s" in run(proxy, "list", "-o", "wide")
    files = ("--manifests", str(proxy.manifests.folder), "--hostname-override", "node-a")
    computed = call(proxy.lab.node, "list", *files).stdout.splitlines()
    without_state = lambda text: [[line.split()[0], *line.split()[2:6]] for line in text]  # noqa: E731
    assert without_state(computed) == without_state(lines)
    assert computed[3].split()[1] == "computed" and "belongs to" in computed[2]


def test_an_address_named_twice(proxy):
    """Twice in externalIPs, the same in ingress, or the same in other words: it is shown once, and served."""
    web = Web(proxy, 4, "TCP")
    service = web.as_service(type="LoadBalancer", externalIPs=["203.0.113.9", "203.0.113.7", "203.0.113.7", "203.0.113.8"])
    ingress = ["203.0.113.8", "203.0.113.9", "203.0.113.8", "::ffff:203.0.113.9"]
    service["status"] = {"loadBalancer": {"ingress": [{"ip": ip} for ip in ingress]}}
    proxy.manifests.put("all", service, web.as_slice({"a": "ready"}))
    web.settle("a")
    text, item = run(proxy, "list"), items(proxy)["default/web"]
    assert " 203.0.113.8, 203.0.113.9, 203.0.113.7  80/TCP " in text
    assert item["externalIPs"] == ["203.0.113.7", "203.0.113.8", "203.0.113.9"]
    assert item["loadBalancerIPs"] == ["203.0.113.8", "203.0.113.9"]
    explained = run(proxy, "explain", "default/web")
    for address in ("203.0.113.7", "203.0.113.8", "203.0.113.9"):
        assert proxy.tables[4].backends(Frontend(address, "TCP", 80)) == proxy.tables[4].backends(web.frontend)
        assert explained.count(f"{address}:80/TCP") == 1
        assert run(proxy, "list", "endpoints").count(f"{address}:80/TCP") == 1


def test_endpoints(proxy, published):
    text = run(proxy, "list", "endpoints", "default/web")
    lines = {line.split()[0]: line for line in text.splitlines()}
    pods = {name: proxy.lab.pods[name].address[4] for name in "abcx"}
    for name, words in {
        "a": "  ready  ", "b": "not used: not ready", "c": "not ready, serving, terminating", "x": f"{OTHER_NODE_NAME}  zone-b",
    }.items():  # fmt: skip
        assert words in lines[f"{pods[name]}:8080"], text
    assert "used: not with policy Local: not on this node" in lines[f"{pods['x']}:8080"]
    assert "web-1" in run(proxy, "list", "endpoints", "default/web", "-o", "wide")
    assert "no such Service exists" in run(proxy, "list", "endpoints", "default/nothing", status=2)
    done = call(proxy.lab.node, "list", "endpoints", "10.96.0.1:80")
    assert done.returncode == os.EX_CONFIG and "not NAMESPACE/SERVICE" in done.stderr


def test_on_a_terminal(proxy, published):
    """Nothing is lost without a word, and it is coloured unless somebody does not want that."""
    plain = run(proxy, "list").splitlines()
    assert not any("\x1b" in line for line in plain)
    assert on_terminal(proxy.lab.node, 200, "list", NO_COLOR="1") == plain
    coloured = on_terminal(proxy.lab.node, 200, "list")
    assert coloured[0].startswith("\x1b[1mSERVICE") and coloured[0].endswith("\x1b[0m")
    assert "\x1b[32mapplied\x1b[0m" in coloured[3] and "\x1b[33mclaimed" in coloured[2]
    assert "\x1b" not in "".join(on_terminal(proxy.lab.node, 200, "list", "-o", "json"))


@pytest.mark.parametrize("columns", [30, 60, 80, 100])
def test_on_a_narrow_terminal(proxy, published, columns):
    """What somebody looks for first stays, cells are cut with a mark, and the last line says what is not shown."""
    ports = [objects.Port(f"p{i}", "TCP", 1000 + i) for i in range(1000)]
    proxy.manifests.put("wide", objects.service("a-service-with-a-very-long-name", {4: "10.96.3.3"}, ports))
    wait_for(lambda: "1004/TCP and 995 more" in run(proxy, "list"), "it is listed")
    lines = on_terminal(proxy.lab.node, columns, "list", NO_COLOR="1")
    assert all(len(line) <= max(columns, 41) for line in lines), lines
    titles = lines[0].split()
    assert titles[:2] == ["SERVICE", "STATE"] and "READY" in titles
    left_out = " ".join(lines).partition("(not shown, ")[2]
    for title in ("TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORTS", "LOCAL"):
        assert (title in titles) != (title in left_out), lines
    assert columns < 80 or "LOCAL" in titles
    assert re.match(r"default/a-servic\S*\.\.\.  no endpoints  ", lines[1])
    belongs = "    203.0.113.7:80/TCP belongs to default/web"
    assert belongs in lines or columns < len(belongs)
    for command in (("list", "endpoints", "default/web"), ("list", "endpoints"), ("status",), ("explain", "default/web")):
        lines = on_terminal(proxy.lab.node, columns, *command, NO_COLOR="1")
        assert columns < 80 or all(len(line) <= columns or len(line.split()) == 1 for line in lines), lines


def test_ports_that_nobody_serves(proxy):
    """A port counts the endpoints of slices that have it. What is refused is not simply applied."""
    ports = [objects.Port("http", "TCP", 80), objects.Port("admin", "TCP", 81), objects.Port("dns", "UDP", 53)]
    web = objects.service("web", {4: "10.96.5.1", 6: "fd00:10:96::51"}, ports)
    slice = objects.endpoint_slice(
        "web-1", "web", 4, [objects.Port("http", "TCP", 8080), objects.Port("dns", "UDP", 53)],
        [objects.endpoint("10.244.0.1"), objects.endpoint("10.244.0.2")],
    )  # fmt: skip
    more = objects.endpoint_slice("web-2", "web", 4, BACKEND, [objects.endpoint(f"10.244.0.{i}") for i in (2, 3)])
    other = objects.endpoint_slice("other-1", "other", 4, BACKEND, [objects.endpoint("10.244.0.4")])
    misnamed = objects.service("other", {4: "10.96.5.2"}, [objects.Port("web", "TCP", 80)])
    proxy.manifests.put("all", web, slice, more, other, misnamed)
    wait_for(lambda: items(proxy).get("default/web", {}).get("state") == "applied", "it is applied")
    there = items(proxy)
    assert there["default/web"]["endpoints"] == {"all": 3, "ready": 2, "readyMost": 3, "serving": 2, "local": 2}
    assert there["default/web"]["note"] == "no endpoints for IPv4 81/TCP, IPv6 81/TCP, IPv6 80/TCP, 1 more"
    assert there["default/other"]["state"] == "no endpoints" and there["default/other"]["note"] is None
    assert there["default/other"]["endpoints"] == {"all": 1, "ready": 0, "serving": 0, "local": 0}
    lines = run(proxy, "list").splitlines()
    assert "  2-3/3  " in lines[2] and lines[1].split()[1:3] == ["no", "endpoints"]


def test_all_frontends(proxy, published):
    rows = {line.split()[0]: line for line in run(proxy, "list", "endpoints").splitlines()}
    a, x = (f"{proxy.lab.pods[name].address[4]}:8080" for name in "ax")
    assert rows[f"{published.address}:80/TCP"].endswith(f"  default/web    cluster IP        {a}, {x}"), rows
    assert rows["203.0.113.9:80/TCP"].endswith(f"  load-balancer IP  {a}")  # policy Local
    assert list(rows) == list({line.split()[0]: 1 for line in run(proxy, "list", "endpoints", "-A").splitlines()})
    assert run(proxy, "list", "endpoints", "-n", "default").splitlines()[1:]
    assert run(proxy, "list", "endpoints", "*/r*").splitlines()[1].split()[1] == "default/rival"
    answer = json.loads(run(proxy, "list", "endpoints", "-o", "json"))
    assert answer["kind"] == "KubeNftdFrontendList" and answer["schema"] == 1
    web = next(it for it in answer["items"] if it["name"] == "web")
    assert {it["policy"] for it in web["frontends"]} == {"Cluster", "Local"} and web["leftOut"] == 0
    proxy.manifests.put("empty", objects.service("empty", {4: "10.96.9.9"}, HTTP))
    wait_for(lambda: "10.96.9.9:80/TCP" in run(proxy, "list", "endpoints"), "it is listed")
    files = ("--manifests", str(proxy.manifests.folder), "--hostname-override", "node-a")
    for text in (run(proxy, "list", "endpoints"), call(proxy.lab.node, "list", "endpoints", *files).stdout):
        line = next(line for line in text.splitlines() if line.startswith("10.96.9.9:80/TCP"))
        assert line.endswith("rejected: no endpoints")


def test_namespaces_and_forms(proxy, published):
    assert run(proxy, "list", "-n", "default", "web", "-o", "name") == "default/web\n"
    assert run(proxy, "list", "-A", "-o", "name") == run(proxy, "list", "-o", "name")
    assert "is the cluster IP of default/web" in run(proxy, "explain", "-n", "default", "web")
    text = run(proxy, "list", "default/web", "-o", "yaml")
    assert "kind: KubeNftdServiceList\n" in text and "\n  state: applied\n" in text
    assert "well: true\n" in run(proxy, "status", "-o", "yaml")


def test_status_of_one_that_is_well(proxy, published):
    answer = json.loads(run(proxy, "status", "-o", "json"))
    assert answer["kind"] == "KubeNftdStatus" and answer["schema"] == 1 and answer["well"] and answer["problems"] == []
    assert answer["source"]["services"] == 3 and answer["source"]["complete"] and answer["source"]["watches"] == []
    assert answer["claimedByOthers"] == 1 and answer["memoryBytes"] > 1e6 and answer["conntrack"]["limit"] > 0
    four, six = answer["families"]
    assert (four["family"], four["state"], four["frontends"], four["rejected"]) == ("IPv4", "applied", 5, 0)
    text = run(proxy, "status")
    assert text.splitlines()[0].endswith(": well") and "3 Services, 2 EndpointSlices" in text


def test_status_of_one_that_is_not(proxy, tmp_path, monkeypatch):
    one_is_rejected(proxy, monkeypatch, tmp_path)
    text = run(proxy, "status", status=1)
    assert text.splitlines()[0].endswith(": not well") and "IPv4: 2 frontends or other elements are rejected" in text
    assert items(proxy, "default/three")["default/three"]["state"] == "rejected"
    assert items(proxy, "default/one")["default/one"]["state"] == "applied"


def test_what_is_left_to_others(proxy):
    """A balancer's hostname, its mode Proxy, another proxy's Service, and slices without a Service."""
    named, proxied = (objects.service(name, {4: f"10.96.8.{i}"}, HTTP, type="LoadBalancer") for i, name in enumerate(("named", "proxied"), 1))
    named["status"] = {"loadBalancer": {"ingress": [{"hostname": "lb.example"}]}}
    proxied["status"] = {"loadBalancer": {"ingress": [{"ip": "203.0.113.9", "ipMode": "Proxy"}]}}
    other = objects.service("other", {4: "10.96.8.3"}, HTTP)
    other["metadata"]["labels"] = {"service.kubernetes.io/service-proxy-name": "somebody"}
    slice = objects.endpoint_slice("other-1", "other", 4, BACKEND, [objects.endpoint("10.244.0.4")])
    proxy.manifests.put("all", named, proxied, other, slice)
    wait_for(lambda: len(items(proxy)) == 3, "they are known")
    assert {name: it["note"] for name, it in items(proxy).items()} == {
        "default/named": "load balancer by hostname", "default/proxied": "load balancer in mode Proxy",
        "default/other": "1 EndpointSlice names it",
    }  # fmt: skip
    assert "its load balancer has a hostname: " in run(proxy, "explain", "default/named")
    assert "its load balancer has ipMode Proxy: " in run(proxy, "explain", "default/proxied")
    text = run(proxy, "explain", "default/other", status=2)
    assert "1 EndpointSlice names it" in text and "is served by another proxy" in text
    named["status"] = {"loadBalancer": {}}
    proxy.manifests.put("all", named, proxied, other, slice)
    wait_for(lambda: items(proxy)["default/named"]["note"] is None, "it is followed")


def test_slices_without_a_service(proxy):
    """They are listed under the name that they have, until it comes: by the daemon and from files."""
    def put(name, *more):
        slices = [objects.endpoint_slice(f"{name}-{i}", name, 4, BACKEND, [objects.endpoint(f"10.244.0.{i}", condition)])
                  for i, condition in ((1, "ready"), (2, "unready"))]  # fmt: skip
        proxy.manifests.put(name, *slices, *more)

    put("orphan")
    put("web", objects.service("web", {4: "10.96.8.5"}, HTTP))
    wait_for(lambda: len(items(proxy)) == 2, "both are known")
    orphan = {
        "namespace": "default", "name": "orphan", "type": None, "clusterIPs": [], "externalIPs": [], "loadBalancerIPs": [],
        "ports": [], "endpoints": {"all": 2, "ready": 1, "serving": 1, "local": 1}, "internalTrafficPolicy": None,
        "externalTrafficPolicy": None, "affinitySeconds": 0, "state": "no Service", "note": "2 EndpointSlices name it",
    }  # fmt: skip
    files = ("--manifests", str(proxy.manifests.folder), "--hostname-override", "node-a")
    for more, state in ((), "applied"), (files, "computed"):
        assert items(proxy, "default/orphan", *more) == {"default/orphan": orphan}
        assert {name: it["state"] for name, it in items(proxy, *more).items()} == {"default/orphan": "no Service", "default/web": state}
        assert run(proxy, "list", "-o", "name", *more) == "default/web\n"
    [line] = [line for line in run(proxy, "list").splitlines() if "orphan" in line]
    assert re.split("  +", line) == ["default/orphan", "no Service", "-", "-", "-", "1/2", "1", "2 EndpointSlices name it"]
    assert "orphan" not in run(proxy, "list", "endpoints")
    put("orphan", objects.service("orphan", {4: "10.96.8.7"}, [objects.Port("http", "TCP", 0)]))
    wait_for(lambda: items(proxy)["default/orphan"]["state"] == "invalid", "its Service has come, but is invalid")
    put("orphan", objects.service("orphan", {4: "10.96.8.7"}, HTTP))
    wait_for(lambda: items(proxy)["default/orphan"]["state"] == "applied", "it is valid")
    put("orphan")
    wait_for(lambda: items(proxy)["default/orphan"] == orphan, "it is gone")


def test_names_that_begin_with_digits(proxy):
    """As Kubernetes 1.37 allows for Services; namespaces always could. What looks like a port is one only for explain."""
    for namespace, name, last in (("2024", "1web", 1), ("80", "tcp", 2), ("default", "10", 3)):
        web = objects.service(name, {4: f"10.96.7.{last}"}, HTTP)
        slice = objects.endpoint_slice(f"{name}-1", name, 4, BACKEND, [objects.endpoint(f"10.244.0.{last}")])
        for it in (web, slice):
            it["metadata"]["namespace"] = namespace
        proxy.manifests.put(f"{name}-{namespace}", web, slice)
    wait_for(lambda: [it["state"] for it in items(proxy).values()] == ["applied"] * 3, "all are applied")
    assert run(proxy, "list", "2024/*", "-o", "name") == "2024/1web\n" and run(proxy, "list", "*/1*", "-o", "name").split() == ["2024/1web", "default/10"]
    for what in (["2024/1web"], ["1web.2024"], ["1web.2024.svc:80"], ["-n", "2024", "1web:http"]):
        assert "10.96.7.1:80/TCP is the cluster IP of 2024/1web" in run(proxy, "explain", *what), what
    assert "10.96.7.2:80/TCP is" in run(proxy, "explain", "tcp.80") and "10.96.7.2:80/TCP is" in run(proxy, "explain", "-n", "80", "tcp")
    assert "10.96.7.3:80/TCP is" in run(proxy, "explain", "-n", "default", "10") and "10.96.7.3:80/TCP is" in run(proxy, "explain", "default/10")
    for service, last in (("2024/1web", 1), ("80/tcp", 2), ("default/10", 3)):
        assert f"10.244.0.{last}:8080" in run(proxy, "list", "endpoints", service)
    assert "No Service has node port 80" in run(proxy, "explain", "80/tcp", status=2)


def problems(proxy) -> list[str]:
    return json.loads(call(proxy.lab.node, "status", "-o", "json").stdout)["problems"]


def test_ports_that_are_not_served(lab, tmp_path):
    """NodePorts without an address, but only if a Service has one; a health check whose port another program has."""
    proxy = Proxy(lab, tmp_path, "--nodeport-addresses", "192.168.77.0/24,2001:db8:51::/64")
    try:
        proxy.daemon.start()
        assert problems(proxy) == []
        service = objects.service("web", {4: "10.96.0.7"}, HTTP, type="NodePort")
        service["spec"]["ports"][0]["nodePort"] = 30001
        proxy.manifests.put("web", service)
        why = "IPv4: NodePorts are not served: no interface of this host has an address in --nodeport-addresses"
        wait_for(lambda: problems(proxy) == [why], lambda: str(problems(proxy)))
        assert run(proxy, "status", status=1).splitlines()[1] == f"  {why}"
        for words in ("30001", "30001/TCP"):
            told = json.loads(run(proxy, "explain", words, "-o", "json", status=2))
            assert told["summary"] == ["No Service has node port 30001 on this node."]
            assert told["notes"] == ["node port 30001 belongs to default/web, but no address for NodePorts is known (--nodeport-addresses)"]
    finally:
        proxy.close()


def test_health_ports_that_another_program_has(proxy, published):
    with proxy.lab.node.inside():
        taken = socket.create_server((NODE_ADDRESS[4], 32001))
    service = objects.service("checked", {4: "10.96.0.8"}, HTTP, type="LoadBalancer", externalTrafficPolicy="Local")
    service["spec"]["healthCheckNodePort"] = 32001
    proxy.manifests.put("checked", service)
    wait_for(lambda: problems(proxy), "it is reported")
    assert problems(proxy) == ["healthCheckNodePort 32001 of default/checked cannot be bound (see the log; it is retried)"]
    taken.close()
    wait_for(lambda: not problems(proxy), "it is open")


def test_a_manifest_that_is_skipped(proxy, published):
    (proxy.manifests.folder / "bad.yaml").write_text("kind: [")
    wait_for(lambda: problems(proxy), "it is reported")
    assert "bad.yaml: line 2 " in problems(proxy)[0] and run(proxy, "list", "-n", "default", "web")
    (proxy.manifests.folder / "bad.yaml").unlink()
    wait_for(lambda: not problems(proxy), "it is gone")


def test_the_age_of_an_error(lab, tmp_path):
    """And when the next try is."""
    namespace = lab.client
    log = (tmp_path / "log").open("wb")
    process = namespace.start(
        [str(BINARY), "--master", "http://127.0.0.1:1", "--hostname-override", "a", "--conntrack-max-per-core", "0"],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(),
    )  # fmt: skip
    try:
        age = r"services: cannot (list|watch) services: .* \((\d+) s ago, (next try in \d+ s|it is being tried again)\)"
        found = lambda: [re.match(age, it) for it in json.loads(call(namespace, "status", "-o", "json").stdout or "{}").get("problems", [])]  # noqa: E731
        wait_for(lambda: any(found()), lambda: call(namespace, "status").stdout, START_SECONDS)
    finally:
        process.terminate()
        process.wait()
        log.close()


@pytest.mark.usefixtures("table_owners")
def test_a_table_that_another_program_took(lab, tmp_path):
    """What was applied is not, and a change that comes waits."""
    proxy = Proxy(lab, tmp_path, "--table-owner", "off")
    try:
        proxy.daemon.start()
        Web(proxy, 4, "TCP").publish("a")
        assert items(proxy)["default/web"]["state"] == "applied"
        with table_of_another(proxy, 4):
            proxy.manifests.put("late", objects.service("late", {4: "10.96.70.9"}, HTTP))
            wait_for(lambda: "default/late" in items(proxy), "it is known")
            states = {name: it["state"] for name, it in items(proxy).items()}
            assert set(states.values()) <= {"lost", "pending"}, states
            (four, six) = json.loads(run(proxy, "status", "-o", "json", status=1))["families"]
            assert four["state"] in ("lost", "refused") and six["state"] == "applied"
            assert run(proxy, "status", status=1).splitlines()[1].startswith("  IPv4: ")
    finally:
        print(proxy.daemon.last_words())
        proxy.close()


def test_nobody_answers(lab):
    done = call(lab.client, "status", "--metrics-bind-address", "127.0.0.1:7777")
    assert (done.returncode, done.stdout) == (2, "") and "no kube-nftd answers at 127.0.0.1:7777" in done.stderr
    assert call(lab.client, "list", "--metrics-bind-address", "127.0.0.1:7777").returncode == 1


def test_pages(proxy, published):
    get = lambda path: http_get(proxy.lab.node, "127.0.0.1", METRICS_PORT, path)  # noqa: E731
    status, headers, body = get("/list?namespace=default&name=w*")
    assert status == 200 and headers["Content-Type"] == "application/json" and headers["Transfer-Encoding"] == "chunked"
    assert [it["name"] for it in json.loads(body)["items"]] == ["web"]
    assert json.loads(get("/list?name=nothing")[2])["items"] == []
    assert json.loads(get("/status")[2])["node"]["name"] == "node-a"


def test_those_who_do_not_read(proxy):
    """They hold up nobody but others who want a list, and not for longer than they are there."""
    many = [objects.service(f"s{i}", {4: f"10.96.{i // 250}.{i % 250 + 1}"}, HTTP) for i in range(5000)]
    proxy.manifests.put("many", *many)
    wait_for(lambda: len(items(proxy)) == 5000, "all are known", 30)
    slow = []
    for _ in range(2):
        with proxy.lab.node.inside():
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", METRICS_PORT))
        client.sendall(b"GET /list HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"
        slow.append(client)
    status, headers, body = http_get(proxy.lab.node, "127.0.0.1", METRICS_PORT, "/list")
    assert status == 503 and body.startswith("busy") and headers["Retry-After"] == "1"
    web = Web(proxy, 4, "TCP")
    web.publish("a")
    slow.pop().close()
    assert items(proxy, "default/web")["default/web"]["state"] == "applied"
    assert proxy.daemon.stop() == 0  # with the other one still there
    slow.pop().close()


def test_many_while_others_come_and_go(proxy):
    """In many pieces: each Service once, and all that were there the whole time."""
    lasting = [objects.service(f"lasting-{i}", {4: f"10.96.{i // 250}.{i % 250 + 1}"}, HTTP) for i in range(2000)]
    proxy.manifests.put("lasting", *lasting)
    wait_for(lambda: len(items(proxy)) == 2000, "all are known", 30)
    done, seen = threading.Event(), []

    def look() -> None:
        while not done.is_set():
            seen.append(json.loads(run(proxy, "list", "-o", "json"))["items"])

    thread = threading.Thread(target=look)
    thread.start()
    for i in range(20):
        passing = [objects.service(f"passing-{i}-{k}", {4: f"10.97.{i}.{k + 1}"}, HTTP) for k in range(200)]
        proxy.manifests.put(f"passing-{i % 4}", *passing)
    done.set()
    thread.join()
    assert seen
    for one in seen:
        names = [it["name"] for it in one]
        assert names == sorted(set(names)) and sum(name.startswith("lasting") for name in names) == 2000
