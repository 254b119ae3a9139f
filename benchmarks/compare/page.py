"""The comparison in words, tables and a figure."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from compare.catalogue import PEERS, version
from compare.edges import Edges
from compare.plan import DEFAULT, TUNED, Plan
from compare.run import MethodRow, Standings
from kinbandits._version import __version__
from kinbandits.errors import MissingPackageError

__all__ = ["COLUMNS", "rows", "verdicts", "write_figure", "write_page"]

COLUMNS = ("method", "settings", "regret", "seeds", "default better", "tuned better", "CPU ms", "MB")
_OURS, _PEER, _BASE = "#0072B2", "#D55E00", "#999999"


def rows(problem: Standings) -> list[list[str]]:
    """The table of a problem, best first."""
    default, tuned = problem.row(DEFAULT), problem.row(TUNED)
    return [
        [
            x.title,
            x.settings,
            f"{x.mean:.1f} ± {x.sd:.1f}" if not math.isnan(x.sd) else f"{x.mean:.1f}",
            str(len(x.finished)),
            _wins(default, x),
            _wins(tuned, x),
            "-" if x.cpu_ms is None else f"{x.cpu_ms:.2f}",
            "-" if x.megabytes is None else f"{x.megabytes:.1f}",
        ]
        for x in problem.rows
    ]


def _wins(ours: MethodRow | None, other: MethodRow) -> str:
    if ours is None or ours is other:
        return "-"
    won, of = ours.wins_against(other)
    return f"{won} of {of}"


def verdicts(problem: Standings) -> Iterator[str]:
    """For each of our two: whether it beats every peer's best in the mean, in plain words."""
    peers = [x for x in problem.rows if x.peer is not None]
    for name in (DEFAULT, TUNED):
        line = problem.row(name)
        if line is None or not peers:
            continue
        played = [x for x in peers if not math.isnan(line.mean_difference(x))]
        if not played:
            continue
        best = max(played, key=line.mean_difference)
        won, of = line.wins_against(best)
        better = [x.title for x in played if line.mean_difference(x) > 0.0]
        how = "is not beaten by any peer" if not better else f"**is beaten by {', '.join(better)}**"
        yield (
            f"{name}: {line.mean:.1f} against {best.mean:.1f} of the best peer ({best.title}), lower in {won} of "
            f"{of} seeds; in the mean over the seeds that both have it {how}."
        )


def write_page(
    path: Path,
    plan: Plan,
    problems: Sequence[Standings],
    edges: Sequence[tuple[str, Edges]],
    command: str,
    figure: str,
) -> None:
    """The page, in Markdown."""
    out = [*_head(plan, command)]
    if problems:
        out += [f"![Final regret of every method on every problem]({figure})", ""]
    for problem in problems:
        out += [f"## {problem.title}", "", f"{problem.rounds:,} rounds, {problem.arms} arms.", ""]
        out += [f"- {v}" for v in verdicts(problem)]
        out += ["", *_table(COLUMNS, rows(problem)), ""]
        done, of = problem.tried
        if done < of:
            out += [f"Of the grids of peers {done} of {of} settings were tried here.", ""]
        for peer, why in problem.left_out.items():
            out += [f"{PEERS[peer].title} is not run here: {why}.", ""]
    missing = [n for n in plan.data if n not in {p.name for p in problems}]
    if missing:
        out += ["## Not run", "", f"{', '.join(missing)}: not run yet; the command above goes on with them.", ""]
    out += ["## A NaN context, an unknown arm, an arm added midway", ""]
    out += [
        "Two arms, a and b, three features, 30 rows learned; a fresh policy for each question; then 40 contexts.",
        "",
        *_table(
            ("library", "NaN in a context", "unknown arm in an update", "arm `new` added midway"),
            [[name, e.nan, e.unknown_arm, e.new_arm] for name, e in edges],
        ),
        "",
    ]
    measured = path.with_name("linucb.txt")
    if measured.exists():
        out += [
            "## The same algorithm: Lin-UCB with many arms",
            "",
            "`python benchmarks/linucb.py`: ours against MABWiser's and contextualbandits', each arm given one row",
            "first, the arms played compared round by round. Where theirs differ from the formula: an arm without",
            "rows has the width sqrt(lambda x'x) in MABWiser, where (lambda I)^-1 gives sqrt(x'x / lambda); with",
            "lambda = 1, or after the arm's first row, they agree.",
            "",
            "```text",
            measured.read_text(encoding="utf-8").rstrip(),
            "```",
            "",
        ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(out).rstrip() + "\n", encoding="utf-8")


