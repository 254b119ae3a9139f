"""What all tests share: the Hypothesis profile, `pytest --update-golden`, and a last line on what was left out."""

from __future__ import annotations

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
        help="rewrite the golden traces under tests/golden; review the diff and add a news fragment",
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of tests/regression is numerical; other files say so themselves."""
    for item in items:
        if "regression" in item.path.parts:
            item.add_marker("numerical")
