"""What a stranger meets in the first hour: small mistakes are refused in words, ordinary things work."""

from __future__ import annotations

import contextlib
import copy
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import kinbandits as kb
from kinbandits.errors import KinbanditsError


def pickled(policy: kb.KMTLUCB) -> kb.KMTLUCB:
    return pickle.loads(pickle.dumps(policy))


# -- decisions ----------------------------------------------------------------------------------------


def test_update_takes_the_decisions_of_choose_many() -> None:
    X, rewards = np.arange(6.0).reshape(3, 2), [1.0, 0.0, 0.5]
    policy, same = (kb.KMTLUCB(2, seed=3) for _ in range(2))
    policy.update(policy.choose_many(X), rewards)
    for decision, reward in zip(same.choose_many(X), rewards, strict=True):
        same.update(decision, reward)
    assert policy.n_observations == 3
    assert not policy.pending()
    np.testing.assert_allclose(policy.predict(X[0]).mean, same.predict(X[0]).mean, rtol=1e-9)


def test_decisions_that_are_updated_at_once_are_updated_all_or_not_at_all() -> None:
    policy = kb.KMTLUCB(2)
    many = policy.choose_many(np.eye(3))
    for wrong in (1.0, [1.0, 0.0], [1.0, 0.0, np.nan], [[1.0], [0.0], [1.0]], "abc", None):
        with pytest.raises(KinbanditsError):
            policy.update(many, wrong)
    policy.update(many[1], 5.0)
    with pytest.raises(ValueError, match=r"already has reward 5\.0"):
        policy.update(many, [1.0, 1.0, 1.0])
    assert policy.n_observations == 1
    policy.update(many, [1.0, 5.0, 0.0])  # the middle one is a repeat
    policy.update(many, [1.0, 5.0, 0.0])
    assert policy.n_observations == 3
    other = kb.KMTLUCB(2)
    other.choose_many(np.eye(3))
    with pytest.raises(LookupError, match="another policy"):
        other.update(many, [1.0, 5.0, 0.0])


# -- attributes ---------------------------------------------------------------------------------------


def test_a_mistyped_attribute_is_refused() -> None:
    policy = kb.KMTLUCB(2)
    with pytest.raises(AttributeError, match=r"no attribute 'epsilonn' to set; did you mean 'epsilon'"):
        policy.epsilonn = 0.1
    with pytest.raises(AttributeError):
        policy.rewardz = None
    for name, value, words in (("ridge", 0.3, "make another with ridge=0.3"), ("kernel", None, "is fixed when")):
        with pytest.raises(AttributeError, match=words):
            setattr(policy, name, value)
    with pytest.raises(ValueError, match="epsilon must be between 0 and 1"):
        policy.epsilon = 1.5
    policy.epsilon = 0.25
    assert policy.choose([1.0]).propensity < 1.0
    for other in (pickled(policy), copy.deepcopy(policy), policy.copy(), policy.frozen()):
        with pytest.raises(AttributeError):
            other.epsilonn = 0.1


def test_a_subclass_may_have_attributes_of_its_own() -> None:
    class Mine(kb.KMTLUCB):
        def __init__(self, arms: Any, colour: str) -> None:
            super().__init__(arms)
            self.colour = colour

    policy = Mine(2, "red")
    policy.colour = "blue"
    assert policy.colour == "blue"


def test_arms_cannot_be_changed_from_outside() -> None:
    policy = kb.KMTLUCB(["a", "b"])
    for change in (
        lambda: policy.arms.append("c"),
        lambda: policy.arms.clear(),
        lambda: setattr(policy, "arms", []),
    ):
        with contextlib.suppress(AttributeError, TypeError, KinbanditsError):
            change()
    assert list(policy.arms) == ["a", "b"]
    assert policy.choose([1.0]).arm in ("a", "b")
    given = ["a", "b"]
    policy = kb.KMTLUCB(given)
    given.append("c")
    assert list(policy.arms) == ["a", "b"]


def test_importing_us_imports_no_option() -> None:
    code = "import sys, kinbandits; dir(kinbandits); print({'sklearn', 'matplotlib', 'narwhals'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout.strip() == "set()", found.stderr


# -- explain_arm --------------------------------------------------------------------------------------


def test_explain_arm_checks_what_it_is_given() -> None:
    policy = kb.KMTLUCB(["a", "b"])
    policy.observe(["a", "b", "a"], {"age": [0.1, 0.5, 0.9], "hour": [1.0, 2.0, 3.0]}, [0.0, 1.0, 0.5])
    wanted = policy.explain_arm("a", [0.5, 2.0]).mean
    assert policy.explain_arm("a", {"hour": 2.0, "age": 0.5}).mean == wanted
    assert policy.explain_arm("a", np.array([0.5, 2.0], dtype=">f8")).mean == wanted
    assert wanted == pytest.approx(policy.predict([0.5, 2.0]).mean[0])
    with pytest.raises(KinbanditsError, match="takes an arm and then a context"):
        policy.explain_arm([0.5, 2.0], "a")


