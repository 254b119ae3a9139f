"""Contextual bandits whose arms are kin: what one arm learns helps the arms that resemble it.

>>> import kinbandits as kb
>>> policy = kb.KMTLUCB(arms=["sport", "science", "music"])
>>> decision = policy.choose([0.3, 0.8])              # a context: who is asking
>>> policy.update(decision, reward=1.0)               # now, or much later
>>> policy.n_observations
1

What is not here is in a sub-package: `baselines`, `bulk`, `contrib`, `datasets`, `environments`, `errors`,
`exploration`, `kernels`, `ope`, `presets`, `representation`, `rewards`, `similarity`, `theory`.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from kinbandits import (
    baselines,
    contrib,
    errors,
    exploration,
    kernels,
    policies,
    presets,
    regression,
    representation,
    rewards,
    similarity,
    theory,
    trace,
    tuning,
)
from kinbandits._renamed import NAMES as _NAMES
from kinbandits._value import meant as _meant
from kinbandits._version import __version__
from kinbandits.kernels import RBF, Linear, Matern, Median, RationalQuadratic
from kinbandits.memory import Forgetting, Window
from kinbandits.noise import LearnedRidge
from kinbandits.policies import KMTLUCB, Budgeted, Decision, Pending, load
from kinbandits.rewards import OneOfN, Range, Running
from kinbandits.rules import UCB, InverseGap, Thompson
from kinbandits.similarity import Adaptive, Estimated, Graph, Independent, Known, Mixed, Pooled
from kinbandits.simulate import simulate
from kinbandits.terms import Term
from kinbandits.tuning import tune

if _TYPE_CHECKING:
    from kinbandits import bulk, datasets, environments, ope

_LATER = ("bulk", "datasets", "environments", "ope")  # not needed to play: imported when they are asked for

__all__ = [
    "KMTLUCB",
    "RBF",
    "UCB",
    "Adaptive",
    "Budgeted",
    "Decision",
    "Estimated",
    "Forgetting",
    "Graph",
    "Independent",
    "InverseGap",
    "Known",
    "LearnedRidge",
    "Linear",
    "Matern",
    "Median",
    "Mixed",
    "OneOfN",
    "Pending",
    "Pooled",
    "Range",
    "RationalQuadratic",
    "Running",
    "Term",
    "Thompson",
    "Window",
    "compare",
    "load",
    "simulate",
    "tune",
]


def __getattr__(name: str) -> _Any:
    """Old names say where they are now; what needs more than the main path is imported when it is asked for."""
    if name in _LATER:
        return _import_module(f"kinbandits.{name}")
    if name == "compare":
        from kinbandits.report.comparing import compare

        return compare
    if name == "MultiTaskKernelRidge":
        from kinbandits.multitask import MultiTaskKernelRidge

        return MultiTaskKernelRidge
    if name in _NAMES:
        raise AttributeError(f"kinbandits.{name} is now {_NAMES[name]}")
    hint = _meant(name, [*__all__, *_LATER, *_NAMES, *(n for n in globals() if not n.startswith("_"))])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
