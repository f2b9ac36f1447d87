# SPDX-License-Identifier: GPL-2.0-or-later
"""--dump-rules and netlink say the same: the dump, loaded by stock nft into one namespace, and what the
daemon programs into another list identically."""

import pathlib

import pytest

import objects
from daemon import Daemon, Monitor, call, sorted_elements, without_elements
from lab import NODE_NAME, Namespace
from objects import Port

BOTH = {4: "10.96.0.{}", 6: "fd00:10:96::{}"}
POD = {4: "10.244.0.{}", 6: "fd00:10:244::{}"}


def addresses(number: int, families=(4, 6)) -> dict[int, str]:
    return {family: BOTH[family].format(number) for family in families}


def backed(name: str, number: int, ports: list[Port], count: int, families=(4, 6)) -> list[dict]:
    """A service with @count endpoints in each family, and its slices."""
    made = [objects.service(name, addresses(number, families), ports)]
    targets = [port._replace(number=8000 + port.number) for port in ports]
    for family in families:
        endpoints = [objects.endpoint(POD[family].format(pod)) for pod in range(1, count + 1)]
        made.append(objects.endpoint_slice(f"{name}-{family}", name, family, targets, endpoints))
    return made


def many_counts() -> list[dict]:
    ports = [Port("t", "TCP", 80), Port("u", "UDP", 53), Port("s", "SCTP", 99)]
    counts = [1, 2, 3, 5, 8, 13, 17, 100]
    return [made for number, count in enumerate(counts, 1) for made in backed(f"n{count}", number, ports, count)]


def rejects() -> list[dict]:
    ports = [Port("http", "TCP", 80), Port("dns", "UDP", 53)]
    failing = [objects.endpoint(POD[4].format(1), "failing")]
    return [
        objects.service("bare", addresses(1), ports),
        objects.service("failing", addresses(2), ports),
        objects.endpoint_slice("failing-1", "failing", 4, ports, failing),
        *backed("served", 3, ports, 2),
    ]


def all_kinds() -> list[dict]:
    """At least one element in each map and set."""
    return [*many_counts(), objects.service("bare", addresses(20), [Port("http", "TCP", 80)])]


def large() -> list[dict]:
    """More elements than one netlink attribute holds (64 KiB)."""
    port = [Port("http", "TCP", 80)]
    return [
        made
        for number in range(1, 201)
        for made in backed(f"s{number}", number, port, 10, families=(4,) if number % 2 else (4, 6))
    ]


CASES = {
    "empty": lambda: [],
    "one service": lambda: backed("web", 1, [Port("", "TCP", 80)], 3),
    "one family only": lambda: backed("web", 1, [Port("", "TCP", 80)], 3, families=(6,)),
    "protocols and counts": many_counts,
    "rejects": rejects,
    "large": large,
}


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def folder(request, tmp_path) -> pathlib.Path:
    manifests = objects.Manifests(tmp_path / "manifests")
    manifests.put("node", objects.node())
    manifests.put("objects", *request.param())
    return manifests.folder


@pytest.fixture
def namespaces():
    made = [Namespace(), Namespace()]
    yield made
    for namespace in made:
        namespace.close()


def dump(namespace: Namespace, folder: pathlib.Path) -> str:
    done = call(namespace, "--manifests", str(folder), "--hostname-override", NODE_NAME, "--dump-rules")
    assert done.returncode == 0, done.stderr
    return done.stdout


def listing(namespace: Namespace, nft: str = "nft") -> str:
    done = namespace.run(nft, "list", "ruleset")  # fails unless it exits with 0
    assert done.stderr == ""
    return done.stdout


def program(namespace: Namespace, folder: pathlib.Path, log: pathlib.Path) -> None:
    daemon = Daemon(namespace, folder, log)
    daemon.start()
    print(daemon.last_words())
    assert daemon.stop() == 0


