"""The compiled loops of the online phase; everything else about the package is in pyproject.toml.

`IGCF_PURE=1` leaves them out and makes a wheel for every platform.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

# all of -ffast-math but the part that changes the mode of the processor for the whole process
FAST = [
    "-O3",
    "-g0",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fassociative-math",
    "-ffinite-math-only",
]

NATIVE = Extension(
    "igcf.online.backend._native",
    ["src/igcf/online/backend/native/module.c"],
    depends=[str(file) for file in Path("src/igcf/online/backend/native").glob("*.h")],
    extra_compile_args=FAST,
    py_limited_api=True,
    optional=True,  # without a compiler NumPy does the same, more slowly
)

if os.environ.get("IGCF_PURE") == "1":
    setup()
else:
    setup(ext_modules=[NATIVE], options={"bdist_wheel": {"py_limited_api": "cp311"}})
