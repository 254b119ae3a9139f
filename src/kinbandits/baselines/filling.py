"""How a baseline fills in values of `KMTLUCB`."""

from __future__ import annotations

from typing import Any


def filled(settings: dict[str, Any], **values: Any) -> dict[str, Any]:
    """``settings`` with these values where they say nothing; ``kernel=`` stands for similarity and context kernel.

    >>> filled({"ridge": 2.0}, ridge=1.0, exploration=0.5)
    {'ridge': 2.0, 'exploration': 0.5}
    """
    if settings.get("kernel") is not None:
        values = {name: value for name, value in values.items() if name not in ("similarity", "context_kernel")}
    return values | settings
