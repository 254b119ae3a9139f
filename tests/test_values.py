"""Terms, histories and values: the small parts below the regression."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import kinbandits as kb
from kinbandits._spec import from_spec, to_spec
from kinbandits.errors import FormatError
from kinbandits.history import History
from kinbandits.kernels import Kernel
from kinbandits.terms import Terms, TermsTracker, as_terms
from strategies import random_rows


def test_terms_are_values() -> None:
    kernel = kb.Term(kb.Pooled(), kb.Linear(), columns=[0]) + kb.Term(kb.Estimated(0.3), kb.RBF())
    assert isinstance(kernel, Terms)
    assert len(kernel) == 2
    assert kernel == pickle.loads(pickle.dumps(kernel))
    assert hash(kernel) == hash(as_terms(kernel))
    assert kernel + kernel.terms[0] == kernel.terms[0] + (kernel.terms[1] + kernel.terms[0])
    assert copy.deepcopy(kernel) is kernel
    with pytest.raises(TypeError, match="unsupported operand"):
        kernel + kb.RBF()


def test_a_term_sees_its_columns_only() -> None:
    rows = random_rows(seed=3, n_arms=3, t=12)
    term = kb.Term(kb.Estimated(0.3), kb.RBF(), columns=[2, 0])
    kernel = as_terms(term)
    history = rows.history()
    K = kernel.gram(kernel.matrices(history), rows.arms, rows.contexts, rows.arms, rows.contexts)
    X = rows.contexts[:, [2, 0]]
    Z = kb.Estimated(0.3).matrix(History.of(3, rows.arms, X, rows.rewards))
    np.testing.assert_allclose(K, Z[np.ix_(rows.arms, rows.arms)] * kb.RBF()(X, X), rtol=1e-12)
    np.testing.assert_allclose(kernel.prior(kernel.matrices(history), rows.arms, rows.contexts), np.diag(K))


def test_the_tracker_of_terms_follows_all_of_them() -> None:
    rows = random_rows(seed=4, n_arms=3, t=10)
    kernel = kb.Term(kb.Estimated(0.3), kb.RBF(), columns=[1]) + kb.Term(kb.Estimated(0.5), kb.RBF())
    history = History(3)
    tracker = TermsTracker(kernel, history)
    for i in range(10):
        history.append(rows.arms[i : i + 1], rows.contexts[i : i + 1], rows.rewards[i : i + 1])
        tracker.observe(i)
        for found, wanted in zip(tracker.matrices, kernel.matrices(history), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_a_history_grows_truncates_and_loses_arms() -> None:
    rows = random_rows(seed=5, n_arms=4, t=200)
    history = History(4)
    for i in range(0, 200, 7):
        part = rows[i : i + 7]
        history.append(part.arms, part.contexts, part.rewards)
    assert len(history) == 200
    np.testing.assert_array_equal(history.contexts, rows.contexts)
    np.testing.assert_array_equal(history.counts, np.bincount(rows.arms, minlength=4))
    other = history.copy()
    other.truncate(50)
    other.append(rows.arms[:1], rows.contexts[:1] + 1.0, rows.rewards[:1])
    np.testing.assert_array_equal(history.contexts, rows.contexts)
    assert len(other) == 51
    np.testing.assert_array_equal(history.head(3).rewards, rows.rewards[:3])
    less = history.without_arm(1)
    assert less.n_arms == 3
    keep = rows.arms != 1
    np.testing.assert_array_equal(less.rewards, rows.rewards[keep])
    np.testing.assert_array_equal(less.arms, np.array([0, -1, 1, 2])[rows.arms[keep]])
    assert History(2).n_features is None


def test_values_are_written_and_read_back() -> None:
    values = [
        kb.RBF((1.0, 2.0)) + 0.5 * kb.Matern(nu=0.5) * kb.Linear(),
        kb.Known(np.eye(3)),
        kb.Known(kb.RBF(), [[0.0], [1.0]]),
        kb.Graph([[0, 1], [1, 0]], normalise=True),
        kb.Term(kb.Mixed(0.5), kb.Median(rows=7), columns=[1, 0]) + kb.Term(kb.Pooled(), kb.kernels.Constant(2.0)),
    ]
    for value in values:
        arrays: dict[str, np.ndarray] = {}
        assert from_spec(to_spec(value, arrays), arrays) == value
    with pytest.raises(FormatError, match="type is 'Nonsense'"):
        from_spec({"type": "Nonsense"})
    with pytest.raises(TypeError, match="cannot save"):
        to_spec(object(), {})


def test_replace_and_equality() -> None:
    assert kb.RBF(1.0).replace(length_scale=2.0) == kb.RBF(2.0)
    assert kb.Known(np.eye(2)) == kb.Known(np.eye(2))
    assert kb.Known(np.eye(2)) != kb.Known(2 * np.eye(2))
    assert kb.Known(np.eye(2)) != kb.Pooled()
    assert repr(kb.Known(np.eye(9))) == "Known(matrix=<9 x 9 array>)"
    with pytest.raises(ValueError, match="read-only"):
        kb.Known(np.eye(2)).given[0, 0] = 5.0


def _kernel_class(name: str, module: str) -> type[Kernel]:
    """Somebody's own kernel class: twice the Gaussian kernel, with one field."""

    class Own(kb.RBF):
        def __call__(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
            return 2.0 * super().__call__(A, B)

    Own.__name__ = Own.__qualname__ = name
    return type(name, (Own,), {"__module__": module})


def test_a_users_class_of_the_same_name_is_not_taken_for_ours(tmp_path: Path) -> None:
    policy = kb.KMTLUCB(arms=2, context_kernel=kb.RBF(1.0))
    policy.observe([0], [[0.0]], [1.0])
    policy.save(tmp_path / "ours.kb")
    mean = policy.predict([0.0]).mean
    theirs = _kernel_class("RBF", "somebody.kernels")
    again = kb.load(tmp_path / "ours.kb")
    assert type(again.context_kernel) is kb.RBF
    np.testing.assert_array_equal(again.predict([0.0]).mean, mean)
    own = kb.KMTLUCB(arms=2, context_kernel=theirs(3.0))
    own.save(tmp_path / "theirs.kb")
    assert type(kb.load(tmp_path / "theirs.kb").context_kernel) is theirs


def test_values_of_users_are_found_by_module_and_name() -> None:
    one, other = _kernel_class("Twice", "one.module"), _kernel_class("Twice", "other.module")
    assert to_spec(one(2.0), {}) == {"type": "one.module:Twice", "length_scale": 2.0}
    assert type(from_spec(to_spec(one(), {}))) is one
    assert type(from_spec(to_spec(other(), {}))) is other
    with pytest.raises(FormatError, match=r"'Twice'.*one\.module:Twice.*other\.module:Twice"):
        from_spec({"type": "Twice"})  # as earlier releases wrote it
    with pytest.raises(FormatError, match="import no_such_module first"):
        from_spec({"type": "no_such_module:Thing"})


def test_earlier_files_name_a_users_value_by_its_class_alone() -> None:
    found = _kernel_class("OnlyHere", "somebody.kernels")
    assert type(from_spec({"type": "OnlyHere", "length_scale": 1.0})) is found


def test_two_values_of_ours_never_share_a_name() -> None:
    with pytest.raises(TypeError, match="RBF"):
        _kernel_class("RBF", "kinbandits.somewhere")
