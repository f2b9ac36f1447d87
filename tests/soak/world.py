# SPDX-License-Identifier: GPL-2.0-or-later
"""Random objects of all kinds that kube-nftd reads, good ones and bad ones. The same seed makes the same script of
objects, whatever the daemon and its server do meanwhile."""

import copy
import json
import random

NODE = "node-a"
NODES = (NODE, "node-b", "node-c")
ZONES = ("z1", "z2")
NAMESPACES = ("shop", "load")
KINDS = ("IPv4", "IPv6")
OWN_ADDRESSES = {"IPv4": ("192.0.2.1", "192.0.2.2"), "IPv6": ("2001:db8:1::1", "2001:db8:1::2")}
OTHER_ADDRESSES = ("192.0.2.3/32", "198.51.100.3/32", "2001:db8:1::3/128", "2001:db8:2::3/128")
CLUSTER_IP = {"IPv4": "10.96.{}.{}", "IPv6": "fd00:10:96::{}:{}"}
POD = {"IPv4": "10.244.{}.{}", "IPv6": "fd00:10:244:{}::{}"}
EXTERNAL = {"IPv4": "203.0.113.{}", "IPv6": "2001:db8:5::{}"}
PORTS = (("http", "TCP", 80), ("dns", "UDP", 53), ("dns-tcp", "TCP", 53), ("sip", "SCTP", 5060), ("", "TCP", 443),
         ("http", "UDP", 80), ("alt", "TCP", 8080))
SOURCES = ("10.0.0.0/8", "10.1.0.0/16", " 192.0.2.0/24", "192.0.2.1/32", "198.18.0.0/15", "0.0.0.0/0", "none",
           "2001:db8:1::/64", "2001:db8:3::1/128", "::/0")
CIDRS = (["10.96.0.0/16", "fd00:10:96::/112"], ["10.96.128.0/17"], ["10.100.0.0/24"], ["fd00:10:97::/112"],
         ["10.96.0.0/12"], ["192.168.0.0/30", "fd00:10:96::/64"])
STATES = ({"ready": True, "serving": True, "terminating": False}, {"ready": False, "serving": False, "terminating": False},
          {"ready": False, "serving": True, "terminating": True}, {"ready": False, "serving": False, "terminating": True},
          {"ready": True}, {}, {"ready": True, "serving": False, "terminating": True}, {"ready": None, "serving": None})
LIKELIHOOD = (60, 6, 10, 4, 5, 3, 3, 2)
HEALTH_PORTS = range(31000, 31010)


def identity(obj):
    meta = obj["metadata"]
    return obj["kind"], meta.get("namespace"), meta["name"]


