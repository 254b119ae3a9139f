"""What was learned about noise, and the regression that goes with it, made ready a little with each row.

A ridge, level or unit that moves changes what all rows are seen by: similarity and factors are made anew. So it
takes force a sixteenth of the rows later (`kinbandits.noise.in_force`), and each row between does a part (counted,
not timed): first noise is learned, then the similarity chosen, then the factors grow. What is made is the same.
"""

from __future__ import annotations

from collections.abc import Callable

from kinbandits._work import Work
from kinbandits.history import History
from kinbandits.noise import Noise, in_force
from kinbandits.regression import Coming, Regression, RegressionSettings
from kinbandits.rewards import RewardScale
from kinbandits.similarity import Job, SimilarityChoice, Stepwise, elapsed

_RIDGES = 8  # compared at a milestone, about


class Ahead:
    """The work on one milestone of noise.

    Attributes:
        before: the noise in force. milestone: rows it is learned from. history: that of the regression.
        noise: what was learned, once it is known.
    """

    def __init__(
        self,
        before: Noise,
        milestone: int,
        regression: Regression,
        scale: RewardScale,
        follow: Callable[[Noise], tuple[RewardScale, RegressionSettings]],
    ) -> None:
        """``follow`` gives scale and settings with other noise."""
        self.before, self.milestone, self.history = before, milestone, regression.history
        self._terms, self._scale, self._follow = regression.settings.terms, scale, follow
        self.noise: Noise | None = None
        self._work: Work[Noise] | None = None
        self._spent = 0.0
        self._settings: RegressionSettings | None = None
        self._rows: History | None = None  # on the new scale
        self._new_scale = scale
        self._job: Job | None = None
        self._coming: Coming | None = None

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """A copy has nothing ready, and begins again."""
        return type(None), ()

    def advance(self) -> None:
        share = 3.0 * elapsed(len(self.history), self.milestone, in_force(self.milestone))
        if self.noise is None:
            self._learn(share)
        if self.noise is not None and self._settings is not None and share > 1.0:
            self._choose(share - 1.0)
            if share > 2.0:
                self._grow(share - 2.0)

    def is_for(self, noise: Noise, milestones: tuple[int, ...]) -> bool:
        """Whether it is known what noise is when these milestones take force."""
        return self.noise is not None and self.before is noise and milestones == (self.milestone,)

    def ready(self, settings: RegressionSettings) -> tuple[dict[int, SimilarityChoice], Coming | None] | None:
        """The choice and the regression made ready for these settings; None if they are for others."""
        if self._settings != settings:
            return None
        choice = None if self._job is None else self._job.choice
        return ({} if choice is None else {0: choice}), self._coming

    def _learn(self, share: float) -> None:
        n = self.milestone
        if self._work is None:
            rows = self.history.head(n)
            self._work = self.before.learning(self._terms, rows.with_rewards(self._scale.own(rows.rewards)), n)
        arms = self.history.n_arms
        due = share * _RIDGES * arms * (n / arms) ** 3 / 3
        try:
            while self._spent < due or share >= 1.0:
                self._spent += next(self._work)
        except StopIteration as end:
            self.noise, self._work = end.value, None
            scale, settings = self._follow(end.value)
            if settings.ridge != self.before.ridge or not scale.same_scale(self._scale):
                self._settings, self._new_scale = settings, scale
                self._rows = self._seen(0)

    def _seen(self, start: int) -> History:
        """The rows from ``start`` on, on the new scale."""
        h, rows = self.history, slice(start, len(self.history))
        rewards = self._new_scale.learned(self._scale.own(h.rewards[rows]))
        seen = History.of(h.n_arms, h.arms[rows], h.contexts[rows], rewards)
        seen.marks = h.marks
        return seen

    def _choose(self, share: float) -> None:
        assert self._settings is not None
        assert self._rows is not None
        term = self._settings.terms.terms[0]  # one that is chosen in steps stands alone
        if self._job is None and isinstance(term.similarity, Stepwise):
            n = term.similarity.in_force(in_force(self.milestone))
            if n:
                self._job = Job(term.similarity, term.select_history(self._rows), n)
        if self._job is not None:
            self._job.advance(share)

    def _grow(self, share: float) -> None:
        assert self._settings is not None
        assert self._rows is not None
        settings, rows = self._settings, self._rows
        new = self._seen(len(rows))
        rows.append(new.arms, new.contexts, new.rewards)
        if self._coming is None:
            terms = settings.terms
            choice = None if self._job is None else self._job.choice
            if any(t.similarity.steps for t in terms) and choice is None:
                return
            matrices = terms.matrices(rows) if choice is None else [choice.matrix]
            if not Coming.pays(settings, matrices, len(rows)):
                return
            self._coming = Coming(settings, matrices, rows.n_arms, in_force(self.milestone))
        self._coming.advance(rows, share)
