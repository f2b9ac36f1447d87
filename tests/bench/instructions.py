# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions of a change, and of the first contents, room by room, as callgrind counts them.

The pipeline of single-changes (bench_events), events in protobuf. The kernel's instructions are not counted, nor
those of the benchmark. What a room's functions call in libraries (malloc(), memcpy()) counts as the room's.
"""

import collections
import pathlib
import re
import shutil
import tempfile

import cluster
import single_changes
import subjects
from cluster import Size
from results import table

TITLE = "Instructions"
SIZE, QUICK_SIZE = Size(10000, 10), Size(100, 10)
SAMPLES, QUICK_SAMPLES = 200, 10
FIRST = "first contents"
CHANGES = {"endpoint replaced": ["endpoint replaced"],
           "endpoint added, removed": ["endpoint added", "endpoint removed"],
           "service removed, added": ["service removed", "service added"]}
COUNTED = {FIRST: ["count_first_event", "count_first_syncs"], "change": ["count_change"]}


class Profile:
    """What callgrind has written, by rooms: instructions, and of these what they called in libraries."""

    def __init__(self, path):
        self.rooms, self.library = collections.Counter(), collections.Counter()
        self._names = {}
        self._program = None  # the object that is read first
        self._read(path)

    def _name(self, kind, text):
        number, name = re.fullmatch(r"\((\d+)\)(?: (.*))?", text).groups()
        kind = {"fi": "fl", "fe": "fl", "cfi": "fl", "cfl": "fl", "cob": "ob", "cfn": "fn"}.get(kind, kind)
        if name is not None:
            self._names[kind, number] = name
        return self._names[kind, number]

    @staticmethod
    def _room(path):
        """src/ROOM/file.c; inline functions of a header count as the room whose header it is."""
        if found := re.search(r"/(?:src|include/kube-nftd)/(\w+)(?:/|\.h)", path):
            return found[1]
        return "main" if "/src/" in path else None

    def _read(self, path):
        object_name = called_object = room = None
        call = False
        for line in open(path):
            if found := re.match(r"(ob|fl|fi|fe|fn|cob|cfi|cfl|cfn)=(.*)", line):
                name = self._name(*found.groups())
                match found[1]:
                    case "ob":
                        object_name = name
                        self._program = self._program or (name if name.endswith("bench_events") else None)
                    case "fl" | "fi" | "fe":
                        room = self._room(name)
                    case "cob":
                        called_object = name
            elif line.startswith("calls="):
                call = True
            elif re.match(r"[+\-*\d]", line):
                self._count(object_name, room, call and (called_object or object_name), int(line.split()[1]))
                call, called_object = False, None

    def _count(self, caller, room, called, cost):
        if not room:
            return
        if not called and caller == self._program:
            self.rooms[room] += cost
        elif called and caller == self._program != called:
            self.rooms[room] += cost
            self.library[room] += cost


def profile(options, size, what, play):
    """Of a pipeline that takes the first contents, and then what @play gives it."""
    with tempfile.TemporaryDirectory(prefix="kube-nftd-bench-") as folder:
        out = pathlib.Path(folder) / "callgrind"
        prefix = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}",
                  *(f"--toggle-collect={name}*" for name in COUNTED[what])]
        with subjects.Pipeline(options.build, size, "protobuf", True, prefix) as pipeline:
            n = play(pipeline)
            pipeline.end()
        return Profile(out), n


def play_changes(pipeline, size, labels, samples):
    n = 0
    for k in range(samples):
        for label, resource, (what, text) in single_changes.changes(k * 7919 % size.services, size, k):
            if label in labels:
                pipeline.add(label, resource, cluster.change(what, text, resource))
                n += 1
    pipeline.play()
    return n


def figures_of(counted, n):
    return {"all": sum(counted.rooms.values()) / n,
            "rooms": {room: cost / n for room, cost in counted.rooms.most_common()},
            "library": {room: cost / n for room, cost in counted.library.items()}}


def measure(options):
    if not shutil.which("valgrind"):
        return {"missing": "there is no valgrind"}
    size = QUICK_SIZE if options.quick else SIZE
    samples = options.samples or (QUICK_SAMPLES if options.quick else SAMPLES)
    figures = {FIRST: figures_of(*profile(options, size, FIRST, lambda _: size.services))}
    for name, labels in CHANGES.items():
        figures[name] = figures_of(*profile(options, size, "change",
                                            lambda pipeline: play_changes(pipeline, size, labels, samples)))
    if not all(each["all"] for each in figures.values()):
        return {"missing": f"{options.build} has no debug information"}
    return {"services": size.services, "endpoints": size.endpoints, "samples": samples, "figures": figures}


def text(figures):
    if "missing" in figures:
        return f"Not measured: {figures['missing']}"
    rows = [[name, f"{each['all']:,.0f}",
             *(f"{each['rooms'].get(room, 0):,.0f} ({each['library'].get(room, 0):,.0f})" for room in rooms_of(figures))]
            for name, each in figures["figures"].items()]
    return (f"For an event, or for each of {figures['services']:,} services of {figures['endpoints']} endpoints; in "
            "parentheses, of these in libraries\n" + table(["", "all", *rooms_of(figures)], rows))


def rooms_of(figures):
    rooms = collections.Counter()
    for each in figures["figures"].values():
        rooms.update(each["rooms"])
    return [room for room, _ in rooms.most_common()]
