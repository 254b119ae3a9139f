"""A frozen policy gives the numbers of the one it came from, and does not learn."""

import copy
import pickle

import numpy as np
import pytest

import kinbandits as kb

SIMILARITIES = {
    "independent": kb.Independent(),
    "scaled independent": kb.Known(np.diag([0.5, 1.0, 2.0, 1.0])),
    "pooled": kb.Pooled(),
    "mixed": kb.Mixed(0.4),
    "estimated": kb.Estimated(length_scale=0.5),
}


def taught(similarity: kb.similarity.Similarity, weighting: str, rows: int = 40) -> kb.KMTLUCB:
    rng = np.random.default_rng(5)
    policy = kb.KMTLUCB(
        arms=["a", "b", "c", "d"],
        similarity=similarity,
        weighting=weighting,
        context_kernel=kb.RBF(0.8),
        cold_start="borrow",
    )
    if rows:  # arm "d" is never played
        arms = rng.choice(["c", "a", "b"], rows).tolist()
        policy.observe(arms, rng.normal(size=(rows, 3)), rng.normal(size=rows))
    return policy


@pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
@pytest.mark.parametrize("name", SIMILARITIES)
@pytest.mark.parametrize("rows", [0, 1, 40])
def test_same_numbers_as_the_engine(name: str, weighting: str, rows: int) -> None:
    policy = taught(SIMILARITIES[name], weighting, rows)
    frozen = policy.frozen()
    rng = np.random.default_rng(1)
    for contexts in (rng.normal(size=(5, 1, 3)), rng.normal(size=(5, 4, 3)), rng.normal(size=3)):
        mean, width = policy.predict(contexts)
        np.testing.assert_allclose(frozen.predict(contexts).mean, mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(frozen.predict(contexts).width, width, rtol=1e-9, atol=1e-12)
    subset = ["d", "b", "b"]
    np.testing.assert_allclose(
        frozen.predict(np.ones(3), arms=subset).width, policy.predict(np.ones(3), arms=subset).width, rtol=1e-9
    )
    np.testing.assert_allclose(frozen.covariance(np.ones(3)), policy.covariance(np.ones(3)), atol=1e-10)
    assert frozen.log_det() == pytest.approx(policy.log_det(), abs=1e-9)


def test_terms_of_several_kernels() -> None:
    rng = np.random.default_rng(0)
    policy = kb.baselines.LinUCB(3, sharing="hybrid")
    policy.observe([0, 1, 2, 0], rng.normal(size=(4, 2)), rng.normal(size=4))
    np.testing.assert_allclose(policy.frozen().predict([0.3, 1.0]).width, policy.predict([0.3, 1.0]).width)


def test_it_does_not_learn_and_its_origin_does() -> None:
    policy = taught(kb.Mixed(0.4), "uniform")
    frozen = policy.frozen()
    before = frozen.predict(np.zeros(3))
    with pytest.raises(TypeError, match="does not learn"):
        frozen.observe(["a"], [[0.0, 0.0, 0.0]], [1.0])
    policy.observe(["a"], [[0.0, 0.0, 0.0]], [5.0])
    np.testing.assert_array_equal(frozen.predict(np.zeros(3)).mean, before.mean)
    assert not np.allclose(policy.predict(np.zeros(3)).mean, before.mean)


def test_explanations_agree() -> None:
    policy = taught(kb.Mixed(0.4), "uniform")
    decision = policy.choose(np.ones(3), scores=True)
    theirs, mine = policy.explain(decision), policy.frozen().explain(decision)
    assert mine.lent == pytest.approx(theirs.lent)
    assert mine.width_alone == pytest.approx(theirs.width_alone)


@pytest.mark.parametrize("ridge", [1e-2, 1e-6])
def test_widths_of_arms_that_are_alike_keep_their_digits(ridge: float) -> None:
    """Their parts cancel in a candidate's sum; squared before they are summed, digits would be lost."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    policy = kb.KMTLUCB(4, context_kernel=kb.RBF(), similarity=kb.Pooled(), ridge=ridge, weighting="per_arm")
    policy.observe(rng.integers(0, 4, 300), X, rng.random(300))
    queries = rng.normal(size=(40, 1, 2))
    found, wanted = policy.frozen().predict(queries).width, policy.predict(queries).width
    # Both solve with the same factor, whose own error is of the order of 1e-16 / ridge.
    np.testing.assert_allclose(found, wanted, rtol=1e-13 / ridge)


def test_a_frozen_policy_can_be_copied_and_sent() -> None:
    rng = np.random.default_rng(1)
    policy = kb.KMTLUCB(3, context_kernel=kb.RBF(), similarity=kb.Mixed(0.5))
    policy.observe(rng.integers(0, 3, 30), rng.normal(size=(30, 2)), rng.random(30))
    frozen = policy.frozen()
    wanted = frozen.predict([0.1, 0.2])
    for other in (frozen.copy(), copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen))):
        np.testing.assert_array_equal(other.predict([0.1, 0.2]).width, wanted.width)


@pytest.mark.filterwarnings("ignore::kinbandits.errors.NumericalWarning")
@pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
@pytest.mark.parametrize("ridge", [1e-9, 1e-14])
def test_nearly_singular_rows_are_frozen_too(ridge: float, weighting: str) -> None:
    """In blocks, or grown, little is left of a matrix that needs jitter as a whole."""
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(640, 3)), rng.normal(size=(5, 3))
    policy = kb.KMTLUCB(["a"], context_kernel=kb.RBF(10.0), ridge=ridge, weighting=weighting, engine="exact")
    for low, high in ((0, 600), (600, 640)):
        policy.observe(["a"] * (high - low), X[low:high], np.sin(X[low:high, 0]))
        found, wanted = policy.frozen().predict(T), policy.predict(T)
        np.testing.assert_allclose(found.mean, wanted.mean, atol=1e-3)
        np.testing.assert_allclose(found.width, wanted.width, atol=0.5)
