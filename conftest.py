"""Modules whose optional package is not installed are left out when pytest reads docstrings."""

from __future__ import annotations

import importlib.util

_NEEDS = {"torch": "benchmarks/compare/neural.py"}
collect_ignore = [path for package, path in _NEEDS.items() if importlib.util.find_spec(package) is None]
