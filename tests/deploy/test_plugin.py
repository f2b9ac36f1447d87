# SPDX-License-Identifier: GPL-2.0-or-later
"""kubectl nftd, beside a stand-in for kubectl with 500 nodes of which some do not answer."""
from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
PLUGIN = SOURCE / "deploy/kubectl-nftd"
NODES = 500
# Its own folder has "pods" and "nodes", and answers by the name of the pod, or of all: POD.COMMAND, else COMMAND.
STANDIN = """#!/bin/sh
here=${0%/*}
echo "$*" >>"$here/calls"
case $1 in
--context=*) shift ;;
esac
case "$1 $2" in
"get pods") cat "$here/pods"; exit ;;
"get nodes") cat "$here/nodes" 2>/dev/null || { echo 'Error from server (Forbidden): nodes' >&2; exit 1; }; exit ;;
esac
shift 3 # exec -n NAMESPACE
[ "$1" != -c ] || shift 2
pod=$1
command=$4
: >"$here/running/$$"
set -- "$here"/running/*
echo $# >>"$here/together"
status=0
if [ -e "$here/$pod.hangs" ]; then
    exec sleep 60
elif [ -e "$here/$pod.error" ]; then
    cat "$here/$pod.error" >&2
    status=1
elif [ -e "$here/$pod.$command" ]; then
    cat "$here/$pod.$command"
    [ "$command" != status ] || { echo "command terminated with exit code 1" >&2; status=1; }
else
    sed "s/NODE/${pod#pod-}/" "$here/$command"
fi
rm "$here/running/$$"
exit $status
"""


def status(well: bool = True, **more) -> dict:
    family = {"family": "IPv4", "pendingSeconds": 0, "rejected": 0, "drift": 0}
    return {"kind": "KubeNftdStatus", "version": "0.1.0", "well": well, "problems": [], "families": [family]} | more


def explanation(count: int = 3, agrees: bool = True, **more) -> dict:
    return {
        "query": {"text": "10.96.0.10:80", "address": "10.96.0.10"}, "found": "service", "notes": [],
        "summary": ["10.96.0.10:80/TCP is the cluster IP of default/web.", f"New connections: to {count} endpoints."],
        "kernel": {"agrees": agrees, "differences": []},
    } | more  # fmt: skip


def service(name: str = "web", state: str = "applied", ready: int = 3, **more) -> dict:
    return {
        "namespace": "default", "name": name, "state": state, "note": None, "clusterIPs": ["10.96.0.10"],
        "ports": ["80/TCP"], "endpoints": {"all": 3, "ready": ready, "local": 1},
    } | more  # fmt: skip


class Cluster:
    def __init__(self, folder: Path, nodes: int = NODES) -> None:
        self.folder = folder
        (folder / "running").mkdir()
        (folder / "kubectl").write_text(STANDIN)
        (folder / "kubectl").chmod(0o755)
        self.pods = {f"n{i:03}": (f"pod-n{i:03}", "Running") for i in range(nodes)}
        self.write_pods()
        self.answer("status", status())
        self.answer("explain", explanation())
        self.answer("list", {"items": [service()]})
        self.answer("top", {"items": [{"name": "default/web", "perSecond": 1.5, "connections": 10}]})

    def write_pods(self) -> None:
        lines = [f"{node}\t{name}\t{phase}\n" for node, (name, phase) in self.pods.items()]
        (self.folder / "pods").write_text("".join(lines))

    def answer(self, name: str, answer: dict) -> None:
        (self.folder / name).write_text(json.dumps(answer))

    def environment(self) -> dict[str, str]:
        return os.environ | {"PATH": f"{self.folder}:{os.environ['PATH']}"}

    def run(self, *arguments: str, status: int = 0) -> str:
        done = subprocess.run([PLUGIN, *arguments], env=self.environment(), text=True, capture_output=True, timeout=120)
        assert (done.returncode, done.stderr) == (status, ""), done
        return done.stdout


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


@pytest.fixture
def small(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path, 4)


def test_all_are_well(cluster):
    lines = cluster.run("status").splitlines()
    assert lines[0].split() == ["NODE", "VERSION", "STATE", "PENDING", "REJECTED", "DRIFT", "WHY"]
    assert [line.split()[0] for line in lines[1:-1]] == [f"n{i:03}" for i in range(NODES)]
    assert lines[1].split() == ["n000", "0.1.0", "well", "-", "0", "0"]
    assert lines[-1] == "500 nodes: 500 well, 0 not well, 0 without an answer"
    together = [int(line) for line in (cluster.folder / "together").read_text().split()]
    assert len(together) == NODES and 2 <= max(together) <= 32


