# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel without some of its options makes of kube-nftd: the rows of docs/compatibility.md. Just for the
machine that tests/kernels/run boots: its guest keeps the modules of these options away."""

import pathlib
import re

import pytest

import objects
import scenario_file
import scenario_run
from daemon import Daemon, call
from lab import FAMILIES, NODE_NAME, Namespace

NEEDED = ("connection tracking (ct)", "chains that translate (nat)", "destinations from a map (dnat)",
          "random choice (numgen)", "masquerade fully-random")  # fmt: skip
# What is said of it by the preflight, and by the daemon as it starts.
OPTIONAL = {
    "reject": ("packets are dropped instead of rejected, so clients wait", "cannot reject"),
    "type of an address (fib)": (
        "this host itself reaches only its own endpoints under traffic policy Local", "has no fib expression"),
    "flowtables (flow_offload)": ("--flowtable-devices has no effect", "has no flowtables that serve here"),
}  # fmt: skip
FOLDER = pathlib.Path(__file__).parent
CASES = [
    pytest.param(scenario_file.load(FOLDER / f"{name}.yaml"), family, protocol, id=f"{name}-IPv{family}-{protocol}")
    for name in ("no-fib", "no-reject")
    for family, protocol in ((4, "UDP"), (6, "TCP"))
]


@pytest.fixture
def node():
    namespace = Namespace()
    yield namespace
    namespace.close()


@pytest.fixture
def manifests(tmp_path):
    manifests = objects.Manifests(tmp_path / "manifests")
    manifests.put("node", objects.node())
    return manifests


def rows(node: Namespace) -> tuple[int, dict[int, dict[str, str]], str]:
    """Of the preflight: its exit status; the result of each feature of each family; all its words."""
    done = call(node, "preflight")
    found = {family: {} for family in FAMILIES}
    for line in re.findall(r"^IPv[46]  .*", done.stdout, re.MULTILINE):
        cells = re.split(r"\s{2,}", line)
        found[int(cells[0][-1])][cells[1]] = cells[-1]
    return done.returncode, found, done.stdout + done.stderr


def assert_it_ends(node: Namespace, manifests: objects.Manifests, because: str) -> None:
    """The daemon does, with status 1 and without a trace."""
    done = call(node, "--manifests", str(manifests.folder), "--hostname-override", NODE_NAME)
    assert done.returncode == 1
    assert f"no family can be proxied (kube-nftd preflight shows all): this kernel lacks: {because}" in done.stderr
    for family in FAMILIES:
        assert f"family=IPv{family} is not proxied, this kernel lacks: {because}" in done.stderr


def test_no_nf_tables(node, manifests):
    status, found, words = rows(node)
    assert status == 1 and "no family can be proxied on this kernel" in words
    for family in FAMILIES:
        first, *others = found[family].values()
        assert first.startswith("missing") and set(others) == {"not tried"}
        option = f"CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV{family}"
        assert f"IPv{family} without nf_tables ({option}): the family cannot be proxied\n" in words
    assert_it_ends(node, manifests, "nf_tables: CONFIG_NF_TABLES")


def test_nothing_that_translates(node, manifests):
    """Each option that is missing is named, also behind the first one."""
    status, found, words = rows(node)
    assert status == 1
    for family in FAMILIES:
        missing = {feature for feature, result in found[family].items() if result.startswith("missing")}
        assert {*NEEDED} <= missing
        assert found[family]["nf_tables"] == found[family]["sets of ranges"] == "ok"
        assert f"IPv{family} without random choice (numgen) (CONFIG_NFT_NUMGEN): the family cannot" in words
    assert_it_ends(node, manifests, f"{NEEDED[0]}: CONFIG_NF_CONNTRACK, CONFIG_NFT_CT; {NEEDED[1]}: CONFIG_NF_NAT")
    assert node.run("nft", "list", "ruleset").stdout == ""


def test_what_can_be_done_without(node, manifests, tmp_path):
    status, found, words = rows(node)
    daemon = Daemon(node, manifests.folder, tmp_path / "log", ["--flowtable-devices", "*"])
    assert status == 0
    daemon.start()
    log = daemon.log()
    assert daemon.stop() == 0
    for family in FAMILIES:
        for feature, (consequence, said) in OPTIONAL.items():
            assert found[family][feature].startswith("missing")
            assert re.search(rf"^IPv{family} without {re.escape(feature)} \(.*\): {consequence}$", words, re.MULTILINE)
            assert f"family=IPv{family} this kernel {said}" in log
        needed = found[family].keys() - OPTIONAL.keys() - {"tables that stay ours (owner)"}
        assert {found[family][feature] for feature in needed} == {"ok"}


def test_what_can_be_done_without_ipv6(node, manifests, tmp_path):
    node.sysctl({"ipv6.conf.all.disable_ipv6": 1})
    daemon = Daemon(node, manifests.folder, tmp_path / "log")
    daemon.start()
    assert node.run("nft", "list", "tables").stdout.splitlines() == ["table ip kube-nftd"]
    assert daemon.stop() == 0


@pytest.mark.parametrize("scenario,family,protocol", CASES)
def test_scenario(lab, tmp_path, scenario, family, protocol):
    scenario_run.play(scenario, lab, tmp_path, family, protocol)
