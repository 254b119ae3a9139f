"""The lemmas behind Theorem 1, checked in every round of every run on problems built in the RKHS.

All of these use expected regret: f* is known here.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy.stats import binomtest

import kinbandits as kb
from kinbandits import theory
from kinbandits.environments import RKHSProblem

DELTA = 0.1


def policy_for(env, ridge, delta=DELTA, factor=None):
    """SupKMTL-UCB that knows what the theorem lets it know; ``factor`` shrinks its intervals, as a control."""
    kind = kb.SupKMTLUCB if factor is None else shrunk(factor)
    return kind(
        env.arms,
        horizon=env.horizon,
        similarity=env.similarity,
        context_kernel=env.context_kernel,
        norm_bound=env.norm,
        ridge=ridge,
        delta=delta,
    )


def shrunk(factor):
    class Shrunk(kb.SupKMTLUCB):
        @property
        def exploration(self):
            return factor * super().exploration

    kb.policy.Policy.registry.pop(Shrunk.kind)
    return Shrunk


@dataclass
class Audit:
    """What happened in a run, and how often each statement of Lemmas 1 and 11 failed."""

    policy: kb.SupKMTLUCB
    missed: int = 0  # Lemma 11, first item: intervals that do not hold f*
    eliminations: int = 0
    best_lost: int = 0  # second item: the best arm eliminated
    gap_broken: int = 0  # third item: an arm in play at stage q that is more than 2^(3-q) below the best
    settled_broken: int = 0  # rounds of Psi_0 with regret above 2 / sqrt(T)
    regret: float = 0.0
    widths: dict = field(default_factory=dict)  # stage -> width of each row, in order of arrival
    rows: list = field(default_factory=list)  # arm and context of the rounds that are in some stage


def audit(env, policy, *, every_stage=False):
    """Play, and follow the paper's elimination with estimates of our own reading (``policy.base``)."""
    found = Audit(policy)
    exploration = policy.exploration
    for round_ in env.rounds():
        f, best = round_.means, int(np.argmax(round_.means))
        decision = policy.choose(round_.context)
        last = decision.note["stage"] or policy.n_stages
        alive = np.ones(len(f), dtype=bool)
        for q in range(1, policy.n_stages + 1):
            mean, width = policy.base(round_.context, stage=q)
            w = exploration * width
            if every_stage or q <= last:
                found.missed += int(np.sum(np.abs(mean - f) > w))
            if q > last or alive is None:
                if not every_stage:
                    break
                continue
            found.best_lost += not alive[best]
            found.gap_broken += int(np.sum(f[best] - f[alive] > 2.0 ** (3 - q) + 1e-12))
            if (w[alive] <= 1 / math.sqrt(env.horizon)).all():
                assert decision.note["stage"] == 0
                found.settled_broken += f[best] - f[decision.index] > 2 / math.sqrt(env.horizon)
                alive = None
            elif (w[alive] <= 2.0**-q).all():
                ucb = mean + w
                kept = alive & (ucb >= ucb[alive].max() - 2.0 ** (1 - q))
                found.eliminations += int(alive.sum() - kept.sum())
                alive = kept
            else:
                assert decision.note["stage"] == q  # the policy stopped where the paper does
                assert alive[decision.index]
                assert w[decision.index] > 2.0**-q
                found.widths.setdefault(q, []).append(width[decision.index])
                found.rows.append((decision.index, round_.context[decision.index]))
                alive = None
        assert alive is None, "a round always ends"
        found.regret += f[best] - f[decision.index]
        policy.update(decision, round_.rewards[decision.index])
    return found


PROBLEMS = {
    "kin": {"mu": 0.9, "n_arms": 3, "context_kernel": kb.RBF(2.0), "amplitude": 2.0},
    "one function": {"mu": 1.0, "n_arms": 3, "context_kernel": kb.RBF(1.0), "amplitude": 2.0},
    "strangers": {"mu": 0.0, "n_arms": 2, "context_kernel": kb.RBF(3.0), "amplitude": 0.8},
    "plane": {"mu": 0.7, "n_arms": 4, "n_features": 2, "context_kernel": kb.Matern(2.0), "amplitude": 1.0},
}


