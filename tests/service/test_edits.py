"""Corrections, withdrawals and roll-backs: after them the model is what it would have been."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Clock
from harness import until

from kinbandits.service.config import ServiceSettings, Settings
from kinbandits.service.engine import Engine
from kinbandits.service.learner import replay, restored
from kinbandits.service.ledger import Correct, Decide, Reward, RollBack
from kinbandits.service.messages import Problem
from kinbandits.service.store import Store
from kinbandits.service.transfer import decisions_with_rewards
from kinbandits.service.verify import verify

SETTINGS = Settings(
    policy={"arms": ["a", "b"], "context_kernel": {"type": "RBF", "length_scale": 1.0}, "epsilon": 0.5},
    service=ServiceSettings(reward_wait=0.0, snapshot_every=5, features=1),
)


@pytest.fixture
def engine(store: Store) -> Iterator[Engine]:
    engine = Engine(store, SETTINGS)
    engine.start(10.0)
    yield engine
    engine.stop()


def play(engine: Engine, rounds: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    answers = []
    for _ in range(rounds):
        answers.append(engine.ask(Decide([float(rng.normal())])))
        engine.ask(Reward(answers[-1]["id"], float(rng.random())))
    return answers


def settled(engine: Engine) -> np.ndarray:
    """What the model says when it has caught up with all that was edited."""
    until(
        lambda: (
            engine.serving.seq >= engine.store.last_seq()
            and not engine.learner.fold.outdated
            and not engine.learner.fold.dirty
        )
    )
    return np.array([engine.serving.policy.predict([x]) for x in (-1.0, 0.0, 1.0)])


def taught(engine: Engine, change: Callable[[str, float], float | None]) -> np.ndarray:
    """What a policy says that is taught the log's rewards after ``change``."""
    policy = SETTINGS.new_policy()
    for event in engine.store.read_all():
        if event.kind == "reward":
            value = change(event.decision or "", event.body["reward"])
            if value is not None:
                policy.observe([event.body["arm"]], [event.body["context"]], [value])
    return np.array([policy.predict([x]) for x in (-1.0, 0.0, 1.0)])


def caught_up(engine: Engine) -> Any:
    """As the next start has it."""
    fold = restored(engine.store, SETTINGS, engine.folder)
    fold.apply(engine.store.read_all(fold.stats.seq))
    fold.flush()
    return fold


def test_correct_and_withdraw(engine: Engine) -> None:
    answers = play(engine, 12)
    wrong, gone = answers[3]["id"], answers[7]["id"]
    assert engine.ask(Correct(wrong, 0.25, "me")) == {"id": wrong, "state": "rewarded", "reward": 0.25}
    assert engine.ask(Correct(gone, None, "me")) == {"id": gone, "state": "withdrawn", "reward": None}
    assert engine.ask(Correct(gone, None, "me"))["state"] == "withdrawn"  # again changes nothing
    expected = taught(engine, lambda i, v: 0.25 if i == wrong else None if i == gone else v)
    np.testing.assert_allclose(settled(engine), expected, rtol=1e-8, atol=1e-12)
    assert [e.kind for e in engine.store.edits().events] == ["corrected", "corrected"]
    assert engine.serving.stats.states["withdrawn"] == 1
    arms = {a["arm"]: a for a in engine.serving.stats.arm_table()}
    assert sum(a["rewards"] for a in arms.values()) == 11
    # more is learned after it, a second correction counts, and a restart comes to the same
    play(engine, 3, seed=1)
    engine.ask(Correct(gone, 0.75, "me"))
    expected = taught(engine, lambda i, v: {wrong: 0.25, gone: 0.75}.get(i, v))
    np.testing.assert_allclose(settled(engine), expected, rtol=1e-8, atol=1e-12)
    engine.stop()
    for again in (caught_up(engine), replay(engine.store, SETTINGS)):
        found = np.array([again.policy.predict([x]) for x in (-1.0, 0.0, 1.0)])
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)
    assert verify(engine.store) == []
    rewards = [learned for record, learned in decisions_with_rewards(engine.store) if record.id in (wrong, gone)]
    assert rewards == [0.25, 0.75]


