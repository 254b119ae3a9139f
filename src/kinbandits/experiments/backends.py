"""Where cells are computed: processes of this machine (loky), a dask cluster, or ray. All through joblib.

A backend is a context manager that gives a function ``run(tasks)``. Lessons that shape it:

* ``n_jobs`` is always given: ray's default is one, silently.
* Threads are pinned inside the task, since dask and ray refuse joblib's own argument.
* ``batch_size=1``: a cell lasts seconds, and a killed worker then costs one cell.
* loky and ray give up the whole call when a worker dies: `WorkerLostError`, and the caller sends the rest again.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import platform
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kinbandits._version import __version__
from kinbandits.errors import InvalidInputError, package

Run = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], None]
_COMPARED = ("numpy", "scipy", "joblib", "cloudpickle")  # versions that must be equal on both sides


class WorkerLostError(Exception):
    """A worker died, and the backend gave up the call with it."""


@contextlib.contextmanager
def backend(
    name: str, jobs: int, scheduler: str | None, directory: Path, say: Callable[[str], None]
) -> Iterator[Run]:
    """A function that runs tasks on the backend of this name."""
    if name not in BACKENDS:
        raise InvalidInputError(f"there is no backend {name!r}; there are {', '.join(BACKENDS)}")
    if scheduler is not None and name == "loky":
        raise InvalidInputError("loky works on this machine alone; --scheduler is for --backend dask or ray")
    if jobs == 0 or jobs < -1:
        raise InvalidInputError(f"jobs must be at least 1, or -1 for all processors, got {jobs}")
    with BACKENDS[name](jobs, scheduler, directory, say) as run:
        yield run


def _cores(jobs: int) -> int:
    from joblib import cpu_count

    return int(cpu_count()) if jobs == -1 else jobs


def _runner(name: str, jobs: int, *lost: type[Exception]) -> Run:
    """Tasks through joblib; ``lost`` are the errors that a dead worker is known by."""
    from joblib import Parallel, delayed, parallel_config

    def run(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> None:
        try:
            with parallel_config(backend=name, n_jobs=jobs):
                Parallel(n_jobs=jobs, batch_size=1)(delayed(function)(*t) for t in tasks)
        except lost as error:
            raise WorkerLostError(str(error).splitlines()[0]) from error

    return run


@contextlib.contextmanager
def deaf_processes() -> Iterator[None]:
    """Processes started meanwhile never hear Ctrl-C, not even while they import; nor does this one, meanwhile."""
    if threading.current_thread() is not threading.main_thread():  # who alone may say what is heard
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _loky(jobs: int, scheduler: str | None, directory: Path, say: Callable[[str], None]) -> Iterator[Run]:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    jobs = _cores(jobs)
    say(f"backend loky, {jobs} process{'es' if jobs > 1 else ''} on this machine")
    run = _runner("loky", jobs, TerminatedWorkerError)
    with deaf_processes():  # joblib's processes, which stay for what follows
        run(int, [()] * jobs)
    yield run


@contextlib.contextmanager
def _dask(jobs: int, scheduler: str | None, directory: Path, say: Callable[[str], None]) -> Iterator[Run]:
    distributed = package("distributed", "--backend dask needs", "'kinbandits[dask]'")
    with contextlib.ExitStack() as stack:
        if scheduler is None:
            local = distributed.LocalCluster(n_workers=_cores(jobs), threads_per_worker=1, dashboard_address=None)
            client = stack.enter_context(distributed.Client(stack.enter_context(local)))
        else:
            client = stack.enter_context(dask_client(distributed, scheduler, directory / "experiment.json"))
        threads = sum(client.nthreads().values())
        jobs = threads if jobs == -1 else min(jobs, threads)
        say(f"backend dask, {len(client.nthreads())} workers at {client.scheduler.address}, {jobs} cells at a time")
        lost = distributed.scheduler.KilledWorker, distributed.client.FutureCancelledError
        yield _runner("dask", jobs, *lost)


@contextlib.contextmanager
def dask_client(distributed: Any, scheduler: str, marker: Path) -> Iterator[Any]:
    """A client of the scheduler at this address, whose workers are as `check_workers` wants them."""
    try:
        client = distributed.Client(scheduler, timeout="15s")
    except (OSError, TimeoutError, ValueError) as error:
        raise InvalidInputError(f"there is no dask scheduler at {scheduler} ({error})") from error
    with client:
        check_workers(client, scheduler, marker)
        yield client


def check_workers(client: Any, scheduler: str, marker: Path) -> None:
    """Refuse a cluster whose workers would give other numbers, or do not see a file that lies where they write."""
    if not client.nthreads():
        raise InvalidInputError(
            f"the dask scheduler at {scheduler} has no workers; start some: dask worker {scheduler}"
        )
    here = versions()
    try:
        found = client.run(versions)
    except ImportError as error:
        raise InvalidInputError(
            f"a dask worker at {scheduler} cannot import what it needs ({error}); install kinbandits there"
        ) from error
    for worker, there in found.items():
        for name, version in here.items():
            if there.get(name) != version:
                raise InvalidInputError(
                    f"the dask worker {worker} has {name} {there.get(name) or 'not installed'}, here is "
                    f"{version}; install the same versions on both sides"
                )
    for worker, content in client.run(_read, str(marker)).items():
        if content != marker.read_text(encoding="utf-8"):
            raise InvalidInputError(
                f"the dask worker {worker} does not see {marker.parent.resolve()}; put it on a file system "
                "that all workers share, under the same path"
            )


def versions() -> dict[str, str]:
    """What must be equal on both sides for equal results."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2]), "kinbandits": __version__}
    for name in _COMPARED:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return None


@contextlib.contextmanager
def _ray(jobs: int, scheduler: str | None, directory: Path, say: Callable[[str], None]) -> Iterator[Run]:
    ray = package("ray", "--backend ray needs", "'kinbandits[ray]'")
    importlib.import_module("ray.util.joblib").register_ray()
    options: dict[str, Any] = {"address": scheduler} if scheduler else {"num_cpus": _cores(jobs)}
    started = not ray.is_initialized()
    if started:
        ray.init(**options, log_to_driver=False, include_dashboard=False, logging_level="warning")
    try:
        cpus = int(ray.cluster_resources().get("CPU", 1))
        jobs = cpus if jobs == -1 else min(jobs, cpus)
        say(f"backend ray, {cpus} processors, {jobs} cells at a time")
        yield _runner("ray", jobs, ray.exceptions.RayActorError, ray.exceptions.WorkerCrashedError)
    finally:
        if started:
            ray.shutdown()


BACKENDS: dict[str, Callable[..., contextlib.AbstractContextManager[Run]]] = {
    "loky": _loky,
    "dask": _dask,
    "ray": _ray,
}
