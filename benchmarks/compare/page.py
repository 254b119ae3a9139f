"""The CSV file of every row, and docs/comparison.md, which is written from that file alone."""

from __future__ import annotations

import csv
import math
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import kinbandits as kb
from compare.problems import PROBLEMS
from compare.run import METHODS, OURS, PEERS, Cells, Game, seeds_of, title, why_not

__all__ = ["CSV", "PAGE", "Row", "page", "read", "rows", "write"]

CSV, PAGE = Path("benchmarks/results/comparison.csv"), Path("docs/comparison.md")
COSTED = ("clicks-12-13", "hidden-0.5", "digits")
LOST = 1.05
"""Beaten is a mean that is larger by more than this."""


class Row(NamedTuple):
    """A method on a problem. ``same`` and ``wins``: the default's mean on the same seeds, and where it is lower."""

    problem: str
    rounds: int
    arms: int
    method: str
    family: str
    settings: str
    seeds: int
    regret: float
    sd: float
    same: float
    wins: int
    cpu_ms: str
    mb: str
    version: str
    date: str

    @property
    def ratio(self) -> float:
        """The default's regret over this one's."""
        return self.same / self.regret

    @property
    def rival(self) -> bool:
        return self.family != "ours"


def rows(cells: Cells, seeds: int = 10) -> Iterator[Row]:
    """What is finished, problem by problem."""
    commit = _commit()
    for name, problem in PROBLEMS.items():
        environment = problem.make(0)
        default = np.array(cells.regrets(name, "ours", {}, range(seeds)))
        for method in METHODS:
            settings = None if why_not(name, method) else cells.chosen(name, method)
            if settings is None:
                continue
            regret = np.full(seeds, np.nan)
            n = min(seeds, seeds_of(name, method))
            regret[:n] = cells.regrets(name, method, settings, range(n))
            here = ~np.isnan(regret)
            if not here.any():
                continue
            both = here & ~np.isnan(default)
            first = Game(name, method, int(np.flatnonzero(here)[0]), settings)
            spent = cells.cost(first) or {}
            yield Row(
                problem.title,
                environment.horizon,
                len(environment.arms),
                title(method),
                "ours" if method in OURS else PEERS[method].family,
                OURS[method].settings if method in OURS else _text(settings),
                int(here.sum()),
                round(float(regret[here].mean()), 1),
                round(float(regret[here].std(ddof=1)), 1) if here.sum() > 1 else math.nan,
                round(float(default[both].mean()), 1) if both.any() else math.nan,
                int((default[both] < regret[both]).sum()),
                f"{spent['cpu_ms']:.2f}" if spent else "",
                f"{spent['mb']:.1f}" if spent else "",
                commit if method in OURS else first.record()["version"],
                cells.date(first),
            )


