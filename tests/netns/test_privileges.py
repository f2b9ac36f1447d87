# SPDX-License-Identifier: GPL-2.0-or-later
"""What a running daemon may still do (tests/unit/test_privileges.c tries what it may not)."""

import pathlib
import shutil

from scenario import Proxy

NET_ADMIN = 1 << 12


def states(proxy: Proxy) -> list[dict[str, str]]:
    """/proc's word on each thread."""
    tasks = pathlib.Path(f"/proc/{proxy.daemon.process.pid}/task").iterdir()
    lines = [(task / "status").read_text().splitlines() for task in tasks]
    return [dict(line.split(":\t", 1) for line in some if ":\t" in line) for some in lines]


def test_a_daemon_keeps_one_capability(proxy):
    for state in states(proxy):
        assert [int(state[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")] == [NET_ADMIN] * 3
        assert [int(state[name], 16) for name in ("CapInh", "CapAmb")] == [0, 0]
        assert (state["NoNewPrivs"], state["Seccomp"]) == ("1", "2")
    assert "more privileges remain" not in proxy.daemon.log()


def test_net_admin_is_enough_from_the_start(lab, tmp_path):
    """As in a container: neither CAP_SETPCAP nor CAP_SYS_ADMIN are there."""
    proxy = Proxy(lab, tmp_path)
    proxy.daemon.wrapper = (shutil.which("setpriv"), "--bounding-set", "-all,+net_admin", "--")
    try:
        proxy.daemon.start()
        test_a_daemon_keeps_one_capability(proxy)
    finally:
        print(proxy.daemon.last_words())
        proxy.close()
