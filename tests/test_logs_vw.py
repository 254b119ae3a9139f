"""VW's JSON, read by the real Vowpal Wabbit where it is installed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from kinbandits.errors import FormatError
from kinbandits.logs import Log
from kinbandits.logs_vw import read_vw
from kinbandits.ope import estimate


def a_log(n: int = 40, per_arm: bool = False) -> Log:
    rng = np.random.default_rng(2)
    shape = (3, 2) if per_arm else (2,)
    contexts = [np.round(rng.normal(size=shape), 3) for _ in range(n)]
    chosen = rng.integers(3, size=n).tolist()
    return Log.of_rounds(
        contexts, [["red", "blue", 7]] * n, chosen, rng.random(n).round(3).tolist(), rng.uniform(0.2, 1, n).tolist()
    )


def vw_lines(log: Log) -> list[str]:
    """A log as VW writes it: a shared context in the namespace ``context``, others with each candidate."""
    lines = []
    for i in range(len(log)):
        names, own, chosen = log.candidates[i], None if log.own is None else log.own[i], int(log.index[i])
        actions: list[dict[str, object]] = [{"arm": {"name": str(name)}} for name in names]
        for action, row in zip(actions, () if own is None else own, strict=own is not None):
            action["context"] = {f"x{j}": float(v) for j, v in enumerate(row)}
        shared = {"context": {f"x{j}": float(v) for j, v in enumerate(log.contexts[i])}} if own is None else {}
        p = float(log.propensities[i])
        lines.append(json.dumps({
            "_label_cost": -float(log.rewards[i]), "_label_probability": p, "_label_Action": chosen + 1,
            "_labelIndex": chosen, "Version": "1", "EventId": str(i),
            "a": [chosen + 1, *(j + 1 for j in range(len(names)) if j != chosen)],
            "c": {"_multi": actions, **shared}, "p": [p, *[(1.0 - p) / (len(names) - 1)] * (len(names) - 1)],
        }))  # fmt: skip
    return lines


@pytest.mark.parametrize("per_arm", [False, True])
def test_what_vw_wrote_is_read(tmp_path, per_arm) -> None:
    log = a_log(per_arm=per_arm)
    path = tmp_path / "log.json"
    path.write_text("\n".join(vw_lines(log)))
    again, columns = read_vw(path, arms=["red", "blue", 7])
    assert columns == ["context.x0", "context.x1"]
    assert again.played_arms == log.played_arms
    assert again.index.tolist() == log.index.tolist()
    assert list(again.candidates) == list(log.candidates)
    np.testing.assert_array_equal(again.contexts, log.contexts)
    for one, two in zip(again.own or (), log.own or (), strict=True):
        np.testing.assert_array_equal(one, two)
    assert list(again.rewards) == list(log.rewards)
    assert list(again.propensities) == list(log.propensities)


def text_lines(log: Log, i: int) -> list[str]:
    """One round in VW's text format, with the names that its JSON has."""
    x = log.contexts[i]
    lines = ["shared |context " + " ".join(f"x{j}:{v}" for j, v in enumerate(x))]
    for j, name in enumerate(log.candidates[i]):
        label = f"0:{-log.rewards[i]}:{log.propensities[i]} " if j == log.index[i] else ""
        lines.append(f"{label}|arm name^{name}")
    return lines


def test_the_real_vw_learns_the_same_as_from_its_text_format(tmp_path) -> None:
    """The same costs, probabilities and features: predictions for new rounds agree."""
    vw = pytest.importorskip("vowpalwabbit", reason="vowpalwabbit is not installed")
    log = a_log()
    path = tmp_path / "log.json"
    path.write_text("\n".join(vw_lines(log)) + "\n")
    options = "--cb_explore_adf --epsilon 0.2 --cb_type mtr -q ca --chain_hash --quiet"
    ours = vw.Workspace(f"{options} --dsjson -d {path}")
    theirs = vw.Workspace(f"{options}")
    for i in range(len(log)):
        theirs.learn(text_lines(log, i))
    assert ours.get_weighted_examples() == theirs.get_weighted_examples() == 40
    assert ours.get_sum_loss() == pytest.approx(theirs.get_sum_loss(), rel=1e-6)
    assert abs(ours.get_sum_loss()) > 1.0
    for workspace in (ours, theirs):
        workspace.finish()


