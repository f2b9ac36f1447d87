# SPDX-License-Identifier: GPL-2.0-or-later
"""Other programs at our tables: kept off where the kernel can do that, else noticed and put right."""

import signal
import subprocess
import time

from daemon import BINARY, FAMILY_TABLE, Daemon, call, environment, wait_for
from scenario import Proxy, Traffic, Web

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
    "add rule {table} dispatch drop",
    "flush map {table} services",
    "add element {table} reject_frontends {{ {address} . tcp . 80 }}",
    "delete element {table} services {{ {address} . tcp . 80 }}",
    "add table {table} {{ flags dormant ; }}",
]


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


def test_the_next_daemon_waits_for_the_owner(proxy, tmp_path, family):
    """An upgrade with both running for a while: no connection fails, the wait is said once, and what changed
    meanwhile is in force soon after the old one is gone."""
    web = Web(proxy, family, "TCP")
    web.publish("a", "b")
    log = tmp_path / "next.log"
    flags = ("--manifests", str(proxy.manifests.folder), "--hostname-override", "node-a",
             "--healthz-bind-address", "127.0.0.1:10356", "--metrics-bind-address", "127.0.0.1:10349",
             "--conntrack-max-per-core", "0")  # fmt: skip
    following = Daemon(proxy.lab.node, proxy.manifests.folder, log)
    with Traffic(proxy.lab, proxy.lab.client, *web.call()) as traffic:
        with log.open("ab") as out:
            following.process = call_in_background(proxy.lab.node, flags, out)
        wait_for(lambda: following.log().count("waiting until the owner is gone") == 2, "both families wait")
        time.sleep(0.5)  # some more tries
        assert following.log().count("waiting until the owner is gone") == 2
        assert f"its netlink port, often its process id, is {proxy.daemon.process.pid}" in following.log()
        proxy.daemon.stop()
        wait_for(lambda: following.log().count(" in force ") == 2, "it took over")
        web.put_endpoints(b="ready")
        web.settle("b")
    assert set(traffic.answers) <= GOOD
    assert following.stop() == 0


def call_in_background(namespace, flags, out) -> subprocess.Popen:
    return namespace.start([str(BINARY), *flags], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment())


def test_cleanup_needs_the_owner_gone(proxy):
    node = proxy.lab.node
    done = call(node, "--cleanup")
    assert done.returncode == 1
    assert "table ip kube-nftd is owned by a program that is running" in done.stderr
    assert owner(node, 4) and owner(node, 6)
    proxy.daemon.stop()
    assert call(node, "--cleanup").returncode == 0
    assert node.run(node.nft, "list", "tables").stdout == ""
