# SPDX-License-Identifier: GPL-2.0-or-later
"""A strict reader of Prometheus' text format 0.0.4: what a scraper might forgive is an error here."""

import math
import re
import typing

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
HEADER = re.compile(rf"# (HELP|TYPE) ({NAME}) (\S.*)")
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
# A value may hold anything; of backslashes only these three pairs.
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
ESCAPED = re.compile(r'\\(["\\n])')
HELP_TEXT = re.compile(r"(?:[^\\]|\\[\\n])+")
NUMBER = re.compile(r"[+-]?(\d+(\.\d+)?(e[+-]?\d+)?|Inf)|NaN")
TYPES = ("counter", "gauge", "histogram")

Labels = frozenset[tuple[str, str]]


class Family(typing.NamedTuple):
    name: str
    type: str
    help: str
    samples: dict[tuple[str, Labels], float]  # in the order of the page


class FormatError(AssertionError):
    pass


def need(condition: typing.Any, line: str) -> None:
    if not condition:
        raise FormatError(line)


def read_labels(text: str, line: str) -> Labels:
    labels: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = LABEL.match(text, at)
        need(match and match[1] not in labels, line)
        labels[match[1]] = ESCAPED.sub(lambda pair: "\n" if pair[1] == "n" else pair[1], match[2])
        need(match[3] or match.end() == len(text), line)
        at = match.end()
    need(text != "" and not text.endswith(","), line)
    return frozenset(labels.items())


def read_number(text: str, line: str) -> float:
    need(NUMBER.fullmatch(text), line)
    return float(text)


def check_histogram(family: Family) -> None:
    """Buckets ascend and add up, the last is for all and equals the count."""
    series: dict[Labels, list[tuple[str, str | None, float]]] = {}
    for (name, labels), value in family.samples.items():
        bound = dict(labels).get("le")
        of = frozenset(pair for pair in labels if pair[0] != "le")
        series.setdefault(of, []).append((name.removeprefix(family.name), bound, value))
    for labels, parts in series.items():
        suffixes = [suffix for suffix, _, _ in parts]
        need(suffixes == ["_bucket"] * (len(parts) - 2) + ["_sum", "_count"], f"{family.name}{set(labels)}")
        bounds = [float(bound) for suffix, bound, _ in parts if suffix == "_bucket"]
        counts = [value for suffix, _, value in parts if suffix == "_bucket"]
        need(bounds and bounds == sorted(set(bounds)) and bounds[-1] == math.inf, f"{family.name} {bounds}")
        need(parts[-1][1] is None and parts[-2][1] is None, family.name)
        need(counts == sorted(counts) and counts[-1] == parts[-1][2], f"{family.name} {counts}")


def check_family(family: Family) -> None:
    need(family.samples, f"{family.name} has no sample")
    names = {name for name, _ in family.samples}
    if family.type == "histogram":
        check_histogram(family)
    else:
        need(names == {family.name}, f"{family.name}: {names}")
    if family.type == "counter":
        need(family.name.endswith("_total"), family.name)
    if family.type != "gauge":
        need(all(0 <= value < math.inf for value in family.samples.values()), family.name)


def read_header(line: str, key: str) -> tuple[str, str]:
    match = HEADER.fullmatch(line)
    need(match and match[1] == key, line)
    return match[2], match[3]


def read_sample(line: str, family: Family) -> None:
    match = SAMPLE.fullmatch(line)
    need(match, line)
    suffixes = ("_bucket", "_sum", "_count") if family.type == "histogram" else ("",)
    need(match[1] in [family.name + suffix for suffix in suffixes], f"{line} in {family.name}")
    labels = frozenset() if match[2] is None else read_labels(match[2], line)
    need((match[1], labels) not in family.samples, f"twice: {line}")
    family.samples[match[1], labels] = read_number(match[3], line)


def parse(page: str) -> dict[str, Family]:
    """The families by name. Each has its HELP, its TYPE and its samples, all in one place."""
    families: dict[str, Family] = {}
    need(page == "" or page.endswith("\n"), "the end")
    lines = page.split("\n")[:-1]
    while lines:
        name, text = read_header(lines.pop(0), "HELP")
        need(HELP_TEXT.fullmatch(text) and name not in families, f"HELP of {name}")
        same, kind = read_header(lines.pop(0) if lines else "", "TYPE")
        need(same == name and kind in TYPES, f"TYPE of {name}")
        family = families[name] = Family(name, kind, text, {})
        while lines and not lines[0].startswith("#"):
            read_sample(lines.pop(0), family)
        check_family(family)
    return families


def values(families: dict[str, Family]) -> dict[str, float]:
    """All samples by the text that they have on the page, labels sorted: name{a="1",b="2"}."""
    found = {}
    for family in families.values():
        for (name, labels), value in family.samples.items():
            text = ",".join(f'{key}="{of}"' for key, of in sorted(labels))
            found[f"{name}{{{text}}}" if text else name] = value
    return found
