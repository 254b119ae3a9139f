"""The experiments of the paper (section 5 and its appendix) as one `Experiment`, and the sweep that checks them.

settings    "paper"  the published settings (`kinbandits.presets`)
            "tuned"  this library's own settings, the same for both methods: the median rule
            "cv"     chosen by five-fold cross-validation on each data set's validation rows, method by method
streams     a file of row numbers (see `environments.Streams`), to be compared run by run; without it, the
            streams follow from the seeds
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from kinbandits import datasets
from kinbandits._files import atomic_write
from kinbandits.environments import SyntheticNews, make_environment
from kinbandits.environments.labelled import LabelledRows
from kinbandits.errors import DatasetError, InvalidInputError, MissingPackageError
from kinbandits.experiments.config import Experiment, experiment_of
from kinbandits.paper.crossval import (
    CrossValidation,
    Grid,
    Method,
    Plays,
    cross_validate,
    deal_rows,
    similarity_table,
)
from kinbandits.presets import METHODS, MULTIPLIER, PAPER, SHARED
from kinbandits.progress import clock

DATA = ("synthetic", "digits", "segment", "letter", "pendigits", "usps", "mnist")
SETTINGS = ("paper", "tuned", "cv")
HORIZONS = dict.fromkeys(DATA, 4000) | {"synthetic": 1000, "digits": 1250, "segment": 1000}
QUICK = ("synthetic", "digits", "segment")
_TITLES = {name: name.capitalize() for name in DATA} | {
    "synthetic": "Synthetic news", "usps": "USPS", "mnist": "MNIST"
}  # fmt: skip
KNOWN, EST, IND, POOL, IND_EQUAL = METHODS
COUNTS, PAIRS = "counts only", "no self pairs"
_METHODS: dict[str, tuple[str, ...]] = {"synthetic": (KNOWN, EST, IND, POOL), "segment": (EST, IND, IND_EQUAL)}
_REAL = (EST, IND)
NAMES = {title: name for name, title in _TITLES.items()}
"""The data set of each title."""
SYNTHETIC_SEEDS = 50
"""Runs on the synthetic problem in place of 10: it costs little, and runs differ much."""


@dataclass(frozen=True)
class Sweep:
    """What is played on a data set at other exploration: multipliers of each method, seeds and rounds at most."""

    plays: dict[str, tuple[float, ...]]
    seeds: int = 10
    rounds: int | None = None


_TWO: dict[str, tuple[float, ...]] = dict.fromkeys((EST, COUNTS, IND), (0.1, 1.0))
_SMALL = Sweep(dict.fromkeys((EST, COUNTS, IND), (0.1, 0.3, 1.0)) | {PAIRS: (0.1,)})
SWEEPS: dict[str, Sweep] = dict.fromkeys(DATA, Sweep(_TWO | {PAIRS: (0.1,)}, rounds=1000)) | {
    "digits": _SMALL,
    "segment": _SMALL,
    "mnist": Sweep(_TWO, rounds=1000),
    "synthetic": Sweep({KNOWN: (0.1, 1.0)} | _TWO),
}
"""Large sets are swept over fewer rounds, MNIST without `PAIRS`: a single such run of 4,000 can take minutes."""


def paper_experiment(
    data: Sequence[str] | None = None,
    *,
    seeds: int | list[int] | None = None,
    settings: str = "paper",
    streams: str | PathLike[str] | None = None,
    horizon: int | None = None,
    chosen: dict[str, dict[str, CrossValidation]] | None = None,
    name: str | None = None,
) -> Experiment:
    """The paper's experiments on these data sets (default: all), with these settings.

    Without ``seeds`` there are 10 runs of each method, and 50 on the synthetic problem. ``chosen`` is what
    `choose_settings` found, for ``settings="cv"``.

    >>> [cell.environment.name for cell in paper_experiment(["digits"], seeds=1).cells()]
    ['Digits', 'Digits']
    """
    names = check_names(data)
    if settings not in SETTINGS:
        raise InvalidInputError(f"settings must be one of {', '.join(SETTINGS)}, got {settings!r}")
    if settings == "cv" and chosen is None:
        raise InvalidInputError('settings="cv" needs chosen=, which choose_settings(data) finds')
    methods = []
    for set_ in names:
        for method in methods_of(set_, settings):
            table = _settings(set_, method, settings, chosen)
            methods.append({"name": method, "environments": [_TITLES[set_]], **table})
    environments = [_environment(set_, streams, horizon) for set_ in names]
    if seeds is None and "synthetic" in names:
        environments[names.index("synthetic")]["seeds"] = SYNTHETIC_SEEDS
    return experiment_of(
        {
            "name": name or f"The paper, {settings} settings",
            "seeds": 10 if seeds is None else seeds,
            "environments": environments,
            "methods": methods,
        }
    )


def sweep_experiment(
    data: Sequence[str] | None = None,
    *,
    seeds: int | None = None,
    streams: str | PathLike[str] | None = None,
    horizon: int | None = None,
) -> Experiment:
    """The estimate, its controls and independent arms at several exploration multipliers (`SWEEPS`).

    All have the kernel, ridge and weights that were published for KMTL-UCB-Est; `COUNTS` has the similarity
    `CountOnly`, `PAIRS` leaves out the pairs of a row with itself, "Kernel-UCB-Ind" has independent arms.

    >>> len(sweep_experiment(["digits"], seeds=1).cells())
    10
    """
    environments, methods = [], []
    for name in check_names(data):
        sweep = SWEEPS[name]
        runs = sweep.seeds if seeds is None else min(seeds, sweep.seeds)
        rounds = min(horizon or HORIZONS[name], sweep.rounds) if sweep.rounds else horizon
        environments.append(_environment(name, streams, rounds) | {"seeds": runs})
        methods += [
            {"name": sweep_name(m, x), "environments": [_TITLES[name]], **_at(name, m, x)}
            for m, multipliers in sweep.plays.items()
            for x in multipliers
        ]
    return experiment_of(
        {"name": "The paper, other exploration", "seeds": 1, "environments": environments, "methods": methods}
    )


def sweep_name(method: str, multiplier: float) -> str:
    """What a method is called at a multiplier."""
    return f"{method}, {multiplier:g}"


def _at(name: str, method: str, multiplier: float) -> dict[str, Any]:
    p = PAPER[name]
    if multiplier == MULTIPLIER and method not in (COUNTS, PAIRS):  # the published settings: the same cell as there
        return {"preset": IND_EQUAL if method == IND and p.independent is not None else method}
    table: dict[str, Any] = {"preset": KNOWN if method == KNOWN else EST}
    if method == COUNTS:
        table["similarity"] = {"type": "CountOnly", "precision": p.arm}
    elif method == PAIRS:
        table["similarity"] = similarity_table("estimated", _published(name)) | {"self_pairs": False}
    elif method == IND:
        table["similarity"] = {"type": "Independent"}
    return table | {"exploration": multiplier * math.sqrt(p.ridge)}


def check_names(data: Iterable[str] | None) -> tuple[str, ...]:
    """The data sets asked for, in the order of the report; default: all."""
    asked = list(DATA if data is None else data)
    for name in asked:
        if name not in DATA:
            raise InvalidInputError(f"the paper has no data set {name!r}; it has {', '.join(DATA)}")
    if not asked:
        raise InvalidInputError(f"no data set is named; the paper has {', '.join(DATA)}")
    return tuple(name for name in DATA if name in asked)


def quick_names(say: Callable[[str], None]) -> tuple[str, ...]:
    """The data sets of a quick run: those of `QUICK` that are on this machine."""
    missing = [n for n in QUICK if not _is_here(n)]
    for name in missing:
        say(f"{_TITLES[name]} is left out: it is not on this machine (to have it: kinbandits data fetch {name})")
    return tuple(n for n in QUICK if n not in missing)


def need_data(names: Sequence[str]) -> None:
    """Have every data set on this machine, or say which can be run without the missing one."""
    for name in names:
        if _is_here(name):
            continue
        try:
            datasets.fetch(name)
        except (DatasetError, MissingPackageError) as error:
            here = ",".join(n for n in DATA if _is_here(n))
            raise DatasetError(f"{error}. Without it you can run: --data {here}") from error


def _is_here(name: str) -> bool:
    return name == "synthetic" or datasets.where(name) is not None


def methods_of(name: str, settings: str) -> tuple[str, ...]:
    """The methods that the paper compares on a data set (and on Segment Ind at Est's settings, see the report)."""
    if settings == "paper":
        return _METHODS.get(name, _REAL)
    return _METHODS["synthetic"] if name == "synthetic" else _REAL


def _environment(name: str, streams: str | PathLike[str] | None, horizon: int | None) -> dict[str, Any]:
    table: dict[str, Any] = {"name": _TITLES[name]}
    if name == "synthetic":
        # The scripts' reading of the reward, of which the reference numbers are.
        table |= {"kind": "synthetic-news", "reward": "scripts", "start": True}
    elif streams is not None:
        table |= {"kind": "streams", "data": name, "path": str(streams)}
    else:
        table |= {"kind": "classification", "data": name, "protocol": "paper"}
    if horizon is not None:
        table["horizon"] = horizon
    return table


def _settings(
    name: str, method: str, settings: str, chosen: dict[str, dict[str, CrossValidation]] | None
) -> dict[str, Any]:
    if settings == "paper":
        return {"preset": method}
    kind = _KINDS[method]
    if settings == "cv":
        assert chosen is not None
        best = chosen[name][kind].best
        ridge = best["ridge"]
        return {
            "context_kernel": {"type": "RBF", "precision": best["context_precision"]},
            "similarity": similarity_table(kind, best),
            "ridge": ridge,
            "exploration": MULTIPLIER * math.sqrt(ridge),
            **SHARED,
        }
    # The defaults of KMTLUCB with the method's similarity; the scales of k_Z are the published ones.
    return {"tie_break": "first", "similarity": similarity_table(kind, _published(name, kind))}


def _published(name: str, kind: Method = "estimated") -> dict[str, float]:
    p = PAPER[name]
    scale = p.known if kind == "known" and p.known is not None else p.arm
    return {"similarity_precision": scale, "embedding_precision": p.embedding}


_KINDS: dict[str, Method] = {KNOWN: "known", EST: "estimated", IND: "independent", POOL: "pooled"}


def choose_settings(
    name: str,
    *,
    streams: str | PathLike[str] | None = None,
    grid: Grid | None = None,
    rows: int = 250,
    seed: int = 0,
    n_jobs: int = 1,
) -> dict[str, CrossValidation]:
    """Cross-validation on the rows that the game never sees, for each method of a data set.

    For the synthetic problem those rows are ``rows`` users of another seed, each shown one article at random.
    """
    (name,) = check_names([name])
    table = _environment(name, streams, None)
    table.pop("name")
    environment = make_environment(table.pop("kind"), **table)
    descriptors = None
    if isinstance(environment, LabelledRows):
        X, y = environment.validation()
        data = deal_rows(X, y, len(environment.arms), seed)
    else:
        data, descriptors = _played_at_random(rows, seed)
    return {
        kind: cross_validate(
            kind, data, len(environment.arms), grid=grid, descriptors=descriptors, seed=seed, n_jobs=n_jobs
        )
        for kind in (_KINDS[m] for m in methods_of(name, "cv"))
    }


def _played_at_random(rows: int, seed: int) -> tuple[Plays, Any]:
    environment = SyntheticNews(seed=10_000 + seed, horizon=rows, reward="scripts")
    n = len(environment.arms)
    arms = np.random.default_rng(seed).permutation(np.arange(rows) % n)
    rounds = list(environment.rounds())
    X = np.stack([r.context[a] for r, a in zip(rounds, arms, strict=True)])
    y = np.array([r.rewards[a] for r, a in zip(rounds, arms, strict=True)])
    return Plays(arms.astype(np.intp), X, y), environment.descriptors


def cached_choices(
    names: Sequence[str],
    directory: str | PathLike[str],
    *,
    streams: str | PathLike[str] | None,
    n_jobs: int,
    say: Callable[[str], None],
) -> dict[str, dict[str, CrossValidation]]:
    """`choose_settings` for every data set, kept in ``directory/settings`` for a resumed run."""
    place = Path(directory) / "settings"
    place.mkdir(parents=True, exist_ok=True)
    chosen = {}
    for name in names:
        path = place / f"{name}.json"
        if not path.exists():
            say(f"cross-validation on the validation rows of {name}")
            found = choose_settings(name, streams=streams, n_jobs=n_jobs)
            atomic_write(path, json.dumps({kind: c.to_json() for kind, c in found.items()}).encode())
        data = json.loads(path.read_text(encoding="utf-8"))
        chosen[name] = {kind: CrossValidation.from_json(c) for kind, c in data.items()}
        for kind, c in chosen[name].items():
            say(f"  {name}, {kind}: " + ", ".join(f"{k} {v:.6g}" for k, v in c.best.items()))
    return chosen


# Seconds of one core for one run at the paper's horizon (published settings), on a machine on which `_probe` takes
# `_PROBE_SECONDS`; and for the cross-validation of a data set.
SECONDS = dict(zip(DATA, (0.7, 0.3, 0.3, 13.0, 2.3, 7.5, 13.0), strict=True))
CV_SECONDS: dict[str, float] = dict.fromkeys(DATA, 60.0) | {"letter": 700.0, "synthetic": 20.0}
_PROBE_SECONDS = 0.018


def time_estimate(experiments: Iterable[Experiment], names: Sequence[str], cores: int, settings: str) -> str:
    """How long it will take, in a sentence."""
    seconds, cells = 0.0, {cell.id: cell for experiment in experiments for cell in experiment.cells()}
    for cell in cells.values():
        name = NAMES[cell.environment.name]
        share = min(1.0, cell.environment.options.get("horizon", HORIZONS[name]) / HORIZONS[name])
        seconds += SECONDS[name] * share**2
    if settings == "cv":
        seconds += sum(CV_SECONDS[n] for n in names)
    seconds = seconds * _probe() / _PROBE_SECONDS / max(1, cores) + 5.0
    return f"{len(cells)} runs on {', '.join(names)}: about {clock(seconds)} with {cores} processes on this machine"


def _probe() -> float:
    """How long a small factorisation takes here, the best of five: the speed of this machine."""
    A = np.eye(600) + 0.001
    best = float("inf")
    with threadpool_limits(1):
        for _ in range(5):
            start = time.perf_counter()
            np.linalg.cholesky(A)
            best = min(best, time.perf_counter() - start)
    return best
