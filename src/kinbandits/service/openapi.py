"""The OpenAPI document: every route says what it takes, what it answers, and every status it may answer with."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from kinbandits.service import messages as s

_WHY = {
    400: "The body is not JSON.",
    401: "No valid token.",
    403: "The token lacks the role.",
    404: "There is no such thing.",
    405: "Not with this method.",
    409: "It conflicts with what is there.",
    413: "The body is too large.",
    415: "The body is not declared as JSON.",
    422: "The request does not fit.",
    429: "Too many requests; see Retry-After.",
    500: "A fault of the service.",
    503: "The log cannot be written or read now; see Retry-After.",
}


def operation(
    name: str,
    answer: Any,
    body: type[BaseModel] | None,
    *statuses: int,
    secured: bool = True,
    media: str = "application/json",
) -> dict[str, Any]:
    """Arguments of a route's decorator.

    Args:
        name: the operation's id.
        answer: the model of the answer, or None for text.
        body: the model of the body, if there is one.
        statuses: what it may answer besides 200 and what every route may answer.
        secured: whether it needs a token.
        media: the type of the answer.
    """
    always = {405, 413, 503} | ({401, 403, 429} if secured else set())
    with_body = {400, 413, 415, 422} if body is not None else set()
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": s.ProblemAnswer, "description": _WHY[status]}
        for status in sorted({*statuses, *always, *with_body})
    }
    if 404 in statuses:
        responses[422] = {"model": s.ProblemAnswer, "description": _WHY[422]}
    for status in (429, 503):
        if status in responses:
            responses[status]["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    if answer is None:
        responses[200] = {"description": "Text.", "content": {media: {"schema": {"type": "string"}}}}
    extra: dict[str, Any] = {"security": [{"token": []}]} if secured else {"security": []}
    if body is not None:
        schema = {"$ref": f"#/components/schemas/{body.__name__}"}
        extra["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {
        "operation_id": name,
        "response_model": answer,
        "responses": responses,
        "openapi_extra": extra,
    }


def describe(app: FastAPI) -> None:
    """Make the document of this app, once."""
    requests: list[type[BaseModel]] = [s.DecisionRequest, s.RewardRequest, s.ArmRequest, s.TokenRequest]
    requests += [s.BatchRequest, s.RewardsRequest, s.CorrectionRequest, s.RollBackRequest]

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title,
                version=app.version,
                description="Decide, reward, and see what was learned.",
                routes=app.routes,
            )
            _, definitions = models_json_schema(
                [(m, "validation") for m in requests], ref_template="#/components/schemas/{model}"
            )
            components = document.setdefault("components", {})
            components.setdefault("schemas", {}).update(definitions["$defs"])
            components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
