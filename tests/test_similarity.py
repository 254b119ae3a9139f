"""Laws of arm similarities."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinbandits as kb
import strategies as own
from kinbandits import errors, kernels, similarity
from kinbandits.history import History
from kinbandits.similarity import ArmInfo, embedding_distances, estimated
from strategies import SIMILARITIES, Rows, negative_similarity, random_rows, ring

pytestmark = pytest.mark.numerical

NAMESPACE = {
    **{name: getattr(kernels, name) for name in kernels.__all__},
    **{name: getattr(similarity, name) for name in similarity.__all__},
}


@st.composite
def similarity_and_rows(draw: st.DrawFn) -> tuple[kb.similarity.Similarity, Rows]:
    rows = draw(own.rows())
    return draw(own.similarities(rows.n_arms)), rows


@given(similarity_and_rows())
def test_matrix_is_symmetric_and_positive_semidefinite(case: tuple[kb.similarity.Similarity, Rows]) -> None:
    value, rows = case
    K = value.matrix(rows.history())
    assert K.shape == (rows.n_arms, rows.n_arms)
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K)[0] >= -1e-10


@given(similarity_and_rows())
def test_tracker_is_the_definition_after_every_observation(case: tuple[kb.similarity.Similarity, Rows]) -> None:
    value, rows = case
    history = History(rows.n_arms)
    tracker = value.tracker(history)
    for i in range(len(rows) + 1):
        np.testing.assert_allclose(tracker.matrix, value.matrix(history), rtol=1e-9, atol=1e-12)
        if i < len(rows):
            history.append(rows.arms[i : i + 1], rows.contexts[i : i + 1], rows.rewards[i : i + 1])
            tracker.observe(i)


def test_tracker_in_bulk_and_one_by_one_are_equal_to_the_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimated, "_BLOCK", 7)  # several blocks
    rows = random_rows(seed=1, n_arms=4, t=30)
    value = kb.Estimated(0.3, kb.RBF(0.5))
    single = History(4)
    tracker = value.tracker(single)
    for i in range(30):
        single.append(rows.arms[i : i + 1], rows.contexts[i : i + 1], rows.rewards[i : i + 1])
        tracker.observe(i)
    np.testing.assert_array_equal(tracker.matrix, value.tracker(rows.history()).matrix)


@given(similarity_and_rows())
def test_equal_after_pickling_and_repr(case: tuple[kb.similarity.Similarity, Rows]) -> None:
    value, _ = case
    for twin in (pickle.loads(pickle.dumps(value)), eval(repr(value), dict(NAMESPACE))):
        assert twin == value
        assert hash(twin) == hash(value)


@given(own.rows(), own.length_scales, own.length_scales)
def test_estimate_is_the_papers_formula(rows: Rows, scale: float, embedding_scale: float) -> None:
    """Section 3.2, row by row: distances of mean embeddings, the pair of a row with itself included."""
    kernel = kb.RBF(length_scale=embedding_scale)
    K = kb.Estimated(scale, kernel).matrix(rows.history())
    X, arms, N = rows.contexts, rows.arms, rows.n_arms

    def inner(a: int, b: int) -> float:
        A, B = np.flatnonzero(arms == a), np.flatnonzero(arms == b)
        if not len(A) or not len(B):
            return 0.0  # an arm never played has the zero embedding
        values = [kernel(X[i : i + 1], X[j : j + 1])[0, 0] for i in A for j in B]
        return sum(values) / (len(A) * len(B))

    for a in range(N):
        for b in range(N):
            distance = max(inner(a, a) - 2.0 * inner(a, b) + inner(b, b), 0.0)
            if a == b:
                assert K[a, b] == 1.0
            elif distance > 1e-12:
                assert K[a, b] == pytest.approx(np.exp(-distance / (2.0 * scale**2)), rel=1e-6, abs=1e-9)


def test_arms_never_played_are_one_unit_from_an_arm_played_once() -> None:
    history = History.of(3, np.array([1]), np.zeros((1, 2)), np.zeros(1))
    K = kb.Estimated(length_scale=0.5).matrix(history)
    assert K[0, 2] == 1.0  # two zero embeddings
    assert K[0, 1] == pytest.approx(np.exp(-1.0 / (2.0 * 0.25)))


def test_distances_are_never_negative() -> None:
    G = np.array([[4.0, 4.0 + 1e-12], [4.0 + 1e-12, 4.0]])
    assert embedding_distances(G, np.array([2, 2])).min() == 0.0


def test_graph_is_the_inverse_of_identity_plus_laplacian() -> None:
    A = np.array([[0.0, 2.0, 0.0, 0.0], [2.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    L = np.diag(A.sum(axis=1)) - A
    nothing = History(4)
    np.testing.assert_allclose(kb.Graph(A).matrix(nothing) @ (np.eye(4) + L), np.eye(4), atol=1e-12)
    degree = np.diag(np.array([2.0, 3.0, 1.0, 1.0]) ** -0.5)
    normal = degree @ L @ degree
    K = kb.Graph(A, normalise=True).matrix(nothing)
    np.testing.assert_allclose(K @ (np.eye(4) + normal), np.eye(4), atol=1e-12)
    assert K[3, 3] == pytest.approx(1.0)  # a node without edges is alone
    assert kb.Graph(A + 5.0 * np.eye(4)) == kb.Graph(A)  # the diagonal is ignored


def test_known_accepts_negative_similarities_and_descriptors() -> None:
    M = negative_similarity(4)
    assert M.min() < 0
    np.testing.assert_allclose(kb.Known(M).matrix(History(4)), M, atol=1e-15)
    by_kernel = kb.Known(kb.RBF(0.5), [[0.0, 1.0], [1.0, 0.0]])
    assert by_kernel.describes_arms
    assert not kb.Known(M).describes_arms
    assert by_kernel.matrix(History(2))[0, 1] == pytest.approx(np.exp(-2.0 / (2.0 * 0.25)))
    assert kb.Known(own.laplacian_of_differences, [0.0, 1.0]).matrix(History(2))[0, 1] == pytest.approx(np.exp(-1))


# -- arms that come and go ------------------------------------------------------------------------

NEW_ARM = {
    "known": {"similarity": [0.0, 0.1, 0.0, -0.1]},
    "descriptors": {"descriptor": 0.5},
    "graph": {"neighbours": [0, 2]},
    "graph-normalised": {"neighbours": [0, 2]},
}


@pytest.mark.parametrize("kind", [k for k in SIMILARITIES if k != "mixed-negative"])
def test_with_arm_keeps_what_the_others_had(kind: str) -> None:
    """...except on a graph, where an edge changes everybody's kin."""
    value = SIMILARITIES[kind](4)
    larger = value.with_arm(4, ArmInfo(**NEW_ARM.get(kind, {})))
    larger.check_arms(5)
    rows = random_rows(seed=2, n_arms=4, t=12)
    wider = History.of(5, rows.arms, rows.contexts, rows.rewards)
    K = larger.matrix(wider)
    assert K.shape == (5, 5)
    assert np.linalg.eigvalsh(K)[0] >= -1e-10
    if not kind.startswith("graph"):
        np.testing.assert_allclose(K[:4, :4], value.matrix(rows.history()), atol=1e-15)


