# SPDX-License-Identifier: GPL-2.0-or-later
"""What is delivered beside the daemon names only what the daemon has, and all of it where it has to."""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from rendering import Refused, helm, kustomize, notes

SOURCE = Path(__file__).resolve().parents[2]
DAEMON = os.environ.get("KUBE_NFTD", str(SOURCE / "build-test/kube-nftd"))
KUBERNETES = SOURCE / "deploy/kubernetes"
CHART = SOURCE / "deploy/helm/kube-nftd"
# Worse than this, a directive of the unit got lost.
EXPOSURE_LIMIT = 1.8


def run(*command: str | Path, **more) -> str:
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def flags_of_the_daemon() -> set[str]:
    flags = set(re.findall(r"^  (--?[a-z][a-z-]*)", run(DAEMON, "--help"), re.MULTILINE))
    assert {"-v", "--help", "--kubeconfig"} <= flags
    return flags


def metrics_of_the_daemon() -> set[str]:
    names = set()
    for file in SOURCE.glob("src/**/*.c"):
        names |= set(re.findall(r'"((?:kube_nftd|kubeproxy|kubernetes|process)_[a-z_]+)"', file.read_text()))
    assert "kube_nftd_frontends" in names
    return names


def metrics_in(expression: str) -> set[str]:
    names = set(re.findall(r"\b((?:kube_nftd|kubeproxy|kubernetes|process)_[a-z_]+)", expression))
    return {re.sub("_(bucket|sum|count)$", "", name) for name in names}


OVERLAYS = {
    # the chart's values that say the same
    "kubeadm": {},
    "k3s": {"apiServer": {"address": "https://127.0.0.1:6444"}},
    "rke2": {"apiServer": {"address": "https://127.0.0.1:6443"}},
    "node-kubeconfig": {"apiServer": {"hostPath": "/var/lib/kube-proxy"}},
}
OPTIONS = {
    "../startup-taint": {"startupTaint": "kube-nftd/not-ready"},
    "../pod-monitor": {"podMonitor": True},
    "../kube-proxy-label": {"podLabels": {"k8s-app": "kube-proxy"}},
}


def the(kind: str, overlay: str = "kubeadm", *options: str) -> dict:
    return next(entry for entry in kustomize(KUBERNETES / overlay, *options) if entry["kind"] == kind)


def pod(overlay: str = "kubeadm", *options: str) -> dict:
    return the("DaemonSet", overlay, *options)["spec"]["template"]["spec"]


def test_startup_taint_is_an_option():
    def granted(*options: str) -> set[tuple[str, str]]:
        return {(resource, verb) for entry in kustomize(KUBERNETES / "kubeadm", *options)
                if entry["kind"] == "ClusterRole" for rule in entry["rules"]
                for resource in rule["resources"] for verb in rule["verbs"]}

    assert ("events", "create") in granted() and ("events", "patch") not in granted()
    assert granted("../startup-taint") - granted() == {("nodes", "patch")}
    bindings = [entry for entry in kustomize(KUBERNETES / "kubeadm", "../startup-taint")
                if entry["kind"] == "ClusterRoleBinding"]
    assert len(bindings) == 2 and bindings[0]["subjects"] == bindings[1]["subjects"]


def by_name(objects: list[dict]) -> dict[tuple[str, str], dict]:
    """Files in a ConfigMap are read: how they are written may differ."""
    for entry in objects:
        if entry["kind"] == "ConfigMap":
            entry["data"] = {name: yaml.safe_load(text) for name, text in entry["data"].items()}
    named = {(entry["kind"], entry["metadata"]["name"]): entry for entry in objects}
    assert len(named) == len(objects)
    return named


def labelled(entry: dict) -> list[dict]:
    """The metadata of an object, and of the pods that it makes."""
    return [entry["metadata"], *([entry["spec"]["template"]["metadata"]] if entry["kind"] == "DaemonSet" else [])]


