"""Saved policies: one zip file of arrays and JSON, with a format version and a checksum. No pickle.

    policy.json    what kind of policy, its settings, its open decisions, its random state
    arrays.npz     rows learned, contexts of open decisions, array fields of settings
    checksum       SHA-256 of the two above

A file is written beside its place and moved there when complete. A policy class adds what it has learned to what
all have (`Policy._learned`) and takes it back (`_relearn`); it is built again with its ``get_params``.
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
from kinbandits._renamed import modern_params
from kinbandits._spec import from_spec, to_spec
from kinbandits._value import Value
from kinbandits._version import __version__
from kinbandits.errors import FormatError, InvalidTypeError, KinbanditsError, MissingFileError
from kinbandits.policies.base import Policy

FORMAT = "kinbandits policy"
FORMAT_VERSION = 1
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


def save(policy: Policy, path: str | PathLike[str]) -> None:
    """Write ``policy`` to ``path``."""
    _write(Path(path), *to_data(policy))


def to_data(policy: Policy) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """All of a policy as JSON data and arrays."""
    values: dict[str, NDArray[Any]] = {}
    params = {name: _param_spec(name, value, values) for name, value in policy.get_params().items()}
    learned, rows = policy._learned(lambda value: to_spec(value, values))
    ledger, pending = policy._ledger.to_data()
    data = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "written_by": __version__,
        "policy": policy.kind,
        "params": params,
        **({} if policy.feature_names is None else {"feature_names": list(policy.feature_names)}),
        **({"learned_from": list(policy.learned_from)} if policy.learned_from else {}),
        "retired": [name for name in policy.arms if name in policy.retired],
        "ledger": ledger,
        "rng": _state_data(policy.rng.bit_generator.state),
        **learned,
    }
    return data, {**rows, **pending, **values}


def load(path: str | PathLike[str], *, context_kernel: object = None, exploration: Any = None) -> Any:
    """Read a policy that ``policy.save`` wrote; it continues with the decisions it would have made.

    A plain callable, which no file can hold, is given again: as ``context_kernel`` (several, or under another name
    now: a mapping from names to callables) or as ``exploration``.
    """
    data, arrays = _read(Path(path))
    try:
        _check(data, arrays)
        return from_data(data, arrays, context_kernel=context_kernel, exploration=exploration)
    except (KinbanditsError, RecursionError, MemoryError):
        raise
    except Exception as error:  # whatever a part makes of data that is not its own
        raise FormatError(
            f"the content of {path} does not fit together ({type(error).__name__}: {error}); it was changed after "
            "it was written, or another program wrote it"
        ) from error


def _check(data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raise where tables differ in length, or hold what no policy writes: the rest would be learned as it is."""
    arms = data["params"]["arms"]
    n_arms = arms if isinstance(arms, int) else len(arms)
    tables = [("arms", "contexts", "rewards"), ("rewarded_ids", "rewarded_values")]
    tables.append(("pending_ids", "pending_arms", "pending_propensities", "pending_contexts"))
    for table in tables:
        parts = {name: arrays[name] for name in table if name in arrays}
        if len({len(part) for part in parts.values()}) > 1:
            raise FormatError(f"the arrays {', '.join(parts)} must be of one length")
        for name, part in parts.items():
            if part.dtype.kind not in "iuf" or part.ndim != (2 if name.endswith("contexts") else 1):
                raise FormatError(f"the array {name} has shape {part.shape} and type {part.dtype}")
            if not np.isfinite(part).all():
                raise FormatError(f"the array {name} holds NaN or infinity")
    for name, most in (("arms", n_arms), ("pending_arms", n_arms), ("pending_ids", data["ledger"]["next_id"])):
        part = arrays.get(name, np.zeros(0, dtype=np.int64))
        if part.dtype.kind not in "iu" or (part < 0).any() or (part >= most).any():
            raise FormatError(f"the array {name} must hold whole numbers from 0 to {most - 1}")
    propensities = arrays["pending_propensities"]
    if (propensities < 0.0).any() or (propensities > 1.0).any():
        raise FormatError("the array pending_propensities must be between 0 and 1")
    strange = set(data["retired"]) - set(range(n_arms) if isinstance(arms, int) else arms)
    if strange:
        raise FormatError(f"{min(map(str, strange))!r} is retired, but is no arm")


