"""Many candidates for a given task: the exact engine keeps kernel values of those that come again."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.regression.exact import probe
from kinbandits.regression.exact.append import AppendRegression

TWO = kb.Term(kb.Mixed(0.4), kb.RBF(0.8)) + kb.Term(kb.Independent(), kb.RBF(2.0), columns=[0])
KERNELS = {
    "mixed": kb.Term(kb.Mixed(0.5), kb.RBF(0.8)),
    "independent": kb.Term(kb.Independent(), kb.RBF(0.8)),
    "two terms": TWO,
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
@pytest.mark.parametrize("most", [probe.MOST, 2000])
def test_candidates_that_come_again_are_judged_as_naive_judges_them(kernel, most, monkeypatch) -> None:
    monkeypatch.setattr(probe, "MOST", most)  # 2000: sets push each other out
    rng = np.random.default_rng(0)
    settings = {"arms": 3, "kernel": kernel, "ridge": 0.05, "exploration": 0.2, "tie_break": "first"}
    exact, naive = kb.KMTLUCB(**settings, engine="exact"), kb.KMTLUCB(**settings, engine="naive")
    offers = [rng.uniform(-1.0, 1.0, (probe.LEAST, 3)) for _ in range(3)]
    for t in range(40):
        task = t * t % 3
        offer = offers[task] if t % 5 else rng.uniform(-1.0, 1.0, (probe.LEAST, 3))
        one, two = exact.choose(offer, task=task), naive.choose(offer, task=task)
        assert one.index == two.index, t
        assert one.mean == pytest.approx(two.mean, rel=1e-8, abs=1e-10)
        reward = float(np.sin(3.0 * offer[one.index].sum()))
        exact.update(one, reward)
        naive.update(two, reward)
    core = exact.regression._core
    assert isinstance(core, AppendRegression)
    assert core.kept._sets  # something was kept
    if most == 2000:
        assert len(core.kept._sets) == 1


def test_kept_values_follow_a_history_that_is_cut_back_and_are_not_copied() -> None:
    rng = np.random.default_rng(1)
    policy = kb.KMTLUCB(2, similarity=kb.Mixed(0.5), context_kernel=kb.RBF(), ridge=0.1)
    offer = rng.normal(size=(probe.LEAST, 2))
    for _ in range(4):
        policy.update(policy.choose(offer, task=0), 1.0)
    kept = policy.regression._core.kept
    history = policy.regression.history.head(2)
    (values,) = kept.of(policy.regression.settings.terms, offer, history)
    assert np.allclose(values, kb.RBF()(offer, history.contexts))
    assert not copy.deepcopy(kept)._sets


def test_a_new_similarity_keeps_the_kernel_values() -> None:
    tasks = kb.environments.Tasks(mu=0.9, n_tasks=2, n_candidates=probe.LEAST, horizon=45)
    policy = kb.KMTLUCB(tasks.arms, context_kernel=kb.RBF(), ridge=0.01)
    seen = []
    for round in tasks.rounds():
        decision = policy.choose(round.context, round.candidates)
        policy.update(decision, float(round.rewards[decision.index]))
        seen.append(policy.regression._core)
    swapped = [(a, b) for a, b in pairwise(seen[29:]) if a is not b]
    assert swapped
    assert all(a.kept is b.kept for a, b in swapped)
