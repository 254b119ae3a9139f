"""Games on an engine itself, without a policy: recorded runs, and the settings they need."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kinbandits.kernels import RBF
from kinbandits.regression import Common, Product, Query, Regression, Settings
from kinbandits.similarity import Estimated

GOLDEN = Path(__file__).parent.parent / "golden"


def data_set(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features as float64, and labels."""
    if name == "digits":
        digits = load_digits()
        return digits.data.astype(np.float64), digits.target
    where = os.environ.get("KINBANDITS_DATA")
    if where is None:
        pytest.skip("KINBANDITS_DATA is not set")
    with np.load(Path(where) / f"{name}.npz") as file:
        return file["X"].astype(np.float64), file["y"]


def recorded(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())  # type: ignore[no-any-return]


def rounds_of(trace: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Contexts (T, 1 or N, d) and the rewards of all arms (T, N)."""
    N = trace["n_arms"]
    if trace["environment"] == "synthetic-news":
        users = np.array(trace["users"])
        c, s = np.cos(trace["angles"]), np.sin(trace["angles"])
        x, y = users[:, :1], users[:, 1:]
        return np.stack([x * c - y * s, x * s + y * c], axis=2), 1.0 - (x - np.arange(N) / 5 + 0.5) ** 2
    X, y = data_set(trace["data"])
    rows = trace["rows"]
    return (X[rows] * trace["feature_scale"])[:, None, :], (y[rows][:, None] == np.arange(N)).astype(float)


def settings_of(trace: dict[str, Any]) -> Settings:
    N, kind = trace["n_arms"], trace["similarity_kind"]
    if kind == "known":
        k_z: Any = np.array(trace["known_similarity"], dtype=np.float64)
    elif kind == "est":
        k_z = Estimated(trace["similarity_length_scale"], RBF(trace["embedding_length_scale"]))
    else:
        k_z = Common(N, {"ind": 0.0, "pool": 1.0}[kind])
    term = Product(k_z, RBF(trace["context_length_scale"]))
    return Settings(N, (term,), trace["ridge"], trace["weighting"], trace["cold_start"])


def choose(engine: Regression, context: np.ndarray, exploration: float) -> int:
    """The first leader of one round; contexts (1 or N, d)."""
    query = Query(np.arange(engine.settings.n_arms), np.atleast_2d(context)[None])
    return int(engine.leaders(query, np.array([exploration]), 1e-12)[0].argmax())


def learn(engine: Regression, arm: int, context: np.ndarray, reward: float) -> None:
    engine.observe(np.array([arm]), context[None], np.array([reward]))


def authors(method: str) -> tuple[Settings, float]:
    """The published settings for Digits, and exploration in the library's units."""
    grid = np.logspace(-3, 2, 10)  # precisions and ridges are points of this grid
    k_z: Any = Common(10)
    if method == "estimated":
        k_z = Estimated(RBF.from_precision(grid[9]).length_scale, RBF.from_precision(grid[2]))
    ridge = float(grid[0])
    settings = Settings(10, (Product(k_z, RBF.from_precision(grid[0])),), ridge, "per_arm")
    return settings, 0.1 * np.sqrt(ridge)  # the authors' score is mean + 0.1 sqrt(k - q)
