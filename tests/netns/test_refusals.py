# SPDX-License-Identifier: GPL-2.0-or-later
"""What the kernel refuses does not stop the rest: a map without room, made so by hand."""

import re

from daemon import FAMILY_TABLE, call, http_get, wait_for
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
    assert "family=ip adopted the table" in proxy.daemon.log()


def refused(proxy: Proxy) -> int:
    page = http_get(proxy.lab.node, "127.0.0.1", METRICS_PORT, "/metrics")[2]
    return int(re.search(r'^kube_nftd_frontends_refused\{ip_family="IPv4"\} (\d+)$', page, re.MULTILINE)[1])


def test_a_full_map(proxy):
    webs = {name: Web(proxy, 4, "TCP", name) for name in ("one", "two", "three")}
    crowd(proxy, f"--manifests {proxy.manifests.folder} --hostname-override node-a")
    webs["one"].publish("a")
    webs["two"].publish("a")
    assert refused(proxy) == 0

    # One too many: it is named, and nobody else notices.
    webs["three"].put_service()
    webs["three"].settle()
    webs["three"].put_endpoints(c="ready")
    named = f"frontend={webs['three'].address}:80/TCP service=default/three:http was rejected by the kernel"
    wait_for(lambda: named in proxy.daemon.log(), "the log names it")
    wait_for(lambda: refused(proxy) == 1, "it is counted")
    assert programmed(proxy, "three")[0] == 503 and programmed(proxy, "one")[0] == 200
    webs["one"].put_endpoints(b="ready")
    webs["one"].settle("b")
    assert webs["one"].ask() == "b" and webs["two"].ask() == "a"
    assert proxy.tables[4].backends(webs["three"].frontend) == []  # rejected, as it was without endpoints

    # In the family with room, everything goes on, too.
    six = Web(proxy, 6, "TCP", "six")
    six.publish("a")
    assert six.ask() == "a"

    # There is room again: what changes is tried at once.
    webs["two"].remove_service()
    webs["two"].settle_absent()
    wait_for(lambda: len(proxy.tables[4].elements("ports")[0]) < ROOM, "its service port goes, a moment later")
    webs["three"].put_endpoints(a="ready", c="ready")
    webs["three"].settle("a", "c")
    wait_for(lambda: refused(proxy) == 0, "it is not refused any more")
    assert programmed(proxy, "three")[0] == 200
    assert webs["three"].ask() in ("a", "c")
    assert proxy.daemon.log().count("was rejected by the kernel") == 1
