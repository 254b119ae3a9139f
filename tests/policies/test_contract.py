"""The public contract: `check_policy` on every policy, and what needs numbers that it cannot know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import kinbandits as kb
from kinbandits import errors
from kinbandits.rules import GPUCB, Confidence, Logarithmic
from kinbandits.testing import check_policy
from strategies import LEARNED, PROBE, SIMILARITIES, picture, play, played, random_rows, same_numbers

X = np.array([0.1, 0.2, 0.3])
ENGINES = ["naive", "exact", "auto", kb.Budgeted(points=64)]
engines = pytest.mark.parametrize("engine", ["naive", "exact"])
all_similarities = pytest.mark.parametrize("similarity", [*SIMILARITIES, *LEARNED])

# -- everything keeps the contract ------------------------------------------------------------------

POLICIES: dict[str, Callable[[], Any]] = {
    **{f"{name}, {engine}": lambda name=name, engine=engine: played(name, engine=engine)
       for name in ("independent", "descriptors", "estimated", "mixed-negative") for engine in ("naive", "exact")},
    "default": lambda: kb.KMTLUCB(4),
    "default, window": lambda: kb.KMTLUCB(4, memory=kb.Window(9)),
    "default from descriptors": lambda: kb.KMTLUCB(4, similarity=LEARNED["learned from descriptors"](4)),
    "default, a range": lambda: kb.KMTLUCB(4, rewards=(0.0, 1.0)),
    "default, naive": lambda: kb.KMTLUCB(4, engine="naive"),
    "budgeted": lambda: kb.KMTLUCB(4, similarity=kb.Mixed(0.4), context_kernel=kb.RBF(), ridge=0.1, engine=kb.Budgeted(64)),
    "as the paper": lambda: played("estimated", weighting="per_arm", tie_break="first"),
    "epsilon": lambda: played("independent", epsilon=0.3, weighting="per_arm", tie_break="first"),
    "ceiling": lambda: played("mixed", exploration=kb.UCB(0.5, ceiling=1.0)),
    "a schedule": lambda: played("pooled", exploration=Logarithmic(0.3)),
    "of theory": lambda: played("known", exploration=Confidence()),
    "of gaussian processes": lambda: played("known", exploration=GPUCB(4)),
    "Thompson": lambda: played("known", exploration=kb.Thompson(200), cold_start="borrow"),
    "inverse gap": lambda: played("known", exploration=kb.InverseGap()),
    "own columns": lambda: kb.KMTLUCB(["a", "b"], context_kernel=kb.RBF((1.0, 2.0, 0.5)), ridge=0.2),
    "kernel_ucb": lambda: kb.baselines.kernel_ucb(["a", "b", "c"], sharing="pooled"),
    "lin_ucb": lambda: kb.baselines.lin_ucb(3),
    "hybrid": lambda: kb.baselines.lin_ucb(3, sharing="hybrid", shared_columns=[0], arm_columns=[1, 2]),
    "gob_lin": lambda: kb.baselines.gob_lin(3, graph=1 - np.eye(3)),
    "cgp_ucb": lambda: kb.baselines.cgp_ucb(3, context_kernel=kb.RBF(), similarity=kb.Mixed(0.3), composition="sum"),
    "gp_ucb": lambda: kb.baselines.gp_ucb(3, arm_kernel=kb.RBF(), descriptors=[0.0, 1.0, 3.0]),
    "uniform": lambda: kb.baselines.uniform(3),
    "epsilon_greedy": lambda: kb.baselines.epsilon_greedy(3),
    "ucb1": lambda: kb.baselines.ucb1(3),
    "gaussian_thompson": lambda: kb.baselines.gaussian_thompson(3),
    "BetaThompson": lambda: kb.baselines.BetaThompson(3),
    "SupKMTLUCB": lambda: kb.SupKMTLUCB(3, horizon=1000, similarity=kb.Mixed(0.5)),
    "sup_kernel_ucb": lambda: kb.baselines.sup_kernel_ucb(3, horizon=1000, engine="naive"),
    "sup_lin_ucb": lambda: kb.baselines.sup_lin_ucb(3, horizon=1000, tie_break="first"),
}  # fmt: skip


def test_no_baseline_is_left_out() -> None:
    assert set(kb.baselines.__all__) <= set(POLICIES)


@pytest.mark.parametrize("name", POLICIES)
def test_it_keeps_the_contract_fresh_and_in_the_middle_of_a_game(name: str) -> None:
    policy = POLICIES[name]()
    check_policy(policy)
    play(policy, 30)
    policy.retire_arm(policy.arms[1])
    if policy.n_arms > 2:
        before = picture(policy)
        check_policy(policy)
        assert picture(policy) == before


# -- candidates -------------------------------------------------------------------------------------


@engines
def test_one_context_for_all_is_the_same_row_for_every_arm(engine: str) -> None:
    policy = played("estimated", engine=engine)
    for shared, rows in zip(policy.predict(X), policy.predict(np.tile(X, (4, 1))), strict=True):
        np.testing.assert_allclose(shared, rows, rtol=1e-7, atol=1e-12)
    C = policy.covariance(np.tile(X, (4, 1)))
    np.testing.assert_allclose(C, policy.covariance(X), rtol=1e-7, atol=1e-12)


@engines
def test_a_row_each_is_one_round_everywhere(engine: str) -> None:
    """(k, d) is one round with a context for each candidate; (R, d) of ``_many`` are rounds."""
    policy = played("known", engine=engine, cold_start="borrow")
    rows = np.random.default_rng(0).uniform(-1, 1, (4, 3))
    one, many = policy.predict(rows), policy.predict_many(rows)
    np.testing.assert_allclose(one.mean, many.mean.diagonal(), rtol=1e-9)
    np.testing.assert_allclose(one.width, many.width.diagonal(), rtol=1e-7)
    np.testing.assert_allclose(policy.predict_many(rows[None]).mean[0], one.mean, rtol=1e-9)
    np.testing.assert_allclose(policy.probabilities(rows), policy.probabilities_many(rows[None])[0])
    assert policy.probabilities_many(rows).shape == (4, 4)
    np.testing.assert_allclose(np.sqrt(policy.covariance(rows).diagonal() / 0.1), one.width, rtol=1e-7)
    assert policy.sample(rows, 5).shape == (5, 4)
    decision = policy.choose(rows)
    np.testing.assert_array_equal(decision.context, rows[decision.index])
    assert len(policy.choose_many(rows)) == 4
    assert policy.predict_many(np.empty((0, 3))).mean.shape == (0, 4)
    assert len(policy.choose_many(np.empty((0, 3)), scores=True)) == 0


@engines
def test_some_arms_in_any_order_and_one_several_times(engine: str) -> None:
    policy = played(engine=engine, tie_break="first", exploration=0.0)
    everyone = policy.predict(X)
    np.testing.assert_allclose(policy.predict(X, arms=[3, 1]).mean, everyone.mean[[3, 1]], rtol=1e-9)
    decision = policy.choose(X, arms=[3, 1])
    assert decision.candidates == (3, 1)
    assert decision.arm == decision.candidates[decision.index]
    rows = np.random.default_rng(3).uniform(-1, 1, (5, 3))
    decision, same = policy.choose(rows, arms=[2] * 5), policy.choose(rows, task=2)
    wanted = [policy.predict(r, arms=[2]).mean[0] for r in rows]
    assert decision.index == same.index == int(np.argmax(wanted))
    count = policy.counts[2]
    policy.update(decision, 0.7)
    assert policy.counts[2] == count + 1
    np.testing.assert_array_equal(policy.regression.rows.contexts[-1], rows[decision.index])


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("settings", [{}, {"epsilon": 0.4}, {"tie_break": "first"}, {"exploration": lambda t: 1 / t}])
@engines
def test_choose_many_is_many_times_choose(engine: str, shared: bool, settings: dict[str, Any]) -> None:
    one, other = played(engine=engine, **settings), played(engine=engine, **settings)
    rounds = np.random.default_rng(1).uniform(-1, 1, (20, 3) if shared else (20, 4, 3))
    many, single = one.choose_many(rounds), [other.choose(r) for r in rounds]
    assert many.arm == [d.arm for d in single]
    assert many.index.tolist() == [d.index for d in single]
    for name in ("id", "propensity", "mean", "width", "score", "scores"):
        np.testing.assert_allclose(getattr(many, name), [getattr(d, name) for d in single], rtol=1e-7)
    assert [d.id for d in many] == [many[i].id for i in range(20)] == many.id.tolist()
    assert many[-1].arm == many.arm[-1]
    with pytest.raises(IndexError):
        many[20]
    assert one.pending() == other.pending()
    one.update(many[3], 1.0)
    other.update(single[3], 1.0)
    assert picture(one) == picture(other)


@engines
def test_choose_plays_the_largest_mean_plus_exploration_times_width(engine: str) -> None:
    policy = played(engine=engine, exploration=0.5, tie_break="first")
    for x in PROBE:
        decision = policy.choose(x)
        mean, width = policy.predict(x)
        assert decision.index == int(np.argmax(mean + 0.5 * width))
        assert decision.score == pytest.approx(decision.mean + 0.5 * decision.width)
        np.testing.assert_allclose(decision.scores, mean + 0.5 * width, rtol=1e-9)
        assert (decision.exploration, decision.propensity) == (0.5, 1.0)


def test_reading_changes_nothing() -> None:
    policy = played()
    before = picture(policy)
    for _ in range(2):
        policy.predict(X)
        policy.similarity_matrix()[:] = 7.0  # a copy
        policy.covariance(X)[:] = 7.0
        policy.log_det()
        policy.explain(policy.pending()[0])
        policy.propose([X], uniform=[[0.5, 0.5]], first_round=7)
        policy.sample(X, 3, rng=np.random.default_rng(0))
        policy.engine_report()
        policy.frozen().choose(X)
        assert repr(policy)
        assert policy._repr_html_()
    assert picture(policy) == before


def test_what_is_handed_over_may_be_changed_afterwards() -> None:
    """Inputs are copied; what a decision shows cannot be written to."""
    policy, x = kb.KMTLUCB(2, context_kernel=kb.RBF()), np.array([0.5, 0.5])
    decision = policy.choose(x)
    x[:] = 99.0
    assert decision.context.tolist() == [0.5, 0.5]
    for array in (decision.context, decision.scores, decision.prediction.mean):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(AttributeError):
        decision.arm = 1


def test_seeds() -> None:
    def arms(seed: Any) -> list[Any]:
        return kb.KMTLUCB(6, seed=seed).choose_many(np.zeros((30, 1))).arm

    assert arms(1) == arms(1) == arms(np.random.default_rng(1)) != arms(2)
    assert kb.KMTLUCB(2, seed=None).choose([0.0]).arm in (0, 1)


# -- rewards ----------------------------------------------------------------------------------------


@engines
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_rewards_late_and_out_of_order_and_in_bulk(engine: str, similarity: str) -> None:
    """With fixed values any order and any pieces lead to the same knowledge."""
    policies = []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        policy = played(similarity, engine=engine, weighting="per_arm")
        decisions = [policy.choose(x) for x in PROBE[:4]]
        for i in order:
            policy.update(decisions[i] if i % 2 else decisions[i].id, float(i))
        policies.append(policy)
    bulk = kb.KMTLUCB(**policies[0].get_params())
    rows = policies[0].regression.rows
    bulk.observe(rows.arms, rows.contexts, rows.rewards)
    same_numbers(policies[0], policies[1])
    same_numbers(policies[0], bulk)
    assert bulk.counts == policies[1].counts
    bulk.observe([], np.empty((0, 3)), [])
    assert bulk.n_observations == policies[0].n_observations


def test_repeats_and_rewards_of_every_kind_of_number() -> None:
    policy = kb.KMTLUCB(1)
    for reward in (1, 0.5, True, np.float32(0.5), np.int64(1), np.bool_(False)):
        decision = policy.choose([0.0])
        policy.update(decision, reward)
        policy.update(decision.id, float(reward))
    assert policy.regression.rows.rewards.tolist() == [1.0, 0.5, 1.0, 0.5, 1.0, 0.0]


def test_pending_cancel_and_how_many_are_remembered() -> None:
    policy = kb.KMTLUCB(2)
    a, b, c = (policy.choose([0.0]) for _ in range(3))
    policy.cancel(b)
    policy.cancel(c.id)
    policy.cancel(b)
    assert policy.pending() == [0]
    with pytest.raises(errors.UnknownDecisionError, match="decision 1 was cancelled"):
        policy.update(b, 1.0)
    policy.update(a, 1.0)
    assert (policy.pending(), policy.n_decisions) == ([], 3)
    policy = kb.KMTLUCB(2, most_pending=3)
    policy.choose_many(np.zeros((5, 1)))
    assert policy.pending() == [2, 3, 4]
    with pytest.raises(errors.UnknownDecisionError, match=r"no longer open.*most_pending=3"):
        policy.update(0, 1.0)
    for i in (2, 3, 4):
        policy.update(i, float(i))
    policy.update(4, 4.0)  # closed ones are remembered for repeats, as many as may be open
    policy.update(policy.choose([0.0]), 1.0)
    with pytest.raises(errors.UnknownDecisionError, match="rewarded long ago"):
        policy.update(2, 2.0)


def test_the_width_of_contexts_is_settled_by_an_open_decision() -> None:
    policy = kb.KMTLUCB(2)
    decision = policy.choose([0.0, 1.0])
    with pytest.raises(ValueError, match="3 features, but this policy has seen 2"):
        policy.choose([0.0, 1.0, 2.0])
    policy.cancel(decision)
    policy.choose([0.0, 1.0, 2.0])


def test_a_stated_range_and_a_scale_only_change_the_unit() -> None:
    """Learned on 0 to 1, reported in the rewards' own units: mean low + (high - low) m, width (high - low) s."""
    rows = random_rows(seed=1, n_arms=3, t=12)
    rewards, fixed = np.clip(rows.rewards, 0, 1), {"context_kernel": kb.RBF(), "ridge": 0.01, "tie_break": "first"}
    plain = kb.KMTLUCB(3, similarity=kb.Mixed(0.3), rewards=None, **fixed)
    plain.observe(rows.arms, rows.contexts, rewards)
    for scale in ((-2.0, 6.0), kb.Scale(-2.0, 8.0)):
        ranged = kb.KMTLUCB(3, similarity=kb.Mixed(0.3), rewards=scale, **fixed)
        ranged.observe(rows.arms, rows.contexts, -2.0 + 8.0 * rewards)
        for p, r in ((plain.predict(PROBE[0]), ranged.predict(PROBE[0])),):
            np.testing.assert_allclose(r.mean[:2], -2.0 + 8.0 * p.mean[:2], rtol=1e-9)
            np.testing.assert_allclose(r.width, 8.0 * p.width, rtol=1e-9)
        assert plain.choose_many(PROBE).arm == ranged.choose_many(PROBE).arm
        np.testing.assert_allclose(ranged.covariance(X), 64.0 * plain.covariance(X), rtol=1e-9, atol=1e-12)


