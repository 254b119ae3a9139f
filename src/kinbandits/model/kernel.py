"""The context kernel that rewards ask for: of distances, in one unit or each feature in its own; or in part linear.

A kernel of distances learns each place for itself, so that a slope has to be learned again wherever contexts go. Where
rewards are nearly linear in the context, a linear kernel beside it has up to a half less regret; where they are not, it
makes widths grow far from the centre, for nothing. And a feature that is much wider than the others hides them. So the
rows decide, by the evidence of each kernel on each arm's own rows.
"""

from __future__ import annotations

import numpy as np

from kinbandits._types import Matrix, Vector
from kinbandits.kernels import Constant, Kernel, Linear, RationalQuadratic, cdist
from kinbandits.model.evidence import RIDGES, Rows, best
from kinbandits.model.value import Candidate, Spec, distances

FIRST = 20  # rows from which on kernel, ridge and level are judged; before, every function looks like noise
WIDTH_ROWS = 300  # rows from which length scales are measured
KERNEL_ROWS = 150  # of an arm that are looked at
NEARLY = 0.03  # the share of distances in a kernel that is nearly linear
UNEVEN = 10.0  # times the usual width, from which on a feature hides the others: each then has its own width unless the
# rows object. Principal components, whose widths mean something, are 2 to 7 times apart
CLEAR, NOISY, EARLY = 3.0, 0.0, 4.0  # nats a kernel must lead by; where noise is large; with few rows an arm
EACH = 10  # rows an arm: before that, levels of arms look like slopes


def fit_kernel(rows: Rows, spec: Spec, old: Kernel, table: list[Candidate]) -> Kernel:
    """Distances in one unit or each feature in its own; half of it linear, or nearly all, where rewards ask for it."""
    X = spec.select(0, rows.X)
    few = X[-max(60, min(len(X) // 2, WIDTH_ROWS)) :]  # what contexts look like now
    plain, own = median_scale(few), None
    if X.shape[1] > 1 and len(few) >= 10:
        widths = feature_widths(few)
        own = widths * median_scale(few / widths)
    uneven = own is not None and own.max() > UNEVEN * np.median(own)
    scales = {"one unit": plain}  # the first is taken unless the rows object
    if own is not None:
        scales = {"own units": own} | scales if uneven else scales | {"own units": own}
    early = rows.each < EACH
    kernels = {name: RationalQuadratic(length_scale=_scale(s)) for name, s in scales.items()}
    if len(rows.y) < FIRST or (early and len(rows.y) < 60):
        return _near(next(iter(kernels.values())), old)  # no lead can be large enough yet
    parts = [r for _, r in rows.of_arms(KERNEL_ROWS)]

    def judged(kernel: Kernel) -> tuple[float, float]:
        found, ridge = best([(kernel(X[r], X[r]), rows.y[r]) for r in parts], RIDGES)
        return found.evidence, ridge

    before = distances(old)
    chosen = "own units" if "own units" in kernels and isinstance(before.length_scale, tuple) else next(iter(kernels))
    top, ridge = judged(kernels[chosen])
    reference = top
    for name in kernels.keys() - {chosen}:
        other, its = judged(kernels[name])
        table.append(Candidate(f"kernel: {name}", other - reference))
        if other - top > (EARLY if early else CLEAR):
            chosen, top, ridge = name, other, its
    kernel: Kernel = kernels[chosen]
    table.append(Candidate(f"kernel: distances, {chosen}", top - reference))
    scale = scales[chosen]  # of the linear part: its variance is then a half on average
    linear = Linear(tuple(X.mean(axis=0).tolist()), _scale(scale))
    for name, straighter in (
        ("half linear", 0.5 * kernels[chosen] + linear),
        ("nearly linear", 0.5 * NEARLY * kernels[chosen] + linear + Constant(0.5 * (1.0 - NEARLY))),
    ):
        found, its = judged(straighter)
        table.append(Candidate(f"kernel: {name}", found - reference))
        noisy = min(ridge, its) >= 1.0
        if found - top <= (EARLY if early else NOISY if noisy else CLEAR):
            break
        kernel, top, ridge = straighter, found, its
    return _near(kernel, old)


def _scale(scale: Vector) -> float | tuple[float, ...]:
    return float(scale[0]) if len(scale) == 1 else tuple(scale.tolist())


def _near(new: Kernel, old: Kernel) -> Kernel:
    """The old kernel, where the new one is of the same kind and nearly as wide: too small a change to refit."""
    a, b = np.atleast_1d(distances(new).length_scale), np.atleast_1d(distances(old).length_scale)
    same = type(new) is type(old) and type(getattr(new, "second", None)) is type(getattr(old, "second", None))
    if same and a.shape == b.shape and np.abs(np.log(a / b)).max() < 0.2:
        return old
    return new


def median_scale(X: Matrix) -> Vector:
    """The median distance of rows that differ, (1,); 1 where none do."""
    distances = cdist(X, X)[np.triu_indices(len(X), k=1)]
    distances = distances[distances > 0.0]
    return np.array([float(np.median(distances)) if distances.size else 1.0])


def feature_widths(X: Matrix) -> Vector:
    """The standard deviation of each feature; one that does not vary is as wide as the usual one."""
    deviations = X.std(axis=0)
    varying = deviations > 1e-9 * np.abs(X).max(axis=0)
    usual = float(np.median(deviations[varying])) if varying.any() else 1.0
    return np.asarray(np.where(varying, deviations, usual))
