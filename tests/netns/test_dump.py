"""--dump-rules and netlink say the same: the dump, loaded by stock nft into one namespace, and what the
daemon programs into another list identically."""

import os
import pathlib
import subprocess

import pytest

import objects
from daemon import BINARY, Daemon, environment, sorted_elements, without_elements
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
    with namespace.inside():
        argv = [str(BINARY), "--manifests", str(folder), "--hostname-override", NODE_NAME, "--dump-rules"]
        done = subprocess.run(argv, capture_output=True, text=True, env=environment())
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


NEWER_NFT = os.environ.get("KUBE_NFTD_NEWER_NFT")


@pytest.mark.skipif(not NEWER_NFT, reason="a newer nft: see tests/netns/newer-nft")
def test_a_newer_nft_reads_the_same(folder, namespaces, tmp_path):
    """Loads the dump and lists the daemon's table, and says the same about both."""
    loaded, programmed = namespaces
    loaded.run(NEWER_NFT, "-f", "-", stdin=dump(loaded, folder))
    program(programmed, folder, tmp_path / "log")
    assert sorted_elements(listing(loaded, NEWER_NFT)) == sorted_elements(listing(programmed, NEWER_NFT))
