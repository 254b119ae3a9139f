"""Hypothesis strategies, and the tables of kernels and similarities that parametrised tests cross.

Included on purpose: coinciding contexts, one arm, one round, length scales from 1e-3 to 1e3.
All arrays handed to the library are read-only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import kinbandits as kb
from kinbandits.history import History
from kinbandits.regression import ENGINES, Query, Regression, RegressionSettings
from kinbandits.terms import Terms, as_terms

Array = NDArray[np.float64]

# -- tables ---------------------------------------------------------------------------------------

D = 3  # features of a context in the tables below


def laplacian_of_differences(A: Array, B: Array) -> Array:
    """A plain callable kernel, exp(-sum |x - x'|)."""
    return np.exp(-np.abs(A[:, None, :] - B[None, :, :]).sum(axis=2))


KERNELS: dict[str, object] = {
    "rbf": kb.RBF(length_scale=0.8),
    "rbf-per-feature": kb.RBF(length_scale=(0.5, 1.0, 4.0)),
    "matern12": kb.Matern(nu=0.5),
    "matern32": kb.Matern(nu=1.5, length_scale=0.7),
    "matern52": kb.Matern(nu=2.5, length_scale=2.0),
    "rational": kb.RationalQuadratic(length_scale=0.8),
    "rational-2": kb.RationalQuadratic(length_scale=0.8, alpha=2.5),
    "tangent": kb.kernels.ArcCosine(length_scale=0.8, depth=2, tangent=True),
    "linear": kb.Linear(),
    "polynomial": (kb.Linear() + kb.kernels.Constant(1.0)) ** 2,
    "mixture": 0.5 * kb.RBF() + 0.2 * kb.Linear((0.1, -0.2, 0.3), 1.5) * kb.Matern(nu=1.5),
    "callable": laplacian_of_differences,
}


def negative_similarity(n_arms: int) -> Array:
    """A unit-diagonal PSD matrix with entries of both signs, of full rank."""
    B = np.random.default_rng(n_arms).standard_normal((n_arms, n_arms + 1))
    K = B @ B.T
    scale = np.sqrt(np.diag(K))
    return K / np.outer(scale, scale)


def ring(n_arms: int) -> Array:
    """Adjacency of a ring, with one edge that counts double."""
    A = np.zeros((n_arms, n_arms))
    for a in range(n_arms - 1):
        A[a, a + 1] = A[a + 1, a] = 1.0 + (a == 0)
    return A


SIMILARITIES: dict[str, Callable[[int], kb.similarity.Similarity]] = {
    "independent": lambda n: kb.Independent(),
    "pooled": lambda n: kb.Pooled(),
    "mixed": lambda n: kb.Mixed(mu=0.6),
    "mixed-negative": lambda n: kb.Mixed(mu=-0.9 / (n - 1) if n > 1 else 0.0),
    "known": lambda n: kb.Known(negative_similarity(n)),
    "descriptors": lambda n: kb.Known(kb.RBF(length_scale=0.4), np.linspace(0.0, 1.0, n)),
    "graph": lambda n: kb.Graph(ring(n)),
    "graph-normalised": lambda n: kb.Graph(ring(n), normalise=True),
    "estimated": lambda n: kb.Estimated(length_scale=0.4, embedding_kernel=kb.RBF(length_scale=0.7)),
    "estimated-rewards": lambda n: kb.Estimated(
        length_scale=0.4, embedding_kernel=kb.RBF(length_scale=0.7), embed="context_reward"
    ),
}

EXACT_ENGINES = [name for name in ENGINES if name == "exact"]  # those that must agree with "naive"


def engine_of(name: str, points: int = 256) -> Any:
    """An engine by the name under which tests speak of it."""
    return kb.Budgeted(points) if name == "budgeted" else name


WEIGHTINGS = ["uniform", "per_arm"]
COLD_STARTS = ["explore", "borrow"]


def two_terms(similarity: kb.similarity.Similarity, kernel: object) -> Terms:
    """The pair under test on some columns, and a second product on others."""
    return kb.Term(similarity, kernel) + kb.Term(kb.Pooled(), kb.Linear(), columns=[2, 0])


# -- a stream of rows -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Rows to learn from: arms (t,), contexts (t, d), rewards (t,)."""

    n_arms: int
    arms: NDArray[np.intp]
    contexts: Array
    rewards: Array

    def __len__(self) -> int:
        return len(self.arms)

    def __getitem__(self, part: slice | NDArray[np.intp]) -> Rows:
        return Rows(self.n_arms, self.arms[part], self.contexts[part], self.rewards[part])

    def history(self) -> History:
        return History.of(self.n_arms, self.arms, self.contexts, self.rewards)


def read_only(array: NDArray[np.generic]) -> NDArray[np.generic]:
    array.setflags(write=False)
    return array


def random_rows(seed: int, n_arms: int, t: int, d: int = D, repeats: float = 0.2) -> Rows:
    """Rows whose contexts repeat now and then; the last arm is never played (if there are several)."""
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(-1.0, 1.0, (t, d))
    for i in range(1, t):
        if rng.random() < repeats:
            contexts[i] = contexts[rng.integers(i)]
    arms = rng.integers(max(n_arms - 1, 1), size=t)
    rewards = np.sin(3.0 * contexts[:, 0] + arms) + 0.1 * rng.standard_normal(t)
    return Rows(n_arms, read_only(arms), read_only(contexts), read_only(rewards))


def regression(
    engine: str,
    rows: Rows,
    kernel: object,
    ridge: float = 0.1,
    weighting: str = "uniform",
    cold_start: str = "explore",
) -> Regression:
    """An engine that has learned these rows."""
    terms = as_terms(kernel)
    settings = RegressionSettings(terms, ridge, weighting, cold_start)  # type: ignore[arg-type]
    return ENGINES[engine](settings, rows.history())


def queries(rng: np.random.Generator, n_arms: int, d: int = D, rounds: int = 2) -> list[Query]:
    """All arms with one shared context a round; all with their own; some arms, one of them twice."""
    everyone = np.arange(n_arms)
    some = np.array([n_arms - 1, 0, n_arms - 1])
    return [
        Query(everyone, rng.uniform(-1.0, 1.0, (rounds, 1, d))),
        Query(everyone, rng.uniform(-1.0, 1.0, (rounds, n_arms, d))),
        Query(some, rng.uniform(-1.0, 1.0, (rounds, 3, d))),
    ]


# -- strategies ---------------------------------------------------------------------------------------

length_scales = st.floats(-3.0, 3.0).map(lambda power: float(10.0**power))
ridges = st.floats(-3.0, 1.0).map(lambda power: float(10.0**power))
weightings = st.sampled_from(WEIGHTINGS)
cold_starts = st.sampled_from(COLD_STARTS)


@st.composite
def contexts(draw: st.DrawFn, n: int | None = None, d: int | None = None) -> Array:
    """(n, d) rows drawn from a few different ones, so that some coincide."""
    n = draw(st.integers(1, 8)) if n is None else n
    d = draw(st.integers(1, 4)) if d is None else d
    entry = st.floats(-3.0, 3.0, allow_nan=False, width=32)
    pool = draw(st.lists(st.lists(entry, min_size=d, max_size=d), min_size=1, max_size=max(n, 1)))
    picks = draw(st.lists(st.integers(0, len(pool) - 1), min_size=n, max_size=n))
    return read_only(np.array([pool[i] for i in picks], dtype=np.float64).reshape(n, d))  # type: ignore[return-value]


@st.composite
def simple_kernels(draw: st.DrawFn, d: int) -> kb.kernels.Kernel:
    scale = draw(st.one_of(length_scales, st.tuples(*[length_scales] * d)))
    return draw(
        st.sampled_from(
            [
                kb.RBF(length_scale=scale),
                kb.Matern(length_scale=scale, nu=0.5),
                kb.Matern(length_scale=scale, nu=1.5),
                kb.Matern(length_scale=scale, nu=2.5),
                kb.Linear(),
                kb.kernels.Constant(draw(st.floats(0.0, 5.0))),
            ]
        )
    )


@st.composite
def kernels(draw: st.DrawFn, d: int, depth: int = 2) -> kb.kernels.Kernel:
    """Kernels of ours: simple ones, and sums, products and multiples of them."""
    if depth == 0 or draw(st.booleans()):
        return draw(simple_kernels(d))
    first = draw(kernels(d, depth - 1))
    how = draw(st.sampled_from(["sum", "product", "scaled"]))
    if how == "scaled":
        return draw(st.floats(0.0, 10.0)) * first
    second = draw(kernels(d, depth - 1))
    return first + second if how == "sum" else first * second


@st.composite
def similarities(draw: st.DrawFn, n_arms: int) -> kb.similarity.Similarity:
    """Any similarity for so many arms; negative entries and estimates of any length scale included."""
    kind = draw(st.sampled_from(sorted(SIMILARITIES)))
    if kind == "estimated":
        return kb.Estimated(draw(length_scales), kb.RBF(length_scale=draw(length_scales)))
    if kind == "mixed":
        return kb.Mixed(mu=draw(st.floats(0.0, 1.0)))
    return SIMILARITIES[kind](n_arms)


@st.composite
def rows(draw: st.DrawFn, min_size: int = 1, max_size: int = 10, d: int | None = None) -> Rows:
    """One to four arms, one to a few rounds, coinciding contexts."""
    n_arms = draw(st.integers(1, 4))
    t = draw(st.integers(min_size, max_size))
    X = draw(contexts(n=t, d=d))
    arms = draw(st.lists(st.integers(0, n_arms - 1), min_size=t, max_size=t))
    entry = st.floats(-2.0, 2.0, allow_nan=False, width=32)
    rewards = draw(st.lists(entry, min_size=t, max_size=t))
    return Rows(
        n_arms,
        read_only(np.array(arms, dtype=np.intp)),  # type: ignore[arg-type]
        X,
        read_only(np.array(rewards, dtype=np.float64)),  # type: ignore[arg-type]
    )
