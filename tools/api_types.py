"""TypeScript types of the HTTP API: `python -m tools.api_types > clients/js/src/api.d.ts`.

The client is typed by them, and the scripts of the page are checked against them (`tools/api.d.ts`), with the
types of its own routes: `python -m tools.api_types --page > tools/page_api.d.ts`.
"""

import sys
from typing import Any

from tools.http_document import openapi

HEAD = "// Bodies, queries and answers of the HTTP API, written by `python -m tools.api_types` from OpenAPI."
SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def api_types(document: dict[str, Any]) -> str:
    """Write an interface per schema, and one per route that has a query or a body without a name.

    A field with a default may be absent, in requests and in answers.
    """
    found = {name: _fields(schema) for name, schema in document["components"]["schemas"].items()}
    for methods in document["paths"].values():
        for method in methods.values():
            name = "".join(part.capitalize() for part in method["operationId"].split("_v1_")[0].split("_"))
            asked = [each for each in method.get("parameters", ()) if each["in"] == "query"]
            if asked:
                found[f"{name}Query"] = [_field(each["name"], each["schema"], is_required=False) for each in asked]
            body = method.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            if "properties" in body:
                found[f"{name}Body"] = _fields(body)
    blocks = [
        "\n".join([f"export interface {name} {{", *(f"  {field};" for field in fields), "}"])
        for name, fields in found.items()
    ]
    return f"{HEAD}\n\n" + "\n".join(blocks) + "\n"


def page_types() -> str:
    """Write the types of the routes that only the page needs, beside those of the API."""
    document, public = openapi(of_page=True), openapi()["components"]["schemas"]
    own = {name: schema for name, schema in document["components"]["schemas"].items() if name not in public}
    shared = sorted(document["components"]["schemas"].keys() & public.keys())
    head = f'import type {{ {", ".join(shared)} }} from "../clients/js/src/api.js";'
    text = api_types({"components": {"schemas": own}, "paths": document["paths"]})
    return text.replace(HEAD, f"{HEAD.replace('api_types`', 'api_types --page`')}\n\n{head}", 1)


def _fields(schema: dict[str, Any]) -> list[str]:
    required = schema.get("required", ())
    return [
        _field(name, content, is_required=name in required) for name, content in schema.get("properties", {}).items()
    ]


def _field(name: str, schema: dict[str, Any], *, is_required: bool) -> str:
    return f"{name}{'' if is_required else '?'}: {_type(schema)}"


def _type(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[1]
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(f'"{each}"' for each in schema["enum"])
    if isinstance(kind, list):
        return " | ".join(_type(schema | {"type": each}) for each in kind)
    if kind == "array":
        return f"Array<{_type(schema.get('items', {}))}>"
    if "properties" in schema:
        return f"{{ {'; '.join(_fields(schema))} }}"
    if kind == "object":
        values = schema.get("additionalProperties", True)
        return f"Record<string, {_type(values) if isinstance(values, dict) else 'any'}>"
    return SIMPLE.get(str(kind), "any")


if __name__ == "__main__":
    sys.stdout.write(page_types() if "--page" in sys.argv else api_types(openapi()))
