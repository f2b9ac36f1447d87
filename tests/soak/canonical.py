# SPDX-License-Identifier: GPL-2.0-or-later
"""What a table does, in a form in which two tables are equal that do the same.

The order of slots, the numbers of service ports and of their backends, and chains that nothing needs
any more depend on a table's history; what packets meet does not. Reads `nft list table` and what --dump-rules prints.
"""

import collections
import ipaddress
import re

FAMILIES = ("ip", "ip6")
NAME = "kube-nftd"
BLOCK = re.compile(r"^([ \t]+)(map|set|chain) ([\w-]+) \{\n(.*?)^\1\}$", re.MULTILINE | re.DOTALL)
ELEMENTS = re.compile(r"elements = \{(.*?)\}", re.DOTALL)
ADDED = re.compile(rf"^add element (ip6?) {NAME} ([\w-]+) \{{(.*?)\}}", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
RANGES = ("service_cidrs", "pod_cidrs")
PLAIN = ("cluster_ips", "hairpin")
# The parts of a classid with the number of a service port (nft-templates/base.nft).
PORT, LOW, CLASS, TIMEOUT = 0xffff8000, 0x7fff, 0x7ff0, 0x1ffff


def by_family(text):
    """{family: the text about its table} of a whole dump or of listings."""
    parts = re.split(rf"^(?=table ip6? {NAME} \{{)", COMMENT.sub("", text), flags=re.MULTILINE)
    found = {}
    for part in parts[1:]:
        family = part.split()[1]
        found[family] = part
    return found


def _split(text):
    return [" ".join(element.split()) for element in text.split(",") if element.strip()]


class Torn(Exception):
    """The kernel was moving elements to a larger table while they were listed."""


class Table:
    """The elements of each map and set, as texts, and the rules of each chain."""

    def __init__(self, text):
        self.elements, self.chains = {}, {}
        self.family = text.split()[1]
        for _, kind, name, body in BLOCK.findall(text):
            if kind == "chain":
                self.chains[name] = [" ".join(line.split()) for line in body.splitlines() if line.strip()]
                continue
            found = ELEMENTS.search(body)
            self.elements[name] = _split(found[1]) if found else []
        for _, name, body in ADDED.findall(text):
            self.elements[name] += _split(body)

    def mapping(self, name):
        pairs = [element.split(" : ") for element in self.elements[name]]
        held = dict(pairs)
        if len(held) < len(pairs):
            raise Torn(f"{name} holds a key twice")
        return held


def _number(classid):
    high, low = classid.split(":")
    return int(high, 16) << 16 | int(low, 16)


def _class(value):
    return value & 0xf if value & CLASS == CLASS else 0


def _counted(table):
    """{port: N}, where a frontend has N in its own value"""
    values = map(_number, table.mapping("services").values())
    return {value & PORT: value for value in values if value & CLASS != CLASS and value & LOW}


def _slots(table, ports, endpoints, counted):
    """{port: (N, its backends, slots too many, what is wrong with N)}"""
    backends = collections.defaultdict(dict)
    counts = {_number(port): _number(value) for port, value in table.mapping(ports).items()}
    torn = {port for port in counts.keys() & counted.keys() if counts[port] != counted[port]}
    counts = counted | counts
    for key, backend in table.mapping(endpoints).items():
        port, slot = key.split(" . ")
        backends[_number(port)][int(slot)] = backend
    found = {}
    for port in counts.keys() | backends.keys():
        value, slots = counts.get(port, port), backends[port]
        number = value & LOW
        inside = sorted(slots.get(slot, "nothing") for slot in range(number))
        surplus = sorted(slot for slot in slots if slot >= number)
        wrong = "of another port" if value & PORT != port else "not the frontend's" if port in torn else ""
        found[port] = (number, inside, surplus, wrong)
    return found


def _affine(table, name):
    """{port: its backends in a map of affinity, and those that are learned as another}"""
    numbers = table.mapping("affinity_numbers")
    found = collections.defaultdict(list)
    for number, backend in table.mapping(name).items():
        port = _number(number) & PORT
        learned = numbers.get(f"{port >> 16:x}:{port & 0xffff:x} . {backend}")
        found[port].append((backend, "" if learned == number else f"learned as {learned}"))
    return found


def _learned(table):
    found = collections.defaultdict(list)
    for key in table.mapping("affinity_numbers"):
        port, backend = key.split(" . ", 1)
        found[_number(port)].append(backend)
    return found


def _members(table, name):
    return {_number(element) & PORT: _number(element) & LOW for element in table.elements[name]}


def _lists(table):
    """{list: its prefixes}"""
    lists = collections.defaultdict(set)
    for element in table.elements["allowed_sources"]:
        address, number = element.split(" . ")
        lists[_number(number) & ~0xff].add(f"{address}/{_number(number) & 0xff}")
    return lists


def _ports(table):
    """{port: what it does, by aspect}"""
    lists = _lists(table)
    aspects = {"cluster": _slots(table, "ports", "endpoints", _counted(table)),
               "local": _slots(table, "local_ports", "local_endpoints", {}),
               "rejected": _members(table, "rejected_ports"), "dropped": _members(table, "dropped_ports"),
               "timeout": {_number(port): _number(value)
                           for port, value in table.mapping("affinity_timeouts").items()},
               "learned": _learned(table),
               "sources": {_number(port): sorted(lists[_number(number)])
                           for port, number in table.mapping("source_lists").items()}}
    aspects |= {name: _affine(table, name) for name in ("affinity_backends", "local_affinity_backends")}
    found = collections.defaultdict(dict)
    for aspect, held in aspects.items():
        for port, value in held.items():
            found[port][aspect] = sorted(value) if isinstance(value, list) else value
    return found


def _services(table):
    """{frontend: its class, and what its service port does}; ports that no frontend leads to, by what they do."""
    ports, led = _ports(table), set()
    found = {}
    for frontend, value in table.mapping("services").items():
        port = _number(value) & PORT
        led.add(port)
        found[frontend] = (_class(_number(value)), dict(sorted(ports.get(port, {}).items())))
    for port in ports.keys() - led:
        found[f"nobody's {sorted(ports[port].items())}"] = "a service port"
    return found


def _range(text):
    """A range's ends, whichever way it is written."""
    *before, last = text.split(" . ")
    if "-" in last:
        first, end = map(ipaddress.ip_address, last.split("-"))
    else:
        network = ipaddress.ip_network(last)
        first, end = network[0], network[-1]
    return (" . ".join(before), str(first), str(end))


def _unused_lists(table):
    lists = _lists(table)
    used = {_number(number) for number in table.mapping("source_lists").values()}
    return {" ".join(sorted(lists[number])) for number in lists.keys() - used}


def of(text):
    """What the table of one family does: {aspect: a value that can be compared}."""
    table = Table(text)
    does = {name: set(table.elements[name]) for name in PLAIN}
    does |= {name: {_range(element) for element in table.elements[name]} for name in RANGES}
    does["unused lists"] = _unused_lists(table)
    does["services"] = _services(table)
    does["missing verdicts"] = _missing(table)
    return does


def _missing(table):
    """Counts, timeouts and lists in use that lead nowhere."""
    missing = set()
    chains = {_number(key): chain.removeprefix("goto ") for key, chain in table.mapping("picks").items()}
    missing |= {("services", value & LOW) for value in _counted(table).values()
                if chains.get(value & LOW) not in table.chains}
    if table.elements["source_lists"] and (
        table.mapping("checks").get("0:8") != "goto restricted" or "restricted" not in table.chains
    ):
        missing.add("checks")
    for numbers, picks, bits in (("ports", "picks", LOW), ("local_ports", "local_picks", LOW),
                                 ("affinity_timeouts", "learners", TIMEOUT)):
        verdicts = {_number(key): chain for key, chain in table.mapping(picks).items()}
        for value in {_number(value) & bits for value in table.mapping(numbers).values()}:
            chain = verdicts.get(value, "goto nothing").removeprefix("goto ")
            if chain not in table.chains:
                missing.add((numbers, value))
    return missing


def _differ(name, found, wanted):
    if isinstance(found, dict):
        keys = sorted(key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key))
        return [f"{name}: {key}: {found.get(key)}, wanted {wanted.get(key)}" for key in keys]
    return ([f"{name}: {item} is too many" for item in sorted(found - wanted)]
            + [f"{name}: {item} is missing" for item in sorted(wanted - found)])


def differences(found, wanted):
    """Lines that say how the table with @found does not do as the one with @wanted; texts of one family each."""
    found, wanted = of(found), of(wanted)
    return [line for name in wanted for line in _differ(name, found[name], wanted[name])]


def rule_differences(found, wanted):
    """The same of the chains' rules, both as one nft lists them: of @found may have chains that nothing needs."""
    found, wanted = Table(found), Table(wanted)
    lines = _differ("chains", {name: found.chains.get(name) for name in wanted.chains}, wanted.chains)
    for name in ("picks", "local_picks", "learners"):
        verdicts = found.mapping(name)
        more = {key: verdicts.get(key) for key in wanted.mapping(name)}
        lines += _differ(name, more, wanted.mapping(name))
    return lines
