"""What a policy learns beside its rows: kernel, ridge, level and unit of rewards, similarity of the arms.

A policy is rows + a `Model` + an engine. The model says how rows are seen. It is fitted at milestones from the first m
rows and from nothing else, so that rows one by one, in bulk, replayed or loaded give the same model.

Notation (m rows, N arms)
    y        (m,)    rewards                      K        (m, m)  prior covariance, in units of s^2
    M        (m, m)  K + ridge I                  level    1' M^-1 y / 1' M^-1 1, the constant that fits best
    fit      (y - level)' M^-1 (y - level)        s^2      fit / (m - 1), the variance of the arms' functions
    evidence -(m - 1)/2 log fit - 1/2 log det M - 1/2 log 1' M^-1 1    (restricted likelihood, profiled over s^2), nats
    k_Z      (N, N)  similarity of the arms       T        (1 - mu) I + mu B, the target it is shrunk to

One criterion judges everything: evidence. Kernel and ridge are judged on each arm's own rows, where neither depends on
what arms share; the similarity on the rows of all arms together.

Where each constant comes from is said beside it; figures are those of `benchmarks/noise.py` and `benchmarks/kin.py`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.linalg import lapack

from kinbandits._types import Indices, Matrix, Vector
from kinbandits._value import Positive, Real, Value, from_json, to_json
from kinbandits.history import History
from kinbandits.kernels import Constant, Kernel, Linear, RationalQuadratic, Scaled, Sum, cdist
from kinbandits.regression.contract import KZ, Common
from kinbandits.similarity import Known, Learned, Mixed, Similarity

Kind = Literal["shared", "rivals", "task"]
"""Whose contexts a round has: one for all arms; one for each arm; candidates of one arm, which is given."""

# -- when ---------------------------------------------------------------------------------------
GROWTH = 1.3  # a model is fitted again when the rows have grown by so much: 29 times in the first 5,000 rows
FIRST = 20  # rows from which on kernel, ridge and level are judged; before, every function looks like noise
RECENT = 1000  # rows that a fit sees without exception; of older ones those with frac(i golden) < RECENT / age

# -- ridge --------------------------------------------------------------------------------------
USUAL = 0.01  # the ridge without noise, and until there is evidence
MOST = 3.0
PRIOR = 2.0  # nats of evidence asked for each factor e away from USUAL
FEW = 15.0  # rows an arm at which half of the evidence counts: a function not learned yet looks like noise
SHARE = 20.0  # rows an arm for each unit of ridge: a ridge as large as n would mean that nothing is learned
ROUGHER = 16  # K^16 stands for rougher functions, of an RBF those of a quarter of its length
ROUGH_LEAD = 5.0  # nats by which rougher functions must win before rewards that are missed are no noise
NOISE_ROWS = 300  # of an arm that are looked at, at most

# -- kernel -------------------------------------------------------------------------------------
RIDGES = (0.01, 0.1, 1.0, 10.0)  # of which the best counts, for each kernel
KERNEL_ROWS = 150  # of an arm
NEARLY = 0.03  # the share of distances in a kernel that is nearly linear
UNEVEN = 30.0  # times the usual width, from which on a feature hides the others: each then has its own width
CLEAR, NOISY, EARLY = 3.0, 1.0, 10.0  # nats a kernel must lead by; where noise is large; with few rows an arm
EACH = 10  # rows an arm: before that, levels of arms look like slopes

# -- similarity ---------------------------------------------------------------------------------
LEAD = 20.0  # nats by which sharing must beat independent arms where all see one context. Leads that lie stay
# below 13 (play chooses the rows: where one arm is played since the others are bad, a common part fits); true ones grow
MUS = (0.5, 0.9)
SIMILARITY_ROWS = 400  # m^3 a candidate
SHRINK = 5.0  # rows that the target is worth
STEPS = 12  # of EM a fit; it goes on from the matrix in force
FEW_ARMS = 300  # above, arms without rows are not told apart while a matrix is learned
MOST_ARMS = 2000  # up to which a whole matrix is learned


BREAK_ROWS = 200  # recent rows that are compared with as many times two before them
BREAK_EVERY = 100, 1.05  # rows, growth: how often
BREAK_LEAD = 20.0  # nats by which two unrelated sets of functions must win, as above


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
        from 26 rows: RationalQuadratic(length_scale=2.0); ridge 0.1, level 0.3, unit 0.5
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
        k_z = [{"shared": k.shared, "n_arms": k.n_arms} if isinstance(k, Common) else to_json(k, arrays) for k in self.k_z]
        plain = {n: getattr(self, n) for n in ("ridge", "level", "unit", "rows", "varied")}
        lists = {"table": [list(c) for c in self.table], "notes": list(self.notes), "k_z": k_z}
        return plain | lists | {"kernels": [to_json(k, arrays) for k in self.kernels]}

    @classmethod
    def from_json(cls, data: dict[str, Any], arrays: Mapping[str, Any]) -> Model:
        """From what `to_json` gave."""
        k_z = tuple(Common(**k) if "shared" in k else from_json(k, arrays) for k in data["k_z"])
        kernels = tuple(from_json(k, arrays) for k in data["kernels"])
        table = tuple(Candidate(*c) for c in data["table"])
        plain = {n: data[n] for n in ("ridge", "level", "unit", "rows", "varied")}
        return cls(kernels, k_z, table=table, notes=tuple(data["notes"]), **plain)


def describe(kernel: Kernel) -> str:
    """A kernel in words: a learned one by its kind, any other as its value."""
    if isinstance(kernel, Sum) and isinstance(kernel.first, Sum):
        return f"{describe(_base(kernel))}, nearly linear"
    if isinstance(kernel, Sum) and isinstance(kernel.first, Scaled) and isinstance(kernel.second, Linear):
        return f"{describe(_base(kernel))}, half linear"
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


# -- when a model is fitted, and from which rows ---------------------------------------------------


def following(n: int) -> int:
    """The first milestone above n.

    >>> n, stones = 0, []
    >>> while n < 30:
    ...     stones.append(n := following(n))
    >>> stones
    [1, 2, 3, 4, 6, 8, 11, 15, 20, 26, 34]
    """
    return _first_above(n, _STONES, lambda last: max(last + 1, math.ceil(last * GROWTH)))


def next_check(n: int) -> int:
    """The first number of rows above n at which recent rows are compared with earlier ones."""
    every, growth = BREAK_EVERY
    return _first_above(n, _CHECKS, lambda last: last + max(every, int(last * (growth - 1.0))))


_STONES = [1]
_CHECKS = [3 * BREAK_ROWS]


def _first_above(n: int, known: list[int], after: Callable[[int], int]) -> int:
    while known[-1] <= n:
        known.append(after(known[-1]))
    return known[bisect_right(known, n)]


def golden(indices: Indices) -> Vector:
    """frac(i g): numbers in [0, 1) that are evenly spread over any stretch of rows and follow no period."""
    return np.asarray((indices * 0.6180339887498949) % 1.0)


def kept(indices: Indices, n: int) -> Any:
    """A mask of the rows that a fit from n rows may see: the last `RECENT`, and fewer the older they are.

    >>> bool(kept(np.arange(100_000), 100_000).sum() < 6000)
    True
    """
    age = n - indices
    return (age <= RECENT) | (golden(indices) * age < RECENT)


# -- evidence --------------------------------------------------------------------------------------


class Fit(NamedTuple):
    """What rows say of a covariance M: see the notation."""

    evidence: float
    level: float
    variance: float  # s^2


NOTHING = Fit(-math.inf, 0.0, 0.0)


def evidence(blocks: Sequence[tuple[Matrix, Vector]], ridge: float) -> Fit:
    """Of rewards in unrelated blocks (K, y), with level and variance left open.

    Rewards should differ, and be of the order of 1.
    """
    squares = crossed = ones = log_det = 0.0
    m = 0
    for K, y in blocks:
        M = K.copy()
        M.reshape(-1)[:: len(y) + 1] += ridge
        L, failed = lapack.dpotrf(M.T, lower=1, overwrite_a=1)
        if failed:
            return NOTHING
        both = np.ones((2, len(y)))
        both[0] = y
        z, _ = lapack.dtrtrs(L, both.T, lower=1)
        (yy, y1), (_, one) = (z.T @ z).tolist()
        squares, crossed, ones, m = squares + yy, crossed + y1, ones + one, m + len(y)
        log_det += 2.0 * float(np.log(L.diagonal()).sum())
    fit = squares - crossed**2 / ones
    if m < 2 or not fit > 1e-12 * squares:  # all rewards are equal, but for rounding: every M explains them
        return NOTHING
    found = -0.5 * ((m - 1) * math.log(fit) + log_det + math.log(ones))
    return Fit(found, crossed / ones, fit / (m - 1))


def best(blocks: Sequence[tuple[Matrix, Vector]], ridges: Sequence[float]) -> tuple[Fit, float]:
    """The evidence at the best of a few ridges, and that ridge."""
    return max(((evidence(blocks, r), r) for r in ridges), key=lambda found: found[0].evidence)


# -- the fit ---------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """The rows of a fit, rewards scaled to 0..1."""

    arms: Indices
    X: Matrix
    y: Vector
    each: float  # rows an arm, on average, of all rows

    def of_arms(self, most: int) -> Iterator[tuple[int, Indices]]:
        """The rows of each arm: all of them, or so many, evenly spread."""
        order = np.argsort(self.arms, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(self.arms[order])) + 1):
            few = rows if len(rows) <= most else rows[golden(np.arange(len(rows))) < most / len(rows)]
            yield int(self.arms[rows[0]]), few


def fit(history: History, spec: Spec, old: Model, kind: Kind, n: int) -> Model:
    """The model from these rows, which are what is kept of the first ``n``."""
    y = history.rewards
    low, high = float(y.min()), float(y.max())
    wide = high - low
    if not 0.0 < wide < math.inf:
        if old.varied:
            return replace(old, rows=n)  # the rows that differed are too old to be seen: nothing new is known
        level, unit = spec.scale or (low, 1.0)
        return replace(start(spec, kind, old), level=level, unit=unit, rows=n)
    rows = Rows(history.arms, history.contexts, (y - low) / wide, n / len(np.unique(history.arms)))
    table: list[Candidate] = []
    kernels = old.kernels
    if None in spec.kernels:  # a single term
        kernels = (fit_kernel(rows, spec, old.kernels[0], table),)
    if n < FIRST:
        model = replace(start(spec, kind, old), kernels=kernels, level=low, unit=wide)
    else:
        ridge, found = fit_ridge(rows, spec, kernels, old)
        explained = float(rows.y.std()) / math.sqrt(1.0 + ridge)
        # The unit is 2 s: one unit of the posterior deviation is an upper bound of two deviations. Never more than
        # rewards differ at all; never less than one deviation of what is explained of them: without noise a smooth
        # function is known from a few rows and s^2 falls like 1 / m, so that nothing new would be tried.
        unit = wide * min(1.0, max(2.0 * math.sqrt(found.variance), explained))
        model = Model(kernels, old.k_z, ridge, low + wide * found.level, unit)
        near = abs(math.log(model.ridge / old.ridge)) < 0.4 and abs(math.log(model.unit / old.unit)) < 0.1
        if near and old.rows >= FIRST and abs(model.level - old.level) < 0.1 * unit:  # too small a change to refit
            model = replace(model, ridge=old.ridge, level=old.level, unit=old.unit)
    if spec.scale is not None:
        model = replace(model, level=spec.scale[0], unit=spec.scale[1])
    if spec.ridge is not None:
        model = replace(model, ridge=spec.ridge)
    k_z = fit_similarity(rows, spec, model, old, kind, n, table)
    return replace(model, k_z=k_z, rows=n, table=tuple(table), varied=True, notes=old.notes)


def start(spec: Spec, kind: Kind, old: Model | None = None) -> Model:
    """The model before rewards have said anything; of ``old`` kernels and fixed similarities stay."""
    if old is not None:
        kernels, k_z = old.kernels, old.k_z
    else:
        kernels = tuple(RationalQuadratic() if k is None else k for k in spec.kernels)
        k_z = tuple(s.in_force(spec.n_arms) for s in spec.similarities)
    if isinstance(spec.similarities[0], Learned):
        k_z = (first_target(spec.similarities[0], spec.n_arms, kind),)
    level, unit = spec.scale or (0.0, 1.0)
    return Model(kernels, k_z, USUAL if spec.ridge is None else spec.ridge, level, unit, notes=old.notes if old else ())


def broken(history: History, spec: Spec, model: Model) -> float:
    """The nats by which the last rows are explained better without those before: whether the world has changed.

    Rows before and after are judged as arms are: as one set of functions, and as two that are unrelated, each at its
    own best ridge. Scale and level are common, so that arms which pay more are no change. Rows of one reward (an
    outage) cannot be judged.
    """
    n = len(history)
    few = np.arange(max(0, n - 3 * BREAK_ROWS), n)
    y, late = history.rewards[few], few >= n - BREAK_ROWS
    if not late.any() or late.all() or np.ptp(y[late]) == 0.0 or np.ptp(y[~late]) == 0.0:
        return -math.inf
    low, wide = float(y.min()), float(np.ptp(y))
    if not 0.0 < wide < math.inf:
        return -math.inf
    rows = Rows(history.arms[few], history.contexts[few], (y - low) / wide, 1.0)
    two, one = [], []
    for arm, own in rows.of_arms(NOISE_ROWS):
        K = _own_covariance(rows, spec, model.kernels, model.k_z, arm, own)
        one.append((K, rows.y[own]))
        two += [(K[np.ix_(part, part)], rows.y[own[part]]) for part in (late[own], ~late[own]) if part.any()]
    return best(two, RIDGES)[0].evidence - best(one, RIDGES)[0].evidence


# -- kernel ----------------------------------------------------------------------------------------


def fit_kernel(rows: Rows, spec: Spec, old: Kernel, table: list[Candidate]) -> Kernel:
    """Distances in one unit or each feature in its own; half of it linear, or nearly all, where rewards ask for it."""
    X = spec.select(0, rows.X)
    few = X if len(X) <= NOISE_ROWS else X[golden(np.arange(len(X))) < NOISE_ROWS / len(X)]
    plain, own = median_scale(few), None
    if X.shape[1] > 1 and len(few) >= 10:
        widths = feature_widths(few)
        own = widths * median_scale(few / widths)
    uneven = own is not None and own.max() > UNEVEN * np.median(own)
    scales = {"own units": own} if uneven else {"one unit": plain}
    if own is not None and not uneven:
        scales["own units"] = own
    early = rows.each < EACH
    kernels = {name: RationalQuadratic(length_scale=_scale(s)) for name, s in scales.items()}
    if len(rows.y) < FIRST or (early and len(rows.y) < 60):
        return _near(next(iter(kernels.values())), old)  # no lead can be large enough yet
    parts = [r for _, r in rows.of_arms(KERNEL_ROWS)]

    def judged(kernel: Kernel) -> tuple[float, float]:
        found, ridge = best([(kernel(X[r], X[r]), rows.y[r]) for r in parts], RIDGES)
        return found.evidence, ridge

    before = _base(old)
    chosen = "own units" if "own units" in kernels and isinstance(before.length_scale, tuple) else next(iter(kernels))
    top, ridge = judged(kernels[chosen])
    reference = top
    for name in kernels.keys() - {chosen}:
        other, its = judged(kernels[name])
        table.append(Candidate(f"kernel: {name}", other - reference))
        if other - top > (EARLY if early else CLEAR):
            chosen, top, ridge = name, other, its
    kernel: Kernel = kernels[chosen]
    table.append(Candidate(f"kernel: distances, {chosen}", top - reference))
    scale = scales[chosen]  # of the linear part: its variance is then a half on average
    linear = Linear(tuple(X.mean(axis=0).tolist()), _scale(scale))
    for name, straighter in (
        ("half linear", 0.5 * kernels[chosen] + linear),
        ("nearly linear", 0.5 * NEARLY * kernels[chosen] + linear + Constant(0.5 * (1.0 - NEARLY))),
    ):
        found, its = judged(straighter)
        table.append(Candidate(f"kernel: {name}", found - reference))
        noisy = min(ridge, its) >= 1.0
        if found - top <= (EARLY if early else NOISY if noisy else CLEAR):
            break
        kernel, top, ridge = straighter, found, its
    return _near(kernel, old)


def _scale(scale: Vector) -> float | tuple[float, ...]:
    return float(scale[0]) if len(scale) == 1 else tuple(scale.tolist())


def _base(kernel: Kernel) -> Any:
    """The kernel of distances in one of ours."""
    while not isinstance(kernel, RationalQuadratic):
        kernel = kernel.first if hasattr(kernel, "first") else kernel.kernel
    return kernel


def _near(new: Kernel, old: Kernel) -> Kernel:
    """The old kernel, where the new one is of the same kind and nearly as wide: too small a change to refit."""
    a, b = np.atleast_1d(_base(new).length_scale), np.atleast_1d(_base(old).length_scale)
    same = type(new) is type(old) and type(getattr(new, "second", None)) is type(getattr(old, "second", None))
    if same and a.shape == b.shape and np.abs(np.log(a / b)).max() < 0.2:
        return old
    return new


def median_scale(X: Matrix) -> Vector:
    """The median distance of rows that differ, (1,); 1 where none do."""
    distances = cdist(X, X)[np.triu_indices(len(X), k=1)]
    distances = distances[distances > 0.0]
    return np.array([float(np.median(distances)) if distances.size else 1.0])


def feature_widths(X: Matrix) -> Vector:
    """The standard deviation of each feature; one that does not vary is as wide as the usual one."""
    deviations = X.std(axis=0)
    varying = deviations > 1e-9 * np.abs(X).max(axis=0)
    usual = float(np.median(deviations[varying])) if varying.any() else 1.0
    return np.asarray(np.where(varying, deviations, usual))


# -- ridge, level, unit ----------------------------------------------------------------------------


def fit_ridge(rows: Rows, spec: Spec, kernels: tuple[Kernel, ...], old: Model) -> tuple[float, Fit]:
    """The posterior mean of log ridge over a few ridges, and what the rows say at it."""
    blocks = list(_own_blocks(rows, spec, kernels, old.k_z))
    if spec.ridge is not None:
        found = evidence(blocks, spec.ridge)
        return spec.ridge, found if found.evidence > -math.inf else Fit(0.0, float(rows.y.mean()), rows.y.var())
    ridges = USUAL * 10.0 ** (0.5 * np.arange(5.0))
    ridges = np.append(ridges, MOST)
    fits = [evidence(blocks, r) for r in ridges]
    found = np.array([f.evidence for f in fits])
    if not np.isfinite(found).any():  # the rows looked at have one reward: nothing to judge
        return old.ridge, Fit(0.0, float(rows.y.mean()), float(rows.y.var()))
    share = rows.each / (rows.each + FEW)
    against = PRIOR * np.abs(np.log(ridges / USUAL))
    weights = _normalized(share * found - against)
    if weights[0] < 0.999:
        rough = [(_rougher(K), y) for K, y in blocks]
        rougher = np.array([evidence(rough, r).evidence for r in ridges])
        y = np.concatenate([y for _, y in blocks])
        lead = share * (rougher.max() - max(found.max(), _plain(y)))
        if rougher.argmax() < found.argmax() and lead > -50.0:
            # Near contexts with near rewards are no noise: without this Letter loses 6 % in 1,000 rounds.
            odds = math.exp(min(lead - ROUGH_LEAD, 50.0))
            weights = (weights + odds * _normalized(share * rougher - against)) / (1.0 + odds)
    ridge = min(math.exp(float(weights @ np.log(ridges))), max(USUAL, rows.each / SHARE))
    if weights[0] > 0.999:
        ridge = USUAL
    last = evidence(blocks, ridge)
    return ridge, last


def _own_blocks(
    rows: Rows, spec: Spec, kernels: tuple[Kernel, ...], k_z: tuple[Any, ...]
) -> Iterator[tuple[Matrix, Vector]]:
    """Prior covariance and rewards of each arm's own rows."""
    for arm, own in rows.of_arms(NOISE_ROWS):
        yield _own_covariance(rows, spec, kernels, k_z, arm, own), rows.y[own]


