"""Curves with bands as SVG text, drawn on the server. Colours come from the style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from kinbandits.service.stats import Interval

WIDTH, HEIGHT = 720, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 30, 46


@dataclass(frozen=True)
class Line:
    """A curve of (low, value, high); ``colour`` is 1 or 2."""

    name: str
    points: list[Interval | None]
    colour: int


def number(value: float) -> str:
    """Whole numbers with commas, others short.

    >>> number(12345.0), number(0.25), number(3.0)
    ('12,345', '0.25', '3')
    """
    return f"{int(value):,}" if value == int(value) and abs(value) < 1e15 else f"{value:.3g}"


def short(value: float | None) -> str:
    """Three digits, or a dash."""
    return "–" if value is None else f"{value:.3g}"


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


def lines(x: Sequence[float], curves: Sequence[Line], *, title: str, x_label: str, y_label: str) -> str:
    """Curves over x, with bands, a legend and axes."""
    values = [v for c in curves for p in c.points if p is not None for v in p]
    if not values:
        return f'<p class="empty">{escape(title)}: nothing yet.</p>'
    x0, x1 = min(x), max(0.0, *x)
    y0, y1 = min(*values, 0.0), max(*values, 0.0)
    x0, y1 = (x0 if x0 < x1 else x1 - 1.0), (y1 if y1 > y0 else y0 + 1.0)

    def at_x(value: float) -> float:
        return LEFT + (value - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)

    def at_y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM)

    def path(pairs: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{at_x(a):.1f},{at_y(v):.1f}" for a, v in pairs)

    body = []
    for value in ticks(y0, y1):
        y = f"{at_y(value):.1f}"
        body.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        body.append(f'<text class="end" x="{LEFT - 6}" y="{float(y) + 4:.1f}">{number(value)}</text>')
    for value in ticks(x0, x1):
        body.append(f'<text class="middle" x="{at_x(value):.1f}" y="{HEIGHT - BOTTOM + 16}">{number(value)}</text>')
    body.append(f'<text class="middle" x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 6}">{escape(x_label)}</text>')
    body.append(f'<text x="4" y="{TOP - 12}">{escape(y_label)}</text>')
    for i, curve in enumerate(curves):
        points = [(a, p) for a, p in zip(x, curve.points, strict=True) if p is not None]
        band = path([(a, p[2]) for a, p in points] + [(a, p[0]) for a, p in reversed(points)])
        kind = f'class="line c{curve.colour}"'
        body.append(f'<polygon class="band c{curve.colour}" points="{band}"/>')
        body.append(f'<polyline {kind} points="{path([(a, p[1]) for a, p in points])}"/>')
        for a, (low, v, high) in points:
            tip = f"{curve.name}: {number(v)} ({number(low)} to {number(high)}) at {number(a)}"
            dot = f'class="dot c{curve.colour}" cx="{at_x(a):.1f}" cy="{at_y(v):.1f}" r="2.5"'
            body.append(f"<circle {dot}><title>{escape(tip)}</title></circle>")
        left = LEFT + 60 + 190 * i
        body.append(f'<line {kind} x1="{left}" x2="{left + 24}" y1="14" y2="14"/>')
        body.append(f'<text x="{left + 30}" y="18">{escape(curve.name)}</text>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(body)}</svg>'
