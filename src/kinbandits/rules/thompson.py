"""Posterior (Thompson) sampling: a candidate is played as often as it leads in a joint draw of all of them.

Notation (k candidates of one round)
    mean, C   (k,), (k, k)  posterior mean and joint covariance of the candidates' rewards
    root      (k, k)        root root' = C
    z         (S, k)        standard normal numbers, the same for every round
    f         (S, k)        mean + scale * z root': joint draws
    shares    (k,)          how often each candidate leads

The candidate is drawn from the shares of S draws, not from one draw: the same rule to Monte Carlo error, with exact
``decision.propensity``.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from kinbandits._types import Matrix, Vector
from kinbandits._value import Count, NotNegative
from kinbandits.errors import InvalidInputError
from kinbandits.rules.base import Answer, Rule

_TIE = 1e-12


class Thompson(Rule):
    """Play each candidate with the probability that it is the best one: Thompson's rule, as ``exploration=``.

    Draws are joint: kin rise and fall together. Their deviation is scale * sqrt(ridge) * width, as of a Gaussian
    process with noise ``ridge``, and half of it where the unit of rewards, two deviations, is learned.

    Args:
        samples: joint draws from which the probabilities are counted; an even number, as they come in pairs +z, -z.
            One more draw is divided by the chance of each candidate to beat the leader, so that none is impossible.
        scale: multiplies the deviation. Linear Thompson sampling (Agrawal and Goyal, 2013), where the deviation is
            v * width, has scale = v / sqrt(ridge).

    >>> import kinbandits as kb
    >>> policy = kb.KMTLUCB(arms=2, context_kernel=kb.RBF(), ridge=0.01, exploration=kb.Thompson())
    >>> policy.observe([0, 1], [[0.0], [0.0]], [1.0, 0.9])
    >>> policy.probabilities([[[0.0]]]).round(1)
    array([[0.8, 0.2]])
    """

    samples: Count = 1000
    scale: NotNegative = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples % 2:
            raise InvalidInputError(f"samples must be an even number of at least 2, got {self.samples!r}")

    def leaders(self, answer: Answer, exploration: Vector, tolerance: float) -> Matrix:
        mean = answer.prediction.mean
        shares = [self.shares(mean[r], answer.covariance(r) / answer.deviations**2) for r in range(answer.shape[0])]
        return np.array(shares).reshape(answer.shape)

    def draws(self, mean: Vector, covariance: Matrix) -> Matrix:
        """The joint draws f, (samples, k)."""
        step = self.scale * (_normal(self.samples // 2, len(mean)) @ symmetric_root(covariance).T)
        return np.concatenate([mean + step, mean - step])

    def shares(self, mean: Vector, covariance: Matrix) -> Vector:
        """The probability with which each candidate is played, (k,): positive wherever it can be the best.

        >>> Thompson().shares(np.zeros(2), np.ones((2, 2)))
        array([0.5, 0.5])
        """
        f = self.draws(mean, covariance)
        top = f.max(axis=1, keepdims=True)
        leads = f >= top - _TIE * np.abs(f).max(axis=1, keepdims=True)
        counted = (leads / leads.sum(axis=1, keepdims=True)).sum(axis=0)
        chances = self._chances(mean, covariance)
        return np.asarray((counted + chances / chances.sum()) / (self.samples + 1))

    def _chances(self, mean: Vector, covariance: Matrix) -> Vector:
        """P(f_a >= f_b) for the leader b by mean: it bounds the probability that a is the best."""
        from scipy.special import ndtr

        b = int(mean.argmax())
        variance = covariance.diagonal() + covariance[b, b] - 2.0 * covariance[b]
        noise = 1e-12 * max(float(covariance.diagonal().max()), np.finfo(float).tiny)
        deviation = self.scale * np.sqrt(np.maximum(variance, 0.0))
        certain = variance <= noise
        gap = (mean - mean[b]) / np.where(certain | (deviation == 0.0), 1.0, deviation)
        tied = mean >= mean[b] - _TIE * abs(mean[b])
        return np.asarray(np.where(certain | (deviation == 0.0), tied.astype(np.float64), ndtr(gap)))


def symmetric_root(K: Matrix, rounding: bool = True) -> Matrix:
    """The symmetric R, R R' = K; with ``rounding``, directions that are zero but for it stay zero.

    It is the only one that is the same on every processor: eigenvectors of equal eigenvalues are arbitrary.

    >>> symmetric_root(np.array([[4.0]]))
    array([[2.]])
    """
    values, vectors = np.linalg.eigh(K)
    floor = rounding * len(values) * np.finfo(float).eps * max(float(values[-1]), 0.0)
    root: Matrix = (vectors * np.sqrt(np.where(values > floor, values, 0.0))) @ vectors.T
    return root


@lru_cache(maxsize=16)
def _normal(rows: int, k: int) -> Matrix:
    """Standard normal numbers, always the same; scaled so that their mean square is one in every column."""
    z = np.random.default_rng(rows).standard_normal((rows, k))
    z *= math.sqrt(rows) / np.linalg.norm(z, axis=0)
    z.setflags(write=False)
    return z
