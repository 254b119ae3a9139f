"""The public contract of KMTLUCB, part by part."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from worlds import PROBE, picture, played

import kinbandits as kb
from kinbandits import errors
from kinbandits.regression import Query
from strategies import EXACT_ENGINES, SIMILARITIES, random_rows

X = np.array([0.1, 0.2, 0.3])
engines = pytest.mark.parametrize("engine", ["naive", *EXACT_ENGINES])
all_similarities = pytest.mark.parametrize("similarity", SIMILARITIES)


def same_numbers(a: kb.KMTLUCB, b: kb.KMTLUCB, tolerance: float = 1e-10) -> None:
    for one, two in zip(a.predict(PROBE, a.arms), b.predict(PROBE, b.arms), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=tolerance)


# -- candidates -------------------------------------------------------------------------------------


@engines
def test_shared_context_is_the_same_row_for_every_arm(engine: str) -> None:
    policy = played("estimated", engine=engine)
    shared, rows = policy.predict(X), policy.predict(np.tile(X, (1, 4, 1)))
    np.testing.assert_allclose(shared.mean, rows.mean[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(shared.width, rows.width[0], rtol=1e-7)


@engines
def test_per_arm_contexts_are_taken_in_the_order_of_the_arms(engine: str) -> None:
    policy = played(engine=engine)
    rows = np.random.default_rng(0).uniform(-1, 1, (4, 3))
    mean, width = (values[0] for values in policy.predict(rows[None]))
    for a in range(4):
        one = policy.predict(rows[a], arms=[a])
        assert one.mean[0] == pytest.approx(mean[a], rel=1e-9)
        assert one.width[0] == pytest.approx(width[a], rel=1e-7)
    decision = policy.choose(rows)
    np.testing.assert_array_equal(decision.context, rows[decision.index])


@engines
def test_a_subset_of_arms_in_any_order(engine: str) -> None:
    policy = played(engine=engine, tie_break="first")
    everyone = policy.predict(X)
    np.testing.assert_allclose(policy.predict(X, arms=[3, 1]).mean, everyone.mean[[3, 1]], rtol=1e-9)
    decision = policy.choose(X, arms=[3, 1])
    assert decision.candidates == (3, 1)
    assert decision.arm == decision.candidates[decision.index]
    count = policy.counts[decision.arm]
    policy.update(decision, 1.0)
    assert policy.counts[decision.arm] == count + 1


@engines
def test_one_task_repeated_with_a_context_each(engine: str) -> None:
    """Candidates that are contexts: the same arm stands five times."""
    policy = played(engine=engine, exploration=0.0, tie_break="first")
    rows = np.random.default_rng(3).uniform(-1, 1, (5, 3))
    decision = policy.choose(rows, arms=[2] * 5)
    wanted = [policy.predict(r, arms=[2]).mean[0] for r in rows]
    assert decision.index == int(np.argmax(wanted))
    assert decision.arm == 2
    count = policy.counts[2]
    policy.update(decision, 0.7)
    assert policy.counts[2] == count + 1
    np.testing.assert_array_equal(policy.regression.history.contexts[-1], rows[decision.index])


def test_batches_of_rounds_are_three_dimensional() -> None:
    policy = played()
    rng = np.random.default_rng(0)
    assert policy.predict(rng.uniform(size=(6, 1, 3))).mean.shape == (6, 4)
    assert policy.predict(rng.uniform(size=(6, 4, 3))).width.shape == (6, 4)
    assert policy.predict(rng.uniform(size=(6, 2, 3)), arms=[0, 1]).mean.shape == (6, 2)
    assert policy.predict(X).mean.shape == (4,)
    assert len(policy.choose_many(np.empty((0, 1, 3)))) == 0
    assert policy.predict(np.empty((0, 1, 3))).mean.shape == (0, 4)
    assert kb.KMTLUCB(2, exploration=lambda t: 1 / t).choose_many(np.empty((0, 1, 3)), scores=True).arm == []


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(
    "settings", [{}, {"epsilon": 0.4}, {"tie_break": "first"}, {"exploration": lambda t: 1 / t}]
)
@engines
def test_choose_many_is_many_times_choose(engine: str, shared: bool, settings: dict[str, Any]) -> None:
    one, other = played(engine=engine, **settings), played(engine=engine, **settings)
    rounds = np.random.default_rng(1).uniform(-1, 1, (20, 1 if shared else 4, 3))
    many = one.choose_many(rounds)
    single = [other.choose(r[0] if shared else r) for r in rounds]
    assert many.arm == [d.arm for d in single]
    assert many.index.tolist() == [d.index for d in single]
    assert many.id.tolist() == [d.id for d in single]
    np.testing.assert_allclose(many.propensity, [d.propensity for d in single])
    np.testing.assert_allclose(many.mean, [d.mean for d in single], rtol=1e-9)
    np.testing.assert_allclose(many.width, [d.width for d in single], rtol=1e-7)
    np.testing.assert_allclose(many.score, [d.score for d in single], rtol=1e-7)
    np.testing.assert_allclose(many.scores, [d.scores for d in single], rtol=1e-7)
    assert [d.id for d in many] == [many[i].id for i in range(20)] == many.id.tolist()
    assert many[-1].arm == many.arm[-1]
    with pytest.raises(IndexError):
        many[20]
    assert repr(many).startswith("Decisions(20 rounds")
    assert one.pending() == other.pending()
    one.update(many[3], 1.0)
    other.update(single[3], 1.0)
    assert picture(one) == picture(other)


# -- choosing ---------------------------------------------------------------------------------------


@engines
def test_choose_plays_the_largest_mean_plus_exploration_times_width(engine: str) -> None:
    policy = played(engine=engine, exploration=0.5, tie_break="first")
    for x in PROBE[:, 0]:
        decision = policy.choose(x)
        mean, width = policy.predict(x)
        assert decision.index == int(np.argmax(mean + 0.5 * width))
        assert decision.score == pytest.approx(decision.mean + 0.5 * decision.width)
        np.testing.assert_allclose(decision.scores, mean + 0.5 * width, rtol=1e-9)
        assert decision.exploration == 0.5
        assert decision.propensity == 1.0


def test_choosing_twice_from_one_state_gives_the_same_decision_and_an_untouched_posterior() -> None:
    policy = played("estimated", epsilon=0.3)
    state = policy.rng.bit_generator.state
    before = policy.predict(PROBE)
    first = policy.choose(X)
    policy.rng.bit_generator.state = state
    second = policy.choose(X)
    assert (first.arm, first.index, first.propensity) == (second.arm, second.index, second.propensity)
    after = policy.predict(PROBE)
    np.testing.assert_array_equal(before.mean, after.mean)
    np.testing.assert_array_equal(before.width, after.width)


def test_predict_is_a_pure_function_of_the_data() -> None:
    policy = played()
    before = picture(policy)
    for _ in range(3):
        policy.predict(PROBE)
        policy.similarity_matrix()[:] = 7.0  # a copy
        policy.covariance(X)[:] = 7.0
        policy.log_det()
        policy.explain(policy.pending()[0])
        repr(policy), policy._repr_html_()
    assert picture(policy) == before


def test_what_is_handed_over_may_be_changed_afterwards() -> None:
    """Inputs are copied; what a decision shows cannot be written to."""
    policy = kb.KMTLUCB(2, context_kernel=kb.RBF())
    x = np.array([0.5, 0.5])
    decision = policy.choose(x)
    x[:] = 99.0
    assert decision.context.tolist() == [0.5, 0.5]
    for array in (decision.context, decision.scores, decision.prediction.mean):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    policy.update(decision, 1.0)
    rows, rewards = np.ones((1, 2)), np.ones(1)
    policy.observe([0], rows, rewards)
    before = policy.predict([0.2, 0.2])
    rows[:], rewards[:] = 99.0, 99.0
    np.testing.assert_array_equal(policy.predict([0.2, 0.2]).mean, before.mean)


# -- ties, epsilon, schedules -----------------------------------------------------------------------


def test_first_breaks_ties_as_argmax_does() -> None:
    policy = kb.KMTLUCB(5, tie_break="first")
    assert [policy.choose([0.1]).arm for _ in range(4)] == [0, 0, 0, 0]
    assert policy.choose([0.1], arms=[3, 2]).arm == 3
    assert policy.choose([0.1]).propensity == 1.0


def test_random_breaks_ties_evenly_and_says_so() -> None:
    policy = kb.KMTLUCB(5, tie_break="random", seed=4)
    policy.observe([0], [[0.1]], [-1.0])  # arm 0 is behind
    n = 4000
    decisions = policy.choose_many(np.full((n, 1, 1), 0.1))
    np.testing.assert_allclose(decisions.propensity, 0.25)
    counts = np.bincount(decisions.index, minlength=5)
    assert counts[0] == 0
    # chi-squared with 3 degrees of freedom: 16.3 is exceeded once in a thousand seeds, and the seed is fixed
    assert ((counts[1:] - n / 4) ** 2 / (n / 4)).sum() < 16.3


@pytest.mark.parametrize("tie_break", ["first", "random"])
def test_epsilon_is_a_uniform_floor_with_exact_propensities(tie_break: Any) -> None:
    epsilon, n = 0.3, 6000
    policy = kb.KMTLUCB(4, context_kernel=kb.RBF(), epsilon=epsilon, tie_break=tie_break, seed=11)
    policy.observe([0, 1, 2, 3], [[0.0]] * 4, [1.0, 1.0, 0.0, 0.5])  # arms 0 and 1 lead together
    probability = np.array([1.0, 0, 0, 0]) if tie_break == "first" else np.array([0.5, 0.5, 0, 0])
    probability = (1 - epsilon) * probability + epsilon / 4
    decisions = policy.choose_many(np.zeros((n, 1, 1)))
    np.testing.assert_allclose(decisions.propensity, probability[decisions.index], rtol=1e-12)
    np.testing.assert_allclose(policy.probabilities(np.zeros((1, 1, 1)))[0], probability, rtol=1e-12)
    counts = np.bincount(decisions.index, minlength=4)
    assert ((counts - n * probability) ** 2 / (n * probability)).sum() < 16.3
    # inverse propensities are unbiased: the mean of 1/p over choices of arm a is 1
    for a in range(4):
        estimate = np.mean((decisions.index == a) / decisions.propensity)
        assert estimate == pytest.approx(1.0, abs=4.0 * np.sqrt((1 / probability[a] - 1) / n))


def test_epsilon_one_is_uniform_over_the_candidates() -> None:
    policy = kb.KMTLUCB(3, epsilon=1.0)
    assert policy.choose([0.0]).propensity == pytest.approx(1 / 3)
    assert policy.choose([0.0], arms=[1, 2]).propensity == pytest.approx(1 / 2)


def test_a_schedule_counts_decisions_from_one() -> None:
    asked: list[int] = []

    def schedule(t: int) -> float:
        asked.append(t)
        return float(t)

    policy = kb.KMTLUCB(2, context_kernel=kb.RBF(), exploration=schedule, tie_break="first")
    first = policy.choose([0.0])
    assert set(asked) == {1}
    assert first.exploration == 1.0
    policy.update(first, 0.3)
    policy.observe([1], [[0.2]], [0.1])  # logged rows are no decisions
    many = policy.choose_many(np.zeros((3, 1, 1)))
    assert [d.exploration for d in many] == [2.0, 3.0, 4.0]
    mean, width = policy.predict([0.0])
    np.testing.assert_allclose(many.scores, mean + np.array([[2.0], [3.0], [4.0]]) * width)


def test_seeds() -> None:
    def arms(seed: Any) -> list[Any]:
        return kb.KMTLUCB(6, seed=seed).choose_many(np.zeros((30, 1, 1))).arm

    assert arms(1) == arms(1) == arms(np.random.default_rng(1)) != arms(2)
    assert kb.KMTLUCB(2, seed=None).choose([0.0]).arm in (0, 1)


# -- rewards ----------------------------------------------------------------------------------------


@engines
@all_similarities
def test_rewards_late_and_out_of_order(engine: str, similarity: str) -> None:
    """Any order of arrival, by decision or by id, leads to the same knowledge."""
    pictures = []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        policy = played(similarity, engine=engine, ridge=0.01)
        decisions = [policy.choose(x) for x in PROBE[:4, 0]]
        for i in order:
            policy.update(decisions[i] if i % 2 else decisions[i].id, float(i))
        pictures.append(policy)
    same_numbers(*pictures)


@engines
@all_similarities
def test_bulk_observe_is_single_updates(engine: str, similarity: str) -> None:
    settings: dict[str, Any] = {"similarity": SIMILARITIES[similarity](4), "engine": engine, "weighting": "per_arm"}
    bulk, single, decided = (kb.KMTLUCB(4, **settings) for _ in range(3))  # the default kernel reads the data
    rows = random_rows(seed=2, n_arms=4, t=70)
    bulk.observe(rows.arms, rows.contexts, rows.rewards)
    for i in range(len(rows)):
        single.observe(rows.arms[i : i + 1], rows.contexts[i : i + 1], rows.rewards[i : i + 1])
        decision = decided.choose(rows.contexts[i], arms=[int(rows.arms[i])])
        decided.update(decision, rows.rewards[i])
    same_numbers(bulk, single)
    same_numbers(bulk, decided)
    np.testing.assert_allclose(bulk.similarity_matrix(), decided.similarity_matrix(), rtol=1e-12)
    assert bulk.counts == decided.counts
    bulk.observe([], np.empty((0, 3)), [])
    assert bulk.n_observations == 70


def test_the_same_reward_again_is_a_repeat_and_another_is_refused() -> None:
    policy = kb.KMTLUCB(2)
    decision = policy.choose([0.0])
    policy.update(decision, 0.5)
    policy.update(decision.id, 0.5)
    policy.update(decision, np.float64(0.5))
    assert policy.n_observations == 1
    with pytest.raises(errors.RewardConflictError, match=r"decision 0 already has reward 0\.5"):
        policy.update(decision, 0.6)
    assert policy.n_observations == 1


def test_rewards_of_every_kind_of_number() -> None:
    policy = kb.KMTLUCB(1)
    for reward in (1, 0.5, True, np.float32(0.5), np.int64(1), np.bool_(False)):
        policy.update(policy.choose([0.0]), reward)
    assert policy.regression.history.rewards.tolist() == [1.0, 0.5, 1.0, 0.5, 1.0, 0.0]


def test_pending_and_cancel() -> None:
    policy = kb.KMTLUCB(2)
    a, b, c = (policy.choose([0.0]) for _ in range(3))
    assert policy.pending() == [0, 1, 2]
    policy.cancel(b)
    policy.cancel(c.id)
    assert policy.pending() == [0]
    with pytest.raises(errors.UnknownDecisionError, match="decision 1 is no longer open: cancelled"):
        policy.update(b, 1.0)
    policy.update(a, 1.0)
    assert policy.pending() == []
    assert policy.n_decisions == 3


def test_pending_bounds_the_memory() -> None:
    policy = kb.KMTLUCB(2, pending=kb.Pending(3))
    for _ in range(5):
        policy.choose([0.0])
    assert policy.pending() == [2, 3, 4]
    with pytest.raises(errors.UnknownDecisionError, match=r"forgotten \(see pending=\)"):
        policy.update(0, 1.0)
    policy = kb.KMTLUCB(2, pending=kb.Pending(forget_after=2))
    policy.choose_many(np.zeros((5, 1, 1)))
    assert policy.pending() == [3, 4]
    # rewarded decisions are remembered for repeats, as many as may be open
    policy = kb.KMTLUCB(2, pending=kb.Pending(2))
    for i in range(4):
        policy.update(policy.choose([0.0]), float(i))
    policy.update(3, 3.0)
    with pytest.raises(errors.UnknownDecisionError, match="rewarded long ago"):
        policy.update(0, 0.0)


def test_the_width_of_contexts_is_settled_by_an_open_decision() -> None:
    policy = kb.KMTLUCB(2)
    decision = policy.choose([0.0, 1.0])
    with pytest.raises(ValueError, match="3 features, but this policy has seen 2"):
        policy.choose([0.0, 1.0, 2.0])
    policy.cancel(decision)
    policy.choose([0.0, 1.0, 2.0])


def test_reward_range_only_changes_the_scale() -> None:
    """Learned on 0 to 1, reported in the rewards' own units: mean low + (high - low) m, width (high - low) s."""
    plain = kb.KMTLUCB(3, context_kernel=kb.RBF(), ridge=0.01, tie_break="first")
    ranged = kb.KMTLUCB(3, context_kernel=kb.RBF(), ridge=0.01, rewards=kb.Range(-2.0, 6.0), tie_break="first")
    rows = random_rows(seed=1, n_arms=3, t=12)
    plain.observe(rows.arms, rows.contexts, rows.rewards)
    ranged.observe(rows.arms, rows.contexts, -2.0 + 8.0 * np.clip(rows.rewards, 0, 0.75))
    plain = kb.KMTLUCB(3, context_kernel=kb.RBF(), ridge=0.01, tie_break="first")
    plain.observe(rows.arms, rows.contexts, np.clip(rows.rewards, 0, 0.75))
    p, r = plain.predict(PROBE), ranged.predict(PROBE)
    np.testing.assert_allclose(r.mean, -2.0 + 8.0 * p.mean, rtol=1e-9)
    np.testing.assert_allclose(r.width, 8.0 * p.width, rtol=1e-9)
    assert plain.choose_many(PROBE).arm == ranged.choose_many(PROBE).arm
    np.testing.assert_allclose(ranged.covariance(X), 64.0 * plain.covariance(X), rtol=1e-9, atol=1e-12)
    explanation = ranged.explain(ranged.choose(X))
    assert -2.0 + sum(explanation.lent.values()) == pytest.approx(explanation.mean)


