"""Write a log of any size by repeating its rows, and measure how `igcf data validate` reads it.

    python -m tools.repeated_log --gigabytes 10 --folder /var/tmp

The rows must all be counted, and the memory must not grow with the file: repetitions of a reaction are dropped while it
is read. The file is deleted at the end.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

HEADER = b"user,item,value,timestamp\n"
DISTINCT = 200_000
"""Rows that are repeated."""


def block_of_rows(n_rows: int = DISTINCT) -> bytes:
    """Return rows of a log, no pair of user and item twice."""
    rng = np.random.default_rng(0)
    pairs = rng.choice(50 * n_rows, n_rows, replace=False)
    values, times = rng.integers(1, 11, n_rows), 1_600_000_000 + np.arange(n_rows)
    columns = zip((pairs // 500).tolist(), (pairs % 500).tolist(), values.tolist(), times.tolist(), strict=True)
    return "".join(f"u{user},{item:05d},{value},{time}\n" for user, item, value, time in columns).encode()


def write_repeated(path: Path, n_bytes: int, n_rows: int = DISTINCT) -> int:
    """Write a log of about `n_bytes`; returns its number of rows."""
    block = block_of_rows(n_rows)
    times = max(n_bytes // len(block), 1)
    with path.open("wb") as file:
        file.write(HEADER)
        for _ in range(times):
            file.write(block)
    return times * n_rows


def validated(path: Path, before: str = "") -> dict[str, Any]:
    """Validate a log in a process of its own: what it says, and its peak memory (bytes) and CPU time (s).

    `before` is code that runs first.
    """
    code = f"import sys\nfrom igcf.cli.main import cli\n{before}\ncli(['data', 'validate', sys.argv[1], '--json'])"
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        text = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"igcf data validate ended with {process.returncode}: {text.decode()}")
    return {"report": json.loads(text), "peak_bytes": 1024 * used.ru_maxrss, "cpu_s": used.ru_utime + used.ru_stime}


def main() -> None:
    """Write a file, validate it, print the figures and delete it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--folder", type=Path, default=Path("."))
    args = parser.parse_args()
    path = args.folder / "repeated.csv"
    try:
        n_rows = write_repeated(path, int(args.gigabytes * 1e9))
        size = path.stat().st_size
        found = validated(path)
    finally:
        path.unlink(missing_ok=True)
    defects = {defect["kind"]: defect["count"] for defect in found["report"]["defects"]}
    figures = {"bytes": size, "rows": n_rows, "rows_read": found["report"]["rows"], "defects": defects}
    print(json.dumps({**figures, "peak_megabytes": found["peak_bytes"] // 10**6, "cpu_s": round(found["cpu_s"], 1)}))


if __name__ == "__main__":
    main()
