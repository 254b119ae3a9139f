"""Strips that grow row by row hold what the whole matrix holds, written or not yet."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from kinbandits.regression.strips import Rows, Strips


def matrix(t: int, rng: np.random.Generator) -> NDArray[np.float64]:
    K = rng.normal(size=(t, t))
    return np.asarray(K + K.T)


@pytest.mark.parametrize("filled", [0, 5, 90])
@pytest.mark.parametrize("read_each", [1, 7, 1000])
def test_grown_strips_are_the_rows_of_the_matrix(filled: int, read_each: int) -> None:
    rng = np.random.default_rng(3)
    t, n_arms = 300, 4
    arms = rng.choice(3, size=t, p=[0.7, 0.2, 0.1])  # the last arm has no rows; the first outgrows its places
    arms[150:180] = 2
    K = matrix(t, rng)
    rows, strips = Rows(n_arms), Strips(n_arms)
    for i in range(filled):
        rows.append(int(arms[i]), i)
    if filled:
        strips.fill(rows, K[:filled, :filled])
    for i in range(filled, t):
        a = int(arms[i])
        rows.append(a, i)
        arranged = strips.append(rows, a, K[i, : i + 1])
        played = [b for b in range(n_arms) if len(rows[b])]
        for b in played:
            held = rows[b]
            assert (rows.part(arranged, b, len(held)) == K[i, held]).all()
            v = rng.normal(size=len(held))
            expected = v @ K[held, : i + 1]
            assert strips.times(b, v) == pytest.approx(expected, rel=1e-12, abs=1e-12)
        if i % read_each == 0:
            b = int(rng.choice(played))  # one arm's strip is read, the others wait
            assert (strips.strip(b, len(rows[b])) == K[rows[b], : i + 1]).all()
    assert (strips.dense(rows) == K).all()
    assert strips.nbytes >= K.nbytes


def test_an_arm_that_comes_late_has_all_columns() -> None:
    rng = np.random.default_rng(4)
    K = matrix(600, rng)
    rows, strips = Rows(2), Strips(2)
    for i in range(600):
        a = int(i in (0, 599))
        rows.append(a, i)
        strips.append(rows, a, K[i, : i + 1])
    assert (strips.strip(1, 2) == K[[0, 599]]).all()
