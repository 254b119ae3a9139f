"""The comparison in words, tables and a figure."""

from __future__ import annotations

import csv
import math
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from compare.catalogue import PEERS, version
from compare.edges import Edges
from compare.figure import FAMILIES
from compare.plan import DEFAULT, INVERSE, Plan
from compare.run import MethodRow, Standings
from kinbandits._version import __version__

__all__ = ["COLUMNS", "propensities", "rows", "summary", "verdicts", "write_csv", "write_page"]

COLUMNS = ("method", "settings", "regret", "seeds", "default better", "CPU ms", "MB")


def rows(problem: Standings) -> list[list[str]]:
    """The table of a problem, best first."""
    default = problem.row(DEFAULT)
    return [
        [
            x.title,
            x.settings,
            _plus_minus(x.mean, x.sd),
            f"{x.seeds}*" if x.recorded else str(x.seeds),
            _wins(default, x),
            "-" if x.cpu_ms is None else f"{x.cpu_ms:.2f}",
            "-" if x.megabytes is None else f"{x.megabytes:.1f}",
        ]
        for x in problem.rows
    ]


def _plus_minus(mean: float, sd: float) -> str:
    """Without decimals from 100 on."""
    digits = 0 if mean >= 100.0 else 1
    return f"{mean:.{digits}f}" + ("" if math.isnan(sd) else f" ± {sd:.{digits}f}")


def _wins(ours: MethodRow | None, other: MethodRow) -> str:
    if ours is None or ours is other:
        return "-"
    won, of = ours.wins_against(other)
    return f"{won} of {of}" if of else "-"


def verdicts(problem: Standings) -> Iterator[str]:
    """For each of our two: the best peer beside it, and which peers beat it in the mean."""
    for name in (DEFAULT,):
        ours = problem.row(name)
        if ours is None:
            continue
        played = [x for x in problem.rows if x.peer is not None and not math.isnan(ours.mean_difference(x))]
        if not played:
            continue
        better = [x.title for x in played if ours.mean_difference(x) > 0.0]
        how = f"**It is beaten by {', '.join(better)}.**" if better else "No peer beats it."
        yield f"{name}: {_against(ours, max(played, key=ours.mean_difference))}. {how}"


def _against(ours: MethodRow, best: MethodRow) -> str:
    """What the two had on the same seeds."""
    won, of = ours.wins_against(best)
    paired = f" ({_seeds(of)}, ours lower in {won})" if of else ""
    return f"{best.mean + ours.mean_difference(best):.1f} against {best.mean:.1f} of {best.title}{paired}"


def _seeds(n: int) -> str:
    return f"{n} seed{'s' * (n > 1)}"


def _others(n: int) -> str:
    return f"{n} other{'s' * (n > 1)} as well"


def summary(problems: Sequence[Standings]) -> list[str]:
    """What a reader should know first: where our default is beaten, and the best of each family."""
    lost, lines, not_run = [], [], []
    for problem in problems:
        ours = problem.row(DEFAULT)
        if ours is None:
            not_run.append(problem.title)
            continue
        lines.append(_summary_row(problem, ours))
        better = [x for x in problem.rows if x.peer and ours.mean_difference(x) > 0.0]
        if better:
            told = _against(ours, max(better, key=ours.mean_difference))
            others = f"; {_others(len(better) - 1)}" if len(better) > 1 else ""
            lost.append(f"- {problem.title}: {told}{others}")
    if not lines:
        return []
    told = [f"Our default, with nothing set, is beaten on none of the {len(lines)} problems below."]
    if lost:
        told = [f"Our default, with nothing set, is beaten on {len(lost)} of {len(lines)} problems:", "", *lost]
    if not_run:
        told += ["", f"Not yet run with today's default: {', '.join(not_run)}."]
    names = [name for name, _ in FAMILIES.values()]
    return [
        *told,
        "",
        "Final regret, mean over seeds, of our default and of the best rival in each family; the least is bold.",
        "Rivals have settings of a small grid, the best on one or two of these seeds. Where a rival has played",
        "fewer seeds than ours, its number is followed by ours on the same seeds.",
        "",
        *_table(("problem", "rounds", "ours", *names, "CPU ms of ours"), lines),
        "",
    ]


def _summary_row(problem: Standings, ours: MethodRow) -> list[str]:
    families = [[x for x in problem.rows if x.peer and PEERS[x.peer].family == f] for f in FAMILIES]
    found = [min(members, key=lambda x: x.mean, default=None) for members in families]
    lead = max((x for x in found if x), key=ours.mean_difference, default=None)
    if lead is None or not ours.mean_difference(lead) > 0.0:
        lead = ours

    def shown(x: MethodRow | None) -> str:
        if x is None:
            return "-"
        number = f"**{x.mean:.0f}**" if x is lead else f"{x.mean:.0f}"
        if x is ours:
            return number
        if x.seeds >= ours.seeds:
            return f"{number} ({x.title})"
        same = "" if x.recorded else f", ours {x.mean + ours.mean_difference(x):.0f}"
        return f"{number} ({x.title}; {_seeds(x.seeds)}{same})"

    cost = "-" if ours.cpu_ms is None else f"{ours.cpu_ms:.2f}"
    return [problem.title, f"{problem.rounds:,}", shown(ours), *map(shown, found), cost]


