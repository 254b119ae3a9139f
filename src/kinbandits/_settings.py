"""Values in settings files, as experiments, presets and the service write them: ``{type = "RBF", precision = 0.5}``."""

from __future__ import annotations

import math
from typing import Any

from kinbandits._value import from_json, positive
from kinbandits.errors import InvalidInputError


def read_value(data: Any, where: str, descriptors: Any = None) -> Any:
    """The value that ``data`` stands for; ``where`` is its place, for errors.

    Two conveniences: ``precision``, 1 / (2 length_scale^2), in place of a length scale, as the paper has it; and
    ``descriptors = "environment"``, which stands for the ``descriptors`` given here.

    >>> read_value({"type": "RBF", "precision": 0.5}, "context_kernel")
    RBF()
    """

    def prepare(table: dict[str, Any], place: str) -> dict[str, Any]:
        table = dict(table)
        if "precision" in table:
            if "length_scale" in table:
                raise InvalidInputError(f"{place} has both precision and length_scale; give one of them")
            table["length_scale"] = math.sqrt(0.5 / positive(f"{place}.precision", table.pop("precision")))
        if table.get("descriptors") == "environment":
            if descriptors is None:
                raise InvalidInputError(
                    f'{place}.descriptors is "environment", but this environment describes no arms; write the '
                    "descriptors out, one per arm"
                )
            table["descriptors"] = descriptors
        return table

    return from_json(data, where=where, prepare=prepare)
