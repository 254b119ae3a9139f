"""Rules with propensities compared: what random play costs, and what their logs tell about another policy.

    python benchmarks/propensities.py --problems digits,segment,hidden-0.5 --seeds 5

Each rule plays T rounds. Its log then evaluates a second policy: the greedy choice (1 in 10 at random) of the same
regression, taught with 300 uniformly random rounds. The truth is known, since the environment says what every arm
pays. ``rows`` is the effective sample size, a median over logs, since they differ much; ``error`` the root mean
square error of the doubly robust estimate in rewards a round, ``half`` the half width of its 95 % interval,
``cover`` in how many logs that held the truth.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import kinbandits as kb
from kinbandits.environments import Classification, HiddenDescriptors
from kinbandits.ope import estimate

RULES: dict[str, dict[str, Any]] = {
    "UCB (default)": {},
    **{f"UCB, epsilon {e}": {"epsilon": e} for e in (0.02, 0.05, 0.1)},
    "InverseGap (default)": {"exploration": kb.InverseGap()},
    **{f"InverseGap, epsilon {e}": {"exploration": kb.InverseGap(), "epsilon": e} for e in (0.02, 0.05)},
    **{f"InverseGap, scale {s}": {"exploration": kb.InverseGap(s)} for s in (1.0, 3.0)},
    "InverseGap, optimism 0": {"exploration": kb.InverseGap(optimism=0.0)},
    "Thompson": {"exploration": kb.Thompson()},
}
PROBLEMS = "digits,segment,pendigits,letter,usps,mnist,hidden-0,hidden-0.5,hidden-0.9"
COLUMNS = ("regret", "rows", "error", "half", "cover", "ms")


def environment(problem: str, seed: int, horizon: int) -> Any:
    """A data set in the paper's protocol, or twenty arms with hidden descriptors."""
    if problem.startswith("hidden-"):
        return HiddenDescriptors(seed=seed, similarity=float(problem.removeprefix("hidden-")), horizon=horizon)
    return Classification(problem, protocol="paper", seed=seed, horizon=horizon)


def taught_uniformly(problem: str, seed: int, rows: int = 300) -> Any:
    """The second policy: it has learned uniformly random rounds of the problem."""
    e = environment(problem, seed, rows)
    policy = kb.KMTLUCB(e.arms, similarity=kb.Independent(), exploration=0.0, epsilon=0.1)
    rounds = list(e.rounds())
    arms = np.random.default_rng(seed).integers(len(e.arms), size=len(rounds))
    rewards = [r.rewards[a] for r, a in zip(rounds, arms, strict=True)]
    policy.observe([e.arms[a] for a in arms], [r.context for r in rounds], rewards)
    return policy.frozen()


def one(problem: str, rule: str, seed: int, horizon: int) -> tuple[float, ...]:
    """One game, and the evaluation of the second policy from its log; numbers in the order of `COLUMNS`."""
    e = environment(problem, seed, horizon)
    policy = kb.KMTLUCB(e.arms, seed=seed, **RULES[rule])
    started = time.process_time()
    trace = kb.simulate(policy, e)
    seconds = time.process_time() - started
    rounds = list(e.rounds())
    contexts, pays = np.array([r.context for r in rounds])[:, None], np.array([r.rewards for r in rounds])
    # A hidden problem's functions belong to its seed, so the second policy is taught rounds of the same seed.
    other = taught_uniformly(problem, seed if problem.startswith("hidden") else 1000 + seed)
    target, model = other.probabilities_many(contexts), other.predict_many(contexts).mean
    truth, limits = float((target * pays).sum(axis=1).mean()), (float(pays.min()), float(pays.max()))
    found = estimate(trace["reward"], trace["propensity"], trace["arm_index"], target, model, reward_range=limits)
    dr, expected = found.estimates["dr"], trace.final_expected_regret
    regret = trace.final_regret if np.isnan(expected) else expected
    held, half = float(dr.low <= truth <= dr.high), (dr.high - dr.low) / 2.0
    return regret, found.effective_n, dr.value - truth, half, held, 1000.0 * seconds / horizon


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=PROBLEMS)
    parser.add_argument("--rules", default=";".join(RULES), help="separated by semicolons")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--horizon", type=int, default=1000)
    given = parser.parse_args()
    for problem in given.problems.split(","):
        print(f"{problem}, {given.horizon:,} rounds, {given.seeds} seeds")
        print(f"{'rule':<26}" + "".join(f"{name:>9}" for name in COLUMNS))
        for rule in given.rules.split(";"):
            runs = np.array([one(problem, rule, seed, given.horizon) for seed in range(given.seeds)])
            regret, _, _, half, _, ms = runs.mean(axis=0)
            numbers = regret, np.median(runs[:, 1]), np.sqrt((runs[:, 2] ** 2).mean()), half, runs[:, 4].sum(), ms
            print(f"{rule:<26}" + "".join(f"{x:>9.{d}f}" for x, d in zip(numbers, (1, 0, 3, 3, 0, 2), strict=True)))


if __name__ == "__main__":
    main()