def without_recommended_labels(objects: list[dict]) -> list[dict]:
    """The chart alone has all of them."""
    for metadata in [metadata for entry in objects for metadata in labelled(entry)]:
        labels = {name: value for name, value in metadata.pop("labels", {}).items()
                  if not name.startswith(("app.kubernetes.io/", "helm.sh/"))}  # fmt: skip
        metadata |= {"labels": labels} if labels else {}
    return objects


@pytest.mark.parametrize("options", [[], *([name] for name in OPTIONS), list(OPTIONS)], ids="+".join)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_chart_and_kustomization_say_the_same(overlay: str, options: list[str]):
    values = OVERLAYS[overlay] | {"clusterCIDR": "none"}
    for name in options:
        values |= OPTIONS[name]
    ours, theirs = (by_name(without_recommended_labels(objects)) for objects in
                    (helm(CHART, values), kustomize(KUBERNETES / overlay, *options)))  # fmt: skip
    assert ours == theirs


def test_every_object_of_the_chart_has_the_recommended_labels():
    objects = helm(CHART, {"clusterCIDR": "none", "startupTaint": "a", "podMonitor": True})
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    recommended = {
        "app.kubernetes.io/name": "kube-nftd", "app.kubernetes.io/instance": "a-release",
        "app.kubernetes.io/version": about["appVersion"], "app.kubernetes.io/component": "proxy",
        "app.kubernetes.io/part-of": "kube-nftd", "app.kubernetes.io/managed-by": "Helm",
    }  # fmt: skip
    assert len(objects) == 8
    for entry in objects:
        first, *of_pods = [metadata["labels"] for metadata in labelled(entry)]
        assert first.pop("app", "kube-nftd") == "kube-nftd"
        assert first == recommended | {"helm.sh/chart": f"{about['name']}-{about['version']}"}, entry["metadata"]["name"]
        assert of_pods in ([], [recommended | {"app": "kube-nftd"}])
    [daemons] = [entry for entry in objects if entry["kind"] == "DaemonSet"]
    assert daemons["spec"]["selector"] == {"matchLabels": {"app": "kube-nftd"}}  # it cannot be changed later


def test_values_of_the_chart():
    rendered = by_name(helm(CHART, {
        "image": {"repository": "registry.example/kube-nftd", "tag": "2"}, "clusterCIDR": "10.244.0.0/16,fd00::/64",
        "config": {"detectLocalMode": "NodeCIDR"}, "nodeSelector": {"pool": "a"},
        "tolerations": [{"key": "a", "operator": "Exists"}], "resources": {"limits": {"memory": "1Gi"}},
    }, namespace="network"))
    spec = rendered["DaemonSet", "kube-nftd"]["spec"]["template"]["spec"]
    containers = spec["initContainers"] + spec["containers"]
    assert {container["image"] for container in containers} == {"registry.example/kube-nftd:2"}
    assert containers[1]["resources"] == {"requests": {"cpu": "20m", "memory": "40Mi"}, "limits": {"memory": "1Gi"}}
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", "kube-nftd/enabled": "true", "pool": "a"}
    assert spec["tolerations"] == [{"key": "a", "operator": "Exists"}]
    config = rendered["ConfigMap", "kube-nftd"]["data"]["config.conf"]
    assert config["clusterCIDR"] == "10.244.0.0/16,fd00::/64" and config["detectLocalMode"] == "NodeCIDR"
    places = {entry["metadata"].get("namespace", "network") for entry in rendered.values()}
    assert places == {"network"} == {rendered["ClusterRoleBinding", "kube-nftd"]["subjects"][0]["namespace"]}


