"""Strips that grow row by row hold what the whole matrix holds, written or not yet."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from kinbandits.regression.exact import matrix as module
from kinbandits.regression.exact.matrix import Rows, Strips


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that buffers are outgrown."""
    monkeypatch.setattr(module, "ROOM", 50)


def symmetric(t: int, rng: np.random.Generator) -> NDArray[np.float64]:
    K = rng.normal(size=(t, t))
    return np.asarray(K + K.T)


def grow(rows: Rows, strips: Strips, arm: int, values: NDArray[np.float64]) -> None:
    rows.reserve(arm)
    strips.reserve(arm)
    strips.append(arm, values)
    rows.append(arm)


@pytest.mark.parametrize("filled", [0, 5, 90])
@pytest.mark.parametrize("read_each", [1, 7, 1000])
def test_grown_strips_are_the_rows_of_the_matrix(filled: int, read_each: int) -> None:
    rng = np.random.default_rng(3)
    t, n_arms = 300, 4
    arms = rng.choice(3, size=t, p=[0.7, 0.2, 0.1])  # the last arm has no rows; the first outgrows its buffers
    arms[150:180] = 2
    K = symmetric(t, rng)
    rows = Rows(n_arms, arms[:filled])
    strips = Strips(rows, K[:filled, :filled])
    for i in range(filled, t):
        grow(rows, strips, int(arms[i]), K[i, : i + 1])
        played = [b for b in range(n_arms) if len(rows[b])]
        for b in played:
            held = rows[b]
            assert (held == np.flatnonzero(arms[: i + 1] == b)).all()
            v = rng.normal(size=len(held))
            expected = v @ K[held, : i + 1]
            np.testing.assert_allclose(strips.times(b, v), expected, rtol=1e-12, atol=1e-11)
        if i % read_each == 0:
            b = int(rng.choice(played))
            assert (strips.strip(b) == K[rows[b], : i + 1]).all()
    assert (strips.dense() == K).all()
    assert strips.nbytes >= K.nbytes


def test_an_arm_that_comes_late_has_all_columns() -> None:
    rng = np.random.default_rng(4)
    K = symmetric(600, rng)
    rows = Rows(2, np.zeros(0, dtype=np.intp))
    strips = Strips(rows, np.zeros((0, 0)))
    for i in range(600):
        grow(rows, strips, int(i in (0, 599)), K[i, : i + 1])
    assert (strips.strip(1) == K[[0, 599]]).all()


def test_a_strip_can_outgrow_its_height_and_width_at_once() -> None:
    K = symmetric(300, np.random.default_rng(5))
    rows = Rows(1, np.zeros(128, dtype=np.intp))
    strips = Strips(rows, K[:128, :128])
    for i in range(128, 300):
        grow(rows, strips, 0, K[i, : i + 1])
    assert (strips.strip(0) == K).all()
