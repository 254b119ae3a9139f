"""Running the comparison, data set by data set, and reading what is finished."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from compare.catalogue import PEERS
from compare.costs import cost_of
from compare.edges import Edges, try_edges
from compare.plan import DEFAULT, INVERSE, Plan, setting_name, setting_text, title
from kinbandits._files import atomic_write
from kinbandits._types import Vector
from kinbandits.experiments import CellStore, Experiment, run_experiment
from kinbandits.experiments.config import Cell, policy_named
from kinbandits.experiments.store import load_cell

__all__ = ["MethodRow", "Standings", "edges_of", "missing", "read", "record", "run"]

FIRST = 50
"""Rounds after which a peer that is not run was timed."""


@dataclass(frozen=True)
class MethodRow:
    """One method on one problem.

    Attributes:
        title: of the method.
        peer: name of the peer, or None for a method of ours.
        settings: as text.
        regret: (seeds,) final regret of each, NaN while it is not finished.
        cpu_ms: of a decision and update; None if not measured.
        megabytes: that the policy has grown to.
        recorded: mean, standard deviation and number of seeds of an earlier run, of which no more was kept.
    """

    title: str
    peer: str | None
    settings: str
    regret: Vector
    cpu_ms: float | None = None
    megabytes: float | None = None
    recorded: tuple[float, float, int] | None = None

    @property
    def seeds(self) -> int:
        """How many there are."""
        return self.recorded[2] if self.recorded else len(self.finished)

    @property
    def finished(self) -> Vector:
        """Of the seeds that are there."""
        return self.regret[~np.isnan(self.regret)]

    @property
    def mean(self) -> float:
        """Over seeds."""
        if self.recorded:
            return self.recorded[0]
        return float(self.finished.mean()) if len(self.finished) else math.nan

    @property
    def sd(self) -> float:
        """Standard deviation over seeds."""
        if self.recorded:
            return self.recorded[1]
        return float(self.finished.std(ddof=1)) if len(self.finished) > 1 else math.nan

    def wins_against(self, other: MethodRow) -> tuple[int, int]:
        """In how many seeds the regret is lower, and of how many."""
        difference = self._less(other)
        return int((difference < 0.0).sum()), len(difference)

    def mean_difference(self, other: MethodRow) -> float:
        """Of regret, over the seeds that both have; NaN if there are none. Of the means, where one was recorded."""
        if self.recorded or other.recorded:
            return self.mean - other.mean
        difference = self._less(other)
        return float(difference.mean()) if len(difference) else math.nan

    def _less(self, other: MethodRow) -> Vector:
        if self.recorded or other.recorded:
            return np.empty(0)
        difference = self.regret - other.regret
        return difference[~np.isnan(difference)]


@dataclass(frozen=True)
class Standings:
    """One data set: its lines, best first, who was left out, and of which grids only a part was tried."""

    name: str
    title: str
    rounds: int
    arms: int
    rows: tuple[MethodRow, ...]
    left_out: dict[str, str]
    tried: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def row(self, title: str) -> MethodRow | None:
        """The row of this title."""
        return next((x for x in self.rows if x.title == title), None)


def run(
    plan: Plan,
    directory: Path,
    *,
    jobs: int = -1,
    costs: bool = True,
    first: bool = False,
    stream: TextIO | None = sys.stderr,
) -> None:
    """Compute what is not there yet. Stop and go on as you like. With ``first``, only costs of the first rounds."""
    say = _say(stream)
    for name in plan.data:
        say(f"== {title(name)}")
        if first:
            for cell in _first_rounds(plan, name).values():
                cost_of(cell, directory / "costs")
            continue
        for peer, why in plan.left_out(name).items():
            say(f"   {PEERS[peer].title} is left out: {why}")
        grid = plan.grid(name)
        if grid is not None:
            run_experiment(grid, directory, jobs=jobs, stream=stream)
        best = _best(plan, name, _grid_regrets(plan, name, directory))
        final = plan.final(name, best)
        run_experiment(final, directory, jobs=jobs, stream=stream)
        if costs:
            for cell in final.cells():
                if cell.seed == 0:
                    cost_of(cell, directory / "costs")


def _first_rounds(plan: Plan, name: str) -> dict[str, Cell]:
    """A short game of every peer: what a decision costs where a whole game would take too long."""
    settings = {p: plan.tried(p, name)[0] for p in plan.here() if p not in plan.left_out(name)}
    names = {setting_name(p, s): p for p, s in settings.items()}
    cells = replace(plan, horizon=FIRST, seeds=1).final(name, settings).cells()
    return {names[c.method.name]: c for c in cells if c.method.name in names}


def missing(plan: Plan, directory: Path) -> Iterator[tuple[str, str, int]]:
    """What `run` would compute: problem, method, and how many seeds of it are not there yet."""
    done = CellStore(directory).done()
    for name in plan.data:
        best = _best(plan, name, _grid_regrets(plan, name, directory))
        parts = [plan.grid(name), plan.final(name, best)]
        cells = {c.id: c for part in parts if part is not None for c in part.cells()}
        count = Counter(c.method.name for c in cells.values() if c.id not in done)
        yield from ((title(name), method, n) for method, n in count.items())


def _grid_regrets(plan: Plan, name: str, directory: Path) -> dict[str, Vector]:
    grid = plan.grid(name)
    return {} if grid is None else regrets(grid, directory)


def _best(plan: Plan, name: str, found: Mapping[str, Vector]) -> dict[str, dict[str, Any]]:
    """The settings of each peer with the least mean of ``found`` (regrets on the grid), as far as finished."""
    best = {}
    for peer in plan.here():
        if peer in plan.left_out(name):
            continue
        mine, judge = plan.tried(peer, name), plan.chooses_for(peer, name)
        if len(mine) == 1:
            best[peer] = mine[0]
            continue
        tried = enumerate(plan.tried(judge, name))
        means = [(found[n].mean(), i) for i, s in tried if (n := setting_name(judge, s)) in found]
        finished = [m for m in means if not math.isnan(m[0])]
        if finished:
            best[peer] = mine[min(finished)[1]]
    return best


def regrets(experiment: Experiment, directory: Path) -> dict[str, Vector]:
    """Final regret by method, (seeds,), NaN where a cell is not finished: expected regret where means are known."""
    store, done = CellStore(directory), CellStore(directory).done()
    found: dict[str, Vector] = {m.name: np.full(len(experiment.seeds), np.nan) for m in experiment.methods}
    for cell in experiment.cells():
        if cell.id in done:
            trace = load_cell(store.cell_path(cell))
            expected = trace.final_expected_regret
            place = experiment.seeds.index(cell.seed)
            found[cell.method.name][place] = trace.final_regret if math.isnan(expected) else expected
    return found


def read(plan: Plan, directory: Path, recorded: Path | None = None) -> list[Standings]:
    """What is finished; and from the file ``recorded`` the methods that were run before on more seeds."""
    known = {} if recorded is None else json.loads(recorded.read_text(encoding="utf-8"))
    found = (_problem(plan, name, directory, known.get(name, [])) for name in plan.data)
    return [p for p in found if p.rows]


def _problem(plan: Plan, name: str, directory: Path, recorded: Sequence[Mapping[str, Any]]) -> Standings:
    grid = _grid_regrets(plan, name, directory)
    best = _best(plan, name, grid)
    final = plan.final(name, best)
    found = regrets(final, directory)
    titles = {
        setting_name(p, s): (PEERS[p].title, None if PEERS[p].own else p, setting_text(s)) for p, s in best.items()
    }
    lines, costs = [], {}
    for method in final.methods:
        shown, peer, settings = titles.get(method.name, (method.name, None, _ours_text(method.name)))
        cell = next(c for c in final.cells() if c.method.name == method.name)
        path = directory / "costs" / f"{cell.id}.json"
        cost = cost_of(cell, path.parent) if path.exists() else {}
        costs[shown] = cost.get("cpu_ms"), cost.get("megabytes")
        if not np.isnan(found[method.name]).all():
            lines.append(MethodRow(shown, peer, settings, found[method.name], *costs[shown]))
    there = {x.title: x.seeds for x in lines}
    for old in recorded:
        row = _remembered(old, plan.seeds, costs.get(old["title"], (None, None)))
        if there.get(row.title, 0) < row.seeds:
            lines = [*(x for x in lines if x.title != row.title), row]
    left_out = plan.left_out(name)
    for peer, cell in _first_rounds(plan, name).items():
        if (directory / "costs" / f"{cell.id}.json").exists():
            left_out[peer] = (
                f"{cost_of(cell, directory / 'costs')['cpu_ms']:.0f} ms in each of the first {FIRST} rounds"
            )
    environment = plan._make(name)
    return Standings(
        name,
        title(name),
        environment.horizon,
        len(environment.arms),
        tuple(sorted(lines, key=lambda x: x.mean)),
        left_out,
        _partly_tried(plan, name, grid),
    )


def _partly_tried(plan: Plan, name: str, found: Mapping[str, Vector]) -> dict[str, tuple[int, int]]:
    """Settings finished, and of how many, for peers whose grid was begun and is not whole."""
    told = {}
    for peer in plan.here():
        whole = replace(plan, grid_size=None).tried(peer, name)
        values = [found[n] for s in whole if (n := setting_name(peer, s)) in found]
        done = sum(not np.isnan(v).any() for v in values)
        if 0 < done < len(whole):
            told[PEERS[peer].title] = done, len(whole)
    return told


def _remembered(old: Mapping[str, Any], seeds: int, cost: tuple[float | None, float | None]) -> MethodRow:
    """A row of an earlier run, with its cost of today: that of another day would not compare."""
    if "regret" not in old:
        told = old["mean"], math.nan if old["sd"] is None else old["sd"], old["seeds"]
        return MethodRow(old["title"], old["peer"], old["settings"], np.empty(0), *cost, told)
    regret = np.full(seeds, np.nan)
    known = np.array(old["regret"][:seeds], dtype=float)
    regret[: len(known)] = known
    return MethodRow(old["title"], old["peer"], old["settings"], regret, *cost)


def record(problems: Sequence[Standings], path: Path) -> None:
    """Keep the regret of every seed of what is not our policy, in the place of what was kept before."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for problem in problems:
        rows = {old["title"]: old for old in known.get(problem.name, [])}
        for x in problem.rows:
            if not x.recorded and x.title not in (DEFAULT, INVERSE):
                regret = [None if math.isnan(r) else round(float(r), 2) for r in x.regret]
                rows[x.title] = {"title": x.title, "peer": x.peer, "settings": x.settings, "regret": regret}
        known[problem.name] = list(rows.values())
    lines = [
        f' "{name}": [\n' + ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows) + "\n ]"
        for name, rows in known.items()
    ]
    atomic_write(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def _ours_text(name: str) -> str:
    if name in (DEFAULT, INVERSE):
        return "out of the box" if name == DEFAULT else "`exploration=kb.InverseGap()`"
    return "its defaults"


def edges_of(plan: Plan) -> Iterator[tuple[str, Edges]]:
    """What each library does with bad input; one policy of each speaks for it."""
    yield "kinbandits", try_edges(policy_named("KMTLUCB"))
    seen = set()
    for peer in plan.here():
        entry = PEERS[peer]
        if not entry.library or entry.package in seen:
            continue
        seen.add(entry.package)
        knobs = {k: v for k, v in entry.grid[0].items() if k != "scaling"}
        yield entry.package, try_edges(partial(policy_named(entry.policy), **knobs))


def _say(stream: TextIO | None) -> Callable[[str], None]:
    def say(text: str) -> None:
        if stream is not None:
            print(text, file=stream, flush=True)

    return say
