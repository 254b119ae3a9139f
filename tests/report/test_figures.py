"""Every figure shows all of itself: nothing drawn stands outside the image that is saved."""

import itertools

import numpy as np
import pytest
from matplotlib.text import Text

from kinbandits import figures
from kinbandits.plotting import save_figure
from kinbandits.results import Run, RunGroup
from kinbandits.trace import Trace

METHODS = ("KMTL-UCB", "KMTL-UCB-Est", "Kernel-UCB-Ind at Est's settings")


def groups_of(n_groups):
    rng = np.random.default_rng(0)

    def run(name, method, seed):
        similarity = np.exp(-rng.random((5, 5)))
        similarity = (similarity + similarity.T) / 2
        columns = {"t": np.arange(30), "reward": rng.random(30), "regret": rng.random(30)}
        metadata = {"arms": [f"article {a}" for a in range(5)], "policy": "p", "similarity": similarity.tolist()}
        return Run(name, method, seed, Trace.of(columns, metadata))

    return tuple(
        RunGroup(f"A problem, {i}", tuple(run(f"A problem, {i}", m, s) for m in METHODS for s in range(3)))
        for i in range(n_groups)
    )


def outside(figure):
    """By how many pixels what is drawn stands beyond the image, at the resolution that is saved."""
    drawn = figure.get_tightbbox().transformed(figure.dpi_scale_trans)
    width, height = figure.bbox.width, figure.bbox.height
    return max(-drawn.x0, -drawn.y0, drawn.x1 - width, drawn.y1 - height)


@pytest.mark.parametrize("n_groups", [1, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["regret_figure", "appendix_figure", "difference_figure", "similarity_figure"])
def test_nothing_is_cut_off_and_no_two_names_overlap(name, n_groups, tmp_path):
    figure = getattr(figures, name)(groups_of(n_groups))
    save_figure(figure, tmp_path / "figure.png")
    figure.set_dpi(200)
    assert outside(figure) <= 0.0
    if name in ("regret_figure", "appendix_figure"):
        for ax in figure.axes[:n_groups]:
            names = sorted((Text.get_window_extent(text) for text in ax.texts), key=lambda box: box.y0)  # no leader
            assert len(names) == len(METHODS)
            assert all(a.y1 <= b.y0 + 0.15 * b.height for a, b in itertools.pairwise(names))


@pytest.mark.parametrize(("known", "side"), [(True, "left"), (False, "right")])
def test_the_difference_figure_says_which_side_is_better(known, side):
    """Of regret less is better, of the average reward of a replayed log more."""

    def run(method, seed, reward):
        regret = np.full(4, 1.0 - reward) if known else np.full(4, np.nan)
        columns = {"t": np.arange(4), "reward": np.full(4, reward), "regret": regret}
        return Run("x", method, seed, Trace.of(columns, {"arms": ["a"], "policy": "p", "similarity": []}))

    group = RunGroup("x", tuple(run(m, s, r + 0.01 * s) for m, r in (("good", 0.8), ("bad", 0.3)) for s in range(3)))
    (ax,) = figures.difference_figure([group]).axes
    assert f"{side} of 0 the first is better" in ax.get_xlabel()
    dots = ax.lines[0].get_xdata()
    assert (np.asarray(dots) > 0).all() == (side == "right")  # and there the better one, named first, stands


def test_similarities_have_one_scale():
    figure = figures.similarity_figure(groups_of(3))
    limits = {image.get_clim() for ax in figure.axes for image in ax.images}
    assert limits == {(0.0, 1.0)}


def test_methods_look_the_same_everywhere_and_differ_from_each_other():
    both = figures.looks(groups_of(2))
    assert list(both) == list(METHODS)
    assert len({v["color"] for v in both.values()}) == len({v["linestyle"] for v in both.values()}) == 3