# -- numbers of a decision --------------------------------------------------------------------------


def test_numbers_are_lazy_and_stale_after_learning() -> None:
    policy = played()
    lazy, read, eager = policy.choose(X), policy.choose(X), policy.choose(X, scores=True)
    kept = read.scores.copy()
    assert "mean" in repr(read)
    assert "mean" not in repr(lazy)
    policy.update(policy.choose(X), 1.0)
    for name in ("mean", "width", "score", "scores", "prediction"):
        with pytest.raises(errors.StaleDecisionError, match=r"scores=True"):
            getattr(lazy, name)
    np.testing.assert_array_equal(read.scores, kept)
    np.testing.assert_allclose(eager.scores, kept)
    assert eager.mean + eager.exploration * eager.width == pytest.approx(eager.score)
    assert lazy.arm == policy.arms[lazy.index]
    assert 0 < lazy.propensity <= 1
    assert lazy.id in policy.pending()


@pytest.mark.parametrize("change", ["observe", "add_arm", "remove_arm"])
def test_other_changes_make_numbers_stale_too(change: str) -> None:
    policy = played("independent")
    decision = policy.choose(X, arms=[0, 1])
    {
        "observe": lambda: policy.observe([0], [X], [1.0]),
        "add_arm": lambda: policy.add_arm("x"),
        "remove_arm": lambda: policy.remove_arm(3),
    }[change]()
    with pytest.raises(errors.StaleDecisionError):
        decision.scores  # noqa: B018
    many = policy.choose_many(PROBE[:, :1], scores=True)
    policy.observe([0], [X], [1.0])
    assert many.scores.shape[0] == 5


