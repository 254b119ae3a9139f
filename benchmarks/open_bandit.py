"""Replay on the Open Bandit Dataset: what policies would have earned on a real log of uniformly random choices.

    python benchmarks/open_bandit.py FOLDER/random/men --position 1 --seeds 3

The folder is your own copy, in the layout that the Open Bandit Pipeline reads: one CSV file named after the
campaign (``men.csv``, ``women.csv``, ``all.csv``), with the columns item_id, position, click, propensity_score and
user_feature_0, 1 and so on, which are hashed categories. A context is these, one-hot, and an intercept. Rounds in
which a policy chooses what the log played count and are learned; the others are left out (Li et al., 2011).
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np

import kinbandits as kb
from kinbandits.environments import Log, Replay
from kinbandits.errors import InvalidInputError

POLICIES = {
    "kinbandits default": lambda arms, seed: kb.KMTLUCB(arms, seed=seed),
    "InverseGap": lambda arms, seed: kb.KMTLUCB(arms, exploration=kb.InverseGap(), seed=seed),
    "LinUCB": lambda arms, seed: kb.baselines.LinUCB(arms, exploration=0.3, seed=seed),
    "BetaThompson": lambda arms, seed: kb.baselines.BetaThompson(arms, seed=seed),
    "Uniform": lambda arms, seed: kb.baselines.Uniform(arms, seed=seed),
}
NEEDED = ("item_id", "position", "click", "propensity_score")


def read_open_bandit(folder: Path, position: int = 1) -> Log:
    """The rows of one position of the list, as a log."""
    path = folder if folder.suffix == ".csv" else folder / f"{folder.name}.csv"
    if not path.exists():
        raise InvalidInputError(f"there is no {path}; give the folder of a campaign, such as random/men")
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        columns = reader.fieldnames or []
        missing = [c for c in NEEDED if c not in columns]
        users = [c for c in columns if c.startswith("user_feature_")]
        if missing or not users:
            wanted = (missing or ["user_feature_0"])[0]
            raise InvalidInputError(f"{path} has no column {wanted!r}; it has {columns}")
        rows = [r for r in reader if int(r["position"]) == position]
    if not rows:
        raise InvalidInputError(f"{path} has no row of position {position}")
    parts = [np.ones((len(rows), 1))]
    for column in users:
        values = np.array([r[column] for r in rows])
        parts.append((values[:, None] == np.unique(values)).astype(np.float64))
    items, p = [int(r["item_id"]) for r in rows], [float(r["propensity_score"]) for r in rows]
    arms = range(max(max(items) + 1, round(1.0 / p[0])))  # an item may never have come
    return Log.of(items, np.hstack(parts), [float(r["click"]) for r in rows], arms=arms, propensities=p)


def main() -> None:
    """Print clicks a thousand rounds, with a standard error, for each policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--position", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    log = read_open_bandit(given.folder, given.position)
    print(f"{'policy':<20}{'clicks a 1,000':>15}{'error':>8}{'rounds':>9}")
    for name, make in POLICIES.items():
        traces = [kb.simulate(make(Replay(log).arms, s), Replay(log, seed=s)) for s in range(given.seeds)]
        rewards = np.concatenate([t["reward"] for t in traces])
        error = rewards.std() / np.sqrt(len(rewards))
        print(f"{name:<20}{1000 * rewards.mean():>15.2f}{1000 * error:>8.2f}{len(rewards) // given.seeds:>9}")


if __name__ == "__main__":
    main()
