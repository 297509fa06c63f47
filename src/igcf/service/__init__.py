"""Recommendations and feedback over HTTP; the store, the application and the client."""