def _own_covariance(
    rows: Rows, spec: Spec, kernels: tuple[Kernel, ...], k_z: tuple[Any, ...], arm: int, own: Indices
) -> Matrix:
    K = np.zeros((len(own), len(own)))
    for term, kernel in enumerate(kernels):
        X = spec.select(term, rows.X[own])
        K += _variance(k_z[term], arm) * kernel(X, X)
    return K


def _variance(k_z: Any, arm: int) -> float:
    """k_Z(a, a)."""
    return float(k_z[arm, arm]) if isinstance(k_z, np.ndarray) else 1.0


def _normalized(logs: Vector) -> Vector:
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _rougher(K: Matrix) -> Matrix:
    """Covariances of rougher functions with the same variances: the power of a correlation is one again."""
    root = np.sqrt(np.outer(K.diagonal(), K.diagonal()))
    C = np.divide(K, root, out=np.zeros_like(K), where=root > 0.0)
    return np.asarray(C**ROUGHER * root)


def _plain(y: Vector) -> float:
    """The evidence of a level and noise, nothing else: M = I."""
    fit = float(y @ y) - float(y.sum()) ** 2 / len(y)
    return -0.5 * ((len(y) - 1) * math.log(fit) + math.log(len(y))) if fit > 0.0 else -math.inf


