# SPDX-License-Identifier: GPL-2.0-or-later
"""The log: what one event may write, and a standard error that nobody reads."""

import fcntl
import json
import os
import re
import signal

import pytest

import objects
from daemon import Daemon, http_get, wait_for
from lab import Namespace
from objects import Port

HTTP = [Port("http", "TCP", 80)]
FEW = 24  # the claims that were lost and those that were won: ten of each, and how many more
SHARED = 2000
REST = re.compile(r"conflicts=(\d+) of frontends changed")
MORE = re.compile(r"\(and (\d+) more of this kind\)")


@pytest.fixture
def node():
    node = Namespace()
    yield node
    node.close()


def claiming(name: str, address: str, created: str) -> dict:
    shared = [f"192.0.{n // 250}.{n % 250 + 1}" for n in range(SHARED)]
    service = objects.service(name, {4: address}, HTTP, externalIPs=shared)
    service["metadata"]["creationTimestamp"] = created
    return service


def slice_of(name: str, *addresses: str) -> dict:
    return objects.endpoint_slice(f"{name}-1", name, 4, HTTP, [objects.endpoint(address) for address in addresses])


def message(line: str, form: str) -> str:
    return json.loads(line)["msg"] if form == "json" else line


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_flapping_endpoint_of_a_shared_address(node, tmp_path, form):
    """Who has the addresses changes with one endpoint."""
    manifests = objects.Manifests(tmp_path / "manifests")
    manifests.put("a", claiming("older", "10.96.0.1", "2026-01-01T00:00:00Z"), slice_of("older", "10.244.0.1"))
    manifests.put("b", claiming("newer", "10.96.0.2", "2026-01-02T00:00:00Z"), slice_of("newer", "10.244.0.2"))
    daemon = Daemon(node, manifests.folder, tmp_path / "log", ("--logging-format", form))
    daemon.start()

    def claims() -> list[str]:
        said = [message(line, form) for line in daemon.log().splitlines() if "policy" in line]
        return [line for line in said if "goes to service=" in line or "now belongs to" in line or REST.search(line)]

    wait_for(lambda: any(MORE.search(line) for line in claims()), "the start's claims are summed up")
    assert len(claims()) <= FEW
    before = len(claims())
    manifests.put("a", claiming("older", "10.96.0.1", "2026-01-01T00:00:00Z"), slice_of("older"))

    def told() -> int:
        """Of how many claims the change's lines tell."""
        lines = [line for line in claims()[before:] if not REST.search(line)]
        counts = [int(found[1]) for line in claims()[before:] for found in [MORE.search(line) or REST.search(line)] if found]
        return len(lines) + sum(counts)

    wait_for(lambda: told() == 2 * SHARED, lambda: f"so are those of the change: {told()}")
    assert len(claims()[before:]) <= FEW
    for kind in ("goes to service=default/newer", "now belongs to service=default/newer"):
        assert any(kind in line for line in claims()[before:])
    assert daemon.stop() == 0


def test_a_standard_error_that_nobody_reads(node, tmp_path):
    """The pipe is full when the daemon begins to write."""
    manifests = objects.Manifests(tmp_path / "manifests")
    manifests.put("web", objects.service("web", {4: "10.96.0.1"}, HTTP), slice_of("web", "10.244.0.1"))
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    filling = os.write(writer, b"x" * fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ))
    os.set_blocking(writer, True)
    daemon = Daemon(node, manifests.folder, tmp_path / "log")
    daemon.stderr = writer
    daemon.start()

    def dropped() -> float:
        page = http_get(node, "127.0.0.1", 10249, "/metrics")[2]
        return float(re.search(r"^kube_nftd_log_lines_dropped_total (\S+)$", page, re.MULTILINE)[1])

    lost = dropped()
    assert lost > 0
    assert os.get_blocking(writer), "it is others' too"
    while filling > 0:
        filling -= len(os.read(reader, filling))
    manifests.put("web", objects.service("web", {4: "10.96.0.2"}, HTTP), slice_of("web", "10.244.0.1"))
    wait_for(lambda: "10.96.0.2" in node.run("nft", "list", "map", "ip", "kube-nftd", "services").stdout, "it goes on")
    lost = dropped()
    text = os.read(reader, 65536).decode()
    first, *others = text.splitlines()
    assert re.fullmatch(rf"\S+ warn  log: dropped lines because .* lines={lost:.0f}", first), text
    assert any("loaded file=" in line for line in others)
    assert daemon.stop(signal.SIGTERM) == 0
    os.close(reader)
    os.close(writer)


def test_changes_are_named(node, tmp_path):
    """At -v 2 a commit's Services, at -v 4 each endpoint and what it makes of the service port; JSON has it in members."""
    manifests = objects.Manifests(tmp_path / "my manifests")
    manifests.put("web", objects.service("web", {4: "10.96.0.1"}, HTTP), slice_of("web", "10.244.0.1", "10.244.0.2"))
    daemon = Daemon(node, manifests.folder, tmp_path / "log", ("-v", "4", "--logging-format", "json"))
    daemon.start()

    def lines(logger: str, word: str) -> list[dict]:
        every = [json.loads(line) for line in daemon.log().splitlines()]
        return [line for line in every if line["logger"] == logger and word in line["msg"]]

    wait_for(lambda: lines("table", "applied"), "it is programmed")
    (loaded,) = lines("source", "loaded folder")
    assert loaded["folder"] == str(manifests.folder) and loaded["services"] == 1 and 'folder="' in loaded["msg"]
    (port,) = lines("policy", "endpoints=2")
    assert (port["service"], port["family"], port["local"]) == ("default/web:http", "IPv4", 0)
    (route,) = lines("policy", "policy=")
    assert (route["frontend"], route["service"], route["policy"]) == ("10.96.0.1:80/TCP", "default/web:http", "Cluster")
    unready = slice_of("web", "10.244.0.1", "10.244.0.2")
    unready["endpoints"][1]["conditions"] = {"ready": False}
    manifests.put("web", objects.service("web", {4: "10.96.0.1"}, HTTP), unready)
    wait_for(lambda: lines("table", "committed"), "that, too")
    change = lines("cache", "endpoint=10.244.0.2:80")[-1]
    assert (change["service"], change["before"], change["after"]) == ("default/web", "ready", "serving")
    joined = lines("policy", "joined=0 left=1")[-1]
    assert joined["service"] == "default/web:http" and joined["left"] == 1
    commit = lines("table", "committed")[0]
    assert commit["services"] == "default/web" and commit["deleted"] >= 0 and isinstance(commit["seconds"], float)
    many = [objects.service(f"s{i}", {4: f"10.96.1.{i}"}, HTTP) for i in range(1, 13)]
    manifests.put("many", *many)
    wait_for(lambda: any("more" in line for line in lines("table", "committed")), "so are these")
    commit = next(line for line in lines("table", "committed") if "more" in line)
    assert commit["services"] == ",".join(f"default/s{i}" for i in (1, 10, 11, 12, 2)) and commit["more"] == 7
    assert daemon.stop() == 0
