"""The experiments of the paper (section 5 and its appendix) as one `Experiment`.

settings    "paper"  the published settings (`kinbandits.presets`)
            "tuned"  this library's own settings, the same for both methods: the median rule
            "cv"     chosen by five-fold cross-validation on each data set's validation rows, method by method
streams     a file of row numbers (see `environments.Streams`), to be compared run by run; without it, the
            streams follow from the seeds
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any

from kinbandits.environments import make_environment
from kinbandits.environments.labelled import LabelledRows
from kinbandits.errors import InvalidInputError
from kinbandits.experiments.config import Experiment, experiment_of
from kinbandits.experiments.crossval import CrossValidation, Grid, Method, cross_validate, deal_rows
from kinbandits.presets import MULTIPLIER

__all__ = ["DATA", "SECONDS", "SETTINGS", "choose_settings", "paper_experiment", "seconds_estimate"]

DATA = ("synthetic", "digits", "segment", "letter", "pendigits", "usps", "mnist")
SETTINGS = ("paper", "tuned", "cv")
QUICK = ("synthetic", "digits", "segment")
_TITLES = {
    "synthetic": "Synthetic news",
    "digits": "Digits",
    "segment": "Segment",
    "letter": "Letter",
    "pendigits": "Pendigits",
    "usps": "USPS",
    "mnist": "MNIST",
}
_METHODS: dict[str, tuple[str, ...]] = {
    "synthetic": ("KMTL-UCB", "KMTL-UCB-Est", "Kernel-UCB-Ind", "Kernel-UCB-Pool"),
    "segment": ("KMTL-UCB-Est", "Kernel-UCB-Ind", "Kernel-UCB-Ind at Est's settings"),
}
_REAL = ("KMTL-UCB-Est", "Kernel-UCB-Ind")


def paper_experiment(
    data: Sequence[str] | None = None,
    *,
    seeds: int | list[int] = 10,
    settings: str = "paper",
    streams: str | PathLike[str] | None = None,
    horizon: int | None = None,
    chosen: dict[str, dict[str, CrossValidation]] | None = None,
) -> Experiment:
    """The paper's experiments on these data sets (default: all), with these settings.

    ``chosen`` is what `choose_settings` found, for ``settings="cv"``.

    >>> [cell.environment.name for cell in paper_experiment(["digits"], seeds=1).cells()]
    ['Digits', 'Digits']
    """
    names = check_names(data)
    if settings not in SETTINGS:
        raise InvalidInputError(f"settings must be one of {', '.join(SETTINGS)}, got {settings!r}")
    if settings == "cv" and chosen is None:
        raise InvalidInputError('settings="cv" needs chosen=, which choose_settings(data) finds')
    methods = []
    for name in names:
        for method in methods_of(name, settings):
            table = _settings(name, method, settings, chosen)
            methods.append({"name": method, "environments": [_TITLES[name]], **table})
    environments = [_environment(name, streams, horizon) for name in names]
    return experiment_of(
        {
            "name": f"The paper, {settings} settings",
            "seeds": seeds,
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
            "similarity": _similarity(kind, best),
            "ridge": ridge,
            "exploration": MULTIPLIER * math.sqrt(ridge),
            "weighting": "per_arm",
            "cold_start": "explore",
            "tie_break": "first",
        }
    # The library's own settings: the defaults of KMTLUCB (median distance, ridge 0.01, exploration 0.1, uniform
    # weights), with the similarity that the method is about; the scales of k_Z are the published ones.
    preset = "synthetic" if name == "synthetic" else name
    table: dict[str, Any] = {"tie_break": "first"}
    if kind == "estimated":
        table["similarity"] = {"type": "Estimated", **_published(preset)}
    else:
        table["similarity"] = _similarity(kind, {"similarity_precision": 27.825594022071243})
    return table


_KINDS: dict[str, Method] = {
    "KMTL-UCB": "known",
    "KMTL-UCB-Est": "estimated",
    "Kernel-UCB-Ind": "independent",
    "Kernel-UCB-Pool": "pooled",
}


def _published(name: str) -> dict[str, Any]:
    from kinbandits.presets import PAPER

    p = PAPER[name]
    return {"precision": p.arm, "embedding_kernel": {"type": "RBF", "precision": p.embedding}}


def _similarity(kind: Method, best: dict[str, float]) -> dict[str, Any]:
    if kind == "independent":
        return {"type": "Independent"}
    if kind == "pooled":
        return {"type": "Pooled"}
    if kind == "known":
        kernel = {"type": "RBF", "precision": best["similarity_precision"]}
        return {"type": "Known", "kernel": kernel, "descriptors": "environment"}
    embedding = {"type": "RBF", "precision": best["embedding_precision"]}
    return {"type": "Estimated", "precision": best["similarity_precision"], "embedding_kernel": embedding}


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
        data, descriptors = _played_at_random(name, rows, seed)
    return {
        kind: cross_validate(
            kind, data, len(environment.arms), grid=grid, descriptors=descriptors, seed=seed, n_jobs=n_jobs
        )
        for kind in (_KINDS[m] for m in methods_of(name, "cv"))
    }


def _played_at_random(name: str, rows: int, seed: int) -> tuple[Any, Any]:
    import numpy as np

    from kinbandits.environments import SyntheticNews
    from kinbandits.experiments.crossval import Rows

    environment = SyntheticNews(seed=10_000 + seed, horizon=rows, reward="scripts")
    n = len(environment.arms)
    arms = np.random.default_rng(seed).permutation(np.arange(rows) % n)
    rounds = list(environment.rounds())
    X = np.stack([r.context[a] for r, a in zip(rounds, arms, strict=True)])
    y = np.array([r.rewards[a] for r, a in zip(rounds, arms, strict=True)])
    return Rows(arms.astype(np.intp), X, y), environment.descriptors


SECONDS: dict[str, float] = {}
"""Seconds of one core for one seed of all methods of a data set, measured; filled in below."""


def seconds_estimate(names: Sequence[str], seeds: int, jobs: int) -> float:
    """About how long the paper's experiments will take here."""
    return sum(SECONDS.get(n, 60.0) for n in names) * seeds / max(1, jobs)