# -- numbers of a decision --------------------------------------------------------------------------

CHANGES: dict[str, Callable[[kb.KMTLUCB], object]] = {
    "update": lambda p: p.update(p.pending()[0], 1.0),
    "observe": lambda p: p.observe([0], [X], [1.0]),
    "add_arm": lambda p: p.add_arm("x"),
    "remove_arm": lambda p: p.remove_arm(3),
}


@pytest.mark.parametrize("change", CHANGES)
def test_numbers_are_lazy_and_stale_after_learning(change: str) -> None:
    policy = played("independent")
    lazy, read, eager = (policy.choose(X, arms=[0, 1], scores=s) for s in (False, False, True))
    kept = read.scores.copy()
    assert "mean" in repr(read)
    assert "mean" not in repr(lazy)
    CHANGES[change](policy)
    for name in ("mean", "width", "score", "scores", "prediction"):
        with pytest.raises(errors.StaleDecisionError, match=r"scores=True"):
            getattr(lazy, name)
    np.testing.assert_array_equal(read.scores, kept)
    np.testing.assert_allclose(eager.scores, kept)
    assert lazy.arm == policy.arms[lazy.index]
    assert lazy.id in policy.pending()


# -- samples, covariance, explanation ---------------------------------------------------------------


@engines
@pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
def test_covariance_and_samples_belong_to_the_widths(engine: str, weighting: Any) -> None:
    policy = played("known", engine=engine, weighting=weighting, ridge=0.2)
    C = policy.covariance(X)
    np.testing.assert_allclose(np.sqrt(0.2) * policy.predict(X).width, np.sqrt(np.diag(C)), rtol=1e-7)
    np.testing.assert_allclose(C, C.T, atol=1e-12)
    assert np.abs(C - np.diag(np.diag(C))).max() > 1e-3  # kin are uncertain together
    n, deviation = 40_000, np.sqrt(np.diag(C))
    draws = policy.sample(X, size=n, rng=np.random.default_rng(5))
    np.testing.assert_allclose(draws.mean(axis=0), policy.predict(X).mean, atol=4.5 * deviation.max() / np.sqrt(n))
    np.testing.assert_allclose(np.cov(draws.T), C, atol=6.0 * deviation.max() ** 2 / np.sqrt(n))
    np.testing.assert_array_equal(policy.copy().sample(X, 3), policy.copy().sample(X, 3))
    same = policy.sample(X, 2, arms=[1, 1])  # the same point twice: the same draw
    np.testing.assert_allclose(same[:, 0], same[:, 1], atol=1e-6)
    assert policy.sample(X, 0).shape == (0, 4)


