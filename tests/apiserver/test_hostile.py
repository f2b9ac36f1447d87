# SPDX-License-Identifier: GPL-2.0-or-later
"""A server that sends anything at all: the daemon lives on within bounds, keeps what is programmed, counts
and says what is wrong, does not ask in a loop, and is right again as soon as the server is.

The first contents come from the stand-in. Then a hostile server takes its port, and then it is back.
"""

import contextlib
import dataclasses
import functools
import os
import re
import time
from collections.abc import Callable

import pytest

import apiserver
import attacks
import protobuf_attacks
import side_by_side
from encoding import Json, Protobuf
from harness import Daemon, endpoint_slice, figures, node, own_network, prove_watches, rejected, service, table
from hostile import HostileServer
from traffic import EchoServer, Probe

MIB = 1 << 20
ECHO = ("10.96.0.100", 80)
ECHO_ENDPOINT = "10.1.0.1"
WEB = ("10.96.0.10", "tcp", 80)
LONG = 240.0  # seconds: a list that never ends takes its time on a loaded machine
# A value's text may be 16 MiB (EVENT_LIMIT and VALUE_LIMIT in src/source). Its buffer doubles
# up to 32 MiB, and growing may need the old one beside it. 8 MiB are for curl, the log and whatever else.
VALUE_LIMIT = 16 * MIB
MEMORY = 3 * VALUE_LIMIT + 8 * MIB
# A value may hold 1,000,000 others of 24 bytes each, in an array that doubles.
VALUES = 48 * MIB
# 1,000,000 objects are taken (src/source/reflector.c): of 300 bytes of text here, and kept in less than 1 KiB.
OBJECTS_TEXT = 300 * 1_000_000
OBJECTS = 1024 * MIB
# What may be under way when the daemon gives up: the socket buffers of both ends.
IN_FLIGHT = 12 * MIB
# In its first 3 s a resource is asked for at once and then after 0.8 s and 1.6 s or more; each time for a
# watch, a stream and a list at most, perhaps once more without the version.
WINDOW, REQUESTS = 3.0, 12


@dataclasses.dataclass
class Attack:
    script: Callable
    counted: tuple[str, ...] = ("bad_answers",)  # what grows together
    times: int = 1  # by so many
    said: str = "services"  # a pattern of the one line that tells of it
    plural: str = "services"
    sent: int | None = None  # bytes of one answer, at most; None if the answers end
    memory: int = MEMORY
    requests: int = REQUESTS
    encoding: type = Json
    both: bool = False  # it comes in protobuf as well


