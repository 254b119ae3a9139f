"""Policies of other libraries behind one small interface, and the settings that are tried.

Peers get what helps them: features standardised by rows that are never played, or centred with one common scale
(``scaling``; both are tried where they differ), divided by sqrt(d), and an intercept.

Notation (k candidates in a round, N arms, d features)
    arms  (k,)      index of each candidate's arm
    Z     (k, d+1)  features of the candidates' contexts: ((x - centre) / scale) / sqrt(d), and 1
    Phi   (k, p)    features of arm and context together, for learners that all arms share
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from compare.problems import Problem, Setup
from kinbandits._types import Indices, Matrix, Vector


@dataclass(frozen=True, eq=False)
class Choice:
    """What a peer chose among the candidates: enough to be simulated."""

    index: int
    arms: Indices
    Z: Matrix
    propensity: float = 1.0


class Peer(ABC):
    """A policy of another library. Subclasses say how it is made, asked and taught."""

    title: ClassVar[str]
    family: ClassVar[str] = "linear"
    package: ClassVar[str] = "numpy"
    own_contexts: ClassVar[bool] = False
    """Whether each candidate may bring its own context."""
    related_only: ClassVar[bool] = False
    most: ClassVar[int] = 10_000
    """Arms times features; beyond it a game takes minutes, as on the problems in `too_slow`."""
    too_slow: ClassVar[Sequence[str]] = ()

    def __init__(self, setup: Setup, scaling: str = "standard") -> None:
        self.setup, self.n_arms, self.seed = setup, len(setup.arms), setup.seed
        self._place = {arm: i for i, arm in enumerate(setup.arms)}
        self._scale = setup.deviation if scaling == "standard" else setup.common
        self.rng = np.random.default_rng(setup.seed)

    # -- what a subclass says -------------------------------------------------------------------

    @abstractmethod
    def _choose(self, arms: Indices, Z: Matrix) -> tuple[int, float]:
        """The place of the chosen candidate, and its probability."""

    @abstractmethod
    def _learn(self, choice: Choice, reward: float) -> None:
        """Learn the reward of a candidate."""

    @classmethod
    @abstractmethod
    def settings(cls, problem: Problem) -> Iterator[dict[str, Any]]:
        """What is tried on a problem, the likeliest first."""

    @classmethod
    def why_not(cls, problem: Problem) -> str | None:
        """Why it is not run on a problem, or None."""
        if problem.own and not cls.own_contexts:
            return "one context for all arms only"
        if cls.related_only and not problem.related:
            return "for arms that are related"
        setup = problem.setup(0)
        large = len(setup.arms) * setup.n_features > cls.most and not problem.described
        return "a game takes minutes" if large or problem.name in cls.too_slow else None

    # -- what is played -------------------------------------------------------------------------

    def choose(self, context: Any, candidates: Sequence[Any] | None = None) -> Choice:
        """Ask the peer."""
        arms = np.arange(self.n_arms) if candidates is None else np.array([self._place[a] for a in candidates])
        Z = np.broadcast_to(self._features(context), (len(arms), self.setup.n_features + 1))
        index, propensity = self._choose(arms, Z)
        return Choice(index, arms, Z, propensity)

    def update(self, choice: Choice, reward: float) -> None:
        """Teach the peer the reward of its choice."""
        self._learn(choice, float(reward))

    def observe(self, arms: Sequence[Any], contexts: Any, rewards: Any) -> None:
        """Teach the peer rows given before the first round."""
        everybody = np.arange(self.n_arms)
        for arm, x, reward in zip(arms, contexts, rewards, strict=True):
            Z = np.broadcast_to(self._features(x), (self.n_arms, self.setup.n_features + 1))
            self._learn(Choice(self._place[arm], everybody, Z), float(reward))

    def _features(self, context: Any) -> Matrix:
        X = np.atleast_2d(np.asarray(context, dtype=np.float64))
        X = np.clip((X - self.setup.centre) / self._scale, -10.0, 10.0) / math.sqrt(X.shape[1])
        return np.hstack([X, np.ones((len(X), 1))])

    def _best(self, scores: Vector) -> int:
        """The place of the largest score; among equal ones at random."""
        return int(self.rng.choice(np.flatnonzero(scores >= scores.max() - 1e-12)))


def grid(problem: Problem, **values: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """All combinations; with both scalings where features are measured in units of their own."""
    scalings = ("centred", "standard") if problem.group == "labels" else ("standard",)
    for combination in itertools.product(*values.values(), scalings):
        yield dict(zip((*values, "scaling"), combination, strict=True))


# -- one model an arm ---------------------------------------------------------------------------


class River(Peer):
    """LinUCBDisjoint: its width is one standard deviation, and ``noise`` is its precision."""

    title, package = "river LinUCB", "river"
    most = 5000

    def __init__(self, setup: Setup, *, prior: float, noise: float, **others: Any) -> None:
        super().__init__(setup, **others)
        from river.bandit import LinUCBDisjoint

        self._policy = LinUCBDisjoint(alpha=prior, beta=noise, seed=self.seed)

    @classmethod
    def settings(cls, problem: Problem) -> Iterator[dict[str, Any]]:
        for prior, noise in ((1.0, 3.0), (3.0, 10.0), (10.0, 100.0)):
            yield from grid(problem, prior=(prior,), noise=(noise,))

    def _choose(self, arms: Indices, Z: Matrix) -> tuple[int, float]:
        arm = self._policy.pull(arms.tolist(), context=dict(enumerate(Z[0].tolist())))
        return int(np.flatnonzero(arms == arm)[0]), 1.0

    def _learn(self, choice: Choice, reward: float) -> None:
        z = dict(enumerate(choice.Z[choice.index].tolist()))
        self._policy.update(int(choice.arms[choice.index]), z, reward)  # type: ignore[no-untyped-call]


class MABWiser(Peer):
    """LinTS. It does not choose before its first row; arms join when they are first on offer."""

    title, package = "MABWiser LinTS", "mabwiser"
    most = 1000

    def __init__(self, setup: Setup, *, alpha: float, ridge: float, **others: Any) -> None:
        super().__init__(setup, **others)
        from mabwiser.mab import MAB, LearningPolicy

        policy = LearningPolicy.LinTS(alpha=alpha, l2_lambda=ridge)
        self._make = lambda arms: MAB(arms=arms, learning_policy=policy, seed=self.seed)
        self._mab: Any = None

    @classmethod
    def settings(cls, problem: Problem) -> Iterator[dict[str, Any]]:
        for alpha, ridge in ((0.1, 1.0), (0.3, 0.3)):
            yield from grid(problem, alpha=(alpha,), ridge=(ridge,))

    def _choose(self, arms: Indices, Z: Matrix) -> tuple[int, float]:
        if self._mab is None:
            return 0, 1.0
        for arm in arms[len(self._mab.arms) :].tolist():
            self._mab.add_arm(arm)
        return int(np.flatnonzero(arms == self._mab.predict(Z[:1]))[0]), 1.0

    def _learn(self, choice: Choice, reward: float) -> None:
        row = [int(choice.arms[choice.index])], [reward], choice.Z[[choice.index]]
        if self._mab is None:
            self._mab = self._make(choice.arms.tolist())
            self._mab.fit(*row)
        else:
            self._mab.partial_fit(*row)


def _regression(prior: float, noise: float | None) -> Any:
    """Normal with noise of this precision, or logistic."""
    import bayesianbandits as bb

    return bb.BayesianGLM(alpha=prior, link="logit") if noise is None else bb.NormalRegressor(alpha=prior, beta=noise)


class BayesianBandits(Peer):
    """One regression an arm; ``q`` is UCB's quantile, None is Thompson sampling; ``decay`` forgets before each row."""

    title, package, family = "bayesianbandits", "bayesianbandits", "Bayesian"
    most = 700
    too_slow = "pendigits", "letter", "catalogue"

    def __init__(
        self,
        setup: Setup,
        *,
        prior: float,
        noise: float | None,
        q: float | None,
        samples: int = 200,
        decay: float | None = None,
        **others: Any,
    ) -> None:
        super().__init__(setup, **others)
        import bayesianbandits as bb

        self._bb, self._decay = bb, decay
        self._learner = lambda: _regression(prior, noise)
        self._policy = bb.ThompsonSampling() if q is None else bb.UpperConfidenceBound(q, samples)
        self._agent: Any = None

    @classmethod
    def settings(cls, problem: Problem) -> Iterator[dict[str, Any]]:
        yield from grid(problem, prior=(5.0,), noise=(25.0,), q=(0.84,))
        if problem.binary and problem.group != "labels":
            yield from grid(problem, prior=(0.1, 1.0), noise=(None,), q=(0.84,))
        else:
            yield from grid(problem, prior=(10.0,), noise=(100.0,), q=(0.84,))
            yield from grid(problem, prior=(100.0,), noise=(1000.0,), q=(None,))
        if problem.name == "drift":
            yield from grid(problem, prior=(2.0,), noise=(5.0,), q=(0.84,), decay=(0.997, 0.99))

    def _join(self, arms: Sequence[int]) -> None:
        """Arms that are on offer for the first time."""
        new = [self._bb.Arm(arm, learner=self._learner()) for arm in arms]
        if self._agent is None:
            self._agent = self._bb.ContextualAgent(new, self._policy, random_seed=self.seed)
        else:
            for arm in new:
                self._agent.add_arm(arm)

    def _choose(self, arms: Indices, Z: Matrix) -> tuple[int, float]:
        self._join(arms[len(self._agent.arms) if self._agent else 0 :].tolist())
        return int(np.flatnonzero(arms == self._agent.pull(Z[:1])[0])[0]), 1.0

    def _learn(self, choice: Choice, reward: float) -> None:
        if self._agent is None:
            self._join(choice.arms.tolist())
        z = choice.Z[[choice.index]]
        if self._decay is not None:
            self._agent.decay(decay_rate=self._decay)
        self._agent.select_for_update(int(choice.arms[choice.index])).update(z, np.array([reward]))


