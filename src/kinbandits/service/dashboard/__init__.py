"""The dashboard: pages for people, drawn on the server, kept up to date by a small script of our own.

Nothing is fetched from elsewhere. Each panel is a fragment under ``/view/``, which the script asks for again every
few seconds; without the script the page shows the state it was loaded with.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import re
import time
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup

from kinbandits._version import __version__
from kinbandits.errors import InvalidInputError
from kinbandits.noise import Noise
from kinbandits.service.chooser import explain_record
from kinbandits.service.dashboard import charts, reference
from kinbandits.service.dashboard.working import working
from kinbandits.service.engine import Engine
from kinbandits.service.guard import COOKIE, root_of
from kinbandits.service.messages import ID, ShadowState
from kinbandits.service.metrics import Metrics
from kinbandits.service.problems import Problem
from kinbandits.service.shadow_states import shadow_states
from kinbandits.service.state import DELAY_EDGES
from kinbandits.service.tokens import Keyring
from kinbandits.similarity import Similarity

PANELS = (
    "working",
    "summary",
    "regret",
    "arms",
    "similarity",
    "choices",
    "widths",
    "delays",
    "decisions",
    "engine",
    "shadows",
)
_STATIC = Path(__file__).parent / "static"
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def add_pages(app: FastAPI, engine: Engine, keyring: Keyring, metrics: Metrics) -> None:
    """Add the pages to the service."""
    pages = Pages(engine, metrics)

    async def home(request: Request) -> Response:
        range_ = request.query_params.get("range", "")
        return HTMLResponse(await asyncio.to_thread(pages.home, range_, root_of(request.scope)))

    async def panel(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in PANELS:
            raise Problem(404, "not_found", "there is nothing here")
        range_ = request.query_params.get("range", "")
        return HTMLResponse(await asyncio.to_thread(pages.panel, name, range_, root_of(request.scope)))

    async def explain(request: Request) -> Response:
        return HTMLResponse(await asyncio.to_thread(pages.explain, request.query_params.get("id", "").strip()))

    async def docs(request: Request) -> Response:
        found = reference.operations(app.openapi())
        return HTMLResponse(pages.render("docs.html", operations=found, root=root_of(request.scope)))

    async def login_form(request: Request) -> Response:
        return HTMLResponse(pages.render("login.html", failed=False, root=root_of(request.scope)))

    async def login(request: Request) -> Response:
        body = (await request.body())[:1000].decode("ascii", "replace")
        found = await asyncio.to_thread(keyring.find, body.removeprefix("token=").strip())
        if found is None or not {"read", "admin"}.intersection(found.roles):
            return HTMLResponse(pages.render("login.html", failed=True, root=root_of(request.scope)), 401)
        root = root_of(request.scope)
        response = RedirectResponse(f"{root}/", 303)
        secure = request.url.scheme == "https"
        session = await asyncio.to_thread(keyring.open_session, found)
        response.set_cookie(COOKIE, session, path=f"{root}/", httponly=True, samesite="strict", secure=secure)
        return response

    async def static(request: Request) -> Response:
        path = _STATIC / request.path_params["name"]
        if path.parent != _STATIC or path.suffix not in _TYPES or not path.is_file():
            raise Problem(404, "not_found", "there is nothing here")
        return FileResponse(path, media_type=_TYPES[path.suffix])

    routes: list[tuple[str, Any, str]] = [
        ("/", home, "GET"),
        ("/view/explain", explain, "GET"),
        ("/view/{name}", panel, "GET"),
        ("/docs", docs, "GET"),
        ("/login", login_form, "GET"),
        ("/login", login, "POST"),
        ("/static/{name}", static, "GET"),
    ]
    for path, endpoint, method in routes:
        app.add_api_route(path, endpoint, methods=[method], include_in_schema=False)


class Pages:
    """Templates, filled with what the engine knows."""

    def __init__(self, engine: Engine, metrics: Metrics) -> None:
        self.engine, self.metrics = engine, metrics
        self._jinja = Environment(
            loader=PackageLoader("kinbandits.service.dashboard"), autoescape=select_autoescape(default=True)
        )
        self._jinja.filters |= {"ago": _ago, "number": charts.number, "short": _short}

    def render(self, template: str, **values: Any) -> str:
        """A page."""
        return self._jinja.get_template(template).render(version=__version__, **values)

    def home(self, range_: str = "", root: str = "") -> str:
        """The whole page, with all panels filled."""
        panels = {name: Markup(self.panel(name, range_, root)) for name in PANELS}
        return self.render("home.html", panels=panels, root=root, arms=self.engine.serving.policy.active_arms)

    def panel(self, name: str, range_: str = "", root: str = "") -> str:
        """One panel; the first shows a range of time."""
        if name == "working":
            shown = working(self.engine, range_) | {"latency": self.metrics.latency()}
        else:
            shown = getattr(self, f"_{name}")()
        return self.render(f"{name}.html", root=root, **shown)

    # -- what each panel shows ------------------------------------------------------------------

    def _summary(self) -> dict[str, Any]:
        engine = self.engine
        state = engine.learner.state
        counters = dict.fromkeys(("duplicate", "conflicting", "dangling"), 0) | engine.store.counters()
        return {"state": state, "counters": counters, "policy": engine.serving.policy, "ready": engine.ready}

    def _regret(self) -> dict[str, Any]:
        state = self.engine.learner.state
        sums = {name: list(itertools.accumulate(column)) for name, column in state.curve.columns().items()}
        curve = charts.Line("estimated (band: at most)", sums["regret"], 3, sums["regret"], sums["regret_most"])
        title = "Estimated regret, summed up"
        chart = charts.lines(sums["decisions"], [curve], title=title, x_label="decisions", y_label="regret")
        return {"chart": Markup(chart), "imported": state.imported}

    def _widths(self) -> dict[str, Any]:
        columns = self.engine.learner.state.curve.columns()
        counts, title = columns["decisions"], "Width at decisions"
        means = [w / n if n else None for w, n in zip(columns["width"], counts, strict=True)]
        curve = charts.Line("mean width of the arms chosen", means, 2)
        x = list(itertools.accumulate(counts))
        return {"chart": Markup(charts.lines(x, [curve], title=title, x_label="decisions", y_label="width"))}

    def _arms(self) -> dict[str, Any]:
        rows = self.engine.learner.state.arm_table()
        policy = self.engine.serving.policy
        widths = {}
        if self.engine.n_features is not None:
            recent = self.engine.store.find_records(limit=1)
            if recent:
                context = recent[0].body["context"]
                x = context[0] if isinstance(context[0], list) else context
                mean, width = policy.predict(x, list(policy.arms))
                widths = dict(zip(policy.arms, zip(mean.tolist(), width.tolist(), strict=True), strict=True))
        most = max([1, *(r["pulls"] for r in rows)])
        return {"rows": rows, "widths": widths, "most": most, "now": time.time()}

    def _similarity(self) -> dict[str, Any]:
        policy = self.engine.serving.policy
        matrix = policy.similarity_matrix(0).tolist()
        order = charts.blocks(matrix)
        names = [str(policy.arms[i]) for i in order]
        ordered = [[matrix[i][j] for j in order] for i in order]
        chart = Markup(charts.heatmap(names, ordered, title="Similarity of arms"))
        return {"chart": chart, "n": len(names)}

    def _choices(self) -> dict[str, Any]:
        """Why the similarity is what it is, where it is chosen from the data."""
        policy = self.engine.serving.policy
        try:
            report = policy.similarity_report(complete=False)
        except InvalidInputError:
            return {"report": None, "said": _about(policy.terms.terms[0].similarity)}
        past = report.over_time
        if not any(c.candidates for c in past):
            return {"report": report, "shares": "", "leads": "", "candidates": []}
        rows = [float(c.rows) for c in past]
        steps = [
            (x, c.mu) for c, end in zip(past, [*rows[1:], rows[-1]], strict=True) for x in (float(c.rows), end)
        ]
        shares = charts.lines(
            [x for x, _ in steps],
            [charts.Line("chosen mu (0: independent)", [mu for _, mu in steps], 1)],
            title="How much of the estimate is used",
            x_label="rows learned",
            y_label="mu",
        )
        best = [max((e.log_likelihood for e in c.candidates if e.mu), default=math.nan) for c in past]
        own = [c.candidates[0].log_likelihood if c.candidates else math.nan for c in past]
        lead = [b - o if math.isfinite(b - o) else None for b, o in zip(best, own, strict=True)]
        curves = [charts.Line("best candidate", lead, 3)]
        if report.margin is not None and not report.posterior:
            curves.append(charts.Line("needed", [report.margin] * len(rows), 2))
        title = "Fit above independent arms"
        leads = charts.lines(rows, curves, title=title, x_label="rows learned", y_label="nats")
        return {"report": report, "shares": Markup(shares), "leads": Markup(leads), "candidates": report.candidates}

    def _shadows(self) -> dict[str, Any]:
        """What other policies would have earned."""
        found = shadow_states(self.engine)
        return {"shadows": found, "verdicts": {s.name: _verdict(s) for s in found}}

    def _delays(self) -> dict[str, Any]:
        counts = self.engine.learner.state.delays
        names = [_seconds(edge) for edge in DELAY_EDGES] + ["more"]
        title = "Delay of rewards"
        chart = charts.bars(names, counts, title=title, x_label="seconds, at most", y_label="rewards")
        return {"chart": Markup(chart)}

    def _decisions(self) -> dict[str, Any]:
        return {"records": self.engine.store.find_records(limit=12), "now": time.time()}

    def _engine(self) -> dict[str, Any]:
        engine = self.engine
        policy = engine.serving.policy
        events = engine.store.last_seq()
        return {
            "rows": [
                ("Policy", repr(policy).partition("  #")[0]),
                ("Rows learned", f"{policy.n_observations:,}"),
                *_noise(policy.noise),
                ("Rows refused", f"{engine.learner.refused:,}"),
                ("Events in the log", f"{events:,}"),
                ("Not yet learned", f"{max(0, events - engine.serving.seq):,} events"),
                ("Model behind the log", f"{engine.follower.behind_seconds:.1f} s"),
                ("Last slice of learning", f"{1000 * engine.follower.slice_seconds:.0f} ms"),
                ("Requests waiting", f"{engine.waiting:,}"),
                ("Exploration floor", f"epsilon {policy.epsilon:g}"),
                ("Log", engine.store.url),
            ],
            "deterministic": policy.epsilon == 0.0,
        }

    def explain(self, identifier: str) -> str:
        """One decision, taken apart."""
        record = self.engine.store.record(identifier) if re.fullmatch(ID[1:-1], identifier) else None
        if record is None:
            return self.render("explain.html", record=None, asked=bool(identifier))
        explanation = explain_record(record, self.engine.serving.policy)
        lent = list(explanation.lent.items())[:12] if explanation is not None else []
        largest = max([1e-12, *(abs(v) for _, v in lent)])
        return self.render(
            "explain.html", record=record, explanation=explanation, lent=lent, largest=largest, now=time.time()
        )


def _about(similarity: Similarity) -> str:
    """Where a similarity comes from that has no choices to show."""
    if similarity.fixed:
        return "This similarity is given, not chosen from the data."
    if similarity.steps:
        return "This similarity was chosen from the data; the rows it was chosen from are no longer kept."
    return "This similarity is estimated from the data and follows every row, so there are no choices to show."


def _noise(noise: Noise | None) -> list[tuple[str, str]]:
    """What was learned about rewards, and when it moved."""
    if noise is None:
        return [("Noise of rewards", "as given, not learned")]
    moves = ", ".join(f"{move.ridge:.3g} from {move.rows:,} rows on" for move in noise.moves[-5:])
    return [("Noise of rewards", str(noise)), ("Ridge, last moves", moves or "none yet")]


def _verdict(shadow: ShadowState) -> str:
    if shadow.value is None or shadow.served is None:
        return "too early to say"
    if shadow.warnings:
        return "the log cannot tell, see below"
    if shadow.value.low > shadow.served.high:
        return "better than what is served"
    if shadow.value.high < shadow.served.low:
        return "worse than what is served"
    return "no clear difference yet"


def _ago(then: float | None, now: float) -> str:
    if then is None:
        return "never"
    seconds = max(0.0, now - then)
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def _seconds(edge: float) -> str:
    return f"{edge:g}" if edge < 1000 else f"{edge / 1000:g}k"


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
