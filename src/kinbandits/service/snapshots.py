"""Snapshots: policy and state as bytes, made in memory. A damaged one is recognised before it is unpacked.

8 bytes     which format
32 bytes    SHA-256 of the rest
the rest    a zip file: snapshot.json (settings, state, policy), arrays.npz (rows learned), and
            under beside/ the snapshots of shadows
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from typing import Any, NamedTuple

import numpy as np

from kinbandits._files import write_arrays
from kinbandits.errors import FormatError
from kinbandits.policies import KMTLUCB
from kinbandits.policies.persist import from_data, to_data
from kinbandits.service.state import State

_FORMAT = b"kbsnap02"
_BESIDE = "beside/"


class Snapshot:
    """A policy made with these settings (their fingerprint) and the edits up to an event, as it is now.

    Attributes:
        beside: snapshots of others, by name, that are kept with it.
    """

    def __init__(self, policy: KMTLUCB, state: State, edits: int, settings: str, more: dict[str, Any]) -> None:
        learned, arrays = to_data(policy)
        self.seq, self.rows = state.seq, state.learned
        self.beside: dict[str, Snapshot] = {}
        self._arrays = {name: np.array(array) for name, array in arrays.items()}  # those of the policy will change
        data = {"settings": settings, "edits": edits, "state": state.to_data(), "policy": learned, "more": more}
        self._text = json.dumps(data)

    def to_bytes(self) -> bytes:
        """What `unpack` reads."""
        content, packed = io.BytesIO(), io.BytesIO()
        write_arrays(packed, self._arrays)
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("snapshot.json", self._text)
            archive.writestr("arrays.npz", packed.getvalue(), zipfile.ZIP_STORED)
            for name, other in self.beside.items():
                archive.writestr(f"{_BESIDE}{name}", other.to_bytes(), zipfile.ZIP_STORED)
        body = content.getvalue()
        return _FORMAT + hashlib.sha256(body).digest() + body


class Unpacked(NamedTuple):
    """What a snapshot holds."""

    policy: KMTLUCB
    state: State
    edits: int
    more: dict[str, Any]
    beside: dict[str, bytes]


def unpack(snapshot: bytes, settings: str) -> Unpacked:
    """What is in it; a `FormatError` if damaged, or of another format or settings."""
    if snapshot[:8] != _FORMAT:
        raise FormatError("the snapshot has another format")
    body = snapshot[40:]
    if hashlib.sha256(body).digest() != snapshot[8:40]:
        raise FormatError("the snapshot is damaged")
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        data: dict[str, Any] = json.loads(archive.read("snapshot.json"))
        if data["settings"] != settings:
            raise FormatError("the policy settings have changed since the snapshot")
        with np.load(io.BytesIO(archive.read("arrays.npz")), allow_pickle=False) as arrays:
            policy = from_data(data["policy"], dict(arrays))
        names = [name for name in archive.namelist() if name.startswith(_BESIDE)]
        beside = {name.removeprefix(_BESIDE): archive.read(name) for name in names}
    return Unpacked(policy, State.from_data(data["state"]), data["edits"], data.get("more", {}), beside)
