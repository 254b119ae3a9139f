"""The environments: the contract, and what each promises about its rounds."""

from __future__ import annotations

import dataclasses
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinbandits as kb
from kinbandits.environments import (
    Classification,
    Clicks,
    HiddenDescriptors,
    Replay,
    RKHSProblem,
    Shop,
    Streams,
    SyntheticNews,
    Tasks,
    check_environment,
    make_environment,
)
from kinbandits.errors import DatasetError, InvalidInputError, InvalidTypeError
from kinbandits.logs import Log

STREAMS = str(Path(__file__).parent.parent / "golden" / "digits-streams.npz")
seeds = st.integers(0, 2**31)


def toy(n_classes: int = 3, per_class: int = 12, **options: object) -> Classification:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_classes * per_class, 2))
    y = np.repeat([f"class {c}" for c in range(n_classes)], per_class)
    return Classification.from_arrays(X, y, **options)


ALL = {
    "text": SyntheticNews(seed=1, horizon=40),
    "scripts": SyntheticNews(seed=1, horizon=40, reward="scripts", start=True, noise=0.1),
    "one article": SyntheticNews(n_arms=1, horizon=5),
    "hidden": HiddenDescriptors(seed=4, horizon=30),
    "hidden, unrelated": HiddenDescriptors(similarity=0.0, horizon=30, start=False),
    "hidden, two numbers": HiddenDescriptors(similarity=1.0, horizon=30, descriptor_size=2),
    "shuffled": toy(seed=2),
    "paper": toy(protocol="paper", validation_per_class=4, seed=2),
    "digits": Classification("digits", protocol="paper", horizon=50),
    "streams": Streams("digits", STREAMS, seed=1, horizon=50),
    "replay": Replay(Log.of([0, 1, 2, 0], np.eye(4), [1, 0, 0, 1])),
    "replay, shuffled": Replay(Log.of([0, 1, 2, 0] * 9, np.arange(36.0)[:, None], [1, 0, 0, 1] * 9), seed=3),
    "shop": Shop(n_arms=6, horizon=30),
    "tasks": Tasks(n_tasks=3, n_candidates=12, horizon=30),
    "tasks, no start": Tasks(mu=1.0, n_tasks=3, n_candidates=12, horizon=30, start=False),
    "clicks, linear": Clicks(n_arms=4, horizon=30),
    "clicks, curved": Clicks(n_arms=4, horizon=30, length_scale=1.5),
    "rkhs": RKHSProblem(seed=3, mu=0.5, horizon=30, n_features=2),
    "rkhs, one function": RKHSProblem(mu=1.0, horizon=30, two_point=True),
    "rkhs, a matrix": RKHSProblem(arm_kernel=np.eye(3), horizon=30),
}


@pytest.mark.parametrize("environment", ALL.values(), ids=ALL)
def test_every_environment_keeps_the_contract_and_is_a_value(environment):
    check_environment(environment)
    rounds = list(environment.rounds())
    assert len(rounds) == environment.horizon
    assert pickle.loads(pickle.dumps(environment)) == environment
    if isinstance(environment.seed, int):
        other = environment.replace(seed=environment.seed - 1 if environment.seed else 1)
        assert other != environment
        contexts = (np.concatenate([r.context for r in e.rounds()]) for e in (environment, other))
        assert not np.array_equal(*contexts)


@given(seed=seeds, short=st.integers(1, 10), kind=st.sampled_from(["synthetic-news", "hidden-descriptors"]))
def test_a_longer_game_begins_with_the_shorter_one(seed, short, kind):
    game, longer = (make_environment(kind, seed=seed, horizon=h, noise=0.2, start=True) for h in (short, short + 7))
    for one, two in zip(game.rounds(), longer.rounds(), strict=False):
        assert np.allclose(one.context, two.context, atol=1e-12)
        assert np.allclose(one.rewards, two.rewards, atol=1e-12)


# -- synthetic news -------------------------------------------------------------------------------


