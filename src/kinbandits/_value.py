"""Frozen values: things that are equal when their fields are equal, and that can be written down.

Kernels, similarities and schedules are values. A value is a frozen dataclass; this module gives it what
a dataclass lacks when a field is an array: equality, a hash, a ``repr`` that rebuilds it, and ``to_spec``
/ ``from_spec``, the one way in which values are saved (JSON, with arrays set apart; never pickle).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinbandits.errors import FormatError, InvalidInputError, InvalidTypeError

_REPR_LIMIT = 64  # array fields with more entries are abbreviated in a repr


class Value:
    """Base of all frozen values. Subclasses are registered under their class name."""

    _registry: ClassVar[dict[str, type[Value]]] = {}

    former_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that earlier releases wrote into files, and that mean nothing any more."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Value._registry[cls.__name__] = cls

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


def changed(params: dict[str, Any], changes: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """``params`` with ``changes``, where ``name__field`` changes a field of the value called ``name``."""
    params = dict(params)
    inner: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        name, _, field = key.partition("__")
        if name not in params:
            has = ", ".join(params) or "no settings"
            raise InvalidInputError(f"{owner} has no setting {name!r}; it has {has}")
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


def frozen_array(values: ArrayLike) -> NDArray[np.float64]:
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


def to_spec(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """``value`` as JSON data; array fields go into ``arrays`` and are named in the data.

    >>> import kinbandits as kb
    >>> to_spec(kb.RBF(length_scale=2.0), {})
    {'type': 'RBF', 'length_scale': 2.0}
    """
    if isinstance(value, Value):
        fields = {name: to_spec(v, arrays) for name, v in value._fields().items()}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, np.ndarray):
        key = f"value_{len(arrays)}"
        arrays[key] = value
        return {"type": "array", "key": key}
    if isinstance(value, tuple | list):
        return [to_spec(v, arrays) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if callable(value):
        return {"type": "foreign", "name": _callable_name(value)}
    raise InvalidTypeError(f"cannot save {value!r}: it is not a kinbandits value")


def from_spec(data: Any, arrays: Mapping[str, NDArray[Any]], foreign: object = None) -> Any:
    """Rebuild what ``to_spec`` wrote; ``foreign`` gives again a callable, which no file can hold.

    It is the callable, of the name it was saved under, or a mapping from such names to callables.
    """
    if isinstance(data, list):
        return tuple(from_spec(v, arrays, foreign) for v in data)
    if not isinstance(data, dict):
        return data
    kind = data.get("type")
    if kind == "array":
        return arrays[data["key"]]
    if kind == "foreign":
        return _given_again(data["name"], foreign)
    if kind not in Value._registry:
        raise FormatError(f"the file names a value of type {kind!r}, which this release does not know")
    cls = Value._registry[kind]
    kept = {name: v for name, v in data.items() if name != "type" and name not in cls.former_fields}
    return cls(**{name: from_spec(v, arrays, foreign) for name, v in kept.items()})


def _callable_name(function: Any) -> str:
    name: str = getattr(function, "__name__", repr(function))
    if name == "<lambda>" or " at 0x" in name:
        raise InvalidTypeError(
            f"cannot save the kernel {function!r}: it has no name by which it could be given again. Write it as a "
            "function (def), or use a kinbandits kernel"
        )
    return name


def _given_again(name: str, foreign: object) -> object:
    given = (
        foreign if isinstance(foreign, Mapping) else {} if foreign is None else {_callable_name(foreign): foreign}
    )
    if name not in given:
        but = f", but context_kernel= is {', '.join(map(repr, given))}" if given else ""
        raise InvalidTypeError(
            f"the policy was saved with a kernel that is not ours, {name!r}{but}. Give it again: "
            f"kb.load(path, context_kernel=f), or context_kernel={{{name!r}: f}} if it has another name now"
        )
    return given[name]


def positive(name: str, value: float, *, zero: bool = False) -> float:
    """``value`` as a float, refused unless finite and positive (or zero, where ``zero`` allows it)."""
    number = real(name, value)
    if number < 0 or (number == 0 and not zero):
        raise InvalidInputError(f"{name} must be {'at least 0' if zero else 'greater than 0'}, got {value!r}")
    return number


def real(name: str, value: float) -> float:
    """``value`` as a finite float."""
    if isinstance(value, bool | str | bytes) or value is None:
        raise InvalidTypeError(f"{name} must be a number, got {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{name} must be a number, got {value!r}") from error
    if not np.isfinite(number):
        raise InvalidInputError(f"{name} must be finite, got {value!r}")
    return number
