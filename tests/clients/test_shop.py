"""The commands of examples/shop, without containers: prepare, learn, import, serve, retrain."""

import os
import subprocess
import sys
from pathlib import Path

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
    run(sys.executable, str(SHOP / "prepare.py"), ".", "60", "25")
    run_line("igcf pretrain --dataset orders.csv --items products.csv --out models/first", "")
    run_line("igcf import orders.csv --store shop.db --model models/first", "")
    server = Server(tmp_path / "models" / "first", str(tmp_path / "shop.db")).wait_until_ready()
    try:
        known = httpx.post(f"{server.url}/v1/users/u0007/recommendations", json={"k": 1}).json()
        assert known["revision"] > 0
        assert known["items"][0]["title"]
        told = run(str(SHOP / "retrain.sh"), SHOP_URL=server.url, SHOP_IGCF=f"{sys.executable} -m igcf")
        new = next(folder for folder in (tmp_path / "models").iterdir() if folder.name != "first")
        assert '"generation":1' in told
        assert (new / "meta.json").exists()
        assert httpx.get(f"{server.url}/v1/model").json()["model"] != known["model"]
        renewed = httpx.post(f"{server.url}/v1/users/u0007/recommendations", json={"k": 1}).json()
        assert renewed["model"] != known["model"]
        assert renewed["items"][0]["title"]
    finally:
        server.stop()


def test_the_compose_file_names_files_that_exist() -> None:
    text = (SHOP / "compose.yaml").read_text()
    mounted = [line.split(":")[0].strip(" -") for line in text.splitlines() if line.strip().startswith("- .")]
    assert mounted
    assert [name for name in mounted if not (SHOP / name).exists()] == []