@pytest.fixture(scope="module")
def runs():
    """Every problem with three seeds, ridge 0.01 (m = 100) and 1 (m = 1)."""
    found = []
    for name, options in PROBLEMS.items():
        for seed, ridge in ((0, 0.01), (1, 0.01), (2, 1.0)):
            env = RKHSProblem(seed=seed, horizon=300, two_point=True, **options)
            spread = np.array([np.ptp(r.means) for r in env.rounds()])
            assert spread.max() <= 4.0, "at stage 1 the gap bound of 4 must hold by construction"
            found.append((f"{name}, seed {seed}, ridge {ridge}", env, ridge, audit(env, policy_for(env, ridge))))
    return found


@pytest.mark.slow
def test_lemma_11_holds_in_every_run(runs):
    """Intervals hold f*, the best arm survives every elimination, gaps are at most 2^(3-q) at stage q."""
    for name, _, _, run in runs:
        assert (run.missed, run.best_lost, run.gap_broken, run.settled_broken) == (0, 0, 0, 0), name
    assert sum(run.eliminations for *_, run in runs) > 100  # and something was eliminated


def test_the_audit_can_fail():
    """With intervals of a tenth of their size the best arm is lost: the statements above are not empty."""
    env = RKHSProblem(seed=0, horizon=300, two_point=True, **PROBLEMS["kin"])
    run = audit(env, policy_for(env, 0.01, factor=0.1))
    assert run.missed > 0
    assert run.best_lost > 0
    assert run.gap_broken > 0


@pytest.mark.slow
def test_lemmas_8_and_9_bound_the_widths_of_every_stage(runs):
    """Sum of s^2 <= 2 m log g(Psi), sum of s <= sqrt(2 m |Psi| log g(Psi)); and log g is sum of log(1 + s^2)."""
    checked = 0
    for name, _, ridge, run in runs:
        for q, widths in run.widths.items():
            s, log_g = np.array(widths), run.policy.log_det(q)
            np.testing.assert_allclose(np.log1p(s**2).sum(), log_g, rtol=1e-6, err_msg=name)
            assert (s**2).sum() <= theory.squared_width_sum_bound(log_g, 1.0, ridge)
            assert s.sum() <= math.sqrt(len(s) * theory.squared_width_sum_bound(log_g, 1.0, ridge))
            assert (s**2).max() <= 1.0 / ridge * (1 + 1e-9)
            checked += len(s)
    assert checked > 3000


@pytest.mark.slow
def test_lemma_12_bounds_the_size_of_every_stage(runs):
    for name, env, ridge, run in runs:
        policy = run.policy
        log_g_all = log_g_of_run(env, run, ridge)
        for q, members in enumerate(policy.stages, start=1):
            size, m = len(members), max(1.0, 1.0 / ridge)
            own = policy.log_det(q)
            assert own <= log_g_all * (1 + 1e-9)  # g(Psi) <= g([T])
            right = 2.0**q * policy.exploration * math.sqrt(2 * m * own * size)
            assert size <= right + 1e-9, name
            radius = theory.radius(1.0, theory.confidence_factor(env.horizon, env.n_arms, DELTA), env.norm, ridge)
            bound = 4.0**q * radius**2 * theory.squared_width_sum_bound(own, 1.0, ridge)  # solved for the size
            assert size <= bound + 1e-9
            assert own == 0 or math.isclose(bound, right**2 / size if size else bound, rel_tol=1e-9)


def log_g_of_run(env, run, ridge):
    """log g of all rounds that are in some stage, from the definition."""
    X = np.array([x for _, x in run.rows])
    return theory.log_g_of_similarity(env.mu, env.context_kernel(X, X), [a for a, _ in run.rows], ridge)


