"""Every figure shows all of itself: nothing drawn stands outside the image that is saved."""

import numpy as np
import pytest

from kinbandits import figures
from kinbandits.plotting import save_figure
from kinbandits.results import Results, Run, RunGroup
from kinbandits.trace import Trace

METHODS = ("KMTL-UCB", "KMTL-UCB-Est", "Kernel-UCB-Ind at Est's settings")


def results(n_groups):
    rng = np.random.default_rng(0)

    def run(name, method, seed):
        similarity = np.exp(-rng.random((5, 5)))
        similarity = (similarity + similarity.T) / 2
        columns = {"t": np.arange(30), "reward": rng.random(30), "regret": rng.random(30)}
        metadata = {"arms": [f"article {a}" for a in range(5)], "policy": "p", "similarity": similarity.tolist()}
        return Run(name, method, seed, Trace.of(columns, metadata))

    groups = tuple(
        RunGroup(f"A problem, {i}", tuple(run(f"A problem, {i}", m, s) for m in METHODS for s in range(3)))
        for i in range(n_groups)
    )
    return Results("r", groups, {"environments": {}, "methods": {}})


def outside(figure):
    """By how many pixels what is drawn stands beyond the image, at the resolution that is saved."""
    drawn = figure.get_tightbbox().transformed(figure.dpi_scale_trans)
    width, height = figure.bbox.width, figure.bbox.height
    return max(-drawn.x0, -drawn.y0, drawn.x1 - width, drawn.y1 - height)


@pytest.mark.parametrize("n_groups", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 7))])
@pytest.mark.parametrize(
    "draw",
    [
        figures.regret_figure,
        figures.appendix_figure,
        figures.difference_figure,
        figures.similarity_figure,
    ],
    ids=["regret", "appendix", "difference", "similarity"],
)
def test_nothing_is_cut_off(draw, n_groups, tmp_path):
    figure = draw(results(n_groups))
    save_figure(figure, tmp_path / "figure", [])  # laid out as every file of it
    figure.set_dpi(200)
    assert outside(figure) <= 0.0


@pytest.mark.parametrize(("known", "side"), [(True, "left"), (False, "right")])
def test_the_difference_figure_says_which_side_is_better(known, side):
    """Of regret less is better, of the average reward of a replayed log more."""

    def run(method, seed, reward):
        regret = np.full(4, 1.0 - reward) if known else np.full(4, np.nan)
        columns = {"t": np.arange(4), "reward": np.full(4, reward), "regret": regret}
        return Run("x", method, seed, Trace.of(columns, {"arms": ["a"], "policy": "p", "similarity": []}))

    group = RunGroup("x", tuple(run(m, s, r + 0.01 * s) for m, r in (("good", 0.8), ("bad", 0.3)) for s in range(3)))
    (ax,) = figures.difference_figure(Results("r", (group,), {})).axes
    assert f"{side} of 0 the first is better" in ax.get_xlabel()
    dots = ax.lines[0].get_xdata()
    assert (np.asarray(dots) > 0).all() == (side == "right")  # and there the better one, named first, stands


def test_similarities_have_one_scale():
    figure = figures.similarity_figure(results(3))
    limits = {image.get_clim() for ax in figure.axes for image in ax.images}
    assert limits == {(0.0, 1.0)}
