"""Small policies in the middle of a game, and a picture of all that a policy shows of itself."""

from __future__ import annotations

from typing import Any

import numpy as np

import kinbandits as kb
from strategies import SIMILARITIES, random_rows

PROBE = np.random.default_rng(99).uniform(-1.0, 1.0, (5, 1, 3))


def played(
    similarity: str | kb.similarity.Similarity = "mixed", rounds: int = 15, n_arms: int = 4, **settings: Any
) -> kb.KMTLUCB:
    """A policy that has logged rows, decided, learned some rewards and waits for three."""
    value = SIMILARITIES[similarity](n_arms) if isinstance(similarity, str) else similarity
    defaults: dict[str, Any] = {"context_kernel": kb.RBF(0.8), "similarity": value}
    policy = kb.KMTLUCB(n_arms, **(defaults | settings))
    rows = random_rows(seed=21, n_arms=n_arms, t=rounds + 6)
    policy.observe(rows.arms[:6], rows.contexts[:6], rows.rewards[:6])
    open_ids = []
    for t in range(6, rounds + 6):
        decision = policy.choose(rows.contexts[t])
        if t % 5 == 0:
            open_ids.append(decision.id)
        else:
            policy.update(decision, float(np.sin(t) + decision.index))
    assert len(open_ids) == 3
    return policy


def picture(policy: kb.KMTLUCB) -> dict[str, Any]:
    """Everything that must not change when a call fails."""
    mean, width = policy.predict(PROBE, policy.arms)
    return {
        "mean": mean.tolist(),
        "width": width.tolist(),
        "pending": policy.pending(),
        "rng": str(policy.rng.bit_generator.state),
        "similarity": [m.tolist() for m in policy.regression.similarity_matrices],
        "counts": policy.counts,
        "arms": list(policy.arms),
        "retired": sorted(map(str, policy.retired)),
        "decisions": policy.n_decisions,
        "log_det": policy.log_det(),
        "terms": policy.terms,
    }
