"""Our policies as learners of the real coba."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import kinbandits as kb

cb = pytest.importorskip("coba", reason="coba is not installed")

from kinbandits.adapters.coba import CobaLearner  # noqa: E402


def make(arms: list) -> kb.Policy:  # picklable, as coba's processes want it
    return kb.KMTLUCB(arms, similarity=kb.Independent(), epsilon=0.1, seed=3)


def test_an_experiment_of_coba_gives_the_rewards_of_our_own_loop() -> None:
    environment = cb.Environments.from_linear_synthetic(
        150, n_actions=3, n_context_features=2, n_action_features=0, seed=4
    )
    result = cb.Experiment(environment, CobaLearner(make)).run(quiet=True)
    rewards = result.interactions.to_pandas()["reward"].tolist()
    policy, mine = None, []
    for interaction in environment[0].read():
        actions = interaction["actions"]
        policy = policy or make([str(list(a)) for a in actions])
        decision = policy.choose(list(interaction["context"]), [str(list(a)) for a in actions])
        mine.append(interaction["rewards"](actions[decision.index]))
        policy.update(decision, mine[-1])
    assert rewards == pytest.approx(mine, abs=1e-5)  # coba keeps five digits
    assert np.mean(rewards) > np.mean(
        [np.mean([i["rewards"](a) for a in i["actions"]]) for i in environment[0].read()]
    )


def test_it_beats_chance_among_coba_learners_and_names_itself_in_their_table() -> None:
    environment = cb.Environments.from_linear_synthetic(
        300, n_actions=4, n_context_features=3, n_action_features=0, seed=1
    )
    learner = CobaLearner(kb.LinUCB([str([int(i == j) for j in range(4)]) for i in range(4)], ridge=0.1))
    result = cb.Experiment(environment, [learner, cb.RandomLearner()]).run(quiet=True)
    table = result.interactions.to_pandas().groupby("learner_id")["reward"].mean()
    assert table[0] > table[1] + 0.05
    families = result.learners.to_pandas()["family"].tolist()
    assert families[0] == "KMTLUCB"


def test_rewards_find_their_decision_and_logs_are_observed() -> None:
    learner = CobaLearner(make)
    first = learner.predict((0.1, 0.2), ["a", "b"])
    second = learner.predict((0.8, 0.2), ["a", "b", "c"])  # an action more
    learner.learn((0.8, 0.2), second[0], 0.5, second[1], **second[2])
    learner.learn((0.1, 0.2), first[0], 1.0, first[1], **first[2])
    assert learner.policy.n_observations == 2
    assert learner.policy.arms == ["a", "b", "c"]
    assert learner.policy.pending() == []
    learner.learn((0.3, 0.3), "b", 0.0, 0.5)  # off-policy: no decision of ours
    assert learner.policy.n_observations == 3


def test_scores_are_the_probabilities_of_predict() -> None:
    learner = CobaLearner(make)
    learner.learn((0.1, 0.2), "a", 1.0, 0.5)
    actions = ["a", "b", "c"]
    scores = [learner.score((0.1, 0.2), actions, a) for a in actions]
    assert sum(scores) == pytest.approx(1.0)
    action, probability, _ = learner.predict((0.1, 0.2), actions)
    assert probability == pytest.approx(scores[actions.index(action)])


def test_actions_with_features_are_one_arm_with_a_context_each() -> None:
    """In coba's synthetic world actions change every round, so names would teach nothing."""
    environment = cb.Environments.from_linear_synthetic(300, n_actions=4, n_context_features=2, seed=1)
    learner = CobaLearner(make, features=lambda x, a: [*a, *(u * v for u in x for v in a)])
    result = cb.Experiment(environment, [learner, cb.RandomLearner()]).run(quiet=True)
    table = result.interactions.to_pandas().groupby("learner_id")["reward"].mean()
    assert table[0] > table[1] + 0.05
    with pytest.raises(TypeError, match="features=lambda x, a"):
        CobaLearner(make).predict((0.5,), [(0.3, 0.2), (0.1, 0.9)])


def test_learners_travel_to_other_processes() -> None:
    learner = CobaLearner(make)
    learner.learn((0.1,), "a", 1.0, 0.5)
    assert pickle.loads(pickle.dumps(learner)).policy.n_observations == 1


@pytest.mark.parametrize(
    ("context", "words"),
    [({"x": 1.0}, "sparse"), ("tall", "is text"), ((float("nan"), 1.0), "must be finite")],
)
def test_contexts_that_are_no_numbers(context: object, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        CobaLearner(make).predict(context, ["a", "b"])


def test_contexts_of_no_or_one_feature() -> None:
    for context in (None, 0.5):
        learner = CobaLearner(make)
        action, p, info = learner.predict(context, ["a", "b"])
        learner.learn(context, action, 1.0, p, **info)
        assert learner.policy.n_observations == 1


def test_what_makes_no_policy_is_refused() -> None:
    with pytest.raises(TypeError, match="must make a policy"):
        CobaLearner(lambda arms: arms).predict(None, ["a"])
    with pytest.raises(TypeError, match="no discrete actions"):
        CobaLearner(make).predict(None, [])
    with pytest.raises(TypeError, match="no policy yet"):
        CobaLearner(make).policy  # noqa: B018
