"""The contracts as checks: run them on your own kernel, similarity, policy or environment.

Each raises `ContractError`, naming the first thing that is wrong. The tests of this library run them, too.

>>> import kinbandits as kb
>>> from kinbandits.testing import check_kernel, check_policy
>>> check_kernel(kb.RBF() * kb.Linear())
>>> check_policy(kb.KMTLUCB(arms=3))
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._types import Matrix
from kinbandits.environments.check import check_environment, require
from kinbandits.errors import (
    ContractError,
    KinbanditsError,
    RewardConflictError,
    UnknownArmError,
    UnknownDecisionError,
)
from kinbandits.history import History
from kinbandits.kernels import as_kernel
from kinbandits.policy import Policy, load
from kinbandits.similarity import Similarity

__all__ = ["check_environment", "check_kernel", "check_policy", "check_similarity"]


def check_kernel(kernel: object, contexts: ArrayLike | None = None) -> None:
    """Check a kernel of ours, a scikit-learn kernel or a callable ``f(A, B)``.

    On ``contexts`` (n, d), or random ones, some of them equal, with d = 3.

    It must give an (n, m) matrix of finite numbers that is symmetric and positive semidefinite to 1e-8 of its
    largest entry, whose entries depend on their two rows alone, whose diagonal is ``diag``; it must give the
    same again, and leave its arguments as they were.
    """
    k = as_kernel(kernel)
    X = _rows(contexts)
    K = k(X, X)
    require(isinstance(K, np.ndarray), f"k(A, B) must be an array, got {type(K).__name__}")
    require(K.shape == (len(X), len(X)), f"k(A, B) of {len(X)} and {len(X)} rows has shape {K.shape}")
    scale, least = _check_symmetric(K, "k(A, A)")
    require(least >= -1e-8 * scale, f"k(A, A) is not positive semidefinite: its smallest eigenvalue is {least:.6g}")
    part = k(X[:2], X[1:])
    require(part.shape == (2, len(X) - 1), f"k(A, B) of 2 and {len(X) - 1} rows has shape {part.shape}")
    require(_near(part, K[:2, 1:], scale), "an entry of k(A, B) depends on rows other than its own two")
    require(_near(k(X, X), K, scale), "k(A, B) differs when it is called again")
    diagonal = k.diag(X)
    require(np.shape(diagonal) == (len(X),), f"diag of {len(X)} rows has shape {np.shape(diagonal)}")
    require(_near(diagonal, np.diag(K), scale), "diag(A) is not the diagonal of k(A, A)")


def check_similarity(similarity: Similarity, n_arms: int = 4, contexts: ArrayLike | None = None) -> None:
    """Check a similarity for so many arms.

    On a history of ``contexts`` (n, d), played by all arms but the last in turn.

    Its matrix must be (N, N), finite, symmetric and positive semidefinite to 1e-8 of its largest entry; `fixed`
    must be true only if the history does not matter; `tracker` must follow the definition row by row.
    """
    require(isinstance(similarity, Similarity), f"{similarity!r} is no Similarity")
    similarity.check_arms(n_arms)
    X = _rows(contexts)
    arms = np.arange(len(X)) % max(n_arms - 1, 1)
    rewards = np.linspace(-1.0, 1.0, len(X))
    history = History(n_arms)
    first = similarity.matrix(history)
    tracker = similarity.tracker(history)
    for t in range(len(X) + 1):
        K = similarity.matrix(history)
        when = f"after {t} rows"
        require(K.shape == (n_arms, n_arms), f"matrix of {n_arms} arms has shape {K.shape} {when}")
        scale, least = _check_symmetric(K, f"matrix {when}")
        require(least >= -1e-8 * scale, f"matrix is not positive semidefinite {when}: eigenvalue {least:.6g}")
        require(_near(similarity.matrix(history), K, scale), f"matrix differs when it is asked again {when}")
        require(not similarity.fixed or _near(K, first, scale), f"fixed is true, but the matrix changed {when}")
        require(_near(tracker.matrix, K, scale), f"tracker is not the definition {when}")
        if t < len(X):
            history.append(arms[t : t + 1], X[t : t + 1], rewards[t : t + 1])
            tracker.observe(t)


def check_policy(policy: Policy, contexts: ArrayLike | None = None, *, saves: bool = True) -> None:
    """Check a policy, on copies of it: the policy itself is left as it was.

    It must have two active arms, fresh or not. ``contexts`` (n, d) are at least 8 rows to play (random ones if left
    out); ``saves`` says whether ``save`` and ``load`` are part of what it promises.

    The contract: decisions name a candidate and its exact probability; choosing and predicting change nothing but
    open decisions and the random state; results are in the order of the arms; rewards come late and out of order, a
    repeat is recognised, another value refused; bad input is refused and changes nothing; `choose_many` is many times
    `choose`; a copy is independent and takes decisions made before; a retired arm is not chosen; a loaded policy goes
    on as the saved one.
    """
    require(isinstance(policy, Policy), f"{policy!r} is no Policy")
    require(len(policy.active_arms) >= 2, "the check needs a policy with at least two active arms")
    d = policy._n_features or 3
    X = _rows(contexts, d)
    require(len(X) >= 8, f"the check needs at least 8 contexts, got {len(X)}")
    _check_copy(policy, X)
    parts = [_check_predict, _check_choose, _check_choose_many, _check_candidates, _check_rewards, _check_order]
    parts += [_check_refusals, _check_retire]
    for check in [*parts, _check_save] if saves else parts:
        check(policy.copy(), X)


# -- the parts of check_policy -----------------------------------------------------------------------


class _State(NamedTuple):
    """All that one can see of a policy, to be compared with itself later."""

    predictions: bytes
    pending: list[int]
    rng: str
    counted: tuple[Any, ...]

    @classmethod
    def of(cls, policy: Policy, X: Matrix) -> _State:
        predictions = np.array(policy.predict_many(X)) + 0.0  # no -0.0
        counted = policy.n_observations, policy.n_decisions, policy.arms, policy.retired
        return cls(predictions.tobytes(), policy.pending(), str(policy.rng.bit_generator.state), counted)


def _check_predict(policy: Policy, X: Matrix) -> None:
    before, k = _State.of(policy, X), len(policy.arms)
    one, batch = policy.predict(X[0]), policy.predict_many(X)
    shapes = {np.shape(v) for v in one}
    require(shapes == {(k,)}, f"predict of {k} arms has shapes {shapes}")
    shapes = {np.shape(v) for v in batch}
    require(shapes == {(len(X), k)}, f"predict_many of {len(X)} rounds and {k} arms has shapes {shapes}")
    require(np.isfinite(batch).all(), "predict gives NaN or infinity")
    require((batch.width >= 0.0).all(), "predict gives a negative width")
    scale = max(1.0, float(np.abs(batch.mean).max()), float(batch.width.max()))
    same = all(_near(a[0], b, scale) for a, b in zip(batch, one, strict=True))
    require(same, "predict_many is not many times predict")
    pair = [policy.arms[-1], policy.arms[0]]
    own = policy.predict(X[:2], arms=pair)
    for i, arm in enumerate(pair):
        alone = policy.predict(X[i], arms=[arm])
        same = all(_near(a[i : i + 1], b, scale) for a, b in zip(own, alone, strict=True))
        require(same, "predict of (k, d) is not one round with a context for each candidate")
    require(_State.of(policy, X) == before, "predict changes the policy")


def _check_choose(policy: Policy, X: Matrix) -> None:
    for x in X:
        twin, before = policy.copy(), _State.of(policy, X)
        decision = policy.choose(x)
        require(decision.candidates == policy.arms, "the candidates are not the arms, in their order")
        named = dict(enumerate(decision.candidates)).get(decision.index)
        require(decision.arm == named, f"decision.arm {decision.arm!r} is not candidate number {decision.index}")
        require(0.0 < decision.propensity <= 1.0, f"propensity must be in (0, 1], got {decision.propensity}")
        shares = twin.probabilities(x)
        require(abs(shares.sum() - 1.0) < 1e-9, f"probabilities add up to {shares.sum()}")
        p, share = decision.propensity, shares[decision.index]
        require(abs(share - p) < 1e-9, f"propensity {p} is not the probability {share} of the choice")
        require(policy.pending() == [*before.pending, decision.id], "choose does not open exactly its own decision")
        require(_State.of(policy, X).predictions == before.predictions, "choose changes what the policy predicts")
        again = twin.choose(x)
        same = (again.arm, again.index, again.id) == (decision.arm, decision.index, decision.id)
        require(same, "choose from the same state and random numbers gives another decision")
        mean, width = decision.prediction
        wanted = mean + decision.exploration * width
        scale = max(1.0, float(np.abs(wanted).max()))
        require(_near(decision.scores, wanted, scale), "score is not mean + exploration * width")


def _check_choose_many(policy: Policy, X: Matrix) -> None:
    twin = policy.copy()
    many, single = policy.choose_many(X), [twin.choose(x) for x in X]
    require(many.arm == [s.arm for s in single], "choose_many is not many times choose")
    require(list(many.id) == [s.id for s in single], "choose_many numbers decisions otherwise than choose")
    require(policy.pending() == twin.pending(), "choose_many opens other decisions than choose")


def _check_candidates(policy: Policy, X: Matrix) -> None:
    last = policy.active_arms[-1]
    for x in X:
        decision = policy.choose(x, arms=[last])
        require(decision.arm == last, f"the only candidate is {last!r}, but {decision.arm!r} was chosen")
    decision = policy.choose(X[:3], arms=[last, last, last])
    known = decision.arm == last and decision.index in (0, 1, 2)
    require(known, "one arm with three contexts gives no index of them")
    own = np.array_equal(decision.context, X[decision.index])
    require(own, "decision.context is not that of the candidate chosen")


def _check_rewards(policy: Policy, X: Matrix) -> None:
    first, second = policy.choose(X[0]), policy.choose(X[1])
    rows = policy.n_observations
    policy.update(second.id, 1.0)
    policy.update(first, 0.0)
    require(policy.n_observations == rows + 2, "n_observations does not count the rewards learned")
    still = {first.id, second.id} & set(policy.pending())
    require(not still, "a decision is still pending after its reward was learned")
    before = _State.of(policy, X)
    policy.update(first, 0.0)
    require(_State.of(policy, X) == before, "the same reward again is not recognised as a repeat")
    _refuses(policy, X, RewardConflictError, lambda: policy.update(first, 1.0), "a second reward of another value")
    third = policy.choose(X[2])
    policy.cancel(third)
    policy.cancel(third)
    require(third.id not in policy.pending(), "a cancelled decision is still pending")
    void = "a reward for a cancelled decision"
    _refuses(policy, X, UnknownDecisionError, lambda: policy.update(third, 1.0), void)


def _check_order(policy: Policy, X: Matrix) -> None:
    """Rewards in another order lead to the same knowledge, unless a model is learned: of the first rows that came."""
    twin = policy.copy()
    ids = [policy.choose(x).id for x in X[:4]]
    require(ids == [twin.choose(x).id for x in X[:4]], "a copy numbers decisions otherwise")
    rewards = [0.0, 1.0, 0.5, 1.0]
    for i in range(4):
        policy.update(ids[i], rewards[i])
        twin.update(ids[3 - i], rewards[3 - i])
    one, two = policy.predict_many(X), twin.predict_many(X)
    models = [getattr(p, "model", None) for p in (policy, twin)]
    fixed = models[0] is None or models[0].same_view(models[1])
    near = np.abs(one.mean - two.mean).max() < 1e-6 * max(1.0, float(one.width.max()))
    require(not fixed or near, "the order in which rewards arrive changes the means")


def _check_refusals(policy: Policy, X: Matrix) -> None:
    arm, decision = policy.active_arms[0], policy.choose(X[0])
    bad = X[0].copy()
    bad[0] = np.nan
    strange = "no such arm"
    tries: Sequence[tuple[str, type[Exception], Callable[[], object]]] = [
        ("a context with NaN", KinbanditsError, lambda: policy.choose(bad)),
        ("a context without features", KinbanditsError, lambda: policy.choose([])),
        ("a context of the wrong width", KinbanditsError, lambda: policy.choose(np.append(X[0], 1.0))),
        ("an empty list of candidates", KinbanditsError, lambda: policy.choose(X[0], arms=[])),
        ("an unknown arm", UnknownArmError, lambda: policy.choose(X[0], arms=[strange])),
        ("a reward of NaN", KinbanditsError, lambda: policy.update(decision, float("nan"))),
        ("a reward for an unknown decision", UnknownDecisionError, lambda: policy.update(10**9, 1.0)),
        ("logged rows with an infinite reward", KinbanditsError, lambda: policy.observe([arm], X[:1], [np.inf])),
        ("logged rows of an unknown arm", UnknownArmError, lambda: policy.observe([strange], X[:1], [1.0])),
        ("logged rows of different numbers", KinbanditsError, lambda: policy.observe([arm], X[:2], [1.0])),
    ]
    for what, error, attempt in tries:
        _refuses(policy, X, error, attempt, what)


def _check_retire(policy: Policy, X: Matrix) -> None:
    arm, arms = policy.active_arms[0], policy.arms
    before = policy.predict_many(X)
    policy.retire_arm(arm)
    require(policy.arms == arms, "a retired arm is no longer among the arms")
    same = np.array_equal(policy.predict_many(X), before)
    require(same, "an arm that retires changes what is predicted, or where it stands")
    require(arm not in policy.choose_many(X).arm, f"the retired arm {arm!r} was chosen")
    share = policy.probabilities(X[0])[arms.index(arm)]
    require(share == 0.0, f"the retired arm {arm!r} has the probability {share}")
    policy.activate_arm(arm)
    require(policy.choose(X[0], arms=[arm]).arm == arm, f"the arm {arm!r} was activated, but cannot be chosen")


def _check_copy(policy: Policy, X: Matrix) -> None:
    before, opened = _State.of(policy, X), policy.copy()
    late = opened.choose(X[0])
    other = opened.copy()
    require(_State.of(policy.copy(), X) == before, "a copy does not know the same as the policy")
    other.update(late, 1.0)
    other.observe([other.active_arms[0]], X[:1], [0.5])
    require(_State.of(policy, X) == before, "what a copy does changes the policy it came from")


def _check_save(policy: Policy, X: Matrix) -> None:
    opened = [policy.choose(x) for x in X[:4]]
    policy.update(opened[1], 1.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.kb"
        policy.save(path)
        loaded = load(path)
    pairs = zip(loaded.predict_many(X), policy.predict_many(X), strict=True)
    close = all(np.allclose(a, b, rtol=1e-6, atol=1e-6 * float(np.abs(b).max())) for a, b in pairs)  # but rounding
    same = close and _State.of(loaded, X)[1:] == _State.of(policy, X)[1:]
    require(same, "a loaded policy does not know the same as the saved one")
    for x, late in zip(X[4:], opened[2:], strict=False):
        for one in (policy, loaded):
            one.update(late, 0.5)
        same = policy.choose(x).arm == loaded.choose(x).arm
        require(same, "a loaded policy decides otherwise than the saved one")


def _refuses(policy: Policy, X: Matrix, error: type[Exception], attempt: Callable[[], object], what: str) -> None:
    before = _State.of(policy, X)
    try:
        attempt()
    except error:
        require(_State.of(policy, X) == before, f"{what} is refused, but changes the policy")
    except Exception as other:
        raise ContractError(f"{what} gives {type(other).__name__}, not {error.__name__}: {other}") from other
    else:
        raise ContractError(f"{what} is accepted; it must raise {error.__name__}")


def _rows(contexts: ArrayLike | None, d: int = 3) -> Matrix:
    """Read-only rows: those given, or random ones of which some coincide."""
    if contexts is None:
        X = np.random.default_rng(0).uniform(-1.0, 1.0, (12, d))
        X[5] = X[2]
    else:
        X = np.array(contexts, dtype=np.float64)
        require(X.ndim == 2 and len(X) >= 3, f"contexts must be (n, d) with n >= 3, got shape {X.shape}")
    X.setflags(write=False)
    return X


def _check_symmetric(K: Matrix, what: str) -> tuple[float, float]:
    """Check that the matrix is finite and symmetric; its largest entry and its smallest eigenvalue."""
    require(np.isfinite(K).all(), f"{what} holds NaN or infinity")
    scale = max(float(np.abs(K).max()), np.finfo(float).tiny)
    require(_near(K, K.T, scale), f"{what} is not symmetric")
    return scale, float(np.linalg.eigvalsh((K + K.T) / 2.0)[0])


def _near(a: ArrayLike, b: ArrayLike, scale: float) -> bool:
    return np.shape(a) == np.shape(b) and bool(np.allclose(a, b, rtol=1e-9, atol=1e-9 * scale))
