"""What a policy says of its similarity, the alarm for sharing that hurts, and the default similarity."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.errors import TransferWarning
from kinbandits.similarity import Adaptive, Independent, takes_force
from test_adaptive import EAGER, RBF, kin_rows


def taught(similarity: kb.similarity.Similarity | None = None, t: int = 60, **settings: object) -> kb.KMTLUCB:
    rows = kin_rows(2, t=t)
    policy = kb.KMTLUCB(4, context_kernel=RBF, similarity=similarity, **settings)  # type: ignore[arg-type]
    policy.observe(rows.arms, rows.contexts, rows.rewards)
    return policy


def test_default_similarity_is_adaptive_but_for_windows() -> None:
    assert kb.KMTLUCB(3).similarity == Adaptive()
    assert kb.KMTLUCB(3, memory=kb.Forgetting(100.0)).similarity == Adaptive()
    assert kb.KMTLUCB(3, memory=kb.Window(100)).similarity == Independent()


def test_report_tells_every_choice_and_survives_saving(tmp_path: Path) -> None:
    rows = kin_rows(2, t=60)
    policy = kb.KMTLUCB(4, context_kernel=RBF, similarity=EAGER)
    assert policy.similarity_report().next_rows == 6
    for i in range(60):
        policy.observe(rows.arms[i : i + 1], rows.contexts[i : i + 1], rows.rewards[i : i + 1])
    report = policy.similarity_report()
    stones = [n for n in EAGER.milestones(60) if takes_force(n) <= 60]
    assert [c.rows for c in report.over_time] == stones
    assert report.rows == stones[-1]
    assert report.next_rows == next(takes_force(n) for n in EAGER.milestones(1000) if takes_force(n) > 60)
    assert len(report.candidates) == 7
    assert all(c.decision_score is not None for c in report.candidates)
    chosen = next(c for c in report.candidates if (c.mu, c.scale) == (report.mu, report.scale))
    assert chosen.log_likelihood == max(c.log_likelihood for c in report.candidates)  # no guard, no margin
    policy.save(tmp_path / "policy.kb")
    again = kb.load(tmp_path / "policy.kb").similarity_report()
    assert again.to_data() == report.to_data()
    assert json.loads(json.dumps(report.to_data()))["mu"] == report.mu
    assert "<" in str(report)
    assert "over time: 6: mu=" in str(report)


def test_report_needs_something_chosen() -> None:
    with pytest.raises(ValueError, match="check_transfer"):
        taught(kb.Pooled()).similarity_report()


def test_alarm_sounds_where_sharing_hurts_and_only_there() -> None:
    with pytest.warns(TransferWarning, match="seems to do harm"):
        found = taught(kb.Pooled(), t=120).check_transfer()
    assert found.harmful
    assert found.log_likelihood < -5.0
    pairs = np.kron(np.eye(2), np.full((2, 2), 0.95)) + 0.05 * np.eye(4)
    good = taught(kb.Known(pairs), t=120).check_transfer()  # warnings are errors
    assert not good.harmful
    assert good.log_likelihood > 5.0
    alone = taught(kb.Independent()).check_transfer(guard=False)
    assert (alone.log_likelihood, alone.decision_score, alone.harmful) == (0.0, None, False)


def test_alarm_refuses_what_it_cannot_judge() -> None:
    two = kb.KMTLUCB(2, kernel=kb.Term(kb.Pooled(), RBF) + kb.Term(kb.Independent(), RBF))
    with pytest.raises(ValueError, match="sum of terms"):
        two.check_transfer()
    with pytest.raises(ValueError, match="at least 2 rows"):
        kb.KMTLUCB(2).check_transfer()


def with_own_contexts(guard: bool, t: int = 150) -> kb.KMTLUCB:
    """Every arm has a context of its own; `Adaptive` cannot know what the others would have done in it."""
    rows = kin_rows(2, t=t)
    policy = kb.KMTLUCB(4, context_kernel=RBF, similarity=Adaptive(guard=guard, first=20))
    for arm, x, reward in zip(rows.arms.tolist(), rows.contexts, rows.rewards.tolist(), strict=True):
        decision = policy.choose([x], arms=[arm]) if t == 1 else policy.choose([x, x], arms=[arm, arm])
        policy.update(decision, reward)
    return policy


def test_decisions_are_not_judged_where_arms_have_their_own_contexts(tmp_path: Path) -> None:
    policy, free = with_own_contexts(guard=True), with_own_contexts(guard=False)
    report = policy.similarity_report()
    assert report.mu > 0.0
    assert report.reason.startswith("averaged: mu is")
    assert sum(c.weight or 0.0 for c in report.candidates) == pytest.approx(1.0)
    assert all(c.decision_score is None for c in report.candidates)
    np.testing.assert_array_equal(policy.similarity_matrix(), free.similarity_matrix())
    assert policy.check_transfer().decision_score is None
    policy.save(tmp_path / "policy.kb")
    again = kb.load(tmp_path / "policy.kb")
    assert again.similarity_report().to_data() == report.to_data()
    policy.remove_arm(0)
    assert policy.check_transfer().decision_score is None
    assert taught(Adaptive(), t=60).check_transfer().decision_score is not None  # one context for all


def test_frozen_policy_tells_what_was_chosen() -> None:
    policy = taught(EAGER, t=60)
    quick = policy.similarity_report(complete=False)
    assert quick.rows == policy.similarity_report().rows
    assert policy.frozen().similarity_report().to_data() == quick.to_data()
