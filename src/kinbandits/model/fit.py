"""`fit`: rows -> model. And `broken`: whether the world has changed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.history import History
from kinbandits.kernels import RationalQuadratic
from kinbandits.model.evidence import RIDGES, Rows, best
from kinbandits.model.kernel import FIRST, fit_kernel
from kinbandits.model.kin import first_target, fit_similarity
from kinbandits.model.ridge import fit_ridge, own_covariance
from kinbandits.model.value import USUAL, Candidate, Kind, Model, Spec
from kinbandits.model.when import check_gap
from kinbandits.similarity import Learned

BREAK_LEAD = 20.0  # nats by which two unrelated sets of functions must win over one


def fit(history: History, spec: Spec, old: Model, kind: Kind, n: int) -> Model:
    """The model from these rows, which are what is kept of the first ``n``."""
    y = history.rewards
    low, high = float(y.min()), float(y.max())
    wide = high - low
    if not 0.0 < wide < math.inf:
        if old.varied:
            return replace(old, rows=n)  # the rows that differed are too old to be seen: nothing new is known
        level, unit = spec.scale or (low, 1.0)
        return replace(start(spec, kind, old), level=level, unit=unit, rows=n)
    rows = Rows(history.arms, history.contexts, (y - low) / wide, n / len(np.unique(history.arms)))
    table: list[Candidate] = []
    kernels = old.kernels
    if None in spec.kernels:  # a single term
        kernels = (fit_kernel(rows, spec, old.kernels[0], table),)
    if n < FIRST:
        model = replace(start(spec, kind, old), kernels=kernels, level=low, unit=wide)
    else:
        ridge, found = fit_ridge(rows, spec, kernels, old)
        explained = float(rows.y.std()) / math.sqrt(1.0 + ridge)
        # The unit is 2 s: one unit of the posterior deviation is an upper bound of two deviations. Never more than
        # rewards differ at all; never less than one deviation of what is explained of them: without noise a smooth
        # function is known from a few rows and s^2 falls like 1 / m, so that nothing new would be tried.
        unit = wide * min(1.0, max(2.0 * math.sqrt(found.variance), explained))
        model = Model(kernels, old.k_z, ridge, low + wide * found.level, unit)
        near = abs(math.log(model.ridge / old.ridge)) < 0.4 and abs(math.log(model.unit / old.unit)) < 0.1
        if near and old.rows >= FIRST and abs(model.level - old.level) < 0.1 * unit:  # too small a change to refit
            model = replace(model, ridge=old.ridge, level=old.level, unit=old.unit)
    if spec.scale is not None:
        model = replace(model, level=spec.scale[0], unit=spec.scale[1])
    if spec.ridge is not None:
        model = replace(model, ridge=spec.ridge)
    k_z = fit_similarity(rows, spec, model, old, kind, n, table)
    return replace(model, k_z=k_z, rows=n, table=tuple(table), varied=True, notes=old.notes)


def start(spec: Spec, kind: Kind, old: Model | None = None) -> Model:
    """The model before rewards have said anything; of ``old`` kernels and fixed similarities stay."""
    if old is not None:
        kernels, k_z = old.kernels, old.k_z
    else:
        kernels = tuple(RationalQuadratic() if k is None else k for k in spec.kernels)
        k_z = tuple(s.in_force(spec.n_arms) for s in spec.similarities)
    if isinstance(spec.similarities[0], Learned):
        k_z = (first_target(spec.similarities[0], spec.n_arms, kind),)
    level, unit = spec.scale or (0.0, 1.0)
    return Model(kernels, k_z, USUAL if spec.ridge is None else spec.ridge, level, unit, notes=old.notes if old else ())


def broken(history: History, spec: Spec, model: Model, n: int) -> int | None:
    """How many of the last rows a new world has: they are explained better without those before. None: no change.

    Rows before and after are judged as arms are: as one set of functions, and as two that are unrelated. Scale and
    level are common, so that arms which pay more are no change. A few rows that contradict each other look like a
    change while they are new, so the check before this one has to agree. Where the last rows have one reward (an
    outage), they say nothing that rows before them would have to be dropped for.
    """
    gap = check_gap(n)
    now, before = (_Halves.of(history, end, 4 * gap, spec, model) for end in (len(history), len(history) - gap))
    if now is None or before is None or not (now.lead(2 * gap) > BREAK_LEAD and before.lead(gap) > BREAK_LEAD):
        return None
    step = gap // 4
    late = max(range(step, 2 * gap + 1, step), key=now.lead)
    late = max(step, late - step)  # where it lies is not exact, and rows of two worlds do more harm than a few less
    return late if np.ptp(history.rewards[-late:]) > 0.0 else None


class _Halves(NamedTuple):
    """Prior covariance, rewards and places of each arm's rows, to be cut in two."""

    blocks: list[tuple[Matrix, Vector, Indices]]
    rows: int

    @classmethod
    def of(cls, history: History, end: int, most: int, spec: Spec, model: Model) -> _Halves | None:
        """So many rows up to ``end``; None if they are too few, or have one reward."""
        rows = history.taken(np.arange(max(0, end - most), max(0, end)))
        y = rows.rewards
        if len(y) <= most // 2 or not 0.0 < np.ptp(y) < math.inf:
            return None
        few = Rows(rows.arms, rows.contexts, (y - y.min()) / np.ptp(y), 1.0)
        own = few.of_arms(len(y))
        return cls(
            [(own_covariance(few, spec, model.kernels, model.k_z, arm, r), few.y[r], r) for arm, r in own], len(y)
        )

    def lead(self, late: int) -> float:
        """Nats by which two sets of functions, the second from the last ``late`` rows on, win over one."""
        split, ridges = self.rows - late, RIDGES[:3]
        cut = [(K, v, part) for K, v, r in self.blocks for part in (r < split, r >= split) if part.any()]
        apart = best([(K[np.ix_(part, part)], v[part]) for K, v, part in cut], ridges)[0].evidence
        return apart - best([(K, v) for K, v, _ in self.blocks], ridges)[0].evidence
