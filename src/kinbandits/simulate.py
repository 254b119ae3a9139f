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
import time
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kinbandits._threads import one_blas_thread
from kinbandits._value import as_int
from kinbandits._version import __version__
from kinbandits.errors import InvalidInputError, SimulationWarning
from kinbandits.policy.base import Policy
from kinbandits.progress import Told, telling
from kinbandits.trace import COLUMNS, Trace

if TYPE_CHECKING:
    from kinbandits.environments.base import Environment, Round


def play(
    policy: Policy,
    environment: Environment,
    horizon: int | None = None,
    progress: Told | None = None,
    *,
    numbers: bool = False,
    trained: bool = False,
) -> Iterator[dict[str, Any]]:
    """Play and yield one flat row per round, a dict of the columns of a `Trace`; `simulate` collects them.

    The policy learns the start rows first, then plays ``horizon`` rounds (all, if left out). A round in which
    the chosen arm's reward is not known (NaN, in the replay of a log) is left out: the decision is cancelled
    and nothing is learned or yielded. A reward that is late (`Round.delay`) is learned when it is known, and not at
    all if that is after the last round.

    ``numbers`` reads mean and width of each choice, which may cost more than choosing; ``trained`` says that the
    policy may have learned before (else a `SimulationWarning`); ``progress`` is called with rounds gone through and
    the horizon.

    >>> import kinbandits as kb
    >>> environment = kb.environments.SyntheticNews(horizon=2)
    >>> rows = play(kb.KMTLUCB(environment.arms, tie_break="first"), environment)
    >>> [row["arm"] for row in rows]
    ['article 1', 'article 2']
    """
    horizon = _horizon(environment, horizon)
    arms = list(environment.arms)
    _check_arms(policy, arms)
    if not (trained or getattr(policy, "n_observations", 0) == 0):  # peers of the comparison need not say
        warnings.warn(
            f"the policy has already learned {policy.n_observations} rows, so this run starts from them; play a "
            "fresh one, such as sklearn.base.clone(policy), or say trained=True if that is meant",
            SimulationWarning,
            stacklevel=2,
        )
    candidates = None if list(policy.active_arms) == arms else arms
    names, contexts, rewards = environment.start_rows()
    if len(names):
        policy.observe(names, contexts, rewards)
    late: list[tuple[int, int, Any, float]] = []  # rewards on their way: before which round, of which, what
    for t, round in enumerate(environment.rounds()):
        if t >= horizon:
            break
        while late and late[0][0] <= t:
            policy.update(*heapq.heappop(late)[2:])
        row = _one_round(policy, t, round, arms, candidates, numbers, late)
        if row is not None:
            yield row
        if progress is not None:
            progress(t + 1, horizon)


@one_blas_thread
def simulate(
    policy: Policy,
    environment: Environment,
    horizon: int | None = None,
    progress: bool | Told | None = None,
    *,
    numbers: bool = False,
    trained: bool = False,
) -> Trace:
    """Play a policy on an environment and keep the trace. Arguments as for `play`; ``progress=True`` shows a bar.

    The policy itself is changed: play a fresh one for every run, or ``sklearn.base.clone(policy)``. One that has
    learned before (in an earlier run, say) is played with a `SimulationWarning`, unless ``trained=True``.
    """
    from kinbandits.environments.base import describe  # with all environments: not needed to import kinbandits

    params: dict[str, Any] = getattr(policy, "get_params", dict)()
    settings = {"repr": repr(policy), "params": {name: _written(value) for name, value in params.items()}}
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    with telling(progress, "rounds") as tell:
        told = tell if progress else None
        for row in play(policy, environment, horizon, told, numbers=numbers, trained=trained):
            for name, value in row.items():
                columns[name].append(value)
    metadata = {
        "policy": type(policy).__name__,
        "policy_repr": settings["repr"],
        "settings": settings["params"],
        "environment": describe(environment),
        "environment_name": environment.name,
        "seed": getattr(environment, "seed", None),
        "horizon": _horizon(environment, horizon),
        "arms": list(environment.arms),
        "kinbandits": __version__,
    }
    return Trace.of(columns, metadata)


def _one_round(
    policy: Policy,
    t: int,
    round: Round,
    arms: list[Any],
    candidates: list[Any] | None,
    numbers: bool,
    late: list[tuple[int, int, Any, float]],
) -> dict[str, Any] | None:
    candidates = candidates if round.candidates is None else round.candidates
    started = time.perf_counter()
    decision = policy.choose(round.context, candidates)
    chosen_in = time.perf_counter() - started
    index = decision.index
    reward = float(round.rewards[index])
    if math.isnan(reward):
        policy.cancel(decision)
        return None
    mean, width = (decision.mean, decision.width) if numbers else (math.nan, math.nan)
    started = time.perf_counter()
    if round.delay:
        heapq.heappush(late, (t + round.delay + 1, t, decision, reward))
    else:
        policy.update(decision, reward)
    learned_in = time.perf_counter() - started
    best = float(round.rewards.max())  # NaN if any reward is
    expected = math.nan if round.means is None else float(round.means.max() - round.means[index])
    return {
        "t": t,
        "arm": decision.arm,
        "arm_index": index if round.candidates is None else arms.index(decision.arm),
        "reward": reward,
        "best_reward": best,
        "regret": best - reward,
        "expected_regret": expected,
        "mean": mean,
        "width": width,
        "propensity": decision.propensity,
        "seconds": chosen_in + learned_in,
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


def _check_arms(policy: Policy, arms: list[Any]) -> None:
    active = list(policy.active_arms)
    if active != arms and not set(arms) <= set(active):
        missing = next(a for a in arms if a not in active)
        raise InvalidInputError(
            f"the environment has an arm {missing!r}, which the policy does not have (or has retired); make the "
            "policy with arms=environment.arms"
        )


def _written(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_written(v) for v in value]
    return repr(value)
