"""Check the built site without a network: every local link, picture, style and anchor leads somewhere.

Of the Markdown forms of the pages every local link and picture is checked, without anchors.

`python -m tools.check_links build/site` prints what does not, and ends with 1 where there is any.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse

LOCAL_LINK = re.compile(r"\]\((?!\w+:|#|/)([^)#\s]+)")
"""A link or picture of a Markdown page that leads to a file beside it."""


class Page(HTMLParser):
    """Links and anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag points at, and the name it can be reached by."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def broken_links(site: Path) -> list[str]:
    """List `page: link` for all local links that lead nowhere."""
    pages = {
        file.resolve(): Page(file.read_text(encoding="utf-8"))
        for file in site.rglob("*.html")
        if "_static" not in file.parts
    }
    found = []
    for file, page in pages.items():
        for link in sorted(page.links):
            address, anchor = urldefrag(link)
            if urlparse(address).scheme or address.startswith("//"):
                continue
            target = (file.parent / unquote(urlparse(address).path)).resolve() if address else file
            is_there = target.exists()
            if is_there and anchor and target in pages:
                is_there = unquote(anchor) in pages[target].anchors
            if not is_there:
                found.append(f"{file.relative_to(site.resolve())}: {link}")
    for file in sorted(site.rglob("*.md")):
        if not {"_sources", "_static"} & set(file.relative_to(site).parts):
            links = LOCAL_LINK.findall(file.read_text(encoding="utf-8"))
            found += [f"{file.relative_to(site)}: {link}" for link in links if not (file.parent / link).exists()]
    return found


if __name__ == "__main__":
    broken = broken_links(Path(sys.argv[1]))
    sys.stderr.write("".join(f"broken link in {each}\n" for each in broken))
    sys.exit(bool(broken))
