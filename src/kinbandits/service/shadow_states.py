"""What the shadows would have earned, as it is told: by the API, the dashboard and the metrics."""

from __future__ import annotations

from typing import Any

from kinbandits.service import messages as s
from kinbandits.service.engine import Engine
from kinbandits.service.shadow import Shadow


def shadow_states(engine: Engine) -> list[s.ShadowState]:
    """What the shadows would have earned."""
    return [_shadow_state(shadow, max(0, engine.learner.seq - shadow.seq)) for shadow in engine.shadows]


def _shadow_state(shadow: Shadow, behind: int) -> s.ShadowState:
    found = shadow.account.evaluation()
    told: dict[str, Any] = dict.fromkeys(("value", "served", "agreement", "effective_rounds"))
    if found is not None:
        of_shadow, served, agreement = found
        values = of_shadow.estimates["dr"], served.estimates["ips"]
        told = dict(
            zip(("value", "served"), (s.Value(value=e.value, low=e.low, high=e.high) for e in values), strict=True)
        )
        told |= {"agreement": agreement, "effective_rounds": of_shadow.effective_n}
    return s.ShadowState(
        name=shadow.name,
        policy=repr(shadow.policy),
        observations=shadow.policy.n_observations,
        behind=behind,
        rounds=0 if found is None else found[0].n,
        warnings=[] if found is None else list(found[0].warnings),
        **told,
    )
