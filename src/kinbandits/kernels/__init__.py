"""Kernels on contexts, as frozen values.

A kernel is called with two arrays of rows and gives the matrix of its values; ``diag`` gives k(x, x) of
each row and never builds a matrix. Kernels add, multiply and scale::

    kb.RBF(length_scale=1.5) + 0.1 * kb.Linear()

Notation
    A       (n, d)  rows            ell  length_scale, one number or one per feature
    B       (m, d)  rows            r    distance of two rows after division by ell
    K       (n, m)  K[i, j] = k(A[i], B[j])

Every entry of K depends on its two rows alone, to the last bit (distances are summed pair by pair, not
by a matrix product), so that a matrix grown row by row equals one computed at once. The inner product of
`Linear` is the exception.
"""

from kinbandits.kernels.algebra import Foreign, Kernel, Product, Scaled, Sum, as_kernel
from kinbandits.kernels.functions import (
    DEFAULT_KERNEL,
    RBF,
    Constant,
    Linear,
    Matern,
    Median,
    RationalQuadratic,
    Stationary,
    cdist,
    median_distance,
)

__all__ = [
    "DEFAULT_KERNEL",
    "RBF",
    "Constant",
    "Foreign",
    "Kernel",
    "Linear",
    "Matern",
    "Median",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Stationary",
    "Sum",
    "as_kernel",
    "cdist",
    "median_distance",
]
