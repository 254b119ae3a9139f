"""Frozen values: things that are equal when their fields are equal, and that can be written down.

Kernels, similarities and schedules are values. A class of values is a frozen dataclass, undecorated, and has what
that lacks when a field is an array: equality, a hash, and a ``repr`` that rebuilds it. It is registered by name, so
that `kinbandits._spec` can write values into files and read them again. Numbers are checked by what their types are
called::

    class Box(Value):
        width: Positive
        sides: Count = 4
        label: Natural | None = None
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any, ClassVar, NoReturn, Self, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._types import Matrix
from kinbandits.errors import InvalidInputError, InvalidTypeError

_REPR_LIMIT = 64  # array fields with more entries are abbreviated in a repr

Real = float  # finite
Positive = float
NotNegative = float
Part = float  # between 0 and 1
OpenPart = float  # the same without 0 and 1
Natural = int  # at least 0
Count = int  # at least 1


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(dataclasses.field,))
class Value:
    """Base of all frozen values. Subclasses are registered under their `type_name`."""

    _registry: ClassVar[dict[str, type[Value]]] = {}

    type_name: ClassVar[str]
    """How files name the class: one of ours by its class name, any other as ``module:class``."""

    former_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that earlier releases wrote into files, and that mean nothing any more."""

    def __init_subclass__(cls, **options: bool) -> None:
        """``options`` are those of a dataclass: ``kw_only``, ``init``."""
        super().__init_subclass__()
        dataclasses.dataclass(cls, frozen=True, eq=False, repr=False, **options)
        del cls.__setattr__, cls.__delattr__  # ours, below: one that is decorated besides is as good
        ours = cls.__module__.partition(".")[0] == "kinbandits"
        cls.type_name = cls.__name__ if ours else f"{cls.__module__}:{cls.__qualname__}"
        known = Value._registry.get(cls.type_name)
        if known is not None and known.__module__ != cls.__module__:
            raise TypeError(f"{cls.__module__} and {known.__module__} both define {cls.__name__}; rename one")
        Value._registry[cls.type_name] = cls

    def __post_init__(self) -> None:
        for name, check, optional in _checked_fields(type(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if value is not None or not optional:
                object.__setattr__(self, name, check(name, value))

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _set(self, **fields: Any) -> None:
        """Fields as they are kept, in ``__post_init__``."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _fields(self) -> dict[str, Any]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {f.name: getattr(self, f.name) for f in fields if f.init}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = self._fields(), other._fields()
        return all(_same(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash((type(self).__name__, *(_hashable(v) for v in self._fields().values())))

    def __repr__(self) -> str:
        shown = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.init and not _same(value, field.default):
                shown.append(f"{field.name}={_repr(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"

    @classmethod
    def made(cls, **fields: Any) -> Any:
        """The value of these fields, as a file has them."""
        return cls(**fields)

    # scikit-learn's conventions: values are immutable, so a clone is the value itself.
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The fields by name, as scikit-learn's ``get_params``; with ``deep`` also ``field__inner``."""
        return deepened(self._fields()) if deep else self._fields()

    def set_params(self, **changes: Any) -> Self:
        """The value with other fields, inner ones as ``field__inner``. Values never change: use what is returned.

        >>> import kinbandits as kb
        >>> (kb.RBF(1.0) + kb.Linear()).set_params(first__length_scale=2.0)
        Sum(first=RBF(length_scale=2.0), second=Linear())
        """
        return type(self)(**changed(self._fields(), changes, type(self).__name__))

    def replace(self, **changes: Any) -> Self:
        """The same value with some fields changed.

        >>> import kinbandits as kb
        >>> kb.RBF(length_scale=1.0).replace(length_scale=2.0)
        RBF(length_scale=2.0)
        """
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def __sklearn_clone__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def deepened(params: dict[str, Any]) -> dict[str, Any]:
    """``params`` with the fields of values among them, named ``name__field``."""
    inner = {
        f"{name}__{k}": v
        for name, value in params.items()
        if isinstance(value, Value)
        for k, v in value.get_params().items()
    }
    return params | inner


def meant(name: object, known: Iterable[str]) -> str:
    """``"; did you mean 'ridge'?"`` where a known name is near, else nothing.

    >>> meant("rigde", ["ridge", "seed"]), meant("x", ["ridge"])
    ("; did you mean 'ridge'?", '')
    """
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def changed(params: dict[str, Any], changes: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """``params`` with ``changes``, where ``name__field`` changes a field of the value called ``name``."""
    params = dict(params)
    inner: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        name, _, field = key.partition("__")
        if name not in params:
            has = ", ".join(params) or "no settings"
            raise InvalidInputError(f"{owner} has no setting {name!r}; it has {has}{meant(name, params)}")
        if field:
            inner.setdefault(name, {})[field] = value
        else:
            params[name] = value
    for name, fields in inner.items():
        value = params[name]
        if not isinstance(value, Value):
            raise InvalidInputError(f"{name} of {owner} is {value!r}, which has no setting {next(iter(fields))!r}")
        params[name] = value.set_params(**fields)
    return params


def frozen_array(values: ArrayLike) -> Matrix:
    """A read-only float64 copy."""
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


def _same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.array_equal(a, b)
    return type(a) is type(b) and bool(a == b)


def _hashable(value: object) -> object:
    if isinstance(value, np.ndarray):
        return (value.shape, (value + 0.0).tobytes())  # -0.0 equals 0.0
    try:
        hash(value)
    except TypeError:  # scikit-learn's kernels are equal by value, but have no hash
        return repr(value)
    return value


def _repr(value: object) -> str:
    if isinstance(value, np.ndarray):
        if value.size > _REPR_LIMIT:
            return f"<{' x '.join(map(str, value.shape))} array>"
        return repr(value.tolist())
    return repr(value)


def positive(name: str, value: float, *, zero: bool = False) -> float:
    """``value`` as a float, refused unless finite and positive (or zero, where ``zero`` allows it)."""
    number = real(name, value)
    if number < 0 or (number == 0 and not zero):
        raise InvalidInputError(f"{name} must be {'at least 0' if zero else 'greater than 0'}, got {value!r}")
    return number


def part(name: str, value: float, *, ends: bool = True) -> float:
    """``value`` as a float, refused unless between 0 and 1; without ``ends``, 0 and 1 are refused too."""
    number = real(name, value)
    if not 0.0 <= number <= 1.0 or (number in (0.0, 1.0) and not ends):
        raise InvalidInputError(f"{name} must be between 0 and 1, got {value!r}")
    return number


def one_of(name: str, value: object, *allowed: str) -> str:
    """``value``, refused unless it is one of these words."""
    if not isinstance(value, str) or value not in allowed:
        words = " or ".join(", ".join(f'"{word}"' for word in allowed).rsplit(", ", 1))
        raise InvalidInputError(f"{name} must be {words}, got {value!r}")
    return str(value)


def real(name: str, value: Any) -> float:
    """``value`` as a finite float."""
    if isinstance(value, bool | str | bytes | complex) or value is None or isinstance(value, np.ma.MaskedArray):
        raise InvalidTypeError(f"{name} must be a number, got {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{name} must be a number, got {value!r}") from error
    except OverflowError as error:
        raise InvalidInputError(f"{name} is too large to compute with") from error
    if not np.isfinite(number):
        raise InvalidInputError(f"{name} must be finite, got {value!r}")
    return number


def as_int(name: str, value: object, least: int = 0) -> int:
    """``value`` as an int, refused unless whole and at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidTypeError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise InvalidInputError(f"{name} must be at least {least}, got {value!r}")
    return int(value)


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "Real": real,
    "Positive": positive,
    "NotNegative": partial(positive, zero=True),
    "Part": part,
    "OpenPart": partial(part, ends=False),
    "Natural": as_int,
    "Count": partial(as_int, least=1),
}


@cache
def _checked_fields(kind: type[Any]) -> list[tuple[str, Callable[[str, Any], Any], bool]]:
    """The fields whose types say how they are checked: name, check, and whether None will do as well."""
    types = ((f.name, *str(f.type).partition(" | ")) for f in dataclasses.fields(kind) if f.init)
    return [(name, _CHECKS[first], rest == "None") for name, first, _, rest in types if first in _CHECKS]
