"""How often would sharing be let in? The guard of `Adaptive` on the rows that independent arms have played.

    python benchmarks/guard.py --problems letter,hidden --seeds 3 --rows 1500

Sharing is wanted on "hidden" and does harm on Letter. At every milestone of `Adaptive` the evidence for every
candidate is kept in a file (one line of JSON each, not repeated); from it, the share of rounds is printed in which
a rule would share: the lead of its decisions, in standard errors, that a candidate needs in the mean of so many
choices. Rounds count as long as their choice lasts.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from screen import game

import kinbandits as kb
from kinbandits.environments import HiddenDescriptors
from kinbandits.history import History
from kinbandits.similarity import Adaptive
from kinbandits.tuning import play_independent

LEADS = (0.0, 0.25, 0.5, 0.75, 1.0)


def rows_of(problem: str, seed: int, rows: int, kernel: Any, streams: str) -> tuple[History, Any]:
    """What independent arms play, and the kernel in force."""
    if problem == "hidden":
        environment = HiddenDescriptors(seed=seed, horizon=min(rows, 1000))
        policy = kb.KMTLUCB(
            environment.arms, similarity=kb.Independent(), seed=seed, context_kernel=kb.Median(kernel=kernel)
        )
        kb.simulate(policy, environment)
        return policy.regression.history, policy.regression.settings.terms.terms[0].context_kernel
    X, Y, arms = game(problem, seed, rows, streams)
    arms = list(arms)
    given = list(arms)

    def rule(mean: Any, deviation: Any, t: int) -> Any:
        arms.append(int(np.argmax(mean + deviation)))
        return mean + deviation

    play_independent(kernel(X, X), Y, 0.01, 0.0, given=given, rule=rule)
    return History.of(Y.shape[1], np.array(arms), X, Y[np.arange(len(arms)), arms]), kernel


def leads(row: dict[str, Any]) -> list[float | None]:
    """By how many standard errors each candidate decides better; None where it does not fit better."""
    _, _, fit, score, _ = row["cand"][0]
    return [
        ((s - score) / error if error else 0.0) if f >= fit + 5.0 else None for _, _, f, s, error in row["cand"][1:]
    ]


def share(found: list[dict[str, Any]], lead: float, over: int) -> float:
    games: dict[Any, list[dict[str, Any]]] = {}
    for row in found:
        games.setdefault((row["seed"], row["alpha"]), []).append(row)
    shared = total = 0.0
    for choices in games.values():
        before: list[list[float | None]] = []
        for row in sorted(choices, key=lambda r: int(r["n"])):
            before = [leads(row), *before][:over]
            ahead = [
                z is not None and z >= -1e-9 and sum(past[i] or 0.0 for past in before) >= over * lead - 1e-9
                for i, z in enumerate(before[0])
            ]
            shared += row["n"] * any(ahead)
            total += row["n"]
    return shared / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="letter,hidden")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1500, help="at most; a choice costs its cube")
    parser.add_argument("--alpha", type=float, default=math.inf, help="of a rational quadratic; inf is the RBF")
    parser.add_argument("--streams", default="docs/paper/streams.npz")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/guard.jsonl"))
    asked = parser.parse_args()
    done = [json.loads(line) for line in asked.results.read_text().splitlines()] if asked.results.exists() else []
    have = {(r["data"], r["seed"], r["alpha"]) for r in done}
    kernel = kb.RBF() if math.isinf(asked.alpha) else kb.RationalQuadratic(alpha=asked.alpha)
    for problem in asked.problems.split(","):
        for seed in range(asked.seeds):
            if (problem, seed, asked.alpha) in have:
                continue
            history, fitted = rows_of(problem, seed, asked.rows, kernel, asked.streams)
            adaptive = Adaptive(first=30).bound(fitted, 0.01, "uniform")
            assert isinstance(adaptive, Adaptive)
            for n in adaptive.milestones(len(history)):
                candidates = adaptive.choice(history.head(n), complete=True).candidates
                evidence = [
                    (e.mu, e.scale, e.log_likelihood, e.decision_score, e.decision_error) for e in candidates
                ]
                done.append({"data": problem, "seed": seed, "alpha": asked.alpha, "n": n, "cand": evidence})
                with asked.results.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
    problems = sorted({r["data"] for r in done})
    print(f"| lead | choices | {' | '.join(problems)} |")
    print("|---" * (len(problems) + 2) + "|")
    for over in (1, 2, 4):
        for lead in LEADS:
            shares = [share([r for r in done if r["data"] == p], lead, over) for p in problems]
            print(f"| {lead:g} | {over} | {' | '.join(f'{s:.2f}' for s in shares)} |")


if __name__ == "__main__":
    main()
