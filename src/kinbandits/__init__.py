"""Contextual bandits whose arms are kin: what one arm learns helps the arms that resemble it.

>>> import kinbandits as kb
>>> policy = kb.KMTLUCB(arms=["sport", "science", "music"])
>>> decision = policy.choose([0.3, 0.8])              # a context: who is asking
>>> policy.update(decision, reward=1.0)               # now, or much later
>>> policy.n_observations
1
"""

from typing import Any as _Any

from kinbandits import datasets, environments, errors, presets, theory
from kinbandits._version import __version__
from kinbandits.exploration import (
    AgnosticExploration,
    ConfidenceExploration,
    ConstantExploration,
    Decaying,
    GPUCBExploration,
    LogExploration,
)
from kinbandits.kernels import RBF, Constant, Kernel, Linear, Matern, Median, RationalQuadratic
from kinbandits.memory import Forgetting, Window
from kinbandits.policies import (
    CGPUCB,
    CLUB,
    COFIBA,
    GPUCB,
    KMTLUCB,
    UCB1,
    BetaThompson,
    Decision,
    Decisions,
    EpsilonGreedy,
    Explanation,
    GaussianThompson,
    GOBLin,
    KernelUCB,
    LinUCB,
    Policy,
    SupKernelUCB,
    SupKMTLUCB,
    SupLinUCB,
    Uniform,
    load,
)
from kinbandits.regression import Prediction
from kinbandits.representation import PrincipalComponents, Represented, RewardDirections
from kinbandits.sampling import PosteriorSampling
from kinbandits.similarity import (
    Adaptive,
    Clustered,
    Estimated,
    Graph,
    Independent,
    Known,
    Mixed,
    OnlineClusters,
    Pooled,
    Similarity,
)
from kinbandits.simulate import play, simulate
from kinbandits.terms import Term
from kinbandits.trace import Trace
from kinbandits.tuning import Tuned, tune

__all__ = [
    "CGPUCB",
    "CLUB",
    "COFIBA",
    "GPUCB",
    "KMTLUCB",
    "RBF",
    "UCB1",
    "Adaptive",
    "AgnosticExploration",
    "BetaThompson",
    "Clustered",
    "ConfidenceExploration",
    "Constant",
    "ConstantExploration",
    "Decaying",
    "Decision",
    "Decisions",
    "EpsilonGreedy",
    "Estimated",
    "Explanation",
    "Forgetting",
    "GOBLin",
    "GPUCBExploration",
    "GaussianThompson",
    "Graph",
    "Independent",
    "Kernel",
    "KernelUCB",
    "Known",
    "LinUCB",
    "Linear",
    "LogExploration",
    "Matern",
    "Median",
    "Mixed",
    "OnlineClusters",
    "Policy",
    "Pooled",
    "PosteriorSampling",
    "Prediction",
    "PrincipalComponents",
    "RationalQuadratic",
    "Represented",
    "RewardDirections",
    "Similarity",
    "SupKMTLUCB",
    "SupKernelUCB",
    "SupLinUCB",
    "Term",
    "Trace",
    "Tuned",
    "Uniform",
    "Window",
    "__version__",
    "datasets",
    "environments",
    "errors",
    "load",
    "play",
    "presets",
    "simulate",
    "theory",
    "tune",
]


def __getattr__(name: str) -> _Any:
    """`MultiTaskKernelRidge` is a scikit-learn estimator: it is imported when it is asked for."""
    if name == "MultiTaskKernelRidge":
        from kinbandits.multitask import MultiTaskKernelRidge

        return MultiTaskKernelRidge
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
