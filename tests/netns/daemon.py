# SPDX-License-Identifier: GPL-2.0-or-later
"""Running kube-nftd, and reading what it put into the kernel."""

import http.client
import os
import pathlib
import re
import signal
import subprocess
import time
import typing

from lab import NODE_NAME, LabError, Namespace

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("KUBE_NFTD", REPOSITORY / "build" / "kube-nftd")).absolute()
MORE_FLAGS = os.environ.get("KUBE_NFTD_MORE_FLAGS", "").split()  # of each daemon
HEALTH_PORT = 10256
FAMILY_TABLE = {4: "ip", 6: "ip6"}
ELEMENTS = re.compile(r"elements = \{(.*?)\}", re.DOTALL)


def environment() -> dict[str, str]:
    """No PATH: the daemon needs no other program. The settings of the sanitizers are kept."""
    keep = ("ASAN_", "UBSAN_", "LSAN_", "LD_", "NETLINK_")
    kept = {name: value for name, value in os.environ.items() if name.startswith(keep)}
    return {"PATH": "/nonexistent", **kept}


# To ask for addresses, a daemon waits for a lock of the kernel's that all network namespaces share, and no signal ends
# that: while others make and drop namespaces with many devices, for seconds.
START_SECONDS = 60.0


def call(namespace: Namespace, *arguments: str, wrapper: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    """kube-nftd with options that make it end by itself."""
    with namespace.inside():
        return subprocess.run(
            [*wrapper, str(BINARY), *arguments],
            capture_output=True, text=True, timeout=START_SECONDS, stdin=subprocess.DEVNULL, env=environment(),
        )  # fmt: skip


def wait_for(
    condition: typing.Callable[[], bool], what: str | typing.Callable[[], str], seconds: float = 10
) -> None:
    """Looks less often the longer it takes: a look may start programs."""
    begin = time.monotonic()
    while not condition():
        waited = time.monotonic() - begin
        if waited > seconds:
            raise AssertionError(f"not within {seconds} s: {what if isinstance(what, str) else what()}")
        time.sleep(min(0.1, max(0.005, waited / 4)))


def http_get(namespace: Namespace, host: str, port: int, path: str = "/"):
    """(status, headers, body), or None if nothing listens (any more)."""
    connection = http.client.HTTPConnection(host, port, timeout=20)
    try:
        with namespace.inside():
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
    except (ConnectionRefusedError, ConnectionResetError):
        return None
    finally:
        connection.close()


class Daemon:
    def __init__(
        self, namespace: Namespace, source: pathlib.Path, log: pathlib.Path, flags: typing.Sequence[str] = ()
    ) -> None:
        self.namespace = namespace
        self.source = source
        self.log_path = log
        self.flags = flags
        self.wrapper: tuple[str, ...] = ()  # a program that starts it by exec
        self.stderr: int | None = None  # instead of the log
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        self.launch()
        self.wait_programmed()

    def launch(self) -> None:
        argv = [*self.wrapper, str(BINARY), "--manifests", str(self.source), *MORE_FLAGS, *self.flags]
        if "--hostname-override" not in self.flags:
            argv += ["--hostname-override", NODE_NAME]
        argv += ["--healthz-bind-address", f"127.0.0.1:{HEALTH_PORT}", "-v", "4"]
        argv += ["--conntrack-max-per-core", "0"]  # not for a network namespace to change
        with self.log_path.open("ab") as log:
            self.process = self.namespace.start(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=self.stderr or log, env=environment()
            )

    def wait_programmed(self) -> None:
        def programmed() -> bool:
            if self.process.poll() is not None:
                raise LabError(f"kube-nftd ended with {self.process.returncode}:\n{self.last_words()}")
            try:
                ready = http_get(self.namespace, "127.0.0.1", HEALTH_PORT, "/readyz")
            except TimeoutError:
                return False  # it waits for that lock of the kernel's
            return ready is not None and ready[0] == 200

        wait_for(programmed, "kube-nftd has programmed its tables", START_SECONDS)

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self, by: int = signal.SIGTERM) -> int:
        """The exit status."""
        self.process.send_signal(by)
        return self.process.wait(timeout=30)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def last_words(self) -> str:
        """The end of the log, short enough for a report."""
        return "\n".join(line[:300] for line in self.log().splitlines()[-80:])


def split_elements(text: str) -> list[str]:
    return [" ".join(element.split()) for element in text.split(",") if element.strip()]


def without_elements(listing: str) -> str:
    """A listing's chains, rules and declarations alone."""
    return ELEMENTS.sub("elements = {}", listing)


def sorted_elements(listing: str) -> str:
    """A listing with the elements of each set in one order: the kernel's follows its hash seed."""

    def sort(match: re.Match) -> str:
        return "elements = { " + ", ".join(sorted(split_elements(match[1]))) + " }"

    return ELEMENTS.sub(sort, listing)


class Frontend(typing.NamedTuple):
    address: str
    protocol: str
    port: int

    def key(self) -> str:
        return f"{self.address} . {self.protocol.lower()} . {self.port}"


def tables_exist(namespace: Namespace) -> bool:
    """Whether both of our tables are there."""
    lines = namespace.run(namespace.nft, "list", "tables").stdout.splitlines()
    return all(f"table {ip} kube-nftd" in lines for ip in FAMILY_TABLE.values())