@given(seed=seeds, n_arms=st.integers(1, 9), reading=st.sampled_from(["text", "scripts"]), high=st.floats(0, 1.6))
def test_news_is_the_formula(seed, n_arms, reading, high):
    environment = SyntheticNews(seed, n_arms, horizon=4, reward=reading, angles=(0.0, high))
    theta = environment.theta
    assert theta.shape == (n_arms,)
    assert np.all((theta >= 0) & (theta <= high))
    for round in environment.rounds():
        # undo the rotation of the first article (angle 0) to have the user
        u = round.context[0]
        assert (u[0] / 0.5) ** 2 + u[1] ** 2 <= 1 + 1e-12
        for a in range(n_arms):
            c, s = math.cos(theta[a]), math.sin(theta[a])
            x = np.array([[c, -s], [s, c]]) @ u
            assert np.allclose(round.context[a], x, atol=1e-12)
            wanted = 1 - (u[0] - (a + 1) / n_arms + 0.5) ** 2
            if reading == "scripts":
                wanted = 1 - (x[0] - a / n_arms + 0.5) ** 2
            assert round.rewards[a] == pytest.approx(wanted, abs=1e-12)
        assert np.array_equal(round.rewards, round.means)


def test_the_start_rows_of_both_readings():
    e = SyntheticNews(seed=3, start=True)
    assert np.allclose(e.theta, np.arange(5) * math.pi / 25, atol=1e-15)  # the scripts' angles
    _, X, rewards = e.start_rows()
    for a in range(5):  # five users: turn the context back, and the reward is his
        c, s = math.cos(e.theta[a]), math.sin(e.theta[a])
        u = np.array([[c, s], [-s, c]]) @ X[a]
        assert rewards[a] == pytest.approx(1 - (u[0] - (a + 1) / 5 + 0.5) ** 2)
    _, X, rewards = e.replace(reward="scripts").start_rows()
    assert np.allclose(np.linalg.norm(X, axis=1), np.linalg.norm(X[0]))  # one user
    for a, turns in enumerate([0, 1, 3, 6, 10]):  # rotated further and further
        angle = turns * math.pi / 25
        x = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]) @ X[0]
        assert np.allclose(X[a], x)
        assert rewards[a] == pytest.approx(1 - (X[0, 0] - a / 5 + 0.5) ** 2)


def test_users_fill_the_ellipse_evenly():
    users = np.array([round.context[0] for round in SyntheticNews(seed=3, horizon=4000).rounds()])
    radius = (users[:, 0] / 0.5) ** 2 + users[:, 1] ** 2  # uniform on [0, 1] if the users are
    assert np.abs(np.sort(radius) - np.linspace(0, 1, 4000)).max() < 0.03  # Kolmogorov-Smirnov, p > 0.001
    assert np.abs(users.mean(axis=0)).max() < 0.03
    half = np.array([r.context[0] for r in SyntheticNews(seed=3, horizon=50, half_axes=(0.25, 0.5)).rounds()])
    np.testing.assert_allclose(half, users[:50] / 2)  # the text's ellipse is the scripts' at half the size


# -- drawn functions ------------------------------------------------------------------------------


def test_the_dial_goes_from_none_to_total():
    none, middle, total = (HiddenDescriptors(similarity=s, horizon=20) for s in (0.0, 0.5, 1.0))
    assert np.array_equal(none.similarity_matrix, np.eye(20))
    assert np.array_equal(total.similarity_matrix, np.ones((20, 20)))
    assert (none.arm_length_scale, middle.arm_length_scale, total.arm_length_scale) == (0.0, 0.2, math.inf)
    z = middle.descriptors
    assert middle.similarity_matrix[2, 5] == pytest.approx(math.exp(-((z[2, 0] - z[5, 0]) ** 2) / (2 * 0.2**2)))
    means = np.array([round.means for round in total.rounds()])
    assert np.allclose(means, means[:, :1], atol=1e-6)  # one function for all arms
    means = np.array([round.means for round in none.rounds()])
    assert np.ptp(means, axis=1).min() > 0.5


@given(st.floats(0, 0.999), st.floats(0, 0.999))
def test_more_dial_is_more_similar(s, t):
    low, high = (HiddenDescriptors(similarity=v, n_arms=4, horizon=1).similarity_matrix for v in sorted((s, t)))
    assert np.all(low <= high + 1e-12)