def test_dump_equals_netlink(folder, namespaces, tmp_path):
    loaded, programmed = namespaces
    text = dump(loaded, folder)
    for _ in range(2):  # loading it again replaces what is there
        loaded.run("nft", "-f", "-", stdin=text)
    program(programmed, folder, tmp_path / "log")
    assert sorted_elements(listing(loaded)) == sorted_elements(listing(programmed))


def test_a_dump_replaces_another(namespaces, tmp_path):
    """Loading a dump where another one is in force leaves nothing of that."""
    once, twice = namespaces
    texts = []
    for name, made in (("first", many_counts()), ("second", rejects())):
        manifests = objects.Manifests(tmp_path / name)
        manifests.put("objects", *made)
        texts.append(dump(once, manifests.folder))
    once.run("nft", "-f", "-", stdin=texts[1])
    twice.run("nft", "-f", "-", stdin=texts[0])
    twice.run("nft", "-f", "-", stdin=texts[1])
    assert sorted_elements(listing(once)) == sorted_elements(listing(twice))


def test_the_dump_is_the_same_each_time(folder, namespaces):
    assert dump(namespaces[0], folder) == dump(namespaces[1], folder)


def test_a_service_more_changes_no_shape(namespaces, tmp_path):
    """Two object sets with the same counts of endpoints differ in elements only."""
    port = [Port("http", "TCP", 80)]
    for number, namespace in enumerate(namespaces, 1):
        manifests = objects.Manifests(tmp_path / str(number))
        manifests.put("objects", *[made for n in range(number) for made in backed(f"s{n}", n + 1, port, 3)])
        program(namespace, manifests.folder, tmp_path / "log")
    one, two = map(listing, namespaces)
    assert one != two
    assert without_elements(one) == without_elements(two)


# ---- nft of several versions ----------------------------------------------------------------------

ALL_KINDS = pytest.mark.parametrize("folder", [all_kinds], ids=["all kinds"], indirect=True)


@ALL_KINDS
@pytest.mark.parametrize("source", ["a dump", "a saved listing"])
def test_a_table_that_nft_loaded_is_adopted(folder, namespaces, tmp_path, nft, source):
    """Loaded at boot, say. The daemon takes it over as it is and sends nothing."""
    booted, programmed = namespaces
    for namespace in namespaces:
        namespace.nft = nft
    program(programmed, folder, tmp_path / "log")
    text = dump(booted, folder) if source == "a dump" else listing(programmed, nft)
    booted.run(nft, "-f", "-", stdin=text)
    daemon = Daemon(booted, folder, tmp_path / "booted.log")
    with Monitor(booted) as monitor:
        daemon.start()
    assert monitor.lines == []
    assert daemon.stop() == 0
    assert daemon.log().count(" adopted the table ") == 2
    assert sorted_elements(listing(booted, nft)) == sorted_elements(listing(programmed, nft))


@ALL_KINDS
def test_nft_programs_take_turns(folder, namespaces, tmp_path, newer_nft):
    """A newer nft lists the daemon's table as before after the stock one listed it, and after that one
    replaced it."""
    namespace = namespaces[0]
    program(namespace, folder, tmp_path / "log")
    stock, newer = listing(namespace), listing(namespace, newer_nft)
    assert listing(namespace) == stock
    assert listing(namespace, newer_nft) == newer
    namespace.run("nft", "-f", "-", stdin=dump(namespace, folder))
    assert sorted_elements(listing(namespace)) == sorted_elements(stock)
    assert sorted_elements(listing(namespace, newer_nft)) == sorted_elements(newer)


def test_a_newer_nft_reads_the_same(folder, namespaces, tmp_path, newer_nft):
    """Loads the dump and lists the daemon's table, and says the same about both."""
    loaded, programmed = namespaces
    loaded.run(newer_nft, "-f", "-", stdin=dump(loaded, folder))
    program(programmed, folder, tmp_path / "log")
    assert sorted_elements(listing(loaded, newer_nft)) == sorted_elements(listing(programmed, newer_nft))
