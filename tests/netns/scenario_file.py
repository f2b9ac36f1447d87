# SPDX-License-Identifier: GPL-2.0-or-later
"""Reading scenario files; see README.md for what is in them. A key that nobody knows is an error."""

import dataclasses
import pathlib

import yaml

import lab as lab_module
from lab import FAMILIES, PROTOCOLS

FOLDER = pathlib.Path(__file__).with_name("scenarios")

DETECTORS = {
    "cluster-cidr": ["--cluster-cidr", ",".join(lab_module.CLUSTER_NETWORK.values())],
    "node-cidr": ["--detect-local-mode", "NodeCIDR"],
    "bridge": ["--detect-local-mode", "BridgeInterface", "--pod-bridge-interface", lab_module.BRIDGE],
    "interface-prefix": [
        "--detect-local-mode",
        "InterfaceNamePrefix",
        "--pod-interface-name-prefix",
        lab_module.POD_INTERFACE_PREFIX,
    ],
    "none": [],
}

FILE_KEYS = {"spec", "about", "flags", "detector", "families", "protocols", "start", "steps"}
WORLD_KEYS = {"services", "slices", "service-cidrs", "node", "node-addresses"}
SERVICE_KEYS = {
    "type", "families", "cluster-ip", "ports", "node-ports", "external-ips", "lb-ips", "external-policy",
    "internal-policy", "affinity", "source-ranges", "created", "labels", "annotations", "spec", "endpoints",
}  # fmt: skip
SLICE_KEYS = {"of", "type", "ports", "endpoints", "labels", "families"}
NODE_KEYS = {"zone", "addresses", "pod-cidrs"}
STEP_KEYS = {"about", "change", "restart", "flows", "probes", "eventually"}
PROBE_KEYS = {"from", "to", "flow", "reach", "source", "protocol", "family", "sticks"}
FLOW_KEYS = {"from", "to"}


class ScenarioError(ValueError):
    pass


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    flags: list[str]
    families: list[int]
    protocols: list[str]
    start: dict
    steps: list[dict]


def load_all() -> list[Scenario]:
    return [load(path) for path in sorted(FOLDER.glob("*.yaml"))]


def load(path: pathlib.Path) -> Scenario:
    try:
        held = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
        check_file(held)
    except (ScenarioError, yaml.YAMLError) as error:
        raise ScenarioError(f"{path.name}: {error}") from None
    return Scenario(
        name=path.stem,
        flags=DETECTORS[held.get("detector", "cluster-cidr")] + held.get("flags", []),
        families=held.get("families", list(FAMILIES)),
        protocols=held.get("protocols", list(PROTOCOLS)),
        start=held["start"],
        steps=held["steps"],
    )


def check_file(held: dict) -> None:
    check_keys(held, FILE_KEYS, "the file", needed={"spec", "about", "start", "steps"})
    check_world(held["start"], "start")
    for number, step in enumerate(held["steps"], 1):
        check_step(step, f"step {number}")


def check_step(step: dict, where: str) -> None:
    check_keys(step, STEP_KEYS, where)
    check_world(step.get("change", {}), f"{where}, change")
    for name, flow in step.get("flows", {}).items():
        check_keys(flow, FLOW_KEYS, f"{where}, flow {name}", needed=FLOW_KEYS)
    for probe in step.get("probes", []):
        needed = {"flow", "reach"} if "flow" in probe else {"from", "to", "reach"}
        check_keys(probe, PROBE_KEYS, f"{where}, probe {probe}", needed)


def check_world(world: dict, where: str) -> None:
    check_keys(world, WORLD_KEYS, where)
    for kind, keys in (("services", SERVICE_KEYS), ("slices", SLICE_KEYS)):
        for name, fields in world.get(kind, {}).items():
            check_keys(fields or {}, keys, f"{where}, {kind}: {name}")
    check_keys(world.get("node") or {}, NODE_KEYS, f"{where}, node")


def check_keys(held: dict, known: set[str], where: str, needed: set[str] = frozenset()) -> None:
    if not isinstance(held, dict):
        raise ScenarioError(f"{where}: not a mapping")
    for wrong, words in ((held.keys() - known, "unknown"), (needed - held.keys(), "missing")):
        if wrong:
            raise ScenarioError(f"{where}: {words}: {', '.join(sorted(wrong))}")


def changed(world: dict, change: dict) -> dict:
    """@world after @change. Services, slices and ServiceCIDRs that it names get the fields that it names, or
    go if it says null; what else it names is replaced."""
    after = dict(world)
    for kind, wanted in change.items():
        if kind not in ("services", "slices", "service-cidrs"):
            after[kind] = wanted
            continue
        after[kind] = dict(world.get(kind, {}))
        for name, fields in wanted.items():
            before = after[kind].pop(name, None)
            if fields is not None:
                both = isinstance(before, dict) and isinstance(fields, dict)
                after[kind][name] = {**before, **fields} if both else fields
    return after
