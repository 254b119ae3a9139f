"""The dashboard tells why the similarity is what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinbandits.service.config import ServiceSettings, Settings
from kinbandits.service.dashboard import Pages
from kinbandits.service.engine import Engine
from kinbandits.service.metrics import Metrics
from kinbandits.service.requests import Decide, Reward
from kinbandits.service.store import open_store


def panel(folder: Path, similarity: dict[str, Any] | None, rounds: int = 70, own: bool = False) -> str:
    kernel = {"type": "RBF", "length_scale": 1.0}
    policy: dict[str, Any] = {"arms": ["a", "b", "c", "d"], "context_kernel": kernel, "epsilon": 0.3}
    if similarity is not None:
        policy["similarity"] = similarity
    store = open_store(str(folder / "log.sqlite3"))
    engine = Engine(store, Settings(policy=policy, service=ServiceSettings()))
    engine.start()
    try:
        rng = np.random.default_rng(0)
        for _ in range(rounds):
            x = rng.normal(size=2)
            given = [x.tolist()] * 4 if own else x.tolist()
            told = engine.ask(Decide(given))
            kind = told["arm"] in "cd"
            engine.ask(Reward(told["id"], float(np.sin(2 * x[0] + 3 * kind))))
        assert engine.wait_for(engine.store.last_seq())
        return Pages(engine, Metrics(engine)).panel("choices")
    finally:
        engine.stop()
        store.close()


def test_choices_are_drawn(tmp_path: Path) -> None:
    shown = panel(tmp_path, None)
    assert "Chosen from" in shown
    assert "rows learned" in shown
    assert "needed" in shown
    assert shown.count("<tr") == 8  # a head, Independent and six candidates
    assert shown.count("(chosen)") == 1


def test_own_contexts_reach_the_similarity(tmp_path: Path) -> None:
    shown = panel(tmp_path, {"type": "Adaptive", "margin": 0.0, "first": 10}, own=True)
    assert any(words in shown for words in ("not judged", "comes nearest", "averaged"))
    assert "would have decided worse" not in shown
    assert "How likely each mu is" in shown
    assert '<th scope="col">weight</th>' in shown


@pytest.mark.parametrize("similarity", [{"type": "Independent"}, {"type": "Mixed", "mu": 0.5}])
def test_nothing_is_told_where_nothing_is_chosen(tmp_path: Path, similarity: dict[str, Any]) -> None:
    shown = panel(tmp_path, similarity, rounds=12)
    assert "given, not chosen" in shown
    assert "Chosen from" not in shown


def test_an_estimated_similarity_is_not_called_given(tmp_path: Path) -> None:
    shown = panel(tmp_path, {"type": "Estimated", "length_scale": 0.5}, rounds=12)
    assert "given" not in shown
    assert "estimated from the data" in shown
