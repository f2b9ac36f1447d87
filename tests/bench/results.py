# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of several rounds, and tables of them."""

import statistics


def spread(values):
    values = sorted(values)
    return {"median": statistics.median(values), "low": values[0], "high": values[-1]}


def quartiles(values):
    """As spread(), for many: the first and the third quartile, since the ends say more of the machine."""
    low, median, high = statistics.quantiles(values, n=4)
    return {"median": median, "low": low, "high": high}


def percentile(values, part):
    values = sorted(values)
    return values[round(part * (len(values) - 1))]


def samples(values):
    """Of many: the median and the 99th percentile."""
    return {"median": statistics.median(values), "p99": percentile(values, 0.99), "n": len(values)}


def ratios(above, below):
    """Round by round, so that what slows a whole round down cancels out."""
    return spread([a / b for a, b in zip(above, below)])


def show(figure, unit="", scale=1, digits=2):
    """A spread as text: median (lowest to highest)."""
    median, low, high = (figure[key] * scale for key in ("median", "low", "high"))
    return f"{median:.{digits}f}{unit} ({low:.{digits}f} to {high:.{digits}f})"


def table(head, rows):
    """Lines with columns as wide as they must be; the first one to the left, the others to the right."""
    lines = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(cell.ljust(width) if not place else cell.rjust(width)
                               for place, (cell, width) in enumerate(zip(line, widths))).rstrip()
                     for line in lines)


MIB = 1024 * 1024
