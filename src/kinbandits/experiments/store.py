"""The directory of an experiment, and how a finished cell gets into it.

    experiment.json     the experiment: settings, and its cells
    cells/ID.npz        one finished cell, a `Trace`; the same bytes wherever it was computed
    times/ID.json       how long it took, where and when (never part of a result)
    errors/ID.txt       why a cell failed
    results.csv         one row a cell, made from the cells
    lock                held by the driver, so that two do not share a directory

A cell is written beside its place, flushed and renamed: the whole cell or nothing.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from kinbandits._files import atomic_write, locked
from kinbandits.errors import FormatError, InvalidInputError
from kinbandits.experiments.config import FORMAT, Cell, Experiment
from kinbandits.trace import Trace

RESULT_COLUMNS = ("environment", "method", "seed", "rounds", "regret", "expected_regret", "reward", "cell")


def load_cell(path: Path) -> Trace:
    """The trace of a finished cell."""
    try:
        trace = Trace.load(path)
    except FormatError as error:
        raise FormatError(f"{path} is not a finished cell, or it is damaged ({error}); delete it") from error
    if trace.metadata.get("format") != FORMAT:
        raise FormatError(
            f"{path} was written by another release (format {trace.metadata.get('format')}, here {FORMAT}); "
            "run the experiment into a new directory"
        )
    return trace


class CellStore:
    """An experiment's directory."""

    def __init__(self, directory: str | PathLike[str]) -> None:
        self.directory = Path(directory)
        self.cells, self.times, self.errors = (self.directory / d for d in ("cells", "times", "errors"))

    def open(self, experiment: Experiment) -> None:
        """Make the directory ready for this experiment; finished cells that are here stay, and are used."""
        for directory in (self.directory, self.cells, self.times, self.errors):
            directory.mkdir(parents=True, exist_ok=True)
        self.tidy()
        for path in self.errors.glob("*.txt"):
            path.unlink()  # failed cells are tried again
        cells = [[c.environment.name, c.method.name, c.seed, c.id] for c in experiment.cells()]
        data = {"record": experiment.record(), "cells": cells}
        atomic_write(self.directory / "experiment.json", json.dumps(data, indent=1).encode())

    def locked(self) -> contextlib.AbstractContextManager[None]:
        return locked(self.directory / "lock", self.directory)

    def tidy(self) -> None:
        """Remove what processes that were killed had begun to write; for when nobody writes."""
        for partial in self.cells.glob(".*.partial"):
            partial.unlink(missing_ok=True)

    def record(self) -> dict[str, Any]:
        """What `open` wrote: the experiment's ``record``, and its ``cells``."""
        path = self.directory / "experiment.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return {key: data[key] for key in ("record", "cells")}
        except FileNotFoundError:
            raise InvalidInputError(
                f"{self.directory} holds no experiment (there is no {path.name}); make one with kinbandits run FILE"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{path} is damaged ({error})") from error

    def recorded(self) -> Iterator[tuple[str, str, int, Trace | None, dict[str, Any]]]:
        """Environment, method, seed, result (None while unfinished) and time of every cell, as written down."""
        done = self.done()
        for environment, method, seed, cell_id in self.record()["cells"]:
            result = load_cell(self.cells / f"{cell_id}.npz") if cell_id in done else None
            yield environment, method, int(seed), result, self.timing(cell_id)

    def done(self) -> set[str]:
        """Ids of the finished cells: names in a directory, nothing is read."""
        with contextlib.suppress(FileNotFoundError):
            return {n[:-4] for n in os.listdir(self.cells) if n.endswith(".npz")}
        return set()

    def cell_path(self, cell: Cell) -> Path:
        return self.cells / f"{cell.id}.npz"

    def timing(self, cell_id: str) -> dict[str, Any]:
        try:
            timing: dict[str, Any] = json.loads((self.times / f"{cell_id}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return timing

    def write_cell(self, cell: Cell, result: Trace, timing: Mapping[str, Any]) -> None:
        """The time first, the result last: a cell counts when its result is there."""
        atomic_write(self.times / f"{cell.id}.json", json.dumps(timing, sort_keys=True).encode())
        result.save(self.cell_path(cell))
        (self.errors / f"{cell.id}.txt").unlink(missing_ok=True)

    def write_table(self, experiment: Experiment) -> Path:
        """results.csv: one row a finished cell, numbers so that they read back exactly."""
        stream, done = io.StringIO(newline=""), self.done()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(RESULT_COLUMNS)
        for cell in experiment.cells():
            if cell.id in done:
                r = load_cell(self.cell_path(cell))
                numbers = (r.final_regret, r.final_expected_regret, float(r["reward"].sum()))
                writer.writerow([cell.environment.name, cell.method.name, cell.seed, len(r), *numbers, cell.id])
        atomic_write(self.directory / "results.csv", stream.getvalue().encode())
        return self.directory / "results.csv"
