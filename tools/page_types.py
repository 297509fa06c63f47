"""Types of the API for the checker of the page's scripts: `python -m tools.page_types > tools/api.d.ts`."""

import sys
from typing import Any

from tools.http_document import openapi

HEAD = """// Bodies and answers of the HTTP API, written by `python -m tools.page_types` from the OpenAPI document.

declare namespace Api {
"""
SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def page_types(document: dict[str, Any]) -> str:
    """Write one interface per schema; a field with a default may be absent, in requests and in answers."""
    blocks = []
    for name, schema in document["components"]["schemas"].items():
        required = schema.get("required", ())
        fields = [
            f"    {field}{'' if field in required else '?'}: {_type(content)};"
            for field, content in schema.get("properties", {}).items()
        ]
        blocks.append("\n".join([f"  interface {name} {{", *fields, "  }"]))
    return HEAD + "\n".join(blocks) + "\n}\n"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[1]
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(f'"{each}"' for each in schema["enum"])
    if schema.get("type") == "array":
        return f"Array<{_type(schema.get('items', {}))}>"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties", True)
        return f"Record<string, {_type(values) if isinstance(values, dict) else 'any'}>"
    return SIMPLE.get(str(schema.get("type")), "any")


if __name__ == "__main__":
    sys.stdout.write(page_types(openapi()))
