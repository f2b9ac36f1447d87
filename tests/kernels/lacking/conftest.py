# SPDX-License-Identifier: GPL-2.0-or-later
"""The network of the tests with packets, in namespaces of its own."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "netns"))
import lab as lab_module  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    if not config.option.collectonly:
        lab_module.enter()


@pytest.fixture(scope="session")
def lab():
    network = lab_module.Lab()
    yield network
    network.close()
