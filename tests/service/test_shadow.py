"""Shadow policies: they learn and decide without acting, and the log tells what they would have earned."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import until

from kinbandits.errors import InvalidInputError
from kinbandits.service.config import ServiceSettings, Settings, load_settings
from kinbandits.service.engine import Engine
from kinbandits.service.metrics import Metrics
from kinbandits.service.requests import Correct, Decide, Reward
from kinbandits.service.shadow_states import shadow_states
from kinbandits.service.store import open_store

SETTINGS = Settings(
    policy={"arms": ["a", "b", "c"], "epsilon": 1.0, "ridge": 0.1},  # plays at random
    service=ServiceSettings(reward_wait=0.0, snapshot_every=100, features=1),
    shadow={"learning": {"epsilon": 0.1, "ridge": 0.1}, "random": {"epsilon": 1.0, "ridge": 0.1}},
)


def play(engine: Engine, rounds: int) -> list[str]:
    """Arm a pays 1, the others nothing."""
    names = []
    for i in range(rounds):
        answer = engine.ask(Decide([0.1 * (i % 7)]))
        engine.ask(Reward(answer["id"], float(answer["arm"] == "a")))
        names.append(answer["id"])
    return names


def caught_up(engine: Engine, rounds: int) -> bool:
    """Whether the shadows know the whole log, and so many rounds of it count."""
    known = all(shadow.seq == engine.store.last_seq() for shadow in engine.shadows)
    return known and not engine.learner.outdated and [s.rounds for s in shadow_states(engine)] == [rounds] * 2


def test_a_shadow_learns_decides_and_is_valued(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "log.sqlite3"))
    engine = Engine(store, SETTINGS)
    engine.start()
    names = play(engine, 100)
    until(lambda: caught_up(engine, 100))
    learning, random = shadow_states(engine)
    assert learning.observations == 100
    assert learning.value is not None
    assert learning.served is not None
    assert random.value is not None
    assert learning.value.low > learning.served.high  # it has found out, and served is a random choice
    assert learning.value.low < 0.9 + 0.1 / 3 <= learning.value.high + 0.1
    assert random.value.low < 1 / 3 < random.value.high
    assert random.agreement == pytest.approx(1 / 3)
    metrics = Metrics(engine).text().decode()
    name = f'{{end="low",of="shadow",shadow="{learning.name}"}}'
    assert f"kinbandits_shadow_value{name} {learning.value.low}" in metrics
    engine.stop()

    engine = Engine(store, SETTINGS)  # the shadows come back with the snapshot
    engine.start()
    assert min(shadow.restored[0] for shadow in engine.shadows) > 0
    until(lambda: caught_up(engine, 100))
    engine.ask(Correct(names[0], 0.5, "me"))  # they are taught again, as the served policy is
    until(lambda: caught_up(engine, 100) and engine.learner.edits.upto > 200)
    assert shadow_states(engine)[0].served != learning.served
    engine.stop()
    store.close()


def test_rounds_count_in_order_where_decisions_are_defaulted(tmp_path: Path) -> None:
    """Good rewards come early and defaults late: no round counts before those that were decided earlier."""
    service = ServiceSettings(reward_wait=1e6, default_reward=0.0, features=1)
    store = open_store(str(tmp_path / "log.sqlite3"))
    engine = Engine(store, SETTINGS.model_copy(update={"service": service}))
    engine.start()
    first = engine.ask(Decide([0.5]))
    play(engine, 20)
    until(lambda: caught_up(engine, 0))
    engine.ask(Reward(first["id"], 0.0))
    until(lambda: caught_up(engine, 21))
    engine.stop()
    store.close()


def test_a_shadow_that_cannot_be_built_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('[policy]\narms = 2\n[shadow.other]\nsimilarity = { type = "Nothing" }\n')
    with pytest.raises(InvalidInputError, match=r"shadow\.other"):
        load_settings(path)
