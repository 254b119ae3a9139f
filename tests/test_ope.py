"""Off-policy evaluation: by hand, in the long run, and what it says when the log cannot tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kinbandits as kb
from coverage_difference import WORLDS, World, measured
from kinbandits.logs import Columns, Log, LogFiles
from kinbandits.ope import estimate, evaluate

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
    assert any("effective sample size is 0 of 1000" in w for w in never.warnings)


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


# -- evaluate ---------------------------------------------------------------------------------------


def made(n: int = 2000, seed: int = 0, arms: tuple[str, ...] = ("a", "b", "c")) -> Log:
    """Clicks: an arm is liked on one side of x[0], so there is something to learn."""
    rng = np.random.default_rng(seed)
    x, played = rng.random((n, 2)), rng.integers(len(arms), size=n)
    liked = (x[:, 0] * len(arms)).astype(int)
    rewards = (rng.random(n) < np.where(played == liked, 0.7, 0.2)).astype(float)
    return Log.of([arms[a] for a in played], x, rewards, propensities=np.full(n, 1 / len(arms)), arms=arms)


def written(log: Log, path: Path, group: int) -> Path:
    table = {
        "arm": log.played_arms, "x0": log.contexts[:, 0], "x1": log.contexts[:, 1], "reward": log.rewards,
        "propensity": log.propensities,
    }  # fmt: skip
    pq.write_table(pa.table(table), path, row_group_size=group)
    return path


def pair(**settings: object) -> dict[str, kb.KMTLUCB]:
    return {
        "alone": kb.KMTLUCB(["a", "b", "c"], similarity=kb.Independent(), epsilon=0.1, **settings),
        "pooled": kb.KMTLUCB(["a", "b", "c"], similarity=kb.Pooled(), epsilon=0.1, **settings),
    }


def test_a_policy_is_evaluated_as_it_would_have_fared() -> None:
    """Against the truth: the taught policy is played on fresh rounds."""
    log = made(2000)
    policy = kb.fit(log[:1000], kb.KMTLUCB(["a", "b", "c"], epsilon=0.1))
    found = evaluate(log.between(1000, 2000), {"taught": policy})["taught"]
    x = np.random.default_rng(9).random((4000, 2))
    means = np.where((x[:, :1] * 3).astype(int) == np.arange(3), 0.7, 0.2)
    truth = float((policy.probabilities_many(x) * means).sum(axis=1).mean())
    assert truth > found.logged + 0.1  # it has learned
    for name in ("ips", "snips", "dr"):
        assert found.estimates[name].low <= truth <= found.estimates[name].high, name
    assert found.estimates["dr"].standard_error < found.estimates["ips"].standard_error
    assert evaluate(log, kb.KMTLUCB(["a", "b", "c"], epsilon=0.1), train=0.5)["policy"].n == 1000


def test_in_memory_and_file_by_file_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same log and policies, to the last digits that sums allow, whatever the parts and the processes."""
    log = made(1500)
    monkeypatch.setattr("kinbandits.logs.PART_ROWS", 200)
    path = written(log, tmp_path / "log.parquet", 100)
    whole = evaluate(log, pair())
    for jobs in (1, 2):
        parts = evaluate(path, pair(), jobs=jobs)
        for name, one in whole.evaluations.items():
            other = parts[name]
            assert other.n == one.n == 750
            found = [*one.estimates.values(), *([one.difference] if one.difference else [])]
            again = [*other.estimates.values(), *([other.difference] if other.difference else [])]
            for a, b in zip(found, again, strict=True):
                assert (a.value, a.low, a.high) == pytest.approx((b.value, b.low, b.high), abs=1e-13), (
                    name,
                    a.name,
                )


