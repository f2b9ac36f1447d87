# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemon goes on, with the right table and no lost connection, whatever its API server does.

Each case has a network of its own with a stand-in server, the daemon and a service that has nothing
to do with what happens: a client asks it all the time and must never fail.
"""

import contextlib
import random
import subprocess
import time

import pytest

import apiserver
import encoding
import side_by_side
from harness import (Daemon, endpoint_slice, figures, node, own_network, prove_watches, rejected, service, status,
                     table)
from relay import Relay
from traffic import EchoServer, Probe, ask

ECHO = ("10.96.0.100", 80)
ECHO_ENDPOINT = "10.1.0.1"
WEB = ("10.96.0.10", "tcp", 80)
KINDS = ("services", "endpointslices", "servicecidrs", "nodes")
MAIN = ("services", "endpointslices")
LONG = 120.0  # seconds; back-off may take 60 of them, a loaded machine some more


class World:
    """A stand-in with the node, the service that must not suffer and shop/web; the daemon's runs."""

    def __init__(self, folder, server):
        self.folder, self.server = folder, server
        self.daemon = None

    @contextlib.contextmanager
    def run(self, wait=True, url=None, flags=()):
        """A run of the daemon, beside a client of the service if @wait for the table."""
        kubeconfig = self.server.kubeconfig(self.folder / "kubeconfig", url=url)
        with Daemon(self.folder, kubeconfig, *flags) as self.daemon:
            if not wait:
                yield self
                return
            self.settle()
            with Probe(*ECHO):
                yield self
            assert self.daemon.alive()

    def right(self):
        """Whether the kernel holds what the store says, and nothing else."""
        frontends, refused = wanted(self.server.store)
        return table() == frontends and rejected() == refused

    def settle(self):
        """Waits for the right table."""
        self.server.wait(self.right, LONG)

    def whole_or_nothing(self):
        """Waits for the right table, which is the first that there is."""
        def begun():
            return table() or rejected()
        self.server.wait(begun, LONG)
        assert self.right()

    def counted(self, name, kinds=KINDS):
        """A counter for each kind."""
        now = figures()
        return {kind: now[name, kind] for kind in kinds}

    def prove(self):
        prove_watches(self.server, LONG)

    def grown(self, before, name, by=1, kinds=MAIN):
        """Waits until the counter @name is @by more than @before for each of @kinds."""
        def reached():
            now = self.counted(name, kinds)
            return all(now[kind] >= before[kind] + by for kind in kinds)
        self.server.wait(reached, LONG)


def wanted(store):
    """What the table has to be, made from the store in the plainest way: {frontend: endpoints} and the
    frontends that have none."""
    found = {}
    for obj in store.objects["EndpointSlice"].values():
        owner = obj["metadata"]["namespace"], obj["metadata"]["labels"]["kubernetes.io/service-name"]
        for endpoint in obj["endpoints"] or ():
            for port in obj["ports"]:
                found.setdefault((owner, port["name"]), set()).add((endpoint["addresses"][0], port["port"]))
    frontends, refused = {}, set()
    for obj in store.objects["Service"].values():
        owner = obj["metadata"]["namespace"], obj["metadata"]["name"]
        for port in obj["spec"]["ports"]:
            frontend = obj["spec"]["clusterIP"], "tcp", port["port"]
            if (owner, port["name"]) in found:
                frontends[frontend] = found[owner, port["name"]]
            else:
                refused.add(frontend)
    return frontends, refused


