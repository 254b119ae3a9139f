"""Kernels on learned features: when they are learned, from what, and what can be saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.history import History
from kinbandits.representation import OnFeatures, Stretch


def rows(t: int, d: int = 4, seed: int = 0) -> History:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(t, d)) * np.array([3.0, 1.0, 0.1, 0.1])[:d]
    arms = rng.integers(3, size=t)
    return History.of(3, arms, X, np.where(X[:, 2] > 0, arms == 0, arms == 1).astype(float))


def double(X: np.ndarray) -> np.ndarray:
    return 2.0 * X


class Halves:
    """A transformer of scikit-learn's kind, which remembers what it was fitted on."""

    seen = 0
    labels: object = None

    def fit(self, X: np.ndarray, y: object = None) -> Halves:
        self.seen, self.labels = len(X), y
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        return 0.5 * X


def fitted(rule: kb.representation.Represented, history: History) -> kb.kernels.Kernel:
    return rule.fit(history.contexts, history.arms, history.rewards)


@pytest.mark.parametrize(
    "representation",
    [kb.representation.PrincipalComponents(2), kb.representation.RewardDirections(3.0), Halves(), double],
)
def test_features_are_those_of_the_last_milestone(representation: object) -> None:
    history = rows(50)
    kernel = kb.representation.Represented(representation, kb.RBF(2.0), first=10, growth=1.5)
    assert [kernel.milestone(n) for n in (9, 10, 14, 15, 22, 23)] == [0, 10, 10, 15, 15, 23]
    assert fitted(kernel, history.head(9)) == kb.RBF(2.0)
    X = history.contexts[:5]
    for n in range(10, 50):
        now, then = fitted(kernel, history.head(n)), fitted(kernel, history.head(kernel.milestone(n)))
        np.testing.assert_array_equal(now(X, X), then(X, X))
        assert kernel.refits(n, n + 1) == (kernel.milestone(n) != kernel.milestone(n + 1))


def test_engines_agree_while_features_are_learned_again() -> None:
    history = rows(40)
    kernel = kb.representation.Represented(kb.representation.PrincipalComponents(2), first=8)
    fast, naive = (kb.KMTLUCB(3, context_kernel=kernel, engine=e) for e in ("exact", "naive"))
    for i in range(40):
        for policy in (fast, naive):
            policy.observe(history.arms[i : i + 1], history.contexts[i : i + 1], history.rewards[i : i + 1])
    found, wanted = fast.predict(history.contexts[0]), naive.predict(history.contexts[0])
    np.testing.assert_allclose(found.mean, wanted.mean, atol=1e-9)
    np.testing.assert_allclose(found.width, wanted.width, atol=1e-6)


def test_ours_can_be_saved_and_others_say_no(tmp_path: Path) -> None:
    history = rows(40)
    policy = kb.KMTLUCB(
        3, context_kernel=kb.representation.Represented(kb.representation.RewardDirections(), first=8)
    )
    policy.observe(history.arms, history.contexts, history.rewards)
    policy.save(tmp_path / "policy.kb")
    loaded = kb.load(tmp_path / "policy.kb")
    x = history.contexts[0]
    np.testing.assert_array_equal(loaded.predict(x).mean, policy.predict(x).mean)
    other = kb.KMTLUCB(3, context_kernel=kb.representation.Represented(Halves(), first=8))
    with pytest.raises(TypeError, match="cannot save"):
        other.save(tmp_path / "other.kb")


def test_supervised_fit_sees_rewarded_rows_and_their_arms() -> None:
    history = rows(40)
    found = fitted(kb.representation.Represented(Halves(), kb.RBF(), supervised=True, first=30), history)
    good = history.rewards[:30] > history.rewards[:30].mean()
    assert isinstance(found, OnFeatures)
    np.testing.assert_array_equal(found.features_of.labels, history.arms[:30][good])


def test_reward_directions_find_the_column_that_pays() -> None:
    history = rows(400)
    learned = kb.representation.RewardDirections(10.0).fit(history.contexts, history.arms, history.rewards)
    assert isinstance(learned, Stretch)
    np.testing.assert_allclose(
        learned.directions @ learned.directions.T, np.eye(len(learned.directions)), atol=1e-12
    )
    whole = np.eye(4) + 9.0 * learned.directions.T @ learned.directions
    found = learned.transform(history.contexts)
    np.testing.assert_allclose(found, (history.contexts - learned.centre) @ whole, atol=1e-12)
    np.testing.assert_array_equal(learned.transform(history.contexts[7:8]), found[7:8])  # each row by itself
    stretched = np.linalg.norm(learned.transform(learned.centre + np.eye(4)), axis=1)
    assert stretched[2] > 1.5
    components = (
        kb.representation.PrincipalComponents(1).fit(history.contexts, history.arms, history.rewards).directions
    )
    assert abs(components[0, 0]) > 0.99


def test_bad_representations() -> None:
    with pytest.raises(TypeError, match="must have fit and transform"):
        kb.representation.Represented(3)
    with pytest.raises(TypeError, match="must have fit and transform"):
        kb.representation.Represented(Halves)
    with pytest.raises(ValueError, match="growth"):
        kb.representation.Represented(double, growth=1.0)
    with pytest.raises(ValueError, match="one finite row"):
        OnFeatures(kb.RBF(), lambda X: np.full((1, 1), np.nan))(np.zeros((2, 1)), np.zeros((2, 1)))
    with pytest.raises(ValueError, match="learns from rewards too"):
        kb.representation.Represented(kb.representation.RewardDirections(), first=2).fit(np.zeros((2, 1)))
