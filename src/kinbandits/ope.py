"""Off-policy evaluation: what another policy would have earned, told from a log.

Notation
    n                 rows of the log
    r        (n,)     rewards
    p        (n,)     propensities: the probability with which the logged arm was chosen, logged when it was
    pi       (n, k)   probabilities of the target policy for the k candidates of each row
    w        (n,)     pi(logged arm) / p
    q        (n, k)   a model's estimate of each candidate's reward, learned from other rows (cross-fitting)

    ips      mean(w r)                                        unbiased where p > 0 wherever pi > 0
    snips    sum(w r) / sum(w)                                less variance, bias of order 1/n
    direct   mean(sum_a pi(a) q(a))                           no weights; as good as the model
    dr       mean(sum_a pi(a) q(a) + w (r - q(logged arm)))   unbiased if p is right, whatever q

Intervals are normal: estimate +- z sqrt(variance / n), with the variance of each estimator's own terms (for snips
of its linearisation). ``direct`` has the interval of ``dr`` around its own value: right where the model is, and
silent about the model being wrong, so do not trust it alone. All are approximations for many rows: in
simulated logs with weights up to 11 they cover the truth in 95 % of cases with 8,000 rows, in 94 % with 2,000.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._checks import number_array
from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import real
from kinbandits.errors import InvalidInputError
from kinbandits.policies import KMTLUCB, Policy

__all__ = ["Estimate", "Evaluation", "LoggedRounds", "estimate", "evaluate_policy"]


@dataclass(frozen=True)
class Estimate:
    """One estimator's answer with its interval."""

    name: str
    value: float
    low: float
    high: float
    standard_error: float


@dataclass(frozen=True)
class Evaluation:
    """The estimators' answers, and how much the log can say.

    Attributes:
        estimates: by name: ips, snips, and with a model direct and dr.
        n: rows used.
        effective_n: (sum w)^2 / sum w^2: how many rows drawn from the target itself would say as much.
        mean_weight: near 1 where the log supports the target; below, where part of it is missing.
        logged: mean reward of the log itself.
        warnings: in plain words.
    """

    estimates: dict[str, Estimate]
    n: int
    effective_n: float
    mean_weight: float
    largest_weight: float
    logged: float
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{'estimator':<10} {'value':>9}   95 % interval"]
        for e in self.estimates.values():
            lines.append(f"{e.name:<10} {e.value:>9.4f}   {e.low:.4f} .. {e.high:.4f}")
        lines.append(f"rows {self.n}, effective {self.effective_n:.0f}; mean reward of the log {self.logged:.4f}")
        return "\n".join([*lines, *(f"Warning: {w}" for w in self.warnings)])


def estimate(
    rewards: ArrayLike,
    propensities: ArrayLike,
    chosen: ArrayLike,
    target: ArrayLike,
    model: ArrayLike | None = None,
    *,
    level: float = 0.95,
) -> Evaluation:
    """What the target policy would have earned per round.

    Args:
        rewards: (n,) r.
        propensities: (n,) p, each above 0 and at most 1.
        chosen: (n,) which candidate was played, counted from 0.
        target: (n, k) pi; rows sum to 1. Candidates that a round lacks have probability 0.
        model: (n, k) q, for ``direct`` and ``dr``. Learn it from other rows than it is used on.
        level: of the intervals.

    Example:
        >>> log = dict(rewards=[1.0, 0.0, 1.0, 1.0], propensities=[0.5] * 4, chosen=[0, 1, 0, 1])
        >>> found = estimate(**log, target=[[1.0, 0.0]] * 4)      # always the first
        >>> found.estimates["ips"].value, found.effective_n
        (1.0, 2.0)
    """
    r, p, pi, played = _checked(rewards, propensities, chosen, target)
    level = real("level", level)
    if not 0.0 < level < 1.0:
        raise InvalidInputError(f"level must be between 0 and 1, got {level!r}")
    from scipy.special import ndtri

    z = float(ndtri(0.5 + level / 2.0))
    n = len(r)
    rows = np.arange(n)
    w = pi[rows, played] / p
    found = {"ips": _interval("ips", w * r, z)}
    if w.sum() > 0.0:
        value = float(w @ r / w.sum())
        # d snips = mean(w (r - snips)) / mean(w)
        terms = value + w * (r - value) / w.mean()
        found["snips"] = _interval("snips", terms, z)
    if model is not None:
        q = number_array("model", model)
        if q.shape != pi.shape:
            raise InvalidInputError(f"model has shape {q.shape}, but target has {pi.shape}")
        direct = np.einsum("ij,ij->i", pi, q)
        corrections = w * (r - q[rows, played])
        # The influence function of a regular plug-in estimate is that of dr, whatever the model is made of.
        found["direct"] = _interval("direct", direct + corrections - corrections.mean(), z)
        found["dr"] = _interval("dr", direct + corrections, z)
    square = float(w @ w)
    effective = float(w.sum()) ** 2 / square if square else 0.0
    return Evaluation(
        estimates=found,
        n=n,
        effective_n=effective,
        mean_weight=float(w.mean()),
        largest_weight=float(w.max()),
        logged=float(r.mean()),
        warnings=tuple(_warnings(w, p, effective)),
    )