class Changes:
    """A random but repeatable stream of changes, which spares the services that it did not make."""

    def __init__(self, store, seed):
        self.store, self.random = store, random.Random(seed)
        self.slices = {}  # name of a service -> {name of a slice: [endpoint address]}
        self.ports = {}
        self.made = 0

    def make(self, count):
        """Makes @count changes at least; to be called in the server's thread."""
        goal = self.store.version + count
        while self.store.version < goal:
            few, many = len(self.slices) < 20, len(self.slices) > 60
            kinds = [self.replace, self.add, self.remove, self.move, self.create, self.destroy]
            weights = [50, 17, 15, 8, 0 if many else 5, 0 if few else 5]
            change = self.random.choices(kinds, weights)[0] if self.slices else self.create
            change()

    def _any_slice(self):
        owner = self.random.choice(sorted(self.slices))
        name = self.random.choice(sorted(self.slices[owner]))
        return owner, name, self.slices[owner][name]

    def _address(self):
        return f"10.2.{self.random.randrange(256)}.{self.random.randrange(1, 255)}"

    def _put_slice(self, owner, name):
        obj = endpoint_slice(*self.slices[owner][name], name=owner, namespace="load")
        obj["metadata"]["name"] = name
        self.store.put(obj)

    def _put_service(self, owner):
        number = int(owner[1:])
        self.store.put(service(owner, f"10.97.{number >> 8}.{number & 255}", self.ports[owner], "load"))

    def replace(self):
        owner, name, addresses = self._any_slice()
        if addresses:
            addresses[self.random.randrange(len(addresses))] = self._address()
            self._put_slice(owner, name)

    def add(self):
        owner, name, addresses = self._any_slice()
        if len(addresses) < 8:
            addresses.append(self._address())
            self._put_slice(owner, name)

    def remove(self):
        owner, name, addresses = self._any_slice()
        if addresses:
            addresses.pop(self.random.randrange(len(addresses)))
            self._put_slice(owner, name)

    def move(self):
        """The service gets another port."""
        owner = self.random.choice(sorted(self.slices))
        self.ports[owner] = self.random.randrange(1000, 2000)
        self._put_service(owner)

    def create(self):
        owner = f"s{self.made}"
        self.made += 1
        self.ports[owner] = 80
        self.slices[owner] = {f"{owner}-{number}": [self._address()] for number in range(self.random.randrange(1, 3))}
        self._put_service(owner)
        for name in self.slices[owner]:
            self._put_slice(owner, name)

    def destroy(self):
        owner = self.random.choice(sorted(self.slices))
        for name in self.slices.pop(owner):
            self.store.delete("EndpointSlice", "load", name)
        self.store.delete("Service", "load", owner)


# Restarts of the server

def restarts_during_changes(world):
    """100 restarts during 10,000 changes. Most are such as those of one server of several: all that was
    open ends, a new connection is served. After each, new watches bring events before the next comes,
    and now and then they last a second: the daemon holds back if that never happens."""
    server, chance = world.server, random.Random(4)
    changes = Changes(server.store, 1904)
    with world.run():
        world.prove()
        lists, resumes = world.counted("lists"), world.counted("watch_resumes")
        begin = server.store.version
        for number in range(100):
            events = world.counted("watch_events")
            if number in (20, 50, 80):
                server.stop(chance.choice(["kill", "clean"]))
                server.call(changes.make, 50)
                server.start()
            else:
                server.restart(chance.choice(["kill", "clean", "reset", "mid-event"]))
            while number * 100 + 100 > server.store.version - begin:
                server.call(changes.make, 5)
                time.sleep(0.005)
            server.call(changes.move)
            world.grown(resumes, "watch_resumes", number + 1)
            server.call(changes.move)
            server.call(changes.replace)
            world.grown(events, "watch_events")
            if number % 8 == 0:
                time.sleep(1.1)
        assert server.store.version - begin >= 10_000
        world.settle()
        assert world.counted("lists") == lists


def restarts_with_a_newer_history(world):
    """As many lists as expiries, and what was deleted while the daemon saw nothing goes."""
    server, changes = world.server, Changes(world.server.store, 1880)
    server.call(changes.make, 200)
    with world.run():
        lists = world.counted("lists")
        for number in range(1, 11):
            world.prove()

            def away():
                changes.make(100)
                for _ in range(3):
                    changes.destroy()
                server.store.expire()
                for connection in server.connections:
                    connection.abort()

            if number == 5:
                server.stop()
                server.call(away)
                server.start()
            else:
                server.call(away)
            world.grown(lists, "lists", number, KINDS)
            world.settle()
        assert world.counted("lists") == {kind: count + 10 for kind, count in lists.items()}


def rolling_restart(world, how):
    """No list, however the connections of the old server end."""
    server = world.server
    with world.run():
        lists, resumes = world.counted("lists"), world.counted("watch_resumes")
        for number in range(1, 6):
            world.prove()
            if how == "goaway":
                server.goaway()
                server.close_watches("clean")
            else:
                server.restart(how)
            server.put(endpoint_slice(f"10.1.0.{number}"), service(port=80 + number))
            world.grown(resumes, "watch_resumes", number)
            world.settle()
        assert world.counted("lists") == lists


# A history that goes back

