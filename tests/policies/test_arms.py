"""Arms that come and go; and calls that fail in the middle, which leave the policy as it was."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kinbandits as kb
from kinbandits import errors
from strategies import (
    LEARNED,
    NEW_ARM,
    SIMILARITIES,
    laplacian_of_differences,
    negative_similarity,
    picture,
    play,
    played,
    random_rows,
    same_numbers,
)  # fmt: skip

X = np.array([0.1, 0.2, 0.3])
KINDS = [k for k in SIMILARITIES if k != "mixed-negative"]
engines = pytest.mark.parametrize("engine", ["naive", "exact"])


def from_the_start(policy: kb.KMTLUCB) -> kb.KMTLUCB:
    """The same policy, had it had its arms of now and their rows from the start."""
    fresh, rows = kb.KMTLUCB(**policy.get_params()), policy.regression.rows
    fresh.observe([policy.arms[a] for a in rows.arms], rows.contexts, rows.rewards)
    return fresh


@engines
@pytest.mark.parametrize("kind", KINDS)
def test_an_arm_that_comes_and_one_that_goes(engine: str, kind: str) -> None:
    policy = played(kind, engine=engine, exploration=5.0)
    start, before, open_before, counts = picture(policy), policy.copy(), policy.pending(), policy.counts
    policy.add_arm("new", **NEW_ARM.get(kind, {}))
    assert policy.arms == (0, 1, 2, 3, "new")
    assert policy.pending() == open_before
    assert policy.counts == counts | {"new": 0}
    assert policy.similarity_matrix().shape == (5, 5)
    back = policy.copy()
    back.remove_arm("new")
    same_numbers(back, before)
    assert {**picture(back), "mean": 0, "width": 0} == {**start, "mean": 0, "width": 0}
    policy.update(policy.choose(X, arms=["new"]), 2.0)
    policy.update(open_before[0], 1.0)
    assert policy.counts["new"] == 1
    same_numbers(policy, from_the_start(policy))

    doomed, kept = policy.choose(X, arms=[1]), policy.choose(X, arms=[3])
    policy.remove_arm(1)
    assert policy.arms == (0, 2, 3, "new")
    assert policy.similarity_matrix().shape == (4, 4)
    with pytest.raises(errors.UnknownDecisionError, match="its arm was removed"):
        policy.update(doomed, 1.0)
    with pytest.raises(errors.UnknownArmError):
        policy.explain(doomed)
    policy.update(kept, 0.5)  # numbers of later arms moved down; the decision still means arm 3
    assert policy.regression.rows.arms[-1] == 2
    same_numbers(policy, from_the_start(policy))


@engines
@pytest.mark.parametrize("kind", LEARNED)
def test_arms_change_where_everything_is_learned(engine: str, kind: str) -> None:
    policy = kb.KMTLUCB(4, similarity=LEARNED[kind](4), engine=engine)
    play(policy, 60)
    policy.add_arm("new", **NEW_ARM.get(kind, {}))
    assert policy.similarity_matrix().shape == (5, 5)
    policy.remove_arm(1)
    assert policy.counts.keys() == {0, 2, 3, "new"}
    assert policy.similarity_matrix().shape == (4, 4)
    for _ in range(40):
        decision = policy.choose(X)
        policy.update(decision, float(decision.index))
    assert np.isfinite(policy.predict(X)).all()


@engines
def test_a_retired_arm_is_never_chosen_still_helps_and_comes_back(engine: str) -> None:
    policy = played("mixed", engine=engine, epsilon=0.5, cold_start="borrow")
    before, waiting = policy.predict(X), policy.choose(X, arms=[2])
    policy.retire_arm(2)
    policy.retire_arm(2)  # again: nothing happens
    assert (policy.active_arms, policy.arms, policy.retired) == ((0, 1, 3), (0, 1, 2, 3), {2})
    assert 2 not in policy.choose_many(np.zeros((200, 3))).arm
    assert policy.choose(np.zeros((4, 3))).arm != 2
    np.testing.assert_array_equal(policy.predict(X).mean, before.mean)
    policy.update(waiting, 9.0)  # its open decisions still count
    assert np.abs(policy.predict(X, arms=[0]).mean - before.mean[0]).max() > 1e-3
    for arm in (0, 1):
        policy.retire_arm(arm)
    for call in (policy.retire_arm, policy.remove_arm):
        with pytest.raises(errors.InvalidInputError, match="3 is the last active arm"):
            call(3)
    policy.activate_arm(0)
    policy.activate_arm(0)
    assert policy.choose(X, arms=[0]).arm == 0
    policy.remove_arm(2)
    assert policy.active_arms == (0, 3)


def test_several_terms_each_take_what_is_theirs() -> None:
    known, graph = kb.Known(negative_similarity(3)), kb.Graph(np.ones((3, 3)))
    kernel = kb.Term(known, kb.RBF()) + kb.Term(graph, kb.Linear()) + kb.Term(kb.Pooled(), kb.Linear(), [0])
    policy = kb.KMTLUCB(3, kernel=kernel)
    policy.observe([0, 1], [[0.0, 1.0], [1.0, 0.0]], [1.0, 0.0])
    policy.add_arm("new", similarity=[0.0, 0.0, 0.0], neighbours=[0, 1])
    assert policy.similarity_matrix(0)[3].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert policy.kernel.terms[1].similarity.adjacency[3].tolist() == [1.0, 1.0, 0.0, 0.0]
    before = policy.predict([0.5, 0.5])
    for more, words in (({"neighbours": [0]}, "needs similarity="), ({"descriptor": 1.0}, "takes no descriptor=")):
        with pytest.raises(errors.InvalidInputError, match=words):
            policy.add_arm("other", **more)
    np.testing.assert_array_equal(policy.predict([0.5, 0.5]).mean, before.mean)
    policy.remove_arm(0)
    assert policy.similarity_matrix(1).shape == (3, 3)


def test_a_new_arm_borrows_from_its_kin_by_descriptor() -> None:
    known = kb.Known(descriptors=[0.0, 3.0], kernel=kb.RBF(0.5))
    policy = kb.KMTLUCB(["near", "far"], similarity=known, context_kernel=kb.RBF(), ridge=0.1)
    policy.observe(["near"] * 3 + ["far"] * 3, np.zeros((6, 2)), [1.0] * 3 + [-1.0] * 3)
    policy.add_arm("new", descriptor=0.1)
    mean, width = policy.predict([0.0, 0.0])
    assert mean[2] > 0.8
    assert width[2] < 0.7 * policy.explain_arm("new", [0.0, 0.0]).width_prior


@pytest.mark.parametrize("similarity", [None, kb.Independent(), kb.Mixed(0.3), kb.Pooled()], ids=repr)
def test_ten_thousand_arms(similarity: Any) -> None:
    """Nothing of size N x N: the constructor below a second and 300 MB, a round below 100 ms."""
    tracemalloc.start()
    start = time.process_time()
    policy = kb.KMTLUCB(10_000, similarity=similarity, seed=1)
    assert time.process_time() - start < 1.0
    rng, spent = np.random.default_rng(0), []
    for _ in range(30):
        x = rng.normal(size=4)
        start = time.process_time()
        decision = policy.choose(x)
        policy.update(decision, float(rng.normal()))
        spent.append(time.process_time() - start)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 300e6
    assert np.median(spent) < 0.1
    policy.remove_arm(17)
    policy.add_arm("new")
    assert policy.n_arms == 10_000


# -- a kernel that fails in the middle ------------------------------------------------------------


class Switch:
    """A callable kernel that raises after some calls."""

    def __init__(self) -> None:
        self.calls_left = 10**9

    def __repr__(self) -> str:
        return "Switch()"

    def __call__(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise RuntimeError("the kernel's own trouble")
        return laplacian_of_differences(A, B)


def kernels(where: str, switch: Switch) -> dict[str, Any]:
    return {
        "context": {"similarity": kb.Estimated(0.4, kb.RBF()), "context_kernel": switch},
        "embedding": {"similarity": kb.Estimated(0.4, switch), "context_kernel": kb.RBF()},
        "second term": {
            "kernel": kb.Term(kb.Estimated(0.4, kb.RBF()), kb.RBF(), columns=[0, 2])
            + kb.Term(kb.Estimated(0.4, switch), switch, columns=[1])
        },
        "with the rest learned": {"context_kernel": switch},
    }[where]


ACTS: dict[str, Callable[[kb.KMTLUCB], object]] = {
    "update": lambda p: p.update(p.pending()[1], 1.0),
    "observe": lambda p: p.observe([0, 1, 3], [X, [0.5, 0.5, 0.5], X], [1.0, 0.0, 0.5]),
    "observe many": lambda p: p.observe(*(np.asarray(v) for v in random_rows(1, 4, 60))),
    "own contexts": lambda p: p.observe([0, 1, 3], [X, [0.5, 0.5, 0.5], X], [1.0, 0.0, 0.5], own_contexts=True),
    "choose": lambda p: p.choose([0.9, 0.8, 0.7], scores=True),
    "add_arm": lambda p: p.add_arm("new"),
    "remove_arm": lambda p: p.remove_arm(2),
}


@engines
@pytest.mark.parametrize("calls", [0, 1, 2, 5, 20])
@pytest.mark.parametrize("where", ["context", "embedding", "second term", "with the rest learned"])
@pytest.mark.parametrize("act", ACTS)
def test_a_kernel_that_raises_leaves_the_policy_as_it_was(engine: str, calls: int, where: str, act: str) -> None:
    """Also in the middle of a refit: the next row is number 20, a milestone."""

    def begun() -> tuple[kb.KMTLUCB, Switch]:
        switch = Switch()
        policy = kb.KMTLUCB(4, **kernels(where, switch), engine=engine)
        rng = np.random.default_rng(1)
        policy.observe(*(np.asarray(v) for v in random_rows(2, 4, 13)))
        for t in range(9):
            decision = policy.choose(rng.uniform(-1, 1, 3))
            if t % 3:
                policy.update(decision, float(t % 4))
        return policy, switch

    (policy, switch), (twin, _) = begun(), begun()
    before, failed = picture(policy), False
    switch.calls_left = calls
    try:
        ACTS[act](policy)
    except RuntimeError:
        failed = True
    switch.calls_left = 10**9
    assert failed or calls > 0 or engine == "naive" or act in ("choose", "update", "add_arm", "remove_arm", "observe")
    if failed:
        assert picture(policy) == before
        ACTS[act](policy)
    ACTS[act](twin)
    same_numbers(policy, twin, 1e-9)
    assert policy.pending() == twin.pending()
    assert str(getattr(policy, "model", "")) == str(getattr(twin, "model", ""))


@pytest.mark.filterwarnings("ignore::kinbandits.errors.NumericalWarning")
@pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
@pytest.mark.parametrize("ridge", [1e-12, 1e-17])
@pytest.mark.parametrize("kind", ["independent", "pooled", "estimated"])
def test_coinciding_contexts_with_a_tiny_ridge_recover(kind: str, ridge: float, weighting: Any) -> None:
    fixed = {"context_kernel": kb.RBF(), "rewards": None, "ridge": ridge, "weighting": weighting}
    policy = kb.KMTLUCB(3, similarity=SIMILARITIES[kind](3), **fixed)
    policy.observe(np.tile([0, 1, 2], 10), np.ones((30, 2)), np.tile([1.0, 0.5, 0.25], 10))
    mean, width = policy.predict([1.0, 1.0])
    wanted = {"independent": [1.0, 0.5, 0.25], "pooled": [1.75 / 3] * 3}.get(kind)
    if wanted is not None:
        np.testing.assert_allclose(mean, wanted, atol=1e-2)
    assert np.isfinite([mean, width]).all()
    assert np.abs(mean).max() < 2.0


def test_a_kernel_that_is_no_kernel_is_named() -> None:
    policy = kb.KMTLUCB(2, context_kernel=lambda A, B: -laplacian_of_differences(A, B), ridge=0.1)
    with pytest.raises(errors.SingularMatrixError):  # noqa: PT012 (when the rows are factored is the engine's affair)
        policy.observe([0, 0], [[0.0], [1.0]], [1.0, 0.0])
        policy.predict([0.5])