def test_the_gate_opens_for_what_is_better_alone() -> None:
    log, arms = made(3000), ["a", "b", "c"]
    good = kb.fit(log[:1000], kb.KMTLUCB(arms, epsilon=0.1))
    bad = kb.fit(Log.of(arms * 20, np.zeros((60, 2)), [0.0, 0.0, 1.0] * 20), kb.KMTLUCB(arms, epsilon=0.1))
    rest = log.between(1000, 3000)
    assert evaluate(rest, {"bad": bad, "good": good}).better
    assert not evaluate(rest, {"good": good, "bad": bad}).better
    same = evaluate(rest, {"good": good, "again": good})
    assert not same.better
    assert same["again"].difference is not None
    assert same["again"].difference.value == 0.0
    text = str(evaluate(rest, {"bad": bad, "good": good}, clip=2.0))
    for part in ("95 % interval", "minus bad", "minus the log", "weights were clipped"):
        assert part in text


def test_the_first_policy_is_compared_with_the_log() -> None:
    log = made(2000)
    uniform = kb.KMTLUCB(["a", "b", "c"], epsilon=1.0)
    uniform.observe(["a"], [[0.0, 0.0]], [0.0])
    found = evaluate(log, uniform)["policy"]  # the logger itself
    assert found.difference is not None
    assert found.difference.low < 0.0 < found.difference.high
    assert found.difference.value == pytest.approx(found.estimates["dr"].value - found.logged)
    good = kb.fit(log[:1000], kb.KMTLUCB(["a", "b", "c"], epsilon=0.1))
    assert evaluate(log[1000:], good).better


def test_rewards_without_a_range_are_not_limited_to_those_seen() -> None:
    """Sales of 0 to 20 so far; the truth may be above. Clicks that are all 0 may be clicks yet."""
    rng = np.random.default_rng(0)
    n, target = 40, np.tile([0.9, 0.1], (40, 1))
    sales = rng.choice([0.0, 20.0], n)
    chosen = np.where(np.arange(n) < 4, 0, 1)
    sales[:4] = 20.0
    free = estimate(sales, np.where(chosen == 0, 0.1, 0.9), chosen, target)
    held = estimate(sales, np.where(chosen == 0, 0.1, 0.9), chosen, target, reward_range=(0.0, 20.0))
    for name in ("ips", "snips"):
        assert held.estimates[name].high <= 20.0 < free.estimates[name].high, name
    none = estimate(np.zeros(n), np.full(n, 0.5), [0] * n, np.tile([0.5, 0.5], (n, 1))).estimates
    assert 0.0 < none["ips"].high <= 1.0
    equal = estimate(np.full(n, 5.0), np.full(n, 0.5), [0] * n, np.tile([0.5, 0.5], (n, 1)))
    assert any("all rewards are the same" in w for w in equal.warnings)


@pytest.mark.parametrize("kind", ["fixed", "drifting", "learning"])
def test_the_difference_that_the_gate_trusts_covers_the_truth(kind: str) -> None:
    """Against loggers that stay, drift and learn: 95 % intervals cover 92 % at least, and few are wrongly above."""
    covered, above, _ = measured(kind, n=400, floor=0.05, effect=0.0, logs=300, seed=3)
    assert covered >= 0.92
    assert above <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fixed", "drifting", "learning"])
@pytest.mark.parametrize("floor", [0.0125, 0.05])
def test_the_difference_covers_the_truth_in_the_long_run(kind: str, floor: float) -> None:
    covered, above, _ = measured(kind, n=2000, floor=floor, effect=0.05, logs=500, seed=5)
    assert 0.92 <= covered <= 0.98
    assert above <= 0.045  # 2.5 % are allowed; three standard errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "rows", "floor"),
    [(World(), 1000, 0.0125), (WORLDS["other"][2], 1000, 0.02), (WORLDS["other"][1], 500, 0.0125)],
)
def test_a_logger_that_learns_does_not_open_the_gate(world: World, rows: int, floor: float) -> None:
    """Where the interval without the square of the unseen row was wrongly above the truth in 4.2 %.

    And, in the last, the one that skewness could narrow too.
    """
    covered, above, _ = measured("learning", n=rows, floor=floor, effect=0.0, logs=2000, seed=11, world=world)
    assert covered >= 0.94
    assert above <= 0.0335  # 2.5 % are allowed; its standard error is 0.35 %


