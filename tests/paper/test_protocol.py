"""The paper's experiments: what is run, and the settings."""

import pytest

import kinbandits as kb
from kinbandits.errors import InvalidInputError
from kinbandits.paper import protocol as p
from kinbandits.paper.crossval import Grid

TINY = Grid(context=[0.01, 0.1], embedding=[0.1], similarity=[1.0, 10.0], ridge=[0.01, 1.0])


def test_all_of_the_paper_is_ten_runs_each_and_fifty_on_the_synthetic_problem():
    experiment = p.paper_experiment()
    cells = experiment.cells()
    assert len(cells) == 50 * 4 + 10 * (3 + 5 * 2)
    assert len(p.paper_experiment(seeds=10).cells()) == 10 * (4 + 3 + 5 * 2)
    horizons = {c.environment.name: c.environment.make(0).horizon for c in cells}
    long = dict.fromkeys(("Letter", "Pendigits", "USPS", "MNIST"), 4000)
    assert horizons == {"Synthetic news": 1000, "Digits": 1230, "Segment": 1000} | long


def test_paper_settings_are_the_published_ones():
    (cell, *_) = p.paper_experiment(["digits"], seeds=1, horizon=3).cells()
    _, policy = cell.make()
    expected = kb.KMTLUCB(10, **kb.presets.paper("digits"))
    assert policy.similarity == expected.similarity
    assert policy.context_kernel == expected.context_kernel
    assert (policy.ridge, policy.exploration) == (expected.ridge, expected.exploration)


def test_cross_validated_settings_are_found_kept_and_used(tmp_path):
    names = ["synthetic", "digits"]
    chosen = p.choose_settings(names, grid=TINY, folder=tmp_path, jobs=1)
    assert set(chosen["synthetic"]) == {"known", "estimated", "independent", "pooled"}
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert "digits-estimated-0.npz" in kept
    for cell in p.paper_experiment(names, seeds=1, chosen=chosen, horizon=3).cells():
        _, policy = cell.make()
        name = {"Digits": "digits"}.get(cell.environment.name, "synthetic")
        best = chosen[name][p._KINDS[cell.method.name]].best
        assert policy.ridge == best["ridge"]
        assert policy.context_kernel == kb.RBF.from_precision(best["context_precision"])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"data": ["iris"]}, "the paper has no data set 'iris'"),
        ({"data": []}, "no data set is named"),
    ],
)
def test_wrong_asks(arguments, text):
    with pytest.raises(InvalidInputError, match=text):
        p.paper_experiment(**arguments)
