"""``kinbandits data``: the data sets of the paper on this machine."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kinbandits.cli.output import Json, print_json, print_table


def _complete(incomplete: str) -> list[str]:
    from kinbandits import datasets

    return [name for name in datasets.names() if name.startswith(incomplete)]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(data)


def data(
    names: Annotated[
        list[str] | None, typer.Argument(help="Data sets to have here; none lists them.", autocompletion=_complete)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the data sets of the paper, or have some of them on this machine.

    A set is looked for in the directory KINBANDITS_DATA names, then in the cache; else it comes from OpenML.
    Rows, columns and classes are counted; what does not fit is refused. Digits comes with scikit-learn.

    \b
    Examples:
      kinbandits data
      kinbandits data letter usps
      KINBANDITS_DATA=~/data kinbandits data --json
    """
    from kinbandits import datasets

    for name in names or ():
        print(f"{name}: {datasets.fetch(name)}")
    if names:
        return
    columns = ["name", "rows", "features", "classes", "openml", "note"]
    found: list[dict[str, Any]] = [
        {c: getattr(datasets.CATALOGUE[name], c) for c in columns} | {"path": datasets.where(name)}
        for name in datasets.names()
    ]
    if as_json:
        print_json(found)
        return
    rows = [[*(str(f[c]) for c in columns[:4]), f["path"] or "not here", f["note"]] for f in found]
    print_table("Data sets", [*columns[:4], "where", "what"], rows, right=(1, 2, 3))
    missing = [f["name"] for f in found if f["path"] is None]
    if missing:
        print(f"To have the others: kinbandits data {' '.join(missing)}, or set KINBANDITS_DATA to their directory.")
