"""Playing: settings are chosen on seeds that are not scored, then every method plays the scored seeds.

A finished game is one small file, named by a hash of everything that decides it: problem, method, settings, seed, and
version of the library (of ours: of the sources). Stop and go on as you like; problems, methods and seeds may be added.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.metadata
import importlib.util
import itertools
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import kinbandits as kb
from compare.peers import LIBRARIES, Peer
from compare.problems import PROBLEMS, Problem
from compare.written import WRITTEN
from kinbandits._files import atomic_write

TUNING = (100, 101)
"""Seeds on which settings are chosen. The second is played by the best `FINALISTS` of the first only."""
FINALISTS = 3
DECIDING = [
    "environments",
    "history.py",
    "kernels.py",
    "model",
    "policy",
    "regression",
    "rules.py",
    "terms.py",
    "similarity.py",
]
PEERS: dict[str, type[Peer]] = {**LIBRARIES, **WRITTEN}


@dataclass(frozen=True)
class Ours:
    """A policy of ours: what is set for an environment, in words and in fact, and on which problems."""

    title: str
    settings: str
    knobs: Callable[[Any], dict[str, Any]]
    only: Callable[[Problem], bool] = lambda problem: True


def _known(environment: Any) -> Any:
    """The true similarity, or the one that the descriptors give."""
    matrix = getattr(environment, "similarity_matrix", None)
    return kb.Learned(kb.Known(descriptors=environment.descriptors)) if matrix is None else kb.Known(matrix)


_KNOWN = "`similarity=kb.Known(...)`; catalogue: `kb.Learned(kb.Known(descriptors=...))`"
OURS = {
    "ours": Ours("kinbandits default", "nothing set", lambda e: {}),
    "ours-inverse-gap": Ours(
        "kinbandits InverseGap", "`exploration=kb.InverseGap()`", lambda e: {"exploration": kb.InverseGap()}
    ),
    "ours-known": Ours(
        "kinbandits, similarity known", _KNOWN, lambda e: {"similarity": _known(e)}, lambda p: p.related
    ),
    "ours-window": Ours(
        "kinbandits, window",
        "`memory=kb.Window(500)`",
        lambda e: {"memory": kb.Window(500)},
        lambda p: p.name == "drift",
    ),
}
METHODS = (*OURS, *PEERS)


def title(method: str) -> str:
    return OURS[method].title if method in OURS else PEERS[method].title


@cache
def _version(method: str) -> str:
    """Of a library, or a hash of our sources that decisions depend on."""
    if method in PEERS:
        return importlib.metadata.version(PEERS[method].package)
    digest, package = hashlib.sha256(), Path(kb.__file__).parent
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] in DECIDING:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@dataclass(frozen=True)
class Game:
    """One method on one problem with one seed."""

    problem: str
    method: str
    seed: int
    settings: dict[str, Any]

    def record(self) -> dict[str, Any]:
        """Everything that decides the result."""
        return {
            "problem": PROBLEMS[self.problem].fields,
            "method": self.method,
            "version": _version(self.method),
            "settings": self.settings,
            "seed": self.seed,
        }

    @property
    def id(self) -> str:
        return hashlib.sha256(json.dumps(self.record(), sort_keys=True).encode()).hexdigest()[:20]

    def policy(self, environment: Any) -> Any:
        if self.method in OURS:
            return kb.KMTLUCB(environment.arms, seed=self.seed, **OURS[self.method].knobs(environment))
        return PEERS[self.method](PROBLEMS[self.problem].setup(self.seed), **self.settings)


def installed(method: str) -> bool:
    """Whether the library is here."""
    return method in OURS or importlib.util.find_spec(PEERS[method].package) is not None


def why_not(problem: str, method: str) -> str | None:
    """Why a method is not run on a problem; None if it is."""
    if method in OURS:
        return None if OURS[method].only(PROBLEMS[problem]) else "not asked"
    if not installed(method):
        return "not installed"
    return PEERS[method].why_not(PROBLEMS[problem])


def play(policy: Any, environment: Any, rounds: int | None = None) -> dict[str, float]:
    """Final regret (expected where means are known) and CPU milliseconds a decision and its update."""
    names, contexts, rewards = environment.start_rows()
    games = list(itertools.islice(environment.rounds(), rounds))
    if len(names):
        policy.observe(names, contexts, rewards)
    regret, seconds = 0.0, 0.0
    for r in games:
        clock = time.process_time()
        decision = policy.choose(r.context, r.candidates)
        seconds += time.process_time() - clock
        i = decision.index
        paid = r.rewards if r.means is None else r.means
        regret += float(paid.max() - paid[i])
        clock = time.process_time()
        policy.update(decision, float(r.rewards[i]))
        seconds += time.process_time() - clock
    return {"regret": regret, "cpu_ms": 1000.0 * seconds / len(games), "rounds": len(games)}


def _play(game: Game) -> dict[str, float]:
    environment = PROBLEMS[game.problem].make(game.seed)
    with threadpool_limits(1):
        return play(game.policy(environment), environment)


class Cells:
    """Finished games in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def get(self, game: Game) -> dict[str, Any] | None:
        path = self.directory / f"{game.id}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def played(self, game: Game) -> dict[str, Any]:
        """From the directory, or played now."""
        found = self.get(game)
        if found is None:
            found = {**_play(game), "game": game.record()}
            self.directory.mkdir(parents=True, exist_ok=True)
            atomic_write(self.directory / f"{game.id}.json", json.dumps(found).encode())
        return found

    def run_of(self, game: Game) -> tuple[str, str]:
        """Version of the library, and the date."""
        path = self.directory / f"{game.id}.json"
        return game.record()["version"], time.strftime("%Y-%m-%d", time.gmtime(path.stat().st_mtime))

    def cost(self, game: Game, rounds: int | None = None) -> dict[str, float] | None:
        """CPU and memory, measured over so many rounds if they are not known; None if that is not asked."""
        path = self.directory / f"cost-{game.id}.json"
        if rounds is not None and not path.exists():
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                atomic_write(path, json.dumps(pool.apply(_cost, (game, rounds))).encode())
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def regrets(self, problem: str, method: str, settings: dict[str, Any], seeds: Any) -> list[float]:
        """Of these seeds, NaN where it is not finished."""
        found = (self.get(Game(problem, method, seed, settings)) for seed in seeds)
        return [float("nan") if f is None else f["regret"] for f in found]

    def chosen(self, problem: str, method: str, now: bool = False) -> dict[str, Any] | None:
        """The settings with the least regret on the tuning seeds, played ``now`` if need be; None if not finished."""
        if method in OURS:
            return {}
        first, second = TUNING
        tried = list(PEERS[method].settings(PROBLEMS[problem]))
        if len(tried) == 1:
            return tried[0]

        def regret(settings: dict[str, Any], seed: int) -> float:
            game = Game(problem, method, seed, settings)
            if now:
                return self.played(game)["regret"]
            found = self.get(game)
            return float("nan") if found is None else found["regret"]

        of_first = [regret(s, first) for s in tried]
        if np.isnan(of_first).any():
            return None
        best = np.argsort(of_first, kind="stable")[:FINALISTS]
        means = [of_first[i] + regret(tried[i], second) for i in best]
        return None if np.isnan(means).any() else tried[best[int(np.argmin(means))]]


