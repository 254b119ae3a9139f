"""Off-policy evaluation: by hand, in the long run, and what it says when the log cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.ope import LoggedRounds, estimate, evaluate_policy

TYPES, ARMS = 5, 4
WORLD = np.random.default_rng(42)
MEANS = WORLD.uniform(0.1, 0.9, size=(TYPES, ARMS))  # probability of reward 1
SHARES = WORLD.dirichlet(np.full(TYPES, 3.0))
LOGGING = 0.7 * np.eye(ARMS)[MEANS.argmin(axis=1)] + 0.3 / ARMS  # mostly the worst arm, with a floor
TARGET = 0.8 * np.eye(ARMS)[MEANS.argmax(axis=1)] + 0.2 / ARMS
TRUTH = float(SHARES @ (TARGET * MEANS).sum(axis=1))


def simulated(n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    types = rng.choice(TYPES, n, p=SHARES)
    chosen = (rng.random(n)[:, None] > LOGGING[types].cumsum(axis=1)).sum(axis=1)
    rewards = (rng.random(n) < MEANS[types, chosen]).astype(float)
    return types, chosen, rewards


def cross_fitted(types: np.ndarray, chosen: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """Mean reward per (type, arm), of the other half of the rows."""
    q = np.zeros((len(types), ARMS))
    half = np.arange(len(types)) % 2
    for h in (0, 1):
        other = half != h
        cell = types[other] * ARMS + chosen[other]
        sums = np.bincount(cell, rewards[other], TYPES * ARMS) + 0.01
        counts = np.bincount(cell, minlength=TYPES * ARMS) + 0.02
        q[half == h] = (sums / counts).reshape(TYPES, ARMS)[types[half == h]]
    return q


def coverage(n: int, logs: int, seed: int) -> tuple[dict[str, float], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """How often each interval covers the truth; the errors, and the standard errors that were claimed."""
    rng = np.random.default_rng(seed)
    names = ("ips", "snips", "direct", "dr")
    covered, errors, claimed = ({name: [] for name in names} for _ in range(3))
    warned = 0
    for _ in range(logs):
        types, chosen, rewards = simulated(n, rng)
        q = cross_fitted(types, chosen, rewards)
        found = estimate(rewards, LOGGING[types, chosen], chosen, TARGET[types], q)
        warned += bool(found.warnings)
        for name, e in found.estimates.items():
            covered[name].append(e.low <= TRUTH <= e.high)
            errors[name].append(e.value - TRUTH)
            claimed[name].append(e.standard_error)
    assert warned <= 0.01 * logs  # there is full support; a warning is a false alarm
    return (
        {name: float(np.mean(c)) for name, c in covered.items()},
        {name: np.array(e) for name, e in errors.items()},
        {name: np.array(c) for name, c in claimed.items()},
    )


@pytest.mark.slow
def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """95 % intervals over logs of 8,000 rounds cover between 93 and 97 %.

    Of 1,000 logs, not 500: a share of 500 has a standard error of one point, so that one batch in five puts one of
    four estimators outside the band by chance (15 batches of 500 were tried: 3 did, and the 7,500 logs together
    gave ips 0.952, snips 0.949, direct 0.946, dr 0.946). With 1,000 the band is
    three standard errors wide.
    """
    logs = 1000
    covered, errors, claimed = coverage(n=8000, logs=logs, seed=0)
    for name, share in covered.items():
        assert 0.93 <= share <= 0.97, (name, share)
        assert abs(errors[name].mean()) < 4 * errors[name].std() / logs**0.5, name
        assert claimed[name].mean() == pytest.approx(errors[name].std(), rel=0.1), name
    assert errors["dr"].std() < errors["ips"].std()  # the model helps
    assert errors["snips"].std() < errors["ips"].std()


def test_small_logs_cover_a_little_less_than_they_say() -> None:
    """Normal intervals are for many rows. With 2,000 rounds of this kind they cover about 94 % (3,000 logs gave ips
    0.951, snips 0.939, direct 0.937, dr 0.940), though standard errors are right. The documentation says so.
    """
    covered, errors, claimed = coverage(n=2000, logs=300, seed=0)
    for name, share in covered.items():
        assert 0.89 <= share <= 0.99, (name, share)
        assert claimed[name].mean() == pytest.approx(errors[name].std(), rel=0.15), name


@pytest.mark.parametrize(("share", "pays"), [(0.3, (0.05, 0.2)), (1.0, (0.05, 0.2)), (1.0, (0.3, 0.7))])
def test_heavy_weights(share: float, pays: tuple[float, float]) -> None:
    """The service's defaults: ten arms, epsilon 0.05, so weights to 191. Normal intervals covered 26 to 94 %.

    A count of one or two heavy rows holds one truth or does not, so that shares jump from truth to truth (here from
    88 to 99 %). What is near 95 % is the share over many truths.
    """
    arms, types, n, logs, epsilon = 10, 6, 1000, 300, 0.05
    rng = np.random.default_rng(1)
    logged, wanted = np.arange(types), np.where(np.arange(types) < share * types, 9, np.arange(types))
    logging, target = (epsilon / arms + (1 - epsilon) * np.eye(arms)[best] for best in (logged, wanted))
    covered: dict[str, int] = {}
    for _ in range(logs):
        means = rng.uniform(*pays, size=(types, arms))
        truth = float((target * means).sum(axis=1).mean())
        t = rng.integers(types, size=n)
        chosen = (rng.random(n)[:, None] > logging[t].cumsum(axis=1)).sum(axis=1).clip(0, arms - 1)
        rewards = (rng.random(n) < means[t, chosen]).astype(float)
        q = np.full((n, arms), 0.1)
        found = estimate(rewards, logging[t, chosen], chosen, target[t], q, reward_range=(0.0, 1.0))
        for name in ("ips", "snips", "dr"):
            e = found.estimates[name]
            covered[name] = covered.get(name, 0) + (e.low <= truth <= e.high)
            assert e.low <= e.value <= e.high
        assert any("one row may weigh 191 of 1000" in w for w in found.warnings)
    assert 0.93 * logs <= min(covered.values()) <= max(covered.values()) < 0.995 * logs, covered


def test_by_hand() -> None:
    rewards, p, chosen = [1.0, 0.0, 2.0], [0.5, 0.25, 0.8], [0, 1, 1]
    target, model = [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]], [[0.5, 1.0], [1.0, 0.0], [0.0, 1.5]]
    found = estimate(rewards, p, chosen, target, model)
    w = [0.9 / 0.5, 0.5 / 0.25, 0.8 / 0.8]
    direct = [0.9 * 0.5 + 0.1 * 1.0, 0.5, 0.8 * 1.5]
    dr = [direct[0] + w[0] * 0.5, direct[1] + w[1] * 0.0, direct[2] + w[2] * 0.5]
    values = {name: e.value for name, e in found.estimates.items()}
    assert values == pytest.approx(
        {
            "ips": (w[0] * 1.0 + 0.0 + w[2] * 2.0) / 3,
            "snips": (w[0] * 1.0 + 0.0 + w[2] * 2.0) / sum(w),
            "direct": sum(direct) / 3,
            "dr": sum(dr) / 3,
        },
        abs=1e-12,
    )
    assert found.effective_n == pytest.approx(sum(w) ** 2 / sum(x * x for x in w))
    ips = found.estimates["ips"]
    assert ips.standard_error == pytest.approx(np.std([1.8, 0.0, 2.0], ddof=1) / 3**0.5)


Z = 1.959963984540054


def test_ends_of_a_mean_are_where_the_variance_there_says() -> None:
    """By a root finder: (end - value)^2 = z^2 variance(end), and the row that might have come in its slope."""
    from scipy.optimize import brentq

    rng = np.random.default_rng(0)
    n = 40
    r, p, pi, q = rng.random(n) - 0.3, rng.uniform(0.2, 1.0, n), rng.dirichlet([1, 1], n), rng.random((n, 2))
    played = rng.integers(2, size=n)
    rows, W = np.arange(n), pi.max() / p.min()
    w, direct = pi[rows, played] / p, (pi * q).sum(axis=1)
    found = estimate(r, p, played, pi, q, reward_range=(-20.0, 30.0)).estimates
    cases = {
        "ips": (w * r, 0.0, 1.0),
        "dr": (direct + w * (r - q[rows, played]), direct.mean(), 2 / 3),
    }
    for name, (x, q0, skew) in cases.items():
        apart = x - x.mean()
        for extreme, end in ((W * (-20.0 - q0), found[name].low), (W * (30.0 - q0), found[name].high)):
            slope = ((apart**3).sum() + extreme**3) / (x.var(ddof=1) * n + extreme**2)

            def excess(mu: float, x=x, slope=slope, skew=skew) -> float:
                return (mu - x.mean()) ** 2 - Z**2 * (x.var(ddof=1) + skew * slope * (mu - x.mean())) / n

            far = np.copysign(1e3, extreme)
            assert end == pytest.approx(brentq(excess, x.mean(), far), abs=1e-9), name
    assert found["direct"].low <= found["dr"].low
    assert found["direct"].high >= found["dr"].high


@pytest.mark.parametrize("hits", [0, 1, 2, 5])
def test_few_heavy_rows_are_a_count_and_a_share(hits: int) -> None:
    """1,000 rows, 5 of them of weight 100: the limits of a Poisson count and of a share."""
    n, heavy, W = 1000, 5, 100.0
    rewards, target, chosen = np.zeros(n), np.tile([1.0, 0.0], (n, 1)), np.ones(n, dtype=int)
    rewards[:hits], chosen[:heavy] = 1.0, 0
    found = estimate(rewards, np.where(chosen == 0, 0.01, 0.99), chosen, target, reward_range=(0.0, 1.0)).estimates
    count = [hits + Z**2 / 2 + sign * Z * (hits + Z**2 / 4) ** 0.5 for sign in (-1, 1)]  # (N - x)^2 = z^2 x
    low, high = np.array(count) * W / n
    assert (found["ips"].low, found["ips"].high) == pytest.approx((low, min(high, 1.0)), rel=0.01, abs=1e-12)
    for sign, extra, end in ((-1, 0.0, found["snips"].low), (1, 1 / 3, found["snips"].high)):
        m, share = heavy + 1 / 3, (hits + extra) / (heavy + 1 / 3)  # Wilson, with a third of a row more
        wilson = (share + Z**2 / (2 * m) + sign * Z * (share * (1 - share) / m + Z**2 / (4 * m * m)) ** 0.5) / (
            1 + Z**2 / m
        )
        assert end == pytest.approx(wilson, abs=1e-12)


def test_the_logging_policy_itself_gives_the_mean() -> None:
    types, chosen, rewards = simulated(500, np.random.default_rng(0))
    found = estimate(rewards, LOGGING[types, chosen], chosen, LOGGING[types])
    for e in found.estimates.values():
        assert e.value == pytest.approx(rewards.mean())
    assert found.effective_n == pytest.approx(500)


def test_missing_support_is_said() -> None:
    n = 1000
    rng = np.random.default_rng(0)
    first = np.zeros(n, dtype=int)
    found = estimate(rng.random(n), np.ones(n), first, np.tile([0.5, 0.5], (n, 1)))
    assert any("probability 1" in w for w in found.warnings)
    assert any("mean is 0.50" in w for w in found.warnings)
    never = estimate(rng.random(n), np.full(n, 0.5), first, np.tile([0.0, 1.0], (n, 1)))
    assert "snips" not in never.estimates
    assert any("only 0 of 1000" in w for w in never.warnings)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"rewards": []}, "at least one row"),
        ({"rewards": [1.0]}, "as many"),
        ({"rewards": [1.0, float("nan")]}, "finite"),
        ({"propensities": [0.0, 1.0]}, "above 0"),
        ({"propensities": [0.5, 1.5]}, "at most 1"),
        ({"chosen": [0, 2]}, "whole numbers from 0 to 1"),
        ({"chosen": [0.0, 1.0]}, "whole numbers"),
        ({"target": [[0.5, 0.6], [0.5, 0.5]]}, "sum to 1"),
        ({"model": [[1.0, 1.0]]}, "model has shape"),
        ({"level": 1.0}, "level must be"),
        ({"reward_range": (0.0, 0.5)}, "reward_range is"),
    ],
)
def test_bad_input(change: dict[str, object], match: str) -> None:
    good = {"rewards": [1.0, 0.0], "propensities": [0.5, 0.5], "chosen": [0, 1], "target": [[0.5, 0.5]] * 2}
    estimate(**good)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=match):
        estimate(**{**good, **change})  # type: ignore[arg-type]


def test_a_policy_is_evaluated_as_it_would_have_fared() -> None:
    """Against the truth: the taught policy is played on fresh rounds."""
    rng = np.random.default_rng(3)
    places = rng.normal(size=(TYPES, 2)) * 2.0
    names = ["a", "b", "c", "d"]
    types, chosen, rewards = simulated(1500, rng)
    log = LoggedRounds(
        contexts=places[types].tolist(),
        candidates=[names] * 1500,
        chosen=chosen.tolist(),
        rewards=rewards.tolist(),
        propensities=LOGGING[types, chosen].tolist(),
    )

    def make() -> kb.KMTLUCB:
        return kb.KMTLUCB(names, context_kernel=kb.RBF(0.5), exploration=0.01, epsilon=0.1)

    found = evaluate_policy(log, make, train=0.3)
    policy = make()
    log[:450].teach(policy)
    fresh = rng.choice(TYPES, 4000, p=SHARES)
    truth = float((policy.probabilities(places[fresh][:, None, :]) * MEANS[fresh]).sum(axis=1).mean())
    assert truth > found.logged + 0.1  # it has learned
    for name in ("ips", "snips", "dr"):
        e = found.estimates[name]
        assert e.low - 0.02 <= truth <= e.high + 0.02, name
    assert found.estimates["dr"].standard_error < found.estimates["ips"].standard_error
    with pytest.raises(ValueError, match="too few"):
        evaluate_policy(log[:6], make)


def test_rounds_with_candidates_of_their_own() -> None:
    rng = np.random.default_rng(0)
    contexts = [[0.0, 1.0], [[0.0, 0.0], [1.0, 1.0]], [0.5, 0.5], [[0.0, 0.0], [1.0, 0.0]]] * 10
    candidates = [["a", "b", "c"], ["a", "b"], ["a", "b", "c"], ["c", "a"]] * 10
    log = LoggedRounds(contexts, candidates, [2, 1, 0, 0] * 10, rng.random(40).tolist(), [0.5] * 40)
    assert log.arms()[:4] == ["c", "b", "a", "c"]
    assert log.played_contexts()[:2].tolist() == [[0.0, 1.0], [1.0, 1.0]]
    found = evaluate_policy(log, lambda: kb.KMTLUCB(["a", "b", "c"], context_kernel=kb.RBF(), epsilon=0.2))
    assert found.n == 20
    assert str(found).startswith("estimator")


# -- tables -------------------------------------------------------------------------------------------


def frame(library: str, n: int = 60, **columns: object) -> object:
    rng = np.random.default_rng(3)
    arms = rng.choice(["a", "b", "c"], n)
    data = {
        "item": arms.tolist(),
        "clicked": (rng.random(n) < 0.3 + 0.4 * (arms == "b")).astype(float),
        "p": np.full(n, 1 / 3),
        "age": rng.random(n),
        "hour": rng.integers(24, size=n),
    } | columns
    if library == "pyarrow":
        return pytest.importorskip("pyarrow").table(data)
    return pytest.importorskip(library).DataFrame(data)


NAMED = {"arm": "item", "reward": "clicked", "propensity": "p"}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_table_is_a_log(library: str) -> None:
    log = LoggedRounds.from_frame(frame(library), **NAMED)
    assert log.arms() == list(frame("pandas")["item"])
    assert log.played_contexts().shape == (60, 2)
    assert log.candidates[0] == ["a", "b", "c"]
    found = evaluate_policy(log, lambda: kb.KMTLUCB(["a", "b", "c"], ridge=0.3))
    by_hand = LoggedRounds(log.contexts, log.candidates, log.chosen, log.rewards, [1 / 3] * 60)
    assert found == evaluate_policy(by_hand, lambda: kb.KMTLUCB(["a", "b", "c"], ridge=0.3))


def test_a_table_may_leave_things_out() -> None:
    import pandas as pd

    table = frame("pandas").drop(columns="p")
    log = LoggedRounds.from_frame(table, arm="item", reward="clicked", propensity=None, contexts=["age"])
    assert log.propensities == [1 / 3] * 60
    assert log.played_contexts().shape == (60, 1)
    more = table.assign(item=pd.Categorical(table["item"], categories=["c", "b", "a", "new"]))
    log = LoggedRounds.from_frame(more, arm="item", reward="clicked", propensity=None)
    assert log.candidates[0] == ["c", "b", "a", "new"]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda f: LoggedRounds.from_frame(f.to_numpy(), **NAMED), "frame must be a table"),
        (lambda f: LoggedRounds.from_frame(f.head(0), **NAMED), "no rows"),
        (
            lambda f: LoggedRounds.from_frame(f, **{**NAMED, "arm": "article"}),
            "arm is 'article', but the columns are",
        ),
        (lambda f: LoggedRounds.from_frame(f, **{**NAMED, "reward": "p", "propensity": "clicked"}), "swapped"),
        (lambda f: LoggedRounds.from_frame(f, **NAMED, arms=["a", "b"]), "holds arm 'c', which is not among"),
        (lambda f: evaluate_policy(f, lambda: kb.KMTLUCB(3)), "from_frame"),
        (lambda f: evaluate_policy(lambda: kb.KMTLUCB(3), LoggedRounds.from_frame(f, **NAMED)), "are swapped"),
        (lambda f: evaluate_policy(LoggedRounds.from_frame(f, **NAMED), kb.KMTLUCB(3)), "makes a new policy"),
        (lambda f: estimate(f["p"], f["clicked"], [0] * 60, [[1.0]] * 60), "are the two swapped"),
    ],
)
def test_wrong_tables_and_swapped_arguments_are_named(call, match) -> None:
    with pytest.raises((TypeError, ValueError), match=match):
        call(frame("pandas"))


def test_means_are_those_of_predict() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 1, 2))
    for engine in ("exact", "naive", kb.Budgeted(points=20)):
        policy = kb.KMTLUCB(4, engine=engine)
        np.testing.assert_allclose(policy.means(X), policy.predict(X).mean)
        policy.observe(rng.integers(3, size=40), rng.normal(size=(40, 2)), rng.random(40))
        np.testing.assert_allclose(policy.means(X), policy.predict(X).mean, atol=1e-7)


def test_the_model_of_a_fold_is_the_policy_with_other_rows() -> None:
    rng = np.random.default_rng(0)
    arms, X, r = rng.integers(3, size=60), rng.normal(size=(60, 2)), rng.random(60)
    policy = kb.KMTLUCB(3, ridge=0.2, similarity=kb.Mixed(0.4), context_kernel=kb.RBF())
    policy.observe(arms[:30], X[:30], r[:30])
    other = kb.KMTLUCB(3, ridge=0.2, similarity=kb.Mixed(0.4), context_kernel=kb.RBF())
    other.observe(arms[10:], X[10:], r[10:])
    found = policy.relearned(arms[10:].tolist(), X[10:], r[10:])
    np.testing.assert_allclose(found.means(X[:5, None]), other.means(X[:5, None]), atol=1e-9)
    with pytest.raises(TypeError, match="frozen"):
        found.observe([0], [[0.0, 0.0]], [1.0])
    assert policy.n_observations == 30


def test_given_tasks_are_logged_taught_and_evaluated_as_such() -> None:
    """A policy that knows the tasks are alike is told so by the log, and found better than chance."""
    environment = kb.environments.Tasks(mu=0.9, n_tasks=3, n_candidates=5, horizon=240)
    rng = np.random.default_rng(0)
    rounds = list(environment.rounds())
    chosen = rng.integers(5, size=len(rounds)).tolist()
    log = LoggedRounds.of_tasks(
        [round.candidates[0] for round in rounds],
        [round.context for round in rounds],
        chosen,
        [float(round.rewards[i]) for round, i in zip(rounds, chosen, strict=True)],
        [0.2] * len(rounds),
    )
    policy = kb.KMTLUCB(environment.arms)
    log.teach(policy)
    assert policy.similarity_report(complete=False).reason.startswith("averaged")
    found = evaluate_policy(log, lambda: kb.KMTLUCB(environment.arms))
    assert found.estimates["dr"].low > found.logged


def test_a_log_of_both_kinds_of_rounds_is_taught_in_order() -> None:
    log = LoggedRounds(
        contexts=[[0.1], [[0.2], [0.3]], [[0.4]], [0.5]],
        candidates=[["a", "b"]] * 4,
        chosen=[0, 1, 1, 0],
        rewards=[0.0, 1.0, 2.0, 3.0],
        propensities=[0.5] * 4,
    )
    policy = kb.KMTLUCB(["a", "b"], ridge=0.1)
    log.teach(policy)
    history = policy.regression.history
    assert history.contexts.ravel().tolist() == [0.1, 0.3, 0.4, 0.5]
    assert history.own_contexts_from == 1
    assert len(log[:0].played_contexts()) == 0
    log[:0].teach(policy)


def test_numbers_that_no_interval_can_be_made_of_are_refused() -> None:
    log = {"rewards": [0.5, 1.0], "chosen": [0, 0], "target": [[0.5, 0.5]] * 2}
    for clip in (0.0, -1.0, float("nan")):
        with pytest.raises(kb.errors.InvalidInputError, match="clip must be"):
            estimate(**log, propensities=[0.5, 0.5], clip=clip)
    with pytest.raises(kb.errors.InvalidInputError, match="not below 1e-50"):
        estimate(**log, propensities=[0.5, 1e-120])


def test_rewards_whose_squares_are_nothing() -> None:
    found = estimate([1e-170, 0.0], [0.5, 0.5], [0, 0], [[0.5, 0.5]] * 2)
    assert all(e.low <= e.value <= e.high for e in found.estimates.values())