def _commit() -> str:
    """Of our sources."""
    asked = ["git", "-C", str(Path(kb.__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def _text(settings: dict[str, object]) -> str:
    """Settings as a person would note them."""
    shown = [str(v) if k in ("options", "scaling") else f"{k} {v}" for k, v in settings.items()]
    return ", ".join(shown)


def write(found: Iterable[Row]) -> None:
    """The CSV file and the page."""
    with CSV.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(Row._fields)
        writer.writerows(found)
    PAGE.write_text(page(read()), encoding="utf-8")


def read() -> list[Row]:
    """The rows of the CSV file."""
    with CSV.open(encoding="utf-8", newline="") as stream:
        kinds = Row.__annotations__
        casts = {"int": int, "float": float, "str": str}
        return [Row(**{k: casts[str(kinds[k])](v) for k, v in r.items()}) for r in csv.DictReader(stream)]


# -- the page -----------------------------------------------------------------------------------


def best_rival(of_problem: Sequence[Row]) -> Row:
    """The one that beats the default by the most, or else is nearest, on the seeds that both played."""
    return max((r for r in of_problem if r.rival), key=lambda r: r.ratio)


def page(found: Sequence[Row]) -> str:
    """docs/comparison.md."""
    problems = {r.problem: [s for s in found if s.problem == r.problem] for r in found}
    both = {p: (_of(rs, "kinbandits default"), best_rival(rs)) for p, rs in problems.items()}
    best = [p for p, (_, rival) in both.items() if rival.ratio <= 1.0]
    lost = [p for p, (_, rival) in both.items() if rival.ratio > LOST]
    reasons = "\n".join(f"- **{p}.** {_beaten(both[p][1])} {REASONS.get(p, '')}".rstrip() for p in lost)
    few = sorted({f"{r.method} on {r.problem} ({r.seeds})" for r in found if r.seeds < 10})
    versions = ", ".join(dict.fromkeys(f"{p.package} {_versions(found)[p.title]}" for p in PEERS.values()
                                       if p.package != "numpy" and p.title in _versions(found)))  # fmt: skip
    ours = both[next(iter(both))][0]
    return TEXT.format(
        best=len(best),
        n=len(both),
        lost=len(lost),
        lost_names=", ".join(lost) if lost else "none",
        main=_main(both, problems),
        every=_every(problems),
        reasons=reasons or "None.",
        cost=_cost(found),
        few="; ".join(few) + "." if few else "none.",
        versions=versions,
        commit=ours.version,
        date=max(r.date for r in found),
    )


def _of(of_problem: Sequence[Row], method: str) -> Row:
    return next(r for r in of_problem if r.method == method)


def _versions(found: Sequence[Row]) -> dict[str, str]:
    return {r.method: r.version for r in found}


def _beaten(rival: Row) -> str:
    return (
        f"{rival.method} has {_number(rival.regret)}, the default {_number(rival.same)} on the same "
        f"{rival.seeds} seeds (lower in {rival.wins})."
    )


def _main(both: dict[str, tuple[Row, Row]], problems: dict[str, list[Row]]) -> str:
    lines = []
    for name, (ours, rival) in both.items():
        known = next((r for r in problems[name] if r.method in ("kinbandits, similarity known", WINDOW)), None)
        seeds = "" if rival.seeds == ours.seeds else f" ({rival.seeds} seeds, default {_number(rival.same)})"
        cells = [_plus_minus(ours), _plus_minus(rival)]
        cells[rival.ratio > 1.0] = f"**{cells[rival.ratio > 1.0]}**"
        lines.append(
            [
                name,
                f"{ours.rounds:,}",
                cells[0],
                f"{cells[1]} {rival.method}{seeds}",
                f"{rival.ratio:.2f}",
                f"{rival.wins} of {min(ours.seeds, rival.seeds)}",
                _number(known.regret) + (" (window)" if known.method == WINDOW else "") if known else "",
            ]
        )
    return _table(("problem", "rounds", "default", "best rival", "ratio", "seeds won", "told more"), lines)


WINDOW = "kinbandits, window"


def _every(problems: dict[str, list[Row]]) -> str:
    methods = [title(m) for m in METHODS if m not in ("ours-known", "ours-window")]
    methods = [m for m in methods if any(r.method == m for rs in problems.values() for r in rs)]
    lines = []
    for name, of_problem in problems.items():
        at = {r.method: _number(r.regret) for r in of_problem}
        lines.append([name, *(at.get(m, "") for m in methods)])
    return _table(("problem", *(m.removeprefix("kinbandits ") for m in methods)), lines)


def _cost(found: Sequence[Row]) -> str:
    names = [PROBLEMS[name].title for name in COSTED]
    at = {(r.method, r.problem): f"{r.cpu_ms} ms, {float(r.mb):.0f} MB" for r in found if r.cpu_ms}
    lines = [[m, *(at.get((m, n), "") for n in names)] for m in dict.fromkeys(m for m, _ in at)]
    return _table(("method", *names), lines)


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _plus_minus(row: Row) -> str:
    return _number(row.regret) + ("" if math.isnan(row.sd) else f" ± {row.sd:.0f}")


def _table(columns: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    head = list(columns)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines))


def today() -> str:
    return time.strftime("%Y-%m-%d")


REASONS: dict[str, str] = {}
"""Why the default is beaten, by problem."""

TEXT = """\
# Comparison

**Summary.** With nothing set, the default has the least regret on {best} of {n} problems. It is beaten by more than 5 %
on {lost}: {lost_names}. Rivals have the settings that were best on other seeds; the default has none.

Final regret, mean ± standard deviation over 10 seeds. *Best rival* is the one that beats the default by the most, or else the
nearest; *ratio* is the default's regret over the rival's on the same seeds, so more than 1 is a loss; *seeds won* counts where the
default is lower. *Told more*: our policy when it is told the true similarity (of the catalogue: the items' descriptors), or keeps a
window. Bold is the less of the two.

{main}

## Where the default is beaten by more than 5 %, and why

{reasons}

## Every method

Mean final regret; empty is not run.

{every}

## Cost

CPU of a decision and its update, and what the process has grown by, over the first 500 rounds (digits: 500); each method in a process of
its own with one thread, one after the other in one run. Compare within a column.

{cost}

## How it was measured

- **Same streams**, seed by seed. Label sets are the paper's reference streams; *hidden descriptors* are 20 arms with functions drawn from a
  Gaussian process over descriptors that nobody sees, more alike the nearer the number is to 1; *clicks* are 0 or 1 with log odds linear in six
  features, at the rate of a random arm; *tasks* give one of 10 related tasks and 20 candidates with contexts of their own; the *catalogue* has
  200 described items with clicks, of which 100 come half-way; *drifting clicks* turn until nothing is left of the first functions.
- **Regret** is realised on label sets and expected elsewhere.
- **Rivals get what helps them**: features scaled by rows that are never played, an intercept, and the best of a small grid of settings, chosen on
  seeds 100 and 101, which are not scored. Ours gets none of that: it is `kb.KMTLUCB(arms)`.
- **By family.** Linear: Lin-UCB (the algorithm of coba, contextualbandits and MABWiser under that name; the tests see the same arms),
  river, MABWiser's LinTS, coba. Shared between arms: Lin-UCB hybrid and bayesianbandits' cross-arm agent, with descriptors where they are
  shown. Vowpal Wabbit with squarecb, regcb and greedy, squared and logistic loss. EK-UCB and NeuralUCB are written in NumPy from their papers
  (`benchmarks/compare/written.py`), as no library has them.
- **Not run**: a rival on a problem that it cannot play, or whose game takes minutes. Fewer seeds than 10: {few}
- Kernel rivals know the arms' descriptors in the catalogue; the default does not.
- Versions: {versions}. Ours: commit {commit}. Last game {date}. Settings of every row are in `benchmarks/results/comparison.csv`.

## Run it again

```bash
make compare
```

It takes hours, may be stopped, and goes on where it was. It writes this page and the CSV file.
"""
