"""Laws of arm similarities."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinbandits as kb
import strategies as own
from kinbandits import errors, kernels, similarity
from kinbandits.history import History
from kinbandits.regression import Common
from kinbandits.similarity import embedding_distances
from kinbandits.testing import check_similarity
from strategies import NEW_ARM, SIMILARITIES, negative_similarity, random_rows, ring

pytestmark = pytest.mark.numerical

NAMESPACE = {n: getattr(m, n) for m in (kernels, similarity) for n in m.__all__}
Case = tuple[kb.similarity.Similarity, int, own.Rows]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    n_arms = draw(st.integers(1, 4))
    return draw(own.similarities(n_arms)), n_arms, draw(own.rows(n_arms))


@given(cases())
def test_laws(case: Case) -> None:
    """Those of `check_similarity`; exactly symmetric; what is in force is the matrix; equal when rebuilt."""
    value, n_arms, rows = case
    check_similarity(value, n_arms, np.resize(rows.contexts, (len(rows.arms) + 3, rows.contexts.shape[1])))
    K = value.matrix(rows.history(n_arms))
    np.testing.assert_array_equal(K, K.T)
    force = value.in_force(n_arms)
    if isinstance(force, Common):
        force = (1.0 - force.shared) * np.eye(n_arms) + force.shared
    if value.fixed:
        np.testing.assert_allclose(force, K, atol=1e-15)
    else:
        assert force == value
    for twin in (pickle.loads(pickle.dumps(value)), eval(repr(value), dict(NAMESPACE))):
        assert twin == value
        assert hash(twin) == hash(value)


class PlayedTogether(kb.similarity.Similarity):
    """Arms that were played equally often are alike."""

    fixed = False

    def matrix(self, history: History) -> np.ndarray:
        return 0.5 * np.equal.outer(history.counts, history.counts) + 0.5 * np.eye(history.n_arms)


def test_a_similarity_of_ones_own() -> None:
    check_similarity(PlayedTogether())


def test_rows_in_bulk_and_one_by_one_give_one_estimate_to_the_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "_BLOCK", 7)  # several blocks
    rows, value, single = random_rows(seed=1, n_arms=4, t=30), kb.Estimated(0.3, kb.RBF(0.5)), History(4)
    tracker = value.tracker(single)
    for i in range(30):
        single.append(*rows.part(i, i + 1))
        tracker.observe(i)
    np.testing.assert_array_equal(tracker.matrix, value.tracker(rows.history(4)).matrix)


@given(st.integers(1, 4).flatmap(lambda n: own.rows(n).map(lambda r: (n, r))), own.length_scales, own.length_scales)
def test_estimate_is_the_papers_formula(case: tuple[int, own.Rows], scale: float, embedding_scale: float) -> None:
    """Section 3.2, row by row: distances of mean embeddings, the pair of a row with itself included."""
    n_arms, (arms, X, rewards) = case
    kernel = kb.RBF(length_scale=embedding_scale)
    K = kb.Estimated(scale, kernel).matrix(History.of(n_arms, arms, X, rewards))
    values = np.array([[kernel(x[None], other[None])[0, 0] for other in X] for x in X])

    def inner(a: int, b: int) -> float:
        pairs = values[np.ix_(arms == a, arms == b)]
        return float(pairs.mean()) if pairs.size else 0.0  # an arm never played has the zero embedding

    for a in range(n_arms):
        for b in range(n_arms):
            distance = max(inner(a, a) - 2.0 * inner(a, b) + inner(b, b), 0.0)
            if a == b:
                assert K[a, b] == 1.0
            elif distance > 1e-12:
                assert K[a, b] == pytest.approx(np.exp(-distance / (2.0 * scale**2)), rel=1e-6, abs=1e-9)


def test_arms_never_played_are_one_unit_from_an_arm_played_once() -> None:
    K = kb.Estimated(length_scale=0.5).matrix(History.of(3, np.array([1]), np.zeros((1, 2)), np.zeros(1)))
    assert K[0, 2] == 1.0  # two zero embeddings
    assert K[0, 1] == pytest.approx(np.exp(-1.0 / (2.0 * 0.25)))
    G = np.array([[4.0, 4.0 + 1e-12], [4.0 + 1e-12, 4.0]])
    assert embedding_distances(G, np.array([2, 2])).min() == 0.0  # never negative


def test_graph_is_the_inverse_of_identity_plus_laplacian() -> None:
    A = np.array([[0.0, 2.0, 0.0, 0.0], [2.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    L = np.diag(A.sum(axis=1)) - A
    np.testing.assert_allclose(kb.Graph(A).matrix(History(4)) @ (np.eye(4) + L), np.eye(4), atol=1e-12)
    degree = np.diag(np.array([2.0, 3.0, 1.0, 1.0]) ** -0.5)
    K = kb.Graph(A, normalise=True).matrix(History(4))
    np.testing.assert_allclose(K @ (np.eye(4) + degree @ L @ degree), np.eye(4), atol=1e-12)
    assert K[3, 3] == pytest.approx(1.0)  # a node without edges is alone
    assert kb.Graph(A + 5.0 * np.eye(4)) == kb.Graph(A)  # the diagonal is ignored


def test_known_takes_negative_similarities_and_descriptors() -> None:
    M = negative_similarity(4)
    assert M.min() < 0
    np.testing.assert_allclose(kb.Known(M).matrix(History(4)), M, atol=1e-15)
    by_kernel = kb.Known(descriptors=[[0.0, 1.0], [1.0, 0.0]], kernel=kb.RBF(0.5))
    assert by_kernel.describes_arms
    assert not kb.Known(M).describes_arms
    assert by_kernel.matrix(History(2))[0, 1] == pytest.approx(np.exp(-2.0 / (2.0 * 0.25)))
    plain = kb.Known(descriptors=[0.0, 1.0], kernel=own.laplacian_of_differences)
    assert plain.matrix(History(2))[0, 1] == pytest.approx(np.exp(-1))


# -- arms that come and go ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [k for k in SIMILARITIES if k != "mixed-negative"])
def test_with_arm_keeps_what_the_others_had_and_without_arm_undoes_it(kind: str) -> None:
    """...except on a graph, where an edge changes everybody's kin."""
    value = SIMILARITIES[kind](4)
    larger = value.with_arm(4, *NEW_ARM.get(kind, {}).values())
    larger.check_arms(5)
    rows = random_rows(seed=2, n_arms=4, t=12)
    K = larger.matrix(rows.history(5))
    assert K.shape == (5, 5)
    assert np.linalg.eigvalsh(K)[0] >= -1e-10
    if not kind.startswith("graph"):
        np.testing.assert_allclose(K[:4, :4], value.matrix(rows.history(4)), atol=1e-15)
    assert larger.without_arm(4) == value
    keep = [0, 2, 3]
    if value.fixed and not kind.startswith("graph"):
        less = value.without_arm(1).matrix(History(3))
        np.testing.assert_allclose(less, value.matrix(History(4))[np.ix_(keep, keep)], atol=1e-15)
    A = ring(4)
    assert kb.Graph(A).without_arm(1) == kb.Graph(A[np.ix_(keep, keep)])


