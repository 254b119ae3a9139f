"""The paper's claims, one by one: what it says, what the runs say, and in how many of them it holds.

"No worse" and "equally well" need a rule: here the 95 % interval of the paired difference must not lie wholly on
the wrong side of 0 ("no worse"), or must contain 0 ("equally well").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinbandits.report.results import Problem, Results
from kinbandits.report.statistics import compare

__all__ = ["Claim", "check_claims"]

EST, IND, POOL, KNOWN = "KMTL-UCB-Est", "Kernel-UCB-Ind", "Kernel-UCB-Pool", "KMTL-UCB"
IND_EQUAL = "Kernel-UCB-Ind at Est's settings"


@dataclass(frozen=True)
class Claim:
    """One claim, checked.

    Attributes:
        where: data set.
        says: the claim.
        source: "paper" for what the paper states, "ours" for a check that we add.
        holds: runs in which it holds.
        runs: of how many.
        verdict: "holds", "holds on average" or "does not hold".
        details: numbers.
    """

    where: str
    says: str
    source: str
    holds: int
    runs: int
    verdict: str
    details: str


def check_claims(results: Results) -> list[Claim]:
    """All claims about the data sets that were run."""
    claims: list[Claim] = []
    for name, text in (
        ("Digits", "the paper: in all 10 runs"),
        ("Segment", "the paper: in all 10 runs"),
        ("MNIST", "the paper: in all but 1 run"),
    ):
        claims += _better(results.problem(name), EST, IND, f"KMTL-UCB-Est is better than Kernel-UCB-Ind ({text})")
    claims += _better(
        results.problem("Segment"),
        EST,
        IND_EQUAL,
        "KMTL-UCB-Est is better than Kernel-UCB-Ind at equal settings (the published ones differ on Segment)",
        source="ours",
    )
    for name in ("Letter", "Pendigits", "USPS"):
        claims += _no_worse(results.problem(name), EST, IND, "KMTL-UCB-Est is no worse than Kernel-UCB-Ind")
    news = results.problem("Synthetic news")
    claims += _best_of_all(
        news, KNOWN, "KMTL-UCB with known similarity beats the other methods (the paper: in all 10 runs)"
    )
    claims += _worst_of_all(news, POOL, "Kernel-UCB-Pool is the worst")
    claims += _equal(news, EST, IND, "KMTL-UCB-Est and Kernel-UCB-Ind perform equally well")
    return claims


def _has(problem: Problem | None, *methods: str) -> bool:
    return problem is not None and set(methods) <= set(problem.methods)


def _verdict(holds: int, runs: int, on_average: bool) -> str:
    if holds == runs:
        return "holds"
    return "holds on average" if on_average else "does not hold"


def _numbers(problem: Problem, *methods: str) -> str:
    return ", ".join(f"{m} {problem.finals(m).mean():.1f}" for m in methods)


def _better(problem: Problem | None, first: str, second: str, says: str, source: str = "paper") -> list[Claim]:
    if problem is None or not _has(problem, first, second):
        return []
    c = compare(problem, first, second)
    verdict = _verdict(c.wins, c.seeds, problem.better * c.difference > 0)
    interval = f"difference {c.difference:+.1f} (95 %: {c.low:+.1f} to {c.high:+.1f})"
    details = f"mean {problem.metric}: {_numbers(problem, first, second)}; {interval}"
    return [Claim(problem.name, says, source, c.wins, c.seeds, verdict, details)]


def _no_worse(problem: Problem | None, first: str, second: str, says: str) -> list[Claim]:
    if problem is None or not _has(problem, first, second):
        return []
    c = compare(problem, first, second)
    worse = problem.better * c.difference < 0 and (c.high if problem.better > 0 else -c.low) < 0
    holds = c.wins + c.ties
    verdict = "holds" if holds == c.seeds else ("does not hold" if worse else "holds on average")
    interval = f"difference {c.difference:+.1f} (95 %: {c.low:+.1f} to {c.high:+.1f})"
    details = f"mean {problem.metric}: {_numbers(problem, first, second)}; {interval}"
    return [Claim(problem.name, says, "paper", holds, c.seeds, verdict, details)]


def _equal(problem: Problem | None, first: str, second: str, says: str) -> list[Claim]:
    if problem is None or not _has(problem, first, second):
        return []
    c = compare(problem, first, second)
    near = problem.finals(first) - problem.finals(second)
    within = int((np.abs(near) <= 0.05 * np.abs(problem.finals(second))).sum())
    verdict = "holds" if c.low <= 0.0 <= c.high else "does not hold"
    details = (
        f"mean {problem.metric}: {_numbers(problem, first, second)}; difference {c.difference:+.2f} "
        f"(95 %: {c.low:+.2f} to {c.high:+.2f}); runs counted are those within 5 % of each other"
    )
    return [Claim(problem.name, says, "paper", within, c.seeds, verdict, details)]


def _extreme(problem: Problem | None, method: str, says: str, sign: int) -> list[Claim]:
    if problem is None or not _has(problem, method) or len(problem.methods) < 2:
        return []
    others = [m for m in problem.methods if m != method]
    gains = sign * problem.better * problem.finals(method)
    rest = np.max([sign * problem.better * problem.finals(m) for m in others], axis=0)
    holds = int((gains > rest).sum())
    means = {m: float(problem.better * problem.finals(m).mean()) for m in problem.methods}
    on_average = sign * means[method] > max(sign * means[m] for m in others)
    details = f"mean {problem.metric}: {_numbers(problem, *problem.methods)}"
    return [
        Claim(
            problem.name,
            says,
            "paper",
            holds,
            len(problem.seeds),
            _verdict(holds, len(problem.seeds), on_average),
            details,
        )
    ]


def _best_of_all(problem: Problem | None, method: str, says: str) -> list[Claim]:
    return _extreme(problem, method, says, 1)


def _worst_of_all(problem: Problem | None, method: str, says: str) -> list[Claim]:
    return _extreme(problem, method, says, -1)
