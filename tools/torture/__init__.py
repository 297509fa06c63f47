"""Torture of the service: break something under load, restart, and check that nothing acknowledged is lost.

`python -m tools.torture --minutes 30 --out torture` or `make torture MINUTES=30`. A scenario starts real servers and a
load, breaks something, repairs it, and hands its clients' requests and responses to the one checker (`check.py`).
"""
