"""Arms that come and go, with each kind of similarity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from worlds import PROBE, picture, played

import kinbandits as kb
from kinbandits import errors
from strategies import EXACT_ENGINES, SIMILARITIES, negative_similarity

X = np.array([0.1, 0.2, 0.3])
engines = pytest.mark.parametrize("engine", ["naive", *EXACT_ENGINES])
KINDS = [k for k in SIMILARITIES if k != "mixed-negative"]
NEW: dict[str, dict[str, Any]] = {
    "known": {"similarity": [0.2, 0.0, 0.1, -0.1]},
    "descriptors": {"descriptor": 0.4},
    "graph": {"neighbours": [0, 2]},
    "graph-normalised": {"neighbours": [3]},
}


@engines
@pytest.mark.parametrize("kind", KINDS)
def test_an_added_arm_may_be_chosen_learned_and_compared(engine: str, kind: str) -> None:
    policy = played(kind, engine=engine, exploration=5.0)
    open_before, counts = policy.pending(), policy.counts
    policy.add_arm("new", **NEW.get(kind, {}))
    assert policy.arms == [0, 1, 2, 3, "new"]
    assert policy.pending() == open_before
    assert policy.counts == counts | {"new": 0}
    assert policy.similarity_matrix().shape == (5, 5)
    assert policy.predict(X).mean.shape == (5,)
    policy.update(policy.choose(X, arms=["new"]), 2.0)
    assert policy.counts["new"] == 1
    policy.update(open_before[0], 1.0)

    # the same policy, had it known the arm from the start
    h = policy.regression.history
    settings = policy.get_params() | {"seed": 0}
    fresh = kb.KMTLUCB(**settings)
    fresh.observe([policy.arms[a] for a in h.arms], h.contexts, h.rewards)
    for one, two in zip(policy.predict(PROBE), fresh.predict(PROBE), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-9)


@engines
@pytest.mark.parametrize("kind", KINDS)
def test_a_removed_arm_takes_its_data_and_open_decisions_along(engine: str, kind: str) -> None:
    policy = played(kind, engine=engine, ridge=0.01)
    doomed = policy.choose(X, arms=[1])
    kept = policy.choose(X, arms=[3])
    policy.remove_arm(1)
    assert policy.arms == [0, 2, 3]
    assert 1 not in policy.counts
    assert policy.similarity_matrix().shape == (3, 3)
    with pytest.raises(errors.UnknownDecisionError, match="its arm removed"):
        policy.update(doomed, 1.0)
    with pytest.raises(errors.UnknownArmError):
        policy.explain(doomed)
    policy.update(kept, 0.5)  # numbers of later arms moved down; the decision still means arm 3
    assert policy.regression.history.arms[-1] == 2
    assert policy.counts[3] >= 1

    h = policy.regression.history
    fresh = kb.KMTLUCB(**(policy.get_params() | {"seed": 0}))
    fresh.observe([policy.arms[a] for a in h.arms], h.contexts, h.rewards)
    for one, two in zip(policy.predict(PROBE), fresh.predict(PROBE), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-9)


@engines
def test_add_then_remove_is_as_before(engine: str) -> None:
    for kind in KINDS:
        policy = played(kind, engine=engine)
        before = picture(policy)
        policy.add_arm("new", **NEW.get(kind, {}))
        policy.remove_arm("new")
        after = picture(policy)
        np.testing.assert_allclose(after.pop("mean"), before.pop("mean"), rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(after.pop("width"), before.pop("width"), rtol=1e-7)
        np.testing.assert_allclose(after.pop("similarity"), before.pop("similarity"), atol=1e-12)
        assert after.pop("log_det") == pytest.approx(before.pop("log_det"))
        assert after == before


@engines
def test_a_retired_arm_is_never_chosen_and_still_helps(engine: str) -> None:
    policy = played("mixed", engine=engine, epsilon=0.5, cold_start="borrow")
    before = policy.predict(PROBE, arms=[0, 1, 2, 3])
    waiting = policy.choose(X, arms=[2])
    policy.retire_arm(2)
    policy.retire_arm(2)  # again: nothing happens
    assert policy.active_arms == [0, 1, 3]
    assert policy.arms == [0, 1, 2, 3]
    assert 2 not in policy.choose_many(np.zeros((200, 1, 3))).arm
    assert policy.choose(np.zeros((3, 3))).candidates == (0, 1, 3)
    after = policy.predict(PROBE, arms=[0, 1, 2, 3])
    np.testing.assert_array_equal(after.mean, before.mean)
    policy.update(waiting, 9.0)  # its open decisions still count
    assert np.abs(policy.predict(PROBE, arms=[0]).mean - before.mean[:, :1]).max() > 1e-3
    with pytest.raises(errors.InvalidInputError, match=r"there is an arm 2 already \(retired\)"):
        policy.add_arm(2)
    policy.retire_arm(0)
    policy.retire_arm(1)
    with pytest.raises(errors.InvalidInputError, match="3 is the last active arm"):
        policy.retire_arm(3)
    with pytest.raises(errors.InvalidInputError, match="3 is the last active arm"):
        policy.remove_arm(3)
    policy.remove_arm(2)
    assert policy.active_arms == [3]


def test_a_new_arm_borrows_from_its_kin_by_descriptor() -> None:
    policy = kb.KMTLUCB(
        ["near", "far"], similarity=kb.Known(kb.RBF(0.5), [0.0, 3.0]), context_kernel=kb.RBF(), ridge=0.1
    )
    policy.observe(["near"] * 3 + ["far"] * 3, np.zeros((6, 2)), [1.0] * 3 + [-1.0] * 3)
    policy.add_arm("new", descriptor=0.1)
    mean, width = policy.predict([0.0, 0.0])
    assert mean[2] > 0.8
    assert width[2] < 2.0


def test_several_terms_each_take_what_is_theirs() -> None:
    known = kb.Known(negative_similarity(3))
    graph = kb.Graph(np.ones((3, 3)))
    kernel = kb.Term(known, kb.RBF()) + kb.Term(graph, kb.Linear()) + kb.Term(kb.Pooled(), kb.Linear(), [0])
    policy = kb.KMTLUCB(3, kernel=kernel)
    policy.observe([0, 1], [[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0])
    policy.add_arm("new", similarity=[0.0, 0.0, 0.0], neighbours=[0, 1])
    assert policy.similarity_matrix(0)[3].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert policy.terms.terms[1].similarity.adjacency[3].tolist() == [1.0, 1.0, 0.0, 0.0]
    before = policy.predict([[[0.5, 0.5]]])
    with pytest.raises(errors.InvalidInputError, match="needs similarity= with 4 entries"):
        policy.add_arm("other", neighbours=[0])
    with pytest.raises(errors.InvalidInputError, match="takes no descriptor="):
        policy.add_arm("other", 0.5, similarity=[0.0] * 4)
    with pytest.raises(errors.UnknownArmError, match="unknown arm 'nobody'"):
        policy.add_arm("other", similarity=[0.0] * 4, neighbours=["nobody"])
    np.testing.assert_array_equal(policy.predict([[[0.5, 0.5]]]).mean, before.mean)
    policy.remove_arm(0)
    assert policy.similarity_matrix(1).shape == (3, 3)


def test_mixed_with_a_negative_mu_takes_only_so_many_arms() -> None:
    policy = kb.KMTLUCB(3, similarity=kb.Mixed(-0.5))
    with pytest.raises(errors.NotPositiveSemidefiniteError, match=r"over 4 arms has eigenvalue -0\.5"):
        policy.add_arm("one too many")
    assert policy.n_arms == 3
    assert kb.KMTLUCB(2, similarity=kb.Mixed(-0.5)).add_arm("one more") is None


def test_the_kernel_read_off_the_data_stays_when_arms_change() -> None:
    policy = kb.KMTLUCB(3)
    rng = np.random.default_rng(0)
    policy.observe(rng.integers(3, size=20), rng.standard_normal((20, 2)), rng.random(20))
    kernel = policy.regression.settings.terms.terms[0].context_kernel
    policy.add_arm("new")
    assert policy.regression.settings.terms.terms[0].context_kernel == kernel
    policy.remove_arm(0)
    assert policy.regression.settings.terms.terms[0].context_kernel == kernel
