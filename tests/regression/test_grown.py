"""A frozen posterior that has grown says what one says that is laid out anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.regression import frozen
from kinbandits.regression.frozen import FrozenRegression

CASES: dict[str, dict[str, Any]] = {
    "independent": {"similarity": kb.Independent()},
    "pooled": {"similarity": kb.Pooled()},
    "mixed": {"similarity": kb.Mixed(0.4)},
    "two families": {"similarity": kb.Known(np.kron(np.eye(2), [[1.0, 0.5], [0.5, 1.0]]))},
    "two terms": {
        "kernel": kb.Term(kb.Independent(), kb.RBF(1.0)) + kb.Term(kb.Pooled(), kb.RBF(2.0)),
    },
    "per arm": {"similarity": kb.Mixed(0.4), "weighting": "per_arm"},
}


def first_chunks(regression: FrozenRegression) -> list[Any]:
    return [family.chunks[0].W for family in regression._families.values()]


@pytest.mark.parametrize("name", CASES)
def test_grown_is_frozen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen, "_HEIGHT", 16)  # several chunks, and some that are not full
    options = dict(CASES[name])
    if "kernel" not in options:
        options["context_kernel"] = kb.RBF(1.0)
    policy = kb.KMTLUCB(["a", "b", "c", "d"], engine="exact", ridge=0.01, **options)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 1, 3))

    def learn(n: int) -> None:
        arms = [policy.arms[i] for i in rng.integers(0, 3, n)]  # d is never played
        policy.observe(arms, rng.normal(size=(n, 3)), rng.random(n))

    learn(160)
    kept = policy.frozen()
    for n in (1, 7, 0, 3, 1, 30):
        learn(n)
        before, kept = kept, policy.frozen()
        old, new = before.regression, kept.regression
        assert isinstance(old, FrozenRegression)
        assert isinstance(new, FrozenRegression)
        assert old is not new
        shared = all(a is b for a, b in zip(first_chunks(old), first_chunks(new), strict=True))
        assert shared == (name != "per arm")
        afresh = kb.KMTLUCB.copy(policy)
        afresh.regression._laid_out = None
        other = afresh.frozen()
        for contexts in (X, np.repeat(X, 4, axis=1) + np.arange(4)[None, :, None]):
            for found, expected in zip(kept.predict(contexts), other.predict(contexts), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        assert kept.log_det() == pytest.approx(other.log_det(), rel=1e-9)
        np.testing.assert_allclose(kept.covariance(X[0]), other.covariance(X[0]), rtol=1e-8, atol=1e-11)
        mine, theirs = kept.explain_arm("a", X[0, 0]), other.explain_arm("a", X[0, 0])
        assert mine.mean == pytest.approx(theirs.mean, rel=1e-9)
        assert mine.lent["b"] == pytest.approx(theirs.lent["b"], rel=1e-8, abs=1e-12)


def test_another_similarity_is_laid_out_anew() -> None:
    policy = kb.KMTLUCB(3, context_kernel=kb.RBF(1.0), similarity=kb.Estimated(length_scale=0.5), engine="exact")
    rng = np.random.default_rng(0)
    policy.observe(rng.integers(0, 3, 150).tolist(), rng.normal(size=(150, 2)), rng.random(150))
    first = policy.frozen()
    policy.observe([0], rng.normal(size=(1, 2)), [0.5])
    second = policy.frozen()  # the matrix has moved with the row
    assert isinstance(second.regression, FrozenRegression)
    assert first.regression is not second.regression
    np.testing.assert_allclose(second.predict([0.1, 0.2]).mean, policy.predict([0.1, 0.2]).mean, rtol=1e-8)
