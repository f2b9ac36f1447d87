# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts of backends go up and down all the time while new flows come as fast as the kernel takes them. A packet
reads the count and then the slot, and a commit may fall between: no packet may be left without a backend."""

import http.client
import json
import re
import subprocess
import time

import pytest

import daemon
import objects
from daemon import BINARY, wait_for
from lab import CLIENT_ADDRESS, POD_PORTS, Lab
from scenario import Proxy, Web

# The last backend goes, the first one, most of them, all but one; and they come again.
STATES = ["abc", "ab", "abc", "bc", "abcd", "d", "abc", "c", "abcd", "bd", "cd", "a"]
CHANGES = 800
PACKETS = 100_000_000  # as many as the sender takes: it is ended before
COUNTS = 250  # of backends
SOME_COUNTS = [*range(2, 40), *range(40, COUNTS + 1, 3)]  # 250 is one
# Across the powers of two from which on numbers share a chain, and far up and down.
AROUND_OCTAVES = [31, 32, 33, 32, 31, 63, 64, 65, 64, 63, 127, 129, 128, 33, 200, 40, 1, 65, 2, 250, 31]
REPLACEMENTS = 20  # of the table, or of its rules
LEAST_RATE = 50  # packets for each change, or it would prove little
TRIM_EVERY = 300  # changes; then slots that are not in use have time to go
TRIM_SECONDS = 0.25

# Counts by what came of a packet just after translation, and drops all: conntrack never holds an entry of it, so
# each packet is a new flow, and the table does not fill.
TABLE = """
table ip witness {{
    counter found {{ }}
    counter missed {{ }}
    chain prerouting {{
        type filter hook prerouting priority -95;
        ip protocol udp ip daddr {{ {addresses} }} counter name missed drop
        iifname client udp dport {port} counter name found drop
    }}
}}
"""


class Witness:
    """New flows come from the client to port 80 of @webs, whose addresses follow each other, until the with-block
    ends. .found and .missed count what came of them."""

    def __init__(self, lab: Lab, webs: list[Web]) -> None:
        self.lab = lab
        self.webs = webs
        self.found = self.missed = 0

    def __enter__(self) -> "Witness":
        node = self.lab.node
        addresses = ", ".join(web.address for web in self.webs)
        node.run("nft", "-f", "-", stdin=TABLE.format(addresses=addresses, port=POD_PORTS[0]))
        [link] = json.loads(node.run("ip", "-json", "link", "show", "client").stdout)
        argv = [str(BINARY.parent / "tests/bench_send"), "eth0", link["address"], CLIENT_ADDRESS[4],
                self.webs[0].address, "80", str(len(self.webs)), "60000", str(PACKETS)]  # fmt: skip
        self.sender = self.lab.client.start(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_for(lambda: self.count("found") > 0, "packets come")
        return self

    def __exit__(self, *_) -> None:
        ended = self.sender.poll()
        self.sender.kill()
        self.sender.wait()
        self.found, self.missed = self.count("found"), self.count("missed")
        assert ended is None, "it sent to the end of it"

    def count(self, name: str) -> int:
        listing = self.lab.node.run("nft", "list", "counter", "ip", "witness", name).stdout
        return int(re.search(r"packets (\d+)", listing)[1])


class Changer:
    """Says which endpoints services have and waits until that is in force, with little CPU."""

    def __init__(self, proxy: Proxy, webs: list[Web]) -> None:
        self.manifests = proxy.manifests
        self.webs = webs
        self._count = 0
        self.shrinks = 0
        self._version = 100
        self._page = http.client.HTTPConnection("127.0.0.1", 10249, timeout=10)
        with proxy.lab.node.inside():
            self._page.connect()

    def put(self, addresses: list[str]) -> None:
        self._version += 1
        slices = [web.as_slice({}) for web in self.webs]
        for each in slices:
            each["metadata"]["resourceVersion"] = str(self._version)
            each["endpoints"] = [objects.endpoint(address) for address in addresses]
        self.manifests.put("slices", *slices)
        deadline = time.monotonic() + 10
        while not self.in_force():
            assert time.monotonic() < deadline, f"{addresses} are not in force"
            time.sleep(0.0005)
        self.shrinks += len(addresses) < self._count
        self._count = len(addresses)

    def in_force(self) -> bool:
        self._page.request("GET", f"/programmed?namespace=default&service={self.webs[-1].name}")
        told = json.loads(self._page.getresponse().read())
        versions = [each["inKernel"].get("IPv4") for each in told.get("endpointSlices", [])]
        return versions == [str(self._version)]


def two_services(proxy: Proxy) -> list[Web]:
    """One is led to its backends by one map, one by another."""
    webs = [Web(proxy, 4, "UDP", "plain"), Web(proxy, 4, "UDP", "here")]
    for web, spec in zip(webs, ({}, {"internalTrafficPolicy": "Local"})):
        web.put_service(**spec)
    return webs


def test_counts_go_up_and_down(proxy):
    lab = proxy.lab
    states = [[lab.pods[pod].address[4] for pod in pods] for pods in STATES]
    webs = two_services(proxy)
    changer = Changer(proxy, webs)
    changer.put(states[0])
    with Witness(lab, webs) as witness:
        for number in range(1, CHANGES):
            changer.put(states[number % len(states)])
            if number % TRIM_EVERY == 0:
                changer.put(states[-1])
                time.sleep(TRIM_SECONDS)
    print(f"{changer.shrinks} shrinks of {len(webs)} services under {witness.found} new flows")
    assert witness.missed == 0
    assert changer.shrinks > CHANGES / 3
    assert witness.found > LEAST_RATE * CHANGES


def picks(lab: Lab) -> set[str]:
    return set(re.findall(r"chain ((?:local-)?pick-\S+)", lab.node.run("nft", "list", "chains", "ip").stdout))


def verdicts(lab: Lab) -> str:
    return lab.node.run("nft", "list", "map", "ip", "kube-nftd", "picks").stdout


def test_counts_that_the_table_never_had(proxy):
    """Each below 32 makes a chain, larger ones share some, and these stay. For each larger one there is a verdict, which
    goes when it is not in use any more."""
    webs = two_services(proxy)
    changer = Changer(proxy, webs)
    addresses = [f"10.244.0.{number}" for number in range(1, COUNTS + 1)]
    changer.put(addresses[:1])
    chains = {f"{kind}pick-{number}" for kind in ("", "local-") for number in range(1, 32)}
    chains |= {f"{kind}pick-from-{number}" for kind in ("", "local-") for number in (32, 64, 128) if number <= COUNTS}
    with Witness(proxy.lab, webs) as witness:
        for number in SOME_COUNTS:
            changer.put(addresses[:number])
        changer.put(addresses[:1])
        wait_for(lambda: len(re.findall("goto", verdicts(proxy.lab))) == 31, "verdicts that nothing uses go", 40)
        assert picks(proxy.lab) == chains
    gone = map(int, re.findall(r" deleted unused chains instances=(\d+)", proxy.daemon.log()))
    assert sum(gone) >= len(webs) * len([number for number in SOME_COUNTS if number > 31])
    print(f"{len(SOME_COUNTS)} counts of {len(webs)} services under {witness.found} new flows")
    assert witness.missed == 0
    assert witness.found > LEAST_RATE * len(SOME_COUNTS)


def test_counts_around_powers_of_two(proxy):
    """From 32 on, those of the same octave share a chain, which draws again where no slot is."""
    webs = two_services(proxy)
    changer = Changer(proxy, webs)
    addresses = [f"10.244.0.{number}" for number in range(1, COUNTS + 1)]
    changer.put(addresses[:1])
    with Witness(proxy.lab, webs) as witness:
        for number in range(200):
            n = AROUND_OCTAVES[number % len(AROUND_OCTAVES)]
            changer.put(addresses[number % 7 : number % 7 + n] if n < 240 else addresses)
            if number % TRIM_EVERY == 50:
                time.sleep(TRIM_SECONDS)
    print(f"{changer.shrinks} shrinks of {len(webs)} services under {witness.found} new flows")
    assert witness.missed == 0
    assert witness.found > LEAST_RATE * 200


OTHERS = {"other settings": "rewrote rules", "another version": "replacing a table that has other maps or sets"}


@pytest.mark.parametrize("predecessor", OTHERS)
def test_a_table_of_others(lab, tmp_path, monkeypatch, predecessor):
    """By each daemon that follows another one, its rules are written anew or the table is replaced. A packet that is on
    its way when the kernel turns from the ones to the others meets the rules of one of them."""
    proxy = Proxy(lab, tmp_path, "--table-owner", "off")
    binary, own = daemon.BINARY, proxy.daemon.flags
    other = tmp_path / "another-version"  # it knows its tables by another word
    other.write_bytes(binary.read_bytes().replace(b"kube-nftd layout ", b"kube-nftd Layout "))
    other.chmod(0o755)
    proxy.daemon.start()
    try:
        webs = two_services(proxy)
        Changer(proxy, webs).put([lab.pods[pod].address[4] for pod in "abc"])
        with Witness(lab, webs) as witness:
            for number in range(REPLACEMENTS):
                proxy.daemon.stop()
                if predecessor == "other settings":
                    proxy.daemon.flags = own if number % 2 else (*own, "--iptables-masquerade-bit", "9")
                else:
                    monkeypatch.setattr(daemon, "BINARY", binary if number % 2 else other)
                proxy.daemon.start()
        print(f"{REPLACEMENTS} replacements under {witness.found} new flows")
        assert proxy.daemon.log().count(f" family=ip {OTHERS[predecessor]} ") == REPLACEMENTS
        assert witness.missed == 0
        assert witness.found > LEAST_RATE * REPLACEMENTS
    finally:
        print(proxy.daemon.last_words())
        proxy.close()


def with_a_chain_for_each_number(dump: str) -> str:
    """As the version before made the table, with the same elements."""
    old = re.sub(r" chain (local-)?pick-from-32 {.*?}\n", "", dump, flags=re.DOTALL)
    old = re.sub(r" chain (local-)?draw-from-32 {", r" chain \1pick-40 {", old)
    old = re.sub(r": goto (local-)?pick-from-32\b", r": goto \1pick-40", old).replace("mod 64 ", "mod 40 ")
    assert old.count("pick-40") == 4 and "from-32" not in re.sub("#.*", "", old)
    return old


def test_a_table_with_a_chain_for_each_number(lab, tmp_path):
    """Its elements stay, and no packet is lost while they are led to other chains."""
    proxy = Proxy(lab, tmp_path, "--table-owner", "off")
    proxy.daemon.start()
    found = 0
    try:
        webs = two_services(proxy)
        Changer(proxy, webs).put([f"10.244.0.{number}" for number in range(1, 41)])
        dump = daemon.call(
            lab.node, "--manifests", str(proxy.manifests.folder), "--hostname-override", "node-a", "--dump-rules"
        ).stdout
        for _ in range(REPLACEMENTS):
            proxy.daemon.stop()
            lab.node.run("nft", "-f", "-", stdin=with_a_chain_for_each_number(dump))
            with Witness(lab, webs) as witness:
                proxy.daemon.start()
                assert picks(lab) == {"pick-from-32", "local-pick-from-32"}
            assert witness.missed == 0
            found += witness.found
        print(f"{REPLACEMENTS} replacements under {found} new flows")
        assert proxy.daemon.log().count(" family=ip rewrote rules ") == REPLACEMENTS
        assert " replacing " not in proxy.daemon.log()
        assert found > LEAST_RATE * REPLACEMENTS
    finally:
        print(proxy.daemon.last_words())
        proxy.close()