def test_arm_functions_have_the_stated_covariance():
    # over many draws, cov(f_a(x), f_b(x)) = K_arm[a, b]: descriptors and features are fixed by taking one draw's
    # matrix as the truth for that draw, and averaging the ratio
    products, truths = [], []
    for seed in range(400):
        environment = HiddenDescriptors(seed=seed, n_arms=3, horizon=1, start=False)
        (round,) = environment.rounds()
        products.append(np.outer(round.means, round.means))
        truths.append(environment.similarity_matrix)
    assert np.abs(np.mean(products, axis=0) - np.mean(truths, axis=0)).max() < 0.2


def test_noise_and_regret_are_apart():
    rounds = list(HiddenDescriptors(seed=1, horizon=500).rounds())
    noise = np.array([r.rewards - r.means for r in rounds])
    assert noise.std() == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("mu", [0.0, 0.5, 1.0])
def test_functions_of_two_tasks_correlate_by_mu_over_seeds(mu: float) -> None:
    """The correlation of f_a(x) and f_b(x) over draws is mu, and their variance 1 whatever mu is."""
    pairs = []
    for seed in range(200):
        X, functions = Tasks(seed=seed, mu=mu, n_tasks=2, n_candidates=4)._drawn()
        pairs.append(functions(X[0]))
    values = np.concatenate(pairs)  # (800, 2)
    covariance = values.T @ values / len(values)
    assert covariance.diagonal() == pytest.approx([1.0, 1.0], abs=0.2)
    assert covariance[0, 1] == pytest.approx(mu, abs=0.2)


def test_a_late_reward_is_learned_after_its_delay() -> None:
    seen = []

    class Watched(kb.KMTLUCB):
        def choose(self, *args, **kwargs):
            seen.append(self.n_observations)
            return super().choose(*args, **kwargs)

    class TwoLate(Tasks):
        def rounds(self):
            for round in super().rounds():
                yield dataclasses.replace(round, delay=2)

    environment = TwoLate(n_tasks=2, n_candidates=5, start=False, horizon=6)
    trace = kb.simulate(Watched(environment.arms), environment)
    assert seen == [0, 0, 0, 1, 2, 3]
    assert len(trace) == 6


@pytest.mark.parametrize("mu", [0.0, 0.3, 0.9, 1.0])
def test_the_norm_is_that_of_the_least_interpolant(mu):
    """Interpolating f* at more and more points gives functions whose norm rises to ||f*||, and never above it."""
    problem = RKHSProblem(seed=1, mu=mu, n_arms=3, horizon=40, context_kernel=kb.RBF(0.5), centres=6)
    C, B = problem._function()
    rounds = list(problem.rounds())
    norms = []
    for n in (5, 40):
        X = np.concatenate([r.context for r in rounds[:n]] + [C] * 3)
        arms = np.concatenate([np.tile(np.arange(3), n), np.repeat(np.arange(3), len(C))])
        f = np.concatenate(
            [np.concatenate([r.means for r in rounds[:n]]), (problem.context_kernel(C, C) @ B.T).T.ravel()]
        )
        K = problem.similarity_matrix[np.ix_(arms, arms)] * problem.context_kernel(X, X)
        norms.append(np.sqrt(f @ np.linalg.pinv(K, rcond=1e-12, hermitian=True) @ f))
    np.testing.assert_allclose(norms, problem.norm, rtol=1e-3)


@pytest.mark.parametrize("two_point", [False, True])
def test_noise_is_within_an_interval_of_length_one(two_point):
    noise = np.array([r.rewards - r.means for r in RKHSProblem(horizon=200, two_point=two_point).rounds()])
    assert np.abs(noise).max() <= 0.5 + 1e-12
    assert abs(noise.mean()) < 0.06
    assert np.allclose(np.abs(noise), 0.5) == two_point


def test_mu_changes_how_arms_are_related_and_nothing_else():
    def draws(mu):
        many = [next(RKHSProblem(seed=s, mu=mu, n_arms=2, horizon=1).rounds()) for s in range(300)]
        return np.array([r.means for r in many]), [r.context for r in many]

    values = {mu: draws(mu) for mu in (0.0, 1.0)}
    np.testing.assert_array_equal(values[0.0][1], values[1.0][1])  # the same contexts
    for means, _ in values.values():
        np.testing.assert_allclose(means.std(axis=0), 0.3, rtol=0.15)  # every arm alone is as before
    correlation = {mu: np.corrcoef(means.T)[0, 1] for mu, (means, _) in values.items()}
    assert abs(correlation[0.0]) < 0.15
    assert correlation[1.0] > 0.5


