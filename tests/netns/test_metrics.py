# SPDX-License-Identifier: GPL-2.0-or-later
"""The metrics address (docs/behaviour.md 6.3, 7): what was done, and what the page says of it."""

import contextlib
import datetime
import gzip
import http.client
import json
import os
import re
import time

import pytest

import exposition
import objects
from daemon import HEALTH_PORT, call, http_get, tables_exist, wait_for
from lab import NODE_NAME, ask_on
from scenario import Proxy, Web

METRICS_PORT = 10249
EXPONENTIAL = [0.001 * 2**i for i in range(15)]
PROGRAMMING = [0.25, 0.5, *range(1, 60), *range(60, 116, 5), *range(120, 301, 30)]

# Spec 7, but for the one that counts what cannot fail here: removals of leftover chains.
BY_FAMILY = ("ip_family",)
KUBE_PROXY = {
    "kubeproxy_sync_proxy_rules_duration_seconds": ("histogram", BY_FAMILY),
    "kubeproxy_sync_full_proxy_rules_duration_seconds": ("histogram", BY_FAMILY),
    "kubeproxy_sync_partial_proxy_rules_duration_seconds": ("histogram", BY_FAMILY),
    "kubeproxy_sync_proxy_rules_last_timestamp_seconds": ("gauge", BY_FAMILY),
    "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds": ("gauge", BY_FAMILY),
    "kubeproxy_sync_proxy_rules_endpoint_changes_pending": ("gauge", ()),
    "kubeproxy_sync_proxy_rules_endpoint_changes_total": ("counter", ()),
    "kubeproxy_sync_proxy_rules_service_changes_pending": ("gauge", ()),
    "kubeproxy_sync_proxy_rules_service_changes_total": ("counter", ()),
    "kubeproxy_sync_proxy_rules_no_local_endpoints_total": ("gauge", ("ip_family", "traffic_policy")),
    "kubeproxy_network_programming_duration_seconds": ("histogram", BY_FAMILY),
    "kubeproxy_sync_proxy_rules_nftables_sync_failures_total": ("counter", BY_FAMILY),
    "kubeproxy_conntrack_reconciler_sync_duration_seconds": ("histogram", BY_FAMILY),
    "kubeproxy_conntrack_reconciler_deleted_entries_total": ("counter", BY_FAMILY),
    "kubeproxy_proxy_healthz_total": ("counter", ("code",)),
    "kubeproxy_proxy_livez_total": ("counter", ("code",)),
}  # fmt: skip

SYNC = "kubeproxy_sync_proxy_rules_"
SYNCS = "kubeproxy_sync_proxy_rules_duration_seconds_count"
FULL = "kubeproxy_sync_full_proxy_rules_duration_seconds_count"
PARTIAL = "kubeproxy_sync_partial_proxy_rules_duration_seconds_count"
PROGRAMMED = "kubeproxy_network_programming_duration_seconds"


