"""The peers by name, with the settings tried for each. A new peer is a class in `peers` and an entry here."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

__all__ = ["PEERS", "PeerEntry", "installed", "version"]


@dataclass(frozen=True)
class PeerEntry:
    """A row of the comparison.

    Attributes:
        title: for tables.
        package: what must be installed.
        policy: the class here.
        grid: the settings tried, the likeliest first.
        like: a peer with the same algorithm (the tests see equal arms), whose best settings are taken if it is run.
        joint: whether it has one matrix over all arms and features; if that is above `LARGEST` it is not run.
        own: whether it is ours.
        family: of algorithms, for the summary. All but ``"linear"`` and ``"Vowpal Wabbit"`` are written here.
        only: the problems it is run on begin so.
        slow: whether a run takes minutes, so that it is left out where T times arms is large.
    """

    title: str
    package: str
    policy: str
    grid: tuple[dict[str, Any], ...] = field(repr=False)
    like: str | None = None
    joint: bool = False
    own: bool = False
    family: str = "linear"
    only: str = ""
    slow: bool = False

    LARGEST: ClassVar[int] = 4_000_000

    @property
    def library(self) -> bool:
        """Whether it is somebody else's."""
        return not self.own and self.family in ("linear", "Vowpal Wabbit")

    def too_large(self, n_arms: int, n_features: int) -> str | None:
        """Why it is not run on a problem of this size, or None."""
        if self.slow and n_arms * n_features > 1000:
            return "a run takes many minutes"
        side = (n_features + 1) * (n_arms if self.joint else 1)
        if side**2 <= self.LARGEST:
            return None
        return f"its matrix over arms and features has {side:,} rows; minutes a run"


def _linear(**others: Any) -> tuple[dict[str, Any], ...]:
    return tuple(
        {"alpha": alpha, "ridge": ridge, "scaling": scaling, **others}
        for alpha in (0.3, 0.1, 1.0)
        for ridge in (0.2, 1.0)
        for scaling in ("standard", "centred")
    )


