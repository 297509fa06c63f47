"""`docs/http.md` from the OpenAPI document: `python -m tools.http_document > docs/http.md`."""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.settings import ServiceSettings
from tools.load import random_model

HEAD = """# HTTP API

After this page you will know every route, what it takes and what it answers. It is written by
`python -m tools.http_document` from the OpenAPI document, which a running server also gives at
`/openapi.json`. Bodies and answers are JSON. An error is `{"error": "<class>", "message": "<one sentence>"}`; 4xx is
the caller's mistake, 503 comes with `Retry-After`. Where the server has keys, send `Authorization: Bearer KEY`; routes
marked *admin* need the admin key, `/healthz`, `/readyz` and the page need none. Every answer carries `X-Request-ID`;
send your own to find a request in the log. How to run a server is in [operation.md](operation.md).

Against `igcf serve --demo`:

```sh
curl -s -X POST localhost:8000/v1/users/ann/recommendations -H 'content-type: application/json' -d '{"k": 3}'
curl -s -X POST localhost:8000/v1/users/ann/feedback -H 'content-type: application/json' \\
  -d '{"item": "i0460", "value": 5}'
```

From Python, with `Client` or `AsyncClient` (the same methods, to be awaited):

```python
from igcf.service.client import Client

with Client("http://127.0.0.1:8000") as client:
    answer = client.recommend("ann", k=3)
    client.feedback("ann", answer.items[0].item, 5, recommendation_id=answer.recommendation_id)
```

The client gives every reaction an `event_id`, and tries again when the service is away or overloaded: a reaction that
was stored the first time is not counted twice. Errors of the service are raised as the library's exceptions.
"""
USUAL = ("400", "401", "408", "413", "422", "503")


def http_markdown(document: dict[str, Any]) -> str:
    """Write all routes with their parameters, bodies and answers."""
    parts, shown = [HEAD], dict[str, None]()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(_route(path, method, operation, shown))
    parts.append("## Bodies and answers\n")
    done: set[str] = set()
    while left := [name for name in shown if name not in done]:
        done.add(left[0])
        parts.append(_schema(left[0], document["components"]["schemas"][left[0]], shown))
    return "\n".join(parts)


def _route(path: str, method: str, operation: dict[str, Any], shown: dict[str, None]) -> str:
    mark = " *admin*" if "admin" in operation.get("tags", ()) or path == "/metrics" else ""
    lines = [f"## {method.upper()} {path}{mark}\n", operation.get("description", operation["summary"]) + "\n"]
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "query":
            kind, default = _type(parameter["schema"], shown), json.dumps(parameter["schema"].get("default"))
            text = f"- `{parameter['name']}` in the query: {kind}, default {default}."
            lines.append(f"{text} {parameter.get('description', '')}".rstrip())
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body:
        lines.append(f"- body: {_type(body['schema'], shown)}")
    content = operation["responses"]["200"].get("content", {}).get("application/json")
    if content and content["schema"]:
        lines.append(f"- answer: {_type(content['schema'], shown)}")
    errors = [status for status in operation["responses"] if status != "200" and status not in USUAL]
    if errors:
        lines.append(f"- errors of its own: {', '.join(sorted(errors))}")
    return "\n".join(lines) + "\n"


def _schema(name: str, schema: dict[str, Any], shown: dict[str, None]) -> str:
    lines = [f"### {name}\n", schema.get("description", "") + "\n", "| field | type | meaning |", "|---|---|---|"]
    required = schema.get("required", ())
    for field, content in schema.get("properties", {}).items():
        text = content.get("description", "")
        if field not in required and "default" in content:
            text = f"{text} Default {json.dumps(content['default'])}.".strip()
        lines.append(f"| `{field}` | {_type(content, shown)} | {text} |".replace("  |", " |"))
    return "\n".join(lines) + "\n"


def _type(schema: dict[str, Any], shown: dict[str, None]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        shown.setdefault(name)
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(each, shown) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        limit = f" (at most {schema['maxItems']})" if "maxItems" in schema else ""
        return f"list of {_type(schema['items'], shown)}{limit}"
    bounds = [f"{word} {schema[key]:,}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in schema]
    if "maxLength" in schema:
        bounds.append(f"at most {schema['maxLength']} characters")
    return " ".join([str(schema.get("type", "anything")), *bounds])


def openapi() -> dict[str, Any]:
    """Build the document of an application over a tiny model."""
    with tempfile.TemporaryDirectory() as temporary:
        random_model(n_items=3, dim=2).save(Path(temporary) / "model")
        settings = ServiceSettings(store=str(Path(temporary) / "store.db"))
        context = ServiceContext.open(Path(temporary) / "model", settings)
        try:
            return create_app(context).openapi()
        finally:
            context.close()


if __name__ == "__main__":
    sys.stdout.write(http_markdown(openapi()))