def test_more_values_of_the_chart():
    rendered = by_name(helm(CHART, {
        "clusterCIDR": "none", "image": {"pullPolicy": "Always"}, "imagePullSecrets": [{"name": "registry"}],
        "podAnnotations": {"a": "b"}, "affinity": {"nodeAffinity": {}},
    }))  # fmt: skip
    template = rendered["DaemonSet", "kube-nftd"]["spec"]["template"]
    spec = template["spec"]
    assert {container["imagePullPolicy"] for container in spec["initContainers"] + spec["containers"]} == {"Always"}
    assert spec["imagePullSecrets"] == [{"name": "registry"}] and spec["affinity"] == {"nodeAffinity": {}}
    assert template["metadata"]["annotations"]["a"] == "b"
    assert rendered["ConfigMap", "kube-nftd"]["data"]["config.conf"]["clusterCIDR"] == ""


def test_the_chart_asks_for_the_addresses_of_pods():
    with pytest.raises(Refused, match="clusterCIDR is not set"):
        helm(CHART, {})
    config = by_name(helm(CHART, {"config": {"detectLocalMode": "NodeCIDR"}}))["ConfigMap", "kube-nftd"]["data"]["config.conf"]
    assert config["clusterCIDR"] == "" and config["detectLocalMode"] == "NodeCIDR"


def test_notes_of_the_chart():
    text = notes(CHART, {"clusterCIDR": "10.244.0.0/16"}, "network")
    assert "kubectl --namespace network " in text and "kube-nftd/enabled: 'true'" in text and "not recognised" not in text
    assert "pods are not recognised" in notes(CHART, {"clusterCIDR": "none"})


def test_schema_of_the_values():
    """It has each value of the chart, and knows a typo."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def check(value: object, spec: dict, where: str) -> None:
        kinds = {"object": dict, "array": list, "string": str, "boolean": bool}
        assert isinstance(value, kinds[spec["type"]] if "type" in spec else str), where
        assert value in spec.get("enum", [value]) and re.search(spec.get("pattern", ""), str(value)), where
        if "properties" in spec:
            assert isinstance(value, dict)
            if where != "values.config":
                assert spec["additionalProperties"] is False and value.keys() <= spec["properties"].keys(), where
            for key in value.keys() & spec["properties"].keys():
                check(value[key], spec["properties"][key], f"{where}.{key}")

    check(values, schema, "values")
    assert schema["properties"].keys() - values.keys() == {"global"}
    for text, good in (("none", True), ("10.244.0.0/16,fd00::/56", True), ("", True), ("10.244.0.0", False), ("None", False)):
        assert bool(re.search(schema["properties"]["clusterCIDR"]["pattern"], text)) is good, text


def test_fields_that_the_chart_writes_are_none_of_its_values():
    """A second one would replace it: clientConnection, for example, with the kubeconfig that leads to the server."""
    fields = json.loads((CHART / "values.schema.json").read_text())["properties"]["config"]["properties"]
    rendered = by_name(helm(CHART, {"clusterCIDR": "none", "config": {"metricsBindAddress": None}}))
    written = rendered["ConfigMap", "kube-nftd"]["data"]["config.conf"].keys() - {"metricsBindAddress"}
    assert {name for name, spec in fields.items() if spec is False} == written


def test_the_chart_knows_where_its_probes_ask():
    rendered = by_name(helm(CHART, {"clusterCIDR": "none"}))
    main = rendered["DaemonSet", "kube-nftd"]["spec"]["template"]["spec"]["containers"][0]
    asked = {(main[name]["httpGet"]["host"], main[name]["httpGet"]["port"]) for name in main if name.endswith("Probe")}
    assert asked == {("127.0.0.1", 10256)}
    fields = json.loads((CHART / "values.schema.json").read_text())["properties"]["config"]["properties"]
    for text, good in (("0.0.0.0:10256", True), ("[::]:10256", True), ("127.0.0.1", True), ("0.0.0.0:10257", False), ("10.0.0.1", False)):
        assert bool(re.search(fields["healthzBindAddress"]["pattern"], text)) is good, text


# ---- man page and completion ----


def test_man_page_names_every_flag():
    page = (SOURCE / "docs/kube-nftd.8").read_text().replace("\\-", "-")
    flags = set(re.findall(r"^\.(?:B|BI) (--?[a-z][a-z-]*)", page, re.MULTILINE))
    assert flags == flags_of_the_daemon()


def test_man_page_is_well_formed():
    done = subprocess.run(["man", "--warnings", "-l", str(SOURCE / "docs/kube-nftd.8")], check=True, text=True,
                          env=os.environ | {"MANWIDTH": "100", "LC_ALL": "C.UTF-8"}, capture_output=True)
    assert done.stderr == ""
    assert "--kubeconfig FILE" in done.stdout


def complete(*words: str, folder: Path) -> list[str]:
    """What bash offers for the last word."""
    script = """
        source "$1"; shift
        compopt() { :; } # outside of a completion it fails
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        "$(complete -p kube-nftd | sed 's/.*-F \\([^ ]*\\) .*/\\1/')"
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    return run("bash", "-c", script, "bash", SOURCE / "deploy/kube-nftd.bash-completion", *words, cwd=folder).split()


