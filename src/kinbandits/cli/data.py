"""``kinbandits data``: the data sets of the paper on this machine."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from kinbandits.cli.output import Json, print_json, print_table


def _complete(incomplete: str) -> list[str]:
    from kinbandits.datasets import names

    return [name for name in names() if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="Name of a data set.", autocompletion=_complete)]
Names = Annotated[list[str] | None, typer.Argument(help="Names; all, if left out.", autocompletion=_complete)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    data = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
    data.command("list")(list_)
    data.command("fetch")(fetch)
    data.command("path")(path)
    app.add_typer(data, name="data", help="The data sets of the paper: list, fetch, path.")


def list_(as_json: Json = False) -> None:
    """The data sets, and which of them are on this machine.

    A set is looked for in the directory KINBANDITS_DATA names, then in the cache; else it is downloaded when
    it is needed. Digits comes with scikit-learn, if that is installed.

    \b
    Examples:
      kinbandits data list
      KINBANDITS_DATA=~/data kinbandits data list --json
    """
    from kinbandits import datasets

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
    if any(f["path"] is None for f in found):
        print("To have the others: kinbandits data fetch, or set KINBANDITS_DATA to a directory that holds them.")


def fetch(
    names: Names = None,
    again: Annotated[bool, typer.Option("--again", help="Download even if the cache has it.")] = False,
) -> None:
    """Download data sets into the cache (from OpenML, through scikit-learn), unless they are here already.

    Rows, columns and classes are counted; what does not fit is refused.

    \b
    Examples:
      kinbandits data fetch letter usps
      kinbandits data fetch
    """
    from kinbandits import datasets

    for name in names or datasets.names():
        print(f"{name}: {datasets.fetch(name, again=again)}")


def path(name: Name) -> None:
    """Where the file of a data set is. Ends with 1 if there is none yet.

    \b
    Examples:
      kinbandits data path usps
      ls "$(dirname "$(kinbandits data path usps)")"
    """
    from kinbandits import datasets
    from kinbandits.datasets.files import entry_of, ways_to_have
    from kinbandits.errors import DatasetError

    place = datasets.find(name)
    if place is None and datasets.where(name):
        raise DatasetError(
            f"{name} comes {datasets.where(name)} and has no file here; kinbandits data fetch {name} writes one"
        )
    if place is None:
        raise DatasetError(ways_to_have(entry_of(name), "it is not on this machine"))
    print(place)
