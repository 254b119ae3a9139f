"""Each ingredient of the defaults on and off: regret over seeds, paired with Independent at the same settings.

    python benchmarks/ablation.py --problems digits,segment --seeds 10 --streams docs/paper/streams.npz
    python benchmarks/ablation.py --problems hidden,hidden-2d,unrelated --seeds 10 --methods all
    python benchmarks/ablation.py --problems cold-start --seeds 20
    python benchmarks/ablation.py --problems tasks --methods "independent;default" --jobs 1
    python benchmarks/ablation.py --problems clicks --methods "independent;default;LinUCB" --jobs 1
    python benchmarks/ablation.py --table > table.md

Results are kept in a file (one line of JSON per run) and runs found there are not repeated. Data sets beyond Digits
are found as `kinbandits data` says; peptides are a user's own copy (`kinbandits.datasets.peptides`). "tasks" and
"clicks" stand for all problems of that kind. Regret of data sets is the paper's, of the other problems expected
regret.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

import kinbandits as kb
from kinbandits.environments import (
    Classification,
    Clicks,
    HiddenDescriptors,
    MeasuredTasks,
    Rescaled,
    Round,
    Streams,
    SyntheticNews,
    Tasks,
    no_rows,
)
from kinbandits.history import History
from kinbandits.similarity import SimilarityChoice

DATA = {"digits": 1230, "segment": 1000, "pendigits": 4000, "usps": 4000, "mnist": 4000, "letter": 4000}
FIVE = ("A*02:01", "A*02:02", "A*02:03", "A*02:06", "A*68:02")  # measured on the same peptides


@lru_cache(maxsize=1)
def binding() -> kb.datasets.Peptides:
    return kb.datasets.peptides()


def alleles_as_tasks(seed: int) -> MeasuredTasks:
    """The eight alleles that were measured most, 800 random peptides each."""
    data, rng = binding(), np.random.default_rng(seed)
    parts = [data.of(allele) for allele in data.most_measured(8)]
    kept = [rng.permutation(len(names))[:800] for names, _, _ in parts]
    return MeasuredTasks(
        [names[0] for (names, _, _), rows in zip(parts, kept, strict=True) for _ in rows],
        np.concatenate([X[rows] for (_, X, _), rows in zip(parts, kept, strict=True)]),
        np.concatenate([y[rows] for (_, _, y), rows in zip(parts, kept, strict=True)]),
        seed=seed,
    )


@dataclass(frozen=True)
class AllelesAsArms:
    """A peptide comes, and one of five alleles is chosen: the one it binds to most strongly pays most."""

    seed: int
    horizon: int = 1000
    name: str = "peptides"

    @property
    def arms(self) -> list[str]:
        return list(FIVE)

    @property
    def descriptors(self) -> Any:
        return binding().descriptors[[binding().number(a) for a in FIVE]]

    def start_rows(self) -> Any:
        return no_rows()

    def rounds(self) -> Iterator[Round]:
        X, rewards = binding().block(*FIVE)
        for i in np.random.default_rng(self.seed).permutation(len(X))[: self.horizon]:
            yield Round(X[i], rewards[i], rewards[i])


OTHERS: dict[str, Callable[[int], Any]] = {
    "hidden": lambda seed: HiddenDescriptors(seed=seed),
    "hidden-fresh": lambda seed: HiddenDescriptors(seed=1000 + seed),
    "hidden-unseen": lambda seed: HiddenDescriptors(seed=3000 + seed),  # no rule was chosen on these
    "hidden-close": lambda seed: HiddenDescriptors(seed=seed, similarity=0.7),
    "hidden-far": lambda seed: HiddenDescriptors(seed=seed, similarity=0.3),
    "hidden-2d": lambda seed: HiddenDescriptors(seed=seed, descriptor_size=2),
    "unrelated": lambda seed: HiddenDescriptors(seed=seed, similarity=0.0),
    "unrelated-fresh": lambda seed: HiddenDescriptors(seed=1000 + seed, similarity=0.0),
    "news": lambda seed: SyntheticNews(seed=seed),
    "tasks-0": lambda seed: Tasks(seed=seed, mu=0.0),
    "tasks-0.5": lambda seed: Tasks(seed=seed, mu=0.5),
    "tasks-0.9": lambda seed: Tasks(seed=seed, mu=0.9),
    "peptides-tasks": alleles_as_tasks,
    "peptides-arms": AllelesAsArms,
}
OTHERS |= {
    f"clicks-{arms}-{rate}{kind}": lambda seed, arms=arms, rate=rate, scale=scale: Clicks(
        seed=seed, n_arms=arms, click_rate=rate / 100, length_scale=scale
    )
    for arms in (12, 50)
    for rate in (3, 13, 50)
    for kind, scale in (("", None), ("-curved", 2.0))
}
OTHERS |= {
    f"clicks-12-13-{name}": lambda seed, times=times, plus=plus: Rescaled(
        Clicks(seed=seed, click_rate=0.13), times, plus
    )
    for name, times, plus in (("times-1000", 1000.0, 0.0), ("plus-50", 1.0, 50.0))
}
GROUPS = {
    "tasks": ["tasks-0", "tasks-0.5", "tasks-0.9", "news", "peptides-tasks", "peptides-arms"],
    "clicks": [name for name in OTHERS if name.startswith("clicks-")],
}


@dataclass(frozen=True, eq=False, repr=False)
class AlwaysEstimated(kb.Adaptive):
    """The estimate at the median distance, whether it helps or not."""

    def choosing(self, history: History, complete: bool = False) -> Any:
        yield 0.0
        found = self.base.scaled(history, (1.0,), None)
        matrix = found[0][1] if found else np.eye(history.n_arms)
        return SimilarityChoice(len(history) + history.forgotten, 1.0, 1.0, (), "always", matrix)


def _known(environment: Any) -> dict[str, Any]:
    return {"similarity": kb.Known(environment.similarity_matrix)}


# "default" is what kb.KMTLUCB(arms) does; everything else differs from "independent" in what its name says.
METHODS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "independent": lambda e: {"similarity": kb.Independent()},
    "default": lambda e: {},
    "estimated, median scale": lambda e: {"similarity": AlwaysEstimated()},
    "adaptive, no guard": lambda e: {"similarity": kb.Adaptive(guard=False)},
    "adaptive, tolerance 0": lambda e: {"similarity": kb.Adaptive(tolerance=0.0)},
    "adaptive, decisions not asked": lambda e: {"similarity": kb.Adaptive(tolerance=1e9)},
    "adaptive, rewards embedded": lambda e: {
        "similarity": kb.Adaptive(base=kb.Estimated(embedding_kernel=None, embed="context_reward"))
    },
    "adaptive, no self pairs": lambda e: {
        "similarity": kb.Adaptive(base=kb.Estimated(embedding_kernel=None, self_pairs=False))
    },
    "known": _known,
    "known by descriptors": lambda e: {"similarity": kb.Known(descriptors=e.descriptors)},
    "default with descriptors": lambda e: {"similarity": kb.Adaptive(base=kb.Known(descriptors=e.descriptors))},
    "pooled": lambda e: {"similarity": kb.Pooled()},
    "LinUCB": lambda e: {"policy": kb.baselines.LinUCB},
    "RBF": lambda e: {"similarity": kb.Independent(), "context_kernel": kb.Median()},
    "RBF, adaptive": lambda e: {"context_kernel": kb.Median()},
    "rational quadratic, alpha 1": lambda e: {
        "similarity": kb.Independent(),
        "context_kernel": kb.Median(kernel=kb.RationalQuadratic()),
    },
    "Matern 5/2": lambda e: {"similarity": kb.Independent(), "context_kernel": kb.Median(kernel=kb.Matern())},
    "half the length scale": lambda e: {
        "similarity": kb.Independent(),
        "context_kernel": kb.Median(kernel=kb.RationalQuadratic(0.5, alpha=2.0)),
    },
    "exploration 0.08": lambda e: {"similarity": kb.Independent(), "exploration": 0.08},
    "decaying exploration": lambda e: {
        "similarity": kb.Independent(),
        "exploration": kb.exploration.Decaying(0.1, rounds=1000, floor=0.03),
    },
    "GP-UCB exploration": lambda e: {
        "similarity": kb.Independent(),
        "exploration": kb.exploration.GPUCBExploration(len(e.arms), scale=0.3),
    },
    "posterior sampling": lambda e: {
        "similarity": kb.Independent(),
        "exploration": kb.Thompson(),
    },
    "principal components": lambda e: {
        "similarity": kb.Independent(),
        "context_kernel": kb.representation.Represented(kb.representation.PrincipalComponents(20)),
    },
    "reward directions": lambda e: {
        "similarity": kb.Independent(),
        "context_kernel": kb.representation.Represented(kb.representation.RewardDirections()),
    },
    # declared: what the user knows of the rewards
    "ceiling 1 declared": lambda e: {"similarity": kb.Independent(), "exploration": kb.UCB(0.1, ceiling=1.0)},
    "principal components, ceiling 1 declared": lambda e: {
        "similarity": kb.Independent(),
        "context_kernel": kb.representation.Represented(kb.representation.PrincipalComponents(20)),
        "exploration": kb.UCB(0.1, ceiling=1.0),
    },
    "one of N declared": lambda e: {"rewards": kb.OneOfN(), "engine": "exact"},
}
COLD_STARTS = ("explore", "borrow")  # the methods of the problem "cold-start"
ORDER = {method: i for i, method in enumerate([*COLD_STARTS, *METHODS])}


def cold_start(method: str, seed: int) -> dict[str, Any]:
    """Five of twenty arms appear at T/2, descriptors known: expected regret after that."""
    environment = HiddenDescriptors(seed=seed)
    z, kernel, half = environment.descriptors, kb.RBF(length_scale=0.2), environment.horizon // 2
    names, contexts, rewards = environment.start_rows()
    policy = kb.KMTLUCB(15, similarity=kb.Known(kernel, z[:15]), cold_start=method, seed=seed)
    policy.observe(names[:15], contexts[:15], rewards[:15])
    total = 0.0
    for t, round in enumerate(environment.rounds()):
        if t == half:
            for arm in range(15, 20):
                policy.add_arm(arm, descriptor=z[arm])
        decision = policy.choose(round.context)
        policy.update(decision, float(round.rewards[decision.index]))
        if t >= half:
            total += float(round.means.max() - round.means[decision.index])
    key = {"problem": "cold-start", "method": method, "seed": seed, "horizon": environment.horizon}
    return {**key, "regret": round_off(total), "largest_similarity": 1.0}


def round_off(value: float) -> float:
    return float(np.round(value, 4))


def environment_of(problem: str, seed: int, streams: str, horizon: int | None) -> Any:
    if (
        problem.endswith("-fresh") and problem.removesuffix("-fresh") in DATA
    ):  # other streams than those in the file
        data = problem.removesuffix("-fresh")
        most = {"horizon": horizon or DATA[data]}
        return Classification(data, protocol="paper", seed=1000 + seed, **most)
    if problem in DATA:
        return Streams(problem, streams, seed=seed, horizon=horizon or DATA[problem])
    return OTHERS[problem](seed)


def rounds_of(problem: str, horizon: int | None) -> int:
    data = DATA.get(problem.removesuffix("-fresh"))
    if data is not None:
        return horizon or data
    return 1000 if problem == "cold-start" else int(OTHERS[problem](0).horizon)


def applies(method: str, problem: str) -> bool:
    """Whether the problem has what the method wants to know."""
    if method == "known":
        return problem.startswith(("hidden", "unrelated", "tasks"))
    if "descriptors" in method:
        return problem.startswith(("hidden", "unrelated", "peptides-arms"))
    return True


def run(problem: str, method: str, seed: int, streams: str, horizon: int | None) -> dict[str, Any]:
    if problem == "cold-start":
        return cold_start(method, seed)
    environment = environment_of(problem, seed, streams, horizon)
    settings = METHODS[method](environment)
    policy = settings.pop("policy", kb.KMTLUCB)(environment.arms, seed=seed, **settings)
    trace = kb.simulate(policy, environment)
    regret = trace.final_regret if problem.removesuffix("-fresh") in DATA else trace.final_expected_regret
    regret /= getattr(environment, "times", 1.0)
    shared = float(np.abs(policy.similarity_matrix() - np.eye(policy.n_arms)).max())
    key = {"problem": problem, "method": method, "seed": seed, "horizon": len(trace)}
    return {**key, "regret": round_off(regret), "largest_similarity": round_off(shared)}


def table(rows: list[dict[str, Any]]) -> str:
    regret: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        regret.setdefault((f"{row['problem']} (T={row['horizon']})", row["method"]), {})[row["seed"]] = row[
            "regret"
        ]
    lines = [
        "| problem | method | seeds | regret | sd | difference | se | better in |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (problem, method), found in sorted(regret.items(), key=lambda kv: (kv[0][0], ORDER[kv[0][1]])):
        reference = "explore" if problem.startswith("cold-start") else "independent"
        base = regret.get((problem, reference), {})
        pairs = [found[s] - base[s] for s in found if s in base]
        spread = statistics.stdev(found.values()) if len(found) > 1 else float("nan")
        mean = statistics.mean(found.values())
        text = f"| {problem} | {method} | {len(found)} | {mean:.1f} | {spread:.1f} |"
        if method == reference or not pairs:
            lines.append(text + " | | |")
            continue
        error = statistics.stdev(pairs) / len(pairs) ** 0.5 if len(pairs) > 1 else float("nan")
        better = sum(p < 0 for p in pairs)
        lines.append(text + f" {statistics.mean(pairs):+.1f} | {error:.1f} | {better} of {len(pairs)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="digits")
    parser.add_argument("--methods", default="independent;default", help="names with ; between, or all")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--horizon", type=int, default=None, help="shorter than usual (data sets only)")
    parser.add_argument("--streams", default="docs/paper/streams.npz")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/ablation.jsonl"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="print the table of all results and stop")
    asked = parser.parse_args()
    done = [json.loads(line) for line in asked.results.read_text().splitlines()] if asked.results.exists() else []
    if not asked.table:
        have = {(r["problem"], r["method"], r["seed"], r["horizon"]) for r in done}
        methods = [m for m in METHODS if asked.methods == "all" or m in asked.methods.split(";")]
        todo = [
            (p, m, s, asked.streams, asked.horizon)
            for group in asked.problems.split(",")
            for p in GROUPS.get(group, [group])
            for s in range(asked.seeds)
            for m in (COLD_STARTS if p == "cold-start" else methods)
            if (p, m, s, rounds_of(p, asked.horizon)) not in have and applies(m, p)
        ]
        asked.results.parent.mkdir(parents=True, exist_ok=True)
        with asked.results.open("a") as file:
            for row in Parallel(n_jobs=asked.jobs, return_as="generator_unordered")(delayed(run)(*t) for t in todo):
                file.write(json.dumps(row) + "\n")
                file.flush()
                done.append(row)
    print(table(done))


if __name__ == "__main__":
    main()
