"""The page ``/docs``: the OpenAPI document for people, drawn here, since nothing is fetched from elsewhere."""

from __future__ import annotations

import json
from typing import Any

from kinbandits.service.guard import OPEN, role_for

Schema = dict[str, Any]


def operations(document: Schema) -> list[dict[str, Any]]:
    """What the page shows of each call, in the order of the document."""
    found = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            schemas = document["components"]["schemas"]
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            answer = operation["responses"]["200"].get("content", {}).get("application/json", {}).get("schema")
            name = method.upper()
            found.append(
                {
                    "id": operation["operationId"],
                    "method": name,
                    "path": path,
                    "description": operation.get("description", ""),
                    "role": None if path.startswith(OPEN) else role_for(name, path),
                    "tables": [
                        ("Parameters", [_parameter(p, schemas) for p in operation.get("parameters", ())]),
                        ("Body", _fields(body, schemas)),
                        ("Answer", _fields(answer, schemas)),
                    ],
                    "example": _example(name, path, body, schemas),
                    "statuses": [(s, r.get("description", "")) for s, r in sorted(operation["responses"].items())],
                }
            )
    return found


def _parameter(parameter: Schema, schemas: Schema) -> dict[str, Any]:
    return {
        "name": parameter["name"],
        "type": f"{_type(parameter['schema'], schemas)}, in the {parameter['in']}",
        "description": parameter.get("description", ""),
        "required": parameter.get("required", False),
    }


def _resolved(schema: Schema | None, schemas: Schema) -> Schema:
    if schema is None:
        return {}
    if "$ref" in schema:
        return dict(schemas[schema["$ref"].rpartition("/")[2]])
    return schema


def _fields(schema: Schema | None, schemas: Schema) -> list[dict[str, Any]]:
    found = _resolved(schema, schemas)
    if found.get("type") == "array":
        found = _resolved(found["items"], schemas)
    required = found.get("required", ())
    return [
        {
            "name": name,
            "type": _type(field, schemas),
            "description": field.get("description", ""),
            "required": name in required,
        }
        for name, field in found.get("properties", {}).items()
    ]


def _type(schema: Schema, schemas: Schema) -> str:
    """A type in few words.

    >>> _type({"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "null"}]}, {})
    'list of number, or null'
    """
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return ", or ".join(dict.fromkeys(_type(part, schemas) for part in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}), schemas)}"
    return str(schema.get("type", "any"))


def _example(method: str, path: str, body: Schema | None, schemas: Schema) -> str:
    if path.startswith(OPEN):
        return ""
    given = {
        name: field["examples"][0]
        for name, field in _resolved(body, schemas).get("properties", {}).items()
        if field.get("examples")
    }
    url = path.replace("{id}", "0-000000000001").replace("{arm}", "music").replace("{name}", "shop")
    lines = [f'curl -s -X {method} http://127.0.0.1:8321{url} -H "Authorization: Bearer $TOKEN"']
    if given:
        lines += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(given)}'"]
    return " \\\n  ".join(lines)
