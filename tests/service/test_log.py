"""The log by the commands a user types: out, in, learned, verified, copied, archived, shadowed; and a fitted
start."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commands import Clock, Run, fill, running, settings
from harness import LINEAR, fork_server, until

import kinbandits as kb
from kinbandits.errors import FormatError
from kinbandits.service import auth, learner, transfer
from kinbandits.service.config import Settings, load_settings
from kinbandits.service.events import Event
from kinbandits.service.ledger import AddArm, Correct, Decide, RetireArm, Reward, RollBack
from kinbandits.service.messages import Problem
from kinbandits.service.store import Store, open_store
from kinbandits.service.verify import archive, verify

# -- the store ---------------------------------------------------------------------------------------


def test_events_are_only_ever_added(store: Store) -> None:
    import sqlalchemy as sa

    with store.transaction() as tx:
        tx.append([Event(1, "decision", "000000000001", 1.0, {"arm": "é", "context": [0.1 + 0.2]}, "k", "r")])
    assert store.read()[0].body == {"arm": "é", "context": [0.1 + 0.2]}
    for sql in ("DELETE FROM events", "UPDATE events SET body = '{}'"):
        with pytest.raises((sa.exc.DBAPIError, RuntimeError), match="only ever added"), store.transaction() as tx:
            tx._connection.exec_driver_sql(sql)
    assert store.last_seq() == 1
    with pytest.raises(sa.exc.IntegrityError), store.transaction() as tx:  # a second writer cannot interleave
        tx.append([Event(1, "void", "000000000001", 1.0, {})])
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:  # noqa: PT012
        tx.append([Event(2, "void", "000000000001", 1.0, {})])
        raise ZeroDivisionError
    assert store.last_seq() == 1
    with store.transaction() as tx:
        assert [record.key for record in tx.find([], ["k", "n"])] == ["k"]


def test_logs_of_other_releases_are_refused_(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old")) as raw:
        raw.execute("CREATE TABLE meta (name, value)")
        raw.commit()
    for readonly in (True, False):
        with pytest.raises((FormatError, ValueError), match=r"release|no log"):
            open_store(str(tmp_path / "old"), readonly=readonly)
    open_store(str(tmp_path / "new")).close()
    with closing(sqlite3.connect(tmp_path / "new")) as raw:
        raw.execute("UPDATE meta SET value = '2' WHERE name = 'format'")
        raw.commit()
    with pytest.raises(FormatError, match="has format 2; this release reads format 1"):
        open_store(str(tmp_path / "new"))
    (tmp_path / "rubbish").write_bytes(b"rubbish" * 1000)
    with pytest.raises(FormatError, match="not a kinbandits log"):
        open_store(str(tmp_path / "rubbish"))


# -- out and in -------------------------------------------------------------------------------------


def test_the_life_of_a_log(tmp_path: Path, config: Path, run: Run) -> None:
    url = str(tmp_path / "log.sqlite3")
    fill(url, config)
    assert "all in order" in run("log", "verify", url)
    for suffix in transfer.FORMATS:
        assert "120 decisions" in run("log", "export", url, tmp_path / f"log{suffix}")
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [r["state"] for r in lines[:8]] == ["rewarded"] * 3 + ["void"] + ["rewarded"] * 3 + ["open"]
    with (tmp_path / "log.csv").open() as file:
        table = list(csv.DictReader(file))
    assert json.loads(table[5]["context"]) == lines[5]["context"]
    assert float(table[5]["propensity"]) == lines[5]["propensity"]
    rewarded = [r for r in table if r["state"] == "rewarded"]
    with (tmp_path / "old.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["article", "clicked", "u", "v", "p"])
        for r in rewarded:
            writer.writerow([r["arm"], r["reward"], *json.loads(r["context"]), r["propensity"]])
    other = str(tmp_path / "other.sqlite3")
    options = ["--config", config, "--arm", "article", "--reward", "clicked", "--context", "u,v", "--propensity", "p"]
    command = ("log", "import", other, tmp_path / "old.csv", *options)
    assert "96 rounds" in run(*command)
    assert "was imported into this log before" in " ".join(run(*command, code=1).split())
    assert "all in order" in run("log", "verify", other)
    for log in (url, other):  # another policy learns it
        saved = tmp_path / f"{Path(log).stem}.policy"
        assert "96 rows" in run("fit", log, "--policy", config, "--out", saved)
    mine, theirs = kb.load(tmp_path / "log.policy"), kb.load(tmp_path / "other.policy")
    assert mine.predict([0.3, 0.4]).mean == pytest.approx(theirs.predict([0.3, 0.4]).mean)
    found = json.loads(run("evaluate", other, "--policy", config, "--json", "--train", 0.4))
    assert set(found["policies"]["policy"]["estimates"]) == {"ips", "snips", "direct", "dr"}
    said = run("evaluate", url, "--policy", config)
    assert "Left out: 12 rows, without a reward" in said
    shadow = run("log", "shadow", url, config)
    assert "dr" in shadow
    assert "rows 96" in shadow


def test_evaluate_warns_of_decisions_without_a_reward(tmp_path: Path, config: Path, run: Run) -> None:
    fill(str(tmp_path / "log.sqlite3"), config)
    said = run("evaluate", tmp_path / "log.sqlite3", "--policy", config)
    assert "decisions have no reward" in " ".join(said.split())


def test_a_shadow_of_the_served_policy_earns_what_was_earned(tmp_path: Path) -> None:
    """And one that plays evenly earns less, where one arm pays."""
    url, rng = str(tmp_path / "log.sqlite3"), random.Random(0)
    options = settings(features=1).model_copy(update={"policy": {**settings().policy, "epsilon": 0.5}})
    with running(url, options) as served:
        for _ in range(150):
            made = served.ask(Decide([rng.random()]))
            served.ask(Reward(made["id"], float(made["arm"] == "b")))
            served.wait_for(served.last_seq)
    store = open_store(url, readonly=True)
    found = {}
    for name, epsilon in (("same", 0.5), ("even", 1.0)):
        beside = transfer.Shadow(
            store, settings().model_copy(update={"policy": {**options.policy, "epsilon": epsilon}})
        )
        found[name] = beside.follow()
        again = beside.follow()  # nothing is counted twice
        assert again is not None
        assert again.n == found[name].n == 150
    store.close()
    assert found["same"].estimates["dr"].value == pytest.approx(found["same"].logged, abs=0.12)
    assert found["even"].estimates["dr"].value == pytest.approx(1 / 3, abs=0.12)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("arm,reward,context\nz,1,0.5\n", "row 1: there is no column or arm 'z'"),
        ("arm,context\na,0.5\n", "no column or arm 'reward'"),
        ("arm,reward,context\na,1,0.5\na,nan,0.5\n", "row 2: a reward is between"),
        ("arm,reward,context\na,1e300,0.5\n", "row 1: a reward is between -1e+12 and 1e+12"),
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


def test_what_cannot_be_done_is_said(tmp_path: Path, config: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "there is no file of tokens tokens.toml" in run("serve", config, code=1)
    auth.new_token(tmp_path / "tokens.toml", "test", ["admin"])
    assert "there is no log" in run("log", "verify", tmp_path / "none.sqlite3", code=1)
    fill(str(tmp_path / "log.sqlite3"), config, rounds=3)
    assert "must end in one of" in run("log", "export", tmp_path / "log.sqlite3", tmp_path / "x.xls", code=1)
    bad = tmp_path / "bad.toml"
    for text, said in (
        ("[policy]\narms = 0\n", "arms must be between 1 and 10^8, got 0"),
        ("[service]\nreward_wait = -1.0\n", "service.reward_wait"),
        ("[service]\nreward_weight = 1.0\n", "there is no setting service.reward_weight; there are reward_wait"),
        ('name = "x"\n[[environments]]\nkind = "y"\n', "is an experiment"),
        ("[polcy]\narms = 3\n", "has polcy, but a service's file has only"),
        ("[shadow.x]\n", "kinbandits log shadow"),
        ('[policy]\narms = ["a/b", "c"]\n', "arm 'a/b' cannot be served"),
        ('[policy]\narms = [1, "1"]\n', "look the same in a path"),
        ('[policy]\narms = ["a\\u0007"]\n', "no control characters"),
    ):
        bad.write_text(text)
        assert said in " ".join(run("serve", bad, code=1).split())
    assert "there is no log of the kind mysql://" in run("serve", config, "--store", "mysql://x/y", code=1)
    assert "--port must be between 0 and 65535" in run("serve", config, "--port", 99999, code=1)
    held = open_store(str(tmp_path / "log.sqlite3"))
    said = run("serve", config, "--store", tmp_path / "log.sqlite3", "--port", 0, code=1)
    assert "in use by another process" in said
    assert "Serving on" not in said
    held.close()
    assert "has a token test already" in run("token", "new", "test", "--role", "read", code=1)
    assert "--role is one of" in run("token", "new", "other", "--role", "king", code=1)
    secret = run("token", "new", "shop", "--role", "decide").strip()
    assert secret.startswith("kb_")
    assert secret not in (tmp_path / "tokens.toml").read_text()
    assert (tmp_path / "tokens.toml").stat().st_mode & 0o077 == 0


def test_parquet_without_pyarrow(tmp_path: Path, config: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    fill(str(tmp_path / "log.sqlite3"), config, rounds=3)
    assert "pip install pyarrow" in run("log", "export", tmp_path / "log.sqlite3", tmp_path / "x.parquet", code=1)


def test_defaulted_decisions_count_at_the_default_reward(tmp_path: Path, run: Run) -> None:
    """Clicks as rewards, silence as 0: arms that pay 5 to 20 % are not valued at almost 1."""
    options = Settings.model_validate(
        {"policy": {"arms": ["a", "b", "c"], "epsilon": 1.0}, "service": {"reward_wait": 60.0, "default_reward": 0.0}}
    )
    clock, rng, url = Clock(), random.Random(0), str(tmp_path / "log.sqlite3")
    pays = {"a": 0.05, "b": 0.1, "c": 0.2}
    with running(url, options, clock=clock) as served:
        for _ in range(300):
            clock.now += 1.0
            answer = served.ask(Decide([rng.gauss(0, 1)]))
            if rng.random() < pays[answer["arm"]]:
                served.ask(Reward(answer["id"], 1.0))
        clock.now += 30.0  # the youngest half minute still waits
        until(lambda: served.serving.stats.states["open"] <= 30, 60.0)
    with closing(open_store(url, readonly=True)) as store:
        assert transfer.missing_rewards(store) is None
        still_open = sum(record.state == "open" for record in store.all_records())
    kb.KMTLUCB(["a", "b", "c"], epsilon=1.0).save(tmp_path / "even.policy")
    found = json.loads(run("evaluate", url, "--policy", tmp_path / "even.policy", "--json"))
    assert 0.02 < found["policies"]["even"]["logged"] < 0.3
    assert still_open <= found["left_out"]["younger than the oldest open decision"] <= 31
    assert len(found["left_out"]) == 1  # those that are open are counted once


# -- whole or not -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("DELETE FROM events WHERE seq = 20", "event 20 is missing"),
        ("UPDATE decisions SET state = 'open' WHERE number = 1", "entered as open"),
        ("UPDATE decisions SET reward = 99 WHERE number = 1", "reward is entered as 99"),
        ("UPDATE decisions SET learned = 99 WHERE number = 1", "learned is entered as 99"),
        ("UPDATE decisions SET at = 0 WHERE number = 1", "at is entered as 0.0"),
        ("DELETE FROM decisions WHERE number = 8", "not entered"),
        ("UPDATE events SET kind = 'void' WHERE seq = 3", "event 3: void of a decision that is open"),
    ],
)
def test_verify_notices(tmp_path: Path, config: Path, run: Run, harm: str, said: str) -> None:
    url = tmp_path / "log.sqlite3"
    fill(str(url), config, rounds=20)
    with closing(sqlite3.connect(url)) as raw:
        raw.execute("DROP TRIGGER events_no_delete")
        raw.execute("DROP TRIGGER events_no_update")
        assert raw.execute(harm).rowcount == 1
        raw.commit()
    if "seq = 3" in harm:
        said = "event"
    assert said in run("log", "verify", url, code=1)
    assert "not in order" in run("log", "backup", url, tmp_path / "never.sqlite3", code=1)
    assert "not in order" in run("log", "restore", url, tmp_path / "never.sqlite3", code=1)
    assert not (tmp_path / "never.sqlite3").exists()
    assert "but: " in run("log", "restore", url, tmp_path / "forced.sqlite3", "--force")


def crashed(folder: Path) -> Path:
    """A log as SIGKILL leaves it: all of its rows are still in the WAL."""
    folder.mkdir()
    store = open_store(str(folder / "live.sqlite3"))
    with store.transaction() as tx:
        tx.append([Event(1, "arm_retired", None, 1.0, {"arm": "a"})])
    for name in ("live.sqlite3", "live.sqlite3-wal"):
        shutil.copy(folder / name, folder / name.replace("live", "crashed"))
    store.close()
    return folder / "crashed.sqlite3"


def test_backup_and_restore(tmp_path: Path, config: Path, run: Run) -> None:
    url = tmp_path / "log.sqlite3"
    fill(str(url), config, rounds=20)
    held = open_store(str(url))
    assert "in order" in run("log", "backup", url, tmp_path / "copy")
    held.close()
    assert "already exists" in run("log", "backup", url, tmp_path / "copy", code=1)
    for left in ("log.sqlite3", "log.sqlite3-wal", "log.sqlite3-shm"):  # what another log left is not mixed in
        (tmp_path / f"not-{left}").mkdir()
        (tmp_path / f"not-{left}" / left).write_bytes(b"left behind")
        said = run("log", "restore", tmp_path / "copy", tmp_path / f"not-{left}" / "log.sqlite3", code=1)
        assert f"{left} already exists" in said.replace("\n", "")
    assert "in order" in run("log", "restore", tmp_path / "copy", tmp_path / "new" / "log.sqlite3")
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["log.sqlite3"]
    again, first = open_store(str(tmp_path / "new" / "log.sqlite3")), open_store(str(url), readonly=True)
    assert again.read(limit=10_000) == first.read(limit=10_000)
    assert (again.id, again.secret) == (first.id, first.secret)
    again.close()
    first.close()
    assert "1 events" in run("log", "restore", crashed(tmp_path / "a"), tmp_path / "b" / "log.sqlite3")


def _verify_as_nobody(path: str, answers: Any) -> None:
    with closing(open_store(f"{path}-other")) as other:  # as root: nobody may not import from a folder of root's own
        verify(other)
    os.setgid(65534)
    os.setuid(65534)
    try:
        store = open_store(path, readonly=True)
        answers.put((os.access(Path(path).parent, os.W_OK), verify(store), store.last_seq()))
        store.close()
    except BaseException as error:
        answers.put(repr(error))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can stop being root")
def test_reading_needs_no_right_to_write(tmp_path: Path, config: Path) -> None:
    fill(str(tmp_path / "log.sqlite3"), config, rounds=5)
    (tmp_path / "log.sqlite3").chmod(0o644)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder.stat().st_mode & 0o005 != 0o005:  # others may not look in yet
            folder.chmod(0o755)
    context = fork_server()
    answers = context.SimpleQueue()
    process = context.Process(target=_verify_as_nobody, args=(str(tmp_path / "log.sqlite3"), answers))
    process.start()
    assert answers.get() == (False, [], 10)
    process.join()


def test_postgres_logs_too(postgres_url: str, tmp_path: Path, config: Path, run: Run) -> None:
    fill(postgres_url, config, rounds=30)
    assert "all in order" in run("log", "verify", postgres_url)
    assert "30 decisions" in run("log", "export", postgres_url, tmp_path / "x.jsonl")
    assert "pg_dump" in run("log", "backup", postgres_url, tmp_path / "x", code=1)
    assert (tmp_path / "state" / "kinbandits").is_dir()  # its snapshots


# -- archive ----------------------------------------------------------------------------------------


def test_archive(store_url: str, tmp_path: Path) -> None:
    """What is archived is in the file, what it taught stays in the model, and the service goes on as before."""
    options, clock = Settings(policy=LINEAR, service=settings(features=2).service), Clock()
    rng = random.Random(0)
    with running(store_url, options, clock=clock) as served:
        served.ask(AddArm("e", "me"))
        served.ask(RetireArm("a", "me"))
        for i in range(60):
            clock.now = 1000.0 + i
            made = served.ask(Decide([rng.gauss(0, 1), rng.gauss(0, 1)], key=f"k{i}"))
            if i % 5:
                served.ask(Reward(made["id"], rng.random()))
        open_ = served.store.find_records(state="open", limit=1)[0].id
        first = next(served.store.all_records()).id
        assert served.wait_for(served.last_seq)
        before = served.serving
    store = open_store(store_url)
    n, events = archive(store, tmp_path / "old.parquet", options, 1030.0)
    assert archive(store, tmp_path / "none.parquet", options, 1030.0) == (0, 0)
    assert (n, events) == (30, 30 + 24 + 2)
    assert verify(store) == []
    assert store.record(first) is None
    import pyarrow.parquet as pq

    assert len(pq.read_table(tmp_path / "old.parquet")) == 30
    store.close()
    shutil.rmtree(str(tmp_path / "log.sqlite3.snapshots"), ignore_errors=True)
    shutil.rmtree(tmp_path / "state", ignore_errors=True)
    with running(store_url, options, clock=clock) as served:
        assert served.serving.policy.n_observations == before.policy.n_observations == 48
        found = served.serving.policy.predict([0.3, 0.4]).mean
        assert found == pytest.approx(before.policy.predict([0.3, 0.4]).mean, rel=1e-9)
        assert served.serving.stats.states == before.stats.states
        assert served.serving.stats.active == before.stats.active
        assert served.ask(Reward(open_, 0.5))["state"] == "rewarded"
        assert served.ask(Decide([0.1, 0.2]))["id"] == f"{61:012x}"
        for command, code in ((Correct(first, 0.0, "me"), "unknown_decision"), (RollBack(3, "me"), "no_such_event")):
            with pytest.raises(Problem) as caught:
                served.ask(command)
            assert caught.value.code == code
        served.ask(Correct(open_, 0.25, "me"))
        until(
            lambda: (
                served.serving.seq >= served.last_seq
                and not served.learner.fold.outdated
                and not served.learner.fold.dirty
            )
        )
        assert served.serving.policy.n_observations == 49
    store = open_store(store_url)
    assert verify(store) == []
    other = options.model_copy(update={"policy": {**LINEAR, "ridge": 7.0}})
    with pytest.raises(ValueError, match=r"archived up to event .* with other settings"):
        learner.replay(store, other)
    store.close()


def test_archive_by_command(tmp_path: Path, config: Path, run: Run) -> None:
    fill(str(tmp_path / "log.sqlite3"), config, rounds=20)
    command = ("log", "archive", tmp_path / "log.sqlite3", tmp_path / "x.parquet", "--config", config, "--before")
    assert "Nothing is that old" in run(*command, "90d")
    assert "--before is an age (90d, 12h)" in run(*command, "yesterday", code=1)
    assert "20 decisions" in run(*command, "0h")
    assert "all in order" in run("log", "verify", tmp_path / "log.sqlite3")


# -- a fitted start ---------------------------------------------------------------------------------


@pytest.mark.parametrize("engine_named", [{}, {"engine": "exact"}, {"engine": kb.Budgeted(points=50, after=60)}])
def test_a_fitted_policy_is_served_whatever_its_engine_and_kept_by_the_log(tmp_path: Path, engine_named: Any) -> None:
    policy = kb.KMTLUCB(["a", "b"], **engine_named)
    rng = random.Random(0)
    rows = [(rng.choice("ab"), [rng.gauss(0, 1)], rng.random()) for _ in range(80)]
    policy.observe(*map(list, zip(*rows, strict=True)))  # type: ignore[arg-type]
    policy.save(tmp_path / "start.policy")
    plain = Settings(policy={"arms": ["a", "b"]}, service=settings(features=1).service)
    started = plain.model_copy(update={"service": settings(features=1, start=str(tmp_path / "start.policy")).service})
    store = open_store(str(tmp_path / "log.sqlite3"))
    assert "begins with" in str(learner.begin_with(store, started))
    assert learner.begin_with(store, started) is None  # the same again changes nothing
    store.close()
    (tmp_path / "start.policy").unlink()
    with running(str(tmp_path / "log.sqlite3"), plain) as served:  # without --start nothing is dropped
        assert served.serving.policy.n_observations == 80
        expected = policy.predict([0.3]).mean
        assert served.serving.policy.predict([0.3]).mean == pytest.approx(expected, rel=1e-9)
        made = served.ask(Decide([0.1]))
        served.ask(Reward(made["id"], 1.0))
        assert served.wait_for(served.last_seq)
        assert served.serving.policy.n_observations == 81
    shutil.rmtree(tmp_path / "log.sqlite3.snapshots")
    with running(str(tmp_path / "log.sqlite3"), plain) as served:
        assert served.serving.policy.n_observations == 81


def test_a_start_of_other_settings_is_refused(tmp_path: Path, config: Path) -> None:
    kb.KMTLUCB(["a", "b", 3], context_kernel=kb.RBF(length_scale=1.0), epsilon=0.5).save(tmp_path / "start.policy")
    options = load_settings(config, tmp_path / "start.policy")
    store = open_store(str(tmp_path / "log.sqlite3"))
    with pytest.raises(
        ValueError, match=r"was fitted with epsilon = 0.5, but \[policy\] says 0.3; fit it again, or take epsilon out"
    ):
        learner.begin_with(store, options)
    kb.KMTLUCB(["a"]).save(tmp_path / "start.policy")
    with pytest.raises(ValueError, match="was fitted without the arms"):
        learner.begin_with(store, options)
    named = kb.KMTLUCB(["a", "b", 3])
    named.observe(["a"], {"age": [0.3], "hour": [0.5]}, [1.0])
    named.save(tmp_path / "start.policy")
    for features, words in (
        (["hour", "age"], "age, hour in this order, but features are hour, age"),
        (3, "2 features"),
    ):
        wrong = {
            "policy": {"arms": ["a", "b", 3]},
            "service": {"features": features, "start": str(tmp_path / "start.policy")},
        }
        with pytest.raises(ValueError, match=words):
            learner.begin_with(store, Settings.model_validate(wrong))
    assert store.last_seq() == 0
    store.close()


def test_a_start_settles_the_length_of_a_context(tmp_path: Path) -> None:
    policy = kb.KMTLUCB(["a", "b"])
    policy.observe(["a"], [[0.3, 0.5]], [1.0])
    policy.save(tmp_path / "start.policy")
    options = {"policy": {"arms": ["a", "b"]}, "service": {"start": str(tmp_path / "start.policy")}}
    started = Settings.model_validate(options)
    store = open_store(str(tmp_path / "log.sqlite3"))
    learner.begin_with(store, started)
    store.close()
    with running(str(tmp_path / "log.sqlite3"), started) as served:
        with pytest.raises(Problem, match="a context of this service has 2 numbers"):
            served.ask(Decide([0.1, 0.2, 0.3]))
        assert served.ask(Decide([0.1, 0.2]))["arm"] in ("a", "b")


def test_export_fit_serve(tmp_path: Path, config: Path, run: Run) -> None:
    """Nothing of the log that it was fitted to is learned twice."""
    url = str(tmp_path / "log.sqlite3")
    fill(url, config)
    start = tmp_path / "start.policy"
    said = run("fit", url, "--policy", config, "--out", start, "--jobs", 1)
    assert "96 rows learned" in said
    options = load_settings(config, start)
    store = open_store(url)
    assert "knows this log up to event" in str(learner.begin_with(store, options))
    store.close()
    with running(url, options) as served:
        assert served.serving.policy.n_observations == 96
        served.ask(Reward(served.ask(Decide([0.1, 0.2]))["id"], 1.0))
        opened = next(r.id for r in served.store.all_records() if r.state == "open")
        served.ask(Reward(opened, 0.0))  # also if it was decided before
        assert served.wait_for(served.last_seq)
        assert served.serving.policy.n_observations == 98
