"""The numbers of a report: means, intervals, wins, paired tests, claims, references, order of arms."""

import math

import numpy as np
import pytest
from scipy import stats

from kinbandits.plotting import cluster_order
from kinbandits.results import Run, RunGroup, compare_all, half_width, holm, paired, summarise
from kinbandits.trace import Trace

EST, IND, POOL, KNOWN = "KMTL-UCB-Est", "Kernel-UCB-Ind", "Kernel-UCB-Pool", "KMTL-UCB"


def result(total, rounds=4, expected=None, known=True):
    regret = np.full(rounds, total / rounds) if known else np.full(rounds, np.nan)
    means = np.full(rounds, np.nan if expected is None else expected / rounds)
    columns = {"t": np.arange(rounds), "reward": np.full(rounds, 0.25), "regret": regret, "expected_regret": means}
    return Trace.of(columns, {"arms": ["a", "b", "c"], "policy": "p", "similarity": np.eye(3).tolist()})


def group(name, **finals):
    names = {"est": EST, "ind": IND, "pool": POOL, "known": KNOWN}
    runs = [
        Run(name, names.get(m, m), seed, result(total), 1.0)
        for m, totals in finals.items()
        for seed, total in enumerate(totals)
    ]
    return RunGroup(name, tuple(runs))


def test_a_summary_against_the_textbook():
    a, b = summarise(group("x", est=[1.0, 2.0, 6.0], ind=[2.0, 2.0, 3.0]))
    assert (a.mean, a.sd) == (3.0, pytest.approx(np.std([1, 2, 6], ddof=1)))
    low, high = stats.t.interval(0.95, 2, loc=3.0, scale=stats.sem([1, 2, 6]))
    assert (a.low, a.high) == (pytest.approx(low), pytest.approx(high))
    assert (a.best, b.best) == (2, 2)  # the tie counts for both
    assert a.finals == (1.0, 2.0, 6.0)


def test_a_comparison_is_paired():
    c = paired(group("x", est=[1.0, 2.0, 6.0, 4.0], ind=[2.0, 2.0, 3.0, 9.0]), EST, IND)
    assert (c.wins, c.ties, c.losses, c.seeds) == (2, 1, 1, 4)
    assert c.difference == -0.75
    assert c.t_test == pytest.approx(stats.ttest_rel([1, 2, 6, 4], [2, 2, 3, 9]).pvalue)
    assert c.wilcoxon == pytest.approx(stats.wilcoxon([-1, 3, -5], method="exact").pvalue)


def test_one_seed_has_no_interval_and_no_test():
    p = group("x", est=[1.0], ind=[2.0])
    assert math.isnan(summarise(p)[0].sd)
    assert math.isnan(summarise(p)[0].low)
    assert math.isnan(paired(p, EST, IND).t_test)
    assert np.isnan(half_width(np.ones((1, 3)))).all()


def test_only_seeds_that_all_methods_have_are_compared():
    p = group("x", est=[1.0, 2.0, 3.0], ind=[5.0, 6.0])
    assert p.seeds == [0, 1]
    assert p.finals(EST).tolist() == [1.0, 2.0]


def test_holm_against_its_definition():
    assert holm([0.01, math.nan, 0.04, 0.03, 0.5])[1:2] != [0.0]
    adjusted = holm([0.01, 0.04, 0.03, 0.5])
    assert adjusted == pytest.approx([0.04, 0.09, 0.09, 0.5])
    both = compare_all([group("x", est=[1.0, 2.0, 4.0], ind=[3.0, 5.0, 5.5], pool=[1.1, 2.0, 4.3])])
    assert [c.adjusted for c in both] == pytest.approx(holm([c.t_test for c in both]))


def test_what_is_counted():
    def metric(**options):
        return RunGroup("x", (Run("x", "m", 0, result(2.0, **options)),)).metric

    assert metric() == "regret"
    assert metric(expected=2.0) == "regret"  # no noise: the same
    assert metric(expected=1.0) == "expected regret"
    assert metric(known=False) == "average reward"
    replayed = RunGroup("x", tuple(Run("x", m, 0, result(2.0, known=False)) for m in "ab"))
    assert replayed.finals("a").tolist() == [0.25]
    assert replayed.better == 1


def test_the_order_of_arms_brings_blocks_together():
    block = np.array([0, 1, 2, 0, 1, 2, 0, 1])
    K = np.where(block[:, None] == block, 0.8, 0.1)
    np.fill_diagonal(K, 1.0)
    order = cluster_order(K)
    assert sorted(order) == list(range(8))
    assert np.count_nonzero(np.diff(block[order])) == 2
    assert cluster_order(np.eye(2)).tolist() == [0, 1]
