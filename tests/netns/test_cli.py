# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line: what is refused and how, what is printed where, --cleanup, signals."""

import os
import pathlib
import signal
import subprocess

import pytest

import objects
from daemon import Daemon, call, tables_exist
from lab import Namespace


@pytest.fixture
def namespace():
    namespace = Namespace()
    yield namespace
    namespace.close()


@pytest.fixture
def folder(tmp_path):
    manifests = objects.Manifests(tmp_path / "manifests")
    addresses = {4: "10.96.0.1", 6: "fd00:10:96::1"}
    manifests.put("web", objects.service("web", addresses, [objects.Port("http", "TCP", 80)]))
    return manifests.folder


HERE = "FOLDER"  # stands for an existing folder of manifests

MISTAKES = {
    "unknown flag": (["--no-such-flag"], "no-such-flag"),
    "unknown flag with value": (["--no-such-flag=1"], "no-such-flag"),
    "unknown short flag": (["-x"], "x"),
    "positional argument": (["--manifests", HERE, "surplus"], "surplus"),
    "manifests and kubeconfig": (["--manifests", HERE, "--kubeconfig", "/k"], "kubeconfig"),
    "manifests and master": (["--manifests", HERE, "--master", "https://10.0.0.1"], "master"),
    "dump-rules and cleanup": (["--manifests", HERE, "--dump-rules", "--cleanup"], "cleanup"),
    "missing value": (["--manifests"], "manifests"),
    "verbosity without a number": (["--manifests", HERE, "-v"], "-v"),
    "verbosity that is no number": (["--manifests", HERE, "-v", "loud"], "loud"),
    "verbosity below zero": (["--manifests", HERE, "-v", "-1"], "-1"),
    "path that is not there": (["--manifests", "/no/such/path", "--dump-rules"], "/no/such/path"),
    "path that is not there, daemon": (["--manifests", "/no/such/path"], "/no/such/path"),
    "bad health address": (["--manifests", HERE, "--healthz-bind-address", "nowhere"], "nowhere"),
    "bad metrics address": (["--manifests", HERE, "--metrics-bind-address", "nowhere"], "nowhere"),
    "dry run of nothing": (["--manifests", HERE, "--dry-run"], "--cleanup-kube-proxy"),
    "preflight and cleanup": (["preflight", "--cleanup"], "cleanup"),
    "cleanup and explain": (["--cleanup", "explain", "default/web"], "explain"),
    "explain nothing": (["explain"], "WHAT is missing"),
    "a flag that became a command": (["--explain", "default/web"], "it is a command: kube-nftd explain"),
    "unknown command": (["explian"], "did you mean explain?"),
    "nearly list endpoints": (["list", "endpoint", "a/b"], "did you mean list endpoints?"),
    "help for an unknown command": (["help", "exlain"], "did you mean explain?"),
    "explain in an unknown form": (["explain", "default/web", "-o", "xml"], "xml"),
    "two namespaces": (["list", "a/b", "-n", "c"], "a/b has a namespace already"),
    "unknown way to tell pods": (["--manifests", HERE, "--detect-local-mode", "Guess"], "Guess"),
    "bridge without a name": (
        ["--manifests", HERE, "--detect-local-mode", "BridgeInterface"], "pod-bridge-interface",
    ),
    "prefix without a name": (
        ["--manifests", HERE, "--detect-local-mode", "InterfaceNamePrefix"], "pod-interface-name-prefix",
    ),
    "bad cluster CIDR": (["--manifests", HERE, "--cluster-cidr", "10.0.0.0/33"], "10.0.0.0/33"),
    "bad node-port addresses": (["--manifests", HERE, "--nodeport-addresses", "any"], "any"),
    "primary twice": (["--manifests", HERE, "--nodeport-addresses", "primary,all,primary"], "primary"),
}  # fmt: skip