# -- clicks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.03, 0.13, 0.5])
def test_click_rates_are_as_asked(rate: float) -> None:
    means = [np.mean([r.means for r in Clicks(seed=s, click_rate=rate, horizon=200).rounds()]) for s in range(20)]
    assert np.mean(means) == pytest.approx(rate, rel=0.1)


def test_items_of_the_shop_come_in_order_and_stay():
    shop = Shop(n_arms=20, new=0.5, horizon=200)
    rounds = list(shop.rounds())
    sizes = [len(r.candidates) for r in rounds]
    assert sizes[0] == 10
    assert sizes[150] == sizes[-1] == 20
    assert sizes == sorted(sizes)
    assert all(r.candidates == shop.arms[: len(r.candidates)] for r in rounds)
    assert all(len(r.rewards) == len(r.means) == len(r.candidates) for r in rounds)


def test_alike_items_are_clicked_alike():
    shop = Shop(n_arms=40, new=0.0, horizon=400, n_features=1)
    means = np.array([r.means for r in shop.rounds()])
    z = shop.descriptors
    distances = np.linalg.norm(z[:, None] - z, axis=2) + 9 * np.eye(40)
    nearest, farthest = distances.argmin(axis=1), (distances % 9).argmax(axis=1)
    gaps = np.abs(means - means[:, nearest]).mean(), np.abs(means - means[:, farthest]).mean()
    assert gaps[0] < 0.5 * gaps[1]
    clicks = np.array([r.rewards for r in shop.rounds()])
    assert set(np.unique(clicks)) == {0.0, 1.0}
    assert clicks.mean() == pytest.approx(means.mean(), abs=0.02)


# -- labelled rows --------------------------------------------------------------------------------


@given(
    seed=seeds,
    counts=st.lists(st.integers(5, 15), min_size=2, max_size=5),
    validation=st.integers(0, 3),
)
def test_the_papers_protocol(seed, counts, validation):
    y = np.repeat(np.arange(len(counts)), counts)
    y = np.random.default_rng(seed).permutation(y)
    X = np.arange(len(y), dtype=float)[:, None]
    e = Classification.from_arrays(X, y, protocol="paper", validation_per_class=validation, seed=seed)
    split = e.split()
    least = min(counts) - validation - 1
    assert np.bincount(y[split.validation], minlength=len(counts)).tolist() == [validation] * len(counts)
    assert sorted(y[split.start]) == list(range(len(counts)))  # one of each class, dealt at random
    assert np.bincount(y[split.test], minlength=len(counts)).tolist() == [least] * len(counts)
    everything = np.concatenate([split.validation, split.start, split.test])
    assert len(set(everything)) == len(everything)  # nothing is used twice
    assert np.array_equal(e.replace(seed=seed + 1).split().validation, split.validation)
    arms, contexts, rewards = e.start_rows()
    assert arms == e.arms
    assert np.array_equal(contexts[:, 0], split.start)
    assert np.array_equal(rewards, y[split.start] == np.arange(len(counts)))
    for row, round in zip(split.test, e.rounds(), strict=True):
        assert round.context.tolist() == [row]
        assert round.rewards.tolist() == (np.arange(len(counts)) == y[row]).tolist()


def test_shuffled_is_a_permutation_and_may_be_cut():
    e = toy(seed=5)
    assert sorted(e.split().test) == list(range(36))
    assert e.replace(horizon=20).split().test.tolist() == e.split().test[:20].tolist()
    assert not len(e.start_rows()[0])
    assert e.arms == ["class 0", "class 1", "class 2"]


def test_digits_has_the_rounds_of_the_protocol():
    e = Classification("digits", protocol="paper")
    assert e.horizon == 1230
    X, y = e.validation()
    assert X.shape == (500, 64)
    assert np.bincount(y).tolist() == [50] * 10
    assert X.max() == 16


