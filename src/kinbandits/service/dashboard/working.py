"""The first panel: is it working? Reward and lift over a uniform choice, and who gets the traffic, over time."""

from __future__ import annotations

from collections import Counter
from typing import Any

from markupsafe import Markup

from kinbandits.service.dashboard import charts
from kinbandits.service.engine import Engine
from kinbandits.service.timeline import RANGES, Bucket

_SMOOTH = 5  # buckets on either side
_SHOWN = 6  # arms with a colour of their own


def working(engine: Engine, range_: str) -> dict[str, Any]:
    """What the template shows."""
    name = range_ if range_ in RANGES else "24h"
    timeline = engine.learner.state.timeline
    series = timeline.series(name, engine.clock())
    whole = Bucket()
    for _, bucket in series:
        whole.add(bucket)
    mean, uniform = whole.mean(timeline.binary), whole.uniform()
    return {
        "ranges": list(RANGES),
        "range": name,
        "mean": mean,
        "uniform": uniform,
        "verdict": verdict(mean, uniform),
        "whole": whole,
        "rate": whole.decisions / RANGES[name],
        "behind": engine.follower.behind_seconds,
        "reward_chart": Markup(_rewards(series, timeline.binary)),
        "traffic_chart": Markup(_traffic(series, whole.arms)),
    }


def verdict(mean: tuple[float, float, float] | None, uniform: tuple[float, float, float] | None) -> str:
    """In words.

    >>> verdict((0.3, 0.35, 0.4), (0.1, 0.2, 0.25))
    'Yes: it earns 0.15 more for each decision than a uniform choice would (75%).'
    """
    if mean is None:
        return "Too early to tell: there are no rewards in this range."
    if uniform is None:
        return "There is nothing to compare with: the log does not say what a uniform choice would earn."
    lift = mean[1] - uniform[1]
    share = f" ({lift / uniform[1]:.0%})" if uniform[1] > 0 else ""
    if mean[0] > uniform[2]:
        return f"Yes: it earns {lift:.3g} more for each decision than a uniform choice would{share}."
    if mean[2] < uniform[0]:
        return f"No: it earns {-lift:.3g} less for each decision than a uniform choice would{share}."
    return f"Not certain yet: {lift:+.3g} for each decision compared with a uniform choice{share}, within chance."


def _smoothed(series: list[tuple[float, Bucket]]) -> list[Bucket]:
    found = []
    for i in range(len(series)):
        around = Bucket()
        for _, bucket in series[max(0, i - _SMOOTH) : i + _SMOOTH + 1]:
            around.add(bucket)
        found.append(around)
    return found


def _hours(series: list[tuple[float, Bucket]]) -> list[float]:
    return [min(0.0, at / 3600.0) for at, _ in series]


def _rewards(series: list[tuple[float, Bucket]], binary: bool) -> str:
    around = _smoothed(series)
    earned, uniform = [b.mean(binary) for b in around], [b.uniform() for b in around]
    curves = [
        charts.Line("earned (95 % band)", *_columns(earned, 1)),
        charts.Line("uniform choice would", [None if u is None else u[1] for u in uniform], 2),
    ]
    return charts.lines(
        _hours(series), curves, title="Reward over time", x_label="hours; 0 is now", y_label="reward, smoothed"
    )


def _columns(bands: list[tuple[float, float, float] | None], colour: int) -> tuple[Any, int, Any, Any]:
    low, mean, high = ([None if b is None else b[i] for b in bands] for i in range(3))
    return mean, colour, low, high


def _traffic(series: list[tuple[float, Bucket]], total: Counter[str]) -> str:
    top = [arm for arm, _ in total.most_common(_SHOWN)]
    around = _smoothed(series)
    shares = [[b.arms[arm] / max(1, b.decisions) for b in around] for arm in top]
    if len(total) > len(top):
        top = [*top, "others"]
        shares.append([max(0.0, 1.0 - sum(column)) for column in zip(*shares, strict=True)])
    return charts.stacked(_hours(series), top, shares, title="Share of decisions by arm", x_label="hours; 0 is now")
