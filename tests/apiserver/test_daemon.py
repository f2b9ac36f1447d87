# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemon against the stand-in API server: streamed and paged lists, watches, and all that goes wrong with them."""

import collections
import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request

import pytest

import apiserver
import pki
from encoding import Protobuf
from harness import (BINARY, NODE_ADDRESS, Daemon, dump_rules, encodings, endpoint_slice, explain, node, prove_watches,
                     rejected, service, service_cidr, service_cidrs, table, without_waiting)

WEB = ("10.96.0.10", "tcp", 80)
DB = ("10.96.0.20", "tcp", 5432)
ONE = {("10.1.0.1", 8080)}
TWO = {("10.1.0.1", 8080), ("10.1.0.2", 8080)}
FIELDS = "spec.clusterIP!=None"
METRICS = "http://127.0.0.1:10249/metrics"


@pytest.fixture(name="start")
def make_start(server, tmp_path):
    """Starts the daemon and waits until it has programmed what the fixture `server` holds."""
    def start(user=None, cluster=None, expected=None):
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig", user, cluster)
        daemon = Daemon(tmp_path, kubeconfig)
        used = "protobuf" if Protobuf in server.api.encodings else "json"
        try:
            server.wait(lambda: table() == (expected or {WEB: TWO}))
            server.wait(lambda: daemon.lines(f"listed resource=services .* encoding={used}"))
        except AssertionError:
            daemon.stop()
            print(daemon.log(), *server.requests, table(), sep="\n")
            raise
        return daemon
    return start


def watching(server, since=0):
    """Waits for open watches of Services and EndpointSlices, asked for after @since requests."""
    def both():
        found = {request.path.split("/")[-1] for request in server.open_watches(since)}
        return found >= {"services", "endpointslices"}
    server.wait(both)


def all_anew(server, plural=None, since=0):
    """The requests for all there is: lists, streamed or not."""
    return server.lists(plural, since) + [request for request in server.asked(plural, watch=True, since=since)
                                          if "sendInitialEvents" in request.query]


def counter(name, resource):
    """What /metrics says of it now."""
    with urllib.request.urlopen(METRICS, timeout=20) as answer:
        page = answer.read().decode()
    [value] = re.findall(rf'^kube_nftd_{name}_total{{resource="{resource}[."].* (\d+)$', page, re.M)
    return int(value)


def programmed(name="web"):
    """The status of /programmed of a Service in the namespace shop, and the answer."""
    url = f"http://127.0.0.1:10249/programmed?namespace=shop&service={name}"
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def held(name="web"):
    """The versions of the Service and of its slices that the kernel holds."""
    answer = programmed(name)[1]
    return [told["inKernel"]["IPv4"] for told in (answer["service"], *answer["endpointSlices"])]


def test_programmed(server, start):
    """The versions in force are those that the server gave, and the table is what they say."""
    assert server.store.version
    stored = {kind: obj["metadata"]["resourceVersion"] for kind, obj in (
        (obj["kind"], obj) for obj in (server.put(service()), server.put(endpoint_slice("10.1.0.1", "10.1.0.2"))))}
    with start():
        watching(server)
        server.wait(lambda: programmed()[0] == 200)
        assert held() == [stored["Service"], stored["EndpointSlice"]]
        assert programmed("other")[0] == 404
        for count in (1, 2, 3, 1, 3):
            addresses = [f"10.1.0.{number + 1}" for number in range(count)]
            version = server.put(endpoint_slice(*addresses))["metadata"]["resourceVersion"]
            server.wait(lambda version=version: held()[1] == version)
            assert table() == {WEB: {(address, 8080) for address in addresses}}
        # What says the same is held as it comes; what cannot be read is not.
        same = service()
        same["metadata"]["annotations"] = {"a": "b"}
        version = server.put(same)["metadata"]["resourceVersion"]
        server.wait(lambda: held()[0] == version)
        assert programmed()[0] == 200
        bad = service()
        bad["spec"]["ports"][0]["port"] = 70000
        left_out = server.put(bad)["metadata"]["resourceVersion"]
        server.wait(lambda: programmed()[0] == 503)
        told = programmed()[1]["service"]
        assert told == {"received": version, "leftOut": left_out, "inKernel": {"IPv4": version}}
        server.delete("Service", "shop", "web")
        server.wait(lambda: programmed()[0] == 404)