# -- samples and covariance -------------------------------------------------------------------------


@engines
@pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
def test_covariance_belongs_to_the_widths(engine: str, weighting: Any) -> None:
    policy = played("known", engine=engine, weighting=weighting, ridge=0.2)
    C = policy.covariance(X)
    np.testing.assert_allclose(np.sqrt(0.2) * policy.predict(X).width, np.sqrt(np.diag(C)), rtol=1e-7)
    np.testing.assert_allclose(C, C.T, atol=1e-12)
    assert np.abs(C - np.diag(np.diag(C))).max() > 1e-3  # kin are uncertain together


def test_samples_have_the_posterior_moments() -> None:
    policy = played("known", ridge=0.2)
    n = 40_000
    draws = policy.sample(X, size=n, rng=np.random.default_rng(5))
    assert draws.shape == (n, 4)
    C, mean = policy.covariance(X), policy.predict(X).mean
    deviation = np.sqrt(np.diag(C))
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=4.5 * deviation.max() / np.sqrt(n))
    np.testing.assert_allclose(np.cov(draws.T), C, atol=6.0 * deviation.max() ** 2 / np.sqrt(n))


def test_samples_use_the_policys_own_randomness_unless_given_another() -> None:
    policy = played()
    twin = policy.copy()
    np.testing.assert_array_equal(policy.sample(X, 3), twin.sample(X, 3))
    state = str(policy.rng.bit_generator.state)
    policy.sample(X, 3, rng=np.random.default_rng(0))
    assert str(policy.rng.bit_generator.state) == state
    assert policy.sample(X, 2, arms=[1, 1]).shape == (2, 2)
    same = policy.sample(X, 2, arms=[1, 1])  # the same point twice: the same draw
    np.testing.assert_allclose(same[:, 0], same[:, 1], atol=1e-6)
    assert policy.sample(X, 0).shape == (0, 4)