def _interval(name: str, terms: Vector, z: float) -> Estimate:
    value = float(terms.mean())
    error = float(terms.std(ddof=1) / np.sqrt(len(terms))) if len(terms) > 1 else float("inf")
    return Estimate(name, value, value - z * error, value + z * error, error)


def _warnings(w: Vector, p: Vector, effective: float) -> list[str]:
    found = []
    n = len(w)
    certain = float((p >= 1.0 - 1e-12).mean())
    if certain > 0.01:
        found.append(
            f"{certain:.0%} of the rows were chosen with probability 1: where the target would have chosen "
            "otherwise the log knows nothing, and ips, snips and dr are biased. Log with epsilon above 0"
        )
    error = w.std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
    if abs(w.mean() - 1.0) > 4.0 * error + 1e-9:
        found.append(
            f"the weights' mean is {w.mean():.2f}, where full support would give 1: the target plays what the log "
            "never did, or propensities were not logged as they were"
        )
    if effective < 0.01 * n or effective < 30:
        found.append(
            f"only {effective:.0f} of {n} rows speak about the target (effective sample size): intervals are wide "
            "and may be too narrow still"
        )
    return found


def _checked(
    rewards: ArrayLike, propensities: ArrayLike, chosen: ArrayLike, target: ArrayLike
) -> tuple[Vector, Vector, Matrix, Indices]:
    r, p, pi = (
        number_array("rewards", rewards),
        number_array("propensities", propensities),
        number_array("target", target),
    )
    played = np.asarray(chosen)
    if r.ndim != 1 or not len(r):
        raise InvalidInputError(f"rewards must be (n,) with at least one row, got shape {r.shape}")
    if pi.ndim != 2 or len(pi) != len(r) or p.shape != r.shape or played.shape != r.shape:
        raise InvalidInputError(
            f"{len(r)} rewards need as many propensities, choices and rows of target; got shapes {p.shape}, "
            f"{played.shape}, {pi.shape}"
        )
    if p.min() <= 0.0 or p.max() > 1.0 + 1e-12:
        raise InvalidInputError(f"propensities must be above 0 and at most 1; they are in [{p.min()}, {p.max()}]")
    if not np.issubdtype(played.dtype, np.integer) or played.min() < 0 or played.max() >= pi.shape[1]:
        raise InvalidInputError(f"chosen must be whole numbers from 0 to {pi.shape[1] - 1}")
    if pi.min() < -1e-12 or np.abs(pi.sum(axis=1) - 1.0).max() > 1e-9:
        raise InvalidInputError("each row of target must be probabilities that sum to 1")
    return r, p, pi, played.astype(np.intp)