# -- one model for all arms ---------------------------------------------------------------------


class JointPeer(Peer):
    """A learner that all arms share, linear in Phi.

    ``kin`` is the part of a weight's prior variance that all arms have in common: 0 is one model an arm. Where arms
    are described, Phi is all products of descriptors and features, both to this ``degree``.
    """

    own_contexts = True
    most = 400

    def __init__(self, setup: Setup, *, kin: float = 0.0, degree: int = 1, **others: Any) -> None:
        super().__init__(setup, **others)
        self.kin, self.degree = kin, degree
        self._described = None
        if setup.descriptors is not None:
            D = setup.descriptors
            self._described = _powers((D - D.mean(axis=0)) / (2.0 * D.std(axis=0)), degree)

    @classmethod
    def knobs(cls, problem: Problem) -> dict[str, Sequence[Any]]:
        """``kin`` and ``degree`` to be tried."""
        if problem.described:
            return {"degree": (2, 3)}
        return {"kin": (0.5, 0.9), "degree": (1, 2) if problem.own else (1,)}

    def _phi(self, arms: Indices, Z: Matrix) -> Matrix:
        if self.degree > 1:
            Z = _powers(Z[:, :-1], self.degree)
        k = len(arms)
        if self._described is not None:
            return np.asarray((self._described[arms][:, :, None] * Z[:, None, :]).reshape(k, -1))
        own = np.zeros((k, self.n_arms, Z.shape[1]))
        own[np.arange(k), arms] = math.sqrt(1.0 - self.kin) * Z
        flat = own.reshape(k, -1)
        return np.hstack([math.sqrt(self.kin) * Z, flat]) if self.kin else flat


