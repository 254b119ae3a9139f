"""The numbers of a report: means, intervals, wins, paired tests, claims, references, order of arms."""

import math

import numpy as np
import pytest
from scipy import stats

from kinbandits.experiments.storage import CellResult
from kinbandits.report.claims import check_claims
from kinbandits.report.figures import OKABE_ITO, cluster_order, looks
from kinbandits.report.reference import MEANS, PER_STREAM, STREAMS_SHA256, check_reference
from kinbandits.report.results import Problem, Results, Run
from kinbandits.report.statistics import compare, compare_all, half_width, holm, summarise

EST, IND, POOL, KNOWN = "KMTL-UCB-Est", "Kernel-UCB-Ind", "Kernel-UCB-Pool", "KMTL-UCB"


def result(total, rounds=4, expected=None, known=True):
    regret = np.full(rounds, total / rounds) if known else np.full(rounds, np.nan)
    means = np.full(rounds, np.nan if expected is None else expected / rounds)
    return CellResult(
        arms=np.zeros(rounds, dtype=np.int16),
        rewards=np.full(rounds, 0.25),
        regret=regret,
        expected_regret=means,
        similarity=np.eye(3),
        header={"arms": ["a", "b", "c"], "policy": "p"},
    )


def problem(name, **finals):
    names = {"est": EST, "ind": IND, "pool": POOL, "known": KNOWN}
    runs = [
        Run(name, names.get(m, m), seed, result(total), 1.0)
        for m, totals in finals.items()
        for seed, total in enumerate(totals)
    ]
    return Problem(name, tuple(runs))


def results(*problems, record=None):
    return Results("r", problems, record or {"environments": {}, "methods": {}})


def test_a_summary_against_the_textbook():
    a, b = summarise(problem("x", est=[1.0, 2.0, 6.0], ind=[2.0, 2.0, 3.0]))
    assert (a.mean, a.sd) == (3.0, pytest.approx(np.std([1, 2, 6], ddof=1)))
    low, high = stats.t.interval(0.95, 2, loc=3.0, scale=stats.sem([1, 2, 6]))
    assert (a.low, a.high) == (pytest.approx(low), pytest.approx(high))
    assert (a.best, b.best) == (2, 2)  # the tie counts for both
    assert a.finals == (1.0, 2.0, 6.0)


def test_a_comparison_is_paired():
    c = compare(problem("x", est=[1.0, 2.0, 6.0, 4.0], ind=[2.0, 2.0, 3.0, 9.0]), EST, IND)
    assert (c.wins, c.ties, c.losses, c.seeds) == (2, 1, 1, 4)
    assert c.difference == -0.75
    assert c.t_test == pytest.approx(stats.ttest_rel([1, 2, 6, 4], [2, 2, 3, 9]).pvalue)
    assert c.wilcoxon == pytest.approx(stats.wilcoxon([-1, 3, -5], method="exact").pvalue)


def test_one_seed_has_no_interval_and_no_test():
    p = problem("x", est=[1.0], ind=[2.0])
    assert math.isnan(summarise(p)[0].sd)
    assert math.isnan(summarise(p)[0].low)
    assert math.isnan(compare(p, EST, IND).t_test)
    assert np.isnan(half_width(np.ones((1, 3)))).all()


def test_only_seeds_that_all_methods_have_are_compared():
    p = problem("x", est=[1.0, 2.0, 3.0], ind=[5.0, 6.0])
    assert p.seeds == [0, 1]
    assert p.finals(EST).tolist() == [1.0, 2.0]


def test_holm_against_its_definition():
    assert holm([0.01, math.nan, 0.04, 0.03, 0.5])[1:2] != [0.0]
    adjusted = holm([0.01, 0.04, 0.03, 0.5])
    assert adjusted == pytest.approx([0.04, 0.09, 0.09, 0.5])
    both = compare_all(results(problem("x", est=[1.0, 2.0, 4.0], ind=[3.0, 5.0, 5.5], pool=[1.1, 2.0, 4.3])))
    assert [c.adjusted for c in both] == pytest.approx(holm([c.t_test for c in both]))


