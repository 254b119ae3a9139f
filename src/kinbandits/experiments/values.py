"""Kernels and similarities as a file writes them: tables with a ``type`` and the fields of that value.

    context_kernel = { type = "RBF", length_scale = 1.5 }
    similarity = { type = "Estimated", precision = 100.0, embedding_kernel = { type = "RBF", precision = 0.01 } }
    similarity = { type = "Known", kernel = { type = "RBF", precision = 28.0 }, descriptors = "environment" }

Two conveniences beyond the fields: ``precision`` in place of a length scale, 1 / (2 length_scale^2), since the
paper's settings are given so; and ``descriptors = "environment"``, those that the environment knows.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from kinbandits._value import Value, positive
from kinbandits.errors import InvalidInputError, KinbanditsError

__all__ = ["value_of"]


def value_of(spec: Any, where: str, descriptors: Any = None) -> Any:
    """The value that a table stands for; anything else is given back as it is.

    >>> value_of({"type": "RBF", "precision": 0.5}, "context_kernel")
    RBF()
    """
    if isinstance(spec, list):
        return [value_of(v, f"{where}[{i}]", descriptors) for i, v in enumerate(spec)]
    if not isinstance(spec, dict):
        return spec
    if "type" not in spec:
        raise InvalidInputError(f'{where} has no "type"; write {where} = {{ type = "RBF", length_scale = 1.0 }}')
    kind = _kind(spec["type"], where)
    names = {f.name for f in dataclasses.fields(kind) if f.init}  # type: ignore[arg-type]
    fields: dict[str, Any] = {}
    for name, raw in spec.items():
        if name == "type":
            continue
        if name == "precision" and "length_scale" in names:
            if "length_scale" in spec:
                raise InvalidInputError(f"{where} has both precision and length_scale; give one of them")
            fields["length_scale"] = math.sqrt(0.5 / positive(f"{where}.precision", raw))
        elif name not in names:
            has = ", ".join(sorted(names | ({"precision"} if "length_scale" in names else set())))
            raise InvalidInputError(f"{where}.{name}: {kind.__name__} has no {name}; it has {has or 'no settings'}")
        elif name == "descriptors" and raw == "environment":
            if descriptors is None:
                raise InvalidInputError(
                    f'{where}.descriptors is "environment", but this environment describes no arms; write the '
                    "descriptors out, one per arm"
                )
            fields[name] = descriptors
        else:
            fields[name] = value_of(raw, f"{where}.{name}", descriptors)
    try:
        return kind(**fields)
    except KinbanditsError as error:
        raise InvalidInputError(f"{where}: {error}") from error
    except TypeError as error:
        raise InvalidInputError(f"{where}: {kind.__name__} cannot be made so: {error}") from error


def _kind(name: object, where: str) -> type[Value]:
    import kinbandits

    known: dict[str, type[Value]] = {
        n: v
        for n in kinbandits.__all__
        if isinstance(v := getattr(kinbandits, n), type) and issubclass(v, Value) and dataclasses.is_dataclass(v)
    }
    if name not in known:
        raise InvalidInputError(f"{where}.type is {name!r}, which is none of {', '.join(sorted(known))}")
    return known[str(name)]
