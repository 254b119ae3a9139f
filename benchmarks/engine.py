"""How fast is the exact engine, with its compiled core and without? Ratios to two named baselines, in one run.

Equal arms are checked first.

    naive        the paper's formula, everything built anew at every call
    refactorise  the context-kernel matrix cached, one Cholesky factor of the present matrix a round, one triangular
                 solve: what a careful implementer would write

Usage: python benchmarks/engine.py [--quick] [--only TEXT ...] [--out DIR]

Problems: Digits with the published settings (Estimated similarity, per_arm weights), Pendigits and Letter likewise
(where KINBANDITS_DATA has them), the synthetic news problem with a context per arm, Known similarity with 100 arms,
near-singular similarities, Independent, and Lin-UCB. Whole games are timed in CPU seconds of one thread, games with
the core, without it and of the baseline in turn; where all are played in full, the median of three counts. Where
the baseline would take too long, its cost is measured at some sizes t and interpolated (marked ~).
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from kinbandits.presets import paper

import kinbandits as kb
from kinbandits import _compiled as compiled
from kinbandits.environments import Classification, HiddenDescriptors, SyntheticNews
from kinbandits.errors import KinbanditsError, NumericalWarning
from kinbandits.history import History
from refactorise import Refactorise

Settings = dict[str, Any]


def make_policy(engine: str, settings: Settings) -> kb.KMTLUCB:
    """A policy on this engine, or on the baseline."""
    if engine != "refactorise":
        return kb.KMTLUCB(**settings, engine=engine)
    policy = kb.KMTLUCB(**settings, engine="exact")
    policy.regression = Refactorise(policy.regression.settings, History(policy.n_arms))
    return policy


@dataclass
class Problem:
    """One game: start rows, rounds, settings."""

    name: str
    environment: Any
    settings: Settings
    horizon: int

    def policy(self, engine: str) -> kb.KMTLUCB:
        policy = make_policy(engine, {**self.settings, "tie_break": "first"})
        arms, contexts, rewards = self.environment.start_rows()
        if len(arms):
            policy.observe(arms, contexts, rewards)
        return policy

    def play(self, engine: str, horizon: int) -> tuple[list[Any], np.ndarray]:
        """Arms, and CPU seconds of each round (choose and update). ``"numpy"`` is exact without the core."""
        core = compiled.CORE
        if engine == "numpy":
            compiled.CORE = None
        try:
            return self._play("exact" if engine == "numpy" else engine, horizon)
        finally:
            compiled.CORE = core

    def _play(self, engine: str, horizon: int) -> tuple[list[Any], np.ndarray]:
        policy = self.policy(engine)
        names = list(policy.arms)
        arms, seconds = [], np.zeros(horizon)
        for t, round_ in zip(range(horizon), self.environment.rounds(), strict=False):
            before = time.process_time()
            decision = policy.choose(round_.context)
            policy.update(decision, float(round_.rewards[names.index(decision.arm)]))
            seconds[t] = time.process_time() - before
            arms.append(decision.arm)
        self.last = policy
        return arms, seconds


def later_rounds(problem: Problem, arms: list[Any], after: int, sampled: int = 100) -> tuple[int, int]:
    """How many of some rounds beyond ``after`` refactorise plays otherwise after the same history; of how many."""
    policy = problem.policy("refactorise")
    names = list(policy.arms)
    rounds = [r for r, _ in zip(problem.environment.rounds(), arms, strict=False)]
    differ, start = 0, 0
    for t in np.linspace(after, len(arms) - 1, sampled).astype(int).tolist():
        new = list(zip(rounds[start:t], arms[start:t], strict=True))
        if new:
            contexts = np.array(
                [r.context if np.ndim(r.context) == 1 else r.context[names.index(a)] for r, a in new]
            )
            policy.observe([a for _, a in new], contexts, [float(r.rewards[names.index(a)]) for r, a in new])
        start = t
        differ += policy.choose(rounds[t].context).arm != arms[t]
    return differ, sampled


def authors_streams(horizon: int, streams: int) -> None:
    """Digits, the authors' own streams: the arms of exact, of refactorise and of the authors' program."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    X, y = digits.data.astype(np.float64), digits.target
    with np.load(Path(__file__).parent.parent / "tests" / "golden" / "authors-digits.npz") as file:
        start, test, given = file["start_rows"], file["test_rows"][:, :horizon], file["arms_estimated"][:, :horizon]
    differ = close = otherwise = 0
    ratios = []
    for s in range(streams):
        costs: dict[str, float] = {}
        policies, played = {}, {}
        for engine in ("exact", "refactorise"):
            settings = paper("digits")
            policies[engine] = make_policy(engine, {**settings, "arms": 10, "tie_break": "first"})
            policies[engine].observe(np.arange(10), X[start[s]], (y[start[s]] == np.arange(10)).astype(float))
            costs[engine], played[engine] = 0.0, []
        for row in test[s]:
            lead = np.inf
            for engine, policy in policies.items():
                before = time.process_time()
                decision = policy.choose(X[row])
                costs[engine] += time.process_time() - before
                if engine == "refactorise":
                    top = np.sort(decision.scores)[-2:]
                    lead = float(top[1] - top[0])
                before = time.process_time()
                policy.update(decision, float(decision.arm == y[row]))
                costs[engine] += time.process_time() - before
                played[engine].append(decision.arm)
            if played["exact"][-1] != played["refactorise"][-1]:
                differ, close = differ + (lead >= 1e-10), close + (lead < 1e-10)
        otherwise += sum(a != b for a, b in zip(played["exact"], given[s].tolist(), strict=False))
        ratios.append(costs["refactorise"] / costs["exact"])
    print(
        f"Digits, the authors' streams ({streams} of 10, T={test.shape[1]}): {differ} arms differ from "
        f"refactorise, {close} more where the lead is below 1e-10; {otherwise} of {streams * given.shape[1]} "
        f"differ from the authors' program; refactorise / exact, interleaved: median {np.median(ratios):.1f}, "
        f"{min(ratios):.1f} to {max(ratios):.1f}",
        flush=True,
    )


