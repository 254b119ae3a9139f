"""What is promised across processors (docs/install.md): the same decisions, and scores equal to 1e-8.

The other processor is a subprocess with an older one's BLAS kernels, exp and log. It plays half of the golden games
and saves; this process plays the same, loads what was saved, and goes on.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinbandits as kb
from processors import PROCESSORS, Processor, can_run, in_use, own
from test_golden import CASES, ENVIRONMENTS, GOLDEN, POLICIES, ROUNDS

HALF = ROUNDS // 2
GAMES: dict[tuple[str, str], Callable[[int], kb.KMTLUCB]] = {(p, e): POLICIES[p] for p, e in CASES}
GAMES |= {
    ("budgeted", e): lambda n, wide=wide: kb.KMTLUCB(n, engine=kb.Budgeted(points=64), context_kernel=kb.RBF(wide))
    for e, wide in (("news", 2.0), ("digits", 40.0))
}
GAMES |= {("sampled", "news"): lambda n: kb.KMTLUCB(n, exploration=kb.Thompson())}
TOLERANCE = {"budgeted": 1e-5}  # its dictionary may be nearly singular; all else 1e-8


@pytest.mark.numerical
def test_the_kernels_asked_for_are_in_use() -> None:
    """`make test-kernels` relies on it: every OpenBLAS here, NumPy's and SciPy's, obeys the environment."""
    asked, threads = os.environ.get("OPENBLAS_CORETYPE"), os.environ.get("OPENBLAS_NUM_THREADS")
    answers = {p.name: p.answers for p in PROCESSORS}
    for library, kernels, n in in_use():
        assert asked is None or kernels in answers.get(asked, (asked,)), f"{library} runs {kernels}, not {asked}"
        assert threads is None or n == min(int(threads), os.cpu_count() or 1), f"{library} has {n} threads"


def seed_of(processor: Processor) -> int:
    return PROCESSORS.index(processor) % 3


def play(policy: Any, environment: Any, rounds: range) -> tuple[list[int], np.ndarray]:
    """The arms played in these rounds, and the scores of all arms."""
    arms, scores = [], []
    for t, round in enumerate(environment.rounds()):
        if t in rounds:
            decision = policy.choose(round.context, scores=True)
            policy.update(decision, float(round.rewards[decision.index]))
            arms.append(int(decision.index))
            scores.append(decision.scores)
        elif t >= rounds.stop:
            break
    return arms, np.array(scores)


def begin(game: tuple[str, str], seed: int) -> tuple[Any, Any]:
    environment = ENVIRONMENTS[game[1]](seed)
    policy = GAMES[game](len(environment.arms))
    policy.rng = np.random.default_rng(seed)
    start = environment.start_rows()
    if len(start[0]):
        policy.observe([environment.arms.index(a) for a in start[0]], start[1], start[2])
    return policy, environment


def play_and_save(folder: Path, seed: int) -> None:
    """What the other processor does."""
    for game in GAMES:
        policy, environment = begin(game, seed)
        arms, scores = play(policy, environment, range(HALF))
        np.savez(folder / f"{'-'.join(game)}.npz", arms=arms, scores=scores)
        policy.save(folder / f"{'-'.join(game)}.kb")
    (folder / "kernels").write_text(json.dumps(in_use()))


@functools.cache
def here(game: tuple[str, str], seed: int) -> tuple[list[int], np.ndarray]:
    policy, environment = begin(game, seed)
    return play(policy, environment, range(ROUNDS))


def elsewhere(processor: Processor, folder: Path) -> None:
    """Play and save as on that processor."""
    paths = os.pathsep.join(p for p in sys.path if p)
    ran = subprocess.run(
        [sys.executable, __file__, str(folder), str(seed_of(processor))],
        env=os.environ | processor.environment() | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    kernels = {kernels for _, kernels, _ in json.loads((folder / "kernels").read_text())}
    assert kernels <= set(processor.answers), f"asked for {processor.name}, got {kernels}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kinbandits.errors.BudgetWarning")  # 64 points are few for digits
@pytest.mark.parametrize("processor", PROCESSORS, ids=lambda p: p.name)
def test_saved_elsewhere_it_decides_here_as_if_it_had_always_been_here(processor: Processor, tmp_path: Path) -> None:
    if reason := can_run(processor):
        pytest.skip(f"as on {processor.name}: {reason}")
    if processor == own():
        pytest.skip(f"{processor.name} is this machine's own")
    elsewhere(processor, tmp_path)
    seed = seed_of(processor)
    for game in GAMES:
        name, tolerance = "-".join(game), TOLERANCE.get(game[0], 1e-8)
        arms, scores = here(game, seed)
        with np.load(tmp_path / f"{name}.npz") as file:
            assert file["arms"].tolist() == arms[:HALF], name
            np.testing.assert_allclose(file["scores"], scores[:HALF], rtol=tolerance, atol=tolerance, err_msg=name)
        policy = kb.load(tmp_path / f"{name}.kb")
        resumed, its_scores = play(policy, ENVIRONMENTS[game[1]](seed), range(HALF, ROUNDS))
        assert resumed == arms[HALF:], name
        np.testing.assert_allclose(its_scores, scores[HALF:], rtol=tolerance, atol=tolerance, err_msg=name)
        if game in CASES:
            wanted = json.loads((GOLDEN / f"{name}.json").read_text())[str(seed)]["arms"].split()
            assert [*arms[:HALF], *resumed] == [int(a) for a in wanted], name


if __name__ == "__main__":
    play_and_save(Path(sys.argv[1]), int(sys.argv[2]))
