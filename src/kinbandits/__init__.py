"""Contextual bandits whose arms are kin: what one arm learns helps the arms that resemble it.

>>> import kinbandits as kb
>>> policy = kb.KMTLUCB(arms=["sport", "science", "music"])
>>> decision = policy.choose([0.3, 0.8])              # a context: who is asking
>>> policy.update(decision, reward=1.0)               # now, or much later
>>> policy.n_observations
1

What is not here is in a sub-package: `baselines`, `contrib`, `datasets`, `environments`, `errors`,
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
    regression,
    representation,
    rewards,
    similarity,
    theory,
    trace,
)
from kinbandits._renamed import NAMES as _NAMES
from kinbandits._value import meant as _meant
from kinbandits._version import __version__
from kinbandits.fit import fit
from kinbandits.kernels import RBF, Linear, Matern, Median, RationalQuadratic
from kinbandits.logs import Log
from kinbandits.memory import Forgetting, Window
from kinbandits.noise import LearnedRidge
from kinbandits.policies import KMTLUCB, Budgeted, Decision, Pending, load
from kinbandits.rewards import OneOfN, Range, Running
from kinbandits.rules import UCB, InverseGap, Thompson
from kinbandits.similarity import Adaptive, Estimated, Graph, Independent, Known, Mixed, Pooled
from kinbandits.simulate import simulate
from kinbandits.terms import Term

if _TYPE_CHECKING:
    from kinbandits import datasets, environments, ope
    from kinbandits.paper import presets

# Not needed to play: imported when they are asked for.
_LATER = ("datasets", "environments", "ope", "presets")
_ELSEWHERE = {"presets": "paper.presets"}
_LATER_NAMES = {"compare": "results", "MultiTaskKernelRidge": "multitask"}

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
    "Log",
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
    "fit",
    "load",
    "simulate",
]  # fmt: skip


def __getattr__(name: str) -> _Any:
    """What needs more than the main path; of a name that is in one of the rooms, or has another now, say where."""
    if name in _LATER:
        return _import_module(f"kinbandits.{_ELSEWHERE.get(name, name)}")
    if name in _LATER_NAMES:
        return getattr(_import_module(f"kinbandits.{_LATER_NAMES[name]}"), name)
    rooms = {n: room for n, room in globals().items() if not n.startswith("_") and hasattr(room, "__all__")}
    elsewhere = {k: f"kb.{n}.{k}" for n, room in rooms.items() for k in room.__all__} | _NAMES
    if name in elsewhere:
        raise AttributeError(f"kinbandits.{name} is now {elsewhere[name]}")
    hint = _meant(name, [*__all__, *_LATER, *elsewhere, *(n for n in globals() if not n.startswith("_"))])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
