"""The `Model`: what a policy has learned beside its rows, as a frozen value; and `Spec`, what was left to learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from kinbandits._types import Matrix
from kinbandits._value import Positive, Real, Value, from_json, positive, to_json
from kinbandits.kernels import Kernel, Linear, RationalQuadratic, Scaled, Sum
from kinbandits.model.when import following
from kinbandits.regression.contract import KZ, Common
from kinbandits.similarity import Known, Learned, Mixed, Similarity

Kind = Literal["shared", "rivals", "task"]
"""Whose contexts a round has: one for all arms; one for each arm; candidates of one arm, which is given."""

USUAL = 0.01  # the ridge without noise, and until there is evidence


class Candidate(NamedTuple):
    """An alternative, and the nats by which it leads the first of its kind."""

    what: str
    lead: float


class Scale(Value):
    """Rewards are learned as (r - level) / unit, and nothing of that is learned: ``rewards=kb.Scale(0.3, 0.5)``."""

    level: Real = 0.0
    unit: Positive = 1.0


@dataclass(frozen=True, eq=False)
class Model:
    """How rows are seen: a frozen value, printed as ``print(policy.model)``.

    Attributes:
        kernels: k_X of each term.
        k_z: similarity of the arms, of each term: a matrix, a `Common`, or a value that follows the rows.
        ridge: the paper's lambda, noise / signal.
        level, unit: a reward r is learned as (r - level) / unit.
        rows: the model was fitted from the first ``rows`` rows.
        table: evidence of each alternative, in nats.
        varied: whether the rewards of these rows differ.
        notes: what happened to the rows beside learning, in words.
    """

    kernels: tuple[Kernel, ...]
    k_z: tuple[KZ, ...]
    ridge: float = USUAL
    level: float = 0.0
    unit: float = 1.0
    rows: int = 0
    table: tuple[Candidate, ...] = ()
    varied: bool = False
    notes: tuple[str, ...] = ()

    @property
    def kernel(self) -> Kernel:
        """k_X (of the first term, if there are several)."""
        return self.kernels[0]

    def as_settings(self) -> dict[str, Any]:
        """Arguments of `KMTLUCB` that pin what is in force, for a model of one term."""
        k_z = self.k_z[0]
        if isinstance(k_z, Common):
            k_z = Mixed(k_z.shared)
        elif isinstance(k_z, np.ndarray):
            k_z = Known(k_z)
        scale = Scale(self.level, self.unit)
        return {"similarity": k_z, "context_kernel": self.kernel, "ridge": self.ridge, "rewards": scale}

    def __str__(self) -> str:
        """In words.

        >>> print(Model((RationalQuadratic(2.0),), (Common(3, 0.5),), 0.1, 0.3, 0.5, 26))
        from 26 rows: distances of scale 2; ridge 0.1, level 0.3, unit 0.5
          similarity: any two arms 0.5
          next fit at 34 rows
        """
        kernels = " + ".join(describe(k) for k in self.kernels)
        rows = f"from {self.rows} row{'' if self.rows == 1 else 's'}" if self.rows else "before any row"
        lines = [f"{rows}: {kernels}; ridge {self.ridge:.3g}, level {self.level:.3g}, unit {self.unit:.3g}"]
        lines += [f"  similarity: {_describe_k_z(k)}" for k in self.k_z]
        lines += [f"  {c.what}: {c.lead:+.1f} nats" for c in self.table]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes), f"  next fit at {following(self.rows)} rows"])

    def _repr_html_(self) -> str:
        return f"<pre>{self}</pre>"

    def same_view(self, other: Model) -> bool:
        """Whether both see rows alike, so that nothing has to be learned again."""
        return self is other or (
            self.kernels == other.kernels
            and (self.ridge, self.level, self.unit) == (other.ridge, other.level, other.unit)
            and all(_same_k_z(a, b) for a, b in zip(self.k_z, other.k_z, strict=True))
        )

    def to_json(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """For a file: arrays go into ``arrays``."""
        k_z = [
            {"shared": k.shared, "n_arms": k.n_arms} if isinstance(k, Common) else to_json(k, arrays) for k in self.k_z
        ]
        plain = {n: getattr(self, n) for n in ("ridge", "level", "unit", "rows", "varied")}
        lists = {"table": [[c.what, repr(float(c.lead))] for c in self.table], "notes": list(self.notes), "k_z": k_z}
        return plain | lists | {"kernels": [to_json(k, arrays) for k in self.kernels]}

    @classmethod
    def from_json(cls, data: dict[str, Any], arrays: Mapping[str, Any]) -> Model:
        """From what `to_json` gave."""
        k_z = tuple(Common(**k) if "shared" in k else from_json(k, arrays) for k in data["k_z"])
        kernels = tuple(from_json(k, arrays) for k in data["kernels"])
        table = tuple(Candidate(what, float(lead)) for what, lead in data["table"])
        plain = {n: data[n] for n in ("level", "rows", "varied")}
        plain |= {n: positive(n, data[n]) for n in ("ridge", "unit")}
        return cls(kernels, k_z, table=table, notes=tuple(data["notes"]), **plain)


def distances(kernel: Any) -> Any:
    """The kernel of distances in one of ours."""
    while not isinstance(kernel, RationalQuadratic):
        kernel = kernel.first if hasattr(kernel, "first") else kernel.kernel
    return kernel


def describe(kernel: Kernel) -> str:
    """A kernel in words: a learned one by its kind, any other as its value.

    >>> describe(0.5 * RationalQuadratic(2.0) + Linear())
    'distances of scale 2, half linear'
    """
    if isinstance(kernel, Sum) and isinstance(kernel.first, Sum):
        return f"{describe(distances(kernel))}, nearly linear"
    if isinstance(kernel, Sum) and isinstance(kernel.first, Scaled) and isinstance(kernel.second, Linear):
        return f"{describe(distances(kernel))}, half linear"
    if isinstance(kernel, RationalQuadratic) and kernel.alpha == 1.0:
        scales = np.atleast_1d(kernel.length_scale)
        each = f"{scales[0]:.3g}" if len(scales) == 1 else f"{scales.min():.3g} to {scales.max():.3g}, by feature"
        return f"distances of scale {each}"
    return repr(kernel)


def _describe_k_z(k_z: Any) -> str:
    if isinstance(k_z, np.ndarray):
        off = k_z[~np.eye(len(k_z), dtype=bool)]
        between = f", two arms {np.median(off):.2f} ({off.min():.2f} to {off.max():.2f})" if len(off) else ""
        return f"a matrix of {len(k_z)} arms{between}"
    if isinstance(k_z, Common):
        return "independent arms" if not k_z.shared else f"any two arms {k_z.shared:.3g}"
    return repr(k_z)


def _same_k_z(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a is b or (isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.array_equal(a, b))
    return bool(a == b)


@dataclass(frozen=True, eq=False)
class Spec:
    """What is fixed by the user; None is learned."""

    n_arms: int
    similarities: tuple[Similarity, ...]
    kernels: tuple[Kernel | None, ...]
    columns: tuple[tuple[int, ...] | None, ...]
    ridge: float | None
    scale: tuple[float, float] | None  # level and unit

    @property
    def learns(self) -> bool:
        """Whether anything is left to be learned."""
        similarity = isinstance(self.similarities[0], Learned)
        return similarity or self.kernels[0] is None or self.ridge is None or self.scale is None

    def select(self, term: int, X: Matrix) -> Matrix:
        """The columns of contexts that a term sees."""
        columns = self.columns[term]
        return X if columns is None else X[:, list(columns)]
