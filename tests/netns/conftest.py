# SPDX-License-Identifier: GPL-2.0-or-later
"""Real kernel, real packets: every test here runs in namespaces that the test process makes for itself."""

import os

import pytest

import lab as lab_module
from daemon import BINARY
from scenario import Proxy, Web


def pytest_configure(config: pytest.Config) -> None:
    if config.option.collectonly or config.option.help:
        return
    if not BINARY.is_file():
        raise pytest.UsageError(f"{BINARY} is not there: build it first, or name it in KUBE_NFTD")
    lab_module.enter()


def pytest_terminal_summary(terminalreporter) -> None:
    """Says aloud what could not be tested here."""
    skipped = terminalreporter.stats.get("skipped", [])
    for reason in sorted({report.longrepr[2].removeprefix("Skipped: ") for report in skipped}):
        terminalreporter.write_line(f"NOT TESTED: {reason}", yellow=True)


@pytest.fixture(scope="session")
def lab():
    network = lab_module.Lab()
    yield network
    network.close()


@pytest.fixture
def proxy(lab, tmp_path):
    """A running kube-nftd of its own for each test, with nothing to proxy yet."""
    proxy = Proxy(lab, tmp_path)
    try:
        proxy.daemon.start()
        yield proxy
        assert "runtime error" not in proxy.daemon.log()
    finally:
        print(proxy.daemon.last_words())  # shown if the test failed
        proxy.close()


@pytest.fixture(params=[4, 6], ids=["IPv4", "IPv6"])
def family(request) -> int:
    return request.param


@pytest.fixture(params=lab_module.PROTOCOLS)
def protocol(request) -> str:
    return request.param


def needs_linux(major: int, minor: int, what: str) -> None:
    if lab_module.linux() < (major, minor):
        pytest.skip(f"{what}: Linux {major}.{minor}")


@pytest.fixture
def table_owners() -> None:
    """A table may belong to a process, and goes with it."""
    needs_linux(5, 12, "tables with an owner")


@pytest.fixture
def kept_tables() -> None:
    """One that stays when its owner ends: what kube-nftd needs to own its tables."""
    needs_linux(6, 9, "tables that stay when their owner ends")


@pytest.fixture
def resizable_sets() -> None:
    """Whose size and time-out can be declared anew."""
    needs_linux(6, 12, "sets whose size changes")


@pytest.fixture(scope="session")
def newer_nft() -> str:
    program = os.environ.get("KUBE_NFTD_NEWER_NFT")
    if not program:
        pytest.skip("a newer nft: see tests/netns/newer-nft")
    return program


@pytest.fixture(params=["stock nft", "newer nft"])
def nft(request) -> str:
    return "nft" if request.param == "stock nft" else request.getfixturevalue("newer_nft")


@pytest.fixture
def web(proxy, family, protocol) -> Web:
    return Web(proxy, family, protocol)


@pytest.fixture
def tcp(proxy) -> Web:
    """For what has nothing to do with family or protocol."""
    return Web(proxy, 4, "TCP")
