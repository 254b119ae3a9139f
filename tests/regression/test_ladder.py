"""The exact ladder: its intervals hold at every rung, against sums in long double."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinbandits.history import History
from kinbandits.kernels import RBF, Constant, Linear, Matern
from kinbandits.regression import Common, Product, Query, Settings, make
from kinbandits.regression.ladder import Error, Ladder
from kinbandits.similarity import Estimated

KINDS = ["independent", "pooled", "mixed", "known", "singular", "estimated"]
Wide = np.longdouble


def similarity(kind: str, n_arms: int, rng: np.random.Generator) -> Any:
    root = rng.normal(size=(n_arms, n_arms))
    return {
        "independent": Common(n_arms),
        "pooled": Common(n_arms, 1.0),
        "mixed": Common(n_arms, float(rng.uniform(0.0, 1.0))),
        "known": root @ root.T,
        "singular": np.outer(root[0], root[0]),
        "estimated": Estimated(float(10 ** rng.uniform(-1.5, 1.0)), RBF(float(10 ** rng.uniform(-1, 1)))),
    }[kind]


def kernel(kind: int, length_scale: float) -> Any:
    scaled = 2.0 * RBF(length_scale)
    return [RBF(length_scale), Matern(length_scale), Linear() + Constant(1.0), scaled][kind]


def exact_scores(ladder: Ladder, query: Query, exploration: float) -> np.ndarray:
    """Mean + exploration * width of a single round in long double, by the Cholesky algorithm written out."""
    h, s = ladder.rows, ladder.settings
    assert h is not None
    k_x, (K_Z,) = s.terms[0].kernel, ladder.k_z
    M = (K_Z[np.ix_(h.arms, h.arms)].astype(Wide) * k_x(h.contexts, h.contexts).astype(Wide)).astype(Wide)
    M[np.diag_indices(len(h))] += s.noise(h.arms, h.counts).astype(Wide)
    arms, X = query.points()
    k = K_Z[np.ix_(h.arms, arms)].astype(Wide) * k_x(h.contexts, X).astype(Wide)
    right = np.column_stack([s.learned(h.rewards).astype(Wide), k])
    prior = K_Z[arms, arms].astype(Wide) * k_x.diag(X).astype(Wide)
    for j in range(len(h)):  # L^-1 of the right side, column by column
        root = np.sqrt(M[j, j])
        right[j] /= root
        column = M[j + 1 :, j] / root
        right[j + 1 :] -= column[:, None] * right[j]
        M[j + 1 :, j + 1 :] -= np.outer(column, column)
    z, c = right[:, 0], right[:, 1:]
    mean, variance = z @ c, np.maximum(prior - (c * c).sum(axis=0), Wide(0.0))
    score = mean + Wide(exploration) * np.sqrt(variance / Wide(s.ridge))
    cold = (h.counts[arms] == 0) & (s.cold_start == "explore")
    return np.where(cold, Wide(exploration) * np.sqrt(prior / Wide(s.ridge)), score)


def play(seed: int, rounds: int = 12) -> tuple[int, int]:
    """A random game: how many intervals were looked at, and how many miss the score."""
    rng = np.random.default_rng(seed)
    n_arms, d, t = int(rng.integers(1, 7)), int(rng.integers(1, 4)), int(rng.integers(30, 90))
    k_x = kernel(int(rng.integers(4)), 10.0 ** rng.uniform(-1.0, 1.5))
    ridge, weighting = 10.0 ** rng.uniform(-4.0, 1.0), ("per_arm", "uniform")[seed % 2]
    term = Product(similarity(KINDS[seed // 2 % 6], n_arms, rng), k_x)
    s = Settings(n_arms, (term,), ridge, weighting, ("explore", "borrow")[seed // 12 % 2])  # type: ignore[arg-type]
    exploration = float(10.0 ** rng.uniform(-2.0, 0.5) * np.sqrt(ridge))
    unit = 10.0 ** rng.choice([0.0, -8.0, 6.0])
    X, arms = rng.normal(size=(t, d)), rng.integers(n_arms, size=t)
    ladder = Ladder(s, History.of(n_arms, arms, X, unit * rng.normal(size=t)))
    looked = missed = 0
    for _ in range(rounds):
        shared = rng.random() < 0.6
        contexts = rng.normal(size=(1, 1 if shared else n_arms, d))
        query = Query(np.arange(n_arms), np.round(contexts) if rng.random() < 0.2 else contexts)
        scores = exact_scores(ladder, query, exploration)
        for _, intervals in ladder.climb(query, exploration):
            looked += n_arms
            # Kernel values and the widths of arms apart are rounded numbers; a few units of them are theirs.
            slack = 4.0 * 2.0**-52 * (np.abs(scores) + exploration / np.sqrt(ridge))
            missed += int(((intervals.low > scores + slack) | (intervals.high < scores - slack)).sum())
        n = 1 if rng.random() < 0.85 else int(rng.integers(2, 50))
        arms = rng.integers(n_arms, size=n)
        rows = rng.normal(size=(n, d)) if n > 1 else contexts[:, 0 if shared else arms[0]]
        ladder.observe(arms, rows, unit * rng.normal(size=n))
    return looked, missed


@pytest.mark.filterwarnings("ignore::kinbandits.errors.NumericalWarning")
@pytest.mark.parametrize("part", range(4))
def test_no_interval_misses_a_score_in_long_double(part: int) -> None:
    found = np.array([play(seed) for seed in range(part * 24, part * 24 + 24)])
    looked, missed = found.sum(axis=0)
    assert looked > 5_000
    assert missed == 0, f"{missed} of {looked}: seeds {part * 24 + np.flatnonzero(found[:, 1])}"


@pytest.mark.parametrize("what", ["eta", "widths"])
def test_the_check_finds_intervals_that_are_too_narrow(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With half the error of the means, or bounds of widths from one block too good, intervals miss."""
    if what == "eta":
        measured = Ladder._measured

        def half(self: Ladder) -> Error:
            error = measured(self)
            return error._replace(eta=0.2 * error.eta, floor=0.0)

        monkeypatch.setattr(Ladder, "_measured", half)
    else:
        monkeypatch.setattr("kinbandits.regression.blocks.Blocks.bounds", lambda self, K_Z: (1.0, 1.0))
    assert sum(play(seed)[1] for seed in range(24)) > 0


def test_a_matrix_that_is_none_is_refused_by_name() -> None:
    def bad(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.asarray(-np.abs(A[:, :1] - B[:, 0]))

    from kinbandits.kernels import as_kernel

    s = Settings(1, (Product(Common(1), as_kernel(bad)),), 1e-3)
    engine = make("exact", s)
    with pytest.raises(ValueError, match="not positive definite"):
        engine.observe(np.zeros(3, dtype=np.intp), np.arange(3.0)[:, None], np.zeros(3))
    assert engine.n_rows == 0