def test_policies_that_are_alike_differ_by_nothing() -> None:
    log, arms = made(400), ["a", "b", "c"]
    good = kb.fit(log[:200], kb.KMTLUCB(arms, epsilon=0.1))
    difference = evaluate(log[200:], {"one": good, "again": good})["again"].difference
    assert difference is not None
    assert (difference.low, difference.value, difference.high) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda log: evaluate(log, {}), "policies is empty"),
        (lambda log: evaluate(log, {"a": kb.KMTLUCB}), "policies must be policies; a is a"),
        (lambda log: evaluate(log, {"a": kb.KMTLUCB(3)}), "the log has an arm 'a', but the policy's are 0, 1, 2"),
        (lambda log: evaluate(log, {**pair(), "x": kb.KMTLUCB(2)}), "policies must have the same arms"),
        (lambda log: evaluate(log, pair(), train=0.5, since=1.0), "since or train, not both"),
        (lambda log: evaluate(log, pair(), train=1.0), "leaves none"),
        (lambda log: evaluate(log, pair(), since=1.0), "no times"),
        (lambda log: evaluate(pd.DataFrame({"arm": ["a"]}), pair()), "log must be kb.Log.from_frame"),
        (lambda log: evaluate(log, pair(), level=2.0), "level must be"),
        (lambda log: evaluate(log, pair(), clip=-1.0), "clip must be"),
        (lambda log: evaluate(log, pair(), reward_range=(0.0, 0.5)), "the reward is outside"),
    ],
)
def test_what_cannot_be_evaluated_is_said(call, match) -> None:
    with pytest.raises((TypeError, ValueError), match=match):
        call(made(60))


def test_rounds_with_candidates_and_tasks_are_evaluated() -> None:
    environment = kb.environments.Tasks(mu=0.9, n_tasks=3, n_candidates=5, horizon=240)
    rng = np.random.default_rng(0)
    rounds = list(environment.rounds())
    chosen = rng.integers(5, size=len(rounds)).tolist()
    log = Log.of_rounds(
        [round.context for round in rounds],
        [round.candidates for round in rounds],
        chosen,
        [float(round.rewards[i]) for round, i in zip(rounds, chosen, strict=True)],
        [0.2] * len(rounds),
    )
    found = evaluate(log, kb.KMTLUCB(environment.arms))["policy"]
    assert found.estimates["dr"].low > found.logged


def test_a_log_with_some_of_the_arms() -> None:
    log = made(400, arms=("a", "b"))
    policy = kb.fit(log[:200], kb.KMTLUCB(["c", "b", "a"], epsilon=0.1))
    assert policy.counts["c"] == 0
    assert evaluate(log[200:], policy)["policy"].mean_weight == pytest.approx(1.0, abs=0.2)


def test_open_decisions_end_what_is_evaluated(tmp_path: Path) -> None:
    """Where decisions are defaulted, everything after the oldest open one is left out."""
    log = made(40)
    states = ["rewarded"] * 20 + ["defaulted"] * 10 + ["open"] + ["rewarded"] * 9
    table = pq.read_table(written(log, tmp_path / "x.parquet", 10)).append_column("state", pa.array(states))
    pq.write_table(table, tmp_path / "x.parquet")
    source = LogFiles.of(tmp_path / "x.parquet", Columns(context=("x0", "x1")))
    found = evaluate(source, kb.fit(log, kb.KMTLUCB(["a", "b", "c"], epsilon=0.1)))
    assert found["policy"].n == 30
    assert found.left_out == {"younger than the oldest open decision": 10}
    held = Log.read(tmp_path / "x.parquet", Columns(context=("x0", "x1")), arms=["a", "b", "c"])
    again = evaluate(held, kb.fit(log, kb.KMTLUCB(["a", "b", "c"], epsilon=0.1)))
    assert (again["policy"].n, again.left_out) == (30, found.left_out)


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
