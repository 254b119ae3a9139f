"""A new task that is described is played well from its first round, where tasks are given."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.environments import Tasks


def first_choice(seed: int, similarity: kb.similarity.Similarity | None) -> float:
    """How good the first candidate chosen for a new task is: 0 as the average one, 1 as the best."""
    environment = Tasks(seed=seed, mu=1.0, descriptor_size=1, n_tasks=6, n_candidates=30, horizon=120, start=False)
    z = environment.descriptors
    told = similarity is None
    policy = kb.KMTLUCB(5, similarity=kb.Adaptive(base=kb.Known(descriptors=z[:5])) if told else similarity)
    new = None
    for round in environment.rounds():
        if round.candidates[0] == 5:
            new = round
            continue
        decision = policy.choose(round.context, task=round.candidates[0])
        policy.update(decision, float(round.rewards[decision.index]))
    policy.add_arm("new", descriptor=z[5] if told else None)
    means = new.means
    chosen = policy.choose(new.context, task="new").index
    return float((means[chosen] - means.mean()) / (means.max() - means.mean()))


def test_a_described_task_is_good_from_its_first_round() -> None:
    told = np.mean([first_choice(seed, None) for seed in range(5)])
    alone = np.mean([first_choice(seed, kb.Independent()) for seed in range(5)])
    assert told > 0.4
    assert alone < 0.3


def off_diagonal(policy: kb.KMTLUCB) -> np.ndarray:
    K = policy.similarity_matrix()
    return K[~np.eye(len(K), dtype=bool)]


def test_given_tasks_share_from_the_first_row_and_rivals_do_not() -> None:
    X = np.array([[0.0], [0.5], [1.0]])
    given, rivals = kb.KMTLUCB(3), kb.KMTLUCB(3)
    given.update(given.choose(X, task=1), 1.0)
    rivals.update(rivals.choose(X), 1.0)
    assert (off_diagonal(given) > 0.5).all()
    assert not off_diagonal(rivals).any()
    rivals.update(rivals.choose(X, task=1), 1.0)
    assert not off_diagonal(rivals).any()
    given.update(given.choose(X), 1.0)  # now arms have been rivals
    assert not off_diagonal(given).any()


def test_described_arms_share_from_the_first_row_with_one_context_for_all() -> None:
    policy = kb.KMTLUCB(3, similarity=kb.Adaptive(base=kb.Known(descriptors=[0.0, 0.1, 5.0])))
    policy.update(policy.choose([0.3]), 1.0)
    K = policy.similarity_matrix()
    assert K[0, 1] > 0.4
    assert K[0, 2] < 0.3


@pytest.mark.parametrize("base", [None, kb.Known(descriptors=[0.0, 1.0, 2.0])])
def test_engines_agree_where_tasks_are_given_and_where_they_become_rivals(base) -> None:
    similarity = kb.Adaptive(first=10) if base is None else kb.Adaptive(base=base, first=10)
    rng = np.random.default_rng(0)
    settings = {
        "arms": 3,
        "similarity": similarity,
        "context_kernel": kb.RBF(),
        "ridge": 0.05,
        "tie_break": "first",
    }
    exact, naive = (kb.KMTLUCB(**settings, engine=engine) for engine in ("exact", "naive"))
    for t in range(26):
        X = rng.normal(size=(3, 2))
        task = {"task": t % 3} if t != 17 else {}
        one, two = exact.choose(X, **task), naive.choose(X, **task)
        assert (one.index, one.arm) == (two.index, two.arm)
        reward = float(np.sin(X[one.index].sum()))
        exact.update(one, reward)
        naive.update(two, reward)
        assert np.allclose(exact.similarity_matrix(), naive.similarity_matrix())


def test_that_a_task_was_given_is_saved(tmp_path) -> None:
    policy = kb.KMTLUCB(3, ridge=0.1)
    for task in (0, 1, 2, 0):
        policy.update(policy.choose([[0.1], [0.9]], task=task), float(task))
    policy.save(tmp_path / "policy.npz")
    loaded = kb.load(tmp_path / "policy.npz")
    assert np.array_equal(loaded.similarity_matrix(), policy.similarity_matrix())
    logged = kb.KMTLUCB(3, ridge=0.1)
    history = policy.regression.history
    logged.observe(history.arms, history.contexts, history.rewards, own_contexts="task")
    assert np.array_equal(logged.similarity_matrix(), policy.similarity_matrix())
    with pytest.raises(ValueError, match='own_contexts must be False, True or "task"'):
        logged.observe([0], [[0.0]], [1.0], own_contexts="tasks")
