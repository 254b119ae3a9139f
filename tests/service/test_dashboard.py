"""The dashboard and the numbers on it: honest intervals, charts from the first minute, one page for 1,000 arms."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import running, settings
from test_app import serving, wait_ready

import kinbandits as kb
from kinbandits.service.config import Settings
from kinbandits.service.dashboard import charts, verdict, working
from kinbandits.service.events import Event, decision_id
from kinbandits.service.ledger import Decide, Reward
from kinbandits.service.stats import Bucket, Stats

ARMS = [f"arm-{i:03}" for i in range(1000)]


def logged(n: int, seed: int, good: float, epsilon: float = 0.05, k: int = 10, start: float = 0.0) -> tuple[Stats, Any]:
    """Decisions that play one arm but for the floor; it pays ``good``, the others 0.1; and the same as arrays."""
    rng = np.random.default_rng(seed)
    stats = Stats(list(range(k)))
    r, p, chosen = [], [], []
    for i in range(n):
        even = rng.random() < epsilon
        arm = int(rng.integers(k)) if even else 0
        p.append(epsilon / k + (1.0 - epsilon) * (arm == 0))
        r.append(float(rng.random() < (good if arm == 0 else 0.1)))
        chosen.append(arm)
        body = {"context": [0.0], "candidates": list(range(k)), "arm": arm, "index": arm, "propensity": p[-1]}
        at = start + i
        stats.apply(Event(2 * i + 1, "decision", decision_id(i + 1), at, body))
        row = {"arm": arm, "context": [0.0], "own_contexts": False, "uniform": 1.0 / (k * p[-1])}
        stats.apply(Event(2 * i + 2, "reward", decision_id(i + 1), at, {"reward": r[-1], "delay": 0.0, **row}))
    return stats, (r, p, chosen)


def whole(stats: Stats) -> Bucket:
    bucket = Bucket()
    for _, one in stats.since(1e6, stats.at):
        bucket.add(one)
    return bucket


def test_the_interval_is_that_of_the_estimators() -> None:
    stats, (r, p, chosen) = logged(600, 1, 0.4)
    expected = kb.ope.estimate(r, p, chosen, np.full((600, 10), 0.1)).estimates["snips"]
    found = stats.uniform(whole(stats), 0.0)
    assert found == pytest.approx((expected.low, expected.value, expected.high), rel=1e-5)


@pytest.mark.numerical
@pytest.mark.parametrize("n", [300, 700, 2000])
def test_intervals_cover(n: int) -> None:
    """What a uniform choice earns is 0.13. Normal theory covers in 0.5 to 0.7 of such logs."""
    rng, stats, covered, runs = np.random.default_rng(0), Stats(), 0, 1500
    stats.extremes = [0.0, 1.0, 0.1, 0.005]
    for _ in range(runs):
        arm = np.where(rng.random(n) < 0.05, rng.integers(10, size=n), 0)
        r = (rng.random(n) < np.where(arm == 0, 0.4, 0.1)).astype(float)
        w = 1.0 / (10 * np.where(arm == 0, 0.955, 0.005))
        sums = {"w": w, "w2": w**2, "wr": w * r, "w2r": w**2 * r, "w2r2": (w * r) ** 2}
        low, _, high = stats.uniform(Bucket({name: float(v.sum()) for name, v in sums.items()}), 0.05)  # type: ignore[misc]
        covered += low <= 0.13 <= high
    assert 0.92 < covered / runs < 0.985  # it dips and rises with n, as of all intervals of a few whole numbers


@pytest.mark.numerical
def test_verdicts_are_never_too_early() -> None:
    """A policy that earns what a uniform choice earns is not said to work."""
    wrong, runs = 0, 150
    for seed in range(runs):
        stats, _ = logged(300, seed, 0.1)
        wrong += not working(stats, 0.05, "24h", stats.at)["verdict"].startswith("Too early")
    assert wrong / runs < 0.05


def test_verdicts() -> None:
    assert verdict(None, None, 0, 0.0).startswith("Too early to tell: there are no rewards")
    assert verdict((0.5, 0.6, 0.7), (0.1, 0.2, 0.3), 20, 20.0).startswith("Too early")  # rewards are few
    assert verdict((0.5, 0.6, 0.7), (0.1, 0.2, 0.3), 200, 20.0).startswith("Too early")  # hardly any even choices
    assert verdict((0.5, 0.6, 0.7), (0.1, 0.2, 0.3), 200, 190.0).startswith("Yes")
    assert verdict((0.1, 0.2, 0.3), (0.5, 0.6, 0.7), 200, 190.0).startswith("No")
    stats, _ = logged(4000, 3, 0.9)
    assert working(stats, 0.05, "", stats.at)["verdict"].startswith("Yes")


def test_charts_show_something_from_the_first_decisions() -> None:
    stats, _ = logged(700, 0, 0.4, start=time.time() - 700.0)  # a decision a second
    chart = working(stats, 0.05, "", stats.at)["chart"]
    assert chart.count("<circle") > 20
    one, _ = logged(3, 0, 0.9)
    assert "<circle" in working(one, 0.05, "", one.at)["chart"]
    assert "nan" not in chart
    assert "nothing yet" in charts.lines([], [], title="t", x_label="x", y_label="y")
    assert "&lt;a&gt;" in charts.lines(
        [1.0], [charts.Line("<a>", [(1.0, 2.0, 3.0)], 1)], title="t", x_label="", y_label=""
    )


def test_stats_are_small_and_survive_json(tmp_path: Path) -> None:
    import json

    stats, _ = logged(500, 0, 0.4, start=1e9)
    again = Stats.from_data(json.loads(json.dumps(stats.to_data())))
    assert again.to_data() == stats.to_data()
    copied = stats.copy()
    stats.apply(Event(1001, "void", decision_id(1), 1e9, {}))
    assert copied.seq == 1000
    for i in range(3000):
        stats._buckets(1e9 + 86_400.0 * i)
    assert len(stats.series["coarse"]) <= 4320
    assert len(stats.series["fine"]) == 360


def fill_many(url: str) -> Settings:
    """A thousand arms with something to show."""
    policy = {"arms": ARMS, "similarity": {"type": "Independent"}, "epsilon": 0.3}
    options = Settings(policy=policy, service=settings(features=2).service)
    rng = np.random.default_rng(0)
    with running(url, options) as engine:
        for _ in range(5):
            answers = engine.submit([Decide(rng.normal(size=2).tolist()) for _ in range(60)]).result(60.0)
            paid = [Reward(a["id"], float(rng.random() < 0.3)) for a in answers[:50]]
            engine.submit(paid).result(60.0)
            engine.wait_for(engine.last_seq)
    return options


def test_one_page_for_a_thousand_arms(tmp_path: Path) -> None:
    options = fill_many(str(tmp_path / "log.sqlite3"))
    client, token = serving(tmp_path / "log.sqlite3", options.model_dump(exclude_none=True))
    with client:
        client.headers["Authorization"] = f"Bearer {token}"
        wait_ready(client)
        page = client.get("/")
        assert page.status_code == 200
        assert len(page.content) < 100_000
        assert "50 of 1,000 arms" in page.text
        assert page.text.count('<th scope="row"') == 50
        found = client.get("/?find=arm-99&sort=name").text
        assert re.findall(r"arm-99\d", found)[:3] == ["arm-990", "arm-991", "arm-992"]
        assert found.count('<th scope="row"') == 10
        name = client.get("/v1/decisions?limit=1").json()["decisions"][0]["id"]
        assert f"{name} chose" in client.get(f"/?explain={name}").text
        assert "no decision of this id" in client.get("/?explain=<b>nonsense</b>").text
        assert "<b>nonsense" not in client.get("/?explain=<b>nonsense</b>&find=<b>nonsense").text
        for name, kind in (("style.css", "text/css"), ("live.js", "javascript")):
            assert kind in client.get(f"/static/{name}").headers["content-type"]
        assert client.get("/static/home.html").status_code == 404
        assert "http://" not in page.text.replace("http://www.w3.org", "")  # nothing from elsewhere
        assert token not in page.text


def test_the_script_is_well_formed() -> None:
    import shutil

    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here")
    script = Path(charts.__file__).parent / "live.js"
    subprocess.run([node, "--check", script], check=True)
