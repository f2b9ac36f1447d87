# SPDX-License-Identifier: GPL-2.0-or-later
"""Objects of a kustomize folder and of a Helm chart, as far as ours use the two. What is not known here is an error."""
from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import yaml

# ---- kustomize ----


def kustomize(folder: Path, *components: str) -> list[dict]:
    """The objects of FOLDER, with COMPONENTS (paths from it) as if its kustomization named them."""
    spec = yaml.safe_load((folder / "kustomization.yaml").read_text())
    unknown = spec.keys() - {"apiVersion", "kind", "namespace", "resources", "components", "patches", "images"}
    assert not unknown, unknown
    objects = _resources(folder, spec)
    for name in [*spec.get("components", []), *components]:
        component = yaml.safe_load((folder / name / "kustomization.yaml").read_text())
        assert component["kind"] == "Component" and component.keys() <= {"apiVersion", "kind", "resources", "patches"}
        objects += _resources(folder / name, component)
        _patch(objects, component)
    _patch(objects, spec)
    for entry in objects:
        if "namespace" in spec and "namespace" in entry["metadata"]:
            entry["metadata"]["namespace"] = spec["namespace"]
    for image in spec.get("images", []):
        for container in _containers(objects):
            if container["image"] == image["name"]:
                container["image"] = f"{image.get('newName', image['name'])}:{image['newTag']}"
    return objects


def _resources(folder: Path, spec: dict) -> list[dict]:
    objects = []
    for name in spec.get("resources", []):
        path = folder / name
        objects += kustomize(path) if path.is_dir() else list(yaml.safe_load_all(path.read_text()))
    return objects


def _containers(objects: list[dict]) -> list[dict]:
    pods = [entry["spec"]["template"]["spec"] for entry in objects if entry["kind"] == "DaemonSet"]
    return [container for pod in pods for container in [*pod.get("initContainers", []), *pod["containers"]]]


def _patch(objects: list[dict], spec: dict) -> None:
    for patch in spec.get("patches", []):
        target = patch["target"]
        [entry] = [entry for entry in objects
                   if (entry["kind"], entry["metadata"]["name"]) == (target["kind"], target["name"])]
        for operation in yaml.safe_load(patch["patch"]):
            _apply(entry, operation)


def _apply(entry: Any, operation: dict) -> None:
    """One operation of a JSON patch (RFC 6902)."""
    *parents, last = operation["path"].lstrip("/").split("/")
    for step in parents:
        entry = entry[int(step)] if isinstance(entry, list) else entry[step]
    value = copy.deepcopy(operation["value"])
    if operation["op"] == "add" and isinstance(entry, list):
        entry.insert(len(entry) if last == "-" else int(last), value)
        return
    key = int(last) if isinstance(entry, list) else last
    assert operation["op"] == "add" or operation["op"] == "replace" and (isinstance(key, int) or key in entry), operation
    entry[key] = value


# ---- Helm ----


class Refused(Exception):
    """The chart calls "fail"."""


def _scope(chart: Path, values: dict, namespace: str) -> dict:
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    return {"Values": _merge(yaml.safe_load((chart / "values.yaml").read_text()), values),
            "Release": {"Namespace": namespace, "Name": "a-release", "Service": "Helm"},
            "Chart": {"AppVersion": about["appVersion"], "Name": about["name"], "Version": about["version"]},
            "templates": _templates(chart / "templates/_helpers.tpl")}


def _templates(file: Path) -> dict[str, str]:
    """What the file defines, and nothing else but comments."""
    text = re.sub(r"\{\{-? /\*.*?\*/ -?\}\}\s*", "", file.read_text())
    found = re.findall(r'(\{\{- define "([^"]+)" -\}\}\s*(.*?)\s*\{\{- end -\}\}\s*)', text, re.DOTALL)
    assert "".join(whole for whole, _, _ in found) == text
    return {name: body for _, name, body in found}


def notes(chart: Path, values: dict, namespace: str = "kube-system") -> str:
    return _render((chart / "templates/NOTES.txt").read_text(), _scope(chart, values, namespace))