def complete_in_zsh(*words: str, folder: Path) -> list[str]:
    """The same of zsh, whose builtins for completion are only there in one."""
    script = """
        compset() { return 1 }
        compadd() { print -rl -- ${(M)${(P)2}:#$PREFIX*} }
        _files() { print -rl -- $PREFIX*(N) }
        file=$1; shift
        words=("$@"); CURRENT=$#; PREFIX=$words[-1]
        source $file
    """
    return run("zsh", "-fc", script, "zsh", SOURCE / "deploy/kube-nftd.zsh-completion", *words, cwd=folder).split()


SHELLS = pytest.mark.parametrize("complete", [
    complete, pytest.param(complete_in_zsh, marks=pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh here")),
])  # fmt: skip


@SHELLS
def test_completion_offers_every_flag(complete, tmp_path: Path):
    assert set(complete(DAEMON, "-", folder=tmp_path)) == flags_of_the_daemon()


@SHELLS
def test_completion_offers_values(complete, tmp_path: Path):
    (tmp_path / "objects.yaml").touch()
    assert complete(DAEMON, "--detect-local-mode", "Node", folder=tmp_path) == ["NodeCIDR"]
    assert complete(DAEMON, "-o", "", folder=tmp_path) == ["text", "json", "yaml", "wide", "name"]
    assert complete(DAEMON, "--manifests", "obj", folder=tmp_path) == ["objects.yaml"]


def test_completion_behind_an_equals_sign(tmp_path: Path):
    """Which bash makes a word of its own."""
    assert complete(DAEMON, "--detect-local-mode", "=", "Node", folder=tmp_path) == ["NodeCIDR"]
    assert complete(DAEMON, "--detect-local-mode", "=", folder=tmp_path)[0] == "ClusterCIDR"


@SHELLS
def test_completion_offers_commands_and_services(complete, tmp_path: Path):
    """The Services are those that the daemon lists."""
    commands = {"list", "status", "top", "explain", "preflight", "dump", "cleanup", "help", "version"}
    assert set(complete(DAEMON, "", folder=tmp_path)) == commands
    assert complete(DAEMON, "st", folder=tmp_path) == ["status"]
    lister = tmp_path / "kube-nftd"
    lister.write_text("#!/bin/sh\n[ \"$*\" = 'list -o name' ] && printf 'default/web\\nkube-system/dns\\n'\n")
    lister.chmod(0o755)
    services = ["default/web", "kube-system/dns"]
    assert complete(str(lister), "explain", "", folder=tmp_path) == services
    assert complete(DAEMON, "help", "st", folder=tmp_path) == ["status"]
    assert complete(str(lister), "list", "-n", "", folder=tmp_path) == ["default", "kube-system"]
    assert complete(str(lister), "top", "", folder=tmp_path) == services
    assert complete(str(lister), "list", "endpoints", "kube", folder=tmp_path) == services[1:]
    assert complete(str(lister), "list", "", folder=tmp_path) == ["endpoints", *services]


# ---- programs that need a build ----


@pytest.mark.parametrize("command", [
    ["tests/bench/run", "--build", "FOLDER"], ["tests/soak/run"], ["tests/kernels/run", "--build", "FOLDER"],
], ids=lambda command: command[0])  # fmt: skip
def test_without_a_build_they_say_what_to_do(command: list[str], tmp_path: Path):
    """And not by a traceback."""
    words = [word.replace("FOLDER", str(tmp_path)) for word in command]
    done = subprocess.run([SOURCE / words[0], *words[1:]], text=True, capture_output=True, check=False,
                          env=os.environ | {"KUBE_NFTD": str(tmp_path / "kube-nftd")})
    assert done.returncode == 1 and done.stdout == "" and "Traceback" not in done.stderr
    assert f"{tmp_path}/kube-nftd" in done.stderr and f"cmake --build {tmp_path}" in done.stderr


# ---- systemd ----


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    text = (SOURCE / "systemd/kube-nftd.service").read_text()
    copy = tmp_path / "kube-nftd.service"
    copy.write_text(text.replace("/usr/sbin/kube-nftd", DAEMON))
    return copy


def test_unit_is_valid(unit: Path):
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], text=True, capture_output=True, check=True)
    assert done.stderr == ""


