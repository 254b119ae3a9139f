"""Snapshots: what makes a restart quick. A file for each: a digest, what was counted (JSON), and the saved policy.

They are a cache on local disk. None is needed: without one, or with one that is damaged, the log is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import kinbandits as kb
from kinbandits._files import replacing
from kinbandits._version import __version__
from kinbandits.errors import FormatError
from kinbandits.service.stats import Stats

_KEPT = 3


def local_folder(log_id: str) -> Path:
    """Where snapshots of a log in PostgreSQL are kept: systemd's state directory, or the user's own."""
    home = os.environ.get("STATE_DIRECTORY") or os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(home) / "kinbandits" / log_id


def packed(policy: kb.KMTLUCB, folder: Path | None = None) -> bytes:
    """A policy as its own ``save`` writes it; ``folder`` is where that may be, if not with other temporary files."""
    with tempfile.TemporaryDirectory(prefix=".kinbandits-", dir=folder) as place:
        path = Path(place) / "policy"
        policy.save(path)
        return path.read_bytes()


def unpacked(content: bytes, folder: Path | None = None) -> kb.KMTLUCB:
    """The policy that `packed` was given."""
    with tempfile.TemporaryDirectory(prefix=".kinbandits-", dir=folder) as place:
        path = Path(place) / "policy"
        path.write_bytes(content)
        policy: kb.KMTLUCB = kb.load(path)
    return policy


def save(folder: Path, policy: kb.KMTLUCB, stats: Stats, **about: Any) -> Path:
    """Save policy and stats, with what they depend on; all but the latest snapshots are dropped."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    head = json.dumps({**about, "release": __version__, "stats": stats.to_data()})
    content = head.encode() + b"\n" + packed(policy, folder)
    target = folder / f"{stats.seq:015d}.snapshot"
    with replacing(target) as part:
        part.write_bytes(hashlib.sha256(content).digest() + content)
    for old in found(folder)[_KEPT:]:
        old.unlink()
    return target


def found(folder: Path) -> list[Path]:
    """The snapshots there are, latest first."""
    return sorted(folder.glob("[0-9]*.snapshot"), reverse=True)


def load(path: Path, **wanted: Any) -> tuple[kb.KMTLUCB, Stats, dict[str, Any]]:
    """Policy and stats, and what was saved about them; a `FormatError` if it is damaged or does not fit ``wanted``."""
    try:
        whole = path.read_bytes()
        digest, content = whole[:32], whole[32:]
        if hashlib.sha256(content).digest() != digest:
            raise ValueError("it is damaged")
        head, _, policy = content.partition(b"\n")
        about = json.loads(head)
        if about["release"] != __version__ or any(about.get(name) != value for name, value in wanted.items()):
            raise ValueError("it was made by another release, or with other settings")
        return unpacked(policy, path.parent), Stats.from_data(about.pop("stats")), about
    except Exception as error:  # whatever a file may hold
        raise FormatError(f"it cannot be used ({type(error).__name__}: {error})") from error
