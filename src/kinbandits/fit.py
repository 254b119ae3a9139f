"""Policies that have learned a log, of any length: part by part, on any number of processes.

    policy = kb.fit("rows/", kb.KMTLUCB(arms))
    with joblib.parallel_config("dask"):          # a cluster; or any other backend of joblib
        policy = kb.fit("rows/", kb.KMTLUCB(arms))

Parts are fixed by the files, and merged in their order: every number of processes gives the same policy. A short
log is observed row by row. Of a long one a sample settles the model and the points of a dictionary; then each part
gives its sums at the points, which add up to those of all rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kinbandits._files import atomic_write, locked, replacing, write_arrays
from kinbandits._frames import is_frame
from kinbandits._types import Indices
from kinbandits._value import to_json
from kinbandits._version import __version__
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.history import History
from kinbandits.log_rows import Account
from kinbandits.logs import Log, LogFiles, Part, joined, learned_from
from kinbandits.policy import Policy

__all__ = ["Fitted", "fit", "fitted"]

State = dict[str, NDArray[Any]]
T = TypeVar("T")
SAMPLE = 2000  # rows that settle what a policy learns of kernels, scales and similarities
SPARE = 8  # rows of the sample for each point
LAST = 1024  # rows that the engine holds at the end


class Fitted(NamedTuple):
    """What `fitted` gives: the policy, taught; how many rows it learned; and how many it did not, by why."""

    policy: Any
    rows: int
    left_out: dict[str, int]


def fit(log: Any, policy: Policy, **options: Any) -> Any:
    """A copy of a policy that has learned all rows of a log; options as for `fitted`.

    >>> import kinbandits as kb
    >>> log = kb.Log.of(["a", "b"] * 50, np.linspace(0.0, 1.0, 100)[:, None], [0.0, 1.0] * 50)
    >>> kb.fit(log, kb.KMTLUCB(["a", "b"])).n_observations
    100
    """
    return fitted(log, policy, **options).policy


def fitted(
    log: Any,
    policy: Policy,
    *,
    since: float | None = None,
    until: float | None = None,
    bad: str = "refuse",
    seed: int = 0,
    jobs: int | None = None,
    work: str | Path | None = None,
) -> Fitted:
    """As `fit`, with what was left out.

    Args:
        log: a `kb.Log`, a `LogFiles`, or the paths of .parquet or .csv files, or of folders of them.
        policy: one that has learned nothing, or more rows are added to what it knows. It is not changed.
        since, until: rows of an earlier time (seconds since 1970), or of that time and later, are left out.
        bad: ``"refuse"`` bad rows before anything is learned, or ``"skip"`` them.
        seed: of samples.
        jobs: processes; left out, what ``joblib.parallel_config`` says, else one.
        work: a folder for what is done; the same call goes on there after a kill. It is removed at the end.
    """
    if not isinstance(policy, Policy):
        raise InvalidTypeError(f"policy must be a policy such as kb.KMTLUCB(arms), got {type(policy).__name__}")
    source = as_source(log)
    if since is not None or until is not None:
        source = source.timed(since, until)
    parts = source.parts(policy.arms, d=policy.n_features, limits=getattr(policy, "reward_range", None))
    points, after = _budget(policy)
    found = scan(parts, max(SAMPLE, SPARE * points), seed, jobs)
    left_out = found.account.left_out(bad)
    pupil = policy.copy()
    if source.sources:
        pupil.learned_from = learned_from(policy.learned_from, source.sources, until is None, since is not None)
    if policy.n_observations or found.account.good <= after or not hasattr(policy, "adopt"):
        for part in parts:
            part()[0].teach(pupil)
    else:
        with working(work, [source.stamp, since, until, bad, seed, identity(policy)]) as folder:
            _learn_sums(pupil, found, parts, points, jobs, folder)
    if isinstance(source, LogFiles) and len(names := source.columns.context or ()) > 1:
        pupil.feature_names = pupil.feature_names or tuple(names)
    return Fitted(pupil, found.account.good, {**source.left_out, **left_out})


def _budget(policy: Any) -> tuple[int, float]:
    """Points of the policy's dictionary, and the rows up to which it is exact."""
    engine: Any = getattr(policy, "engine", "exact")
    if engine == "auto" and getattr(policy, "weighting", "uniform") == "uniform":
        return 512, 5000
    if hasattr(engine, "points"):
        return int(engine.points), float(engine.after or 0)
    return 0, float("inf")


def _learn_sums(
    pupil: Any, found: Scan, parts: Sequence[Part], points: int, jobs: int | None, folder: Path | None
) -> None:
    """The sample settles model and points, the sums of all rows the rest."""
    from kinbandits.regression.dictionary import Sums, choose_points, engine_of, settled

    n = len(pupil.arms)
    _least(found.sample, SAMPLE, 0).teach(pupil)
    rows = _history(n, found.sample)
    settings = settled(pupil.regression.settings, rows)
    chosen = choose_points(settings, rows, points)
    total = _total(parts, partial(_sums, settings=settings, points=chosen), jobs, folder)
    sums = Sums(total["S"], total["v"], total["ones"], float(total["squares"]), int(total["n"]), total["counts"])
    engine = engine_of(settings, chosen, sums, capacity=points, kept=_history(n, found.last))
    pupil.adopt(engine, rows, found.sample.places, sums.n)


