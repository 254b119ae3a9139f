"""The ridge (noise / signal) that rewards ask for, and the level and variance at it.

- Of the evidence the share n / (n + 15) counts, n the rows an arm has on average: a function not learned yet looks
  like noise, and full weight from the start loses 5 % where there are many arms and no noise.
- A log-prior keeps the ridge near `USUAL` until there is evidence.
- Rewards that a smooth function misses are noise only if no rougher one explains them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.kernels import Kernel
from kinbandits.model.evidence import Fit, Rows, evidence
from kinbandits.model.value import USUAL, Model, Spec
from kinbandits.regression.contract import KZ

MOST = 10.0  # where a click in thirty is all there is, noise is ten times the signal
PRIOR = 2.0  # nats of evidence asked for each factor e away from USUAL
FEW = 15.0  # rows an arm at which half of the evidence counts
SHARE = 20.0  # rows an arm for each unit of ridge: a ridge as large as n would mean that nothing is learned
ROUGHER = 16  # K^16 stands for rougher functions, of an RBF those of a quarter of its length
ROUGH_LEAD = 5.0  # nats by which rougher functions must win
NOISE_ROWS = 300  # of an arm that are looked at


def fit_ridge(rows: Rows, spec: Spec, kernels: tuple[Kernel, ...], old: Model) -> tuple[float, Fit]:
    """The posterior mean of log ridge over a few ridges, and what the rows say at it."""
    blocks = list(_own_blocks(rows, spec, kernels, old.k_z))
    if spec.ridge is not None:
        found = evidence(blocks, spec.ridge)
        return spec.ridge, found if found.evidence > -math.inf else Fit(0.0, float(rows.y.mean()), rows.y.var())
    ridges = USUAL * 10.0 ** (0.5 * np.arange(5.0))
    ridges = np.append(ridges, MOST)
    levels = np.array([evidence(blocks, r).evidence for r in ridges])
    if not np.isfinite(levels).any():  # the rows looked at have one reward: nothing to judge
        return old.ridge, Fit(0.0, float(rows.y.mean()), float(rows.y.var()))
    share = rows.each / (rows.each + FEW)
    against = PRIOR * np.abs(np.log(ridges / USUAL))
    weights = _normalized(share * levels - against)
    if weights[0] < 0.999:
        rough = [(_rougher(K), y) for K, y in blocks]
        rougher = np.array([evidence(rough, r).evidence for r in ridges])
        y = np.concatenate([y for _, y in blocks])
        lead = share * (rougher.max() - max(levels.max(), _plain(y)))
        if rougher.argmax() < levels.argmax() and lead > -50.0:
            # Near contexts with near rewards are no noise: without this Letter loses 6 % in 1,000 rounds.
            odds = math.exp(min(lead - ROUGH_LEAD, 50.0))
            weights = (weights + odds * _normalized(share * rougher - against)) / (1.0 + odds)
    ridge = min(math.exp(float(weights @ np.log(ridges))), max(USUAL, rows.each / SHARE))
    if weights[0] > 0.999:
        ridge = USUAL
    last = evidence(blocks, ridge)
    return ridge, last


def _own_blocks(
    rows: Rows, spec: Spec, kernels: tuple[Kernel, ...], k_z: tuple[KZ, ...]
) -> Iterator[tuple[Matrix, Vector]]:
    """Prior covariance and rewards of each arm's own rows."""
    for arm, own in rows.of_arms(NOISE_ROWS):
        yield own_covariance(rows, spec, kernels, k_z, arm, own), rows.y[own]


def own_covariance(
    rows: Rows, spec: Spec, kernels: tuple[Kernel, ...], k_z: tuple[KZ, ...], arm: int, own: Indices
) -> Matrix:
    """Prior covariance of these rows of one arm."""
    K = np.zeros((len(own), len(own)))
    for term, kernel in enumerate(kernels):
        X = spec.select(term, rows.X[own])
        K += _variance(k_z[term], arm) * kernel(X, X)
    return K


def _variance(k_z: KZ, arm: int) -> float:
    """k_Z(a, a)."""
    return float(k_z[arm, arm]) if isinstance(k_z, np.ndarray) else 1.0


def _normalized(logs: Vector) -> Vector:
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _rougher(K: Matrix) -> Matrix:
    """Covariances of rougher functions with the same variances: the power of a correlation is one again."""
    root = np.sqrt(np.outer(K.diagonal(), K.diagonal()))
    C = np.divide(K, root, out=np.zeros_like(K), where=root > 0.0)
    return np.asarray(C**ROUGHER * root)


def _plain(y: Vector) -> float:
    """The evidence of a level and noise, nothing else: M = I."""
    fit = float(y @ y) - float(y.sum()) ** 2 / len(y)
    return -0.5 * ((len(y) - 1) * math.log(fit) + math.log(len(y))) if fit > 0.0 else -math.inf
