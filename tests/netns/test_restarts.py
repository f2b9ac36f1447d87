# SPDX-License-Identifier: GPL-2.0-or-later
"""Daemons that end, are killed, follow each other or run side by side: no connection notices."""

import contextlib
import json
import pathlib
import re
import signal
import socket
import struct
import time

import pytest

from connections import Kept, Steady
from daemon import HEALTH_PORT, START_SECONDS, Daemon, call, http_get, wait_for
from lab import FAMILIES, Namespace
from scenario import Proxy, Web

GOOD = {"a", "b", "c"}
TABLES = pathlib.Path(__file__).resolve().parent / "tables"
OTHER_MARK = ("--iptables-masquerade-bit", "9")  # makes other rules
NETLINK_NETFILTER = 12
NEW_GENERATION, GET_GENERATION = 10 << 8 | 15, 10 << 8 | 16  # of the subsystem nftables


def generation(namespace: Namespace) -> int:
    """How many transactions the kernel has taken: NFT_MSG_GETGEN."""
    with namespace.inside():
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    with sock:
        sock.send(struct.pack("=IHHIIBBH", 20, GET_GENERATION, 1, 1, 0, 0, 0, 0))
        answer = sock.recv(4096)
    # The headers of netlink and nfnetlink, then the first attribute: NFTA_GEN_ID.
    assert struct.unpack_from("=H", answer, 4)[0] == NEW_GENERATION
    assert struct.unpack_from("=HH", answer, 20) == (8, 1)
    return struct.unpack_from(">I", answer, 24)[0]


class Serving:
    """A service in each family and protocol under traffic: new connections at a steady pace, and some that stay."""

    def __init__(self, proxy: Proxy, *protocols: str) -> None:
        self.proxy = proxy
        self.webs = [
            Web(proxy, family, protocol, f"web{family}-{protocol.lower()}")
            for family in FAMILIES
            for protocol in protocols or ("TCP", "UDP")
        ]
        self.kept: list[Kept] = []
        self.steady: list[Steady] = []

    def publish(self, *pods: str) -> None:
        for web in self.webs:
            web.publish(*pods)

    def put(self, pods: str) -> None:
        """These endpoints and no others, in the kernel."""
        for web in self.webs:
            web.put_endpoints(**dict.fromkeys(pods, "ready"))
        for web in self.webs:
            web.settle(*pods)

    def hold(self) -> None:
        self.kept += [Kept(self.proxy.lab, web.address, web.protocol) for web in self.webs]

    def check(self) -> None:
        for each in self.kept:
            each.check()

    @contextlib.contextmanager
    def traffic(self):
        with contextlib.ExitStack() as stack:
            self.hold()
            self.steady = [
                stack.enter_context(Steady(self.proxy.lab, web.address, web.protocol, GOOD)) for web in self.webs
            ]
            yield
            for each in self.steady:
                each.wait_more(2)
            self.check()
        for each in self.steady:
            assert each.bad == []


@pytest.fixture
def proxy_with(lab, tmp_path):
    """Makes a proxy whose daemon has some flags and does not run yet."""
    made = []

    def make(*flags: str) -> Proxy:
        made.append(Proxy(lab, tmp_path, *flags))
        return made[-1]

    yield make
    for proxy in made:
        print(proxy.daemon.last_words())
        proxy.close()


@pytest.fixture(params=["auto", "off"])
def owner(request) -> str:
    if request.param == "auto":
        request.getfixturevalue("kept_tables")
    return request.param


@pytest.fixture
def following(lab, tmp_path):
    """Another daemon for the same node, with the same addresses for health checks and metrics; it does not run yet."""
    daemon = Daemon(lab.node, tmp_path / "manifests", tmp_path / "following.log", ("--table-owner", "off"))
    yield daemon
    print(daemon.last_words())
    if daemon.running():
        assert daemon.stop() == 0


def in_force(daemon: Daemon) -> bool:
    return daemon.log().count(" applied frontends=") == len(FAMILIES)


