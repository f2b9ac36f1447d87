# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures as a picture: panels in one SVG file, written by hand."""

import math
from xml.sax.saxutils import escape

import memory
import single_changes
from results import MIB

PANEL_WIDTH, PANEL_HEIGHT, COLUMNS = 560, 400, 2
LEFT, RIGHT, TOP, BOTTOM = 76, 18, 48, 50
COLOURS = ["#0b62a4", "#d1495b", "#2e8b57", "#8a5fbf", "#d98e04", "#4a4a4a", "#17a2a2", "#b0578d"]
BASELINE = "#999999"
STYLE = ("text{font-family:sans-serif;font-size:12px;fill:#222}.title{font-size:15px;font-weight:bold}"
         ".axis{font-size:11px;fill:#555}.grid{stroke:#e3e3e3}.frame{stroke:#999;fill:none}")


def si(value):
    """A number for an axis: 10, 2k, 1M; 0.01."""
    for step, letter in ((1e6, "M"), (1e3, "k")):
        if value >= step:
            return f"{value / step:g}{letter}"
    return f"{value:g}"


class Log:
    """A logarithmic axis from a value to another, both on round marks."""

    def __init__(self, values, pixels):
        low, high = min(values), max(values)
        self.low = math.floor(math.log10(low) * 3) / 3 if high / low < 30 else math.floor(math.log10(low))
        self.high = math.ceil(math.log10(high * 1.05))
        self.pixels = pixels

    def __call__(self, value):
        return (math.log10(value) - self.low) / (self.high - self.low) * self.pixels

    def marks(self):
        for exponent in range(math.floor(self.low), math.ceil(self.high) + 1):
            for factor in (1, 2, 5) if self.high - self.low <= 2 else (1,):
                value = factor * 10.0 ** exponent
                if self.low - 1e-9 <= math.log10(value) <= self.high + 1e-9:
                    yield value


class Panel:
    def __init__(self, title, place):
        self.parts = []
        self.x = place % COLUMNS * PANEL_WIDTH
        self.y = place // COLUMNS * PANEL_HEIGHT
        self.width = PANEL_WIDTH - LEFT - RIGHT
        self.height = PANEL_HEIGHT - TOP - BOTTOM
        self.text(-LEFT + 14, -26, title, "title", "start")

    def text(self, x, y, words, kind="", anchor="middle", more=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}" {more}>'
                          f"{escape(words)}</text>")

    def line(self, x1, y1, x2, y2, kind="grid"):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')

    def axes(self, x, y, x_name, y_name):
        for value in x.marks():
            self.line(x(value), 0, x(value), self.height)
            self.text(x(value), self.height + 16, si(value), "axis")
        for value in y.marks():
            self.line(0, self.height - y(value), self.width, self.height - y(value))
            self.text(-6, self.height - y(value) + 4, si(value), "axis", "end")
        self.parts.append(f'<rect width="{self.width}" height="{self.height}" class="frame"/>')
        self.text(self.width / 2, self.height + 36, x_name, "axis")
        self.text(-52, self.height / 2, y_name, "axis",
                  more=f'transform="rotate(-90 -52 {self.height / 2:.1f})"')

    def legend(self, names):
        """@names: [(name, colour, dashed)]"""
        for place, (name, colour, dashed) in enumerate(names):
            y = 14 + place * 16
            dash = ' stroke-dasharray="5 3"' if dashed else ""
            self.parts.append(f'<line x1="10" y1="{y}" x2="32" y2="{y}" stroke="{colour}" '
                              f'stroke-width="2.5"{dash}/>')
            self.text(38, y + 4, name, "axis", "start")

    def curve(self, points, colour, dashed, joined=True):
        dash = ' stroke-dasharray="5 3"' if dashed else ""
        if joined:
            path = " ".join(f"{x:.1f},{self.height - y:.1f}" for x, y in points)
            self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                              f'stroke-width="2"{dash}/>')
        for x, y in points:
            self.parts.append(f'<circle cx="{x:.1f}" cy="{self.height - y:.1f}" r="3.5" fill="{colour}"/>')

    def svg(self):
        return (f'<g transform="translate({self.x + LEFT} {self.y + TOP})">' + "\n".join(self.parts) +
                "</g>\n")


def curves(panel, series, x_name, y_name, room=1.0):
    """@series: [(name, {x: y}, dashed)], on logarithmic axes. @room: what to leave above, for names."""
    x = Log([at for _, points, _ in series for at in points], panel.width)
    values = [value for _, points, _ in series for value in points.values()]
    y = Log([*values, max(values) * room], panel.height)
    panel.axes(x, y, x_name, y_name)
    names = []
    for place, (name, points, dashed) in enumerate(series):
        colour = BASELINE if name.startswith("limit") else COLOURS[place % len(COLOURS)]
        panel.curve([(x(at), y(value)) for at, value in sorted(points.items())], colour, dashed)
        names.append((name, colour, dashed))
    panel.legend(names)