def request(proxy: Proxy, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", METRICS_PORT, timeout=20)) as connection:
        with proxy.lab.node.inside():
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()


def scrape(proxy: Proxy) -> dict[str, exposition.Family]:
    status, headers, body = request(proxy, "/metrics")
    assert status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return exposition.parse(body.decode())


def figures(proxy: Proxy) -> dict[str, float]:
    return exposition.values(scrape(proxy))


def of(name: str, family: int) -> str:
    return f'{name}{{ip_family="{objects.FAMILY_NAME[family]}"}}'


def moved(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """What became different, and by how much. Left out are the process's own figures, and of histograms
    the buckets and sums: times that nobody can foretell."""
    assert before.keys() <= after.keys(), "a series does not go again"
    return {
        series: value - before.get(series, 0)
        for series, value in after.items()
        if before.get(series) != value and not re.match(r"process_|.*_(bucket|sum)\b", series)
    }


def sync_moves(family: int, syncs: int) -> dict[str, float | None]:
    """What @syncs partial ones move that send something."""
    return {
        of(SYNCS, family): syncs,
        of(PARTIAL, family): syncs,
        of("kube_nftd_transactions_total", family): syncs,
        **{
            of(name, family): None
            for name in (
                SYNC + "last_timestamp_seconds",
                SYNC + "last_queued_timestamp_seconds",
                "kube_nftd_transaction_bytes_total",
                "kube_nftd_transaction_seconds_total",
            )
        },
    }  # fmt: skip


def held_elements(proxy: Proxy, family: int) -> int:
    """How many the kernel holds, but for what packets put there."""
    listing = proxy.lab.node.run(
        proxy.lab.node.nft, "-j", "list", "table", *proxy.tables[family].name.split()
    ).stdout
    sets = [item[kind] for item in json.loads(listing)["nftables"] for kind in ("map", "set") if kind in item]
    # A range has an end, too.
    return sum(
        len(held.get("elem", [])) * (2 if "interval" in held.get("flags", []) else 1)
        for held in sets if held["name"] != "affinity"
    )  # fmt: skip


# ---- the page ----


def test_names_types_labels_and_buckets(proxy, family):
    web = Web(proxy, family, "UDP")
    web.publish("a")
    web.put_endpoints(b="ready")
    web.settle("b")
    http_get(proxy.lab.node, "127.0.0.1", HEALTH_PORT, "/healthz")
    # It reads what other tests left of flows, too.
    scanned = "kubeproxy_conntrack_reconciler_sync_duration_seconds"
    wait_for(lambda: scanned in scrape(proxy), "stale flows were looked for")
    families = scrape(proxy)
    theirs = {name: it for name, it in families.items() if name.startswith("kubeproxy_")}
    assert theirs.keys() <= KUBE_PROXY.keys()
    assert len(theirs) >= len(KUBE_PROXY) - 4
    for name, it in theirs.items():
        kind, labels = KUBE_PROXY[name]
        assert it.type == kind, name
        for sample, found in it.samples:
            extra = {"le"} if sample.endswith("_bucket") else set()
            assert {key for key, _ in found} == set(labels) | extra, sample
        bounds = {float(dict(found)["le"]) for sample, found in it.samples if sample.endswith("_bucket")}
        wanted = PROGRAMMING if name.startswith(PROGRAMMED) else EXPONENTIAL
        assert bounds == ({*wanted, float("inf")} if kind == "histogram" else set()), name
    assert set(dict(found)["ip_family"] for _, found in families["kube_nftd_elements"].samples) == {"IPv4", "IPv6"}
    assert not any("iptables" in name for name in families)


def test_nothing_is_shown_before_it_was_observed(proxy):
    families = scrape(proxy)
    absent = {
        PROGRAMMED,
        "kubeproxy_sync_partial_proxy_rules_duration_seconds",
        "kubeproxy_conntrack_reconciler_sync_duration_seconds",
    }
    assert KUBE_PROXY.keys() - families.keys() == absent
    first = exposition.values(families)
    # Counters begin with 0, so that increase() sees the first failure.
    for code in ("200", "503"):
        assert first[f'kubeproxy_proxy_healthz_total{{code="{code}"}}'] == first[f'kubeproxy_proxy_livez_total{{code="{code}"}}'] == 0
    for number in (4, 6):
        assert first[of(SYNC + "nftables_sync_failures_total", number)] == 0
        assert first[of("kubeproxy_conntrack_reconciler_deleted_entries_total", number)] == 0
        assert first[of(SYNCS, number)] == first[of(FULL, number)] == 1
        assert first[of(SYNC + "last_timestamp_seconds", number)] == pytest.approx(time.time(), abs=60)
        assert first[of("kube_nftd_elements", number)] == held_elements(proxy, number)


def test_packed_if_asked(proxy):
    status, headers, body = request(proxy, "/metrics", **{"Accept-Encoding": "gzip"})
    assert (status, headers["Content-Encoding"]) == (200, "gzip")
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    page = gzip.decompress(body).decode()
    assert len(body) < len(page) / 4
    assert exposition.parse(page).keys() == scrape(proxy).keys()


def test_process(proxy):
    pid = proxy.daemon.process.pid
    figures(proxy)  # the code that makes a page is in memory from now on
    now = figures(proxy)
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    ticks = os.sysconf("SC_CLK_TCK")
    # Once at least there is no pause between the two clocks.
    boots = [time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) for _ in range(10)]
    assert now["process_start_time_seconds"] == pytest.approx(max(boots) + int(fields[19]) / ticks, abs=0.1)
    assert 0 < now["process_cpu_seconds_total"] <= (int(fields[11]) + int(fields[12])) / ticks + 0.1
    assert now["process_virtual_memory_bytes"] == pytest.approx(int(fields[20]), rel=0.1)
    assert now["process_resident_memory_bytes"] == pytest.approx(int(fields[21]) * os.sysconf("SC_PAGESIZE"), rel=0.2)
    # The connection that asks is one more, and so may be the one before.
    assert now["process_open_fds"] - len(os.listdir(f"/proc/{pid}/fd")) in (0, 1, 2)
    limit = re.search(r"^Max open files +(\d+)", open(f"/proc/{pid}/limits").read(), re.MULTILINE)
    assert now["process_max_fds"] == int(limit[1])


BAD_PAGES = {
    "no newline at the end": "# HELP a b\n# TYPE a gauge\na 1",
    "no HELP": "# TYPE a gauge\na 1\n",
    "no TYPE": "# HELP a b\na 1\n",
    "an unknown type": "# HELP a b\n# TYPE a number\na 1\n",
    "no sample": "# HELP a b\n# TYPE a gauge\n",
    "an empty line": "# HELP a b\n# TYPE a gauge\n\na 1\n",
    "another family's sample": "# HELP a b\n# TYPE a gauge\nb 1\n",
    "a family twice": "# HELP a b\n# TYPE a gauge\na 1\n# HELP a b\n# TYPE a gauge\na{x=\"1\"} 1\n",
    "a series twice": '# HELP a b\n# TYPE a gauge\na{x="1",y="2"} 1\na{y="2",x="1"} 1\n',
    "a label twice": '# HELP a b\n# TYPE a gauge\na{x="1",x="2"} 1\n',
    "an unknown escape": '# HELP a b\n# TYPE a gauge\na{x="\\t"} 1\n',
    "a quote in a value": '# HELP a b\n# TYPE a gauge\na{x=""y"} 1\n',
    "no comma": '# HELP a b\n# TYPE a gauge\na{x="1"y="2"} 1\n',
    "empty braces": "# HELP a b\n# TYPE a gauge\na{} 1\n",
    "a bad number": "# HELP a b\n# TYPE a gauge\na 1,5\n",
    "a counter below zero": "# HELP a_total b\n# TYPE a_total counter\na_total -1\n",
    "a counter's name": "# HELP a b\n# TYPE a counter\na 1\n",
    "no bucket for all": '# HELP a b\n# TYPE a histogram\na_bucket{le="1"} 1\na_sum 1\na_count 1\n',
    "buckets that go down":
        '# HELP a b\n# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n',
    "bounds that go down": '# HELP a b\n# TYPE a histogram\na_bucket{le="2"} 1\na_bucket{le="1"} 1\n'
        'a_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n',
    "another count": '# HELP a b\n# TYPE a histogram\na_bucket{le="+Inf"} 1\na_sum 1\na_count 2\n',
    "no sum": '# HELP a b\n# TYPE a histogram\na_bucket{le="+Inf"} 1\na_count 1\n',
}  # fmt: skip


@pytest.mark.parametrize("page", BAD_PAGES.values(), ids=BAD_PAGES.keys())
def test_the_reader_is_strict(page):
    with pytest.raises(exposition.FormatError):
        exposition.parse(page)


def test_the_reader_reads():
    page = (
        '# HELP a b "c" \\\\ d\\n\n# TYPE a gauge\na{x="1 {},=\\"\\\\\\n",y=""} +Inf\n'
        '# HELP h b\n# TYPE h histogram\nh_bucket{le="0.5",x="1"} 0\nh_bucket{le="+Inf",x="1"} 1\n'
        'h_sum{x="1"} 1.5e-07\nh_count{x="1"} 1\n'
    )
    found = exposition.parse(page)
    assert found["a"].samples == {("a", frozenset({("x", '1 {},="\\\n'), ("y", "")})): float("inf")}
    assert exposition.values(found)['h_sum{x="1"}'] == 1.5e-07
    assert exposition.parse("") == {}


# ---- what moves ----


def wait_moves(
    proxy: Proxy, before: dict[str, float], expected: dict[str, float | None], either: tuple[str, ...] = ()
) -> None:
    """Waits until just these series moved, by so much; None: by whatever, but up. Left alone are the figures of
    the last transaction and those that begin with @either."""
    seen: dict[str, float] = {}

    def settled() -> bool:
        seen.clear()
        seen.update(moved(before, figures(proxy)))
        for series in [series for series in seen if series.startswith(("kube_nftd_last_transaction", *either))]:
            del seen[series]
        return seen.keys() == expected.keys() and all(
            seen[series] > 0 if by is None else seen[series] == by for series, by in expected.items()
        )

    wait_for(settled, lambda: f"just {expected} moved; it is {seen}")


def expect_elements(proxy: Proxy) -> None:
    def equal() -> bool:
        now = figures(proxy)
        return all(now[of("kube_nftd_elements", number)] == held_elements(proxy, number) for number in (4, 6))

    wait_for(equal, "as many elements as the kernel holds")
    now = figures(proxy)
    for number in (4, 6):
        assert now[of("kube_nftd_elements", number)] == (
            now[of("kube_nftd_elements_added_total", number)]
            - now[of("kube_nftd_elements_deleted_total", number)]
        )


def test_a_service_comes_changes_and_goes(proxy, family):
    web = Web(proxy, family, "TCP")
    before = figures(proxy)
    started = time.time()
    web.put_service()
    web.settle()  # without endpoints
    come = {
        **sync_moves(family, 1),
        SYNC + "service_changes_total": 2,  # once for each IP family
        of("kube_nftd_frontends", family): 1,
        "kube_nftd_services": 1,
        of("kube_nftd_elements", family): None,
        of("kube_nftd_elements_added_total", family): None,
    }  # fmt: skip
    wait_moves(proxy, before, come)
    queued = figures(proxy)[of(SYNC + "last_queued_timestamp_seconds", family)]
    assert started <= queued <= figures(proxy)[of(SYNC + "last_timestamp_seconds", family)] <= time.time()
    expect_elements(proxy)

    before = figures(proxy)
    web.put_endpoints(a="ready", b="ready")
    web.settle("a", "b")
    wait_moves(proxy, before, {
        **sync_moves(family, 1),
        SYNC + "endpoint_changes_total": 1,
        "kube_nftd_endpoint_slices": 1,
        of("kube_nftd_elements", family): None,
        of("kube_nftd_elements_added_total", family): None,
        of("kube_nftd_elements_deleted_total", family): None,
    })  # fmt: skip
    expect_elements(proxy)

    # The slot that is left over goes in a transaction of its own.
    before = figures(proxy)
    web.put_endpoints(a="ready")
    web.settle("a")
    shrunk = {**sync_moves(family, 2), SYNC + "endpoint_changes_total": 1}
    wait_moves(proxy, before, shrunk, either=("kube_nftd_elements",))
    expect_elements(proxy)

    # All that it had goes; so does the rest of it a moment later.
    web.remove_service()
    web.remove_endpoints()
    web.settle_absent()
    wait_for(lambda: figures(proxy)["kube_nftd_endpoint_slices"] == 0, "the slice is gone")
    expect_elements(proxy)
    assert figures(proxy)[of("kube_nftd_frontends", family)] == figures(proxy)["kube_nftd_services"] == 0


def test_what_makes_no_difference_moves_its_count_alone(tcp):
    tcp.publish("a")
    before = figures(tcp.proxy)
    same = tcp.as_slice({"a": "ready"})
    same["metadata"]["resourceVersion"] = "8"
    tcp.proxy.manifests.put("web-slice", same)
    wait_moves(tcp.proxy, before, {SYNC + "endpoint_changes_total": 1})


def triggered(web: Web, states: dict[str, str], when: float) -> None:
    """Its slice, which says that this was so since @when."""
    told = web.as_slice(states)
    text = datetime.datetime.fromtimestamp(when, datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    told["metadata"]["resourceVersion"] = str(int(when * 1e6))
    told["metadata"]["annotations"] = {"endpoints.kubernetes.io/last-change-trigger-time": text}
    web.proxy.manifests.put("web-slice", told)
    web.settle(*states)


def test_network_programming(proxy, family):
    web = Web(proxy, family, "TCP")
    start = figures(proxy)["process_start_time_seconds"]
    web.put_service()
    triggered(web, {"a": "ready"}, start - 1)
    web.put_endpoints(b="ready")  # says nothing
    web.settle("b")
    assert PROGRAMMED not in scrape(proxy)
    since = time.time()
    triggered(web, {"a": "ready", "b": "ready"}, since)
    now = figures(proxy)
    assert now[of(PROGRAMMED + "_count", family)] == 1
    assert 0 <= now[of(PROGRAMMED + "_sum", family)] <= time.time() - since
    triggered(web, {"a": "ready", "b": "ready"}, time.time())  # no difference but this
    wait_for(lambda: figures(proxy)[of(PROGRAMMED + "_count", family)] == 2, "it is counted")
    time.sleep(max(0.0, start + 3 - time.time()))
    triggered(web, {"b": "ready"}, time.time() - 2)
    now = figures(proxy)
    assert now[of(PROGRAMMED + "_count", family)] == 3
    assert 2 <= now[of(PROGRAMMED + "_sum", family)] <= 3 * (time.time() - since + 2)
    assert now[f'{PROGRAMMED}_bucket{{ip_family="{objects.FAMILY_NAME[family]}",le="1"}}'] <= 2
    web.remove_endpoints()
    web.settle()
    assert figures(proxy)[of(PROGRAMMED + "_count", family)] == 3
    assert of(PROGRAMMED + "_count", 10 - family) not in figures(proxy)


def test_no_local_endpoints(proxy, family):
    web = Web(proxy, family, "TCP")

    def expect(internal: int, external: int) -> None:
        def told() -> bool:
            now = figures(proxy)
            wanted = {(family, "internal"): internal, (family, "external"): external}
            return all(
                now[f'{SYNC}no_local_endpoints_total{{ip_family="{objects.FAMILY_NAME[number]}",'
                    f'traffic_policy="{policy}"}}'] == wanted.get((number, policy), 0)
                for number in (4, 6) for policy in ("internal", "external")
            )  # fmt: skip

        wait_for(told, f"internal {internal}, external {external}")

    def put_slice(node: str) -> None:
        told = web.as_slice({"a": "ready"})
        told["endpoints"][0]["nodeName"] = node
        proxy.manifests.put("web-slice", told)

    expect(0, 0)
    web.put_service(type="NodePort", externalTrafficPolicy="Local", internalTrafficPolicy="Local")
    expect(0, 0)  # no endpoints anywhere
    put_slice("elsewhere")
    expect(1, 0)  # no way in
    told = web.as_service(type="NodePort", externalTrafficPolicy="Local", internalTrafficPolicy="Local")
    told["spec"]["ports"][0]["nodePort"] = 30080
    proxy.manifests.put("web-service", told)
    expect(1, 1)
    put_slice(NODE_NAME)
    expect(0, 0)
    put_slice("elsewhere")
    expect(1, 1)
    web.remove_service()
    expect(0, 0)


def test_a_table_that_is_gone_is_repaired_and_told_of(proxy, family):
    proxy.daemon.stop()
    proxy.daemon.flags = ["--table-owner", "off"]
    proxy.daemon.start()
    web = Web(proxy, family, "TCP")
    web.publish("a")
    before = figures(proxy)
    proxy.lab.node.run(proxy.lab.node.nft, "delete", "table", *proxy.tables[family].name.split())
    wait_for(lambda: "repaired changes by another program" in proxy.daemon.log(), "that is said")
    assert tables_exist(proxy.lab.node)
    web.put_endpoints(b="ready")
    web.settle("b")
    after = figures(proxy)
    moves = moved(before, after)
    assert of(SYNC + "nftables_sync_failures_total", family) not in moves
    assert moves[of("kube_nftd_repairs_total", family)] == 1
    assert moves[of("kube_nftd_table_read_backs_total", family)] == 1
    assert moves[of(FULL, family)] == 1
    assert moves[of(PARTIAL, family)] >= 1
    assert moves[of(SYNCS, family)] == moves[of(FULL, family)] + moves[of(PARTIAL, family)]
    assert of("kube_nftd_tables_replaced_total", family) not in moves
    assert not any(f'"{objects.FAMILY_NAME[10 - family]}"' in series for series in moves)
    wait_for(
        lambda: figures(proxy)[of("kube_nftd_elements", family)] == held_elements(proxy, family),
        "as many elements as the kernel holds",
    )


def test_a_table_of_another_shape_is_told_of(proxy):
    node = proxy.lab.node
    assert figures(proxy)[of("kube_nftd_tables_replaced_total", 4)] == 0
    proxy.daemon.stop()
    proxy.daemon.start()  # takes its table over
    now = figures(proxy)
    assert now[of("kube_nftd_tables_replaced_total", 4)] == now[of("kube_nftd_table_read_backs_total", 4)] == 0
    assert now[of("kube_nftd_elements", 4)] == held_elements(proxy, 4)
    assert now[of(FULL, 4)] == 1
    proxy.daemon.stop()
    folder = str(proxy.manifests.folder)
    dump = call(node, "--manifests", folder, "--hostname-override", NODE_NAME, "--dump-rules").stdout
    assert call(node, "--cleanup").returncode == 0
    node.run("nft", "-f", "-", stdin=dump.replace('"kube-nftd layout ', '"kube-nftd layout 0'))
    proxy.daemon.start()
    now = figures(proxy)
    assert now[of("kube_nftd_tables_replaced_total", 4)] == now[of("kube_nftd_tables_replaced_total", 6)] == 1
    assert now[of("kube_nftd_elements", 4)] == held_elements(proxy, 4)


def test_unreadable_objects(tcp):
    tcp.publish("a")
    before = figures(tcp.proxy)
    tcp.put_service(sessionAffinity=5)
    wait_moves(tcp.proxy, before, {'kube_nftd_objects_left_out_total{kind="Service"}': 1})


def test_conntrack(proxy, family):
    web = Web(proxy, family, "UDP")
    web.publish("a")
    with web.lab.open(web.lab.client, *web.call(), timeout=2) as flow:
        assert ask_on(flow) == "a"
        before = figures(proxy)
        deleted = of("kubeproxy_conntrack_reconciler_deleted_entries_total", family)
        scans = of("kubeproxy_conntrack_reconciler_sync_duration_seconds_count", family)
        web.put_endpoints(b="ready")
        web.settle("b")
        wait_for(lambda: figures(proxy).get(deleted, 0) > before.get(deleted, 0), "the flow is deleted")
        wait_for(lambda: figures(proxy).get(scans, 0) > before.get(scans, 0), "the scan is counted")
        now = figures(proxy)
        assert now[scans] == now[of("kube_nftd_conntrack_scans_total", family)]
        assert now[deleted] - before.get(deleted, 0) == 1


def test_health_answers(proxy):
    def ask(path: str) -> int:
        return http_get(proxy.lab.node, "127.0.0.1", HEALTH_PORT, path)[0]

    healthz, livez = "kubeproxy_proxy_healthz_total", "kubeproxy_proxy_livez_total"
    before = figures(proxy)
    assert [ask("/healthz") for _ in range(3)] == [200] * 3
    assert ask("/livez") == 200
    assert ask("/metrics") == 404
    wait_moves(proxy, before, {f'{healthz}{{code="200"}}': 3, f'{livez}{{code="200"}}': 1})
    taint = {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}
    proxy.manifests.put("node", objects.node(taints=[taint]))
    wait_for(lambda: ask("/healthz") == 503, "the node is not eligible")
    assert figures(proxy)[f'{healthz}{{code="503"}}'] == 1
    assert figures(proxy)[f'{livez}{{code="503"}}'] == 0


# ---- other paths ----


def test_paths(proxy):
    text = "text/plain; charset=utf-8"
    for path, body in {
        "/healthz": "ok",
        "/healthz/ping": "ok",
        "/healthz?verbose": "[+]ping ok\nhealthz check passed\n",
        "/proxyMode": "nftables",
    }.items():
        status, headers, answer = request(proxy, path)
        assert (status, headers["Content-Type"], answer.decode()) == (200, text, body)
    for path in ("/livez", "/readyz", "/", "/metrics/", "/proxymode"):
        assert request(proxy, path)[0] == 404


def test_slis(proxy):
    assert request(proxy, "/metrics/slis")[2] == b""
    for _ in range(3):
        request(proxy, "/healthz")
    status, headers, body = request(proxy, "/metrics/slis")
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found = exposition.parse(body.decode())
    assert {name: it.type for name, it in found.items()} == {
        "kubernetes_healthcheck": "gauge",
        "kubernetes_healthchecks_total": "counter",
    }
    assert exposition.values(found) == {
        'kubernetes_healthcheck{name="ping",type="healthz"}': 1,
        'kubernetes_healthchecks_total{name="ping",status="success",type="healthz"}': 3,
    }
    assert request(proxy, "/metrics/slis", "DELETE")[0] == 200
    assert request(proxy, "/metrics/slis")[2] == b""
