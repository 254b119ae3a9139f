"""Engines are called here as a policy calls them: with one BLAS thread, unless the environment asks for a number."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from kinbandits._threads import one_blas_thread


@pytest.fixture(autouse=True, scope="module")
def as_in_a_public_call() -> Iterator[None]:
    with nullcontext() if "OPENBLAS_NUM_THREADS" in os.environ else one_blas_thread:
        yield
