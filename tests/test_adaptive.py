"""Sharing that is chosen: the criteria against their definitions, the choice, and the engines that follow it."""

from __future__ import annotations

import copy
import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbandits as kb
from kinbandits._spec import from_spec, to_spec
from kinbandits._work import finished
from kinbandits.environments import HiddenDescriptors
from kinbandits.history import History
from kinbandits.regression import Query, RegressionSettings, make_regression
from kinbandits.similarity import Adaptive, FitData, Settled, takes_force
from kinbandits.similarity.evidence import context_gram, race
from kinbandits.simulate import simulate
from kinbandits.terms import as_terms
from kinbandits.testing import check_similarity
from strategies import negative_similarity, random_rows

pytestmark = pytest.mark.numerical

RBF = kb.RBF(length_scale=0.9)
EAGER = Adaptive(margin=0.0, guard=False, first=6, growth=1.3)  # shares whenever the likelihood says so


def kin_rows(seed: int = 0, t: int = 80, n_arms: int = 4) -> History:
    """Two pairs of arms with one function each, each pair played in contexts of its own kind."""
    rng = np.random.default_rng(seed)
    arms = rng.integers(n_arms, size=t)
    kind = arms // 2
    X = rng.normal(size=(t, 2)) + 1.5 * kind[:, None]
    return History.of(n_arms, arms, X, np.sin(2.0 * X[:, 0] + 3.0 * kind) + 0.05 * rng.standard_normal(t))


def gram(history: History, K_arm: np.ndarray, ridge: float, weighting: str) -> np.ndarray:
    noise = ridge * (history.counts[history.arms] if weighting == "per_arm" else np.ones(len(history)))
    return K_arm[np.ix_(history.arms, history.arms)] * RBF(history.contexts, history.contexts) + np.diag(noise)


@pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
@pytest.mark.parametrize("independent", [True, False])
def test_likelihood_is_that_of_the_gaussian_process(weighting: str, independent: bool) -> None:
    history = random_rows(3, 4, 25).history()
    K_arm = np.eye(4) if independent else negative_similarity(4)
    M = gram(history, K_arm, 0.1, weighting)
    y, n = history.rewards, len(history)
    s2 = y @ np.linalg.solve(M, y) / n

    def log_density(variance: float) -> float:
        _, log_det = np.linalg.slogdet(2.0 * np.pi * variance * M)
        return float(-0.5 * log_det - 0.5 * y @ np.linalg.solve(variance * M, y))

    constant = -0.5 * n * (np.log(2.0 * np.pi) + 1.0 - np.log(n))
    found = FitData.of(history, RBF, weighting).fit(K_arm, 0.1).log_likelihood  # type: ignore[arg-type]
    np.testing.assert_allclose(found + constant, log_density(s2), rtol=1e-10)
    assert log_density(s2) > max(log_density(0.9 * s2), log_density(1.1 * s2))


@pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
@pytest.mark.parametrize("independent", [True, False])
def test_decision_score_is_what_leaving_rows_out_gives(weighting: str, independent: bool) -> None:
    history = random_rows(5, 4, 25, repeats=0.0).history()
    K_arm = np.eye(4) if independent else negative_similarity(4)
    M = gram(history, K_arm, 0.1, weighting)
    wanted = np.zeros(len(history))
    for i in range(len(history)):
        keep = np.arange(len(history)) != i
        alpha = np.linalg.solve(M[np.ix_(keep, keep)], history.rewards[keep])
        k = RBF(history.contexts[i : i + 1], history.contexts[keep])[0]
        means = K_arm[:, history.arms[keep]] @ (k * alpha)
        if means.argmax() == history.arms[i]:
            wanted[i] = history.rewards[i] - history.rewards.mean()
    assert np.count_nonzero(wanted) > 3
    problem = FitData.of(history, RBF, weighting)  # type: ignore[arg-type]
    by_arm = np.argsort(history.arms, kind="stable")
    np.testing.assert_allclose(finished(problem.decisions(K_arm, 0.1)), wanted[by_arm], atol=1e-9)


