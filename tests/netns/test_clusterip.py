# SPDX-License-Identifier: GPL-2.0-or-later
"""ClusterIP services seen from clients: who answers, and what happens to traffic when things change."""

import contextlib
import re
import signal
import pathlib
from concurrent import futures

import pytest

import objects
from daemon import Frontend, Monitor, Table, wait_for
from lab import PROTOCOLS, Namespace, ask_on, linux
from scenario import Proxy, Traffic, Web, fresh_addresses

GOOD = {"a", "b", "c"}


def everywhere(web: Web) -> dict:
    """Where a client can be. Pod d is never an endpoint here."""
    return {"client": web.lab.client, "node": web.lab.node, "pod": web.lab.pods["d"].namespace}


# ---- balancing ------------------------------------------------------------------------------------


def test_balances_over_all_ready_pods(web):
    web.publish("a", "b", "c")
    for where in everywhere(web).values():
        tally = web.tally(where)
        assert set(tally) == GOOD
        assert min(tally.values()) >= 3  # of 60; less in one of 10^7 runs


def test_a_service_in_both_families(proxy):
    addresses = fresh_addresses()
    ports = [objects.Port("http", "TCP", 80)]
    proxy.manifests.put("service", objects.service("dual", addresses, ports))
    webs = {family: Web(proxy, family, "TCP", "dual") for family in (4, 6)}
    for family, pod in ((4, "a"), (6, "b")):
        webs[family].address = addresses[family]
        webs[family].frontend = Frontend(addresses[family], "TCP", 80)
        proxy.manifests.put(f"slice-{family}", webs[family].as_slice({pod: "ready"}, name=str(family)))
    webs[4].settle("a")
    webs[6].settle("b")
    assert set(webs[4].tally(times=10)) == {"a"}
    assert set(webs[6].tally(times=10)) == {"b"}


def test_other_ports_and_protocols_are_left_alone(tcp):
    tcp.publish("a")
    assert tcp.ask() == "a"
    assert tcp.lab.ask(tcp.lab.client, tcp.address, 443, "TCP") != "a"
    assert tcp.lab.ask(tcp.lab.client, tcp.address, 80, "UDP") != "a"
    assert tcp.lab.ask(tcp.lab.client, tcp.address, 80, "SCTP") != "a"


# ---- change under traffic -------------------------------------------------------------------------


