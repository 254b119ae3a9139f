"""The budgeted model from logs of any length, partition by partition.

Two passes. The first checks every row and draws a sample: those whose random numbers, made of seed and place, are
least, so it does not depend on the partitions. The policy learns 2,000 of them in the ordinary way, which settles
kernels, the scale of rewards, the ridge and the choice of `Adaptive`; points are drawn from the sample by randomly
pivoted Cholesky. In the second pass sums at the points, rows per arm and the embeddings of an estimated similarity
are all additive: one tree of sums (`fold`, `summing`) gives the model that one process would have.

Memory of a worker: its partition, 4,096 rows at the m points, and four times the sums: m^2 numbers, N m^2 if the
similarity or the weights change with the data.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinbandits._types import Indices
from kinbandits._work import finished
from kinbandits.bulk.fold import State
from kinbandits.bulk.job import Job, Logs
from kinbandits.bulk.rows import Checks, Rows, account, bad_rows, merge_bad_rows, read
from kinbandits.bulk.sources import learned_from
from kinbandits.bulk.summing import Plan, add, made, summed
from kinbandits.bulk.table import Partition, Table
from kinbandits.errors import BudgetWarning, InvalidInputError, InvalidTypeError
from kinbandits.history import History
from kinbandits.policy import KMTLUCB
from kinbandits.regression import budgeted_settings
from kinbandits.regression.budgeted import BudgetedRegression, Model
from kinbandits.regression.budgeted.build import draw_points
from kinbandits.regression.budgeted.newcomers import NOVEL

PILOT = 2000  # rows of the sample that the policy learns in the ordinary way
SPARE = 8  # rows of the sample for each point
LAST = 1024  # rows that the engine keeps, at most


@dataclass(frozen=True)
class Fitted:
    """What `fitted` found: the policy, taught; how many rows it learned; and how many it did not, by why."""

    policy: KMTLUCB
    rows: int
    left_out: dict[str, int]


def fit(logs: Logs, policy: KMTLUCB, **options: Any) -> KMTLUCB:
    """A policy that has learned all rows of some Parquet files; see `fitted` for the options.

    >>> import tempfile, numpy as np, pyarrow as pa, pyarrow.parquet as pq
    >>> import kinbandits as kb
    >>> rng = np.random.default_rng(0)
    >>> rows = {"arm": rng.choice(["a", "b"], 3000), "x": rng.random(3000), "reward": rng.random(3000)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table(rows), f"{folder}/log.parquet")
    ...     untaught = kb.KMTLUCB(arms=["a", "b"], engine=kb.Budgeted(points=32))
    ...     policy = kb.bulk.fit(folder, untaught, columns=kb.bulk.Columns(context=["x"]), progress=False)
    >>> policy.n_observations
    3000
    """
    return fitted(logs, policy, **options).policy


def fitted(
    logs: Logs | Table,
    policy: KMTLUCB,
    *,
    points: tuple[Sequence[str | int], ArrayLike] | None = None,
    **options: Any,
) -> Fitted:
    """As `fit`, with what was left out.

    Args:
        logs: Parquet files, or folders of them.
        policy: untaught; or one that `fit` gave, or another with a budgeted model: then its points stay, and these
            rows are added. It is not changed.
        points: arms (names) and contexts of the points; left out, drawn from a sample.
        **options: those of `job.Job`.
    """
    job = Job(**options)
    taught = _taught(policy)
    table = job.table(logs)
    columns = table.settled(job.columns)
    d = policy.regression.n_features or table.n_features(columns)
    checks = Checks(columns, tuple(policy.arms), d, policy.reward_range, job.since, job.until)
    told = learned_from(policy.learned_from, table.sources, not checks.timed, job.since is not None)
    with job.working(table, [policy], [repr(checks), points]) as engine:
        size = sample_size(policy)
        check = partial(scan, checks=checks, size=size, seed=job.seed)
        scanned = engine.fold("check", table, check, partial(merged_scans, size=size))
        left_out = account(scanned, table, checks, job.bad)
        pilot, plan = planned(policy, scanned, points)
        total = engine.fold("learn", table, partial(sums, checks=checks, plan=plan), add)
        last = scanned["last_arms"], scanned["last_contexts"], scanned["last_rewards"]
        model = made(plan, total, last, taught)
    pilot.regression = regression = BudgetedRegression(plan.settings, History(plan.n_arms), model)
    regression._check()
    pilot._version += 1
    pilot.learned_from = told
    return Fitted(pilot, int(scanned["states"][2]), left_out)


def _taught(policy: KMTLUCB) -> Model | None:
    """The model to go on with, if there is one."""
    if not isinstance(policy, KMTLUCB):
        raise InvalidTypeError(f"policy must be a kb.KMTLUCB, got {policy!r}")
    if policy.memory is not None:
        raise InvalidInputError(
            f"fit learns all rows alike, but the policy has memory={policy.memory!r}; give memory=None and choose "
            "the rows with since"
        )
    if policy._engine not in ("auto", "budgeted"):
        raise InvalidInputError(
            f'fit makes a budgeted model; engine must be "auto" or kb.Budgeted(points), got {policy.engine!r}'
        )
    if not policy.n_observations:
        return None
    model = getattr(policy.regression, "model", None)
    if model is None:
        raise InvalidInputError(
            f"the policy has learned {policy.n_observations} rows with the exact engine; fit begins with an "
            "untaught policy, or adds to one that has a budgeted model"
        )
    return model  # type: ignore[no-any-return]


def sample_size(policy: KMTLUCB) -> int:
    """Rows of the sample."""
    settings = policy.regression.settings
    if policy._engine == "auto" and not policy.n_observations:
        settings = budgeted_settings(settings, policy.n_arms)
    return max(PILOT, SPARE * settings.budget)


# -- the first pass ---------------------------------------------------------------------------------


def scan(partition: Partition, checks: Checks, size: int, seed: int, rows: Rows | None = None) -> State:
    """Bad rows, the sample, and the last rows of a partition, which may have been read before."""
    rows = read(partition, checks) if rows is None else rows
    places = rows.places[rows.good]
    keys = random_numbers(places, seed)
    least = np.argsort(keys, kind="stable")[:size]
    found = {"keys": keys[least], **bad_rows(rows), "own": np.array(rows.own is not None)}
    for name, chosen in (("sample", least), ("last", np.arange(len(places))[-LAST:])):
        found |= _taken(rows, np.flatnonzero(rows.good)[chosen], name)
    return found


def _taken(rows: Rows, which: Indices, name: str) -> State:
    return {
        f"{name}_arms": rows.arms[which],
        f"{name}_contexts": rows.contexts[which],
        f"{name}_rewards": rows.rewards[which],
    }


def random_numbers(places: Indices, seed: int) -> Any:
    """A random number of each place (SplitMix64)."""
    with np.errstate(over="ignore"):
        z = (places.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(np.random.default_rng(seed).integers(2**63))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def merged_scans(a: State, b: State, size: int) -> State:
    """What `scan` finds in two stretches of rows, the first one first."""
    keys = np.concatenate([a["keys"], b["keys"]])
    least = np.argsort(keys, kind="stable")[:size]
    both = {name: np.concatenate([a[name], b[name]]) for name in a if name.startswith(("sample", "last"))}
    return {
        "keys": keys[least],
        "own": a["own"] | b["own"],
        **merge_bad_rows(a, b),
        **{name: rows[least] if name.startswith("sample") else rows[-LAST:] for name, rows in both.items()},
    }


def planned(
    policy: KMTLUCB, scanned: State, points: tuple[Sequence[str | int], ArrayLike] | None = None
) -> tuple[KMTLUCB, Plan]:
    """A policy with everything settled that is read off the data, and the plan for the second pass."""
    pilot = policy.copy()
    model = _taught(policy)
    sample = [scanned[f"sample_{name}"] for name in ("arms", "contexts", "rewards")]
    if model is None:
        arms, contexts, rewards = (array[:PILOT] for array in sample)
        names = [pilot.arms[a] for a in arms.tolist()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)  # the model of all rows is asked in the end
            pilot.observe(names, contexts, rewards, own_contexts=bool(scanned["own"]))
    regression = pilot.regression
    settings = regression.settings
    plan = Plan(settings, pilot.n_arms, np.zeros(0, dtype=np.intp), sample[1][:0], pilot.rewards, pilot._scale)
    if model is None:
        settings = dataclasses.replace(settings, terms=settings.terms.settled(regression.similarity_matrices))
        if policy._engine == "auto":
            settings = budgeted_settings(settings, pilot.n_arms)
        if points is None:
            rows = History.of(pilot.n_arms, *plan.learned(*sample))
            chosen = finished(draw_points(settings, regression.similarity_matrices, rows, NOVEL * settings.ridge))
            where = rows.arms[chosen], rows.contexts[chosen]
        else:
            where = pilot._arm_indices(list(points[0])), np.asarray(points[1], dtype=np.float64)
            if len(where[0]) > settings.budget:
                raise InvalidInputError(f"{len(where[0])} points do not fit: the engine has {settings.budget}")
    elif points is not None:
        raise InvalidInputError("the policy has points already; give points with an untaught policy")
    else:
        where = model.points.arms, model.points.contexts
    return pilot, dataclasses.replace(plan, settings=settings, arms=where[0].copy(), contexts=where[1].copy())


def sums(partition: Partition, checks: Checks, plan: Plan) -> State:
    """The second pass: the sums of the rows of a partition."""
    rows = read(partition, checks)
    good = np.flatnonzero(rows.good)
    return summed(plan, rows.arms[good], rows.contexts[good], rows.rewards[good])