def settled_generation(namespace: Namespace, quiet: float) -> int:
    """The one that nothing follows for so long."""
    found, since = generation(namespace), time.monotonic()

    def settled() -> bool:
        nonlocal found, since
        now = generation(namespace)
        if now != found:
            found, since = now, time.monotonic()
        return time.monotonic() > since + quiet

    wait_for(settled, "nobody commits any more", 30)
    return found


# ---- one after the other --------------------------------------------------------------------------


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_a_restart(proxy_with, by, owner):
    proxy = proxy_with("--table-owner", owner)
    serving = Serving(proxy)
    proxy.daemon.start()
    serving.publish("a", "b")
    with serving.traffic():
        before = settled_generation(proxy.lab.node, 0.3)
        proxy.daemon.stop(by)
        serving.check()
        proxy.daemon.start()
        # Nothing is sent but who owns the tables.
        assert generation(proxy.lab.node) - before == (len(FAMILIES) if owner == "auto" else 0)
        serving.hold()
    assert proxy.daemon.log().count(" adopted the table ") == len(FAMILIES)


def elements(node: Namespace) -> list[str]:
    """Of all maps and sets, but those without a name."""
    text = "".join(node.run("nft", "list", "table", family, "kube-nftd").stdout for family in ("ip", "ip6"))
    return sorted(re.split(r",\s+", ",".join(re.findall(r"^\t\telements = {(.*?)}$", text, re.DOTALL | re.MULTILINE))))


def test_other_rules(proxy_with, owner):
    """As another version or other settings leave them: in one transaction, what differs is written anew. No element
    is sent, and the records of session affinity stay."""
    proxy = proxy_with("--table-owner", owner, *OTHER_MARK)
    serving = Serving(proxy)
    proxy.daemon.start()
    serving.publish("a", "b")
    node = proxy.lab.node
    for family in ("ip", "ip6"):
        address = {"ip": "198.51.100.9", "ip6": "2001:db8::9"}[family]
        proxy.daemon.stop()
        node.run("nft", f"add element {family} kube-nftd affinity {{ 1:0 . {address} timeout 1000s : 1:1 }}")
        proxy.daemon.start()
    with serving.traffic():
        before = settled_generation(node, 0.3)
        held = [re.sub(" (timeout|expires) .*? :", " :", element) for element in elements(node)]
        proxy.daemon.stop()
        proxy.daemon.flags = ("--table-owner", owner)
        proxy.daemon.start()
        # With an owner, one transaction each claims the table.
        assert generation(node) - before == (2 if owner == "auto" else 1) * len(FAMILIES)
        serving.hold()
    assert [re.sub(" (timeout|expires) .*? :", " :", element) for element in elements(node)] == held
    assert proxy.daemon.log().count(" rewrote rules ") == len(FAMILIES)
    assert "replacing a table" not in proxy.daemon.log()


def made_of_another(proxy: Proxy, serving: Serving) -> str:
    dump = call(
        proxy.lab.node, "--manifests", str(proxy.manifests.folder), "--hostname-override", "node-a", "--dump-rules"
    ).stdout
    return dump.replace('"kube-nftd layout ', '"kube-nftd layout 0')


def of_the_first_release(proxy: Proxy, serving: Serving) -> str:
    text = (TABLES / "0.1.0.nft").read_text()
    for web in serving.webs:
        text = text.replace(f"@{web.name}@", web.address)
    return text


@pytest.mark.parametrize("table", [made_of_another, of_the_first_release])
def test_a_table_of_another_layout(proxy_with, owner, table):
    """As another version leaves it that has other maps: it is replaced in one transaction, which another one
    prepares."""
    proxy = proxy_with("--table-owner", owner)
    node, serving = proxy.lab.node, Serving(proxy)
    proxy.daemon.start()
    serving.publish("a", "b")
    proxy.daemon.stop()
    assert call(node, "--cleanup").returncode == 0
    node.run("nft", "-f", "-", stdin=table(proxy, serving))
    with serving.traffic():
        before = settled_generation(node, 0.3)
        proxy.daemon.start()
        assert generation(node) - before == 2 * len(FAMILIES)
        serving.hold()
    assert proxy.daemon.log().count(" replacing a table that has other maps or sets ") == len(FAMILIES)