FAILED = ("request_failures",)
BAD = ("bad_answers", "bad_objects")
NOTHING = ()
SLICES = "endpointslices"
BOTH = functools.partial(Attack, both=True)
CONTENTS = functools.partial(Attack, times=2)  # the watch before them is broken too
CONTENTS_IN_BOTH = functools.partial(CONTENTS, both=True)
TOO_LONG = functools.partial(Attack, sent=VALUE_LIMIT + IN_FLIGHT)
AT_ONCE = functools.partial(Attack, sent=IN_FLIGHT)
ATTACKS = {
    "garbage": BOTH(attacks.garbage),
    "no event and no list": Attack(attacks.not_an_event),
    "the other encoding": BOTH(attacks.the_other_encoding),
    "HTML": BOTH(attacks.html),
    "an empty body": BOTH(attacks.nothing, NOTHING),
    "NUL bytes": Attack(attacks.nul_bytes),
    "half an answer": BOTH(attacks.half_an_answer, NOTHING),
    "a list that never ends": BOTH(attacks.never_ends),
    "white space": Attack(attacks.white_space, NOTHING, said=""),
    "1 GiB of one string": TOO_LONG(attacks.endless_string),
    "1 GiB of one number": TOO_LONG(attacks.endless_number),
    "1 GiB of one key": TOO_LONG(attacks.endless_key),
    "1 GiB of escapes": TOO_LONG(attacks.endless_escapes),
    "1 GiB of [": AT_ONCE(attacks.deep_arrays),
    "1 GiB of {": AT_ONCE(attacks.deep_objects),
    "7 million values in an array": AT_ONCE(attacks.wide_array, memory=MEMORY + VALUES),
    "3 million values in an object": AT_ONCE(attacks.wide_object, memory=MEMORY + VALUES),
    "trees just below the limit": Attack(attacks.many_trees, ("bad_objects",), said="bad object",
                                         memory=MEMORY + VALUES),
    "objects without end": CONTENTS(attacks.endless_items, sent=OBJECTS_TEXT + IN_FLIGHT, memory=OBJECTS),
    "Pods without end": CONTENTS(attacks.endless_pods, sent=IN_FLIGHT),
    "empty pages without end": CONTENTS_IN_BOTH(attacks.endless_pages),
    "gzip bomb": Attack(attacks.gzip_bomb),
    "gzip garbage": BOTH(attacks.gzip_garbage, FAILED),
    "Pods": CONTENTS_IN_BOTH(attacks.pods),
    "Pods in a watch": BOTH(attacks.pods_in_a_watch, BAD, said="bad object|cannot watch services"),
    "Services for EndpointSlices": CONTENTS_IN_BOTH(attacks.services_for_slices, said=SLICES, plural=SLICES),
    "a Service in a watch of EndpointSlices": BOTH(attacks.service_in_a_watch_of_slices, BAD, plural=SLICES,
                                                   said="bad object|cannot watch endpointslices"),
    "an end mark of Pods": CONTENTS_IN_BOTH(attacks.end_mark_of_pods),
    "a list without resourceVersion": CONTENTS_IN_BOTH(attacks.no_list_version),
    "two lists": CONTENTS_IN_BOTH(attacks.two_lists),
    "no HTTP": Attack(attacks.no_http, FAILED),
    "no answer": Attack(attacks.slammed, FAILED),
    "100 MB of headers": Attack(attacks.header_flood, FAILED, sent=IN_FLIGHT),
    "1 GiB of one header": Attack(attacks.endless_header, FAILED, sent=IN_FLIGHT),
    "chunks that are none": Attack(attacks.bad_chunks, FAILED),
    "a cut body": BOTH(attacks.cut_body, FAILED),
    "101": Attack(attacks.status("101 Switching Protocols", "Connection: upgrade", "Upgrade: x"), FAILED),
    "100 for ever": Attack(attacks.continue_for_ever, FAILED),
    **{line: Attack(attacks.status(line), FAILED) for line in ("204 No Content", "304 Not Modified")},
    **{line: Attack(attacks.status_with_body(line), FAILED)
       for line in ("201 Created", "206 Partial Content", "418 I'm a teapot", "599 Unheard of", "999 Odd")},
    **{line: Attack(attacks.redirect(line), FAILED)
       for line in ("301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect")},
    "500 without end": Attack(attacks.endless_error, FAILED, sent=IN_FLIGHT),
    "bookmarks that end": BOTH(attacks.bookmark_and_end, NOTHING, said=""),
    "410 for ever": BOTH(attacks.expired_for_ever, FAILED),
    "an event and 410 for ever": BOTH(attacks.expired_after_an_event, FAILED),
    "too large for ever": BOTH(attacks.too_large_for_ever, FAILED),
    "ERROR without a code": BOTH(attacks.error_without_code, FAILED),
}
ATTACKS |= {f"{name}, in protobuf": dataclasses.replace(attack, encoding=Protobuf) for name, attack in ATTACKS.items()
            if attack.both} | {
    "protobuf: 4 GiB": TOO_LONG(protobuf_attacks.endless_length, encoding=Protobuf),
    "protobuf: contentEncoding": Attack(protobuf_attacks.contents_that_are_encoded, BAD, encoding=Protobuf),
    "protobuf: an envelope in an envelope": Attack(protobuf_attacks.envelope_in_an_envelope, BAD, encoding=Protobuf,
                                                   said="bad object|cannot watch services"),
    "protobuf: the kind behind the contents": CONTENTS(protobuf_attacks.kind_behind_contents, encoding=Protobuf,
                                                       said="the contents come before their kind"),
    **{f"protobuf: {script}": Attack(getattr(protobuf_attacks, script), ("bad_objects",), said="bad object.*shop/odd",
                                     encoding=Protobuf)
       for script in ("overlong_number", "group", "length_beyond_its_end", "number_for_a_message", "no_utf_8",
                      "nul_in_a_string")},
}


def small_quarantine():
    """A build with AddressSanitizer keeps freed memory for a while: little of it, so that bounds hold."""
    options = os.environ.get("ASAN_OPTIONS", "")
    return {"ASAN_OPTIONS": f"{options}:quarantine_size_mb=1:thread_local_quarantine_size_kb=64"}


@contextlib.contextmanager
def settled_daemon(server, folder):
    """The daemon, its watches open, and a client of its table that must not notice a thing."""
    kubeconfig = server.kubeconfig(folder / "kubeconfig")
    with Daemon(folder, kubeconfig, environment=small_quarantine()) as daemon:
        server.wait(lambda: len(table()) == 2, LONG)
        prove_watches(server, LONG)
        with Probe(*ECHO):
            yield daemon
            assert daemon.alive()
            server.put(service(port=81), endpoint_slice("10.1.0.9"))
            server.start()
            goal = {(*ECHO[:1], "tcp", ECHO[1]): {(ECHO_ENDPOINT, 8080)},
                    (WEB[0], "tcp", 81): {("10.1.0.9", 8080)}}
            server.wait(lambda: table() == goal, LONG)


