# SPDX-License-Identifier: GPL-2.0-or-later
"""Playing a scenario: objects and addresses come and go, packets are sent, answers are compared."""

import collections
import concurrent.futures
import itertools
import pathlib
import typing

import icmp
import objects
from daemon import tables_exist, wait_for
from lab import FAMILIES, Answer, Lab, hail_on
from places import OTHER_FAMILY, Places, Target
from scenario import Proxy, fresh_addresses
from scenario_file import Scenario, changed
from scenario_objects import api_objects

FAILURES = {
    "refused": ("refused",),
    "dropped": ("timeout",),
    "nobody": ("timeout", "refused", "EHOSTUNREACH"),
}
DENIED = ("denied",)
FEWEST_QUESTIONS = 12  # a wrong backend beside a right one stays unseen once in 4096 times
MOST_QUESTIONS = 120  # one of three backends that never answers: once in 10^20 times
STICKY_QUESTIONS = 8
ANSWER_TIMEOUT = 2.5  # longer than it takes TCP to send its first packet again
DROP_TIMEOUT = 0.3
EVENTUALLY = 20

# What is left when all objects are gone. affinity keeps its records until their time is over.
EMPTIED = (
    "services", "ports", "endpoints", "local_ports", "local_endpoints", "rejected_ports", "dropped_ports",
    "source_lists", "allowed_sources", "hairpin", "cluster_ips", "service_cidrs", "affinity_backends",
    "local_affinity_backends", "affinity_numbers", "affinity_timeouts",
)  # fmt: skip

_markers = itertools.count(1)


def play(scenario: Scenario, lab: Lab, folder: pathlib.Path, family: int, protocol: str) -> None:
    """With a daemon of its own, whose files are in @folder."""
    places = Places(lab, family, protocol)
    proxy = Proxy(lab, folder, *places.fill(scenario.flags))
    run = Run(scenario, proxy, places)
    try:
        run.play()
        assert "runtime error" not in proxy.daemon.log()
    except BaseException:
        if tables_exist(lab.node):
            print(proxy.tables[family].listing())  # shown with the failure
        raise
    finally:
        print(proxy.daemon.last_words())
        run.close()
        proxy.close()


