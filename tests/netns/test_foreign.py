# SPDX-License-Identifier: GPL-2.0-or-later
"""Other programs at our tables: kept off where the kernel can do that, else noticed and put right."""

import pathlib
import re
import signal
import subprocess
import time

import pytest

import objects
from daemon import (
    BINARY, CLASS, EXTERNAL, FAMILY_TABLE, LOCAL, PORT, START_SECONDS, Daemon, call, classid, environment, http_get,
    sorted_elements, tables_exist, wait_for,
)  # fmt: skip
from lab import linux, writes_other_user_data
from scenario import Proxy, Traffic, Web, running

GOOD = {"a", "b"}


def try_nft(namespace, command: str) -> subprocess.CompletedProcess:
    with namespace.inside():
        return subprocess.run([namespace.nft, command], capture_output=True, text=True)


def owner(namespace, family: int) -> bool:
    """Whether somebody owns our table."""
    return "flags owner" in namespace.run(namespace.nft, "list", "table", FAMILY_TABLE[family], "kube-nftd").stdout


# ---- with an owner --------------------------------------------------------------------------------

ATTEMPTS = [
    "delete table {table}",
    "flush table {table}",
    "add chain {table} intruder",
    "add rule {table} port drop",
    "flush map {table} services",
    "add element {table} rejected_ports {{ 0:8000 }}",
    "delete element {table} services {{ {address} . tcp . 80 }}",
    "add table {table} {{ flags dormant ; }}",
]


@pytest.mark.usefixtures("kept_tables")
def test_nobody_else_can_change_the_table(proxy, family):
    web = Web(proxy, family, "TCP")
    web.publish("a", "b")
    node, table = proxy.lab.node, proxy.tables[family]
    assert owner(node, family)
    before = table.listing()
    with Traffic(proxy.lab, proxy.lab.client, *web.call()) as traffic:
        for attempt in ATTEMPTS:
            done = try_nft(node, attempt.format(table=table.name, address=web.address))
            assert done.returncode != 0 and "Operation not permitted" in done.stderr, attempt
        assert try_nft(node, "flush ruleset").returncode == 0  # leaves it out
        wait_for(lambda: traffic.answers.total() > 20, "traffic goes on")
    assert sorted(table.listing()) == sorted(before)
    assert set(traffic.answers) == GOOD
    web.put_endpoints(c="ready")  # the daemon itself still can
    web.settle("c")


@pytest.mark.usefixtures("kept_tables")
def test_a_table_whose_owner_was_killed_is_taken_over(proxy, family):
    web = Web(proxy, family, "TCP")
    web.publish("a", "b")
    with Traffic(proxy.lab, proxy.lab.client, *web.call()) as traffic:
        proxy.daemon.stop(signal.SIGKILL)
        assert not owner(proxy.lab.node, family)
        proxy.daemon.start()
        wait_for(lambda: owner(proxy.lab.node, family), "the new daemon owns the table")
        web.settle("a", "b")
    assert set(traffic.answers) == GOOD
    assert proxy.daemon.log().count(" adopted the table ") == 2


@pytest.mark.usefixtures("kept_tables")
def test_the_next_daemon_waits_for_the_owner(proxy, tmp_path, family):
    """An upgrade with both running for a while: no connection fails, the wait is said once, and what changed
    meanwhile is in force soon after the old one is gone."""
    web = Web(proxy, family, "TCP")
    web.publish("a", "b")
    with Traffic(proxy.lab, proxy.lab.client, *web.call()) as traffic:
        following = second_daemon(proxy, tmp_path / "next.log")
        try:
            waits = "waiting for the table's owner to exit"
            wait_for(lambda: following.log().count(waits) == 2, "both families wait", START_SECONDS)
            time.sleep(0.5)  # some more tries
            assert following.log().count(waits) == 2
            assert f"its netlink port, often its process ID, is {proxy.daemon.process.pid}" in following.log()
            proxy.daemon.stop()
            wait_for(lambda: following.log().count(" applied frontends=") == 2, "it took over")
            web.put_endpoints(b="ready")
            web.settle("b")
        finally:
            ended = following.stop()
    assert set(traffic.answers) <= GOOD
    assert ended == 0


