"""The paper's analysis as pure functions: numbers in, a bound out, with the paper's number in each docstring.

``regret`` holds confidence factors, Theorem 1 and the steps of its proof, and the bounds of neighbours;
``spectrum`` what a kernel matrix says (log g, ranks, Theorems 2 and 3, Corollary 1); ``widths`` the bounds on the
width s; ``self_normalised`` a bound for KMTL-UCB itself, and what a wrong similarity costs. Every function refuses
arguments outside the conditions of its statement and says which one.

>>> import kinbandits as kb
>>> K = kb.theory.equicorrelated(mu=0.5, n_arms=3)
>>> round(kb.theory.log_g(K, ridge=1.0), 4)
1.9095
"""

from kinbandits.theory.regret import (
    cgp_ucb_bound,
    cgp_ucb_prior_bound,
    cgp_ucb_rate,
    confidence_factor,
    gap_bound,
    kmtl_ucb_rate,
    lin_ucb_rate,
    n_stages,
    radius,
    regret_bound,
    stage_delta,
    stage_size_bound,
)
from kinbandits.theory.self_normalised import (
    check_self_normalised,
    norm_inflation,
    self_normalised_bound,
    self_normalised_factor,
    task_bias_bound,
    task_factors,
    task_kernel,
    task_norm_bound,
)
from kinbandits.theory.spectrum import (
    effective_rank,
    effective_rank_bound,
    equicorrelated,
    information_gain,
    log_g,
    log_g_of_similarity,
    rank_bound,
)
from kinbandits.theory.widths import squared_width_sum_bound, width_lower_bound, width_sum_bound, width_upper_bound

__all__ = [
    "cgp_ucb_bound", "cgp_ucb_prior_bound", "cgp_ucb_rate", "check_self_normalised", "confidence_factor",
    "effective_rank", "effective_rank_bound", "equicorrelated", "gap_bound", "information_gain", "kmtl_ucb_rate",
    "lin_ucb_rate", "log_g", "log_g_of_similarity", "n_stages", "norm_inflation", "radius", "rank_bound",
    "regret_bound", "self_normalised_bound", "self_normalised_factor", "squared_width_sum_bound", "stage_delta",
    "stage_size_bound", "task_bias_bound", "task_factors", "task_kernel", "task_norm_bound", "width_lower_bound",
    "width_sum_bound", "width_upper_bound",
]  # fmt: skip
