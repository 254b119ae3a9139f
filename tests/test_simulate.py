"""The loop, and the trace it leaves."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import kinbandits as kb
from kinbandits.environments import Classification, Round, SyntheticNews
from kinbandits.errors import FormatError, InvalidInputError, SimulationWarning
from kinbandits.trace import COLUMNS, Trace

NEWS = SyntheticNews(seed=2, horizon=30, noise=0.1, start=True)


def policy(environment=NEWS, **settings):
    return kb.KMTLUCB(environment.arms, context_kernel=kb.RBF(length_scale=0.5), **settings)


@pytest.fixture(scope="module")
def trace():
    return kb.simulate(policy(), NEWS, numbers=True)


def test_it_is_the_loop_by_hand(trace):
    p = policy()
    p.observe(*NEWS.start_rows())
    for row, round in zip(trace.rows(), NEWS.rounds(), strict=True):
        decision = p.choose(round.context)
        assert (row["arm"], row["arm_index"]) == (decision.arm, decision.index)
        assert (row["mean"], row["width"]) == (decision.mean, decision.width)
        assert row["propensity"] == decision.propensity
        assert row["reward"] == round.rewards[decision.index]
        assert row["best_reward"] == round.rewards.max()
        assert row["regret"] == round.rewards.max() - round.rewards[decision.index]
        assert row["expected_regret"] == round.means.max() - round.means[decision.index]
        assert row["seconds"] > 0
        p.update(decision, round.rewards[decision.index])
    assert trace["t"].tolist() == list(range(30))


def test_numbers_are_read_only_when_asked_for(trace):
    quick = kb.simulate(policy(), NEWS)
    assert np.isnan(quick["mean"]).all()
    assert np.isnan(quick["width"]).all()
    for name in ("arm", "reward", "regret", "expected_regret", "propensity"):
        assert quick[name].tolist() == trace[name].tolist()


def test_sums(trace):
    assert trace.cumulative_regret[-1] == pytest.approx(trace.final_regret)
    assert trace.cumulative_expected_regret[-1] == pytest.approx(trace.final_expected_regret)
    assert trace["reward"].sum() == pytest.approx(30 * trace.mean_reward)
    assert trace.final_expected_regret != trace.final_regret  # there is noise
    assert np.all(trace["expected_regret"] >= 0)


def test_without_means_expected_regret_is_unknown():
    e = Classification("digits", horizon=5)
    trace = kb.simulate(policy(e), e)
    assert np.isnan(trace.final_expected_regret)
    assert set(trace["regret"]) <= {0.0, 1.0}


def test_a_prefix_of_the_game(trace):
    part = kb.simulate(policy(), NEWS, 7)
    assert part["arm"].tolist() == trace["arm"][:7].tolist()
    with pytest.raises(InvalidInputError, match="has only 30 rounds"):
        kb.simulate(policy(), NEWS, 31)


def test_the_policy_must_have_the_arms():
    with pytest.raises(InvalidInputError, match=r"arms=environment\.arms"):
        kb.simulate(kb.KMTLUCB(5), NEWS)
    p = policy()
    p.retire_arm(NEWS.arms[0])
    with pytest.raises(InvalidInputError, match="or has retired"):
        kb.simulate(p, NEWS)
    assert p.n_observations == 0


def test_arms_that_a_foreign_policy_names_with_numpy_numbers_are_saved(tmp_path):
    """scikit-learn's classes_ and contextualbandits' predict are such."""
    names = [np.int64(3), np.float64(0.5), np.str_("a"), "b", 4]
    trace = Trace.of({"t": range(5), "arm": names})
    trace.save(tmp_path / "trace.npz")
    assert Trace.load(tmp_path / "trace.npz")["arm"].tolist() == names
    assert {type(row["arm"]) for row in trace.rows()} == {int, float, str}


def test_a_policy_with_more_arms_or_another_order(trace):
    p = kb.KMTLUCB([*reversed(NEWS.arms), "other"], context_kernel=kb.RBF(length_scale=0.5))
    shuffled = kb.simulate(p, NEWS, numbers=True)
    assert shuffled["arm"].tolist() == trace["arm"].tolist()
    assert np.allclose(shuffled["mean"], trace["mean"], atol=1e-10)


def test_an_environment_of_your_own():
    class Coin:
        name, horizon, arms = "coin", 20, ["heads", "tails"]

        def start_rows(self):
            return [], [], []

        def rounds(self):
            rng = np.random.default_rng(1)
            for _ in range(self.horizon):
                yield Round(np.ones(1), (rng.random(2) < [0.9, 0.1]).astype(float), np.array([0.9, 0.1]))

    kb.environments.check_environment(Coin())
    trace = kb.simulate(kb.KMTLUCB(["heads", "tails"]), Coin())
    assert trace.final_expected_regret < 8
    assert trace.metadata["environment"] == "Coin"


def test_metadata_says_what_was_played(trace):
    m = trace.metadata
    assert (m["policy"], m["seed"], m["horizon"]) == ("KMTLUCB", 2, 30)
    assert m["environment"] == "SyntheticNews(seed=2, horizon=30, noise=0.1, start=True)"
    assert "RBF" in m["settings"]
    assert "0 observations" in m["settings"]  # as it was before the game
    json.dumps(m)


def test_saved_and_loaded(trace, tmp_path):
    path = tmp_path / "trace.npz"
    trace.save(path)
    again = Trace.load(path)
    for name in COLUMNS:
        assert again[name].tolist() == trace[name].tolist()
    assert json.dumps(again.metadata) == json.dumps(trace.metadata)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(FormatError, match="damaged"):
        Trace.load(path)
    with pytest.raises(FormatError, match="there is no file"):
        Trace.load(tmp_path / "none.npz")
    np.savez(tmp_path / "foreign.npz", header=np.array('{"format": "other"}'))
    with pytest.raises(FormatError, match="not a trace that this release can read"):
        Trace.load(tmp_path / "foreign.npz")


def test_traces_complain_and_do_not_change(trace):
    with pytest.raises(InvalidInputError, match="unknown column 'regrets'"):
        trace["regrets"]
    with pytest.raises(ValueError, match="read-only"):
        trace["regret"][0] = 1
    with pytest.raises(InvalidInputError, match="all must have 2 rows"):
        Trace.of({"t": [0, 1], "reward": [1.0]})
    with pytest.raises(InvalidInputError, match="unknown column 'x'"):
        Trace.of({"x": [1]})
    assert math.isnan(Trace.of({"t": []}).mean_reward)
    assert repr(trace).startswith("Trace(30 rounds of KMTLUCB on synthetic news, expected regret ")
    assert "expected" not in repr(Trace.of({"t": [0], "regret": [0.5]}))


def test_a_trained_policy_is_warned_about():
    p = policy()
    kb.simulate(p, NEWS, horizon=10)
    with pytest.warns(SimulationWarning, match=r"already learned 1\d rows, .*clone"):
        kb.simulate(p, NEWS, horizon=10)
    kb.simulate(p, NEWS, horizon=10, trained=True)  # wanted: no warning
