"""What tests share: tables of kernels, similarities and policies, streams of rows, Hypothesis strategies.

Included on purpose: coinciding contexts, one arm, one round, length scales from 1e-3 to 1e3.
All arrays handed to the library are read-only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import kinbandits as kb
from kinbandits.history import History

Array = NDArray[np.float64]
D = 3  # features of a context in the tables below
PROBE = np.random.default_rng(99).uniform(-1.0, 1.0, (5, D))

# -- tables ---------------------------------------------------------------------------------------


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
    "linear": kb.Linear(),
    "polynomial": (kb.Linear() + kb.Constant(1.0)) ** 2,
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


Maker = Callable[[int], kb.similarity.Similarity]
SIMILARITIES: dict[str, Maker] = {
    "independent": lambda n: kb.Independent(),
    "pooled": lambda n: kb.Pooled(),
    "mixed": lambda n: kb.Mixed(mu=0.6),
    "mixed-negative": lambda n: kb.Mixed(mu=-0.9 / (n - 1) if n > 1 else 0.0),
    "known": lambda n: kb.Known(negative_similarity(n)),
    "descriptors": lambda n: kb.Known(descriptors=np.linspace(0.0, 1.0, n), kernel=kb.RBF(0.4)),
    "graph": lambda n: kb.Graph(ring(n)),
    "graph-normalised": lambda n: kb.Graph(ring(n), normalise=True),
    "estimated": lambda n: kb.Estimated(length_scale=0.4, embedding_kernel=kb.RBF(length_scale=0.7)),
}
LEARNED: dict[str, Maker] = {
    "learned": lambda n: kb.Learned(),
    "learned from descriptors": lambda n: kb.Learned(kb.Known(descriptors=np.linspace(0.0, 1.0, n))),
}
NEW_ARM: dict[str, dict[str, Any]] = {  # what add_arm needs besides a name, where there are four arms
    "known": {"similarity": [0.2, 0.0, 0.1, -0.1]},
    "descriptors": {"descriptor": 0.4},
    "graph": {"neighbours": [0, 2]},
    "graph-normalised": {"neighbours": [3]},
    "learned from descriptors": {"descriptor": [0.4]},
}


# -- streams of rows ------------------------------------------------------------------------------


class Rows(NamedTuple):
    """Rows to learn from: arms (t,), contexts (t, d), rewards (t,)."""

    arms: NDArray[np.intp]
    contexts: Array
    rewards: Array

    def part(self, low: int, high: int) -> Rows:
        return Rows(self.arms[low:high], self.contexts[low:high], self.rewards[low:high])

    def history(self, n_arms: int) -> History:
        return History.of(n_arms, *self)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
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
    return Rows(read_only(arms), read_only(contexts), read_only(rewards))


# -- policies in the middle of a game ---------------------------------------------------------------


def played(similarity: Any = "mixed", rounds: int = 15, n_arms: int = 4, **settings: Any) -> kb.KMTLUCB:
    """A policy of fixed values that has logged rows, decided, learned some rewards and waits for three."""
    value = (SIMILARITIES | LEARNED)[similarity](n_arms) if isinstance(similarity, str) else similarity
    fixed: dict[str, Any] = {"context_kernel": kb.RBF(0.8), "similarity": value, "ridge": 0.1, "rewards": None}
    policy = kb.KMTLUCB(n_arms, **(fixed | settings))
    play(policy, rounds)
    return policy


def play(policy: Any, rounds: int = 15) -> None:
    """Six logged rows and some decisions, of which every fifth is left open."""
    rows = random_rows(seed=21, n_arms=len(policy.arms), t=rounds + 6)
    policy.observe([policy.arms[a] for a in rows.arms[:6]], rows.contexts[:6], np.clip(rows.rewards[:6], 0.0, 1.0))
    for t in range(6, rounds + 6):
        decision = policy.choose(rows.contexts[t])
        if t % 5:
            policy.update(decision, float(0.5 + 0.1 * np.sin(t) + 0.1 * decision.index))


def picture(policy: Any) -> dict[str, Any]:
    """All that must not change when a call fails."""
    mean, width = policy.predict_many(PROBE)
    shown = {
        "mean": mean.tolist(),
        "width": width.tolist(),
        "pending": policy.pending(),
        "rng": str(policy.rng.bit_generator.state),
        "arms": policy.arms,
        "retired": policy.retired,
        "decisions": policy.n_decisions,
        "rows": policy.n_observations,
        "names": policy.feature_names,
    }
    if isinstance(policy, kb.KMTLUCB):
        shown |= {"model": str(policy.model), "counts": policy.counts, "kernel": policy.kernel}
    return shown


def same_numbers(a: Any, b: Any, tolerance: float = 1e-9) -> None:
    for one, two in zip(a.predict_many(PROBE), b.predict_many(PROBE), strict=True):
        np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)


# -- strategies -----------------------------------------------------------------------------------

length_scales = st.floats(-3.0, 3.0).map(lambda power: float(10.0**power))


@st.composite
def contexts(draw: st.DrawFn, n: int | None = None, d: int | None = None) -> Array:
    """(n, d) rows drawn from a few different ones, so that some coincide."""
    n = draw(st.integers(1, 8)) if n is None else n
    d = draw(st.integers(1, 4)) if d is None else d
    entry = st.floats(-3.0, 3.0, allow_nan=False, width=32)
    pool = draw(st.lists(st.lists(entry, min_size=d, max_size=d), min_size=1, max_size=max(n, 1)))
    picks = draw(st.lists(st.integers(0, len(pool) - 1), min_size=n, max_size=n))
    return read_only(np.array([pool[i] for i in picks], dtype=np.float64).reshape(n, d))


@st.composite
def kernels(draw: st.DrawFn, d: int, depth: int = 2) -> kb.kernels.Kernel:
    """Kernels of ours: simple ones, and sums, products and multiples of them."""
    if depth == 0 or draw(st.booleans()):
        scale = draw(st.one_of(length_scales, st.tuples(*[length_scales] * d)))
        simple = [kb.RBF(scale), *(kb.Matern(scale, nu) for nu in (0.5, 1.5, 2.5)), kb.RationalQuadratic(scale)]
        return draw(st.sampled_from([*simple, kb.Linear(), kb.Constant(draw(st.floats(0.0, 5.0)))]))
    first, how = draw(kernels(d, depth - 1)), draw(st.sampled_from(["sum", "product", "scaled"]))
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
def rows(draw: st.DrawFn, n_arms: int, max_size: int = 10) -> Rows:
    """One to a few rounds, coinciding contexts."""
    t = draw(st.integers(1, max_size))
    X = draw(contexts(n=t))
    arms = draw(st.lists(st.integers(0, n_arms - 1), min_size=t, max_size=t))
    entry = st.floats(-2.0, 2.0, allow_nan=False, width=32)
    rewards = draw(st.lists(entry, min_size=t, max_size=t))
    return Rows(read_only(np.array(arms, dtype=np.intp)), X, read_only(np.array(rewards, dtype=np.float64)))