# -- similarity ------------------------------------------------------------------------------------


def first_target(similarity: Learned, n_arms: int, kind: Kind) -> Any:
    """Before rewards have spoken: independent where all arms see one context and nothing describes them; else half
    of what they may have in common."""
    if similarity.base is None:
        return Common(n_arms, 0.5 if kind != "shared" else 0.0)
    return target(similarity, n_arms, 0.5)


def target(similarity: Learned, n_arms: int, mu: float) -> Any:
    """T = (1 - mu) I + mu B."""
    if similarity.base is None:
        return Common(n_arms, mu)
    B = similarity.base.matrix(History(n_arms))
    T = mu * B
    T[np.diag_indices(n_arms)] += (1.0 - mu) * B.diagonal()
    return T


def dense(k_z: Any, arms: Indices) -> Matrix:
    """k_Z of these arms, as a matrix."""
    if isinstance(k_z, Common):
        return (1.0 - k_z.shared) * np.equal.outer(arms, arms) + k_z.shared
    return np.asarray(k_z[np.ix_(arms, arms)])


def fit_similarity(
    rows: Rows, spec: Spec, model: Model, old: Model, kind: Kind, n: int, table: list[Candidate]
) -> tuple[Any, ...]:
    """k_Z of each term: what is given, or what the rows say where it is learned (which stands in a single term)."""
    if not isinstance(spec.similarities[0], Learned):
        return old.k_z
    similarity, N = spec.similarities[0], spec.n_arms
    first = (first_target(similarity, N, kind),)
    if n < FIRST or N == 1 or len(np.unique(rows.arms)) < 2:
        return first
    few = np.arange(len(rows.y))
    if len(few) > SIMILARITY_ROWS:
        few = few[golden(few) < SIMILARITY_ROWS / len(few)]
    few = few[np.argsort(rows.arms[few], kind="stable")]
    y, X = rows.y[few], spec.select(0, rows.X[few])
    K_X = model.kernels[0](X, X)
    seen, place, counts = np.unique(rows.arms[few], return_inverse=True, return_counts=True)
    edges = np.concatenate([[0], np.cumsum(counts)])
    own = [(K_X[a:b, a:b], y[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    alone, ridge = best(own, RIDGES)
    if not math.isfinite(alone.evidence):
        return first
    table.append(Candidate("similarity: independent", 0.0))
    asked = LEAD if kind == "shared" and similarity.base is None else 0.0
    chosen: tuple[float, float, float] | None = None
    for mu in MUS:
        K_Z = dense(target(similarity, N, mu), seen)
        found, its = _climb([(K_Z[np.ix_(place, place)] * K_X, y)], ridge)
        lead = found.evidence - alone.evidence
        table.append(Candidate(f"similarity: mu = {mu:g}", lead))
        if lead > asked and (chosen is None or lead > chosen[1]):
            chosen = mu, lead, its
    if chosen is None:
        return (Common(N, 0.0) if similarity.base is None else target(similarity, N, 0.0),)
    mu, lead, its = chosen
    T = target(similarity, N, mu)
    if kind != "shared" or N > MOST_ARMS:
        return (T,)
    learned, gain = learn_matrix(K_X, y, edges, seen, T, old.k_z[0], its, N)
    if learned is None:
        return (T,)
    table.append(Candidate("similarity: learned arm by arm", lead + gain))
    return (learned,)


def _climb(blocks: Sequence[tuple[Matrix, Vector]], ridge: float) -> tuple[Fit, float]:
    """The evidence at the best ridge uphill from this one, a power of ten a step."""
    top, at = evidence(blocks, ridge), ridge
    for factor in (10.0, 0.1):
        while RIDGES[0] <= at * factor * 1.001 and at * factor <= RIDGES[-1] * 1.001:
            found = evidence(blocks, at * factor)
            if found.evidence <= top.evidence:
                break
            top, at = found, at * factor
        if at != ridge:
            break
    return top, at


def learn_matrix(
    K_X: Matrix, y: Vector, edges: Indices, seen: Indices, T: Any, before: Any, ridge: float, N: int
) -> tuple[Matrix | None, float]:
    """EM of the intrinsic coregionalisation model, shrunk to the target; None where the evidence does not grow.

    The M-step is K_Z = E[F' K_X^-1 F] / (m s^2) over the latent values F of all arms at the m contexts; K_X^-1
    cancels::

        K_Z <- K_Z + K_Z (Q / s^2 - B) K_Z / m      Q[c, d] = sum over rows i of c, j of d of alpha_i alpha_j K_X[i, j]
        K_Z <- (m K_Z + SHRINK T) / (m + SHRINK),   B[c, d] = the same sum of M^-1[i, j] K_X[i, j]
               then to unit diagonal                alpha = M^-1 (y - level)

    Rows are in the order of their arms, those of the c-th arm seen from ``edges[c]`` on. Arms without rows are alike
    under a `Common` target: two stand for all of them.
    """
    m, s, counts = len(y), len(seen), np.diff(edges)
    unseen = np.setdiff1d(np.arange(N), seen)
    alike = isinstance(T, Common) and N > FEW_ARMS  # arms without rows, of which two then stand for all
    arms = np.concatenate([seen, unseen[:2] if alike else unseen])
    goal = dense(T, arms)
    again = isinstance(before, np.ndarray) and len(before) == N and not alike
    K_Z = dense(before, arms) if again else goal
    size = goal.diagonal().copy()

    def covariance(K: Matrix) -> Matrix:
        return np.asarray(np.repeat(np.repeat(K[:s, :s], counts, axis=0), counts, axis=1) * K_X)

    first = evidence([(covariance(goal), y)], ridge).evidence
    top, chosen = first, goal
    for step in range(STEPS + 1):
        M = covariance(K_Z)
        now = evidence([(M, y)], ridge)
        if now.evidence > top:
            top, chosen = now.evidence, K_Z
        if step == STEPS or not now.evidence > -math.inf:
            break
        M.reshape(-1)[:: m + 1] += ridge
        inverse = np.linalg.inv(M)
        alpha = inverse @ (y - now.level)
        G = (np.multiply.outer(alpha, alpha) / now.variance - inverse) * K_X
        sums = np.add.reduceat(np.add.reduceat(G, edges[:-1], axis=0), edges[:-1], axis=1)
        K_Z = K_Z + K_Z[:, :s] @ sums @ K_Z[:s] / m
        K_Z = (m * K_Z + SHRINK * goal) / (m + SHRINK)
        K_Z = (K_Z + K_Z.T) / 2.0
        root = np.sqrt(size / np.maximum(K_Z.diagonal(), 1e-12))
        K_Z = K_Z * np.multiply.outer(root, root)
    if chosen is goal:
        return None, 0.0
    place = np.full(N, s)
    place[arms] = np.arange(len(arms))
    whole = chosen[np.ix_(place, place)]
    if len(unseen) > len(arms) - s:
        whole[np.ix_(unseen, unseen)] = chosen[s, s + 1]
        whole[unseen, unseen] = chosen[s, s]
    return whole, top - first
