"""Threads: our products and factorisations run on one BLAS thread, and one policy is used by one thread at a time.

Rows are learned by thousands of small steps. A BLAS that gives each step to all processors waits for the slowest
each time: beside one busy process that is a hundred times slower than one thread. So public calls run with one,
whatever the environment says, and put the user's number back at the end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from functools import cache, wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from kinbandits.errors import ConcurrentUseError

P = ParamSpec("P")
R = TypeVar("R")


class _Library(NamedTuple):
    """A BLAS library: how its number of threads is read and set, and whether each thread has its own."""

    get: Callable[[], int]
    set: Callable[[int], object]
    own: bool


@cache
def _libraries() -> list[_Library]:
    """NumPy's and SciPy's, often two."""
    import scipy.linalg  # noqa: F401  (loads SciPy's)
    from threadpoolctl import ThreadpoolController

    found = [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]
    return [_Library(b.get_num_threads, _setter(b), getattr(b, "threading_layer", "") == "openmp") for b in found]


def _setter(library: Any) -> Callable[[int], object]:
    """OpenBLAS's own function: threadpoolctl ignores all threads but the one that first set a number."""
    setter: Callable[[int], object] = library.set_num_threads
    if library.internal_api == "openblas":
        for name in (f"{a}openblas_set_num_threads{z}" for a in ("", "scipy_") for z in ("", "64_", "_64")):
            setter = getattr(library.dynlib, name, setter)
    return setter


def _lowered(libraries: Iterable[_Library]) -> list[tuple[_Library, int]]:
    """Those that had more than one thread, with their number; now they have one."""
    before = [(library, n) for library in libraries if (n := library.get()) != 1]
    for library, _ in before:
        library.set(1)
    return before


def _restored(before: Iterable[tuple[_Library, int]]) -> None:
    for library, n in before:
        library.set(n)


class _OneBlasThread:
    """The first call inside saves the libraries' numbers of threads and sets 1; the last one out puts them back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0  # threads
        self._before: list[tuple[_Library, int]] = []
        self._local = threading.local()

    def __enter__(self) -> None:
        depth = getattr(self._local, "depth", 0)
        self._local.depth = depth + 1
        if depth:
            return
        self._local.before = _lowered(library for library in _libraries() if library.own)
        with self._lock:
            if not self._inside:
                self._before = _lowered(library for library in _libraries() if not library.own)
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        self._local.depth -= 1
        if self._local.depth:
            return
        _restored(self._local.before)
        with self._lock:
            self._inside -= 1
            if not self._inside:
                _restored(self._before)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def limited(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return limited


one_blas_thread = _OneBlasThread()
"""``with one_blas_thread:`` or ``@one_blas_thread``, in any number of threads and one within another."""
if hasattr(os, "register_at_fork"):  # the child has none of the threads that may be inside
    os.register_at_fork(after_in_child=one_blas_thread.__init__)  # type: ignore[misc]


class Turn:
    """Who is inside an object that one thread may use at a time. A copy of it, or an unpickled one, is free."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise ConcurrentUseError(
                "another thread is inside this policy, which is for one thread at a time; share a lock, or read "
                "from policy.frozen(). This call changed nothing"
            )

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return type(self), ()


class AnyTurn(Turn):
    """Of an object that does not change when it is read, such as a frozen policy: any number of threads."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


class _HasTurn(Protocol):
    _turn: Turn


S = TypeVar("S", bound=_HasTurn)


def one_thread(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """A public method of an object with a `Turn`: one thread at a time inside it, and one BLAS thread."""

    @wraps(method)
    def alone(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._turn, one_blas_thread:
            return method(self, *args, **kwargs)

    return alone