def second_daemon(proxy: Proxy, log: pathlib.Path) -> Daemon:
    """It runs beside the first, with other addresses of its own."""
    daemon = Daemon(proxy.lab.node, proxy.manifests.folder, log)
    argv = [str(BINARY), "--manifests", str(daemon.source), "--hostname-override", "node-a",
            "--healthz-bind-address", "127.0.0.1:10356", "--metrics-bind-address", "127.0.0.1:10349",
            "--conntrack-max-per-core", "0"]  # fmt: skip
    with log.open("ab") as out:
        daemon.process = daemon.namespace.start(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment())
    return daemon


@pytest.mark.usefixtures("kept_tables")
def test_cleanup_needs_the_owner_gone(proxy):
    node = proxy.lab.node
    done = call(node, "--cleanup")
    assert done.returncode == 1
    assert "table ip kube-nftd is owned by a running program" in done.stderr
    assert owner(node, 4) and owner(node, 6)
    proxy.daemon.stop()
    assert call(node, "--cleanup").returncode == 0
    assert node.run(node.nft, "list", "tables").stdout == ""


# ---- without an owner -----------------------------------------------------------------------------

# What it is called, and the command. {a} is the address of an endpoint.
TAMPERING = {
    "flush ruleset": "flush ruleset",
    "deleted table": "delete table {table}",
    "emptied chain": "flush chain {table} port",
    "deleted chain": "flush chain {table} nat-prerouting; delete chain {table} nat-prerouting",
    "added rule": "insert rule {table} port drop",
    "other masquerading": "flush chain {table} nat-postrouting; "
                          "add rule {table} nat-postrouting ct status dnat masquerade fully-random; "
                          "add rule {table} nat-postrouting meta mark & 0x4000 != 0 masquerade",
    "other condition": "flush chain {table} nat-output-refuse; "
                       "add rule {table} nat-output-refuse meta priority & 0:7ffd == 0:7ffd jump refuse-port; "
                       "add rule {table} nat-output-refuse {ip} daddr != @service_ranges goto refuse-address",
    "other verdict": "flush chain {table} special; add rule {table} special jump pick",
    "other field": "flush chain {table} nat-output; add rule {table} nat-output "
                   "meta priority set {ip} saddr . meta l4proto . th dport map @services goto port",
    "other lookup": "flush chain {table} refuse-port; "
                    "add rule {table} refuse-port meta priority & ffff:8000 != @rejected_ports reject; "
                    "add rule {table} refuse-port meta priority & ffff:8002 @dropped_ports drop; "
                    "add rule {table} refuse-port meta priority set 0",
    "other bits": "flush chain {table} refuse-port; "
                  "add rule {table} refuse-port meta priority & ffff:8000 @rejected_ports reject; "
                  "add rule {table} refuse-port meta priority & ffff:8001 @dropped_ports drop; "
                  "add rule {table} refuse-port meta priority set 0",
    "other order": "flush chain {table} nat-output-refuse; "
                   "add rule {table} nat-output-refuse {ip} daddr @service_ranges goto refuse-address; "
                   "add rule {table} nat-output-refuse meta priority & 0:7ffd == 0:7ffd jump refuse-port",
    "added chain": "add chain {table} intruder {{ type filter hook prerouting priority -120; policy drop; }}",
    "dormant": "add table {table} {{ flags dormant; }}",
    "emptied map": "flush map {table} services",
    "emptied slots": "flush map {table} endpoints",
    "emptied verdicts": "flush map {table} picks",
    "another pick": "delete element {table} picks {{ 0:2 }}; add element {table} picks {{ 0:2 : goto affine }}",
    "deleted frontend": "delete element {table} services {{ {address} . tcp . 80 }}",
    "deleted slot": "delete element {table} endpoints {{ {port} . 0 }}",
    "deleted count": "delete element {table} services {{ {address} . tcp . 80 }}; "
                     "add element {table} services {{ {address} . tcp . 80 : {port} }}",
    "deleted count behind source ranges": "delete element {table} ports {{ {port} }}",
    "another count behind source ranges": "delete element {table} ports {{ {port} }}; "
                                          "add element {table} ports {{ {port} : {three} }}",
    "another port": "delete element {table} services {{ {address} . tcp . 80 }}; "
                    "add element {table} services {{ {address} . tcp . 80 : 77:8000 }}",
    "another class": "delete element {table} services {{ {address} . tcp . 80 }}; "
                     "add element {table} services {{ {address} . tcp . 80 : {local} }}",
    "another count": "delete element {table} services {{ {address} . tcp . 80 }}; "
                     "add element {table} services {{ {address} . tcp . 80 : {three} }}",
    "another backend": "delete element {table} endpoints {{ {port} . 0 }}; "
                       "add element {table} endpoints {{ {port} . 0 : {c} . 8080 }}",
    "added reject": "add element {table} rejected_ports {{ {port} }}; "
                    "delete element {table} services {{ {address} . tcp . 80 }}; "
                    "add element {table} services {{ {address} . tcp . 80 : {port} }}",
    "added stranger": "add element {table} services {{ {stranger} . tcp . 80 : {port} }}",
    "a stranger's port": "add element {table} services {{ {stranger} . tcp . 80 : 77:8000 }}; "
                         "add element {table} ports {{ 77:8000 : 77:8002 }}; "
                         "add element {table} endpoints {{ 77:8000 . 0 : {c} . 8080 }}",
    "deleted cluster IP": "delete element {table} cluster_ips {{ {address} }}",
    "added range": "add element {table} service_cidrs {{ {address} }}",
    "added source": "add element {table} allowed_sources {{ {a} . {host} }}",
    "deleted source": "delete element {table} allowed_sources {{ {clients} }}",
    "other source": "delete element {table} allowed_sources {{ {clients} }}; "
                    "add element {table} allowed_sources {{ {a} . {host} }}",
    "no source list": "delete element {table} source_lists {{ {port} }}",
    "other source list": "delete element {table} source_lists {{ {port} }}; "
                         "add element {table} source_lists {{ {port} : 0:900 }}",
    "no source check": "delete element {table} checks {{ 0:8 }}",
    "any source": "delete element {table} services {{ {vip} . tcp . 80 }}; "
                  "add element {table} services {{ {vip} . tcp . 80 : {external} }}",
}  # fmt: skip
STRANGER = {4: "10.96.77.77", 6: "fd00:10:96::7777"}
VIP = {4: "203.0.113.77", 6: "2001:db8:5::77"}
CLIENTS = {4: "198.51.100.0/24", 6: "2001:db8:2::/64"}
IN_LIST = {4: "198.51.100.0 . 0:118", 6: "2001:db8:2:: . 0:140"}  # the same as an element of the first list
HOST = {4: "0:120", 6: "0:180"}  # a single address in that list


