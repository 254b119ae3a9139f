"""The demo: one story. Related items, some of them new, noisy clicks, and what sharing is worth there.

Everything here is done with the public interface; `tell` is a page of code that a reader may copy.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cho_factor

import kinbandits as kb
from kinbandits.environments import Shop
from kinbandits.policy import Explanation
from kinbandits.progress import Told
from kinbandits.report.comparing import Comparison
from kinbandits.report.html import Section, one_line, write_page

POLICIES: dict[str, Any] = {
    "with descriptors": lambda shop: kb.KMTLUCB(shop.arms, similarity=kb.Known(descriptors=shop.descriptors)),
    "default": kb.KMTLUCB,
    "independent arms": lambda shop: kb.KMTLUCB(shop.arms, similarity=kb.Independent()),
    "Lin-UCB": lambda shop: kb.baselines.LinUCB(shop.arms, exploration=0.3),  # better here than 0.1 and 1
}
NEXT = "kinbandits paper --quick"


@dataclass(frozen=True, eq=False)
class Story:
    """What the demo found."""

    shop: Shop  # the game
    comparison: Comparison  # all runs
    lent: Explanation  # what an item that came late is estimated at, and from whose clicks
    rows: int  # learned, for the costs
    exact: float  # seconds of a decision of the exact engine
    again: float  # of a factorisation alone

    @property
    def table(self) -> list[list[str]]:
        """Policy, clicks in the mean, regret, and what it takes in clicks compared with the first."""
        rows, first = [], self._clicks(next(iter(POLICIES)))
        for s in self.comparison.summaries:
            clicks = self._clicks(s.method)
            less = "" if s.method == next(iter(POLICIES)) else f"{clicks - first:+.0f}"
            rows.append([s.method, f"{clicks:.0f}", less, f"{s.mean:.0f}", f"{s.low:.0f} to {s.high:.0f}"])
        return rows

    @property
    def columns(self) -> tuple[str, ...]:
        return ("policy", "clicks", "against the first", "regret", "95 % interval")

    @property
    def answer(self) -> str:
        know, alone = self._clicks("with descriptors"), self._clicks("independent arms")
        return (
            f"{self.shop.n_arms} items, half of them new, and {self.comparison.group.rounds:,} customers: a policy "
            f"that knows which items are alike got {know:.0f} clicks where one that learns every item alone got "
            f"{alone:.0f}, and Lin-UCB {self._clicks('Lin-UCB'):.0f} (means of {len(self.comparison.group.seeds)} "
            "shops)."
        )

    @property
    def cost(self) -> str:
        """Of the exact engine, in a sentence."""
        return (
            f"After {self.rows:,} rows an exact decision, with learning, takes {1e3 * self.exact:.2f} ms. To "
            f"factorise the kernel matrix anew takes {1e3 * self.again:.0f} ms, {self.again / self.exact:.0f} "
            "times as much, every time."
        )

    def _clicks(self, method: str) -> float:
        return float(np.mean([run.trace["reward"].sum() for run in self.comparison.group.of(method)]))

    def write(self, out: Path, command: str) -> Path:
        """The page ``index.html``, with figures and tables beside it."""
        seeds = len(self.comparison.group.seeds)
        regret = f"""
            Regret: clicks expected of the best item on sale minus those of the item shown. Mean of {seeds} shops;
            shaded: its 95 % interval."""
        sums = "The estimate is a weighted sum of the clicks seen so far; a bar is the part of one item's clicks."
        cost = f"{self.cost} Nothing is approximated. Past 5,000 rows a policy goes over to an engine of constant "
        paper = f"The experiments of the paper, its claims one by one, with tests: {NEXT}"
        table = self.columns, self.table, (1, 2, 3, 4)
        sections = [
            Section("regret", "Clicks that were missed", one_line(regret), *table, figure=self.comparison.plot()),
            Section("lent", "Who lent what", f"{self.lent.sentence}\n{sums}", figure=self.lent.plot()),
            Section("cost", "What it costs", f"{cost}cost by itself."),
            Section("next", "Next", f"{paper}\nA service with a dashboard: kinbandits serve --demo"),
        ]
        return write_page(out, "What sharing is worth", self.answer, sections, command=command)


def tell(seeds: int = 6, horizon: int | None = None, jobs: int = 2, progress: bool | Told | None = None) -> Story:
    """Play the shop and look at what was learned."""
    shop = Shop() if horizon is None else Shop(horizon=horizon)
    comparison = kb.compare(POLICIES, shop, seeds=seeds, jobs=jobs, progress=progress)
    policy = POLICIES["with descriptors"](shop)
    kb.simulate(policy, shop)
    customer = np.zeros(shop.n_features)
    young = [item for item in shop.arms[shop.on_sale(0) :] if policy.counts[item] <= 2] or shop.arms[-1:]
    newest = young[int(policy.means(customer, young).argmax())]  # the most promising of those hardly shown
    return Story(shop, comparison, policy.explain_arm(newest, customer), *_costs())


def _costs(rows: int = 2000, rounds: int = 60) -> tuple[int, float, float]:
    """Rows, and the least seconds of a decision of the exact engine and of one factorisation."""
    rng = np.random.default_rng(0)
    policy = kb.KMTLUCB(10, similarity=kb.Mixed(0.5), ridge=0.1, engine="exact")
    X = rng.standard_normal((rows + rounds, 5))
    policy.observe(rng.integers(10, size=rows), X[:rows], rng.random(rows))
    exact, again = [], []
    for x in X[rows:]:
        started = time.perf_counter()
        policy.update(policy.choose(x), float(rng.random()))
        exact.append(time.perf_counter() - started)
    M = kb.RBF()(X[:rows], X[:rows]) + 0.1 * np.eye(rows)
    for _ in range(5):
        started = time.perf_counter()
        cho_factor(M, lower=True, check_finite=False)
        again.append(time.perf_counter() - started)
    return rows, min(exact), min(again)
