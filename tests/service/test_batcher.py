"""The batcher never keeps one alone waiting, and nobody for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_app import SETTINGS

from kinbandits.service import batcher
from kinbandits.service.batcher import Batcher
from kinbandits.service.config import Settings
from kinbandits.service.engine import Engine
from kinbandits.service.requests import AddArm, Answer, Decide, Request, deliver
from kinbandits.service.store import open_store


class Answering:
    """In the engine's place: keeps what is handed in together, answers when told."""

    waiting = 0

    def __init__(self) -> None:
        self.open: list[Request] = []

    def submit_all(self, requests: Sequence[Request]) -> None:
        self.open.extend(requests)

    def answer(self) -> int:
        done, self.open = self.open, []
        deliver([(request, {"id": "x"}) for request in done])
        return len(done)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_one_alone_is_handed_in_at_once_and_company_comes_back_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher, "_PAUSE", 0.3)
    monkeypatch.setattr(batcher, "_LONGEST", 10.0)

    async def play() -> None:
        engine = Answering()
        batch = Batcher(engine)  # type: ignore[arg-type]

        def ask(n: int) -> list[asyncio.Task[Answer]]:
            return [asyncio.ensure_future(batch.ask(Decide([0.0]))) for _ in range(n)]

        for _ in range(3):  # alone: no waiting
            (task,) = ask(1)
            await settle()
            assert engine.answer() == 1
            assert await task == {"id": "x"}
        together = ask(2)  # in one turn of the event loop
        await settle()
        assert engine.answer() == 2
        await asyncio.gather(*together)
        first = ask(2)
        await settle()
        first += ask(2)
        await settle()
        assert len(engine.open) == 2  # nobody waits for those that nobody expects
        engine.answer()
        await asyncio.gather(*first[:2])
        await settle()
        assert len(engine.open) == 0  # two were answered, two wait: four are expected
        again = ask(2)
        await settle()
        assert engine.answer() == 4
        await asyncio.gather(*first, *again)
        late = ask(2)  # two of four do not come back: handed in after a moment
        await settle()
        assert len(engine.open) == 0
        await asyncio.sleep(0.5)
        assert engine.answer() == 2
        await asyncio.gather(*late)
        last = ask(1)
        await asyncio.sleep(0.5)
        assert engine.answer() == 1
        await asyncio.gather(*last)
        alone = ask(1)  # nobody is expected any more
        await settle()
        assert engine.answer() == 1
        await asyncio.gather(*alone)

    asyncio.run(play())


def test_a_request_given_up_holds_nobody() -> None:
    async def play() -> None:
        engine = Answering()
        batch = Batcher(engine)  # type: ignore[arg-type]
        tasks = [asyncio.ensure_future(batch.ask(Decide([0.0]))) for _ in range(3)]
        await settle()
        tasks[0].cancel()  # handed in
        tasks[2].cancel()  # not yet
        await settle()
        await asyncio.sleep(0.05)
        engine.answer()
        assert await asyncio.wait_for(tasks[1], 1.0) == {"id": "x"}
        other = asyncio.ensure_future(batch.ask(Decide([0.0])))
        await asyncio.sleep(0.05)
        engine.answer()
        assert await asyncio.wait_for(other, 1.0) == {"id": "x"}

    asyncio.run(play())


def test_those_who_come_one_after_another_do_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of independent clients, closer together than the moment: one deadline for all that gather."""
    monkeypatch.setattr(batcher, "_PAUSE", 0.05)
    monkeypatch.setattr(batcher, "_LONGEST", 0.05)

    async def play() -> None:
        engine = Answering()
        batch = Batcher(engine)  # type: ignore[arg-type]
        burst = [asyncio.ensure_future(batch.ask(Decide([0.0]))) for _ in range(300)]
        for _ in range(3):
            await asyncio.sleep(0.1)
            engine.answer()
        await asyncio.gather(*burst)
        loop = asyncio.get_running_loop()
        begun, tasks = loop.time(), []
        while not engine.open:  # nobody is answered, so nobody comes back; more and more come
            tasks.append(asyncio.ensure_future(batch.ask(Decide([0.0]))))
            await asyncio.sleep(0.005)
            assert loop.time() < begun + 0.5, "they wait for those who do not come"
        while engine.open:
            engine.answer()
            await asyncio.sleep(0.06)
        await asyncio.wait_for(asyncio.gather(*tasks), 1.0)

    asyncio.run(play())


def test_an_arm_that_waits_for_the_model_holds_nobody() -> None:
    async def play() -> None:
        engine = Answering()
        batch = Batcher(engine)  # type: ignore[arg-type]
        arm = asyncio.ensure_future(batch.ask(AddArm("new", "someone")))
        await settle()
        (waits,), engine.open = engine.open, []
        for _ in range(2):
            task = asyncio.ensure_future(batch.ask(Decide([0.0])))
            await settle()
            assert engine.answer() == 1
            assert await asyncio.wait_for(task, 1.0) == {"id": "x"}
        deliver([(waits, {"arm": "new"})])
        assert await asyncio.wait_for(arm, 1.0) == {"arm": "new"}

    asyncio.run(play())


def test_a_request_that_cannot_be_handed_in_holds_nobody() -> None:
    class Failing(Answering):
        def submit_all(self, requests: Sequence[Request]) -> None:
            if any(isinstance(r, Decide) and r.key == "bad" for r in requests):
                raise RuntimeError("no")
            super().submit_all(requests)

    async def play() -> None:
        engine = Failing()
        batch = Batcher(engine)  # type: ignore[arg-type]
        with pytest.raises(RuntimeError):
            await batch.ask(Decide([0.0], key="bad"))
        good = asyncio.ensure_future(batch.ask(Decide([0.0])))
        await asyncio.sleep(0.05)
        engine.answer()
        assert await asyncio.wait_for(good, 1.0) == {"id": "x"}

    asyncio.run(play())


def test_requests_that_gather_count_as_waiting(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "log.sqlite3"))
    engine = Engine(store, Settings.model_validate(SETTINGS))
    engine._accepting = True  # and no thread that takes anything
    assert engine.sequencer._turn.acquire()

    async def play() -> None:
        batch = Batcher(engine)
        tasks = [asyncio.ensure_future(batch.ask(Decide([0.1, 0.2]))) for _ in range(7)]
        await settle()
        assert engine.waiting == 7
        for task in tasks:
            task.cancel()

    asyncio.run(play())
    store.close()
