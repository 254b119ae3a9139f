"""Export, import, replay, evaluate: by the commands a user types."""

from __future__ import annotations

import csv
import json
import random
import sys
import time
from pathlib import Path

import pytest
from commands import Clock, Run, fill

import kinbandits as kb
from kinbandits.service import exchange
from kinbandits.service.config import load_settings
from kinbandits.service.dashboard import Pages
from kinbandits.service.engine import Engine
from kinbandits.service.metrics import Metrics
from kinbandits.service.requests import Decide, Reward, Void
from kinbandits.service.state import State
from kinbandits.service.store import open_store


def test_the_life_of_a_log(tmp_path: Path, config: Path, run: Run) -> None:
    url = str(tmp_path / "log.sqlite3")
    fill(url, config)
    assert "all in order" in run("log", "verify", url)
    # out
    for suffix in exchange.FORMATS:
        assert "120 decisions" in run("log", "export", url, tmp_path / f"log{suffix}")
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [r["state"] for r in lines[:8]] == ["rewarded"] * 3 + ["void"] + ["rewarded"] * 3 + ["open"]
    with (tmp_path / "log.csv").open() as file:
        table = list(csv.DictReader(file))
    assert json.loads(table[5]["context"]) == lines[5]["context"]
    assert float(table[5]["propensity"]) == lines[5]["propensity"]
    # in again, elsewhere
    rewarded = [r for r in table if r["state"] == "rewarded"]
    with (tmp_path / "old.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["article", "clicked", "u", "v", "p"])
        for r in rewarded:
            writer.writerow([r["arm"], r["reward"], *json.loads(r["context"]), r["propensity"]])
    other = str(tmp_path / "other.sqlite3")
    options = [
        "--config",
        config,
        "--arm",
        "article",
        "--reward",
        "clicked",
        "--context",
        "u,v",
        "--propensity",
        "p",
    ]
    assert "96 rounds" in run("log", "import", other, tmp_path / "old.csv", *options)
    assert "all in order" in run("log", "verify", other)
    # another policy learns it
    for log in (url, other):
        saved = tmp_path / f"{Path(log).stem}.policy"
        assert "96 rows learned, 0 refused" in run("log", "replay", log, config, saved)
    mine, theirs = kb.load(tmp_path / "log.policy"), kb.load(tmp_path / "other.policy")
    assert mine.predict([0.3, 0.4]).mean == pytest.approx(theirs.predict([0.3, 0.4]).mean)
    # what it would have earned
    assert "dr" in run("evaluate", url, config)
    found = json.loads(run("evaluate", other, config, "--json", "--train", 0.4))
    assert set(found["estimates"]) == {"ips", "snips", "direct", "dr"}
    assert found["n"] == 96 - int(96 * 0.4)
    # backup while it is open for writing, and back
    held = open_store(url)
    copy = tmp_path / "copy.sqlite3"
    assert "all in order" in run("backup", url, copy)
    held.close()
    assert "is there already" in run("backup", url, copy, code=1)
    assert "is there already" in run("restore", copy, url, code=1)
    assert "all in order" in run("restore", copy, tmp_path / "new" / "log.sqlite3")
    again = open_store(str(tmp_path / "new" / "log.sqlite3"))
    first = open_store(url, readonly=True)
    assert again.read(limit=10_000) == first.read(limit=10_000)
    again.close()
    first.close()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("arm,reward,context\nz,1,0.5\n", "row 1: there is no column or arm 'z'"),
        ("arm,context\na,0.5\n", "no column or arm 'reward'"),
        ("arm,reward,context\na,1,0.5\na,nan,0.5\n", "row 2: a reward is finite"),
        ("arm,reward,context\na,1e300,0.5\n", "row 1: a reward is finite and at most 1e+12"),
        ("arm,reward,context\na,1,[]\n", "row 1: a context has 1 to 100,000 numbers, got 0"),
        ("arm,reward,context\na,1,1e200\n", "row 1: numbers of a context are finite"),
        ('arm,reward,context\na,1,0.5\nb,1,"[0.5, 1]"\n', "has 1 numbers, got 2"),
        ("arm,reward,context\na,much,0.5\n", "could not convert"),
    ],
)
def test_a_bad_import_changes_nothing(tmp_path: Path, config: Path, run: Run, content: str, said: str) -> None:
    (tmp_path / "old.csv").write_text(content)
    url = tmp_path / "log.sqlite3"
    assert said in run("log", "import", url, tmp_path / "old.csv", "--config", config, code=1)
    store = open_store(str(url))
    assert store.last_seq() == 0
    store.close()