@pytest.mark.parametrize("bad", [{"b", "a"}, frozenset(["a"])])
def test_a_set_of_arms_has_no_order(bad: Any) -> None:
    with pytest.raises(TypeError, match=r"arms is a set, which has no order; give a list, such as sorted\(arms\)"):
        kb.KMTLUCB(bad)


# -- arguments of the wrong kind ----------------------------------------------------------------------

WRONG: dict[str, Any] = {
    "None": None,
    "text": "a",
    "bytes": b"a",
    "object": object(),
    "a class": RuntimeError,
    "dict": {},
    "empty": [],
    "NaN": float("nan"),
    "-inf": float("-inf"),
    "10^40": 10**40,
    "10^400": 10**400,
    "-1": -1,
    "half": 0.5,
    "complex": 1j,
    "deep": [[[]]],
    "function": lambda: None,
    "set": {1},
    "no rows": np.zeros((0, 1)),
    "4-d": np.zeros((2, 2, 2, 2)),
    "text array": np.array(["a"]),
    "list of None": [None],
    "slice": slice(2),
    "an exhausted iterator": iter(()),
    "names without order": frozenset(["a", "b"]),
    "a mask": [True, False],
    "a date": [np.datetime64("2020-01-01"), 1.0],
    "ragged": [[1.0, 2.0], [1.0]],
    "sparse": scipy.sparse.csr_matrix(np.eye(2)),
    "a table of dates": pd.DataFrame({"x": pd.to_datetime(["2020-01-01", "2020-01-02"])}),
    "a table of lists": pd.DataFrame({"x": [[1], [2]], "y": [1.0, 2.0]}),
    "a table with NA": pd.DataFrame({"x": pd.array([1, None], dtype="Int64")}),
    "a table of text": pd.DataFrame({"x": pd.array(["1", "2"], dtype="string")}),
    "a table of everything": pd.DataFrame({"x": [1j, "a"], "y": [None, 1.0]}),
    "a column with NA": pd.Series([1, None], dtype="Int64"),
    "NA": pd.NA,
    "NaT": pd.NaT,
    "a record": np.zeros(2, dtype=[("a", float)]),
}