def test_what_is_counted():
    def metric(**options):
        return Problem("x", (Run("x", "m", 0, result(2.0, **options)),)).metric

    assert metric() == "regret"
    assert metric(expected=2.0) == "regret"  # no noise: the same
    assert metric(expected=1.0) == "expected regret"
    assert metric(known=False) == "average reward"
    replayed = Problem("x", tuple(Run("x", m, 0, result(2.0, known=False)) for m in "ab"))
    assert replayed.finals("a").tolist() == [0.25]
    assert replayed.better == 1


def test_claims_say_in_how_many_runs():
    found = results(
        problem("Digits", est=[1.0, 2.0, 3.0], ind=[2.0, 3.0, 2.9]),
        problem("Letter", est=[5.0, 6.0, 7.0], ind=[1.0, 2.0, 3.5]),
        problem("USPS", est=[1.0, 2.0, 3.0], ind=[2.0, 1.0, 3.0]),
        problem("Synthetic news", known=[1.0, 5.0], est=[2.0, 2.0], ind=[2.1, 2.0], pool=[9.0, 8.0]),
    )
    claims = {(c.where, c.says.split(" (")[0]): (c.holds, c.runs, c.verdict) for c in check_claims(found)}
    assert claims == {
        ("Digits", "KMTL-UCB-Est is better than Kernel-UCB-Ind"): (2, 3, "holds on average"),
        ("Letter", "KMTL-UCB-Est is no worse than Kernel-UCB-Ind"): (0, 3, "does not hold"),
        ("USPS", "KMTL-UCB-Est is no worse than Kernel-UCB-Ind"): (2, 3, "holds on average"),
        ("Synthetic news", "KMTL-UCB with known similarity beats the other methods"): (1, 2, "does not hold"),
        ("Synthetic news", "Kernel-UCB-Pool is the worst"): (2, 2, "holds"),
        ("Synthetic news", "KMTL-UCB-Est and Kernel-UCB-Ind perform equally well"): (2, 2, "holds"),
    }


def test_the_reference_is_asked_only_where_it_applies():
    listed = [float(v) for v in PER_STREAM["Digits", EST]]
    listed[3] += 2.0
    stream = {"kind": "streams", "path": {"file": "streams.npz", "sha256": STREAMS_SHA256}}
    record = {
        "environments": {"Digits": stream},
        "methods": {f"{EST} on Digits": {"preset": EST}, f"{IND} on Digits": {"preset": None}},
    }
    found = results(problem("Digits", est=listed, ind=[1.0] * 10), record=record)
    (row,) = check_reference(found)
    assert (row.method, row.equal, row.largest) == (EST, 9, 2.0)
    assert row.off == pytest.approx(100 * 0.2 / MEANS["Digits", EST])
    stream["path"]["sha256"] = "other"
    assert check_reference(found) == []


def test_reference_means_are_those_of_the_protocol():
    rounded = {key: round(value) for key, value in MEANS.items()}
    assert rounded["Digits", EST] == 325
    assert rounded["Segment", IND] == 183
    assert (rounded["USPS", EST], rounded["MNIST", IND], rounded["Letter", IND]) == (970, 1052, 2522)


def test_the_order_of_arms_brings_blocks_together():
    block = np.array([0, 1, 2, 0, 1, 2, 0, 1])
    K = np.where(block[:, None] == block, 0.8, 0.1)
    np.fill_diagonal(K, 1.0)
    order = cluster_order(K)
    assert sorted(order) == list(range(8))
    assert np.count_nonzero(np.diff(block[order])) == 2
    assert cluster_order(np.eye(2)).tolist() == [0, 1]


def test_methods_look_the_same_everywhere_and_differ_from_each_other():
    both = looks(results(problem("x", est=[1.0], other=[1.0]), problem("y", ind=[1.0], est=[1.0])))
    assert both[EST]["color"] == OKABE_ITO[1]
    assert len({v["color"] for v in both.values()}) == 3
    assert len({v["linestyle"] for v in both.values()}) == 3
