"""The OpenAPI document: operation ids that stay, and who needs a key for what."""

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from igcf.service.http.authentication import needed_role, needs_key

SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer KEY`"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}

WORDS = {"admin": "Needs an admin key.", "server": "", "page": "A page token of the user is enough."}


def operation_id(route: APIRoute) -> str:
    """Name an operation after its function, so that a changed path does not change generated clients."""
    return route.name


class DocumentedApp(FastAPI):
    """An application with a document that describes keys; where the server has none, they are optional."""

    has_keys = False

    def openapi(self) -> dict[str, Any]:
        """Build the document once."""
        if self.openapi_schema is None:
            document = super().openapi()
            document.setdefault("components", {})["securitySchemes"] = SCHEMES
            alternatives: list[dict[str, list[str]]] = [] if self.has_keys else [{}]
            alternatives += [{name: []} for name in SCHEMES]
            for path, operations in document["paths"].items():
                for method, operation in operations.items():
                    if needs_key(path):
                        operation["security"] = alternatives
                        words = WORDS[needed_role(method.upper(), path)]
                        operation["description"] = f"{operation.get('description', '').strip()} {words}".strip()
            self.openapi_schema = document
        return self.openapi_schema
