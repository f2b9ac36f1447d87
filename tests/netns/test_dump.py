# SPDX-License-Identifier: GPL-2.0-or-later
"""--dump-rules and netlink say the same: the dump, loaded by stock nft into one namespace, and what the
daemon programs into another list identically."""

import pathlib
import re
import typing

import pytest

import objects
from daemon import Daemon, Monitor, call, sorted_elements, without_elements
from lab import CLUSTER_NETWORK, FAMILIES, HOST_LENGTH, NODE_ADDRESS, NODE_NAME, OTHER_NODE_NAME, POD_NETWORK
from lab import Namespace, writes_other_user_data
from objects import Port

BOTH = {4: "10.96.0.{}", 6: "fd00:10:96::{}"}
POD = {4: "10.244.0.{}", 6: "fd00:10:244::{}"}
VIP = {4: "203.0.113.{}", 6: "2001:db8:5::{}"}
SOURCES = {4: ["192.0.2.0/24", "192.0.2.7/32", "198.18.0.0/15"], 6: ["2001:db8:1::/64", "2001:db8:3::1/128"]}
SERVICE_CIDRS = [["10.96.0.0/16", "fd00:10:96::/112"], ["10.96.128.0/17"], ["10.100.0.0/24"]]
POD_CIDRS = ("--cluster-cidr", ",".join(CLUSTER_NETWORK.values()))
LOCALHOST = ("--feature-gates", "KubeProxyNFTablesLocalhostNodePorts=true")


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


def vips(number: int, families: typing.Iterable[int]) -> list[str]:
    return [VIP[family].format(number) for family in families]


def exposed(
    name: str, number: int, spec: dict, count: int = 3, here: int = 1, families: typing.Iterable[int] = FAMILIES
) -> list[dict]:
    """A service that outsiders reach on every kind of address, with @count endpoints, @here of them on this
    node, and a second port without a node port."""
    ports = [Port("http", "TCP", 80), Port("dns", "UDP", 53)]
    service, *slices = backed(name, number, ports, count, families)
    service["spec"].update({"type": "LoadBalancer", "externalIPs": vips(number, families), **spec})
    service["spec"]["ports"][0]["nodePort"] = 30000 + number
    service["status"]["loadBalancer"] = {"ingress": [{"ip": vip} for vip in vips(100 + number, families)]}
    for held in slices:
        for endpoint in held["endpoints"][here:]:
            endpoint["nodeName"] = OTHER_NODE_NAME
    return [service, *slices]


