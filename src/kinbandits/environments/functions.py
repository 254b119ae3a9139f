"""Functions of a context, one for each arm, drawn from a Gaussian process: what drawn environments are made of.

Notation
    K_arm  (N, N)    how alike the functions are
    Phi    (n, D)    random Fourier features of an RBF on the contexts; the contexts themselves for linear functions
    W      (N, D)    root of K_arm times standard normals
    f      (n, N)    Phi W': draws from a Gaussian process with kernel K_arm times RBF
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kinbandits._types import Matrix, Vector
from kinbandits.environments.base import symmetric_root

__all__ = ["ArmFunctions"]


@dataclass(frozen=True, eq=False)
class ArmFunctions:
    """f_a(x), of variance 1 at every x (for linear ones: at contexts whose columns have variance 1).

    With ``drift`` above 0 the functions turn as time goes from 0 to 1: f = cos(u) f_0 + sin(u) f_1 with u = drift
    pi / 2 times the time. At drift 1 nothing is left at the end of what was at the start.
    """

    weights: Matrix
    turned: Matrix
    frequencies: Matrix | None
    phases: Vector
    drift: float = 0.0

    @classmethod
    def draw(
        cls,
        features: np.random.Generator,
        weights: np.random.Generator,
        K_arm: Matrix,
        n_features: int,
        length_scale: float | None,
        size: int,
        drift: float = 0.0,
    ) -> ArmFunctions:
        """Functions of ``n_features`` columns with this length scale; linear ones if it is None."""
        frequencies, phases, D = None, np.empty(0), n_features
        if length_scale is not None:
            frequencies = features.standard_normal((n_features, size)) / length_scale
            phases, D = features.uniform(0.0, 2.0 * math.pi, size), size
        kin = symmetric_root(K_arm)
        W = kin @ weights.standard_normal((len(K_arm), D))
        turned = kin @ weights.standard_normal((len(K_arm), D)) if drift else W
        return cls(W, turned, frequencies, phases, drift)

    def features(self, X: Matrix) -> Matrix:
        """Phi."""
        if self.frequencies is None:
            return X / math.sqrt(X.shape[1])
        return np.asarray(math.sqrt(2.0 / len(self.phases)) * np.cos(X @ self.frequencies + self.phases))

    def weights_at(self, time: float) -> Matrix:
        """W at a time between 0 (the start) and 1 (the end)."""
        if not self.drift:
            return self.weights
        u = 0.5 * math.pi * self.drift * time
        return np.asarray(math.cos(u) * self.weights + math.sin(u) * self.turned)
