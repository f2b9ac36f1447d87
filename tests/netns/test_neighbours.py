# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of other programs beside ours: nobody gets in anybody's way."""

import re
import signal

import pytest

from background import Background
from daemon import call, wait_for
from lab import Namespace
from scenario import Proxy, Web

# Names like ours, hooks like ours, and what each family has.
TABLES = """
table inet kube-nftd {
    map services {
        type inet_service : verdict
        elements = { 81 : drop }
    }
    chain nat-prerouting {
        type nat hook prerouting priority dstnat; policy accept;
    }
    chain pick-2 {
        tcp dport vmap @services
    }
}
table ip others {
    map endpoints {
        typeof ip daddr . tcp dport : ip daddr . tcp dport
        elements = { 203.0.113.1 . 80 : 203.0.113.2 . 8080 }
    }
    set ranges {
        type ipv4_addr . inet_service
        flags interval
        elements = { 203.0.113.0/24 . 1-1024 }
    }
    chain nat {
        type nat hook prerouting priority dstnat - 1; policy accept;
        dnat ip to ip daddr . tcp dport map @endpoints
        ip daddr 203.0.113.3 dnat ip to numgen random mod 2 map { 0 : 203.0.113.4, 1 : 203.0.113.5 }
    }
    chain forward {
        type filter hook forward priority filter - 1; policy accept;
        ct state vmap { invalid : continue, established : accept, related : accept }
        ip saddr . th dport @ranges counter drop
        limit rate 10/second burst 5 packets accept
    }
}
table ip6 others {
    chain output {
        type filter hook output priority filter; policy accept;
        meta priority set none accept
    }
}
table arp others {
    chain input {
        type filter hook input priority filter; policy accept;
    }
}
table bridge others {
    chain forward {
        type filter hook forward priority filter; policy accept;
    }
}
table netdev others {
    chain ingress {
        type filter hook ingress device "client" priority filter; policy accept;
    }
}
"""

# What the nft and libnftnl that kube-nftd is built with do not know.
NEWER_TABLES = """
table inet newer {
    chain forward {
        type filter hook forward priority filter; policy accept;
        last
        udp dport 4789 vxlan ip saddr 203.0.113.1 drop
        ct mark set ip dscp
    }
}
"""


@pytest.fixture
def node(lab, nft):
    """The lab's node, with tables that @nft made."""
    node = lab.node
    node.nft = nft
    node.run(nft, "-f", "-", stdin=TABLES + (NEWER_TABLES if nft != "nft" else ""))
    yield node
    node.run(nft, "flush", "ruleset")
    node.nft = "nft"


@pytest.fixture
def web(lab, tmp_path, node, family):
    """A service of a kube-nftd that is not started yet."""
    proxy = Proxy(lab, tmp_path)
    try:
        yield Web(proxy, family, "TCP")
    finally:
        print(proxy.daemon.last_words())
        proxy.close()


def tables(node: Namespace, *, ours: bool) -> list[str]:
    """The listings of our tables or of the others, with handles."""
    done = node.run(node.nft, "--handle", "--stateless", "list", "ruleset")
    assert done.stderr == ""
    blocks = re.split(r"^(?=table )", done.stdout, flags=re.MULTILINE)[1:]
    return [block for block in blocks if bool(re.match("table ip6? kube-nftd ", block)) == ours]


def test_a_whole_life_leaves_other_tables_alone(web, node):
    before = tables(node, ours=False)
    assert len(before) >= 6
    web.proxy.daemon.start()
    web.publish("a", "b")
    assert set(web.tally(times=20)) == {"a", "b"}
    for by in (signal.SIGTERM, signal.SIGKILL):
        web.proxy.daemon.stop(by)
        web.proxy.daemon.start()
        web.put_endpoints(b="ready", c="ready")
        web.settle("b", "c")
        assert set(web.tally(times=20)) == {"b", "c"}
        web.put_endpoints(a="ready", b="ready", c="ready")
        web.settle("a", "b", "c")
    web.remove_service()
    web.settle_absent()
    assert tables(node, ours=False) == before
    assert len(tables(node, ours=True)) == 2
    assert web.proxy.daemon.stop() == 0
    assert not re.search(" (warn|error) +(?!daemon: no cluster CIDR)\\S", web.proxy.daemon.log())
    done = call(node, "--cleanup")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert tables(node, ours=False) == before
    assert tables(node, ours=True) == []


class Busy(Background):
    """Another program that changes a table of its own all the time, until the with-block ends."""

    def __init__(self, node: Namespace) -> None:
        super().__init__()
        self.node = node
        self.changes = 0

    def run(self) -> None:
        commands = "add element ip others ranges { 192.0.2.99 . 1 }; flush set ip others ranges"
        while not self.ended.is_set():
            self.node.run(self.node.nft, commands)
            self.changes += 1


@pytest.mark.parametrize("family", [4], ids=["IPv4"])
def test_a_busy_neighbour_disturbs_no_commit(web, node):
    """Every transaction of anyone is a new generation of the whole ruleset."""
    with Busy(node) as busy:
        web.proxy.daemon.start()
        web.publish("a", "b", "c")
        for number in range(30):
            pods = [pod for pod in "abc" if number % 2 or pod != "abc"[number // 2 % 3]]
            before = busy.changes
            web.put_endpoints(**dict.fromkeys(pods, "ready"))
            web.settle(*pods)
            wait_for(lambda: busy.changes > before, "the neighbour has its turn")
        assert web.proxy.daemon.stop() == 0
        web.proxy.daemon.start()
        web.put_endpoints(a="ready")
        web.settle("a")
    assert set(web.tally(times=10)) == {"a"}
    assert web.proxy.daemon.log().count(" adopted the table ") == 2
    assert not re.search(" (warn|error) +(?!daemon: no cluster CIDR)\\S", web.proxy.daemon.log())
