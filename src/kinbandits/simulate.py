"""Play a policy on an environment: choose, reward, update, one flat row a round.

>>> import kinbandits as kb
>>> environment = kb.environments.SyntheticNews(seed=0, horizon=50)
>>> policy = kb.KMTLUCB(environment.arms)
>>> trace = kb.simulate(policy, environment)
>>> len(trace), round(trace.final_regret, 2)
(50, 2.45)
"""

from __future__ import annotations

import heapq
import math
import sys
import time
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kinbandits._threads import one_blas_thread
from kinbandits._value import Value, as_int
from kinbandits._version import __version__
from kinbandits.errors import InvalidInputError, SimulationWarning
from kinbandits.policy.base import Policy
from kinbandits.progress import Progress
from kinbandits.trace import COLUMNS, Trace

if TYPE_CHECKING:
    from kinbandits.environments.base import Environment, Round


@one_blas_thread
def simulate(
    policy: Policy,
    environment: Environment,
    horizon: int | None = None,
    *,
    progress: bool = False,
    numbers: bool = False,
    trained: bool = False,
) -> Trace:
    """Play a policy on an environment and keep the trace.

    The policy learns the start rows first, then plays ``horizon`` rounds (all, if left out). A round in which
    the chosen arm's reward is not known (NaN, in the replay of a log) is left out: the decision is cancelled
    and nothing is learned. A reward that is late (`Round.delay`) is learned when it is known, and not at all if that
    is after the last round.

    The policy itself is changed: play a fresh one for every run, or ``sklearn.base.clone(policy)``. One that has
    learned before (in an earlier run, say) is played with a `SimulationWarning`, unless ``trained=True``.
    ``progress`` shows a bar; ``numbers`` reads mean and width of each choice, which may cost more than choosing.
    """
    rounds = _horizon(environment, horizon)
    metadata = {
        "policy": type(policy).__name__,
        "settings": repr(policy),
        "environment": repr(environment) if isinstance(environment, Value) else type(environment).__name__,
        "environment_name": environment.name,
        "seed": getattr(environment, "seed", None),
        "horizon": rounds,
        "arms": list(environment.arms),
        "kinbandits": __version__,
    }
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    with Progress(rounds, "rounds", stream=sys.stderr if progress else None) as bar:
        for row in _play(policy, environment, rounds, numbers, trained):
            for name, value in row.items():
                columns[name].append(value)
            bar.to(row["t"] + 1)
    return Trace.of(columns, metadata)


def _play(
    policy: Policy, environment: Environment, horizon: int, numbers: bool, trained: bool
) -> Iterator[dict[str, Any]]:
    """One row per round played: a dict of the columns of a `Trace`."""
    arms, active = list(environment.arms), list(policy.active_arms)
    known = set(active)
    missing = [arm for arm in arms if arm not in known]
    if missing:
        raise InvalidInputError(
            f"the environment has an arm {missing[0]!r}, which the policy does not have (or has retired); make the "
            "policy with arms=environment.arms"
        )
    if not (trained or getattr(policy, "n_observations", 0) == 0):  # peers of the comparison need not say
        warnings.warn(
            f"the policy has already learned {policy.n_observations} rows, so this run starts from them; play a "
            "fresh one, such as sklearn.base.clone(policy), or say trained=True if that is meant",
            SimulationWarning,
            stacklevel=4,
        )
    names, contexts, rewards = environment.start_rows()
    if len(names):
        policy.observe(names, contexts, rewards)
    late: list[tuple[int, int, Any, float]] = []  # before which round a reward is known, of which round, what
    for t, round in enumerate(environment.rounds()):
        if t >= horizon:
            break
        while late and late[0][0] <= t:
            policy.update(*heapq.heappop(late)[2:])
        candidates = round.candidates or (None if active == arms else arms)
        started = time.perf_counter()
        decision = policy.choose(round.context, candidates)
        seconds = time.perf_counter() - started
        reward = float(round.rewards[decision.index])
        if math.isnan(reward):
            policy.cancel(decision)
            continue
        mean, width = (decision.mean, decision.width) if numbers else (math.nan, math.nan)
        started = time.perf_counter()
        if round.delay:
            heapq.heappush(late, (t + round.delay + 1, t, decision, reward))
        else:
            policy.update(decision, reward)
        seconds += time.perf_counter() - started
        yield _row(t, round, decision, arms) | {"reward": reward, "mean": mean, "width": width, "seconds": seconds}


def _row(t: int, round: Round, decision: Any, arms: list[Any]) -> dict[str, Any]:
    """What the round and the choice are worth, whatever the policy thinks of them."""
    index, means = decision.index, round.means
    best = float(round.rewards.max())  # NaN if any reward is
    return {
        "t": t,
        "arm": decision.arm,
        "arm_index": index if round.candidates is None else arms.index(decision.arm),
        "best_reward": best,
        "regret": best - float(round.rewards[index]),
        "expected_regret": math.nan if means is None else float(means.max() - means[index]),
        "propensity": decision.propensity,
    }


def _horizon(environment: Environment, horizon: int | None) -> int:
    if horizon is None:
        return environment.horizon
    if as_int("horizon", horizon, 1) > environment.horizon:
        raise InvalidInputError(
            f"horizon is {horizon}, but {environment.name} has only {environment.horizon} rounds; "
            "ask for fewer, or make a longer environment"
        )
    return int(horizon)
