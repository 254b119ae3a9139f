"""Charts as SVG text, drawn on the server: lines with bands, bars, a heatmap. Colours come from the style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 32, 40


@dataclass(frozen=True)
class Line:
    """A curve, with a band where ``low`` and ``high`` are given; ``colour`` is 1 to 4."""

    name: str
    y: Sequence[float | None]
    colour: int = 1
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None


@dataclass(frozen=True)
class Axes:
    """Where data coordinates are on the page."""

    x0: float
    x1: float
    y0: float
    y1: float
    width: float = WIDTH
    height: float = field(default=HEIGHT)

    def x(self, value: float) -> float:
        """Page x."""
        return LEFT + (value - self.x0) / (self.x1 - self.x0 or 1.0) * (self.width - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Page y."""
        return self.height - BOTTOM - (value - self.y0) / (self.y1 - self.y0 or 1.0) * (self.height - TOP - BOTTOM)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between the two.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    span = high - low
    if not span > 0:
        return [low]
    step = 10.0 ** math.floor(math.log10(span / most))
    step *= next(m for m in (1, 2, 5, 10) if span / (step * m) <= most + 1e-9)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def number(value: float) -> str:
    """Short.

    >>> number(12345.0), number(0.25), number(3.0)
    ('12,345', '0.25', '3')
    """
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.3g}"


