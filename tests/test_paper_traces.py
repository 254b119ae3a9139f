"""Runs recorded by programs written apart from this library: the formulas written out, and the authors' own.

`golden/paper/*.json` hold settings, arms, means, widths and the final similarity of short runs;
`golden/authors-digits.npz` the first 1,000 arms that the authors' program plays on its own Digits streams.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import kinbandits as kb

pytestmark = pytest.mark.numerical

GOLDEN = Path(__file__).parent / "golden"
TRACES = sorted((GOLDEN / "paper").glob("*.json"))


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


def rounds_of(trace: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Contexts (T, 1 or N, d) and the rewards of all arms (T, N)."""
    N = trace["n_arms"]
    if trace["environment"] == "synthetic-news":
        users = np.array(trace["users"])
        c, s = np.cos(trace["angles"]), np.sin(trace["angles"])
        rotated = np.stack([users[:, :1] * c - users[:, 1:] * s, users[:, :1] * s + users[:, 1:] * c], axis=2)
        rewards = 1.0 - (users[:, :1] - np.arange(N) / 5 + 0.5) ** 2
        return rotated, rewards
    X, y = data_set(trace["data"])
    rows = trace["rows"]
    return (X[rows] * trace["feature_scale"])[:, None, :], (y[rows][:, None] == np.arange(N)).astype(float)


def similarity_of(trace: dict[str, Any]) -> kb.similarity.Similarity:
    kind = trace["similarity_kind"]
    if kind == "known":
        return kb.Known(trace["known_similarity"])
    if kind == "est":
        return kb.Estimated(trace["similarity_length_scale"], kb.RBF(trace["embedding_length_scale"]))
    return {"ind": kb.Independent(), "pool": kb.Pooled()}[kind]


def cases() -> list[Any]:
    found = []
    for path in TRACES:
        marks = [pytest.mark.data] if path.stem.startswith("segment") else []
        found += [pytest.param(path, e, id=f"{path.stem}-{e}", marks=marks) for e in ("naive", "exact")]
    return found


def test_the_traces_are_there() -> None:
    assert len(TRACES) == 20


@pytest.mark.parametrize(("path", "engine"), cases())
def test_golden_trace(path: Path, engine: str) -> None:
    trace = json.loads(path.read_text())
    contexts, rewards = rounds_of(trace)
    policy = kb.KMTLUCB(
        trace["n_arms"],
        context_kernel=kb.RBF(trace["context_length_scale"]),
        similarity=similarity_of(trace),
        ridge=trace["ridge"],
        exploration=trace["exploration"],
        weighting=trace["weighting"],
        cold_start=trace["cold_start"],
        tie_break=trace["tie_break"],
        engine=engine,
        rewards=None,
    )
    contexts = contexts if contexts.shape[1] > 1 else contexts[:, 0]
    T, sure = len(contexts), trace["compare_arms_up_to"]
    regret, checked = 0.0, 0
    for t in range(T):
        if str(t) in trace["mean"] and t <= sure:
            mean, width = policy.predict(contexts[t])
            np.testing.assert_allclose(mean, trace["mean"][str(t)], rtol=1e-8, atol=1e-8)
            np.testing.assert_allclose(width, trace["width"][str(t)], rtol=1e-8, atol=1e-8)
            checked += 1
        decision = policy.choose(contexts[t])
        if t < sure:
            assert decision.arm == trace["arms"][t], f"round {t}"
        reward = float(rewards[t, decision.index])
        regret += float(rewards[t].max()) - reward
        policy.update(decision, reward)
    assert checked >= 3
    if sure >= T:
        assert regret == pytest.approx(trace["regret"], abs=1e-6)
        assert list(policy.counts.values()) == trace["counts"]
        np.testing.assert_allclose(policy.similarity_matrix(), trace["similarity"], rtol=1e-8, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["estimated", "independent"])
def test_the_authors_own_program_on_digits(method: str) -> None:
    """Same 1,000 arms on the first of their streams; regret 364 (estimated) and 375 (independent)."""
    X, y = data_set("digits")
    name = {"estimated": "KMTL-UCB-Est", "independent": "Kernel-UCB-Ind"}[method]
    policy = kb.KMTLUCB(10, **kb.presets.paper("digits", name))
    with np.load(GOLDEN / "authors-digits.npz") as file:
        start, test, wanted = file["start_rows"][0], file["test_rows"][0], file[f"arms_{method}"][0]
    policy.observe(np.arange(10), X[start], (y[start] == np.arange(10)).astype(float))
    played = []
    for row in test[:1000]:
        decision = policy.choose(X[row])
        policy.update(decision, float(y[row] == decision.arm))
        played.append(decision.arm)
    np.testing.assert_array_equal(played, wanted)
    regret = int((np.array(played) != y[test[:1000]]).sum())
    assert regret == {"estimated": 364, "independent": 375}[method]
