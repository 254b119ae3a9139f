"""Knowledge: rows + a `Model` + an engine, and when the model is fitted again.

The model is a fold of `kinbandits.model.fit` over fixed numbers of rows, so that rows one by one, in bulk or replayed
lead to the same one. The engine is rebuilt from (model, rows) whenever the model sees rows in another way.

Notation
    n        rows learned since the first (the number of a row is how many came before it)
    since    number of the first row in force: earlier ones were dropped, with a window or after a change of the world
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._types import Indices, Matrix, Vector
from kinbandits.errors import ChangeWarning
from kinbandits.history import History
from kinbandits.model import Kind, Model, Spec, broken, fit, following, kept, next_check, start
from kinbandits.regression import Engine, holding, make, restore
from kinbandits.regression.contract import Regression, Settings
from kinbandits.regression.dictionary import Dictionary

Rows = tuple[Indices, Matrix, Vector]
MakeSettings = Callable[[Spec, Model, Kind], Settings]


@dataclass(eq=False)
class Kept:
    """The rows that fits may see, with their numbers, once the engine no longer holds all rows."""

    history: History
    numbers: Indices

    @classmethod
    def of(cls, history: History, numbers: Indices, n: int) -> Kept:
        stay = np.flatnonzero(kept(numbers, n))
        return cls(history.taken(stay), numbers[stay])

    def append(self, rows: Rows, before: int) -> None:
        self.history.append(*rows)
        self.numbers = np.concatenate([self.numbers, np.arange(before, before + len(rows[0]))])


class Knowledge:
    """What a policy knows. ``learn`` is atomic: if it fails, all is as it was.

    Args:
        spec: what is learned.
        settings: makes the engine's settings of a model.
        engine: its name.
        window: remember so many rows (and up to a quarter more); None remembers all.
    """

    def __init__(self, spec: Spec, settings: MakeSettings, engine: Engine, window: int | None) -> None:
        self.spec, self.settings, self.name, self.window = spec, settings, engine, window
        self.kind: Kind = "shared"
        self.n = self.since = 0
        self.first: float | None = None  # the first reward
        self.model = start(spec, self.kind)
        self.engine: Regression = make(engine, settings(spec, self.model, self.kind), History(spec.n_arms))
        self._kept: Kept | None = None

    # -- learning -------------------------------------------------------------------------------

    def learn(self, rows: Rows, kind: Kind) -> None:
        """Learn rows (arms, contexts, rewards)."""
        rewards = rows[2]
        before, after, engine = self.n, self.n + len(rewards), self.engine
        first = float(rewards[0]) if self.first is None else self.first
        other = rewards != first
        when = _When(
            before + 1 + int(other.argmax()) if other.any() else None, before + 1 if kind != self.kind else None
        )
        n = self._next(before, self.since, self.model, when)
        held = _all_rows(engine)
        if n > after:  # no fit is due, as for most rows
            known = None if held is None else (held.arms, held.contexts, held.rewards)
            engine.observe(*rows)
            if self._kept is not None:
                self._kept.append(rows, before)
            elif known is not None and _all_rows(engine) is None:  # it has just changed to a dictionary
                numbers = np.arange(before - len(known[0]), after)
                self._kept = Kept.of(_joined(self.spec.n_arms, known, rows), numbers, after)
            self.n, self.first = after, first
            return
        # All that can fail happens before anything is assigned.
        past, numbers = self.rows()
        history = _joined(self.spec.n_arms, (past.arms, past.contexts, past.rewards), rows)
        numbers = np.concatenate([numbers, np.arange(before, after)])
        model, since = self.model, self.since
        while n <= after:
            model, since = self._at(n, since, model, kind, when, history, numbers)
            n = self._next(n, since, model, when)
        settings = self.settings(self.spec, model, kind)
        if since > self.since:
            new = numbers >= since
            in_force = history.arms[new], history.contexts[new], history.rewards[new]
            engine = engine.changed(settings, rows=History.of(self.spec.n_arms, *in_force))
        elif model.same_view(self.model) and kind == self.kind:
            engine.observe(*rows)
        elif held is not None:
            engine = engine.changed(settings, rows=history)
        else:
            engine = engine.changed(settings)
            engine.observe(*rows)
        self.model, self.engine, self.kind = model, engine, kind
        self.n, self.since, self.first = after, since, first
        stay = np.flatnonzero(numbers >= since)
        self._kept = None if _all_rows(engine) is not None else Kept.of(history.taken(stay), numbers[stay], after)

    def _at(
        self, n: int, since: int, model: Model, kind: Kind, when: _When, history: History, numbers: Indices
    ) -> tuple[Model, int]:
        """The model fitted from the first n rows, and the first row that is then in force."""
        if self.window is not None and n - since > self._most:
            since = n - self.window
        seen = history.taken(np.flatnonzero((numbers < n) & (numbers >= since) & kept(numbers, n)))
        if self._watches and n == since + next_check(n - 1 - since):
            late = broken(seen, self.spec, model, n - since)
            if late is None and n < self._next_fit(n - 1, since, model, when):
                return model, since  # only this was to be checked
            if late is not None:
                since = n - late
                seen = history.taken(np.flatnonzero((numbers < n) & (numbers >= since)))
                note = f"the rewards changed at about row {since}: only the rows since then are in force"
                warnings.warn(f"{note}; see policy.model", ChangeWarning, stacklevel=7)
                model = replace(start(self.spec, kind, model), notes=(*model.notes, note))
        return fit(seen, self.spec, model, kind, n - since), since

    def _next(self, n: int, since: int, model: Model, when: _When) -> int:
        """The next number of rows above ``n`` at which something is due, as far as can be seen."""
        if not self.spec.learns and self.window is None:
            return sys.maxsize
        due = self._next_fit(n, since, model, when)
        return min(due, since + next_check(n - since)) if self._watches else due

    def _next_fit(self, n: int, since: int, model: Model, when: _When) -> int:
        due = [since + following(n - since), when.own_contexts]
        if self.window is not None:
            due.append(since + self._most + 1)
        if not model.varied:
            due.append(when.varies)
        return min(d for d in due if d is not None and d > n)

    @property
    def _most(self) -> int:
        """Rows up to which a window is not cut."""
        assert self.window is not None
        return self.window + self.window // 4

    @property
    def _watches(self) -> bool:
        """Whether recent rows are compared with earlier ones: where level and unit are learned from all rows."""
        return self.spec.scale is None and self.window is None

    def adopt(self, dictionary: Dictionary, rows: History, numbers: Indices, n: int) -> None:
        """Know what a dictionary of n rows knows; ``rows`` of these numbers are there for fits."""
        self.engine, self.n, self.since, self.first = holding(self.name, dictionary), n, 0, float(rows.rewards[0])
        self._kept = Kept.of(rows, numbers, n)

    def rows(self) -> tuple[History, Indices]:
        """The rows that are still there, and their numbers."""
        rows = _all_rows(self.engine)
        if rows is not None:
            return rows, np.arange(self.n - len(rows), self.n)
        if self._kept is None:
            return History(self.spec.n_arms), np.empty(0, dtype=np.intp)
        return self._kept.history, self._kept.numbers

    # -- other arms -----------------------------------------------------------------------------

    def with_arms(self, spec: Spec, removed: int | None = None) -> None:
        """Other arms: one more, or one ``removed``; the model is fitted again, from the rows that stay."""
        model = replace(self.model, k_z=start(spec, self.kind).k_z)
        history, numbers = self.rows()
        held = None
        if removed is not None:
            numbers = numbers[history.arms != removed]
            history = history.without_arm(removed)
        if self._kept is not None:
            held = Kept(history.copy(spec.n_arms), numbers)
        if len(history) and spec.learns:
            few = history.taken(np.flatnonzero(kept(numbers, self.n)))
            model = fit(few, spec, model, self.kind, max(self.n - self.since, 1))
        engine = self.engine.changed(self.settings(spec, model, self.kind), removed=removed)
        self.spec, self.model, self.engine, self._kept = spec, model, engine, held

    # -- files ----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON and arrays, for a file."""
        arrays: dict[str, NDArray[Any]] = {}
        engine, engine_arrays = self.engine.state()
        data = {name: getattr(self, name) for name in ("kind", "n", "since", "first")}
        data |= {"model": self.model.to_json(arrays), "engine": engine}
        arrays |= {f"engine_{name}": value for name, value in engine_arrays.items()}
        if self._kept is not None:
            h = self._kept.history
            rows = {"arms": h.arms, "contexts": h.contexts, "rewards": h.rewards, "numbers": self._kept.numbers}
            arrays |= {f"kept_{name}": np.array(value) for name, value in rows.items()}
        return data, arrays

    def restore(self, data: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `state` gave."""
        self.kind, self.n, self.since, self.first = data["kind"], int(data["n"]), int(data["since"]), data["first"]
        self.model = Model.from_json(data["model"], arrays)
        own = {name.removeprefix("engine_"): value for name, value in arrays.items() if name.startswith("engine_")}
        self.engine = restore(self.name, self.settings(self.spec, self.model, self.kind), data["engine"], own)
        if "kept_arms" in arrays:
            rows = (arrays[f"kept_{name}"] for name in ("arms", "contexts", "rewards"))
            self._kept = Kept(History.of(self.spec.n_arms, *rows), arrays["kept_numbers"])


@dataclass(frozen=True)
class _When:
    """Numbers of rows at which rewards first differ, and contexts are first the candidates' own."""

    varies: int | None
    own_contexts: int | None


def _all_rows(engine: Regression) -> History | None:
    """The rows of an engine that still has all of them."""
    rows = engine.rows
    return None if rows is None or rows.forgotten else rows


def _joined(n_arms: int, past: Rows, new: Rows) -> History:
    if not len(past[0]):
        return History.of(n_arms, *new)
    arms, contexts, rewards = (np.concatenate([a, b]) for a, b in zip(past, new, strict=True))
    return History.of(n_arms, arms, contexts, rewards)
