"""SupKMTL-UCB: the contract, the stages, and an independent SupLinUCB."""

import itertools
import math

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.environments import RKHSProblem


def problem(seed=0, horizon=150, **options):
    options = {"mu": 0.9, "n_arms": 3, "context_kernel": kb.RBF(2.0), "amplitude": 1.5} | options
    return RKHSProblem(seed=seed, horizon=horizon, **options)


def policy_for(env, **settings):
    settings = {"ridge": 0.01, "delta": 0.1, "tie_break": "first"} | settings
    return kb.SupKMTLUCB(
        env.arms,
        horizon=env.horizon,
        similarity=env.similarity,
        context_kernel=env.context_kernel,
        norm_bound=env.norm,
        **settings,
    )


# -- SupLinUCB, written for this test alone, from Chu et al. (2011), Algorithms 1 and 2 --------------


class IndependentSupLinUCB:
    """Ridge regression in feature space, one A and b per stage; shares no code with the library."""

    def __init__(self, horizon, n_arms, n_features, delta):
        self.T = horizon
        self.S = max(1, math.ceil(math.log(horizon)))
        self.alpha = math.sqrt(0.5 * math.log(2 * horizon * n_arms / delta))
        self.A = [np.eye(n_features) for _ in range(self.S)]
        self.b = [np.zeros(n_features) for _ in range(self.S)]

    def play(self, X, rewards):
        alive = list(range(len(X)))
        for s in range(1, self.S + 1):
            inverse = np.linalg.inv(self.A[s - 1])
            theta = inverse @ self.b[s - 1]
            w = {a: (self.alpha + 1) * math.sqrt(X[a] @ inverse @ X[a]) for a in alive}
            ucb = {a: X[a] @ theta + w[a] for a in alive}
            if all(w[a] <= 1 / math.sqrt(self.T) for a in alive):
                return max(alive, key=ucb.get), 0
            if any(w[a] > 2.0**-s for a in alive):
                a = max(alive, key=w.get)
                self.A[s - 1] += np.outer(X[a], X[a])
                self.b[s - 1] += rewards[a] * X[a]
                return a, s
            best = max(ucb.values())
            alive = [a for a in alive if ucb[a] >= best - 2.0 ** (1 - s)]
        raise AssertionError("a round always ends")


@pytest.mark.parametrize(("seed", "make"), [(0, kb.baselines.sup_lin_ucb), (1, None)], ids=["SupLinUCB", "by values"])
def test_pooled_and_linear_is_suplinucb(seed, make):
    rng = np.random.default_rng(seed)
    T, N, d = 800, 4, 2
    theta = rng.standard_normal(d)
    theta /= np.linalg.norm(theta)
    other = IndependentSupLinUCB(T, N, d, delta=0.1)
    if make is None:
        policy = kb.SupKMTLUCB(
            N, horizon=T, delta=0.1, similarity=kb.Pooled(), context_kernel=kb.Linear(), ridge=1.0, norm_bound=1.0
        )
    else:
        policy = make(N, horizon=T, delta=0.1)
    stages = set()
    for _ in range(T):
        X = rng.standard_normal((N, d))
        X *= rng.uniform(0.5, 1.0, (N, 1)) / np.linalg.norm(X, axis=1, keepdims=True)  # no two equally wide
        rewards = X @ theta + rng.uniform(-0.5, 0.5, N)
        decision = policy.choose(X)
        arm, stage = other.play(X, rewards)
        assert (decision.arm, decision.note["stage"]) == (arm, stage)
        policy.update(decision, rewards[decision.arm])
        stages.add(stage)
    assert stages >= {1, 2, 3}  # deep enough to have eliminated arms


# -- stages ---------------------------------------------------------------------------------------


def test_stages_are_disjoint_and_hold_all_rewarded_rounds():
    env = problem(horizon=300)
    policy = policy_for(env)
    rewarded = set()
    rng = np.random.default_rng(0)
    for t, round_ in enumerate(env.rounds()):
        decision = policy.choose(round_.context)
        if rng.random() < 0.8:
            policy.update(decision, round_.rewards[decision.index])
            rewarded.add(t)
        for a, b in itertools.combinations([*policy.stages, policy.settled], 2):
            assert not a & b
    assert set().union(*policy.stages, policy.settled) == rewarded
    assert len(policy.stages) == policy.n_stages == math.ceil(math.log(300))
    assert [len(policy.regression(q).rows) for q in range(1, policy.n_stages + 1)] == [len(s) for s in policy.stages]
    assert sum(map(len, policy.stages[1:])) > 0
    assert policy.n_observations == sum(map(len, policy.stages)) == sum(policy.counts.values())


def test_line_9_settles_and_teaches_nothing():
    """One arm, a constant kernel: after enough rounds the radius is below 1 / sqrt(T), and stages stop growing."""
    policy = kb.SupKMTLUCB(
        1,
        horizon=20,
        similarity=kb.Pooled(),
        context_kernel=kb.Constant(1.0),
        delta=0.999999,
        norm_bound=0.0,
        ridge=100.0,
    )
    notes = []
    for _ in range(20):
        decision = policy.choose([0.0])
        notes.append(decision.note["stage"])
        policy.update(decision, 0.5)
    # radius: alpha sqrt(1 / (100 + n)) with alpha = sqrt(log(40) / 2) = 1.36; 1 / sqrt(20) = 0.22
    assert notes == [0] * 20
    assert policy.settled == frozenset(range(20))
    assert policy.n_observations == 0


