# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the steps of deploy/Containerfile in chroots, since a container engine is not at hand:

    sudo python3 tests/deploy/container.py FOLDER [--fresh]

Leaves FOLDER/kube-nftd.deb, and FOLDER/debian-12.tar to begin with the next time. The last stage begins with a fresh
Debian 12 (by debootstrap); the first one too with --fresh, else with this host's own files, which saves installing the
compiler. Nothing on this host is changed.
"""
from __future__ import annotations

import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
KNOWN = {"FROM", "COPY", "WORKDIR", "RUN", "ENTRYPOINT"}


def run(*command: str | Path, **more) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], check=True, **more)


def steps() -> list[tuple[str, str]]:
    """Instruction and argument of each line. One that this script cannot run is an error."""
    found = []
    for line in (SOURCE / "deploy/Containerfile").read_text().replace("\\\n", "").splitlines():
        if line.strip() and not line.startswith("#"):
            instruction, argument = line.split(maxsplit=1)
            if instruction not in KNOWN:
                raise SystemExit(f"{instruction}: this script does not know how to test it")
            found.append((instruction, argument))
    return found


def mirror() -> str:
    """The Debian mirror that apt uses on this machine."""
    targets = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Component: main",
                  stdout=subprocess.PIPE, text=True).stdout.split()
    return next(target for target in targets if target.rstrip("/").endswith("/debian"))


def debootstrap(root: Path, kept: Path) -> Path:
    """A fresh Debian 12 at ROOT, which the file KEPT may have from an earlier run."""
    root.mkdir()
    if kept.exists():
        run("tar", "-C", root, "-xf", kept)
    else:
        run("debootstrap", "--variant=minbase", "bookworm", root, mirror(), stdout=subprocess.DEVNULL)
        run("tar", "-C", root, "-cf", kept.with_suffix(".new"), ".")
        kept.with_suffix(".new").rename(kept)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    return root


class Stage:
    """A root: what it begins with, and what the steps add."""

    def __init__(self, lower: Path, folder: Path) -> None:
        self.root = folder / "root"
        self.work_dir = "/"
        for name in ("root", "upper", "work"):
            (folder / name).mkdir(parents=True)
        run("mount", "-t", "overlay", "overlay", "-o",
            f"lowerdir={lower},upperdir={folder}/upper,workdir={folder}/work", self.root)
        run("mount", "-t", "proc", "proc", self.root / "proc")
        run("mount", "--rbind", "/dev", self.root / "dev")
        run("mount", "-t", "tmpfs", "tmpfs", self.root / "tmp")

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def run(self, *command: str, **more) -> subprocess.CompletedProcess:
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                       **{name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}}
        return run("chroot", self.root, "env", "-C", self.work_dir, *command, env=environment, **more)


def copy_sources(stage: Stage, to: str) -> None:
    """What a fresh clone would have, with what is not committed yet."""
    stage.path(to).mkdir(parents=True)
    names = run("git", "-C", SOURCE, "ls-files", "-z", "--cached", "--others", "--exclude-standard",
                stdout=subprocess.PIPE).stdout
    present = b"\0".join(name for name in names.split(b"\0") if name and (SOURCE / os.fsdecode(name)).exists())
    archive = subprocess.Popen(["tar", "-C", str(SOURCE), "--null", "-T", "-", "-c"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        unpacked = pool.submit(run, "tar", "-C", stage.path(to), "-x", stdin=archive.stdout)
        archive.stdin.write(present)
        archive.stdin.close()
        unpacked.result()
    if archive.wait():
        raise SystemExit("cannot copy the sources")


def main() -> None:
    folder, fresh = Path(sys.argv[1]).resolve(), "--fresh" in sys.argv
    folder.mkdir(parents=True, exist_ok=True)
    work = Path("/mnt")
    run("mount", "-t", "tmpfs", "tmpfs", work)
    stages: dict[str, Stage] = {}
    stage = None
    with concurrent.futures.ThreadPoolExecutor() as pool:
        base = pool.submit(debootstrap, work / "base", folder / "debian-12.tar")
        for instruction, argument in steps():
            print(instruction, argument, flush=True)
            words = argument.split()
            if instruction == "FROM":
                assert words[0] == "debian:12-slim", words[0]
                lower = base.result() if fresh or stages else Path("/")
                stage = Stage(lower, work / f"stage-{len(stages)}")
                stages[words[2] if len(words) > 1 else ""] = stage
            elif instruction == "WORKDIR":
                stage.work_dir = argument
                stage.path(argument).mkdir(parents=True, exist_ok=True)
            elif instruction == "COPY" and words[0].startswith("--from="):
                shutil.copy(stages[words[0].removeprefix("--from=")].path(words[1]), stage.path(words[2]))
            elif instruction == "COPY":
                assert words[0] == ".", argument
                copy_sources(stage, words[1])
            elif instruction == "RUN":
                stage.run("sh", "-c", argument)
            else:
                entry = json.loads(argument)
                for command in (entry, ["/usr/local/bin/kube-proxy"]):
                    said = stage.run(*command, "--version", stdout=subprocess.PIPE, text=True).stdout
                    print(command, "--version:", said, flush=True)
                    assert said.strip(), f"{command} --version says nothing"
    shutil.copy(stages["build"].path("/kube-nftd.deb"), folder / "kube-nftd.deb")


if __name__ == "__main__":
    if os.environ.get("CONTAINER_STEPS") != "own mounts":
        # nothing that is mounted here outlives this process
        environment = os.environ | {"CONTAINER_STEPS": "own mounts"}
        os.execvpe("unshare", ["unshare", "--mount", "--pid", "--fork", "--kill-child", sys.executable, *sys.argv],
                   environment)
    main()