def test_some_are_not(cluster):
    """Each with its reason; those that hang delay the others by no more than the time given."""
    family = {"family": "IPv4", "pendingSeconds": 7.25, "rejected": 2, "drift": 1}
    cluster.answer("pod-n007.status", status(False, problems=["IPv4: one", "two"], families=[family, family]))
    cluster.answer("pod-n008.status", status(version="0.0.9"))
    (cluster.folder / "pod-n009.error").write_text("error: unable to upgrade connection: container not found\n")
    (cluster.folder / "pod-n010.status").write_text("Killed")
    (cluster.folder / "pod-n011.hangs").touch()
    cluster.pods["n012"] = ("pod-n012", "Pending")
    cluster.write_pods()
    (cluster.folder / "nodes").write_text("n000\nnew\n")
    lines = cluster.run("status", "--timeout", "5", status=2).splitlines()
    assert lines[-1] == ("501 nodes: 495 well, 1 not well, 5 without an answer; versions 0.1.0 (495), 0.0.9 (1)")
    told = {line.split()[0]: line for line in lines[-7:-1]}
    assert told["n007"].split() == ["n007", "0.1.0", "not", "well", "7.2s", "4", "2", "IPv4:", "one;", "two"]
    assert told["n009"].endswith("no answer  -        -         -      error: unable to upgrade connection: container not found")
    assert told["n011"].endswith("no answer within 5 s") and told["n012"].endswith("pod pod-n012 is Pending")
    assert told["new"].endswith("no pod of kube-nftd is there") and "n010" in told
    assert lines[-8].split()[:3] == ["n499", "0.1.0", "well"]
    problems = cluster.run("status", "--problems", "--timeout", "5", status=2).splitlines()
    assert len(problems) == 8 and problems[1:] == lines[-7:]
    (cluster.folder / "pod-n011.hangs").unlink()
    answers = json.loads(cluster.run("status", "-o", "json", "--node", "n000,n007", status=1))["nodes"]
    assert [(it["node"], it["answer"]["well"]) for it in answers] == [("n000", True), ("n007", False)]


def test_explain(cluster):
    """Those that agree are one block; the largest comes first."""
    text = cluster.run("explain", "10.96.0.10:80")
    assert text.startswith("500 of 500 nodes: n000, n001, n002, n003, n004 and 495 more\n") and text.count(" nodes: ") == 1
    assert "exec -n kube-system pod-n000 -- /usr/sbin/kube-nftd explain 10.96.0.10:80 -o json" in (cluster.folder / "calls").read_text()
    cluster.answer("pod-n100.explain", explanation(2))
    cluster.answer("pod-n200.explain", explanation(2, notes=["of this node"]))
    differences = [{"family": "IPv4", "frontend": "10.96.0.10:80/TCP", "text": "it is absent"}]
    cluster.answer("pod-n300.explain", explanation(kernel={"agrees": False, "differences": differences}))
    text = cluster.run("explain", "10.96.0.10:80", status=1)
    blocks = text.split("\n\n")
    assert [block.splitlines()[0] for block in blocks[:3]] == [
        "497 of 500 nodes: n000, n001, n002, n003, n004 and 492 more", "2 of 500 nodes: n100, n200", "1 of 500 nodes: n300",
    ]  # fmt: skip
    assert "to 2 endpoints" in blocks[1] and "    10.96.0.10:80/TCP: it is absent" in blocks[2]
    (cluster.folder / "pod-n400.error").write_text("no\n")
    assert "No answer from n400: no" in cluster.run("explain", "10.96.0.10:80", status=2)


def test_a_node_port_has_another_address_on_each_node(small):
    for i, node in enumerate(small.pods):
        small.answer(f"pod-{node}.explain", explanation(
            query={"text": "30080/TCP", "address": f"192.0.2.{i}"}, summary=[f"192.0.2.{i}:30080/TCP is a node port."]))  # fmt: skip
    assert small.run("explain", "30080/TCP").count(" nodes: ") == 1


def test_list(cluster):
    lines = cluster.run("list").splitlines()
    assert lines[1].split() == ["default/web", "applied", "10.96.0.10", "80/TCP", "3/3", "500"]
    cluster.answer("pod-n001.list", {"items": [service(state="pending"), service("new")]})
    cluster.answer("pod-n002.list", {"items": [service(ready=2, ports=[f"{i}/TCP" for i in range(10)])]})
    lines = cluster.run("list", "-n", "default", status=1).splitlines()
    assert lines[1].split()[:2] == ["default/new", "applied"] and "not known on n000, n002, n003, n004, n005 and 494 more" in lines[1]
    assert lines[2].endswith("pending on n001; READY 2/3 on n002")
    assert "kube-nftd list -n default -o json" in (cluster.folder / "calls").read_text()


def test_top(cluster):
    cluster.answer("pod-n000.top", {"items": [
        {"name": "default/a", "perSecond": 1000, "connections": 7}, {"name": "default/b", "perSecond": 0, "connections": 1}]})  # fmt: skip
    lines = cluster.run("top", "--most", "2").splitlines()
    assert [line.split() for line in lines[1:3]] == [["1000.0", "7", "default/a"], ["748.5", "4990", "default/web"]]
    assert lines[3:] == ["(and 1 more: --most)", "500 of 500 nodes"]