def test_line_16_takes_the_widest_arm():
    env = problem()
    policy = policy_for(env)
    for round_ in env.rounds():
        decision = policy.choose(round_.context)
        stage = decision.note["stage"]
        if stage == 1:
            width = policy.base(round_.context, stage=1).width
            assert decision.index == width.argmax()
            assert policy.exploration * width.max() > 0.5
        policy.update(decision, round_.rewards[decision.index])


def test_rewards_do_not_choose_the_rounds_of_their_own_stage():
    """The independence that the proof needs: other rewards in stage 1 never change who joins stage 1."""
    env = problem(horizon=120)
    policies = [policy_for(env), policy_for(env)]
    rng = np.random.default_rng(5)
    for round_ in env.rounds():
        decisions = [p.choose(round_.context) for p in policies]
        first = [d.note["stage"] == 1 for d in decisions]
        assert first[0] == first[1]
        if all(first):
            assert decisions[0].index == decisions[1].index
        policies[0].update(decisions[0], round_.rewards[decisions[0].index])
        policies[1].update(decisions[1], rng.uniform(-1, 1))


def test_late_and_missing_rewards_do_not_corrupt_the_stages():
    """Rounds whose reward never comes are in no stage; the others give what they would have given in order."""
    env = problem(horizon=120)
    policy = policy_for(env)
    rows = {}
    waiting = []
    rng = np.random.default_rng(1)
    for round_ in env.rounds():
        decision = policy.choose(round_.context)
        stages = policy.stages
        rows[decision.id] = (decision, round_)
        if rng.random() < 0.5:
            waiting.append(decision.id)
            rng.shuffle(waiting)
        if rng.random() < 0.7 and waiting:
            late = waiting.pop()
            policy.update(late, rows[late][1].rewards[rows[late][0].index])
        assert all(before <= after for before, after in zip(stages, policy.stages, strict=True))
    for decision_id in policy.pending()[::2]:
        policy.cancel(decision_id)
    for q, members in enumerate(policy.stages, start=1):
        assert all(rows[i][0].note["stage"] == q for i in members)
        # the same estimates as a regression on exactly these rows
        fresh = kb.KMTLUCB(
            env.arms,
            similarity=env.similarity,
            context_kernel=env.context_kernel,
            ridge=0.01,
            cold_start="borrow",
            engine="naive",
            rewards=None,
        )
        order = sorted(members)
        fresh.observe(
            [rows[i][0].arm for i in order],
            np.array([rows[i][0].context for i in order]).reshape(-1, 1),
            [rows[i][1].rewards[rows[i][0].index] for i in order],
        )
        x = rng.uniform(-1, 1, (3, 1))
        np.testing.assert_allclose(
            policy.base(x, stage=q), fresh.choose(x, scores=True).prediction, rtol=1e-6, atol=1e-8
        )


# -- contract -------------------------------------------------------------------------------------


def test_after_the_horizon_it_refuses_and_nothing_changes():
    policy = kb.SupKMTLUCB(2, horizon=3)
    policy.choose([0.1])
    with pytest.raises(ValueError, match="horizon=3 rounds and has made 1 decisions"):
        policy.choose_many(np.zeros((3, 1)))
    assert policy.n_decisions == 1
    policy.choose_many(np.zeros((2, 1)))
    with pytest.raises(kb.errors.HorizonReachedError, match="larger horizon"):
        policy.choose([0.1])
    assert policy.n_decisions == 3
    policy.update(0, 1.0)  # late rewards still count
    assert policy.stages[0] == {0}
    assert policy.predict([0.1]).mean.shape == (2,)


def test_numbers_of_a_decision_are_those_of_its_stage():
    env = problem(horizon=300)
    policy = policy_for(env)
    seen = set()
    for round_ in env.rounds():
        decision = policy.choose(round_.context, scores=True)
        stage = decision.note["stage"]
        seen.add(stage)
        mean, width = policy.base(round_.context, stage=stage)
        np.testing.assert_allclose(decision.prediction, (mean, width))
        np.testing.assert_allclose(decision.scores, mean + policy.exploration * width)
        policy.update(decision, round_.rewards[decision.index])
    assert seen >= {1, 2}


def test_logged_rows_join_the_estimate_of_stage_1_and_no_set_of_rounds(tmp_path):
    policy = kb.SupKMTLUCB(2, horizon=100)
    before = policy.base([[0.0]], stage=2)
    policy.observe([0, 1, 0], [[0.0], [0.5], [1.0]], [1.0, 0.0, 1.0])
    assert policy.n_observations == len(policy.regression(1).rows) == 3
    assert all(not s for s in policy.stages)
    np.testing.assert_array_equal(policy.base([[0.0]], stage=2), before)
    policy.update(policy.choose([0.2]), 0.5)
    assert policy.stages[0] == {0}
    policy.save(tmp_path / "logged.kb")
    again = kb.load(tmp_path / "logged.kb")
    assert (again.n_observations, again.stages) == (4, policy.stages)
    np.testing.assert_array_equal(again.predict([0.3]), policy.predict([0.3]))


def test_two_terms_and_named_arms():
    kernel = kb.Term(kb.Pooled(), kb.Linear(), columns=[0]) + kb.Term(kb.Independent(), kb.RBF(), columns=[1])
    policy = kb.SupKMTLUCB(["red", "blue"], horizon=30, kernel=kernel)
    for t in range(30):
        policy.update(policy.choose([math.sin(t), math.cos(t)]), 0.5)
    assert policy.n_observations + len(policy.settled) == 30
    assert "horizon=30" in repr(policy)
