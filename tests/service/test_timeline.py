"""The recent past, and what the first panel says of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from commands import Clock

from kinbandits.service.config import Settings
from kinbandits.service.dashboard import Pages
from kinbandits.service.dashboard.working import verdict
from kinbandits.service.engine import Engine
from kinbandits.service.metrics import Metrics
from kinbandits.service.requests import Decide, Reward
from kinbandits.service.store import open_store
from kinbandits.service.timeline import POINTS, RANGES, Bucket, Timeline


def test_uniform_choice_is_told_from_a_log_that_does_not_choose_so() -> None:
    """Over 400 simulated stretches the interval covers what a uniform choice earns, and it is unbiased."""
    rng = np.random.default_rng(0)
    p, pays = np.array([0.7, 0.2, 0.1]), np.array([0.8, 0.5, 0.2])
    covered, values = 0, []
    for _ in range(400):
        bucket = Timeline()
        for arm in rng.choice(3, 300, p=p):
            bucket.reward(0.0, float(rng.random() < pays[arm]), 1.0 / (3 * p[arm]))
        ((_, found),) = bucket.series("1h", 1.0)
        low, value, high = found.uniform() or (0, 0, 0)
        covered += low <= pays.mean() <= high
        values.append(value)
    assert 0.92 <= covered / 400 <= 0.98
    assert np.mean(values) == pytest.approx(pays.mean(), abs=0.01)


def test_means_of_zeros_and_ones_stay_within() -> None:
    low, mean, high = Bucket(rewards=10, r=10.0, r2=10.0).mean(binary=True) or (0, 0, 0)
    assert 0.6 < low < 0.9
    assert (mean, high) == (1.0, 1.0)
    assert Bucket().mean(True) is None
    assert Bucket().uniform() is None


def test_old_buckets_go_and_all_comes_back_from_json() -> None:
    timeline = Timeline()
    for i in range(5000):
        timeline.decision(1e9 + 60.0 * i, "a")
        timeline.reward(1e9 + 60.0 * i, 0.5, 1.0)
    now = 1e9 + 60.0 * 5000
    assert all(len(timeline.series(name, now)) <= POINTS + 1 for name in RANGES)
    assert sum(b.decisions for _, b in timeline.series("1h", now)) == pytest.approx(60, abs=1)
    assert sum(b.decisions for _, b in timeline.series("30d", now)) == 5000
    again = Timeline.from_data(json.loads(json.dumps(timeline.to_data())))
    assert again.to_data() == timeline.to_data()
    assert not again.binary


def test_verdicts() -> None:
    assert verdict(None, None).startswith("Too early")
    assert verdict((0.1, 0.2, 0.3), None).startswith("There is nothing")
    assert verdict((0.1, 0.2, 0.3), (0.5, 0.6, 0.7)).startswith("No: it earns 0.4 less")
    assert verdict((0.1, 0.2, 0.3), (0.2, 0.25, 0.3)).startswith("Not certain yet: -0.05")


def test_the_panel(tmp_path: Path) -> None:
    clock = Clock()
    store = open_store(str(tmp_path / "log.sqlite3"))
    engine = Engine(store, Settings(policy={"arms": ["good", "bad<script>", "x" * 60], "epsilon": 0.3}), clock)
    engine.start()
    pages = Pages(engine, Metrics(engine))
    assert "Too early" in pages.panel("working")
    rng = np.random.default_rng(0)
    for _ in range(250):
        clock.now += 10.0
        made = engine.ask(Decide([float(rng.normal())]))
        engine.ask(Reward(made["id"], float(made["arm"] == "good" or rng.random() < 0.1)))
    assert engine.wait_for(store.last_seq())
    shown = pages.panel("working", "1h")
    assert "Yes: it earns" in shown
    assert "<script>" not in shown
    assert 'data-range="1h" aria-current="true"' in shown
    assert "uniform choice would" in shown
    assert 'title="xxxxxxxxxxxx' in pages.panel("arms")
    assert "nats" in pages.home()
    told = pages.panel("engine")
    assert "Noise of rewards" in told
    assert "last moved at" in told
    assert "Rewards: ridge" in pages.explain(made["id"])
    engine.stop()
    store.close()
