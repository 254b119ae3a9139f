"""Frozen values: equal when their fields are equal, printed so that the print rebuilds them, written as JSON.

Kernels, similarities, rules and schedules are values. A subclass of `Value` is a frozen dataclass, undecorated. Numbers
are checked by the annotations of their fields, and errors name the field::

    class Box(Value):
        width: Positive
        sides: Count = 4
        label: Natural | None = None

In files a value is a table with a ``type`` and its fields: ``{"type": "RBF", "length_scale": 1.5}``.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Annotated, Any, ClassVar, NoReturn, Self, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits._types import Matrix
from kinbandits.errors import FormatError, InvalidInputError, InvalidTypeError, KinbanditsError

L = TypeVar("L", bound=str)
_REPR_LIMIT = 64  # arrays with more entries are abbreviated


# -- numbers ---------------------------------------------------------------------------------------


def real(name: str, value: Any) -> float:
    """``value`` as a finite float."""
    refused = bool | str | bytes | complex | np.complexfloating | np.ma.MaskedArray | np.datetime64 | np.timedelta64
    try:
        if isinstance(value, refused) or np.ndim(value):
            raise TypeError
        number = float(value)
    except OverflowError as error:
        raise InvalidInputError(f"{name} must be finite, got a whole number of more than 300 digits") from error
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{name} must be a number, got {value!r}") from error
    if not math.isfinite(number):
        raise InvalidInputError(f"{name} must be finite, got {value!r}")
    return number


def positive(name: str, value: Any, *, zero: bool = False) -> float:
    """``value`` as a float, refused unless finite and positive (or zero, where ``zero`` allows it)."""
    number = real(name, value)
    if number < 0 or (number == 0 and not zero):
        raise InvalidInputError(f"{name} must be {'at least 0' if zero else 'greater than 0'}, got {value!r}")
    return number


def part(name: str, value: Any, *, ends: bool = True) -> float:
    """``value`` as a float, refused unless between 0 and 1; without ``ends``, 0 and 1 are refused too."""
    number = real(name, value)
    if not 0.0 <= number <= 1.0 or (number in (0.0, 1.0) and not ends):
        raise InvalidInputError(f"{name} must be between 0 and 1, got {value!r}")
    return number


def as_int(name: str, value: object, least: int | None = 0) -> int:
    """``value`` as an int, refused unless whole and at least ``least``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InvalidTypeError(f"{name} must be a whole number, got {value!r}")
    if least is not None and value < least:
        raise InvalidInputError(f"{name} must be at least {least}, got {value!r}")
    return int(value)


def one_of(name: str, value: object, *allowed: L) -> L:
    """``value``, refused unless it is one of these words."""
    for word in allowed:
        if isinstance(value, str) and value == word:
            return word
    words = " or ".join(", ".join(f'"{word}"' for word in allowed).rsplit(", ", 1))
    error = InvalidInputError if isinstance(value, str) else InvalidTypeError
    raise error(f"{name} must be {words}, got {value!r}")


@dataclasses.dataclass(frozen=True)
class Check:
    """How a field is checked, in its annotation."""

    run: Callable[[str, Any], Any]


Real = Annotated[float, Check(real)]  # finite
Positive = Annotated[float, Check(positive)]
NotNegative = Annotated[float, Check(partial(positive, zero=True))]
Part = Annotated[float, Check(part)]  # between 0 and 1
OpenPart = Annotated[float, Check(partial(part, ends=False))]  # the same without 0 and 1
Whole = Annotated[int, Check(partial(as_int, least=None))]
Natural = Annotated[int, Check(as_int)]  # at least 0
Count = Annotated[int, Check(partial(as_int, least=1))]  # at least 1


