"""What one reads of a policy that is one regression: its similarity, its posterior, its reasons."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinbandits import plotting
from kinbandits._threads import one_thread
from kinbandits._types import Matrix
from kinbandits._value import as_int
from kinbandits.errors import InvalidInputError
from kinbandits.noise import Noise
from kinbandits.policies.base import Policy
from kinbandits.policies.decision import ArmName, Decision
from kinbandits.policies.defaults import Engine
from kinbandits.policies.explanation import Explanation, explain
from kinbandits.policies.transfer import SimilarityReport, TransferCheck, check_transfer, similarity_report
from kinbandits.regression import Regression
from kinbandits.rewards import RewardScale
from kinbandits.rules import symmetric_root
from kinbandits.similarity import Similarity
from kinbandits.terms import Term, Terms, as_terms


class KernelPolicy(Policy, ABC):
    """A policy whose kernel is a sum of terms."""

    terms: Terms

    def _as_terms(self, kernel: Any, similarity: Any, context_kernel: Any, usual: tuple[Any, Any]) -> Terms:
        """The terms given by ``kernel``, or by the two others, with the usual values where they are left out."""
        if kernel is not None and (context_kernel is not None or similarity is not None):
            raise InvalidInputError("give kernel=, or context_kernel= and similarity=, not both")
        if kernel is None:
            similarity = usual[0] if similarity is None else similarity
            kernel = Term(similarity, usual[1] if context_kernel is None else context_kernel)
        terms = as_terms(kernel)
        return terms.with_similarities([term.similarity.for_arms(self.arms) for term in terms])

    def _check_features(self, n_features: int) -> None:
        for term in self.terms:
            term.check_features(n_features)

    @property
    def similarity(self) -> Similarity:
        """The similarity value, for the arms as they are now (of the first term, if there are several)."""
        return self.terms.terms[0].similarity

    @property
    def context_kernel(self) -> Any:
        """The context kernel as it was given (of the first term, if there are several)."""
        return self.terms.terms[0].context_kernel


class RegressionPolicy(KernelPolicy, ABC):
    """Reads only: nothing here changes the policy, but for the random state that `sample` draws from."""

    regression: Regression
    engine: Engine
    _engine: str
    _scale: RewardScale
    _noise: Noise | None

    @property
    def n_observations(self) -> int:
        """How many rows the policy has learned from."""
        return self.regression.n_observations

    @property
    def counts(self) -> dict[ArmName, int]:
        """How many rows each arm has."""
        return dict(zip(self.arms, self.regression.counts.tolist(), strict=True))

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """The lowest and the highest reward that are taken; None if any is."""
        return self._scale.limits

    @property
    def noise(self) -> Noise | None:
        """What was learned about noise, level and unit of rewards, and when it moved; None if nothing is."""
        return self._noise

    @one_thread
    def similarity_matrix(self, term: int | None = None) -> Matrix:
        """The current (N, N) similarity matrix, arms in the order of ``arms``; of several terms, say which."""
        n = len(self.terms)
        if term is None and n > 1:
            raise InvalidInputError(f"this policy's kernel has {n} terms; say which with term=0 and so on")
        if term is not None and term not in range(n):
            raise InvalidInputError(f"term must be between 0 and {n - 1}, got {term!r}")
        return np.array(self.regression.similarity_matrices[term or 0])

    @one_thread
    def means(self, contexts: ArrayLike, arms: Sequence[ArmName] | None = None) -> Matrix:
        """The means of ``predict``, (R, k), without the widths: quick for many rounds. ``contexts`` as there."""
        scale = self._scale
        return scale.offset + scale.scale * self.regression.means(self._query(contexts, arms, batch=True))

    def plot_similarity(self, term: int | None = None) -> Any:
        """A matplotlib figure of `similarity_matrix`, without its diagonal; kin stand together."""
        K = self.similarity_matrix(term)
        return plotting.matrix_figure(K, [str(a) for a in self.arms], "Similarity of arms")

    @one_thread
    def similarity_report(self, complete: bool = True) -> SimilarityReport:
        """Why an `Adaptive` similarity is what it is: candidates, evidence, and the choices over time.

        ``complete`` works out what was not needed for the choices or not kept (n^3 for every decision score);
        without it the report is free, and holds what the policy remembers.

        >>> import kinbandits as kb
        >>> print(kb.KMTLUCB(arms=3).similarity_report().reason)
        Independent: the first choice is made at 30 rows
        """
        return similarity_report(self.regression, complete)

    @one_thread
    def check_transfer(self, *, margin: float = 5.0, tolerance: float = 1.0, guard: bool = True) -> TransferCheck:
        """Whether the similarity does harm on the rows learned; a `TransferWarning` if so.

        It must fit worse than Independent by ``margin`` nats, and where decisions are judged (``guard``; not where
        arms have contexts of their own) decide worse by ``tolerance`` standard errors.
        """
        return check_transfer(self.regression, margin, tolerance, guard)

    @one_thread
    def log_det(self) -> float:
        """log det(I + diag(noise)^-1 K) of the rows learned; with uniform weights the paper's log g."""
        return self.regression.log_det()

    @one_thread
    def engine_report(self) -> dict[str, Any]:
        """What the engine did and how far it can be trusted; what is in it depends on the engine."""
        noise = {} if self._noise is None else {"noise": self._noise.report()}
        return {"engine": self._engine, **noise, **self.regression.report()}

    @one_thread
    def covariance(self, contexts: ArrayLike, arms: Sequence[ArmName] | None = None) -> Matrix:
        """Joint posterior covariance of the candidates of one round, (k, k).

        It is that of a Gaussian process with this kernel and noise variance ``ridge`` (times n_a with per_arm
        weights): the root of its diagonal is sqrt(ridge) * width.
        """
        points = self._query(contexts, arms).points()
        return self._scale.scale**2 * self.regression.covariance(*points)

    @one_thread
    def sample(
        self,
        contexts: ArrayLike,
        size: int = 1,
        arms: Sequence[ArmName] | None = None,
        rng: np.random.Generator | None = None,
    ) -> Matrix:
        """Joint draws (size, k) of the candidates' rewards from the posterior, by ``rng`` or the policy's own."""
        size = as_int("size", size)
        root = symmetric_root(self.covariance(contexts, arms))
        normal = (self.rng if rng is None else rng).standard_normal((size, len(root)))
        return np.asarray(self._predict(self._query(contexts, arms)).mean + normal @ root.T)

    @one_thread
    def explain(self, decision: Decision | int) -> Explanation:
        """Who lent what to the mean of the chosen arm, as is known now; an open decision may be given by id."""
        decision_id = self._decision_id(decision)
        if isinstance(decision, Decision):
            arm, context = decision.arm, decision.context
        else:
            ticket = self._ledger.ticket(decision_id)
            arm, context = self.arms[ticket.arm], ticket.context
        return self.explain_arm(arm, context)

    @one_thread
    def explain_arm(self, arm: ArmName, context: ArrayLike) -> Explanation:
        """As `explain`, of any arm in any context (d,)."""
        query = self._query(context, [arm])
        x = query.contexts[0, 0]
        return explain(self.regression, self.arms, int(query.arms[0]), x, self._scale, self._noise)
