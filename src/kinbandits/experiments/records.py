"""Experiments as plain data: what identifies a cell, and what differs between two records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from kinbandits.errors import InvalidTypeError

__all__ = ["changed_keys", "plain"]


def changed_keys(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """What differs between two records, one line a key."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            place = f"{where}.{key}" if where else str(key)
            if key not in old:
                yield f"{place} is new: {_short(new[key])}"
            elif key not in new:
                yield f"{place} is gone: it was {_short(old[key])}"
            else:
                yield from changed_keys(old[key], new[key], place)
    elif old != new:
        yield f"{where} was {_short(old)}, now {_short(new)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 70 else text[:67] + "..."


def plain(value: Any) -> Any:
    """JSON data; a file is known by the hash of what is in it, not by where it stands."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, str):
        return _file_record(value) or value
    if value is None or isinstance(value, bool | int | float):
        return value
    raise InvalidTypeError(f"an experiment is made of plain values (numbers, text, lists, tables), got {value!r}")


def _file_record(text: str) -> dict[str, str] | None:
    path = Path(text)
    if not path.suffix or not path.is_file():
        return None
    status = path.stat()
    return {"file": path.name, "sha256": _sha256(text, status.st_mtime_ns, status.st_size)}


@lru_cache(maxsize=64)
def _sha256(path: str, written: int, size: int) -> str:
    """Of a file's content; read again only when the file has changed."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
