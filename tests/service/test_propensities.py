"""A service that logs with inverse-gap weighting: the propensities in the log are those of the model that chose."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.service.config import Settings
from kinbandits.service.engine import Engine
from kinbandits.service.requests import Decide, Reward
from kinbandits.service.store import open_store

POLICY = {
    "arms": ["a", "b", "c"],
    "similarity": {"type": "Independent"},
    "context_kernel": {"type": "RBF", "length_scale": 1.0},
    "exploration": {"type": "InverseGap", "gamma": {"type": "RootGamma", "scale": 2.0}},
    "epsilon": 0.0,
}


def test_propensities_of_the_log(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "log.sqlite3"))
    engine = Engine(store, Settings.model_validate({"policy": POLICY}))
    engine.start()
    try:
        twin, rng = kb.KMTLUCB(["a", "b", "c"], **_twin()), np.random.default_rng(0)
        for _ in range(25):
            x = rng.normal(size=2).tolist()
            answer = engine.ask(Decide(x))
            p = twin.probabilities([[x]])[0]
            assert answer["propensity"] == pytest.approx(p[answer["index"]], rel=1e-6)
            reward = float(rng.random())
            engine.ask(Reward(answer["id"], reward))
            assert engine.wait_for(engine.store.last_seq())
            twin.observe([answer["arm"]], [x], [reward])
        assert 0.0 < answer["propensity"] < 1.0
    finally:
        engine.stop()
        store.close()


def _twin() -> dict[str, object]:
    rule = kb.InverseGap(kb.rules.RootGamma(2.0))
    return {"similarity": kb.Independent(), "context_kernel": kb.RBF(), "exploration": rule}
