"""Kernels, constants and rules for independent arms on the six data sets, quickly.

    python benchmarks/screen.py --seeds 10
    python benchmarks/screen.py --ideas all --horizon 2000 --seeds 6 --results benchmarks/screen-2000.jsonl

The reference streams with their start rows are played by forward substitution (`play_independent`), which
decides as `KMTLUCB` with `Independent()` does, ties to the first arm. Prints the mean regret of every idea, its
ratio to "RBF", and what would have been chosen leaving each set out. Results are kept in a file (one line of JSON
per game), and games found there are not repeated.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kinbandits as kb
from kinbandits.environments import Streams
from kinbandits.kernels import Stationary
from kinbandits.replayed_games import play_independent

HORIZONS = {"digits": 1230, "segment": 1000, "pendigits": 4000, "usps": 4000, "mnist": 4000, "letter": 4000}
Vector = NDArray[np.float64]
Rule = Callable[[Vector, Vector, int], Vector]


@dataclass(frozen=True)
class Idea:
    """A kernel in units of the median distance, the ridge, and a rule (mean, deviation, round) -> scores."""

    kernel: Stationary
    ridge: float = 0.01
    rule: Rule | None = None


def constant(alpha: float) -> Rule:
    return lambda mean, deviation, t: mean + alpha * deviation


def decaying(start: float, rounds: float, floor: float) -> Rule:
    return lambda mean, deviation, t: mean + max(floor, start / (1.0 + t / rounds)) * deviation


def ceiling(mean: Vector, deviation: Vector, t: int) -> Vector:
    """Scores above 1 are equal but for the mean."""
    return np.minimum(mean + deviation, 1.0) + 1e-6 * mean


def sampling(scale: float) -> Rule:
    rng = np.random.default_rng(0)
    return lambda mean, deviation, t: mean + scale * deviation * rng.standard_normal(len(mean))


IDEAS = {
    "RBF": Idea(kb.RBF()),
    "rational quadratic": Idea(kb.RationalQuadratic()),
    "RBF, ceiling 1": Idea(kb.RBF(), rule=ceiling),
    "rational quadratic, ceiling 1": Idea(kb.RationalQuadratic(), rule=ceiling),
    "rational quadratic, alpha 2": Idea(kb.RationalQuadratic(alpha=2.0)),
    "rational quadratic, alpha 4": Idea(kb.RationalQuadratic(alpha=4.0)),
    "Matern 5/2": Idea(kb.Matern()),
    "Matern 3/2": Idea(kb.Matern(nu=1.5)),
    "Matern 1/2, twice the median": Idea(kb.Matern(2.0, nu=0.5)),
    "RBF, 0.7 of the median": Idea(kb.RBF(0.7)),
    "RBF, 1.4 of the median": Idea(kb.RBF(1.4)),
    "ridge 0.001": Idea(kb.RBF(), ridge=0.001),
    "ridge 0.03": Idea(kb.RBF(), ridge=0.03, rule=constant(1.0)),
    "exploration 0.08": Idea(kb.RBF(), rule=constant(0.8)),
    "exploration 0.125": Idea(kb.RBF(), rule=constant(1.25)),
    "decaying from 0.1 to 0.03": Idea(kb.RBF(), rule=decaying(1.0, 1000.0, 0.3)),
    "decaying from 0.12 to 0.03": Idea(kb.RBF(), rule=decaying(1.2, 500.0, 0.3)),
    "posterior sampling, 0.5": Idea(kb.RBF(), rule=sampling(0.5)),
}
FIRST = 4  # ideas that are run unless others are asked for


def game(data: str, seed: int, horizon: int, streams: str) -> tuple[Vector, Vector, list[int]]:
    """Contexts in units of the median of the first 60, rewards of every arm, and the arms of the start rows."""
    environment = Streams(data, streams, seed=seed, horizon=horizon)
    names, contexts, rewards = environment.start_rows()
    place = {name: i for i, name in enumerate(environment.arms)}
    given = [place[name] for name in names]
    Y0 = np.full((len(given), len(place)), math.nan)
    Y0[np.arange(len(given)), given] = rewards
    rounds = list(environment.rounds())
    X = np.vstack([contexts, [r.context for r in rounds]])
    return X / kb.RBF.median(X[:60]).length_scale, np.vstack([Y0, [r.rewards for r in rounds]]), given


def play(idea: Idea, X: Vector, Y: Vector, given: list[int]) -> float:
    rule = idea.rule or constant(1.0)
    played, received = play_independent(idea.kernel(X, X), Y, idea.ridge, 0.0, given=given, rule=rule)
    return float((Y[played].max(axis=1) - received).sum())


def table(rows: list[dict[str, object]]) -> str:
    regret: dict[tuple[str, str], dict[object, float]] = {}
    for r in rows:
        regret.setdefault((str(r["data"]), str(r["idea"])), {})[r["seed"], r["horizon"]] = float(r["regret"])  # type: ignore[arg-type]
    sets = [d for d in HORIZONS if (d, "RBF") in regret]
    lines = [f"| idea | {' | '.join(sets)} | mean ratio | worst | seeds |", "|---" * (len(sets) + 4) + "|"]
    ratios: dict[str, dict[str, float]] = {}
    for idea in IDEAS:
        cells, seeds = [], []
        for d in sets:
            found, base = regret.get((d, idea), {}), regret[d, "RBF"]
            both = [k for k in found if k in base]
            if not both:
                cells.append("")
                continue
            mean, own = (float(np.mean([values[k] for k in both])) for values in (found, base))
            difference = np.array([found[k] - base[k] for k in both])
            error = difference.std(ddof=1) / math.sqrt(len(both)) if len(both) > 1 else math.nan
            told = "" if idea == "RBF" else f" ({difference.mean():+.1f}, se {error:.1f})"
            cells.append(f"{mean:.1f}{told}")
            ratios.setdefault(idea, {})[d] = mean / own
            seeds.append(len(both))
        if seeds:
            values = list(ratios[idea].values())
            ends = f"{np.mean(values):.3f} | {max(values):.3f} | {min(seeds)}"
            lines.append(f"| {idea} | {' | '.join(cells)} | {ends} |")
    complete = {i: r for i, r in ratios.items() if len(r) == len(sets)}
    for left_out in sets if len(sets) > 1 else []:
        means = {i: np.mean([v for d, v in r.items() if d != left_out]) for i, r in complete.items()}
        best = min(means, key=lambda i: float(means[i]))
        lines.append(
            f"\nLeaving {left_out} out: {best}; its ratio on {left_out} is {complete[best][left_out]:.3f}."
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(HORIZONS))
    parser.add_argument("--ideas", default=";".join(list(IDEAS)[:FIRST]), help="names with ; between, or all")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--horizon", type=int, default=4000, help="at most")
    parser.add_argument("--streams", default="docs/paper/streams.npz")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/screen.jsonl"))
    parser.add_argument("--table", action="store_true", help="print the table of all results and stop")
    asked = parser.parse_args()
    done = [json.loads(line) for line in asked.results.read_text().splitlines()] if asked.results.exists() else []
    have = {(r["data"], r["idea"], r["seed"], r["horizon"]) for r in done}
    for data in [] if asked.table else asked.data.split(","):
        horizon = min(asked.horizon, HORIZONS[data])
        for seed in range(asked.seeds):
            ideas = [i for i in IDEAS if asked.ideas == "all" or i in asked.ideas.split(";")]
            ideas = [i for i in ideas if (data, i, seed, horizon) not in have]
            X, Y, given = game(data, seed, horizon, asked.streams) if ideas else (np.empty(0), np.empty(0), [])
            for idea in ideas:
                row = {"data": data, "idea": idea, "seed": seed, "horizon": horizon}
                done.append({**row, "regret": play(IDEAS[idea], X, Y, given)})
                with asked.results.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
    print(table(done))


if __name__ == "__main__":
    main()