def on_terminal(cluster: Cluster, columns: int, *arguments: str) -> tuple[str, str]:
    """What it writes to a terminal, and to the terminal of its errors."""
    texts, ours, theirs = [], [], []
    for _ in range(2):
        a, b = pty.openpty()
        fcntl.ioctl(b, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
        ours.append(a)
        theirs.append(b)
    environment = {name: value for name, value in cluster.environment().items() if name != "COLUMNS"}
    process = subprocess.Popen([PLUGIN, *arguments], env=environment, stdout=theirs[0], stderr=theirs[1])
    for fd in theirs:
        os.close(fd)
    for fd in ours:
        text = b""
        try:
            while more := os.read(fd, 65536):
                text += more
        except OSError:
            pass
        texts.append(text.decode())
    process.wait()
    return texts[0].replace("\r\n", "\n"), texts[1]


def test_on_a_terminal(small):
    """Progress is shown beside the answer; long texts go below."""
    small.answer("pod-n001.status", status(False, problems=["one long reason that has no room " * 4, "\x1b[31m"]))
    out, err = on_terminal(small, 60, "status")
    assert "4 of 4 nodes" in err and err.endswith("\r\x1b[K")
    assert all(len(line) <= 60 for line in out.splitlines()) and "\n    one long reason" in out and "\x1b" not in out
    assert "\n4 nodes: 3 well, 1 not well, 0 without an answer\n" in out


def test_interrupted(small):
    """What it started ends with it."""
    (small.folder / "pod-n002.hangs").touch()
    # A shell starts what runs in its background with this signal ignored.
    process = subprocess.Popen([PLUGIN, "status"], env=small.environment(), stdout=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    deadline = time.monotonic() + 20
    while not (list((small.folder / "running").iterdir()) and (small.folder / "calls").read_text().count("exec") == 4):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130 and process.stdout.read() == b""
    process.stdout.close()


@pytest.mark.parametrize("arguments,culprit", [
    (["explain"], "WHAT is missing"), (["stauts"], "no command stauts: did you mean status?"), (["frobnicate"], "no command frobnicate (see"),
    (["status", "x"], "unexpected argument: x"), (["--parallel", "0"], "0"),
])  # fmt: skip
def test_mistakes(small, arguments, culprit):
    done = subprocess.run([PLUGIN, *arguments], env=small.environment(), text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (64, "") and culprit in done.stderr
    assert not (small.folder / "calls").exists()


def test_no_pods(small):
    (small.folder / "pods").write_text("")
    done = subprocess.run([PLUGIN, "status"], env=small.environment(), text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (2, "") and "no pod has the label app=kube-nftd" in done.stderr


@pytest.mark.parametrize("word", ["--help", "help", "-h"])
def test_help(word):
    text = subprocess.run([PLUGIN, word], text=True, capture_output=True, check=True).stdout
    assert "  explain WHAT" in text and all(len(line) <= 80 for line in text.splitlines())


def test_errors_that_all_nodes_have_are_told_once(small):
    """Whoever may not exec into pods gets one line, though the error names the pod."""
    for pod, _ in small.pods.values():
        (small.folder / f"{pod}.error").write_text(f'Error from server (Forbidden): pods "{pod}" is forbidden: User "jane" cannot\n')
    assert small.run("explain", "10.96.0.10:80", status=2) == (
        'No answer from n000, n001, n002, n003: Error from server (Forbidden): pods "POD" is forbidden: User "jane" cannot\n')  # fmt: skip


def test_without_kubectl(small):
    """Or one that does not reach the cluster."""
    environment = small.environment() | {"KUBECTL": "kubectl-of-nobody"}
    done = subprocess.run([PLUGIN, "status"], env=environment, text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (2, "") and "kubectl-of-nobody is not in PATH" in done.stderr
    (small.folder / "pods").unlink()
    done = subprocess.run([PLUGIN, "status"], env=small.environment(), text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (2, "") and "cannot list the pods: " in done.stderr


def test_one_node_without_connections(small):
    small.pods = {"n000": small.pods["n000"]}
    small.write_pods()
    small.answer("pod-n000.top", {"items": []})
    assert small.run("top").splitlines()[1:] == ["(no connection was counted yet)", "1 of 1 node"]
    assert small.run("status").splitlines()[-1] == "1 node: 1 well, 0 not well, 0 without an answer"


def test_context_and_completion(small):
    small.run("status", "--context", "other", "-c", "proxy")
    calls = (small.folder / "calls").read_text()
    assert "--context=other exec -n kube-system -c proxy pod-n000 -- " in calls
    environment = small.environment() | {"PATH": f"{SOURCE}/deploy:{os.environ['PATH']}"}
    offered = subprocess.run([SOURCE / "deploy/kubectl_complete-nftd", "ex"], env=environment, text=True, capture_output=True)
    assert offered.stdout == "explain\n:4\n"