def helm(chart: Path, values: dict, namespace: str = "kube-system") -> list[dict]:
    """The objects of CHART as a release in NAMESPACE, with VALUES over its own."""
    scope = _scope(chart, values, namespace)
    objects = []
    for file in sorted((chart / "templates").glob("*.yaml")):
        objects += [entry for entry in yaml.safe_load_all(_render(file.read_text(), scope)) if entry]
    return objects


def _merge(base: Any, over: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    return {key: _merge(base.get(key), over[key]) if key in over else base[key] for key in {**base, **over}}


def _render(text: str, scope: dict) -> str:
    """'{{-' takes the blanks before it."""
    words = re.split(r"(?:\s*\{\{-|\{\{)(.*?)\}\}", text)
    out, at = _block(words, 0, scope, scope, True)
    assert at == len(words), words[at:]
    return out


def _block(words: list[str], at: int, scope: dict, dot: Any, active: bool) -> tuple[str, int]:
    """Renders up to the 'else' or 'end' that closes the block, or the end of the text."""
    out = ""
    while at < len(words):
        out += words[at] if active else ""
        if at + 1 == len(words):
            return out, at + 1
        action = words[at + 1].strip()
        keyword, _, condition = action.partition(" ")
        if keyword in ("else", "end"):
            return out, at
        at += 2
        if keyword in ("if", "with"):
            some, at = _branches(words, at, scope, dot, active, keyword, condition)
            out += some
        elif active:
            out += _evaluate(action, scope, dot)
    return out, at


def _branches(words: list[str], at: int, scope: dict, dot: Any, active: bool, keyword: str,
              condition: str) -> tuple[str, int]:
    out, done = "", False
    while True:
        value = _condition(condition, scope, dot) if condition else True
        taken = active and not done and bool(value)
        some, at = _block(words, at, scope, value if keyword == "with" else dot, taken)
        out += some
        done = done or taken
        action = words[at + 1].strip()
        at += 2
        if action == "end":
            return out, at
        condition = action.removeprefix("else").strip().removeprefix("if").strip()
        keyword = "if"


def _condition(text: str, scope: dict, dot: Any) -> Any:
    """VALUE, not CONDITION, or CONDITION CONDITION, eq CONDITION CONDITION; a condition may stand in brackets."""
    words = re.findall(r'\(.*\)|"[^"]*"|\S+', text)
    if len(words) == 1:
        return _condition(text[1:-1], scope, dot) if text.startswith("(") else _value(text, scope, dot)
    values = [_condition(word, scope, dot) for word in words[1:]]
    functions = {"not": lambda a: not a, "or": lambda a, b: a or b, "eq": lambda a, b: a == b}
    return functions[words[0]](*values)


def _value(path: str, scope: dict, dot: Any) -> Any:
    if path == ".":
        return dot
    if path.startswith('"'):
        return path.strip('"')
    assert re.fullmatch(r"(\.[A-Za-z]+)+", path), path
    found: Any = scope
    for name in path[1:].split("."):
        found = found[name] if found is scope or found is scope["Values"] else found.get(name)
    return found


def _evaluate(action: str, scope: dict, dot: Any) -> str:
    """VALUE | FUNCTION ARGUMENT | ..., or FUNCTION VALUE | ..."""
    if action.startswith("fail "):
        raise Refused(action.removeprefix("fail ").strip('"'))
    first, *functions = [part.strip() for part in action.split("|")]
    if first.startswith("toYaml "):
        first, functions = first.removeprefix("toYaml "), ["toYaml", *functions]
    if called := re.fullmatch(r'include "([^"]+)" \.', first):
        value = _render(scope["templates"][called[1]], scope)
    else:
        value = _value(first, scope, dot)
    for function in functions:
        name, _, argument = function.partition(" ")
        if name == "toYaml":
            value = yaml.safe_dump(value).rstrip("\n")
        elif name == "nindent":
            value = "\n" + re.sub("^", " " * int(argument), value, flags=re.MULTILINE)
        elif name == "quote":
            value = '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
        elif name == "replace":
            value = value.replace(*argument.replace('"', "").split())
        elif name == "default":
            value = value or _value(argument, scope, dot)
        else:
            raise ValueError(f"{action}: no such function here: {name}")
    return str(value)
