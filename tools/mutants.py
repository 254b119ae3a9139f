"""Break a line of the core, and see whether a test notices: `make mutants`.

    python tools/mutants.py             # all of them; the table goes to benchmarks/results/mutants.csv
    python tools/mutants.py 3 17        # these
    python tools/mutants.py --check     # only that every line is still there once

Each mutant is one line of a copy of src, changed in one place (a sign, an index, a missing transpose, a dropped lock),
and the tests that should fail then. A mutant that survives ends the command with status 1.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "benchmarks" / "results" / "mutants.csv"


class Mutant(NamedTuple):
    """A line to break, and the tests that should notice."""

    file: str
    line: str  # a piece of the line, which is in the file once
    broken: str
    tests: str


ENGINES = "tests/regression"
MUTANTS = [
    # the regression
    Mutant("regression/grown.py", "-D, self.transposed(c).T", "D, self.transposed(c).T", ENGINES),
    Mutant("regression/grown.py", "S = G - c.T @ c", "S = G - 0.99 * (c.T @ c)", ENGINES),
    Mutant("regression/grown.py", "(y - self._z[:n] @ c)", "(y + self._z[:n] @ c)", ENGINES),
    Mutant("regression/grown.py", "self.log_det -= 2.0 *", "self.log_det += 2.0 *", ENGINES),
    Mutant("regression/grown.py", "other._chunks[-1] = other._chunks[-1].copy()", "pass", ENGINES),
    Mutant("regression/grown.py", "ceiling >= least", "ceiling > least + 0.1", ENGINES),
    Mutant("regression/posterior.py", "np.where(cold[:, None] | cold, 0.0, found)", "found", ENGINES),
    Mutant("regression/posterior.py", "s.level + s.unit * mean", "s.unit * mean", ENGINES),
    Mutant("regression/posterior.py", "exploration / math.sqrt(", "exploration * math.sqrt(", ENGINES),
    Mutant("regression/blocks.py", "P @ k\n", "P.T @ k * 1.01\n", ENGINES),
    Mutant("regression/blocks.py", "= -u / s", "= u / s", ENGINES),
    Mutant("regression/ladder.py", "(Q - slack) / hi", "(Q - slack) / lo", ENGINES),
    Mutant("regression/ladder.py", "else R - a * MD", "else R + a * MD", ENGINES),
    Mutant("regression/contract.py", "self.ridge, counts[arms]", "self.ridge, np.ones(len(arms))", ENGINES),
    # what is learned
    Mutant("model/evidence.py", "crossed**2 / ones", "crossed / ones", "tests/test_model.py tests/test_golden.py"),
    Mutant("model/kin.py", "- inverse) * K_X", "+ inverse) * K_X", "tests/test_model.py tests/test_golden.py"),
    Mutant("model/kin.py", "if not lead > LEAD:", "if lead > LEAD:", "tests/test_model.py tests/test_first_hour.py"),
    Mutant("model/when.py", "golden(indices) * age < RECENT", "age < RECENT", "tests/test_model.py src/kinbandits/model"),
    Mutant("similarity.py", "np.maximum(values, 0.0)) @ vectors.T", "np.maximum(values, 0.0)) @ vectors", "src/kinbandits/similarity.py tests/test_similarity.py"),
    Mutant("model/kin.py", "np.exp([t[1] - lead for", "np.exp([lead - t[1] for", "tests/test_model.py tests/test_first_hour.py"),
    # the policy
    Mutant("policy/draw.py", "(1.0 - epsilon) * parts", "parts", "tests/policies src/kinbandits/policy"),
    Mutant("policy/draw.py", "uniform[:, 0] < epsilon", "uniform[:, 1] < epsilon", "tests/policies"),
    Mutant("policy/ledger.py", "if known != reward:", "if False:", "tests/policies"),
    Mutant("policy/ledger.py", "arm=t.arm - (t.arm > arm)", "arm=t.arm", "tests/policies"),
    Mutant("policy/knowledge.py", "n - since > self._most", "n - since > 2 * self._most", "tests/test_model.py tests/policies"),
    Mutant("rules.py", "deviations * many * math.sqrt", "deviations * math.sqrt", "tests/test_rules.py"),
    Mutant("_threads.py", "if not turn.acquire(False):", "if False:", "tests/test_one_thread_at_a_time.py"),
    # logs and experiments
    Mutant("estimators.py", "direct + w * (r - q[rows, played])", "direct + (r - q[rows, played])", "tests/test_ope.py"),
    Mutant("estimators.py", "squares + n * d**2, ", "squares, ", "tests/test_ope.py tests/test_fit.py"),
    Mutant("results.py", "(len(known) - rank) * p_values[i]", "p_values[i]", "src/kinbandits/results.py tests/report"),
    Mutant("estimators.py", "dr - against, r]", "dr, r]", "tests/test_ope.py tests/test_fit.py"),
    Mutant("results.py", "nonzero = group.better * differences,", "nonzero = differences,", "tests/report tests/paper"),
    Mutant("paper/claims.py", "holds >= runs - misses", "holds >= runs - misses - 1", "tests/paper"),
    # the service
    Mutant("service/ledger.py", "if record.learned is not None:", "if False:", "tests/service/test_engine.py tests/service/test_faults.py"),
    Mutant("service/ledger.py", "if earlier.request != request:", "if False:", "tests/service"),
    Mutant("service/ledger.py", "delay > self.settings.reward_wait:", "delay < 0.0:", "tests/service/test_engine.py tests/service/test_app.py"),
    Mutant("service/ledger.py", "if sum(active.values()) == 1:", "if False:", "tests/service/test_app.py tests/service/test_engine.py"),
    Mutant("service/writer.py", "self._engine.learner.committed(ledger.events)", "pass", "tests/service/test_engine.py"),
]  # fmt: skip


def found(mutant: Mutant) -> str:
    """The text of the file, if the line is in it once."""
    text = (ROOT / "src" / "kinbandits" / mutant.file).read_text(encoding="utf-8")
    if text.count(mutant.line) != 1:
        raise SystemExit(f"{mutant.file} has {mutant.line!r} {text.count(mutant.line)} times, not once")
    return text


def survives(mutant: Mutant) -> bool:
    """Whether the tests pass although the line is broken."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / "kinbandits" / mutant.file).write_text(
            found(mutant).replace(mutant.line, mutant.broken), encoding="utf-8"
        )
        tests = [str(copy / t.removeprefix("src/")) if t.startswith("src/") else t for t in mutant.tests.split()]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", "-m", "not slow", "-p", "no:cacheprovider"]
        environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [*command, *tests], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900
        )
    if done.returncode not in (0, 1) and "stopping after" not in done.stdout:  # where two fail at once it ends with 2
        raise SystemExit(f"pytest ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return done.returncode == 0


def main() -> None:
    for mutant in MUTANTS:
        found(mutant)
    if "--check" in sys.argv:
        return
    chosen = [int(a) for a in sys.argv[1:]] or range(len(MUTANTS))
    lines = []
    for i in chosen:
        mutant = MUTANTS[i]
        lines.append(
            [i, mutant.file, mutant.line.strip(), mutant.broken.strip(), "survives" if survives(mutant) else "caught"]
        )
        print(*lines[-1], sep="  ", flush=True)
    if len(lines) == len(MUTANTS):
        with TABLE.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([("number", "file", "line", "broken", "result"), *lines])
    raise SystemExit(any(line[-1] == "survives" for line in lines))


if __name__ == "__main__":
    main()