class Run:
    """One scenario in one family and protocol."""

    def __init__(self, scenario: Scenario, proxy: Proxy, places: Places) -> None:
        self.scenario = scenario
        self.proxy = proxy
        self.lab = proxy.lab
        self.places = places
        self.world: dict = {}
        self.written: dict[str, dict] = {}
        self.node_addresses: set[str] = set()
        self.flows: dict[str, typing.Any] = {}
        self.stuck: dict[str, str] = {}

    def play(self) -> None:
        self.change(self.scenario.start, daemon_runs=False)
        self.proxy.daemon.start()
        self.wait_in_force()
        for number, step in enumerate(self.scenario.steps, 1):
            try:
                self.take(step)
            except AssertionError as error:
                title = f"{self.scenario.name}.yaml, step {number}"
                raise AssertionError(f"{title} ({step.get('about', 'no title')}):\n{error}") from None
        self.clear()

    def close(self) -> None:
        for flow in self.flows.values():
            flow.__exit__(None, None, None)
        for address in self.node_addresses:
            self.lab.remove_node_address(address)

    # -- changes --

    def take(self, step: dict) -> None:
        if step.get("restart"):
            self.proxy.daemon.stop()
        self.change(step.get("change", {}), daemon_runs=not step.get("restart"))
        if step.get("restart"):
            self.proxy.daemon.start()
            self.wait_in_force()
        for name, flow in step.get("flows", {}).items():
            self.open_flow(name, flow)
        self.probe_all(step.get("probes", []), eventually=step.get("eventually", False))

    def change(self, change: dict, daemon_runs: bool = True) -> None:
        self.world = changed(self.world, change)
        self.set_node_addresses({self.places.address(name) for name in self.world.get("node-addresses", [])})
        self.write(api_objects(self.world, self.places))
        if change and daemon_runs:
            self.wait_in_force()

    def set_node_addresses(self, wanted: set[str]) -> None:
        for address in self.node_addresses - wanted:
            self.lab.remove_node_address(address)
        for address in wanted - self.node_addresses:
            self.lab.add_node_address(address)
        self.node_addresses = wanted

    def write(self, wanted: dict[str, dict]) -> None:
        manifests = self.proxy.manifests
        if not self.written and "node" not in wanted:
            manifests.remove("node")  # which was there from the start
        for name in self.written.keys() - wanted.keys():
            manifests.remove(name)
        for name, held in wanted.items():
            if self.written.get(name) != held:
                manifests.put(name, held)
        self.written = wanted

    def wait_in_force(self) -> None:
        """Manifests are dealt with one after the other: once this one is in the tables, all before it are."""
        addresses = fresh_addresses()
        port = objects.Port("marker", "TCP", 9)
        self.proxy.manifests.put("marker", objects.service(f"marker-{next(_markers)}", addresses, [port]))
        for family, address in addresses.items():
            table = self.proxy.tables[family]
            element = f"{address} . tcp . 9"
            wait_for(lambda: table.rejects(element), "a change is in force")

    def clear(self) -> None:
        """Without objects, nothing of them is left in the tables."""
        kinds = ("services", "slices", "service-cidrs")
        self.change({kind: dict.fromkeys(self.world.get(kind, {})) for kind in kinds}, daemon_runs=False)
        self.proxy.manifests.remove("marker")
        for family in FAMILIES:
            wait_for(lambda: not self.left_over(family), lambda: f"nothing is left of {self.left_over(family)}")

    def left_over(self, family: int) -> dict[str, list[str]]:
        held = self.proxy.tables[family].elements(*EMPTIED)
        return {name: elements for name, elements in zip(EMPTIED, held) if elements}

    # -- probes --

    def probe_all(self, probes: list[dict], eventually: bool) -> None:
        calls = [call for probe in probes for call in self.calls(probe)]
        problems = self.failed(calls)
        if eventually and problems:
            wait_for(lambda: not self.failed(calls), lambda: "\n".join(self.failed(calls)), EVENTUALLY)
        elif problems:
            raise AssertionError("\n".join(problems))

    def calls(self, probe: dict) -> list["Call"]:
        if "flow" in probe:
            return [FlowCall(self, probe)]
        starts = [probe["from"]] if isinstance(probe["from"], str) else probe["from"]
        ends = [probe["to"]] if isinstance(probe["to"], str) else probe["to"]
        kind = StickyCall if "sticks" in probe else Call
        return [kind(self, probe, start, end) for start in starts for end in ends]

    def failed(self, calls: list["Call"]) -> list[str]:
        """What each call that did not get what it should has to say."""
        problems = [call.problem() for call in calls if call.in_order]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            problems += pool.map(lambda call: call.problem(), [call for call in calls if not call.in_order])
        return [problem for problem in problems if problem]

    # -- flows --

    def open_flow(self, name: str, flow: dict) -> None:
        target = self.places.target(flow["to"])
        where = self.places.namespace(flow["from"])
        self.flows[name] = self.lab.open(where, *target, self.places.protocol, ANSWER_TIMEOUT)


