"""The wheel for Linux on ARM proves itself on another processor, emulated: `python -m tools.arm_wheel dist`.

Debian's Python for arm64 is unpacked into a temporary folder and runs under `qemu-aarch64-static` (Debian's package
qemu-user-static); nothing is installed on this machine, and root is not needed. The wheel learns from a small log,
recommends and serves; then the tests of the native loops compare them with NumPy there. A processor without SVE is
emulated: with it, OpenBLAS leaves floating-point exceptions behind products of matrices that are right, NumPy warns of
them, and tests take warnings for errors.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.smoke import smoke

SOURCE = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main\n"
PACKAGES = ("python3.11", "libstdc++6")
PLATFORMS = ("manylinux_2_17_aarch64", "manylinux2014_aarch64", "manylinux_2_28_aarch64")
TESTS = ("tests/online/test_backend.py", "tests/online/test_belief.py", "tests/online/test_selection.py")
NEEDS_ITS_COMPILER = "other_platforms_and_compilers"  # `cc` here compiles for this machine
EMULATOR = """#!/bin/sh
export QEMU_CPU=neoverse-n1 OPENBLAS_NUM_THREADS=1 POLARS_MAX_THREADS=1
exec qemu-aarch64-static -L {root} -0 "$0" {root}/usr/bin/python3.11 "$@"
"""
SMALL_LOG = """
import csv, sys
from igcf.data.synthetic import synthetic_catalogue
log = synthetic_catalogue(n_users=200, n_items=80)
with open(sys.argv[1], "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["user", "item", "rating"])
    rows.writerows((log.user_ids[u], log.item_ids[i], v) for u, i, v in zip(log.user_idx, log.item_idx, log.values))
"""


def unpack_python(folder: Path) -> Path:
    """Download Debian's Python for arm64 and unpack it; returns the command that starts it, a file beside it."""
    root, state = folder / "root", folder / "apt"
    for part in (state / "lists/partial", state / "archives/partial", root):
        part.mkdir(parents=True)
    (state / "status").touch()
    (state / "sources.list").write_text(SOURCE)
    settings = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "APT::Sandbox::User": "",
        "Dir::State": str(state),
        "Dir::State::status": str(state / "status"),
        "Dir::Cache": str(state),
        "Dir::Etc::sourcelist": str(state / "sources.list"),
        "Dir::Etc::sourceparts": "-",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    subprocess.run([*apt, "update"], check=True)
    install = ["install", "--yes", "--download-only", "--no-install-recommends", *PACKAGES]
    subprocess.run([*apt, *install], check=True, stdout=subprocess.DEVNULL)
    for package in sorted((state / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", str(package), str(root)], check=True)
    python = root / "usr/bin/emulated-python"
    python.write_text(EMULATOR.format(root=root))
    python.chmod(0o755)
    return python


def install(wheel: Path, python: Path) -> None:
    """Let the pip at hand put the wheel, its dependencies and pytest where the emulated Python looks for them."""
    target = python.parents[1] / "local/lib/python3.11/dist-packages"
    options = [f"--platform={each}" for each in PLATFORMS]
    options += ["--only-binary=:all:", "--python-version=3.11", f"--target={target}", "--no-compile", "-q"]
    wanted = [f"{wheel}[service]", "pytest", "hypothesis"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, *wanted], check=True)


def prove(wheel: Path) -> None:
    """Install a wheel for ARM in an empty system, learn, recommend, serve, and run the tests of the native loops."""
    with tempfile.TemporaryDirectory(prefix="igcf-arm-") as temporary:
        folder = Path(temporary)
        python = unpack_python(folder)
        install(wheel, python)
        backend = "from igcf.online import backend; import platform; print(platform.machine(), backend.loops.name)"
        found = subprocess.run([python, "-I", "-c", backend], check=True, capture_output=True, text=True).stdout
        assert found == "aarch64 native\n", f"{wheel.name} runs as {found!r}, expected the native loops on aarch64"
        log = folder / "log.csv"
        subprocess.run([python, "-I", "-c", SMALL_LOG, str(log)], check=True)
        steps = smoke(str(python), folder, dataset=str(log))
        print(f"{wheel.name}: " + ", ".join(f"{step} {spent:.0f} s" for step, spent in steps.items()), flush=True)
        options = ["-q", "-p", "no:cacheprovider", "-k", f"not {NEEDS_ITS_COMPILER}"]
        subprocess.run([python, "-m", "pytest", *options, *TESTS], check=True)


if __name__ == "__main__":
    if shutil.which("qemu-aarch64-static") is None:
        sys.exit("qemu-aarch64-static was not found, which runs programs for ARM; install Debian's qemu-user-static")
    wheels = sorted(Path(sys.argv[1]).resolve().glob("*-manylinux*_aarch64.whl"))
    if not wheels:
        sys.exit(f"{sys.argv[1]} holds no wheel for Linux on ARM (*-manylinux*_aarch64.whl); `make dist` builds it")
    for each in wheels:
        prove(each)
