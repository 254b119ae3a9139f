"""Bounds on the width s, and on sums of widths along a run.

Notation
    s, s^2   width and its square, s^2 = (k - k_t' (K + lambda I)^-1 k_t) / lambda, uniform weights
    k        prior          k~(x~, x~) of the candidate
    c_k      kernel_bound   bound on k~(x~, x~)
    n        the largest number of rows that one arm has, the candidate included
    lmax     lmax_z         largest eigenvalue of the (N, N) similarity matrix, whose diagonal is one
    L        n c_k lmax, which bounds the largest eigenvalue of K
"""

from __future__ import annotations

import math
from typing import Literal

from kinbandits._value import one_of, positive
from kinbandits.errors import InvalidInputError
from kinbandits.theory.conditions import magnitude, whole


def width_upper_bound(kernel_bound: float, ridge: float) -> float:
    """Lemma 6, right side: s^2 <= c_k / lambda. (It bounds the square of the width.)

    >>> width_upper_bound(kernel_bound=1.0, ridge=0.25)
    4.0
    """
    return positive("kernel_bound", kernel_bound) / positive("ridge", ridge)


def width_lower_bound(
    n: int,
    kernel_bound: float,
    lmax_z: float,
    prior: float,
    ridge: float,
    form: Literal["derived", "printed"] = "derived",
) -> float:
    """Lemma 6, left side: s^2 >= 4 (L + lambda) / (L + 2 lambda)^2 (k + lambda) - 1, with L = n c_k lmax(K_Z).

    It bounds the square of the width, and is often below zero, where it says nothing. It falls as lmax(K_Z)
    grows, hence as mu does in K_Z(mu) (Theorem 4).

    The paper has equal counts; any will do with n the largest. The "printed" form has 4 L + lambda in the
    numerator: a weaker bound, and for small L one that rises with mu, against Theorem 4.

    >>> width_lower_bound(n=1, kernel_bound=1.0, lmax_z=1.0, prior=1.0, ridge=1.0)
    0.7777777777777777
    """
    lam, c = positive("ridge", ridge), positive("kernel_bound", kernel_bound)
    k = positive("prior", prior, zero=True)
    if k > c * (1 + 1e-12):
        raise InvalidInputError(f"prior must be at most kernel_bound = {kernel_bound}, got {prior!r}")
    lmax = positive("lmax_z", lmax_z)
    if lmax < 1 - 1e-9:
        raise InvalidInputError(
            f"lmax_z must be at least 1, got {lmax_z!r}: the lemma needs a similarity matrix with a diagonal of "
            "ones, whose largest eigenvalue is at least 1"
        )
    L = whole("n", n, 1) * c * lmax
    numerator = 4 * (L + lam) if one_of("form", form, "derived", "printed") == "derived" else 4 * L + lam
    return numerator / (L + 2 * lam) ** 2 * (k + lam) - 1


def squared_width_sum_bound(log_g: float, kernel_bound: float, ridge: float) -> float:
    """Lemma 8 (the determinant lemma): the sum of s^2 over the rows of a run is at most 2 m log g.

    It needs uniform weights and a similarity that does not change. ``log_g`` of the rows themselves is enough;
    the paper counts one row more.

    >>> squared_width_sum_bound(log_g=3.0, kernel_bound=1.0, ridge=0.5)
    12.0
    """
    return 2 * magnitude(kernel_bound, ridge) * positive("log_g", log_g, zero=True)


def width_sum_bound(count: int, log_g: float, kernel_bound: float, ridge: float) -> float:
    """Lemma 9: the sum of s over ``count`` rows is at most sqrt(2 m count log g).

    >>> width_sum_bound(count=6, log_g=3.0, kernel_bound=1.0, ridge=1.0)
    6.0
    """
    return math.sqrt(whole("count", count, 0) * squared_width_sum_bound(log_g, kernel_bound, ridge))
