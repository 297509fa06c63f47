"""Renew the pictures of the documentation: `python -m tools.pictures`; needs Chromium, takes about a minute."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ("tests/web/test_pictures.py", "tests/web/test_reports.py")


def main() -> int:
    """Run the tests that take the pictures, with docs/images as their album."""
    album = {"IGCF_PICTURES": str(ROOT / "docs" / "images")}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "slow or not slow", "-k", "picture", *TESTS]
    return subprocess.run(command, cwd=ROOT, env=os.environ | album, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
