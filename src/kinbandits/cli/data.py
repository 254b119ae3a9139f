"""``kinbandits data``: the data sets of the paper on this machine."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kinbandits._html import text_table
from kinbandits.cli.output import Json, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(data)


def data(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets to download; none lists all.")] = None,
    as_json: Json = False,
) -> None:
    """List the data sets of the paper, or download some of them.

    A set is looked for in the directory KINBANDITS_DATA names, then in the cache; else it comes from OpenML.
    Rows, columns and classes are counted; what does not fit is refused. Digits comes with scikit-learn.

    \b
    Examples:
      kinbandits data
      kinbandits data letter usps
      KINBANDITS_DATA=~/data kinbandits data --json
    """
    from kinbandits.datasets import CATALOGUE, fetch, where

    for name in names or ():
        path = str(fetch(name))
        if not as_json:
            print(f"{name}: {path}")
    shown = {name: CATALOGUE[name] for name in names or CATALOGUE}
    found: list[dict[str, Any]] = [
        {"name": name, "rows": e.rows, "features": e.features, "classes": len(e.class_counts), "path": where(name),
         "what": e.note}
        for name, e in shown.items()
    ]  # fmt: skip
    if as_json:
        print_json(found)
    elif not names:
        rows = [[*map(str, [*f.values()][:4]), f["path"] or "not here", f["what"]] for f in found]
        print(text_table("Data sets", ["name", "rows", "features", "classes", "where", "what"], rows, (1, 2, 3)))
        missing = " ".join(f["name"] for f in found if f["path"] is None)
        if missing:
            print(f"To have the others: kinbandits data {missing}, or set KINBANDITS_DATA to their directory.")
