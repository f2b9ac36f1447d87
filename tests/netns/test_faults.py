# SPDX-License-Identifier: GPL-2.0-or-later
"""Netlink calls that fail at random, in kube-nftd-faulty (tests/faults): interrupted, without memory or buffers, answers
and the rest of dumps lost. tests/run plays scenarios with it, too."""

import random
import signal
import time

import pytest

import daemon
from daemon import BINARY, wait_for
from scenario import Traffic, Web, running

ROUNDS = 24


@pytest.fixture
def faulty(lab, tmp_path, monkeypatch, request, owner):
    if owner == "auto":
        request.getfixturevalue("kept_tables")
    seed = random.SystemRandom().randrange(10**6)
    print(f"NETLINK_FAULTS={seed}/400")  # shown if the test failed
    monkeypatch.setenv("NETLINK_FAULTS", f"{seed}/400")
    monkeypatch.setattr(daemon, "BINARY", BINARY.parent / "tests/kube-nftd-faulty")
    with running(lab, tmp_path, "--table-owner", owner) as proxy:
        yield proxy


def put(web: Web, pods: str) -> None:
    web.put_service()
    web.put_endpoints(**dict.fromkeys(pods, "ready"))


def settle(web: Web, pods: str) -> None:
    """Waits after failures double, up to 30 s."""
    wanted = sorted(web.lab.pods[pod].address[web.family] for pod in pods)

    def backends() -> list[str]:
        return sorted(address for address, _ in web.proxy.tables[web.family].backends(web.frontend) or ())

    wait_for(lambda: backends() == wanted, lambda: f"{web.name} has {wanted}; it has {backends()}", 90)


@pytest.mark.parametrize("owner", ["auto", "off"])
def test_a_table_is_never_replaced_for_what_fails(faulty, owner, family):
    """Services come and go, and so does the daemon. What stays is served all the time, and what is desired is applied
    in the end."""
    proxy, steady = faulty, Web(faulty, family, "TCP")
    others = [Web(proxy, family, "TCP", name=f"other-{i}") for i in range(3)]
    put(steady, "ab")
    settle(steady, "ab")
    with Traffic(proxy.lab, proxy.lab.client, *steady.call()) as traffic:
        for i in range(ROUNDS):
            put(others[i % 3], ("ab", "b", "abc", "c")[i % 4])
            time.sleep(0.05)
            if i % 4 == 3:
                proxy.daemon.stop((signal.SIGKILL, signal.SIGTERM)[i // 4 % 2])
                proxy.daemon.start()
        for other, pods in zip(others, ("abc", "c", "ab"), strict=True):
            put(other, pods)
            settle(other, pods)
        wait_for(lambda: traffic.answers.total() > 100, "there is traffic")
    assert set(traffic.answers) == {"a", "b"}
    assert "replacing" not in proxy.daemon.log()
