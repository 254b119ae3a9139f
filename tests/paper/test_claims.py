"""The paper's claims on hand-made tables: every verdict can be reached, and knows the count that is claimed."""

import math

import numpy as np
import pytest
from scipy import stats

from kinbandits.paper.claims import MARGIN, check_claims, tost
from kinbandits.results import Results, Run, RunGroup, holm
from kinbandits.trace import Trace

EST, IND, POOL, KNOWN = "KMTL-UCB-Est", "Kernel-UCB-Ind", "Kernel-UCB-Pool", "KMTL-UCB"
NAMES = {"est": EST, "ind": IND, "pool": POOL, "known": KNOWN, "same": "Kernel-UCB-Ind at Est's settings"}


def group(name, **finals):
    def trace(total):
        columns = {"t": [0, 1], "reward": [0.0, 0.0], "regret": [total / 2] * 2}
        return Trace.of(columns, {"arms": ["a", "b"], "policy": "p", "similarity": []})

    runs = [Run(name, NAMES[m], seed, trace(v)) for m, totals in finals.items() for seed, v in enumerate(totals)]
    return RunGroup(name, tuple(runs))


def results(*groups, record=None):
    return Results("r", groups, record or {"environments": {}, "methods": {}})


def verdicts(*groups):
    return {(c.where, c.says.split(" (")[0]): (c.holds, c.runs, c.verdict) for c in check_claims(results(*groups))}


TEN = np.arange(100.0, 110.0)
BETTER = f"{EST} is better than {IND}"
EQUAL = f"{EST} and {IND} perform equally well"


@pytest.mark.parametrize(
    ("data", "misses", "verdict"),
    [
        ("Digits", 0, "reproduced"),
        ("Digits", 1, "not reproduced"),  # 9 of 10 where the paper says all
        ("Digits", 4, "not reproduced"),
        ("MNIST", 1, "reproduced"),  # 9 of 10 where it says all but one
        ("MNIST", 2, "not reproduced"),
        ("Segment", 10, "contradicted"),
    ],
)
def test_better_in_all_runs_or_all_but_one(data, misses, verdict):
    est = TEN - 5.0
    est[:misses] = TEN[:misses] + 4.0
    assert verdicts(group(data, est=est, ind=TEN)) == {(data, BETTER): (10 - misses, 10, verdict)}


def test_a_tie_is_not_better():
    est = TEN - 5.0
    est[3] = TEN[3]
    assert verdicts(group("Digits", est=est, ind=TEN)) == {("Digits", BETTER): (9, 10, "not reproduced")}


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        (np.tile([1.0, -1.0], 5), "reproduced"),
        (np.zeros(10), "reproduced"),
        (np.full(10, -20.0) + TEN - TEN.mean(), "contradicted"),  # better by far is not equal
        (np.full(10, 20.0) + TEN - TEN.mean(), "contradicted"),
        (np.tile([30.0, -28.0], 5), "undecided"),
        (np.tile([8.0, 2.0], 5), "undecided"),  # the interval reaches over the margin of 5.2
    ],
)
def test_equally_well_is_tested_as_equality(differences, verdict):
    (claim,) = check_claims(results(group("USPS", est=TEN + differences, ind=TEN)))
    assert (claim.says, claim.verdict) == (EQUAL, verdict)
    assert claim.holds == (np.abs(differences) <= MARGIN * TEN.mean()).sum()


def test_the_best_and_the_worst_of_all():
    gaps = np.array([[-9.0], [0.0], [0.1], [40.0]])
    values = TEN + np.random.default_rng(0).normal(size=(4, 10)) + gaps
    tables = dict(zip(("known", "est", "ind", "pool"), values, strict=True))
    best = "Synthetic news", f"{KNOWN} with known similarity beats the other methods"
    worst = "Synthetic news", f"{POOL} is the worst"
    found = verdicts(group("Synthetic news", **tables))
    assert (found[best], found[worst]) == ((10, 10, "reproduced"),) * 2
    tables["known"][:4] = 200.0  # 6 of 10 is not all, whatever the mean
    tables["pool"][:1] = 0.0  # in the mean it still is the worst, and no count is claimed
    assert verdicts(group("Synthetic news", **tables))[best] == (6, 10, "not reproduced")
    tables["pool"] = TEN - 50.0
    assert verdicts(group("Synthetic news", **tables))[worst][2] == "contradicted"