def from_data(
    data: dict[str, Any], arrays: dict[str, NDArray[Any]], *, context_kernel: object = None, exploration: Any = None
) -> Any:
    """Rebuild a policy from what `to_data` gave."""
    kind = _kind(data["policy"])
    if kind is None:
        raise FormatError(
            f"the file holds a policy of class {data['policy']!r}, which is not known here; import the module that "
            "defines it first, or upgrade kinbandits"
        )
    supplied = {"context_kernel": context_kernel, "exploration": exploration}
    params = {name: _param(name, spec, arrays, supplied) for name, spec in modern_params(data["params"]).items()}
    policy = kind(**params)
    policy.retired = set(data["retired"])
    policy.feature_names = tuple(data["feature_names"]) if "feature_names" in data else None
    policy.learned_from = tuple(data.get("learned_from", ()))
    policy._relearn(data, arrays, lambda spec: from_spec(spec, arrays, foreign=context_kernel))
    policy._ledger.restore(data["ledger"], arrays)
    policy.rng = _generator(data["rng"])
    return policy


def _kind(name: str) -> type[Any] | None:
    """The class of this name; earlier releases wrote yours without its module."""
    named = [kind for key, kind in Policy.kinds.items() if key == name or key.endswith(f":{name}")]
    return Policy.kinds.get(name) or (named[0] if len(named) == 1 else None)


def _state_data(state: Any) -> Any:
    """The state of a random generator as JSON data: some kinds hold arrays."""
    if isinstance(state, dict):
        return {name: _state_data(value) for name, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray | np.generic) else state


def _generator(state: dict[str, Any]) -> np.random.Generator:
    kind = state["bit_generator"]
    if kind not in _BIT_GENERATORS:
        raise FormatError(f"the file names a random generator {kind!r}, which this release does not know")
    bit_generator = getattr(np.random, kind)()
    bit_generator.state = state
    return np.random.Generator(bit_generator)


def _param_spec(name: str, value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if name == "exploration" and callable(value) and not isinstance(value, Value):
        return {"type": "callable", "name": getattr(value, "__name__", repr(value))}
    return to_spec(value, arrays)


def _param(name: str, spec: Any, arrays: dict[str, NDArray[Any]], supplied: dict[str, object]) -> Any:
    if name != "exploration":
        return from_spec(spec, arrays, foreign=supplied["context_kernel"])
    function = _plain_function(spec)
    if function is not None and supplied["exploration"] is None:
        raise InvalidTypeError(
            f"the policy was saved with a plain function as exploration ({function}); give it again: "
            "kb.load(path, exploration=f)"
        )
    if isinstance(spec, dict) and spec.get("type") == "callable":
        return supplied["exploration"]
    return from_spec(spec, arrays, foreign=None if function is None else {function: supplied["exploration"]})


def _plain_function(spec: Any) -> str | None:
    """The name of a schedule that no file can hold, alone or within a rule."""
    if not isinstance(spec, dict):
        return None
    if spec.get("type") in ("callable", "foreign"):
        return str(spec["name"])
    return next((found for value in spec.values() if (found := _plain_function(value)) is not None), None)


def _write(path: Path, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    text = json.dumps(data, allow_nan=False).encode()
    buffer = io.BytesIO()
    write_arrays(buffer, arrays)
    packed = buffer.getvalue()
    with replacing(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        sealed = _checksum(text, packed).encode()
        for name, content in (("policy.json", text), ("arrays.npz", packed), ("checksum", sealed)):
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
    try:
        data = json.loads(text)
        with np.load(io.BytesIO(packed), allow_pickle=False) as loaded:
            arrays = dict(loaded)
    except Exception as error:
        raise FormatError(f"{path} is damaged ({error}); restore it from a copy") from error
    found = data if isinstance(data, dict) else {}
    if found.get("format") != FORMAT:
        raise FormatError(f"{path} is a {found.get('format')!r} file, not a saved policy")
    version = found.get("version")
    if not isinstance(version, int) or version < 1:
        raise FormatError(f"{path} says no format version that there is, but {version!r}")
    if version > FORMAT_VERSION:
        raise FormatError(
            f"{path} has format version {version}, written by kinbandits {found.get('written_by')}; this "
            f"release reads versions up to {FORMAT_VERSION}. Upgrade kinbandits to read it"
        )
    return found, arrays


def _checksum(text: bytes, packed: bytes) -> str:
    return hashlib.sha256(text + packed).hexdigest()