def run(cells: Cells, problems: list[str], methods: list[str], seeds: int) -> None:
    """Play what is not there yet."""
    for method in methods:
        for problem in problems:
            if why_not(problem, method) is None:
                settings = cells.chosen(problem, method, now=True)
                assert settings is not None
                games = (Game(problem, method, seed, settings) for seed in range(seeds))
                regret = np.mean([cells.played(game)["regret"] for game in games])
                clock = time.strftime("%H:%M")
                print(f"{clock} {problem:14s} {title(method):30s} {regret:8.1f}  {settings}", flush=True)


# -- cost ---------------------------------------------------------------------------------------


def costs(cells: Cells, problems: Iterable[str], rounds: int) -> None:
    """CPU and memory of every method, each in a process of its own, one after the other."""
    for problem, method in itertools.product(problems, METHODS):
        settings = cells.chosen(problem, method)
        if settings is not None and why_not(problem, method) is None:
            cells.cost(Game(problem, method, 0, settings), rounds)


def _cost(game: Game, rounds: int) -> dict[str, float]:
    environment = PROBLEMS[game.problem].make(game.seed)
    with threadpool_limits(1):
        play(game.policy(environment), environment, 20)  # imports what it needs
        gc.collect()
        before, policy = _memory(), game.policy(environment)
        found = play(policy, environment, rounds)
        gc.collect()
        return {**found, "mb": max(_memory() - before, 0.0)}


def _memory() -> float:
    """Resident megabytes of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
