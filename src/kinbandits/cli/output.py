"""What commands have in common: JSON, options, and words about packages that are missing."""

from __future__ import annotations

import json
import math
import shlex
import sys
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from kinbandits.errors import MissingPackageError

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Jobs = Annotated[int, typer.Option(help="Processes; -1 is all processors.")]


def print_json(data: Any) -> None:
    """``data`` as JSON on standard output; NaN, which JSON lacks, as null."""
    print(json.dumps(_finite(data), indent=2, allow_nan=False))


def _finite(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return None
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return data


def need(what: str, extra: str, *modules: str) -> None:
    """Say before the work, not after it, that an extra is missing."""
    for module in modules:
        if find_spec(module) is None:
            raise MissingPackageError(f"{what} needs {module}; install it with: pip install 'kinbandits[{extra}]'")


def command_line() -> str:
    """The command as it was typed, to be shown in the report."""
    return shlex.join(["kinbandits", *sys.argv[1:]])
