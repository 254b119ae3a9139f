"""Golden traces: what our policies did when they were recorded, round by round.

They guard change, and prove nothing. ``pytest tests/test_golden.py --update-golden`` rewrites them: review the
diff. Recording refuses a round whose two best scores are closer than 1e-8 and not
equal, so that another BLAS cannot flip it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.environments import Classification, HiddenDescriptors, SyntheticNews

pytestmark = pytest.mark.numerical

GOLDEN = Path(__file__).parent / "golden"
ROUNDS, SEEDS = 200, (0, 1, 2)

ENVIRONMENTS: dict[str, Callable[[int], Any]] = {
    "news": lambda seed: SyntheticNews(seed=seed, noise=0.05),
    "hidden": lambda seed: HiddenDescriptors(seed=seed, n_arms=8),
    "digits": lambda seed: Classification("digits", seed=10 + seed),
}
POLICIES: dict[str, Callable[[int], kb.KMTLUCB]] = {
    "default": lambda n: kb.KMTLUCB(n),
    "pooled": lambda n: kb.baselines.kernel_ucb(
        n, sharing="pooled", context_kernel=kb.Matern(length_scale=2.0), ridge=0.1, exploration=0.1, rewards=None
    ),
    "linucb": lambda n: kb.baselines.lin_ucb(n, exploration=0.5),
}
CASES = [(p, e) for p in POLICIES for e in ENVIRONMENTS if (p, e) not in (("pooled", "digits"), ("default", "digits"))]


def play(policy_name: str, environment_name: str, seed: int) -> dict[str, Any]:
    environment = ENVIRONMENTS[environment_name](seed)
    policy = POLICIES[policy_name](len(environment.arms))
    policy.rng = np.random.default_rng(seed)
    start = environment.start_rows()
    if len(start[0]):
        policy.observe([environment.arms.index(a) for a in start[0]], start[1], start[2])
    trace: dict[str, Any] = {"arms": [], "rewards": [], "regret": [], "gaps": []}
    total = 0.0
    for t, round in enumerate(environment.rounds()):
        if t == ROUNDS:
            break
        decision = policy.choose(round.context, scores=True)
        reward = float(round.rewards[decision.index])
        total += float(np.max(round.rewards)) - reward
        policy.update(decision, reward)
        best = np.sort(decision.scores)[::-1]
        behind = best[best < best[0] - 1e-11 * max(1.0, abs(best[0]))]  # equal scores are a tie, drawn from the seed
        trace["gaps"].append(float(best[0] - behind[0]) if len(behind) else 1.0)
        trace["arms"].append(decision.arm)
        trace["rewards"].append(reward)
        trace["regret"].append(total)
    return trace


@pytest.mark.parametrize(("policy", "environment"), CASES, ids=lambda value: value)
def test_golden(policy: str, environment: str, update_golden: bool) -> None:
    path = GOLDEN / f"{policy}-{environment}.json"
    traces = {str(seed): play(policy, environment, seed) for seed in SEEDS}
    if update_golden:
        for seed, trace in traces.items():
            closest = int(np.argmin(trace["gaps"]))
            assert trace["gaps"][closest] >= 1e-8, f"seed {seed}, round {closest}: the two best scores are too close"
        recorded = {
            seed: {
                "arms": " ".join(map(str, t["arms"])),
                "rewards": " ".join(f"{r:.12g}" for r in t["rewards"]),
                "regret": " ".join(f"{r:.12g}" for r in t["regret"]),
            }
            for seed, t in traces.items()
        }
        path.write_text(json.dumps(recorded, indent=0) + "\n")
    wanted = json.loads(path.read_text())
    assert sorted(wanted) == [str(s) for s in SEEDS]
    for seed, trace in traces.items():
        assert trace["arms"] == [int(a) for a in wanted[seed]["arms"].split()], f"seed {seed}"
        for name in ("rewards", "regret"):
            found = np.array(wanted[seed][name].split(), dtype=float)
            np.testing.assert_allclose(trace[name], found, rtol=1e-9, atol=1e-9, err_msg=f"{name}, seed {seed}")


def test_every_trace_is_of_a_case() -> None:
    assert {p.stem for p in GOLDEN.glob("*.json")} == {f"{p}-{e}" for p, e in CASES}
