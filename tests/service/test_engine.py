"""The engine: order, states, idempotency, determinism; and that it answers whatever happens."""

from __future__ import annotations

import json
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Clock
from hypothesis import given
from hypothesis import strategies as st

import kinbandits as kb
from kinbandits.policies import defaults as usual
from kinbandits.service import sequencer
from kinbandits.service.config import ServiceSettings, Settings, load_settings
from kinbandits.service.engine import Engine
from kinbandits.service.events import to_text, uniform_draws
from kinbandits.service.problems import Problem
from kinbandits.service.requests import AddArm, AddToken, Decide, Request, RetireArm, RevokeToken, Reward, Void
from kinbandits.service.store import Store, Transaction, open_store

POLICY: dict[str, Any] = {
    "arms": ["a", "b", "c"],
    "similarity": {"type": "Mixed", "mu": 0.5},
    "context_kernel": {"type": "RBF", "length_scale": 1.0},
    "epsilon": 0.2,
}


def settings(**service: Any) -> Settings:
    return Settings(policy=POLICY, service=ServiceSettings(**service))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(store: Store, clock: Clock) -> Iterator[Engine]:
    engine = Engine(store, settings(reward_wait=60.0, default_reward=0.0, snapshot_every=5), clock)
    engine.start()
    yield engine
    engine.stop()


def refused(engine: Engine, request: Request) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        engine.ask(request)
    return caught.value.status, caught.value.code


def learned(engine: Engine) -> int:
    assert engine.wait_for(engine.store.last_seq())
    return engine.serving.policy.n_observations


def test_decide_then_reward(engine: Engine) -> None:
    answer = engine.ask(Decide([0.1, 0.2]))
    assert set(answer) == {"id", "arm", "index", "mean", "width", "score", "propensity"}
    assert answer["width"] == pytest.approx(10.0)
    first = engine.ask(Reward(answer["id"], 0.5))
    assert first == {"id": answer["id"], "state": "rewarded", "reward": 0.5}
    assert engine.ask(Reward(answer["id"], 0.5)) == first
    assert refused(engine, Reward(answer["id"], 0.25)) == (409, "reward_conflict")
    assert refused(engine, Reward("0-00000000ffff", 1.0)) == (404, "unknown_decision")
    assert learned(engine) == 1
    assert engine.store.counters() == {"duplicate": 1, "conflicting": 1, "dangling": 1}
    assert engine.learner.state.states["rewarded"] == 1


def test_candidates_and_contexts_of_their_own(engine: Engine) -> None:
    answer = engine.ask(Decide([[0.0, 0.0], [1.0, 1.0]], arms=["c", "a"]))
    assert answer["arm"] in ("c", "a")
    record = engine.store.record(answer["id"])
    assert record is not None
    assert record.body["candidates"] == ["c", "a"]
    engine.ask(Reward(answer["id"], 1.0))
    assert learned(engine) == 1
    row = engine.serving.policy.regression.history.contexts[0].tolist()
    assert row == [[0.0, 0.0], [1.0, 1.0]][answer["index"]]


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (Decide([0.1]), (409, "context_length")),
        (Decide([[0.1, 0.2]] * 2), (409, "context_shape")),
        (Decide([[0.1, 0.2], [0.1], [0.2, 0.3]]), (409, "context_length")),
        (Decide([0.1, 0.2], arms=[]), (422, "no_candidates")),
        (Decide([0.1, 0.2], arms=["z"]), (404, "unknown_arm")),
        (Decide([0.1, 0.2], arms=["a"] * 2000), (409, "too_many_candidates")),
    ],
)
def test_requests_that_do_not_fit(engine: Engine, request_: Decide, answer: tuple[int, str]) -> None:
    engine.ask(Decide([0.0, 0.0]))
    assert refused(engine, request_) == answer
    assert engine.store.last_seq() == 1


def test_an_idempotency_key_gives_the_same_decision(engine: Engine) -> None:
    one = engine.ask(Decide([0.1, 0.2], key="k"))
    engine.ask(Reward(one["id"], 1.0))
    assert engine.ask(Decide([0.1, 0.2], key="k")) == one
    assert refused(engine, Decide([0.1, 0.3], key="k")) == (409, "key_reused")
    twice = [engine.submit(Decide([0.5, 0.5], key="n")) for _ in range(5)]  # in one batch, or not
    assert len({f.result()["id"] for f in twice}) == 1
    assert engine.ask(Decide([0.1, 0.2]))["id"] == "0-000000000003"  # a repeat uses no number


