"""Bad input: an error that says what to do, of a built-in kind, and nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from worlds import PROBE, picture, played

import kinbandits as kb
from kinbandits import errors
from strategies import EXACT_ENGINES, SIMILARITIES, engine_of, laplacian_of_differences, ring

pytestmark = pytest.mark.numerical

X = [0.1, 0.2, 0.3]
NAN, INF = float("nan"), float("inf")
engines = pytest.mark.parametrize("engine", ["naive", *EXACT_ENGINES])

CALLS: list[tuple[str, Callable[[kb.KMTLUCB], object], type[Exception], str]] = [
    # contexts
    (
        "nan context",
        lambda p: p.choose([0.1, NAN, 0.3]),
        ValueError,
        r"contexts must be finite, but contexts\[1\] is nan",
    ),
    (
        "inf context",
        lambda p: p.choose([[INF, 0, 0]] * 4),
        ValueError,
        r"contexts\[0, 0\] is inf; fill in or leave out",
    ),
    ("nan predict", lambda p: p.predict([NAN, 0, 0]), ValueError, "must be finite"),
    ("nan choose_many", lambda p: p.choose_many([[[NAN, 0, 0]]]), ValueError, "must be finite"),
    (
        "text context",
        lambda p: p.choose(["a", "b", "c"]),
        TypeError,
        "contexts must be numbers in an array, got list",
    ),
    ("ragged context", lambda p: p.choose([[1, 2, 3], [1, 2]]), TypeError, "contexts must be numbers in an array"),
    ("no context", lambda p: p.choose(None), ValueError, "must be finite"),
    ("empty context", lambda p: p.choose([]), ValueError, r"context has shape \(0,\); it must be \(d,\) for one"),
    ("number as context", lambda p: p.choose(1.0), ValueError, r"context has shape \(\)"),
    ("3-D context", lambda p: p.choose(np.zeros((1, 1, 3))), ValueError, r"shape \(1, 1, 3\); it must be \(d,\)"),
    ("4-D contexts", lambda p: p.predict(np.zeros((1, 1, 1, 3))), ValueError, r"of many rounds \(rounds, d\) or"),
    (
        "too few rows",
        lambda p: p.choose([X, X, X]),
        ValueError,
        r"context has 3 rows for 4 candidates; .* \(4, d\)",
    ),
    ("rows for subset", lambda p: p.choose([X] * 4, arms=[0, 1]), ValueError, "4 rows for 2 candidates"),
    ("too wide", lambda p: p.choose([*X, 1.0]), ValueError, "context has 4 features, but this policy has seen 3"),
    ("observe too wide", lambda p: p.observe([0], [[*X, 1.0]], [1.0]), ValueError, "contexts has 4 features"),
    # candidates and arms
    ("no candidates", lambda p: p.choose(X, arms=[]), ValueError, "arms is empty; give at least one candidate"),
    ("unknown arm", lambda p: p.choose(X, arms=[0, 9]), LookupError, r"unknown arm 9; the arms are 0, 1, 2, 3"),
    ("unknown text arm", lambda p: p.predict(X, arms=["0"]), LookupError, "unknown arm '0'"),
    ("arm of wrong type", lambda p: p.choose(X, arms=[[0]]), LookupError, r"unknown arm \[0\]"),
    ("arms as text", lambda p: p.choose(X, arms="01"), TypeError, "arms must be a sequence of arm names, got '01'"),
    ("arms as number", lambda p: p.choose(X, arms=1), TypeError, "arms must be a sequence of arm names, got 1"),
    ("arms 2-D", lambda p: p.choose(X, arms=np.zeros((2, 2), int)), ValueError, r"an array of shape \(2, 2\)"),
    (
        "removed arm",
        lambda p: (p.remove_arm(1), p.choose(X, arms=[1])),
        LookupError,
        "unknown arm 1; the arms are 0, 2, 3",
    ),
    (
        "retired arm",
        lambda p: (p.retire_arm(1), p.choose(X, arms=[1])),
        ValueError,
        "arm 1 is retired and is never",
    ),
    ("duplicate arm", lambda p: p.add_arm(2), ValueError, "there is an arm 2 already; choose another name"),
    ("bad arm name", lambda p: p.add_arm(2.5), TypeError, "an arm name must be a str or an int, got 2.5"),
    ("bool arm name", lambda p: p.add_arm(True), TypeError, "an arm name must be a str or an int, got True"),
    ("retire unknown", lambda p: p.retire_arm("x"), LookupError, "unknown arm 'x'"),
    ("remove unknown", lambda p: p.remove_arm("x"), LookupError, "unknown arm 'x'"),
    ("descriptor unasked", lambda p: p.add_arm("x", 1.0), ValueError, "Mixed similarity takes no descriptor="),
    # rewards
    ("nan reward", lambda p: p.update(p.pending()[0], NAN), ValueError, "reward must be finite, got nan"),
    ("inf reward", lambda p: p.update(p.pending()[0], -INF), ValueError, "reward must be finite, got -inf"),
    ("text reward", lambda p: p.update(p.pending()[0], "1"), TypeError, "reward must be a number, got '1'"),
    ("no reward", lambda p: p.update(p.pending()[0], None), TypeError, "reward must be a number, got None"),
    ("list reward", lambda p: p.update(p.pending()[0], [1.0]), TypeError, "reward must be a number"),
    ("unknown decision", lambda p: p.update(999, 1.0), LookupError, "this policy never made a decision 999"),
    ("negative id", lambda p: p.update(-1, 1.0), LookupError, "never made a decision -1"),
    ("id of wrong type", lambda p: p.update("0", 1.0), TypeError, r"give a Decision or its id \(a whole number\)"),
    ("id as bool", lambda p: p.update(True, 1.0), TypeError, "give a Decision or its id"),
    (
        "second reward",
        lambda p: p.update(0, 77.0),
        ValueError,
        r"decision 0 already has reward .*; a second reward of 77.0",
    ),
    ("cancel unknown", lambda p: p.cancel(999), LookupError, "never made a decision 999"),
    ("cancel rewarded", lambda p: p.cancel(0), LookupError, "decision 0 has its reward already"),
    # observe
    (
        "observe nan",
        lambda p: p.observe([0, 1], [X, X], [1.0, NAN]),
        ValueError,
        r"rewards must be finite.*rewards\[1\]",
    ),
    ("observe nan context", lambda p: p.observe([0], [[NAN, 0, 0]], [1.0]), ValueError, "contexts must be finite"),
    ("observe unknown", lambda p: p.observe([0, 7], [X, X], [1.0, 1.0]), LookupError, "unknown arm 7"),
    (
        "observe lengths",
        lambda p: p.observe([0, 1], [X], [1.0, 1.0]),
        ValueError,
        "contexts has 1 rows, but arms has 2",
    ),
    (
        "observe rewards",
        lambda p: p.observe([0], [X], [1.0, 2.0]),
        ValueError,
        r"one entry per row: 1 arms, but shape \(2,\)",
    ),
    (
        "observe 1-D",
        lambda p: p.observe([0, 1, 2], X, [1.0] * 3),
        ValueError,
        r"contexts must be 2-D \(rows, features\)",
    ),
    ("observe no features", lambda p: p.observe([0], [[]], [1.0]), ValueError, "contexts must be 2-D"),
    ("observe text", lambda p: p.observe("a", [X], [1.0]), TypeError, "arms must be a sequence of arm names"),
    # reading
    ("term", lambda p: p.similarity_matrix(term=1), ValueError, "term must be between 0 and 0, got 1"),
    ("sample size", lambda p: p.sample(X, size=-1), ValueError, "size must be at least 0, got -1"),
    (
        "covariance of rounds",
        lambda p: p.covariance(np.zeros((2, 1, 3))),
        ValueError,
        r"context has shape \(2, 1, 3\)",
    ),
    ("explain unknown", lambda p: p.explain(999), LookupError, "never made a decision 999"),
]


@engines
@pytest.mark.parametrize(("call", "error", "text"), [c[1:] for c in CALLS], ids=[c[0] for c in CALLS])
def test_refused_and_nothing_changes(
    engine: str, call: Callable[[kb.KMTLUCB], object], error: type[Exception], text: str
) -> None:
    policy = played(engine=engine)
    before = picture(policy)
    changes_first = "removed" in text or "retired" in text or "the arms are 0, 2, 3" in text
    with pytest.raises(error, match=text) as caught:
        call(policy)
    assert isinstance(caught.value, errors.KinbanditsError)
    if not changes_first:
        assert picture(policy) == before


SETTINGS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"arms": 0}, ValueError, "arms must be at least 1, got 0"),
    ({"arms": []}, ValueError, "arms is empty; there must be at least one arm"),
    ({"arms": ["a", "b", "a"]}, ValueError, "duplicate arm 'a'; names must differ"),
    ({"arms": "abc"}, TypeError, "arms must be a number of arms or a list of names, got 'abc'"),
    ({"arms": 2.5}, TypeError, "arms must be a number of arms or a list of names, got 2.5"),
    ({"arms": True}, TypeError, "arms must be a number of arms or a list of names"),
    ({"arms": [("a", 1)]}, TypeError, "an arm name must be a str or an int"),
    ({"ridge": 0.0}, ValueError, "ridge must be greater than 0, got 0.0"),
    ({"ridge": -1.0}, ValueError, "ridge must be greater than 0, got -1.0"),
    ({"ridge": NAN}, ValueError, "ridge must be finite"),
    ({"ridge": "0.1"}, TypeError, "ridge must be a number, got '0.1'"),
    ({"exploration": -0.1}, ValueError, "exploration must be at least 0, got -0.1"),
    ({"exploration": INF}, ValueError, "exploration must be finite"),
    ({"epsilon": 1.5}, ValueError, "epsilon must be between 0 and 1, got 1.5"),
    ({"epsilon": NAN}, ValueError, "epsilon must be finite"),
    ({"tie_break": "last"}, ValueError, 'tie_break must be "random" or "first", got \'last\''),
    ({"weighting": "eta"}, ValueError, 'weighting must be "per_arm" or "uniform", got \'eta\''),
    ({"cold_start": "warm"}, ValueError, 'cold_start must be "explore", "borrow" or "auto", got \'warm\''),
    ({"engine": "fast"}, ValueError, 'engine must be "auto", "exact", .*got .fast.'),
    ({"engine": "lagged"}, ValueError, 'engine="lagged" is gone, write engine="exact"'),
    ({"engine": "budgeted"}, ValueError, r"write engine=kb\.Budgeted\(points=256\)"),
    ({"engine": 256}, TypeError, r"engine must be .*kb\.Budgeted\(points=256\), got 256"),
    ({"pending": 100}, TypeError, r"pending must be kb\.Pending\(.*got 100"),
    ({"rewards": (0.0, 1.0)}, TypeError, r"rewards must be .*kb\.Range\(low, high\).*got \(0\.0, 1\.0\)"),
    ({"max_pending": 5}, TypeError, r"max_pending= is gone; write pending=kb\.Pending\(most=\.\.\.\)"),
    ({"forget_after": 5}, TypeError, r"write pending=kb\.Pending\(forget_after=\.\.\.\)"),
    ({"reward_range": (0.0, 1.0)}, TypeError, r"write rewards=kb\.Range\(low, high\)"),
    ({"reward_scaling": "running"}, TypeError, r"write rewards=kb\.Running\(\)"),
    ({"ceiling": 1.0}, TypeError, r"write exploration=kb\.UCB\(0\.1, ceiling=\.\.\.\)"),
    ({"budget": 64}, TypeError, r"write engine=kb\.Budgeted\(points=\.\.\.\)"),
    ({"settings": "paper"}, TypeError, r"write \*\*kb\.presets\.paper\(\)"),
    ({"similarity": "pooled"}, TypeError, "similarity must be a value such as"),
    ({"similarity": kb.Known(np.eye(2))}, ValueError, "matrix has 2 rows, but there are 3 arms"),
    ({"similarity": kb.Graph(ring(4))}, ValueError, "adjacency has 4 rows, but there are 3 arms"),
    ({"similarity": kb.Mixed(-0.9)}, ValueError, "has eigenvalue -0.8 < 0; mu must be at least -0.5"),
    ({"context_kernel": "rbf"}, TypeError, "a kernel must be a kinbandits kernel"),
    ({"context_kernel": kb.RBF}, TypeError, "RBF is a class"),
    ({"kernel": kb.RBF()}, TypeError, "kernel must be a kb.Term or a sum of them"),
    ({"kernel": kb.Term(kb.Pooled(), kb.RBF()), "ridge": 1, "similarity": kb.Pooled()}, ValueError, "not both"),
]


@pytest.mark.parametrize(("settings", "error", "text"), SETTINGS, ids=[str(s[0])[:50] for s in SETTINGS])
def test_settings_are_checked(settings: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        kb.KMTLUCB(**({"arms": 3} | settings))
    assert isinstance(caught.value, errors.KinbanditsError)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: kb.Term(kb.Pooled(), kb.RBF(), columns=[]), "at least one column"),
        (lambda: kb.Term(kb.Pooled(), kb.RBF(), columns=[-1]), "counted from 0"),
        (lambda: kb.Term(kb.Pooled(), kb.RBF(), columns=[0.5]), "sequence of column numbers"),
        (lambda: kb.Term(kb.Pooled(), kb.RBF(), columns=2), "sequence of column numbers"),
        (lambda: kb.Term(kb.Pooled(), kb.RBF(), columns=["a"]), "sequence of column numbers"),
        (lambda: kb.baselines.KernelUCB(2, sharing="some"), "sharing must be"),
        (lambda: kb.baselines.LinUCB(2, shared_columns=[0]), 'are for sharing="hybrid"'),
        (
            lambda: kb.KMTLUCB(2, kernel=kb.Term(kb.Pooled(), kb.RBF(), columns=[4])).choose(X),
            "column 4, but contexts have 3",
        ),
        (
            lambda: kb.KMTLUCB(2, context_kernel=kb.RBF([1.0, 2.0])).choose(X),
            "length_scale has 2 entries, but contexts have 3",
        ),
        (
            lambda: kb.KMTLUCB(2, context_kernel=kb.RBF([1.0, 2.0])).observe([0], [X], [1.0]),
            "length_scale has 2 entries",
        ),
        (lambda: kb.KMTLUCB(2, exploration=lambda t: -1.0).choose(X), "the exploration schedule returned -1.0"),
        (lambda: kb.KMTLUCB(2, exploration=lambda t: NAN).choose(X), "the exploration schedule returned nan"),
        (
            lambda: kb.KMTLUCB(2, rewards=kb.Range(0, 1)).observe([0], [X], [1.5]),
            r"reward 1.5 is outside Range\(0.0, 1.0\)",
        ),
        (lambda: kb.KMTLUCB(1).retire_arm(0), "0 is the last active arm; add another before retiring it"),
        (lambda: kb.KMTLUCB(1).remove_arm(0), "0 is the last active arm; add another before removing it"),
        (lambda: two_term_policy().similarity_matrix(), "kernel has 2 terms; say which with term=0"),
        (lambda: two_term_policy().add_arm("x", descriptor=1.0), "takes no descriptor="),
    ],
)
def test_other_mistakes(make: Callable[[], object], text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text) as caught:
        make()
    assert isinstance(caught.value, errors.KinbanditsError)


def two_term_policy() -> kb.KMTLUCB:
    return kb.baselines.LinUCB(3, sharing="hybrid")


def test_every_error_is_a_built_in_one_too() -> None:
    ours = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, errors.KinbanditsError)]
    for error in ours:
        assert error is errors.KinbanditsError or issubclass(error, ValueError | TypeError | LookupError)
        assert str(error("say 'this'")) == "say 'this'"  # a KeyError would quote it


def test_a_decision_of_another_policy_is_refused() -> None:
    one, other = played(), played()
    decision = other.choose(X)
    one.choose(X)
    before = picture(one)
    with pytest.raises(errors.UnknownDecisionError, match="was made by another policy"):
        one.update(decision, 1.0)
    assert picture(one) == before


# -- a kernel that fails in the middle ------------------------------------------------------------


class Switch:
    """A callable kernel that raises while it is switched off, or after some calls."""

    def __init__(self) -> None:
        self.calls_left = 10**9

    def __call__(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise RuntimeError("the kernel's own trouble")
        return laplacian_of_differences(A, B)


@engines
@pytest.mark.parametrize("calls", [0, 1, 2])
@pytest.mark.parametrize("where", ["context", "embedding", "second-term"])
@pytest.mark.parametrize("act", ["update", "observe", "choose", "add_arm", "remove_arm"])
def test_a_kernel_that_raises_leaves_the_policy_as_it_was(engine: str, calls: int, where: str, act: str) -> None:
    switch = Switch()
    kernel: Any = {
        "context": kb.Term(SIMILARITIES["estimated"](4), switch),
        "embedding": kb.Term(kb.Estimated(0.4, switch), kb.RBF()),
        "second-term": kb.Term(SIMILARITIES["estimated"](4), kb.RBF(), columns=[0, 2])
        + kb.Term(kb.Estimated(0.4, switch), switch, columns=[1]),
    }[where]
    policy = _played(kernel, engine)
    waiting = policy.pending()[1]
    before = picture(policy)
    doing: dict[str, Callable[[kb.KMTLUCB], object]] = {
        "update": lambda p: p.update(waiting, 1.0),
        "observe": lambda p: p.observe([0, 1, 3], [X, [0.5, 0.5, 0.5], X], [1.0, 0.0, 0.5]),
        "choose": lambda p: p.choose([0.9, 0.8, 0.7], scores=True),
        "add_arm": lambda p: p.add_arm("new"),
        "remove_arm": lambda p: p.remove_arm(2),
    }
    failed = False
    switch.calls_left = calls
    try:
        doing[act](policy)
    except RuntimeError:
        failed = True
    switch.calls_left = 10**9
    # With no call allowed it must fail, unless nothing need be asked of that kernel.
    assert failed or calls > 0 or engine == "naive" or (act == "choose" and where == "embedding")
    if failed:
        assert picture(policy) == before
        doing[act](policy)
    twin = _played(kernel, engine)
    doing[act](twin)
    np.testing.assert_allclose(policy.predict(PROBE).mean, twin.predict(PROBE).mean, rtol=1e-12, atol=1e-12)
    assert policy.pending() == twin.pending()


def _played(kernel: Any, engine: str) -> kb.KMTLUCB:
    policy = kb.KMTLUCB(4, kernel=kernel, engine=engine)
    rng = np.random.default_rng(1)
    for t in range(9):
        decision = policy.choose(rng.uniform(-1, 1, 3))
        if t % 3:
            policy.update(decision, float(t))
    return policy


# -- not the user's fault ---------------------------------------------------------------------------


def coinciding(engine: str, similarity: str, ridge: float, weighting: str) -> kb.KMTLUCB:
    """Thirty rows with one context, ten of each arm, each with noise ``ridge``."""
    policy = kb.KMTLUCB(
        3,
        context_kernel=kb.RBF(),
        similarity=SIMILARITIES[similarity](3),
        ridge=ridge if weighting == "uniform" else ridge / 10,
        engine=engine,
        weighting=weighting,
    )
    policy.observe(np.tile([0, 1, 2], 10), np.ones((30, 2)), np.tile([1.0, 0.5, 0.25], 10))
    return policy


@pytest.mark.filterwarnings("ignore::kinbandits.errors.NumericalWarning")
@pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
@pytest.mark.parametrize("engine", EXACT_ENGINES)
@pytest.mark.parametrize("ridge", [1e-12, 1e-17])
@pytest.mark.parametrize("similarity", ["independent", "pooled", "estimated"])
def test_coinciding_contexts_with_a_tiny_ridge_recover(
    engine: str, similarity: str, ridge: float, weighting: str
) -> None:
    policy = coinciding(engine_of(engine), similarity, ridge, weighting)
    mean, width = policy.predict([1.0, 1.0])
    wanted = {"independent": [1.0, 0.5, 0.25], "pooled": [1.75 / 3] * 3}.get(similarity)
    if wanted is not None:
        np.testing.assert_allclose(mean, wanted, atol=1e-2)
    assert np.isfinite(mean).all()
    assert np.isfinite(width).all()
    assert np.abs(mean).max() < 2.0
    assert policy.choose([1.0, 1.0]).arm in (0, 1, 2)


@pytest.mark.parametrize("weighting", ["uniform", "per_arm"])
@pytest.mark.parametrize("engine", EXACT_ENGINES)
@pytest.mark.parametrize("similarity", ["independent", "pooled", "estimated"])
def test_help_is_told_of(engine: str, similarity: str, weighting: str) -> None:
    """Jitter was needed (1e-17), or most digits are lost (1e-12)."""
    for ridge in (1e-12, 1e-17):
        with pytest.warns(errors.NumericalWarning, match="Raise ridge"):
            coinciding(engine_of(engine), similarity, ridge, weighting).predict([1.0, 1.0])


@pytest.mark.parametrize("engine", EXACT_ENGINES)
def test_a_kernel_that_is_no_kernel_is_named_at_last(engine: str) -> None:
    def negative(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return -laplacian_of_differences(A, B)

    policy = kb.KMTLUCB(2, context_kernel=negative, engine=engine)
    with pytest.raises(errors.SingularMatrixError, match="check_kernel tells"):
        policy.observe([0, 0], [[0.0], [1.0]], [1.0, 0.0]) or policy.predict([0.5])
