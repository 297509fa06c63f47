"""Latency of an ordinary client while others send the worst legal requests: `python -m tools.hostile_load`.

Prints p99 of the ordinary client alone, beside the attackers, and their ratio; the goal is at most 5.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import click
import httpx
import numpy as np

from tools.load import random_model

USERS = [f"u{n}" for n in range(1000)]
WORST: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/recommendations", {"users": USERS, "k": 100, "policy": "thompson"}),
    ("/v1/users/attacker/recommendations", {"k": 100, "rules": {"diversity": 0.5}}),
    ("/v1/users/attacker/recommendations", {"k": 1, "rules": {"diversity": 0.5, "caps": {"*": 0}}}),
    ("/v1/users/attacker/recommendations", {"k": 100, "policy": "thompson"}),
)


def attack(url: str, number: int, stop: threading.Event) -> None:
    """Send one of the worst requests again and again."""
    path, body = WORST[number % len(WORST)]
    while not stop.is_set():
        try:
            httpx.post(url + path, json=body, timeout=30)
        except httpx.TransportError:
            time.sleep(0.05)


def p99_ms(url: str, seconds: float) -> float:
    """Measure an ordinary client: an answer, a reaction, and so on."""
    times, n, end = [], 0, time.monotonic() + seconds
    with httpx.Client(base_url=url, timeout=60) as client:
        while time.monotonic() < end:
            n += 1
            for path, body in (("recommendations", {"k": 5}), ("feedback", {"item": str(n % 500), "value": 4})):
                started = time.perf_counter()
                client.post(f"/v1/users/ordinary-{n % 20}/{path}", json=body).raise_for_status()
                times.append(time.perf_counter() - started)
    return float(np.quantile(times, 0.99)) * 1e3


@click.command()
@click.option("--items", default=5_800, show_default=True)
@click.option("--seconds", default=15.0, show_default=True, help="Length of each phase.")
@click.option("--attackers", default=4, show_default=True)
def main(items: int, seconds: float, attackers: int) -> None:
    """Measure quiet and hostile phases on a server of its own."""
    with tempfile.TemporaryDirectory() as temporary:
        random_model(n_items=items, dim=32).save(Path(temporary) / "model")
        command = [sys.executable, "-m", "igcf", "serve", f"{temporary}/model", "--port", "0", "--json"]
        command += ["--store", f"{temporary}/store.db", "--log-level", "error"]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
            try:
                text = ""
                while not text.rstrip().endswith("}"):
                    text += server.stdout.readline() if server.stdout else ""
                url = json.loads(text)["url"]
                p99_ms(url, 3.0)  # warm
                quiet = p99_ms(url, seconds)
                stop = threading.Event()
                threads = [threading.Thread(target=attack, args=(url, n, stop)) for n in range(attackers)]
                for thread in threads:
                    thread.start()
                time.sleep(1.0)
                hostile = p99_ms(url, seconds)
                stop.set()
                for thread in threads:
                    thread.join()
            finally:
                server.terminate()
    click.echo(f"p99 quiet {quiet:.1f} ms, hostile {hostile:.1f} ms, ratio {hostile / quiet:.1f} (goal: at most 5)")


if __name__ == "__main__":
    main()
