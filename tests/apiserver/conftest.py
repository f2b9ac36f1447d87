# SPDX-License-Identifier: GPL-2.0-or-later
"""What most tests here begin with; one that needs something else has a fixture of that name itself."""

import pytest

import apiserver
import encoding
import pki
from harness import endpoint_slice, node, own_network, service


@pytest.fixture(name="certs", scope="session")
def make_certs(tmp_path_factory):
    return pki.make(tmp_path_factory.mktemp("certs"))


def pytest_configure(config):
    config.addinivalue_line("markers", "in_both: with a server that speaks protobuf too, and one that does not")


def pytest_generate_tests(metafunc):
    if metafunc.definition.get_closest_marker("in_both"):
        metafunc.parametrize("server", [encoding.BOTH, (encoding.Json,)], ids=["protobuf", "json"], indirect=True)


@pytest.fixture(name="server")
def run_server(certs, request):
    """The stand-in with a node and one service of two endpoints, in a network of its own."""
    with own_network(), apiserver.ApiServer(certs) as server:
        server.api.encodings = getattr(request, "param", encoding.BOTH)
        server.put(node(), service(), endpoint_slice("10.1.0.1", "10.1.0.2"))
        yield server