def test_what_cannot_be_done_is_said(tmp_path: Path, config: Path, run: Run) -> None:
    assert "there is no log" in run("log", "verify", tmp_path / "none.sqlite3", code=1)
    fill(str(tmp_path / "log.sqlite3"), config, rounds=3)
    assert "must end in one of" in run("log", "export", tmp_path / "log.sqlite3", tmp_path / "x.xls", code=1)
    assert "too few" in run("evaluate", tmp_path / "log.sqlite3", config, code=1)
    bad = tmp_path / "bad.toml"
    bad.write_text("[policy]\narms = 0\n")
    assert "arms must be at least 1" in run("serve", bad, code=1)
    bad.write_text("[service]\nreward_wait = -1.0\n")
    assert "service.reward_wait" in run("serve", bad, code=1)
    bad.write_text("[service]\nreward_weight = 1.0\n")
    assert "there is no setting service.reward_weight; there are reward_wait" in run("serve", bad, code=1)
    held = open_store(str(tmp_path / "log.sqlite3"))
    assert "in use by another process" in run("serve", config, "--store", tmp_path / "log.sqlite3", code=1)
    held.close()


def test_postgres_logs_too(postgres_url: str, tmp_path: Path, config: Path, run: Run) -> None:
    fill(postgres_url, config, rounds=30)
    assert "all in order" in run("log", "verify", postgres_url)
    assert "30 decisions" in run("log", "export", postgres_url, tmp_path / "x.jsonl")
    assert "pg_dump" in run("backup", postgres_url, tmp_path / "x", code=1)


def test_the_file_of_an_experiment_is_recognised(tmp_path: Path, config: Path, run: Run) -> None:
    fill(str(tmp_path / "log.sqlite3"), config, rounds=3)
    path = tmp_path / "experiment.toml"
    path.write_text('name = "x"\nseeds = 3\n[[environments]]\nkind = "synthetic-news"\n[[methods]]\nname = "a"\n')
    for command in (("serve", path), ("evaluate", tmp_path / "log.sqlite3", path)):
        said = " ".join(run(*command, code=1).split())
        assert "is an experiment" in said
        assert "kinbandits run" in said
        assert "[policy]" in said
        assert "Extra inputs" not in said
    path.write_text("[polcy]\narms = 3\n")
    assert "has polcy, but a service's file has only" in " ".join(run("serve", path, code=1).split())


def test_defaulted_decisions_count_at_the_default_reward(tmp_path: Path, run: Run) -> None:
    """Clicks as rewards, silence as 0: arms that pay 5 to 20 % are not valued at almost 1."""
    config = tmp_path / "clicks.toml"
    config.write_text(
        '[policy]\narms = ["a", "b", "c"]\nepsilon = 1.0\n[service]\nreward_wait = 60.0\ndefault_reward = 0.0\n'
    )
    clock, rng = Clock(), random.Random(0)
    store = open_store(str(tmp_path / "log.sqlite3"))
    engine = Engine(store, load_settings(config), clock)
    engine.start()
    pays = {"a": 0.05, "b": 0.1, "c": 0.2}
    for i in range(600):
        clock.now += 1.0
        answer = engine.ask(Decide([rng.gauss(0, 1)]))
        if i % 100 == 7:
            engine.ask(Void(answer["id"], "not shown"))
        elif rng.random() < pays[answer["arm"]]:
            engine.ask(Reward(answer["id"], 1.0))
    clock.now += 30.0  # the youngest half minute still waits
    deadline = time.monotonic() + 60.0
    while engine.learner.state.states["open"] > 60 and time.monotonic() < deadline:
        time.sleep(0.02)
    engine.stop()
    store.close()
    found = json.loads(run("evaluate", tmp_path / "log.sqlite3", config, "--json"))
    assert 0.02 < found["logged"] < 0.3
    for e in found["estimates"].values():
        assert e["value"] < 0.3, e
    left_out = found["left_out"]
    assert left_out["void"] == 6
    assert 20 < left_out["younger than the oldest open decision"] < 80
    assert set(left_out) == {"void", "younger than the oldest open decision"}
    assert "Left out: 6 decisions, void" in run("evaluate", tmp_path / "log.sqlite3", config)


