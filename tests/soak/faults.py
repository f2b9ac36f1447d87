# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes wrong around the daemon: its API server, other programs at its tables, the host's addresses."""

import random
import subprocess
import time

import canonical
import world

PLURALS = ("services", "endpointslices", "servicecidrs", "nodes")


class ServerFaults:
    """One random fault of the stand-in at a time; heal() ends those that last."""

    def __init__(self, server, seed):
        self.server, self.random = server, random.Random(f"server {seed}")
        self.count = 0
        self.names = [name for name in dir(self) if name.startswith("fault_")]

    def any(self):
        self.count += 1
        name = self.random.choice(self.names)
        getattr(self, name)()
        return name.removeprefix("fault_")

    def heal(self):
        self.server.go_on()
        self.server.drip(0)
        self.server.release()
        self.server.api.scripts.clear()

    def _kind(self):
        plural = self.random.choice(PLURALS)
        return lambda request: request.path.endswith(plural)

    def fault_connections_end(self):
        self.server.restart(self.random.choice(("kill", "clean", "reset", "mid-event")))

    def fault_watches_end(self):
        self.server.close_watches("clean")

    def fault_watches_cut(self):
        self.server.close_watches("mid-event")

    def fault_history_is_gone(self):
        self.server.expire_history()
        self.server.restart("kill")

    def fault_gone_event(self):
        self.server.error_next(1, self.random.choice((410, 410, 500, 429, 504)), self._kind())
        self.server.restart("reset")

    def fault_refused(self):
        self.server.answer_next(self.random.randint(1, 2), self.random.choice((500, 503, 0)), when=self._kind())
        self.server.restart("kill")

    def fault_too_many(self):
        self.server.answer_next(self.random.randint(1, 4), 429, retry_after=1)
        self.server.restart("kill")

    def fault_stall(self):
        self.server.stall()
        time.sleep(self.random.random())
        self.server.go_on()

    def fault_hold(self):
        self.server.hold(self._kind())
        self.server.close_watches("clean")

    def fault_drip(self):
        self.server.drip(self.random.choice((1, 7, 100)))

    def fault_cut_streams(self):
        self.server.expire_history()
        self.server.cut_next(1, self.random.randrange(4), self._kind())
        self.server.restart("reset")

    def fault_goaway(self):
        self.server.goaway()
        self.server.close_watches("clean")

    def fault_away(self):
        self.server.stop(self.random.choice(("kill", "clean")))
        time.sleep(self.random.random() / 2)
        self.server.start(fresh_history=self.random.random() < 0.5)


ELEMENT_MAPS = ("services", "ports", "endpoints", "local_ports", "local_endpoints", "affinity_backends",
                "affinity_numbers", "affinity_timeouts", "rejected_ports", "dropped_ports", "source_lists",
                "allowed_sources", "hairpin", "cluster_ips", "picks")
WHOLE = ("delete table {table}", "flush ruleset", "flush chain {table} port", "flush map {table} services",
         "flush map {table} endpoints", "flush set {table} cluster_ips",
         "add element {table} rejected_ports {{ 77:8000 }}",
         "add element {table} services {{ {stranger} . tcp . 7 : 77:8000 }}")
# These cut off the server, too: put right by a daemon that has its objects, but one that starts would never get them.
CUTTING = ("insert rule {table} port drop",
           "add chain {table} intruder {{ type filter hook prerouting priority -120; policy drop; }}")
STRANGER = {"ip": "10.96.77.77", "ip6": "fd00:10:96::7777"}


def nft(*command):
    return subprocess.run(["nft", *command], capture_output=True, text=True, check=False)


def listing(family):
    """The table of a family as text, or None if there is none."""
    done = nft("list", "table", family, canonical.NAME)
    return done.stdout if done.returncode == 0 else None


class ForeignHands:
    """Another program that changes the tables, as far as it may."""

    def __init__(self, seed):
        self.random = random.Random(f"foreign {seed}")
        self.count = self.refused = 0

    def any(self, cutting):
        """One change, of those that cut the daemon off if @cutting, too; returns what was done, or None if the kernel would not have it done."""
        family = self.random.choice(canonical.FAMILIES)
        text = listing(family)
        command = self._single(family, text) if text and self.random.random() < 0.6 else None
        if not command:
            command = self.random.choice(WHOLE + CUTTING if cutting else WHOLE).format(table=f"{family} {canonical.NAME}", stranger=STRANGER[family])
        done = nft(command)
        if done.returncode:
            self.refused += 1
            return None
        self.count += 1
        return command

    def _single(self, family, text):
        name = self.random.choice(ELEMENT_MAPS)
        elements = canonical.Table(text).elements.get(name)
        if not elements:
            return None
        keys = [element.split(" : ")[0] for element in self.random.sample(elements, min(3, len(elements)))]
        return f"delete element {family} {canonical.NAME} {name} {{ {', '.join(keys)} }}"


class HostAddresses:
    """Addresses of lo that come and go. The node's own ones are there when all is healed."""

    def __init__(self, seed):
        self.random = random.Random(f"addresses {seed}")
        self.own = [f"{address}/{32 if kind == 'IPv4' else 128}"
                    for kind in world.KINDS for address in world.OWN_ADDRESSES[kind]]
        self.there = set()
        self.heal()

    def any(self):
        address = self.random.choice([*self.own, *world.OTHER_ADDRESSES])
        self._set(address, address not in self.there)

    def heal(self):
        for address in self.own:
            if address not in self.there:
                self._set(address, True)

    def to_base(self):
        """The own ones and no others."""
        self.heal()
        for address in sorted(self.there - set(self.own)):
            self._set(address, False)

    def _set(self, address, there):
        verb = "replace" if there else "del"
        done = subprocess.run(["ip", "addr", verb, address, "dev", "lo", *(["nodad"] if ":" in address and there else [])],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (self.there.add if there else self.there.discard)(address)