# -- copies, settings, display ------------------------------------------------------------------------


@engines
@all_similarities
def test_a_copy_is_independent(engine: str, similarity: str) -> None:
    policy = played(similarity, engine=engine)
    before = picture(policy)
    other = policy.copy()
    assert picture(other) == before
    other.update(other.pending()[0], 5.0)
    other.observe([0], [X], [2.0])
    other.choose(X)
    other.retire_arm(1)
    other.remove_arm(0)
    assert picture(policy) == before
    policy.update(policy.pending()[0], 5.0)


def test_get_params_and_clone_start_afresh() -> None:
    policy = played(
        "known", ridge=0.3, epsilon=0.2, exploration=0.7, weighting="per_arm", seed=9, pending=kb.Pending(50)
    )
    fresh = kb.KMTLUCB(**policy.get_params())
    assert fresh.get_params() == policy.get_params() == clone(policy).get_params()
    assert fresh.n_observations == 0
    assert clone(policy).pending() == []
    assert clone(kb.RBF(2.0)) == kb.RBF(2.0)
    assert kb.RBF(2.0).get_params() == {"length_scale": 2.0}
    nested = (kb.RBF(2.0) + kb.Linear()).get_params()
    assert nested["first__length_scale"] == 2.0


def test_repr_says_what_differs_from_the_default_and_what_was_learned() -> None:
    text = repr(played("mixed", ridge=0.5))
    assert text.startswith(
        "KMTLUCB(arms=4, context_kernel=RBF(length_scale=0.8), similarity=Mixed(mu=0.6), ridge=0.5)"
    )
    assert "18 observations, 3 pending" in text
    assert "seed" not in text
    assert "Term(" in repr(kb.baselines.LinUCB(2, sharing="hybrid"))