def test_a_table_with_chains_of_type_filter(proxy_with):
    """As an earlier version left it: known packets meet its chains until it is replaced, in one transaction."""
    proxy = proxy_with("--table-owner", "off")
    node, serving, sticky = proxy.lab.node, Serving(proxy), Web(proxy, 4, "TCP", "sticky")
    sticky_spec = {
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 1000}},
        "type": "LoadBalancer",
        "loadBalancerSourceRanges": ["192.0.2.0/24"],
    }
    vip = {"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.95"}]}}}
    proxy.manifests.put("sticky", sticky.as_service(**sticky_spec) | vip, sticky.as_slice(dict.fromkeys("ab", "ready")))
    for web in serving.webs:
        slice = web.as_slice(dict.fromkeys("ab", "ready"))
        proxy.manifests.put(web.name, web.as_service(), slice)
    text = (TABLES / "filter-chains.nft").read_text()
    for web in [*serving.webs, sticky]:
        text = text.replace(f"@{web.name}@", web.address)
    node.run("nft", "-f", "-", stdin=text)
    with serving.traffic():
        for each in serving.steady:
            each.wait_more(2)
        proxy.daemon.start()
        serving.hold()
    assert proxy.daemon.log().count(" replacing a table that has other maps or sets ") == len(FAMILIES)
    for family in FAMILIES:
        assert "type filter" not in proxy.tables[family].listing()


# ---- side by side, without an owner ---------------------------------------------------------------


def answers(node: Namespace) -> bool:
    answer = http_get(node, "127.0.0.1", HEALTH_PORT, "/livez")
    return answer is not None and answer[0] == 200


def test_two_side_by_side(proxy_with, following):
    """They take each other's changes for what they are about to make themselves."""
    proxy = proxy_with("--table-owner", "off")
    node, serving = proxy.lab.node, Serving(proxy, "TCP")
    proxy.daemon.start()
    serving.publish("a", "b")
    with serving.traffic():
        before = settled_generation(node, 0.3)
        following.launch()
        wait_for(lambda: in_force(following), "it has taken the tables over", START_SECONDS)
        assert generation(node) == before
        for pods in ("abc", "ac", "ab", "abc"):
            before = generation(node)
            serving.put(pods)
            # Each of them: a chain that is new, the change, what fell out of use.
            assert settled_generation(node, 0.3) - before <= 2 * 3 * len(FAMILIES)
        before = settled_generation(node, 1.5)  # longer than they leave each other alone
        serving.hold()
        assert proxy.daemon.stop() == 0
        wait_for(lambda: answers(node), "the other one listens at the ports that the first had")
        serving.put("ac")
        assert generation(node) != before
        serving.hold()
    for daemon in (proxy.daemon, following):
        assert "replacing a table" not in daemon.log()
        assert "with other settings" not in daemon.log()


def test_two_with_other_settings(proxy_with, following):
    """Neither can leave the other's table as it is. That gets rare, and the log says what is wrong."""
    proxy = proxy_with("--table-owner", "off")
    node, said = proxy.lab.node, "programs this table with other settings"
    proxy.daemon.start()
    following.flags = ("--table-owner", "off", *OTHER_MARK)
    following.launch()
    for daemon in (proxy.daemon, following):
        wait_for(lambda: daemon.log().count(said) >= len(FAMILIES), "each has made the rules anew", START_SECONDS)
    # After the next turn of each, 10 s would pass.
    assert settled_generation(node, 2) > 0
    following.stop()


# ---- nothing is left ------------------------------------------------------------------------------

DOCUMENTED = {"nf_conntrack_tcp_timeout_established", "nf_conntrack_tcp_timeout_close_wait"}
OTHERS = "table ip{} other {{ chain nat {{ type nat hook postrouting priority 300; meta l4proto 200 masquerade; }}; }}"


