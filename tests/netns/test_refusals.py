# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel rejects does not stop the rest. The daemon is kube-nftd-faulty, whose rejected elements are data (see
tests/faults)."""

import pathlib
import re

import daemon
from daemon import BINARY, FAMILY_TABLE, call, http_get, wait_for
from scenario import Proxy, Web
from test_programmed import programmed

METRICS_PORT = 10249
ROOM = 2


def crowd(proxy: Proxy, source: str) -> None:
    """The daemon starts with a table of ours that somebody has given a map too small."""
    node = proxy.lab.node
    proxy.daemon.stop()
    done = call(node, *source.split(), "--dump-rules")
    assert done.returncode == 0, done.stderr
    text = done.stdout[: done.stdout.index("table ip6 kube-nftd {")]  # stock nft cannot load all of that
    text = re.sub(r"(map ports \{\n\s*type [^\n]*\n)", rf"\1        size {ROOM}\n", text, count=1)
    for ip in FAMILY_TABLE.values():
        node.run(node.nft, "delete", "table", ip, "kube-nftd")
    node.run(node.nft, "-f", "-", stdin=text)
    proxy.daemon.flags = ["--table-owner", "off"]
    proxy.daemon.start()


def refused(proxy: Proxy, family: int = 4) -> int:
    page = http_get(proxy.lab.node, "127.0.0.1", METRICS_PORT, "/metrics")[2]
    return int(re.search(rf'^kube_nftd_frontends_refused\{{ip_family="IPv{family}"\}} (\d+)$', page, re.MULTILINE)[1])


def test_a_map_that_is_too_small(proxy):
    """It is replaced at the start by one with room: nobody is rejected."""
    crowd(proxy, f"--manifests {proxy.manifests.folder} --hostname-override node-a")
    webs = {name: Web(proxy, 4, "TCP", name) for name in ("one", "two", "three")}
    for web in webs.values():
        web.publish("a")
        assert web.ask() == "a"
    assert refused(proxy) == 0 and programmed(proxy, "three")[0] == 200
    assert f"replacing the table: ports has size {ROOM}, not 0" in proxy.daemon.log()


def reject(proxy: Proxy, monkeypatch, folder: pathlib.Path, address: str) -> pathlib.Path:
    """The daemon starts anew, and the kernel rejects elements with @address from now on, until the file that is
    returned goes."""
    file = folder / "rejected"
    file.write_text(address)
    monkeypatch.setenv("NETLINK_REJECTS", str(file))
    monkeypatch.setattr(daemon, "BINARY", BINARY.parent / "tests/kube-nftd-faulty")
    proxy.daemon.stop()
    proxy.daemon.start()
    return file


def one_is_rejected(
    proxy: Proxy, monkeypatch, folder: pathlib.Path, family: int = 4
) -> tuple[dict[str, Web], pathlib.Path]:
    """Of three Services the third one, for its endpoint."""
    webs = {name: Web(proxy, family, "TCP", name) for name in ("one", "two", "three")}
    file = reject(proxy, monkeypatch, folder, proxy.lab.pods["c"].address[family])
    webs["one"].publish("a")
    webs["two"].publish("a")
    assert refused(proxy, family) == 0
    webs["three"].put_service()
    webs["three"].settle()
    webs["three"].put_endpoints(c="ready")
    wait_for(lambda: refused(proxy, family) == 1, "it is counted")
    return webs, file


def test_an_element_is_rejected(proxy, tmp_path, monkeypatch, family):
    webs, file = one_is_rejected(proxy, monkeypatch, tmp_path, family)
    # It is named, and nobody else notices.
    frontend = f"{webs['three'].address}:80/TCP" if family == 4 else f"[{webs['three'].address}]:80/TCP"
    named = f"frontend={frontend} service=default/three:http was rejected by the kernel"
    assert named in proxy.daemon.log()
    assert programmed(proxy, "three")[0] == 503 and programmed(proxy, "one")[0] == 200
    webs["one"].put_endpoints(b="ready")
    webs["one"].settle("b")
    assert webs["one"].ask() == "b" and webs["two"].ask() == "a"
    assert proxy.tables[family].backends(webs["three"].frontend) == []  # as it was without endpoints

    # In the other family everything goes on, too.
    other = Web(proxy, 10 - family, "TCP", "other")
    other.publish("a")
    assert other.ask() == "a"

    # The kernel takes it again: what changes is tried at once.
    file.unlink()
    webs["three"].put_endpoints(a="ready", c="ready")
    webs["three"].settle("a", "c")
    wait_for(lambda: refused(proxy, family) == 0, "it is not rejected any more")
    assert programmed(proxy, "three")[0] == 200
    assert webs["three"].ask() in ("a", "c")
    assert proxy.daemon.log().count(named) == 1