def go_back(world, backup):
    """@backup is restored, None empties the store, and what comes next is below the versions of before."""
    world.server.restore(backup, node(), service("echo", *ECHO), endpoint_slice(ECHO_ENDPOINT, name="echo"),
                         service("later", "10.96.0.12"), endpoint_slice("10.1.0.12", name="later"))


@contextlib.contextmanager
def newer_than_a_backup(world):
    """Gives a backup that lacks some of what the daemon has by now, and has something else; then waits for all
    contents once more and the right table."""
    server = world.server
    server.put(service("vanished", "10.96.0.11"), endpoint_slice("10.1.0.11", name="vanished"))
    backup = server.backup()
    server.delete("Service", "shop", "vanished")
    server.put(service("lost", "10.96.0.13"), endpoint_slice("10.1.0.9"))
    server.call(Changes(server.store, 1911).make, 100)
    world.settle()
    world.prove()
    lists = world.counted("lists")
    yield backup
    world.settle()
    world.grown(lists, "lists", kinds=KINDS)
    for kind in KINDS:
        assert world.daemon.lines(f"history went back.* resource={kind}")
    world.prove()
    assert world.counted("lists") == {kind: count + 1 for kind, count in lists.items()}
    world.server.put(endpoint_slice("10.1.0.14", name="later"))
    world.settle()


def history_goes_back(world, what, how):
    """While the server is stopped, below a server that goes on, or while it knows no rights at first."""
    server = world.server
    with world.run(), newer_than_a_backup(world) as backup:
        if how != "running":
            server.stop()
        go_back(world, backup if what == "restored" else None)
        if how == "forbidden":
            server.forbid_for(2)
        if how != "running":
            server.start()


def older_member(world, how):
    """A balancer goes on to a server that has an older history, and then back."""
    newer = world.server
    with apiserver.ApiServer(newer.certs) as older, Relay(newer.port) as relay, world.run(url=relay.url):
        with newer_than_a_backup(world) as backup:
            world.server = older
            go_back(world, backup)
            relay.port = older.port
            newer.restart(how)
        # It catches up, and the daemon with it.
        world.server.restore(newer.backup())
        world.server = newer
        world.settle()
        relay.port = newer.port
        older.restart(how)
        newer.put(endpoint_slice("10.1.0.15"))
        world.settle()


# Faults

def nothing_before_both_are_complete(world, kind):
    """Neither by a first start nor by one that finds a table."""
    server = world.server

    def hold():
        server.hold(lambda request: request.path.endswith(kind))

    hold()
    with world.run(wait=False):
        server.wait(lambda: server.asked(kind), LONG)
        time.sleep(3)
        assert table() == {} and not rejected()
        server.release()
        world.settle()
    before, refused = table(), rejected()
    server.delete("Service", "shop", "web")
    server.delete("EndpointSlice", "shop", "web-x")
    server.put(service("new", "10.96.0.11"), endpoint_slice("10.1.0.7", name="new"))
    hold()
    since = len(server.requests)
    with Probe(*ECHO), world.run(wait=False):
        server.wait(lambda: server.asked(kind, since=since), LONG)
        time.sleep(3)
        assert table() == before and rejected() == refused
        server.release()
        world.settle()
        assert WEB not in table()


def dripping_contents(world, streaming):
    """The first contents come byte by byte, and nothing is programmed before the last one."""
    server = world.server
    server.call(Changes(server.store, 7).make, 80)
    server.api.streaming = streaming
    server.drip(1)
    with world.run(wait=False):
        world.whole_or_nothing()
        server.drip(0)
        assert world.counted("lists", MAIN) == dict.fromkeys(MAIN, 1)
        world.prove()
        server.drip(1)
        server.put(endpoint_slice("10.1.0.9"))
        world.settle()


def stalled(world):
    """Nothing comes, on connections that stay open."""
    server = world.server
    with world.run():
        world.prove()
        lists = world.counted("lists")
        server.stall()
        server.put(endpoint_slice("10.1.0.9"))
        time.sleep(6)
        assert world.daemon.alive() and not world.right()
        server.go_on()
        world.settle()
        assert world.counted("lists") == lists