def test_an_estimate_of_ours_from_a_log_that_vw_wrote_about() -> None:
    """IPS of 'always the first' on a file in their layout: their formula by hand, -cost / p where it was played."""
    lines = list(vw_lines(a_log(200)))
    by_hand = np.mean([
        -data["_label_cost"] / data["_label_probability"] if data["a"][0] == 1 else 0.0
        for data in map(json.loads, lines)
    ])  # fmt: skip
    log, _ = read_vw(lines)
    target = np.zeros((200, 3))
    target[:, 0] = 1.0
    found = estimate(log.rewards, log.propensities, log.index, target)
    assert found.estimates["ips"].value == pytest.approx(by_hand)


# As a decision service writes it: more keys, text features, a list, a round without a reward.
SERVICE = [
    '{"_label_cost":0,"_label_probability":0.5,"_label_Action":2,"_labelIndex":1,"o":[{"v":0,"EventId":"x"}],'
    '"Timestamp":"2020-01-01T00:00:00Z","Version":"1","EventId":"x","a":[2,1],"c":{"_synthetic":true,'
    '"User":{"_age":0,"member":true,"hour":"noon","v":[0.5,2]},"_multi":[{"_tag":"sports","s":{"p":1}},'
    '{"_tag":"news","s":{"p":2}}]},"p":[0.5,0.5],"VWState":{"m":"m/1"}}',
    '{"Timestamp":"t","Version":"1","EventId":"y","a":[1],"c":{"_multi":[{}]},"p":[1.0]}',
    "",
    '{"_label_Cost":-2.5,"_label_Probability":1,"_label_Action":1,"c":{"User":{"hour":"dawn"},"_multi":[{"s":{"p":3}}]}}',
]


def test_the_log_of_a_decision_service() -> None:
    log, columns = read_vw(SERVICE, arm=lambda action, place: action.get("_tag", "other"))
    assert columns == ["User.hour=dawn", "User.hour=noon", "User.member", "User.v.0", "User.v.1", "s.p"]
    assert log.played_arms == ["news", "other"]
    assert list(log.rewards) == [0.0, 2.5]
    assert log.own is not None
    assert log.own[0].tolist() == [[0, 1, 1, 0.5, 2, 1], [0, 1, 1, 0.5, 2, 2]]
    assert log.contexts[1].tolist() == [1, 0, 0, 0, 0, 3]
    shared, names = read_vw(SERVICE, columns=["User.member", "User.v.1"])
    assert names == ["User.member", "User.v.1"]
    assert shared.contexts[0].tolist() == [1.0, 2.0]
    assert shared.played_arms == [1, 0]


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[1, 2]",
        '{"_label_cost": 1}',
        '{"_label_cost": 1, "_label_probability": 0, "_labelIndex": 0, "_multi": [{}]}',
        '{"_label_cost": 1, "_label_probability": 0.5, "_labelIndex": 2, "_multi": [{}]}',
        '{"_label_cost": "x", "_label_probability": 0.5, "_labelIndex": 0, "_multi": [{}]}',
        '{"_label_cost": 1, "_label_probability": 0.5, "_labelIndex": 0, "_multi": []}',
    ],
)
def test_damaged_lines_are_named(line) -> None:
    with pytest.raises(FormatError, match="line 2 is no round"):
        read_vw(["", line])


def test_other_complaints(tmp_path) -> None:
    with pytest.raises(ValueError, match="no labelled round"):
        read_vw([""])
    with pytest.raises(ValueError, match="there is no file"):
        read_vw(tmp_path / "none.json")