def rest_client():
    """What /metrics says of requests: {(code, method): number}, and the number of timed ones by verb."""
    with urllib.request.urlopen(METRICS, timeout=20) as answer:
        page = answer.read().decode()
    label = r'="([^"]*)"'
    counts = re.findall(rf"^rest_client_requests_total{{code{label},host{label},method{label}}} (\d+)$", page, re.M)
    times = re.findall(rf"^rest_client_request_duration_seconds_count{{host{label},verb{label}}} (\d+)$", page, re.M)
    hosts = {host for _, host, _, _ in counts} | {host for host, _, _ in times}
    return {(code, method): int(n) for code, _, method, n in counts}, {verb: int(n) for _, verb, n in times}, hosts


def test_requests_are_counted(server, start):
    server.api.streaming = "refused"
    with start():
        prove_watches(server)
        counts, times, hosts = rest_client()
        assert len(hosts) == 1 and re.fullmatch(r"127\.0\.0\.1:\d+", *hosts)
        assert counts == collections.Counter((str(request.status), request.method) for request in server.requests)
        # Streams that were refused are watches, as those that are open: they are not timed.
        assert times == collections.Counter(request.method for request in server.requests if not request.watch)
        server.answer_next(1, 429, retry_after=1, when=lambda request: request.path.endswith("/services"))
        server.close_watches()
        server.wait(lambda: rest_client()[0].get(("429", "GET")) == 1)


def test_requests_without_an_answer_are_counted(server, start):
    with start():
        prove_watches(server)
        assert ("<error>", "GET") not in rest_client()[0]
        server.stop()
        server.wait(lambda: rest_client()[0].get(("<error>", "GET"), 0) > 0)


def test_one_streamed_request_is_list_and_watch(server, start):
    with start():
        watching(server)
        server.put(endpoint_slice("10.1.0.1"))
        server.wait(lambda: table() == {WEB: ONE})
        for plural in ("services", "endpointslices", "nodes"):
            [request] = server.asked(plural)
            query = dict(request.query)
            assert 300 <= int(query.pop("timeoutSeconds")) <= 600
            assert query.pop("resourceVersionMatch") == "NotOlderThan"
            for name in ("watch", "sendInitialEvents", "allowWatchBookmarks"):
                assert query.pop(name) == "true"
            assert not set(query) - {"labelSelector", "fieldSelector"}
        assert counter("lists", "services") == counter("lists", "nodes") == 1
        assert counter("watch_events", "endpointslices") == 1
        assert counter("watch_resumes", "services") == counter("request_failures", "services") == 0


def test_explain_asks_the_daemon(server, start):
    with start():
        for what, status, word in (("10.96.0.10:80", 0, "of shop/web, port http"), ("10.96.0.10:81", 2, "rejected"),
                                   ("shop/nothing", 2, "no such Service")):
            done = explain(what)
            assert (done.returncode, done.stderr) == (status, "")
            assert word in done.stdout.splitlines()[0]
        server.delete("Service", "shop", "web")
        server.wait(lambda: explain("shop/web").returncode == 2)


@pytest.mark.in_both
@pytest.mark.parametrize("streaming", ["refused", "old store"])
def test_list_then_watch(server, start, streaming):
    """A server that does not stream gets lists; nobody needs to hear of that."""
    server.api.streaming = streaming
    with start() as daemon:
        watching(server)
        for plural in ("services", "endpointslices"):
            stream, first, second = server.asked(plural)
            assert "sendInitialEvents" in stream.query
            assert not first.watch and second.watch
            assert first.query["resourceVersion"] == "0" and first.query["limit"] == "500"
            assert second.query["resourceVersion"] == str(server.store.version)
            assert second.query["allowWatchBookmarks"] == "true"
            assert "sendInitialEvents" not in second.query
            assert 300 <= int(second.query["timeoutSeconds"]) <= 600
        assert not daemon.lines(" (warn|error) ")
        assert counter("lists", "services") == 1 and counter("watch_resumes", "services") == 0


