"""Snapshots: policy and state, made in memory. A damaged one is recognised before it is unpacked.

8 bytes     which format
32 bytes    SHA-256 of the rest
8 bytes     length of the text
the text    compressed JSON: settings, state, policy; type and shape of each array, length of each snapshot beside
the rest    the arrays (rows learned), and the snapshots of shadows, one after the other

They are made while requests are answered. So nothing is copied once more, and nothing long is done under Python's
lock: hashing, compressing and writing let other threads go on.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from typing import Any, NamedTuple

import numpy as np

from kinbandits.errors import FormatError
from kinbandits.policy import KMTLUCB
from kinbandits.policies.persist import from_data, to_data
from kinbandits.service.state import State

_FORMAT = b"kbsnap03"
_START = 48  # where the text begins


class Snapshot:
    """A policy made with these settings (their fingerprint) and the edits up to an event, as it is now.

    Attributes:
        beside: snapshots of others, by name, that are kept with it.
    """

    def __init__(self, policy: KMTLUCB, state: State, edits: int, settings: str, more: dict[str, Any]) -> None:
        learned, arrays = to_data(policy)
        self.seq, self.rows = state.seq, state.learned
        self.beside: dict[str, Snapshot] = {}
        self._arrays = {name: np.array(a, order="C") for name, a in arrays.items()}  # the policy's will change
        data = {"settings": settings, "edits": edits, "state": state.to_data(), "policy": learned, "more": more}
        data["arrays"] = [(name, array.dtype.str, array.shape) for name, array in self._arrays.items()]
        self._text = json.dumps(data)

    def pieces(self) -> list[bytes | memoryview]:
        """What `unpack` reads, piece by piece."""
        beside = {name: other.pieces() for name, other in self.beside.items()}
        lengths = json.dumps({name: sum(map(len, pieces)) for name, pieces in beside.items()})
        text = zlib.compress(f"[{self._text}, {lengths}]".encode(), 1)
        rest: list[bytes | memoryview] = [len(text).to_bytes(8, "little"), text]
        rest += [array.reshape(-1).view(np.uint8).data for array in self._arrays.values()]
        rest += [piece for pieces in beside.values() for piece in pieces]
        digest = hashlib.sha256()
        for piece in rest:
            digest.update(piece)
        return [_FORMAT, digest.digest(), *rest]


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
    if hashlib.sha256(memoryview(snapshot)[40:]).digest() != snapshot[8:40]:
        raise FormatError("the snapshot is damaged")
    rest = memoryview(snapshot)[_START:]

    def take(size: int) -> memoryview:
        nonlocal rest
        taken, rest = rest[:size], rest[size:]
        return taken

    data, lengths = json.loads(zlib.decompress(take(int.from_bytes(snapshot[40:_START], "little"))))
    if data["settings"] != settings:
        raise FormatError("the policy settings have changed since the snapshot")
    arrays = {}
    for name, kind, shape in data["arrays"]:
        dtype = np.dtype(kind)
        arrays[name] = np.ndarray(shape, dtype, take(dtype.itemsize * math.prod(shape))).copy()
    policy = from_data(data["policy"], arrays)
    beside = {name: bytes(take(size)) for name, size in lengths.items()}
    return Unpacked(policy, State.from_data(data["state"]), data["edits"], data["more"], beside)
