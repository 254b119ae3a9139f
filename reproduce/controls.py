"""What stands beside the paper's estimate: counts alone, independent arms, and similarity learned from rewards.

    python -m reproduce.controls [--data digits,segment] [--streams docs/paper/streams.npz] [--jobs -1]

With a narrow embedding kernel the pairs of a row with itself are most of the distance between two arms, and
k_Z(a, b) is close to exp(-(1/n_a + 1/n_b) / (2 length_scale^2)), which does not look at contexts: "counts only". All
methods but the default have the kernel, ridge and weights that were published for KMTL-UCB-Est, and play all rounds
of the same streams. Cells of `kinbandits paper` that are copied into OUT/cells are not computed again.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kinbandits.experiments import CellStore, Experiment, run_experiment
from kinbandits.paper.claims import MARGIN, inter_task, tost
from kinbandits.paper.presets import EST, IND, KNOWN, MULTIPLIER, PAPER, method_table
from kinbandits.paper.protocol import DATA, check_names, experiment_on
from kinbandits.plotting import OKABE_ITO, canvas, plot_style
from kinbandits.report import Section, show_number, show_p, show_paired, write_page
from kinbandits.results import Paired, Results, RunGroup, half_width, holm, paired
from reproduce.tables import write_tables

COUNTS, LEARNED, DEFAULT, ALONE = "counts only", "learned from rewards", "default", "default, independent arms"


def controls_experiment(data: Sequence[str] | None = None, **options: Any) -> Experiment:
    """Every method on every data set; ``options`` as in `experiment_on`."""
    tables: dict[str, dict[str, Any]] = {}
    for name in check_names(data):
        methods = (KNOWN, EST, COUNTS, IND, LEARNED) if name == "synthetic" else (EST, COUNTS, IND, LEARNED)
        tables[name] = {m: _table(name, m) for m in methods}
        tables[name] |= {DEFAULT: {}, ALONE: {"similarity": {"type": "Independent"}}}
    return experiment_on("The paper, controls", tables, **options)


def _table(name: str, method: str) -> dict[str, Any]:
    same = replace(PAPER[name], independent=None)  # Ind at Est's settings
    table = method_table(method if method in (KNOWN, IND) else EST, same)
    if method == COUNTS:  # k' is 1 for a row with itself, 0 for any two rows: distances are 1/n_a + 1/n_b
        table["similarity"] |= {"embedding_kernel": {"type": "RBF", "precision": 1e12}}
    if method == LEARNED:
        table["similarity"] = {"type": "Learned"}
    return table | {"exploration": MULTIPLIER * math.sqrt(same.ridge)}


def finished(results: Results) -> list[RunGroup]:
    """The groups without methods that have fewer runs than others: while the experiment is running."""
    groups = []
    for group in results.groups:
        runs = {m: sum(r.method == m for r in group.runs) for m in group.methods}
        groups.append(RunGroup(group.name, tuple(r for r in group.runs if runs[r.method] == max(runs.values()))))
    return groups


def pairs(groups: Sequence[RunGroup], wanted: Sequence[tuple[str, str]]) -> list[tuple[RunGroup, Paired]]:
    """These pairs of methods on every data set that has both, p values adjusted over all of them."""
    found = [(g, paired(g, a, b)) for g in groups for a, b in wanted if {a, b} <= set(g.methods)]
    adjusted = holm([p.t_test for _, p in found])
    return [(g, replace(p, adjusted=q)) for (g, p), q in zip(found, adjusted, strict=True)]


COLUMNS = "Data", "First", "Second", "Means", "Difference, 95 %", "better / equal / worse", "Holm's p", "p of equality"


def pairs_section(name: str, title: str, text: str, found: list[tuple[RunGroup, Paired]]) -> Section:
    """A table of pairs. "p of equality" is that of TOST with a margin of 5 % of the second method's mean."""
    rows, records = [], []
    for group, p in found:
        first, second = group.finals(p.first), group.finals(p.second)
        equal = tost(first - second, MARGIN * float(second.mean()))
        difference, interval, counts = show_paired(p)
        means = f"{show_number(first.mean())} and {show_number(second.mean())}"
        shown = f"{difference} ({interval})" if p.low != p.high else difference
        rows.append((p.environment, p.first, p.second, means, shown, counts, show_p(p.adjusted), show_p(equal)))
        records.append(vars(p) | {"first_mean": first.mean(), "second_mean": second.mean(), "equal": equal})
    return Section(name, title, text, COLUMNS, rows, (3, 4, 5, 6, 7), records=records)


