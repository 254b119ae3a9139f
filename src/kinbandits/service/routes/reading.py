"""What is served, how far it has learned, how it is."""

from __future__ import annotations

import asyncio

from fastapi import FastAPI, Request
from fastapi.responses import Response

from kinbandits.service import messages as s
from kinbandits.service.engine import Engine
from kinbandits.service.metrics import CONTENT_TYPE, Metrics
from kinbandits.service.openapi import operation
from kinbandits.service.problems import unavailable
from kinbandits.service.routes.common import reply
from kinbandits.service.shadow_states import shadow_states


def policy_answer(engine: Engine) -> s.PolicyAnswer:
    """What is served and how far it has learned."""
    serving = engine.serving
    policy = serving.policy
    return s.PolicyAnswer(
        policy=repr(policy),
        arms=policy.arms,
        retired=[a for a in policy.arms if a in policy.retired],
        epsilon=policy.epsilon,
        features=engine.n_features,
        observations=policy.n_observations,
        events=engine.store.last_seq(),
        model=serving.seq,
        states=engine.learner.state.states,
        counters=engine.store.counters(),
        settings=engine.settings.service.model_dump(),
    )


def add_reading(app: FastAPI, engine: Engine, metrics: Metrics) -> None:
    """Add the routes that only read."""

    @app.get("/v1/policy", **operation("policy", s.PolicyAnswer, None))
    async def policy(request: Request) -> Response:
        """What is served and how far it has learned."""
        return reply(await asyncio.to_thread(policy_answer, engine))

    @app.get("/v1/similarity", **operation("similarity", s.SimilarityAnswer, None))
    async def similarity(request: Request) -> Response:
        """How alike the arms are, as the model sees them now (the first term, if there are several)."""
        served = engine.serving.policy
        matrix = served.similarity_matrix(0).tolist()
        return reply(s.SimilarityAnswer(arms=served.arms, matrix=matrix))

    @app.get("/v1/shadows", **operation("shadows", list[s.ShadowState], None))
    async def shadows(request: Request) -> Response:
        """The shadow policies: what each would have earned, beside what was served."""
        return reply(await asyncio.to_thread(shadow_states, engine))

    @app.get("/metrics", **operation("metrics", None, None, media="text/plain"))
    async def prometheus(request: Request) -> Response:
        """Metrics in Prometheus' format."""
        return Response(await asyncio.to_thread(metrics.text), headers={"content-type": CONTENT_TYPE})

    @app.get("/healthz", **operation("healthz", s.Health, None, secured=False))
    async def healthz(request: Request) -> Response:
        """Whether the process is alive, and nothing more."""
        return reply(s.Health(status="ok"))

    @app.get("/readyz", **operation("readyz", s.Health, None, secured=False))
    async def readyz(request: Request) -> Response:
        """Whether requests are taken and can be written; 503 with the reason if not."""
        trouble = engine.trouble
        if trouble is None:
            return reply(s.Health(status="ok"))
        raise unavailable(trouble)
