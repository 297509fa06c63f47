"""Connects to a Ray cluster, or starts one on this machine."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from igcf.errors import ConfigError

CONNECT_SECONDS = 10.0
DEFAULT_PORT = 6379


@contextmanager
def ray_cluster(address: str | None, *, n_cpus: int, object_store_bytes: int) -> Iterator[Any]:
    """Give the module `ray`, connected to the cluster at `address` or to one started here that ends with the block.

    Where the caller is connected already, that connection is used and left open.

    Args:
        address: Address of a running cluster, or None.
        n_cpus: Processors of a cluster that is started here.
        object_store_bytes: Size of its shared memory.
    """
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise ConfigError("Ray is not installed; install it with `pip install igcf[scale]`") from error
    if ray.is_initialized():
        yield ray
        return
    options: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options |= {
            "num_cpus": n_cpus,
            "object_store_memory": object_store_bytes,
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
        }
    elif address != "auto":
        _check_reachable(address)
    try:
        ray.init(address=address or "local", **options)
    except (OSError, RuntimeError, ValueError) as error:
        if address is None:
            raise ConfigError(f"cannot start a Ray cluster here: {_first_line(error)}") from error
        raise _no_cluster(address, error) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Connect to a cluster's port and close again, or raise: Ray's own client tries for minutes."""
    host, _, port = address.rsplit("/", 1)[-1].partition(":")
    try:
        socket.create_connection((host, int(port or DEFAULT_PORT)), timeout=CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str, error: Exception) -> ConfigError:
    return ConfigError(f"no Ray cluster answers at {address}: {_first_line(error)}; check --address and RAY_AUTH_TOKEN")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