def traces(node: Namespace) -> dict[str, str]:
    """Everything of a network namespace that outlives a process."""
    found = {"rules": node.run("nft", "list", "ruleset").stdout, "sockets": node.run("ss", "-Hlntu").stdout}
    for what in ("link", "rule"):
        found[what] = node.run("ip", "-o", what).stdout
    with node.inside():
        for path in pathlib.Path("/proc/sys/net").rglob("*"):
            with contextlib.suppress(OSError):
                if path.is_file() and path.name != "nf_conntrack_count":
                    found[str(path)] = path.read_text()
    return found


def test_cleanup_leaves_no_trace(proxy_with):
    """Connections go on as long as anything on the node still translates addresses."""
    proxy = proxy_with()
    node, serving = proxy.lab.node, Serving(proxy, "TCP")
    for suffix in ("", "6"):
        node.run("nft", OTHERS.format(suffix))
    before = traces(node)
    proxy.daemon.start()
    serving.publish("a", "b")
    serving.hold()
    assert proxy.daemon.stop() == 0
    assert call(node, "--cleanup").returncode == 0
    after = traces(node)
    changed = {name.rsplit("/", 1)[-1] for name in before | after if before.get(name) != after.get(name)}
    assert node.run("nft", "list", "tables").stdout.count("table") == len(FAMILIES)
    assert changed <= DOCUMENTED
    serving.check()
    for web in serving.webs:
        assert web.ask() == "outside"


@pytest.mark.parametrize("flag", ["--masquerade-all", "--count-connections=services"])
def test_other_rules_while_objects_are_incomplete(proxy_with, flag):
    """The tables of the previous process get the rules of the new flags. That repairs nobody's changes; later on, it
    would."""
    proxy = proxy_with("--cluster-cidr=10.244.0.0/16", "--table-owner=off")
    web = Web(proxy, 4, "TCP")
    proxy.daemon.start()
    web.publish("a")
    proxy.daemon.stop()
    proxy.manifests.put_text("broken.yaml", "kind: [")
    proxy.daemon.flags = (*proxy.daemon.flags, flag)
    proxy.daemon.launch()
    wait_for(lambda: "rewrote rules of the previous process" in proxy.daemon.log(), "they are rewritten", START_SECONDS)
    assert "family=IPv4 repaired" not in proxy.daemon.log()
    assert [each["repairs"] for each in status_of(proxy)["families"]] == [0, 0]
    assert [each["state"] for each in status_of(proxy)["families"]] == ["previous", "waiting"]
    assert "whose Node object is not known" in call(proxy.lab.node, "status").stdout
    proxy.lab.node.run("nft", "flush chain ip kube-nftd port")
    wait_for(lambda: "table: family=IPv4 repaired" in proxy.daemon.log(), "they are repaired")
    assert status_of(proxy)["families"][0]["repairs"] == 1
    assert web.ask() == "a"
    (proxy.manifests.folder / "broken.yaml").unlink()
    proxy.daemon.wait_programmed()
    assert "Node         node-a, without a zone" in call(proxy.lab.node, "status").stdout


# ---- files that cannot be read at a restart -------------------------------------------------------