def test_shares_among_kin_and_not_among_strangers() -> None:
    adaptive = Adaptive(first=20).bound(RBF, 0.01, "uniform")
    assert isinstance(adaptive, Adaptive)
    kin = adaptive.choice(kin_rows(t=240))
    assert kin.mu > 0.0
    assert kin.matrix[0, 1] > kin.matrix[0, 2]
    assert "fits better" in kin.reason
    rng = np.random.default_rng(1)
    arms, X = rng.integers(4, size=160), rng.uniform(-1.0, 1.0, size=(160, 2))
    waves = 3.0 * rng.normal(size=(4, 2))
    strangers = History.of(4, arms, X, np.sin((X * waves[arms]).sum(axis=1) + 2.0 * arms))
    choice = adaptive.choice(strangers)
    assert choice.mu == 0.0
    np.testing.assert_array_equal(choice.matrix, np.eye(4))


def test_choice_is_the_likeliest_of_those_that_pass() -> None:
    """Against the rule, spelled out over the complete evidence."""
    chosen, reasons = set(), set()
    for seed in range(8):
        for t in (40, 60, 80):
            history = kin_rows(seed, t=t)
            tolerance = 0.5 * (seed % 3)
            adaptive = Adaptive(margin=1.0, tolerance=tolerance).bound(RBF, 0.01, "uniform")
            assert isinstance(adaptive, Adaptive)
            full = adaptive.choice(history, complete=True)
            own, *others = full.candidates
            assert len(others) == 6
            alike = max(_likelihood(history, (1.0 - mu) * np.eye(4) + mu) for mu in (0.3, 0.6, 0.9))
            passing = [
                c
                for c in others
                if c.log_likelihood >= max(own.log_likelihood + 1.0, alike)
                and c.decision_score >= own.decision_score - (tolerance + 1e-9) * c.decision_error
            ]
            wanted = max(passing, key=lambda c: c.log_likelihood, default=own)
            assert (full.mu, full.scale) == (wanted.mu, wanted.scale)
            chosen.add(full.mu)
            reasons.add(re.sub(r"[\d.]+", "", full.reason.replace(":", "")).partition("nats")[2].strip(" ,;0-9"))
            short = adaptive.choice(history)
            assert (short.mu, short.scale) == (full.mu, full.scale)
            np.testing.assert_array_equal(short.matrix, full.matrix)
    assert len(chosen) > 1  # sharing, and not
    assert {"and decides no worse", "but decides worse"} <= reasons


def test_what_all_arms_share_is_no_reason_to_share() -> None:
    """Contexts that are harder for all arms alike: any similarity fits, and none helps to decide."""
    rng = np.random.default_rng(0)
    X, arms = rng.normal(size=(80, 2)), rng.integers(0, 4, 80)
    history = History.of(4, arms, X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=80))
    adaptive = Adaptive().bound(RBF, 0.01, "uniform")
    assert isinstance(adaptive, Adaptive)
    choice = adaptive.choice(history)
    own, *others = choice.candidates
    assert max(c.log_likelihood for c in others) > own.log_likelihood + 5.0
    assert choice.mu == 0.0
    assert "one function for all arms" in choice.reason
    assert adaptive.replace(guard=False).choice(history).mu > 0.0


def _likelihood(history: History, K_arm: np.ndarray) -> float:
    """Profiled, from its definition."""
    M = K_arm[np.ix_(history.arms, history.arms)] * RBF(history.contexts, history.contexts)
    M += 0.01 * np.eye(len(history))
    y = history.rewards
    return -0.5 * len(y) * np.log(y @ np.linalg.solve(M, y)) - 0.5 * np.linalg.slogdet(M)[1]


def test_scales_are_relative_to_the_median_distance() -> None:
    history = kin_rows()
    base = kb.Estimated(embedding_kernel=RBF)
    for scale, K in base.scaled(history, (0.5, 2.0), None):
        D2 = -2.0 * np.log(kb.Estimated(1.0, RBF).matrix(history))
        ell = np.sqrt(np.median(D2[np.triu_indices(4, k=1)]) / (2.0 * scale))
        np.testing.assert_allclose(kb.Estimated(ell, RBF).matrix(history), K, rtol=1e-9)
    given, K = kb.Pooled().scaled(history, (0.5, 2.0), None)[0]
    assert given is None
    np.testing.assert_array_equal(K, np.ones((4, 4)))