def test_overdue_decisions_are_defaulted_and_rewards_after_that_are_late(engine: Engine, clock: Clock) -> None:
    swept, unswept = engine.ask(Decide([0.1, 0.2])), engine.ask(Decide([0.3, 0.2]))
    clock.now += 61.0
    assert engine.ask(Reward(unswept["id"], 1.0))["state"] == "late"  # whether or not the sweep was faster
    for _ in range(200):
        states = engine.learner.state.states
        if states["defaulted"] + states["late"] == 2:  # swept, and followed
            break
        engine.wait_for(engine.store.last_seq() + 1, timeout=0.05)
    assert engine.learner.state.states == {
        "open": 0,
        "rewarded": 0,
        "defaulted": 1,
        "late": 1,
        "void": 0,
        "withdrawn": 0,
    }
    late = {"id": swept["id"], "state": "late", "reward": 1.0}
    assert engine.ask(Reward(swept["id"], 1.0)) == late
    assert engine.ask(Reward(swept["id"], 1.0)) == late
    assert refused(engine, Reward(swept["id"], 0.0)) == (409, "reward_conflict")
    assert learned(engine) == 2  # the defaults, and nothing of the late ones
    assert engine.serving.policy.regression.history.rewards.tolist() == [0.0, 0.0]


def test_void(engine: Engine) -> None:
    answer = engine.ask(Decide([0.1, 0.2]))
    void = engine.ask(Void(answer["id"], "not shown"))
    assert void == {"id": answer["id"], "state": "void", "reward": None}
    assert engine.ask(Void(answer["id"], "again")) == void
    assert refused(engine, Reward(answer["id"], 1.0)) == (409, "void")
    other = engine.ask(Decide([0.1, 0.2]))
    engine.ask(Reward(other["id"], 1.0))
    assert refused(engine, Void(other["id"], "")) == (409, "not_open")
    assert refused(engine, Void("0-00000000ffff", "")) == (404, "unknown_decision")


def test_arms_come_and_go(engine: Engine) -> None:
    assert engine.ask(AddArm("d", "me")) == {"arm": "d", "retired": False}
    assert engine.serving.policy.active_arms == ["a", "b", "c", "d"]
    assert refused(engine, AddArm("d", "me")) == (409, "arm_exists")
    assert refused(engine, AddArm("e", "me", descriptor=[1.0])) == (409, "arm_refused")
    for arm in "abc":
        assert engine.ask(RetireArm(arm, "me")) == {"arm": arm, "retired": True}
    assert engine.ask(RetireArm("a", "me")) == {"arm": "a", "retired": True}
    assert refused(engine, RetireArm("d", "me")) == (409, "last_arm")
    assert refused(engine, RetireArm("z", "me")) == (404, "unknown_arm")
    assert engine.ask(Decide([0.0]))["arm"] == "d"
    assert refused(engine, Decide([0.0], arms=["a"])) == (409, "retired_arm")
    assert [e.body["by"] for e in engine.store.read() if e.kind.startswith("arm_")] == ["me"] * 4


def test_tokens_are_in_the_log_without_their_secret(engine: Engine) -> None:
    engine.ask(AddToken("t", "h" * 64, ("read",), "me"))
    assert refused(engine, AddToken("t", "g" * 64, ("read",), "me")) == (409, "token_exists")
    engine.ask(RevokeToken("t", "me"))
    assert refused(engine, RevokeToken("t", "me")) == (404, "unknown_token")
    assert "h" * 64 not in str(engine.store.read())


@pytest.mark.numerical
def test_propensities_are_what_is_played(store: Store) -> None:
    engine = Engine(store, settings())
    engine.start()
    futures = [engine.submit(Decide([0.5])) for _ in range(3000)]
    answers = [f.result() for f in futures]
    arms = [a["arm"] for a in answers]
    for arm in "abc":  # three ties, so a third each; the floor changes nothing about that
        assert arms.count(arm) / 3000 == pytest.approx(1 / 3, abs=0.04)
    assert {round(a["propensity"], 12) for a in answers} == {round(1 / 3, 12)}
    draws = uniform_draws(0, [a["id"] for a in answers])
    assert abs(draws.mean() - 0.5) < 0.02
    assert len(np.unique(draws)) == 6000
    engine.stop()