def test_streams_are_the_rows_of_the_file():
    with np.load(STREAMS) as file:
        rows, start = file["digits_test"][2], file["digits_start"][2]
    dataset = kb.datasets.load("digits")
    e = Streams("digits", STREAMS, seed=2)
    assert e.horizon == 1230
    X = np.array([r.context for r in e.rounds()])
    assert np.array_equal(X, dataset.features(rows, "raw"))
    _, contexts, rewards = e.start_rows()
    assert np.array_equal(contexts, dataset.features(start, "raw"))
    assert np.array_equal(rewards, dataset.y[start] == np.arange(10))


def test_streams_of_a_wrong_file(tmp_path):
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    wrong = {"digits_validation": [0], "digits_start": [np.arange(10)], "digits_test": [[1, 5000]]}
    np.savez(tmp_path / "far.npz", **wrong)
    np.savez(tmp_path / "flat.npz", **wrong | {"digits_test": [1, 2]})
    for name, message in (
        ("none", "there is no file"), ("bad", "damaged"), ("far", "names row 5000"), ("flat", r"must be \(streams, rows\)")
    ):  # fmt: skip
        with pytest.raises(DatasetError, match=message):
            list(Streams("digits", str(tmp_path / f"{name}.npz")).rounds())


# -- replay ---------------------------------------------------------------------------------------


def test_replay_estimates_the_value_of_a_policy():
    """A policy that always plays one arm is worth that arm's mean; one that plays at random, the mean of all."""
    rng = np.random.default_rng(0)
    n, means = 3000, np.array([0.2, 0.5, 0.8])
    choices = rng.integers(0, 3, n)
    rewards = (rng.random(n) < means[choices]).astype(float)
    log = Log.of(choices, rng.normal(size=(n, 2)), rewards, propensities=np.full(n, 1 / 3))
    for arm in range(3):
        policy = kb.KMTLUCB(3, context_kernel=kb.kernels.Constant(1.0), ridge=0.01, rewards=None, exploration=0.0)
        policy.observe([arm], [[0.0, 0.0]], [1.0])  # the only arm with a mean above 0, for good
        trace = kb.simulate(policy, Replay(log), 600, trained=True)
        assert np.array_equal(trace["t"], np.flatnonzero(choices[:600] == arm))
        assert trace.mean_reward == pytest.approx(means[arm], abs=0.1)
    anyone = kb.simulate(kb.KMTLUCB(3, context_kernel=kb.kernels.Constant(1.0), epsilon=1.0), Replay(log), 1500)
    assert anyone.mean_reward == pytest.approx(0.5, abs=0.07)
    assert len(anyone) == pytest.approx(500, abs=60)


def test_replay_leaves_out_what_the_log_did_not_play():
    rng = np.random.default_rng(1)
    n = 300
    choices = rng.integers(0, 3, n)
    environment = Replay(Log.of(choices, rng.normal(size=(n, 2)), rng.random(n)))
    policy = kb.KMTLUCB(3)
    trace = kb.simulate(policy, environment)
    assert 0 < len(trace) < n
    assert policy.n_observations == len(trace)
    assert policy.pending() == []
    assert np.array_equal(trace["arm_index"], choices[trace["t"]])
    assert np.array_equal(trace["reward"], environment.log.rewards[trace["t"]])
    assert np.isnan(trace["regret"]).all()
    assert trace.mean_reward == pytest.approx(trace["reward"].mean())


def test_replay_in_order_or_shuffled():
    log = Log.of(list("abab"), np.arange(4.0)[:, None], [0, 1, 0, 1])
    assert [r.context[0] for r in Replay(log).rounds()] == [0, 1, 2, 3]
    shuffled = [r.context[0] for r in Replay(log, seed=1).rounds()]
    assert sorted(shuffled) == [0, 1, 2, 3]
    assert Replay(log, seed=1) != Replay(log)


# -- by name, and bad options ---------------------------------------------------------------------


def test_environments_by_name():
    assert make_environment("synthetic-news", seed=3, angles=[0, 1]) == SyntheticNews(seed=3, angles=(0, 1))
    assert make_environment("shop", seed=3, n_arms=5) == Shop(seed=3, n_arms=5)
    assert make_environment("rkhs", mu=0.3) == RKHSProblem(mu=0.3)