def test_p_values_are_those_of_the_tests_adjusted_by_holm():
    rng = np.random.default_rng(1)
    est, other = TEN - 3 + rng.normal(size=10), TEN + rng.normal(size=10)
    first, second = check_claims(results(group("Digits", est=est, ind=TEN), group("Letter", est=other, ind=TEN)))
    assert first.p == pytest.approx(stats.ttest_rel(est, TEN).pvalue)
    low, high = stats.t.interval(0.95, 9, loc=(est - TEN).mean(), scale=stats.sem(est - TEN))
    assert (first.low, first.high) == (pytest.approx(low), pytest.approx(high))
    assert second.p == pytest.approx(tost(other - TEN, MARGIN * TEN.mean()))
    assert [first.adjusted, second.adjusted] == pytest.approx(holm([first.p, second.p]))


def test_tost_is_the_interval_of_90_percent_within_the_margin():
    """Schuirmann's test rejects at 5 % if, and only if, the 90 % interval lies within the margin."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        x = rng.normal(rng.normal(), 1.0, 8)
        low, high = stats.t.interval(0.9, 7, loc=x.mean(), scale=stats.sem(x))
        assert (tost(x, 1.0) < 0.05) == (low > -1.0 and high < 1.0)
    assert math.isnan(tost(np.ones(1), 1.0))
    assert tost(np.full(3, 2.0), 1.0) == 1.0


def test_our_check_on_segment_is_marked_as_ours():
    claims = check_claims(results(group("Segment", est=TEN, ind=TEN + 1, same=TEN - 1)))
    assert [(c.source, c.verdict) for c in claims] == [("paper", "reproduced"), ("ours", "contradicted")]


@pytest.mark.parametrize("runs", [1, 3, 9])
def test_fewer_runs_than_the_papers_decide_nothing(runs):
    """Of one run in which it is worse "all but one" holds in words; of two that are better "all runs"."""
    for data, sign in (("MNIST", 1.0), ("Digits", -1.0)):
        (claim,) = check_claims(results(group(data, est=TEN[:runs] + sign, ind=TEN[:runs])))
        assert (claim.runs, claim.verdict) == (runs, "not enough runs")


def similar(name, values):
    """Runs of the estimate that end with this mean similarity of two arms."""
    columns = {"t": [0], "reward": [0.0], "regret": [1.0]}
    traces = [Trace.of(columns, {"arms": ["a", "b"], "similarity": [[1.0, v], [v, 1.0]]}) for v in values]
    return RunGroup(name, tuple(Run(name, EST, seed, trace) for seed, trace in enumerate(traces)))


@pytest.mark.parametrize(
    ("digits", "usps", "verdict"),
    [(0.6, 0.1, "reproduced"), (0.2, 0.6, "contradicted"), (0.205, 0.2, "undecided")],
)
def test_significant_similarity_on_three_sets_is_judged_on_six(digits, usps, verdict):
    spread = np.linspace(-0.05, 0.05, 10)
    means = {"Digits": digits, "Segment": 0.7, "MNIST": 0.7, "Letter": 0.1, "Pendigits": 0.1, "USPS": usps}
    groups = [similar(name, mean + spread) for name, mean in means.items()]
    (claim,) = [c for c in check_claims(results(*groups)) if "inter-task" in c.says]
    assert (claim.verdict, claim.runs) == (verdict, 10)
    assert all(f"{name} " in claim.details for name in means)
    assert not check_claims(results(*groups[:5]))  # the figures of all six, or none
