"""A second thread inside a policy gets a clear error at once, and the policy stays whole."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.errors import ConcurrentUseError

GATE = threading.local()  # a thread that has one waits in the kernel


def gated(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    gate = getattr(GATE, "events", None)
    if gate is not None:
        entered, leave = gate
        entered.set()
        assert leave.wait(30)
    return np.exp(-0.5 * ((A[:, None, :] - B[None, :, :]) ** 2).sum(2))


def a_policy() -> kb.KMTLUCB:
    policy = kb.KMTLUCB(["a", "b"], similarity=kb.Pooled(), context_kernel=gated, ridge=0.1, exploration=0.5)
    policy.observe(["a", "b", "a"], [[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5])
    return policy


@contextmanager
def another_thread_inside(call: Callable[[], Any]) -> Iterator[list[Any]]:
    """``call`` runs in a thread, which waits inside until the block ends; gives what went wrong in it."""
    entered, leave, wrong = threading.Event(), threading.Event(), []

    def work() -> None:
        GATE.events = entered, leave
        try:
            call()
        except Exception as error:
            wrong.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert entered.wait(30)
        yield wrong
    finally:
        leave.set()
        thread.join(30)


CALLS: dict[str, Callable[[kb.KMTLUCB, kb.Decision], Any]] = {
    "choose": lambda p, d: p.choose([0.3]),
    "choose_many": lambda p, d: p.choose_many([[0.3]]),
    "predict": lambda p, d: p.predict([0.3]),
    "probabilities": lambda p, d: p.probabilities([0.3]),
    "update": lambda p, d: p.update(d, 1.0),
    "update by id": lambda p, d: p.update(d.id, 1.0),
    "observe": lambda p, d: p.observe(["a"], [[0.3]], [1.0]),
    "cancel": lambda p, d: p.cancel(d),
    "add_arm": lambda p, d: p.add_arm("c"),
    "retire_arm": lambda p, d: p.retire_arm("a"),
    "remove_arm": lambda p, d: p.remove_arm("a"),
    "sample": lambda p, d: p.sample([0.3], 2),
    "covariance": lambda p, d: p.covariance([0.3]),
    "explain_arm": lambda p, d: p.explain_arm("a", [0.3]),
    "frozen": lambda p, d: p.frozen(),
    "copy": lambda p, d: p.copy(),
    "a decision's numbers": lambda p, d: d.mean,
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("first", ["update", "predict"])
def test_the_second_thread_is_refused_and_the_policy_stays_whole(name: str, first: str) -> None:
    policy, same = a_policy(), a_policy()
    (d, mine), (e, other) = ((p.choose([0.7]), p.choose([0.2])) for p in (policy, same))
    with another_thread_inside(lambda: CALLS[first](policy, mine)) as wrong:
        with pytest.raises(ConcurrentUseError, match="another thread"):
            CALLS[name](policy, d)
        if name == "choose":
            with pytest.raises(ValueError):  # one of the three that are promised
                policy.choose([0.3])
    assert not wrong
    CALLS[first](same, other)
    assert policy.arms == same.arms
    assert policy.pending() == same.pending()
    assert policy.n_observations == same.n_observations
    assert policy.n_decisions == same.n_decisions
    for p, decision in ((policy, d), (same, e)):  # and it goes on
        p.update(decision, 1.0)
    assert np.array_equal(policy.predict([0.4]).mean, same.predict([0.4]).mean)


def test_two_threads_that_play_at_once_leave_a_policy_that_knows_what_it_was_told() -> None:
    policy = kb.KMTLUCB(3)
    learned = [0, 0]
    start = threading.Barrier(2)

    def play(me: int) -> None:
        start.wait(30)
        rng = np.random.default_rng(me)
        for _ in range(150):
            try:
                decision = policy.choose(rng.normal(size=2))
                policy.update(decision, float(rng.normal()))
                learned[me] += 1
            except ConcurrentUseError:
                pass

    threads = [threading.Thread(target=play, args=(me,)) for me in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert policy.n_observations == sum(learned)
    assert policy.n_decisions == sum(learned) + len(policy.pending())
    policy.update(policy.choose([0.0, 0.0]), 1.0)
    assert np.isfinite(policy.predict([0.0, 0.0]).mean).all()


def test_a_frozen_policy_is_read_from_several_threads() -> None:
    policy = a_policy()
    reader = policy.frozen()
    with another_thread_inside(lambda: reader.predict([0.5])) as wrong:
        assert np.allclose(reader.predict([0.2]).mean, policy.predict([0.2]).mean)
        assert reader.propose([[0.2]], uniform=[[0.5, 0.5]]).arm
    with another_thread_inside(lambda: policy.predict([0.5])) as wrong_too:
        assert np.isfinite(reader.predict([0.2]).mean).all()
    assert not wrong
    assert not wrong_too


@pytest.mark.parametrize("kind", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p)), kb.KMTLUCB.copy, copy.copy])
def test_a_copy_has_a_turn_of_its_own(kind: Callable[[kb.KMTLUCB], kb.KMTLUCB]) -> None:
    policy = a_policy()
    other = kind(policy)
    other.predict([0.2])
    if kind is copy.copy:  # it shares all that the policy holds
        return
    with another_thread_inside(lambda: policy.predict([0.5])):
        other.update(other.choose([0.2]), 1.0)


def test_a_callable_of_the_user_may_ask_its_policy() -> None:
    """Calls within calls of one thread are no second thread."""
    asked = []

    def schedule(n: int) -> float:
        asked.append(policy.n_decisions)
        return 1.0 if policy.predict([0.0]).mean.max() < 10 else 0.5

    policy = kb.KMTLUCB(2, exploration=schedule)
    assert policy.choose([0.0]).exploration == 1.0
    assert asked == [0]
