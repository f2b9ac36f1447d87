# SPDX-License-Identifier: GPL-2.0-or-later
"""Every recording of ../recordings and ../recordings-protobuf is given to the daemon (replay.py), and recordings.tsv
says what it has to make of it, by what the README of the recordings and docs/behaviour.md 10 ask for:

    request      what the recording is the answer to: the daemon's own request of that kind
    next         what it asks for next of that resource: stream, list, page or watch; a choice of them with
                 commas, * for any, none where the recorded connection stays open
    version      the resourceVersion of that request; - for none, * for any
    wait         before it: - for none, backoff, or at least so many seconds as Retry-After said
    lists ...    by how much its counters for the resource grow with the recording
    log          what it says, as a pattern; it warns of nothing where it is "-" or begins with "info"

What is in force afterwards is computed from the recorded objects, see expected().
"""

import functools
import ipaddress
import pathlib
import re
import time
import urllib.error
import urllib.request

import pytest

import pki
import recordings
import replay
import side_by_side
from harness import (HEALTHZ, Daemon, encodings, endpoint_slice, figures, node, own_network, rejected, service,
                     service_cidr, service_cidrs, table)

EXPECTED = {row["recording"]: row for row in recordings.read_table(pathlib.Path(__file__).parent / "recordings.tsv")}
COUNTERS = {"lists": "lists", "resumes": "watch_resumes", "events": "watch_events", "bad_objects": "bad_objects",
            "bad_answers": "bad_answers", "failures": "request_failures"}
PATIENCE = 40.0  # s, for what should take two at most (or as long as Retry-After says)
SHORTEST_BACKOFF = 0.8
GOOD = [*range(1, 21), *range(23, 53), *range(56, 61), *range(90, 97), 98, 112, *range(200, 206), *range(207, 211),
        214, 215]


@pytest.fixture(name="outcome", scope="module")
def run_cases(request, tmp_path_factory):
    """Runs the recordings side by side, each in a network of its own."""
    certs = pki.make(tmp_path_factory.mktemp("certs"))
    yield from side_by_side.run(request, tmp_path_factory, functools.partial(run_case, certs))


def test_every_recording_has_an_expectation():
    assert list(EXPECTED) == list(replay.index())


@pytest.mark.parametrize("name", replay.index())
def test_index_agrees_with_the_answers(name):
    """Each is given as the answer to what the table says, with nothing added or left out."""
    recorded = replay.recordings(name)
    assert EXPECTED[name]["request"] == f"{recorded[0].kind} {recorded[0].resource}"
    for answer, row in zip(recorded, replay.index()[name]):
        assert (answer.status() or "-") == row["status"]
        sent = sum(map(len, answer.pieces())) if not answer.http2 else sum(answer.frame_sizes())
        assert sent == len(answer.body)


def test_good_recordings_hold_no_bad_objects():
    for number in GOOD:
        [row] = [row for name, row in EXPECTED.items() if name.startswith(f"{number:03}-")]
        assert (row["bad_objects"], row["bad_answers"]) == ("0", "0" if number != 89 else "1")


@pytest.mark.parametrize("case", replay.index())
def test_recording(outcome, case):
    outcome(case)


def run_case(certs, name, folder):
    """One recording and one run of the daemon."""
    first = replay.recordings(name)[0]
    with own_network():
        server = replay.Replay(certs, name, known(first), beside(first), figures)
        try:
            kubeconfig = pki.write_kubeconfig(
                folder / "kubeconfig", server.url,
                {} if server.plain else {"certificate-authority": certs / "ca.crt"}, {"token": "a-token"})
            with Daemon(folder, kubeconfig, node=first.node_name()) as daemon:
                wait_for_nothing_wrong(server, daemon, EXPECTED[name])
        finally:
            server.close()


def wait_for_nothing_wrong(server, daemon, row):
    deadline = time.monotonic() + PATIENCE
    while found := list(wrong(server, daemon, row)):
        if time.monotonic() > deadline or not daemon.alive():
            raise AssertionError("\n".join(found + [str(request) for request in server.log]))
        time.sleep(0.03)


