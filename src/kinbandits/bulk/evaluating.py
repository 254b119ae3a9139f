"""What other policies would have earned, told from logs of any length, partition by partition.

As `kinbandits.ope`, whose estimators are sums over rows. The model of direct and dr is a budgeted fit with the
kernel of the first policy, in two folds of random rows, each asked of the model of the other. Policies that know
nothing yet learn the first part of the log before.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from kinbandits._types import Indices, Matrix
from kinbandits._value import real
from kinbandits.bulk.fitting import fitted, merged_scans, planned, random_numbers, sample_size, scan
from kinbandits.bulk.fold import State
from kinbandits.bulk.job import Job, Logs
from kinbandits.bulk.rows import Checks, Rows, account, read
from kinbandits.bulk.summing import Plan, add, made, summed
from kinbandits.bulk.table import Partition, Table
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.history import History
from kinbandits.ope import Evaluation, LoggedRounds
from kinbandits.ope.estimators import Terms, evaluated, merged, tally, terms
from kinbandits.policy import KMTLUCB, Budgeted, Policy, load
from kinbandits.regression.budgeted import BudgetedRegression

FOLDS = 2
MODEL_POINTS = 256
BLOCK = 4096  # rows that are asked at once


@dataclass(frozen=True)
class Comparison:
    """What `evaluate` found: evaluations by name (each with its ``difference`` to the first), and rows left out."""

    evaluations: dict[str, Evaluation]
    left_out: dict[str, int]

    @property
    def better(self) -> bool:
        """Whether the last policy is better than the first: the interval of their difference is above 0."""
        difference = list(self.evaluations.values())[-1].difference
        return difference is not None and difference.low > 0.0

    def plot(self) -> Any:
        """A matplotlib figure: what each policy would have earned, with intervals; and the differences."""
        from kinbandits.plotting import comparison_figure

        found = {name: list(e.estimates.values()) for name, e in self.evaluations.items()}
        more = {name: e.difference for name, e in self.evaluations.items() if e.difference is not None}
        return comparison_figure(found, more, next(iter(self.evaluations.values())).logged)


def evaluate(
    logs: Logs,
    policies: Mapping[str, KMTLUCB],
    *,
    train: float | None = None,
    level: float = 0.95,
    clip: float | None = None,
    reward_range: tuple[float, float] | None = None,
    **options: Any,
) -> Comparison:
    """What each policy would have earned a round.

    Args:
        logs: Parquet files, or folders of them, with propensities; rows in order of time.
        policies: by name, all with the same arms. Those that know nothing yet are fitted to the earlier rows first;
            the others are taken as they are, so the log should be younger than what they have learned.
        train: without ``since``: the first part of the rows teaches. Default: half, if there is someone to teach.
        level: of the intervals. clip: the largest weight.
        reward_range: (lowest, highest) possible reward; default: that of the first policy, or of the rows.
        **options: those of `job.Job`. Rows from ``since`` on are evaluated, earlier ones teach. Where the log has
            columns ``candidates`` and ``index``, these were the candidates of each row; else all arms were.
    """
    job = Job(**options)
    arms = _common_arms(policies)
    untaught = {name: p for name, p in policies.items() if not p.n_observations}
    first = next(iter(policies.values()))
    table = job.table(logs)
    columns = table.settled(job.columns)
    limits, d = reward_range or first.reward_range, first.regression.n_features or table.n_features(columns)
    checks = Checks(columns, arms, d, limits, job.since, job.until, propensities=True)
    paths: dict[str, str] = {}
    told = (repr(checks), level, clip, train, sorted(policies))
    with job.working(table, list(policies.values()), told) as engine:
        folder, seed = engine.work, job.seed
        past, table = _parts(table, train, job.since, bool(untaught))
        for i, (name, policy) in enumerate(policies.items()):
            path = folder / f"target-{i}"
            if name in untaught and not path.exists():
                own = {**vars(job), "columns": columns, "since": None, "until": job.since}
                policy = fitted(past, policy, **{**own, "work": folder / f"fit-{i}"}).policy
            paths[path.name] = _saved(policy, path)
        model = _model(first)
        size = sample_size(model)
        check = partial(_scan, checks=checks, size=size, seed=seed)
        scanned = engine.fold("check", table, check, partial(_merged_scans, size=size))
        left_out = account(scanned, table, checks, job.bad)
        table, young = _without_young(table, scanned)
        left_out |= {"younger than the oldest open decision": young} if young else {}
        pilot, plan = planned(model, scanned)
        total = engine.fold("model", table, partial(_fold_sums, checks=checks, plan=plan, seed=seed), add)
        last = scanned["last_arms"], scanned["last_contexts"], scanned["last_rewards"]
        for fold in range(FOLDS):
            others = {k.removeprefix(f"{1 - fold}_"): v for k, v in total.items() if k.startswith(f"{1 - fold}_")}
            pilot.regression = BudgetedRegression(plan.settings, History(plan.n_arms), made(plan, others, last))
            paths[f"model-{fold}"] = _saved(pilot, folder / f"model-{fold}")
        leaf = partial(_tallies, checks=checks, paths=paths, seed=seed, clip=clip)
        found = engine.fold("evaluate", table, leaf, _merge_tallies)
    evaluations = {
        name: evaluated(_part(found, i), level=level, reward_range=limits) for i, name in enumerate(policies)
    }
    return Comparison(evaluations, left_out)


def _common_arms(policies: Mapping[str, KMTLUCB]) -> tuple[str | int, ...]:
    if not policies:
        raise InvalidInputError("policies is empty; give at least one, by name")
    (name, first), *_ = policies.items()
    for other, policy in policies.items():
        if not isinstance(policy, KMTLUCB):
            raise InvalidTypeError(f"policies must be kb.KMTLUCB; {other} is a {type(policy).__name__}")
        if set(policy.arms) != set(first.arms):
            raise InvalidInputError(
                f"policies must have the same arms; {name} has {first.arms}, {other} has {policy.arms}"
            )
    return tuple(first.arms)


def _parts(table: Table, train: float | None, since: float | None, teach: bool) -> tuple[Table, Table]:
    if since is not None:
        if train is not None:
            raise InvalidInputError("give since or train, not both: rows before since teach")
        return table, table
    share = real("train", 0.5 * teach if train is None else train)
    cut = int(table.rows * share)
    if not int(teach) <= cut < table.rows:
        raise InvalidInputError(f"train={share} of {table.rows} rows leaves none to learn from, or to evaluate")
    return table.between(0, cut), table.between(cut, table.rows)


def _model(first: KMTLUCB) -> KMTLUCB:
    """An untaught policy with the kernel of the first, and not too many points."""
    points = min(first._points, MODEL_POINTS) if first._engine == "budgeted" else MODEL_POINTS
    return type(first)(**{**first.get_params(), "engine": Budgeted(points), "memory": None})


def _saved(policy: Policy, path: Path) -> str:
    if not path.exists():
        policy.save(path)
    return str(path)


# -- passes -----------------------------------------------------------------------------------------


def _scan(partition: Partition, checks: Checks, size: int, seed: int) -> State:
    """As `scan`; and the first decision that is open, and whether some were defaulted."""
    rows = read(partition, checks)
    states = np.array(rows.states if rows.states is not None else [], dtype=object)
    opened = rows.places[: len(states)][states == "open"]
    young = np.array([opened[0] if len(opened) else np.iinfo(np.int64).max])
    defaulted = np.array([np.isin(states, ["defaulted", "late"]).any()])
    return {**scan(partition, checks, size, seed, rows), "young": young, "defaulted": defaulted}


def _merged_scans(a: State, b: State, size: int) -> State:
    both = {"young": np.minimum(a["young"], b["young"]), "defaulted": a["defaulted"] | b["defaulted"]}
    return {**merged_scans(a, b, size), **both}


def _without_young(table: Table, scanned: State) -> tuple[Table, int]:
    """Where decisions are defaulted, the rows before the oldest open one: good rewards come early, others late."""
    first, young = table.partitions[0].low, int(scanned["young"][0])
    if not scanned["defaulted"][0] or young >= table.partitions[-1].high:
        return table, 0
    if young == first:
        raise InvalidInputError("the first decision of the log is still open: none can be evaluated yet")
    return table.between(first, young), table.rows - (young - first)


def _folds(places: Indices, seed: int) -> Indices:
    return np.asarray(random_numbers(places, seed + 1) % np.uint64(FOLDS), dtype=np.intp)


def _fold_sums(partition: Partition, checks: Checks, plan: Plan, seed: int) -> State:
    rows = read(partition, checks)
    folds = _folds(rows.places, seed)
    found: State = {}
    for fold in range(FOLDS):
        mine = np.flatnonzero(rows.good & (folds == fold))
        sums = summed(plan, rows.arms[mine], rows.contexts[mine], rows.rewards[mine])
        found |= {f"{fold}_{name}": array for name, array in sums.items()}
    return found


def _tallies(partition: Partition, checks: Checks, paths: dict[str, str], seed: int, clip: float | None) -> State:
    rows = read(partition, checks)
    good = np.flatnonzero(rows.good)
    found: State = {}
    for low in range(0, len(good), BLOCK):
        part = _block(rows, good[low : low + BLOCK], checks, paths, seed, clip)
        found = _merge_tallies(found, part) if found else part
    return found


def _block(
    rows: Rows, which: Indices, checks: Checks, paths: dict[str, str], seed: int, clip: float | None
) -> State:
    folds = _folds(rows.places[which], seed)
    rounds, q = _rounds(rows, which, checks), np.zeros((0, 0))
    for fold in range(FOLDS):
        mine = np.flatnonzero(folds == fold)
        if len(mine):
            means = _taken(rounds, mine).table(_policy(paths[f"model-{fold}"]).means)
            q = q if q.size else np.zeros((len(which), max(map(len, rounds.candidates))))
            q[mine, : means.shape[1]] = means
    first: Terms | None = None
    found: State = {}
    for i in range(sum(name.startswith("target") for name in paths)):
        pi = rounds.table(_policy(paths[f"target-{i}"]).probabilities)
        mine_ = terms(rows.rewards[which], rows.propensities[which], pi, rows.index[which], q, clip)
        found |= {f"{i}_{name}": array for name, array in tally(mine_, first).items()}
        first = first or mine_
    return found


def _rounds(rows: Rows, which: Indices, checks: Checks) -> LoggedRounds:
    everyone = list(checks.arms)
    names = [everyone] * len(which) if rows.candidates is None else [rows.candidates[i] for i in which]
    contexts: Any = rows.contexts[which] if rows.own is None else [_shared(rows.own[i]) for i in which]
    numbers = (array[which].tolist() for array in (rows.index, rows.rewards, rows.propensities))
    return LoggedRounds(contexts, names, *numbers)


def _shared(context: Any) -> Matrix:
    found = np.asarray(context, dtype=np.float64)
    return found[0] if found.ndim == 2 and len(found) == 1 else found


def _taken(rounds: LoggedRounds, which: Indices) -> LoggedRounds:
    return LoggedRounds(*([getattr(rounds, name)[i] for i in which] for name in rounds.__dataclass_fields__))


def _policy(path: str) -> Any:
    return _loaded(path, os.stat(path).st_mtime_ns)


@lru_cache(maxsize=32)
def _loaded(path: str, written: int) -> Any:
    return load(path).frozen()


def _merge_tallies(a: State, b: State) -> State:
    if not a or not b:
        return a or b
    found: State = {}
    for i in range(len({name.partition("_")[0] for name in a})):
        found |= {f"{i}_{name}": array for name, array in merged(_part(a, i), _part(b, i)).items()}
    return found


def _part(found: State, i: int) -> State:
    return {name.partition("_")[2]: array for name, array in found.items() if name.partition("_")[0] == str(i)}