def as_guarded_service(web: Web) -> dict:
    """As the outside sees it, it answers some clients only."""
    return {
        **web.as_service(type="LoadBalancer", loadBalancerSourceRanges=[CLIENTS[web.family]]),
        "status": {"loadBalancer": {"ingress": [{"ip": VIP[web.family]}]}},
    }


def publish_guarded(web: Web, *pods: str) -> None:
    web.proxy.manifests.put("web-service", as_guarded_service(web))
    web.put_endpoints(**dict.fromkeys(pods, "ready"))
    web.settle(*pods)


@pytest.fixture
def open_proxy(lab, tmp_path):
    """Its tables are everybody's."""
    with running(lab, tmp_path, "--table-owner", "off") as proxy:
        yield proxy


def repairs(proxy) -> list[str]:
    return [line for line in proxy.daemon.log().splitlines() if "repaired changes by another program" in line]


def state(proxy, family: int) -> str:
    """All that matters of a table; not whether an owner left it: stock nft has no word for that flag; nor in which
    order its chains were made."""
    listing = re.sub(r"# handle \d+|^\tflags (persist)?$", "", proxy.tables[family].listing(), flags=re.MULTILINE)
    maps, *chains = re.sub(r"\n\s*\n", "\n", sorted_elements(listing)).removesuffix("}\n").split("\tchain ")
    return maps + "".join(sorted(chains))