# -- values ----------------------------------------------------------------------------------------


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(dataclasses.field,))
class Value:
    """Base of all frozen values. Subclasses are registered under their `type_name`."""

    registry: ClassVar[dict[str, type[Value]]] = {}

    type_name: ClassVar[str]
    """How files name the class: one of ours by its class name, any other as ``module:class``."""

    def __init_subclass__(cls, **options: bool) -> None:
        """``options`` are those of a dataclass: ``kw_only``, ``init``."""
        super().__init_subclass__()
        dataclasses.dataclass(cls, frozen=True, eq=False, repr=False, **options)
        del cls.__setattr__, cls.__delattr__  # Value's own, so that a subclass that is decorated again works too
        cls.type_name = type_name(cls)
        known = Value.registry.setdefault(cls.type_name, cls)
        if known.__module__ != cls.__module__:
            raise TypeError(f"{cls.__module__} and {known.__module__} both define {cls.__name__}; rename one")
        Value.registry[cls.type_name] = cls

    def __post_init__(self) -> None:
        for name, check, optional in _checks(type(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if value is not None or not optional:
                self._set(**{name: check(name, value)})

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}; use .replace({name}=...)")

    def __delattr__(self, name: str) -> NoReturn:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _set(self, **fields: Any) -> None:
        """Set fields of a frozen instance, in ``__post_init__``."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _fields(self) -> dict[str, Any]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {f.name: getattr(self, f.name) for f in fields if f.init}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(a, b) for a, b in zip(self._fields().values(), other._fields().values(), strict=True))

    def __hash__(self) -> int:
        return hash((type(self).__name__, *(_hashable(v) for v in self._fields().values())))

    def __repr__(self) -> str:
        defaults = {f.name: f.default for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        shown = [f"{n}={_repr(v)}" for n, v in self._fields().items() if not _same(v, defaults[n])]
        return f"{type(self).__name__}({', '.join(shown)})"

    def replace(self, **changes: Any) -> Self:
        """The same value with some fields changed.

        >>> import kinbandits as kb
        >>> kb.RBF(length_scale=1.0).replace(length_scale=2.0)
        RBF(length_scale=2.0)
        """
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def __deepcopy__(self, memo: object) -> Self:
        return self


def type_name(cls: type) -> str:
    """How files name a class: one of ours by its class name, any other as ``module:class``."""
    ours = cls.__module__.partition(".")[0] == "kinbandits"
    return cls.__name__ if ours else f"{cls.__module__}:{cls.__qualname__}"


@cache
def _checks(kind: type[Any]) -> list[tuple[str, Callable[[str, Any], Any], bool]]:
    """The fields whose annotations hold a `Check`: name, check, and whether None will do as well."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found = []
    for field in dataclasses.fields(kind):
        options = [hints[field.name]]
        if typing.get_origin(options[0]) in (typing.Union, types.UnionType):
            options = list(typing.get_args(options[0]))
        checks = [c.run for o in options for c in getattr(o, "__metadata__", ()) if isinstance(c, Check)]
        if field.init and checks:
            found.append((field.name, checks[0], type(None) in options))
    return found


def frozen_array(values: ArrayLike) -> Matrix:
    """A read-only float64 copy."""
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


def _same(a: object, b: object) -> bool:
    if type(a) is not type(b):
        return False
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else bool(a == b)  # type: ignore[arg-type]


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
        return f"<{' x '.join(map(str, value.shape))} array>" if value.size > _REPR_LIMIT else repr(value.tolist())
    return repr(value)


def suggest(name: object, known: Iterable[str]) -> str:
    """``"; did you mean 'ridge'?"`` where a known name is near, else nothing.

    >>> suggest("rigde", ["ridge", "seed"]), suggest("x", ["ridge"])
    ("; did you mean 'ridge'?", '')
    """
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


# -- JSON ------------------------------------------------------------------------------------------


def to_json(value: Any, arrays: dict[str, NDArray[Any]] | None = None) -> Any:
    """``value`` as JSON data; arrays of fields go into ``arrays``, or become lists where there is none.

    >>> import kinbandits as kb
    >>> to_json(kb.RBF(length_scale=2.0))
    {'type': 'RBF', 'length_scale': 2.0}
    """
    if isinstance(value, Value):
        return {"type": value.type_name, **{name: to_json(v, arrays) for name, v in value._fields().items()}}
    if isinstance(value, np.ndarray) and arrays is not None:
        key = f"value_{len(arrays)}"
        arrays[key] = value
        return {"type": "array", "key": key}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [to_json(v, arrays) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    why = "it is no kinbandits value"
    if callable(value):
        why = "a file holds no functions. Write a Value whose __call__ is the function"
    raise InvalidTypeError(f"cannot save {value!r}: {why}")


def from_json(data: Any, arrays: Mapping[str, NDArray[Any]] | None = None) -> Any:
    """The value that `to_json` wrote; what is no table is given back as it is, lists as tuples.

    >>> from_json({"type": "RBF", "length_scale": 2.0})
    RBF(length_scale=2.0)
    """
    try:
        return _read(data, "value", arrays or {}, None)
    except (InvalidInputError, KeyError) as error:
        raise FormatError(f"the file holds a value that cannot be read: {error}") from error


def read_value(data: Any, where: str, descriptors: Any = None) -> Any:
    """The value that a settings file describes at ``where``, as experiments, presets and the service write them.

    Two conveniences: ``precision``, 1 / (2 length_scale^2), in place of a length scale, as the paper has it; and
    ``descriptors = "environment"``, which stands for the ``descriptors`` given here.

    >>> read_value({"type": "RBF", "precision": 0.5}, "context_kernel")
    RBF()
    """
    return _read(data, where, None, descriptors)


def _read(data: Any, place: str, arrays: Mapping[str, NDArray[Any]] | None, descriptors: Any) -> Any:
    if isinstance(data, list | tuple):
        return tuple(_read(v, f"{place}[{i}]", arrays, descriptors) for i, v in enumerate(data))
    if not isinstance(data, dict):
        return data
    if data.get("type") == "array" and arrays is not None:
        return arrays[data["key"]]
    if "type" not in data:
        raise InvalidInputError(f'{place} has no "type"; write {place} = {{ type = "RBF", length_scale = 1.0 }}')
    kind = Value.registry.get(str(data["type"]))
    if kind is None:
        module, colon, _ = str(data["type"]).partition(":")
        known = [name for name in Value.registry if ":" not in name]
        how = f"; import {module} first" if colon else suggest(data["type"], known)
        raise InvalidInputError(f"{place} has an unknown type {data['type']!r}{how}")
    fields = {name: value for name, value in data.items() if name != "type"}
    if arrays is None:
        _settle(fields, place, descriptors)
    names = list(inspect.signature(kind).parameters)
    for name in fields.keys() - set(names):
        has = ", ".join(names) or "none"
        raise InvalidInputError(f"{place}: {kind.__name__} has no option {name!r}{suggest(name, names)}; it has {has}")
    fields = {name: _read(value, f"{place}.{name}", arrays, descriptors) for name, value in fields.items()}
    try:
        return kind(**fields)
    except (KinbanditsError, TypeError) as error:
        raise InvalidInputError(f"{place}: {error}") from error


def _settle(fields: dict[str, Any], place: str, descriptors: Any) -> None:
    """The conveniences of settings files, in place."""
    if "precision" in fields:
        if "length_scale" in fields:
            raise InvalidInputError(f"{place} has both precision and length_scale; give one of them")
        fields["length_scale"] = math.sqrt(0.5 / positive(f"{place}.precision", fields.pop("precision")))
    if fields.get("descriptors") == "environment":
        if descriptors is None:
            raise InvalidInputError(
                f'{place}.descriptors is "environment", but this environment describes no arms; write the '
                "descriptors out, one per arm"
            )
        fields["descriptors"] = descriptors
