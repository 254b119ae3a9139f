"""Conditions that several statements of `kinbandits.theory` share."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinbandits._checks import as_float64, square_matrix
from kinbandits._types import Matrix, Vector
from kinbandits._value import as_int, positive, real
from kinbandits.errors import InvalidInputError, NotPositiveSemidefiniteError

_TOLERANCE = 1e-10  # of the largest entry: how far a matrix may be from symmetric and positive semidefinite


def whole(name: str, value: object, least: int) -> int:
    """``value`` as an int of at least ``least``; 1e4 is one."""
    integral = isinstance(value, float | np.floating) and float(value).is_integer()
    return as_int(name, int(value) if integral else value, least)  # type: ignore[call-overload]


def probability(name: str, value: float) -> float:
    """``value`` in (0, 1]."""
    number = real(name, value)
    if not 0.0 < number <= 1.0:
        raise InvalidInputError(f"{name} must be a probability above 0 and at most 1, got {value!r}")
    return number


def kernel_matrix(name: str, values: Any) -> Matrix:
    """A symmetric matrix (positive semidefiniteness is seen from its eigenvalues, see `spectrum_of`)."""
    return square_matrix(name, values, symmetric=True) if np.size(values) else as_float64(name, values)


def spectrum_of(name: str, K: Matrix) -> Vector:
    """Eigenvalues, largest first; below zero by more than rounding, K is no kernel matrix and is refused."""
    eigenvalues = np.asarray(np.linalg.eigvalsh(K), dtype=np.float64) if K.size else np.zeros(0)
    return nonnegative(f"the eigenvalues of {name}", eigenvalues)


def nonnegative(name: str, values: Vector) -> Vector:
    """``values``, largest first, with what is only rounding (of size n eps max) set to zero."""
    ordered = np.sort(values)[::-1]
    if not ordered.size:
        return ordered
    scale = max(float(np.abs(ordered).max()), np.finfo(float).tiny)
    if ordered[-1] < -_TOLERANCE * scale:
        raise NotPositiveSemidefiniteError(
            f"{name} must not be negative, but one is {ordered[-1]:.6g}; a kernel matrix is positive semidefinite"
        )
    rounding = len(ordered) * np.finfo(float).eps * scale
    return np.where(ordered > rounding, ordered, 0.0)


def magnitude(kernel_bound: float, ridge: float) -> float:
    """m = max(1, c_k / lambda) of Theorem 1."""
    return max(1.0, positive("kernel_bound", kernel_bound) / positive("ridge", ridge))
