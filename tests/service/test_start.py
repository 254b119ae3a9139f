"""A service that begins with a fitted policy: exported, fitted, served."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from commands import Run, fill

import kinbandits as kb
from kinbandits.service.config import load_settings
from kinbandits.service.engine import Engine
from kinbandits.service.events import Draft
from kinbandits.service.learner import follow
from kinbandits.service.requests import Decide, Reward
from kinbandits.service.rounds import replay
from kinbandits.service.shadow import shadows_of
from kinbandits.service.store import open_store


def test_export_fit_serve(tmp_path: Path, config: Path, run: Run) -> None:
    url = str(tmp_path / "log.sqlite3")
    fill(url, config)
    said = run("fit", url, "--policy", config, "--out", tmp_path / "start.policy", "--scheduler", "sync")
    assert "96 rows learned" in said
    assert "Left out: 24 rows, without a reward" in said
    assert "120 decisions" in run("log", "export", url, tmp_path / "rows")
    run("fit", tmp_path / "rows", "--policy", config, "--out", tmp_path / "other.policy", "--scheduler", "sync")
    start = tmp_path / "start.policy"
    assert (tmp_path / "other.policy").read_bytes() == start.read_bytes()
    assert not list(tmp_path.glob("*.work"))
    assert "is there already" in run("log", "export", url, tmp_path / "rows", code=1)

    fitted = kb.load(start)
    settings = load_settings(config, start)
    empty = open_store(str(tmp_path / "new.sqlite3"))
    learner = follow(empty, settings)
    assert learner.policy.n_observations == 96
    assert learner.serving.policy.predict([0.3, 0.4]).mean == pytest.approx(fitted.predict([0.3, 0.4]).mean)
    empty.close()
    log = open_store(url)  # the log that it was fitted to: nothing is learned twice
    learner = follow(log, settings)
    assert learner.policy.n_observations == replay(log, settings).policy.n_observations == 96
    log.save_snapshot(learner.seq, learner.snapshot().pieces())
    assert follow(log, settings).restored == (learner.seq, 96)  # a snapshot of the same start is used
    assert follow(log, load_settings(config)).policy.n_observations == 96  # of another it is not
    engine = Engine(log, settings)
    engine.start()
    engine.ask(Reward(engine.ask(Decide([0.1, 0.2]))["id"], 1.0))  # what comes later is learned
    opened = next(r.id for r in log.all_records() if r.state == "open")
    engine.ask(Reward(opened, 0.0))  # also if it was decided before
    assert engine.wait_for(log.last_seq())
    assert engine.serving.policy.n_observations == 98
    engine.stop()
    config.write_text(config.read_text() + "[shadow.apart]\nsimilarity = { type = 'Independent' }\n")
    beside = shadows_of(load_settings(config, start), follow(log, load_settings(config, start)))
    beside[0].apply(log.read_all())
    assert beside[0].policy.n_observations == 98  # it has no start, and learns the whole log
    log.close()


def test_a_start_that_knows_a_part_of_the_log_is_refused(tmp_path: Path, config: Path, run: Run) -> None:
    url, start = str(tmp_path / "log.sqlite3"), tmp_path / "start.policy"
    fill(url, config)
    run("log", "export", url, tmp_path / "rows" / "monday")
    fit = ("fit", tmp_path / "rows", "--out", start, "--scheduler", "sync")
    run(*fit, "--policy", config, "--since", 0)
    said = run("serve", config, "--start", start, "--store", url, code=1)
    assert f"start.policy has learned a part of the log {url}" in said
    assert "Fit it again from the whole log, or serve a new log" in said
    run(*fit, "--policy", config)
    assert "has learned this log before, up to event" in run(*fit, "--policy", start, code=1)
    store = open_store(url)
    with store.transaction() as tx:  # an end that the log does not have any more
        tx.append([Draft("void", 2000.0, {"reason": "no"}, "0-000000000001")])
    run("log", "export", url, tmp_path / "rows" / "tuesday")
    assert "several exports of one log" in run(*fit, "--policy", config, code=1)
    run("fit", tmp_path / "rows" / "tuesday", "--policy", config, "--out", start, "--scheduler", "sync")
    with store.transaction():
        store._write("DELETE FROM events WHERE seq = ?", (store.last_seq(),))
    store.close()
    assert "events of what was once the log" in run("serve", config, "--start", start, "--store", url, code=1)


def test_a_start_of_other_settings_is_refused(tmp_path: Path, config: Path, run: Run) -> None:
    url = str(tmp_path / "log.sqlite3")
    fill(url, config)
    run("fit", url, "--policy", config, "--out", tmp_path / "start.policy", "--scheduler", "sync")
    other = tmp_path / "other.toml"
    other.write_text(config.read_text().replace("[policy]", "[policy]\nweighting = 'per_arm'"))
    said = run("serve", other, "--start", tmp_path / "start.policy", code=1)
    assert "was fitted with weighting = 'uniform', but [policy] says 'per_arm'" in said
    assert "is for one settings file" in run("serve", "--start", tmp_path / "start.policy", code=1)


def test_rows_since(tmp_path: Path, config: Path, run: Run) -> None:
    url = str(tmp_path / "log.sqlite3")
    fill(url, config)
    out = ("--out", tmp_path / "start.policy", "--scheduler", "sync")
    said = run("fit", url, "--policy", config, *out, "--since", "2999-01-01", code=1)
    assert "no row is left of 120" in said
    assert "since must be like" in run("fit", url, "--policy", config, *out, "--since", "monday", code=1)
    run("fit", url, "--policy", config, *out)
    said = run("fit", url, "--policy", tmp_path / "start.policy", "--out", tmp_path / "more.policy", "--since", "0")
    assert "192 in all" in said
    assert np.isfinite(kb.load(tmp_path / "more.policy").predict([0.3, 0.4]).mean).all()
