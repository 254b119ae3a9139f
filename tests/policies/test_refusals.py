"""Bad input: one of our errors, in words, of a built-in kind; and nothing changes. One table for each kind of call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kinbandits as kb
from kinbandits import errors
from kinbandits._value import from_json, to_json
from kinbandits.kernels import as_kernel
from kinbandits.rules import GPUCB, Confidence, Logarithmic
from strategies import picture, played, ring

X, NAN, INF = [0.1, 0.2, 0.3], float("nan"), float("inf")
SHAPE = r"it must be \(d,\) for one context shared by all arms, or \(4, d\)"

METHODS: dict[str, tuple[Callable[[Any], object], str]] = {
    "nan context": (lambda p: p.choose([0.1, NAN, 0.3]), r"contexts must be finite, but contexts\[1\] is nan"),
    "inf context": (lambda p: p.choose([[INF, 0, 0]] * 4), r"contexts\[0, 0\] is inf; fill in or leave out"),
    "nan predict": (lambda p: p.predict([NAN, 0, 0]), "must be finite"),
    "nan choose_many": (lambda p: p.choose_many([[NAN, 0, 0]]), "must be finite"),
    "text context": (lambda p: p.choose(["a", "b", "c"]), "contexts must be numbers in an array, got list"),
    "ragged context": (lambda p: p.choose([[1, 2, 3], [1, 2]]), "contexts must be numbers in an array"),
    "no context": (lambda p: p.choose(None), "contexts must be"),
    "empty context": (lambda p: p.choose([]), r"context has shape \(0,\); " + SHAPE),
    "number as context": (lambda p: p.choose(0.3), r"shape \(\).*a single number x is \[x\]"),
    "many rounds": (lambda p: p.choose(np.zeros((9, 1, 3))), r"many rounds: choose_many\(contexts\)"),
    "rounds predicted": (lambda p: p.predict(np.zeros((9, 3))), r"a round of its own: choose_many\(contexts\)"),
    "4-D contexts": (lambda p: p.predict_many(np.zeros((1, 1, 1, 3))), r"of many rounds \(rounds, d\) or"),
    "too few rows": (lambda p: p.choose([X] * 3), "context has 3 rows for 4 candidates; " + SHAPE),
    "rows for subset": (lambda p: p.choose([X] * 4, arms=[0, 1]), "4 rows for 2 candidates"),
    "rows of many": (lambda p: p.choose_many(np.zeros((9, 5, 3))), r"round of its own: contexts.reshape\(-1, 3\)"),
    "too wide": (lambda p: p.choose([*X, 1.0]), "context has 4 features, but this policy has seen 3"),
    "task of one context": (lambda p: p.choose(X, task=0), r"with task= contexts are \(k, d\)"),
    "task and arms": (lambda p: p.choose([X], [0], task=0), "not both"),
    "unknown task": (lambda p: p.choose([X], task="c"), "unknown arm 'c'"),
    "no candidates": (lambda p: p.choose(X, arms=[]), "arms is empty; give at least one candidate"),
    "unknown arm": (lambda p: p.choose(X, arms=[0, 9]), r"unknown arm 9; the arms are 0, 1, 2, 3"),
    "unknown text arm": (lambda p: p.predict(X, arms=["0"]), "unknown arm '0'"),
    "True is no arm": (lambda p: p.predict(X, arms=[True]), "an arm must be the name of one, .*got True"),
    "arm of wrong type": (lambda p: p.choose(X, arms=[[0]]), r"an arm must be the name of one, .*got \[0\]"),
    "arms as text": (lambda p: p.choose(X, arms="01"), "arms must be a list of arm names, got '01'"),
    "arms as number": (lambda p: p.choose(X, arms=1), "arms must be a list of arm names, got 1"),
    "arms 2-D": (lambda p: p.choose(X, arms=np.zeros((2, 2), int)), r"an array of shape \(2, 2\)"),
    "duplicate arm": (lambda p: p.add_arm(2), "there is an arm 2 already; choose another name"),
    "bad arm name": (lambda p: p.add_arm(2.5), "an arm name must be a str or an int, got 2.5"),
    "bool arm name": (lambda p: p.add_arm(True), "an arm name must be a str or an int, got True"),
    "retire unknown": (lambda p: p.retire_arm("x"), "unknown arm 'x'"),
    "activate unknown": (lambda p: p.activate_arm("x"), "unknown arm 'x'"),
    "remove unknown": (lambda p: p.remove_arm("x"), "unknown arm 'x'"),
    "descriptor unasked": (lambda p: p.add_arm("x", 1.0), "takes no descriptor= for a new arm; leave it out"),
    "nan reward": (lambda p: p.update(p.pending()[0], NAN), "reward must be finite, got nan"),
    "inf reward": (lambda p: p.update(p.pending()[0], -INF), "reward must be finite, got -inf"),
    "huge reward": (lambda p: p.update(p.pending()[0], 1e60), "reward must be at most 1e.50"),
    "endless reward": (lambda p: p.update(p.pending()[0], 10**400), "reward must be finite"),
    "text reward": (lambda p: p.update(p.pending()[0], "1"), "reward must be a number, got '1'"),
    "no reward": (lambda p: p.update(p.pending()[0], None), "reward must be a number, got None"),
    "list reward": (lambda p: p.update(p.pending()[0], [1.0]), "reward must be a number"),
    "unknown decision": (lambda p: p.update(999, 1.0), "this policy never made a decision 999"),
    "negative id": (lambda p: p.update(-1, 1.0), "never made a decision -1"),
    "id of wrong type": (lambda p: p.update("0", 1.0), r"give a Decision or its id \(a whole number\)"),
    "id as bool": (lambda p: p.update(True, 1.0), "give a Decision or its id"),
    "second reward": (lambda p: p.update(0, 77.0), r"decision 0 already has reward .*; a second reward of 77.0"),
    "foreign decision": (lambda p: p.update(played().choose(X), 1.0), "was made by another policy"),
    "cancel unknown": (lambda p: p.cancel(999), "never made a decision 999"),
    "cancel rewarded": (lambda p: p.cancel(0), "decision 0 was rewarded already"),
    "observe nan": (lambda p: p.observe([0, 1], [X, X], [1.0, NAN]), r"rewards must be finite.*rewards\[1\]"),
    "observe nan context": (lambda p: p.observe([0], [[NAN, 0, 0]], [1.0]), "contexts must be finite"),
    "observe unknown": (lambda p: p.observe([0, 7], [X, X], [1.0, 1.0]), "unknown arm 7"),
    "observe lengths": (lambda p: p.observe([0, 1], [X], [1.0, 1.0]), "contexts has 1 rows, but arms has 2"),
    "observe rewards": (lambda p: p.observe([0], [X], [1.0, 2.0]), r"one entry per row: 1 arms, but shape \(2,\)"),
    "observe 1-D": (lambda p: p.observe([0, 1, 2], X, [1.0] * 3), r"one feature: contexts.reshape\(-1, 1\)"),
    "observe no features": (lambda p: p.observe([0], [[]], [1.0]), "contexts must be 2-D"),
    "observe too wide": (lambda p: p.observe([0], [[*X, 1.0]], [1.0]), "contexts has 4 features"),
    "observe text": (lambda p: p.observe("a", [X], [1.0]), "arms must be a list of arm names"),
    "observe whose": (lambda p: p.observe([0], [X], [1.0], own_contexts="x"), 'False, True or "task"'),
    "draws": (lambda p: p.propose([X], uniform=[[0.5]]), r"uniform must be \(1, 2\) numbers in \[0, 1\)"),
    "draws of 1": (lambda p: p.propose([X], uniform=[[0.5, 1.0]]), "uniform must be"),
    "first round": (lambda p: p.propose([X], uniform=[[0.5, 0.5]], first_round=-1), "first_round must be at least 0"),
    "term": (lambda p: p.similarity_matrix(term=1), "term must be between 0 and 0, got 1"),
    "sample size": (lambda p: p.sample(X, size=-1), "size must be at least 0, got -1"),
    "covariance of rounds": (lambda p: p.covariance(np.zeros((2, 1, 3))), r"context has shape \(2, 1, 3\)"),
    "explain unknown": (lambda p: p.explain(999), "never made a decision 999"),
    "explain swapped": (lambda p: p.explain_arm(X, 0), "takes an arm and then a context"),
    "attribute": (lambda p: setattr(p, "epsilonn", 0), "'epsilonn' to set; did you mean 'epsilon'"),
    "save elsewhere": (lambda p: p.save("/no/such/folder/p.kb"), "folder|directory"),
}


@pytest.mark.parametrize("engine", ["naive", "exact"])
@pytest.mark.parametrize("name", METHODS)
def test_refused_and_nothing_changes(engine: str, name: str) -> None:
    call, words = METHODS[name]
    policy = played(engine=engine)
    before = picture(policy)
    with pytest.raises((ValueError, TypeError, LookupError, AttributeError), match=words) as caught:
        call(policy)
    assert isinstance(caught.value, errors.KinbanditsError | AttributeError)
    assert picture(policy) == before


SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"arms": 0}, r"arms must be between 1 and 10\^8, got 0"),
    ({"arms": 10**40}, "arms must be between 1 and"),
    ({"arms": []}, "arms is empty; there must be at least one arm"),
    ({"arms": ["a", "b", "a"]}, "duplicate arm 'a'; names must differ"),
    ({"arms": "abc"}, "arms must be a number of arms or a list of names, got 'abc'"),
    ({"arms": 2.5}, "arms must be a number of arms or a list of names, got 2.5"),
    ({"arms": True}, "arms must be a number of arms or a list of names"),
    ({"arms": [("a", 1)]}, "an arm name must be a str or an int"),
    ({"arms": {"a": [1.0]}}, r"arms is a mapping or a table; .*Known\(descriptors=mapping\)"),
    ({"ridge": 0.0}, "ridge must be greater than 0, got 0.0"),
    ({"ridge": NAN}, "ridge must be finite"),
    ({"ridge": "0.1"}, "ridge must be a number, got '0.1'"),
    ({"exploration": -0.1}, "exploration must be at least 0, got -0.1"),
    ({"exploration": INF}, "exploration must be finite"),
    ({"exploration": kb.Thompson}, r"exploration is the class Thompson; give a value, Thompson\(\)"),
    ({"epsilon": 1.5}, "epsilon must be between 0 and 1, got 1.5"),
    ({"tie_break": "last"}, 'tie_break must be "random" or "first", got \'last\''),
    ({"weighting": "eta"}, 'weighting must be "uniform" or "per_arm", got \'eta\''),
    ({"cold_start": "warm"}, 'cold_start must be "auto", "explore" or "borrow", got \'warm\''),
    ({"engine": "fast"}, 'engine must be "auto", "exact", .*got .fast.'),
    ({"engine": 256}, r"engine must be .*kb\.Budgeted\(points=256\), got 256"),
    ({"most_pending": 0}, "most_pending must be at least 1"),
    ({"seed": -1}, "seed must be at least 0"),
    ({"seed": "x"}, "seed must be a whole number"),
    ({"rewards": "unit"}, r'rewards must be "learn", None \(as they are\) or \(low, high\)'),
    ({"rewards": (1.0, 0.0)}, "needs low < high"),
    ({"rewards": (0.0, INF)}, r"rewards\[1\] must be finite"),
    ({"memory": 100}, r"memory must be None \(remember everything\) or kb.Window\(size=...\)"),
    ({"memory": kb.Window(5), "engine": kb.Budgeted()}, 'needs engine="exact"'),
    ({"similarity": "pooled"}, "similarity must be a value such as"),
    ({"similarity": kb.Known(np.eye(2))}, "matrix has 2 rows, but there are 3 arms"),
    ({"similarity": kb.Known(descriptors=[1.0, 2.0])}, "descriptors has 2 rows, but there are 3 arms"),
    ({"similarity": kb.Graph(ring(4))}, "adjacency has 4 rows, but there are 3 arms"),
    ({"similarity": kb.Mixed(-0.9)}, "has eigenvalue -0.8 < 0; mu must be at least -0.5"),
    ({"context_kernel": "rbf"}, "a kernel must be a kinbandits kernel"),
    ({"context_kernel": kb.RBF}, "RBF is a class"),
    ({"kernel": kb.RBF()}, "kernel must be a kb.Term or a sum of them"),
    ({"kernel": kb.Term(kb.Pooled(), kb.RBF()), "similarity": kb.Pooled()}, "not both"),
]


@pytest.mark.parametrize(("settings", "words"), SETTINGS, ids=[str(s[0])[:60] for s in SETTINGS])
def test_settings_are_checked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        kb.KMTLUCB(**({"arms": 3} | settings))
    assert isinstance(caught.value, errors.KinbanditsError)


def sup(**settings: Any) -> kb.SupKMTLUCB:
    return kb.SupKMTLUCB(2, **{"horizon": 10, **settings})


def cgp(**settings: Any) -> kb.KMTLUCB:
    arms = {"context_kernel": kb.RBF(), "arm_kernel": kb.RBF(), "descriptors": [0.0, 1.0]}
    return kb.baselines.cgp_ucb(2, **(arms | settings))


def learned(*settings: Any, **more: Any) -> Any:
    return lambda: kb.KMTLUCB(2, *settings, **more).observe([0], [X], [1.5])


MADE: list[tuple[Callable[[], object], str]] = [
    # kernels
    (lambda: kb.RBF(length_scale=0.0), "length_scale must be greater than 0, got 0.0"),
    (lambda: kb.RBF(length_scale=(1.0, -2.0)), "greater than 0, got -2.0"),
    (lambda: kb.RBF(length_scale=()), "length_scale must be one number, or a list with one per feature"),
    (lambda: kb.Matern(length_scale=NAN), "length_scale must be finite, got nan"),
    (lambda: kb.Matern(length_scale="1"), "length_scale must be a number, got '1'"),
    (lambda: kb.Matern(nu=2.0), "nu must be 0.5, 1.5 or 2.5, got 2.0"),
    (lambda: kb.Constant(-1.0), "value must be at least 0, got -1.0"),
    (lambda: kb.RationalQuadratic(alpha=0.0), "alpha must be greater than 0"),
    (lambda: kb.Linear(centre=1.0), "centre must be one number per feature"),
    (lambda: -1.0 * kb.RBF(), "factor of a kernel must be at least 0, got -1.0"),
    (lambda: kb.RBF() ** 0, "whole power of at least 1, got 0"),
    (lambda: kb.RBF() ** 1.5, "whole power of at least 1, got 1.5"),
    (lambda: kb.RBF.from_precision(0.0), "precision must be greater than 0"),
    (lambda: kb.RBF.median([1.0, 2.0]), "contexts must be 2-D"),
    (lambda: as_kernel("rbf"), "a kernel must be a kinbandits kernel, a scikit-learn kernel or"),
    (lambda: kb.Constant()(np.ones((2, 2)), np.ones((2, 3))), r"as many columns.*\(2, 2\) and \(2, 3\)"),
    # similarities
    (lambda: kb.Known([[1.0, 2.0], [2.0, 1.0]]), r"smallest eigenvalue is -1.*kb\.Known\.nearest\(matrix\)"),
    (lambda: kb.Known([[1.0, 0.2], [0.1, 1.0]]), "must be symmetric, but it differs .* by 0.1"),
    (lambda: kb.Known([[1.0, 0.2]]), r"must be a square matrix, got shape \(1, 2\)"),
    (lambda: kb.Known([[NAN]]), "must be finite"),
    (lambda: kb.Known([["a"]]), "must be numbers in an array"),
    (lambda: kb.Known(), "Known takes a matrix, or descriptors"),
    (lambda: kb.Known(np.eye(2), kernel=kb.RBF()), "Known takes a matrix, or descriptors"),
    (lambda: kb.Known(np.eye(2), [0.0, 1.0]), "Known takes a matrix, or descriptors"),
    (lambda: kb.Known(descriptors=[[INF]]), "descriptors must be finite"),
    (lambda: kb.Known(descriptors=["a"]), "descriptors must be numbers"),
    (lambda: kb.Known(descriptors=np.zeros((0, 2))), "descriptors must be"),
    (lambda: kb.Known(descriptors=[[0.0]], kernel=kb.RBF([1.0, 2.0])), "length_scale has 2 entries"),
    (lambda: kb.Known(descriptors=[1.0, 2.0], kernel=lambda A, B: -A @ B.T), "is not positive semidefinite"),
    (lambda: kb.Known.nearest([[1.0, 2.0]]), "matrix must be a square matrix"),
    (lambda: kb.Mixed(1.5), "mu must be between"),
    (lambda: kb.Mixed("a"), "mu must be a number"),
    (lambda: kb.Graph([[0.0, -1.0], [-1.0, 0.0]]), "adjacency must not be negative, got -1"),
    (lambda: kb.Graph([[0.0, 1.0], [0.0, 0.0]]), "adjacency must be symmetric"),
    (lambda: kb.Graph(ring(2), normalise="no"), "normalise must be True or False"),
    (lambda: kb.Estimated(length_scale=0.0), "length_scale must be greater than 0"),
    (lambda: kb.Estimated(embedding_kernel="rbf"), "a kernel must be"),
    (lambda: kb.Learned(kb.Learned()), "base must be known beforehand"),
    (lambda: kb.Learned(kb.Mixed(0.3)), r"is what Learned\(\) tries by itself"),
    (lambda: kb.KMTLUCB(2, similarity=kb.Known(np.eye(2))).add_arm("x"), "needs similarity= with 2 entries"),
    (lambda: kb.KMTLUCB(2, similarity=kb.Known(np.eye(2))).add_arm("x", similarity=[2.0, 0.0]), "eigenvalue"),
    (lambda: kb.KMTLUCB(2, similarity=kb.Known(np.eye(2))).add_arm("x", neighbours=[0]), "takes no neighbours=.*similarity="),
    (lambda: kb.KMTLUCB(2, similarity=kb.Known(descriptors=[0.0, 1.0])).add_arm("x"), "needs descriptor="),
    (lambda: kb.KMTLUCB(2, similarity=kb.Known(descriptors=[0.0, 1.0])).add_arm("x", [1, 2]), r"shape \(2,\), but"),
    (lambda: kb.KMTLUCB(2, similarity=kb.Graph(ring(2))).add_arm("x", neighbours=["y"]), "unknown arm 'y'"),
    (lambda: kb.KMTLUCB(3, similarity=kb.Mixed(-0.5)).add_arm("x"), r"over 4 arms has eigenvalue -0\.5"),
    # terms
    (lambda: kb.Term() + kb.Term(kb.Pooled(), kb.RBF()), "leaves something to be learned"),
    (lambda: kb.Term(kb.Pooled(), kb.RBF(), columns=[]), "at least one column"),
    (lambda: kb.Term(kb.Pooled(), kb.RBF(), columns=[-1]), "counted from 0"),
    (lambda: kb.Term(kb.Pooled(), kb.RBF(), columns=[0.5]), "sequence of column numbers"),
    (lambda: kb.Term(kb.Pooled(), kb.RBF(), columns=2), "sequence of column numbers"),
    (lambda: kb.KMTLUCB(2, kernel=kb.Term(kb.Pooled(), kb.RBF(), [4])).choose(X), "column 4, but contexts have 3"),
    (lambda: kb.KMTLUCB(2, context_kernel=kb.RBF([1.0, 2.0])).choose(X), "length_scale has 2 entries, but contexts have 3"),
    (learned(context_kernel=kb.RBF([1.0, 2.0])), "length_scale has 2 entries"),
    # rules and schedules
    (lambda: kb.UCB(-1.0), "exploration must be at least 0"),
    (lambda: kb.UCB(deviations=-1.0), "deviations must be at least 0"),
    (lambda: kb.UCB(ceiling="high"), "ceiling must be a number"),
    (lambda: kb.Thompson(samples=7), "samples must be an even number"),
    (lambda: kb.Thompson(scale=-1.0), "scale must be at least 0"),
    (lambda: kb.InverseGap(scale=0.0), "scale must be greater than 0"),
    (lambda: kb.InverseGap(gamma=-1.0), "gamma must be at least 0"),
    (lambda: kb.InverseGap(gamma=math.sqrt), "gamma must be a number"),
    (lambda: kb.InverseGap(optimism=-0.1), "optimism must be at least 0"),
    (lambda: GPUCB(0), "n_arms must be at least 1"),
    (lambda: GPUCB(2, delta=1.0), "delta must be between 0 and 1"),
    (lambda: Confidence(noise=-1.0), "noise must be at least 0"),
    (lambda: Logarithmic(shift=0.5), "shift must be a whole number"),
    (lambda: kb.KMTLUCB(2, exploration=lambda t: -1.0).choose(X), "the exploration schedule returned"),
    (lambda: kb.KMTLUCB(2, exploration=lambda t: NAN).choose(X), "the exploration schedule returned"),
    # the rest of a policy
    (lambda: kb.Window(0), "size must be at least 1"),
    (lambda: kb.Budgeted(points=0), "points must be at least 1"),
    (lambda: kb.Scale(unit=0.0), "unit must be greater than 0"),
    (learned(rewards=(0, 1)), r"reward is 1.5, but rewards=\(0, 1\) was stated"),
    (lambda: kb.KMTLUCB(1).retire_arm(0), "0 is the last active arm; add another before retiring it"),
    (lambda: kb.KMTLUCB(1).remove_arm(0), "0 is the last active arm; add another before removing it"),
    (lambda: kb.baselines.lin_ucb(3, sharing="hybrid").similarity_matrix(), "kernel has 2 terms; say which with term=0"),
    (lambda: kb.baselines.lin_ucb(3, sharing="hybrid").add_arm("x", descriptor=1.0), "takes no descriptor="),
    (lambda: kb.load("/no/such/file.kb"), "there is no file /no/such/file.kb"),
    (lambda: to_json(object()), "cannot save"),
    (lambda: to_json(lambda t: t), "a file holds no functions"),
    (lambda: from_json({"type": "Nonsense"}), "Nonsense"),
    (lambda: from_json({"length_scale": 1.0}), 'has no "type"'),
    (lambda: from_json({"type": "RBF", "lenght_scale": 1.0}), "lenght_scale.*did you mean 'length_scale'"),
    # baselines
    (lambda: kb.baselines.kernel_ucb(2, sharing="some"), 'sharing must be "independent" or "pooled"'),
    (lambda: kb.baselines.lin_ucb(2, shared_columns=[0]), 'are for sharing="hybrid"'),
    (lambda: kb.baselines.ucb1(2, scale=-1.0), "scale must be at least 0"),
    (lambda: cgp(composition="tensor"), "composition must be"),
    (lambda: cgp(descriptors=None), "give arm_kernel="),
    (lambda: cgp(similarity=kb.Pooled()), "and not both"),
    (lambda: cgp(delta=1.5), "delta must be between"),
    (lambda: cgp(context_kernel=None), "context_kernel= is missing"),
    (lambda: kb.baselines.BetaThompson(2, successes=0.0), "successes must be greater than 0"),
    (lambda: kb.baselines.BetaThompson(2).observe([0], [X], [1.5]), "takes rewards between 0 and 1"),
    # the algorithm with the proof
    (lambda: sup(horizon=0), "horizon must be at least 1"),
    (lambda: sup(horizon=10.5), "horizon must be a whole number"),
    (lambda: sup(delta=0.0), "delta must be between 0 and 1"),
    (lambda: sup(norm_bound=-1.0), "norm_bound must be at least 0"),
    (lambda: sup(ridge=0.0), "ridge must be greater than 0"),
    (lambda: sup(engine="magic"), 'engine must be "exact" or "naive"'),
    (lambda: sup(similarity=kb.Estimated()), "similarity must be known beforehand"),
    (lambda: sup(similarity=kb.Learned()), "similarity must be known beforehand"),
    (lambda: sup(kernel=kb.Term(kb.Pooled(), kb.RBF()), similarity=kb.Pooled()), "not both"),
    (lambda: sup(kernel=kb.Term(kb.Pooled())), "context_kernel must be known beforehand"),
    (lambda: sup(similarity=kb.Known(np.eye(3))), "has 3 rows, but there are 2 arms"),
    (lambda: sup(candidates=0), "candidates must be at least 1"),
    (lambda: sup().choose(np.zeros((3, 1)), arms=[0, 0, 1]), "candidates=3"),
    (lambda: sup().regression(4), "between 1 and 3"),
    (lambda: [sup(horizon=3, seed=0).choose_many(np.zeros((4, 1)))], "horizon=3 rounds and has made 0 decisions"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MADE)), ids=[f"{i} {m[1][:40]}" for i, m in enumerate(MADE)])
def test_what_cannot_be_made_or_done_is_refused(number: int) -> None:
    make, words = MADE[number]
    with pytest.raises((ValueError, TypeError, LookupError), match=words) as caught:
        make()
    assert isinstance(caught.value, errors.KinbanditsError)


def test_retired_and_removed_arms_are_refused_as_candidates() -> None:
    policy = played()
    policy.remove_arm(1)
    policy.retire_arm(2)
    before = picture(policy)
    for arm, words in ((1, "unknown arm 1; the arms are 0, 2, 3"), (2, r"arm 2 is retired; .*activate_arm\(\)")):
        with pytest.raises((LookupError, ValueError), match=words):
            policy.choose(X, arms=[arm])
    with pytest.raises(ValueError, match=r"there is an arm 2 already; it is retired, activate_arm\(\) brings it back"):
        policy.add_arm(2)
    assert picture(policy) == before


def test_every_error_is_a_built_in_one_too() -> None:
    ours = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, errors.KinbanditsError)]
    assert len(ours) > 8
    for error in ours:
        assert error is errors.KinbanditsError or issubclass(error, ValueError | TypeError | LookupError)
        assert str(error("say 'this'")) == "say 'this'"  # a KeyError would quote it