def lines(x: Sequence[float], curves: Sequence[Line], *, title: str, x_label: str, y_label: str) -> str:
    """Curves over x, with bands, a legend and axes."""
    values = [v for c in curves for part in (c.y, c.low or (), c.high or ()) for v in part if v is not None]
    if not values or not x:
        return empty(title)
    low, high = min(*values, 0.0), max(*values, 0.0)
    axes = Axes(min(0.0, *x), max(0.0, *x), low, high if high > low else low + 1.0)
    body = _frame(axes, x_label, y_label)
    for curve in curves:
        if curve.low is not None and curve.high is not None:
            pairs = zip(x, curve.low, curve.high, strict=True)
            points = [(a, lo, hi) for a, lo, hi in pairs if lo is not None and hi is not None]
            path = [(a, hi) for a, _, hi in points] + [(a, lo) for a, lo, _ in reversed(points)]
            if path:
                body.append(f'<polygon class="band c{curve.colour}" points="{_points(axes, path)}"/>')
        path = [(a, v) for a, v in zip(x, curve.y, strict=True) if v is not None]
        dash = "" if curve.colour % 2 else ' stroke-dasharray="6 3"'
        body.append(f'<polyline class="line c{curve.colour}"{dash} points="{_points(axes, path)}"/>')
        for a, v in path[:: max(1, len(path) // 60)]:
            tip = f"{curve.name}: {number(v)} at {number(a)}"
            body.append(f'<circle class="dot" cx="{axes.x(a):.1f}" cy="{axes.y(v):.1f}" r="5">{_tip(tip)}</circle>')
    for i, curve in enumerate(curves):
        at = LEFT + 10 + 190 * i
        dash = "" if curve.colour % 2 else ' stroke-dasharray="6 3"'
        body.append(f'<line class="line c{curve.colour}"{dash} x1="{at}" x2="{at + 24}" y1="12" y2="12"/>')
        body.append(f'<text x="{at + 30}" y="16">{escape(curve.name)}</text>')
    return _svg(title, body, axes)


def stacked(
    x: Sequence[float], names: Sequence[str], shares: Sequence[Sequence[float]], *, title: str, x_label: str
) -> str:
    """Shares that sum to 1, one above the other; in the legend, names are cut."""
    if not x or not names:
        return empty(title)
    axes = Axes(min(0.0, *x), max(0.0, *x), 0.0, 1.0)
    body = _frame(axes, x_label, "share of decisions")
    bottom = [0.0] * len(x)
    for i, (name, share) in enumerate(zip(names, shares, strict=True)):
        top = [b + s for b, s in zip(bottom, share, strict=True)]
        path = [*zip(x, top, strict=True), *reversed(list(zip(x, bottom, strict=True)))]
        tip = _tip(f"{name}: {share[-1]:.0%} now")
        body.append(f'<polygon class="share s{i}" points="{_points(axes, path)}">{tip}</polygon>')
        at = LEFT + 82 * i
        body.append(f'<rect class="share s{i}" x="{at}" y="6" width="10" height="10"/>')
        body.append(f'<text x="{at + 13}" y="16">{escape(_short(name, 9))}</text>')
        bottom = top
    return _svg(title, body, axes)


def bars(names: Sequence[str], values: Sequence[float], *, title: str, x_label: str, y_label: str) -> str:
    """Bars with their values on top."""
    if not any(values):
        return empty(title)
    axes = Axes(0.0, float(len(names)), 0.0, max(values) * 1.1)
    body = _frame(axes, x_label, y_label, x_ticks=False)
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        left, right = axes.x(i + 0.12), axes.x(i + 0.88)
        top = axes.y(value)
        body.append(
            f'<rect class="bar" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
            f'height="{axes.y(0.0) - top:.1f}">{_tip(f"{name}: {number(value)}")}</rect>'
        )
        middle = (left + right) / 2
        if value:
            body.append(f'<text class="middle" x="{middle:.1f}" y="{top - 4:.1f}">{number(value)}</text>')
        body.append(f'<text class="middle" x="{middle:.1f}" y="{axes.height - BOTTOM + 15}">{escape(name)}</text>')
    return _svg(title, body, axes)


def heatmap(names: Sequence[str], matrix: Sequence[Sequence[float]], *, title: str) -> str:
    """A matrix as squares: blue below zero, white at zero, orange above; the scale stands beside it."""
    n = len(names)
    side = max(6.0, min(34.0, 460.0 / n))
    label = min(130.0, 7.0 * max(len(name) for name in names) + 8.0)
    most = max(1e-12, *(abs(v) for row in matrix for v in row))
    body = []
    for i, row in enumerate(matrix):
        for j, value in enumerate(row):
            tone = "hot" if value >= 0 else "cold"
            body.append(
                f'<rect class="{tone}" x="{label + j * side:.1f}" y="{label + i * side:.1f}" width="{side:.1f}" '
                f'height="{side:.1f}" fill-opacity="{abs(value) / most:.3f}">'
                f"{_tip(f'{names[i]} and {names[j]}: {value:.3f}')}</rect>"
            )
    step = max(1, math.ceil(13.0 / side))
    for i in range(0, n, step):
        at = label + (i + 0.5) * side
        short = escape(_short(names[i]))
        body.append(f'<text class="end" x="{label - 4:.1f}" y="{at + 4:.1f}">{short}</text>')
        body.append(f'<text transform="translate({at + 4:.1f} {label - 4:.1f}) rotate(-90)">{short}</text>')
    edge = label + n * side
    for k in range(21):
        value = 1.0 - k / 10.0
        tone = "hot" if value >= 0 else "cold"
        top = label + k * n * side / 21
        body.append(
            f'<rect class="{tone}" x="{edge + 14:.1f}" y="{top:.1f}" width="14" height="{n * side / 21 + 0.5:.1f}" '
            f'fill-opacity="{abs(value):.2f}"/>'
        )
    for value, share in ((most, 0.0), (0.0, 0.5), (-most, 1.0)):
        body.append(f'<text x="{edge + 34:.1f}" y="{label + share * (n * side - 8) + 9:.1f}">{value:.2f}</text>')
    return _svg(title, body, Axes(0, 1, 0, 1, edge + 84, edge + 6))


def blocks(matrix: Sequence[Sequence[float]]) -> list[int]:
    """An order of rows that puts like beside like: average linkage on 1 - similarity."""
    if len(matrix) < 3:
        return list(range(len(matrix)))
    import numpy as np
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    K = np.asarray(matrix)
    scale = np.sqrt(np.maximum(np.outer(np.diag(K), np.diag(K)), 1e-12))
    distance = np.maximum(1.0 - K / scale, 0.0)
    distance = (distance + distance.T) / 2.0
    np.fill_diagonal(distance, 0.0)
    return [int(i) for i in leaves_list(linkage(squareform(distance, checks=False), "average"))]


def empty(title: str) -> str:
    """In place of a chart that has nothing to show yet."""
    return f'<p class="empty">{escape(title)}: nothing yet.</p>'


def _frame(axes: Axes, x_label: str, y_label: str, x_ticks: bool = True) -> list[str]:
    bottom, right = axes.height - BOTTOM, axes.width - RIGHT
    body = []
    for value in ticks(axes.y0, axes.y1):
        y = axes.y(value)
        body.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        body.append(f'<text class="end" x="{LEFT - 6}" y="{y + 4:.1f}">{number(value)}</text>')
    if x_ticks:
        for value in ticks(axes.x0, axes.x1, 6):
            body.append(f'<text class="middle" x="{axes.x(value):.1f}" y="{bottom + 15}">{number(value)}</text>')
    body.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    middle = (LEFT + right) / 2
    body.append(f'<text class="middle" x="{middle}" y="{axes.height - 6}">{escape(x_label)}</text>')
    body.append(
        f'<text class="middle" transform="translate(13 {(TOP + bottom) / 2}) rotate(-90)">{escape(y_label)}</text>'
    )
    return body


def _svg(title: str, body: Sequence[str], axes: Axes) -> str:
    return (
        f'<svg viewBox="0 0 {axes.width:.0f} {axes.height:.0f}" role="img" aria-label="{escape(title)}" '
        f'style="max-width: {max(axes.width, 320):.0f}px">{"".join(body)}</svg>'
    )


def _points(axes: Axes, path: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{axes.x(a):.1f},{axes.y(v):.1f}" for a, v in path)


def _tip(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _short(name: str, most: int = 17) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
