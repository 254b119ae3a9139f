"""Input checks: each gives back a clean array or raises an error that names the argument and the fix."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinbandits._frames import as_table, is_frame, numbers
from kinbandits._types import Matrix
from kinbandits._value import real
from kinbandits.errors import InvalidInputError, InvalidTypeError

LARGEST = 1e50  # magnitude of a number we compute with: the product of several must be finite


def as_float64(name: str, values: Any) -> Matrix:
    """``values`` as numbers we compute with: finite, float64 of this machine's byte order, contiguous, a copy.

    The one door for arrays, of any shape: other dtypes and byte orders, strides, memory maps, nested lists, columns
    and tables of other libraries (their columns side by side). Text, masked entries, sparse matrices are refused.
    """
    if is_frame(values):
        values = numbers(as_table(values), as_table(values).columns)
    try:
        array = _converted(name, values)
    except InvalidTypeError:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{name} must be numbers in an array, got {type(values).__name__}: {error}") from error
    except OverflowError as error:
        raise InvalidInputError(f"{name} holds a number that is too large to compute with: {error}") from error
    if not array.size or np.abs(array).max() <= LARGEST:  # NaN is not
        return array
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InvalidInputError(
            f"{name} must be finite, but {name}{list(where) if where else ''} is {array[where]}; "
            "fill in or leave out missing values first"
        )
    raise InvalidInputError(
        f"{name} must be at most {LARGEST:g} in magnitude, or sums and products overflow, but it holds "
        f"{array.flat[np.abs(array).argmax()]:g}; divide by a unit that fits"
    )


def _converted(name: str, values: Any) -> Matrix:
    kind = type(values).__name__
    if type(values).__module__.startswith("scipy.sparse"):
        raise InvalidTypeError(f"{name} is a sparse matrix ({kind}); give {name}.toarray()")
    if any(map(np.ma.is_masked, values if isinstance(values, list | tuple) else [values])):
        raise InvalidTypeError(f"{name} has masked entries; fill them in or leave those rows out")
    given = np.asarray(values)
    if given.dtype.kind not in "biufO":
        raise InvalidTypeError(f"{name} must be numbers in an array, got {kind} of type {given.dtype}")
    if given.dtype.kind == "O":
        for value in given.flat:
            if isinstance(value, str | bytes | np.datetime64 | np.timedelta64):  # would be converted in silence
                raise InvalidTypeError(f"{name} must be numbers in an array, got {kind} with {value!r}")
    array = np.empty(given.shape)
    with np.errstate(over="ignore", invalid="ignore"):  # infinity is refused by the caller
        array[...] = given
    return array


def square_matrix(name: str, values: Any, *, symmetric: bool = False) -> Matrix:
    """``values`` as a square matrix; with ``symmetric``, refused unless it is to 1e-10 of its largest entry."""
    matrix = as_float64(name, values)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise InvalidInputError(f"{name} must be a square matrix, got shape {matrix.shape}")
    if not symmetric:
        return matrix
    skew = float(np.abs(matrix - matrix.T).max())
    if skew > 1e-10 * max(1.0, float(np.abs(matrix).max())):
        raise InvalidInputError(
            f"{name} must be symmetric, but it differs from its transpose by {skew:.6g}; use (M + M.T) / 2 if that "
            "is what you mean"
        )
    return (matrix + matrix.T) / 2.0


def number(name: str, value: Any) -> float:
    """``value`` as a finite float; True and False are 1 and 0."""
    if type(value) is float and -LARGEST <= value <= LARGEST:
        return value
    return float(as_float64(name, real(name, float(value) if isinstance(value, bool) else value)))


def rounds_of_contexts(values: Any, n_candidates: int, n_features: int | None, *, batch: bool) -> Matrix:
    """Contexts as (R, 1, d) or (R, k, d). (d,) is one round; so is (k, d), but in a ``batch`` 2-D means (R, d)."""
    if type(values) is np.ndarray and values.shape == (n_features,) and values.dtype == np.float64:
        context = np.empty(values.shape)  # the usual case, at once
        context[:] = values
        if context.dot(context) <= LARGEST:  # not if one is NaN, or too large
            context.setflags(write=False)
            return context[None, None, :]
    contexts = as_float64("contexts", values)
    k = n_candidates
    wanted = f"(d,) for one context shared by all arms, or ({k}, d) for one row per candidate"
    if contexts.ndim == 3 and batch:
        rounds = contexts
    elif contexts.ndim == 1 and contexts.size:
        rounds = contexts[None, None, :]
    elif contexts.ndim == 2 and contexts.shape[1] and (batch or len(contexts)):
        rounds = contexts[:, None, :] if batch else contexts[None, :, :]
    elif contexts.ndim == 3:
        raise InvalidInputError(
            f"context has shape {contexts.shape}; it must be {wanted}. For many rounds: choose_many(contexts), "
            "predict_many(contexts)"
        )
    else:
        hint = "; a single number x is [x]" if contexts.ndim == 0 else ""
        many = f", or of many rounds (rounds, d) or (rounds, {k}, d)" if batch else ""
        raise InvalidInputError(f"context has shape {contexts.shape}; it must be {wanted}{many}{hint}")
    if rounds.shape[1] not in (1, k):
        n, d = rounds.shape[1:]
        each = "contexts.reshape(-1, {d})" if batch else "choose_many(contexts)"
        raise InvalidInputError(
            f"context has {n} rows for {k} candidate{'s' if k != 1 else ''}; it must be {wanted}. If every row is "
            f"a round of its own: {each.format(d=d)}"
        )
    _features("context", rounds.shape[2], n_features)
    rounds.setflags(write=False)  # decisions keep and show them
    return rounds


def rows_of_contexts(values: Any, n_features: int | None) -> Matrix:
    """Contexts of logged rows, (n, d)."""
    contexts = as_float64("contexts", values)
    if contexts.ndim != 2 or contexts.shape[1] == 0:
        how = ""
        if contexts.ndim == 1:
            how = "; one feature: contexts.reshape(-1, 1); one row: contexts.reshape(1, -1)"
        raise InvalidInputError(f"contexts must be 2-D (rows, features), got shape {contexts.shape}{how}")
    _features("contexts", contexts.shape[1], n_features)
    return contexts


def _features(name: str, found: int, expected: int | None) -> None:
    if found == 0:
        raise InvalidInputError(f"{name} has no features; use a column of ones where there is nothing to say")
    if expected is not None and found != expected:
        raise InvalidInputError(f"{name} has {found} features, but this policy has seen {expected} until now")