def test_a_new_arm_may_bring_its_own_variance() -> None:
    K = kb.Known(np.eye(2)).with_arm(2, [0.5, 0.0, 2.0]).matrix(History(3))
    assert K[2].tolist() == [0.5, 0.0, 2.0]


def test_the_tolerance_is_one_part_in_ten_thousand_million() -> None:
    """Symmetric and PSD to 1e-10: rounding passes, a real fault does not."""

    def pair(a: float, b: float) -> Any:
        return np.array([[1.0, a], [b, 1.0]])

    kb.Known(pair(1.0 + 4e-11, 1.0 + 4e-11))
    kb.Known(pair(0.5 + 5e-11, 0.5))
    with pytest.raises(errors.NotPositiveSemidefiniteError, match="eigenvalue is -1e-09"):
        kb.Known(pair(1.0 + 1e-9, 1.0 + 1e-9))
    with pytest.raises(errors.InvalidInputError, match="symmetric"):
        kb.Known(pair(0.5 + 1e-9, 0.5))


def test_descriptors_alone_take_the_median_distance_which_new_arms_do_not_move() -> None:
    X = np.random.default_rng(0).normal(size=(6, 3))
    found = kb.Known(descriptors=X)
    assert found == kb.Known(descriptors=X, kernel=kb.RBF.median(X))
    assert found.with_arm(6, X[0] + 1.0).kernel == found.kernel
    policy = kb.KMTLUCB(6, similarity=found)
    policy.add_arm("new", descriptor=X[1])
    np.testing.assert_allclose(policy.similarity_matrix()[6], policy.similarity_matrix()[1])
    wide = np.random.default_rng(1).normal(size=(20, 3)) * [1.0, 1000.0, 1.0]  # one hides the others
    K = kb.Known(descriptors=wide).matrix(History(20))
    np.testing.assert_allclose(K, kb.Known(descriptors=wide * [1.0, 10.0, 1.0]).matrix(History(20)), rtol=1e-9)


def test_the_nearest_similarity_is_the_nearest() -> None:
    rng = np.random.default_rng(1)
    given_matrix = rng.normal(size=(5, 5))
    found, distance = kb.Known.nearest(given_matrix)
    K = found.matrix(History(5))
    np.testing.assert_allclose(distance, np.linalg.norm(K - given_matrix))
    for _ in range(200):  # no other one is nearer
        other = K + 0.1 * (step := rng.normal(size=(5, 5))) @ step.T
        assert np.linalg.norm(other - given_matrix) > distance
        root = np.linalg.cholesky(K + 1e-9 * np.eye(5)) + 0.05 * rng.normal(size=(5, 5))
        assert np.linalg.norm(root @ root.T - given_matrix) > distance
    good = kb.Known(descriptors=[0.0, 1.0, 2.0]).matrix(History(3))
    same, none = kb.Known.nearest(good)
    np.testing.assert_allclose(same.matrix(History(3)), good)
    assert none < 1e-12
