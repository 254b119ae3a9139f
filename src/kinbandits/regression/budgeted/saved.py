"""A model of the budgeted engine as arrays, inverses too, and back: a loaded policy decides the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinbandits._work import finished
from kinbandits.regression.base import RegressionSettings
from kinbandits.regression.budgeted.model import Model
from kinbandits.regression.budgeted.sums import Sums

Arrays = dict[str, NDArray[Any]]
_ROWS = ("arms", "contexts", "rewards", "weights")


def to_arrays(model: Model) -> Arrays:
    """All that was learned."""
    recent, points, tally, posterior = model.recent, model.points, model.tally, model.posterior
    arrays: Arrays = {
        "dictionary_arms": points.arms.astype(np.int64),
        "dictionary_contexts": points.contexts,
        "nugget": points.nugget,
        "kept_arms": recent.arms.astype(np.int64),
        "kept_contexts": recent.contexts,
        "kept_rewards": recent.rewards,
        "kept_weights": recent.weights,
        "counts": tally.counts.astype(np.int64),
        "inverse_P": posterior.P,
        "inverse_A": posterior.A,
        "v": posterior.v,
        "w": posterior.w,
        "usage": posterior.usage,
        "rows": np.array([tally.n, tally.since, tally.swaps, tally.refreshes, tally.unsummed]),
        "waiting": np.array(tally.waiting),
        "squares": np.array(tally.squares),
    }
    arrays |= _named("sums", model.sums.to_arrays())
    for p, (K_arm, follower) in enumerate(zip(points.K_arms, model.followers, strict=True)):
        arrays[f"similarity_{p}"] = K_arm
        arrays |= _named(f"follower_{p}", follower.to_arrays())
    if model.refreshing is not None:
        begun = model.refreshing
        state = {"S": begun.S, "v": begun.v, "state": np.array([begun.rows, begun.work.pieces])}
        state |= {f"K_{p}": K_arm for p, K_arm in enumerate(begun.K_arms)}
        arrays |= _named("refresh", state)
    return arrays


def restored(settings: RegressionSettings, n_arms: int, arrays: Arrays) -> Model:
    """The model that `to_arrays` gave."""
    model = Model(settings, n_arms, arrays["dictionary_contexts"].shape[1])
    tally, points, recent, sums = model.tally, model.points, model.recent, model.sums
    tally.n, tally.since, tally.swaps, tally.refreshes = (int(i) for i in arrays["rows"][:4])
    if "waiting" in arrays:
        tally.unsummed, tally.waiting = int(arrays["rows"][4]), arrays["waiting"].tolist()
    tally.squares = float(arrays["squares"])
    tally.counts = arrays["counts"].astype(np.intp)
    points.follow([arrays[f"similarity_{p}"].copy() for p in range(len(model.followers))])
    finished(
        points.fill(arrays["dictionary_arms"].astype(np.intp), arrays["dictionary_contexts"], arrays["nugget"])
    )
    sums.restore(_part(arrays, "sums") if "waiting" in arrays else _upgraded(arrays, model))
    inverses = (arrays[name].copy() for name in ("inverse_P", "inverse_A", "v", "usage", "w"))
    model.posterior.set(*inverses)
    for p, follower in enumerate(model.followers):
        follower.restore(_part(arrays, f"follower_{p}"))
    arms, contexts, rewards, weights = (arrays[f"kept_{name}"] for name in _ROWS)
    if len(arms):
        arms = arms.astype(np.intp)
        recent.fill(arms, contexts, rewards, weights)
        values = points.values(contexts)
        recent.set_rows(0, points.pairs(arms, values)[None] if points.joint else values)
    begun = _part(arrays, "refresh")
    if begun:
        K_arms = [begun[f"K_{p}"] for p in range(len(model.followers))]
        model.resume(K_arms, begun["S"], begun["v"], *(int(i) for i in begun["state"]))
    return model


def _upgraded(arrays: Arrays, model: Model) -> Arrays:
    """Sums of older files, which were of the context kernels also where the full kernel is fixed."""
    old = _part(arrays, "sums")
    if not model.sums.joint or old["S"].shape[0] == 1:
        return old
    per_arm = Sums(model.n_arms, old["v"].shape[1], old["v"].shape[2], joint=False)
    per_arm.restore(old)
    S, _ = per_arm.system(model.points.lending, model.arm_weights())
    v = np.einsum("aqn,aqn->an", model.points.lending, per_arm.v)
    return {"S": S[None, None, None] / per_arm.scale, "v": v[:, None], "scale": old["scale"]}


def _named(prefix: str, arrays: Arrays) -> Arrays:
    return {f"{prefix}_{name}": array for name, array in arrays.items()}


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(f"{prefix}_"): a for name, a in arrays.items() if name.startswith(f"{prefix}_")}
