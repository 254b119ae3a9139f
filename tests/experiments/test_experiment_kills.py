"""A tenth of `make soak`: a sweep of 6 cells, killed twice, against one left in peace."""

import importlib.util
import signal
import sys
from pathlib import Path

import pytest
from joblib.externals.loky import get_reusable_executor

from kinbandits.experiments import backends

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


def test_workers_do_not_hear_ctrl_c(tmp_path: Path) -> None:
    """Not even while they import: it is ignored from their first moment on."""

    def heard() -> bool:
        return signal.getsignal(signal.SIGINT) is not signal.SIG_IGN

    before = heard()
    get_reusable_executor().shutdown(wait=True)  # processes of other tests may still be there
    with backends.backend("loky", 2, None, tmp_path, print) as run:
        run(lambda i: (tmp_path / i).write_text(str(heard())), [("a",), ("b",), ("c",)])
    assert {(tmp_path / i).read_text() for i in "abc"} == {"False"}
    assert heard() == before
