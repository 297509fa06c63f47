"""What the README shows is run as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_every_link_in_the_readme_leads_somewhere() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


@pytest.mark.slow
def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert blocks
    for block in blocks:
        result = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        assert "liked with " in result.stdout


@pytest.mark.slow
def test_the_commands_of_the_readme_run_on_a_log_of_ones_own(tmp_path: Path) -> None:
    """Validate, pretrain, recommend and import as shown; `serve` and `curl` are tested in tests/service."""
    from igcf.data import synthetic_catalogue

    log = synthetic_catalogue(n_users=150, n_items=60)
    rows = zip(log.user_idx, log.item_idx, log.values, strict=True)
    lines = [f"{log.user_ids[user]},{log.item_ids[item]},{value:g}" for user, item, value in rows]
    (tmp_path / "ratings.csv").write_text("\n".join(["user,item,value", *lines]))
    pattern = r"igcf (data validate|pretrain|recommend|import) [^#]*"
    commands = [found.group() for found in (re.match(pattern, line) for line in README.splitlines()) if found]
    assert len(commands) == 4
    for command in commands:
        arguments = [sys.executable, "-m", *command.split()]
        result = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, input="5\n\nq\n")
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "model" / "meta.json").exists()
