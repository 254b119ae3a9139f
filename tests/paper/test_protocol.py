"""The paper's experiments: what is run, the settings, and the estimate of time."""

import json

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
    horizons = {c.environment.name: c.environment.make(0).horizon for c in cells if c.environment.name != "x"}
    assert horizons == {
        "Synthetic news": 1000,
        "Digits": 1230,
        "Segment": 1000,
        "Letter": 4000,
        "Pendigits": 4000,
        "USPS": 4000,
        "MNIST": 4000,
    }


def test_paper_settings_are_the_published_ones():
    (cell, *_) = p.paper_experiment(["digits"], seeds=1, horizon=3).cells()
    _, policy = cell.make()
    expected = kb.KMTLUCB(10, **kb.presets.paper("digits"))
    assert policy.similarity == expected.similarity
    assert policy.context_kernel == expected.context_kernel
    assert (policy.ridge, policy.exploration) == (expected.ridge, expected.exploration)


def test_tuned_settings_are_the_library_s_own():
    for cell in p.paper_experiment(["synthetic", "digits"], seeds=1, horizon=3, settings="tuned").cells():
        _, policy = cell.make()
        default = kb.KMTLUCB(2)
        assert (policy.ridge, policy.exploration, policy.weighting) == (
            default.ridge,
            default.exploration,
            default.weighting,
        )


def test_cross_validated_settings_are_found_kept_and_used(tmp_path, monkeypatch):
    searched = []
    choose = p.choose_settings
    monkeypatch.setattr(
        p, "choose_settings", lambda name, **o: searched.append(name) or choose(name, **o, grid=TINY)
    )
    said = []
    options = {"streams": None, "n_jobs": 1, "say": said.append}
    names = ["synthetic", "digits"]
    chosen = p.cached_choices(names, tmp_path, **options)
    again = p.cached_choices(names, tmp_path, **options)
    assert searched == names  # the second time they are read
    assert {k: c.best for k, c in chosen["digits"].items()} == {k: c.best for k, c in again["digits"].items()}
    assert set(chosen["synthetic"]) == {"known", "estimated", "independent", "pooled"}
    assert json.loads((tmp_path / "settings" / "digits.json").read_text())["independent"]["best"]
    cells = p.paper_experiment(names, seeds=1, settings="cv", chosen=chosen, horizon=3).cells()
    for cell in cells:
        _, policy = cell.make()
        name = {"Digits": "digits"}.get(cell.environment.name, "synthetic")
        assert policy.ridge == chosen[name][p._KINDS[cell.method.name]].best["ridge"]
    assert any("digits, estimated: context_precision" in line for line in said)


def test_the_estimate_grows_with_the_work():
    def seconds(text):
        return text.partition("about ")[2].partition(" with")[0]

    one = p.paper_experiment(["digits"], seeds=1)
    short = p.time_estimate([one, one], ["digits"], 2, "paper")
    assert short.startswith("2 runs on digits: about ")  # a run in both is counted once
    assert seconds(short) != seconds(p.time_estimate([p.paper_experiment()], p.DATA, 2, "paper"))


def test_the_sweep_shares_the_published_runs_and_changes_one_thing_at_a_time():
    paper, sweep = (f(["digits", "segment"], seeds=2) for f in (p.paper_experiment, p.sweep_experiment))
    assert len(sweep.cells()) == 2 * 2 * 10
    known = {c.id for c in paper.cells()}
    shared = {(c.environment.name, c.method.name) for c in sweep.cells() if c.id in known}
    ours = [p.sweep_name(m, 0.1) for m in (p.EST, p.IND)]
    assert shared == {(e, m) for e in ("Digits", "Segment") for m in ours}
    settings = {}
    for cell in sweep.cells():
        if cell.environment.name == "Digits" and cell.seed == 0:
            settings[cell.method.name] = cell.make()[1].get_params()
    base = settings[p.sweep_name(p.EST, 0.1)]
    for name, params in settings.items():
        method, multiplier = name.split(", ")
        different = {k for k in base if repr(base[k]) != repr(params[k])}
        allowed = {"similarity", "kernel"} if method != p.EST else set()
        assert different <= allowed | ({"exploration"} if multiplier != "0.1" else set()), name


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"data": ["iris"]}, "the paper has no data set 'iris'"),
        ({"data": []}, "no data set is named"),
        ({"settings": "best"}, "settings must be one of paper, tuned, cv"),
        ({"settings": "cv"}, "needs chosen="),
    ],
)
def test_wrong_asks(arguments, text):
    with pytest.raises(InvalidInputError, match=text):
        p.paper_experiment(**arguments)