def test_unit_exposes_little(unit: Path):
    said = run("systemd-analyze", "security", "--offline=yes", "--no-pager", unit)
    exposure = float(re.search(r"Overall exposure level for kube-nftd.service: ([0-9.]+)", said)[1])
    assert exposure <= EXPOSURE_LIMIT, said


def test_flags_of_the_unit_exist():
    for file in ("systemd/kube-nftd.service", "systemd/kube-nftd.default"):
        lines = re.findall(r"KUBE_NFTD_FLAGS=(--.*|\"--.*\")$", (SOURCE / file).read_text(), re.MULTILINE)
        assert lines, file
        for line in lines:
            run(DAEMON, *line.strip('"').split(), "--help")


# ---- Kubernetes ----


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_daemon_takes_the_config_map(overlay: str, tmp_path: Path):
    """As kube-proxy's defaults are, and as both containers are started."""
    data = the("ConfigMap", overlay)["data"]
    for name, text in data.items():
        (tmp_path / name).write_text(text)
    mounts = {mount["name"]: mount["mountPath"] for mount in pod(overlay)["containers"][0]["volumeMounts"]}
    for container in pod(overlay)["containers"] + pod(overlay)["initContainers"]:
        args = [arg.replace(mounts["config"], str(tmp_path)) for arg in container["args"] if arg != "--init-only"]
        assert f"--config={tmp_path}/config.conf" in args
        out = tmp_path / "written"
        done = subprocess.run([DAEMON, *args, f"--write-config-to={out}"], text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert " warn " not in done.stderr, done.stderr
        written = yaml.safe_load(out.read_text())
        # The default, which never lowers what the host has.
        assert (written["conntrack"]["maxPerCore"], written["conntrack"]["min"]) == (None, None)
        assert written["conntrack"]["tcpCloseWaitTimeout"] in ("1h0m0s", "1h")
        assert written["oomScoreAdj"] == -999
        assert written["clientConnection"]["kubeconfig"] == mounts["kubeconfig"] + "/kubeconfig.conf"


@pytest.mark.parametrize("overlay", ["k3s", "rke2"])
def test_own_kubeconfig(overlay: str, tmp_path: Path):
    """The daemon reads it and goes where --master says; the files that it names are those of a pod."""
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    text = the("ConfigMap", overlay)["data"]["kubeconfig.conf"]
    assert f"{account}/token" in text and f"{account}/ca.crt" in text
    (tmp_path / "token").write_text("a-token")
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "/dev/null", "-subj", "/CN=a",
        "-out", tmp_path / "ca.crt", stderr=subprocess.DEVNULL)
    kubeconfig = tmp_path / "kubeconfig.conf"
    kubeconfig.write_text(text.replace(account, str(tmp_path)))
    [master] = [arg for arg in pod(overlay)["containers"][0]["args"] if arg.startswith("--master=")]
    with subprocess.Popen(["unshare", "--net", DAEMON, f"--kubeconfig={kubeconfig}", master, "--hostname-override=a"],
                          stderr=subprocess.PIPE, text=True) as daemon:
        for line in daemon.stderr:
            if "cannot list" in line or "error" in line:
                break
        daemon.terminate()
    host, port = master.removeprefix("--master=https://").split(":")
    assert f"Failed to connect to {host} port {port}" in line, line


