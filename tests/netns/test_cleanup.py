# SPDX-License-Identifier: GPL-2.0-or-later
"""--cleanup-kube-proxy: what kube-proxy's modes leave in the kernel, among things of others. See also test_swap.py."""

import contextlib
import subprocess
import threading

import pytest

from daemon import call
from kube_proxy_iptables import rules
from kube_proxy_table import Service, Table
from lab import LabError, Namespace

POD = {4: "10.244.0.11", 6: "fd00:10:244::11"}
FAMILY_PROGRAM = {4: "iptables", 6: "ip6tables"}
RULES_OF_A_LARGE_TABLE = 10000
NOTHING = "nothing of kube-proxy was found\n"

# What others have in the same tables, with names that look alike.
STRANGERS = """*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-ROUTER-FORWARD - [0:0]
:KUBE-POD-FW-ABCDEFGHIJKLMNOP - [0:0]
:KUBE-SVC-ABCDEFGHIJKLMNOP - [0:0]
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j ACCEPT
-A FORWARD -m comment --comment "kube-router netpol" -j KUBE-ROUTER-FORWARD
-A FORWARD -i eth0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP
-A KUBE-ROUTER-FORWARD -j KUBE-POD-FW-ABCDEFGHIJKLMNOP
COMMIT
*mangle
:PREROUTING ACCEPT [0:0]
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
-A PREROUTING -p tcp -m tcp --dport 80 -j MARK --set-xmark 0x1/0xffffffff
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:DOCKER - [0:0]
:KUBE-MARK-DROP - [0:0]
:KUBE-HOSTPORTS - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-HOSTPORTS
-A POSTROUTING -o eth0 -j MASQUERADE --random-fully
-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000
COMMIT
"""


@pytest.fixture
def node():
    node = Namespace()
    yield node
    node.close()


def services(family: int, number: int = 3) -> list[Service]:
    prefix = "10.96.0." if family == 4 else "fd00:10:96::"
    return [
        Service(f"web-{n}", "TCP", f"{prefix}{n + 1}", 80, [(POD[family], 8080), (POD[family] + "1", 8080)],
                node_port=30000 + n)
        for n in range(number)
    ]  # fmt: skip


def restore(node: Namespace, family: int, text: str, variant: str = "nft") -> None:
    node.run(f"{FAMILY_PROGRAM[family]}-{variant}-restore", "--noflush", stdin=text)


def ruleset(node: Namespace) -> str:
    """All that is in nf_tables, with handles: a rule that is made anew differs."""
    return node.run("nft", "--handle", "--stateless", "list", "ruleset").stdout


def cleanup(node: Namespace, *flags: str) -> tuple[int, list[str]]:
    done = call(node, "--cleanup-kube-proxy", *flags)
    assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr
    assert bool(done.stderr) == (done.returncode != 0), done.stderr
    return done.returncode, done.stdout.splitlines()


def test_nothing_is_found_where_nothing_is(node):
    for flags in ([], ["--dry-run"]):
        done = call(node, "--cleanup-kube-proxy", *flags)
        assert (done.returncode, done.stdout, done.stderr) == (0, NOTHING, "")
    assert ruleset(node) == ""


def test_tables_of_mode_nftables(node):
    node.run("nft", "add table inet kube-proxy; add table ip kube-proxy-mine; add table ip6 kube-nftd")
    before = ruleset(node)
    for family in (4, 6):
        node.run("nft", "-f", "-", stdin=Table(family, services(family)).text())
    with_kube_proxy = ruleset(node)
    assert cleanup(node, "--dry-run") == (0, ["would remove: table ip kube-proxy", "would remove: table ip6 kube-proxy"])
    assert ruleset(node) == with_kube_proxy
    assert cleanup(node) == (0, ["removed: table ip kube-proxy", "removed: table ip6 kube-proxy"])
    assert ruleset(node) == before
    assert cleanup(node) == (0, NOTHING.splitlines())


