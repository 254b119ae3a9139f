"""The contract checks: what we ship passes them, and each complaint can be raised."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk

import kinbandits as kb
from kinbandits.errors import ContractError
from kinbandits.history import History
from kinbandits.kernels import Kernel
from kinbandits.similarity import Similarity, Tracker
from kinbandits.testing import check_kernel, check_policy, check_similarity
from strategies import EXACT_ENGINES, KERNELS, SIMILARITIES

# -- what we ship -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_our_kernels_pass(name: str) -> None:
    check_kernel(KERNELS[name])


def test_kernels_of_others_pass() -> None:
    check_kernel(sk.RBF(0.3) + sk.DotProduct())
    check_kernel(kb.kernels.Constant(0.0))
    check_kernel(kb.RBF(length_scale=(1.0, 2.0)), contexts=np.eye(3)[:, :2])


@pytest.mark.parametrize("name", SIMILARITIES)
@pytest.mark.parametrize("n_arms", [1, 4])
def test_our_similarities_pass(name: str, n_arms: int) -> None:
    check_similarity(SIMILARITIES[name](n_arms), n_arms)


@pytest.mark.parametrize("engine", ["naive", *EXACT_ENGINES])
@pytest.mark.parametrize("similarity", ["independent", "descriptors", "estimated"])
@pytest.mark.parametrize("settings", [{}, {"weighting": "per_arm", "epsilon": 0.3, "tie_break": "first"}])
def test_our_policies_pass(engine: str, similarity: str, settings: dict[str, Any]) -> None:
    policy = kb.KMTLUCB(4, similarity=SIMILARITIES[similarity](4), engine=engine, **settings)
    check_policy(policy)
    policy.observe([0, 1, 0], [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [0.0, 1.0, 0.5])
    policy.choose([0.3, 0.3])
    before = repr(policy)
    check_policy(policy)
    assert repr(policy) == before


@pytest.mark.parametrize("similarity", [kb.Independent(), kb.Estimated(), kb.Adaptive()], ids=str)
def test_a_policy_taught_in_bulk_passes(similarity: kb.similarity.Similarity) -> None:
    """Its factor was made of all rows at once, and that of the loaded one of one row more: equal to rounding."""
    rng = np.random.default_rng(0)
    policy = kb.KMTLUCB(3, similarity=similarity, context_kernel=kb.RBF(1.0), engine="exact")
    policy.observe(rng.integers(3, size=50), rng.normal(size=(50, 2)), rng.normal(size=50))
    check_policy(policy)


def test_named_policies_pass() -> None:
    check_policy(kb.baselines.LinUCB(3))
    check_policy(kb.baselines.LinUCB(3, sharing="hybrid", shared_columns=[0], arm_columns=[1, 2]))
    check_policy(kb.baselines.KernelUCB(["a", "b"], sharing="pooled", exploration=lambda t: 1.0 / t), saves=False)


# -- broken kernels ---------------------------------------------------------------------------------


def product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return A @ B.T


def sequence(*kernels: Any) -> Any:
    """A kernel that changes at each call."""
    calls = iter(kernels)
    return lambda A, B: next(calls)(A, B)


@dataclass(frozen=True, eq=False, repr=False)
class WithDiag(Kernel):
    """An inner product with whatever diagonal is given."""

    diagonal: Any

    def __call__(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return product(A, B)

    def diag(self, A: np.ndarray) -> np.ndarray:
        return self.diagonal(A)


@dataclass(frozen=True, eq=False, repr=False)
class Raw(Kernel):
    """Returns what the function returns, unchecked."""

    function: Any

    def __call__(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return self.function(A, B)

    def diag(self, A: np.ndarray) -> np.ndarray:
        return np.einsum("ij,ij->i", A, A)


@pytest.mark.parametrize(
    ("kernel", "complaint"),
    [
        (Raw(lambda A, B: [[1.0]]), r"must be an array, got list"),
        (Raw(lambda A, B: np.zeros(len(A))), r"has shape \(12,\)"),
        (Raw(lambda A, B: np.full((len(A), len(B)), np.inf)), "holds NaN or infinity"),
        (Raw(lambda A, B: np.zeros((12, 12))), r"of 2 and 11 rows has shape \(12, 12\)"),
        (lambda A, B: A[:, :1] + 0.0 * B[:, 0], "is not symmetric"),
        (lambda A, B: product(A - A.mean(axis=0), B - B.mean(axis=0)), "depends on rows other than its own two"),
        (Raw(sequence(product, product, lambda A, B: 2.0 * product(A, B))), "differs when it is called again"),
        (lambda A, B: -product(A, B), "not positive semidefinite: its smallest eigenvalue is -"),
        (WithDiag(lambda A: np.ones((len(A), 1))), r"diag of 12 rows has shape \(12, 1\)"),
        (WithDiag(lambda A: np.ones(len(A))), "is not the diagonal"),
    ],
)
def test_each_complaint_about_a_kernel(kernel: object, complaint: str) -> None:
    with pytest.raises(ContractError, match=complaint):
        check_kernel(kernel)


def test_a_kernel_that_writes_into_its_arguments_is_caught() -> None:
    def writes(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        A *= 2.0
        return product(A, B)

    with pytest.raises(ValueError, match="read-only"):
        check_kernel(writes)


def test_contexts_for_the_check_are_checked() -> None:
    with pytest.raises(ContractError, match=r"contexts must be \(n, d\) with n >= 3"):
        check_kernel(kb.RBF(), contexts=[1.0, 2.0])


# -- broken similarities ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Given(Similarity):
    """Whatever the function makes of the history."""

    function: Any

    def matrix(self, history: History) -> np.ndarray:
        return self.function(history)


class Lagging(Given):
    """Its tracker stands still."""

    fixed = False

    def tracker(self, history: History) -> Tracker:
        tracker = Tracker(self, history)
        tracker._matrix, tracker._size = self.matrix(history), 10**9
        tracker.__class__ = StandsStill
        return tracker


class StandsStill(Tracker):
    @property
    def matrix(self) -> np.ndarray:
        assert self._matrix is not None
        return self._matrix


COUNTER = itertools.count()


def grows(history: History) -> np.ndarray:
    return np.eye(history.n_arms) * (1.0 + len(history))


@pytest.mark.parametrize(
    ("similarity", "complaint"),
    [
        ("pooled", "is no Similarity"),
        (Given(lambda h: np.eye(2)), r"matrix of 4 arms has shape \(2, 2\) after 0 rows"),
        (Given(lambda h: np.full((4, 4), np.nan)), "holds NaN or infinity"),
        (Given(lambda h: np.triu(np.ones((4, 4)))), "is not symmetric"),
        (Given(lambda h: -np.eye(4)), "not positive semidefinite after 0 rows: eigenvalue -1"),
        (Given(lambda h: np.eye(4) * (1.0 + next(COUNTER))), "differs when it is asked again"),
        (Given(grows), "fixed is true, but the matrix changed after 1 rows"),
        (Lagging(grows), "tracker is not the definition after 1 rows"),
    ],
)
def test_each_complaint_about_a_similarity(similarity: Any, complaint: str) -> None:
    with pytest.raises(ContractError, match=complaint):
        check_similarity(similarity)


def test_a_similarity_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="matrix has 3 rows, but there are 4 arms"):
        check_similarity(kb.Known(np.eye(3)), 4)


# -- broken policies ----------------------------------------------------------------------------------


class Broken(kb.KMTLUCB):
    """KMTL-UCB with one fault; each subclass has its own."""


def fault(complaint: str, **changes: Any) -> Any:
    name = complaint.title().replace(" ", "")[:40]
    return pytest.param(type(f"Broken{name}", (Broken,), changes), complaint, id=complaint[:60])


KMTL = kb.KMTLUCB


def _predict_with(change: Any) -> Any:
    def _predict(self: Any, query: Any) -> kb.regression.Prediction:
        return kb.regression.Prediction(*change(*KMTL._predict(self, query)))

    return _predict


def forgets_rewards(self: Any, arms: Any, contexts: Any, rewards: Any, notes: Any) -> None:
    pass


def learns_wrongly_in_order(self: Any, arms: Any, contexts: Any, rewards: Any, notes: Any) -> None:
    KMTL._learn(self, arms, contexts, rewards * (1.0 + self.n_observations), notes)


def predict_that_draws(self: Any, contexts: Any, arms: Any = None) -> kb.regression.Prediction:
    self.rng.random()
    return KMTL.predict(self, contexts, arms)


def choose_that_learns(self: Any, context: Any, arms: Any = None, *, scores: bool = False) -> kb.Decision:
    decision = KMTL.choose(self, context, arms, scores=scores)
    KMTL._learn(self, np.array([0]), decision.context[None], np.array([1.0]), [None])
    return decision


def choose_that_draws_from_elsewhere(self: Any, leaders: Any, uniform: Any) -> Any:
    return np.full(len(leaders), next(COUNTER) % leaders.shape[1]), np.full(len(leaders), 1.0 / leaders.shape[1])


def draw_with(propensity: float) -> Any:
    def _draw(self: Any, leaders: Any, uniform: Any) -> Any:
        best, _ = KMTL._draw(self, leaders, uniform)
        return best, np.full(len(best), propensity)

    return _draw


def choose_many_backwards(self: Any, contexts: Any, arms: Any = None, *, scores: bool = False) -> Any:
    return KMTL.choose_many(self, np.asarray(contexts)[::-1] * 7.0, arms, scores=scores)


def choice_of_everyone(self: Any, context: Any, arms: Any = None, *, scores: bool = False) -> Any:
    """Ignores the candidates asked for, where one context is given."""
    single = arms is not None and np.ndim(context) == 1
    return KMTL.choose(self, context, None if single else arms, scores=scores)


def update_twice(self: Any, decision: Any, reward: float) -> None:
    repeat = (decision if isinstance(decision, int) else decision.id) not in self.pending()
    KMTL.update(self, decision, reward)
    if repeat:
        self.observe([self.arms[0]], [[0.0, 0.0, 0.0]], [1.0])


def update_of_anything(self: Any, decision: Any, reward: float) -> None:
    number = decision if isinstance(decision, int) else decision.id
    if number in self.pending():
        KMTL.update(self, decision, reward)


def cancel_nothing(self: Any, decision: Any) -> None:
    pass


def accepts_nan(self: Any, context: Any, arms: Any = None, *, scores: bool = False) -> kb.Decision:
    return KMTL.choose(self, np.nan_to_num(np.asarray(context, dtype=float)), arms, scores=scores)


def refuses_late(self: Any, arms: Any, contexts: Any, rewards: Any) -> None:
    if not np.isfinite(np.asarray(rewards)).all():
        KMTL.observe(self, arms, contexts, np.zeros(len(arms)))
    KMTL.observe(self, arms, contexts, rewards)


def crashes(self: Any, arms: Any, contexts: Any, rewards: Any) -> None:
    if not np.isfinite(np.asarray(rewards)).all():
        raise ZeroDivisionError("nothing of ours")
    KMTL.observe(self, arms, contexts, rewards)


def retires_nothing(self: Any, arm: Any) -> None:
    pass


def shallow_copy(self: Any) -> Any:
    other = KMTL.copy(self)
    other.regression = self.regression
    return other


def fresh_copy(self: Any) -> Any:
    return type(self)(self.arms)


def remembers_no_randomness(self: Any, data: Any, arrays: Any, value: Any) -> None:
    KMTL._relearn(self, data, arrays, value)
    self.ridge = self.ridge * 2.0
    KMTL._relearn(self, data, arrays, value)


def probabilities_of_half(self: Any, contexts: Any, arms: Any = None) -> Any:
    return KMTL.probabilities(self, contexts, arms) / 2.0


def one_more_axis(self: Any, contexts: Any, arms: Any = None) -> kb.regression.Prediction:
    found = KMTL.predict(self, contexts, arms)
    return kb.regression.Prediction(*(v[..., None] for v in found)) if np.ndim(contexts) < 3 else found


def transposed(self: Any, contexts: Any, arms: Any = None) -> kb.regression.Prediction:
    found = KMTL.predict(self, contexts, arms)
    return kb.regression.Prediction(*(v.T for v in found)) if np.ndim(contexts) == 3 and arms is None else found


def flat(self: Any, contexts: Any, arms: Any = None) -> kb.regression.Prediction:
    """Wrong only for rows that are rounds."""
    found = KMTL.predict(self, contexts, arms)
    return kb.regression.Prediction(*(v[:1] for v in found)) if np.ndim(contexts) == 2 else found


def opens_two(self: Any, context: Any, arms: Any = None, *, scores: bool = False) -> kb.Decision:
    KMTL.choose(self, context, arms)
    return KMTL.choose(self, context, arms)


def draws_more(self: Any, contexts: Any, arms: Any = None, *, scores: bool = False) -> kb.policies.Decisions:
    self.rng.random(101)
    return KMTL.choose_many(self, contexts, arms)


def many_with(**changes: Any) -> Any:
    """choose_many whose answer differs in one thing."""

    def choose_many(self: Any, contexts: Any, arms: Any = None, *, scores: bool = False) -> Any:
        decisions = KMTL.choose_many(self, contexts, arms)
        return SimpleNamespace(**({"arm": decisions.arm, "id": decisions.id} | changes))

    return choose_many


def many_that_opens_nothing(
    self: Any, contexts: Any, arms: Any = None, *, scores: bool = False
) -> kb.policies.Decisions:
    decisions = KMTL.choose_many(self, contexts, arms)
    self.cancel(decisions[0])
    return decisions


def decision_with(when: Any = lambda context: True, **changes: Any) -> Any:
    """choose whose decision differs in one thing."""

    def choose(self: Any, context: Any, arms: Any = None, *, scores: bool = False) -> Any:
        decision = KMTL.choose(self, context, arms)
        return type("Liar", (kb.Decision,), changes)(decision._batch, decision._row) if when(context) else decision

    return choose


def several(context: Any) -> bool:
    return np.ndim(context) == 2


def keeps_it_open(self: Any, decision: Any, reward: float) -> None:
    number = decision if isinstance(decision, int) else decision.id
    ticket = self._ledger._open.get(number)
    KMTL.update(self, decision, reward)
    if ticket is not None:
        self._ledger._open[number] = ticket


def loads_with_another_mind(self: Any, data: Any, arrays: Any, value: Any) -> None:
    KMTL._relearn(self, data, arrays, value)
    self._leaders = lambda query, first, exploration, tolerance: (np.arange(query.shape[1])[None] == 3, None)


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        fault("predict of 4 candidates has shapes", predict=one_more_axis),
        fault("predict of 12 rounds and 4 candidates has shape", predict=transposed),
        fault("predict gives NaN", _predict=_predict_with(lambda m, w: (m, w * np.inf))),
        fault("predict gives a negative width", _predict=_predict_with(lambda m, w: (m, -w - 1.0))),
        fault("predict of a batch is not that of its rounds", _predict=_predict_with(lambda m, w: (m + len(m), w))),
        fault("predict changes the policy", predict=predict_that_draws),
        fault("a copy does not know the same", copy=fresh_copy),
        fault("what a copy does changes the policy", copy=shallow_copy),
        fault("the candidates are not the active arms", choose=decision_with(candidates=(0, 1))),
        fault("is not candidate number", choose=decision_with(arm="nobody")),
        fault("propensity must be in", _draw=draw_with(0.0)),
        fault("is not the probability", _draw=draw_with(0.999)),
        fault("probabilities add up to 0.5", probabilities=probabilities_of_half),
        fault("choose does not open exactly its own", choose=opens_two),
        fault("choose changes what the policy predicts", choose=choose_that_learns),
        fault("from the same state and random numbers", _draw=choose_that_draws_from_elsewhere),
        fault("score is not mean", choose=decision_with(scores=np.zeros(4))),
        fault("choose_many is not many times choose", choose_many=draws_more),
        fault("choose_many numbers decisions otherwise", choose_many=many_with(id=[7])),
        fault("choose_many opens other decisions", choose_many=many_that_opens_nothing),
        fault("the only candidate is 3", choose=choice_of_everyone),
        fault("gives no index of them", choose=decision_with(several, index=5, arm=3)),
        fault("decision.context is not that", choose=decision_with(several, context=np.zeros(3))),
        fault("is not five rounds", predict=flat),
        fault("n_observations does not count", _learn=forgets_rewards),
        fault("is still pending after its reward", update=keeps_it_open),
        fault("not recognised as a repeat", update=update_twice),
        fault("a second reward of another value is accepted", update=update_of_anything),
        fault("a cancelled decision is still pending", cancel=cancel_nothing),
        fault("the order in which rewards arrive changes the means", _learn=learns_wrongly_in_order),
        fault("a context with NaN is accepted", choose=accepts_nan),
        fault("an infinite reward is refused, but changes the policy", observe=refuses_late),
        fault("an infinite reward gives ZeroDivisionError", observe=crashes),
        fault("the retired arm 0 was chosen", retire_arm=retires_nothing),
        fault("a loaded policy does not know the same", _relearn=remembers_no_randomness),
        fault("a loaded policy decides otherwise", _relearn=loads_with_another_mind),
    ],
)
def test_each_complaint_about_a_policy(broken: type[Broken], complaint: str) -> None:
    policy = broken(4, context_kernel=kb.RBF(), ridge=0.01)
    if "copy does not know" in complaint:
        policy.observe([0], [[0.0, 0.0, 0.0]], [1.0])
    with pytest.raises(ContractError, match=complaint):
        check_policy(policy)


def test_what_is_no_policy_or_has_one_arm_is_refused() -> None:
    with pytest.raises(ContractError, match="is no Policy"):
        check_policy("policy")  # type: ignore[arg-type]
    with pytest.raises(ContractError, match="at least two active arms"):
        check_policy(kb.KMTLUCB(1))
    with pytest.raises(ContractError, match="at least 8 contexts, got 3"):
        check_policy(kb.KMTLUCB(2), contexts=np.eye(3))