def sections(results: Results) -> Iterator[Section]:
    """The page: regrets, the estimate against its controls, similarity learned from rewards."""
    groups = finished(results)
    shown = (EST, COUNTS, IND, LEARNED, KNOWN, DEFAULT, ALONE)
    rows = [(g.name, f"{g.rounds:,}", str(len(g.seeds)), *(_regret(g, m) for m in shown)) for g in groups]
    records = [
        {"where": g.name, "method": m, "rounds": g.rounds, "finals": g.finals(m).tolist()}
        for g in groups for m in g.methods
    ]  # fmt: skip
    text = (
        "Mean ± half its 95 % interval. The default learns kernel, ridge and scale too; the last column is the default "
        "without sharing."
    )
    columns = ("Data", "Rounds", "Runs", *shown)
    right = tuple(range(1, len(columns)))
    yield Section("points", "Final regret", text, columns, rows, right, (), records, controls_figure(groups))

    against = pairs(groups, [(EST, COUNTS), (EST, IND)])
    lines = [(line,) for line in findings(against)]
    yield Section("findings", "What the controls say", columns=("finding",), rows=lines)
    yield pairs_section("counts", "Is it sharing?", "", against)
    wanted = [(LEARNED, EST), (LEARNED, COUNTS), (LEARNED, IND), (DEFAULT, EST)]
    text = "Similarity fitted to the rewards in place of the estimate, all else as published; and the default."
    learned = pairs_section("learned", "Similarity learned from rewards", text, pairs(groups, wanted))
    shown = [i for i, name in enumerate(learned.columns) if name not in ("better / equal / worse", "p of equality")]
    yield replace(learned, columns=[COLUMNS[i] for i in shown], rows=[[r[i] for i in shown] for r in learned.rows])
    shared = [(g.name, inter_task(g, LEARNED)) for g in groups if LEARNED in g.methods]
    rows = [(where, f"{v.mean():.2f}", f"{np.sum(v != 0)} of {len(v)}") for where, v in shared]
    columns = ("Data", "Mean k_Z of two arms at the end", "Runs that share")
    records = [{"where": where, "similarity": v.tolist()} for where, v in shared]
    yield Section("sharing", "Where it shares", "", columns, rows, (1, 2), records=records)


def _regret(group: RunGroup, method: str) -> str:
    if method not in group.methods:
        return "–"
    finals = group.finals(method)
    return f"{show_number(finals.mean())} ± {show_number(float(half_width(finals)))}"


def findings(against: list[tuple[RunGroup, Paired]]) -> Iterator[str]:
    """What the controls say, in sentences; a test decides each, so that few runs decide nothing."""
    counts = [(g, p) for g, p in against if p.second == COUNTS]
    equal = [p for g, p in counts if _equal(g, p)]
    other = [p for _, p in counts if p not in equal]
    yield (
        f"The estimate and counts alone are equal within 5 % (two one-sided tests, p below 0.05) on {len(equal)} of "
        f"{len(counts)} problems: {_named(equal)}; not shown on {_named(other)}."
    )
    independent = [p for _, p in against if p.second == IND]
    less, more = ([p for p in independent if sign * p.low < 0 and sign * p.high < 0] for sign in (1, -1))
    yield (
        f"Against independent arms with the same settings the estimate has less regret (95 % interval below 0) on "
        f"{_named(less)}, and more on {_named(more)}, of {len(independent)} problems."
    )


def _equal(group: RunGroup, pair: Paired) -> bool:
    first, second = group.finals(pair.first), group.finals(pair.second)
    return tost(first - second, MARGIN * float(second.mean())) < 0.05


def _named(found: Sequence[Paired]) -> str:
    return ", ".join(p.environment for p in found) or "none"


def controls_figure(groups: Sequence[RunGroup]) -> Any:
    """Regret of each method minus that of independent arms, as a share of it, with the 95 % interval of the pairs."""
    looks = {EST: "s", COUNTS: "^", LEARNED: "o", KNOWN: "D", DEFAULT: "*"}
    with plot_style():
        figure, axes = canvas(1, 1, 6.4, 0.55 * len(groups) + 1.4)
        ax = axes[0, 0]
        for i, (method, mark) in enumerate(looks.items()):
            points = []
            for row, group in enumerate(groups):
                if {method, IND} <= set(group.methods):
                    pair, mean = paired(group, method, IND), group.finals(IND).mean()
                    half = np.nan_to_num(pair.high - pair.difference)
                    points.append((100 * pair.difference / mean, row + 0.14 * (i - 2), 100 * half / mean))
            if points:
                value, place, half = np.array(points).T
                look: dict[str, Any] = {"color": OKABE_ITO[i], "markersize": 5, "capsize": 2, "linewidth": 1.2}
                ax.errorbar(value, place, xerr=half, fmt=mark, label=method, **look)
        ax.axvline(0.0, color="0.5", linewidth=0.8)
        ax.set(xlabel=f"regret against {IND}, %", ylim=(len(groups) - 0.5, -0.5))
        ax.set_yticks(range(len(groups)), [g.name for g in groups])
        figure.legend(loc="outside lower center", ncols=5, frameon=False)
        return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Play what is not finished, and write the page."""
    parser = argparse.ArgumentParser(description="Counts alone, and similarity learned from rewards.")
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--streams", default=None)
    parser.add_argument("--out", default="runs/controls")
    for name, default in (("seeds", None), ("jobs", -1), ("horizon", None)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only-page", action="store_true", help="of what is finished")
    given = parser.parse_args(arguments)
    options = {"seeds": given.seeds, "streams": given.streams, "horizon": given.horizon}
    experiment = controls_experiment(given.data.split(","), **options)
    if given.only_page:
        CellStore(given.out).open(experiment)
    else:
        run_experiment(experiment, given.out, jobs=given.jobs, stream=sys.stderr)
    place, lead = Path(given.out) / "report", "Every method meets the same streams: runs with a seed are pairs."
    found = list(sections(Results.load(given.out)))
    write_tables(found, place)
    print(write_page(place, "Control experiments", lead, found, command="python -m reproduce.controls"))


if __name__ == "__main__":
    main()
