# SPDX-License-Identifier: GPL-2.0-or-later
"""The limits of a table (docs/limits.md): what is left out is told, and everybody else goes on."""

import os
import re
import resource

import objects
from daemon import HEALTH_PORT, http_get, wait_for
from lab import NODE_ADDRESS
from scenario import Proxy, Web, running
from test_list import METRICS_PORT, items, run
from test_programmed import request

PORTS = 1000
MOST = 65535  # what a namespace can have of 131,071 numbers when another one has one
MOST_ENDPOINTS = 32751  # of a service port


def left_out(proxy: Proxy, limit: str) -> int:
    page = http_get(proxy.lab.node, "127.0.0.1", METRICS_PORT, "/metrics")[2]
    return int(re.search(rf'^kube_nftd_left_out\{{ip_family="IPv4",limit="{limit}"\}} (\d+)$', page, re.MULTILINE)[1])


def many(number: int, ports: int) -> dict:
    service = objects.service(
        f"s{number:02}", {4: f"10.96.64.{number}"}, [objects.Port(f"p{i}", "TCP", i + 1) for i in range(ports)]
    )
    service["metadata"]["namespace"] = "many"
    return service


def put_many(proxy: Proxy, ports: int) -> None:
    proxy.manifests.put("many", *(many(i, min(PORTS, ports - i * PORTS)) for i in range((ports - 1) // PORTS + 1)))


def programmed(proxy: Proxy, namespace: str, name: str) -> tuple[int, str]:
    status, _, body = request(proxy, f"/programmed?namespace={namespace}&service={name}")
    return status, body.decode()


def received(proxy: Proxy) -> int:
    return items(proxy, "default/crowd")["default/crowd"]["endpoints"]["all"]


def test_no_number_left(proxy):
    """A namespace that has more service ports than numbers: at run time, at a start, and back below."""
    web = Web(proxy, 4, "TCP")
    web.publish("a")
    put_many(proxy, MOST)
    wait_for(lambda: programmed(proxy, "many", "s65")[0] == 200, "as many as it can have", 60)
    assert left_out(proxy, "service-ports") == 0 and items(proxy, "many/s65")["many/s65"]["state"] in ("applied", "no endpoints")

    put_many(proxy, MOST + 1)
    wait_for(lambda: left_out(proxy, "service-ports") == 1, "one too many", 60)
    for again in range(2):
        status, body = programmed(proxy, "many", "s65")
        assert status == 503 and "no number left" in body
        told = items(proxy, "many/s65")["many/s65"]
        assert (told["state"], told["note"]) == ("limited", "no number left for 1 of 536 ports")
        assert "1 service ports are not programmed, no number left" in run(proxy, "status", status=1)
        assert "service=many/s65:p535 is not programmed, no number left" in proxy.daemon.log()
        assert http_get(proxy.lab.node, "127.0.0.1", HEALTH_PORT, "/readyz")[0] == 200
        pod = "ba"[again]
        web.put_endpoints(**{pod: "ready"})
        wait_for(lambda pod=pod: web.ask() == pod, "others go on")
        assert programmed(proxy, "default", "web")[0] == 200
        later = Web(proxy, 4, "TCP", f"later{again}")
        later.put_service()
        later.put_endpoints(a="ready")
        wait_for(lambda name=later.name: programmed(proxy, "default", name)[0] == 200, "later ones, too")
        wait_for(lambda later=later: later.ask() == "a", "and serve")  # endpoints come in a file of their own
        if not again:
            proxy.daemon.stop()
            proxy.daemon.start()

    put_many(proxy, MOST)
    wait_for(lambda: left_out(proxy, "service-ports") == 0, "back below", 60)
    wait_for(lambda: programmed(proxy, "many", "s65")[0] == 200, "all of it is programmed", 60)
    assert "well" in run(proxy, "status").splitlines()[0]


def test_too_many_endpoints(proxy):
    """N - 1, N and N + 1 endpoints of a service port, a start, and back below."""
    crowd = Web(proxy, 4, "TCP", "crowd")

    def put(n: int) -> None:
        addresses = [f"10.{100 + (i >> 16)}.{i >> 8 & 255}.{i & 255}" for i in range(n)]
        slices = [
            objects.endpoint_slice(f"crowd-{i}", "crowd", 4, [objects.Port("http", "TCP", 80)],
                                   [objects.endpoint(address, node="node-b") for address in addresses[i : i + 1000]])
            for i in range(0, n, 1000)
        ]  # fmt: skip
        proxy.manifests.put("crowd", *slices)

    crowd.put_service()
    for n in (MOST_ENDPOINTS - 1, MOST_ENDPOINTS):
        put(n)
        wait_for(lambda n=n: programmed(proxy, "default", "crowd")[0] == 200 and received(proxy) == n, f"{n}", 30)
        assert left_out(proxy, "endpoints") == 0
    put(MOST_ENDPOINTS + 1)
    wait_for(lambda: left_out(proxy, "endpoints") == 1, "one too many", 30)
    for again in range(2):
        status, body = programmed(proxy, "default", "crowd")
        assert status == 503 and "more endpoints than fit" in body
        assert items(proxy, "default/crowd")["default/crowd"]["note"] == "1 endpoints do not fit"
        assert "1 endpoints are not used" in run(proxy, "status", status=1)
        assert proxy.daemon.log().count("service=default/crowd:http uses 32751 of its 32752 endpoints") == again + 1
        if not again:
            proxy.daemon.stop()
            proxy.daemon.start()
            wait_for(lambda: left_out(proxy, "endpoints") == 1, "at a start", 30)
    put(MOST_ENDPOINTS)
    wait_for(lambda: programmed(proxy, "default", "crowd")[0] == 200, "back below", 30)
    assert left_out(proxy, "endpoints") == 0


def test_full_counters(lab, tmp_path):
    """They are told when packets, of which these are in place, have filled them, not with the next reading."""
    with running(lab, tmp_path, "--table-owner", "off", "--count-connections", "services") as proxy:
        Web(proxy, 4, "TCP").publish("a")
        assert left_out(proxy, "counters") == 0
        numbers = [f"{i >> 1:x}:{(i & 1) << 15:x}" for i in range(1000, 1000 + 65535)]
        for i in range(0, len(numbers), 1000):
            add = f"add element ip kube-nftd service_connections {{ {', '.join(numbers[i:i + 1000])} }}"
            lab.node.run(lab.node.nft, "-f", "-", stdin=add)
        wait_for(lambda: left_out(proxy, "counters") == 1, "it is told")
        assert "set=service_connections is full" in proxy.daemon.log()
        assert "counters have no room" in run(proxy, "status", status=1)


def test_descriptors(proxy):
    """Health checks of Services leave some to all else; one that has no descriptor is told, and gets one later."""
    node, pid = proxy.lab.node, proxy.daemon.process.pid

    def in_use() -> int:
        return len(os.listdir(f"/proc/{pid}/fd"))

    def answering() -> int:
        """Each says that it has no endpoint here."""
        answers = [http_get(node, NODE_ADDRESS[4], 31000 + i) for i in range(100)]
        assert {answer[0] for answer in answers if answer} == {503}
        return sum(answer is not None for answer in answers)

    limit = in_use() + 128 + 80
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
    checks = [
        objects.service(
            f"checked{i}", {4: f"10.96.65.{i}"}, [objects.Port("http", "TCP", 80)], type="LoadBalancer",
            externalTrafficPolicy="Local", healthCheckNodePort=31000 + i,
        )
        for i in range(100)
    ]  # fmt: skip
    proxy.manifests.put("checked", *checks)
    told = 'error="all but 128 file descriptors are in use"'
    wait_for(lambda: told in proxy.daemon.log(), "some have no descriptor")
    assert answering() in (40, 41)
    assert http_get(node, "127.0.0.1", METRICS_PORT, "/metrics")[0] == 200
    proxy.manifests.put("checked", *checks[70:])
    wait_for(lambda: answering() == 30, "all that are left get some")

