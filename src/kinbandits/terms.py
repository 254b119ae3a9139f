"""The kernel on pairs (arm, context): a sum of products k_Z(a, b) k_X(x, x').

One term is the paper's product kernel. Two terms give hybrid Lin-UCB (a part that all arms share and a part of each
arm's own) or the additive kernel of CGP-UCB::

    kb.Term(kb.Pooled(), kb.Linear(), columns=[0, 1]) + kb.Term(kb.Independent(), kb.Linear(), columns=[2, 3])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kinbandits._frames import list_of
from kinbandits._types import ArmName
from kinbandits._value import Value, as_int
from kinbandits.errors import InvalidInputError, InvalidTypeError
from kinbandits.kernels import Kernel, as_kernel
from kinbandits.similarity import Learned, Similarity

__all__ = ["Term", "Terms", "as_terms", "terms_for"]


class Term(Value):
    """One product k_Z(a, b) k_X(x, x'), on all columns of the context or on some of them.

    Similarity and kernel are learned where they are left out, which only a term that stands alone can do.

    >>> import kinbandits as kb
    >>> kb.Term(kb.Pooled(), kb.Linear()) + kb.Term(kb.Independent(), kb.Linear(), columns=[0])
    Terms(terms=(Term(similarity=Pooled(), context_kernel=Linear()),
                 Term(similarity=Independent(), context_kernel=Linear(), columns=(0,))))
    """

    similarity: Similarity = Learned()
    context_kernel: Any = None
    columns: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.similarity, Similarity):
            raise InvalidTypeError(
                f"similarity must be a value such as kb.Independent() or kb.Learned(), got {self.similarity!r}"
            )
        if self.context_kernel is not None:
            self._set(context_kernel=as_kernel(self.context_kernel))
        if self.columns is not None:
            self._set(columns=_columns(self.columns))

    def __add__(self, other: object) -> Terms:
        return as_terms(self).__add__(other)

    def check_features(self, n_features: int) -> None:
        if self.columns is not None and max(self.columns) >= n_features:
            raise InvalidInputError(
                f"columns names column {max(self.columns)}, but contexts have {n_features} (counted from 0)"
            )
        width = n_features if self.columns is None else len(self.columns)
        if isinstance(self.context_kernel, Kernel):
            self.context_kernel.check_features(width)
        embedding = getattr(self.similarity, "embedding_kernel", None)
        if isinstance(embedding, Kernel):
            embedding.check_features(width)


class Terms(Value):
    """A sum of terms, written ``term1 + term2``."""

    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        learned = [t for t in self.terms if isinstance(t.similarity, Learned) or t.context_kernel is None]
        if learned and len(self.terms) > 1:
            raise InvalidInputError(
                f"{learned[0]!r} leaves something to be learned, which only a term that stands alone can do; in a sum "
                "give each term its similarity and its context_kernel"
            )

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)

    def __len__(self) -> int:
        return len(self.terms)

    def __add__(self, other: object) -> Terms:
        return Terms((*self.terms, *as_terms(other))) if isinstance(other, Term | Terms) else NotImplemented


def terms_for(
    arms: Sequence[ArmName],
    kernel: Term | Terms | None,
    similarity: Similarity | None,
    context_kernel: object,
    usual: Term,
) -> Terms:
    """The kernel of a policy for these arms, from its three arguments; ``usual`` is what is left out."""
    if kernel is None:
        k_z, k_x = usual.similarity if similarity is None else similarity, usual.context_kernel
        kernel = Term(k_z, k_x if context_kernel is None else context_kernel)
    elif context_kernel is not None or similarity is not None:
        raise InvalidInputError("give kernel=, or context_kernel= and similarity=, not both")
    return Terms(tuple(t.replace(similarity=t.similarity.for_arms(arms)) for t in as_terms(kernel)))


def as_terms(kernel: object) -> Terms:
    """A sum of terms from a sum or from one term."""
    if isinstance(kernel, Terms):
        return kernel
    if isinstance(kernel, Term):
        return Terms((kernel,))
    raise InvalidTypeError(f"kernel must be a kb.Term or a sum of them, got {kernel!r}")


def _columns(columns: Any) -> tuple[int, ...]:
    try:
        chosen = tuple(as_int("columns", c, None) for c in list_of("columns", columns))
    except InvalidTypeError as error:
        raise InvalidTypeError(
            f"columns must be a sequence of column numbers such as [0, 1], got {columns!r}"
        ) from error
    if not chosen or min(chosen) < 0:
        raise InvalidInputError(f"columns must name at least one column, counted from 0, got {chosen}")
    return chosen