# Each in one of the families: they share all but the addresses.
@pytest.mark.parametrize("how,family", [(how, (4, 6)[i % 2]) for i, how in enumerate(TAMPERING)])
def test_what_others_change_is_put_right(open_proxy, family, how):
    proxy = open_proxy
    node = proxy.lab.node
    web = Web(proxy, family, "TCP")
    if "source" in how:
        publish_guarded(web, "a", "b")
    else:
        web.publish("a", "b")
    before = state(proxy, family)
    pods = {name: proxy.lab.pods[name].address[family] for name in "abc"}
    ip = {4: "ip", 6: "ip6"}[family]
    port = proxy.tables[family].value("services", web.frontend.key()) & PORT
    numbers = {"port": classid(port), "local": classid(port | CLASS | LOCAL), "three": classid(port | 3),
               "external": classid(port | CLASS | EXTERNAL)}
    command = TAMPERING[how].format(
        table=proxy.tables[family].name, address=web.address, stranger=STRANGER[family], vip=VIP[family],
        clients=IN_LIST[family], host=HOST[family], ip=ip, **pods, **numbers,
    )  # fmt: skip
    node.run(node.nft, command)
    start = time.monotonic()
    wait_for(lambda: repairs(proxy), "it is put right")
    took = time.monotonic() - start
    print(f"{how}: repaired and said within {took * 1000:.1f} ms")
    wait_for(lambda: state(proxy, family) == before, lambda: f"as before:\n{before}\nnow:\n{state(proxy, family)}")
    assert set(web.tally(times=20)) == GOOD
    assert " program=nft pid=" in repairs(proxy)[0]
    web.put_endpoints(c="ready")  # and the daemon knows what it has
    web.settle("c")
    assert "reading the table back" not in proxy.daemon.log()


def test_who_changed_a_table_is_told_whatever_is_noticed_first(open_proxy, family):
    """A Service changes at the same time: its commit may be refused before the events are read."""
    proxy, node = open_proxy, open_proxy.lab.node
    web = Web(proxy, family, "TCP")
    web.publish("a")
    for told, pod in enumerate("babab", start=1):
        proxy.daemon.process.send_signal(signal.SIGSTOP)
        try:
            web.put_endpoints(**{pod: "ready"})
            node.run(node.nft, f"delete table {proxy.tables[family].name}")
        finally:
            proxy.daemon.process.send_signal(signal.SIGCONT)
        # From one repair to the next pass up to ten seconds, or ten times what it took.
        wait_for(lambda told=told: len(repairs(proxy)) == told, lambda told=told: f"repair {told} is told of", 60)
        web.settle(pod)
    assert all(" program=nft pid=" in line for line in repairs(proxy))


# What can be declared anew in a table that is in use.
REDECLARED = {
    "a map without a limit": "add map {table} services {{ type {ip}_addr . inet_proto . inet_service : classid; size 3; }}",
    "a map with a limit": "add map {table} affinity {{ type classid . {ip}_addr : classid; flags dynamic,timeout; size 3; }}",
    "a set": "add set {table} cluster_ips {{ type {ip}_addr; size 3; }}",
    "a default timeout": "add map {table} affinity {{ type classid . {ip}_addr : classid; flags dynamic,timeout; "
                         "size 1048576; timeout 1s; }}",
}  # fmt: skip


@pytest.mark.usefixtures("resizable_sets")
@pytest.mark.parametrize("how,family", [(how, (4, 6)[i % 2]) for i, how in enumerate(REDECLARED)])
@pytest.mark.parametrize("at", ["while it runs", "while none runs"])
def test_other_declarations_are_put_right(open_proxy, family, how, at):
    """At once, and by the next process: with the old size, new Services would be rejected. What has no limit can only
    get one, so the table is replaced."""
    proxy, node, table = open_proxy, open_proxy.lab.node, open_proxy.tables[family]
    web = Web(proxy, family, "TCP")
    web.publish("a", "b")
    before = state(proxy, family)
    if at == "while none runs":
        proxy.daemon.stop()
    with Traffic(proxy.lab, proxy.lab.client, *web.call()) as traffic:
        node.run(node.nft, REDECLARED[how].format(table=table.name, ip={4: "ipv4", 6: "ipv6"}[family]))
        if at == "while none runs":
            assert state(proxy, family) != before
            proxy.daemon.start()
        wait_for(lambda: state(proxy, family) == before, lambda: f"as before:\n{before}\nnow:\n{state(proxy, family)}")
        answered = traffic.answers.total()
        wait_for(lambda: traffic.answers.total() > answered + 5, "traffic goes on")
    assert set(traffic.answers) == GOOD
    assert proxy.daemon.log().count(f"family={FAMILY_TABLE[family]} replacing the table: ") == 1
    others = [Web(proxy, family, "TCP", name=f"more-{i}") for i in range(5)]
    for other in others:
        other.publish("a")