def hard_updates(n: int) -> None:
    """Duplicates, ridge 1e-8 and a huge length scale, n single updates: the normwise backward error at the end."""
    for similarity in (kb.Estimated(0.5, kb.RBF(1.0)), kb.Pooled(), kb.Independent()):
        rng = np.random.default_rng(5)
        policy = kb.KMTLUCB(
            arms=3,
            context_kernel=kb.RBF(1e3),
            similarity=similarity,
            ridge=1e-8,
            weighting="per_arm",
            engine="exact",
        )
        pool = rng.normal(size=(40, 2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)
            for i in range(n):
                policy.observe([int(rng.integers(3))], pool[rng.integers(40, size=1)], rng.normal(size=1))
                if i % (n // 10) == 0:
                    assert np.isfinite(policy.choose(pool[0]).scores).all()
            regression = policy.regression
            h, alpha = regression.history, regression.dual()
        M = regression.settings.terms.gram(regression.similarity_matrices, h.arms, h.contexts, h.arms, h.contexts)
        M[np.diag_indices_from(M)] += regression.settings.noise(h.arms, h.counts)
        error = np.abs(h.rewards - M @ alpha).max() / (np.abs(M).sum(axis=1).max() * np.abs(alpha).max())
        print(f"{n} hard updates, {type(similarity).__name__}: backward error {error:.1e}", flush=True)


def one_round_cost(problem: Problem, engine: str, t: int, arms: list[Any], repeats: int) -> float:
    """Median CPU seconds of a round after the first t rounds, played as the exact engine played them."""
    rounds = [r for r, _ in zip(problem.environment.rounds(), range(t + repeats + 1), strict=False)]
    policy = problem.policy(engine)
    names = list(policy.arms)
    contexts = np.array(
        [
            r.context if np.ndim(r.context) == 1 else r.context[names.index(a)]
            for r, a in zip(rounds[:t], arms[:t], strict=True)
        ]
    )
    rewards = [float(r.rewards[names.index(a)]) for r, a in zip(rounds[:t], arms[:t], strict=True)]
    policy.observe(arms[:t], contexts, rewards)
    policy.choose(rounds[0].context)
    costs = []
    for i in range(repeats):
        r, arm = rounds[t + i], arms[t + i]
        before = time.process_time()
        decision = policy.choose(r.context)
        policy.update(decision, float(r.rewards[names.index(decision.arm)]))
        costs.append(time.process_time() - before)
        if decision.arm != arm:
            print(f"    note: {engine} plays {decision.arm!r} at t={t + i}, exact {arm!r}")
    return float(np.median(costs))


def slope(seconds: np.ndarray, low: int, high: int) -> float:
    """Slope of log cost per round against log t, from medians of eight stretches between low and high."""
    edges = np.geomspace(low, min(high, len(seconds)), 9).astype(int)
    middle = [np.mean(seconds[a:b]) for a, b in pairwise(edges)]
    return float(np.polyfit(np.log((edges[:-1] + edges[1:]) / 2), np.log(middle), 1)[0])


def compare(problem: Problem, checked: int, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Equal arms first, then costs."""
    horizon = problem.horizon
    totals: dict[str, list[float]] = {"exact": [], "numpy": [], "refactorise": []}
    played: dict[str, list[Any]] = {}
    report: dict[str, Any] = {}
    times: dict[str, np.ndarray] = {}
    for _ in range(3 if checked >= horizon else 1):
        for engine in totals:
            rounds = min(checked, horizon) if engine == "refactorise" else horizon
            played[engine], times[engine] = problem.play(engine, rounds)
            report = dict(problem.last.engine_report()) if engine == "exact" else report
            totals[engine].append(float(times[engine].sum()))
    arms, baseline, seconds = played["exact"], played["refactorise"], times["exact"]
    assert arms == played["numpy"], "the core and NumPy play different arms"
    differ = [t for t, (a, b) in enumerate(zip(arms, baseline, strict=False)) if a != b]
    row: dict[str, Any] = {"problem": problem.name, "T": horizon, "checked": len(baseline), "differ": len(differ)}
    if len(baseline) == horizon:
        total, mark = float(np.median(totals["refactorise"])), ""
    else:
        last = horizon - 4  # else the rounds beyond the largest size would be taken to cost no more than it does
        sampled_at = [*(t for t in sizes if t < last), last]
        points = {t: one_round_cost(problem, "refactorise", t, arms, 3) for t in sampled_at}
        grid = np.arange(1, horizon + 1)
        total = float(np.exp(np.interp(np.log(grid), np.log(list(points)), np.log(list(points.values())))).sum())
        mark = "~"
        later, sampled = later_rounds(problem, arms, len(baseline))
        row["differ"] += later
        row["checked"] += sampled
    row["refactorise / exact"] = total / float(np.median(totals["exact"]))
    row["refactorise / numpy"] = total / float(np.median(totals["numpy"]))
    row["totals"] = {**totals, "refactorise": total}
    row["mark"] = mark
    row["ms a round"] = 1000.0 * float(seconds.mean())
    row["slope"] = slope(seconds, max(100, horizon // 4), horizon)
    naive = one_round_cost(problem, "naive", min(400, horizon - 4), arms, 2)
    row["naive / exact at t=400"] = naive / float(np.median(seconds[max(0, min(380, horizon - 40)) :][:40]))
    row["report"] = report
    return row


def problems(quick: bool) -> list[tuple[Problem, int, tuple[int, ...]]]:
    """What is measured, how many rounds are checked, and where baselines are sampled."""
    chosen: list[tuple[Problem, int, tuple[int, ...]]] = []
    sizes = (250, 500, 1000, 2000, 3000, 4000)

    def real(name: str, method: str, horizon: int, checked: int, what: str = "", **changes: Any) -> None:
        try:
            environment = Classification(data=name, protocol="paper", seed=0)
        except KinbanditsError as error:
            print(f"left out: {name} ({str(error).splitlines()[0]})")
            return
        settings = {**paper(name, method), "arms": environment.arms, **changes}
        label = f"{name}, {what or method}"
        chosen.append((Problem(label, environment, settings, min(horizon, environment.horizon)), checked, sizes))

    real("digits", "KMTL-UCB-Est", 400 if quick else 1230, 400 if quick else 1230)
    if not quick:
        real("pendigits", "KMTL-UCB-Est", 4000, 1500)
        real("letter", "KMTL-UCB-Est", 2000, 600)
        real("pendigits", "Kernel-UCB-Ind", 4000, 600)
        wide = paper("pendigits")["similarity"]
        near_singular = {
            "Pooled, per-arm weights": kb.Pooled(),
            "Mixed(0.95), per-arm weights": kb.Mixed(0.95),
            "Estimated, 30 times as wide": wide.replace(length_scale=30 * wide.length_scale),
        }
        for what, similarity in near_singular.items():
            real("pendigits", "KMTL-UCB-Est", 2000, 400, what, similarity=similarity)
    news = SyntheticNews(seed=0, horizon=400 if quick else 1000)
    news_settings = {**paper("synthetic"), "arms": news.arms}
    chosen.append((Problem("synthetic news, context per arm", news, news_settings, news.horizon), 400, sizes))
    hidden = HiddenDescriptors(seed=0, n_arms=100, horizon=300 if quick else 1000)
    described = {
        "arms": hidden.arms,
        "similarity": kb.Known(kb.RBF(0.2), hidden.descriptors),
        "context_kernel": kb.RBF(1.5),
    }
    chosen.append((Problem("Known, 100 arms, uniform weights", hidden, described, hidden.horizon), 300, sizes))
    linear = HiddenDescriptors(seed=1, n_arms=20, horizon=600 if quick else 4000)
    lin_settings = {
        "arms": linear.arms,
        "context_kernel": kb.Linear(),
        "similarity": kb.Independent(),
        "ridge": 1.0,
        "exploration": 1.0,
    }
    chosen.append((Problem("LinUCB, 20 arms", linear, lin_settings, linear.horizon), 200, sizes))
    return chosen


def thousand_arms() -> float:
    """A decision among 1,000 arms with 2,000 observations, over one (1000 x 2000) @ (2000 x 2000) product."""
    rng = np.random.default_rng(0)
    policy = kb.KMTLUCB(
        arms=1000, context_kernel=kb.RBF(3.0), similarity=kb.Known(kb.RBF(0.2), rng.uniform(size=(1000, 2)))
    )
    policy.observe(rng.integers(1000, size=2000), rng.normal(size=(2000, 20)), rng.normal(size=2000))
    A, B = rng.normal(size=(1000, 2000)), rng.normal(size=(2000, 2000))

    def median(run: Callable[[], Any]) -> float:
        run()
        costs = []
        for _ in range(5):
            before = time.process_time()
            run()
            costs.append(time.process_time() - before)
        return float(np.median(costs))

    product = median(lambda: A @ B)
    return median(lambda: policy.choose(rng.normal(size=20))) / product


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Bars of the ratios."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    fig, ax = plt.subplots(figsize=(8, 0.5 * len(rows) + 1.4), constrained_layout=True)
    labels = [f"{r['problem']} (T={r['T']})" for r in rows]
    values = [r["refactorise / exact"] for r in rows]
    bars = ax.barh(labels, values, color="#0072B2")
    ax.bar_label(bars, [f"{r['mark']}{v:.0f}x" for r, v in zip(rows, values, strict=True)], padding=3)
    ax.set_xscale("log")
    ax.invert_yaxis()
    ax.set_xlim(1, max(values) * 3)
    ax.set_xlabel("times faster than re-factorising each round (CPU time of the whole game, one thread)")
    fig.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, under a minute")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where JSON and plot go")
    parser.add_argument("--only", nargs="*", default=[], help="problems whose name begins so, and nothing else")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = []
    small = SyntheticNews(seed=1, horizon=230)  # imports and first calls are not measured
    Problem("warm-up", small, {**paper("synthetic"), "arms": small.arms}, 230).play("exact", 230)
    print(f"compiled core: {compiled.STATE}; times faster than refactorise, with the core and in NumPy alone")
    print(f"{'problem':46s} {'T':>5s} {'core':>8s} {'NumPy':>8s} {'naive':>7s} {'slope':>6s} {'differ':>12s}")
    for problem, checked, sizes in problems(arguments.quick):
        if arguments.only and not problem.name.startswith(tuple(arguments.only)):
            continue
        row = compare(problem, checked, sizes)
        rows.append(row)
        print(
            f"{row['problem'][:46]:46s} {row['T']:5d} "
            f"{row['mark'] + format(row['refactorise / exact'], '.1f'):>8s} "
            f"{row['mark'] + format(row['refactorise / numpy'], '.1f'):>8s} "
            f"{row['naive / exact at t=400']:7.0f} {row['slope']:6.2f} {row['differ']:5d} of {row['checked']}",
            flush=True,
        )
    if arguments.only:
        return
    authors_streams(400 if arguments.quick else 1250, 1 if arguments.quick else 10)
    hard_updates(500 if arguments.quick else 5000)
    ratio = thousand_arms()
    print(
        f"1,000 arms, 2,000 observations: a decision costs {ratio:.2f} of a (1000 x 2000) @ (2000 x 2000) product"
    )
    result = {"rows": rows, "thousand arms": ratio}
    (arguments.out / "engine.json").write_text(json.dumps(result, indent=1, default=str))
    draw(rows, arguments.out / "engine.png")


if __name__ == "__main__":
    main()