class Table:
    """The table of one family, as nft lists it."""

    def __init__(self, namespace: Namespace, family: int) -> None:
        self.namespace = namespace
        self.name = f"{FAMILY_TABLE[family]} kube-nftd"

    def listing(self, *options: str) -> str:
        return self.namespace.run(self.namespace.nft, *options, "list", "table", *self.name.split()).stdout

    def shape(self) -> str:
        """Everything but elements, with handles: a rule that is replaced changes it."""
        # A set without elements has no such line; what is held there is not part of the shape.
        text = re.sub(r"\n\s*elements = \{.*?\}", "", self.listing("-a"), flags=re.DOTALL)
        # Nor is the owner, which changes with each daemon.
        return re.sub(r" # progname \S+|^\tflags.*\n", "", text, flags=re.MULTILINE)

    def elements(self, *names: str) -> list[list[str]]:
        """The elements of some sets and maps, all from one look at the table."""
        blocks = re.split(r"^\t(?:map|set) (\S+) \{$", self.listing(), flags=re.MULTILINE)
        bodies = {name: body.split("\n\t}")[0] for name, body in zip(blocks[1::2], blocks[2::2])}
        held = [ELEMENTS.search(bodies[name]) for name in names]
        return [split_elements(match[1]) if match else [] for match in held]

    def holds(self, name: str, element: str) -> bool:
        """Whether a set or map has this key."""
        command = [self.namespace.nft, "get", "element", *self.name.split(), name, f"{{ {element} }}"]
        with self.namespace.inside():
            return subprocess.run(command, capture_output=True).returncode == 0

    def value(self, name: str, key: str) -> int | None:
        """The number that a map of numbers has under a key."""
        command = [self.namespace.nft, "get", "element", *self.name.split(), name, f"{{ {key} }}"]
        with self.namespace.inside():
            found = subprocess.run(command, capture_output=True, text=True)
        held = ELEMENTS.search(found.stdout) if found.returncode == 0 else None
        return number(split_elements(held[1])[0].split(" : ")[1]) if held else None

    def rejects(self, key: str) -> bool:
        """Whether there is a frontend with this key whose service port has no endpoints."""
        value = self.value("services", key)
        return value is not None and self.holds("rejected_ports", classid(value & PORT))

    def drops(self, key: str) -> bool:
        """Whether there is one with traffic policy Local whose service port has no endpoints here."""
        value = self.value("services", key)
        return bool(class_of(value or 0) & LOCAL) and self.holds("dropped_ports", classid(value & PORT | LOCAL))

    def backends(self, frontend: Frontend) -> list[tuple[str, int]] | None:
        """Address and port of each slot that new connections from anywhere may be sent to; [] for a frontend
        that rejects or drops, None for one that is not there."""
        names = ("services", "ports", "endpoints", "local_ports", "local_endpoints")
        services, *parts = (mapped(held) for held in self.elements(*names))
        if frontend.key() not in services:
            return None
        value = number(services[frontend.key()])
        counts, slots = parts[2:] if class_of(value) & (LOCAL | EXTERNAL) == LOCAL else parts[:2]
        port = classid(value & PORT)
        count = number(counts.get(port, "0:0")) if value & CLASS == CLASS else value
        held = [slots.get(f"{port} . {slot}", "none . 0").split(" . ") for slot in range(count & ~PORT)]
        return [(address, int(port)) for address, port in held]


# The parts of a value in services (nft-templates/base.nft).
PORT = 0xffff8000
CLASS = 0x7ff0  # with these bits the rest is a class, else the number of endpoints
EXTERNAL, LOCAL, AFFINE = 1, 2, 4


def class_of(value: int) -> int:
    return value & 0xf if value & CLASS == CLASS else 0


def number(text: str) -> int:
    """A classid as nft writes it."""
    high, low = text.split(":")
    return int(high, 16) << 16 | int(low, 16)


def classid(value: int) -> str:
    return f"{value >> 16:x}:{value & 0xffff:x}"


def mapped(elements: list[str]) -> dict[str, str]:
    return dict(element.split(" : ") for element in elements)


class Monitor:
    """What `nft monitor` reports of a namespace. Used as: with Monitor(...) as monitor: ...; monitor.lines"""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.lines: list[str] = []

    def __enter__(self) -> "Monitor":
        self.process = self.namespace.start([self.namespace.nft, "monitor"], stdout=subprocess.PIPE, text=True)
        self._mark("begin")
        return self

    def __exit__(self, *exception) -> None:
        if exception[0] is None:
            self.lines = self._mark("end")
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def _mark(self, name: str) -> list[str]:
        """Makes an event of its own and reads up to it. At the beginning it is repeated until seen,
        since nothing else tells that the monitor listens; ever more rarely, as each has nft read what there is anew."""
        table = f"monitor-{name}"
        before = []
        os.set_blocking(self.process.stdout.fileno(), False)
        pause = 0.01
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            self.namespace.run(self.namespace.nft, f"add table inet {table}; delete table inet {table}")
            for line in iter(self.process.stdout.readline, ""):
                if f"delete table inet {table}" in line:
                    return before
                # A mark that was made twice may be reported late.
                if "inet monitor-" not in line and not line.startswith("#") and line.strip():
                    before.append(line.strip())
            time.sleep(pause)
            pause *= 1.5
        raise AssertionError(f"nft monitor does not report: {before}")
