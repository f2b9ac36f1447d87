# SPDX-License-Identifier: GPL-2.0-or-later
"""What is delivered beside the daemon names only what the daemon has, and all of it where it has to."""
from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

SOURCE = Path(__file__).resolve().parents[2]
DAEMON = os.environ.get("KUBE_NFTD", str(SOURCE / "build-test/kube-nftd"))
KUBERNETES = SOURCE / "deploy/kubernetes"
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


def objects() -> list[dict]:
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    files = [KUBERNETES / name for name in kustomization["resources"]]
    return [entry for file in files for entry in yaml.safe_load_all(file.read_text())]


def the(kind: str) -> dict:
    return next(entry for entry in objects() if entry["kind"] == kind)


def component(name: str) -> tuple[dict, list[dict]]:
    kustomization = yaml.safe_load((KUBERNETES / name / "kustomization.yaml").read_text())
    files = [KUBERNETES / name / file for file in kustomization["resources"]]
    return kustomization, [entry for file in files for entry in yaml.safe_load_all(file.read_text())]


def test_startup_taint_is_an_option():
    kustomization, parts = component("startup-taint")
    assert kustomization["kind"] == "Component"
    role, binding = parts
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}]
    assert binding["subjects"] == the("ClusterRoleBinding")["subjects"]
    [patch] = kustomization["patches"]
    [operation] = yaml.safe_load(patch["patch"])
    assert operation["value"].partition("=")[0] in flags_of_the_daemon()
    granted = {(resource, verb) for rule in the("ClusterRole")["rules"]
               for resource in rule["resources"] for verb in rule["verbs"]}
    assert ("nodes", "patch") not in granted and {("events", "create"), ("events", "patch")} <= granted


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


def test_completion_offers_every_flag(tmp_path: Path):
    assert set(complete(DAEMON, "-", folder=tmp_path)) == flags_of_the_daemon()


def test_completion_offers_values(tmp_path: Path):
    (tmp_path / "objects.yaml").touch()
    assert complete(DAEMON, "--detect-local-mode", "Node", folder=tmp_path) == ["NodeCIDR"]
    assert complete(DAEMON, "--detect-local-mode", "=", "Node", folder=tmp_path) == ["NodeCIDR"]
    assert complete(DAEMON, "--detect-local-mode", "=", folder=tmp_path)[0] == "ClusterCIDR"
    assert complete(DAEMON, "-o", "", folder=tmp_path) == ["text", "json"]
    assert complete(DAEMON, "--manifests", "obj", folder=tmp_path) == ["objects.yaml"]


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


def test_daemon_takes_the_config_map(tmp_path: Path):
    container = the("DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    config = tmp_path / "config.conf"
    config.write_text(the("ConfigMap")["data"]["config.conf"])
    args = [arg.replace("/etc/kube-nftd/config.conf", str(config)) for arg in container["args"]]
    assert f"--config={config}" in args
    out = tmp_path / "written"
    done = subprocess.run([DAEMON, *args, f"--write-config-to={out}"], text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert " warn " not in done.stderr, done.stderr
    written = yaml.safe_load(out.read_text())
    assert written["conntrack"]["maxPerCore"] == 0
    assert written["clientConnection"]["kubeconfig"] == "/var/lib/kube-proxy/kubeconfig.conf"


def test_pod_has_one_capability():
    spec = the("DaemonSet")["spec"]["template"]["spec"]
    context = spec["containers"][0]["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert "privileged" not in context
    assert spec["hostNetwork"] is True
    assert spec["priorityClassName"] == "system-node-critical"
    assert all(mount["readOnly"] for mount in spec["containers"][0]["volumeMounts"])
    assert {mount["name"] for mount in spec["containers"][0]["volumeMounts"]} == {
        volume["name"] for volume in spec["volumes"]}


def test_rights_are_those_that_requests_need():
    """The paths that the client asks for, and the role's rules, say the same."""
    text = "".join(file.read_text() for file in (SOURCE / "src").glob("**/*.c"))
    asked = {re.sub("^.*/", "", path) for path in re.findall(r'"/apis?/[a-z0-9./]*/([a-z]+)"', text)}
    allowed = {resource for rule in the("ClusterRole")["rules"] if "watch" in rule["verbs"]
               for resource in rule["resources"]}
    assert asked & {"services", "endpointslices"}, "the client's paths are not where this test looks for them"
    assert asked - {"events"} == allowed


def test_pieces_belong_together():
    role, binding, account = the("ClusterRole"), the("ClusterRoleBinding"), the("ServiceAccount")
    daemon_set = the("DaemonSet")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["name"] == account["metadata"]["name"]
    template = daemon_set["spec"]["template"]
    assert template["spec"]["serviceAccountName"] == account["metadata"]["name"]
    assert daemon_set["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    image = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["images"][0]
    assert image["name"] == template["spec"]["containers"][0]["image"]
    assert run(DAEMON, "--version").split()[-1].removeprefix("v") == image["newTag"]


# ---- monitoring ----


def test_rules_name_metrics_that_exist():
    groups = yaml.safe_load((SOURCE / "deploy/monitoring/rules.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    used = {name for rule in rules for name in metrics_in(rule["expr"])}
    assert used and used <= metrics_of_the_daemon()
    guide = (SOURCE / "docs/operating.md").read_text()
    assert [rule["alert"] for rule in rules if rule["alert"] not in guide] == []


def test_dashboard_names_metrics_that_exist():
    text = (SOURCE / "deploy/monitoring/dashboard.json").read_text()
    dashboard = json.loads(text)
    used = {name for panel in dashboard["panels"] for target in panel["targets"]
            for name in metrics_in(target["expr"])}
    assert used and used <= metrics_of_the_daemon()
    assert metrics_in(text) <= metrics_of_the_daemon()
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


# ---- documents ----

DOCUMENTS = sorted((SOURCE / "docs").glob("*.md"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_what_exists(document: Path):
    text = document.read_text()
    flags = flags_of_the_daemon()
    commands = re.findall(r"kube-nftd((?: --?[a-z][a-z-]*(?:[ =][^ `|-][^ `|]*)?)+)", text)
    named = {flag for command in commands for flag in re.findall(r"(?<= )--?[a-z][a-z-]*", command)}
    assert named <= flags
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (document.parent / link).exists(), link
    assert metrics_in(text) <= metrics_of_the_daemon()


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
            "share/bash-completion/completions/kube-nftd"} <= found
    unit_file = next(tmp_path.glob("**/kube-nftd.service")).read_text()
    assert f"ExecStart=/{(prefix / 'sbin/kube-nftd').relative_to(tmp_path)} " in unit_file
