"""The experiments of the paper (section 5 and its appendix) as one `Experiment`.

settings    the published ones (`kinbandits.paper.presets`), or those that five-fold cross-validation chose on each
            data set's validation rows, method by method (`choose_settings`)
streams     a file of row numbers (see `environments.Streams`), to be compared run by run; without it, the
            streams follow from the seeds
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from kinbandits import datasets
from kinbandits.environments import SyntheticNews, make_environment
from kinbandits.errors import DatasetError, InvalidInputError, MissingPackageError
from kinbandits.experiments.config import Experiment, experiment_of
from kinbandits.logs import Log
from kinbandits.paper.crossval import CrossValidation, Grid, Method, cross_validate, deal_rows
from kinbandits.paper.presets import EST, IND, IND_EQUAL, KNOWN, PAPER, POOL, Precisions, method_table
from kinbandits.progress import Progress

TITLES = {
    "synthetic": "Synthetic news", "digits": "Digits", "segment": "Segment", "letter": "Letter",
    "pendigits": "Pendigits", "usps": "USPS", "mnist": "MNIST",
}  # fmt: skip
DATA = tuple(TITLES)
QUICK = ("synthetic", "digits", "segment")
SYNTHETIC_SEEDS = 50
"""Runs on the synthetic problem in place of 10: it costs little, and runs differ much."""
_KINDS: dict[str, Method] = {KNOWN: "known", EST: "estimated", IND: "independent", POOL: "pooled"}
Chosen = dict[str, dict[str, CrossValidation]]
"""Of each data set and kind of similarity."""


def paper_experiment(
    data: Sequence[str] | None = None,
    *,
    seeds: int | list[int] | None = None,
    streams: str | PathLike[str] | None = None,
    horizon: int | None = None,
    chosen: Chosen | None = None,
) -> Experiment:
    """The paper's experiments on these data sets (default: all).

    Without ``seeds`` there are 10 runs of each method, and 50 on the synthetic problem. ``chosen`` are the settings
    that `choose_settings` gives; left out, the published ones.

    >>> [cell.environment.name for cell in paper_experiment(["digits"], seeds=1).cells()]
    ['Digits', 'Digits']
    """
    tables = {
        name: {m: method_table(m, _settings(name, m, chosen)) for m in methods_of(name, published=chosen is None)}
        for name in check_names(data)
    }
    title = f"The paper, {'paper' if chosen is None else 'cv'} settings"
    return experiment_on(title, tables, seeds=seeds, streams=streams, horizon=horizon)


def experiment_on(
    title: str,
    tables: dict[str, dict[str, dict[str, Any]]],
    *,
    seeds: int | list[int] | None = None,
    streams: str | PathLike[str] | None = None,
    horizon: int | None = None,
) -> Experiment:
    """Methods by name, as tables of settings, on each of the paper's data sets."""
    more = SYNTHETIC_SEEDS if seeds is None else None
    return experiment_of({
        "name": title,
        "seeds": 10 if seeds is None else seeds,
        "environments": [
            {"name": TITLES[name], **_environment(name, streams, horizon)}
            | ({"seeds": more} if more and name == "synthetic" else {})
            for name in tables
        ],
        "methods": [
            {"name": method, "environments": [TITLES[name]], **table}
            for name, methods in tables.items()
            for method, table in methods.items()
        ],
    })  # fmt: skip


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


def methods_of(name: str, published: bool = True) -> tuple[str, ...]:
    """The methods that the paper compares on a data set (and on Segment Ind at Est's settings, see the report)."""
    if name == "synthetic":
        return KNOWN, EST, IND, POOL
    return (EST, IND, IND_EQUAL) if name == "segment" and published else (EST, IND)


def _environment(name: str, streams: str | PathLike[str] | None, horizon: int | None) -> dict[str, Any]:
    table: dict[str, Any] = {"kind": "classification", "data": name, "protocol": "paper"}
    if name == "synthetic":  # the scripts' reading of the reward, of which the reference numbers are
        table = {"kind": "synthetic-news", "reward": "scripts", "start": True}
    elif streams is not None:
        table = {"kind": "streams", "data": name, "path": str(streams)}
    return table if horizon is None else table | {"horizon": horizon}


def _settings(name: str, method: str, chosen: Chosen | None) -> Precisions:
    published = PAPER[name]
    if chosen is None:
        return published
    best = chosen[name][_KINDS[method]].best
    arm = best.get("similarity_precision", published.arm)
    embedding = best.get("embedding_precision", published.embedding)
    return Precisions(best["context_precision"], embedding, arm, best["ridge"], known=arm)


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
) -> Chosen:
    """Cross-validation on the rows that the game never sees, for each data set and method.

    For the synthetic problem those rows are ``rows`` users of another seed, each shown one article at random. What
    is done is kept in ``folder``, and not done again.
    """
    found: Chosen = {}
    logs = {name: _validation(name, streams, rows, seed) for name in check_names(names)}
    todo = [(name, _KINDS[m]) for name in logs for m in methods_of(name, published=False)]
    work = [(grid or Grid()).cost(kind, len(logs[name])) / 1e9 for name, kind in todo]
    with Progress(round(sum(work), 1), "cross-validation: 10^9 steps", stream=stream) as progress:
        for i, (name, kind) in enumerate(todo):

            def done(share: float, before: float = sum(work[:i]), of: float = work[i], note: str = name) -> None:
                progress.to(round(before + share * of, 1), note=note)

            found.setdefault(name, {})[kind] = cross_validate(
                kind, logs[name], grid=grid, descriptors=SyntheticNews().descriptors, seed=seed, jobs=jobs,
                files=None if folder is None else Path(folder) / f"{name}-{kind}", done=done,
            )  # fmt: skip
    return found


def _validation(name: str, streams: str | PathLike[str] | None, rows: int, seed: int) -> Log:
    if name != "synthetic":
        table = _environment(name, streams, None)
        environment: Any = make_environment(table.pop("kind"), **table)
        X, y = environment.validation()
        return deal_rows(X, y, len(environment.arms), seed)
    news = SyntheticNews(seed=10_000 + seed, horizon=rows, reward="scripts")
    arms = np.random.default_rng(seed).permutation(np.arange(rows) % news.n_arms)
    shown = [(r.context[a], r.rewards[a]) for r, a in zip(news.rounds(), arms, strict=True)]
    return Log.of(arms.tolist(), [x for x, _ in shown], [y for _, y in shown], arms=range(news.n_arms))