@pytest.mark.slow
def test_theorem_1_bounds_the_regret_and_how_loose_it_is(runs):
    """The bound exceeds T by far for any T that we can run; it is a statement about growth, not about size."""
    for name, env, ridge, run in runs:
        log_g = log_g_of_run(env, run, ridge)
        allowed = 1 - run.policy.guarantee  # Theorem 1's delta for stages with Lemma 1's
        bound = theory.regret_bound(env.horizon, env.n_arms, allowed, ridge, env.norm, 1.0, log_g)
        assert run.regret <= bound, name
        assert bound > env.horizon


def test_theorem_1_is_false_for_the_best_realised_reward():
    """Two arms that pay 0 or 1 with even chance: any choice loses 1/4 a round against the better of the two coins.

    f* = 1/2 for both, a constant context, k = 1 within an arm: log g <= 2 log(1 + T). Against the best mean regret
    is 0.
    """
    T = 10**10
    bound = theory.regret_bound(T, 2, 0.1, 1.0, 1.0, 1.0, 2 * math.log1p(T))
    assert bound < T / 4
    coins = np.random.default_rng(0).integers(0, 2, (4000, 2))
    assert (coins.max(axis=1) - coins[:, 0]).mean() == pytest.approx(0.25, abs=0.03)


def test_determinant_lemma_along_a_run_of_kmtl_ucb():
    """Also without stages: it needs uniform weights and a fixed similarity, not independence."""
    env = RKHSProblem(seed=3, horizon=150, **PROBLEMS["kin"])
    for ridge in (0.05, 2.0):
        policy = kb.KMTLUCB(
            env.arms,
            similarity=env.similarity,
            context_kernel=env.context_kernel,
            ridge=ridge,
            exploration=1.0,
            rewards=None,
            cold_start="borrow",
        )
        s = kb.simulate(policy, env, numbers=True)["width"]
        log_g = policy.log_det()
        np.testing.assert_allclose(np.log1p(s**2).sum(), log_g, rtol=1e-7)
        assert (s**2).sum() <= theory.squared_width_sum_bound(log_g, 1.0, ridge)


def test_determinant_lemma_needs_uniform_weights():
    """With 1/n_a weights a repeated context keeps its width, so the sum of s^2 outgrows 2 m log g."""
    policy = kb.KMTLUCB(1, context_kernel=kb.RBF(), ridge=1.0, weighting="per_arm", cold_start="borrow")
    total = 0.0
    for _ in range(60):
        total += float(policy.predict([0.0]).width[0]) ** 2
        policy.observe([0], [[0.0]], [0.0])
    uniform = theory.log_g(np.ones((60, 60)), 1.0)
    assert total > theory.squared_width_sum_bound(uniform, 1.0, 1.0)


# -- Lemma 1: coverage ------------------------------------------------------------------------------


def coverage(delta, factor=None, runs=40, horizon=50):
    """In how many runs some interval, of any arm, round and stage, misses f*; and the allowed share delta Q."""
    failed = 0
    for seed in range(runs):
        env = RKHSProblem(seed=seed, horizon=horizon, two_point=True, **PROBLEMS["kin"])
        failed += audit(env, policy_for(env, 0.1, delta, factor), every_stage=True).missed > 0
    return failed, delta * theory.n_stages(horizon)


@pytest.mark.slow
def test_lemma_1_intervals_cover_in_all_arms_rounds_and_stages():
    """At least 1 - delta Q of runs: the binomial test does not reject it."""
    failed, allowed = coverage(delta=0.05)
    assert binomtest(failed, 40, allowed, alternative="greater").pvalue > 0.01


def test_the_coverage_test_can_fail():
    """With a fifth of the radius the same test rejects."""
    failed, allowed = coverage(delta=0.05, factor=0.2, runs=12)
    assert binomtest(failed, 12, allowed, alternative="greater").pvalue < 1e-4
