"""Values as plain data: the one way in which files, experiments and the service write kernels and the like.

A value is a table with a ``type`` and its fields::

    context_kernel = { type = "RBF", length_scale = 1.5 }
    similarity = { type = "Estimated", precision = 100.0, embedding_kernel = { type = "RBF", precision = 0.01 } }
    similarity = { type = "Known", kernel = { type = "RBF", precision = 28.0 }, descriptors = "environment" }

Two conveniences: ``precision``, 1 / (2 length_scale^2), in place of a length scale, as the paper has it; and
``descriptors = "environment"``. A class that is not ours is ``module:class`` and must have been imported.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._renamed import modern_value
from kinbandits._value import Value, meant, positive
from kinbandits.errors import FormatError, InvalidInputError, InvalidTypeError, KinbanditsError


def to_spec(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """``value`` as JSON data; array fields go into ``arrays`` and are named in the data.

    >>> import kinbandits as kb
    >>> to_spec(kb.RBF(length_scale=2.0), {})
    {'type': 'RBF', 'length_scale': 2.0}
    """
    if isinstance(value, Value):
        fields = {name: to_spec(v, arrays) for name, v in value._fields().items()}
        return {"type": value.type_name, **fields}
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


def from_spec(
    data: Any,
    arrays: Mapping[str, NDArray[Any]] | None = None,
    *,
    foreign: object = None,
    descriptors: Any = None,
    where: str | None = None,
) -> Any:
    """The value that ``data`` stands for; what is no table is given back as it is, lists as tuples.

    ``arrays`` are those that the data name, ``foreign`` a callable (or several by name) that no file can hold,
    ``descriptors`` what ``"environment"`` stands for, ``where`` its place, for errors (None: a saved file).

    >>> from_spec({"type": "RBF", "precision": 0.5})
    RBF()
    """
    try:
        return _Reader(arrays or {}, foreign, descriptors).value(data, where or "value")
    except InvalidInputError as error:
        if where is not None:
            raise
        raise FormatError(f"the file holds a value that cannot be read: {error}") from error


@dataclasses.dataclass(frozen=True)
class _Reader:
    arrays: Mapping[str, NDArray[Any]]
    foreign: object
    descriptors: Any

    def value(self, data: Any, where: str) -> Any:
        if isinstance(data, list | tuple):
            return tuple(self.value(v, f"{where}[{i}]") for i, v in enumerate(data))
        if not isinstance(data, dict):
            return data
        if "type" not in data:
            raise InvalidInputError(
                f'{where} has no "type"; write {where} = {{ type = "RBF", length_scale = 1.0 }}'
            )
        data = modern_value(data)
        if not isinstance(data, dict):
            return data
        if data["type"] == "array":
            return self.arrays[data["key"]]
        if data["type"] == "foreign":
            return _given_again(data["name"], self.foreign)
        kind = _kind(data["type"], where)
        fields = self._fields(kind, data, where)
        try:
            return kind.made(**fields)
        except KinbanditsError as error:
            raise InvalidInputError(f"{where}: {error}") from error
        except TypeError as error:
            raise InvalidInputError(f"{where}: {kind.__name__} cannot be made so: {error}") from error

    def _fields(self, kind: type[Value], data: dict[str, Any], where: str) -> dict[str, Any]:
        names = {f.name for f in dataclasses.fields(kind) if f.init}  # type: ignore[arg-type]
        fields: dict[str, Any] = {}
        for name, raw in data.items():
            if name == "type" or name in kind.former_fields:
                continue
            if name == "precision" and "length_scale" in names:
                if "length_scale" in data:
                    raise InvalidInputError(f"{where} has both precision and length_scale; give one of them")
                fields["length_scale"] = math.sqrt(0.5 / positive(f"{where}.precision", raw))
            elif name not in names:
                has = ", ".join(sorted(names | ({"precision"} if "length_scale" in names else set())))
                raise InvalidInputError(
                    f"{where}.{name}: {kind.__name__} has no {name}; it has {has or 'no settings'}"
                )
            elif name == "descriptors" and raw == "environment":
                if self.descriptors is None:
                    raise InvalidInputError(
                        f'{where}.descriptors is "environment", but this environment describes no arms; write the '
                        "descriptors out, one per arm"
                    )
                fields[name] = self.descriptors
            else:
                fields[name] = self.value(raw, f"{where}.{name}")
        return fields


def _kind(name: object, where: str) -> type[Value]:
    """The class of this name. Earlier releases wrote a user's class without its module."""
    if found := Value._registry.get(str(name)):
        return found
    same = sorted(key for key in Value._registry if key.endswith((f":{name}", f".{name}")))
    if len(same) == 1:
        return Value._registry[same[0]]
    if same:
        raise InvalidInputError(f"{where}.type is {name!r}, which may be any of {', '.join(same)}; say which")
    module, colon, _ = str(name).partition(":")
    if colon:
        raise InvalidInputError(f"{where}.type is {name!r}, which is not known here; import {module} first")
    ours = sorted(key for key, kind in Value._registry.items() if ":" not in key and not inspect.isabstract(kind))
    hint = meant(name, ours) or f"; it is none of {', '.join(ours)}"
    raise InvalidInputError(f"{where}.type is {name!r}, but a value of type {name!r} is not known here{hint}")


def _callable_name(function: Any) -> str:
    name: str = getattr(function, "__name__", repr(function))
    if name == "<lambda>" or " at 0x" in name:
        raise InvalidTypeError(
            f"cannot save the kernel {function!r}: it has no name by which it could be given again. Write it as a "
            "function (def), or use a kinbandits kernel"
        )
    return name


def _given_again(name: str, foreign: object) -> object:
    if not isinstance(foreign, Mapping):
        foreign = {} if foreign is None else {_callable_name(foreign): foreign}
    given: Mapping[str, object] = foreign
    if name not in given:
        but = f", but context_kernel= is {', '.join(map(repr, given))}" if given else ""
        raise InvalidTypeError(
            f"the policy was saved with a kernel that is not ours, {name!r}{but}. Give it again: "
            f"kb.load(path, context_kernel=f), or context_kernel={{{name!r}: f}} if it has another name now"
        )
    return given[name]
