"""Wheels for systems other than the one at hand, with zig as the compiler: `python -m tools.cross_wheels dist`.

Linux on ARM, and Linux with musl in place of glibc (Alpine) on both processors; `auditwheel` gives each its tag.
The processor-specific versions of the loops need GCC and glibc, so these wheels have one version of each function.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TARGETS = ("aarch64-linux-gnu.2.17", "aarch64-linux-musl", "x86_64-linux-musl")
NATIVE = "igcf/online/backend/_native.abi3.so"
BUILD = (sys.executable, "-m", "build", "--wheel")
WHEEL = (sys.executable, "-m", "wheel")
AUDITWHEEL = (sys.executable, "-m", "auditwheel", "repair")


def build(target: str, out: Path) -> None:
    """Build the wheel of one system and put it, with its tag, into a folder."""
    processor = target.split("-")[0]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        environment = compiled_by(f"{sys.executable} -m ziglang cc -target {target}", processor)
        _forget_last_build()
        run(*BUILD, "--outdir", str(folder), env=os.environ | environment)
        (wheel,) = folder.glob("*.whl")
        run(*WHEEL, "unpack", "--dest", str(folder / "unpacked"), str(wheel))
        (content,) = (folder / "unpacked").iterdir()
        assert (content / NATIVE).is_file(), f"zig did not compile {NATIVE} for {target}"
        if target.endswith("musl"):  # its name where musl is the system's; auditwheel knows it by that
            run("patchelf", "--replace-needed", "libc.so", f"libc.musl-{processor}.so.1", str(content / NATIVE))
            run(*WHEEL, "pack", "--dest-dir", str(folder), str(content))
        run(*AUDITWHEEL, "--wheel-dir", str(out), str(wheel))
    _forget_last_build()


def compiled_by(compiler: str, processor: str) -> dict[str, str]:
    """Variables that let setuptools compile for a processor, without paths of the Python at hand.

    How that Python links would end up in every wheel otherwise: a run path to its own libraries, where another machine
    has nothing or something else.
    """
    return {"CC": compiler, "LDSHARED": f"{compiler} -shared", "_PYTHON_HOST_PLATFORM": f"linux-{processor}"}


def _forget_last_build() -> None:
    """Remove what setuptools would take over from a build for another system."""
    for pattern in ("lib*", "bdist*", "temp*"):
        for folder in Path("build").glob(pattern):
            shutil.rmtree(folder)


def run(*command: str, env: dict[str, str] | None = None) -> None:
    """Run a command of this environment; what it says is shown only where it fails."""
    environment = dict(env or os.environ)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{' '.join(command)} failed with code {done.returncode}")


if __name__ == "__main__":
    if sys.platform != "linux":
        sys.exit("wheels for other systems are built on Linux only, with its Python headers")
    for each in TARGETS:
        build(each, Path(sys.argv[1]))
        print(f"built the wheel for {each}")
