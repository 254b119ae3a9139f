"""Off-policy evaluation of policies on a log, in memory or file by file; the statistics are in `estimators`.

    print(kb.ope.evaluate(log, {"live": live, "new": new}))

Estimators are sums over rows, so a log in memory and its files give the same answer. The model of direct and dr is
an untaught copy of the first policy that learns a sample of rows, in two folds: each row asks the other's model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kinbandits._html import html_table, text_table
from kinbandits._value import real
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.estimators import Estimate, Evaluation, Terms, estimate, evaluated, merged, tally, terms
from kinbandits.fit import (
    Packed,
    State,
    as_source,
    features_of,
    fitted,
    fold,
    many,
    random_numbers,
    scan,
    working,
)
from kinbandits.logs import Log
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

        found = {name: list(e.estimates.values()) for name, e in self.evaluations.items()}
        more = {name: e.difference for name, e in list(self.evaluations.items())[1:]}
        return comparison_figure(found, more, next(iter(self.evaluations.values())).logged)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"policies": {name: asdict(e) for name, e in self.evaluations.items()}, "left_out": self.left_out}

    @property
    def _title(self) -> str:
        one = next(iter(self.evaluations.values()))
        return f"Reward a round, from {one.n:,} rows of the log (their mean is {one.logged:.4f})"

    @property
    def _columns(self) -> list[str]:
        interval = f"{100 * self.level:g} % interval"
        return ["policy", "estimator", "value", interval, "effective rows", "largest weight", "clipped"]

    @property
    def _rows(self) -> list[list[str]]:
        rows, first = [], next(iter(self.evaluations))
        for name, found in self.evaluations.items():
            size = [f"{found.effective_n:,.0f}", f"{found.largest_weight:.1f}", f"{found.clipped:,}"]
            shown = [(e.name, e) for e in found.estimates.values()]
            if found.difference is not None:
                shown.append((f"minus {'the log' if name == first else first}", found.difference))
            rows += [[name, what, f"{e.value:.4f}", f"{e.low:.4f} .. {e.high:.4f}", *size] for what, e in shown]
        return rows

    @property
    def _notes(self) -> list[str]:
        left = [f"Left out: {n:,} rows, {why}" for why, n in self.left_out.items()]
        return [*(f"Warning: {warning}" for warning in self.warnings), *left]

    def __str__(self) -> str:
        return "\n".join([text_table(self._title, self._columns, self._rows, (2, 4, 5, 6)), *self._notes])

    def _repr_html_(self) -> str:
        return html_table(self._title, self._columns, self._rows, self._notes)


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
    work: str | Path | None = None,
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
        bad, seed, jobs, work: as for `kinbandits.fit.fitted`.

    >>> import kinbandits as kb
    >>> rng = np.random.default_rng(0)
    >>> arms, x = rng.integers(2, size=400), rng.random((400, 1))
    >>> log = kb.Log.of(arms.tolist(), x, (arms == (x[:, 0] > 0.5)).astype(float), propensities=np.full(400, 0.5))
    >>> found = evaluate(log, kb.KMTLUCB(2, seed=0))
    >>> found["policy"].estimates["dr"].low > found["policy"].logged
    True
    """
    named = policies if isinstance(policies, Mapping) else {"policy": policies}
    arms = _common_arms(named)
    source = as_source(log)
    first = next(iter(named.values()))
    untaught = [name for name, p in named.items() if not p.n_observations]
    limits = reward_range or getattr(first, "reward_range", None)
    past, rest = _split(source, train, since, bool(untaught))
    d = features_of(first) or source.n_features
    parts = rest.parts(arms, d=d, limits=limits, propensities=True)
    job = [
        source.stamp,
        clip,
        level,
        train,
        since,
        limits,
        bad,
        seed,
        *((n, Packed.of(p).name) for n, p in named.items()),
    ]
    with working(work, job) as folder:
        found = scan(parts, FOLDS * MODEL_ROWS, seed, jobs)
        left_out = found.account.left_out(bad)
        if found.defaulted and found.open_at >= 0:
            parts, young = _without_young(rest, parts, found.open_at, d, limits)
            left_out |= {"younger than the oldest open decision": young}
            found = scan(parts, FOLDS * MODEL_ROWS, seed, jobs)
        within = None if folder is None else folder / "fit"
        taught = {n: fitted(past, named[n], bad=bad, seed=seed, jobs=jobs, work=within).policy for n in untaught}
        targets = [Packed.of(taught.get(name, policy)) for name, policy in named.items()]
        folds = _folds(found.sample.places, seed)
        models = []
        for i in range(FOLDS):
            model = _model_of(first)
            found.sample[folds != i].teach(model)
            models.append(Packed.of(model))
        leaf = partial(_tallies, targets=targets, models=models, seed=seed, clip=clip)
        total = fold("evaluate", parts, leaf, _merged, jobs, folder)
    answers = {n: evaluated(_part(total, i), level=level, reward_range=limits) for i, n in enumerate(named)}
    return Comparison(answers, {**source.left_out, **left_out}, level)


