"""The control of the estimated similarity (counts alone), the sweep, and the report on both."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinbandits as kb
from kinbandits.experiments import run_experiment
from kinbandits.history import History
from kinbandits.paper import paper_experiment, sweep_experiment, write_paper_report
from kinbandits.paper.report import SWEEP, synthetic_figure
from kinbandits.paper.sweep import controls, count_effects, counts_figure, sweep_figure, sweep_points
from kinbandits.report.results import Results
from kinbandits.similarity import CountOnly
from kinbandits.testing import check_similarity


@settings(max_examples=60, deadline=None)
@given(
    arms=st.lists(st.integers(0, 3), min_size=1, max_size=25),
    length_scale=st.floats(0.05, 3.0),
    seed=st.integers(0, 100),
)
def test_counts_alone_are_the_limit_of_a_narrow_kernel(arms, length_scale, seed):
    """k' -> 0 off the diagonal: Estimated becomes CountOnly, whatever the (different) contexts are."""
    X = np.random.default_rng(seed).normal(size=(len(arms), 2))
    history = History.of(4, np.array(arms), X, np.zeros(len(arms)))
    narrow = kb.Estimated(length_scale, embedding_kernel=kb.RBF(1e-6))
    np.testing.assert_allclose(
        narrow.matrix(history), CountOnly(length_scale).matrix(history), rtol=1e-9, atol=1e-300
    )


def test_counts_alone_do_not_look_at_contexts_and_are_a_similarity():
    rng = np.random.default_rng(0)
    arms = rng.integers(0, 3, 20)
    first, second = (History.of(3, arms, rng.normal(size=(20, 2)), rng.normal(size=20)) for _ in range(2))
    np.testing.assert_array_equal(CountOnly(0.3).matrix(first), CountOnly(0.3).matrix(second))
    check_similarity(CountOnly(0.3))


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    place = tmp_path_factory.mktemp("paper")
    names = ["synthetic", "digits"]
    run_experiment(paper_experiment(names, seeds=2, horizon=60), place, jobs=1)
    run_experiment(sweep_experiment(names, seeds=2, horizon=60), place, jobs=1, name=SWEEP)
    return place


def test_the_estimate_and_counts_beside_each_other(directory):
    _, digits = count_effects(Results.load(directory))
    assert digits.where == "Digits"
    counts = []
    for path in (directory / "cells").glob("*.npz"):
        trace = kb.trace.Trace.load(path)
        if trace.metadata["environment"] == "Digits" and trace.metadata["method"] == "KMTL-UCB-Est":
            assert sum(trace.metadata["counts"]) == 60 + 10  # rounds and start rows
            counts.append(trace)
    inverse = 1.0 / np.array([t.metadata["counts"] for t in counts])
    by_hand = np.exp(-100.0 * (inverse[:, :, None] + inverse[:, None])).mean(axis=0)
    off = ~np.eye(10, dtype=bool)
    np.testing.assert_allclose(digits.counted[off], by_hand[off])
    assert -1.0 <= digits.correlation <= 1.0


def test_the_sweep_in_numbers(directory):
    sweep = Results.load(directory, SWEEP)
    points = {(p.where, p.method, p.multiplier): p for p in sweep_points(sweep)}
    assert len(points) == 4 * 2 + 3 * 3 + 1
    main = Results.load(directory).group("Digits")
    assert points["Digits", "KMTL-UCB-Est", 0.1].finals == tuple(main.finals("KMTL-UCB-Est"))
    assert points["Digits", "Kernel-UCB-Ind", 0.1].finals == tuple(main.finals("Kernel-UCB-Ind"))
    found = {(c.where, c.second, c.multiplier): c for c in controls(sweep)}
    c = found["Digits", "counts only", 1.0]
    gap = np.subtract(points["Digits", "KMTL-UCB-Est", 1.0].finals, points["Digits", "counts only", 1.0].finals)
    assert (c.paired.difference, c.paired.wins, c.paired.losses) == (gap.mean(), (gap < 0).sum(), (gap > 0).sum())


def test_the_report_of_the_paper(directory, tmp_path):
    made = write_paper_report(directory, tmp_path / "page", formats=["png"])
    page = made.page.read_text(encoding="utf-8")
    for name in ("claims", "counts", "sweep", "synthetic", "readings"):
        assert f'id="{name}"' in page
    assert [s.name for s in made.extra] == ["claims", "counts", "sweep", "sweep-points", "synthetic", "readings"]
    for name in ("claims", "counts", "sweep", "sweep-points"):
        assert (tmp_path / "page" / f"{name}.csv").exists()
    header = (tmp_path / "page" / "claims.csv").read_text().splitlines()[0]
    assert header == "where,says,source,claimed,holds,runs,verdict,difference,low,high,p,adjusted,details"
    assert json.loads((directory / "sweep.json").read_text())["record"]["name"] == "The paper, other exploration"
    assert "28.8" in page  # the angles of the runs
    assert "780" in page


def test_nothing_is_cut_off(directory, tmp_path):
    from kinbandits.plotting import save_figure

    effects, points = list(count_effects(Results.load(directory))), sweep_points(Results.load(directory, SWEEP))
    synthetic = kb.environments.SyntheticNews()
    for figure in (counts_figure(effects), sweep_figure(points), synthetic_figure(synthetic, users=50)):
        save_figure(figure, tmp_path / "figure", [])
        figure.set_dpi(200)
        drawn = figure.get_tightbbox().transformed(figure.dpi_scale_trans)
        assert min(drawn.x0, drawn.y0, figure.bbox.width - drawn.x1, figure.bbox.height - drawn.y1) >= 0.0
