"""Snapshots: policy and state as bytes, made in memory. A damaged one is recognised before it is unpacked.

8 bytes     which format
32 bytes    SHA-256 of the rest
the rest    a zip file: snapshot.json (settings, state, policy) and arrays.npz (rows learned)
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from typing import Any

import numpy as np

from kinbandits._files import write_arrays
from kinbandits.errors import FormatError
from kinbandits.policies import KMTLUCB
from kinbandits.policies.persist import from_data, to_data
from kinbandits.service.state import State

_FORMAT = b"kbsnap02"


class Snapshot:
    """A policy made with these settings (their fingerprint) and the edits up to an event, as it is now."""

    def __init__(self, policy: KMTLUCB, state: State, edits: int, settings: str) -> None:
        learned, arrays = to_data(policy)
        self.seq, self.rows = state.seq, state.learned
        self._arrays = {name: np.array(array) for name, array in arrays.items()}  # those of the policy will change
        data = {"settings": settings, "edits": edits, "state": state.to_data(), "policy": learned}
        self._text = json.dumps(data)

    def to_bytes(self) -> bytes:
        """What `unpack` reads."""
        content, packed = io.BytesIO(), io.BytesIO()
        write_arrays(packed, self._arrays)
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("snapshot.json", self._text)
            archive.writestr("arrays.npz", packed.getvalue(), zipfile.ZIP_STORED)
        body = content.getvalue()
        return _FORMAT + hashlib.sha256(body).digest() + body


def unpack(snapshot: bytes, settings: str) -> tuple[KMTLUCB, State, int]:
    """Policy, state and the last edit it knows; a `FormatError` if damaged, or of another format or settings."""
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
    return policy, State.from_data(data["state"]), data["edits"]