class World:
    """.good: the objects as they are wanted, by identity; .bad: those that are not good now, in their place or beside
    them. Each change is a list of objects to put and of identities to delete."""

    def __init__(self, seed, services=40):
        self.random = random.Random(seed)
        self.services = services
        self.good, self.bad = {}, {}
        self.made = 0

    # ---- makers ----

    def _some(self, pool, most):
        return self.random.sample(pool, self.random.randint(0, min(most, len(pool))))

    def _likely(self, odds):
        return self.random.random() < odds

    def _metadata(self, name, namespace, **more):
        self.made += 1
        created = f"2026-01-02T03:{self.random.randrange(60):02}:{self.random.randrange(0, 60, 20):02}Z"
        return {"name": name, **({"namespace": namespace} if namespace else {}), "creationTimestamp": created, **more}

    def service(self, namespace, name):
        any_of = self.random.choice
        kind = any_of(["ClusterIP"] * 4 + ["NodePort"] * 2 + ["LoadBalancer"] * 4 + ["ExternalName", "headless"])
        families = any_of([["IPv4"], ["IPv4"], ["IPv6"], ["IPv4", "IPv6"], ["IPv4", "IPv6"], ["IPv6", "IPv4"]])
        spec = {"type": "ClusterIP" if kind == "headless" else kind, "ports": self._ports(kind)}
        if kind == "ExternalName":
            spec["externalName"] = "example.org"
        elif kind == "headless":
            spec |= {"clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": families}
        else:
            spec |= self._addresses(families)
        spec["internalTrafficPolicy"] = any_of(["Cluster"] * 4 + ["Local"])
        if self._likely(0.25):
            spec["externalIPs"] = [EXTERNAL[any_of(KINDS)].format(any_of(range(1, 7))) for _ in range(any_of((1, 1, 2)))]
            if self._likely(0.05):
                spec["externalIPs"].append("nowhere")
        if kind in ("NodePort", "LoadBalancer") or "externalIPs" in spec:
            spec["externalTrafficPolicy"] = any_of(["Cluster", "Cluster", "Local"])
        if self._likely(0.2):
            spec["sessionAffinity"] = "ClientIP"
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": any_of((10, 100, 10800, 86400))}}
        status = {"loadBalancer": {}}
        if kind == "LoadBalancer":
            status = self._balancer(spec, families)
        labels = {"app": name}
        if self._likely(0.03):
            labels["service.kubernetes.io/service-proxy-name"] = "another"
        return {"kind": "Service", "metadata": self._metadata(name, namespace, labels=labels), "spec": spec, "status": status}

    def _addresses(self, families):
        """A cluster IP of each family; now and then one that another Service may have."""
        number = self.random.randrange(8 if self._likely(0.1) else 240)
        high = self.random.randrange(1 if self._likely(0.9) else 3)
        addresses = [CLUSTER_IP[family].format(high, number + 10) for family in families]
        return {"clusterIP": addresses[0], "clusterIPs": addresses, "ipFamilies": families}

    def _ports(self, kind):
        chosen, names, numbers = [], set(), set()
        for name, protocol, number in self.random.sample(PORTS, self.random.choice((1, 1, 2, 3))):
            if name in names or (protocol, number) in numbers:
                continue
            names.add(name)
            numbers.add((protocol, number))
            port = {"name": name, "protocol": protocol, "port": number, "targetPort": 8080}
            if kind in ("NodePort", "LoadBalancer") and self._likely(0.9):
                taken = {other.get("nodePort") for other in chosen}
                free = set(range(30000, 30000 + (10 if self._likely(0.1) else 900))) - taken
                port["nodePort"] = self.random.choice(sorted(free))
            chosen.append(port)
        return chosen

    def _balancer(self, spec, families):
        any_of = self.random.choice
        if spec["externalTrafficPolicy"] == "Local":
            spec["healthCheckNodePort"] = any_of(HEALTH_PORTS)
        if self._likely(0.35):
            spec["loadBalancerSourceRanges"] = self._some(SOURCES, 4)
        ingress = []
        for family in families:
            entry = {"ip": EXTERNAL[family].format(any_of(range(11, 40)))}
            entry |= any_of(({}, {"ipMode": "VIP"}, {"ipMode": "VIP"}, {"ipMode": "Proxy"}))
            ingress.append(entry)
        if self._likely(0.1):
            ingress.append({"hostname": "balancer.example.org"})
        return {"loadBalancer": {"ingress": ingress if self._likely(0.95) else []}}

    def slice(self, namespace, name, owner):
        any_of = self.random.choice
        family = any_of(("IPv4",) * 4 + ("IPv6",) * 3 + ("FQDN",) if self._likely(0.2) else ("IPv4", "IPv6"))
        labels = {"kubernetes.io/service-name": owner, "endpointslice.kubernetes.io/managed-by": "soak"}
        odd = self.random.random()
        if odd < 0.02:
            del labels["kubernetes.io/service-name"]
        elif odd < 0.04:
            labels["service.kubernetes.io/headless"] = ""
        ports = [{"name": name, "protocol": protocol, "port": number + 8000}
                 for name, protocol, number in PORTS if self._likely(0.85)]
        if self._likely(0.1):
            for port in ports:
                port["port"] += any_of((0, 1, 2))
        if self._likely(0.02):
            ports = None
        elif ports and self._likely(0.03):
            ports[0]["port"] = None
        hinted = self._likely(0.2)
        size = any_of((0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 12)) if self._likely(0.97) else any_of((40, 90))
        endpoints = [self.endpoint(family, hinted) for _ in range(size)]
        return {"kind": "EndpointSlice", "metadata": self._metadata(name, namespace, labels=labels),
                "addressType": family, "endpoints": endpoints, "ports": ports}

    def endpoint(self, family, hinted):
        any_of = self.random.choice
        if family == "FQDN":
            return {"addresses": [f"host-{any_of(range(9))}.example.org"], "conditions": {"ready": True}}
        where = any_of((0, 0, 1, 2))
        endpoint = {"addresses": [POD[family].format(where, any_of(range(1, 60)))],
                    "conditions": dict(self.random.choices(STATES, LIKELIHOOD)[0])}
        if self._likely(0.95):
            endpoint["nodeName"] = NODES[where]
        if self._likely(0.05):
            endpoint["addresses"].append(POD[family].format(9, 9))
        if hinted and self._likely(0.95):
            endpoint["hints"] = {"forZones": [{"name": any_of(ZONES)}]}
            if self._likely(0.3):
                endpoint["hints"]["forNodes"] = [{"name": any_of(NODES)}]
        return endpoint

    def service_cidr(self, number):
        return {"kind": "ServiceCIDR", "metadata": self._metadata(f"cidr-{number}", None),
                "spec": {"cidrs": list(CIDRS[number])}}

    def node(self):
        any_of = self.random.choice
        labels = {"kubernetes.io/hostname": NODE}
        if self._likely(0.8):
            labels["topology.kubernetes.io/zone"] = any_of(ZONES)
        addresses = [{"type": "Hostname", "address": NODE}]
        for family in KINDS:
            addresses.append({"type": any_of(("InternalIP", "InternalIP", "ExternalIP")),
                              "address": any_of(OWN_ADDRESSES[family])})
        cidrs = any_of((["10.244.0.0/24", "fd00:10:244::/64"], ["10.244.0.0/16"], ["fd00:10:244::/48", "10.244.0.0/23"]))
        meta = self._metadata(NODE, None, labels=labels)
        return {"kind": "Node", "metadata": meta, "spec": {"podCIDRs": cidrs, "podCIDR": cidrs[0]},
                "status": {"addresses": addresses}}

    # ---- changes ----

    def _owner(self):
        return f"s{self.random.randrange(self.services)}"

    def _known(self, kind):
        return sorted((key for key in self.good if key[0] == kind), key=str)

    def begin(self):
        """The first objects."""
        first = [self.node(), self.service_cidr(0)]
        for number in range(self.services):
            if self._likely(0.8):
                first.append(self.service(self._namespace(f"s{number}"), f"s{number}"))
                first += [self._slice_of(f"s{number}") for _ in range(self.random.choice((1, 1, 2, 3)))]
        return self._put(*first)

    @staticmethod
    def _namespace(owner):
        return NAMESPACES[int(owner[1:]) % len(NAMESPACES)]

    def _slice_of(self, owner):
        name = f"{owner}-{self.random.randrange(4)}"
        labelled = owner if self._likely(0.95) else self._owner()
        return self.slice(self._namespace(owner), name, labelled)

    def _put(self, *objects):
        for obj in objects:
            self.good[identity(obj)] = obj
            self.bad.pop(identity(obj), None)
        return list(objects), []

    def _delete(self, *keys):
        for key in keys:
            self.good.pop(key, None)
            self.bad.pop(key, None)
        return [], list(keys)

    def change(self, bad=True):
        """One change: (objects to put, identities to delete)."""
        makers = [self.put_service, self.delete_service, self.put_slice, self.delete_slice, self.nudge_slice,
                  self.nudge_service, self.move_slice, self.change_cidrs, self.change_node, self.spoil]
        weights = [8, 3, 14, 5, 40, 12, 3, 2, 2, 4 if bad else 0]
        return self.random.choices(makers, weights)[0]()

    def put_service(self):
        owner = self._owner()
        return self._put(self.service(self._namespace(owner), owner))

    def delete_service(self):
        keys = self._known("Service")
        return self._delete(self.random.choice(keys)) if keys else self.put_service()

    def put_slice(self):
        return self._put(self._slice_of(self._owner()))

    def delete_slice(self):
        keys = self._known("EndpointSlice")
        return self._delete(self.random.choice(keys)) if keys else self.put_slice()

    def _copy(self, kind):
        keys = self._known(kind)
        return copy.deepcopy(self.good[self.random.choice(keys)]) if keys else None

    def nudge_slice(self):
        """An endpoint comes, goes or gets into another state, as most changes of a cluster are."""
        obj = self._copy("EndpointSlice")
        if not obj:
            return self.put_slice()
        endpoints = obj["endpoints"]
        what = self.random.random()
        if what < 0.35 or not endpoints:
            if len(endpoints) < 100:
                endpoints.append(self.endpoint(obj["addressType"], False))
        elif what < 0.65:
            endpoints.pop(self.random.randrange(len(endpoints)))
        else:
            self.random.choice(endpoints)["conditions"] = dict(self.random.choices(STATES, LIKELIHOOD)[0])
        return self._put(obj)

    def nudge_service(self):
        """One field becomes that of another random Service."""
        obj = self._copy("Service")
        if not obj:
            return self.put_service()
        other = self.service(obj["metadata"]["namespace"], obj["metadata"]["name"])
        if (obj["spec"].get("clusterIP", "None") == "None") != (other["spec"].get("clusterIP", "None") == "None"):
            return self._put(other)
        field = self.random.choice(("ports", "externalIPs", "internalTrafficPolicy", "externalTrafficPolicy",
                                    "sessionAffinity", "loadBalancerSourceRanges", "addresses", "status", "labels"))
        if field == "status":
            obj["status"] = other["status"]
        elif field == "labels":
            obj["metadata"]["labels"] = other["metadata"]["labels"]
        elif field == "addresses":
            for name in ("clusterIP", "clusterIPs", "ipFamilies"):
                if name in other["spec"]:
                    obj["spec"][name] = other["spec"][name]
        else:
            for name in (field, "sessionAffinityConfig") if field == "sessionAffinity" else (field,):
                obj["spec"].pop(name, None)
                if name in other["spec"]:
                    obj["spec"][name] = other["spec"][name]
        return self._put(obj)

    def move_slice(self):
        """To another Service of its namespace, there or not."""
        obj = self._copy("EndpointSlice")
        if not obj:
            return self.put_slice()
        obj["metadata"]["labels"]["kubernetes.io/service-name"] = self._owner()
        return self._put(obj)

    def change_cidrs(self):
        number = self.random.randrange(len(CIDRS))
        key = ("ServiceCIDR", None, f"cidr-{number}")
        return self._delete(key) if key in self.good else self._put(self.service_cidr(number))

    def change_node(self):
        return self._put(self.node())

    # ---- bad objects ----

    def spoil(self):
        """A good object becomes one that cannot be read, or one comes that never could."""
        any_of = self.random.choice
        if self._likely(0.3):
            name = f"bad-{self.random.randrange(5)}"
            obj = any_of((self.service(NAMESPACES[0], name), self.slice(NAMESPACES[0], name, self._owner())))
        else:
            obj = self._copy(any_of(("Service", "EndpointSlice", "EndpointSlice")))
            if not obj:
                return self.put_slice()
        if obj["kind"] == "Service":
            obj["spec"]["ports"] = any_of(("none", [{"port": 70000}], [7], {"port": 1}))
        elif self._likely(0.3):
            obj["addressType"] = any_of((4, [], {}))
        else:
            obj["endpoints"] = any_of(("x", {"addresses": []}, [3], [{"addresses": "10.244.0.1"}]))
        self.bad[identity(obj)] = obj
        return [obj], []

    def heal(self):
        """All that is bad becomes good or goes."""
        put, gone = [], []
        for key in sorted(self.bad, key=str):
            if key in self.good:
                put.append(self.good[key])
            else:
                gone.append(key)
        self.bad.clear()
        return put, gone


def write(path, objects):
    """As a List, the way kubectl writes one."""
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": list(objects)}), encoding="utf-8")
