"""Kernels on contexts, as frozen values.

A kernel is called with two arrays of rows and gives the matrix of its values; ``diag`` gives k(x, x) of
each row and never builds a matrix. Kernels add, multiply and scale::

    kb.RBF(length_scale=1.5) + 0.1 * kb.Linear()

What is read off the data, such as a median length scale, is a rule whose `fit` gives a kernel (`rules`).

Notation
    A       (n, d)  rows            ell  length_scale, one number or one per feature
    B       (m, d)  rows            r    distance of two rows after division by ell
    K       (n, m)  K[i, j] = k(A[i], B[j])

Every entry of K depends on its two rows alone, to the last bit (but for `Linear`), so that a matrix grown row by
row equals one computed at once.
"""

from kinbandits.kernels.algebra import Foreign, Kernel, Product, Scaled, Sum, as_kernel
from kinbandits.kernels.functions import (
    RBF,
    ArcCosine,
    Constant,
    Linear,
    Matern,
    RationalQuadratic,
    Stationary,
    cdist,
    median_distance,
)
from kinbandits.kernels.rules import DEFAULT_KERNEL, Combined, KernelRule, Median, as_kernel_or_rule
from kinbandits.kernels.with_linear import DEFAULT_RULE, WithLinear

__all__ = [
    "DEFAULT_KERNEL", "DEFAULT_RULE", "RBF", "ArcCosine", "Combined", "Constant", "Foreign", "Kernel", "KernelRule",
    "Linear", "Matern", "Median", "Product", "RationalQuadratic", "Scaled", "Stationary", "Sum", "WithLinear",
    "as_kernel", "as_kernel_or_rule", "cdist", "median_distance",
]  # fmt: skip