def test_daemon_has_one_capability():
    spec = pod()
    [container] = spec["containers"]
    context = container["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert "privileged" not in context
    assert spec["hostNetwork"] is True
    assert spec["priorityClassName"] == "system-node-critical"
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}


def test_privileged_container_ends():
    [container] = pod()["initContainers"]
    assert container["args"] == ["--config=/etc/kube-nftd/config.conf", "--init-only"]
    assert container["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True}
    assert [mount["readOnly"] for mount in container["volumeMounts"]] == [True]


def test_probes():
    """None is asked before the port is bound, which would be an event; the first one gates the others."""
    [container] = pod()["containers"]
    assert container["startupProbe"]["initialDelaySeconds"] >= 2
    paths = {name: container[name]["httpGet"]["path"] for name in container if name.endswith("Probe")}
    assert paths == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    assert {container[name]["httpGet"]["port"] for name in paths} == {10256}


def test_rights_are_those_that_requests_need():
    """The client's table of collections and the role's rules have the same resources."""
    text = (SOURCE / "src/source/api_protocol.c").read_text()
    requested = set(re.findall(r'= \{\{"[a-z0-9.]+",\s*"([a-z]+)"', text))
    allowed = {resource for rule in the("ClusterRole")["rules"] if "watch" in rule["verbs"]
               for resource in rule["resources"]}
    assert requested & {"services", "endpointslices"}, "the collections are not where this test looks for them"
    assert requested == allowed


def test_pieces_belong_together():
    role, binding, account = the("ClusterRole"), the("ClusterRoleBinding"), the("ServiceAccount")
    daemon_set = the("DaemonSet")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == account["metadata"]["name"]
    template = daemon_set["spec"]["template"]
    assert template["spec"]["serviceAccountName"] == account["metadata"]["name"]
    labels = {"app": "kube-nftd", "app.kubernetes.io/name": "kube-nftd", "app.kubernetes.io/component": "proxy"}
    assert daemon_set["spec"]["selector"]["matchLabels"] == {"app": "kube-nftd"}
    assert template["metadata"]["labels"] == daemon_set["metadata"]["labels"] == labels
    labelled = the("DaemonSet", "kubeadm", "../kube-proxy-label")["spec"]
    assert labelled["selector"] == daemon_set["spec"]["selector"]
    assert labelled["template"]["metadata"]["labels"] == labels | {"k8s-app": "kube-proxy"}
    version = run(DAEMON, "--version").split()[1].removeprefix("v")
    for container in template["spec"]["initContainers"] + template["spec"]["containers"]:
        assert container["image"] == f"kube-nftd:{version}"


def test_flags_of_the_manifests_exist():
    for option in OPTIONS:
        for container in pod("k3s", option)["containers"] + pod("k3s", option)["initContainers"]:
            assert {arg.partition("=")[0] for arg in container["args"]} <= flags_of_the_daemon()


# ---- monitoring ----


def test_rules_name_metrics_that_exist():
    groups = yaml.safe_load((SOURCE / "deploy/monitoring/rules.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    used = {name for rule in rules for name in metrics_in(rule["expr"])}
    assert used and used <= metrics_of_the_daemon()
    guide = (SOURCE / "docs/operating.md").read_text()
    assert [rule["alert"] for rule in rules if rule["alert"] not in guide] == []


def test_alerts_fire_when_nothing_is_scraped():
    """A target that is gone has no `up` at all, so that comparisons with it are silent."""
    groups = yaml.safe_load((SOURCE / "deploy/monitoring/rules.yaml").read_text())["groups"]
    expressions = [rule["expr"] for group in groups for rule in group["rules"]]
    assert 'absent(up{job="kube-nftd"})' in expressions


def test_dashboard_names_metrics_that_exist():
    text = (SOURCE / "deploy/monitoring/dashboard.json").read_text()
    dashboard = json.loads(text)
    used = {name for panel in dashboard["panels"] for target in panel["targets"]
            for name in metrics_in(target["expr"])}
    assert used and used <= metrics_of_the_daemon()
    assert metrics_in(text) <= metrics_of_the_daemon()
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


# ---- documents ----

DOCUMENTS = sorted([*SOURCE.glob("*.md"), *SOURCE.glob("docs/*.md"), *SOURCE.glob("tests/*/README.md")])


def anchors(document: Path) -> set[str]:
    """What links may name in it: its headings in lower case, without punctuation, with dashes for blanks."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(SOURCE)))
def test_documents_name_what_exists(document: Path):
    text = document.read_text()
    flags = flags_of_the_daemon()
    commands = re.findall(r"kube-nftd((?: --?[a-z][a-z-]*(?:[ =][^ `|-][^ `|]*)?)+)", text)
    named = {flag for command in commands for flag in re.findall(r"(?<= )--?[a-z][a-z-]*", command)}
    assert named <= flags
    for link, anchor in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", text):
        target = document.parent / link if link else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), f"{link}#{anchor}"
    assert metrics_in(text) <= metrics_of_the_daemon()


def test_rooms_include_those_to_their_left():
    """As docs/design.md has them: no room knows of one that comes after it."""
    guide = (SOURCE / "docs/design.md").read_text()
    rooms = re.search(r"to their left alone:\n([a-z, \n]*)\.", guide)[1].replace(",", " ").split()
    assert sorted(rooms) == sorted(header.stem for header in SOURCE.glob("include/kube-nftd/*.h"))
    for place, room in enumerate(rooms):
        files = [SOURCE / f"include/kube-nftd/{room}.h", *SOURCE.glob(f"src/{room}/*.[ch]")]
        included = {name for file in files for name in re.findall(r'#include "kube-nftd/(\w+).h"', file.read_text())}
        assert included - {"commit"} <= set(rooms[: place + 1]), room


def test_picture_is_of_the_figures():
    assert run(SOURCE / "tests/bench/plot") == (SOURCE / "docs/side-by-side.svg").read_text()


def test_nft_commands_of_the_guide(tmp_path: Path):
    """Each is given to nft in a network of its own that has our tables."""
    objects_file = SOURCE / "tests/deploy/objects.yaml"
    tables = tmp_path / "tables"
    tables.write_text(run(DAEMON, "--manifests", objects_file, "--dump-rules", "--hostname-override=node-a"))
    guide = (SOURCE / "docs/operating.md").read_text()
    commands = re.findall(r"^    (nft .*)$", guide, re.MULTILINE)
    assert len(commands) >= 5
    script = f"set -e; nft -f {tables}\n" + "\n".join(commands)
    run("unshare", "--net", *([] if os.getuid() == 0 else ["-r"]), "bash", "-e", "-c", script)


def test_installed_files(tmp_path: Path):
    """'cmake --install' of the build that the daemon is from, into a folder."""
    build = Path(DAEMON).parent
    kept = tmp_path / "etc/default/kube-nftd"
    for _ in range(2):
        run("cmake", "--install", build, env=os.environ | {"DESTDIR": str(tmp_path)})
        kept.write_text(kept.read_text() + "# an operator's\n")
    assert kept.read_text().count("# an operator's") == 2
    prefix = next(tmp_path.glob("**/sbin/kube-nftd")).parents[1]
    found = {str(file.relative_to(prefix)) for file in prefix.rglob("*") if file.is_file()}
    assert {"sbin/kube-nftd", "share/man/man8/kube-nftd.8.gz", "share/doc/kube-nftd/operating.md",
            "share/doc/kube-nftd/README.md", "share/doc/kube-nftd/examples/kubectl-nftd",
            "share/doc/kube-nftd/examples/rules.yaml", "share/doc/kube-nftd/examples/dashboard.json",
            "share/bash-completion/completions/kube-nftd", "share/zsh/vendor-completions/_kube-nftd"} <= found
    unit_file = next(tmp_path.glob("**/kube-nftd.service")).read_text()
    assert f"ExecStart=/{(prefix / 'sbin/kube-nftd').relative_to(tmp_path)} " in unit_file


# ---- the commit in the binary ----


def commit_header(folder: Path, *more: str) -> tuple[str, str, int]:
    """What deploy/commit.cmake writes for the tree in @folder: commit, state, and when the file was written."""
    header = folder.parent / "commit.h"
    run("cmake", "-D", f"SOURCE={folder}", "-D", f"HEADER={header}", *more, "-P", SOURCE / "deploy/commit.cmake")
    commit, state = re.findall('#define KUBE_NFTD_[A-Z_]+ "(.*)"', header.read_text())
    return commit, state, header.stat().st_mtime_ns


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=n@localhost"]
    return run("git", *who, *words, cwd=folder, stderr=subprocess.DEVNULL).strip()


@pytest.fixture(name="tree")
def make_tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "below").mkdir(parents=True)
    (tree / "file").write_text("1")
    git(tree, "init")
    git(tree, "add", "file")
    git(tree, "commit", "-m", "first")
    return tree


def test_the_commit_follows_head_and_is_written_only_then(tree: Path):
    first = commit_header(tree)
    assert first[:2] == (git(tree, "rev-parse", "HEAD"), "clean")
    assert commit_header(tree) == first
    (tree / "file").write_text("2")
    changed = commit_header(tree)
    assert changed[:2] == (first[0], "dirty") and changed[2] > first[2]
    git(tree, "commit", "-a", "-m", "second")
    git(tree, "tag", "v1")
    assert commit_header(tree)[:2] == (git(tree, "rev-parse", "HEAD"), "clean") != first[:2]


def test_a_tarball_has_no_commit_but_the_one_that_is_given(tree: Path, tmp_path: Path):
    (tmp_path / "tarball").mkdir()
    for folder in (tmp_path / "tarball", tree / "below"):  # the latter in somebody else's repository
        assert commit_header(folder)[:2] == ("", "")
    assert commit_header(tree / "below", "-D", "COMMIT=0123abcd")[:2] == ("0123abcd", "clean")
    assert commit_header(tree, "-D", "COMMIT=0123abcd-dirty")[:2] == ("0123abcd", "dirty")


def test_version_and_a_build_agree_on_the_commit():
    folder = Path(DAEMON).parent
    header = (folder / "generated/kube-nftd/commit.h").read_text()
    commit = re.search('COMMIT "(.*)"', header)[1]
    changes = ", with changes" if "dirty" in header else ""
    version = run(DAEMON, "--version")
    assert re.fullmatch(r"kube-nftd \S+ \(commit (.*)\)\n", version)[1] == (commit or "unknown") + changes
    assert run(DAEMON, "--version=raw") == version.split()[1] + "\n"
