"""Logs for the tests of bulk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ARMS = ["a", "b", "c", "d"]
D = 3


def rows(n: int = 3000, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, D))
    arms = rng.integers(len(ARMS), size=n)
    mean = 0.5 + 0.4 * np.sin(2.0 * X[:, 0] + arms)
    return {
        "arm": np.array(ARMS)[arms],
        **{f"x{i}": X[:, i] for i in range(D)},
        "reward": mean + 0.1 * rng.standard_normal(n),
        "propensity": np.full(n, 1.0 / len(ARMS)),
        "at": np.arange(n, dtype=np.float64),
    }


CONTEXT = tuple(f"x{i}" for i in range(D))


def contexts(found: dict[str, Any]) -> np.ndarray:
    return np.stack([found[name] for name in CONTEXT], axis=1)


def write(folder: Path, found: dict[str, Any], parts: int = 1, group: int = 10**6) -> Path:
    """The rows in so many files."""
    folder.mkdir(parents=True, exist_ok=True)
    edges = np.linspace(0, len(found["arm"]), parts + 1).astype(int)
    for i in range(parts):
        part = slice(edges[i], edges[i + 1])
        pq.write_table(
            pa.table({k: v[part] for k, v in found.items()}), folder / f"{i:04}.parquet", row_group_size=group
        )
    return folder