@pytest.mark.in_both
def test_stream_cut_before_its_end(server, start):
    """Nothing of it is taken, and it is asked for again at once."""
    server.put(service("db", "10.96.0.20", 5432))
    server.cut_next(1, 1, when=lambda request: request.path.endswith("/services"))
    with start() as daemon:
        watching(server)
        assert rejected() == {DB}
        first, second = server.asked("services")
        assert "sendInitialEvents" in first.query and "sendInitialEvents" in second.query
        assert "resourceVersion" not in second.query
        assert len(daemon.lines("listed resource=services objects=2")) == 1
        assert not daemon.lines(" (warn|error) ")


def test_selectors_and_headers(server, start):
    """Exactly those of kube-proxy 1.36, on lists and on watches."""
    with start():
        watching(server)
        for request in server.asked("services"):
            assert request.query["labelSelector"] == "!service.kubernetes.io/service-proxy-name"
            assert request.query["fieldSelector"] == FIELDS
        for request in server.asked("endpointslices"):
            assert request.query["labelSelector"] == "!service.kubernetes.io/headless"
            assert "fieldSelector" not in request.query
        assert server.asked("nodes")
        for request in server.asked("nodes"):
            assert request.query["fieldSelector"] == "metadata.name=node-a"
            assert "labelSelector" not in request.query
        for request in server.requests:
            assert request.headers["accept"] == "application/vnd.kubernetes.protobuf,application/json"
            assert request.headers["user-agent"].startswith("kube-nftd/")


@pytest.mark.parametrize("flags,accept,came", [
    ((), "application/vnd.kubernetes.protobuf,application/json", "protobuf"),
    (("--kube-api-content-type", "application/json"), "application/json", "json"),
    (("--config", "config.yaml"), "application/json;q=0.5", "json"),
])
def test_encoding_by_kube_proxys_settings(server, tmp_path, flags, accept, came):
    """The settings say what is asked for; the log, a counter, status and explain say what came."""
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
    (tmp_path / "config.yaml").write_text(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
        f"clientConnection: {{kubeconfig: {kubeconfig}, acceptContentTypes: '{accept}'}}\n")
    flags = [str(tmp_path / flag) if flag == "config.yaml" else flag for flag in flags]
    with Daemon(tmp_path, kubeconfig, *flags) as daemon:
        watching(server)
        server.wait(lambda: daemon.lines(f"listed resource=services objects=1 encoding={came}"))
        assert {request.headers["accept"] for request in server.requests} == {accept}
        with urllib.request.urlopen(METRICS, timeout=20) as answer:
            page = answer.read().decode()
        assert re.findall(r'^kube_nftd_received_bytes_total\{encoding="(\w+)",resource="services"\} [1-9]', page,
                          re.MULTILINE) == [came]
        kinds = ("Service", "EndpointSlice", "ServiceCIDR", "Node")
        server.wait(lambda: list(encodings().values()) == [came] * 4)
        told = json.loads(explain("shop/web", "-o", "json").stdout)
        assert told["encodings"] == dict.fromkeys(kinds, came)


def test_all_watches_on_one_http2_connection(server, start):
    with start():
        watching(server)
        server.wait(lambda: server.asked("nodes", watch=True))
        watches = [request for request in server.requests if request.watch]
        assert {request.protocol for request in watches} == {"HTTP/2"}
        assert len({request.connection for request in watches}) == 1


@pytest.mark.in_both
def test_http1_does_too(server, start):
    server.stop()
    server.http2 = False
    server.start()
    with start():
        watching(server)
        server.put(endpoint_slice("10.1.0.1"))
        server.wait(lambda: table() == {WEB: ONE})
        assert {request.protocol for request in server.requests} == {"HTTP/1.1"}


