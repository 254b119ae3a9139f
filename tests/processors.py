"""The processors that this one can pose as: OpenBLAS and NumPy pick their code by what the processor can do.

`OPENBLAS_CORETYPE` chooses OpenBLAS's kernels (NumPy's library and SciPy's are two, and both obey), and
`NPY_DISABLE_CPU_FEATURES` takes NumPy's own exp and log down to the same age. Used by `tests/test_portability.py`
and by `tools/kernels.py`, which is `make test-kernels`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

NEWEST_FIRST = ("AVX512_SPR", "AVX512_ICL", "AVX512_SKX", "X86_V4", "AVX512F", "X86_V3", "AVX2", "FMA3")


@dataclass(frozen=True)
class Processor:
    """An age of x86: its name to OpenBLAS, the names it answers to, what it needs, and what it does not have."""

    name: str
    answers: tuple[str, ...]
    needs: tuple[str, ...]
    lacks: tuple[str, ...] = ()

    def environment(self) -> dict[str, str]:
        """What to add to the environment of a process that is to run as on this processor."""
        offered = set(_umath().__cpu_dispatch__)  # NumPy warns of features it has no code for
        there = {f for f, here in _umath().__cpu_features__.items() if here}
        there |= set(os.environ.get("NPY_DISABLE_CPU_FEATURES", "").split())
        off = [f for f in self.lacks if f in offered & there]
        return {"OPENBLAS_CORETYPE": self.name, "NPY_DISABLE_CPU_FEATURES": " ".join(off)}


PROCESSORS = (
    Processor("Prescott", ("Prescott", "Katmai"), ("SSE3",), NEWEST_FIRST),
    Processor("Nehalem", ("Nehalem",), ("SSE42",), NEWEST_FIRST),
    Processor("Sandybridge", ("Sandybridge",), ("AVX",), NEWEST_FIRST),
    Processor("Haswell", ("Haswell", "Zen"), ("AVX2", "FMA3"), NEWEST_FIRST[:5]),
    Processor("SkylakeX", ("SkylakeX", "Cooperlake", "SapphireRapids"), ("AVX512F", "AVX512BW", "AVX512VL")),
)


def _umath():  # type: ignore[no-untyped-def]
    try:
        from numpy._core import _multiarray_umath
    except ImportError:  # NumPy 1
        from numpy.core import _multiarray_umath
    return _multiarray_umath


def in_use() -> list[tuple[str, str, int]]:
    """(library, kernels, threads) of each OpenBLAS that NumPy and SciPy have loaded here."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    found = [i for i in threadpool_info() if i["internal_api"] == "openblas"]
    return sorted((os.path.basename(i["filepath"]), i["architecture"], i["num_threads"]) for i in found)


def own() -> Processor | None:
    """What this process runs as; None where that is not OpenBLAS on x86."""
    kernels = {kernels for _, kernels, _ in in_use()}
    return next((p for p in PROCESSORS if kernels and kernels <= set(p.answers)), None)


def can_run(processor: Processor) -> str | None:
    """None, or why this machine cannot pose as that processor."""
    if not in_use():
        return "NumPy does not use OpenBLAS here"
    missing = [f for f in processor.needs if not _umath().__cpu_features__.get(f)]
    return f"this processor has no {' and no '.join(missing)}" if missing else None