def affinity(seconds: int) -> dict:
    return {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": seconds}}}


def sticky(number: int, families: typing.Iterable[int]) -> list[dict]:
    """Every kind of service with session affinity."""
    both = {"internalTrafficPolicy": "Local", "externalTrafficPolicy": "Local"}
    kinds = [{}, {"externalTrafficPolicy": "Local"}, both]
    return [
        made
        for place, kind in enumerate(kinds)
        for made in exposed(f"sticky-{place}", number + place, {**kind, **affinity(10 ** (place + 2))},
                            count=4, here=place, families=families)
    ]  # fmt: skip


def outsiders() -> list[dict]:
    """Every kind of service, just without session affinity; and ServiceCIDRs."""
    ranges = [cidr for family in FAMILIES for cidr in SOURCES[family]]
    local = {"externalTrafficPolicy": "Local"}
    return [
        *exposed("cluster", 1, {}),
        *exposed("local", 2, local, here=2),
        *exposed("elsewhere", 3, local, here=0),
        *exposed("empty", 4, local, count=0),
        *exposed("inside", 5, {"internalTrafficPolicy": "Local"}),
        *exposed("inside-elsewhere", 6, {"internalTrafficPolicy": "Local"}, here=0),
        *exposed("guarded", 7, {"loadBalancerSourceRanges": ranges}),
        *(objects.service_cidr(f"cidrs-{number}", cidrs) for number, cidrs in enumerate(SERVICE_CIDRS)),
    ]


def all_kinds() -> list[dict]:
    """At least one element in each map and set of IPv4. Stock nft cannot load session affinity of IPv6."""
    return [*outsiders(), *sticky(60, families=(4,))]


def all_kinds_of_both() -> list[dict]:
    return [*outsiders(), *sticky(60, families=FAMILIES)]


def large() -> list[dict]:
    """More elements than one netlink attribute holds (64 KiB)."""
    port = [Port("http", "TCP", 80)]
    return [
        made
        for number in range(1, 201)
        for made in backed(f"s{number}", number, port, 10, families=(4,) if number % 2 else (4, 6))
    ]


class Case(typing.NamedTuple):
    make: typing.Callable[[], list[dict]]
    flags: tuple[str, ...] = ()


class Source(typing.NamedTuple):
    """What a daemon is started with."""

    folder: pathlib.Path
    flags: tuple[str, ...] = ()


CASES = {
    "empty": Case(lambda: []),
    "one service": Case(lambda: backed("web", 1, [Port("", "TCP", 80)], 3)),
    "one family only": Case(lambda: backed("web", 1, [Port("", "TCP", 80)], 3, families=(6,))),
    "protocols and counts": Case(many_counts),
    "rejects": Case(rejects),
    "large": Case(large),
    "all kinds": Case(all_kinds, POD_CIDRS),
    "no detector": Case(all_kinds),
    "node CIDR": Case(all_kinds, ("--detect-local-mode", "NodeCIDR")),
    "bridge": Case(all_kinds, ("--detect-local-mode", "BridgeInterface", "--pod-bridge-interface", "cni0")),
    "prefix": Case(
        all_kinds, ("--detect-local-mode", "InterfaceNamePrefix", "--pod-interface-name-prefix", "veth")
    ),
    "connections counted": Case(all_kinds, (*POD_CIDRS, "--count-connections", "endpoints")),
    "loopback addresses": Case(all_kinds, (*POD_CIDRS, *LOCALHOST)),
    "masquerade all": Case(all_kinds, (*POD_CIDRS, "--masquerade-all")),
    "other node ports": Case(outsiders, ("--nodeport-addresses", "192.0.2.0/24,2001:db8::/32")),
}


def put_objects(folder: pathlib.Path, case: Case) -> Source:
    manifests = objects.Manifests(folder)
    manifests.put("node", objects.node(podCIDRs=[*POD_NETWORK.values()]))
    manifests.put("objects", *case.make())
    return Source(manifests.folder, case.flags)


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def source(request, tmp_path) -> Source:
    return put_objects(tmp_path / "manifests", request.param)


@pytest.fixture
def namespaces():
    """Two of them, both with the node's addresses: node ports answer on those that are there."""
    made = [Namespace(), Namespace()]
    for namespace in made:
        for family in FAMILIES:
            namespace.ip(f"addr add {NODE_ADDRESS[family]}/{HOST_LENGTH[family]} dev lo")
    yield made
    for namespace in made:
        namespace.close()


def dump(namespace: Namespace, source: Source) -> str:
    options = ["--manifests", str(source.folder), "--hostname-override", NODE_NAME, *source.flags]
    done = call(namespace, *options, "--dump-rules")
    assert done.returncode == 0, done.stderr
    return done.stdout


def listing(namespace: Namespace, nft: str = "nft") -> str:
    done = namespace.run(nft, "list", "ruleset")  # fails unless it exits with 0
    assert done.stderr == ""
    return done.stdout


def load(namespace: Namespace, text: str, nft: str = "nft") -> None:
    namespace.run(nft, "-f", "-", stdin=text)


# What nft loads has no owner.
EVERYBODYS = ("--table-owner", "off")


def program(namespace: Namespace, source: Source, log: pathlib.Path) -> None:
    daemon = Daemon(namespace, source.folder, log, (*EVERYBODYS, *source.flags))
    daemon.start()
    print(daemon.last_words())
    assert daemon.stop() == 0


def test_dump_equals_netlink(source, namespaces, tmp_path):
    loaded, programmed = namespaces
    text = dump(loaded, source)
    for _ in range(2):  # loading it again replaces what is there
        load(loaded, text)
    program(programmed, source, tmp_path / "log")
    assert sorted_elements(listing(loaded)) == sorted_elements(listing(programmed))


def test_a_dump_replaces_another(namespaces, tmp_path):
    """Loading a dump where another one is in force leaves nothing of that."""
    once, twice = namespaces
    texts = []
    for name, make in (("first", all_kinds), ("second", rejects)):
        texts.append(dump(once, put_objects(tmp_path / name, Case(make))))
    load(once, texts[1])
    load(twice, texts[0])
    load(twice, texts[1])
    assert sorted_elements(listing(once)) == sorted_elements(listing(twice))


def test_the_dump_is_the_same_each_time(source, namespaces):
    assert dump(namespaces[0], source) == dump(namespaces[1], source)


def test_every_map_and_set_is_compared(namespaces, tmp_path):
    """But those that packets fill."""
    text = dump(namespaces[0], put_objects(tmp_path / "manifests", Case(all_kinds, (*POD_CIDRS, *LOCALHOST))))
    table = text[: text.index("table ip6 kube-nftd {")]
    blocks = re.findall(r"^\s*(?:map|set) (\S+) \{(.*?)^\s*\}$", table, re.DOTALL | re.MULTILINE)
    filled = re.findall(r"^add element ip kube-nftd (\S+)", text, re.MULTILINE)
    empty = {name for name, body in blocks if "elements" not in body and name not in filled}
    assert len(blocks) >= 20
    assert empty == {"affinity", "service_connections", "endpoint_connections", "localhost_connections"}


def test_a_service_more_changes_no_shape(namespaces, tmp_path):
    """Two object sets with the same counts of endpoints differ in elements only."""
    port = [Port("http", "TCP", 80)]
    for number, namespace in enumerate(namespaces, 1):
        manifests = objects.Manifests(tmp_path / str(number))
        manifests.put("objects", *[made for n in range(number) for made in backed(f"s{n}", n + 1, port, 3)])
        program(namespace, Source(manifests.folder), tmp_path / "log")
    one, two = map(listing, namespaces)
    assert one != two
    assert without_elements(one) == without_elements(two)


# ---- nft of several versions ----------------------------------------------------------------------

ALL_KINDS = pytest.mark.parametrize("source", [Case(all_kinds, POD_CIDRS)], ids=["all kinds"], indirect=True)
ALL_KINDS_OF_BOTH = pytest.mark.parametrize(
    "source", [Case(all_kinds_of_both, POD_CIDRS)], ids=["all kinds of both families"], indirect=True
)


@ALL_KINDS
@pytest.mark.parametrize("loaded", ["a dump", "a saved listing"])
def test_a_table_that_nft_loaded_is_adopted(source, namespaces, tmp_path, nft, loaded):
    """Loaded at boot, say. The daemon takes it over as it is and sends nothing; but for one with a newer nft's user
    data, which makes nft 1.0.6 crash: it is replaced."""
    booted, programmed = namespaces
    for namespace in namespaces:
        namespace.nft = nft
    program(programmed, source, tmp_path / "log")
    text = dump(booted, source) if loaded == "a dump" else listing(programmed, nft)
    load(booted, text, nft)
    daemon = Daemon(booted, source.folder, tmp_path / "booted.log", (*EVERYBODYS, *source.flags))
    with Monitor(booted) as monitor:
        daemon.start()
    assert daemon.stop() == 0
    replaced = daemon.log().count(" replacing the table: ")
    assert replaced + daemon.log().count(" adopted the table ") == 2
    assert replaced == 0 if not writes_other_user_data(nft) else all("user data" in line for line in daemon.log().splitlines()
                                                  if " replacing the table: " in line)
    assert (monitor.lines == []) == (replaced == 0)
    assert sorted_elements(listing(booted, nft)) == sorted_elements(listing(programmed, nft))


@ALL_KINDS
def test_nft_programs_take_turns(source, namespaces, tmp_path, newer_nft):
    """A newer nft lists the daemon's table as before after the stock one listed it, and after that one
    replaced it."""
    namespace = namespaces[0]
    program(namespace, source, tmp_path / "log")
    stock, newer = listing(namespace), listing(namespace, newer_nft)
    assert listing(namespace) == stock
    assert listing(namespace, newer_nft) == newer
    load(namespace, dump(namespace, source))
    assert sorted_elements(listing(namespace)) == sorted_elements(stock)
    assert sorted_elements(listing(namespace, newer_nft)) == sorted_elements(newer)


def newer_reads_the_same(source, namespaces, log, newer_nft) -> None:
    loaded, programmed = namespaces
    load(loaded, dump(loaded, source), newer_nft)
    program(programmed, source, log)
    assert sorted_elements(listing(loaded, newer_nft)) == sorted_elements(listing(programmed, newer_nft))


def test_a_newer_nft_reads_the_same(source, namespaces, tmp_path, newer_nft):
    """Loads the dump and lists the daemon's table, and says the same about both."""
    newer_reads_the_same(source, namespaces, tmp_path / "log", newer_nft)


@ALL_KINDS_OF_BOTH
def test_a_newer_nft_reads_the_same_of_both_families(source, namespaces, tmp_path, newer_nft):
    newer_reads_the_same(source, namespaces, tmp_path / "log", newer_nft)


@ALL_KINDS_OF_BOTH
def test_stock_nft_lists_what_it_cannot_load(source, namespaces, tmp_path):
    """Session affinity of IPv6. The dump says so."""
    program(namespaces[0], source, tmp_path / "log")
    text = listing(namespaces[0])
    for ip in ("ip", "ip6"):
        assert f"update @affinity {{ meta priority & ffff:8000 . {ip} saddr" in text
    assert re.search(r"^#.* nft .*1\.", dump(namespaces[0], source), re.MULTILINE)