def test_one_bad_row_does_not_take_others_with_it(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Transaction.append

    def append(self: Transaction, drafts: Any) -> Any:
        if any(d.key == "bad" for d in drafts):
            raise ValueError("cannot write this")
        return honest(self, drafts)

    monkeypatch.setattr(Transaction, "append", append)
    requests = [Decide([float(i)], key="bad" if i == 3 else None) for i in range(8)]
    futures = [engine.submit(r) for r in requests]
    for i, future in enumerate(futures):
        if i == 3:
            with pytest.raises(Problem, match="could not be carried out"):
                future.result(10.0)
        else:
            future.result(10.0)
    assert engine.ask(Decide([1.0]))["id"] == "0-000000000008"
    assert engine.ready


def test_after_stop_every_request_is_answered(engine: Engine) -> None:
    engine.ask(Decide([0.0]))
    engine.stop()
    assert refused(engine, Decide([0.0])) == (503, "unavailable")


def test_an_unreachable_log_gives_503_and_heals(postgres_server: Any, postgres_url: str) -> None:
    store = open_store(postgres_url)
    engine = Engine(store, settings())
    engine.start()
    kept = engine.ask(Decide([0.0], key="k"))
    postgres_server.stop("immediate")
    try:
        assert refused(engine, Decide([0.0], key="n")) == (503, "unavailable")
        assert not engine.ready
    finally:
        postgres_server.start()
    for _ in range(100):
        try:
            assert engine.ask(Decide([0.0], key="k")) == kept
            break
        except Problem as problem:
            assert problem.status == 503  # noqa: PT017
    assert engine.ready
    assert engine.ask(Decide([0.0], key="n"))["id"] == "0-000000000002"
    engine.stop()
    store.close()


# -- determinism ------------------------------------------------------------------------------------


def script(length: int, seed: int) -> list[Callable[[list[str]], Request]]:
    """Requests that depend on nothing but the ids of earlier decisions."""
    rng = random.Random(seed)
    steps: list[Callable[[list[str]], Request]] = []
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
        engine.sequencer.next_sweep = 0.0
        try:
            answer = engine.ask(steps[i](ids))
        except Problem:
            answer = {}
        if "propensity" in answer and answer["id"] not in ids:
            ids.append(answer["id"])
        assert engine.wait_for(engine.store.last_seq())


def everything(engine: Engine) -> dict[str, Any]:
    """Events, counts, states of decisions, curves: all that follows from the log; and the next 100 decisions."""
    assert engine.wait_for(engine.store.last_seq())
    store = engine.store
    found = {
        "events": store.read(limit=10**6),
        "records": store.records(limit=10**6),
        "counters": store.counters(),
        "state": {k: v for k, v in engine.learner.state.to_data().items() if k != "curve"},
        "curve": np.array(engine.learner.state.curve.buckets),
        "number": engine.sequencer.number,
        "observations": engine.serving.policy.n_observations,
    }
    rng = np.random.default_rng(0)
    futures = [engine.submit(Decide(rng.normal(size=2).tolist())) for _ in range(100)]
    answers = [f.result(30.0) for f in futures]
    found["next"] = [(a["id"], a["arm"], a["propensity"]) for a in answers]
    found["estimates"] = np.array([[a["mean"], a["width"], a["score"]] for a in answers])
    return found


@pytest.mark.slow
@pytest.mark.numerical
def test_stopped_at_any_point_it_continues_as_if_it_had_not(tmp_path: Path) -> None:
    """At 50 random points the files are copied as they are, as a crash leaves them, and continued from there."""
    length, points = 150, sorted(random.Random(1).sample(range(4, 150), 50))
    steps = script(length, seed=7)
    options = settings(reward_wait=60.0, default_reward=-0.5, snapshot_every=17)
    clock = Clock()
    store = open_store(str(tmp_path / "whole.sqlite3"))
    engine = Engine(store, options, clock)
    engine.sequencer.sweep = lambda: None  # type: ignore[method-assign]  # defaults come with late rewards, in order
    engine.start()
    ids: list[str] = []
    copies: list[tuple[int, Path, list[str]]] = []
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
    engine.stop()
    store.close()
    assert {"reward", "default", "late", "void", "arm_added"} <= {e.kind for e in expected["events"]}
    assert min(expected["counters"][name] for name in ("duplicate", "conflicting")) > 3
    for i, folder, earlier in copies:
        again = open_store(str(folder / "whole.sqlite3"))
        resumed = Engine(again, options, clock)
        resumed.sequencer.sweep = lambda: None  # type: ignore[method-assign]
        resumed.start()
        play(resumed, clock, steps, earlier, i, length)
        clock.now = 10_000.0
        found = everything(resumed)
        resumed.stop()
        again.close()
        assert found.keys() == expected.keys()
        for name in found:
            if name in ("estimates", "curve"):
                np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-12)
            elif name in ("events", "records"):
                assert_same_events(found[name], expected[name])
            else:
                assert found[name] == expected[name], (i, name)


