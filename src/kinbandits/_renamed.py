"""Names and arguments of earlier releases, and what they are called now. One table each, used everywhere.

Whoever writes an old spelling is told the new one; what stands in saved files is read as it was meant.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from kinbandits._value import meant
from kinbandits.errors import InvalidTypeError

P = ParamSpec("P")
R = TypeVar("R")

ARGUMENTS: dict[str, str] = {
    "settings": '**kb.presets.paper() or **kb.presets.paper("digits")',
    "budget": "engine=kb.Budgeted(points=...)",
    "reward_range": "rewards=kb.Range(low, high)",
    "reward_scaling": "rewards=kb.Running()",
    "ceiling": "exploration=kb.UCB(0.1, ceiling=...)",
    "max_pending": "pending=kb.Pending(most=...)",
    "forget_after": "pending=kb.Pending(forget_after=...)",
}
"""Arguments of policies that are gone."""

GUESSED: dict[str, str] = {
    **dict.fromkeys(("alpha", "beta"), "exploration=..., the multiplier of the width"),
    **dict.fromkeys(("lam", "lambda_", "regularization", "l2_lambda", "noise"), "ridge=..."),
    **dict.fromkeys(("n_arms", "actions", "n_actions", "choices"), "arms=..., how many or their names"),
    "gamma": "context_kernel=kb.RBF(length_scale=...), where gamma = 1 / (2 length_scale ** 2)",
    "length_scale": "context_kernel=kb.RBF(length_scale=...)",
    "random_state": "seed=...",
    "descriptors": "similarity=kb.Known(descriptors=...)",
    "graph": "similarity=kb.Graph(adjacency)",
    "window": "memory=kb.Window(size)",
}
"""Arguments that other libraries have, and what ours are called."""

METHODS: dict[str, str] = {
    **dict.fromkeys(("fit", "partial_fit", "learn"), "observe(arms, contexts, rewards)"),
    "update_many": "update(decision, reward) for each, or observe(arms, contexts, rewards) for logged rows",
    **dict.fromkeys(("select", "select_arm", "pull", "recommend", "act", "sample_action"), "choose(context)"),
    **dict.fromkeys(("reward", "tell", "feedback"), "update(decision, reward)"),
    **dict.fromkeys(("predict_proba", "predict_expectations"), "probabilities(contexts) or predict(contexts)"),
}
"""Methods that other libraries have, and what ours are called."""

ENGINES: dict[str, str] = {
    "budgeted": "engine=kb.Budgeted(points=256)",
    "lagged": 'engine="exact", which is faster and exact',
    "refactorise": 'engine="exact", which gives the same answers',
}
"""Names of engines that are gone."""

VALUES: dict[str, str] = {"PosteriorSampling": "Thompson"}
"""Types of values in files and experiments."""

NAMES: dict[str, str] = {
    **dict.fromkeys(("LinTS", "LinearThompson"), "kb.baselines.LinUCB(arms, exploration=kb.Thompson())"),
    **dict.fromkeys(("ThompsonSampling", "TS"), "kb.Thompson, as exploration=kb.Thompson()"),
    "evaluate_policy": "kb.ope.evaluate_policy",
    "LoggedRounds": "kb.ope.LoggedRounds",
    "Clustered": "kb.contrib.Clustered",
    "ConstantExploration": "a plain number, exploration=0.1",
    "Learned": "kb.Adaptive (Learned did worse)",
    "PosteriorSampling": "kb.Thompson",
    "play": "kinbandits.simulate.play",
}
"""Names that are no longer in ``kinbandits``, nor in a room that is imported with it."""


def told_new_spelling(init: Callable[P, R]) -> Callable[P, R]:
    """Decorates a constructor: an argument that it does not have is an error that says what it is called here."""
    known = set(inspect.signature(init).parameters)

    @functools.wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name in known:
                continue
            if name in ARGUMENTS:
                raise InvalidTypeError(f"{name}= is gone; write {ARGUMENTS[name]}")
            hint = f"; write {GUESSED[name]}" if name in GUESSED else meant(name, known)
            raise InvalidTypeError(f"there is no argument {name}={hint}")
        return init(*args, **kwargs)

    return checked


def modern_value(data: Mapping[str, Any]) -> Any:
    """A value as it stands in a file, under its name of today."""
    kind = data.get("type")
    if kind == "ConstantExploration":
        return data.get("value", 0.1)
    return {**data, "type": VALUES[kind]} if kind in VALUES else data


def modern_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a saved policy (as JSON data), as they are given today."""
    old = dict(params)
    ceiling, scaling = old.pop("ceiling", None), old.pop("reward_scaling", None)
    limits, budget = old.pop("reward_range", None), old.pop("budget", 256)
    if ceiling is not None:
        old["exploration"] = {"type": "UCB", "exploration": old["exploration"], "ceiling": ceiling}
    if limits is not None:
        old["rewards"] = {"type": "Range", "low": limits[0], "high": limits[1]}
    if scaling == "running":
        old["rewards"] = {"type": "Running"}
    if old.get("rewards") == "one_of_n":
        old["rewards"] = {"type": "OneOfN"}
    if old.get("engine") == "budgeted":
        old["engine"] = {"type": "Budgeted", "points": budget}
    elif str(old.get("engine")) in ENGINES:
        old["engine"] = "exact"
    if "max_pending" in old:
        most, after = old.pop("max_pending"), old.pop("forget_after", None)
        old["pending"] = {"type": "Pending", "most": most, "forget_after": after}
    return old
