"""Saved policies: one zip file of arrays and JSON, with a format version and a checksum. No pickle.

    policy.json    what kind of policy, its settings, its open decisions, its random state, its model
    arrays.npz     rows learned, contexts of open decisions, arrays of settings
    checksum       SHA-256 of the two above

A file is written beside its place and moved there when complete. A policy is built again with its ``get_params``, and
takes back what it has learned (`Policy._restore`).
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._files import replacing, write_arrays
from kinbandits._value import from_json, to_json
from kinbandits._version import __version__
from kinbandits.errors import FormatError, InvalidTypeError, KinbanditsError, MissingFileError
from kinbandits.policy.arms import Arms
from kinbandits.policy.base import Policy

FORMAT = "kinbandits policy"
FORMAT_VERSION = 1
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


def save(policy: Policy, path: str | PathLike[str]) -> None:
    """Write ``policy`` to ``path``."""
    arrays: dict[str, NDArray[Any]] = {}
    params = {name: to_json(value, arrays) for name, value in policy.get_params().items()}
    learned, rows = policy._state()
    ledger, pending = policy._ledger.state()
    data = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "written_by": __version__,
        "policy": policy.kind,
        "params": params,
        "feature_names": None if policy.feature_names is None else list(policy.feature_names),
        "learned_from": list(policy.learned_from),
        "retired": [name for name in policy.arms if name in policy.retired],
        "owner": policy._owner,
        "columns": policy._columns,
        "ledger": ledger,
        "rng": _plain(policy.rng.bit_generator.state),
        "learned": learned,
    }
    rows = {f"learned_{name}": value for name, value in rows.items()}
    _write(_path(path), data, {**arrays, **rows, **pending})


def load(path: str | PathLike[str]) -> Any:
    """Read a policy that ``policy.save`` wrote; it continues with the decisions it would have made."""
    data, arrays = _read(_path(path))
    try:
        return _rebuilt(data, arrays)
    except FormatError:
        raise
    except (KinbanditsError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise FormatError(
            f"{path} holds a policy whose parts do not fit together ({type(error).__name__}: {error})"
        ) from error


def _path(path: Any) -> Path:
    if not isinstance(path, str | PathLike):
        raise InvalidTypeError(f"path must be a str or a pathlib.Path, got {path!r}")
    return Path(path)


def _rebuilt(data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Policy:
    kind = Policy.registry.get(data["policy"])
    if kind is None:
        raise FormatError(
            f"the file holds a policy of class {data['policy']!r}, which is not known here; import the module that "
            "defines it first, or upgrade kinbandits"
        )
    params = {name: from_json(value, arrays) for name, value in data["params"].items()}
    policy = kind(**params)
    _check_tables(arrays, policy.n_arms)
    policy._arms = Arms(policy.arms, frozenset(data["retired"]))
    policy.feature_names = None if data["feature_names"] is None else tuple(data["feature_names"])
    policy.learned_from = tuple(data["learned_from"])
    policy._owner, policy._columns = data["owner"], data["columns"]
    rows = {name.removeprefix("learned_"): value for name, value in arrays.items() if name.startswith("learned_")}
    policy._restore(data["learned"], rows)
    policy._ledger.restore(data["ledger"], arrays)
    policy.rng = _generator(data["rng"])
    return policy


def _check_tables(arrays: dict[str, NDArray[Any]], n_arms: int) -> None:
    """Refuse tables of rows and decisions that are not what their names say."""
    for name, array in arrays.items():
        what = name.rstrip("0123456789").rstrip("_").rpartition("_")[2]
        if what in ("arms", "ids", "numbers"):
            fits = array.ndim == 1 and array.dtype.kind in "iu"
            fits = fits and (what != "arms" or not array.size or (array.min() >= 0 and array.max() < n_arms))
        elif what in ("contexts", "rewards", "propensities"):
            fits = array.ndim == (2 if what == "contexts" else 1) and array.dtype.kind == "f"
            fits = fits and (name == "closed_rewards" or bool(np.isfinite(array).all()))
        else:
            continue
        if not fits:
            raise FormatError(f"the table {name!r} of the file holds no {what}: {array.dtype}, shape {array.shape}")


def _plain(state: Any) -> Any:
    """The state of a random generator as JSON data: some kinds hold arrays."""
    if isinstance(state, dict):
        return {name: _plain(value) for name, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray | np.generic) else state


def _generator(state: dict[str, Any]) -> np.random.Generator:
    kind = state["bit_generator"]
    if kind not in _BIT_GENERATORS:
        raise FormatError(f"the file names a random generator {kind!r}, which this release does not know")
    bit_generator = getattr(np.random, kind)()
    bit_generator.state = state
    return np.random.Generator(bit_generator)


def _write(path: Path, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    text = json.dumps(data, allow_nan=False).encode()
    buffer = io.BytesIO()
    write_arrays(buffer, arrays)
    packed = buffer.getvalue()
    with replacing(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        checksum = _checksum(text, packed).encode()
        for name, content in (("policy.json", text), ("arrays.npz", packed), ("checksum", checksum)):
            member = zipfile.ZipInfo(name)  # without the time of day: the same policy gives the same bytes
            archive.writestr(member, content, zipfile.ZIP_DEFLATED, compresslevel=1)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    if not path.exists():
        raise MissingFileError(f"there is no file {path}")
    try:
        with zipfile.ZipFile(path) as archive:
            text, packed = archive.read("policy.json"), archive.read("arrays.npz")
            checksum = archive.read("checksum").decode()
    except (zipfile.BadZipFile, KeyError, EOFError, OSError, ValueError) as error:
        raise FormatError(f"{path} is not a saved kinbandits policy, or it is damaged ({error})") from error
    except Exception as error:  # zlib.error has no common ancestor with the above
        raise FormatError(f"{path} is damaged ({error}); restore it from a copy") from error
    if checksum != _checksum(text, packed):
        raise FormatError(f"{path} is damaged: its checksum does not fit its content; restore it from a copy")
    data = json.loads(text)
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("version"), int):
        raise FormatError(f"{path} is no saved policy: it names no format {FORMAT!r} with a version")
    if data["version"] > FORMAT_VERSION:
        raise FormatError(
            f"{path} has format version {data['version']}, written by kinbandits {data.get('written_by')}; this "
            f"release reads versions up to {FORMAT_VERSION}. Upgrade kinbandits to read it"
        )
    with np.load(io.BytesIO(packed), allow_pickle=False) as loaded:
        return data, dict(loaded)


def _checksum(text: bytes, packed: bytes) -> str:
    return hashlib.sha256(text + packed).hexdigest()
