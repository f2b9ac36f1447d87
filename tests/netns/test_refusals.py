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


def refused(proxy: Proxy) -> int:
    page = http_get(proxy.lab.node, "127.0.0.1", METRICS_PORT, "/metrics")[2]
    return int(re.search(r'^kube_nftd_frontends_refused\{ip_family="IPv4"\} (\d+)$', page, re.MULTILINE)[1])


def test_a_map_that_is_too_small(proxy):
    """It is replaced at the start by one with room: nobody is rejected."""
    crowd(proxy, f"--manifests {proxy.manifests.folder} --hostname-override node-a")
    webs = {name: Web(proxy, 4, "TCP", name) for name in ("one", "two", "three")}
    for web in webs.values():
        web.publish("a")
        assert web.ask() == "a"
    assert refused(proxy) == 0 and programmed(proxy, "three")[0] == 200
    assert f"replacing the table: ports has size {ROOM}, not 0" in proxy.daemon.log()
