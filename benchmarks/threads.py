"""Rounds of ``choose`` and ``update`` beside a busy process, with no thread variables and with one BLAS thread.

    python benchmarks/threads.py [--rounds 1200] [--repeats 3]

Twenty described arms, each run in a process of its own, the two settings by turns; the least time of each counts.
The ratio is printed; more than 1.3 is an error.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

VARIABLES = [f"{name}_NUM_THREADS" for name in ("OPENBLAS", "OMP", "MKL", "BLIS", "VECLIB_MAXIMUM", "NUMEXPR")]
MOST = 1.3  # the time without the variables, over the time with them


def play(rounds: int) -> float:
    """Seconds of ``rounds`` rounds, in this process."""
    import numpy as np

    import kinbandits as kb

    rng = np.random.default_rng(0)
    descriptors, contexts = rng.normal(size=(20, 5)), rng.normal(size=(rounds, 8))
    policy = kb.KMTLUCB(20, similarity=kb.Known(descriptors=descriptors))
    noise = rng.normal(size=rounds)
    start = time.perf_counter()
    for x, e in zip(contexts, noise, strict=True):
        decision = policy.choose(x)
        policy.update(decision, float(np.sin(x @ descriptors[decision.index].repeat(2)[:8]) + 0.1 * e))
    return time.perf_counter() - start


def seconds(rounds: int, *, pinned: bool) -> float:
    """The same in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment |= dict.fromkeys(VARIABLES, "1") if pinned else {}
    command = [sys.executable, __file__, "--play", "--rounds", str(rounds)]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def ratio(rounds: int, repeats: int) -> float:
    """Time without the variables over time with them, beside a busy process."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        free, pinned = [], []
        for _ in range(repeats):
            free.append(seconds(rounds, pinned=False))
            pinned.append(seconds(rounds, pinned=True))
    finally:
        busy.kill()
        busy.wait()
    return min(free) / min(pinned)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--play", action="store_true", help="play here and print the seconds")
    given = parser.parse_args()
    if given.play:
        print(play(given.rounds))
    else:
        found = ratio(given.rounds, given.repeats)
        print(f"{given.rounds} rounds beside a busy process: {found:.2f} times the time with one BLAS thread")
        sys.exit(found > MOST)
