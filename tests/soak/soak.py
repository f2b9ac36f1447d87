# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemon under random changes and random faults, and what must be true whenever all is quiet again."""

import collections
import contextlib
import http.client
import math
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "apiserver"))

# pylint: disable=wrong-import-position
import apiserver  # noqa: E402
import canonical  # noqa: E402
import faults  # noqa: E402
import harness  # noqa: E402
import world  # noqa: E402

# Freed memory is not kept for long, so what is resident says something of what is in use.
ASAN_OPTIONS = "quarantine_size_mb=1:thread_local_quarantine_size_kb=64"
AUDIT_SECONDS = 20.0  # both families' audits end meanwhile, once at least
QUIET = 150.0  # seconds for the table to become right: back-off may take 60 of them, a loaded machine some more
FLAG_SETS = (
    ("--cluster-cidr", "10.244.0.0/16,fd00:10:244::/48"),
    ("--detect-local-mode", "NodeCIDR", "--nodeport-addresses", "192.0.2.0/24,2001:db8::/32"),
    ("--cluster-cidr", "10.244.0.0/16,fd00:10:244::/48", "--nodeport-addresses", "0.0.0.0/0,::/0"),
    ("--masquerade-all",),
    ("--detect-local-mode", "InterfaceNamePrefix", "--pod-interface-name-prefix", "veth"),
)
# What the log may say at level warn or error, since we made it so. Everything else is a failure.
EXPECTED = re.compile(r"^\S+ (warn|error) +(" + "|".join((
    r"daemon: no cluster CIDR is given ",
    r"source: bad object: ",
    r"cache: ignored fields: ",
    r"policy: frontend=\S+ of service=\S+ goes to service=",
    r"serve: cannot listen for health checks, retrying .*(Address already in use|Cannot assign requested address)",
    r"daemon: .*NodePorts are not served: ",
    r"source: cannot ((list|watch) |(create|patch) events: )",
    r"table: family=\S+ repaired changes by another program program=nft ",
    # Changed while no daemon ran:
    r"table: family=\S+ replacing the table: ",
    r"table: family=\S+ repaired the rules of the previous process, which had been changed$",
)) + ")")
# And where others may change a table between two of our own changes.
EXPECTED_WITHOUT_OWNER = re.compile(r"^\S+ warn +table: family=\S+ reading the table back: the kernel refused to ")
# And where netlink calls fail.
EXPECTED_WITH_FAULTS = re.compile(r"^\S+ (warn|error) +(" + "|".join((
    r"table: family=\S+ sync failed, ",
    r"table: family=\S+ reading the table back: ",
    r"conntrack: family=\S+ cannot scan for stale UDP flows: ",
    r"netlink: cannot read the addresses of this host, retrying: ",
    r"table: family=\S+ an audit found differences in the table and repaired them ",
)) + r")|^netlink faults: ")
LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\dT\S+ (debug|info|warn|error) ")


LISTENING = "0A"  # as /proc/net/tcp says it
CONNECTIONS = 8  # to the server, at most: one for all watches, and what is tried beside it while that one is away


netlink_fails = False


class Failed(AssertionError):
    pass


def fail_netlink(seed):
    """From now on, of every daemon, by chance from @seed."""
    global netlink_fails
    netlink_fails = True
    harness.BINARY = harness.BINARY.parent / "tests" / "kube-nftd-faulty"
    os.environ["NETLINK_FAULTS"] = f"{random.Random(f'netlink {seed}').randrange(10**6)}/400"