def test_changes_arrive_within_a_second(server, start):
    with start():
        watching(server)
        server.put(endpoint_slice("10.1.0.1"))
        server.wait(lambda: table() == {WEB: ONE})
        server.put(service("db", "10.96.0.20", 5432), endpoint_slice("10.1.0.9", name="db"))
        server.wait(lambda: table() == {WEB: ONE, DB: {("10.1.0.9", 8080)}})
        server.put(endpoint_slice(name="db"))
        server.wait(lambda: table() == {WEB: ONE} and rejected() == {DB})
        server.delete("Service", "shop", "db")
        server.wait(lambda: not rejected())
        for plural in ("services", "endpointslices"):
            assert len(all_anew(server, plural)) == 1


@pytest.mark.in_both
def test_leaving_the_selector_is_a_deletion(server, start):
    with start():
        watching(server)
        server.put(service(labels={"service.kubernetes.io/service-proxy-name": ""}))
        server.wait(lambda: table() == {})
        server.put(service())
        server.wait(lambda: table() == {WEB: TWO})


@pytest.mark.in_both
def test_token_file_replaced_after_401(server, start, tmp_path):
    token = tmp_path / "token"
    token.write_text(server.token)
    with start(user={"tokenFile": token}) as daemon:
        prove_watches(server)
        server.api.tokens = {"new-token": apiserver.USER}
        server.close_watches()
        server.wait(lambda: [r for r in server.asked("services") if r.status == 401])
        replacement = tmp_path / "token.new"
        replacement.write_text("new-token\n")
        os.replace(replacement, token)
        since = len(server.requests)
        server.put(endpoint_slice("10.1.0.1"))
        watching(server, since)
        server.wait(lambda: table() == {WEB: ONE})
        assert not all_anew(server, "services", since)
        assert len(daemon.lines("list services.*401")) == 1


def test_client_certificate_files(server, start, certs):
    files = {"client-certificate": certs / "client.crt", "client-key": certs / "client.key"}
    with start(user=files):
        assert {request.client_cert for request in server.requests} == {"system:kube-proxy"}
        assert not any("authorization" in request.headers for request in server.requests)


def test_inline_data(server, start, certs):
    with start(user={"client-certificate-data": pki.inline(certs / "client.crt"),
                     "client-key-data": pki.inline(certs / "client.key")},
               cluster={"certificate-authority-data": pki.inline(certs / "ca.crt")}):
        assert {request.user for request in server.requests} == {"system:kube-proxy"}


def test_bad_ca_is_retried_and_said_once(server, tmp_path):
    other = pki.make(tmp_path / "other")
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig",
                                   cluster={"certificate-authority": other / "ca.crt"})
    with Daemon(tmp_path, kubeconfig) as daemon:
        server.wait(lambda: daemon.lines("services.*(certificate|SSL)"))
        time.sleep(0.5)  # the first try of every kind
        first = server.accepted
        server.wait(lambda: server.accepted > first)
        time.sleep(0.5)
        assert len(daemon.lines("services.*(certificate|SSL)")) == 1
        assert not server.requests and not table()


@pytest.mark.in_both
def test_restart_with_the_same_history_resumes(server, start):
    """No list: the watch goes on from the last resourceVersion, and brings what happened."""
    with start():
        prove_watches(server)
        version = str(server.store.version)
        server.stop()
        since = len(server.requests)
        server.put(endpoint_slice("10.1.0.1"))
        time.sleep(0.3)
        assert table() == {WEB: TWO}
        server.start()
        server.wait(lambda: table() == {WEB: ONE})
        watching(server, since)
        assert not all_anew(server, since=since)
        assert {r.query["resourceVersion"] for r in server.asked(watch=True, since=since)} <= {
            version, str(server.store.version)}
        for resource in ("services", "endpointslices"):
            assert counter("lists", resource) == 1 and counter("watch_resumes", resource) >= 1