def swallowed(world):
    """Behind a balancer that goes on acknowledging what nobody gets."""
    with Relay(world.server.port) as relay, world.run(url=relay.url):
        world.prove()
        lists = world.counted("lists")
        relay.swallow()
        world.server.put(endpoint_slice("10.1.0.9"))
        start = time.monotonic()
        world.server.wait(lambda: world.daemon.lines(f"does not answer; reconnecting in .* server={relay.url}"), LONG)
        assert "the API server has sent nothing for 3" in "".join(status()["problems"])
        assert not world.daemon.lines("reconnecting now")
        world.settle()
        assert status()["problems"] == []
        assert time.monotonic() - start > 20  # by less, it was something else that told
        assert world.counted("lists") == lists
        assert len(world.daemon.lines("reconnecting now")) == 1


def spaced(requests, pause):
    """Whether each request came @pause seconds after the one before, or more."""
    times = [request.time for request in requests]
    return all(later - earlier >= pause for earlier, later in zip(times, times[1:]))


def too_many_requests(world):
    """Retry-After is kept by all kinds, and the watches go on where they were."""
    server = world.server
    with world.run():
        world.prove()
        lists, since = world.counted("lists"), len(server.requests)
        server.answer_next(10**6, 429, retry_after=2)
        server.restart("kill")
        server.put(endpoint_slice("10.1.0.9"))
        server.wait(lambda: all(len(server.asked(kind, since=since)) > 2 for kind in KINDS), LONG)
        for kind in KINDS:
            assert spaced(server.asked(kind, since=since), 2.0)
            assert len(world.daemon.lines(f"cannot .*{kind}.*429")) == 1
        server.api.scripts.clear()
        world.settle()
        assert world.counted("lists") == lists


def server_errors(world, status):
    """Said once, backed off from; everything programmed stays."""
    server = world.server
    with world.run():
        world.prove()
        failures, since = world.counted("request_failures"), len(server.requests)
        server.answer_next(10**6, status)
        server.restart("kill")
        server.put(endpoint_slice("10.1.0.9"))
        server.wait(lambda: all(len(server.asked(kind, since=since)) > 2 for kind in KINDS), LONG)
        for kind in KINDS:
            assert spaced(server.asked(kind, since=since), 0.75)
            lines = world.daemon.lines(f"cannot .*{kind}")
            texts = [line.split(" ", 1)[1] for line in lines]
            assert texts and len(texts) == len(set(texts))
        assert table()[WEB] == {("10.1.0.5", 8080)}
        world.grown(failures, "request_failures", 2, KINDS)
        server.api.scripts.clear()
        world.settle()


def forbidden_at_the_start(world):
    server = world.server
    server.forbid_for(LONG)
    with world.run(wait=False):
        server.wait(lambda: all(world.daemon.lines(f"cannot .*{kind}.*403") for kind in MAIN), LONG)
        assert table() == {}
        server.forbid_for(0)
        world.settle()
        for kind in MAIN:
            assert len(world.daemon.lines(f"cannot .*{kind}.*403")) == 1
        ask(*ECHO)


def error_events(world, code):
    """In every watch and in the streams that follow. 410 and 504 (too large a version) mean new
    contents; 429 does not."""
    server = world.server
    with world.run():
        for number in range(1, 4):
            world.prove()
            lists = world.counted("lists")
            for kind in KINDS:
                server.error_next(1, code, lambda request, kind=kind: request.path.endswith(kind))
            server.restart("kill")
            server.put(endpoint_slice(f"10.1.0.{number}"))
            server.wait(lambda: not server.api.scripts, LONG)
            world.settle()
            world.prove()
            grown = {kind: count - lists[kind] for kind, count in world.counted("lists").items()}
            assert set(grown.values()) == ({0} if code == 429 else {1}), grown


def streams_cut_short(world):
    """Contents that are not whole are no contents."""
    server = world.server
    server.call(Changes(server.store, 9).make, 50)
    for kind in MAIN:
        server.cut_next(2, 3, lambda request, kind=kind: request.path.endswith(kind))
    with world.run(wait=False):
        world.whole_or_nothing()
        assert not server.api.scripts
        assert world.counted("lists", MAIN) == dict.fromkeys(MAIN, 1)


def no_streamed_lists(world, streaming):
    """A server that refuses them, or a store that cannot, or hangs: lists, and nothing is said."""
    server = world.server
    server.api.streaming = streaming
    with world.run():
        world.prove()
        assert world.counted("lists") == dict.fromkeys(KINDS, 1)
        for kind in KINDS:
            assert server.asked(kind, watch=False)
        assert not world.daemon.lines(" (warn|error) .*cannot ")
        server.put(endpoint_slice("10.1.0.9"))
        world.settle()


