"""The dashboard: one page for people, drawn on the server; a small script asks for it again every few seconds.

Nothing is fetched from elsewhere, and all works without the script: what is looked for stands in the query.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, HTMLResponse
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from kinbandits._version import __version__
from kinbandits.service import choose
from kinbandits.service.api import reading, serving
from kinbandits.service.dashboard import charts
from kinbandits.service.engine import Engine
from kinbandits.service.messages import ID, Problem
from kinbandits.service.metrics import CONTENT_TYPE, Metrics
from kinbandits.service.stats import COARSE, Bucket, Interval, Stats

RANGES = {"1h": 3600.0, "24h": 86_400.0, "7d": 604_800.0, "30d": 2_592_000.0}
_FILES = {"style.css": "text/css", "live.js": "text/javascript"}
_HERE = Path(__file__).parent
_ARMS = 50  # shown at once
_TOO_FEW = 30  # rewards


def add_pages(app: FastAPI, engine: Engine, metrics: Metrics) -> None:
    """What people look at, and Prometheus."""
    page = partial(app.get, tags=["read"], include_in_schema=False)
    jinja = Environment(loader=FileSystemLoader(_HERE), autoescape=True)
    jinja.filters |= {"ago": _ago, "number": charts.number, "short": charts.short}

    @page("/")
    async def home(request: Request) -> Response:
        query = dict(request.query_params)
        values = await reading(shown, engine, metrics, query)
        return HTMLResponse(jinja.get_template("home.html").render(version=__version__, **values))

    @page("/static/{name}")
    async def static(name: str) -> Response:
        if name not in _FILES:
            raise Problem(404, "not_found", "there is nothing here")
        return FileResponse(_HERE / name, media_type=_FILES[name])

    @page("/metrics")
    async def prometheus() -> Response:
        return Response(await reading(metrics.text), media_type=CONTENT_TYPE)


def shown(engine: Engine, metrics: Metrics, query: dict[str, str]) -> dict[str, Any]:
    """What the template shows."""
    model, now = serving(engine), engine.clock()
    stats: Stats = model.stats
    arms = _arms(stats, query.get("find", ""), query.get("sort", "pulls"))
    return {
        "trouble": engine.trouble,
        "now": now,
        "query": query,
        "ranges": list(RANGES),
        **working(stats, model.policy.epsilon, query.get("range", ""), now),
        "latency": metrics.latency(),
        "behind": engine.learner.behind(),
        "arms": arms[:_ARMS],
        "n_arms": len(arms),
        "most": max([1, *(a["pulls"] for a in arms)]),
        "records": engine.store.find_records(limit=12),
        **_explained(engine, query.get("explain", "").strip()),
        "engine": _engine(engine),
    }


def working(stats: Stats, epsilon: float, range_: str, now: float) -> dict[str, Any]:
    """Reward, and what a uniform choice would have earned, over a range of time."""
    coarse = stats.series["coarse"]
    usual = "1h" if not coarse or now - coarse[0][0] * COARSE[0] < RANGES["1h"] else "24h"
    name = range_ if range_ in RANGES else usual
    series = stats.since(RANGES[name], now)
    whole, curves = Bucket(), (charts.Line("earned", [], 1), charts.Line("a uniform choice would earn", [], 2))
    for i, (_, bucket) in enumerate(series):
        whole.add(bucket)
        around = Bucket()
        for _, near in series[max(0, i - 2) : i + 3]:
            around.add(near)
        curves[0].points.append(stats.earned(around))
        curves[1].points.append(stats.uniform(around, epsilon))
    mean, uniform = stats.earned(whole), stats.uniform(whole, epsilon)
    unit, size = {"1h": ("minutes", 60.0), "24h": ("hours", 3600.0)}.get(name, ("days", 86_400.0))
    x, title = [at / size for at, _ in series], "Reward over time, with 95 % bands"
    return {
        "range": name,
        "verdict": verdict(mean, uniform, int(whole["rewards"]), whole["w"]),
        "mean": mean,
        "uniform": uniform,
        "whole": whole,
        "states": stats.states,
        "chart": Markup(charts.lines(x, curves, title=title, x_label=f"{unit}; 0 is now", y_label="reward")),
    }


def verdict(mean: Interval | None, uniform: Interval | None, rewards: int, weight: float) -> str:
    """In words, from score intervals.

    >>> verdict((0.30, 0.35, 0.40), (0.1, 0.2, 0.25), 500, 480.0)
    'Yes: a decision earns 0.35 (0.3 to 0.4), a uniform choice would earn 0.2 (0.1 to 0.25).'
    >>> verdict((0.30, 0.35, 0.40), (0.1, 0.2, 0.31), 500, 480.0)
    'Too early to tell: a decision earns 0.35 (0.3 to 0.4), a uniform choice would earn 0.2 (0.1 to 0.31).'
    """
    if mean is None or uniform is None:
        return "Too early to tell: there are no rewards in this range."
    numbers = "a decision earns {1:.2g} ({0:.2g} to {2:.2g})".format(*mean)
    numbers += ", a uniform choice would earn {1:.2g} ({0:.2g} to {2:.2g}).".format(*uniform)
    if rewards >= _TOO_FEW and weight >= 0.5 * rewards:  # else the log has hardly any uniform choices yet
        if mean[0] > uniform[2]:
            return f"Yes: {numbers}"
        if mean[2] < uniform[0]:
            return f"No: {numbers}"
    return f"Too early to tell: {numbers}"


def _arms(stats: Stats, find: str, sort: str) -> list[dict[str, Any]]:
    """The arms that are looked for, in order."""
    rows = [row for row in stats.arm_table() if find.lower() in str(row["arm"]).lower()]
    if sort == "name":
        return sorted(rows, key=lambda row: str(row["arm"]))
    key = {"reward": "mean_reward", "last": "last_pull"}.get(sort, "pulls")
    return sorted(rows, key=lambda row: -float("inf") if row[key] is None else row[key], reverse=True)


def _explained(engine: Engine, identifier: str) -> dict[str, Any]:
    """Why one decision was made."""
    record = engine.store.record(identifier) if re.fullmatch(ID[1:-1], identifier) else None
    found = None if record is None else choose.explain(serving(engine), record)
    contributions = [(arm, v) for arm, v in found["contributions"] if v][:10] if found else []
    largest = max([1e-12, *(abs(v) for _, v in contributions)])
    shares = [(arm, v, abs(v) / largest) for arm, v in contributions]
    return {"explained": found, "record": record, "contributions": shares}


def _engine(engine: Engine) -> list[tuple[str, str]]:
    model = serving(engine)
    rows = [
        ("Policy", repr(model.policy).partition("  #")[0]),
        ("Rows learned", f"{model.policy.n_observations:,}"),
        ("Model", str(model.policy.model)),
        ("Exploration floor", f"epsilon {model.policy.epsilon:g}"),
        ("Events in the log", f"{engine.last_seq:,}"),
        ("Not yet learned", f"{max(0, engine.last_seq - model.seq):,} events"),
        ("Rows not learned", f"{model.stats.refused:,}"),
        *((f"Event {seq:,}", reason[:200]) for seq, reason in model.stats.last_refused),
        ("Requests waiting", f"{engine.writer.waiting:,}"),
        ("Log", engine.store.name),
    ]
    sizes = engine.store.database.sizes()
    if sizes is not None:
        rows.append(("Size, and free space", "{:,.1f} MB, {:,.0f} MB".format(*(s / 1e6 for s in sizes))))
    return rows


def _ago(then: float | None, now: float) -> str:
    if then is None:
        return "never"
    seconds = max(0.0, now - then)
    size, unit = next(((s, u) for s, u in ((86_400, "d"), (3600, "h"), (60, "min")) if seconds >= s), (1, "s"))
    return f"{seconds / size:.0f} {unit} ago"