class Life:
    """One run of the daemon, from its start to its end."""

    def __init__(self, folder, number, kubeconfig, flags, owner):
        self.folder = folder / f"life-{number}"
        self.folder.mkdir()
        self.flags, self.owner = flags, owner
        more = () if owner else ("--table-owner", "off")
        self.daemon = harness.Daemon(self.folder, kubeconfig, "--audit-period", "1s", *flags, *more,
                                     environment={"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", ASAN_OPTIONS)})
        self.samples = []  # (objects, resident KiB of no file, descriptors) whenever the base world was in force

    def pid(self):
        """Of the daemon itself: it may run under another program."""
        return self.daemon.process.pid

    def resident(self):
        """Without code: that is let go of behind the start, and comes back as it is used."""
        status = pathlib.Path(f"/proc/{self.pid()}/status").read_text(encoding="ascii")
        return int(re.search(r"RssAnon:\s*(\d+) kB", status)[1])

    def descriptors(self):
        """What each descriptor is."""
        held = []
        for name in os.listdir(f"/proc/{self.pid()}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                held.append(os.readlink(f"/proc/{self.pid()}/fd/{name}"))
        return sorted(held)

    def sockets(self):
        """{"socket:[NUMBER]": (local port, remote port, state)} of the TCP sockets of the network."""
        found = {}
        for name in ("tcp", "tcp6"):
            lines = pathlib.Path(f"/proc/{self.pid()}/net/{name}").read_text(encoding="ascii").splitlines()[1:]
            for fields in map(str.split, lines):
                ports = (int(end.split(":")[1], 16) for end in fields[1:3])
                found[f"socket:[{fields[9]}]"] = (*ports, fields[3])
        return found

    def metric(self, name):
        """The sum of all series of that name."""
        with contextlib.closing(http.client.HTTPConnection(harness.METRICS, timeout=20)) as connection:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE))

    def end(self, how):
        """Ends it by a signal; by SIGTERM it has to end well."""
        assert self.daemon.alive(), f"the daemon ended with status {self.daemon.process.poll()}"
        self.daemon.process.send_signal(how)
        status = self.daemon.process.wait(120)
        if how == signal.SIGTERM and status != 0:
            raise Failed(f"the daemon ended with status {status}")


def ready():
    """Whether the daemon in this network has programmed its tables."""
    with contextlib.closing(http.client.HTTPConnection(harness.HEALTHZ, timeout=20)) as connection:
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False


