"""Writing files so that there is the whole file or nothing, whatever is killed at whatever moment."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from kinbandits.errors import InvalidInputError, InvalidTypeError, MissingFileError


def write_arrays(stream: IO[bytes], arrays: Mapping[str, Any], *, compressed: bool = False) -> None:
    """Arrays as .npz, never pickled. (Before 2.1 NumPy's ``allow_pickle=False`` is itself stored as an array.)"""
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise InvalidTypeError(f"the array {name} holds Python objects, which are not written to files")
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)


def atomic_write(path: str | os.PathLike[str], content: bytes) -> None:
    """Write ``content`` to ``path``, or leave what is there."""
    with replacing(path) as part:
        part.write_bytes(content)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, flush: bool = True) -> Iterator[Path]:
    """A path beside ``path`` to write to; at the end it is flushed to disk and takes the place of ``path``.

    If the block raises, ``path`` stays as it was. Without ``flush`` it may be lost with the machine.
    """
    target = Path(path)
    if not target.parent.is_dir():
        missing = MissingFileError(f"there is no such directory: {target.parent}; make it first")
        missing.filename = str(target.parent)
        raise missing
    part = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        yield part
        if flush:
            _flush(part)
        part.replace(target)
    finally:
        if part.is_dir():
            shutil.rmtree(part)
        part.unlink(missing_ok=True)
    if not flush:
        return
    with contextlib.suppress(OSError):  # a directory cannot be flushed everywhere
        _flush(target.parent)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(lock: Path, directory: Path) -> Iterator[None]:
    """One process at a time in ``directory``. The lock, a file, dies with the process, however that ends."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as stream:
        try:
            hold(stream.fileno())
        except OSError:
            raise InvalidInputError(
                f"another run is working in {directory}; wait for it, or choose another directory"
            ) from None
        yield


def hold(descriptor: int) -> None:
    """Lock a file for this process, or raise OSError; the system lets go when the process ends."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