@engines
@all_similarities
@pytest.mark.parametrize("cold_start", ["explore", "borrow"])
def test_explanation_takes_the_mean_apart(engine: str, similarity: str, cold_start: Any) -> None:
    policy = played(similarity, engine=engine, cold_start=cold_start, rewards=kb.Scale(0.2, 0.5))
    rows = policy.regression.rows
    for arm in policy.arms:
        decision = policy.choose(X, arms=[arm])
        found = policy.explain(decision)
        mean, width = policy.predict(X, arms=[arm])
        assert found.arm == arm
        assert found.mean == pytest.approx(mean[0], abs=1e-10)
        assert found.level + sum(found.contributions.values()) == pytest.approx(mean[0], abs=1e-9)
        assert set(found.contributions) == set(policy.arms)
        sizes = [abs(v) for v in found.contributions.values()]
        assert sizes == sorted(sizes, reverse=True)
        assert found.borrowed == pytest.approx(mean[0] - found.level - found.contributions[arm], abs=1e-9)
        assert (found.n_own, found.n_all) == (policy.counts[arm], policy.n_observations)
        assert found.width == pytest.approx(width[0], rel=1e-7)
        if policy.similarity.fixed:
            alone, own = kb.KMTLUCB(**policy.get_params()), rows.arms == arm
            alone.observe(rows.arms[own], rows.contexts[own], rows.rewards[own])
            assert found.width_alone == pytest.approx(alone.predict(X, arms=[arm]).width[0], rel=1e-7)
            assert found.width <= found.width_alone * (1 + 1e-9) <= found.width_prior * (1 + 2e-9)
        if similarity == "independent":
            assert found.borrowed == 0.0
        assert str(found).startswith(f"Arm {arm!r} is estimated at ")
        assert policy.explain(decision.id) == policy.explain_arm(arm, X) == found