def test_a_default_that_taught_nothing_is_corrected(store: Store) -> None:
    """What was never learned is learned where the correction stands, once, and can be corrected and withdrawn
    again."""
    clock = Clock()
    options = SETTINGS.model_copy(update={"service": ServiceSettings(reward_wait=5.0, features=1)})
    engine = Engine(store, options, clock)
    engine.start(10.0)
    name = engine.ask(Decide([0.5]))["id"]
    clock.now += 10.0
    until(lambda: engine.serving.stats.states["defaulted"] == 1)
    for value, rows in ((0.5, 1), (0.75, 1), (None, 0), (0.25, 1)):
        engine.ask(Correct(name, value, "me"))
        until(lambda: engine.serving.seq >= engine.store.last_seq() and not engine.learner.fold.outdated)
        until(lambda rows=rows: engine.serving.policy.n_observations == rows)
        assert [learned for _, learned in decisions_with_rewards(store)] == [value]
    assert float(engine.serving.policy.predict([0.5]).mean.max()) > 0.2
    engine.stop()
    assert verify(store) == []


def test_what_cannot_be_corrected(engine: Engine) -> None:
    open_ = engine.ask(Decide([0.5]))["id"]
    for name, code in ((open_, "not_rewarded"), ("0000000000ff", "unknown_decision")):
        with pytest.raises(Problem) as caught:
            engine.ask(Correct(name, 1.0, "me"))
        assert caught.value.code == code
    engine.ask(Reward(open_, 1.0))
    engine.ask(Correct(open_, None, "me"))
    with pytest.raises(Problem, match="takes no reward"):
        engine.ask(Reward(open_, 1.0))


def test_roll_back(engine: Engine) -> None:
    play(engine, 8)
    until(lambda: engine.serving.seq == 16)
    before = settled(engine)
    play(engine, 5, seed=1)
    assert not np.allclose(settled(engine), before)
    assert engine.ask(RollBack(16, "me"))["to"] == 16
    np.testing.assert_allclose(settled(engine), before, rtol=1e-8, atol=1e-12)
    later = play(engine, 2, seed=2)
    assert len(later) == 2
    found = settled(engine)
    engine.stop()
    again = caught_up(engine)
    assert again.policy.n_observations == 10
    np.testing.assert_allclose(
        np.array([again.policy.predict([x]) for x in (-1.0, 0.0, 1.0)]), found, rtol=1e-8, atol=1e-12
    )
    assert verify(engine.store) == []


def test_no_roll_back_to_what_has_not_been(engine: Engine) -> None:
    with pytest.raises(Problem, match="name an earlier one"):
        engine.ask(RollBack(10_000, "me"))


def test_over_http(tmp_path: Path) -> None:
    from test_app import serving, wait_ready

    client, token = serving(tmp_path / "log.sqlite3")
    with client:
        client.headers["Authorization"] = f"Bearer {token}"
        wait_ready(client)
        asked: list[dict[str, Any]] = [{"context": [0.1 * i], "key": f"mine-{i}"} for i in range(4)]
        asked.append({"context": [1.0, 2.0]})
        answers = client.post("/v1/batch/decisions", json={"decisions": asked}).json()["answers"]
        assert [a["status"] for a in answers] == [200] * 4 + [409]
        rewards = [{"key": "mine-0", "reward": 1.0}, {"id": answers[1]["result"]["id"], "reward": 0.5}]
        rewards += [{"key": "nobody", "reward": 1.0}]
        found = client.post("/v1/rewards", json={"rewards": rewards}).json()["answers"]
        assert [a["status"] for a in found] == [200, 200, 404]
        assert found[0]["result"]["id"] == answers[0]["result"]["id"]
        both = {"rewards": [{"key": "k", "id": "0-000000000001", "reward": 1.0}]}
        assert client.post("/v1/rewards", json=both).status_code == 422
        listed = client.get("/v1/decisions", params={"state": "rewarded"}).json()
        assert {d["reward"] for d in listed["decisions"]} == {1.0, 0.5}
        page = client.get("/v1/decisions", params={"limit": 3}).json()
        rest = client.get("/v1/decisions", params={"limit": 3, "before": page["next"]}).json()
        ids = [d["id"] for d in page["decisions"] + rest["decisions"]]
        assert ids == sorted(ids, reverse=True)
        assert len(ids) == 4
        assert rest["next"] is None
        arm = listed["decisions"][0]["arm"]
        of_arm = client.get("/v1/decisions", params={"arm": str(arm)}).json()["decisions"]
        assert {d["arm"] for d in of_arm} == {arm}
        assert client.get("/v1/decisions", params={"state": "lost"}).status_code == 422
        path = f"/v1/decisions/{ids[-1]}/correction"
        assert client.put(path, json={"reward": 0.0}).json()["reward"] == 0.0
        assert client.put(path, json={"reward": None}).json()["state"] == "withdrawn"
        assert client.put(path, json={"reward": 5.0}).json()["code"] == "reward_range"
        assert client.post("/v1/rollback", json={"to": 3}).json() == {"to": 3}
        assert client.post("/v1/rollback", json={"to": 3000}).status_code == 409
