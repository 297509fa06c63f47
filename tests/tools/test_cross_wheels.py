"""Wheels for other systems: what they take over from the machine that builds them."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.cross_wheels import compiled_by

SETUP = """
import sysconfig
sysconfig.get_config_vars()["LDSHARED"] = "cc -shared -Wl,-rpath,/of/the/builder"
from setuptools import Extension, setup
setup(name="small", ext_modules=[Extension("small", ["small.c"])])
"""


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="wheels are cross-compiled on Linux")
def test_a_wheel_does_not_look_for_libraries_where_its_builder_has_them(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text(SETUP)
    (tmp_path / "small.c").write_text("int small;\n")
    environment = os.environ | compiled_by("cc", platform.machine())
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=tmp_path, env=environment, check=True
    )
    (library,) = tmp_path.glob("small*.so")
    assert b"/of/the/builder" not in library.read_bytes()
