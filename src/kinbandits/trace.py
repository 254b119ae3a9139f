"""The trace of a run: one row a round, kept as columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits import plotting
from kinbandits._files import replacing, write_arrays
from kinbandits._types import Matrix
from kinbandits.errors import FormatError, InvalidInputError, MissingFileError, package

__all__ = ["COLUMNS", "Trace"]

COLUMNS: dict[str, Any] = {
    "t": np.int64,
    "arm": object,
    "arm_index": np.int64,
    "reward": np.float64,
    "best_reward": np.float64,
    "regret": np.float64,
    "expected_regret": np.float64,
    "mean": np.float64,
    "width": np.float64,
    "propensity": np.float64,
    "seconds": np.float64,
}
FORMAT_VERSION = 1


@dataclass(frozen=True, eq=False)
class Trace:
    """The record of a run. ``trace["reward"]`` is a column; `metadata` says what was played on what.

    Columns:
        t: number of the round, counted from 0, as the environment counts.
        arm, arm_index: name of the arm chosen, and its place in ``environment.arms``.
        reward: what it paid.
        best_reward: the largest reward of the round (NaN where the environment does not know it).
        regret: best_reward - reward, the paper's regret of a round.
        expected_regret: largest mean minus mean of the choice (NaN where means are unknown).
        mean, width: the policy's own numbers for its choice, before learning (NaN unless asked for).
        propensity: probability with which the choice was made.
        seconds: time the policy took to choose and to learn.

    >>> trace = Trace.of({"t": [0, 1], "regret": [1.0, 0.0]})
    >>> trace.cumulative_regret
    array([1., 1.])
    """

    columns: Mapping[str, NDArray[Any]]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, columns: Mapping[str, Sequence[Any]], metadata: Mapping[str, Any] | None = None) -> Trace:
        """From lists of equal length; a column of numbers that is left out is NaN, others count from 0."""
        n = len(next(iter(columns.values()))) if columns else 0
        unknown = set(columns) - set(COLUMNS)
        if unknown:
            raise InvalidInputError(f"unknown column {sorted(unknown)[0]!r}; columns are {', '.join(COLUMNS)}")
        arrays: dict[str, NDArray[Any]] = {}
        for name, kind in COLUMNS.items():
            values: Any = columns.get(name, np.full(n, np.nan) if kind is np.float64 else np.arange(n))
            if kind is object:  # foreign policies may name arms with NumPy's numbers
                values = [v.item() if isinstance(v, np.generic) else v for v in values]
            array = np.array(values, dtype=kind)
            if array.shape != (n,):
                raise InvalidInputError(f"column {name!r} has shape {array.shape}; all must have {n} rows")
            array.setflags(write=False)
            arrays[name] = array
        return cls(arrays, dict(metadata or {}))

    def __len__(self) -> int:
        return len(self.columns["t"])

    def __getitem__(self, column: str) -> NDArray[Any]:
        if column not in self.columns:
            raise InvalidInputError(f"unknown column {column!r}; columns are {', '.join(self.columns)}")
        return self.columns[column]

    def __repr__(self) -> str:
        on = self.metadata.get("environment_name", "?")
        expected = self.final_expected_regret
        regret = f"regret {self.final_regret:.6g}" if np.isnan(expected) else f"expected regret {expected:.6g}"
        return f"Trace({len(self)} rounds of {self.metadata.get('policy', '?')} on {on}, {regret})"

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows as dicts of plain Python values."""
        lists = [column.tolist() for column in self.columns.values()]
        return (dict(zip(self.columns, values, strict=True)) for values in zip(*lists, strict=True))

    @property
    def cumulative_regret(self) -> Matrix:
        return np.cumsum(self["regret"])

    @property
    def cumulative_expected_regret(self) -> Matrix:
        return np.cumsum(self["expected_regret"])

    @property
    def final_regret(self) -> float:
        return float(self["regret"].sum())

    @property
    def final_expected_regret(self) -> float:
        return float(self["expected_regret"].sum())

    @property
    def mean_reward(self) -> float:
        """Reward per round played; in the replay of a uniformly random log an unbiased estimate of its value."""
        return float(self["reward"].mean()) if len(self) else float("nan")

    @property
    def metric(self) -> str:
        """``"expected regret"``, ``"regret"`` or ``"average reward"``: the first that is known."""
        if len(self) and np.isfinite(self["expected_regret"]).all():
            same = np.allclose(self["expected_regret"], self["regret"], atol=1e-12)  # without noise
            return "regret" if same else "expected regret"
        return "regret" if np.isfinite(self["regret"]).all() else "average reward"

    def curve(self, metric: str) -> Matrix:
        """The metric up to and including each round."""
        if metric == "average reward":
            return np.cumsum(self["reward"]) / np.arange(1, len(self) + 1)
        return self.cumulative_expected_regret if metric == "expected regret" else self.cumulative_regret

    def plot(self) -> Any:
        """A matplotlib figure of the regret so far (of the average reward, where nobody knows the best one)."""
        if not len(self):
            raise InvalidInputError("there is nothing to plot: the trace has no rounds")
        title = f"{self.metadata.get('policy', '')} on {self.metadata.get('environment_name', '?')}"
        label = self.metric if self.metric == "average reward" else f"cumulative {self.metric}"
        return plotting.curve_figure(self.curve(self.metric), label, title)

    def to_pandas(self) -> Any:
        """A pandas DataFrame."""
        columns = {**self.columns, "arm": self["arm"].tolist()}  # else all arms are Python objects
        return package("pandas", "to_pandas needs").DataFrame(columns)

    def save(self, path: str | PathLike[str]) -> None:
        """A NumPy file (.npz) of columns and metadata, which `Trace.load` reads back exactly."""
        arrays = {name: column for name, column in self.columns.items() if name != "arm"}
        arms = self["arm"].tolist()
        header = {"format": "kinbandits trace", "version": FORMAT_VERSION, "metadata": self.metadata, "arm": arms}
        with replacing(path) as part, part.open("wb") as stream:
            write_arrays(stream, {"header": np.array(json.dumps(header)), **arrays}, compressed=True)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Trace:
        """Read what `save` wrote."""
        try:
            with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                arrays = dict(file)
            header = json.loads(str(arrays.pop("header")))
        except FileNotFoundError:
            raise MissingFileError(f"there is no file {path}") from None
        except Exception as error:  # zipfile, zlib, json and numpy have no common ancestor
            raise FormatError(f"{path} is not a saved trace, or it is damaged ({error})") from error
        if header.get("format") != "kinbandits trace" or header.get("version", 0) > FORMAT_VERSION:
            raise FormatError(f"{path} is not a trace that this release can read")
        return cls.of({**arrays, "arm": header["arm"]}, header["metadata"])
