"""Lin-UCB of ours against MABWiser's and contextualbandits': the same arms, and CPU as a ratio.

    python benchmarks/linucb.py [--arms 1000] [--features 20] [--rounds 200]

Every arm is given one row first (an arm without rows has the wrong width in MABWiser, lambda I in place of I /
lambda). Then all play the same rounds, one after the other, each learning its own reward, and the arms are compared
round by round before any clock is looked at. CPU is process time of choose and update, on one thread, interleaved;
the first fifth of the rounds is not counted.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import kinbandits as kb
from compare.catalogue import PEERS, installed
from compare.peers import ContextualBandits, MABWiser

ALPHA, RIDGE = 0.3, 0.2


class Ours:
    """Our policy itself, with no layer in between, on contexts with the peers' features."""

    def __init__(self, arms: list[int]) -> None:
        self.policy = kb.baselines.LinUCB(arms, ridge=RIDGE, exploration=ALPHA, tie_break="first")

    def features(self, context: Any) -> Any:
        return np.append(context / np.sqrt(len(context)), 1.0)

    def observe(self, arms: Any, contexts: Any, rewards: Any) -> None:
        self.policy.observe(arms, np.array([self.features(x) for x in contexts]), rewards)

    def choose(self, context: Any) -> Any:
        return self.policy.choose(self.features(context))

    def update(self, decision: Any, reward: float) -> None:
        self.policy.update(decision, reward)


def players(n_arms: int) -> dict[str, Any]:
    arms = list(range(n_arms))
    found: dict[str, Any] = {"kinbandits": Ours(arms)}
    here = {PEERS[p].package for p in installed()}
    if "mabwiser" in here:
        found["mabwiser"] = MABWiser(arms, alpha=ALPHA, ridge=RIDGE)
    if "contextualbandits" in here:
        found["contextualbandits"] = ContextualBandits(arms, alpha=ALPHA, ridge=RIDGE)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arms", type=int, default=1000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    W = rng.normal(size=(given.arms, given.features)) / np.sqrt(given.features)
    X = rng.normal(size=(given.rounds, given.features))
    noise = 0.1 * rng.normal(size=given.rounds)
    start = rng.normal(size=(given.arms, given.features))
    everyone = players(given.arms)
    played: dict[str, list[Any]] = {name: [] for name in everyone}
    seconds = dict.fromkeys(everyone, 0.0)
    with threadpool_limits(1):
        for policy in everyone.values():
            policy.observe(list(range(given.arms)), start, (start * W).sum(axis=1))
        for t, x in enumerate(X):
            for name, policy in everyone.items():
                clock = time.process_time()
                decision = policy.choose(x)
                spent = time.process_time() - clock
                reward = float(W[decision.arm] @ x + noise[t])
                clock = time.process_time()
                policy.update(decision, reward)
                spent += time.process_time() - clock
                played[name].append(int(decision.arm))
                seconds[name] += spent if t >= given.rounds // 5 else 0.0
    timed = given.rounds - given.rounds // 5
    print(f"Lin-UCB, {given.arms} arms, {given.features} features and an intercept, {given.rounds} rounds")
    for name in everyone:
        equal = sum(a == b for a, b in zip(played[name], played["kinbandits"], strict=True))
        ratio = seconds[name] / seconds["kinbandits"]
        milliseconds = 1000 * seconds[name] / timed
        print(
            f"{name:<18} equal arms {equal} of {given.rounds}   {milliseconds:8.3f} ms CPU a decision and "
            f"update   {ratio:6.1f} times ours"
        )


if __name__ == "__main__":
    main()