@contextlib.contextmanager
def in_place_of(server, plural, script, encoding):
    """Takes the server's port."""
    with contextlib.closing(HostileServer(server.certs, 0, None, None, None)) as elsewhere:
        server.stop()
        hostile = HostileServer(server.certs, server.port, plural, script, encoding, elsewhere.port)
        with contextlib.closing(hostile):
            yield hostile
        assert not elsewhere.accepted


def attacked(attack, server, folder):
    with settled_daemon(server, folder) as daemon:
        before, log, memory = table(), len(daemon.log()), daemon.peak_memory()
        counted = count(attack)
        with in_place_of(server, attack.plural, attack.script, attack.encoding) as hostile:
            server.wait(lambda: hostile.requests, LONG)
            begin = hostile.requests[0].time
            # That the server went counts as a failed request as well, so it is not enough.
            server.wait(lambda: count(attack) >= counted + attack.times * bool(attack.counted) and
                        is_said(attack, daemon.log()[log:]), LONG)
            time.sleep(max(0, begin + WINDOW - time.monotonic()))
            asked = [request for request in tuple(hostile.requests) if request.time < begin + WINDOW]
            assert len(asked) <= attack.requests, [request.what for request in asked]
            assert daemon.alive()
            assert table() == before
            assert daemon.peak_memory() - memory <= attack.memory
            if attack.sent is not None:
                assert max(request.sent for request in tuple(hostile.requests)) <= attack.sent
            assert not [request for request in hostile.requests if request.target.startswith("/stolen")]
            said_once(attack, daemon.log()[log:])


def count(attack):
    now = figures()
    return sum(now[name, attack.plural] for name in attack.counted)


def told_by(log):
    return [line.split(" ", 1)[1] for line in log.splitlines() if re.match(r"\S+ (warn|error) +(?!daemon: no cluster CIDR)\S", line)]


def is_said(attack, log):
    return not attack.said or any(re.search(attack.said, line) for line in told_by(log))


def said_once(attack, log):
    """What is wrong is said, in few lines, and no line twice before it was over in between."""
    told = told_by(log)
    for bout in log.split(f"watching again resource={attack.plural}"):
        lines = re.findall(rf"warn  source: (cannot (?:watch|list) {attack.plural}.*)", bout)
        assert len(lines) == len(set(lines)), lines
    assert len(told) < 200 and len(log) < 64 * 1024
    assert is_said(attack, log), told


# Odd, but no trouble

def odd_versions(server, folder, encoding):
    """Events without a resourceVersion and with the same one again are taken in the order in which they
    come, and a watch goes on from the last one that was there."""
    def script(exchange):
        if len(hostile.requests) > 1:
            exchange.begin()
            exchange.hold()
        exchange.begin()
        for change in ("ADDED", dict(port=80)), ("MODIFIED", dict(port=81, resourceVersion="900")), \
                ("MODIFIED", dict(port=82, resourceVersion="900")), ("ADDED", dict(port=83)), \
                ("DELETED", dict(port=1, name="never-there")), ("MODIFIED", dict(port=84)):
            exchange.chunk(exchange.encoding.event(change[0], attacks.service(**{
                "name": "odd", "address": "10.96.0.50", **change[1]})))
        exchange.end()

    with settled_daemon(server, folder) as daemon:
        before, lists = table(), figures()["lists", "services"]
        with in_place_of(server, "services", script, encoding) as hostile:
            server.wait(lambda: rejected() == {("10.96.0.50", "tcp", 84)}, LONG)
            server.wait(lambda: len(hostile.requests) > 1, LONG)
            assert [request.what for request in hostile.requests[:2]] == ["watch", "watch"]
            assert "resourceVersion=900&" in hostile.requests[1].target + "&"
            assert table() == before
            now = figures()
            assert now["lists", "services"] == lists and not now["bad_answers", "services"]
            assert daemon.alive()


ODD = {"odd versions": Json, "odd versions, in protobuf": Protobuf}


def run_case(case, folder):
    with own_network(), apiserver.ApiServer(folder / "certs", history=100_000) as server, \
            contextlib.closing(EchoServer(ECHO_ENDPOINT)):
        server.put(node(), service(), endpoint_slice("10.1.0.5"),
                   service("echo", *ECHO), endpoint_slice(ECHO_ENDPOINT, name="echo"))
        if case in ODD:
            odd_versions(server, folder, ODD[case])
        else:
            attacked(ATTACKS[case], server, folder)


@pytest.fixture(name="outcome", scope="module")
def run_cases(request, tmp_path_factory):
    yield from side_by_side.run(request, tmp_path_factory, run_case)


@pytest.mark.parametrize("case", [*ATTACKS, *ODD])
def test_survives(outcome, case):
    outcome(case)