def test_a_table_that_nft_restored(open_proxy, nft, family):
    """From its own listing, while no daemon runs. nft 1.0.6 writes what was there; a newer one writes user data that
    makes nft 1.0.6 crash when it lists anything."""
    proxy, node = open_proxy, open_proxy.lab.node
    web = Web(proxy, family, "TCP")
    web.publish("a", "b")
    before, name = state(proxy, family), proxy.tables[family].name
    proxy.daemon.stop()
    listing = node.run(nft, "list", "table", *name.split()).stdout
    node.run(nft, "-f", "-", stdin=f"delete table {name}\n{listing}")
    other = writes_other_user_data(nft)
    assert (try_nft(node, "list ruleset").returncode == 0) == (not other or writes_other_user_data("nft"))
    proxy.daemon.start()
    web.settle("a", "b")
    wait_for(lambda: try_nft(node, "list ruleset").returncode == 0, "stock nft lists it")
    assert state(proxy, family) == before
    assert ("has other user data" in proxy.daemon.log()) == other


def test_other_tables_are_none_of_our_business(open_proxy):
    """Transactions elsewhere, 250 a second at most, cost next to nothing."""
    proxy = open_proxy
    node = proxy.lab.node
    Web(proxy, 4, "TCP").publish("a")
    node.run(node.nft, "add table ip other; add set ip other s { type ipv4_addr; }; add table inet kube-nftd")
    before = cpu_seconds(proxy.daemon.process.pid)
    start = time.monotonic()
    with Committer(node, "ip other") as committer:
        while committer.commits < 400:
            committer.commit()
            time.sleep(0.004)
    took = time.monotonic() - start
    spent = cpu_seconds(proxy.daemon.process.pid) - before
    print(f"{committer.commits} commits in {took:.2f} s cost {spent:.3f} s: {100 * spent / took:.2f} % of a core")
    assert repairs(proxy) == []
    assert spent / took < 0.05


def test_a_fight_ends(open_proxy):
    proxy, family = open_proxy, 4
    node = proxy.lab.node
    web = Web(proxy, family, "TCP")
    web.publish("a", "b")
    before = state(proxy, family)
    spent = cpu_seconds(proxy.daemon.process.pid)
    start = time.monotonic()
    flushes = 0
    while time.monotonic() < start + 3 or flushes <= 20:
        node.run(node.nft, "flush ruleset")
        flushes += 1
        time.sleep(0.03)
    during = len(repairs(proxy))
    spent = cpu_seconds(proxy.daemon.process.pid) - spent
    print(f"{flushes} flushes, {during} repairs of both families, {spent:.3f} s of CPU")
    assert 4 <= during <= 20
    wait_for(lambda: tables_exist(node) and state(proxy, family) == before, "it ends repaired", 20)
    assert set(web.tally(times=20)) == GOOD


@pytest.mark.usefixtures("kept_tables")
def test_waiting_for_an_owner_is_no_repair(open_proxy, tmp_path):
    """What another daemon held for a while is put right when that has ended, and the next repair is soon."""
    proxy, family = open_proxy, 4
    node = proxy.lab.node
    web = Web(proxy, family, "TCP")
    web.publish("a", "b")
    other = second_daemon(proxy, tmp_path / "owner.log")
    wait_for(lambda: other.log().count(" applied frontends=") == 2, "the other one has the tables", START_SECONDS)
    wait_for(lambda: proxy.daemon.log().count("waiting for the table's owner to exit") == 2, "this one waits")
    time.sleep(3)
    other.stop(signal.SIGKILL)
    wait_for(lambda: proxy.daemon.log().count(" applied frontends=") == 4, "this one has the tables again")
    assert "replacing a table" not in proxy.daemon.log(), "they were as they should be"
    before = state(proxy, family)
    for _ in range(2):
        node.run(node.nft, "flush ruleset")
        wait_for(lambda: tables_exist(node) and state(proxy, family) == before, "it is put right")