def test_html_repr_shows_arms_and_escapes_names() -> None:
    policy = kb.KMTLUCB(["<b>", "plain"])
    policy.observe(["plain"], [[0.0]], [1.0])
    policy.retire_arm("plain")
    html = policy._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b></td>" not in html
    assert "plain (retired)" in html
    assert "... and 10 arms more" in kb.KMTLUCB(40)._repr_html_()


# -- explanation --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
def test_explanation_leaves_rows_the_weight_they_have(weighting: Any) -> None:
    """Rows of other arms make a row older, though they lend nothing."""
    settings = {"context_kernel": kb.RBF(1.0), "weighting": weighting, "memory": kb.Forgetting(half_life=2.0)}
    policy = kb.KMTLUCB(2, similarity=kb.Mixed(0.5), **settings)
    policy.observe([0, 1, 1, 1, 1], [[0.1], [0.5], [0.9], [0.2], [0.4]], [1.0, 0.0, 0.5, 0.0, 1.0])
    told = policy.explain(policy.choose([0.1], arms=[0]))
    noise = 0.01 * 2.0 ** (4 / 2.0)  # four rows have come since: two half-lives; n_0 = 1
    assert told.width_alone == pytest.approx(np.sqrt((1.0 - 1.0 / (1.0 + noise)) / 0.01))