def _powers(X: Matrix, degree: int) -> Matrix:
    """1 and all products of up to so many columns."""
    columns = [np.ones(len(X))]
    for n in range(1, degree + 1):
        for chosen in itertools.combinations_with_replacement(range(X.shape[1]), n):
            columns.append(np.prod(X[:, list(chosen)], axis=1))
    return np.stack(columns, axis=1)


class Coba(JointPeer):
    """LinUCB over features of arm and context. It has no ridge: features are divided by its root."""

    title, package = "coba LinUCB", "coba"
    most = 120

    def __init__(self, setup: Setup, *, alpha: float, ridge: float, **others: Any) -> None:
        super().__init__(setup, **others)
        from coba.learners import LinUCBLearner

        self._learner = LinUCBLearner(alpha=alpha, features=["a"], seed=self.seed + 1)
        self._root = math.sqrt(ridge)

    @classmethod
    def settings(cls, problem: Problem) -> Iterator[dict[str, Any]]:
        knobs = {"degree": (2,)} if problem.described else {"kin": (0.5 if problem.own else 0.0,)}
        yield from grid(problem, alpha=(0.3, 0.1, 1.0), ridge=(1.0,), **knobs)

    def _actions(self, arms: Indices, Z: Matrix) -> list[tuple[float, ...]]:
        return [tuple(row) for row in (self._phi(arms, Z) / self._root).tolist()]

    def _choose(self, arms: Indices, Z: Matrix) -> tuple[int, float]:
        actions = self._actions(arms, Z)
        action, probability = self._learner.predict(None, actions)
        return actions.index(tuple(action)), probability

    def _learn(self, choice: Choice, reward: float) -> None:
        i = [choice.index]
        self._learner.learn(None, self._actions(choice.arms[i], choice.Z[i])[0], reward, choice.propensity)


