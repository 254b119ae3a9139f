"""Users and items: the systems that learn from other users, against each user alone. Expected regret over seeds.

    python benchmarks/users.py --seeds 5

Every policy meets the same rounds. All explore with 0.3 sqrt(log(t + 1)), so that they differ only in who learns
from whom; CLUB and COFIBA at several confidences. Only GOBLin looks at the graph: the others are played once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import kinbandits as kb
from kinbandits.environments import Users

BETA = kb.exploration.LogExploration(0.3)
METHODS: dict[str, Callable[[Users], Any]] = {
    "Uniform": lambda e: kb.baselines.Uniform(e.arms),
    "LinUCB, each user alone": lambda e: kb.baselines.LinUCB(e.arms, exploration=BETA, cold_start="borrow"),
    "LinUCB, all users one": lambda e: kb.baselines.LinUCB(
        e.arms, sharing="pooled", exploration=BETA, cold_start="borrow"
    ),
    "LinUCB, clusters known": lambda e: kb.baselines.LinUCB(
        e.arms, similarity=kb.contrib.Clustered(e.clusters), exploration=BETA, cold_start="borrow"
    ),
    "GOBLin": lambda e: kb.baselines.GOBLin(e.arms, graph=e.graph, exploration=BETA),
    "GOBLin, macro": lambda e: gob(e, "macro"),
    "GOBLin, block": lambda e: gob(e, "block"),
    "CLUB(confidence=0.15)": lambda e: kb.contrib.CLUB(e.arms, confidence=0.15, exploration=BETA),
    "CLUB(confidence=0.3)": lambda e: kb.contrib.CLUB(e.arms, confidence=0.3, exploration=BETA),
    "CLUB(confidence=0.6)": lambda e: kb.contrib.CLUB(e.arms, confidence=0.6, exploration=BETA),
    "COFIBA(confidence=0.1)": lambda e: kb.contrib.COFIBA(e.arms, items=e.items, confidence=0.1, exploration=BETA),
    "COFIBA(confidence=0.3)": lambda e: kb.contrib.COFIBA(e.arms, items=e.items, confidence=0.3, exploration=BETA),
}


def gob(e: Users, variant: Any) -> Any:
    return kb.baselines.GOBLin(e.arms, graph=e.graph, variant=variant, clusters=e.clusters, exploration=BETA)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--horizon", type=int, default=2000)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--only", default="", help="systems whose name contains this")
    given = parser.parse_args()
    noises = (0.0, 0.05)
    print(f"{given.users} users in 4 clusters, T={given.horizon}, {given.seeds} seeds: mean (sd)")
    print("| system | " + " | ".join(f"{100 * g:g}% of the graph wrong" for g in noises) + " |")
    print("|---|" + "---|" * len(noises))
    for name, make in METHODS.items():
        if given.only not in name:
            continue
        cells: list[str] = []
        for noise in noises:
            if cells and not name.startswith("GOBLin"):
                cells *= 2
                break
            regret = []
            for seed in range(given.seeds):
                e = Users(seed=seed, n_users=given.users, horizon=given.horizon, graph_noise=noise)
                regret.append(kb.simulate(make(e), e)["expected_regret"].sum())
            cells.append(f"{np.mean(regret):.0f} ({np.std(regret, ddof=1):.0f})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