@pytest.mark.in_both
def test_bookmarks_move_the_version_on(server, start):
    with start():
        prove_watches(server)
        since = len(server.requests)
        server.close_watches()
        watching(server, since)
        assert {request.query["resourceVersion"] for request in server.asked(watch=True, since=since)} == {
            str(server.store.version)}


@pytest.mark.in_both
def test_410_lists_again_and_applies_what_was_missed(server, start):
    server.put(service("db", "10.96.0.20", 5432), endpoint_slice("10.1.0.9", name="db"))
    with start(expected={WEB: TWO, DB: {("10.1.0.9", 8080)}}):
        prove_watches(server)
        server.stop()
        since = len(server.requests)
        server.delete("Service", "shop", "db")
        server.delete("EndpointSlice", "shop", "db-x")
        server.put(endpoint_slice("10.1.0.1"))
        server.start(fresh_history=True)
        server.wait(lambda: table() == {WEB: ONE} and not rejected())
        watching(server, since)
        [request] = all_anew(server, "services", since)
        assert "resourceVersion" in request.query
        assert counter("lists", "services") == 2


@pytest.mark.in_both
def test_a_version_from_the_future_is_left_out(server, start):
    """As after the store was restored from a backup: the server will not have that version for long."""
    with start():
        prove_watches(server)
        server.stop()
        since = len(server.requests)
        server.call(server.store.expire)
        server.store.version -= 3  # below what the watches have seen
        server.put(endpoint_slice("10.1.0.1"))
        server.start()
        server.wait(lambda: table() == {WEB: ONE}, 15)
        assert any("resourceVersion" not in request.query
                   for request in all_anew(server, "endpointslices", since))


@pytest.mark.in_both
def test_410_in_an_open_watch_is_answered_at_once(server, start):
    with start() as daemon:
        prove_watches(server)
        server.expire_history()
        with without_waiting(daemon):
            server.close_watches()
            server.put(endpoint_slice("10.1.0.1"))
            server.wait(lambda: table() == {WEB: ONE})
        assert not daemon.lines(" error ")


@pytest.mark.in_both
def test_server_down_leaves_the_table(server, start):
    with start() as daemon:
        prove_watches(server)
        server.stop()
        refused = "cannot list services: Failed to connect"
        server.wait(lambda: daemon.lines(refused))
        time.sleep(2)  # a retry at least
        assert table() == {WEB: TWO}
        assert len(daemon.lines(refused)) == 1
        server.put(endpoint_slice("10.1.0.1"))
        server.start()
        server.wait(lambda: table() == {WEB: ONE}, 15)


@pytest.mark.in_both
def test_server_down_at_the_start(server, tmp_path):
    kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
    server.stop()
    with Daemon(tmp_path, kubeconfig) as daemon:
        server.wait(lambda: daemon.lines("cannot list services"))
        server.start()
        server.wait(lambda: table() == {WEB: TWO})


@pytest.mark.in_both
def test_bad_object_keeps_the_last_good_version(server, start):
    with start() as daemon:
        watching(server)
        server.put(service(port=99999))
        server.put(service("db", "10.96.0.20", 5432), endpoint_slice("10.1.0.9", name="db"))
        server.wait(lambda: DB in table())  # the others go on
        assert table()[WEB] == TWO
        [line] = daemon.lines("99999|out of range")
        for part in ("Service", "shop/web", "spec.ports[0].port"):
            assert part in line
        server.put(service(port=81))
        server.wait(lambda: ("10.96.0.10", "tcp", 81) in table() and WEB not in table())


@pytest.mark.in_both
def test_bad_object_in_the_first_list(server, start):
    server.put(service("bad", "10.96.0.30", 99999))
    with start() as daemon:
        assert daemon.lines(r"Service shop/bad.*spec\.ports\[0\]\.port")


@pytest.mark.in_both
@pytest.mark.parametrize("size", [1, 7])
def test_bytes_may_be_split_anywhere(server, start, size):
    server.drip(size)
    with start():
        watching(server)
        server.put(endpoint_slice("10.1.0.1"))
        server.wait(lambda: table() == {WEB: ONE})