def calls() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Every argument of the main entry points, one at a time."""

    def policy() -> kb.KMTLUCB:
        p = kb.KMTLUCB(["a", "b"], ridge=0.1, exploration=0.5)
        p.observe(["a", "b"], [[0.0], [1.0]], [0.0, 1.0])
        return p

    settings = set(inspect.signature(kb.KMTLUCB).parameters) - {"arms"}
    assert {"similarity", "ridge", "exploration", "seed"} <= settings
    for name in sorted(settings):
        yield f"KMTLUCB({name}=)", lambda v, name=name: kb.KMTLUCB(2, **{name: v})
    yield "KMTLUCB(arms)", kb.KMTLUCB
    yield "choose", lambda v: policy().choose(v)
    yield "choose arms", lambda v: policy().choose([0.5], v)
    yield "choose task", lambda v: policy().choose([[0.5]], task=v)
    yield "choose_many", lambda v: policy().choose_many(v)
    yield "predict", lambda v: policy().predict(v)
    yield "predict arms", lambda v: policy().predict([0.5], v)
    yield "probabilities", lambda v: policy().probabilities(v)
    yield "sample", lambda v: policy().sample(v)
    yield "covariance", lambda v: policy().covariance(v)
    yield "update decision", lambda v: policy().update(v, 1.0)
    yield "update reward", lambda v: (p := policy()).update(p.choose([0.5]), v)
    yield "cancel", lambda v: policy().cancel(v)
    yield "observe arms", lambda v: policy().observe(v, [[0.5]], [1.0])
    yield "observe contexts", lambda v: policy().observe(["a"], v, [1.0])
    yield "observe rewards", lambda v: policy().observe(["a"], [[0.5]], v)
    yield "add_arm", lambda v: policy().add_arm(v)
    yield "retire_arm", lambda v: policy().retire_arm(v)
    yield "remove_arm", lambda v: policy().remove_arm(v)
    yield "explain", lambda v: policy().explain(v)
    yield "explain_arm", lambda v: policy().explain_arm(v, [0.5])
    yield "explain_arm context", lambda v: policy().explain_arm("a", v)
    yield "Known", kb.Known
    yield "Known descriptors", lambda v: kb.Known(descriptors=v)
    yield "Mixed", kb.Mixed
    yield "Graph", kb.Graph
    yield "RBF", kb.RBF
    yield "Matern nu", lambda v: kb.Matern(nu=v)
    yield "Window", kb.Window
    yield "Budgeted", kb.Budgeted
    yield "UCB", kb.UCB
    yield "Term", lambda v: kb.Term(v, kb.RBF())
    yield "Term columns", lambda v: kb.Term(kb.Pooled(), kb.RBF(), columns=v)
    yield "Linear", kb.Linear
    yield "Linear scale", lambda v: kb.Linear(scale=v)
    yield "Constant", kb.Constant
    yield "RBF.median", kb.RBF.median
    yield "a kernel's rows", lambda v: kb.RBF()(v, np.ones((1, 1)))
    yield "Known.nearest", kb.Known.nearest
    yield "Learned", kb.Learned
    yield "Estimated", kb.Estimated
    yield "Thompson", kb.Thompson
    yield "InverseGap gamma", lambda v: kb.InverseGap(gamma=v)
    yield "Scale", kb.Scale
    yield "observe own_contexts", lambda v: policy().observe(["a"], [[0.5]], [1.0], own_contexts=v)
    yield "update decisions", lambda v: (p := policy()).update(p.choose_many([[0.5], [0.6]]), v)
    yield "propose", lambda v: policy().propose([[0.5]], uniform=v)
    yield "propose first_round", lambda v: policy().propose([[0.5]], uniform=[[0.5, 0.5]], first_round=v)
    yield "sample size", lambda v: policy().sample([0.5], v)
    yield "sample rng", lambda v: policy().sample([0.5], rng=v)
    yield "similarity_matrix", lambda v: policy().similarity_matrix(v)
    yield "activate_arm", lambda v: policy().activate_arm(v)
    yield "load", kb.load
    yield "add_arm descriptor", lambda v: kb.KMTLUCB(2, similarity=kb.Known(descriptors=[0.0, 1.0])).add_arm("c", v)
    yield "add_arm similarity", lambda v: kb.KMTLUCB(2, similarity=kb.Known(np.eye(2))).add_arm("c", similarity=v)
    yield "add_arm neighbours", lambda v: kb.KMTLUCB(2, similarity=kb.Graph(np.eye(2))).add_arm("c", neighbours=v)
    for sharing in ("sharing", "shared_columns"):
        yield sharing, lambda v, n=sharing: kb.baselines.lin_ucb(2, **({"sharing": "hybrid"} | {n: v}))
    yield "SupKMTLUCB horizon", lambda v: kb.SupKMTLUCB(2, horizon=v)
    yield "SupKMTLUCB choose", lambda v: kb.SupKMTLUCB(2, horizon=9).choose(v)
    yield "SupKMTLUCB stage", lambda v: kb.SupKMTLUCB(2, horizon=9).base([0.5], v)
    yield "BetaThompson", lambda v: kb.baselines.BetaThompson(2, successes=v)
    yield "BetaThompson choose", lambda v: kb.baselines.BetaThompson(2).choose(v)


@pytest.mark.parametrize(("name", "call"), [pytest.param(n, c, id=n) for n, c in calls()])
def test_an_argument_of_the_wrong_kind_gets_one_of_our_errors(name: str, call: Callable[[Any], Any]) -> None:
    """Or is taken: none of these is beyond every argument."""
    foreign = []
    for kind, value in WRONG.items():
        try:
            call(value)
        except KinbanditsError as error:
            text = str(error)
            if not isinstance(error, ValueError | TypeError | LookupError) or len(text) <= 15 or "\n" in text:
                foreign.append(f"{kind}: {error!r}")
        except Exception as error:
            foreign.append(f"{kind}: {type(error).__name__}: {error}")
    assert not foreign, name


# -- engines and sizes --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::kinbandits.errors.NumericalWarning")
@pytest.mark.parametrize("similarity", [kb.Pooled(), kb.Independent(), kb.Known(np.ones((3, 3)))], ids=repr)
@pytest.mark.parametrize("where", ["near each other", "anywhere"])
def test_a_budgeted_engine_takes_what_the_exact_one_takes(similarity: Any, where: str) -> None:
    """Points that are nearly the same to the kernel: a kernel matrix that is singular to rounding."""
    rng = np.random.default_rng(0)
    for engine in ("exact", kb.Budgeted(points=20)):
        policy = kb.KMTLUCB(3, similarity=similarity, context_kernel=kb.RBF(50.0), engine=engine, ridge=1e-9)
        for _ in range(120):
            x = rng.normal(size=2) if where == "anywhere" else 1e-3 * rng.integers(0, 2, 2)
            policy.update(policy.choose(x), rng.normal())
        assert policy.n_observations == 120
        assert all(np.isfinite(part).all() for part in policy.predict([0.1, 0.1]))


def test_an_arm_is_removed_in_about_the_time_of_a_refit() -> None:
    rng = np.random.default_rng(0)
    n = 1500
    policy = kb.KMTLUCB(10, ridge=0.1, similarity=kb.Mixed(0.3))
    arms, X, y = rng.integers(0, 10, n).tolist(), rng.normal(size=(n, 4)), rng.normal(size=n)
    policy.observe(arms, X, y)
    policy.predict(X[0])
    start = perf_counter()
    policy.remove_arm(9)
    policy.predict(X[0])
    removing = perf_counter() - start
    start = perf_counter()
    again = kb.KMTLUCB(10, ridge=0.1, similarity=kb.Mixed(0.3))
    again.observe(arms, X, y)
    again.predict(X[0])
    assert removing < 2.0 * (perf_counter() - start) + 0.05