class Soak:
    def __init__(self, folder, server, seed, tell):
        self.folder, self.server, self.seed, self.tell = folder, server, seed, tell
        self.random = random.Random(f"soak {seed}")
        self.world = world.World(seed)
        self.server_faults = faults.ServerFaults(server, seed)
        self.foreign = faults.ForeignHands(seed)
        self.addresses = faults.HostAddresses(seed)
        self.kubeconfig = server.kubeconfig()
        self.life, self.lives = None, []
        self.count = collections.Counter()
        self.base = None
        self.transactions = 0

    # ---- the daemon ----

    def start(self, flags=None, owner=None):
        flags = self.random.choice(FLAG_SETS) if flags is None else flags
        owner = self.random.random() < 0.5 if owner is None else owner
        self.life = Life(self.folder, len(self.lives), self.kubeconfig, flags, owner)
        self.lives.append(self.life)
        self.tell(f"life {len(self.lives) - 1}: owner {'on' if owner else 'off'}, {' '.join(flags)}")

    def end(self, how):
        self.take_figures()
        self.life.end(how)
        self.check_log()
        self.count["killed" if how == signal.SIGKILL else "ended"] += 1

    def take_figures(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.transactions += int(self.life.metric("kube_nftd_transactions_total"))

    def check_log(self):
        """Nothing is in the log that we did not cause, and no word of a sanitizer."""
        for line in self.life.daemon.log().splitlines():
            if netlink_fails and EXPECTED_WITH_FAULTS.match(line):
                continue
            if not LOG_LINE.match(line):
                raise Failed(f"in the log: {line}\n{self.life.daemon.log()[-4000:]}")
            explained = EXPECTED.match(line) or (not self.life.owner and EXPECTED_WITHOUT_OWNER.match(line))
            if re.match(r"\S+ (warn|error) ", line) and not explained:
                raise Failed(f"not explained: {line}")

    # ---- objects ----

    def make(self, change):
        put, gone = change
        for obj in put:
            self.server.put(obj)
        for kind, namespace, name in gone:
            with contextlib.suppress(KeyError):
                self.server.delete(kind, namespace, name)
        self.count["changes"] += len(put) + len(gone)

    def churn(self, changes, disturb=True):
        """Random changes in bursts; faults, foreign hands and addresses among them."""
        left = changes
        while left > 0:
            burst = self.random.choice((1, 1, 2, 5, 20))
            for _ in range(min(burst, left)):
                self.make(self.world.change())
            left -= burst
            time.sleep(self.random.choice((0, 0.01, 0.05, 0.2)))
            if not disturb:
                continue
            what = self.random.random()
            if what < 0.12:
                self.count[f"fault {self.server_faults.any()}"] += 1
            elif what < 0.20:
                self.addresses.any()
                self.count["host addresses"] += 1
            elif what < 0.26:
                self.meddle()
            if self.random.random() < 0.3:
                self.server_faults.heal()

    def meddle(self):
        owned = self.owned()
        done = self.foreign.any(cutting=self.programmed())
        self.count["foreign changes" if done else "foreign changes refused"] += 1
        if done not in (None, "flush ruleset") and owned and self.owned():
            raise Failed(f"somebody else changed a table that is owned: {done}")

    def programmed(self):
        return self.life.daemon.alive() and ready()

    @staticmethod
    def owned():
        """Whether somebody owns both tables: nobody else can change one then, for the daemon is not ended here."""
        return all("flags owner" in (faults.listing(family) or "") for family in canonical.FAMILIES)

    def heal(self):
        self.make(self.world.heal())
        self.addresses.heal()
        self.server_faults.heal()

    # ---- what must be true ----

    def present(self):
        """The objects that the daemon asks for, as the server has them."""
        selected = []
        for kind, known in self.server.store.objects.items():
            for obj in list(known.values()):
                labels = obj["metadata"].get("labels") or {}
                if "service.kubernetes.io/headless" in labels and kind == "EndpointSlice":
                    continue
                if "service.kubernetes.io/service-proxy-name" in labels and kind == "Service":
                    continue
                if kind == "Service" and obj["spec"].get("clusterIP") == "None":
                    continue
                selected.append(obj)
        return selected

    def scratch(self):
        """{family: the table} computed from all objects anew."""
        path = self.folder / "objects.json"
        world.write(path, self.present())
        command = [harness.BINARY, "--manifests", path, "--hostname-override", world.NODE, *self.life.flags, "--dump-rules"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode:
            raise Failed(f"--dump-rules: {done.stderr}")
        return canonical.by_family(done.stdout)

    def differences(self, wanted):
        lines = []
        for family in canonical.FAMILIES:
            text = faults.listing(family)
            if text is None:
                lines.append(f"no table {family}")
                continue
            try:
                lines += [f"{family}: {line}" for line in canonical.differences(text, wanted[family])]
            except canonical.Torn as torn:
                lines.append(f"{family}: {torn}")
        return lines

    def settle(self, what):
        """Waits until the kernel holds what is computed from scratch."""
        wanted = self.scratch()
        deadline = time.monotonic() + QUIET
        while lines := self.differences(wanted):
            if not self.life.daemon.alive():
                raise Failed(f"{what}: the daemon ended with {self.life.daemon.process.poll()}\n{self.life.daemon.log()[-4000:]}")
            if time.monotonic() > deadline:
                raise Failed(f"{what}: the kernel's tables are not what is computed from scratch:\n" + "\n".join(lines[:40]))
            time.sleep(0.02)
        self.count["comparisons"] += 1

    def check_health_ports(self):
        """Health check ports are open for whom they should be, and for nobody else."""
        wanted = {obj["spec"]["healthCheckNodePort"] for obj in self.present()
                  if obj["kind"] == "Service" and obj["spec"].get("type") == "LoadBalancer"
                  and obj["spec"].get("externalTrafficPolicy") == "Local" and obj["spec"].get("healthCheckNodePort")}
        self.eventually(lambda: self.open_ports() == wanted,
                        lambda: f"health check ports {sorted(self.open_ports())}, wanted {sorted(wanted)}")

    def open_ports(self):
        listening = {port for port, _, state in self.life.sockets().values() if state == LISTENING}
        return listening & set(world.HEALTH_PORTS)

    def eventually(self, condition, message, seconds=30.0):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise Failed(message())
            time.sleep(0.05)

    def compare_with_another_daemon(self):
        """All of the tables, rules too: with those that a daemon makes of the same objects in a network of its
        own, and, of IPv4, with what nft makes of the dump (Debian 12's cannot load affinity of IPv6)."""
        found = {family: faults.listing(family) for family in canonical.FAMILIES}
        dump = self.scratch()
        there = sorted(self.addresses.there)
        with harness.own_network():
            others = faults.HostAddresses("")
            for address in set(there) - others.there:
                subprocess.run(["ip", "addr", "replace", address, "dev", "lo"], check=True)
            self._same(found, {"ip": self._loaded(dump["ip"])}, "loaded by nft")
            faults.nft("flush ruleset")
            self._same(found, self._programmed(), "made by another daemon")

    @staticmethod
    def _same(found, wanted, how):
        for family, text in wanted.items():
            lines = canonical.differences(found[family], text) + canonical.rule_differences(found[family], text)
            if lines:
                raise Failed(f"{family}: not as {how}:\n" + "\n".join(lines[:40]))

    @staticmethod
    def _loaded(text):
        done = subprocess.run(["nft", "-f", "-"], input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"nft cannot load the dump: {done.stderr}")
        return faults.listing("ip")

    def _programmed(self):
        command = [harness.BINARY, "--manifests", self.folder / "objects.json", "--hostname-override", world.NODE,
                   "--healthz-bind-address", harness.HEALTHZ, "--conntrack-max-per-core", "0", *self.life.flags]
        log = self.folder / "another.log"
        with log.open("wb") as out, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out) as other:
            try:
                self.eventually(ready, lambda: f"another daemon: {log.read_text(errors='replace')}", QUIET)
                return {family: faults.listing(family) for family in canonical.FAMILIES}
            finally:
                other.terminate()

    # ---- the base world, at which memory and descriptors are compared ----

    def to_base(self):
        """Makes everything as it was at the beginning."""
        self.addresses.to_base()
        objects = {world.identity(obj): obj for obj in self.base}
        self.server.apply(objects.values())
        self.count["changes"] += len(objects)
        self.settle("back at the base")
        self.check_health_ports()
        self.life.samples.append((len(objects), self.life.resident(), self.descriptors()))

    def from_base(self):
        """Makes the world what the script says again."""
        self.server.apply(self.world.good.values())

    def descriptors(self):
        """How many there are when nothing is on its way, without connections to the server, in whatever state: how
        many of those are kept depends on how the last ones ended. An audit has a socket of its own, and takes some
        seconds: more than before are looked at again until it must have ended."""
        before = [sample[2] for sample in self.life.samples]
        deadline = time.monotonic() + (AUDIT_SECONDS if before else 0.5)
        fewest = math.inf
        while time.monotonic() < deadline and not (before and fewest <= min(before)):
            here = self.life.sockets()
            held = self.life.descriptors()
            to_server = [name for name in held if here.get(name, (0, 0))[1] == self.server.port]
            if len(to_server) > CONNECTIONS:
                raise Failed(f"{len(to_server)} connections to the server")
            fewest = min(fewest, len(held) - len(to_server))
            time.sleep(0.05)
        return fewest

    def check_samples(self, tolerance):
        """Memory and descriptors of the last life, from the second sample on: two churns have touched what is
        allocated once. What it may grow by is what an allocator loses by fragmentation. Of a long life, from the
        end of its first third on: that takes some minutes to find its level (README.md)."""
        samples = self.life.samples
        if len(samples) < 3:
            return
        first, last = samples[max(1, len(samples) // 3)], samples[-1]
        allowed = first[1] * (1 + tolerance) + 1024
        if last[1] > allowed:
            raise Failed(f"resident memory grew from {first[1]} to {last[1]} KiB with the same objects: {samples}")
        if last[2] > first[2]:
            raise Failed(f"descriptors grew from {first[2]} to {last[2]}: {self.life.descriptors()}")


@contextlib.contextmanager
def soak(folder, seed, tell):
    """A soak in a network of its own, with its first objects in force nowhere yet."""
    with harness.own_network(), apiserver.ApiServer(folder / "certs", history=2000) as server:
        held = Soak(folder, server, seed, tell)
        held.make(held.world.begin())
        held.base = list(held.world.good.values())
        try:
            yield held
        finally:
            if held.life and held.life.daemon.alive():
                held.life.daemon.process.kill()
                held.life.daemon.process.wait()
