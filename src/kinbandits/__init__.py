"""Contextual bandits whose arms are kin: what one arm learns helps the arms that resemble it.

>>> import kinbandits as kb
>>> policy = kb.KMTLUCB(arms=["sport", "science", "music"])
>>> decision = policy.choose([0.3, 0.8])              # a context: who is asking
>>> policy.update(decision, reward=1.0)               # now, or much later
>>> policy.n_observations
1

More is in the sub-packages `baselines`, `datasets`, `environments`, `errors`, `ope`, `presets`, `testing`, `theory`.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from kinbandits import baselines, errors, kernels, rules, similarity, theory
from kinbandits._value import suggest as _suggest
from kinbandits._version import __version__
from kinbandits.fit import fit
from kinbandits.kernels import RBF, Constant, Linear, Matern, RationalQuadratic
from kinbandits.logs import Log
from kinbandits.model import Model, Scale
from kinbandits.policy import KMTLUCB, Budgeted, Decision, SupKMTLUCB, Window, load
from kinbandits.rules import UCB, InverseGap, Thompson
from kinbandits.similarity import Estimated, Graph, Independent, Known, Learned, Mixed, Pooled
from kinbandits.simulate import simulate
from kinbandits.terms import Term

if _TYPE_CHECKING:
    from kinbandits import datasets, environments, ope, testing

# Not needed to play: imported when they are asked for.
_ROOMS = ("datasets", "environments", "ope", "plotting", "presets", "testing")

__all__ = [
    "KMTLUCB", "RBF", "UCB", "Budgeted", "Constant", "Decision", "Estimated", "Graph", "Independent", "InverseGap",
    "Known", "Learned", "Linear", "Log", "Matern", "Mixed", "Model", "Pooled", "RationalQuadratic", "Scale",
    "SupKMTLUCB", "Term", "Thompson", "Window", "compare", "fit", "load", "simulate",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    """What needs more than the main path; for a name that is not here, say which one was meant."""
    if name == "compare":
        return _import_module("kinbandits.results").compare
    if name in _ROOMS:
        return _import_module("kinbandits.paper.presets" if name == "presets" else f"kinbandits.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_suggest(name, [*__all__, *_ROOMS])}")
