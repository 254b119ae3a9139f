"""The compiled core: built where there is a C compiler; ``KINBANDITS_COMPILED=0`` switches it off."""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

TEXT = 13  # the text of `core` that this package is written for


def _load() -> tuple[ModuleType | None, str]:
    if os.environ.get("KINBANDITS_COMPILED", "1") == "0":
        return None, "switched off by KINBANDITS_COMPILED=0"
    try:
        core = import_module("kinbandits._core")
    except ImportError:
        return None, "not built"
    if core.TEXT != TEXT:
        return None, "built from another version"
    return core, "in use"


CORE, STATE = _load()
"""The module, or None; and "in use", "not built", "built from another version" or "switched off by ..."."""