def test_new_connections_never_fail_while_endpoints_change(proxy):
    """200 changes, from three pods to two and back; a pod that was removed goes on serving."""
    addresses = fresh_addresses()
    service_ports = [objects.Port(protocol.lower(), protocol, 80) for protocol in PROTOCOLS]
    pod_ports = [port._replace(number=8080) for port in service_ports]
    proxy.manifests.put("service", objects.service("busy", addresses, service_ports))
    frontends = {family: Frontend(addresses[family], "TCP", 80) for family in addresses}

    def change(pods: list[str]) -> None:
        slices = []
        for family in addresses:
            endpoints = [objects.endpoint(proxy.lab.pods[pod].address[family]) for pod in pods]
            slices.append(objects.endpoint_slice(f"busy-{family}", "busy", family, pod_ports, endpoints))
        proxy.manifests.put("slices", *slices)
        for family, table in proxy.tables.items():
            wanted = sorted((proxy.lab.pods[pod].address[family], 8080) for pod in pods)
            wait_for(lambda: sorted(table.backends(frontends[family]) or []) == wanted, f"{pods} are in")

    change(["a", "b", "c"])
    calls = [(addresses[family], 80, protocol) for family in addresses for protocol in PROTOCOLS]
    streams = [Traffic(proxy.lab, proxy.lab.client, *call) for call in calls]
    with contextlib.ExitStack() as running:
        for stream in streams:
            running.enter_context(stream)
        for number in range(200):
            leaves = "abc"[number // 2 % 3]
            change([pod for pod in "abc" if number % 2 or pod != leaves])
    for stream in streams:
        assert set(stream.answers) == GOOD, (stream.target, stream.answers)
        assert sum(stream.answers.values()) > 300


@pytest.mark.parametrize("protocol", ["TCP", "SCTP"])
def test_established_connections_outlive_every_change(web):
    web.publish("a", "b")
    with web.lab.open(web.lab.client, *web.call(), timeout=2) as connection:
        pod = ask_on(connection)
        other = {"a": "b", "b": "a"}[pod]
        web.put_endpoints(**{other: "ready"})
        web.settle(other)
        assert set(web.tally(times=20)) == {other}
        assert ask_on(connection) == pod
        web.remove_endpoints()
        web.settle()
        assert ask_on(connection) == pod
        web.remove_service()
        web.settle_absent()
        assert ask_on(connection) == pod


def test_new_sockets_follow_a_change(web):
    web.publish("a")
    assert set(web.tally(times=10)) == {"a"}
    web.put_endpoints(b="ready")
    web.settle("b")
    assert set(web.tally(times=20)) == {"b"}
    web.put_endpoints(b="ready", c="ready")
    web.settle("b", "c")
    assert set(web.tally()) == {"b", "c"}


# ---- which endpoints ------------------------------------------------------------------------------


def test_terminating_fallback(web):
    web.put_service()
    web.put_endpoints(a="ready", b="terminating", c="terminating", d="failing")
    web.settle("a")
    assert set(web.tally(times=20)) == {"a"}
    # The last ready one goes: those that terminate and still serve take over.
    web.put_endpoints(b="terminating", c="terminating", d="failing")
    web.settle("b", "c")
    assert set(web.tally()) == {"b", "c"}
    web.put_endpoints(b="terminating", c="failing", d="unready")
    web.settle("b")
    assert set(web.tally(times=20)) == {"b"}
    # Nothing left that serves.
    web.put_endpoints(b="failing", c="failing", d="unready")
    web.settle()
    assert web.ask() == "refused"
    # And back.
    web.put_endpoints(a="ready", b="failing", c="failing")
    web.settle("a")
    assert set(web.tally(times=20)) == {"a"}


@pytest.mark.parametrize("empty", ["no slice", "slice without endpoints", "only unready"])
def test_no_endpoints_is_a_reject(tcp, empty):
    tcp.put_service()
    if empty == "slice without endpoints":
        tcp.put_endpoints()
    elif empty == "only unready":
        tcp.put_endpoints(a="unready")
    tcp.settle()
    assert tcp.ask() == "refused"
    tcp.put_endpoints(a="ready")
    tcp.settle("a")
    assert tcp.ask() == "a"


def retransmitted(where: Namespace) -> int:
    """TCP segments that were sent there again."""
    with where.inside():
        lines = pathlib.Path("/proc/thread-self/net/snmp").read_text().splitlines()
    names, values = (line.split() for line in lines if line.startswith("Tcp:"))
    return int(values[names.index("RetransSegs")])


def test_clients_are_refused_at_once(web):
    web.put_service()
    web.settle()
    places = everywhere(web)
    before = {name: retransmitted(where) for name, where in places.items()}
    with futures.ThreadPoolExecutor() as pool:
        asked = {name: pool.submit(web.ask, where) for name, where in places.items()}
    # Between namespaces the ICMP error comes back while connect() still holds its socket, which then
    # drops it; over IPv6 only the second SYN, a second later, brings the answer to light.
    again = 1 if (web.family, web.protocol) == (6, "TCP") else 0
    for name, where in places.items():
        # The node's own UDP packet dies in the output hook: send() says EPERM at once.
        denied = name == "node" and web.protocol == "UDP"
        assert asked[name].result() == ("denied" if denied else "refused"), name
        assert retransmitted(where) - before[name] <= again, name


def test_readiness_is_told_for_each_port_name(proxy, family):
    """One port falls back to a terminating pod while the other has a ready one."""
    web, admin = Web(proxy, family, "TCP"), Web(proxy, family, "TCP")
    admin.address = web.address
    admin.frontend = Frontend(web.address, "TCP", 443)
    http_port, admin_port = objects.Port("http", "TCP", 8080), objects.Port("admin", "TCP", 9090)
    service_ports = [http_port._replace(number=80), admin_port._replace(number=443)]
    proxy.manifests.put("service", objects.service("web", {family: web.address}, service_ports))
    pods = {name: pod.address[family] for name, pod in proxy.lab.pods.items()}
    proxy.manifests.put(
        "slices",
        objects.endpoint_slice(
            "web-http", "web", family, [http_port],
            [objects.endpoint(pods["a"], "ready"), objects.endpoint(pods["b"], "terminating")],
        ),
        objects.endpoint_slice(
            "web-admin", "web", family, [admin_port],
            [objects.endpoint(pods["a"], "failing"), objects.endpoint(pods["b"], "terminating")],
        ),
    )  # fmt: skip
    web.settle("a")
    admin.wait_backends([(pods["b"], 9090)])
    assert set(web.tally(times=20)) == {"a"}
    assert set(admin.tally(times=20)) == {"b/9090"}


def test_a_named_target_port_may_differ_between_slices(web):
    web.put_service()
    web.proxy.manifests.put("one", web.as_slice({"a": "ready"}, name="one", port=8080))
    web.proxy.manifests.put("two", web.as_slice({"b": "ready"}, name="two", port=9090))
    pods = {name: pod.address[web.family] for name, pod in web.lab.pods.items()}
    web.wait_backends([(pods["a"], 8080), (pods["b"], 9090)])
    assert set(web.tally()) == {"a", "b/9090"}


def test_a_copy_that_does_not_terminate_wins(tcp):
    """A pod may be in two slices for a moment."""
    tcp.put_service()
    tcp.proxy.manifests.put("slice-1", tcp.as_slice({"a": "terminating", "b": "ready"}, name="1"))
    tcp.settle("b")
    tcp.proxy.manifests.put("slice-2", tcp.as_slice({"a": "ready", "b": "terminating"}, name="2"))
    tcp.settle("a", "b")
    tcp.proxy.manifests.remove("slice-1")
    tcp.settle("a")
    assert set(tcp.tally(times=20)) == {"a"}


def test_fqdn_and_unlabelled_slices_are_ignored(tcp):
    tcp.publish("a")
    fqdn = tcp.as_slice({}, name="fqdn") | {"addressType": "FQDN"}
    fqdn["endpoints"] = [{"addresses": ["pod.example.com"], "conditions": {"ready": True}}]
    unlabelled = tcp.as_slice({"b": "ready"}, name="unlabelled")
    del unlabelled["metadata"]["labels"]
    headless = tcp.as_slice({"c": "ready"}, name="headless")
    headless["metadata"]["labels"]["service.kubernetes.io/headless"] = ""
    tcp.proxy.manifests.put("ignored", fqdn, unlabelled, headless)
    later = Web(tcp.proxy, 4, "TCP", "later")
    later.publish("d")  # what came before it has been dealt with
    tcp.settle("a")
    assert set(tcp.tally(times=20)) == {"a"}


# ---- order and life of services -------------------------------------------------------------------


def test_service_before_slice(web):
    web.put_service()
    web.settle()
    web.put_endpoints(a="ready")
    web.settle("a")
    assert web.ask() == "a"


def test_slice_before_service(web):
    web.put_endpoints(a="ready")
    assert web.ask() == "outside"
    web.put_service()
    web.settle("a")
    assert web.ask() == "a"


def test_a_deleted_service_leaves_nothing(web):
    web.publish("a", "b")
    assert web.ask() in ("a", "b")
    web.remove_service()
    web.settle_absent()
    assert web.ask() == "outside"
    table = web.proxy.tables[web.family]
    names = ("services", "ports", "endpoints", "rejected_ports", "hairpin", "cluster_ips")
    wait_for(lambda: not any(table.elements(*names)), "no element is left")


def test_headless_and_external_name_services_are_not_proxied(tcp):
    addressless = {"clusterIP": "None", "clusterIPs": ["None"]}
    external = {"type": "ExternalName", "externalName": "example.com"}
    tcp.put_endpoints(a="ready")
    tcp.put_service(**external)
    headless = Web(tcp.proxy, 4, "TCP", "headless")
    headless.put_service(**addressless)
    later = Web(tcp.proxy, 4, "TCP", "later")
    later.publish("d")
    assert tcp.ask() == "outside"
    tcp.put_service()
    tcp.settle("a")
    assert tcp.ask() == "a"


# ---- what a change costs the kernel ---------------------------------------------------------------


def test_a_change_sends_elements_only(web):
    """Chains and rules keep their handles, and nft reports nothing but elements."""
    web.publish("a", "b")
    web.publish("a", "b", "c")
    web.settle("a", "b", "c")
    before = web.proxy.shape()
    with Monitor(web.lab.node) as monitor:
        web.put_endpoints(a="ready", b="ready", c="terminating")
        web.settle("a", "b")
        web.put_endpoints(a="ready", b="ready", d="ready")
        web.settle("a", "b", "d")
        web.put_endpoints()
        web.settle()
        web.put_endpoints(a="ready", b="ready")
        web.settle("a", "b")
        other = Web(web.proxy, web.family, web.protocol, "other")
        other.publish("c", "d")
        other.remove_service()
        other.settle_absent()
    assert web.proxy.shape() == before
    assert monitor.lines
    assert [line for line in monitor.lines if not re.match(r"(add|delete) element ", line)] == []


def test_an_endpoint_change_is_small(tcp):
    """One pod is replaced by another: the number of elements says that nothing else was written."""
    for number in range(20):
        Web(tcp.proxy, 4, "TCP", f"bystander-{number}").put_service()
    tcp.publish("a", "b", "c")
    with Monitor(tcp.lab.node) as monitor:
        tcp.put_endpoints(a="ready", b="ready", d="ready")
        tcp.settle("a", "b", "d")
    assert 2 <= len(monitor.lines) <= 4, monitor.lines  # of its slot, and of its hairpin


# ---- restarts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda by: by.name)
def test_traffic_goes_on_across_a_restart(proxy, family, by):
    web = Web(proxy, family, "TCP")
    web.publish("a", "b", "c")
    before = proxy.shape()
    with Traffic(proxy.lab, proxy.lab.client, *web.call()) as traffic:
        status = proxy.daemon.stop(by)
        assert status == (-signal.SIGKILL if by == signal.SIGKILL else 0)
        web.settle("a", "b", "c")
        assert set(web.tally()) == GOOD
        with Monitor(proxy.lab.node) as monitor:
            proxy.daemon.start()
            web.settle("a", "b", "c")
        # Nothing changed, nothing is sent but what claims the tables, where the kernel keeps such.
        claims = 2 if linux() >= (6, 9) else 0
        assert [line.split()[:2] for line in monitor.lines] == [["add", "table"]] * claims
        # The new one is in charge.
        web.put_endpoints(a="ready", b="ready")
        web.settle("a", "b")
    assert set(traffic.answers) == GOOD, traffic.answers
    assert "pick-2" in proxy.shape() and "pick-2" not in before
    assert set(before.splitlines()) <= set(proxy.shape().splitlines())  # the table was adopted


def test_changes_made_while_it_was_down_are_caught_up(proxy, family):
    web = Web(proxy, family, "TCP")
    gone = Web(proxy, family, "TCP", "gone")
    web.publish("a", "b")
    gone.publish("c", "d")
    before = proxy.shape()
    proxy.daemon.stop()
    web.put_endpoints(b="ready", c="ready")
    gone.remove_service()
    fresh = Web(proxy, family, "UDP", "fresh")
    fresh.put_service()
    assert set(web.tally()) == {"a", "b"} and gone.ask() in ("c", "d")
    proxy.daemon.start()
    web.settle("b", "c")
    gone.settle_absent()
    fresh.settle()
    assert set(web.tally()) == {"b", "c"}
    assert gone.ask() == "outside"
    assert fresh.ask() == "refused"
    assert proxy.shape() == before


# ---- bad input ------------------------------------------------------------------------------------


def bad_port(web: Web) -> dict:
    service = web.as_service()
    service["spec"]["ports"][0]["port"] = 70000
    return service


def bad_protocol(web: Web) -> dict:
    service = web.as_service()
    service["spec"]["ports"][0]["protocol"] = "ICMP"
    return service


def bad_address(web: Web) -> dict:
    bad = web.as_slice({"a": "ready"})
    bad["endpoints"][0]["addresses"] = ["10.0.0.300"]
    return bad


def bad_condition(web: Web) -> dict:
    bad = web.as_slice({"a": "ready"})
    bad["endpoints"][0]["conditions"]["ready"] = "yes"
    return bad


BAD = [
    (bad_port, "service", "Service default/web: spec.ports[0].port:"),
    (bad_protocol, "service", "Service default/web: spec.ports[0].protocol:"),
    (bad_address, "slice", "EndpointSlice default/web-1: endpoints[0].addresses[0]:"),
    (bad_condition, "slice", "EndpointSlice default/web-1: endpoints[0].conditions.ready:"),
]


@pytest.mark.parametrize("make,file,words", BAD, ids=[make.__name__ for make, _, _ in BAD])
def test_a_bad_object_is_named_and_its_last_good_version_stays(tcp, make, file, words):
    tcp.publish("a", "b")
    good = Web(tcp.proxy, 4, "TCP", "good")
    # In one file: the good objects beside the bad one go on.
    tcp.proxy.manifests.put(f"web-{file}", make(tcp), good.as_service(), good.as_slice({"c": "ready"}))
    good.settle("c")
    assert words in tcp.proxy.daemon.log()
    assert good.ask() == "c"
    assert set(tcp.tally()) == {"a", "b"}
    # Repaired, it counts again.
    repaired = tcp.as_service() if file == "service" else tcp.as_slice({"d": "ready"})
    tcp.proxy.manifests.put(f"web-{file}", repaired)
    tcp.settle(*(("a", "b") if file == "service" else ("d",)))


def test_a_broken_file_keeps_what_was_loaded_from_it(tcp):
    tcp.publish("a")
    whole = objects.as_list([tcp.as_slice({"b": "ready"})])
    tcp.proxy.manifests.put_text("web-slice.json", whole[: len(whole) // 2])
    wait_for(lambda: "web-slice.json" in tcp.proxy.daemon.log(), "the log names the broken file")
    later = Web(tcp.proxy, 4, "TCP", "later")
    later.publish("d")
    tcp.settle("a")
    assert set(tcp.tally(times=20)) == {"a"}
    tcp.proxy.manifests.put_text("web-slice.json", whole)
    tcp.settle("b")
    assert set(tcp.tally(times=20)) == {"b"}


def test_a_file_half_written_is_not_read(tcp):
    """Writing in place: nothing happens before the writer closes the file."""
    tcp.publish("a", "b")
    path = tcp.proxy.manifests.folder / "web-slice.json"
    text = objects.as_list([tcp.as_slice({"c": "ready"})])
    with path.open("w") as file:
        file.write(text[: len(text) // 2])
        file.flush()
        later = Web(tcp.proxy, 4, "TCP", "later")
        later.publish("d")  # what happened to the files before has been seen
        assert set(tcp.tally()) == {"a", "b"}
        file.write(text[len(text) // 2 :])
    tcp.settle("c")
    assert "web-slice.json" not in "".join(re.findall(r".* (?:warn|error) .*", tcp.proxy.daemon.log()))


YAML = """\
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: default
  creationTimestamp: "2026-01-02T03:04:05Z"
spec:
  clusterIP: {address}
  clusterIPs:
  - {address}
  ipFamilies:
  - IPv4
  ports:
  - name: http
    port: 80
    protocol: TCP
    targetPort: 8080
  type: ClusterIP
---
addressType: IPv4
apiVersion: discovery.k8s.io/v1
endpoints:
- addresses:
  - {pod}
  conditions:
    ready: true
    serving: true
    terminating: false
kind: EndpointSlice
metadata:
  labels:
    kubernetes.io/service-name: web
  name: web-1
  namespace: default
ports:
- name: http
  port: 8080
  protocol: TCP
"""


def test_yaml_documents_in_one_file(tcp):
    pods = tcp.lab.pods
    tcp.proxy.manifests.put_text("web.yaml", YAML.format(address=tcp.address, pod=pods["a"].address[4]))
    tcp.settle("a")
    assert tcp.ask() == "a"
    tcp.proxy.manifests.put_text("web.yaml", YAML.format(address=tcp.address, pod=pods["b"].address[4]))
    tcp.settle("b")
    assert tcp.ask() == "b"
    (tcp.proxy.manifests.folder / "web.yaml").unlink()
    tcp.settle_absent()


def test_a_single_file(lab, tmp_path):
    """--manifests names a file: written in place, and replaced by a rename."""
    proxy = Proxy(lab, tmp_path)
    web = Web(proxy, 4, "TCP")
    path = proxy.daemon.source = tmp_path / "objects.json"
    path.write_text(objects.as_list([objects.node(), web.as_service(), web.as_slice({"a": "ready"})]))
    try:
        proxy.daemon.start()
        web.settle("a")
        path.write_text(objects.as_list([web.as_service(), web.as_slice({"b": "ready"})]))
        web.settle("b")
        aside = tmp_path / "new"
        aside.write_text(objects.as_list([web.as_service(), web.as_slice({"c": "ready"})]))
        aside.rename(path)
        web.settle("c")
        assert set(web.tally(times=10)) == {"c"}
    finally:
        print(proxy.daemon.last_words())
        proxy.close()


# ---- other programs -------------------------------------------------------------------------------


def test_stock_nft_lists_without_complaint(web):
    web.publish("a", "b", "c")
    done = web.lab.node.run("nft", "list", "ruleset")
    assert done.stderr == ""
    assert web.address in done.stdout
    for family in (4, 6):
        assert Table(web.lab.node, family).name in done.stdout
