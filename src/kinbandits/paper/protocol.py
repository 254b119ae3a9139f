"""The experiments of the paper (section 5 and its appendix) as one `Experiment`.

settings    "paper"  the published settings (`kinbandits.paper.presets`)
            "cv"     chosen by five-fold cross-validation on each data set's validation rows, method by method
streams     a file of row numbers (see `environments.Streams`), to be compared run by run; without it, the
            streams follow from the seeds
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from kinbandits import datasets
from kinbandits.environments import SyntheticNews, make_environment
from kinbandits.environments.labelled import LabelledRows
from kinbandits.errors import DatasetError, InvalidInputError, MissingPackageError
from kinbandits.experiments.config import Experiment, experiment_of
from kinbandits.logs import Log
from kinbandits.paper.crossval import CrossValidation, Grid, Method, cost, cross_validate, deal_rows
from kinbandits.paper.presets import METHODS, PAPER, Precisions, method_table
from kinbandits.progress import Progress

DATA = ("synthetic", "digits", "segment", "letter", "pendigits", "usps", "mnist")
SETTINGS = ("paper", "cv")
QUICK = ("synthetic", "digits", "segment")
_TITLES = {name: name.capitalize() for name in DATA} | {
    "synthetic": "Synthetic news", "usps": "USPS", "mnist": "MNIST"
}  # fmt: skip
KNOWN, EST, IND, POOL, IND_EQUAL = METHODS
_METHODS: dict[str, tuple[str, ...]] = {"synthetic": (KNOWN, EST, IND, POOL), "segment": (EST, IND, IND_EQUAL)}
_REAL = (EST, IND)
NAMES = {title: name for name, title in _TITLES.items()}
"""The data set of each title."""
SYNTHETIC_SEEDS = 50
"""Runs on the synthetic problem in place of 10: it costs little, and runs differ much."""


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
            table = _settings(set_, method, chosen if settings == "cv" else None)
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


def check_names(data: Iterable[str] | None) -> tuple[str, ...]:
    """The data sets asked for, in the order of the report; default: all."""
    asked = list(DATA if data is None else data)
    for name in asked:
        if name not in DATA:
            raise InvalidInputError(f"the paper has no data set {name!r}; it has {', '.join(DATA)}")
    if not asked:
        raise InvalidInputError(f"no data set is named; the paper has {', '.join(DATA)}")
    return tuple(name for name in DATA if name in asked)


def need_data(names: Sequence[str]) -> None:
    """Have every data set on this machine, or say which can be run without the missing one."""
    for name in names:
        if is_here(name):
            continue
        try:
            datasets.fetch(name)
        except (DatasetError, MissingPackageError) as error:
            here = ",".join(n for n in DATA if is_here(n))
            raise DatasetError(f"{error}. Without it you can run: --data {here}") from error


def is_here(name: str) -> bool:
    """Whether a data set is on this machine."""
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


def _settings(name: str, method: str, chosen: dict[str, dict[str, CrossValidation]] | None) -> dict[str, Any]:
    published = PAPER[name]
    if chosen is None:
        return method_table(method, published)
    best = chosen[name][_KINDS[method]].best
    arm = best.get("similarity_precision", published.arm)
    found = Precisions(
        best["context_precision"],
        best.get("embedding_precision", published.embedding),
        arm,
        best["ridge"],
        known=arm,
    )
    return method_table(method, found)


_KINDS: dict[str, Method] = {KNOWN: "known", EST: "estimated", IND: "independent", POOL: "pooled"}


def choose_settings(
    names: Sequence[str],
    *,
    streams: str | PathLike[str] | None = None,
    grid: Grid | None = None,
    rows: int = 250,
    seed: int = 0,
    jobs: int | None = None,
    folder: str | PathLike[str] | None = None,
    stream: TextIO | None = None,
) -> dict[str, dict[str, CrossValidation]]:
    """Cross-validation on the rows that the game never sees, for each data set and method.

    For the synthetic problem those rows are ``rows`` users of another seed, each shown one article at random. What
    is done is kept in ``folder``, and not done again.
    """
    found: dict[str, dict[str, CrossValidation]] = {}
    logs = {name: _validation(name, streams, rows, seed) for name in check_names(names)}
    todo = [(name, _KINDS[m]) for name in logs for m in methods_of(name, "cv")]
    work = {(name, kind): cost(kind, logs[name][0], grid) for name, kind in todo}
    with Progress(round(sum(work.values()) / 1e9, 1), "cross-validation: 10^9 steps", stream=stream) as progress:
        done = 0.0
        for name, kind in todo:
            log, descriptors = logs[name]
            place = None if folder is None else Path(folder) / f"{name}-{kind}"

            def told(share: float, before: float = done, of: float = work[name, kind], note: str = name) -> None:
                progress.to(round((before + share * of) / 1e9, 1), note=note)

            options = {"grid": grid, "descriptors": descriptors, "seed": seed, "jobs": jobs}
            found.setdefault(name, {})[kind] = cross_validate(kind, log, **options, folder=place, told=told)
            done += work[name, kind]
    return found


def _validation(name: str, streams: str | PathLike[str] | None, rows: int, seed: int) -> tuple[Log, Any]:
    table = _environment(name, streams, None)
    del table["name"]
    environment = make_environment(table.pop("kind"), **table)
    if isinstance(environment, LabelledRows):
        X, y = environment.validation()
        return deal_rows(X, y, len(environment.arms), seed), None
    return _played_at_random(rows, seed)


def _played_at_random(rows: int, seed: int) -> tuple[Log, Any]:
    environment = SyntheticNews(seed=10_000 + seed, horizon=rows, reward="scripts")
    n = len(environment.arms)
    arms = np.random.default_rng(seed).permutation(np.arange(rows) % n)
    rounds = list(environment.rounds())
    X = np.stack([r.context[a] for r, a in zip(rounds, arms, strict=True)])
    y = np.array([r.rewards[a] for r, a in zip(rounds, arms, strict=True)])
    return Log.of(arms.tolist(), X, y, arms=range(n)), environment.descriptors


def chosen_beside_published(
    chosen: dict[str, dict[str, CrossValidation]],
) -> Iterator[tuple[str, str, str, float, float]]:
    """Data set, method and setting, with the value that was chosen and the one that the paper has."""
    for name, found in chosen.items():
        p = PAPER[name]
        for kind, c in found.items():
            context, ridge = (p.context, p.ridge)
            if kind == "independent" and p.independent is not None:
                context, ridge = p.independent
            arm = p.known if kind == "known" and p.known is not None else p.arm
            published = {
                "context_precision": context, "embedding_precision": p.embedding, "similarity_precision": arm,
                "ridge": ridge,
            }  # fmt: skip
            yield from ((name, kind, setting, value, published[setting]) for setting, value in c.best.items())
