"""The typed client against a real service, through its death and return."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from harness import Service

from kinbandits.client import Choice, Client, ServiceError
from kinbandits.service.auth import new_token

SETTINGS = {"policy": {"arms": ["a", "b c", 3], "context_kernel": {"type": "RBF"}}, "service": {}}


def test_the_client(tmp_path: Path) -> None:
    service = Service(str(tmp_path / "log.sqlite3"), SETTINGS, tmp_path)
    try:
        with Client(service.address, service.token) as client:
            choice = client.decide(np.array([0.1, 0.2]))
            assert client.reward(choice, 1).state == "rewarded"
            assert client.reward(choice.id, 1.0).state == "rewarded"
            with pytest.raises(ServiceError, match="already has another reward") as caught:
                client.reward(choice, 0.0)
            assert (caught.value.status, caught.value.code) == (409, "reward_conflict")
            assert client.decision(choice)["state"] == "rewarded"
            assert client.explain(choice)["arm"] == choice.arm
            assert client.void(client.decide([[0, 0], [1, 1]], arms=["a", 3])).state == "void"
            given = client.decide(np.eye(3)[:, :2], task="b c")
            assert (given.arm, given.index in (0, 1, 2)) == ("b c", True)
            assert client.decision(given)["candidates"] == ["b c"] * 3
            assert client.void(given).state == "void"
            with pytest.raises(ServiceError, match="a row for each candidate"):
                client.decide([0.1, 0.2], task="b c")
            many = client.decide_many(np.array([[0.1, 0.2], [0.3, 0.4]]))
            assert all(isinstance(c, Choice) for c in many)
            mixed = client.decide_many([[0.1, 0.2], [0.1], [0.3, 0.4]])  # answers and errors side by side
            assert [type(c).__name__ for c in mixed] == ["Choice", "ServiceError", "Choice"]
            assert mixed[1].code == "context_length"
            assert all(client.void(c).state == "void" for c in mixed if isinstance(c, Choice))
            assert [o.reward for o in client.reward_many({c.id: 0.5 for c in many})] == [0.5, 0.5]
            client.decide([0.5, 0.5], key="my-own")
            assert client.reward_by_key("my-own", 0.25).state == "rewarded"
            with pytest.raises(ServiceError, match="no decision"):
                client.reward_by_key("nobody", 0.25)
            assert client.correct(many[0], None).state == "withdrawn"
            assert [d["reward"] for d in client.decisions(state="rewarded")] == [0.25, 0.5, 1.0]
            assert len(list(client.decisions(limit=2))) == 2
            client.roll_back(2)
            client.add_arm("d")
            client.retire_arm("b c")
            assert [(a.arm, a.retired) for a in client.arms()][1] == ("b c", True)
            assert client.similarity()[0] == ["a", "b c", 3, "d"]
            client.add_arm("b c")  # it returns
            assert not client.arms()[1].retired
            reader = new_token(tmp_path / "tokens.toml", "reader", ["read"])
            time.sleep(1.5)
            with Client(service.address, reader) as other:
                assert other.policy()["epsilon"] == 0.05
                with pytest.raises(ServiceError, match="role decide"):
                    other.decide([0.1, 0.2])
            # It is killed; the client waits for its return.
            service.kill()
            assert not client.ready()
            threading.Timer(0.3, service.start).start()
            assert client.decide([0.3, 0.4]).id > choice.id
        with Client(service.address, "wrong") as stranger, pytest.raises(ServiceError, match="valid token"):
            stranger.policy()
    finally:
        service.stop()
    with Client(service.address, service.token, patience=0.1) as client, pytest.raises(ServiceError, match="reached"):
        client.policy()
    with pytest.raises(ValueError, match="must start with http"):
        Client("localhost", "x")
