"""Arms, tokens, snapshots: what an administrator changes."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import FastAPI, Path, Request
from fastapi.responses import Response

from kinbandits.service import messages as s
from kinbandits.service.batcher import Batcher
from kinbandits.service.engine import Engine
from kinbandits.service.openapi import operation
from kinbandits.service.requests import AddArm, AddToken, RetireArm, RevokeToken, RollBack
from kinbandits.service.routes.common import ask, by, read_body, reply
from kinbandits.service.tokens import Keyring, hash_token, new_token


def add_arms(app: FastAPI, engine: Engine, batcher: Batcher) -> None:
    """Add the routes of arms."""

    @app.get("/v1/arms", **operation("arms", list[s.Arm], None))
    async def arms(request: Request) -> Response:
        """All arms with their records."""
        return reply(engine.learner.state.arm_table())

    @app.post("/v1/arms", **operation("add_arm", s.ArmState, s.ArmRequest, 409))
    async def add(request: Request) -> Response:
        """Add an arm; it is a candidate from now on."""
        body = await read_body(request, s.ArmRequest)
        return await ask(batcher, AddArm(body.arm, by(request), body.descriptor, body.similarity, body.neighbours))

    @app.delete("/v1/arms/{arm}", **operation("retire_arm", s.ArmState, None, 404, 409))
    async def retire(request: Request, arm: str = Path(description="The name of an arm.")) -> Response:
        """Retire an arm: never chosen again, but its data still help its kin."""
        given = request.path_params["arm"]
        name = next((a for a in engine.serving.policy.arms if str(a) == given), given)
        return await ask(batcher, RetireArm(name, by(request)))


def add_tokens(app: FastAPI, engine: Engine, batcher: Batcher, keyring: Keyring) -> None:
    """Add the routes of tokens."""

    @app.get("/v1/tokens", **operation("tokens", list[s.TokenState], None))
    async def tokens(request: Request) -> Response:
        """All tokens, revoked ones included, without their secrets."""
        found = [
            {"name": t.name, "roles": list(t.roles), "created": t.at, "revoked": t.revoked}
            for t in await asyncio.to_thread(engine.store.tokens)
        ]
        return reply(found)

    @app.post("/v1/tokens", **operation("add_token", s.TokenAnswer, s.TokenRequest, 409))
    async def add(request: Request) -> Response:
        """Make a token. Its secret is in this answer and nowhere else."""
        body = await read_body(request, s.TokenRequest)
        secret, roles = new_token(), tuple(dict.fromkeys(body.roles))
        await ask(batcher, AddToken(body.name, hash_token(secret), roles, by(request)))
        await asyncio.to_thread(keyring.refresh)
        return reply(s.TokenAnswer(name=body.name, roles=list(roles), token=secret))

    @app.delete("/v1/tokens/{name}", **operation("revoke_token", s.TokenState, None, 404))
    async def revoke(request: Request, name: str = Path(description="The name of a token.")) -> Response:
        """Revoke a token: refused from now on (within two seconds by other processes)."""
        given = request.path_params["name"]
        await ask(batcher, RevokeToken(given, by(request)))
        await asyncio.to_thread(keyring.refresh)
        t = next(t for t in await asyncio.to_thread(engine.store.tokens) if t.name == given)
        roles: Any = list(t.roles)
        return reply(s.TokenState(name=t.name, roles=roles, created=t.at, revoked=t.revoked))


def add_snapshots(app: FastAPI, engine: Engine, batcher: Batcher) -> None:
    """Add the routes of snapshots."""

    @app.get("/v1/snapshots", **operation("snapshots", list[s.SnapshotState], None))
    async def snapshots(request: Request) -> Response:
        """Snapshots of the model that are kept, latest first."""
        found = await asyncio.to_thread(engine.store.snapshot_seqs)
        current = engine.follower.keeper.seq
        return reply([{"event": n, "current": n == current} for n in found])

    @app.post("/v1/rollback", **operation("roll_back", s.RollBackAnswer, s.RollBackRequest, 409))
    async def roll_back(request: Request) -> Response:
        """Forget what was learned after an event. The log keeps it; what comes from now on is learned."""
        body = await read_body(request, s.RollBackRequest)
        return await ask(batcher, RollBack(body.to, by(request)))
