# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads ../recordings and ../recordings-protobuf. A recording is a file of parts, each with a line "--- NAME LENGTH"
before it and a newline behind it."""

import csv
import functools
import pathlib

RECORDINGS = pathlib.Path(__file__).parents[1] / "recordings"
PAIRS = RECORDINGS.parent / "recordings-protobuf"


def read_table(path):
    with path.open(newline="", encoding="utf-8") as lines:
        return parse_table(lines)


def parse_table(lines):
    return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def names(folder):
    return [path.stem for path in sorted(folder.glob("*.http"))]


@functools.cache
def parts(name):
    """{part: its bytes} of the recording NAME, or of its page NAME/PAGE."""
    name, _, page = name.partition("/")
    if page:
        return {part.removeprefix(f"{page}/"): data for part, data in parts(name).items()
                if part.startswith(f"{page}/")}
    [path] = [path for folder in (RECORDINGS, PAIRS) for path in folder.glob(f"{name}.http")]
    rest, found = path.read_bytes(), {}
    while rest:
        line, rest = rest.split(b"\n", 1)
        _, part, length = line.decode().split(" ")
        found[part], newline = rest[:int(length)], rest[int(length):int(length) + 1]
        assert newline == b"\n", f"{path}: {part} is not {length} bytes long"
        rest = rest[int(length) + 1:]
    return found


def body_part(name, answer=""):
    """The name of the part that is the body, as body.json; of a pair, of @answer "json." or "protobuf."."""
    [part] = [part for part in parts(name) if part.startswith(f"{answer}body.")]
    return part