# -- settings and how a policy shows itself -----------------------------------------------------------


def test_get_params_and_clone_start_afresh() -> None:
    policy = played("known", ridge=0.3, epsilon=0.2, exploration=0.7, weighting="per_arm", seed=9, most_pending=50)
    for fresh in (kb.KMTLUCB(**policy.get_params()), clone(policy)):
        assert fresh.get_params() == policy.get_params()
        assert (fresh.n_observations, fresh.pending()) == (0, [])


def test_repr_says_what_differs_from_the_default_and_what_was_learned() -> None:
    text = repr(played("mixed", ridge=0.5))
    assert text.startswith("KMTLUCB(arms=4, context_kernel=RBF(length_scale=0.8), similarity=Mixed(mu=0.6), ridge=0.5")
    assert "18 observations, 3 pending" in text
    assert "seed" not in text
    assert "Term(" in repr(kb.baselines.lin_ucb(2, sharing="hybrid"))
    policy = kb.KMTLUCB(["<b>", "plain"])
    policy.observe(["plain"], [[0.0]], [1.0])
    policy.retire_arm("plain")
    html = policy._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b></td>" not in html
    assert "plain (retired)" in html
    assert "and 10 more" in kb.KMTLUCB(40)._repr_html_()


def test_cold_start() -> None:
    """An arm without rows: mean 0 and the prior's width; or the posterior, where arms are described or it is asked."""
    settings: dict[str, Any] = {"context_kernel": kb.RBF(), "ridge": 0.1, "rewards": None}
    matrix = kb.Known([[1.0, 0.9], [0.9, 1.0]])
    described = kb.KMTLUCB(2, similarity=kb.Known(descriptors=[0.0, 0.1], kernel=kb.RBF()), **settings)
    explores = kb.KMTLUCB(2, similarity=matrix, **settings)
    borrows = kb.KMTLUCB(2, similarity=matrix, cold_start="borrow", **settings)
    for policy in (described, explores, borrows):
        policy.observe([0], [[0.0]], [1.0])
    assert described.predict([0.0]).mean[1] > 0.8
    assert explores.predict([0.0]).mean[1] == 0.0
    assert explores.predict([0.0]).width[1] == pytest.approx(np.sqrt(1 / 0.1))
    assert borrows.predict([0.0]).mean[1] == pytest.approx(0.9 / 1.1)
    assert borrows.predict([0.0]).width[1] == pytest.approx(np.sqrt((1.0 - 0.81 / 1.1) / 0.1))


def test_two_engines_play_one_game_with_everything_learned() -> None:
    """The default, naive and exact: the same decisions and models for 120 rounds, also with contexts of their own."""
    for own in (False, True):
        naive, exact = (kb.KMTLUCB(4, engine=engine, tie_break="first") for engine in ("naive", "exact"))
        rng = np.random.default_rng(4)
        for _ in range(120):
            x = rng.normal(size=(4, 2) if own else 2)
            one, two = naive.choose(x), exact.choose(x)
            np.testing.assert_allclose(one.scores, two.scores, rtol=1e-6, atol=1e-8)
            assert one.arm == two.arm
            reward = float(np.sin(one.context.sum()) + 0.3 * one.index + 0.1 * rng.normal())
            naive.update(one, reward)
            exact.update(two, reward)
        assert str(naive.model) == str(exact.model)
        assert naive.model.same_view(exact.model)