# What a table of 1.37 has that 1.36's has not, with the gate KubeProxyNFTablesLocalhostNodePorts.
LOCALHOST_NODE_PORTS = """
table {ip} kube-proxy {{
    counter localhost-nodeport-rejected-udp {{ }}
    counter localhost-nodeport-rejected-tcp {{ }}
    chain localhost-nodeport-reject-udp {{ counter name "localhost-nodeport-rejected-udp" reject; }}
    chain localhost-nodeport-reject-tcp {{ counter name "localhost-nodeport-rejected-tcp" reject; }}
    map localhost-nodeport-reject-ports {{
        type inet_proto . inet_service : verdict
        elements = {{ udp . 30053 : jump localhost-nodeport-reject-udp, tcp . 30080 : jump localhost-nodeport-reject-tcp }}
    }}
    chain localhost-nodeports {{
        type filter hook input priority 0;
        {ip} daddr {loopback} meta l4proto . th dport vmap @localhost-nodeport-reject-ports
    }}
}}
"""


def test_tables_of_kube_proxy_1_37(node):
    for family, ip, loopback in ((4, "ip", "127.0.0.0/8"), (6, "ip6", "::1")):
        node.run("nft", "-f", "-", stdin=Table(family, services(family)).text())
        node.run("nft", "-f", "-", stdin=LOCALHOST_NODE_PORTS.format(ip=ip, loopback=loopback))
    assert cleanup(node) == (0, ["removed: table ip kube-proxy", "removed: table ip6 kube-proxy"])
    assert ruleset(node) == ""


