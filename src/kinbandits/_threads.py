"""Threads: our products and factorisations run on one BLAS thread, and one policy is used by one thread at a time.

Rows are learned by thousands of small steps. A BLAS that gives each step to all processors waits for the slowest
each time: beside one busy process that is a hundred times slower than one thread. So public calls run with one,
whatever the environment says, and put the user's number back at the end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import ContextDecorator
from functools import cache, wraps
from itertools import product
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from kinbandits.errors import ConcurrentUseError

P = ParamSpec("P")
R = TypeVar("R")


class _Library(NamedTuple):
    """A BLAS library: how its number of threads is read and set."""

    get: Callable[[], int]
    set: Callable[[int], object]


@cache
def _libraries() -> tuple[list[_Library], list[_Library]]:
    """NumPy's and SciPy's: those with one number for all threads, and those where each thread has its own."""
    import scipy.linalg  # noqa: F401  (loads SciPy's)
    from threadpoolctl import ThreadpoolController

    found = [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]
    kinds: tuple[list[_Library], list[_Library]] = [], []
    for library in found:
        kinds[getattr(library, "threading_layer", "") == "openmp"].append(_functions(library))
    return kinds


def _functions(library: Any) -> _Library:
    """OpenBLAS's own: threadpoolctl ignores all threads but the one that first set a number."""
    found = _Library(library.get_num_threads, library.set_num_threads)
    if library.internal_api == "openblas":
        for before, after in product(("", "scipy_"), ("", "64_", "_64")):
            get, set_ = (f"{before}openblas_{word}_num_threads{after}" for word in ("get", "set"))
            if hasattr(library.dynlib, set_):
                found = _Library(getattr(library.dynlib, get), getattr(library.dynlib, set_))
    return found


def _lowered(libraries: Iterable[_Library]) -> list[tuple[_Library, int]]:
    """Those that had more than one thread, with their number; now they have one."""
    before = []
    for library in libraries:
        if (n := library.get()) != 1:
            library.set(1)
            before.append((library, n))
    return before


class _OneBlasThread(ContextDecorator):
    """The first call inside saves the libraries' numbers of threads and sets 1; the last one out puts them back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0  # threads
        self._before: list[tuple[_Library, int]] = []
        self._local = threading.local()

    def __enter__(self) -> None:
        local = self._local.__dict__
        local["depth"] = depth = local.get("depth", 0) + 1
        if depth > 1:
            return
        shared, own = _libraries()
        local["before"] = _lowered(own) if own else ()
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = _lowered(shared)

    def __exit__(self, *error: object) -> None:
        local = self._local.__dict__
        local["depth"] -= 1
        if local["depth"]:
            return
        for library, n in local["before"]:
            library.set(n)
        with self._lock:
            self._inside -= 1
            if not self._inside:
                for library, n in self._before:
                    library.set(n)


one_blas_thread = _OneBlasThread()
"""``with one_blas_thread:`` or ``@one_blas_thread``, in any number of threads and one within another."""
if hasattr(os, "register_at_fork"):  # the child has none of the threads that may be inside
    os.register_at_fork(after_in_child=one_blas_thread.__init__)  # type: ignore[misc]


class Turn:
    """The lock of an object that one thread may use at a time. A copy of it, or an unpickled one, is open."""

    def __init__(self) -> None:
        lock = threading.RLock()
        self.acquire: Callable[[bool], bool] = lock.acquire
        self.release: Callable[[], object] = lock.release

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return type(self), ()


def _always(blocking: bool = True) -> bool:
    return True


class AnyTurn(Turn):
    """No lock: of an object that does not change when it is read, such as a frozen policy."""

    def __init__(self) -> None:
        self.acquire, self.release = _always, _always


class _HasTurn(Protocol):
    @property
    def _turn(self) -> Turn: ...


S = TypeVar("S", bound=_HasTurn)


def one_thread(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """A public method of an object with a `Turn`: one thread at a time inside it, and one BLAS thread."""

    @wraps(method)
    def alone(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        turn = self._turn
        if not turn.acquire(False):
            raise ConcurrentUseError(
                "another thread is inside this policy, which is for one thread at a time; share a lock, or read "
                "from policy.frozen(). This call changed nothing"
            )
        try:
            with one_blas_thread:
                return method(self, *args, **kwargs)
        finally:
            turn.release()

    return alone