def _head(plan: Plan, command: str) -> list[str]:
    versions = {PEERS[p].package: version(PEERS[p].package) for p in plan.here() if not PEERS[p].own}
    absent = sorted({PEERS[p].package for p in plan.peers if not PEERS[p].own} - set(versions))
    listed = ", ".join(f"{name} {v}" for name, v in versions.items()) or "none"
    return [
        "# Compared with other libraries",
        "",
        "<!-- Written by `make compare`; change benchmarks/compare, not this page. -->",
        "",
        "The libraries that one would pick instead, on the same streams, seed by seed. Peers get what helps them:",
        "features standardised (or centred with one common scale) by rows never played, divided by the root of",
        "their number, an intercept, and the best of a small grid, chosen on "
        f"{min(plan.grid_seeds, plan.seeds)} of the seeds that are scored: an oracle,",
        "in their favour. MABWiser, coba and contextualbandits have the same Lin-UCB and take the settings of the",
        "last, as does ours with the peers' features, which shows the cost of the same choices.",
        "",
        f"Ours get none of that: *{DEFAULT}* is `kb.KMTLUCB(arms)`, nothing set; *{TUNED}* takes its",
        "settings from `kb.tune` on the rows never played. EpsilonGreedy, UCB1 and Uniform are our own policies at",
        "their defaults.",
        "",
        "```sh",
        command,
        "```",
        "",
        f"kinbandits {__version__}; {listed}; Python {platform.python_version()}."
        + (f" Not installed: {', '.join(absent)}." if absent else ""),
        "",
        "Regret is mean ± standard deviation over seeds (expected regret on the hidden-descriptor problems);",
        "*default better* counts the seeds in which our default has the lower regret. CPU is process time of one",
        "decision and update on one thread, and MB what the process grew by in the whole game, both of seed 0 in a",
        "process of its own; compare them within a table, not between machines. Below a megabyte it is the",
        "allocator's rounding.",
        "",
    ]


def _table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    def row(cells: Sequence[str]) -> str:
        return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"

    return [row(columns), "|" + "---|" * len(columns), *map(row, lines)]


def write_figure(path: Path, problems: Sequence[Standings]) -> None:
    """One panel a problem: mean and standard deviation of every method, ours in blue."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackageError("the figure needs matplotlib; try: pip install 'kinbandits[compare]'") from error
    across = min(2, len(problems))
    down = math.ceil(len(problems) / across)
    most = max(len(p.rows) for p in problems)
    figure = Figure(figsize=(7.0 * across, down * (0.3 * most + 1.3)), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots(down, across, squeeze=False).ravel()
    for axis, problem in zip(axes, problems, strict=False):
        _panel(axis, problem)
    for axis in axes[len(problems) :]:
        axis.set_visible(False)
    handles = [axes[0].errorbar([], [], fmt="o", color=c, label=n) for n, c in _KEY.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


_KEY = {"kinbandits": _OURS, "peers, best of their grid": _PEER, "our baselines": _BASE}


def _panel(axis: Any, problem: Standings) -> None:
    lines = problem.rows[::-1]
    for y, x in enumerate(lines):
        colour = _PEER if x.peer else _OURS if x.title in (DEFAULT, TUNED) else _BASE
        axis.errorbar(x.mean, y, xerr=0.0 if math.isnan(x.sd) else x.sd, fmt="o", color=colour, capsize=2, ms=5)
    axis.set_yticks(range(len(lines)), [f"{x.title} ({len(x.finished)})" for x in lines], fontsize=8)
    for label, x in zip(axis.get_yticklabels(), lines, strict=True):
        if x.title in (DEFAULT, TUNED):
            label.set_fontweight("bold")
    axis.set_title(f"{problem.title}, {problem.rounds:,} rounds", fontsize=10)
    axis.set_xlabel("final regret, mean ± sd (seeds in brackets), log scale", fontsize=8)
    axis.set_xscale("log")
    axis.minorticks_off()
    ticks = _ticks(*axis.get_xlim())
    axis.set_xticks(ticks, [f"{t:g}" for t in ticks], fontsize=7)
    axis.grid(axis="x", alpha=0.25)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between the two, at most nine, for a logarithmic axis.

    >>> _ticks(55.0, 96.0)
    [60.0, 70.0, 80.0, 90.0]
    >>> _ticks(15.0, 1200.0)
    [20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]
    """
    tens = range(math.floor(math.log10(max(low, 1e-9))), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)):
        found = [d * 10.0**k for k in tens for d in digits if low <= d * 10.0**k <= high]
        if len(found) <= 9:
            break
    return found