class BayesianHybrid(JointPeer):
    """LipschitzContextualAgent: one regression for all arms. Its tokens are places among the candidates."""

    title, package, family = "bayesianbandits, cross-arm", "bayesianbandits", "Bayesian"
    related_only = True

    def __init__(
        self, setup: Setup, *, prior: float, noise: float | None, q: float | None, samples: int = 200, **others: Any
    ) -> None:
        super().__init__(setup, **others)
        import bayesianbandits as bb

        self._bb, self._Phi = bb, np.empty((0, 0))
        policy = bb.ThompsonSampling() if q is None else bb.UpperConfidenceBound(q, samples)
        self._agent = bb.LipschitzContextualAgent(
            [bb.Arm(0, learner=None)],
            policy,
            bb.FunctionArmFeaturizer(lambda _, tokens: self._Phi[list(tokens)].T[None]),
            _regression(prior, noise),
            random_seed=self.seed,
        )

    @classmethod
    def settings(cls, problem: Problem) -> Iterator[dict[str, Any]]:
        knobs = {name: values[:2] for name, values in cls.knobs(problem).items()}
        prior, noises = (2.0, (5.0, None)) if problem.binary else (1.0, (100.0,))
        yield from grid(problem, prior=(prior,), noise=noises, q=(0.84,), **knobs)

    def _choose(self, arms: Indices, Z: Matrix) -> tuple[int, float]:
        self._Phi = self._phi(arms, Z)
        for token in range(len(self._agent.arms), len(arms)):
            self._agent.add_arm(self._bb.Arm(token, learner=None))
        return int(self._agent.pull(Z[:1])[0]), 1.0

    def _learn(self, choice: Choice, reward: float) -> None:
        i = [choice.index]
        self._Phi = self._phi(choice.arms[i], choice.Z[i])
        self._agent.select_for_update(0).update(choice.Z[i], np.array([reward]))


_LOGISTIC = "--loss_function logistic --logistic_min 0 --logistic_max 1 --link logistic"


class VowpalWabbit(Peer):
    """``--cb_explore_adf`` with text: the context in namespace U, the arm and its descriptors in A, costs 1 - reward.

    Where candidates bring their own contexts, U is the task and A the context.
    """

    title, package, family = "Vowpal Wabbit", "vowpalwabbit", "Vowpal Wabbit"
    own_contexts = True

    def __init__(self, setup: Setup, *, options: str, divide: bool = True, own: bool = False, **others: Any) -> None:
        super().__init__(setup, **others)
        from vowpalwabbit import Workspace

        self._vw = Workspace(f"--cb_explore_adf {options} --quiet --random_seed {self.seed + 1} -b 20")
        self._own, self._factor = own, 1.0 if divide else math.sqrt(setup.n_features)
        D = setup.descriptors
        described = [""] * self.n_arms if D is None else [" " + self._numbers(row, "d") for row in D]
        self._of_arm = [f"|A a{i}{text}" for i, text in enumerate(described)]

    @classmethod
    def settings(cls, problem: Problem) -> Iterator[dict[str, Any]]:
        cubic = "-q UA --interactions UUA" + (" --interactions UAA --interactions UUAA" if problem.described else "")
        if problem.name in ("usps", "mnist"):
            cubic = "-q UA"
        if problem.own:
            cubic = "-q UA --interactions AA --interactions UAA"
        rules: list[dict[str, Any]] = [
            {"options": f"--squarecb --gamma_scale 1000 {cubic}"},
            {"options": "--regcbopt --mellowness 0.01 -q UA"},
            {"options": "--squarecb --gamma_scale 1000 -q UA -l 0.1", "divide": False},
            {"options": "--epsilon 0 -q UA", "divide": False},
        ]
        if problem.binary and problem.group != "labels":
            rules.append({"options": f"--squarecb --gamma_scale 1000 -q UA {_LOGISTIC}"})
        if problem.name == "drift":
            rules.append({"options": "--squarecb --gamma_scale 1000 -q UA --power_t 0 -l 0.1", "divide": False})
        for rule in rules:
            yield {**rule, **({"own": True} if problem.own else {})}

    @staticmethod
    def _numbers(values: Any, prefix: str = "") -> str:
        return " ".join(f"{prefix}{i}:{v:.6g}" for i, v in enumerate(values.tolist()) if v != 0.0)

    def _lines(self, arms: Indices, Z: Matrix) -> list[str]:
        X = self._factor * Z[:, :-1]  # VW adds its own constant
        if self._own:
            return [f"shared |U t{arms[0]}", *(f"|A {self._numbers(x)}" for x in X)]
        return [f"shared |U {self._numbers(X[0])}", *(self._of_arm[a] for a in arms.tolist())]

    def _choose(self, arms: Indices, Z: Matrix) -> tuple[int, float]:
        p = np.array(self._vw.predict(self._lines(arms, Z)))
        i = min(int(np.searchsorted(np.cumsum(p / p.sum()), self.rng.random())), len(p) - 1)
        return i, float(p[i])

    def _learn(self, choice: Choice, reward: float) -> None:
        lines = self._lines(choice.arms, choice.Z)
        lines[choice.index + 1] = f"0:{1.0 - reward:.6g}:{choice.propensity:.6g} {lines[choice.index + 1]}"
        self._vw.learn(lines)


LIBRARIES: dict[str, type[Peer]] = {
    "river": River,
    "mabwiser": MABWiser,
    "coba": Coba,
    "bayesianbandits": BayesianBandits,
    "bayesianbandits-hybrid": BayesianHybrid,
    "vowpalwabbit": VowpalWabbit,
}
