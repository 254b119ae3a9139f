"""What the routes share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.requests import ClientDisconnect

from kinbandits.service import messages as s
from kinbandits.service.batcher import Batcher
from kinbandits.service.problems import Problem
from kinbandits.service.requests import Request as EngineRequest

JSON = "application/json"


async def read_body(request: Request, model: type[s.Model]) -> s.Model:
    """The body as a model."""
    try:
        content = await request.body()
    except ClientDisconnect:
        raise Problem(400, "not_json", "the body is not complete") from None
    return s.parse(model, request.headers.get("content-type", ""), content)


async def ask(batcher: Batcher, request: EngineRequest) -> Response:
    """The engine's answer as an HTTP answer."""
    return Response(to_json(await batcher.ask(request)), media_type=JSON)


def reply(found: BaseModel | Sequence[Any]) -> Response:
    """A model, or a list of them or of plain data, as an HTTP answer."""
    if isinstance(found, BaseModel):
        return Response(found.model_dump_json(), media_type=JSON)
    return Response(json.dumps(found, default=BaseModel.model_dump), media_type=JSON)


def by(request: Request) -> str:
    """The name of the token that was sent."""
    return str(request.scope["kinbandits.token"].name)