def test_matrix_is_that_of_the_last_milestone_whatever_comes_after() -> None:
    adaptive = EAGER.bound(RBF, 0.05, "uniform")
    assert isinstance(adaptive, Adaptive)
    history = kin_rows(1, t=60)
    stones = list(adaptive.milestones(60))
    assert stones[:4] == [6, 8, 11, 15]
    assert [takes_force(n) for n in (6, 15, 16, 49)] == [6, 15, 17, 52]
    seen = [adaptive.matrix(history.head(n)) for n in range(61)]
    np.testing.assert_array_equal(seen[5], np.eye(4))
    forces = [takes_force(n) for n in stones]
    for stone, low, high in zip(stones, forces, [*forces[1:], 61], strict=True):
        for n in range(low, min(high, 61)):
            np.testing.assert_array_equal(seen[n], adaptive.choice(history.head(stone)).matrix)
    assert len({K.tobytes() for K in seen}) > 3
    last = EAGER.replace(until=12).bound(RBF, 0.05, "uniform")
    np.testing.assert_array_equal(last.matrix(history), seen[11])


def test_keeps_the_contract_of_similarities() -> None:
    rng = np.random.default_rng(0)
    check_similarity(EAGER.bound(RBF, 0.05, "per_arm"), 3, rng.normal(size=(30, 2)))
    check_similarity(Settled(negative_similarity(3)), 3, rng.normal(size=(5, 2)))


@pytest.mark.parametrize("kernel", [RBF, kb.Linear() + kb.kernels.Constant(1.0)])
@pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
@pytest.mark.parametrize("base", [None, kb.Mixed(0.5)])
def test_exact_engine_follows_the_definition(
    kernel: kb.kernels.Kernel, weighting: str, base: kb.similarity.Similarity | None
) -> None:
    adaptive = EAGER if base is None else EAGER.replace(base=base)
    settings = RegressionSettings(as_terms(kb.Term(adaptive, kernel)), 0.05, weighting, "explore")  # type: ignore[arg-type]
    rows = kin_rows(2, t=70)
    exact, naive = (make_regression(name, settings, History(4)) for name in ("exact", "naive"))
    rng = np.random.default_rng(0)
    seen = set()
    for t in range(70):
        row = rows.arms[t : t + 1], rows.contexts[t : t + 1], rows.rewards[t : t + 1]
        exact.observe(*row)
        naive.observe(*row)
        (found,), (wanted,) = exact.similarity_matrices, naive.similarity_matrices
        np.testing.assert_array_equal(found, wanted)
        seen.add(wanted.tobytes())
        query = Query(np.arange(4), rng.normal(size=(2, 1, 2)))
        mean, width = exact.predict(query)
        np.testing.assert_allclose(mean, naive.predict(query).mean, atol=1e-9)
        np.testing.assert_allclose(width, naive.predict(query).width, atol=1e-6)
    assert len(seen) > 1, "the similarity never changed, so nothing was tested"
    method = exact.report()["method"]
    assert method == ("append" if weighting == "uniform" and kernel is RBF else method)


def test_rows_are_appended_between_milestones(monkeypatch: pytest.MonkeyPatch) -> None:
    from kinbandits.regression.exact import append

    built: list[int] = []
    plain = append.AppendRegression.__init__

    def counted(self: append.AppendRegression, settings: RegressionSettings, history: History) -> None:
        built.append(len(history))
        plain(self, settings, history)

    monkeypatch.setattr(append.AppendRegression, "__init__", counted)
    settings = RegressionSettings(as_terms(kb.Term(EAGER, RBF)), 0.05, "uniform", "explore")
    exact = make_regression("exact", settings, History(4))
    rows = kin_rows(2, t=70)
    for t in range(70):
        exact.observe(rows.arms[t : t + 1], rows.contexts[t : t + 1], rows.rewards[t : t + 1])
    adaptive = exact.settings.terms.terms[0].similarity
    assert isinstance(adaptive, Adaptive)
    assert set(built) <= {0, *map(takes_force, adaptive.milestones(70))}
    assert len(built) > 2


def test_identity_costs_what_independent_costs() -> None:
    settings = RegressionSettings(as_terms(kb.Term(Adaptive(margin=1e9), RBF)), 0.05, "uniform", "explore")
    rows = kin_rows(2, t=70)
    exact = make_regression("exact", settings, rows)
    assert exact.report()["families"] == 4
    alone = make_regression(
        "exact", RegressionSettings(as_terms(kb.Term(kb.Independent(), RBF)), 0.05, "uniform", "explore"), rows
    )
    query = Query(np.arange(4), np.zeros((1, 1, 2)))
    np.testing.assert_array_equal(exact.predict(query).mean, alone.predict(query).mean)


