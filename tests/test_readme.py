"""What the README and the pages for users show is run as it stands, against the embedded catalogue."""

import re
import shlex
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import pytest

import igcf
from igcf.cli.main import cli
from igcf.data import load_dataset as load
from igcf.data import synthetic_catalogue
from igcf.online import POLICIES
from tests.pages import ROOT, blocks, demo_model, pages_with_code, run_line, write_logs
from tests.service.processes import Server

PAGES = pages_with_code()
EVERY_PAGE = [
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("examples/*/README.md")),
    *sorted(ROOT.glob("clients/*/README.md")),
    *sorted(ROOT.glob("research/*.md")),
]
LONGEST_CELL = 200


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Serve the items of `igcf serve --demo`, with a model that is learned faster, and write the logs of the pages."""
    folder = tmp_path_factory.mktemp("pages")
    write_logs(folder)
    demo_model().save(folder / "demo-model")
    igcf.pretrain(igcf.Interactions.from_csv(folder / "ratings.csv"), seed=0, progress=False).save(folder / "model")
    server = Server(folder / "demo-model", str(folder / "demo.db")).wait_until_ready()
    yield folder, server.url
    server.stop()


def load_small(name: str, *arguments: Any, **options: Any) -> igcf.Interactions:
    """Load a data set; of the embedded catalogue a small part."""
    return synthetic_catalogue(n_users=80, n_items=40) if name == "synthetic" else load(name, *arguments, **options)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path, demo: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything runs as it stands, on small logs: a smaller embedded catalogue, one process, another port."""
    folder, url = demo
    text, found = page.read_text(encoding="utf-8"), blocks(page)
    for each in folder.iterdir():
        if each.suffix in (".csv", ".tsv"):
            shutil.copy(each, tmp_path)
        elif each.is_dir() and f"--out {each.name}/" not in text and f'save("{each.name}")' not in text:
            (tmp_path / each.name).symlink_to(each)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IGCF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    if page.name not in ("policy.md", "agent.md"):
        monkeypatch.setattr("igcf.data.load_dataset", load_small)
    for file in re.findall(r"Put this into `(\w+\.py)`", text):
        (tmp_path / file).write_text(next(block.text for block in found if block.language == "python"))
        monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    with patch.dict(POLICIES):  # a page may add a policy, which other tests must not see
        for block in found:
            if block.language == "python":
                exec(compile(block.text.replace("http://127.0.0.1:8000", url), str(page), "exec"), names)
            else:
                for line in block.text.replace("\\\n", " ").splitlines():
                    if line.strip() and not line.startswith("#"):
                        run_line(line, url)


def test_every_command_that_a_page_shows_exists_with_its_options() -> None:
    """Also those that are not run: servers that never end, clusters, hours of experiments."""
    wrong = []
    for page in EVERY_PAGE:
        parts = re.split(r"^```.*$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for line in "".join(parts[1::2]).replace("\\\n", " ").splitlines():
            found = re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*igcf( .*)", line)
            if found and (mistake := unknown_in(shlex.split(found[1], comments=True))):
                wrong.append(f"{page.relative_to(ROOT)}: {line.strip()}: {mistake}")
    assert wrong == []


def unknown_in(words: list[str]) -> str | None:
    """Return the first word of a command line that is no command or option of igcf."""
    command: click.Command = cli
    while isinstance(command, click.Group) and words:
        if words[0].startswith("-"):
            return None
        name, *words = words
        if (found := command.get_command(click.Context(command), name)) is None:
            return name
        command = found
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    options = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return next((option for option in options if option not in {*known, "--help", "-h"}), None)


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as the site and as repositories make them."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        words = re.sub(r"[^\w\s-]", "", heading.lower()).strip().replace(" ", "-")
        found |= {words, re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")}
    return found


def test_every_link_leads_somewhere() -> None:
    broken = []
    for page in EVERY_PAGE:
        for target, anchor in re.findall(
            r"\]\((?!https?:|mailto:)([^)#\s]*)#?([^)\s]*)\)", page.read_text(encoding="utf-8")
        ):
            file = page.parent / target if target else page
            if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
                broken.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert broken == []


def test_no_cell_of_a_table_is_a_paragraph() -> None:
    long = [
        f"{page.relative_to(ROOT)}: {cell.strip()[:60]}..."
        for page in EVERY_PAGE
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
        for cell in line.split("|")
        if len(cell.strip()) > LONGEST_CELL
    ]
    assert long == []