# -- logs and policies ------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoggedRounds:
    """Rounds of a log, each with its own candidates.

    Attributes:
        contexts: per round (d,) or (k, d).
        candidates: per round the names of the arms that could be chosen.
        chosen: per round which candidate was played.
        rewards, propensities: per round.
    """

    contexts: Sequence[Any]
    candidates: Sequence[Sequence[str | int]]
    chosen: Sequence[int]
    rewards: Sequence[float]
    propensities: Sequence[float]

    def __len__(self) -> int:
        return len(self.rewards)

    def __getitem__(self, rows: slice) -> LoggedRounds:
        return LoggedRounds(
            self.contexts[rows],
            self.candidates[rows],
            self.chosen[rows],
            self.rewards[rows],
            self.propensities[rows],
        )

    def arms(self) -> list[str | int]:
        """The arm played in each round."""
        return [c[i] for c, i in zip(self.candidates, self.chosen, strict=True)]

    def played_contexts(self) -> Matrix:
        """The context of the candidate played in each round, (n, d)."""
        rows = []
        for context, i in zip(self.contexts, self.chosen, strict=True):
            x = np.asarray(context, dtype=np.float64)
            rows.append(x if x.ndim == 1 else x[i if len(x) > 1 else 0])
        return np.array(rows)

    def teach(self, policy: Policy) -> None:
        """Let a policy learn all rounds."""
        if len(self):
            policy.observe(self.arms(), self.played_contexts(), self.rewards)

    def table(self, ask: Callable[[Matrix, list[str | int]], Matrix]) -> Matrix:
        """(n, k) numbers from a function of contexts (R, 1 or k, d) and candidates, like rounds at once."""
        groups: dict[Any, list[int]] = {}
        for i, (context, names) in enumerate(zip(self.contexts, self.candidates, strict=True)):
            groups.setdefault((np.shape(context), tuple(names)), []).append(i)
        result = np.zeros((len(self), max(map(len, self.candidates))))
        for (shape, names), members in groups.items():
            contexts = np.array([self.contexts[i] for i in members], dtype=np.float64)
            if len(shape) == 1:
                contexts = contexts[:, None, :]
            result[members, : len(names)] = ask(contexts, list(names))
        return result


def evaluate_policy(
    log: LoggedRounds,
    make_policy: Callable[[], KMTLUCB],
    *,
    train: float = 0.5,
    folds: int = 5,
    level: float = 0.95,
) -> Evaluation:
    """What a policy would earn, once it has learned the first part of a log and stays as it is.

    The first ``train`` of the rounds teach the policy; the others tell what it would have earned there. The model
    of ``direct`` and ``dr`` is kernel ridge regression with the policy's own kernels, taught with the first part
    and all folds of the second but the one it is used on.

    Args:
        log: rounds in order of time.
        make_policy: makes a new, untaught policy.
        train: which part teaches.
        folds: of the cross-fitting.
        level: of the intervals.
    """
    train = real("train", train)
    cut = int(len(log) * train)
    if not 0 < cut < len(log) - folds:
        raise InvalidInputError(
            f"train={train} of {len(log)} rounds leaves too few to learn from or to evaluate with {folds} folds"
        )
    past, rest = log[:cut], log[cut:]
    policy = make_policy()
    past.teach(policy)
    target = rest.table(policy.frozen().probabilities)
    model = np.zeros_like(target)
    edges = np.linspace(0, len(rest), folds + 1).astype(int)
    for start, end in itertools.pairwise(edges.tolist()):
        fitted = make_policy()
        for part in (past, rest[:start], rest[end:]):
            part.teach(fitted)
        means = rest[start:end].table(partial(_means, fitted.frozen()))
        model[start:end, : means.shape[1]] = means
    return estimate(rest.rewards, rest.propensities, np.array(rest.chosen), target, model, level=level)


def _means(policy: KMTLUCB, contexts: Matrix, names: list[str | int]) -> Matrix:
    return policy.predict(contexts, names).mean
