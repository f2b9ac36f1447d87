# SPDX-License-Identifier: GPL-2.0-or-later
"""A KubeProxyConfiguration file: which flags count beside it, what is refused, what takes effect, what an
edit of it does; --write-config-to and --init-only."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import pytest

import objects
from daemon import BINARY, HEALTH_PORT, START_SECONDS, Daemon, Table, call, http_get, mapped, tables_exist, wait_for
from lab import Namespace

METRICS_PORT = 10249
HEAD = """\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
"""
# What every daemon here needs: its harness asks there, and conntrack is not the test's to set.
DAEMON = f"""{HEAD}\
mode: nftables
healthzBindAddress: 127.0.0.1:{HEALTH_PORT}
conntrack: {{maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}
"""
POWERLESS = ("/usr/bin/setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")


@pytest.fixture
def namespace():
    namespace = Namespace()
    namespace.ip("link set lo up")
    yield namespace
    namespace.close()


@pytest.fixture
def folder(tmp_path):
    manifests = objects.Manifests(tmp_path / "manifests")
    addresses = {4: "10.96.0.1", 6: "fd00:10:96::1"}
    ports = [objects.Port("http", "TCP", 80)]
    manifests.put("web", objects.service("web", addresses, ports, externalIPs=["203.0.113.7"]))
    return manifests.folder


@pytest.fixture
def config(tmp_path) -> pathlib.Path:
    return tmp_path / "config.conf"


@pytest.fixture
def daemon(namespace, folder, config, tmp_path):
    """Not started yet; its file is there."""
    config.write_text(DAEMON)
    daemon = Daemon(namespace, folder, tmp_path / "log", ["--config", str(config)])
    yield daemon
    print(daemon.last_words())
    if daemon.running():
        daemon.stop()
    assert "runtime error" not in daemon.log()


def in_force(namespace: Namespace, *arguments: str) -> tuple[str, str]:
    """What --write-config-to writes, and what is said on the way."""
    done = call(namespace, *arguments, "--write-config-to", "/dev/fd/1")
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


# ---- what is refused ----

BAD_FILES = {
    "empty": ("", "no document"),
    "no kind": ("apiVersion: kubeproxy.config.k8s.io/v1alpha1\n", "kind"),
    "another kind": (HEAD.replace("KubeProxy", "Kubelet"), "KubeletConfiguration"),
    "another version": (HEAD.replace("v1alpha1", "v1"), "kubeproxy.config.k8s.io/v1"),
    "no YAML": (HEAD + "conntrack: [\n", "line 4"),
    "wrong type": (HEAD + "conntrack: {udpTimeout: 30}\n", "conntrack.udpTimeout"),
    "number out of range": (HEAD + "oomScoreAdj: 2000\n", "oomScoreAdj"),
    "port out of range": (HEAD + "healthzBindAddress: 0.0.0.0:70000\n", "0.0.0.0:70000"),
    "one port for two": (HEAD + "metricsBindAddress: 0.0.0.0:10256\n", "metricsBindAddress"),
    "bad CIDR": (HEAD + "clusterCIDR: 10.0.0.0\n", "10.0.0.0"),
    "bad node-port CIDR": (HEAD + "nodePortAddresses: [x/8]\n", "x/8"),
    "bad duration": (HEAD + "iptables: {syncPeriod: 30}\n", "iptables.syncPeriod"),
    "below zero": (HEAD + "conntrack: {min: -1}\n", "conntrack.min"),
    "bit": (HEAD + "mode: nftables\nnftables: {masqueradeBit: 32}\n", "nftables.masqueradeBit"),
    "unknown mode": (HEAD + "mode: userspace\n", "userspace"),
    "periods": (HEAD + "iptables: {minSyncPeriod: 31s}\n", "iptables.minSyncPeriod"),
    "bridge without a name": (HEAD + "detectLocalMode: BridgeInterface\n", "detectLocal.bridgeInterface"),
}


@pytest.mark.parametrize("text,culprit", BAD_FILES.values(), ids=BAD_FILES.keys())
def test_bad_files(namespace, folder, config, text, culprit):
    config.write_text(text)
    done = call(namespace, "--manifests", str(folder), "--config", str(config))
    assert (done.returncode, done.stdout) == (os.EX_CONFIG, "")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert str(config) in done.stderr and culprit in done.stderr
    assert namespace.run("nft", "list", "tables").stdout == ""  # and nothing was done


def test_no_file(namespace, config):
    done = call(namespace, "--config", str(config))
    assert (done.returncode, done.stdout) == (os.EX_CONFIG, "")
    assert f"{config}: No such file or directory" in done.stderr


# ---- what counts ----


def test_flags_give_way_to_the_file(namespace, config):
    config.write_text(HEAD + "mode: nftables\nconntrack: {min: 5}\nhostnameOverride: of-file\n")
    written, said = in_force(
        namespace, "--config", str(config), "--masquerade-all", "--conntrack-min=6", "--kubeconfig=k",
        "--hostname-override=of-flag", "-v=3", "--master=m",
    )  # fmt: skip
    assert "  min: 5\n" in written and "masqueradeAll: true" not in written
    assert "kubeconfig: \"\"\n" in written
    assert "hostnameOverride: of-flag\n" in written and "verbosity: 3\n" in written
    warnings = [line for line in said.splitlines() if " warn " in line]
    assert len(warnings) == 1, said
    assert warnings[0].endswith(": --kubeconfig, --masquerade-all, --conntrack-min")


def test_flags_count_without_a_file(namespace):
    written, said = in_force(namespace, "--masquerade-all", "--conntrack-min=6", "--iptables-sync-period=1m")
    assert written.count("masqueradeAll: true\n") == 2 and "  min: 6\n" in written
    assert written.count("syncPeriod: 1m0s\n") == 2
    assert said == ""


def test_unknown_fields_are_one_warning(namespace, config):
    config.write_text(HEAD + "mode: nftables\nnew: 1\nconntrack: {older: 2}\noomScoreAdj: 1\noomScoreAdj: 2\n")
    written, said = in_force(namespace, "--config", str(config))
    assert "oomScoreAdj: 2\n" in written
    assert len(said.splitlines()) == 1
    assert "new, conntrack.older" in said and "oomScoreAdj" in said


@pytest.mark.parametrize("mode", ["", "iptables", "ipvs"])
def test_other_modes(namespace, config, mode):
    config.write_text(HEAD + f'mode: "{mode}"\n')
    written, said = in_force(namespace, "--config", str(config))
    assert "\nmode: nftables\n" in written
    assert len(said.splitlines()) == 1 and f'mode="{mode}": nftables is used' in said


def test_json_is_as_good(namespace, config):
    fields = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables"}
    config.write_text(json.dumps({**fields, "conntrack": {"min": 9}}, indent="\t"))
    written, said = in_force(namespace, "--config", str(config))
    assert "  min: 9\n" in written and said == ""


# ---- one-shot commands ----


def test_what_is_written_reads_back(namespace, config):
    config.write_text(HEAD + "mode: ipvs\nipvs: {syncPeriod: 5s}\niptables: {masqueradeBit: 3}\nportRange: '1'\n")
    first, _ = in_force(namespace, "--config", str(config))
    config.write_text(first)
    second, said = in_force(namespace, "--config", str(config))
    assert second == first
    assert "mode=" not in said
    assert "  masqueradeBit: 3\n  minSyncPeriod: 1s\n  syncPeriod: 5s\n" in first[first.index("nftables:\n") :]


def test_writing_goes_before_cleanup(namespace, folder, config, tmp_path, daemon):
    daemon.start()
    daemon.stop()
    out = tmp_path / "out"
    done = call(namespace, "--write-config-to", str(out), "--cleanup")
    assert done.returncode == 0, done.stderr
    assert out.read_text().startswith("apiVersion: kubeproxy.config.k8s.io/v1alpha1\n")
    assert tables_exist(namespace)


def test_writing_may_fail(namespace, tmp_path):
    done = call(namespace, "--write-config-to", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{tmp_path}: Is a directory" in done.stderr


def test_writing_to_standard_output_keeps_what_is_there(namespace, tmp_path):
    """As a script's log that is redirected, by either name."""
    out = tmp_path / "out"
    with out.open("wb") as log, namespace.inside():
        log.write(b"before\n")
        log.flush()
        for name in ("/dev/stdout", "/dev/fd/1"):
            done = subprocess.run([str(BINARY), "--write-config-to", name], stdout=log, stderr=subprocess.PIPE)
            assert done.returncode == 0, done.stderr
    before, *written = out.read_text().split("apiVersion: ")
    assert before == "before\n" and len(written) == 2 and written[0] == written[1]


def test_no_file_by_an_empty_flag(namespace):
    """As kube-proxy: --config= is the same as no --config."""
    assert in_force(namespace, "--config=", "--oom-score-adj=7") == in_force(namespace, "--oom-score-adj=7")


def test_init_only_touches_no_table(namespace):
    done = call(namespace, "--init-only", "--conntrack-max-per-core=0")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert namespace.run("nft", "list", "tables").stdout == ""


def test_init_only_sets_conntrack(namespace):
    timeout = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait"
    done = call(namespace, "--init-only", "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-close-wait=77s")
    assert done.returncode == 0, done.stderr
    with namespace.inside():
        assert pathlib.Path(timeout).read_text() == "77\n"
    assert f"file={timeout} value=77: set" in done.stderr
    assert "all conntrack settings of this host are as desired" in done.stderr


def test_init_only_without_privilege(namespace):
    done = call(namespace, "--init-only", "--conntrack-max-per-core=0", wrapper=POWERLESS)
    assert done.returncode == 1
    assert "not permitted" in done.stderr


@pytest.mark.parametrize("flag", ["--version", "--version=true", "--version=raw"])
def test_versions(namespace, flag):
    done = call(namespace, flag)
    assert (done.returncode, done.stderr) == (0, "")
    said = r"[0-9.]+\n" if flag == "--version=raw" else r"kube-nftd [0-9.]+ \(commit .+\)\n"
    assert re.fullmatch(said, done.stdout)


def test_json_lines(namespace, folder, config):
    config.write_text(HEAD + "logging: {format: json}\nsurplus: 1\n")
    done = call(namespace, "--config", str(config), "--manifests", str(folder), "--dump-rules", "-v=4")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert any("surplus" in line["msg"] and line["level"] == "warn" for line in lines)
    assert all({"ts", "level", "logger", "msg"} <= set(line) for line in lines)


# ---- effects ----


def test_external_ips_may_be_off(namespace, folder, config):
    config.write_text(HEAD + "mode: nftables\nfeatureGates: {AllowServiceExternalIPs: false}\n")
    arguments = ["--manifests", str(folder), "--dump-rules"]
    assert "203.0.113.7 . tcp . 80" in call(namespace, *arguments).stdout
    done = call(namespace, *arguments, "--config", str(config))
    assert "10.96.0.1 . tcp . 80" in done.stdout and "203.0.113.7" not in done.stdout


def test_another_bit_replaces_the_table(namespace, config, daemon):
    table = Table(namespace, 4)
    daemon.start()
    assert "0x00004000" in table.listing()
    daemon.stop()
    config.write_text(DAEMON + "nftables: {masqueradeBit: 20}\n")
    daemon.start()
    assert "0x00100000" in table.listing() and "0x00004000" not in table.listing()
    rejected = [key for key in mapped(table.elements("services")[0]) if table.rejects(key)]
    assert ["10.96.0.1 . tcp . 80"] == [key for key in rejected if key.startswith("10.")]


def test_configz(namespace, config, daemon):
    config.write_text(DAEMON + "oomScoreAdj: 5\n")
    daemon.start()
    status, headers, body = http_get(namespace, "127.0.0.1", METRICS_PORT, "/configz")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    known = json.loads(body)["kubeproxy.config.k8s.io"]
    assert known["kind"] == "KubeProxyConfiguration" and known["oomScoreAdj"] == 5
    assert known["nodePortAddresses"] == ["primary"]
    assert pathlib.Path(f"/proc/{daemon.process.pid}/oom_score_adj").read_text() == "5\n"


def put_verbosity(namespace: Namespace, body: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", METRICS_PORT, timeout=20)
    with contextlib.closing(connection), namespace.inside():
        connection.request("PUT", "/debug/flags/v", body=body)
        return connection.getresponse().status


def test_pages_for_people(namespace, config, daemon):
    config.write_text(DAEMON + "logging: {verbosity: 0}\n")
    daemon.start()
    status, headers, body = http_get(namespace, "127.0.0.1", METRICS_PORT, "/flagz")
    assert (status, headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    flags = dict(line.split("=", 1) for line in body.split("\n\n", 1)[1].splitlines())
    assert flags["config"] == str(config) and flags["manifests"] == str(daemon.source)
    assert flags["nodeport-addresses"] == "primary" and flags["conntrack-min"] == "131072"
    assert flags["healthz-bind-address"].endswith(f":{HEALTH_PORT}")
    body = http_get(namespace, "127.0.0.1", METRICS_PORT, "/statusz")[2]
    assert f" from {daemon.source}\n" in body and re.search(r"\nTable IPv4   applied: 2 frontends, 0 rejected", body)
    assert "/configz /connections /explain /flagz" in body and "/debug/flags/v" not in body
    assert put_verbosity(namespace, "4") == 404  # not enabled


def test_verbosity_can_be_set(namespace, config, daemon):
    config.write_text(DAEMON + "enableProfiling: true\n")
    daemon.start()
    assert put_verbosity(namespace, "nothing") == 400
    assert put_verbosity(namespace, "0") == 200
    before = daemon.log().count(" debug ")
    manifests = objects.Manifests(daemon.source)
    for number in (1, 2):
        address = f"10.96.0.{10 + number}"
        manifests.put("more", objects.service("more", {4: address}, [objects.Port("", "TCP", 80)]))
        table = Table(namespace, 4)
        wait_for(lambda key=f"{address} . tcp . 80": table.rejects(key), "the change is in force")
        assert (daemon.log().count(" debug ") > before) == (number == 2)
        assert put_verbosity(namespace, "4") == 200


def test_hangup_reads_again(namespace, config, daemon, tmp_path):
    """What no event tells: a folder far above that was replaced, a file that was moved into place."""
    shutil.copytree(daemon.source, tmp_path / "a/b/c")
    daemon.source = tmp_path / "a/b/c"
    daemon.start()

    def hang_up(said: str) -> str:
        before = len(daemon.log())
        daemon.process.send_signal(signal.SIGHUP)
        wait_for(lambda: said in daemon.log()[before:], said)
        return daemon.log()[before:]

    shutil.copytree(tmp_path / "a", tmp_path / "new")
    manifests = objects.Manifests(tmp_path / "new/b/c")
    manifests.put("more", objects.service("more", {4: "10.96.0.9"}, [objects.Port("", "TCP", 80)]))
    (tmp_path / "a").rename(tmp_path / "old")
    (tmp_path / "new").rename(tmp_path / "a")
    hang_up("signal=Hangup: manifests were compared; log settings of --config are applied\n")
    table = Table(namespace, 4)
    wait_for(lambda: table.rejects("10.96.0.9 . tcp . 80"), "the new folder counts")
    for more, said in (
        ("logging: {format: json}\n", '"msg":"signal=Hangup: manifests were compared; log settings of --config are applied"'),
        ("", "info  daemon: signal=Hangup: manifests were compared; log settings of --config are applied\n"),
        ("nftables: {masqueradeAll: true}\n", "are applied, its other changes need a restart"),
        ("mode: []\n", "manifests were compared; the previous --config stays in use"),
    ):
        new = tmp_path / "new.conf"
        new.write_text(DAEMON + more)
        new.rename(config)
        words = hang_up(said)
        assert ("error config: --config " in words) == (more == "mode: []\n")
    assert daemon.stop() == 0


@pytest.mark.parametrize("port", [HEALTH_PORT, METRICS_PORT])
@pytest.mark.parametrize("hard", [False, True])
def test_a_port_in_use(namespace, folder, config, daemon, port, hard):
    config.write_text(DAEMON + f"bindAddressHardFail: {str(hard).lower()}\n")
    with namespace.inside():
        taken = socket.create_server(("127.0.0.1", port))
    with taken:
        if hard:
            done = call(namespace, "--config", str(config), "--manifests", str(folder))
            assert done.returncode == 1
            assert f"127.0.0.1:{port}, and bindAddressHardFail is set" in done.stderr.splitlines()[-1]
            assert namespace.run("nft", "list", "tables").stdout == ""
        else:
            daemon.wait_programmed = lambda: wait_for(lambda: tables_exist(namespace), "the tables are there", START_SECONDS)
            daemon.start()
            assert daemon.running()


def test_health_may_be_off(namespace, folder, tmp_path):
    daemon = Daemon(namespace, folder, tmp_path / "log", ["--healthz-port", "0"])
    daemon.wait_programmed = lambda: wait_for(lambda: tables_exist(namespace), "the tables are there", START_SECONDS)
    daemon.start()
    assert http_get(namespace, "127.0.0.1", HEALTH_PORT, "/livez") is None
    assert http_get(namespace, "127.0.0.1", METRICS_PORT, "/healthz")[0] == 200
    assert daemon.stop() == 0, daemon.last_words()


# ---- edits ----


def wait_ended(daemon: Daemon) -> int:
    try:
        return daemon.process.wait(timeout=30)
    except subprocess.TimeoutExpired as error:
        raise AssertionError(daemon.last_words()) from error


def test_writing_into_the_file_ends_it(namespace, config, daemon):
    daemon.start()
    with config.open("a") as file:
        file.write("# a remark\n")
    assert wait_ended(daemon) == 1
    assert f"{config} was written to" in daemon.log().splitlines()[-1]
    assert tables_exist(namespace)


def test_renaming_it_away_ends_it(namespace, config, daemon):
    daemon.start()
    config.rename(config.with_suffix(".old"))
    assert wait_ended(daemon) == 1
    assert f"{config} was renamed away" in daemon.log().splitlines()[-1]
    assert tables_exist(namespace)


def goes_on(daemon: Daemon) -> bool:
    """Whether it still takes a change: what was noticed of the file would have ended it before."""
    manifest = daemon.source / "later.json"
    manifest.write_text(json.dumps(objects.service("later", {4: "10.96.0.9"}, [objects.Port("", "TCP", 80)])))
    table = Table(daemon.namespace, 4)
    wait_for(lambda: not daemon.running() or table.rejects("10.96.0.9 . tcp . 80"), "a change")
    return daemon.running()


def test_another_file_in_its_place_is_not_noticed(config, daemon):
    daemon.start()
    other = config.with_suffix(".new")
    other.write_text(DAEMON + "oomScoreAdj: 7\n")
    other.rename(config)
    assert goes_on(daemon)


def test_a_config_map_swap_is_not_noticed(namespace, folder, tmp_path):
    """As the kubelet updates a ConfigMap's volume: ..data is a link that is replaced."""
    mount = tmp_path / "mount"
    for version in ("..1", "..2"):
        (mount / version).mkdir(parents=True)
        (mount / version / "config.conf").write_text(DAEMON)
    (mount / "..data").symlink_to("..1")
    (mount / "config.conf").symlink_to("..data/config.conf")
    daemon = Daemon(namespace, folder, tmp_path / "log", ["--config", str(mount / "config.conf")])
    daemon.start()
    (mount / "..new").symlink_to("..2")
    os.rename(mount / "..new", mount / "..data")
    (mount / "..1" / "config.conf").unlink()
    (mount / "..1").rmdir()
    assert goes_on(daemon), daemon.last_words()
    assert daemon.stop() == 0