@engines
@all_similarities
@pytest.mark.parametrize("cold_start", ["explore", "borrow"])
def test_explanation_takes_the_mean_apart(engine: str, similarity: str, cold_start: Any) -> None:
    policy = played(similarity, engine=engine, cold_start=cold_start, ridge=0.1)
    for arm in policy.arms:
        decision = policy.choose(X, arms=[arm])
        told = policy.explain(decision)
        mean, width = policy.predict(X, arms=[arm])
        assert told.arm == arm
        assert told.mean == pytest.approx(mean[0], abs=1e-10)
        assert sum(told.lent.values()) == pytest.approx(mean[0], abs=1e-9)
        assert set(told.lent) == set(policy.arms)
        sizes = [abs(v) for v in told.lent.values()]
        assert sizes == sorted(sizes, reverse=True)
        assert told.width == pytest.approx(width[0], rel=1e-7)
        assert told.borrowed == pytest.approx(mean[0] - told.lent[arm], abs=1e-9)
        assert told.n_own == policy.counts[arm]
        assert told.n_all == policy.n_observations
        alone = kb.KMTLUCB(**(policy.get_params() | {"seed": 0}))
        h = policy.regression.history
        own = h.arms == policy.arms.index(arm)
        alone.observe(h.arms[own], h.contexts[own], h.rewards[own])
        assert told.width_alone == pytest.approx(alone.predict(X, arms=[arm]).width[0], rel=1e-7)
        assert told.width <= told.width_alone * (1 + 1e-9) or similarity == "estimated"
        assert told.width_alone <= told.width_prior * (1 + 1e-9)
        if similarity == "independent":
            assert told.borrowed == 0.0
        assert str(told).startswith(f"Arm {arm!r} is estimated at ")
        assert policy.explain(decision.id) == told