class Call:
    """New connections from one place to another."""

    def __init__(self, run: Run, probe: dict, start: str, end: str) -> None:
        self.run = run
        self.probe = probe
        self.start = start
        self.end = end
        self.where = run.places.namespace(start)
        self.protocol = probe.get("protocol", run.places.protocol)
        family = OTHER_FAMILY[run.places.family] if probe.get("family") == "other" else run.places.family
        self.target: Target = run.places.target(end, family)
        self.reach = probe["reach"]
        # An ICMP error is for all raw sockets that talk with the address.
        self.in_order = self.reach == "refused" and self.protocol in ("SCTP", "ping")

    def __str__(self) -> str:
        return f"from {self.start} to {self.end} ({self.target}, {self.protocol})"

    def problem(self) -> str | None:
        if isinstance(self.reach, str) and self.reach in FAILURES:
            return self.failure_problem()
        wanted = set([self.reach] if isinstance(self.reach, str) else self.reach)
        tally: collections.Counter = collections.Counter()
        for number in range(MOST_QUESTIONS):
            if number >= FEWEST_QUESTIONS and tally.keys() == wanted:
                break
            answer = self.hail(ANSWER_TIMEOUT)
            tally[answer.name] += 1
            if answer.name not in wanted:
                return self.told(tally)
            if not self.source_is_right(answer):
                return self.told(tally, f"{answer.name} saw {answer.seen}, sent as {answer.sent}")
        return None if tally.keys() == wanted else self.told(tally)

    def failure_problem(self) -> str | None:
        """The host's own UDP and ICMP packets die in the output hook: send() says EPERM at once."""
        denied = self.start == "node" and self.protocol in ("UDP", "ping")
        wanted = DENIED if denied and self.reach != "nobody" else FAILURES[self.reach]
        got = self.hail(ANSWER_TIMEOUT).name if self.reach == "refused" else self.silence()
        return None if got in wanted else self.told({got: 1})

    def silence(self) -> str:
        """What is heard in the time that an answer or a refusal takes."""
        if self.protocol != "TCP" or ":" not in self.target.address:
            return self.hail(DROP_TIMEOUT).name
        with self.where.inside():
            refusals = icmp.Refusals()
        with refusals:
            name = self.hail(DROP_TIMEOUT).name
            return "refused" if refusals.heard(*self.target) else name

    def hail(self, timeout: float) -> Answer:
        return self.run.lab.hail(self.where, *self.target, self.protocol, timeout)

    def source_is_right(self, answer: Answer) -> bool:
        wanted = self.probe.get("source")
        if isinstance(wanted, dict):
            wanted = wanted[answer.name]
        if wanted is None:
            return True
        if wanted == "kept":
            return answer.seen == answer.sent
        return answer.seen != answer.sent and answer.seen in self.run.lab.node_addresses

    def told(self, tally: dict[str, int], more: str = "") -> str:
        source = f", source {self.probe['source']}" if "source" in self.probe else ""
        seen = ", ".join(f"{name} {number} times" for name, number in tally.items())
        return f"{self}: expected {self.reach}{source}; got {seen}{'; ' if more else ''}{more}"


class StickyCall(Call):
    """Connections that always reach the same one of some; and the same as those before of the same word."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.in_order = True

    def problem(self) -> str | None:
        tally = collections.Counter(self.hail(ANSWER_TIMEOUT).name for _ in range(STICKY_QUESTIONS))
        first = next(iter(tally))
        word = self.probe["sticks"]
        held = self.run.stuck.get(word)
        if len(tally) > 1 or first not in self.reach or (held or first) != first:
            return self.told(tally, f"{word} was {held}" if held else "")
        self.run.stuck[word] = first
        return None


class FlowCall(Call):
    """A question on a socket that an earlier step opened."""

    def __init__(self, run: Run, probe: dict) -> None:
        self.in_order = True
        self.run = run
        self.probe = probe
        self.reach = probe["reach"]

    def __str__(self) -> str:
        return f"on flow {self.probe['flow']}"

    def problem(self) -> str | None:
        flow = self.run.flows[self.probe["flow"]]
        wanted = [self.reach] if isinstance(self.reach, str) else self.reach
        flow.settimeout(DROP_TIMEOUT if wanted == ["dropped"] else ANSWER_TIMEOUT)
        answer = hail_on(flow)
        name = "dropped" if answer.name == "timeout" else answer.name
        right = name in wanted and self.source_is_right(answer)
        return None if right else self.told({name: 1}, f"it saw {answer.seen}" if answer.seen else "")