def wrong(server, daemon, row):
    """What is not (yet) as it should be."""
    if server.unexpected:
        yield f"asked for before the recording: {server.unexpected}"
    if server.before is None or (server.ended is None and row["next"] != "none"):
        yield f"the recording is not served yet, left to do: {[kind for kind, _ in server.steps]}"
        return
    yield from wrong_next(server, row)
    yield from wrong_wait(server, daemon, row)
    yield from wrong_figures(server, row)
    yield from wrong_log(server, daemon, row)
    yield from wrong_encoding(server)
    yield from wrong_state(server, row)


def wrong_next(server, row):
    asked = server.after[:1]
    if row["next"] == "none" or not asked:
        if asked or row["next"] != "none":
            yield f"next: {asked}, expected {row['next']}"
        return
    kind, version = asked[0].kind, asked[0].query.get("resourceVersion", "-")
    if row["next"] != "*" and kind not in row["next"].split(","):
        yield f"next: {kind}, expected {row['next']}"
    if row["version"] not in ("*", version):
        yield f"next {kind} from {version}, expected {row['version']}"
    if len(server.after) > 1:
        yield f"asked more than once at a time: {server.after}"
    if kind == "page" and not server.answers[-1].leads_to(asked[0].query["continue"]):
        yield f"next page by {asked[0].query['continue']}"


def wrong_wait(server, daemon, row):
    """That nothing was waited for shows in the log: on a busy machine everything takes its time."""
    waited = re.findall(rf"source: {server.resource}[^:]*: backing off", daemon.log())
    if row["wait"] == "-":
        if waited:
            yield f"{len(waited)} waits, expected none"
        return
    if len(waited) != 1:
        yield f"{len(waited)} waits, expected one"
    least = SHORTEST_BACKOFF if row["wait"] == "backoff" else float(row["wait"].removesuffix(" s"))
    if server.after and server.after[0].time - server.ended < least:
        yield f"waited {server.after[0].time - server.ended} s, expected {least} at least"


def wrong_figures(server, row):
    now = figures()
    for column, name in COUNTERS.items():
        grown = now[name, server.resource] - server.before[name, server.resource]
        if grown != int(row[column]):
            yield f"{name} grew by {grown}, expected {row[column]}"


def wrong_log(server, daemon, row):
    pattern = row["log"]
    if pattern != "-" and not daemon.lines(pattern):
        yield f"the log does not say {pattern}"
    if pattern == "-" or pattern.startswith("info"):
        for said in daemon.lines(rf" (warn|error) .*{server.resource}"):
            yield f"the log says {said}"


def wrong_encoding(server):
    """status names that of the last answer, which is the recording."""
    encoding = "protobuf" if server.first.is_protobuf else "json"
    if server.first.status() == "200" and encodings()[server.resource] != encoding:
        yield f"not in {encoding}: {encodings()}"


# What is in force

def known(first):
    """The object of the resource that there was before the recording."""
    version = {"resourceVersion": "1"}
    obj = {"services": service("known", "10.222.0.1", 80), "endpointslices": endpoint_slice("10.222.1.1", name="known"),
           "servicecidrs": service_cidr("known", "10.222.0.0/24"), "nodes": node(first.node_name())}[first.resource]
    return {**obj, "metadata": {**obj["metadata"], **version}}


def beside(first):
    """For EndpointSlices the Services that they belong to, each with the ports that any of its slices has."""
    if first.resource != "endpointslices":
        return {}
    answers = replay.recordings(first.folder.split("/")[0])
    slices = [known(first)] + [obj for answer in answers for _, obj in answer.objects()]
    ports = {}
    for obj in slices:
        owner = owner_of(obj)
        if owner:
            found = ports.setdefault(owner, {})
            for port in obj.get("ports") or []:
                found.setdefault((port.get("name", ""), port.get("protocol", "TCP")), 1000 + len(found))
    return {"services": [make_service(owner, number, found) for number, (owner, found) in enumerate(ports.items())]}


def owner_of(obj):
    """(namespace, name) of the Service of a slice, or None. Selectors are left to the server."""
    name = (obj["metadata"].get("labels") or {}).get("kubernetes.io/service-name")
    return (obj["metadata"]["namespace"], name) if name else None


def make_service(owner, number, ports):
    made = service(owner[1], f"10.223.{number // 250}.{number % 250 + 1}", namespace=owner[0])
    made["spec"]["ports"] = [{"name": name or None, "protocol": protocol, "port": port}
                             for (name, protocol), port in ports.items()] or made["spec"]["ports"]
    return made