def test_repairs_are_counted(open_proxy):
    proxy = open_proxy
    web = Web(proxy, 4, "TCP")
    web.publish("a")
    proxy.lab.node.run(proxy.lab.node.nft, "delete table ip kube-nftd")
    wait_for(lambda: repairs(proxy), "it is put right")
    body = http_get(proxy.lab.node, "127.0.0.1", 10249, "/metrics")[2]
    assert 'kube_nftd_repairs_total{ip_family="IPv4"} 1\n' in body
    assert 'kube_nftd_repairs_total{ip_family="IPv6"} 0\n' in body


# ---- audits ---------------------------------------------------------------------------------------


def test_audits_find_nothing_while_all_is_well(lab, tmp_path):
    """Changes of our own, session affinity that packets learn, ranges of all kinds, and audits one after the other."""
    proxy = Proxy(lab, tmp_path, "--audit-period", "50ms", "--cluster-cidr", "10.244.0.0/16,fd00:10:244::/48")
    try:
        proxy.daemon.start()
        web = Web(proxy, 4, "TCP")
        service = as_guarded_service(web)
        service["spec"]["sessionAffinity"] = "ClientIP"
        proxy.manifests.put("web-service", service)
        proxy.manifests.put("cidr", objects.service_cidr("one", ["10.96.0.0/16", "fd00:10:96::/112"]))
        before = metric(proxy, "kube_nftd_audits_total")
        deadline = time.monotonic() + 120  # an audit rests 200 times as long as it works: 6 s with sanitizers
        while metric(proxy, "kube_nftd_audits_total") < before + 3:
            assert time.monotonic() < deadline
            for pods in (("a", "b", "c"), ("b",), ("a", "b")):
                web.put_endpoints(**dict.fromkeys(pods, "ready"))
                web.settle(*pods)
                assert web.ask() in pods
        for family in ("IPv4", "IPv6"):
            assert metric(proxy, f'kube_nftd_drift_elements{{ip_family="{family}"}}') == 0
            assert metric(proxy, f'kube_nftd_table_read_backs_total{{ip_family="{family}"}}') == 0
        assert metric(proxy, 'kube_nftd_affinity_records_most{ip_family="IPv4"}') > 0
        if linux() >= (6, 18):  # older ones do not count the elements of a set
            # As of the last audit, which a change of the backends may have met halfway.
            wait_for(lambda: metric(proxy, 'kube_nftd_affinity_records{ip_family="IPv4"}') == 1, "one record is left")
            assert metric(proxy, 'kube_nftd_affinity_records{ip_family="IPv6"}') == 0
        assert "an audit found" not in proxy.daemon.log()
    finally:
        print(proxy.daemon.last_words())
        proxy.close()


def metric(proxy, series: str) -> float:
    body = http_get(proxy.lab.node, "127.0.0.1", 10249, "/metrics")[2]
    return float(re.search(f"^{re.escape(series)} (.*)$", body, re.MULTILINE)[1])


def cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(fields[0]) / 1e9


class Committer:
    """Commits to another table without starting a program each time: nft reads from a pipe."""

    def __init__(self, namespace, table: str) -> None:
        self.namespace = namespace
        self.table = table
        self.commits = 0

    def __enter__(self) -> "Committer":
        self.process = self.namespace.start([self.namespace.nft, "-i"], stdin=subprocess.PIPE,
                                            stdout=subprocess.DEVNULL, text=True)  # fmt: skip
        return self

    def commit(self) -> None:
        self.commits += 1
        verb = "add" if self.commits % 2 else "delete"
        self.process.stdin.write(f"{verb} element {self.table} s {{ 10.0.0.1 }}\n")
        self.process.stdin.flush()

    def __exit__(self, *_) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=30)
