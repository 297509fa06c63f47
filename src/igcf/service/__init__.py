"""Recommendations and feedback over HTTP: the application, the store and the client.

`from igcf.service.client import Client`; `from igcf.service.store import interactions_from_store`.
"""