def _scalings(*settings: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return tuple({**s, "scaling": scaling} for s in settings for scaling in ("standard", "centred"))


def _kernels(**others: Any) -> tuple[dict[str, Any], ...]:
    """Length scales around the median distance of scaled features, which is near 1.4."""
    return tuple(
        {"length_scale": scale, "ridge": ridge, "exploration": beta, "scaling": scaling, **others}
        for ridge, beta in ((0.01, 0.1), (0.1, 0.3))
        for scale, scaling in ((1.0, "centred"), (0.7, "centred"), (1.0, "standard"))
    )


_HERE = "compare.peers:"
_LIKE = "contextualbandits"
_LOGISTIC = "--loss_function logistic --logistic_min 0 --logistic_max 1 --link logistic"
PEERS: dict[str, PeerEntry] = {
    "contextualbandits": PeerEntry(
        "contextualbandits LinUCB", "contextualbandits", _HERE + "ContextualBandits", _linear()
    ),
    "mabwiser-linucb": PeerEntry("MABWiser LinUCB", "mabwiser", _HERE + "MABWiser", _linear(), like=_LIKE),
    "coba": PeerEntry("coba LinUCB", "coba", _HERE + "Coba", _linear(), like=_LIKE, joint=True),
    "kinbandits-linucb": PeerEntry(
        "LinUCB of ours, features of peers", "kinbandits", _HERE + "OursLinear", _linear(), like=_LIKE, own=True
    ),
    "mabwiser-lints": PeerEntry(
        "MABWiser LinTS",
        "mabwiser",
        _HERE + "MABWiser",
        _scalings(*({"rule": "LinTS", "alpha": a, "ridge": r} for a, r in ((0.1, 0.1), (0.3, 0.3), (0.1, 1.0)))),
    ),
    "bayesianbandits-ucb": PeerEntry(
        "bayesianbandits UCB",
        "bayesianbandits",
        _HERE + "BayesianBandits",
        _scalings(
            *(
                {"prior": p, "noise": n, "q": q}
                for p, n in ((10.0, 100.0), (5.0, 25.0), (2.0, 5.0))
                for q in (0.975, 0.84)
            )
        ),
    ),
    "bayesianbandits-ts": PeerEntry(
        "bayesianbandits Thompson",
        "bayesianbandits",
        _HERE + "BayesianBandits",
        _scalings({"prior": 100.0, "noise": 1000.0}, {"prior": 20.0, "noise": 100.0}, {"prior": 5.0, "noise": 20.0}),
    ),
    **{
        f"bayesianbandits-logistic-{name}": PeerEntry(
            f"bayesianbandits logistic {rule}",
            "bayesianbandits",
            _HERE + "BayesianBandits",
            tuple({"prior": prior} | knobs for prior in (1.0, 0.1, 5.0)),
            only="clicks",
        )
        for name, rule, knobs in (("ts", "Thompson", {}), ("ucb", "UCB", {"q": 0.84}))
    },
    "contextualbandits-logistic": PeerEntry(
        "contextualbandits logistic UCB",
        "contextualbandits",
        _HERE + "ContextualLogistic",
        tuple({"percentile": p, "ridge": r} for p in (80, 60) for r in (1.0, 0.1)),
        only="clicks",
    ),
    "river": PeerEntry(
        "river LinUCBDisjoint",
        "river",
        _HERE + "River",
        _scalings({"prior": 3.0, "noise": 10.0}, {"prior": 1.0, "noise": 3.0}, {"prior": 10.0, "noise": 100.0}),
    ),
    "vowpalwabbit": PeerEntry(
        "Vowpal Wabbit",
        "vowpalwabbit",
        _HERE + "VowpalWabbit",
        (
            {"options": "--squarecb --gamma_scale 1000 -q UA --interactions UUA"},
            {"options": "--regcbopt --mellowness 0.01 -q UA --interactions UUA"},
            {"options": "--squarecb --gamma_scale 1000 -q UA -l 0.1", "divide": False},
            {"options": "--squarecb --gamma_scale 1000 -q UA"},
            {"options": "--regcbopt --mellowness 0.01 -q UA"},
            {"options": "--epsilon 0 -q UA", "divide": False},
            {"options": "--epsilon 0.02 -q UA --interactions UUA"},
            {"options": "--squarecb --gamma_scale 100 -q UA --interactions UUA", "scaling": "centred"},
        ),
        family="Vowpal Wabbit",
    ),
    "vowpalwabbit-logistic": PeerEntry(
        "Vowpal Wabbit, logistic loss",
        "vowpalwabbit",
        _HERE + "VowpalWabbit",
        tuple(
            {"options": f"{rule} -q UA {_LOGISTIC}"}
            for rule in (
                "--squarecb --gamma_scale 100",
                "--squarecb --gamma_scale 10",
                "--squarecb --gamma_scale 1000",
                "--bag 5",
                "--cover 3",
            )
        ),
        family="Vowpal Wabbit",
        only="clicks",
    ),
    **{
        name: PeerEntry(title, "scipy", f"compare.projected:{policy}", _kernels(**knobs), family="kernel", slow=slow)
        for name, title, policy, knobs, slow in (
            ("ek-ucb", "EK-UCB", "EKUCB", {"mu": 0.1}, False),
            ("batch-bkb", "batch BKB", "BatchBKB", {"C": 1000.0}, False),
            ("bkb", "BKB", "BKB", {}, True),
        )
    },
    "sup-kernel-ucb": PeerEntry(
        "SupKernelUCB", "scipy", "compare.projected:SupKernel", _kernels(), family="kernel", slow=True
    ),
    **{
        name: PeerEntry(name, "torch", f"compare.neural:{name}", grid, family="neural")
        for name, grid in (
            ("NeuralUCB", tuple({"nu": nu, "ridge": 0.1, "scaling": "centred"} for nu in (0.1, 0.03, 0.3))),
            ("NeuralTS", tuple({"nu": nu, "ridge": 0.1, "scaling": "centred"} for nu in (0.1, 0.03, 0.3))),
            ("NeuralLinear", tuple({"b0": b, "scaling": "centred"} for b in (0.1, 1.0, 6.0))),
        )
    },
}


def installed(names: Sequence[str] | None = None) -> list[str]:
    """The peers whose package is here."""
    return [n for n in (PEERS if names is None else names) if importlib.util.find_spec(PEERS[n].package) is not None]


def version(package: str) -> str:
    """Of an installed package."""
    return importlib.metadata.version(package)
