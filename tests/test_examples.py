"""The scripts in examples/ run, and do what they say."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
NEEDS = {"coba_learner": "coba", "river_policy": "river"}


def load(name):
    pytest.importorskip(NEEDS[name], reason=f"{NEEDS[name]} is not installed")
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_tested():
    assert {p.stem for p in EXAMPLES.glob("*.py")} == set(NEEDS)


@pytest.mark.filterwarnings("ignore")
def test_coba_plays_our_policy():
    result = load("coba_learner").main(rounds=150)
    rewards = {}
    for learner, reward in zip(*(result.interactions[c] for c in ("learner_id", "reward")), strict=True):
        rewards.setdefault(learner, []).append(reward)
    ours, random = (sum(v) / len(v) for _, v in sorted(rewards.items()))
    assert ours > random + 0.02


@pytest.mark.filterwarnings("ignore")
def test_river_plays_our_policy():
    assert load("river_policy").main(rounds=150) > 0.8