def propensities(problems: Sequence[Standings]) -> list[str]:
    """What propensities above 0 cost: `InverseGap` beside the default, and where that is more than 15 %."""
    lines, over = [], []
    for problem in problems:
        ours, rule = problem.row(DEFAULT), problem.row(INVERSE)
        if ours is None or rule is None or not ours.wins_against(rule)[1]:
            continue
        both = ~np.isnan(ours.regret + rule.regret)
        default, inverse = float(ours.regret[both].mean()), float(rule.regret[both].mean())
        won, of = rule.wins_against(ours)
        lines.append([problem.title, f"{default:.0f}", f"{inverse:.0f}", f"{inverse / default:.2f}", f"{won} of {of}"])
        over += [problem.title] * (inverse > 1.15 * default)
    if not lines:
        return []
    told = f"within 15 % of the default's on all {len(lines)} problems"
    if over:
        told = f"more than 15 % above the default's on {', '.join(over)}"
    return [
        "## With propensities",
        "",
        f"`kb.InverseGap()` gives every candidate a known probability above 0. Its regret is {told}",
        "(the same seeds). [What its logs are worth](evaluation.md#which-rule-to-log-with).",
        "",
        *_table(("problem", "default", "InverseGap", "ratio", "InverseGap lower in"), lines),
        "",
    ]


def write_page(
    path: Path,
    plan: Plan,
    problems: Sequence[Standings],
    edges: Sequence[tuple[str, Edges]],
    command: str,
    figure: str,
) -> None:
    """The page, in Markdown."""
    out = ["# Compared with other libraries", "", *_HIDDEN, "", *summary(problems)]
    if problems:
        out += ["Low and left is good; the star is our default.", ""]
        out += [f"![Final regret against CPU a decision, one panel a problem]({figure})", ""]
    there = {x.title for problem in problems for x in problem.rows}
    nowhere = [PEERS[p].title for p in plan.here() if PEERS[p].title not in there]
    out += [*propensities(problems), *_head(plan, problems, nowhere, command)]
    for problem in problems:
        out += [f"## {problem.title}", "", f"{problem.rounds:,} rounds, {problem.arms} arms.", ""]
        out += [f"- {v}" for v in verdicts(problem)]
        out += ["", *_table(COLUMNS, rows(problem)), ""]
        if problem.tried:
            few = ", ".join(f"{name} {done} of {of}" for name, (done, of) in problem.tried.items())
            out += [f"Settings of the grid that were tried: {few}.", ""]
        out += _not_run(plan, problem, nowhere)
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
    out += [*_REAL_LOG, ""]
    for name, told in _MEASURED.items():
        measured = path.with_name(name)
        if measured.exists():
            out += [*told, "", "```text", measured.read_text(encoding="utf-8").rstrip(), "```", ""]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(out).rstrip() + "\n", encoding="utf-8")


CSV = (
    "problem", "rounds", "arms", "method", "settings", "regret", "sd", "seeds", "default_same_seeds", "runs_kept",
    "default_better", "cpu_ms", "mb",
)  # fmt: skip


