"""Policies of other libraries behind the interface that `kinbandits.simulate` plays.

Peers get what helps them: features standardised by rows that are never played, or centred with one common scale
(``scaling``; the grids try both), clipped at 10 and divided by sqrt(d), and an intercept. Names of arms are handed
over as they are, so that what happens with an unknown one is the peer's own doing.

Notation
    z   (d + 1,)  features of a context: ((x - centre) / scale) / sqrt(d), and 1
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinbandits._types import Vector
from kinbandits.baselines import lin_ucb
from kinbandits.environments import Environment
from kinbandits.environments.labelled import LabelledRows

__all__ = ["Peer", "PeerChoice", "standardisation"]


@dataclass(frozen=True)
class PeerChoice:
    """What a peer chose: enough to be simulated."""

    arm: Any
    index: int
    features: Vector
    propensity: float = 1.0


class Peer(ABC):
    """A policy of another library. Subclasses say how it is made, asked, taught and given an arm."""

    def __init__(
        self, arms: Sequence[Any], *, seed: int = 0, centre: Vector | None = None, scale: Vector | float = 1.0
    ) -> None:
        self.arms = list(arms)
        self.seed = seed
        self._centre, self._scale = centre, scale

    @classmethod
    def for_environment(cls, environment: Environment, *, seed: int, scaling: str = "standard", **knobs: Any) -> Peer:
        """A peer for this environment, with features scaled by rows that are never played."""
        centre, scale = standardisation(environment, scaling)
        return cls(environment.arms, seed=seed, centre=centre, scale=scale, **knobs)

    # -- what the library does ------------------------------------------------------------------

    @abstractmethod
    def _choose(self, z: Vector) -> tuple[Any, float]:
        """The arm and its probability."""

    @abstractmethod
    def _learn(self, arm: Any, z: Vector, reward: float, propensity: float) -> None:
        """Learn one row."""

    @abstractmethod
    def _add_arm(self, arm: Any) -> None:
        """Make a new arm known."""

    # -- what is played -------------------------------------------------------------------------

    @property
    def active_arms(self) -> list[Any]:
        """All arms."""
        return list(self.arms)

    def features(self, context: Any) -> Vector:
        """z."""
        x = np.asarray(context, dtype=np.float64)
        if self._centre is not None:
            x = np.clip((x - self._centre) / self._scale, -10.0, 10.0)
        return np.append(x / math.sqrt(len(x)), 1.0)

    def choose(self, context: Any, arms: Any = None) -> PeerChoice:
        """Ask the peer."""
        z = self.features(context)
        arm, propensity = self._choose(z)
        return PeerChoice(arm, self.arms.index(arm), z, propensity)

    def update(self, decision: PeerChoice, reward: float) -> None:
        """Teach the peer the reward of its choice."""
        self._learn(decision.arm, decision.features, float(reward), decision.propensity)

    def observe(self, arms: Sequence[Any], contexts: Any, rewards: Any) -> None:
        """Teach the peer logged rows."""
        for arm, x, reward in zip(arms, contexts, rewards, strict=True):
            self._learn(arm, self.features(x), float(reward), 1.0)

    def cancel(self, decision: PeerChoice) -> None:  # noqa: B027 (nothing is kept)
        """Forget a choice."""

    def add_arm(self, arm: Any) -> None:
        """One arm more."""
        self._add_arm(arm)
        self.arms.append(arm)


def standardisation(environment: Environment, scaling: str) -> tuple[Vector, Vector | float]:
    """Centre and scale from rows that are never played: those for validation, or 500 of another seed."""
    if isinstance(environment, LabelledRows) and len(environment.split().validation):
        X = environment.validation()[0]
    else:
        other = environment.replace(seed=10_000, horizon=500)  # type: ignore[attr-defined]
        X = np.array([r.context for r in other.rounds()])
    centre = X.mean(axis=0)
    if scaling == "centred":  # one scale for all columns, such that they are of size 1 on average
        return centre, float(np.sqrt(((X - centre) ** 2).mean())) or 1.0
    deviation = X.std(axis=0)
    return centre, np.where(deviation > 1e-9, deviation, 1.0)


class OursLinear(Peer):
    """Our Lin-UCB with the features that the peers get: the same arms as theirs, at another cost."""

    def __init__(self, arms: Sequence[Any], *, alpha: float, ridge: float, **others: Any) -> None:
        super().__init__(arms, **others)
        self._policy = lin_ucb(arms, ridge=ridge, exploration=alpha, tie_break="first", seed=self.seed)
        self._decision: Any = None

    def _choose(self, z: Vector) -> tuple[Any, float]:
        self._decision = self._policy.choose(z)
        return self._decision.arm, self._decision.propensity

    def _learn(self, arm: Any, z: Vector, reward: float, propensity: float) -> None:
        if self._decision is not None and self._decision.arm == arm:
            self._policy.update(self._decision, reward)
        else:
            self._policy.observe([arm], z[None, :], [reward])
        self._decision = None

    def _add_arm(self, arm: Any) -> None:
        self._policy.add_arm(arm)


class MABWiser(Peer):
    """fidelity/mabwiser, LinUCB or LinTS. It does not choose before its first row: that is of the first arm."""

    def __init__(self, arms: Sequence[Any], *, rule: str = "LinUCB", alpha: float, ridge: float, **others: Any) -> None:
        super().__init__(arms, **others)
        from mabwiser.mab import MAB, LearningPolicy

        policy = getattr(LearningPolicy, rule)(alpha=alpha, l2_lambda=ridge)
        self._mab = MAB(arms=list(arms), learning_policy=policy, seed=self.seed)
        self._fitted = False

    def _choose(self, z: Vector) -> tuple[Any, float]:
        return (self._mab.predict(z[None, :]) if self._fitted else self.arms[0]), 1.0

    def _learn(self, arm: Any, z: Vector, reward: float, propensity: float) -> None:
        (self._mab.partial_fit if self._fitted else self._mab.fit)([arm], [reward], z[None, :])
        self._fitted = True

    def _add_arm(self, arm: Any) -> None:
        self._mab.add_arm(arm)


class ContextualBandits(Peer):
    """david-cortes/contextualbandits, LinUCB (double precision)."""

    def __init__(self, arms: Sequence[Any], *, alpha: float, ridge: float, **others: Any) -> None:
        super().__init__(arms, **others)
        from contextualbandits.online import LinUCB

        self._model = LinUCB(
            list(arms), alpha=alpha, lambda_=ridge, fit_intercept=False, use_float=False, random_state=self.seed + 1
        )

    def _choose(self, z: Vector) -> tuple[Any, float]:
        return self._model.predict(z[None, :])[0], 1.0

    def _learn(self, arm: Any, z: Vector, reward: float, propensity: float) -> None:
        self._model.partial_fit(z[None, :], np.array([arm]), np.array([reward]))

    def _add_arm(self, arm: Any) -> None:
        self._model.add_arm(arm)


class ContextualLogistic(Peer):
    """david-cortes/contextualbandits, LogisticUCB: it cannot learn row by row, so it is refitted now and then."""

    def __init__(self, arms: Sequence[Any], *, percentile: int, ridge: float, every: int = 20, **others: Any) -> None:
        super().__init__(arms, **others)
        from contextualbandits.online import LogisticUCB

        self._model = LogisticUCB(list(arms), percentile=percentile, lambda_=ridge, random_state=self.seed + 1, njobs=1)
        self._every, self._rows = every, list[tuple[Any, Vector, float]]()

    def _choose(self, z: Vector) -> tuple[Any, float]:
        return self._model.predict(z[None, :-1])[0], 1.0  # it adds its own intercept

    def _learn(self, arm: Any, z: Vector, reward: float, propensity: float) -> None:
        self._rows.append((arm, z[:-1], reward))
        if len(self._rows) % self._every == 0:
            names, X, rewards = zip(*self._rows, strict=True)
            self._model.fit(np.array(X), np.array(names), np.array(rewards))

    def _add_arm(self, arm: Any) -> None:
        self._model.add_arm(arm)


class Coba(Peer):
    """VowpalWabbit/coba, LinUCB on one-hot arm times context. It has no ridge: features are divided by its root."""

    def __init__(self, arms: Sequence[Any], *, alpha: float, ridge: float, **others: Any) -> None:
        super().__init__(arms, **others)
        from coba.learners import LinUCBLearner

        self._learner = LinUCBLearner(alpha=alpha, features=["ax"], seed=self.seed)
        self._factor = 1.0 / math.sqrt(ridge)
        self._actions = {arm: tuple(float(i == j) for j in range(len(arms))) for i, arm in enumerate(arms)}
        self._names = {action: arm for arm, action in self._actions.items()}

    def _choose(self, z: Vector) -> tuple[Any, float]:
        action, probability = self._learner.predict((z * self._factor).tolist(), list(self._names))
        return self._names[tuple(action)], probability

    def _learn(self, arm: Any, z: Vector, reward: float, propensity: float) -> None:
        if arm not in self._actions:
            self._add_arm(arm)
        self._learner.learn((z * self._factor).tolist(), self._actions[arm], reward, propensity)

    def _add_arm(self, arm: Any) -> None:
        width = len(self._actions) + 1
        self._actions = {a: (*row, 0.0) for a, row in self._actions.items()}
        self._actions[arm] = (*[0.0] * (width - 1), 1.0)
        self._names = {action: name for name, action in self._actions.items()}


class BayesianBandits(Peer):
    """bayesianbandits, one NormalRegressor an arm; ``q`` is the quantile of UCB, None is Thompson sampling.

    Without ``noise`` it is a logistic regression (BayesianGLM), for rewards of 0 and 1.
    """

    def __init__(
        self,
        arms: Sequence[Any],
        *,
        prior: float,
        noise: float | None = None,
        q: float | None = None,
        **others: Any,
    ) -> None:
        super().__init__(arms, **others)
        import bayesianbandits as bb

        self._bb, self._prior, self._noise = bb, prior, noise
        policy = bb.ThompsonSampling() if q is None else bb.UpperConfidenceBound(q)
        self._agent = bb.ContextualAgent([self._arm(a) for a in arms], policy, random_seed=self.seed)

    def _arm(self, arm: Any) -> Any:
        if self._noise is None:
            learner = self._bb.BayesianGLM(alpha=self._prior, link="logit")
        else:
            learner = self._bb.NormalRegressor(alpha=self._prior, beta=self._noise)
        return self._bb.Arm(arm, learner=learner)

    def _choose(self, z: Vector) -> tuple[Any, float]:
        return self._agent.pull(z[None, :])[0], 1.0

    def _learn(self, arm: Any, z: Vector, reward: float, propensity: float) -> None:
        self._agent.select_for_update(arm).update(z[None, :], np.array([reward]))

    def _add_arm(self, arm: Any) -> None:
        self._agent.add_arm(self._arm(arm))


class River(Peer):
    """online-ml/river, LinUCBDisjoint: its width is one standard deviation, and ``noise`` is its precision."""

    def __init__(self, arms: Sequence[Any], *, prior: float, noise: float, **others: Any) -> None:
        super().__init__(arms, **others)
        from river.bandit import LinUCBDisjoint

        self._policy = LinUCBDisjoint(alpha=prior, beta=noise, seed=self.seed)

    def _choose(self, z: Vector) -> tuple[Any, float]:
        return self._policy.pull(self.arms, context=dict(enumerate(z.tolist()))), 1.0

    def _learn(self, arm: Any, z: Vector, reward: float, propensity: float) -> None:
        self._policy.update(arm, dict(enumerate(z.tolist())), reward)  # type: ignore[no-untyped-call]

    def _add_arm(self, arm: Any) -> None:
        """Arms are those named in a pull."""


class VowpalWabbit(Peer):
    """Vowpal Wabbit, ``--cb_explore_adf``: text, the context in namespace U, the arm in A, costs 0 and 1."""

    def __init__(self, arms: Sequence[Any], *, options: str, divide: bool = True, **others: Any) -> None:
        super().__init__(arms, **others)
        from vowpalwabbit import Workspace

        self._vw = Workspace(f"--cb_explore_adf {options} --quiet --random_seed {self.seed + 1} -b 22")
        self._rng = np.random.default_rng(self.seed)
        self._divide = divide

    def features(self, context: Any) -> Vector:
        z = super().features(context)[:-1]  # VW adds its own constant
        return z if self._divide else z * math.sqrt(len(z))

    def _shared(self, z: Vector) -> str:
        return "shared |U " + " ".join(f"{i}:{v:.6g}" for i, v in enumerate(z.tolist()) if v != 0.0)

    def _lines(self) -> list[str]:
        return [f"|A a{i}" for i in range(len(self.arms))]

    def _choose(self, z: Vector) -> tuple[Any, float]:
        p = np.array(self._vw.predict([self._shared(z), *self._lines()]))
        i = min(int(np.searchsorted(np.cumsum(p / p.sum()), self._rng.random())), len(p) - 1)
        return self.arms[i], float(p[i])

    def _learn(self, arm: Any, z: Vector, reward: float, propensity: float) -> None:
        lines = self._lines()
        if arm not in self.arms:  # an arm is a line: a new line is a new arm
            lines.append(f"|A a{len(lines)}")
            i = len(lines) - 1
        else:
            i = self.arms.index(arm)
        lines[i] = f"0:{1.0 - reward:.6g}:{propensity:.6g} {lines[i]}"
        self._vw.learn([self._shared(z), *lines])

    def _add_arm(self, arm: Any) -> None:
        """A new line is a new arm."""