def play(policy: kb.KMTLUCB, rounds: int, seed: int = 0) -> list[object]:
    environment = HiddenDescriptors(seed=seed, n_arms=5, horizon=rounds, similarity=0.7)
    return simulate(policy, environment, trained=True)["arm"].tolist()


def test_a_choice_by_a_function_is_made_again(tmp_path: Path) -> None:
    """Another function may be given when it is loaded."""
    rng = np.random.default_rng(3)

    def near(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return kb.RBF(0.5)(A, B)

    def far(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return kb.RBF(5.0)(A, B)

    eager = kb.Adaptive(margin=0.0, guard=False)
    policy = kb.KMTLUCB(arms=4, context_kernel=near, similarity=eager)
    X = rng.normal(size=(60, 2))
    arms, y = rng.integers(0, 4, 60), np.sin(2 * X[:, 0])
    policy.observe(arms, X, y)
    policy.save(tmp_path / "policy")
    loaded = kb.load(tmp_path / "policy", context_kernel={"near": far})
    anew = kb.KMTLUCB(arms=4, context_kernel=far, similarity=eager)
    anew.observe(arms, X, y)
    np.testing.assert_array_equal(loaded.similarity_matrix(), anew.similarity_matrix())
    assert np.abs(loaded.similarity_matrix() - policy.similarity_matrix()).max() > 0.0


def test_a_choice_is_saved_and_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    policy = kb.KMTLUCB(arms=4, context_kernel=kb.RBF(), similarity=kb.Adaptive(margin=0.0, guard=False))
    X = rng.normal(size=(60, 2))
    policy.observe(rng.integers(0, 4, 60), X, np.sin(2 * X[:, 0]))
    policy.save(tmp_path / "policy")
    assert policy.similarity_report(complete=False).mu > 0.0

    def never(self: kb.Adaptive, history: object, complete: bool = False) -> None:
        raise AssertionError("made again")

    with monkeypatch.context() as patch:
        patch.setattr(kb.Adaptive, "choosing", never)
        loaded = kb.load(tmp_path / "policy")
    np.testing.assert_array_equal(loaded.similarity_matrix(), policy.similarity_matrix())
    latest, again = policy.regression.choices()[-1], loaded.regression.choices()[-1]
    assert dataclasses.replace(latest, matrix=None) == dataclasses.replace(again, matrix=None)
    x = rng.normal(size=2)
    np.testing.assert_array_equal(loaded.predict(x).mean, policy.predict(x).mean)
    more = rng.normal(size=(20, 2))
    for each in (policy, loaded):  # over the next milestone
        each.observe([0, 1, 2, 3] * 5, more, np.sin(2 * more[:, 0]))
    np.testing.assert_array_equal(loaded.similarity_matrix(), policy.similarity_matrix())


@pytest.mark.parametrize("engine", ["auto", "naive", kb.Budgeted()])
def test_saved_and_loaded_goes_on_the_same(engine: str, tmp_path: Path) -> None:
    policy = kb.KMTLUCB(5, similarity=EAGER.replace(first=20), engine=engine)
    play(policy, 50)
    assert np.count_nonzero(policy.similarity_matrix() - np.eye(5)), "nothing was shared, so nothing is tested"
    policy.save(tmp_path / "policy.kb")
    loaded = kb.load(tmp_path / "policy.kb")
    np.testing.assert_array_equal(loaded.similarity_matrix(), policy.similarity_matrix())
    assert play(loaded, 20, seed=1) == play(policy, 20, seed=1)
    np.testing.assert_array_equal(loaded.similarity_matrix(), policy.similarity_matrix())


def test_logged_in_bulk_or_played_one_by_one_is_the_same() -> None:
    policy = kb.KMTLUCB(5, similarity=EAGER.replace(first=20))
    play(policy, 90)
    h = policy.regression.history
    bulk = kb.KMTLUCB(5, similarity=EAGER.replace(first=20))
    bulk.observe(h.arms, h.contexts, h.rewards)
    np.testing.assert_array_equal(bulk.similarity_matrix(), policy.similarity_matrix())


def test_a_failing_kernel_changes_nothing() -> None:
    calls = {"left": 10**9}

    def fragile(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        calls["left"] -= 1
        if calls["left"] < 0:
            raise RuntimeError("no")
        return RBF(A, B)

    policy = kb.KMTLUCB(4, context_kernel=fragile, similarity=EAGER)
    rows = kin_rows(2, t=20)
    policy.observe(rows.arms[:7], rows.contexts[:7], rows.rewards[:7])
    before = policy.predict([0.1, 0.2])
    failed = 0
    for left in range(6):
        calls["left"] = left
        try:
            policy.observe(rows.arms[7:9], rows.contexts[7:9], rows.rewards[7:9])  # passes the milestone at 8
        except RuntimeError:
            failed += 1
        calls["left"] = 10**9
        if policy.n_observations == 9:
            break
        np.testing.assert_array_equal(policy.predict([0.1, 0.2]).mean, before.mean)
    assert failed >= 2


def test_arms_come_and_go_also_after_the_change_of_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from kinbandits.regression import auto
    from kinbandits.regression.budgeted import BudgetedRegression

    monkeypatch.setattr(auto, "CHANGEOVER", 60)
    policy = kb.KMTLUCB(4, context_kernel=RBF, similarity=EAGER)
    rows = kin_rows(3, t=400)
    policy.observe(rows.arms[:60], rows.contexts[:60], rows.rewards[:60])
    for i in range(60, 400):  # the new model is built in pieces, one with each row
        if isinstance(policy.regression, BudgetedRegression):
            break
        policy.observe(rows.arms[i : i + 1], rows.contexts[i : i + 1], rows.rewards[i : i + 1])
    K = policy.similarity_matrix()
    assert policy.regression.settings.terms.terms[0].similarity == Settled(K)
    policy.add_arm("new")
    wanted = np.eye(5)
    wanted[:4, :4] = K
    np.testing.assert_array_equal(policy.similarity_matrix(), wanted)
    policy.save(tmp_path / "policy.kb")
    np.testing.assert_array_equal(kb.load(tmp_path / "policy.kb").similarity_matrix(), wanted)
    policy.remove_arm(0)
    np.testing.assert_array_equal(policy.similarity_matrix(), wanted[1:, 1:])
    policy.observe(["new"], [[0.0, 0.0]], [1.0])
    assert policy.counts["new"] == 1


def test_works_with_descriptors_as_base() -> None:
    z = np.array([0.0, 0.1, 2.0])
    policy = kb.KMTLUCB(3, context_kernel=RBF, similarity=EAGER.replace(base=kb.Known(kb.RBF(0.5), z)))
    policy.add_arm("new", descriptor=2.1)
    assert policy.similarity.base.descriptors.ravel().tolist() == [0.0, 0.1, 2.0, 2.1]
    policy.remove_arm(0)
    assert policy.similarity.base.descriptors.ravel().tolist() == [0.1, 2.0, 2.1]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"base": Adaptive()}, "base must be a similarity"),
        ({"mus": (0.0,)}, "mus must be above 0"),
        ({"mus": ()}, "mus must not be empty"),
        ({"scales": (-1.0,)}, "scales must be greater than 0"),
        ({"growth": 1.0}, "growth must be greater than 1"),
        ({"first": 1}, "first must be at least 2"),
        ({"until": 2.5}, "until must be a whole number"),
        ({"margin": -1.0}, "margin must be at least 0"),
        ({"tolerance": -1.0}, "tolerance must be at least 0"),
    ],
)
def test_bad_settings_are_refused(wrong: dict[str, object], text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        Adaptive(**wrong)  # type: ignore[arg-type]


def test_stands_alone() -> None:
    with pytest.raises(ValueError, match="can only stand alone"):
        kb.KMTLUCB(3, kernel=kb.Term(Adaptive(), RBF) + kb.Term(kb.Pooled(), RBF))
    with pytest.raises(ValueError, match="give it to a policy"):
        Adaptive(first=2).matrix(kin_rows())
    with pytest.raises(ValueError, match="takes the context kernel of its policy"):
        kb.Estimated(embedding_kernel=None).matrix(kin_rows())


def test_without_self_pairs_equal_arms_are_alike() -> None:
    """Arms played in draws of one distribution: the V-statistic sees the counts, the other does not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    history = History.of(3, np.arange(60) % 2, X, np.zeros(60))
    narrow = kb.RBF(length_scale=0.1)
    with_pairs = kb.Estimated(0.1, narrow).matrix(history)
    without = kb.Estimated(0.1, narrow, self_pairs=False).matrix(history)
    assert with_pairs[0, 1] < 0.1
    assert without[0, 1] > 0.5
    check_similarity(kb.Estimated(0.1, narrow, self_pairs=False), 3, X[:12])
    check_similarity(kb.Estimated(0.5, narrow, embed="context_reward", reward_length_scale=0.3), 3, X[:12])


def test_rewards_tell_arms_apart_that_contexts_do_not() -> None:
    X = np.repeat(np.linspace(0.0, 1.0, 10), 3)[:, None]
    arms = np.tile([0, 1, 2], 10)
    history = History.of(3, arms, X, np.where(arms == 2, 1.0, 0.0))
    assert kb.Estimated(0.3, RBF).matrix(history)[0, 2] > 0.99
    K = kb.Estimated(0.3, RBF, embed="context_reward").matrix(history)
    assert K[0, 1] > 0.99
    assert K[0, 2] < 0.01


def test_what_an_earlier_release_wrote_is_still_read() -> None:
    """It had a ``tolerance`` in place of ``lead`` and ``over``."""
    arrays: dict[str, Any] = {}
    data = {**to_spec(kb.Adaptive(margin=3.0), arrays), "tolerance": 1.0}
    assert from_spec(data, arrays) == kb.Adaptive(margin=3.0)


def test_a_constant_level_is_a_rank_one_term() -> None:
    history = random_rows(3, 4, 25).history()
    problem = FitData.of(history, RBF, "uniform")
    for K_arm in (np.eye(4), negative_similarity(4)):
        M = gram(history, K_arm, 0.1, "uniform") + 0.7
        found = problem.fit(K_arm, 0.1, constant=0.7)
        squares = history.rewards @ np.linalg.solve(M, history.rewards)
        np.testing.assert_allclose([found.squares, found.signal], [squares, squares / 25], rtol=1e-9)
        np.testing.assert_allclose(found.log_det, np.linalg.slogdet(M)[1], rtol=1e-9)


@pytest.mark.parametrize("kernel", [RBF, kb.RationalQuadratic(0.7), kb.Matern(0.5), kb.RBF(0.5) + kb.Linear()])
def test_kernel_values_of_all_pairs_are_those_of_the_kernel(kernel: kb.kernels.Kernel) -> None:
    X = np.random.default_rng(0).normal(size=(300, 3)) + 1e3
    X[7] = X[8]
    np.testing.assert_allclose(finished(context_gram(kernel, X)), kernel(X, X), atol=1e-8)


def test_a_sample_depends_on_numbers_of_rows_alone_and_meets_all_arms() -> None:
    rows = random_rows(1, 8, 4000).history()
    sample = rows.sample(3000, 400)
    assert abs(len(sample) - 400) <= 5
    assert len(sample) + sample.forgotten == 3000
    np.testing.assert_array_equal(rows.head(3000).sample(3000, 400).contexts, sample.contexts)
    assert rows.sample(300, 400).contexts.shape == (300, rows.contexts.shape[1])
    turns = History.of(8, np.arange(4000) % 8, rows.contexts, rows.rewards)  # arms in turn: a stride would meet one
    assert np.ptp(turns.sample(4000, 400).counts) <= 8
    marked = History.of(2, np.zeros(100, dtype=int), np.arange(100.0)[:, None], np.zeros(100))
    kept = set(marked.sample(100, 20).contexts[:, 0])
    assert kept < set(marked.sample(50, 20).contexts[:, 0]) | set(range(50, 100))  # rows leave, none returns


def test_hopeless_candidates_are_given_up_early_and_the_others_judged_on_all_rows() -> None:
    history = kin_rows(t=500)
    problem = FitData.of(history, RBF, "uniform")
    pairs = np.kron(np.eye(2), np.full((2, 2), 0.9)) + 0.1 * np.eye(4)
    candidates = {"alone": (np.eye(4), 0.01), "kin": (pairs, 0.01), "one": (np.ones((4, 4)), 0.01)}
    judged = finished(race(problem, candidates, "alone", 1.0))
    assert judged["one"].fit.rows < 130
    assert judged["one"].lead < -1.0
    for name in ("alone", "kin"):
        assert judged[name].fit == problem.fit(*candidates[name])
    assert judged["kin"].lead > 5.0
    complete = finished(race(problem, candidates, "alone", np.inf))
    assert all(found.fit.rows == 500 for found in complete.values())


def _advanced(rows: History, engine: str, bulk: int) -> Any:
    settings = RegressionSettings(as_terms(kb.Term(EAGER.replace(growth=1.6), RBF)), 0.05, "uniform", "explore")
    regression = make_regression(engine, settings, History(4))
    for low in range(0, len(rows), bulk):
        part = slice(low, low + bulk)
        regression.observe(rows.arms[part], rows.contexts[part], rows.rewards[part])
        yield len(regression.history), regression


def test_choices_of_a_sample_are_the_same_however_the_rows_came(monkeypatch: pytest.MonkeyPatch) -> None:
    from kinbandits.similarity import stepwise

    monkeypatch.setattr(stepwise, "SAMPLE", 40)
    rows = kin_rows(4, t=330)
    wanted = {t: r.similarity_matrices[0] for t, r in _advanced(rows, "naive", 1) if t % 10 == 0}
    assert len({K.tobytes() for K in wanted.values()}) > 3
    for bulk in (1, 30, 110):
        for t, regression in _advanced(rows, "exact", bulk):
            if t in wanted:
                np.testing.assert_array_equal(regression.similarity_matrices[0], wanted[t])
                if bulk == 30:  # in the midst of a choice, too
                    np.testing.assert_array_equal(regression.copy().similarity_matrices[0], wanted[t])


def test_work_on_a_choice_is_spread_over_updates_and_a_copy_ends_alike() -> None:
    rows = kin_rows(4, t=700)
    adaptive = EAGER.replace(first=600).bound(RBF, 0.05, "uniform")
    history = rows.head(599)
    tracker = adaptive.tracker(history)
    done, was_coming = [], 0
    for t in range(599, takes_force(600)):
        twin = copy.deepcopy(tracker)
        before = tracker._job._spent if tracker._job is not None else 0.0
        history.append(rows.arms[t : t + 1], rows.contexts[t : t + 1], rows.rewards[t : t + 1])
        tracker.observe(t)
        if tracker._job is not None:
            done.append(tracker._job._spent - before)
            was_coming += tracker.coming is not None
            np.testing.assert_array_equal(tracker.matrix, np.eye(4))
    assert max(done) <= 600**3  # one fit, or one inverse, at a time
    assert sum(spent > 0.0 for spent in done) >= 8
    assert was_coming > 5, "nothing was left for an engine to prepare in"
    wanted = adaptive.choice(rows.head(600)).matrix
    assert np.count_nonzero(wanted - np.eye(4))
    np.testing.assert_array_equal(tracker.matrix, wanted)
    twin._history.append(*(getattr(rows, name)[t : t + 1] for name in ("arms", "contexts", "rewards")))
    twin.observe(t)
    np.testing.assert_array_equal(twin.matrix, wanted)


def test_a_choice_follows_a_history_that_was_cut_back() -> None:
    rows, other = kin_rows(4, t=80), kin_rows(5, t=80)
    adaptive = EAGER.bound(RBF, 0.05, "uniform")
    history = rows.head(47)
    tracker = adaptive.tracker(history)
    history.truncate(30)
    for t in range(30, 80):
        history.append(other.arms[t : t + 1], other.contexts[t : t + 1], other.rewards[t : t + 1])
        tracker.observe(t)
        np.testing.assert_array_equal(tracker.matrix, adaptive.matrix(history))


# -- candidates with contexts of their own ------------------------------------------------------------------


def own_rows(seed: int = 0, t: int = 60, n_arms: int = 4, alike: bool = True) -> History:
    """One function for all arms, or one for each, and rewards far from 0."""
    rng = np.random.default_rng(seed)
    arms = rng.integers(n_arms, size=t)
    X = rng.uniform(-1.0, 1.0, (t, 2))
    history = History(n_arms)
    shift = np.zeros(t) if alike else 2.0 * arms
    history.append(arms, X, 5.0 + np.sin(3.0 * X[:, 0] + shift) + 0.05 * rng.standard_normal(t), own_contexts=True)
    return history


def test_own_contexts_average_by_the_posterior() -> None:
    history, similarity = own_rows(), Adaptive(base=kb.Known(np.eye(4)), mus=(0.5, 0.9)).bound(RBF, 0.1, "uniform")
    choice = similarity.choice(history)
    y, n = history.rewards, len(history)
    likelihood, matrices = [], []
    for candidate in choice.candidates:
        B = np.ones((4, 4)) if candidate.scale == 0.0 else np.eye(4)
        K = (1.0 - candidate.mu) * np.eye(4) + candidate.mu * B
        M = gram(history, K, 0.1, "uniform") + 1.0  # a level in common
        likelihood.append(-0.5 * n * np.log(y @ np.linalg.solve(M, y)) - 0.5 * np.linalg.slogdet(M)[1])
        matrices.append(K)
    prior = np.array([1.0 if c.mu == 0.0 else 0.5 for c in choice.candidates])  # mu = 0.5 and 0.9, two bases each
    weights = prior * np.exp(np.array(likelihood) - max(likelihood))
    weights /= weights.sum()
    np.testing.assert_allclose([c.weight for c in choice.candidates], weights, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(choice.matrix, np.einsum("c,cab->ab", weights, matrices), rtol=1e-6)
    assert choice.mu == pytest.approx(sum(w * c.mu for w, c in zip(weights, choice.candidates, strict=True)))


def test_own_contexts_share_where_arms_are_alike_and_not_where_they_differ() -> None:
    similarity = Adaptive().bound(RBF, 0.01, "uniform")
    assert similarity.choice(own_rows(t=120)).matrix[0, 1] > 0.6
    assert similarity.choice(own_rows(t=120, alike=False)).matrix[0, 1] < 0.1


def test_own_contexts_share_with_every_engine() -> None:
    policies = [kb.KMTLUCB(4, context_kernel=RBF, engine=engine) for engine in ("exact", "naive")]
    rows = own_rows(t=45)
    for policy in policies:
        policy.observe(rows.arms[:1], rows.contexts[:1], rows.rewards[:1], own_contexts=True)
        assert policy.similarity_matrix()[0, 1] == 0.0
        assert "first choice is made at 30 rows" in policy.similarity_report().reason
    for i in range(1, 45):
        one = slice(i, i + 1)
        for policy in policies:
            policy.observe(rows.arms[one], rows.contexts[one], rows.rewards[one], own_contexts=True)
        exact, naive = (p.predict(rows.contexts[:3, None, :]) for p in policies)
        np.testing.assert_allclose(exact.mean, naive.mean, rtol=1e-7, atol=1e-9)
    assert policies[0].similarity_matrix()[0, 1] > 0.3
    np.testing.assert_allclose(policies[0].similarity_matrix(), policies[1].similarity_matrix(), rtol=1e-9)


@pytest.mark.parametrize("bulk", [1, 3])
def test_the_next_regression_is_built_before_it_is_needed(bulk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from kinbandits.regression.exact import append

    monkeypatch.setattr(append, "_WORTH", 20)
    arrived: list[float] = []
    plain = append.Coming.arrived

    def counted(self: append.Coming, history: History) -> Any:
        arrived.append(len(self._regression.history) / len(history))
        return plain(self, history)

    monkeypatch.setattr(append.Coming, "arrived", counted)
    rows = kin_rows(4, t=330)
    query = Query(np.arange(4), np.random.default_rng(0).normal(size=(3, 1, 2)))
    for t, regression in _advanced(rows, "exact", bulk):
        if t % 30 == 0:
            twin = regression.copy()
            settings = RegressionSettings(
                as_terms(kb.Term(Settled(regression.similarity_matrices[0]), RBF)), 0.05, "uniform", "explore"
            )
            wanted = make_regression("naive", settings, rows.head(t)).predict(query)
            for found in (regression.predict(query), twin.predict(query)):
                np.testing.assert_allclose(found.mean, wanted.mean, atol=1e-8)
                np.testing.assert_allclose(found.width, wanted.width, atol=1e-6)
    assert len(arrived) >= 2
    assert min(arrived) > (0.75 if bulk == 1 else 0.5)  # most rows had been learned