def assert_same_events(found: list[Any], expected: list[Any]) -> None:
    """Equal, but for the last digits of estimates (and so for digests)."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        for name in ("seq", "at", "kind", "decision", "id", "state", "reward", "key", "request"):
            assert getattr(a, name, None) == getattr(b, name, None)
        assert a.body.keys() == b.body.keys()
        for key in a.body:
            if isinstance(b.body[key], float):
                assert a.body[key] == pytest.approx(b.body[key], rel=1e-9, abs=1e-12)
            else:
                assert a.body[key] == b.body[key]


def test_a_snapshot_of_other_defaults_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.model_validate({"policy": {"arms": 3}})
    before = settings.fingerprint()
    assert Settings.model_validate({"policy": {"arms": 3}}).fingerprint() == before
    other = usual.defaults() | {"context_kernel": kb.Median()}
    monkeypatch.setattr(usual, "defaults", lambda: other)
    assert settings.fingerprint() != before


def test_inverse_gap_is_served_with_its_own_propensities(tmp_path: Path) -> None:
    """From TOML, through the one parser; every candidate is played, and the log says how likely."""
    file = tmp_path / "gap.toml"
    file.write_text('[policy]\narms = 3\nepsilon = 0.0\nridge = 0.1\nexploration = { type = "InverseGap" }\n')
    store = open_store(str(tmp_path / "log.sqlite3"))
    engine = Engine(store, load_settings(file))
    engine.start()
    for _ in range(30):
        told = engine.ask(Decide([0.5]))
        engine.ask(Reward(told["id"], float(told["arm"] == 1)))
    assert engine.wait_for(60)
    told = engine.ask(Decide([0.5]))
    chances = engine.serving.policy.probabilities([[[0.5]]])[0]
    assert told["propensity"] == pytest.approx(chances[told["index"]])
    assert 0.0 < min(chances) < 1 / 3 < max(chances) < 1.0
    engine.stop()
    store.close()


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.floats(allow_nan=False, allow_infinity=False)
        | st.sampled_from([1e-4, 9.9e-5, -1e-5, 1e-7, 1e16, 1e15, -0.0, 0.1 + 0.2, 5e-324, 1e22])
        | st.integers(-(2**60), 2**60)
        | st.text(max_size=5)
        | st.none()
        | st.booleans()
        | st.lists(st.floats(-10, 10), max_size=3)
        | st.dictionaries(st.text(max_size=2), st.integers(0, 9), max_size=3),
        max_size=6,
    )
)
def test_the_one_spelling_of_a_body(body: dict[str, Any]) -> None:
    wanted = json.dumps(body, allow_nan=False, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    assert to_text(body) == wanted


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_body_has_no_nan(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_text({"mean": value})


def test_who_hands_in_writes_a_log_that_is_quick_and_the_other_thread_one_that_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(tmp_path / "log.sqlite3"))
    engine = Engine(store, settings())
    engine.start()
    written, write = [], engine.sequencer._write
    pause = 0.0

    def told(requests: Sequence[Request]) -> Any:
        written.append(threading.current_thread().name)
        time.sleep(pause)
        return write(requests)

    monkeypatch.setattr(engine.sequencer, "_write", told)
    monkeypatch.setattr(sequencer, "_QUICK", 0.05)  # a flush may be slow here
    monkeypatch.setattr(sequencer, "_LONG", 1.0)

    def ask(request: Request) -> str:
        with engine.sequencer._turn:  # the other thread has ended its own
            pass
        engine.submit_all([request])
        request.future.result(5.0)
        return written[-1]

    here, apart = threading.current_thread().name, "kinbandits_sequencer"
    assert ask(Decide([0.1, 0.2])) == here
    assert ask(AddArm("d", by="me")) == apart  # may take long
    pause = 0.2
    assert ask(Decide([0.1, 0.2])) == here
    pause = 0.6
    assert ask(Decide([0.1, 0.2])) == here  # one that waited says nothing yet
    assert engine.sequencer._slow_until > time.monotonic() + 15 * pause  # or others would wait most of the time
    pause = 0.0
    assert ask(Decide([0.1, 0.2])) == apart
    engine.sequencer._slow_until = 0.0
    monkeypatch.setattr(sequencer, "_LONG", 0.0)  # a model that takes long, not a log
    assert [ask(Decide([0.1, 0.2])), ask(Decide([0.1, 0.2]))] == [here, apart]
    monkeypatch.setattr(sequencer, "_LONG", 0.3)
    engine.sequencer._slow_until = 0.0
    assert ask(Decide([0.1, 0.2])) == here
    engine.sequencer.last_error = "away"
    assert ask(Decide([0.1, 0.2])) == apart
    engine.stop()
    assert store.last_seq() == 9
    store.close()


def test_a_decision_with_a_key_does_not_wait_for_who_reads(tmp_path: Path) -> None:
    """The thread that takes decisions from the network would stand still with all it serves."""
    store = open_store(str(tmp_path / "log.sqlite3"))
    engine = Engine(store, settings())
    engine.start()
    try:
        first = engine.ask(Decide([0.1, 0.2], None, "k"))
        with store._reader_lock:  # type: ignore[attr-defined]
            assert engine.ask(Decide([0.1, 0.2], None, "k"), 2.0) == first
            assert engine.ask(Decide([0.1, 0.2], None, "other"), 2.0) != first
    finally:
        engine.stop()
        store.close()
