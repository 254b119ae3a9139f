"""Off-policy evaluation of policies on a log, in memory or file by file; the statistics are in `estimators`.

    print(kb.ope.evaluate(log, {"live": live, "new": new}))

Estimators are sums over rows, so a log in memory and its files give the same answer. The model of direct and dr is
an untaught copy of the first policy that learns a sample of rows, in two folds: each row asks the other's model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from kinbandits._html import html_table, text_table
from kinbandits._types import Indices, Matrix
from kinbandits._value import real
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.estimators import Estimate, Evaluation, Tally, estimate, evaluated, merged, tallies
from kinbandits.fit import as_source, each, fitted, random_numbers, scan
from kinbandits.log_rows import ArmName
from kinbandits.logs import Log, Part
from kinbandits.policy import Budgeted, Policy

__all__ = ["Comparison", "Estimate", "Evaluation", "estimate", "evaluate"]

FOLDS = 2
MODEL_ROWS = 2000  # that the model of a fold learns, at most
MODEL_POINTS = 256
BLOCK = 4096  # rows that are asked at once


@dataclass(frozen=True)
class Comparison:
    """What `evaluate` gives: evaluations by name, and rows left out.

    The ``difference`` of the first policy is to the log itself, that of the others to the first policy.
    """

    evaluations: dict[str, Evaluation]
    left_out: dict[str, int]
    level: float = 0.95

    def __getitem__(self, name: str) -> Evaluation:
        return self.evaluations[name]

    @property
    def better(self) -> bool:
        """Whether the interval of last minus first (of one alone: minus the log) is above 0."""
        difference = list(self.evaluations.values())[-1].difference
        return difference is not None and difference.low > 0.0

    @property
    def warnings(self) -> list[str]:
        return [f"{name}: {warning}" for name, e in self.evaluations.items() for warning in e.warnings]

    def plot(self) -> Any:
        """A matplotlib figure: what each policy would have earned, with intervals; and the differences."""
        from kinbandits.plotting import comparison_figure

        shown = {name: list(e.estimates.values()) for name, e in self.evaluations.items()}
        first, *others = self.evaluations.items()
        return comparison_figure(shown, {name: e.difference for name, e in others}, first[1].logged)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"policies": {name: asdict(e) for name, e in self.evaluations.items()}, "left_out": self.left_out}

    def _table(self) -> tuple[str, list[str], list[list[str]], list[str]]:
        """Title, columns, rows and notes."""
        first, one = next(iter(self.evaluations.items()))
        rows = []
        for name, found in self.evaluations.items():
            size = [f"{found.effective_n:,.0f}", f"{found.largest_weight:.1f}", f"{found.clipped:,}"]
            shown = [(e.name, e) for e in found.estimates.values()]
            if found.difference is not None:
                shown.append((f"minus {'the log' if name == first else first}", found.difference))
            rows += [[name, what, f"{e.value:.4f}", f"{e.low:.4f} .. {e.high:.4f}", *size] for what, e in shown]
        title = f"Reward a round, from {one.n:,} rows of the log (their mean is {one.logged:.4f})"
        interval = f"{100 * self.level:g} % interval"
        columns = ["policy", "estimator", "value", interval, "effective rows", "largest weight", "clipped"]
        left = [f"Left out: {n:,} rows, {why}" for why, n in self.left_out.items()]
        return title, columns, rows, [*(f"Warning: {warning}" for warning in self.warnings), *left]

    def __str__(self) -> str:
        title, columns, rows, notes = self._table()
        return "\n".join([text_table(title, columns, rows, (2, 4, 5, 6)), *notes])

    def _repr_html_(self) -> str:
        return html_table(*self._table())


def evaluate(
    log: Any,
    policies: Mapping[str, Policy] | Policy,
    *,
    train: float | None = None,
    since: float | None = None,
    clip: float | None = None,
    level: float = 0.95,
    reward_range: tuple[float, float] | None = None,
    bad: str = "refuse",
    seed: int = 0,
    jobs: int | None = None,
) -> Comparison:
    """What each policy would have earned a round, and how much more than the log, or than the first policy.

    Args:
        log: a `kb.Log`, a `LogFiles`, or the paths of .parquet or .csv files; in order of time, with propensities.
        policies: by name, all with the same arms; or one. Those that have learned nothing are fitted to the first
            part of the log; the others are taken as they are, so the log should be younger than what they learned.
        train: which part of the rows teaches, from the start. Default: half, if there is someone to teach.
        since: rows since that time are evaluated, earlier ones teach, in place of ``train``.
        clip: the largest weight. level: of the intervals.
        reward_range: (lowest, highest) possible reward; default: that of the first policy. See `estimate`.
        bad, seed, jobs: as for `kinbandits.fit.fitted`.

    >>> import kinbandits as kb
    >>> rng = np.random.default_rng(0)
    >>> arms, x = rng.integers(2, size=400), rng.random((400, 1))
    >>> log = kb.Log.of(arms.tolist(), x, (arms == (x[:, 0] > 0.5)).astype(float), propensities=np.full(400, 0.5))
    >>> found = evaluate(log, kb.KMTLUCB(2, seed=0))
    >>> found["policy"].estimates["dr"].low > found["policy"].logged
    True
    """
    named = policies if isinstance(policies, Mapping) else {"policy": policies}
    arms, source = _common_arms(named), as_source(log)
    first = next(iter(named.values()))
    untaught = [name for name, p in named.items() if not p.n_observations]
    limits = reward_range or getattr(first, "reward_range", None)
    past, rest = _split(source, train, since, bool(untaught))
    d = first.n_features or source.n_features
    asked: dict[str, Any] = {"d": d, "limits": limits, "propensities": True}
    parts = rest.parts(arms, **asked)
    found = scan(parts, FOLDS * MODEL_ROWS, seed, jobs)
    left_out = found.account.left_out(bad)
    if found.sample.defaulted and found.sample.open_at >= 0:  # good rewards come early, others late
        rows, key = found.account.rows, "younger than the oldest open decision"
        parts = rest.between(0, found.sample.open_at).parts(arms, **asked)
        if not parts:
            raise InvalidInputError("the first decision of the log is still open: none can be evaluated yet")
        found = scan(parts, FOLDS * MODEL_ROWS, seed, jobs)
        left_out = found.account.left_out(bad) | {key: rows - found.account.rows}
    taught = {n: fitted(past, named[n], bad=bad, seed=seed, jobs=jobs).policy for n in untaught}
    folds = _folds(found.sample.places, seed)
    models = [_model_of(first) for _ in range(FOLDS)]
    for i, model in enumerate(models):
        found.sample[folds != i].teach(model)
    targets = [taught.get(name, policy) for name, policy in named.items()]
    leaf = partial(_tallies, targets=targets, models=models, seed=seed, clip=clip)
    total = reduce(merged, filter(None, each(leaf, parts, jobs)))
    answers = {name: evaluated(total, i, level=level, reward_range=limits, clip=clip) for i, name in enumerate(named)}
    return Comparison(answers, {**source.left_out, **left_out}, level)


def _common_arms(policies: Mapping[str, Any]) -> tuple[ArmName, ...]:
    if not policies:
        raise InvalidInputError("policies is empty; give at least one, by name")
    for name, policy in policies.items():
        if not isinstance(policy, Policy):
            how = f"; call it: {name}()" if callable(policy) else ""
            raise InvalidTypeError(f"policies must be policies; {name} is a {type(policy).__name__}{how}")
    (name, first), *others = policies.items()
    for other, policy in others:
        if set(policy.arms) != set(first.arms):
            raise InvalidInputError(
                f"policies must have the same arms; {name} has {list(first.arms)}, {other} has {list(policy.arms)}"
            )
    return tuple(first.arms)


def _split(source: Any, train: float | None, since: float | None, teach: bool) -> tuple[Any, Any]:
    """The part that teaches, and the part that is evaluated."""
    if since is not None:
        if train is not None:
            raise InvalidInputError("give since or train, not both: rows before since teach")
        return source.timed(None, since), source.timed(since, None)
    share = real("train", 0.5 * teach if train is None else train)
    cut = int(len(source) * share)
    if not int(teach) <= cut < len(source):
        raise InvalidInputError(f"train={share} of {len(source)} rows leaves none to learn from, or to evaluate")
    first, second = source.halves(cut)
    return first, second


def _model_of(policy: Any) -> Any:
    """A policy with the same settings and arms that has learned nothing, on a dictionary where it can."""
    params = {**policy.get_params(), "arms": list(policy.arms)}
    if "engine" in params and params.get("weighting") == "uniform" and params.get("memory") is None:
        params["engine"] = Budgeted(points=MODEL_POINTS)
    return type(policy)(**params)


def _folds(places: Indices, seed: int) -> Any:
    return random_numbers(places, seed + 1) % np.uint64(FOLDS)


def _tallies(part: Part, targets: Sequence[Any], models: Sequence[Any], seed: int, clip: float | None) -> Tally | None:
    """The tallies of all targets, stacked."""
    log, _ = part()
    readers = [policy.frozen() for policy in targets]
    blocks = (log[low : low + BLOCK] for low in range(0, len(log), BLOCK))
    found = [_block(block, readers, models, seed, clip) for block in blocks]
    return reduce(merged, found) if found else None


def _block(log: Log, readers: Sequence[Any], models: Sequence[Any], seed: int, clip: float | None) -> Tally:
    targets = [log.table(reader.probabilities_many) for reader in readers]
    q, folds = np.zeros_like(targets[0]), _folds(log.places, seed)
    for i, model in enumerate(models):
        mine = np.flatnonzero(folds == i)
        if len(mine):
            means = log[mine].table(partial(_means, model))
            q[mine, : means.shape[1]] = means
    return tallies(log.rewards, log.propensities, log.index, targets, q, clip)


def _means(model: Any, contexts: Matrix, arms: list[ArmName]) -> Any:
    return model.predict_many(contexts, arms).mean
