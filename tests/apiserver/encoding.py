# SPDX-License-Identifier: GPL-2.0-or-later
"""The encodings that the stand-in API server answers in, and which one a request gets."""

import json

import protobuf


def to_json(value, pretty=False):
    """JSON as Go writes it: compact, HTML characters escaped; pretty-printed without newline."""
    text = json.dumps(value, ensure_ascii=False, indent=2 if pretty else None,
                      separators=None if pretty else (",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode() if pretty else text.encode() + b"\n"


class Json:
    name = "application/json"
    of_watches = name
    event_is_one_write = True  # a large one comes in one chunk, in place of many of the buffer's size

    body = staticmethod(to_json)

    @staticmethod
    def event(kind, obj):
        return to_json({"type": kind, "object": obj})


class Protobuf:
    name = "application/vnd.kubernetes.protobuf"
    of_watches = name + ";stream=watch"
    event_is_one_write = False

    @staticmethod
    def body(value, _pretty=False):
        return protobuf.envelope(value)

    event = staticmethod(protobuf.event)


BOTH = (Json, Protobuf)


def choose(accept, watch, known):
    """The encoding of @known that is first in an Accept header, None if there is none."""
    for clause in accept.split(","):
        kind, *parameters = (part.strip() for part in clause.split(";"))
        good = all(part == "stream=watch" and watch or part.startswith("q=") for part in parameters)
        for encoding in known:
            if good and kind in (encoding.name, "application/*", "*/*"):
                return encoding
    return None
