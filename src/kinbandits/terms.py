"""The kernel on pairs (arm, context): a sum of products k_Z(a, b) k_X(x, x').

One term is the paper's product kernel. Two terms give hybrid Lin-UCB (a part that all arms share and a part
of each arm's own) or the additive kernel of CGP-UCB::

    kb.Term(kb.Pooled(), kb.Linear(), columns=[0, 1]) + kb.Term(kb.Independent(), kb.Linear(), columns=[2, 3])
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kinbandits._types import Indices, Matrix
from kinbandits._value import Value
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.history import History
from kinbandits.kernels import KernelRule, as_kernel_or_rule, cdist
from kinbandits.similarity import Settled, Similarity, SimilarityChoice, StepTracker, Stepwise, Tracker, Weighting


class Term(Value):
    """One product k_Z(a, b) k_X(x, x'), on all columns of the context or on some of them.

    An estimated similarity sees the same columns as the kernel.

    >>> import kinbandits as kb
    >>> kb.Term(kb.Pooled(), kb.Linear()) + kb.Term(kb.Independent(), kb.Linear(), columns=[0])
    Terms(terms=(Term(similarity=Pooled(), context_kernel=Linear()),
                 Term(similarity=Independent(), context_kernel=Linear(), columns=(0,))))
    """

    similarity: Similarity
    context_kernel: Any
    columns: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.similarity, Similarity):
            raise InvalidTypeError(
                f"similarity must be a value such as kb.Independent() or kb.Estimated(), got {self.similarity!r}"
            )
        self._set(context_kernel=as_kernel_or_rule(self.context_kernel))
        cdist(np.zeros((1, 1)), np.zeros((1, 1)))  # loads SciPy's distances now, not in a policy's first update
        if self.columns is not None:
            self._set(columns=_columns(self.columns))

    def __add__(self, other: object) -> Terms:
        return as_terms(self).__add__(other)

    def select(self, contexts: Matrix) -> Matrix:
        return contexts if self.columns is None else contexts[:, list(self.columns)]

    def select_history(self, history: History) -> History:
        """The history with only the columns that this term sees."""
        if self.columns is None:
            return history
        if not len(history):  # no rows yet, hence no columns either
            return History(history.n_arms)
        selected = History.of(history.n_arms, history.arms, self.select(history.contexts), history.rewards)
        selected.marks = history.marks
        return selected

    def fitted(self, history: History) -> Term:
        rule = self.context_kernel
        if not isinstance(rule, KernelRule):
            return self
        seen = self.select_history(history)
        return self.replace(context_kernel=rule.fit(seen.contexts, seen.arms, seen.rewards))

    def check_features(self, n_features: int) -> None:
        if self.columns is not None and max(self.columns) >= n_features:
            raise InvalidInputError(
                f"columns names column {max(self.columns)}, but contexts have {n_features} (counted from 0)"
            )
        self.context_kernel.check_features(n_features if self.columns is None else len(self.columns))


class Terms(Value):
    """A sum of terms, written ``term1 + term2``."""

    terms: tuple[Term, ...]

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)

    def __len__(self) -> int:
        return len(self.terms)

    def __add__(self, other: object) -> Terms:
        if isinstance(other, Term | Terms):
            return Terms((*self.terms, *as_terms(other)))
        return NotImplemented

    def refits(self, before: int, after: int) -> bool:
        """Whether a kernel is to be read off the data again when the history grows so."""
        for term in self.terms:  # asked at every update: no generators
            if isinstance(term.context_kernel, KernelRule) and term.context_kernel.refits(before, after):
                return True
        return False

    def fitted(self, history: History) -> Terms:
        return Terms(tuple(t.fitted(history) for t in self.terms))

    def same_kernels(self, other: Terms) -> bool:
        return [t.context_kernel for t in self.terms] == [t.context_kernel for t in other.terms]

    def bound(self, ridge: float, weighting: Weighting) -> Terms:
        """The terms with each similarity told its kernel and the regression's settings."""
        judges = [t.similarity for t in self.terms if t.similarity.judges_kernel]
        if judges and len(self.terms) > 1:
            raise InvalidInputError(
                f"{type(judges[0]).__name__} similarity judges the whole kernel, so it can only stand alone; in a "
                "sum of terms use one that is given, or Estimated"
            )
        return self.with_similarities([t.similarity.bound(t.context_kernel, ridge, weighting) for t in self.terms])

    def settled(self, K_arms: Sequence[Matrix]) -> Terms:
        """The terms with these matrices in place of similarities that change in steps."""
        if not any(t.similarity.steps for t in self.terms):
            return self
        pairs = zip(self.terms, K_arms, strict=True)
        return self.with_similarities([Settled(K) if t.similarity.steps else t.similarity for t, K in pairs])

    def with_similarities(self, similarities: Sequence[Similarity]) -> Terms:
        pairs = zip(self.terms, similarities, strict=True)
        return Terms(tuple(t.replace(similarity=s) for t, s in pairs))

    def matrices(self, history: History) -> list[Matrix]:
        return [t.similarity.matrix(t.select_history(history)) for t in self.terms]

    def gram(self, K_arms: Sequence[Matrix], arms: Indices, A: Matrix, others: Indices, B: Matrix) -> Matrix:
        """K[i, j] = sum over terms of K_arm[arms[i], others[j]] k_X(A[i], B[j])."""
        K = np.zeros((len(A), len(B)))
        for term, K_arm in zip(self.terms, K_arms, strict=True):
            K += K_arm[np.ix_(arms, others)] * term.context_kernel(term.select(A), term.select(B))
        return K

    def prior(self, K_arms: Sequence[Matrix], arms: Indices, A: Matrix) -> Matrix:
        """k((a, x), (a, x)) of each row."""
        prior = np.zeros(len(A))
        for term, K_arm in zip(self.terms, K_arms, strict=True):
            prior += np.diag(K_arm)[arms] * term.context_kernel.diag(term.select(A))
        return prior


def as_terms(kernel: object) -> Terms:
    """A sum of terms from a sum or from one term."""
    if isinstance(kernel, Terms):
        return kernel
    if isinstance(kernel, Term):
        return Terms((kernel,))
    raise InvalidTypeError(f"kernel must be a kb.Term or a sum of them, got {kernel!r}")


class TermsTracker:
    """The similarity matrices of all terms, following a growing history."""

    def __init__(self, terms: Terms, history: History, known: Mapping[int, SimilarityChoice] | None = None) -> None:
        self._terms = terms
        self._history = history
        self._views = [t.select_history(history) for t in terms]
        self._trackers: list[Tracker] = [
            s.tracker(view, known[i]) if known and i in known and isinstance(s, Stepwise) else s.tracker(view)
            for i, (s, view) in enumerate(zip((t.similarity for t in terms), self._views, strict=True))
        ]

    @property
    def choices(self) -> tuple[SimilarityChoice, ...]:
        """What a similarity that changes in steps has chosen since it was followed."""
        return tuple(c for tracker in self._trackers if isinstance(tracker, StepTracker) for c in tracker.choices)

    @property
    def latest(self) -> dict[int, SimilarityChoice]:
        """The choices in force, by the number of the term."""
        trackers = ((i, t) for i, t in enumerate(self._trackers) if isinstance(t, StepTracker))
        return {i: t.latest for i, t in trackers if t.latest is not None}

    @property
    def coming(self) -> tuple[int, list[Matrix]] | None:
        """The matrices chosen but not yet in force, and the size of the history at which they will be."""
        for i, tracker in enumerate(self._trackers):  # a similarity that changes in steps stands in a single term
            found = tracker.coming if isinstance(tracker, StepTracker) else None
            if found is not None and not np.array_equal(found[1], tracker.matrix):
                return found[0], [found[1] if j == i else t.matrix for j, t in enumerate(self._trackers)]
        return None

    @property
    def matrices(self) -> list[Matrix]:
        return [tracker.matrix for tracker in self._trackers]

    def observe(self, start: int, squares: Matrix | None = None) -> None:
        """Rows from ``start`` on are new (``squares``: of one, to all rows). If that fails, all is as before."""
        h = self._history
        before = [tracker.__dict__.copy() for tracker in self._trackers]  # trackers replace arrays, never edit them
        try:
            for term, view, tracker in zip(self._terms.terms, self._views, self._trackers, strict=True):
                if view is not h:
                    view.append(h.arms[start:], term.select(h.contexts[start:]), h.rewards[start:])
                    view.marks = h.marks
                tracker.observe(start, squares if view is h else None)
        except BaseException:
            for tracker, state in zip(self._trackers, before, strict=True):
                tracker.__dict__.update(state)
            for view in self._views:
                if view is not h:
                    view.truncate(start)
            raise


def _columns(columns: object) -> tuple[int, ...]:
    try:
        chosen = tuple(operator.index(c) for c in columns)  # type: ignore[attr-defined]
    except TypeError as error:
        raise InvalidTypeError(
            f"columns must be a sequence of column numbers such as [0, 1], got {columns!r}"
        ) from error
    if not chosen or min(chosen) < 0:
        raise InvalidInputError(f"columns must name at least one column, counted from 0, got {columns!r}")
    return chosen
