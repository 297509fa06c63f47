"""Sphinx extension of the site: a Markdown form of each page, `llms.txt`, and an `index.html` at the top.

Pages that are plain Markdown are copied as they stand. Pages made by the build (the Python
reference, executed notebooks) are written as text by Sphinx's own text writer.
"""

import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.io import StringOutput
from sphinx.application import Sphinx
from sphinx.builders.text import TextBuilder
from sphinx.writers.text import TextWriter

from tools.check_links import LOCAL_LINK

MADE = re.compile(r"^(```\{code-cell|:::\{auto|```\{auto|```\{eval-rst)", re.MULTILINE)
HEAD = """# igcf

> An interactive recommender in Python. A new user starts from the belief that a population of users gives, learns in
> closed form from each reaction, says how sure it is and why, and forgets nothing when it restarts.

Every page has a Markdown form under the same address with `.md` in place of `.html`.
"""
REDIRECT = """<!doctype html>
<meta charset="utf-8">
<title>igcf</title>
<meta http-equiv="refresh" content="0; url={page}">
<a href="{page}">igcf</a>
"""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register what is written after the pages, and the name under which diagrams are fenced."""
    from pygments.lexers.special import TextLexer

    app.add_lexer("mermaid", TextLexer)
    app.connect("source-read", titles_for_files)
    app.connect("autodoc-process-docstring", code_in_backticks, priority=300)
    app.connect("autodoc-process-docstring", set_aside, priority=400)  # napoleon comes at 500
    app.connect("autodoc-process-docstring", bring_back, priority=600)
    app.connect("autodoc-process-signature", default_that_parses)
    app.connect("build-finished", write_markdown)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def titles_for_files(app: Sphinx, page: str, source: list[str]) -> None:
    """Show a link that has the name of a file, such as `data.md`, under the title of its page."""
    folder = Path(app.env.doc2path(page)).parent

    def titled(link: re.Match[str]) -> str:
        target = folder / link[1]
        heading = (
            re.search(r"^# ([^:\n]+)", target.read_text(encoding="utf-8"), re.MULTILINE) if target.is_file() else None
        )
        return link[0] if heading is None else f"[{heading[1].strip()}]({link[1]}"

    source[0] = re.sub(r"\[[\w./-]+\.md\]\(([^)#\s]+\.md)", titled, source[0])


_aside: dict[str, list[str]] = {}


def code_in_backticks(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Read `code` in docstrings as Markdown does."""
    lines[:] = [re.sub(r"(?<![`\\:])`([^`]+)`(?!`)", r"``\1``", line) for line in lines]


def set_aside(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Keep the docstrings of fields from napoleon, which takes what stands before a colon for a type."""
    if what in ("attribute", "property", "data"):
        _aside[name] = lines[:]
        lines.clear()


def bring_back(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Put the docstrings of fields back as they were."""
    if name in _aside:
        lines[:] = _aside.pop(name)


def default_that_parses(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Write `...` for a default that is made anew: `<factory>` is not Python, and leaves the whole signature unread."""
    return signature and signature.replace("<factory>", "..."), returns


def write_markdown(app: Sphinx, exception: Exception | None) -> None:
    """Write the Markdown form of each page and the list of all of them."""
    if exception is not None or app.builder.format != "html":
        return
    pages = sorted(app.env.found_docs)
    for page in pages:
        source, target = Path(app.env.doc2path(page)), Path(app.outdir) / f"{page}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        if MADE.search(source.read_text(encoding="utf-8")):
            target.write_text(as_text(app, page), encoding="utf-8")
        else:
            shutil.copyfile(source, target)
            copy_linked_files(source, target)
    (Path(app.outdir) / "llms.txt").write_text(listing(app), encoding="utf-8")
    (Path(app.outdir) / "index.html").write_text(REDIRECT.format(page=f"{app.config.root_doc}.html"), encoding="utf-8")


def copy_linked_files(source: Path, target: Path) -> None:
    """Put pictures and other files that a page names beside its Markdown form, under the names that it uses."""
    for link in LOCAL_LINK.findall(source.read_text(encoding="utf-8")):
        file, copy = source.parent / link, target.parent / link
        if file.is_file() and file.suffix != ".md" and not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def as_text(app: Sphinx, page: str) -> str:
    """Write one page, with what the build has put into it, as text."""
    builder = TextBuilder(app, app.env)
    builder.secnumbers, builder.current_docname = {}, page
    writer = TextWriter(builder)
    writer.write(app.env.get_and_resolve_doctree(page, builder), StringOutput(encoding="unicode"))
    return str(writer.output)


def listing(app: Sphinx) -> str:
    """Name every page with its first sentence, in the order of the menu."""
    lines, seen = [HEAD], set[str]()
    for section in app.env.toctree_includes.get(app.config.root_doc, []):
        lines.append(f"\n## {app.env.titles[section].astext()}\n")
        for page in [section, *inner_pages(app, section)]:
            if page not in seen:
                seen.add(page)
                lines.append(f"- [{app.env.titles[page].astext()}]({page}.md): {first_sentence(app, page)}")
    return "\n".join(lines) + "\n"


def inner_pages(app: Sphinx, page: str) -> list[str]:
    """List the pages below one page of the menu, depth first."""
    found = []
    for each in app.env.toctree_includes.get(page, []):
        found += [each, *inner_pages(app, each)]
    return found


def first_sentence(app: Sphinx, page: str) -> str:
    """Return the first sentence of a page's first paragraph."""
    paragraph = next(iter(app.env.get_doctree(page).findall(nodes.paragraph)), None)
    text = " ".join(paragraph.astext().split()) if paragraph is not None else ""
    return re.split(r"(?<=[.!?]) ", text, maxsplit=1)[0]
