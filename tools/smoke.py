"""A wheel proves itself in an empty environment: learn the default model, meet a user, serve, answer over HTTP.

`python -m tools.smoke dist` takes the wheels that fit this machine, each without extras and as a service. It makes the
environment, prints seconds and megabytes, and removes it.
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

UNWANTED = ("torch", "numba", "ray", "matplotlib")


def smoke(python: str, folder: Path, *, serve: bool = True, dataset: str = "synthetic") -> dict[str, float]:
    """Learn, recommend and, where asked for, serve with this interpreter; returns seconds by step."""
    igcf = [python, "-I", "-m", "igcf"]
    seconds, began = {}, time.perf_counter()
    model = folder / "model"
    subprocess.run([*igcf, "pretrain", "--dataset", dataset, "--out", str(model)], check=True, cwd=folder)
    seconds["learn"] = time.perf_counter() - began
    answer = subprocess.run([*igcf, "recommend", str(model), "--json", "-k", "3"], check=True, capture_output=True)
    assert len(json.loads(answer.stdout)["items"]) == 3
    seconds["recommend"] = time.perf_counter() - began - seconds["learn"]
    if not serve:
        return seconds
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
    """Install one wheel, with an extra or none (""), where there is nothing else, and print what that took."""
    with tempfile.TemporaryDirectory(prefix="igcf-smoke-") as temporary:
        folder = Path(temporary)
        venv.create(folder / "env", with_pip=True)
        before = megabytes(folder / "env")
        python = str(folder / "env" / "bin" / "python")
        install = [python, "-m", "pip", "install", "-q", f"{wheel}[{extra}]" if extra else str(wheel)]
        environment = {**os.environ, "CC": "/bin/false", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        began = time.perf_counter()
        subprocess.run(install, check=True, env=environment)
        installed = time.perf_counter() - began
        listed = subprocess.run([python, "-m", "pip", "list"], check=True, capture_output=True, text=True).stdout
        assert not [name for name in UNWANTED if f"\n{name} " in listed]
        steps = {"install": installed, **smoke(python, folder, serve=extra == "service")}
        size = megabytes(folder / "env") - before
        first = steps["install"] + steps["learn"] + steps["recommend"]
        print(f"{wheel.name} {f'[{extra}]' if extra else 'without extras'}: {size:.0f} MB beside pip's {before:.0f};")
        print(f"  {first:.0f} s to the first recommendation: ", end="")
        print(", ".join(f"{step} {spent:.1f} s" for step, spent in steps.items()), flush=True)


def fits_here(wheel: Path) -> bool:
    """Tell whether pip would install a wheel on this machine."""
    from packaging.tags import sys_tags
    from packaging.utils import parse_wheel_filename

    return not parse_wheel_filename(wheel.name)[3].isdisjoint(sys_tags())


def megabytes(folder: Path) -> float:
    """Size of all files of a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink()) / 1e6


if __name__ == "__main__":
    if sys.argv[1:] == ["--here"]:
        with tempfile.TemporaryDirectory() as here:
            print(smoke(sys.executable, Path(here)))
    else:
        for found in sorted(Path(sys.argv[1]).resolve().glob("*.whl")):
            if fits_here(found):
                for extra in ("", "service"):
                    in_empty_environment(found, extra)