def bars(panel, rows, unit):
    """@rows: [(name, value, words)], the longest as wide as there is room."""
    names = 230 - LEFT + 14
    most = max(value for _, value, _ in rows)
    step = panel.height / len(rows)
    for place, (name, value, words) in enumerate(rows):
        y, width = place * step, value / most * (panel.width - names - 66)
        colour = COLOURS[0] if "kube-nftd" in name else BASELINE
        panel.text(names - 8, y + step / 2 + 4, name, "axis", "end")
        panel.parts.append(f'<rect x="{names}" y="{y + step * 0.15:.1f}" width="{width:.1f}" '
                           f'height="{step * 0.7:.1f}" fill="{colour}"/>')
        panel.text(names + width + 5, y + step / 2 + 4, words, "axis", "start")
    panel.text(panel.width / 2, panel.height + 30, unit, "axis")


# ---- the panels ------------------------------------------------------------------------------------


def draw_first_sync(figures, panel):
    rows = [row for row in figures["rows"] if row["endpoints"] == 10] or figures["rows"]
    series = []
    for mode, name in (("events, protobuf", "daemon, events"), ("pages, protobuf", "daemon, pages"),
                       ("file, json", "daemon, JSON file")):
        series.append((name, {row["services"]: row["daemon_seconds"]["median"] for row in rows
                              if row["from"] == mode}, False))
    for mode, name in (("events, protobuf", "limit, events: curl + bare programming"),
                       ("file, json", "limit, JSON file")):
        series.append((name, {row["services"]: row["limit_seconds"]["median"] for row in rows
                              if row["from"] == mode}, mode == "file, json"))
    curves(panel, series, "services, 10 endpoints each", "seconds", room=30)


def draw_single(figures, panel):
    series = [(kind, {row["services"]: row["whole"]["median"] * 1e3 for row in figures["rows"]
                      if row["kind"] == kind and row["encoding"] == "protobuf"}, False)
              for kind in single_changes.LABELS]
    kind = "endpoint replaced"
    series.append((f"limit, {kind}: the bare transaction",
                   {row["services"]: row["bare"]["median"] * 1e3 for row in figures["rows"]
                    if row["kind"] == kind}, False))
    curves(panel, series, "services, 10 endpoints each", "milliseconds, median", room=20)


def draw_memory(figures, panel):
    series = []
    for name in memory.SOURCES:
        for what in ("resident", "peak"):
            points = {row["services"] * row["endpoints"]: row[name][what] / MIB
                      for row in figures["rows"] if row["endpoints"] == 10}
            series.append((f"from a {name}: {what}", points, what == "peak"))
    curves(panel, series, "endpoints, 10 of each service", "MiB", room=2)


def draw_packets(key, unit):
    def draw(figures, panel):
        rows = [(kind, row["ns"]["median"], f"{row['ns']['median']:,.0f}")
                for kind, row in figures[key].items()]
        bars(panel, rows, unit)
    return draw


def draw_steady(figures, panel):
    steps, steady = figures["steps"], figures["steady"]
    alone = steady["alone"]
    n = alone["steps"]
    rows = [("1,000/s: kube-nftd, CPU", steady["cpu"] / steady["changes"]),
            ("    decoding alone", alone["decode"] / n), ("    bare transaction", alone["bare"] / n),
            ("1,000/s: kube-nftd, delay, median", steady["delay"]["median"]),
            ("1,000/s: kube-nftd, delay, 99%", steady["delay"]["p99"]),
            (f"{steps['endpoints']:,} endpoints: kube-nftd, a step", steps["whole"]["median"]),
            ("one slice: kube-nftd, a step", steps["small"]["median"]),
            ("    decoding a slice", steps["decode"]["median"]),
            ("    bare transaction", steps["bare"]["median"])]
    bars(panel, [(name, value, f"{value * 1e3:.3f}") for name, value in rows], "milliseconds a change or step")


DRAWINGS = [("first-sync", "First sync", draw_first_sync),
            ("single-changes", "One change: event to the kernel's acknowledgement", draw_single),
            ("memory", "Memory of the daemon", draw_memory),
            ("many-changes", "Many changes", draw_steady),
            ("packet-path", "A new connection", draw_packets("new", "CPU nanoseconds, sending included")),
            ("packet-path", "A packet of a known connection",
             draw_packets("known", "CPU nanoseconds, sending included"))]


def draw(results):
    """The whole picture as the text of an SVG file."""
    panels = []
    for group, title, drawing in DRAWINGS:
        if group in results["groups"]:
            panels.append(Panel(title, len(panels)))
            drawing(results["groups"][group], panels[-1])
    about = results["about"]
    note = f"kube-nftd {about['commit']}, Linux {about['kernel']}, {about['processors']} CPUs, {about['time']}"
    width = PANEL_WIDTH * COLUMNS
    height = PANEL_HEIGHT * -(-len(panels) // COLUMNS) + 24
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}"><style>{STYLE}</style><rect width="{width}" height="{height}" fill="#fff"/>\n'
            + "".join(panel.svg() for panel in panels) +
            f'<text x="{width - 12}" y="{height - 9}" text-anchor="end" class="axis">{escape(note)}</text></svg>\n')
