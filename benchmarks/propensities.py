"""Rules with propensities compared: what random play costs, and what their logs tell about another policy.

    python benchmarks/propensities.py --problems digits,segment,hidden-0.5 --seeds 5
    python benchmarks/propensities.py --table > docs/propensities.txt

Each rule plays T rounds. Its log then evaluates a second policy: the greedy choice (1 in 10 at random) of the same
regression, taught with 300 uniformly random rounds. The truth is known, since the environment says what every arm
pays. ``rows`` is the effective sample size, a median over logs, since they differ much; ``error`` the root mean
square error of the doubly robust estimate in rewards a round, ``half`` the half width of its 95 % interval,
``cover`` in how many logs that held the truth.

Results are kept in a file, one line of JSON for each run; runs found there are not repeated.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import kinbandits as kb
from kinbandits.environments import Classification, HiddenDescriptors
from kinbandits.ope import estimate
from kinbandits.rules import RootGamma, SquareCBGamma

RULES: dict[str, dict[str, Any]] = {
    "UCB (default)": {},
    "UCB, epsilon 0.02": {"epsilon": 0.02},
    "UCB, epsilon 0.05": {"epsilon": 0.05},
    "UCB, epsilon 0.1": {"epsilon": 0.1},
    "InverseGap (default)": {"exploration": kb.InverseGap()},
    "InverseGap, epsilon 0.02": {"exploration": kb.InverseGap(), "epsilon": 0.02},
    "InverseGap, epsilon 0.05": {"exploration": kb.InverseGap(), "epsilon": 0.05},
    "InverseGap, scale 1": {"exploration": kb.InverseGap(RootGamma(1.0))},
    "InverseGap, scale 3": {"exploration": kb.InverseGap(RootGamma(3.0))},
    "InverseGap, optimism 0": {"exploration": kb.InverseGap(optimism=0.0)},
    "InverseGap, the theory's": {"exploration": kb.InverseGap(SquareCBGamma(), optimism=0.0)},
    "Thompson": {"exploration": kb.Thompson()},
}
PROBLEMS = (
    *("digits", "segment", "pendigits", "letter", "usps", "mnist"),
    *("hidden-0", "hidden-0.5", "hidden-0.9"),
)


def environment(problem: str, seed: int, horizon: int) -> Any:
    """A data set in the paper's protocol, or twenty arms with hidden descriptors."""
    if problem.startswith("hidden-"):
        similarity = float(problem.removeprefix("hidden-"))
        return HiddenDescriptors(seed=seed, similarity=similarity, horizon=horizon)
    return Classification(problem, protocol="paper", seed=seed, horizon=horizon)


def taught_uniformly(problem: str, seed: int, rows: int = 300) -> Any:
    """The second policy: it has learned uniformly random rounds of the problem that come after those played."""
    e = environment(problem, seed, rows)
    policy = kb.KMTLUCB(e.arms, similarity=kb.Independent(), exploration=0.0, epsilon=0.1)
    rng = np.random.default_rng(seed)
    rounds = list(e.rounds())
    arms = rng.integers(len(e.arms), size=len(rounds))
    rewards = [r.rewards[a] for r, a in zip(rounds, arms, strict=True)]
    policy.observe([e.arms[a] for a in arms], [r.context for r in rounds], rewards)
    return policy.frozen()


def one(problem: str, rule: str, seed: int, horizon: int) -> dict[str, Any]:
    """One game, and the evaluation of the second policy from its log."""
    e = environment(problem, seed, horizon)
    policy = kb.KMTLUCB(e.arms, seed=seed, **RULES[rule])
    started = time.process_time()
    trace = kb.simulate(policy, e)
    seconds = time.process_time() - started
    rounds = list(e.rounds())
    contexts = np.array([r.context for r in rounds])[:, None]
    # A hidden problem's functions belong to its seed, so the second policy is taught rounds of the same seed.
    other = taught_uniformly(problem, seed if problem.startswith("hidden") else 1000 + seed)
    target, model = other.probabilities_many(contexts), other.predict_many(contexts).mean
    pays = np.array([r.rewards for r in rounds])
    truth = float((target * pays).sum(axis=1).mean())
    found = estimate(
        trace["reward"], trace["propensity"], trace["arm_index"], target, model,
        reward_range=(float(pays.min()), float(pays.max())),
    )  # fmt: skip
    dr = found.estimates["dr"]
    regret = trace.final_expected_regret
    return {
        "problem": problem,
        "rule": rule,
        "seed": seed,
        "horizon": horizon,
        "regret": trace.final_regret if np.isnan(regret) else regret,
        "rows": found.effective_n,
        "covers": bool(dr.low <= truth <= dr.high),
        "half": (dr.high - dr.low) / 2.0,
        "error": abs(dr.value - truth),
        "ms": 1000.0 * seconds / horizon,
    }


def table(lines: Iterable[dict[str, Any]]) -> str:
    """Problems below each other, rules as rows; means over seeds."""
    lines = list(lines)
    out = []
    for problem in PROBLEMS:
        mine = [x for x in lines if x["problem"] == problem]
        if not mine:
            continue
        base = float(np.mean([x["regret"] for x in mine if x["rule"] == "UCB (default)"]))
        out.append(f"{problem}, {mine[0]['horizon']:,} rounds, {len({x['seed'] for x in mine})} seeds")
        out.append(f"{'rule':<26}{'regret':>8}{'of UCB':>8}{'rows':>7}{'error':>8}{'half':>8}{'cover':>9}{'ms':>7}")
        for rule in RULES:
            runs = [x for x in mine if x["rule"] == rule]
            if runs:
                mean = {name: float(np.mean([x[name] for x in runs])) for name in ("regret", "half", "ms")}
                mean["rows"] = float(np.median([x["rows"] for x in runs]))
                error = float(np.sqrt(np.mean([x["error"] ** 2 for x in runs])))
                cover = f"{sum(x['covers'] for x in runs)} of {len(runs)}"
                out.append(
                    f"{rule:<26}{mean['regret']:>8.1f}{mean['regret'] / base:>8.2f}{mean['rows']:>7.0f}"
                    f"{error:>8.3f}{mean['half']:>8.3f}{cover:>9}{mean['ms']:>7.2f}"
                )
        out.append("")
    return "\n".join(out)


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--rules", default=";".join(RULES), help="separated by semicolons")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("runs/propensities.jsonl"))
    parser.add_argument("--table", action="store_true", help="run nothing")
    given = parser.parse_args()
    lines = [json.loads(x) for x in given.out.read_text().splitlines()] if given.out.exists() else []
    done = {(x["problem"], x["rule"], x["seed"], x["horizon"]) for x in lines}
    warnings.simplefilter("ignore")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    asked = [
        (problem, rule, seed, given.horizon)
        for problem in given.problems.split(",")
        for seed in range(given.seeds)
        for rule in given.rules.split(";")
    ]
    for cell in asked:
        if cell not in done and not given.table:
            lines.append(one(*cell))
            with given.out.open("a") as file:
                file.write(json.dumps(lines[-1]) + "\n")
            print(*cell[:3], round(lines[-1]["regret"], 1), file=sys.stderr, flush=True)
    print(table(x for x in lines if x["horizon"] == given.horizon))


if __name__ == "__main__":
    main()