@pytest.mark.in_both
def test_an_event_cut_in_half_is_taken_when_it_comes_again(server, start):
    with start():
        prove_watches(server)
        since = len(server.requests)
        server.close_watches("mid-event")
        server.put(endpoint_slice("10.1.0.1"))
        server.wait(lambda: table() == {WEB: ONE})
        assert not all_anew(server, "endpointslices", since)


@pytest.mark.in_both
@pytest.mark.parametrize("how", ["clean", "reset"])
def test_closed_watches_are_opened_again(server, start, how):
    with start() as daemon:
        prove_watches(server)
        since = len(server.requests)
        server.close_watches(how)
        watching(server, since)
        assert not all_anew(server, since=since)
        server.put(endpoint_slice("10.1.0.1"))
        server.wait(lambda: table() == {WEB: ONE})
        assert how == "reset" or not daemon.lines(" (warn|error) ")


def many(count):
    return [service(f"s{number}", f"10.96.1.{number}") for number in range(count)]


@pytest.mark.in_both
def test_paged_list(server, start):
    server.api.streaming = "refused"
    server.api.page_limit = 3
    server.put(*many(8), *(endpoint_slice("10.1.0.1", name=f"s{n}") for n in range(8)))
    expected = {WEB: TWO, **{(f"10.96.1.{number}", "tcp", 80): ONE for number in range(8)}}
    with start(expected=expected):
        pages = server.asked("services", watch=False)
        assert len(pages) == 3
        assert all("continue" in page.query and "resourceVersion" not in page.query
                   for page in pages[1:])


@pytest.mark.in_both
def test_a_page_that_expired_starts_the_list_again(server, start):
    server.api.streaming = "refused"
    server.api.page_limit = 3
    server.put(*many(8))
    server.answer_next(1, 410, when=lambda r: "continue" in r.query and "services" in r.path)
    with start():
        assert len(rejected()) == 8
        [_, expired, whole] = server.asked("services", watch=False)
        assert expired.status == 410 and "limit" not in whole.query


@pytest.mark.in_both
def test_forbidden_is_said_once_with_the_missing_right(server, start):
    with start() as daemon:
        prove_watches(server)
        server.api.denied.add("services")
        server.close_watches()
        server.wait(lambda: len([r for r in server.asked("services") if r.status == 403]) > 1)
        [line] = daemon.lines("services.*403")
        assert "verb=list" in line and "resource=services" in line
        server.put(endpoint_slice("10.1.0.1"))  # the other kind goes on
        server.wait(lambda: table() == {WEB: ONE})


def test_status_names_the_watch_that_is_refused(server, start):
    def status():
        done = subprocess.run([BINARY, "status", "-o", "json"], check=False, capture_output=True, text=True, timeout=20)
        return done.returncode, json.loads(done.stdout)

    with start():
        prove_watches(server)
        server.wait(lambda: status()[0] == 0)
        source = status()[1]["source"]
        assert source["from"].startswith("https://") and source["heardSeconds"] < 20
        watches = {watch["resource"]: watch for watch in source["watches"]}
        assert watches["services"]["state"] == "watching" and watches["services"]["lists"] == 1
        server.api.denied.add("services")
        server.close_watches()
        server.wait(lambda: status()[0] == 1)
        code, answer = status()
        assert not answer["well"] and any(text.startswith("services: ") for text in answer["problems"])


@pytest.mark.in_both
def test_service_cidrs(server, start):
    """Together they are one set of ranges; a range stays until the last that holds it is gone."""
    server.put(service_cidr("kubernetes", "10.96.0.0/12", "fd00:10:96::/112"))
    with start():
        server.wait(lambda: service_cidrs() == {"10.96.0.0/12"})
        prove_watches(server)
        server.put(service_cidr("inside", "10.100.0.0/16"), service_cidr("next", "10.112.0.0/16"))
        server.wait(lambda: service_cidrs() == {"10.96.0.0-10.112.255.255"})
        server.delete("ServiceCIDR", None, "kubernetes")
        server.wait(lambda: service_cidrs() == {"10.100.0.0/16", "10.112.0.0/16"})
        assert not {"labelSelector", "fieldSelector"} & {
            name for request in server.asked("servicecidrs") for name in request.query}
        assert table() == {WEB: TWO}


