"""Runs recorded by programs written apart from this library: the formulas written out, and the authors' own.

`golden/paper/*.json` hold settings, arms, means, widths and the final similarity of short runs;
`golden/authors-digits.npz` the first 1,000 arms that the authors' program plays on its own Digits streams.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from games import GOLDEN, authors, choose, data_set, learn, recorded, rounds_of, settings_of

from kinbandits.history import History
from kinbandits.regression import Query, make

TRACES = sorted((GOLDEN / "paper").glob("*.json"))


def test_the_traces_are_there() -> None:
    assert len(TRACES) == 20


@pytest.mark.parametrize("engine", ["naive", "exact"])
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_recorded_run(path: Path, engine: str) -> None:
    trace = recorded(path)
    contexts, rewards = rounds_of(trace)
    regression = make(engine, settings_of(trace), History(trace["n_arms"]))
    T, sure = len(contexts), trace["compare_arms_up_to"]
    regret, checked = 0.0, 0
    for t in range(T):
        if str(t) in trace["mean"] and t <= sure:
            mean, width = regression.predict(Query(np.arange(trace["n_arms"]), contexts[t][None]))
            np.testing.assert_allclose(mean[0], trace["mean"][str(t)], rtol=1e-8, atol=1e-8)
            np.testing.assert_allclose(width[0], trace["width"][str(t)], rtol=1e-8, atol=1e-8)
            checked += 1
        arm = choose(regression, contexts[t], trace["exploration"])
        if t < sure:
            assert arm == trace["arms"][t], f"round {t}"
        regret += float(rewards[t].max() - rewards[t, arm])
        learn(regression, arm, contexts[t, 0 if len(contexts[t]) == 1 else arm], float(rewards[t, arm]))
    assert checked >= 3
    if sure >= T:
        assert regret == pytest.approx(trace["regret"], abs=1e-6)
        assert regression.counts.tolist() == trace["counts"]
        np.testing.assert_allclose(regression.k_z[0], trace["similarity"], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("method", "regret"), [("estimated", 364), ("independent", 375)])
def test_the_authors_own_program_on_digits(method: str, regret: int) -> None:
    """The same arms in all 1,000 rounds of the first of their streams."""
    X, y = data_set("digits")
    settings, exploration = authors(method)
    with np.load(GOLDEN / "authors-digits.npz") as file:
        start, test, wanted = file["start_rows"][0], file["test_rows"][0], file[f"arms_{method}"][0]
    rows = History.of(10, np.arange(10), X[start], (y[start] == np.arange(10)).astype(float))
    regression = make("exact", settings, rows)
    played = []
    for row in test[:1000]:
        played.append(choose(regression, X[row], exploration))
        learn(regression, played[-1], X[row], float(y[row] == played[-1]))
    np.testing.assert_array_equal(played, wanted)
    assert int((np.array(played) != y[test[:1000]]).sum()) == regret
