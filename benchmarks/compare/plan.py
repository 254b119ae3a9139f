"""Which environments, methods and seeds are compared, as experiments of `kinbandits.experiments`.

For every environment there are two: the *grid*, all settings of every peer on the first seeds, and the *final*, the
best settings of every peer and our own methods on all seeds. Cells in common are computed once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from compare.catalogue import PEERS, installed
from kinbandits.environments import Environment
from kinbandits.errors import InvalidInputError
from kinbandits.experiments.config import EnvironmentConfig, Experiment, experiment_of, policies

__all__ = ["DATA", "DEFAULT", "INVERSE", "OURS", "Plan", "setting_name"]

DATA = ("digits", "segment", "hidden-0", "hidden-0.5", "hidden-0.9", "pendigits", "letter", "usps", "mnist")
"""The six sets, and the hidden-descriptor problem at three similarities."""
CLICKS = tuple(f"clicks-{arms}-{rate}" for arms in (12, 50) for rate in (3, 13, 50))
"""Arms and click rate in percent."""
_TITLES = {"usps": "USPS", "mnist": "MNIST"}

DEFAULT, INVERSE = "kinbandits default", "kinbandits InverseGap"
OURS = (DEFAULT, INVERSE, "EpsilonGreedy", "UCB1", "Uniform")
"""Rows of ours: out of the box, with propensities, and baselines; any policy may be
named."""


def title(name: str) -> str:
    """Of a data set."""
    if name.startswith("hidden-"):
        return f"Hidden descriptors, similarity {name.removeprefix('hidden-')}"
    if name in CLICKS:
        _, arms, rate = name.split("-")
        return f"Clicks, {arms} arms, {rate} %"
    return _TITLES.get(name, name.capitalize())


@dataclass(frozen=True)
class Plan:
    """What is compared.

    Attributes:
        data: names of `DATA`.
        peers: names of `PEERS`; those not installed are left out.
        ours: names of `OURS`, or of any policy.
        seeds: how many.
        grid_seeds: on how many of them settings of peers are chosen; they count in the result all the same.
        grid_size: how many settings of each peer are tried; default all.
        chosen: a file of settings that a grid chose before, by data set and peer: for these no grid is run.
        horizon: at most so many rounds.
        streams: a file of row numbers, as for ``kinbandits paper``.
    """

    data: tuple[str, ...] = DATA
    peers: tuple[str, ...] = tuple(PEERS)
    ours: tuple[str, ...] = OURS
    seeds: int = 10
    grid_seeds: int = 2
    grid_size: int | None = None
    chosen: str | PathLike[str] | None = None
    horizon: int | None = None
    streams: str | PathLike[str] | None = None

    def __post_init__(self) -> None:
        for what, given, known in (
            ("data set", self.data, (*DATA, *CLICKS)),
            ("peer", self.peers, tuple(PEERS)),
            ("method of ours", self.ours, (*OURS, *policies())),
        ):
            for name in given:
                if name not in known:
                    raise InvalidInputError(f"there is no {what} {name!r}; there are {', '.join(dict.fromkeys(known))}")
        if not self.data or not self.ours:
            raise InvalidInputError("name at least one data set and one method of ours")

    def environment(self, name: str) -> dict[str, Any]:
        """The environment of a data set, as an experiment names it."""
        table: dict[str, Any] = {"name": title(name)}
        if name.startswith("hidden-"):
            horizon = min(self.horizon or 1000, 1000)
            similarity = float(name.removeprefix("hidden-"))
            return table | {"kind": "hidden-descriptors", "similarity": similarity, "horizon": horizon}
        if name in CLICKS:
            arms, rate = map(int, name.split("-")[1:])
            horizon = min(self.horizon or 1000, 1000)
            return table | {"kind": "clicks", "n_arms": arms, "click_rate": rate / 100.0, "horizon": horizon}
        if self.streams is not None:
            table |= {"kind": "streams", "data": name, "path": str(self.streams)}
        else:
            table |= {"kind": "classification", "data": name, "protocol": "paper"}
        if self.horizon is not None:
            longest = EnvironmentConfig.model_validate(table).make(0).horizon
            if self.horizon < longest:  # games that are no longer anyway are the same games
                table["horizon"] = self.horizon
        return table

    def here(self) -> list[str]:
        """The peers that are installed."""
        return installed(self.peers)

    def tried(self, peer: str, name: str) -> tuple[dict[str, Any], ...]:
        """The settings of a peer that are tried on a data set."""
        if self.chosen is not None:
            known = json.loads(Path(self.chosen).read_text(encoding="utf-8")).get(name, {}).get(peer)
            if known is not None:
                return (known,)
        grid = PEERS[peer].grid
        if name in CLICKS:  # whose features have one scale: to centre them is to standardise them
            grid = tuple(s for s in grid if s.get("scaling") != "centred") or grid
        return grid[: self.grid_size]

    def left_out(self, name: str) -> dict[str, str]:
        """Peers that are not run on a data set, and why."""
        environment = self._make(name)
        n_arms, n_features = len(environment.arms), next(iter(environment.rounds())).context.shape[-1]
        found = {p: PEERS[p].too_large(n_arms, n_features) for p in self.here()}
        fit = {p: why for p, why in found.items() if why is not None}
        return fit | {p: "it is for rewards of 0 and 1" for p in found if not name.startswith(PEERS[p].only)}

    def chooses_for(self, peer: str, name: str) -> str:
        """The peer whose grid decides: its own, or that of one with the same algorithm which is run as well."""
        like = PEERS[peer].like
        return like if like in self.here() and like not in self.left_out(name) else peer

    def grid(self, name: str) -> Experiment | None:
        """All settings of every peer that has several, on the first seeds."""
        methods = [
            {"name": setting_name(peer, s), "policy": PEERS[peer].policy, **s}
            for peer in self.here()
            if peer not in self.left_out(name) and self.chooses_for(peer, name) == peer
            for s in self.tried(peer, name)
            if len(self.tried(peer, name)) > 1
        ]
        if not methods:
            return None
        return self._experiment(name, methods, min(self.grid_seeds, self.seeds))

    def final(self, name: str, best: Mapping[str, dict[str, Any]]) -> Experiment:
        """The best settings of every peer, and our methods, on all seeds."""
        methods = [{"name": setting_name(p, s), "policy": PEERS[p].policy, **s} for p, s in best.items()]
        for ours in self.ours:
            if ours == DEFAULT:
                methods.append({"name": ours})
            elif ours == INVERSE:
                methods.append({"name": ours, "exploration": {"type": "InverseGap"}})
            else:
                methods.append({"name": ours, "policy": ours})
        return self._experiment(name, methods, self.seeds)

    def _experiment(self, name: str, methods: list[dict[str, Any]], seeds: int) -> Experiment:
        return experiment_of(
            {
                "name": f"comparison on {title(name)}",
                "seeds": seeds,
                "environments": [self.environment(name)],
                "methods": methods,
            }
        )

    def _make(self, name: str) -> Environment:
        return EnvironmentConfig.model_validate(self.environment(name)).make(0)


def setting_name(peer: str, settings: Mapping[str, Any]) -> str:
    """A name for a peer with its settings, different for different ones."""
    return f"{peer} " + setting_text(settings)


def setting_text(settings: Mapping[str, Any]) -> str:
    """Settings as a person would note them."""
    shown = [
        f"{v}" if k in ("options", "scaling", "rule") else f"{k} {v}" for k, v in settings.items() if k != "divide"
    ]
    if settings.get("divide") is False:
        shown.append("features not divided")
    return ", ".join(shown)


def check_sequence(text: str | None, default: Sequence[str]) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(default) if text is None else tuple(n.strip() for n in text.split(",") if n.strip())