@pytest.mark.usefixtures("table_owners")
def test_a_table_that_a_process_owns_stays(node):
    owner = node.start(["nft", "-i"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        owner.stdin.write("add table ip kube-proxy { flags owner; }\nlist tables\n")
        owner.stdin.flush()
        while "kube-proxy" not in owner.stdout.readline():
            assert owner.poll() is None
        node.run("nft", "add table ip6 kube-proxy")
        for flags, verb in (["--dry-run"], "would remove"), ([], "removed"):
            status, lines = cleanup(node, *flags)
            assert status == 1
            assert lines[0].startswith("left: table ip kube-proxy: ") and "is still running" in lines[0]
            assert lines[1:] == [f"{verb}: table ip6 kube-proxy"]
        assert "table ip kube-proxy" in ruleset(node)
    finally:
        owner.kill()
        owner.wait()
        owner.stdin.close()
        owner.stdout.close()


def test_chains_of_mode_iptables_among_those_of_others(node, family):
    restore(node, family, STRANGERS)
    ip = "ip" if family == 4 else "ip6"
    node.run("nft", "-f", "-", stdin=f"""
        table {ip} nat {{
            set mine {{
                type inet_service
                elements = {{ 80 }}
            }}
            chain KUBE-OF-SOMEBODY {{
                tcp dport @mine counter comment "kubernetes service portals"
            }}
        }}
        table inet filter {{
            chain KUBE-SERVICES {{
                counter
            }}
        }}
    """)  # fmt: skip
    before = ruleset(node)
    restore(node, family, rules(family, services(family)))
    with_kube_proxy = ruleset(node)
    status, planned = cleanup(node, "--dry-run")
    assert status == 0
    assert ruleset(node) == with_kube_proxy
    status, done = cleanup(node)
    assert status == 0
    assert [line.removeprefix("would ").replace("remove:", "removed:") for line in planned] == done
    (warning,) = [line for line in done if line.startswith("warning: ")]
    assert warning.startswith(f"warning: table {ip} filter: the policy of FORWARD is drop")
    assert f"'{FAMILY_PROGRAM[family]} -A FORWARD " in warning
    done.remove(warning)
    # 12 rules that lead there; 6 chains of filter, 1 of mangle, 5 of nat; services, endpoints, external.
    assert len(done) == 12 + 6 + 1 + 5 + 3
    assert f"removed: table {ip} nat: chains KUBE-SEP-... (chains: 6, rules: 12)" in done
    assert f"removed: table {ip} nat: rule of chain POSTROUTING that jumps to KUBE-POSTROUTING" in done
    assert ruleset(node) == before
    assert cleanup(node) == (0, NOTHING.splitlines())


def test_rules_stay_where_they_are_among_kube_proxys(node):
    """Rules of others before, between and after kube-proxy's, and one of them twice."""
    restore(node, 4, rules(4, services(4)))
    restore(node, 4, rules(4, []))  # its rules that lead to its chains are there twice now
    ports = iter(range(1, 100))
    for chain in ("PREROUTING", "OUTPUT"):
        for where in (["-I", chain, "1"], ["-I", chain, "3"], ["-A", chain]):
            node.run("iptables-nft", "-t", "nat", *where, "-p", "tcp", "--dport", str(next(ports)), "-j", "ACCEPT")
    saved = node.run("iptables-nft-save").stdout.splitlines()
    assert cleanup(node)[0] == 0
    kept = [line for line in saved if "KUBE" not in line and line[:1] != "#"]
    left = [line for line in node.run("iptables-nft-save").stdout.splitlines() if line[:1] != "#"]
    assert left == kept
    assert sum("--dport" in line for line in left) == 6


def test_comments_may_be_of_either_kind(node):
    """A rule's user data, as nft writes it, instead of the match of iptables."""
    before = "table ip nat { chain PREROUTING { type nat hook prerouting priority dstnat; }; chain KUBE-SERVICES { }; }"
    node.run("nft", before)
    node.run("nft", "add rule ip nat PREROUTING counter jump KUBE-SERVICES comment \"kubernetes service portals\"")
    assert cleanup(node) == (0, [
        "removed: table ip nat: rule of chain PREROUTING that jumps to KUBE-SERVICES",
        "removed: table ip nat: chain KUBE-SERVICES (rules: 0)",
    ])  # fmt: skip


def test_a_chain_that_others_use_stays(node):
    restore(node, 4, rules(4, services(4)))
    run = lambda *words: node.run("iptables-nft", "-t", "nat", *words)  # noqa: E731
    run("-A", "PREROUTING", "-p", "tcp", "-j", "KUBE-NODEPORTS")  # without kube-proxy's comment
    status, lines = cleanup(node, "--dry-run")
    assert status == 1 and any("left: table ip nat: chain KUBE-NODEPORTS, and those" in line for line in lines)
    run("-N", "CNI-HOSTPORT-SETMARK")
    run("-A", "CNI-HOSTPORT-SETMARK", "-j", "KUBE-MARK-MASQ")
    for flags in (["--dry-run"], []):
        status, lines = cleanup(node, *flags)
        held = [line for line in lines if line.startswith("left: ")]
        assert status == 1
        assert len(held) == 2
        assert any("chain KUBE-MARK-MASQ, and" in line and "a rule of chain CNI-HOSTPORT-SETMARK" in line for line in held)
        # What node ports lead to: for 3 services each a chain for external and one for all traffic, 2 endpoints.
        assert any("chain KUBE-NODEPORTS, and" in line and "(chains: 13): a rule of chain PREROUTING" in line for line in held)
    saved = node.run("iptables-nft-save").stdout
    assert "-A PREROUTING -p tcp -j KUBE-NODEPORTS" in saved
    assert "-A KUBE-MARK-MASQ -j MARK" in saved
    assert "KUBE-SERVICES" not in saved and "KUBE-POSTROUTING" not in saved
    run("-D", "PREROUTING", "-p", "tcp", "-j", "KUBE-NODEPORTS")
    run("-F", "CNI-HOSTPORT-SETMARK")
    assert cleanup(node)[0] == 0
    assert "KUBE" not in node.run("iptables-nft-save").stdout


def test_what_drops_without_kube_proxys_rules_is_told(node):
    """The policy of INPUT with health check node ports; with no rule that accepts, or without the policy: no word."""
    warnings = lambda: [line for line in cleanup(node, "--dry-run")[1] if line.startswith("warning")]  # noqa: E731
    restore(node, 4, rules(4, []))
    assert warnings() == []
    node.run("iptables-nft", "-P", "INPUT", "DROP")
    assert warnings() == []
    node.run("iptables-nft", "-A", "KUBE-NODEPORTS", "-p", "tcp", "--dport", "31000", "-j", "ACCEPT")
    (warning,) = warnings()
    assert "policy of INPUT is drop" in warning and "healthCheckNodePort" in warning
    assert cleanup(node)[0] == 0


def test_a_chain_that_a_verdict_map_leads_to_stays(node):
    """The kernel would refuse to remove it, so a dry run must know of it too."""
    restore(node, 4, rules(4, services(4, 1)))
    node.run("nft", "add map ip filter mine { type ipv4_addr : verdict; elements = { 10.9.9.9 : goto KUBE-FORWARD }; }")
    node.run("nft", "add rule ip nat PREROUTING ip daddr vmap { 10.9.9.9 : jump KUBE-MARK-MASQ }")
    for flags in (["--dry-run"], []):
        status, lines = cleanup(node, *flags)
        held = [line for line in lines if line.startswith("left: ")]
        assert status == 1 and len(held) == 2, held
        assert "chain KUBE-FORWARD, and" in held[0] and "an element of a verdict map that" in held[0]
        assert "chain KUBE-MARK-MASQ, and" in held[1] and "an element of a verdict map that" in held[1]
        assert sum("KUBE-POSTROUTING is removed" in line for line in lines if line.startswith("warning: ")) == 1
    chains = node.run("iptables-nft-save").stdout
    assert chains.count(":KUBE-") == 2
    node.run("nft", "flush map ip filter mine; flush chain ip nat PREROUTING")
    assert cleanup(node)[0] == 0
    assert cleanup(node) == (0, NOTHING.splitlines())


@contextlib.contextmanager
def changing(node, change: str, pause: float):
    """Another program makes this change again and again meanwhile, with so many seconds in between."""
    changer = node.start(["nft", "-i"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, bufsize=1)
    end = threading.Event()

    def write() -> None:
        while not end.wait(pause):
            changer.stdin.write(change)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
        assert changer.poll() is None
    finally:
        end.set()
        thread.join()
        changer.kill()
        changer.wait()
        changer.stdin.close()


def test_a_large_table_while_others_never_rest(node):
    """It takes longer to list than others leave in between; so what was overtaken has to do."""
    restore(node, 4, STRANGERS)
    node.run("nft", "add table ip other; add set ip other s { type ipv4_addr; }")
    change = "add element ip other s { 1.2.3.4 }; delete element ip other s { 1.2.3.4 }\n"
    run = lambda *words: node.run("iptables-nft", "-t", "nat", *words)  # noqa: E731
    run("-N", "KUBE-MARK-MASQ")
    run("-N", "KUBE-SERVICES")
    run("-A", "PREROUTING", "-m", "comment", "--comment", "kubernetes service portals", "-j", "KUBE-SERVICES")
    rule = "add rule ip nat KUBE-SERVICES tcp dport 80 counter jump KUBE-MARK-MASQ\n"
    for _ in range(RULES_OF_A_LARGE_TABLE // 500):  # transactions must be small in a user namespace
        node.run("nft", "-f", "-", stdin=500 * rule)
    with changing(node, change, 0.002):
        status, lines = cleanup(node)
    assert status == 0, lines
    assert "KUBE-S" not in run("-S").stdout


def test_others_change_the_tables_meanwhile(node):
    """The kernel tells that what it lists was overtaken; then it is read anew."""
    restore(node, 4, STRANGERS)
    with changing(node, "add rule ip nat DOCKER counter; flush chain ip nat DOCKER\n", 0.005):
        for _ in range(4):
            for first in range(0, 50, 25):  # iptables' transactions must be small in a user namespace
                restore(node, 4, rules(4, services(4, 50)[first : first + 25]))
            status, lines = cleanup(node)
            assert status == 0, "\n".join(line for line in lines if line.startswith("left"))
            assert "KUBE-SVC-" not in node.run("iptables-nft-save", "-t", "nat").stdout


def test_tables_of_iptables_legacy_are_told_and_stay(node, family):
    program = FAMILY_PROGRAM[family]
    try:
        restore(node, family, STRANGERS, "legacy")
    except LabError as error:
        pytest.skip(f"a kernel with {program}-legacy: {error}")
    assert cleanup(node) == (0, NOTHING.splitlines())
    restore(node, family, rules(family, services(family)), "legacy")
    before = node.run(f"{program}-legacy-save").stdout.splitlines()
    for _ in range(2):
        status, lines = cleanup(node)
        assert status == 1
        assert sorted(line.split(":")[1] for line in lines) == [
            f" {program}-legacy table {table}" for table in ("filter", "mangle", "nat")
        ]
        assert all(line.startswith("left: ") and "kube-proxy --cleanup" in line for line in lines)
        # 5 by name; 3 services with 2 chains and 2 endpoints each
        assert any("table nat: chains of kube-proxy (chains: 17, " in line for line in lines)
    after = node.run(f"{program}-legacy-save").stdout.splitlines()
    assert [line for line in after if line[0] != "#"] == [line for line in before if line[0] != "#"]


def test_what_mode_ipvs_leaves(node):
    """Virtual servers are not here: many kernels for tests have none."""
    try:
        node.run("ipset", "list", "-name")
    except LabError as error:
        pytest.skip(f"IP sets: {error}")
    node.ip(
        "link add kube-ipvs0 type bridge", "link add kube-ipvs1 type bridge",
        "addr add 10.96.0.1/32 dev kube-ipvs0", "addr add fd00:10:96::1/128 dev kube-ipvs0 nodad",
        "addr add 10.96.0.2/32 dev kube-ipvs1",
    )  # fmt: skip
    sets = ["KUBE-CLUSTER-IP hash:ip,port", "KUBE-6-CLUSTER-IP hash:ip,port family inet6", "KUBE-MINE hash:ip",
            "KUBE-NODE-PORT-TCP bitmap:port range 0-65535", "KUBE-LOOP-BACK hash:ip,port,ip"]  # fmt: skip
    node.run("ipset", "restore", stdin="".join(f"create {line}\n" for line in sets))
    run = lambda *words: node.run("iptables-nft", *words)  # noqa: E731
    run("-t", "nat", "-N", "KUBE-SERVICES")
    run("-t", "nat", "-A", "KUBE-SERVICES", "-m", "set", "--match-set", "KUBE-CLUSTER-IP", "dst,dst", "-j", "ACCEPT")
    run("-A", "INPUT", "-m", "set", "--match-set", "KUBE-NODE-PORT-TCP", "dst", "-j", "ACCEPT")  # a stranger's
    status, lines = cleanup(node, "--dry-run")
    assert status == 0 and "would remove: device kube-ipvs0 (addresses: 2)" in lines
    assert len(node.run("ipset", "list", "-name").stdout.split()) == 5
    status, lines = cleanup(node)
    assert status == 1
    assert [line.split(":")[1].strip() for line in lines if line.startswith("left: ")] == ["IP set KUBE-NODE-PORT-TCP"]
    assert any("a rule uses it" in line for line in lines)
    assert {line for line in lines if "IP set" in line and "left" not in line} == {
        f"removed: IP set {name}" for name in ("KUBE-CLUSTER-IP", "KUBE-6-CLUSTER-IP", "KUBE-LOOP-BACK")
    }
    assert sorted(node.run("ipset", "list", "-name").stdout.split()) == ["KUBE-MINE", "KUBE-NODE-PORT-TCP"]
    links = node.run("ip", "-o", "link").stdout
    assert "kube-ipvs0" not in links and "kube-ipvs1" in links
    run("-F", "INPUT")
    assert cleanup(node) == (0, ["removed: IP set KUBE-NODE-PORT-TCP"])
