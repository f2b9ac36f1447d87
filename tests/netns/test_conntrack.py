# SPDX-License-Identifier: GPL-2.0-or-later
"""UDP flows when endpoints go: many of them, and while the daemon is away. See also scenarios/5.1-*.yaml."""

import collections
import contextlib

import pytest

from daemon import wait_for
from lab import ask_on
from scenario import Web

MANY = 200


@pytest.fixture
def udp(proxy, family) -> Web:
    return Web(proxy, family, "UDP")


def open_flows(web: Web, number: int, held: contextlib.ExitStack) -> list:
    flows = [web.lab.open(web.lab.client, *web.call(), timeout=2) for _ in range(number)]
    for flow in flows:
        held.enter_context(flow)
    return flows


def tally(flows: list) -> collections.Counter:
    return collections.Counter(ask_on(flow) for flow in flows)


def wait_tally(flows: list, pods: set[str]) -> None:
    wait_for(lambda: tally(flows).keys() <= pods, lambda: f"all flows are at {pods}: {tally(flows)}")


def test_many_flows_move_at_once_and_no_others(udp):
    other = Web(udp.proxy, udp.family, "UDP", "other")
    udp.publish("a", "b")
    other.publish("a", "b")
    with contextlib.ExitStack() as held:
        flows, bystanders = open_flows(udp, MANY, held), open_flows(other, MANY, held)
        before, others_before = [ask_on(flow) for flow in flows], [ask_on(flow) for flow in bystanders]
        assert set(before) == set(others_before) == {"a", "b"}
        udp.put_endpoints(b="ready", c="ready")
        udp.settle("b", "c")
        wait_tally(flows, {"b", "c"})
        after = [ask_on(flow) for flow in flows]
        assert [pod for pod in before if pod == "b"] == [new for old, new in zip(before, after) if old == "b"]
        assert "c" in after
        assert [ask_on(flow) for flow in bystanders] == others_before


def test_flows_move_when_the_daemon_comes_back(udp):
    udp.publish("a")
    with contextlib.ExitStack() as held:
        flows = open_flows(udp, 5, held)
        assert set(tally(flows)) == {"a"}
        udp.proxy.daemon.stop()
        udp.put_endpoints(b="ready")
        udp.proxy.daemon.start()
        udp.settle("b")
        wait_tally(flows, {"b"})


def test_a_restart_alone_moves_nothing(udp):
    udp.publish("a", "b", "c")
    with contextlib.ExitStack() as held:
        flows = open_flows(udp, 30, held)
        before = [ask_on(flow) for flow in flows]
        udp.proxy.daemon.stop()
        udp.proxy.daemon.start()
        Web(udp.proxy, udp.family, "UDP", "later").publish("c")
        assert [ask_on(flow) for flow in flows] == before


def test_an_answer_on_its_way_keeps_no_flow_from_the_service(udp):
    """A client spoke to the address before there was a service. Its entry goes, and then comes the answer."""
    with udp.lab.open(udp.lab.pods["d"].namespace, *udp.call(), timeout=2) as flow:
        assert ask_on(flow) == "outside"
        with udp.lab.server("outside").paused():
            flow.send(b"who?")
            udp.publish("a")
            wait_for(lambda: " deleted=1 seconds=" in udp.proxy.daemon.log(), "the entry is deleted")
        assert flow.recv(4096).startswith(b"outside ")
        wait_for(lambda: ask_on(flow) == "a", "the flow is at the service")
