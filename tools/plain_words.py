"""Count phrases that read as translated, and words of pages: python -m tools.plain_words.

Prints every place with such a phrase, then the count, which must be 0, and every page of the documentation that is
longer than `MOST_WORDS`. Generated references and design notes may be longer.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_WORDS = 1500
LONG = ("cli.md", "http.md", "results-tables.md", "measured.md")
PLACES = ("src", "docs", "clients", "examples", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
SUFFIXES = {".py", ".md", ".js", ".ts", ".html", ".c", ".h"}
PHRASES = re.compile(rf"\b({'|'.join(Path(__file__).with_suffix('.txt').read_text().splitlines())})\b")
"""One pattern per line of plain_words.txt."""


def files() -> Iterator[Path]:
    """Yield the files whose text people read."""
    for place in (ROOT / name for name in PLACES):
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.suffix in SUFFIXES and "node_modules" not in path.parts and path.name != "results-tables.md":
                yield path


def places_of(text: str) -> list[tuple[int, str]]:
    """Return line number and phrase of everything in a text that reads as translated."""
    return [(number, found[0]) for number, line in enumerate(text.splitlines(), 1) for found in PHRASES.finditer(line)]


def long_pages() -> dict[str, int]:
    """Return the pages for users that are too long, with their numbers of words."""
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    sizes = {str(page.relative_to(ROOT)): len(page.read_text(encoding="utf-8").split()) for page in pages}
    return {
        name: size
        for name, size in sizes.items()
        if size > MOST_WORDS and Path(name).name not in LONG and "design/" not in name
    }


if __name__ == "__main__":
    found = [(path, *place) for path in files() for place in places_of(path.read_text(encoding="utf-8"))]
    sys.stdout.write("".join(f"{path.relative_to(ROOT)}:{number}: {phrase}\n" for path, number, phrase in found))
    sys.stdout.write("".join(f"{page}: {size:,} words\n" for page, size in long_pages().items()))
    sys.stdout.write(f"{len(found)}\n")