def final_objects(server, row):
    """{(namespace, name): object} of the resource behind the recording, by the table and the recording."""
    objects = {}
    if server.first.kind == "watch" or server.first.version() is not None:
        objects = {key_of(server.known): server.known}
    if row["lists"] == "1":
        objects = {}
    if row["lists"] == "1" or server.first.kind == "watch":
        for answer in server.answers:
            for kind, obj in answer.objects():
                if kind in ("ADDED", "MODIFIED"):
                    objects[key_of(obj)] = obj
                elif kind == "DELETED":
                    objects.pop(key_of(obj), None)
    return objects


def key_of(obj):
    return obj["metadata"].get("namespace"), obj["metadata"]["name"]


def wrong_state(server, row):
    want, have = {"services": services_state, "endpointslices": slices_state, "servicecidrs": cidrs_state,
                  "nodes": node_state}[server.resource](server, final_objects(server, row))
    if want != have:
        yield f"in force: {without(have, want)}, expected {without(want, have)}"


def without(some, other):
    """What of @some is not the same in @other."""
    if isinstance(some, dict):
        return {key: value for key, value in some.items() if other.get(key) != value}
    return some - other if isinstance(some, set) else some


def services_state(server, objects):
    """Which ports of cluster IPs of the recording are served or refused."""
    seen = [obj for answer in server.answers for _, obj in answer.objects()] + [server.known]
    addresses = {address for obj in seen for address in cluster_ips(obj)}
    have = {frontend for frontend in {*table(), *rejected()} if frontend[0] in addresses}
    want = {(address, port.get("protocol", "TCP").lower(), port["port"]) for obj in objects.values()
            for address in cluster_ips(obj) for port in obj["spec"]["ports"]}
    return want, have


def cluster_ips(obj):
    """The IPv4 ones of a Service."""
    return [address for address in obj["spec"].get("clusterIPs") or [] if re.match(r"[\d.]+$", address)]


def slices_state(server, objects):
    """The endpoints of each service port: of all slices of the Service, those that are ready; if there is none,
    those that serve while they end. Ports that a slice leaves open are left out."""
    want, have = {}, table()
    for made in server.beside["services"]:
        mine = [obj for obj in objects.values()
                if obj["addressType"] == "IPv4" and owner_of(obj) == key_of(made)]
        for port in made["spec"]["ports"]:
            frontend = (made["spec"]["clusterIP"], port["protocol"].lower(), port["port"])
            want[frontend] = endpoints_of(mine, port)
            have.setdefault(frontend, set())
    return want, {frontend: have[frontend] for frontend in want}


def endpoints_of(slices, port):
    merged = {}
    for obj in slices:
        for slice_port in obj.get("ports") or []:
            if (slice_port.get("name") or None, slice_port.get("protocol", "TCP"), True) != (
                    port["name"], port["protocol"], "port" in slice_port):
                continue
            for endpoint in obj.get("endpoints") or []:
                conditions = endpoint.get("conditions") or {}
                ready = conditions.get("ready", True)
                ending = conditions.get("serving", ready) and conditions.get("terminating", False)
                key = (endpoint["addresses"][0], slice_port["port"])
                merged.setdefault(key, []).append((ready, ending))
    ready = {key for key, copies in merged.items() if any(copy[0] for copy in copies)}
    return ready or {key for key, copies in merged.items() if any(copy[1] for copy in copies)}


def cidrs_state(_, objects):
    """The IPv4 ranges as one set of addresses, whatever they are cut into."""
    want = [ipaddress.ip_network(cidr) for obj in objects.values() for cidr in obj["spec"]["cidrs"] if ":" not in cidr]
    have = []
    for text in service_cidrs():
        first, _, last = text.partition("-")
        have += ipaddress.summarize_address_range(
            *map(ipaddress.ip_address, (first, last))) if last else [ipaddress.ip_network(text)]
    return list(ipaddress.collapse_addresses(want)), list(ipaddress.collapse_addresses(have))


def node_state(server, objects):
    """/healthz: 200 with a Node that is to stay, 503 without."""
    mine = objects.get((None, server.first.node_name()))
    want = 200 if mine and "deletionTimestamp" not in mine["metadata"] else 503
    try:
        with urllib.request.urlopen(f"http://{HEALTHZ}/healthz", timeout=20) as answer:
            return want, answer.status
    except urllib.error.HTTPError as error:
        return want, error.code