def test_decisions_without_any_reward_are_left_out_and_said(tmp_path: Path, config: Path, run: Run) -> None:
    fill(str(tmp_path / "log.sqlite3"), config)
    said = run("evaluate", tmp_path / "log.sqlite3", config)
    assert "Left out: 12 decisions, open" in said
    assert "12 decisions have no reward" in " ".join(said.split())


def test_a_file_is_imported_once(tmp_path: Path, config: Path, run: Run) -> None:
    (tmp_path / "old.csv").write_text("arm,reward,context\na,1,0.5\nb,0,0.25\n")
    command = ("log", "import", tmp_path / "log.sqlite3", tmp_path / "old.csv", "--config", config)
    assert "2 rounds" in run(*command)
    assert "was imported into this log before" in " ".join(run(*command, code=1).split())
    assert "2 rounds" in run(*command, "--again")
    assert "8 events, all in order" in run("log", "verify", tmp_path / "log.sqlite3")


def test_parquet_without_pyarrow(tmp_path: Path, config: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    fill(str(tmp_path / "log.sqlite3"), config, rounds=3)
    (tmp_path / "old.parquet").write_bytes(b"")
    assert "needs pyarrow" in run("log", "export", tmp_path / "log.sqlite3", tmp_path / "x.parquet", code=1)
    command = ("log", "import", tmp_path / "log.sqlite3", tmp_path / "old.parquet", "--config", config)
    assert "needs pyarrow" in run(*command, code=1)


def test_lines_that_are_not_json(tmp_path: Path, config: Path, run: Run) -> None:
    (tmp_path / "old.jsonl").write_text('{"arm": "a"\n')
    command = ("log", "import", tmp_path / "log.sqlite3", tmp_path / "old.jsonl", "--config", config)
    assert "line 1 is not JSON" in run(*command, code=1)


@pytest.mark.parametrize(
    ("arms", "said"),
    [
        ('["a/b", "c"]', "arm 'a/b' cannot be served"),
        ('["", "c"]', "arm ''"),
        ('[1, "1"]', "look the same in a path"),
        ('["a\\u0007", "c"]', "no control characters"),
    ],
)
def test_arms_that_cannot_stand_in_a_path(tmp_path: Path, run: Run, arms: str, said: str) -> None:
    (tmp_path / "bad.toml").write_text(f"[policy]\narms = {arms}\n")
    assert said in " ".join(run("serve", tmp_path / "bad.toml", code=1).split())


def test_addresses_that_cannot_be(tmp_path: Path, config: Path, run: Run) -> None:
    assert "there is no log of the kind mysql://" in run("serve", config, "--store", "mysql://x/y", code=1)
    said = run("serve", config, "--store", tmp_path / "log.sqlite3", "--port", 99999, code=1)
    assert "--port must be between 0 and 65535" in said
    assert not list(tmp_path.glob("*sqlite3*"))


def test_imported_decisions_have_no_estimated_regret(tmp_path: Path, config: Path, run: Run) -> None:
    (tmp_path / "old.csv").write_text("arm,reward,context\na,1,0.5\nb,0,0.25\n")
    run("log", "import", tmp_path / "log.sqlite3", tmp_path / "old.csv", "--config", config)
    engine = Engine(open_store(str(tmp_path / "log.sqlite3")), load_settings(config))
    engine.start()
    engine.ask(Decide([0.5]))
    assert engine.wait_for(5)
    pages, state = Pages(engine, Metrics(engine)), engine.learner.state
    assert "2 decisions were imported" in pages.panel("regret")
    state.states["open"] += 1  # a decision that is being taken in is not in the curve yet
    assert "2 decisions were imported" in pages.panel("regret")
    engine.stop()
    engine.store.close()
    assert state.curve.columns()["decisions"] == [1.0]
    told = state.to_data()
    assert State.from_data(told).imported == 2
    told["states"]["open"] -= 1
    del told["imported"]  # a snapshot of a former release
    assert State.from_data(told).imported == 2
