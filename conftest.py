"""Modules whose optional package is not installed are left out when pytest reads the docstrings of src/."""

from __future__ import annotations

import importlib.util

_NEEDS = {"coba": "src/kinbandits/adapters/coba.py", "river": "src/kinbandits/adapters/river.py"}
collect_ignore = [path for package, path in _NEEDS.items() if importlib.util.find_spec(package) is None]