def _history(n_arms: int, log: Log) -> Any:
    return History.of(n_arms, log.played, log.contexts, log.rewards)


def _sums(part: Part, settings: Any, points: Any) -> State:
    from kinbandits.regression.dictionary import sums

    found = sums(settings, points, _history(settings.n_arms, part()[0]))
    return {name: np.asarray(getattr(found, name)) for name in ("S", "v", "ones", "squares", "n", "counts")}


def _total(parts: Sequence[Part], leaf: Callable[[Any], State], jobs: int | None, folder: Path | None) -> State:
    """The sums over parts; with a folder, what is done is kept there, and not done again."""
    total: State = {}
    done, path, saved = 0, None if folder is None else folder / "learn.npz", time.monotonic()
    if path is not None and path.exists():
        with np.load(path, allow_pickle=False) as arrays:
            total = dict(arrays)
        done = int(total.pop("parts_done"))
    for found in each(leaf, parts[done:], jobs):
        total, done = {name: total.get(name, 0) + array for name, array in found.items()}, done + 1
        if path is not None and (time.monotonic() - saved > 1.0 or done == len(parts)):
            with replacing(path, flush=False) as unfinished, unfinished.open("wb") as stream:
                write_arrays(stream, {**total, "parts_done": np.array(done)})
            saved = time.monotonic()
    return total


@contextlib.contextmanager
def working(work: str | Path | None, job: Sequence[Any]) -> Iterator[Path | None]:
    """The folder of this job: what an earlier start of it left is used, that of another is removed."""
    if work is None:
        yield None
        return
    folder = Path(work)
    name = hashlib.sha256(repr([__version__, *job]).encode()).hexdigest()
    marker, lock = folder / "job.json", folder.with_name(folder.name + ".lock")
    with locked(lock, folder):
        if marker.exists() and marker.read_text(encoding="utf-8") != name:
            shutil.rmtree(folder)
        elif folder.exists() and not marker.exists() and any(folder.iterdir()):
            raise InvalidInputError(f"{folder} holds other files; give a new folder, or that of an earlier start")
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write(marker, name.encode())
        yield folder
        shutil.rmtree(folder)
        lock.unlink(missing_ok=True)


def identity(policy: Any) -> str:
    """A digest of what a policy is and has learned, not of its random state: the same after a restart."""
    arrays: dict[str, Any] = {}
    params = {name: to_json(value, arrays) for name, value in policy.get_params().items()}
    learned, rows = policy._state()
    digest = hashlib.sha256(json.dumps([policy.kind, params, learned]).encode())
    for name, array in sorted({**arrays, **rows}.items()):
        digest.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


# -- what fit and evaluate have in common -----------------------------------------------------------


def as_source(log: Any) -> Any:
    """A log in memory, or files."""
    if isinstance(log, Log | LogFiles):
        return log
    if isinstance(log, str | Path | list | tuple):
        return LogFiles.of(log)
    how = "kb.Log.from_frame(frame, arm=..., reward=...)" if is_frame(log) else "a kb.Log or the paths of files"
    raise InvalidTypeError(f"log must be {how}, got {type(log).__name__}")


def random_numbers(places: Indices, seed: int) -> NDArray[np.uint64]:
    """A random number of each place (SplitMix64): what depends on it does not depend on how parts are cut."""
    with np.errstate(over="ignore"):
        z = (places.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(np.random.default_rng(seed).integers(2**63))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


class Scan(NamedTuple):
    """What there is in some parts: the account of bad rows, a sample in order of place, and the last rows."""

    account: Account
    sample: Log
    last: Log

    def merged(self, other: Scan, size: int, seed: int) -> Scan:
        """Of the parts of both."""
        sample, last = joined([self.sample, other.sample]), joined([self.last, other.last])
        return Scan(self.account + other.account, _least(sample, size, seed), last[-LAST:])


def scan(parts: Sequence[Part], size: int, seed: int, jobs: int | None) -> Scan:
    """Check every row, and draw a sample."""
    if not parts:
        raise InvalidInputError("the log has no rows")
    found = each(partial(_scanned, size=size, seed=seed), parts, jobs)
    return reduce(partial(Scan.merged, size=size, seed=seed), found)


def _scanned(part: Part, size: int, seed: int) -> Scan:
    log, account = part()
    return Scan(account, _least(log, size, seed), log[-LAST:])


def _least(log: Log, size: int, seed: int) -> Log:
    return log[np.sort(np.argsort(random_numbers(log.places, seed), kind="stable")[:size])]


def each(leaf: Callable[[Any], T], parts: Sequence[Part], jobs: int | None) -> Iterator[T]:
    """``leaf`` of every part, in their order, on the processes that joblib is told to use."""
    from joblib import Parallel, delayed

    yield from Parallel(n_jobs=jobs, return_as="generator")(delayed(_alone)(leaf, part) for part in parts)


def _alone(leaf: Callable[[Any], T], part: Any) -> T:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return leaf(part)
