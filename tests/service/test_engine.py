"""The engine: order, states, idempotency, determinism; and that it answers whatever happens."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import POLICY, Clock, running, settings
from harness import until

from kinbandits.service.config import Settings, load_settings
from kinbandits.service.engine import Engine
from kinbandits.service.events import uniform_draws
from kinbandits.service.ledger import AddArm, Command, Decide, RetireArm, Reward, Void
from kinbandits.service.messages import Problem
from kinbandits.service.store import Store, Transaction, open_store

RAW: dict[str, Any] = {**POLICY, "rewards": "raw"}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(store_url: str, clock: Clock) -> Iterator[Engine]:
    options = settings(reward_wait=60.0, default_reward=0.0, snapshot_every=5)
    with running(store_url, options, clock=clock) as engine:
        yield engine


@pytest.fixture
def raw_engine(store_url: str) -> Iterator[Engine]:
    """Rewards as they are, so that estimates can be written down."""
    with running(store_url, Settings(policy=RAW, service=settings().service)) as engine:
        yield engine


def refused(engine: Engine, command: Command) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        engine.ask(command)
    return caught.value.status, caught.value.code


def learned(engine: Engine) -> int:
    assert engine.wait_for(engine.last_seq)
    return engine.serving.policy.n_observations


def test_decide_then_reward(engine: Engine) -> None:
    answer = engine.ask(Decide([0.1, 0.2]))
    assert set(answer) == {"id", "arm", "index", "mean", "width", "propensity"}
    assert answer["width"] == pytest.approx(10.0)
    first = engine.ask(Reward(answer["id"], 0.5))
    assert first == {"id": answer["id"], "state": "rewarded", "reward": 0.5}
    assert engine.ask(Reward(answer["id"], 0.5)) == first
    assert refused(engine, Reward(answer["id"], 0.25)) == (409, "reward_conflict")
    assert refused(engine, Reward("00000000ffff", 1.0)) == (404, "unknown_decision")
    assert learned(engine) == 1
    assert engine.writer.position.counters == {"duplicate": 1, "conflicting": 1, "dangling": 1}
    assert engine.serving.stats.states["rewarded"] == 1


def test_candidates_and_contexts_of_their_own(raw_engine: Engine) -> None:
    engine = raw_engine
    answer = engine.ask(Decide([[0.0, 0.0], [1.0, 1.0]], arms=["c", "a"]))
    assert answer["arm"] == ["c", "a"][answer["index"]]
    record = engine.store.record(answer["id"])
    assert record is not None
    assert record.body["candidates"] == ["c", "a"]
    engine.ask(Reward(answer["id"], 1.0))
    assert learned(engine) == 1
    x = [[0.0, 0.0], [1.0, 1.0]][answer["index"]]
    assert engine.serving.policy.predict(x, [answer["arm"]]).mean[0] == pytest.approx(1.0 / 1.01)


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (Decide([0.1]), (409, "context_length")),
        (Decide([[0.1, 0.2]] * 2), (409, "context_shape")),
        (Decide([[0.1, 0.2], [0.1], [0.2, 0.3]]), (409, "context_length")),
        (Decide([0.1, 0.2], arms=[]), (422, "no_candidates")),
        (Decide([0.1, 0.2], arms=["z"]), (404, "unknown_arm")),
        (Decide([0.1, 0.2], arms=["a"] * 2000), (409, "too_many_candidates")),
    ],
)
def test_requests_that_do_not_fit(engine: Engine, command: Decide, answer: tuple[int, str]) -> None:
    engine.ask(Decide([0.0, 0.0]))
    assert refused(engine, command) == answer
    assert engine.store.last_seq() == 1


def test_an_idempotency_key_gives_the_same_decision(engine: Engine) -> None:
    one = engine.ask(Decide([0.1, 0.2], key="k"))
    engine.ask(Reward(one["id"], 1.0))
    assert engine.ask(Decide([0.1, 0.2], key="k")) == one
    assert refused(engine, Decide([0.1, 0.3], key="k")) == (409, "key_reused")
    twice = [engine.submit([Decide([0.5, 0.5], key="n")]) for _ in range(5)]  # in one batch, or not
    assert len({job.result()[0]["id"] for job in twice}) == 1
    assert engine.ask(Decide([0.1, 0.2]))["id"] == "000000000003"  # a repeat uses no number
    both = engine.submit([Decide([0.1], key="wrong"), Decide([0.1], key="wrong"), Decide([0.1, 0.3], key="wrong")])
    first, second, other = both.result()
    assert first.code == second.code == "context_length"  # the same refusal twice, and the key is not used
    assert other["id"] == "000000000004"
    in_one = engine.submit([Decide([0.2, 0.2], key="m"), Reward(None, 1.0, key="m")]).result()
    assert in_one[1]["state"] == "rewarded"


def test_overdue_decisions_are_defaulted_and_rewards_after_that_are_late(engine: Engine, clock: Clock) -> None:
    swept, unswept = engine.ask(Decide([0.1, 0.2])), engine.ask(Decide([0.3, 0.2]))
    clock.now += 61.0
    assert engine.ask(Reward(unswept["id"], 1.0))["state"] == "late"  # whether or not the sweep was faster
    until(lambda: engine.serving.stats.states["defaulted"] == 1)
    states = {name: n for name, n in engine.serving.stats.states.items() if n}
    assert states == {"defaulted": 1, "late": 1}
    late = {"id": swept["id"], "state": "late", "reward": 1.0}
    assert engine.ask(Reward(swept["id"], 1.0)) == late
    assert engine.ask(Reward(swept["id"], 1.0)) == late
    assert refused(engine, Reward(swept["id"], 0.0)) == (409, "reward_conflict")
    assert learned(engine) == 2  # the defaults, and nothing of the late ones
    assert {a["mean_reward"] for a in engine.serving.stats.arm_table()} <= {0.0, None}


def test_late_rewards_are_learned_where_no_default_was(store_url: str, clock: Clock) -> None:
    with running(store_url, settings(reward_wait=60.0), clock=clock) as engine:
        one, two = engine.ask(Decide([0.1])), engine.ask(Decide([0.2]))
        clock.now += 61.0
        assert engine.ask(Reward(one["id"], 0.75)) == {"id": one["id"], "state": "late", "reward": 0.75}
        assert learned(engine) == 1
        assert engine.serving.stats.arms[one["arm"]][2] == 0.75
        record = engine.store.record(one["id"])
        assert record is not None
        assert (record.reward, record.learned) == (0.75, 0.75)
        engine.ask(Reward(two["id"], 0.25))
        assert learned(engine) == 2


def test_void(engine: Engine) -> None:
    answer = engine.ask(Decide([0.1, 0.2]))
    void = engine.ask(Void(answer["id"], "not shown"))
    assert void == {"id": answer["id"], "state": "void", "reward": None}
    assert engine.ask(Void(answer["id"], "again")) == void
    assert refused(engine, Reward(answer["id"], 1.0)) == (409, "void")
    other = engine.ask(Decide([0.1, 0.2]))
    engine.ask(Reward(other["id"], 1.0))
    assert refused(engine, Void(other["id"], "")) == (409, "not_open")
    assert refused(engine, Void("00000000ffff", "")) == (404, "unknown_decision")


def test_arms_come_and_go_and_return(store_url: str) -> None:
    with running(store_url, settings()) as engine:
        added = engine.ask(AddArm("d", "me"))
        assert added == {"arm": "d", "retired": False, "seq": 1}
        assert engine.wait_for(1)
        assert "d" in engine.serving.arms
        assert refused(engine, AddArm("d", "me")) == (409, "arm_exists")
        assert refused(engine, AddArm("e", "me", descriptor=[1.0])) == (409, "arm_refused")
        for arm in "abc":
            assert engine.ask(RetireArm(arm, "me"))["retired"] is True
        assert engine.ask(RetireArm("a", "me"))["seq"] == 4  # again changes nothing
        assert refused(engine, RetireArm("d", "me")) == (409, "last_arm")
        assert refused(engine, RetireArm("z", "me")) == (404, "unknown_arm")
        assert {engine.ask(Decide([0.0]))["arm"] for _ in range(20)} == {"d"}
        assert refused(engine, Decide([0.0], arms=["a"])) == (409, "retired_arm")
        assert engine.ask(AddArm("a", "me"))["retired"] is False
        assert engine.ask(Decide([0.0], arms=["a"]))["arm"] == "a"
        assert {engine.ask(Decide([0.0]))["arm"] for _ in range(60)} == {"a", "d"}
        assert [e.body["by"] for e in engine.store.read() if e.kind.startswith("arm_")] == ["me"] * 5
    with running(store_url, settings()) as engine:  # and it stays so
        assert {engine.ask(Decide([0.0]))["arm"] for _ in range(60)} == {"a", "d"}


@pytest.mark.numerical
def test_propensities_are_what_is_played(store: Store) -> None:
    engine = Engine(store, settings())
    engine.start(10.0)
    jobs = [engine.submit([Decide([0.5]) for _ in range(100)]) for _ in range(30)]
    answers = [a for job in jobs for a in job.result()]
    arms = [a["arm"] for a in answers]
    for arm in "abc":  # three ties, so a third each; the floor changes nothing about that
        assert arms.count(arm) / 3000 == pytest.approx(1 / 3, abs=0.04)
    assert {round(a["propensity"], 12) for a in answers} == {round(1 / 3, 12)}
    draws = uniform_draws(store.secret, [a["id"] for a in answers])
    assert abs(draws.mean() - 0.5) < 0.02
    assert len(np.unique(draws)) == 6000
    engine.stop()


def test_draws_are_those_of_a_log_and_nobody_elses(tmp_path: Path) -> None:
    secrets = set()
    for name in ("one", "two"):
        store = open_store(str(tmp_path / name))
        secrets.add(store.secret)
        store.close()
        again = open_store(str(tmp_path / name), readonly=True)
        assert again.secret in secrets
        again.close()
    assert len(secrets) == 2
    assert all(len(secret) == 16 for secret in secrets)
    found = [uniform_draws(secret, ["000000000001"]).tolist() for secret in secrets]
    assert found[0] != found[1]


def test_one_bad_row_does_not_take_others_with_it(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Transaction.append

    def append(self: Transaction, events: Any) -> None:
        if any(e.key == "bad" for e in events):
            raise ValueError("cannot write this")
        honest(self, events)

    monkeypatch.setattr(Transaction, "append", append)
    jobs = [engine.submit([Decide([float(i)], key="bad" if i == 3 else None)]) for i in range(8)]
    for i, job in enumerate(jobs):
        result = job.result(10.0)[0]
        assert (result.status == 500) if i == 3 else result["id"]
    assert engine.ask(Decide([1.0]))["id"] == "000000000008"
    assert engine.ready


def test_after_stop_every_request_is_answered(engine: Engine) -> None:
    engine.ask(Decide([0.0]))
    engine.stop()
    assert refused(engine, Decide([0.0])) == (503, "unavailable")


def test_too_many_that_wait_are_refused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinbandits.service.engine.MOST_WAITING", -1)
    assert refused(engine, Decide([0.0])) == (503, "unavailable")


def test_inverse_gap_is_served_with_its_own_propensities(tmp_path: Path) -> None:
    """From TOML, through the one parser; every candidate is played, and the log says how likely."""
    file = tmp_path / "gap.toml"
    file.write_text('[policy]\narms = 3\nepsilon = 0.0\nridge = 0.1\nexploration = { type = "InverseGap" }\n')
    options = load_settings(file)
    with running(str(tmp_path / "log.sqlite3"), options) as engine:
        twin = options.new_policy()
        for i in range(25):
            x = [0.1 * (i % 7)]
            answer = engine.ask(Decide(x))
            assert answer["propensity"] == pytest.approx(twin.probabilities(x)[answer["index"]], rel=1e-6)
            engine.ask(Reward(answer["id"], float(answer["arm"] == 1)))
            twin.observe([answer["arm"]], [x], [float(answer["arm"] == 1)])
            assert engine.wait_for(engine.last_seq)
        assert 0.0 < answer["propensity"] < 1.0


def test_a_change_of_settings_or_release_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = str(tmp_path / "log.sqlite3")
    with running(url, Settings(policy=RAW, service=settings().service)) as engine:
        engine.ask(Reward(engine.ask(Decide([0.1]))["id"], 1.0))
        learned(engine)
    assert list((tmp_path / "log.sqlite3.snapshots").glob("0*"))
    other = Settings(policy={**RAW, "ridge": 0.5})
    with running(url, other) as engine:
        assert engine.serving.policy.predict([0.1], ["a", "b", "c"]).mean.max() == pytest.approx(1 / 1.5)


# -- determinism ------------------------------------------------------------------------------------


def script(length: int, seed: int) -> list[Callable[[list[str]], Command]]:
    """Requests that depend on nothing but the ids of earlier decisions."""
    rng = random.Random(seed)
    steps: list[Callable[[list[str]], Command]] = []
    for i in range(length):
        context = [rng.gauss(0, 1), rng.gauss(0, 1)]
        pick, value, what = rng.random(), rng.choice([0.0, 1.0]), rng.random()
        key = f"key-{rng.randrange(40)}" if rng.random() < 0.3 else None
        if what < 0.55 or i < 3:
            steps.append(lambda ids, c=context, k=key: Decide(c, key=k))
        elif what < 0.9:
            steps.append(lambda ids, p=pick, v=value: Reward(ids[int(p * len(ids))], v))
        elif what < 0.95:
            steps.append(lambda ids, p=pick: Void(ids[int(p * len(ids))], "no"))
        else:
            steps.append(lambda ids, n=i: AddArm(f"new{n}", "me"))
    return steps


def play(engine: Engine, clock: Clock, steps: Any, ids: list[str], start: int, stop: int) -> None:
    for i in range(start, stop):
        clock.now = 1000.0 + 3.0 * i  # decisions are overdue after 60 seconds: 20 steps
        try:
            answer = engine.ask(steps[i](ids))
        except Problem:
            answer = {}
        if "propensity" in answer and answer["id"] not in ids:
            ids.append(answer["id"])
        assert engine.wait_for(engine.last_seq)


def everything(engine: Engine) -> dict[str, Any]:
    """Events, counts, states of decisions: all that follows from the log; and the next 100 decisions."""
    assert engine.wait_for(engine.last_seq)
    store = engine.store
    found = {
        "events": store.read(limit=10**6),
        "records": list(store.all_records()),
        "stats": engine.serving.stats.to_data(),
        "observations": engine.serving.policy.n_observations,
    }
    rng = np.random.default_rng(0)
    answers = engine.submit([Decide(rng.normal(size=2).tolist()) for _ in range(100)]).result(30.0)
    found["next"] = [(a["id"], a["arm"], a["propensity"]) for a in answers]
    found["estimates"] = np.array([[a["mean"], a["width"]] for a in answers])
    return found


@pytest.mark.slow
@pytest.mark.numerical
def test_stopped_at_any_point_it_continues_as_if_it_had_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 12 random points the files are copied as they are, as a crash leaves them, and continued from there."""
    monkeypatch.setattr("kinbandits.service.writer.Writer._sweep", lambda self: None)  # defaults come with late rewards
    for pause in ("_POLL", "_PUBLISH"):  # each step waits for the model: do not wait for the clock as well
        monkeypatch.setattr(f"kinbandits.service.learner.{pause}", 0.002)
    length, points = 150, sorted(random.Random(1).sample(range(4, 150), 12))
    steps, clock = script(length, seed=7), Clock()
    options = settings(reward_wait=60.0, default_reward=-0.5, snapshot_every=17)
    ids: list[str] = []
    copies: list[tuple[int, Path, list[str]]] = []
    with running(str(tmp_path / "whole.sqlite3"), options, clock=clock) as engine:
        for i in range(length):
            if i in points:
                folder = tmp_path / f"at{i}"
                folder.mkdir()
                for name in ("whole.sqlite3", "whole.sqlite3-wal"):
                    shutil.copy(tmp_path / name, folder / name)
                copies.append((i, folder, list(ids)))
            play(engine, clock, steps, ids, i, i + 1)
        clock.now = 10_000.0
        expected = everything(engine)
    assert {"reward", "default", "late", "void", "arm_added"} <= {e.kind for e in expected["events"]}
    for i, folder, earlier in copies:
        with running(str(folder / "whole.sqlite3"), options, clock=clock) as resumed:
            play(resumed, clock, steps, earlier, i, length)
            clock.now = 10_000.0
            found = everything(resumed)
        for name in found:
            if name == "estimates":
                np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-12)
            elif name in ("events", "records"):
                assert_same_events(found[name], expected[name])
            else:
                assert found[name] == expected[name], (i, name)


def assert_same_events(found: list[Any], expected: list[Any]) -> None:
    """Equal, but for the last digits of estimates."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a._replace(body={}) == b._replace(body={})
        assert a.body.keys() == b.body.keys()
        for key in a.body:
            if isinstance(b.body[key], float):
                assert a.body[key] == pytest.approx(b.body[key], rel=1e-9, abs=1e-12)
            else:
                assert a.body[key] == b.body[key]