LOG = Log.of([0, 1], [[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_environment("news"), "there is no environment 'news'; there are synthetic-news"),
        (lambda: make_environment("synthetic-news", sed=3), "has no option 'sed'; it has seed"),
        (lambda: make_environment("classification"), "classification needs the option 'data'"),
        (lambda: SyntheticNews(n_arms=0), "n_arms must be at least 1"),
        (lambda: SyntheticNews(horizon=2.5), "horizon must be a whole number"),
        (lambda: SyntheticNews(reward="paper"), 'reward must be "text" or "scripts"'),
        (lambda: SyntheticNews(angles=(1.0, 0.0)), "angles must be"),
        (lambda: SyntheticNews(angles=1.0), "angles must be"),
        (lambda: SyntheticNews(half_axes=(0.0, 1.0)), "half_axes must be above 0"),
        (lambda: SyntheticNews(noise=-1), "noise must be at least 0"),
        (lambda: SyntheticNews(seed=-1), "seed must be at least 0"),
        (lambda: HiddenDescriptors(similarity=1.5), "similarity must be between 0"),
        (lambda: HiddenDescriptors(similarity=math.nan), "similarity must be finite"),
        (lambda: HiddenDescriptors(length_scale=0), "length_scale must be greater than 0"),
        (lambda: Classification("digit"), "data must be a data set"),
        (lambda: Classification(np.eye(3)), "from_arrays"),
        (lambda: Classification("digits", protocol="none"), "protocol must be"),
        (lambda: Classification("digits", horizon=5000), "only 1797 rounds"),
        (lambda: toy(protocol="paper"), "the smallest has 12; lower validation_per_class"),
        (lambda: Classification.from_arrays([[1.0], [2.0]], ["a", "a"]), "only one class"),
        (lambda: Classification.from_arrays([[1.0], [np.nan]], ["a", "b"]), r"X\[1, 0\] is nan"),
        (lambda: Classification.from_arrays([["x"], ["y"]], ["a", "b"]), "X must be numbers in an array"),
        (lambda: Classification.from_arrays([[1.0], [2.0]], [0.5, 1.5]), "regression target"),
        (lambda: Classification.from_arrays([[1.0], [2.0]], [1.0, np.nan]), r"y\[1\] is missing"),
        (lambda: Classification.from_arrays([[1.0], [2.0]], [1]), "one label per row"),
        (lambda: Classification.from_arrays([1.0, 2.0], [1, 2]), "must be 2-D"),
        (lambda: toy().dataset.features(scaling="z"), "scaling must be"),
        (lambda: Streams("digits", STREAMS, seed=3), "streams 0 to 2"),
        (lambda: Streams("digits", STREAMS, horizon=1231), "have 1230 rows"),
        (lambda: Streams("usps", STREAMS), "no streams of usps; it has digits"),
        (lambda: Replay(Log.of(["a", "b"], [[0.0], [1.0]], [0, 1], propensities=[0.5, 0.9])), "row 2 is 0.9, not 1/2"),
        (lambda: Replay([1, 2, 3]), r"Log\.of"),
        (lambda: Replay(LOG, horizon=3), "the log has 2 rows"),
        (lambda: RKHSProblem(mu=-0.1), "mu must be at least 0"),
        (lambda: RKHSProblem(mu=1.5), "mu must be between"),
        (lambda: RKHSProblem(noise=0.6), r"noise must be at most 0\.5"),
        (lambda: Tasks(mu=1.5), "mu must be between 0"),
        (lambda: Clicks(click_rate=0.0), "click_rate must be between 0 and 1"),
        (lambda: Clicks(length_scale=-1.0), "length_scale must be greater than 0"),
        (lambda: Shop(new=1.0), "new must be below 1"),
        (lambda: Shop(new=-0.1), "new must be"),
        (lambda: Shop(kinship=0.0), "kinship must be"),
        (lambda: Shop(strength=-1.0), "strength must be"),
    ],
)
def test_bad_options_are_named(make, message):
    with pytest.raises((InvalidInputError, InvalidTypeError, DatasetError), match=message):
        make()