@pytest.mark.parametrize("kind", [k for k in SIMILARITIES if k != "mixed-negative"])
def test_without_arm_undoes_with_arm(kind: str) -> None:
    value = SIMILARITIES[kind](4)
    back = value.with_arm(4, ArmInfo(**NEW_ARM.get(kind, {}))).without_arm(4)
    assert back == value


def test_without_arm_takes_out_its_row_and_column() -> None:
    M = negative_similarity(4)
    keep = [0, 2, 3]
    np.testing.assert_array_equal(
        kb.Known(M).without_arm(1).matrix(History(3)), kb.Known(M[np.ix_(keep, keep)]).given
    )
    described = kb.Known(kb.RBF(), [0.0, 1.0, 2.0, 4.0]).without_arm(1)
    assert described == kb.Known(kb.RBF(), [0.0, 2.0, 4.0])
    A = ring(4)
    assert kb.Graph(A).without_arm(1) == kb.Graph(A[np.ix_(keep, keep)])


def test_a_new_arm_may_bring_its_own_variance() -> None:
    K = kb.Known(np.eye(2)).with_arm(2, ArmInfo(similarity=[0.5, 0.0, 2.0])).matrix(History(3))
    assert K[2].tolist() == [0.5, 0.0, 2.0]


# -- bad values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: kb.Known([[1.0, 2.0], [2.0, 1.0]]),
            errors.NotPositiveSemidefiniteError,
            "smallest eigenvalue is -1",
        ),
        (lambda: kb.Known([[1.0, 0.2], [0.1, 1.0]]), ValueError, "must be symmetric, but it differs .* by 0.1"),
        (lambda: kb.Known([[1.0, 0.2]]), ValueError, r"must be a square matrix, got shape \(1, 2\)"),
        (lambda: kb.Known([[np.nan]]), ValueError, "must be finite"),
        (lambda: kb.Known([["a"]]), TypeError, "must be numbers in an array"),
        (lambda: kb.Known(), ValueError, "Known takes a matrix, or a kernel with descriptors"),
        (lambda: kb.Known(kb.RBF()), ValueError, "Known takes a matrix, or a kernel with descriptors"),
        (lambda: kb.Known(np.eye(2), [0.0, 1.0]), ValueError, "Known takes a matrix, or a kernel with descriptors"),
        (lambda: kb.Known(kb.RBF(), [[np.inf]]), ValueError, "descriptors must be finite"),
        (lambda: kb.Known(kb.RBF(), ["a"]), TypeError, "descriptors must be numbers"),
        (lambda: kb.Known(kb.RBF(), np.zeros((0, 2))), ValueError, "descriptors must be"),
        (lambda: kb.Known(kb.RBF([1.0, 2.0]), [[0.0]]), ValueError, "length_scale has 2 entries"),
        (
            lambda: kb.Known(lambda A, B: -A @ B.T, [1.0, 2.0]),
            ValueError,
            "descriptors is not positive semidefinite",
        ),
        (lambda: kb.Mixed(1.5), ValueError, "mu must be between"),
        (lambda: kb.Mixed("a"), TypeError, "mu must be a number"),
        (lambda: kb.Graph([[0.0, -1.0], [-1.0, 0.0]]), ValueError, "adjacency must not be negative, got -1"),
        (lambda: kb.Graph([[0.0, 1.0], [0.0, 0.0]]), ValueError, "adjacency must be symmetric"),
        (lambda: kb.Estimated(length_scale=0.0), ValueError, "length_scale must be greater than 0"),
        (lambda: kb.Estimated(embedding_kernel="rbf"), TypeError, "a kernel must be"),
        (lambda: kb.Estimated(embedding_kernel=kb.Median()), ValueError, "must not be read off the data"),
        (lambda: kb.Mixed(-0.5).check_arms(4), errors.NotPositiveSemidefiniteError, "has eigenvalue -0.5 < 0"),
        (lambda: kb.Mixed(-0.5).with_arm(3), errors.NotPositiveSemidefiniteError, "mu must be at least -0.333333"),
        (lambda: kb.Known(np.eye(3)).check_arms(2), ValueError, "matrix has 3 rows, but there are 2 arms"),
        (
            lambda: kb.Known(kb.RBF(), [0.0]).check_arms(2),
            ValueError,
            "descriptors has 1 rows, but there are 2 arms",
        ),
        (lambda: kb.Graph(ring(3)).check_arms(2), ValueError, "adjacency has 3 rows, but there are 2 arms"),
        (
            lambda: kb.Pooled().with_arm(2, ArmInfo(descriptor=1.0)),
            ValueError,
            "Pooled similarity takes no descriptor=",
        ),
        (lambda: kb.Known(np.eye(2)).with_arm(2), ValueError, "needs similarity= with 2 entries"),
        (
            lambda: kb.Known(np.eye(2)).with_arm(2, ArmInfo(similarity=[1.0])),
            ValueError,
            r"2 entries .* got shape \(1,\)",
        ),
        (
            lambda: kb.Known(np.eye(2)).with_arm(2, ArmInfo(similarity=[2.0, 0.0])),
            ValueError,
            "smallest eigenvalue",
        ),
        (
            lambda: kb.Known(np.eye(2)).with_arm(2, ArmInfo(similarity=[np.nan, 0.0])),
            ValueError,
            "similarity must be finite",
        ),
        (
            lambda: kb.Known(np.eye(2)).with_arm(2, ArmInfo(neighbours=[0])),
            ValueError,
            "takes no neighbours=.*similarity=",
        ),
        (lambda: kb.Known(kb.RBF(), [0.0]).with_arm(1), ValueError, "needs descriptor="),
        (
            lambda: kb.Known(kb.RBF(), [0.0]).with_arm(1, ArmInfo(descriptor=[1, 2])),
            ValueError,
            "descriptor has 2 entries",
        ),
        (
            lambda: kb.Known(kb.RBF(), [0.0]).with_arm(1, ArmInfo(descriptor="a")),
            TypeError,
            "descriptor must be numbers",
        ),
        (
            lambda: kb.Graph(ring(2)).with_arm(2, ArmInfo(descriptor=1.0)),
            ValueError,
            "takes no descriptor=.*neighbours=",
        ),
    ],
)
def test_bad_values_are_refused(make: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()  # type: ignore[operator]


def test_the_tolerance_is_one_part_in_ten_thousand_million() -> None:
    """Symmetric and PSD to 1e-10: rounding passes, a real fault does not."""
    barely = np.array([[1.0, 1.0 + 4e-11], [1.0 + 4e-11, 1.0]])
    kb.Known(barely)
    with pytest.raises(errors.NotPositiveSemidefiniteError, match="eigenvalue is -1e-09"):
        kb.Known(np.array([[1.0, 1.0 + 1e-9], [1.0 + 1e-9, 1.0]]))
    kb.Known(np.array([[1.0, 0.5 + 5e-11], [0.5, 1.0]]))
    with pytest.raises(errors.InvalidInputError, match="symmetric"):
        kb.Known(np.array([[1.0, 0.5 + 1e-9], [0.5, 1.0]]))


def test_descriptors_alone_take_the_median_distance() -> None:
    X = np.random.default_rng(0).normal(size=(6, 3))
    found = kb.Known(descriptors=X)
    assert found == kb.Known(kb.RBF.median(X), X)
    assert kb.Known(kb.Median(kernel=kb.Matern(0.5)), X).kernel == kb.Matern(0.5 * kb.RBF.median(X).length_scale)
    larger = found.with_arm(6, ArmInfo(descriptor=X[0] + 1.0))
    assert larger.kernel == found.kernel  # what is known of the other arms does not move
    policy = kb.KMTLUCB(6, similarity=found)
    policy.add_arm("new", descriptor=X[1])
    np.testing.assert_allclose(policy.similarity_matrix()[6], policy.similarity_matrix()[1])


def test_the_nearest_similarity_is_the_nearest() -> None:
    rng = np.random.default_rng(1)
    given = rng.normal(size=(5, 5))
    found, distance = kb.Known.nearest(given)
    K = found.matrix(History(5))
    np.testing.assert_allclose(distance, np.linalg.norm(K - given))
    for _ in range(200):  # no other one is nearer
        other = K + 0.1 * (step := rng.normal(size=(5, 5))) @ step.T
        assert np.linalg.norm(other - given) > distance
        root = np.linalg.cholesky(K + 1e-9 * np.eye(5)) + 0.05 * rng.normal(size=(5, 5))
        assert np.linalg.norm(root @ root.T - given) > distance
    good = kb.Known(kb.RBF(), [0.0, 1.0, 2.0]).matrix(History(3))
    same, none = kb.Known.nearest(good)
    np.testing.assert_allclose(same.matrix(History(3)), good)
    assert none < 1e-12
    with pytest.raises(errors.NotPositiveSemidefiniteError, match=r"kb\.Known\.nearest\(matrix\)"):
        kb.Known([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match="matrix must be finite"):
        kb.Known.nearest([[np.nan]])
    with pytest.raises(ValueError, match="matrix must be a square matrix"):
        kb.Known.nearest([[1.0, 2.0]])