def _common_arms(policies: Mapping[str, Any]) -> tuple[Any, ...]:
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
    cut = int(source.rows * share)
    if not int(teach) <= cut < source.rows:
        raise InvalidInputError(f"train={share} of {source.rows} rows leaves none to learn from, or to evaluate")
    first, second = source.halves(cut)
    return first, second


def _without_young(rest: Any, parts: list[Any], open_at: int, d: int, limits: Any) -> tuple[list[Any], int]:
    """Where decisions are defaulted, the rows before the oldest open one: good rewards come early, others late."""
    arms, rows = parts[0].reading.arms, sum(p.rows for p in parts)
    kept = rest.between(0, open_at).parts(arms, d=d, limits=limits, propensities=True)
    if not kept:
        raise InvalidInputError("the first decision of the log is still open: none can be evaluated yet")
    return kept, rows - sum(p.rows for p in kept)


def _model_of(policy: Any) -> Any:
    """A policy with the same settings and arms that has learned nothing, on a dictionary where it can."""
    params = {**policy.get_params(), "arms": list(policy.arms)}
    if "engine" in params and params.get("weighting") == "uniform" and params.get("memory") is None:
        params["engine"] = Budgeted(points=MODEL_POINTS)
    return type(policy)(**params)


def _folds(places: Any, seed: int) -> Any:
    return random_numbers(places, seed + 1) % np.uint64(FOLDS)


def _tallies(part: Any, targets: list[Packed], models: list[Packed], seed: int, clip: float | None) -> State:
    log, _ = part.checked()
    readers = [_reader(packed) for packed in targets]
    found: State = {}
    for low in range(0, len(log), BLOCK):
        more = _block(log[low : low + BLOCK], readers, models, seed, clip)
        found = _merged(found, more) if found else more
    return found


def _block(log: Log, readers: list[Any], models: list[Packed], seed: int, clip: float | None) -> State:
    targets = [log.table(many(reader, "probabilities")) for reader in readers]
    q, folds = np.zeros_like(targets[0]), _folds(log.places, seed)
    for i, packed in enumerate(models):
        mine = np.flatnonzero(folds == i)
        if len(mine):
            means = log[mine].table(partial(_means, packed.opened()))
            q[mine, : means.shape[1]] = means
    found: State = {}
    first: Terms | None = None
    for i, pi in enumerate(targets):
        added = terms(log.rewards, log.propensities, pi, log.index, q, clip)
        against = added._replace(dr=log.rewards) if first is None else first  # the first, with the log itself
        found |= {f"{i}_{name}": array for name, array in tally(added, against).items()}
        first = first or added
    return found


def _reader(packed: Packed) -> Any:
    policy = packed.opened()
    frozen = policy.frozen()
    return frozen if hasattr(frozen, "probabilities") else policy


def _means(model: Any, contexts: Any, arms: list[Any]) -> Any:
    """Means without widths where the model can, since widths cost more."""
    if hasattr(model, "means"):
        return model.means(contexts, arms)
    return many(model, "predict")(contexts, arms).mean


def _merged(a: State, b: State) -> State:
    if not a or not b:
        return a or b
    found: State = {}
    for i in range(len({name.partition("_")[0] for name in a})):
        found |= {f"{i}_{name}": array for name, array in merged(_part(a, i), _part(b, i)).items()}
    return found


def _part(found: State, i: int) -> State:
    return {name.partition("_")[2]: array for name, array in found.items() if name.partition("_")[0] == str(i)}