# Others change the rules that an earlier run left

PUT_RIGHT = "repaired the rules of the previous process"


def nft(command):
    subprocess.run(["nft", command], check=True)


def cut_off(world, how):
    """What keeps the daemon from its server is in its own table: the first contents never come unless
    that is put right before."""
    with world.run():
        pass
    nft(how.format(port=world.server.port))
    with world.run():
        world.prove()
        # Nobody was seen doing it: the previous process may have had other settings.
        assert len(world.daemon.lines("rewrote rules of the previous process")) == 1
        assert not world.daemon.lines(PUT_RIGHT)
        assert len(world.daemon.lines(" adopted the table ")) == 2  # of each family; nothing was made anew


def changed_while_waiting(world):
    """The server is away, and the table that serves on is changed."""
    with world.run(flags=("--table-owner", "off")):
        pass
    world.server.stop()
    with world.run(wait=False, flags=("--table-owner", "off", "--masquerade-all")):
        # The first look at them, which finds those of other settings.
        world.server.wait(lambda: world.daemon.lines("family=IPv4 rewrote rules of the previous process"), LONG)
        for done, command in enumerate(("flush chain ip kube-nftd port", "flush map ip kube-nftd picks",
                                        "insert rule ip kube-nftd nat-output drop")):
            nft(command)
            world.server.wait(lambda: len(world.daemon.lines(PUT_RIGHT)) == done + 1, LONG)
            ask(*ECHO)
        world.server.start()
        world.settle()


CASES = {
    "100 restarts during 10,000 changes": (restarts_during_changes,),
    "swallowed": (swallowed,),
    "streamed lists hang": (no_streamed_lists, "hangs"),
    "restarts with a newer history": (restarts_with_a_newer_history,),
    **{f"rolling restart, {how}": (rolling_restart, how)
       for how in ("kill", "clean", "reset", "mid-event", "goaway")},
    **{f"history goes back: {what}, {how}": (history_goes_back, what, how)
       for what in ("restored", "emptied") for how in ("stopped", "running", "forbidden")},
    **{f"an older member, {how}": (older_member, how) for how in ("kill", "clean")},
    **{f"nothing before {kind} are complete": (nothing_before_both_are_complete, kind) for kind in MAIN},
    "dripping stream": (dripping_contents, None),
    "dripping list": (dripping_contents, "refused"),
    "stalled": (stalled,),
    "429": (too_many_requests,),
    **{f"{status} to everything": (server_errors, status) for status in (500, 503)},
    "403 at the start": (forbidden_at_the_start,),
    **{f"ERROR {code} in watches": (error_events, code) for code in (410, 429, 500, 504)},
    "streams cut short": (streams_cut_short,),
    "streamed lists refused": (no_streamed_lists, "refused"),
    "a store without streamed lists": (no_streamed_lists, "old store"),
    "cut off by a rule": (cut_off, "insert rule ip kube-nftd nat-output tcp dport {port} drop"),
    "cut off by a chain": (cut_off, "add chain ip kube-nftd intruder "
                                    "{{ type filter hook output priority -5; policy drop; }}"),
    "changed while waiting": (changed_while_waiting,),
}
# What a server does comes with one that knows no protobuf as well.
JSON = ", in JSON"
CASES = {case + name: function for case, function in CASES.items() for name in ("", JSON)
         if not name or function[0] not in (cut_off, changed_while_waiting)}


def run_case(case, folder):
    function, *arguments = CASES[case]
    with own_network(), apiserver.ApiServer(folder / "certs", history=100_000) as server, \
            contextlib.closing(EchoServer(ECHO_ENDPOINT)):
        server.api.encodings = (encoding.Json,) if case.endswith(JSON) else encoding.BOTH
        server.put(node(), service(), endpoint_slice("10.1.0.5"),
                   service("echo", *ECHO), endpoint_slice(ECHO_ENDPOINT, name="echo"))
        function(World(folder, server), *arguments)


@pytest.fixture(name="outcome", scope="module")
def run_cases(request, tmp_path_factory):
    yield from side_by_side.run(request, tmp_path_factory, run_case)


@pytest.mark.parametrize("case", CASES)
def test_survives(outcome, case):
    outcome(case)