@pytest.mark.in_both
@pytest.mark.parametrize("status", [403, 404])
def test_service_cidrs_are_not_needed(server, start, status):
    """A server may lack them, and a role the right to them. Said once, and taken when they come."""
    withheld = server.api.denied if status == 403 else server.api.hidden
    withheld.add("servicecidrs")
    server.put(service_cidr("kubernetes", "10.96.0.0/12"))
    with start() as daemon:
        server.wait(lambda: len(server.asked("servicecidrs")) > 4, 15)
        [line] = daemon.lines("servicecidrs")
        assert (" warn " in line and "verb=list resource=servicecidrs" in line) if status == 403 else (
            " info " in line and "networking.k8s.io/v1" in line)
        assert bool(counter("request_failures", "servicecidrs")) == (status == 403)
        assert not service_cidrs()
        server.put(endpoint_slice("10.1.0.1"))
        server.wait(lambda: table() == {WEB: ONE})
        withheld.clear()
        server.wait(lambda: service_cidrs() == {"10.96.0.0/12"}, 15)


@pytest.mark.in_both
def test_bad_service_cidr_keeps_the_last_good_version(server, start):
    server.put(service_cidr("kubernetes", "10.96.0.0/12"))
    with start() as daemon:
        server.wait(lambda: service_cidrs() == {"10.96.0.0/12"})
        prove_watches(server)
        server.put(service_cidr("kubernetes", "10.96.0.0/99"))
        server.wait(lambda: daemon.lines("ServiceCIDR kubernetes: spec.cidrs.0.: "))
        assert service_cidrs() == {"10.96.0.0/12"}


def test_a_late_node_object_takes_nothing_away(server, start):
    """A restart finds the node ports of the run before, and keeps them until the Node was asked for."""
    port = {"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080}
    exposed = service()
    exposed["spec"] |= {"type": "NodePort", "ports": [port]}
    server.put(exposed)
    with_node_port = {WEB: TWO, (NODE_ADDRESS, "tcp", 30080): TWO}
    with start(expected=with_node_port):
        prove_watches(server)
    server.answer_next(1, 429, retry_after=2, when=lambda r: r.path.endswith("/nodes"))
    with start(expected=with_node_port) as daemon:
        server.wait(lambda: daemon.lines("family=IPv4 applied"))
        [line] = daemon.lines("family=IPv4 applied")
        assert "added=0 deleted=0" in line


@pytest.mark.in_both
def test_retry_after_is_kept(server, start):
    with start():
        prove_watches(server)
        server.answer_next(1, 429, retry_after=2, when=lambda r: r.path.endswith("/services"))
        since = len(server.requests)
        server.close_watches()
        server.wait(lambda: len(server.asked("services", since=since)) == 3)
        first, second, watch = server.asked("services", since=since)
        assert first.status == 429 and second.time - first.time >= 2
        assert watch.watch and watch.query["resourceVersion"] == str(server.store.version)


def test_the_table_outlives_the_daemon(start):
    daemon = start()
    assert daemon.stop() == 0
    assert table() == {WEB: TWO}


def test_dump_rules(server, tmp_path):
    """The dump lists everything, needs no rights, and loads with nft."""
    server.put(service("db", "10.96.0.20", 5432))
    text = dump_rules(server.kubeconfig(tmp_path / "kubeconfig"))
    assert not table()
    subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)
    assert table() == {WEB: TWO} and rejected() == {DB}


@pytest.mark.in_both
def test_dump_has_service_cidrs(server, tmp_path):
    server.put(service_cidr("kubernetes", "10.96.0.0/12"))
    text = dump_rules(server.kubeconfig(tmp_path / "kubeconfig"))
    subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)
    assert service_cidrs() == {"10.96.0.0/12"}
