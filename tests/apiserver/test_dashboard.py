# SPDX-License-Identifier: GPL-2.0-or-later
"""The dashboard against the metrics of a running daemon: no query without data."""

import datetime
import json
import pathlib
import re
import socket
import subprocess
import urllib.request

from harness import METRICS, Daemon, endpoint_slice, table

PANELS = json.loads((pathlib.Path(__file__).parents[2] / "deploy/monitoring/dashboard.json").read_text())["panels"]
OF_PROMETHEUS = {"up": {"job", "instance"}}  # written by who scrapes
SAMPLE = re.compile(r"^([a-z_]+)(?:\{(.*)\})? \S+$", re.MULTILINE)


def samples():
    """{name of a metric: the labels that one of its samples has}"""
    found = dict(OF_PROMETHEUS)
    with urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=20) as answer:
        for name, labels in SAMPLE.findall(answer.read().decode()):
            found[name] = set(re.findall(r'([a-z_]+)="', labels)) | OF_PROMETHEUS["up"]
    return found


def lacks(target, there):
    """The metrics that nothing is known of, and the labels that one of them lacks."""
    expression, legend = target["expr"], target["legendFormat"]
    names = set(re.findall(r"([a-z_]+)\{", expression))
    assert re.search(r"[a-z_]+\{", expression)
    labels = {word for words in re.findall(r"by \(([a-z_, ]+)\)", expression) for word in words.split(", ")}
    labels |= set(re.findall(r"\{\{([a-z_]+)\}\}", legend))
    return [name for name in sorted(names) if name not in there or not labels <= there[name]]


def test_no_query_is_without_data(server, tmp_path):
    flags = ["--count-connections", "services", "--flowtable-devices", "*", "--nodeport-addresses", "primary,localhost",
             "--feature-gates", "KubeProxyNFTablesLocalhostNodePorts=true"]
    with Daemon(tmp_path, server.kubeconfig(tmp_path / "kubeconfig"), *flags):
        server.wait(lambda: ("10.96.0.10", "tcp", 80) in table())
        changed = endpoint_slice("10.1.0.1", "10.1.0.3")
        changed["metadata"]["annotations"] = {"endpoints.kubernetes.io/last-change-trigger-time": datetime.datetime.now(
            datetime.timezone.utc).isoformat()}
        server.put(changed)
        server.wait(lambda: "kubeproxy_network_programming_duration_seconds_bucket" in samples())
        subprocess.run(["ip", "route", "add", "10.96.0.0/16", "dev", "lo"], check=True)
        with socket.socket() as client:
            client.setblocking(False)
            client.connect_ex(("10.96.0.10", 80))  # nobody answers, but it is one
        server.wait(lambda: "kube_nftd_service_connections_total" in samples())
        there = samples()
    queries = [(panel["title"], target) for panel in PANELS for target in panel["targets"]
               if panel["title"] != "Flowtables" or "kube_nftd_flowtable_devices" in there]  # the kernel may have none
    found = {title: wrong for title, target in queries if (wrong := lacks(target, there))}
    assert found == {}
