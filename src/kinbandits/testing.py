"""The contracts as checks: run them on your own kernel, similarity, policy or environment.

Each raises `ContractError`, naming the first thing that is wrong. The tests of this library run them, too.

>>> import kinbandits as kb
>>> from kinbandits.testing import check_kernel, check_policy
>>> check_kernel(kb.RBF() * kb.Linear())
>>> check_policy(kb.KMTLUCB(arms=3))
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    scale = _check_covariance(K, "k(A, A)")
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
        scale = _check_covariance(K, f"matrix {when}")
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
    X = _rows(contexts, policy.n_features or 3)
    require(len(X) >= 8, f"the check needs at least 8 contexts, got {len(X)}")
    checks = [_check_copy, _check_predict, _check_choose, _check_candidates, _check_rewards, _check_order]
    checks += [_check_refusals, _check_retire, _check_frozen]
    for check in [*checks, _check_save] if saves else checks:
        before = _seen(policy, X)
        check(policy.copy(), X)
        require(_seen(policy, X) == before, "what a copy does changes the policy it came from")


# -- the parts of check_policy -----------------------------------------------------------------------


def _seen(policy: Policy, X: Matrix) -> dict[str, Any]:
    """All that one can see of a policy, to be compared with itself later."""
    predictions = np.array(policy.predict_many(X)) + 0.0  # no -0.0
    rng = str(policy.rng.bit_generator.state)
    counts = policy.n_observations, policy.n_decisions
    arms = policy.arms, policy.retired
    return {"predictions": predictions.tobytes(), "pending": policy.pending(), "rng": rng, "n": counts, "arms": arms}


def _check_copy(policy: Policy, X: Matrix) -> None:
    late = policy.choose(X[0])
    other = policy.copy()
    require(_seen(other, X) == _seen(policy, X), "a copy does not know the same as the policy")
    other.update(late, 1.0)
    other.observe([other.active_arms[0]], X[:1], [0.5])


def _check_predict(policy: Policy, X: Matrix) -> None:
    before, k = _seen(policy, X), len(policy.arms)
    one, batch = policy.predict(X[0]), policy.predict_many(X)
    shapes = {np.shape(v) for v in one}, {np.shape(v) for v in batch}
    wanted = {(k,)}, {(len(X), k)}
    require(shapes == wanted, f"predict, predict_many of {len(X)} rounds and {k} arms have shapes {shapes}")
    require(np.isfinite(batch).all(), "predict gives NaN or infinity")
    require((batch.width >= 0.0).all(), "predict gives a negative width")
    scale = max(1.0, float(np.abs(batch.mean).max()), float(batch.width.max()))
    require(_near(np.array(batch)[:, 0], np.array(one), scale), "predict_many is not many times predict")
    pair = [policy.arms[-1], policy.arms[0]]
    alone = np.hstack([policy.predict(x, arms=[arm]) for x, arm in zip(X, pair, strict=False)])
    same = _near(np.array(policy.predict(X[:2], arms=pair)), alone, scale)
    require(same, "predict of (k, d) is not one round with a context for each candidate")
    require(_seen(policy, X) == before, "predict changes the policy")


def _check_choose(policy: Policy, X: Matrix) -> None:
    first, together = policy.copy(), policy.copy().choose_many(X)
    for x, same in zip(X, together, strict=True):
        twin, before = policy.copy(), _seen(policy, X)
        decision = policy.choose(x)
        require(decision.candidates == policy.arms, "the candidates are not the arms, in their order")
        named = dict(enumerate(decision.candidates)).get(decision.index)
        require(decision.arm == named, f"decision.arm {decision.arm!r} is not candidate number {decision.index}")
        p, shares = decision.propensity, twin.probabilities(x)
        require(0.0 < p <= 1.0, f"propensity must be in (0, 1], got {p}")
        require(abs(shares.sum() - 1.0) < 1e-9, f"probabilities add up to {shares.sum()}")
        share = shares[decision.index]
        require(abs(share - p) < 1e-9, f"propensity {p} is not the probability {share} of the choice")
        opens = policy.pending() == [*before["pending"], decision.id]
        require(opens, "choose does not open exactly its own decision")
        predicts = _seen(policy, X)["predictions"] == before["predictions"]
        require(predicts, "choose changes what the policy predicts")
        for other, what in ((twin.choose(x), "choose from the same state"), (same, "choose_many")):
            equal = (other.arm, other.index, other.id) == (decision.arm, decision.index, decision.id)
            require(equal, f"{what} gives another decision than choose")
        mean, width = decision.prediction
        wanted = mean + decision.exploration * width
        near = _near(decision.scores, wanted, max(1.0, float(np.abs(wanted).max())))
        require(near, "score is not mean + exploration * width")
    first.choose_many(X)
    require(first.pending() == policy.pending(), "choose_many opens other decisions than choose")


def _check_candidates(policy: Policy, X: Matrix) -> None:
    last = policy.active_arms[-1]
    for x in X:
        arm = policy.choose(x, arms=[last]).arm
        require(arm == last, f"the only candidate is {last!r}, but {arm!r} was chosen")
    decision = policy.choose(X[:3], arms=[last, last, last])
    known = decision.arm == last and decision.index in (0, 1, 2)
    require(known, "one arm with three contexts gives no index of them")
    own = np.array_equal(decision.context, X[decision.index])
    require(own, "decision.context is not that of the candidate chosen")


def _check_rewards(policy: Policy, X: Matrix) -> None:
    first, second, third = (policy.choose(x) for x in X[:3])
    rows = policy.n_observations
    policy.update(second.id, 1.0)
    policy.update(first, 0.0)
    require(policy.n_observations == rows + 2, "n_observations does not count the rewards learned")
    still = {first.id, second.id} & set(policy.pending())
    require(not still, "a decision is still pending after its reward was learned")
    before = _seen(policy, X)
    policy.update(first, 0.0)
    require(_seen(policy, X) == before, "the same reward again is not recognised as a repeat")
    policy.cancel(third)
    policy.cancel(third)
    require(third.id not in policy.pending(), "a cancelled decision is still pending")
    _refuses(policy, X, RewardConflictError, lambda: policy.update(first, 1.0), "a second reward of another value")
    void = "a reward for a cancelled decision"
    _refuses(policy, X, UnknownDecisionError, lambda: policy.update(third, 1.0), void)


def _check_order(policy: Policy, X: Matrix) -> None:
    """Rewards in another order lead to the same knowledge, unless a model is learned: of the first rows that came."""
    twin, rewards = policy.copy(), [0.0, 1.0, 0.5, 1.0]
    ids = [policy.choose(x).id for x in X[:4]]
    require(ids == [twin.choose(x).id for x in X[:4]], "a copy numbers decisions otherwise")
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
    nan, unknown = X[0] * np.where(np.arange(X.shape[1]), 1.0, np.nan), "no such arm"
    tries: list[tuple[str, type[Exception], Callable[[], object]]] = [
        ("a context with NaN", KinbanditsError, lambda: policy.choose(nan)),
        ("a context without features", KinbanditsError, lambda: policy.choose([])),
        ("a context of the wrong width", KinbanditsError, lambda: policy.choose(np.append(X[0], 1.0))),
        ("an empty list of candidates", KinbanditsError, lambda: policy.choose(X[0], arms=[])),
        ("an unknown arm", UnknownArmError, lambda: policy.choose(X[0], arms=[unknown])),
        ("a reward of NaN", KinbanditsError, lambda: policy.update(decision, float("nan"))),
        ("a reward for an unknown decision", UnknownDecisionError, lambda: policy.update(10**9, 1.0)),
        ("logged rows with an infinite reward", KinbanditsError, lambda: policy.observe([arm], X[:1], [np.inf])),
        ("logged rows of an unknown arm", UnknownArmError, lambda: policy.observe([unknown], X[:1], [1.0])),
        ("logged rows of different numbers", KinbanditsError, lambda: policy.observe([arm], X[:2], [1.0])),
    ]
    for what, error, attempt in tries:
        _refuses(policy, X, error, attempt, what)


def _refuses(policy: Policy, X: Matrix, error: type[Exception], attempt: Callable[[], object], what: str) -> None:
    before = _seen(policy, X)
    try:
        attempt()
    except error:
        require(_seen(policy, X) == before, f"{what} is refused, but changes the policy")
    except Exception as other:
        raise ContractError(f"{what} gives {type(other).__name__}, not {error.__name__}: {other}") from other
    else:
        raise ContractError(f"{what} is accepted; it must raise {error.__name__}")


def _check_retire(policy: Policy, X: Matrix) -> None:
    arm, before = policy.active_arms[0], _seen(policy, X)
    policy.retire_arm(arm)
    after = _seen(policy, X)
    require(policy.arms == before["arms"][0], "a retired arm is no longer among the arms")
    require(after["predictions"] == before["predictions"], "an arm that retires changes what is predicted")
    share = policy.probabilities_many(X)[:, policy.arms.index(arm)].max()
    require(share == 0.0, f"the retired arm {arm!r} has the probability {share}")
    require(arm not in policy.choose_many(X).arm, f"the retired arm {arm!r} was chosen")
    policy.activate_arm(arm)
    require(policy.choose(X[0], arms=[arm]).arm == arm, f"the arm {arm!r} was activated, but cannot be chosen")


def _check_frozen(policy: Policy, X: Matrix) -> None:
    reader, arm = policy.frozen(), policy.active_arms[0]
    before = _seen(reader, X)
    _refuses(reader, X, KinbanditsError, lambda: reader.observe([arm], X[:1], [1.0]), "a row for a frozen policy")
    _refuses(reader, X, KinbanditsError, lambda: reader.retire_arm(arm), "retiring an arm of a frozen policy")
    policy.observe([arm], X[:1], [1.0])
    require(_seen(reader, X) == before, "a frozen policy changes when the one it came from learns")


def _check_save(policy: Policy, X: Matrix) -> None:
    opened = [policy.choose(x) for x in X[:4]]
    policy.update(opened[1], 1.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.kb"
        policy.save(path)
        loaded = load(path)
    pairs = zip(loaded.predict_many(X), policy.predict_many(X), strict=True)
    close = all(np.allclose(a, b, rtol=1e-6, atol=1e-6 * float(np.abs(b).max())) for a, b in pairs)  # but rounding
    known = [_seen(one, X) | {"predictions": close} for one in (loaded, policy)]
    require(close and known[0] == known[1], "a loaded policy does not know the same as the saved one")
    for x, late in zip(X[4:], opened[2:], strict=False):
        for one in (policy, loaded):
            one.update(late, 0.5)
        same = policy.choose(x).arm == loaded.choose(x).arm
        require(same, "a loaded policy decides otherwise than the saved one")


# -- arrays ------------------------------------------------------------------------------------------


def _rows(contexts: ArrayLike | None, d: int = 3) -> Matrix:
    """Read-only rows: those given, or random ones of which some coincide."""
    if contexts is None:
        contexts = np.random.default_rng(0).uniform(-1.0, 1.0, (12, d))[[0, 1, 2, 3, 4, 2, 6, 7, 8, 9, 10, 11]]
    X = np.array(contexts, dtype=np.float64)
    require(X.ndim == 2 and len(X) >= 3, f"contexts must be (n, d) with n >= 3, got shape {X.shape}")
    X.setflags(write=False)
    return X


def _check_covariance(K: Matrix, what: str) -> float:
    """Check that the matrix is finite, symmetric and positive semidefinite; its largest entry."""
    require(np.isfinite(K).all(), f"{what} holds NaN or infinity")
    scale = max(float(np.abs(K).max()), np.finfo(float).tiny)
    require(_near(K, K.T, scale), f"{what} is not symmetric")
    least = float(np.linalg.eigvalsh((K + K.T) / 2.0)[0])
    require(least >= -1e-8 * scale, f"{what} is not positive semidefinite: its smallest eigenvalue is {least:.6g}")
    return scale


def _near(a: ArrayLike, b: ArrayLike, scale: float) -> bool:
    return np.shape(a) == np.shape(b) and bool(np.allclose(a, b, rtol=1e-9, atol=1e-9 * scale))
