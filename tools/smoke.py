"""A wheel proves itself in an empty environment: learn the default model, meet a user, serve, answer over HTTP.

`python -m tools.smoke dist` makes the environment, prints seconds and megabytes, and removes it.
`python tools/smoke.py --here` runs the same in the environment at hand, without making one.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from pathlib import Path

UNWANTED = ("torch", "numba", "ray", "dask", "matplotlib")


def smoke(python: str, folder: Path) -> dict[str, float]:
    """Learn, recommend and serve with this interpreter; returns seconds by step."""
    igcf = [python, "-I", "-m", "igcf"]
    seconds, began = {}, time.perf_counter()
    model = folder / "model"
    subprocess.run([*igcf, "pretrain", "--dataset", "synthetic", "--out", str(model)], check=True, cwd=folder)
    seconds["learn"] = time.perf_counter() - began
    answer = subprocess.run([*igcf, "recommend", str(model), "--json", "-k", "3"], check=True, capture_output=True)
    assert len(json.loads(answer.stdout)["items"]) == 3
    seconds["recommend"] = time.perf_counter() - began - seconds["learn"]
    command = [*igcf, "serve", str(model), "--store", str(folder / "s.db"), "--port", "0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = server.stdout.readline()
            assert line, "the server did not start"
            text += line
        ask = urllib.request.Request(
            json.loads(text)["url"] + "/v1/users/ann/recommendations",
            data=b'{"k": 2}',
            headers={"content-type": "application/json"},
        )
        for _ in range(100):
            try:
                with urllib.request.urlopen(ask, timeout=10) as reply:
                    assert len(json.load(reply)["items"]) == 2
                break
            except OSError:
                time.sleep(0.1)
        else:
            raise AssertionError("the server did not answer")
    finally:
        server.terminate()
        server.wait(timeout=30)
    seconds["serve"] = time.perf_counter() - began - seconds["learn"] - seconds["recommend"]
    return seconds


def in_empty_environment(wheel: Path, extra: str) -> None:
    """Install one wheel with an extra where there is nothing else, and print what that took."""
    with tempfile.TemporaryDirectory(prefix="igcf-smoke-") as temporary:
        folder = Path(temporary)
        began = time.perf_counter()
        venv.create(folder / "env", with_pip=True)
        before = megabytes(folder / "env")
        python = str(folder / "env" / "bin" / "python")
        install = [python, "-m", "pip", "install", "-q", f"{wheel}[{extra}]"]
        environment = {**os.environ, "CC": "/bin/false", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        subprocess.run(install, check=True, env=environment)
        installed = time.perf_counter() - began
        listed = subprocess.run([python, "-m", "pip", "list"], check=True, capture_output=True, text=True).stdout
        assert not [name for name in UNWANTED if f"\n{name} " in listed]
        steps = smoke(python, folder)
        size = megabytes(folder / "env") - before
        print(f"{wheel.name}: {size:.0f} MB beside the environment's own {before:.0f}; install {installed:.0f} s")
        print(", ".join(f"{step} {spent:.1f} s" for step, spent in steps.items()))


def megabytes(folder: Path) -> float:
    """Size of all files of a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink()) / 1e6


if __name__ == "__main__":
    if sys.argv[1:] == ["--here"]:
        with tempfile.TemporaryDirectory() as here:
            print(smoke(sys.executable, Path(here)))
    else:
        for found in sorted(Path(sys.argv[1]).resolve().glob("*.whl")):
            in_empty_environment(found, "service")
