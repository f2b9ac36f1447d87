# SPDX-License-Identifier: GPL-2.0-or-later
"""/programmed and /readyz: what they say of the kernel is so when they say it."""

import json

import pytest

from daemon import HEALTH_PORT, START_SECONDS, http_get, wait_for
from objects import FAMILY_NAME
from scenario import Proxy, Web, running, table_of_another
from test_metrics import request


def programmed(proxy: Proxy, name: str = "web") -> tuple[int, dict]:
    status, headers, body = request(proxy, f"/programmed?namespace=default&service={name}")
    assert headers["Content-Type"] == "application/json"
    answer = json.loads(body)
    assert answer["programmed"] == (status == 200) == ("reason" not in answer)
    return status, answer


def put_version(web: Web, version: str, **states: str) -> None:
    told = web.as_slice(states)
    told["metadata"]["resourceVersion"] = version
    web.proxy.manifests.put("web-slice", told)


def slice_of(web: Web) -> tuple[str | None, str | None]:
    """What came of its one slice, and what the kernel holds; nothing before it and its Service came."""
    slices = programmed(web.proxy)[1].get("endpointSlices")
    if not slices:
        return None, None
    [told] = slices
    assert told["name"] == "web-1" and told["inKernel"].keys() == {FAMILY_NAME[web.family]}
    return told["received"], told["inKernel"][FAMILY_NAME[web.family]]


@pytest.fixture(name="everybodys")
def make_everybodys(lab, tmp_path):
    """A daemon whose tables others can change."""
    with running(lab, tmp_path, "--table-owner", "off") as proxy:
        yield proxy


def test_packets_go_there_as_soon_as_it_says_so(proxy, family):
    web = Web(proxy, family, "TCP")
    web.put_service()
    for number in range(20):
        pod = "ab"[number % 2]
        version = f"{number}" if number % 3 else f"opaque-{number}"
        put_version(web, version, **{pod: "ready"})
        wait_for(lambda version=version: programmed(proxy)[0] == 200 and slice_of(web)[1] == version, version)
        assert web.ask() == pod


@pytest.mark.usefixtures("table_owners")
def test_a_kernel_that_refuses(everybodys, family):
    web = Web(everybodys, family, "TCP")
    web.put_service()
    put_version(web, "11", a="ready")
    wait_for(lambda: slice_of(web) == ("11", "11"), "it is programmed")
    with table_of_another(everybodys, family):
        put_version(web, "12", b="ready")
        wait_for(lambda: slice_of(web)[0] == "12", "it came")
        assert slice_of(web) == ("12", None)
        status, answer = programmed(everybodys)
        assert status == 503 and answer["reason"] == "the table is gone, or belongs to another program; the log says more"
        assert answer["service"] == {"received": "7", "inKernel": {FAMILY_NAME[family]: None}}
        # The other family goes on.
        other = Web(everybodys, 10 - family, "TCP", "other")
        other.publish("a")
        assert programmed(everybodys, "other")[0] == 200
    wait_for(lambda: programmed(everybodys)[0] == 200, "the table is ours again")
    assert slice_of(web) == ("12", "12")
    assert web.ask() == "b"


def test_a_version_that_says_the_same(tcp):
    put_version(tcp, "11", a="ready")
    tcp.put_service()
    wait_for(lambda: programmed(tcp.proxy)[0] == 200, "it is programmed")
    put_version(tcp, "12", a="ready")
    wait_for(lambda: slice_of(tcp) == ("12", "12"), "it is held as it comes")


def test_what_cannot_be_read(tcp):
    tcp.put_service()
    put_version(tcp, "11", a="ready")
    wait_for(lambda: slice_of(tcp) == ("11", "11"), "it is programmed")
    bad = tcp.as_slice({"b": "ready"})
    bad["metadata"]["resourceVersion"] = "12"
    bad["ports"][0]["port"] = 70000
    tcp.proxy.manifests.put("web-slice", bad)
    wait_for(lambda: programmed(tcp.proxy)[0] == 503, "it says so")
    [told] = programmed(tcp.proxy)[1]["endpointSlices"]
    assert (told["received"], told["leftOut"], told["inKernel"]) == ("11", "12", {FAMILY_NAME[tcp.family]: "11"})
    put_version(tcp, "13", b="ready")
    wait_for(lambda: programmed(tcp.proxy)[0] == 200, "it can be read again")
    tcp.remove_service()
    wait_for(lambda: programmed(tcp.proxy)[0] == 404, "it is gone")


@pytest.mark.usefixtures("table_owners")
def test_readyz(everybodys):
    node, daemon = everybodys.lab.node, everybodys.daemon

    def ready() -> int | None:
        answer = http_get(node, "127.0.0.1", HEALTH_PORT, "/readyz")
        return answer and answer[0]

    assert ready() == 200
    with table_of_another(everybodys, 6):
        daemon.stop()
        said = daemon.log().count("family=IPv6 waiting")  # by the one that wanted to repair it
        daemon.launch()
        wait_for(lambda: daemon.log().count("family=IPv6 waiting") > said, "one family cannot be programmed", START_SECONDS)
        assert ready() == 503
        assert http_get(node, "127.0.0.1", HEALTH_PORT, "/livez")[0] == 200
    daemon.wait_programmed()
    with table_of_another(everybodys, 4):
        Web(everybodys, 4, "TCP").put_service()
        wait_for(lambda: "family=IPv4 waiting" in daemon.log(), "the kernel refuses")
        assert ready() == 200  # it was, once