# -- names that fill in values ------------------------------------------------------------------------


def test_convenience_names_only_fill_in_values() -> None:
    assert kb.baselines.KernelUCB(3).get_params() == kb.KMTLUCB(3, similarity=kb.Independent()).get_params()
    assert kb.baselines.KernelUCB(3, sharing="pooled", ridge=0.5).similarity == kb.Pooled()
    assert isinstance(kb.baselines.LinUCB(3), kb.KMTLUCB)
    assert kb.baselines.LinUCB(3).context_kernel == kb.Linear()
    assert kb.baselines.LinUCB(3).get_params()["ridge"] == 1.0
    assert kb.baselines.LinUCB(3, sharing="pooled").similarity == kb.Pooled()
    hybrid = kb.baselines.LinUCB(3, sharing="hybrid", shared_columns=[0], arm_columns=[1])
    assert hybrid.terms == kb.Term(kb.Pooled(), kb.Linear(), [0]) + kb.Term(kb.Independent(), kb.Linear(), [1])
    assert hybrid.similarity_matrix(0).tolist() == np.ones((3, 3)).tolist()
    assert hybrid.similarity_matrix(1).tolist() == np.eye(3).tolist()


def test_the_default_policy_is_independent_with_the_median_rule() -> None:
    policy = kb.KMTLUCB(2)
    rng = np.random.default_rng(0)
    contexts = rng.standard_normal((80, 2))
    policy.observe(np.arange(80) % 2, contexts, rng.random(80))
    params = policy.get_params()
    assert (params["ridge"], params["exploration"]) == (kb.LearnedRidge(), kb.exploration.Deviations())
    assert (params["rewards"], params["weighting"]) == (kb.rewards.Standardized(), "uniform")
    distances = [np.linalg.norm(a - b) for a, b in itertools.combinations(contexts[:60], 2)]
    (term,) = policy.regression.settings.terms
    assert term.context_kernel == kb.RationalQuadratic(length_scale=float(np.median(distances)))
    explicit = kb.KMTLUCB(2, context_kernel=term.context_kernel, ridge=policy.engine_report()["noise"]["ridge"])
    explicit.observe(np.arange(80) % 2, contexts, policy.regression.history.rewards)
    query = Query(np.arange(2), contexts[:5, None, :])
    np.testing.assert_array_equal(explicit.regression.predict(query).mean, policy.regression.predict(query).mean)


