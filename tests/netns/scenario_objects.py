# SPDX-License-Identifier: GPL-2.0-or-later
"""From the short notation of scenario files to API objects."""

import objects
from lab import NODE_NAME, NODE_PORTS, OTHER_NODE_NAME, POD_PORTS, REMOTE_PODS
from objects import FAMILY_NAME, Port
from places import OTHER_FAMILY, Places


def api_objects(world: dict, places: Places) -> dict[str, dict]:
    """The objects of a world, each with a name for its file."""
    made = {}
    for name, fields in world.get("services", {}).items():
        made[f"service-{name}"] = service(name, fields or {}, places)
        for number, held in enumerate(own_slices(name, fields or {}, places)):
            made[f"service-{name}-slice-{number}"] = held
    for name, fields in world.get("slices", {}).items():
        for family in families(fields, places):
            made[f"slice-{name}-{family}"] = endpoint_slice(name, fields, family, places)
    for name, cidrs in world.get("service-cidrs", {}).items():
        made[f"service-cidr-{name}"] = objects.service_cidr(name, places.fill(cidrs))
    if world.get("node", {}) is not None:
        made["node"] = node(world.get("node", {}), places)
    return made


def families(fields: dict, places: Places) -> list[int]:
    """Of a service or slice; the primary one first."""
    own = places.family
    choices = {"own": [own], "other": [OTHER_FAMILY[own]], "both": [own, OTHER_FAMILY[own]]}
    return choices[fields.get("families", "own")]


# ---- services -------------------------------------------------------------------------------------


def service(name: str, fields: dict, places: Places) -> dict:
    place = fields.get("cluster-ip", "cluster-ip" if name == "web" else f"cluster-ip-{name}")
    addresses = {
        family: places.address(place, family) if place else "None" for family in families(fields, places)
    }
    made = objects.service(name, addresses, [], **spec_fields(fields, places))
    made["spec"]["ports"] = [service_port(*port, places) for port in numbered_ports(fields)]
    made["spec"].update(places.fill(fields.get("spec", {})))
    made["status"]["loadBalancer"] = load_balancer(fields, places)
    made["metadata"].update({key: fields[key] for key in ("labels", "annotations") if key in fields})
    if "created" in fields:
        made["metadata"]["creationTimestamp"] = fields["created"]
    return made


def spec_fields(fields: dict, places: Places) -> dict:
    kind = "LoadBalancer" if fields.get("lb-ips") else "NodePort" if fields.get("node-ports") else "ClusterIP"
    spec = {"type": fields.get("type", kind)}
    if fields.get("external-ips"):
        spec["externalIPs"] = [places.address(name) for name in fields["external-ips"]]
    for side in ("external", "internal"):
        if f"{side}-policy" in fields:
            spec[f"{side}TrafficPolicy"] = fields[f"{side}-policy"]
    if fields.get("affinity"):
        spec["sessionAffinity"] = "ClientIP"
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": fields["affinity"]}}
    if "source-ranges" in fields:
        spec["loadBalancerSourceRanges"] = places.fill(fields["source-ranges"])
    return spec


def load_balancer(fields: dict, places: Places) -> dict:
    ingress = [held if isinstance(held, dict) else {"ip": f"$({held})"} for held in fields.get("lb-ips", [])]
    return {"ingress": places.fill(ingress)} if ingress else {}


def numbered_ports(fields: dict) -> list[tuple[str, dict]]:
    """Name and fields of each port, with a node port if the service has them."""
    ports = []
    for number, (name, held) in enumerate(fields.get("ports", {"http": 80}).items()):
        port = dict(held) if isinstance(held, dict) else {"port": held}
        if fields.get("node-ports") and "nodePort" not in port:
            port["nodePort"] = NODE_PORTS[number]
        ports.append((name, port))
    return ports


def service_port(name: str, held: dict, places: Places) -> dict:
    return {"name": name, "protocol": places.protocol, "targetPort": "named", **held}


# ---- slices ---------------------------------------------------------------------------------------


def own_slices(name: str, fields: dict, places: Places) -> list[dict]:
    """The slice that a service's own list of endpoints stands for, in each of its families."""
    if "endpoints" not in fields:
        return []
    names = fields.get("ports", {"http": 80})
    protocols = [held.get("protocol") if isinstance(held, dict) else None for held in names.values()]
    ports = [
        Port(port, protocol or places.protocol, number)
        for port, protocol, number in zip(names, protocols, POD_PORTS)
    ]
    return [
        objects.endpoint_slice(
            f"{name}-own-{family}", name, family, ports, endpoints(fields["endpoints"], family, places)
        )
        for family in families(fields, places)
    ]


def endpoint_slice(name: str, fields: dict, family: int, places: Places) -> dict:
    held = endpoints(fields.get("endpoints") or {}, family, places)
    made = objects.endpoint_slice(f"{name}-{family}", fields.get("of", "web"), family, [], held)
    ports = fields.get("ports", {"http": POD_PORTS[0]})
    made["ports"] = ports and [slice_port(port, number, places) for port, number in ports.items()]
    made["addressType"] = fields.get("type", FAMILY_NAME[family])
    if "labels" in fields:
        made["metadata"]["labels"] = {key: text for key, text in fields["labels"].items() if text is not None}
    return made


def slice_port(name: str, held: dict | int, places: Places) -> dict:
    fields = held if isinstance(held, dict) else {"port": held}
    return {"name": name, "protocol": places.protocol, **fields}


def endpoints(states: dict, family: int, places: Places) -> list[dict]:
    return [endpoint(name, state, family, places) for name, state in states.items()]


def endpoint(name: str, held: str | dict, family: int, places: Places) -> dict:
    """@name: of a pod, or "host", "host-b"; with "/anything" behind it if it is there more than once."""
    pod = name.split("/")[0]
    fields = held if isinstance(held, dict) else {"state": held}
    place = pod if pod.startswith("host") else f"pod-{pod}"
    remote = pod in REMOTE_PODS or pod == "host-b"
    made = objects.endpoint(
        places.address(place, family), fields.get("state", "ready"), OTHER_NODE_NAME if remote else NODE_NAME
    )
    hints = {
        key: [{"name": name} for name in fields[short]]
        for short, key in (("zones", "forZones"), ("nodes", "forNodes"))
        if short in fields
    }
    if hints:
        made["hints"] = hints
    made.update({key: places.fill(text) for key, text in fields.get("raw", {}).items()})
    return {key: value for key, value in made.items() if value is not None}


# ---- the node -------------------------------------------------------------------------------------


def node(fields: dict, places: Places) -> dict:
    zone = fields.get("zone")
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    told = fields.get("addresses", ["InternalIP node", "InternalIP other:node"])
    addresses = [(kind, places.address(place)) for kind, place in map(str.split, told)]
    networks = fields.get("pod-cidrs", ["$(other:pod-network)", "$(pod-network)"])
    return objects.node(addresses=addresses, labels=labels, podCIDRs=places.fill(networks))
