"""Values as plain data, as experiments and presets write them: ``{type = "RBF", precision = 0.5}``."""

from __future__ import annotations

from typing import Any

from kinbandits._spec import from_spec


def read_value(data: Any, where: str, descriptors: Any = None) -> Any:
    """The value that ``data`` stands for; ``"environment"`` stands for ``descriptors``; ``where`` is its place.

    >>> read_value({"type": "RBF", "precision": 0.5}, "context_kernel")
    RBF()
    """
    return from_spec(data, where=where, descriptors=descriptors)