def test_cold_start_auto_borrows_where_arms_are_described() -> None:
    settings: dict[str, Any] = {"context_kernel": kb.RBF(), "ridge": 0.1}
    described = kb.KMTLUCB(2, similarity=kb.Known(kb.RBF(), [0.0, 0.1]), **settings)
    matrix = kb.KMTLUCB(2, similarity=kb.Known([[1.0, 0.9], [0.9, 1.0]]), **settings)
    told = kb.KMTLUCB(2, similarity=kb.Known([[1.0, 0.9], [0.9, 1.0]]), cold_start="borrow", **settings)
    for policy in (described, matrix, told):
        policy.observe([0], [[0.0]], [1.0])
    assert described.predict([0.0]).mean[1] > 0.8
    assert matrix.predict([0.0]).mean[1] == 0.0
    assert told.predict([0.0]).mean[1] > 0.7
    assert matrix.predict([0.0]).width[1] == pytest.approx(np.sqrt(1 / 0.1))


def test_a_rewarded_number_is_no_repeat_for_the_decision_of_another_policy() -> None:
    mine, other = kb.KMTLUCB(3), kb.KMTLUCB(3)
    mine.update(mine.choose([0.0]), 1.0)
    foreign = other.choose([5.0])
    assert foreign.id == 0
    with pytest.raises(errors.UnknownDecisionError, match="another policy"):
        mine.update(foreign, 1.0)
    own = mine.choose([1.0])
    mine.update(own, 0.5)
    mine.update(own, 0.5)  # a repeat
    with pytest.raises(errors.RewardConflictError, match=r"already has reward 0\.5"):
        mine.update(own, 0.25)


def test_decisions_of_another_policy_after_loading_and_removing_arms(tmp_path: Path) -> None:
    policy, other = kb.KMTLUCB(3, tie_break="first"), kb.KMTLUCB(3, tie_break="first")
    first, second = policy.choose([0.0]), policy.choose([1.0])
    policy.update(first, 1.0)
    policy.save(tmp_path / "policy.kb")
    loaded = kb.load(tmp_path / "policy.kb")
    foreign = [other.choose([5.0]), other.choose([6.0])]
    policy.remove_arm(2)
    for one in (policy, loaded):
        with pytest.raises(errors.UnknownDecisionError, match="another policy"):
            one.update(foreign[1], 1.0)
        one.update(second, 1.0)
    with pytest.raises(errors.UnknownDecisionError, match="another policy"):
        policy.update(foreign[0], 1.0)