def write_csv(path: Path, problems: Sequence[Standings]) -> None:
    """Every row of every table, for `tools/tables.py`; the default on a rival's seeds, where these are fewer."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(CSV)
        for problem in problems:
            ours = problem.row(DEFAULT)
            for x, (title, settings, _, _, wins, cpu, mb) in zip(problem.rows, rows(problem), strict=True):
                fewer = ours is not None and not x.recorded and x.seeds < ours.seeds
                same = f"{x.mean + ours.mean_difference(x):.1f}" if ours is not None and fewer else ""
                numbers = f"{x.mean:.1f}", f"{x.sd:.1f}", str(x.seeds), same, "no" if x.recorded else "yes"
                table.writerow([problem.title, problem.rounds, problem.arms, title, settings, *numbers, wins, cpu, mb])


def _not_run(plan: Plan, problem: Standings, nowhere: Sequence[str]) -> list[str]:
    """Peers without a row, with the reason or their cost.

    Those that are not meant for the problem are not told, nor those run nowhere, unless there is a reason.
    """
    there = {x.title for x in problem.rows}
    told = []
    for peer in plan.here():
        entry, why = PEERS[peer], problem.left_out.get(peer)
        if entry.title in nowhere and not why:
            continue
        if entry.title not in there and problem.name.startswith(entry.only):
            told.append(entry.title + (f" ({why})" if why else ""))
    return [f"Not run here: {', '.join(told)}.", ""] if told else []


_REAL_LOG = (
    "## A real log",
    "",
    "`python benchmarks/open_bandit.py FOLDER/random/men` replays your copy of the Open Bandit Dataset: rounds in",
    "which a policy chooses what the log played count and are learned. The data are not in this repository, so",
    "there is no table of them here.",
)
_MEASURED = {  # what other commands printed, and the words before it
    "ek-ucb.txt": (
        "## Kernel rivals on their own problems",
        "",
        "`python benchmarks/ek_ucb.py --horizon 600 --seeds 10`: the three problems of the EK-UCB paper, with ten",
        "actions on a line. All but our default are told the actions and the paper's kernel. Our default has the",
        "least regret on bump and diagonal; on squares EK-UCB has less. *Points* are rows in a dictionary (0: none",
        "is kept).",
        "",
        "![Regret and CPU time on the three problems of the EK-UCB paper](ek-ucb.png)",
    ),
    "linucb.txt": (
        "## The same algorithm: Lin-UCB with many arms",
        "",
        "`python benchmarks/linucb.py`: ours against MABWiser's and contextualbandits', each arm given one row",
        "first, the arms played compared round by round. Where theirs differ from the formula: an arm without",
        "rows has the width sqrt(lambda x'x) in MABWiser, where (lambda I)^-1 gives sqrt(x'x / lambda); with",
        "lambda = 1, or after the arm's first row, they agree.",
    ),
}
_HIDDEN = ["<!-- Written by `make compare`; change benchmarks/compare, not this page. -->"]


def _head(plan: Plan, problems: Sequence[Standings], nowhere: Sequence[str], command: str) -> list[str]:
    versions = {PEERS[p].package: version(PEERS[p].package) for p in plan.here() if PEERS[p].library}
    absent = sorted({PEERS[p].package for p in plan.peers if PEERS[p].library} - set(versions))
    listed = ", ".join(f"{name} {v}" for name, v in versions.items()) or "none"
    return [
        "## How it was measured",
        "",
        "All methods play the same streams, seed by seed.",
        "",
        "- **Rivals get what helps them**: features standardised, or centred with one scale, by rows never",
        "  played; an intercept; the best of a small grid, chosen on one or two of the scored seeds. MABWiser",
        "  LinUCB, coba and *LinUCB of ours, features of peers* are contextualbandits' algorithm and take its",
        "  settings. bayesianbandits takes on MNIST those best on USPS, on clicks with 50 arms those best with 12.",
        f"- **Ours get none of that**: *{DEFAULT}* is `kb.KMTLUCB(arms)`. *Fixed",
        "  settings* is an earlier default, `kb.KMTLUCB(arms, ridge=0.01, exploration=0.1)`. EpsilonGreedy, UCB1",
        "  and Uniform are ours, at their defaults.",
        "- **Kernel and neural rivals** are written here from their papers (`projected.py`, `neural.py` in",
        "  `benchmarks/compare`) and tested against the papers' formulas. On USPS and MNIST they take the",
        "  settings that were best on Digits. Of EK-UCB's six settings three were tried, on clicks two.",
        "- **Clicks** are 0 or 1, with log odds linear in six features: a logistic regression of each arm is the",
        "  true model. The rate is that of a random arm. No arm has rows at first, so programs of the same",
        "  algorithm may break ties apart; MABWiser gives such arms a width of its own (see the end of this page).",
        "- **Regret** is mean ± standard deviation over seeds (expected regret on hidden descriptors and clicks).",
        "  *Default better* counts the seeds in which our default has less. Seeds with a star are of an earlier",
        "  run on the same streams, of which only mean and deviation were kept.",
        "- **CPU** is process time of one decision and update, **MB** what the process grew by in the game, both",
        "  in a process of its own with one thread. Compare them within a table. Below 1 MB it is rounding.",
        *_former(problems),
        *([f"- **Run on none of these problems**: {', '.join(nowhere)}."] if nowhere else []),
        *_fewer(problems),
        "",
        "```sh",
        command,
        "```",
        "",
        f"kinbandits {__version__}; {listed}; Python {platform.python_version()}."
        + (f" Not installed: {', '.join(absent)}." if absent else ""),
        "",
    ]


def _former(problems: Sequence[Standings]) -> list[str]:
    """Rows of ours that were kept from a former default, which their settings say."""
    found: dict[str, list[str]] = {}
    for problem in problems:
        for x in problem.rows:
            if x.title in (DEFAULT, INVERSE) and "former" in x.settings:
                found.setdefault(x.title, []).append(problem.name)
    return [f"- **Played with a former default**: {name} on {', '.join(on)}." for name, on in found.items()]


def _fewer(problems: Sequence[Standings]) -> list[str]:
    """How many seeds rows have; problems are named as in the command."""
    found: dict[int, dict[str, list[str]]] = {}
    for problem in problems:
        for x in problem.rows:
            found.setdefault(x.seeds, {}).setdefault(x.title, []).append(problem.name)
    if len(found) < 2:
        return []
    usual = max(found, key=lambda n: sum(map(len, found[n].values())))
    told = [f"- **Seeds**: {usual} in every row but these."]
    for n in sorted(set(found) - {usual}, reverse=True):
        together: dict[str, list[str]] = {}
        for name, where in found[n].items():
            together.setdefault(", ".join(where), []).append(name)
        told += [f"  - {_seeds(n)} on {where}: {', '.join(names)}." for where, names in together.items()]
    return told


def _table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    def row(cells: Sequence[str]) -> str:
        return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"

    return [row(columns), "|" + "---|" * len(columns), *map(row, lines)]
