"""Snapshots: what makes a restart quick. A folder for each: ``policy``, as `save` writes it, and ``stats.json``.

They are a cache on local disk. None is needed: without one, or with one that is damaged, the log is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import kinbandits as kb
from kinbandits._version import __version__
from kinbandits.errors import FormatError
from kinbandits.service.stats import Stats

_KEPT = 3


def local_folder(log_id: str) -> Path:
    """Where snapshots of a log in PostgreSQL are kept: systemd's state directory, or the user's own."""
    home = os.environ.get("STATE_DIRECTORY") or os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(home) / "kinbandits" / log_id


def save(folder: Path, policy: kb.KMTLUCB, stats: Stats, **about: Any) -> Path:
    """Save policy and stats, with what they depend on; all but the latest snapshots are dropped."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    part, target = folder / f".{stats.seq}.partial", folder / f"{stats.seq:015d}"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        policy.save(part / "policy")
        digest = hashlib.sha256((part / "policy").read_bytes()).hexdigest()
        text = json.dumps({**about, "release": __version__, "policy": digest, "stats": stats.to_data()})
        (part / "stats.json").write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}", encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    for old in found(folder)[_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return target


def found(folder: Path) -> list[Path]:
    """The snapshots there are, latest first."""
    if not folder.is_dir():
        return []
    return sorted((p for p in folder.iterdir() if p.name.isdecimal()), reverse=True)


def load(path: Path, **wanted: Any) -> tuple[kb.KMTLUCB, Stats, dict[str, Any]]:
    """Policy and stats, and what was saved about them; a `FormatError` if it is damaged or does not fit ``wanted``."""
    try:
        digest, _, text = (path / "stats.json").read_text(encoding="utf-8").partition("\n")
        about = json.loads(text)
        policy = hashlib.sha256((path / "policy").read_bytes()).hexdigest()
        if hashlib.sha256(text.encode()).hexdigest() != digest or policy != about["policy"]:
            raise ValueError("it is damaged")
        if about["release"] != __version__ or any(about.get(name) != value for name, value in wanted.items()):
            raise ValueError("it was made by another release, or with other settings")
        return kb.load(path / "policy"), Stats.from_data(about.pop("stats")), about
    except Exception as error:  # whatever a file may hold
        raise FormatError(f"it cannot be used ({type(error).__name__}: {error})") from error
