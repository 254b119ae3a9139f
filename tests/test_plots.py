"""Pictures and tables of single objects: nothing is cut off, notebooks show them, and the numbers add up."""

from __future__ import annotations

import builtins

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.errors import MissingPackageError
from kinbandits.trace import Trace

ENVIRONMENT = kb.environments.SyntheticNews(horizon=40)
POLICIES = {
    "with descriptors": lambda e: kb.KMTLUCB(e.arms, similarity=kb.Known(descriptors=e.descriptors)),
    "Lin-UCB": lambda e: kb.baselines.lin_ucb(e.arms),
}


@pytest.fixture(scope="module")
def compared():
    return kb.compare(POLICIES, ENVIRONMENT, seeds=3)


def taught(n_arms: int = 12) -> kb.KMTLUCB:
    names = [f"a rather long name of product {i}" for i in range(n_arms)]
    policy = kb.KMTLUCB(names, similarity=kb.Known(descriptors=np.linspace(0, 1, n_arms)), rewards=(-1.0, 2.0))
    rng = np.random.default_rng(0)
    policy.observe(rng.choice(names, 30), rng.normal(size=(30, 2)), rng.random(30))
    return policy


def outside(figure) -> float:
    """By how many pixels what is drawn stands beyond the image."""
    drawn = figure.get_tightbbox().transformed(figure.dpi_scale_trans)
    return max(-drawn.x0, -drawn.y0, drawn.x1 - figure.bbox.width, drawn.y1 - figure.bbox.height)


@pytest.mark.slow
def test_every_figure_fits_and_is_shown_by_a_notebook(compared):
    policy = taught()
    figures = [
        compared.group.of("Lin-UCB")[1].trace.plot(),
        compared.plot(),
        compared.plot_differences(),
        policy.plot_similarity(),
        taught(60).plot_similarity(),
        policy.explain(policy.choose([0.0, 1.0])).plot(),
    ]
    for figure in figures:
        assert figure._repr_png_().startswith(b"\x89PNG")
        assert outside(figure) <= 0.0


@pytest.mark.parametrize(
    ("policies", "environment", "options", "match"),
    [
        ({}, ENVIRONMENT, {}, "policies is empty"),
        ({"a": kb.KMTLUCB(3)}, ENVIRONMENT, {}, "must be a policy class or a function"),
        ({"a": lambda e: 3}, ENVIRONMENT, {}, "made int, not a policy"),
        (POLICIES, 3, {}, "environment must have a seed"),
        (POLICIES, ENVIRONMENT, {"seeds": [1, 1]}, "different numbers"),
        (POLICIES, ENVIRONMENT, {"seeds": 0}, "seeds must be at least 1"),
    ],
)
def test_compare_says_what_is_wrong(policies, environment, options, match):
    with pytest.raises((TypeError, ValueError), match=match):
        kb.compare(policies, environment, **options)


def test_an_empty_trace_has_no_figure():
    with pytest.raises(ValueError, match="nothing to plot"):
        Trace.of({"t": []}).plot()


def test_an_explanation_adds_up_and_is_a_sentence():
    policy = taught()
    told = policy.explain(policy.choose([0.0, 1.0]))
    assert sum(value for _, value in told.parts(3)) == pytest.approx(told.mean)
    assert told.level == -1.0
    assert told.parts(3)[-1][0] == f"and {sum(v != 0 for v in told.contributions.values()) - 3} more"
    assert str(told).startswith(f"Arm {told.arm!r} is estimated at {told.mean:.3g}: every arm starts at -1, ")
    assert "The other arms' rows narrow its width" in told.sentence
    alone = kb.KMTLUCB(2, similarity=kb.Independent())
    assert "it has no rows of its own, nothing comes from other arms." in alone.explain_arm(0, [1.0]).sentence


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingPackageError, match=r"pip install 'kinbandits\[plot\]'"):
        taught().plot_similarity()


def test_progress_true_shows_a_bar(capsys):
    kb.compare({"Lin-UCB": lambda e: kb.baselines.lin_ucb(e.arms)}, ENVIRONMENT, seeds=2, horizon=5, progress=True)
    kb.simulate(kb.KMTLUCB(ENVIRONMENT.arms), ENVIRONMENT, 5, progress=True)
    said = capsys.readouterr().err
    assert "runs: 2 of 2" in said
    assert "rounds: 5 of 5" in said


def test_a_comparison_is_a_table(compared):
    frame = compared.to_pandas()
    assert list(frame.columns) == ["policy", "seed", "regret", "mean_reward", "seconds"]
    assert len(frame) == 6
    assert "with descriptors" in str(compared)
    assert "first minus it" in compared._repr_html_()