@pytest.mark.parametrize("arguments,culprit", MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes(namespace, folder, arguments, culprit):
    done = call(namespace, *[str(folder) if word == HERE else word for word in arguments])
    assert done.returncode == os.EX_CONFIG
    assert done.stdout == ""
    assert culprit in done.stderr
    assert "Sanitizer" not in done.stderr
    assert namespace.run("nft", "list", "tables").stdout == ""  # and nothing was done


def conntrack_sysctls(namespace):
    with namespace.inside():
        folder = pathlib.Path("/proc/sys/net/netfilter")
        return {path.name: path.read_text() for path in folder.glob("nf_conntrack_tcp_timeout_*")}


# Addresses that no host has: a daemon that gets as far as its ports ends for them.
NO_PORTS = ["--bind-address-hard-fail", "--healthz-bind-address=192.0.2.1:1", "--metrics-bind-address=192.0.2.1:2"]


@pytest.mark.parametrize("contents,flags", [(None, NO_PORTS), ("kind: [", []), ("kind: List\nitems: 7\n", [])])
def test_a_typo_leaves_the_host_alone(namespace, tmp_path, contents, flags):
    namespace.run(namespace.nft, "add table ip t; add chain ip t c; add rule ip t c ct state new")
    before = conntrack_sysctls(namespace)
    assert before
    path = tmp_path / "objects.yaml"
    if contents is not None:
        path.write_text(contents)
    done = call(namespace, "--manifests", str(path), "--conntrack-tcp-timeout-established=77s", *flags)
    assert (done.returncode, done.stdout) == (os.EX_CONFIG, "")
    assert f"kube-nftd: --manifests: {path}: " in done.stderr
    assert "conntrack" not in done.stderr
    assert conntrack_sysctls(namespace) == before


@pytest.mark.parametrize("flag,word", [("--help", "--manifests"), ("--version", "kube-nftd")])
def test_information(namespace, flag, word):
    done = call(namespace, flag)
    assert (done.returncode, done.stderr) == (0, "")
    assert word in done.stdout


@pytest.mark.parametrize("command", ["list", "list endpoints", "status", "top", "explain", "preflight", "dump", "cleanup"])
def test_help_for_a_command(namespace, command):
    """Its own, within a terminal's width, with the flags that it takes."""
    done = call(namespace, "help", *command.split())
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith(f"Usage: kube-nftd {command} ")
    assert done.stdout == call(namespace, *command.split(), "--help").stdout
    assert max(map(len, call(namespace, "--help").stdout.splitlines())) <= 80
    assert ("--output" in done.stdout) == (command not in ("preflight", "dump", "cleanup"))
    assert call(namespace, "version").stdout == call(namespace, "--version").stdout
    assert call(namespace, "help").stdout == call(namespace, "--help").stdout


def test_help_names_every_flag(namespace):
    text = call(namespace, "--help").stdout
    for flag in (
        "--manifests", "--kubeconfig", "--master", "--hostname-override", "--healthz-bind-address",
        "--dump-rules", "--cleanup", "--version", "--help", "-v", "--nodeport-addresses", "--cluster-cidr",
        "--detect-local-mode", "--pod-bridge-interface", "--pod-interface-name-prefix", "--masquerade-all",
        "preflight", "--metrics-bind-address", "--conntrack-max-per-core", "--conntrack-min",
        "--conntrack-tcp-timeout-established", "--conntrack-tcp-timeout-close-wait",
        "--conntrack-tcp-be-liberal", "--conntrack-udp-timeout", "--conntrack-udp-timeout-stream",
        "explain WHAT", "list [NAMESPACE[/SERVICE]]", "list endpoints", "status", "dump", "cleanup", "--output", "--all",
    ):  # fmt: skip
        assert flag in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["--manifests", HERE, "--dump-rules"],
        ["--manifests=" + HERE, "--dump_rules"],
        ["--manifests", HERE, "--dump-rules=true", "--hostname_override=node-a", "--healthz_bind_address=127.0.0.1:1"],
    ],
)
def test_spellings_of_flags(namespace, folder, arguments):
    done = call(namespace, *[word.replace(HERE, str(folder)) for word in arguments])
    assert done.returncode == 0, done.stderr
    assert "table ip kube-nftd" in done.stdout and "table ip6 kube-nftd" in done.stdout


def test_dump_needs_no_privilege(namespace, folder):
    """Without any capability the kernel would refuse a change or a look; the dump works."""
    powerless = ("/usr/bin/setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
    with namespace.inside():
        refused = subprocess.run([*powerless, "nft", "list", "ruleset"], capture_output=True, text=True)
    assert refused.returncode != 0 or "not permitted" in refused.stderr
    done = call(namespace, "--manifests", str(folder), "--dump-rules", wrapper=powerless)
    assert done.returncode == 0, done.stderr
    assert "10.96.0.1 . tcp . 80" in done.stdout


def test_a_run_without_privilege_says_so(namespace, folder):
    powerless = ("/usr/bin/setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
    for command in ("--cleanup", "--cleanup-kube-proxy"):
        done = call(namespace, command, wrapper=powerless)
        assert (done.returncode, done.stdout) == (1, "")
        assert "not permitted" in done.stderr and "CAP_NET_ADMIN" in done.stderr
    assert done.stdout == ""


def test_cleanup_removes_our_tables_only(namespace, folder, tmp_path):
    daemon = Daemon(namespace, folder, tmp_path / "log")
    daemon.start()
    assert daemon.stop(signal.SIGTERM) == 0, daemon.log()
    namespace.run("nft", "add table ip other")
    assert tables_exist(namespace)  # the tables outlive it
    for there in (True, False):  # the second time there is nothing to remove
        done = call(namespace, "--cleanup")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert namespace.run("nft", "list", "tables").stdout == "table ip other\n"
        assert ("no table kube-proxy is here" in done.stderr) is there


def test_cleanup_beside_kube_proxy(namespace, folder, tmp_path):
    """Whoever goes back has kube-proxy first."""
    daemon = Daemon(namespace, folder, tmp_path / "log")
    daemon.start()
    assert daemon.stop(signal.SIGTERM) == 0, daemon.log()
    namespace.run("nft", "add table ip6 kube-proxy")
    done = call(namespace, "--cleanup")
    assert done.returncode == 0 and "kube-proxy" not in done.stderr, done.stderr


@pytest.mark.parametrize(
    "flags,warned",
    [([], 1), (["--cluster-cidr", "10.244.0.0/16"], 0), (["--detect-local-mode", "NodeCIDR"], 0), (["--cluster-cidr="], 1)],
)
def test_without_a_cluster_cidr_it_warns(namespace, folder, tmp_path, flags, warned):
    """As kube-proxy does: pods are not recognised then."""
    daemon = Daemon(namespace, folder, tmp_path / "log", flags)
    daemon.start()
    assert daemon.stop(signal.SIGTERM) == 0
    assert daemon.log().count("warn  daemon: no cluster CIDR is given (clusterCIDR, --cluster-cidr)") == warned
