"""The commands of examples/shop, without containers: prepare, import, retrain, serve, retrain again, go back."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.pages import run_line
from tests.service.processes import Server

SHOP = Path(__file__).parents[2] / "examples" / "shop"


@pytest.mark.slow
def test_a_shop_is_made_from_its_order_book_and_retrained_while_it_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*command: str, **environment: str) -> str:
        result = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | environment, timeout=120
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    monkeypatch.chdir(tmp_path)
    run(sys.executable, str(SHOP / "prepare.py"), ".", "150", "30")
    run_line("igcf import orders.csv --store shop.db", "")
    run_line("igcf retrain --store shop.db --items products.csv --out models/first --promote", "")
    server = Server(tmp_path / "models" / "first", str(tmp_path / "shop.db")).wait_until_ready()
    try:

        def ask() -> dict[str, Any]:
            return dict(httpx.post(f"{server.url}/v1/users/u0007/recommendations", json={"k": 1}).json())

        def follows(generation: int) -> bool:
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                if httpx.get(f"{server.url}/v1/model").json()["generation"] == generation:
                    return True
                time.sleep(0.1)
            return False

        known = ask()
        assert known["revision"] > 0
        assert known["items"][0]["title"]
        run_line("igcf import today.csv --store shop.db", "")
        run_line("igcf retrain --store shop.db --out models/second --promote", "")
        assert follows(2)
        renewed = ask()
        assert renewed["model"] != known["model"]
        assert renewed["items"][0]["title"]
        run_line("igcf models rollback --store shop.db", "")
        assert follows(3)
        assert ask()["model"] == known["model"]
    finally:
        server.stop()


def test_the_compose_file_names_files_that_exist() -> None:
    text = (SHOP / "compose.yaml").read_text()
    mounted = [line.split(":")[0].strip(" -") for line in text.splitlines() if line.strip().startswith("- .")]
    assert mounted
    assert [name for name in mounted if not (SHOP / name).exists()] == []
