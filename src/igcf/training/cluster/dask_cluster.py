"""Connects to a Dask cluster, or starts one on this machine; nothing here needs torch."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from igcf.errors import ConfigError
from igcf.training.cluster.ray_cluster import check_reachable, no_cluster

CONNECT_S = 10.0
DEFAULT_PORT = 8786


@contextmanager
def dask_client(address: str | None, *, n_workers: int) -> Iterator[Any]:
    """Give a client of the cluster at `address`, or of one started here, in processes of one thread each."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise ConfigError("Dask is not installed; install it with `pip install igcf[scale]`") from error
    if address is None:
        with (
            distributed.LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",  # any free port: None would be 8787, which another cluster may have
                memory_limit=0,
                silence_logs=logging.CRITICAL,
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
        return
    check_reachable("Dask", address, DEFAULT_PORT)
    try:
        client = distributed.Client(address, timeout=CONNECT_S)
    except (OSError, ValueError) as error:
        raise no_cluster("Dask", address, error) from error
    with client:
        yield client