def cut(path: pathlib.Path) -> None:
    text = path.read_text()
    path.write_text(text[: len(text) // 2])


def replace_by_link(path: pathlib.Path) -> None:
    path.unlink()
    path.symlink_to("nowhere.json")


def replace_by_folder(path: pathlib.Path) -> None:
    path.unlink()
    path.mkdir()


def move_all_away(path: pathlib.Path) -> None:
    """As a volume that is not mounted."""
    path.parent.rename(path.parent.with_name("away"))
    path.parent.mkdir()


# What happens to the file of a Service, and what is said then. Nobody may read what belongs to nobody.
DAMAGES = {
    "cut off": (cut, "web-service.json: line"),
    "empty": (lambda path: path.write_text(""), "web-service.json: the file is empty"),
    "a link to nothing": (replace_by_link, "web-service.json: the link points to no file"),
    "unreadable": (lambda path: path.chmod(0), "web-service.json: cannot be opened: Permission denied"),
    "a folder": (replace_by_folder, "web-service.json: is not a regular file"),
    "no file at all": (move_all_away, "manifests: the folder has no manifests"),
}


def status_of(proxy: Proxy) -> dict:
    return json.loads(call(proxy.lab.node, "status", "-o", "json").stdout)


def readiness(proxy: Proxy) -> tuple[int, str]:
    answer = http_get(proxy.lab.node, "127.0.0.1", HEALTH_PORT, "/readyz")
    return (answer[0], answer[2]) if answer else (0, "")


@pytest.mark.parametrize("damage,message", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_file_that_cannot_be_read(proxy_with, damage, message):
    """Nothing is removed because of it, nor changed, and it is named; once it can be read, everything is as the files
    say."""
    proxy = proxy_with()
    webs = [Web(proxy, family, "TCP", name) for family, name in ((4, "web"), (6, "other"))]
    proxy.daemon.start()
    for web in webs:
        web.publish("a")
    proxy.daemon.stop()
    before = elements(proxy.lab.node)
    file = proxy.manifests.folder / "web-service.json"
    damage(file)
    if file.parent.joinpath("other-slice.json").exists():
        webs[1].put_endpoints(b="ready")
    proxy.daemon.launch()
    wait_for(lambda: message in readiness(proxy)[1], lambda: f"{message}: {readiness(proxy)}", START_SECONDS)
    time.sleep(1.5)  # two polls
    assert readiness(proxy)[0] == 503
    assert elements(proxy.lab.node) == before
    assert [web.ask() for web in webs] == ["a", "a"]
    done = call(proxy.lab.node, "status")
    assert done.returncode == 1 and message in done.stdout
    assert "IPv4: the table of the previous process stays active" in done.stdout
    if damage is move_all_away:
        file.parent.rmdir()
        file.parent.with_name("away").rename(file.parent)
    elif damage is replace_by_folder:
        file.rmdir()
    webs[0].put_service()
    webs[1].put_endpoints(b="ready")
    proxy.daemon.wait_programmed()
    webs[1].settle("b")
    assert webs[0].ask() == "a"


def test_a_file_that_cannot_be_read_at_first(proxy_with):
    """Where nothing can be lost, the others are programmed."""
    proxy = proxy_with()
    web = Web(proxy, 4, "TCP")
    proxy.manifests.put_text("broken.yaml", "kind: [")
    web.put_service()
    web.put_endpoints(a="ready")
    proxy.daemon.launch()
    broken = f"{proxy.manifests.folder}/broken.yaml: line"
    wait_for(lambda: readiness(proxy)[1].startswith(broken), lambda: f"{readiness(proxy)}", START_SECONDS)
    web.settle("a")
    assert readiness(proxy)[0] == 503
    proxy.manifests.put_text("broken.yaml", "kind: List\napiVersion: v1\nitems: []\n")
    proxy.daemon.wait_programmed()
    proxy.manifests.put_text("broken.yaml", "")
    wait_for(lambda: "broken.yaml: the file is empty" in proxy.daemon.log(), "the log names it")
    assert readiness(proxy) == (200, "ok")
    assert "broken.yaml: the file is empty" in call(proxy.lab.node, "status").stdout


def test_a_file_deleted_meanwhile(proxy_with):
    """As while the daemon runs: of a folder that has others, a file that is not there is deleted."""
    proxy = proxy_with()
    web = Web(proxy, 4, "TCP")
    proxy.daemon.start()
    web.publish("a")
    proxy.daemon.stop()
    web.remove_service()
    proxy.daemon.start()
    web.settle_absent()


def test_the_last_service_deleted(proxy_with):
    """Tables without services have nothing to lose: an empty folder is what it seems."""
    proxy = proxy_with()
    proxy.daemon.start()
    proxy.daemon.stop()
    proxy.manifests.remove("node")
    proxy.daemon.start()
