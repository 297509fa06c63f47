"""Bodies of requests and answers: below `http`, `serving` and the clients; the source of the OpenAPI document."""
