"""How often the intervals of `kinbandits evaluate` hold the truth, from logs of the service at its defaults.

    python benchmarks/coverage.py [--logs 500] [--decisions 2000]

Ten arms that pay 5 to 20 %, by six kinds of visitors. Each log is written by the service's own chooser and store
with its default epsilon; clicks are delivered as rewards of 1, all other decisions are defaulted to 0. What is
evaluated is the service's default policy, taught with the first half of the log; its true value is known.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from kinbandits.ope import evaluate_policy
from kinbandits.policy import KMTLUCB
from kinbandits.service.chooser import choose, learned_row
from kinbandits.service.config import Settings
from kinbandits.service.events import Draft, Record, decision_id
from kinbandits.service.learner import Learner, Serving
from kinbandits.service.requests import Decide
from kinbandits.service.rounds import logged_rounds, policy_for
from kinbandits.service.sequencer import defaulted
from kinbandits.service.store import open_store

ARMS, KINDS = 10, 6
SERVICE = {"default_reward": 0.0}
DEFAULT = Settings.model_validate({"policy": {"arms": ARMS}, "service": SERVICE})
QUICK = Settings.model_validate(
    {
        "policy": {
            "arms": ARMS,
            "similarity": {"type": "Independent"},
            "engine": {"type": "Budgeted", "points": ARMS * KINDS, "after": 200},
        },
        "service": SERVICE,
    }
)
WORLD = np.random.default_rng(7)
PAYS = WORLD.uniform(0.05, 0.2, (KINDS, ARMS))
CONTEXTS = np.eye(KINDS)


def serving() -> Serving:
    """The service's default policy after 1,000 rows."""
    learner, rng = Learner(DEFAULT), np.random.default_rng(8)
    kinds, arms = rng.integers(KINDS, size=1000), rng.integers(ARMS, size=1000)
    learner.policy.observe(arms.tolist(), CONTEXTS[kinds], (rng.random(1000) < PAYS[kinds, arms]).astype(float))
    learner.publish()
    return learner.serving


def write(path: Path, served: Serving, decisions: int, seed: int) -> None:
    """A log of the service."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(KINDS, size=decisions)
    ids = [decision_id(0, 1 + seed * decisions + i) for i in range(decisions)]
    bodies: list[Any] = choose([Decide(CONTEXTS[kind].tolist()) for kind in kinds], ids, served)
    drafts, outcomes = [], []
    for name, kind, body in zip(ids, kinds, bodies, strict=True):
        drafts.append(Draft("decision", 0.0, body, name))
        if rng.random() < PAYS[kind, body["arm"]]:
            outcomes.append(Draft("reward", 1.0, {"reward": 1.0, "delay": 1.0, **learned_row(body)}, name))
        else:
            outcomes.append(defaulted(Record(name, 0, 0.0, body, "open", None, None, None), 0.0, 600.0))
    store = open_store(str(path))
    with store.transaction() as tx:
        tx.append(drafts + outcomes)
    store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--decisions", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="evaluate a policy that learns long logs quickly")
    args = parser.parse_args()
    settings = QUICK if args.quick else DEFAULT
    served, held, warned = serving(), Counter[str](), 0
    half: dict[str, list[float]] = {}
    for seed in range(args.logs):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.sqlite3"
            write(path, served, args.decisions, seed)
            store = open_store(str(path), readonly=True)
            logged = logged_rounds(store)
            store.close()
        made: list[KMTLUCB] = []

        def make() -> KMTLUCB:
            made.append(policy_for(settings, logged.rounds))  # noqa: B023 (called at once)
            return made[-1]  # noqa: B023

        found = evaluate_policy(logged.rounds, make, reward_range=(0.0, 1.0))
        truth = float((made[0].frozen().probabilities(CONTEXTS) * PAYS).sum(axis=1).mean())
        warned += bool(found.warnings)
        for name, e in found.estimates.items():
            held[name] += e.low <= truth <= e.high
            half.setdefault(name, []).append((e.high - e.low) / 2)
    told = ", ".join(f"{n} {k / args.logs:.3f} (half width {np.mean(half[n]):.3f})" for n, k in held.items())
    print(
        f"{args.logs} logs of {args.decisions} decisions, 95 % intervals hold the truth in: {told}; {warned} warned"
    )


if __name__ == "__main__":
    main()
