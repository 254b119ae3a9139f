"""A tenth of `make soak`: a sweep of 6 cells, killed twice, against one left in peace."""

import importlib.util
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"


@pytest.fixture(scope="module")
def soak():
    spec = importlib.util.spec_from_file_location("soak", SOAK)
    module = importlib.util.module_from_spec(spec)
    sys.modules["soak"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "dask"])
def test_a_killed_sweep_ends_as_one_left_in_peace(backend, soak, tmp_path):
    if backend == "dask":
        pytest.importorskip("distributed", reason="distributed is not installed: pip install 'kinbandits[dask]'")
    calm, killed = soak.soak(6, 2, [backend], 150, 1, tmp_path)
    assert "6 cells" in calm
    assert "byte-equal: True" in killed
