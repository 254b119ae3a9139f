"""How commands print: tables that are pretty on a terminal and plain elsewhere, and JSON."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from kinbandits._html import text_table
from kinbandits.errors import MissingPackageError

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Jobs = Annotated[int, typer.Option(help="Processes; -1 is all processors.")]


def print_json(data: Any) -> None:
    """``data`` as JSON on standard output; NaN, which JSON lacks, as null."""
    print(json.dumps(_finite(data), indent=2, allow_nan=False))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """A table with a title; ``right`` are the numbers of the columns that are set flush right."""
    if not sys.stdout.isatty():
        print(text_table(title, columns, rows, right))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i in right else "left")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


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
