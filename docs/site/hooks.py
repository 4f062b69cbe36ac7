"""How docs/ becomes a site: files beside docs/ that pages link to become pages too, and no page loads anything from elsewhere.

The pages are written for readers of the repository as well. So links such as `../dags/pipelines/shop.yaml` stay as they are there; in the
site they lead to a page that shows the file. MkDocs calls the functions that begin with `on_`.
"""

import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
BESIDE: Final = "repository"
"""Folder of the site for files that are not below docs/."""
WHOLE: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
"""Pages of the repository that belong to the site in any case."""

_LINK: Final = re.compile(r"(?P<begin>!?\[[^\]]*\]\()(?P<target>[^)\s#]+)(?P<end>(?:#[^)\s]*)?\))")
_FENCE: Final = re.compile(r"^( *)```")
_ITEM: Final = re.compile(r"(?:[-*]|\d+\.) |\|")
_LOADS: Final = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\"'\s>]+"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preconnect|dns-prefetch|preload|icon))[^>]*\bhref=[\"']?(?:https?:)?//[^\"'\s>]+"
    r"|<link\b[^>]*\bhref=[\"']?(?:https?:)?//[^\"'\s>]+[^>]*\brel=[\"']?(?:stylesheet|preconnect|dns-prefetch|preload|icon)"
    r"|\bclass=[\"']?mermaid\b",  # the theme loads the renderer of such a block from a CDN
    re.IGNORECASE,
)
_STYLE_LOADS: Final = re.compile(r"(?:url\(|@import\s+)[\"']?(?:https?:)?//[^\"')\s]+", re.IGNORECASE)
_LANGUAGES: Final = {".yaml": "yaml", ".yml": "yaml", ".py": "python", "": "text"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for each file outside docs/ that a page links to."""
    for path in _linked_files():
        text = (ROOT / path).read_text("utf-8")
        if not path.endswith(".md"):
            text = f"# {path}\n\n```{_LANGUAGES.get(Path(path).suffix, 'text')}\n{text.rstrip()}\n```\n"
        files.append(File.generated(config, _page_of(path), content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Makes links lead to pages of the site, pictures of the parts to tables, and lists to what Python-Markdown takes for lists."""
    uri = page.file.src_uri
    source = uri.removeprefix(f"{BESIDE}/") if uri.startswith(f"{BESIDE}/") else f"docs/{uri}"
    if not source.endswith(".md") or source.removesuffix(".md").endswith((".yaml", ".py")):
        return markdown
    return as_python_markdown(without_pictures(with_links(markdown, source)))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuses a page that loads something from elsewhere.

    Raises:
        PluginError: it does; the build fails.
    """
    if found := loads_from_elsewhere(output):
        raise PluginError(f"{page.file.src_uri}: the page would load from elsewhere: {found}")
    return output


def on_post_build(config: MkDocsConfig) -> None:
    """Refuses style sheets that load something from elsewhere.

    Raises:
        PluginError: one does; the build fails.
    """
    for sheet in Path(config.site_dir).rglob("*.css"):
        if found := _STYLE_LOADS.search(sheet.read_text("utf-8")):
            raise PluginError(f"{sheet.name}: the style sheet would load from elsewhere: {found[0]}")


def loads_from_elsewhere(html: str) -> str:
    """Returns the first element that a browser would fetch from another host, "" if there is none. Links to follow are none."""
    found = _LOADS.search(html)
    return found[0][:120] if found else ""


def with_links(markdown: str, source: str) -> str:
    """Returns a page with its links as the site has them.

    Args:
        markdown: The page.
        source: Its path in the repository.
    """
    here = os.path.dirname(_page_of(source))

    def replaced(found: re.Match[str]) -> str:
        if re.match(r"[a-z]+:", found["target"]):
            return found[0]
        target = _in_repository(source, found["target"])
        return f"{found['begin']}{os.path.relpath(_page_of(target), here or '.')}{found['end']}"

    return "".join(text if is_code else _LINK.sub(replaced, text) for text, is_code in _parts(markdown))


def without_pictures(markdown: str) -> str:
    """Returns a page with its flow charts as tables: who uses whom."""

    def table(found: re.Match[str]) -> str:
        uses: dict[str, list[str]] = {}
        for line in found[1].splitlines():
            users, arrow, used = line.partition("-->")
            for user in filter(None, map(str.strip, users.split("&"))) if arrow else ():
                uses.setdefault(user, []).extend(name.strip() for name in used.split("&"))
        rows = "\n".join(f"| **{user}** | {', '.join(names)} |" for user, names in uses.items())
        return f"| part | uses |\n|---|---|\n{rows}\n"

    return re.sub(r"^```mermaid\nflowchart \w+\n(.*?)^```\n", table, markdown, flags=re.MULTILINE | re.DOTALL)


def as_python_markdown(markdown: str) -> str:
    """Returns a page with a blank line before each list and table, and what belongs to an item indented by four."""
    lines: list[str] = []
    inside = ""
    before = ""
    for line in markdown.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        fence = _FENCE.match(line)
        if not inside and not fence and before.strip() and _begins_block(line, before):
            lines.append("")
        deeper = 2 <= (len(inside) - 1 if inside else indent) < 4 and (bool(inside) or bool(fence) or not before.strip())
        lines.append(" " * (4 - (len(inside) - 1 if inside else indent)) + line if deeper and line.strip() else line)
        if fence:
            inside = "" if inside else f"{fence[1]}`"
        before = line
    return "\n".join(lines) + "\n"


def _begins_block(line: str, before: str) -> bool:
    """Whether a list or table begins right behind a paragraph."""
    return bool(_ITEM.match(line)) and not _ITEM.match(before) and not before.startswith((" ", "#", "<!--"))


def _parts(markdown: str) -> Iterator[tuple[str, bool]]:
    """Yields the text and the code blocks of a page, in order."""
    for number, part in enumerate(re.split(r"(^ *```.*?^ *```$)", markdown, flags=re.MULTILINE | re.DOTALL)):
        yield part, bool(number % 2)


@functools.cache
def _linked_files() -> tuple[str, ...]:
    pages = [*(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")), *WHOLE]
    found = dict.fromkeys(WHOLE)
    for page in sorted(pages):
        for text, is_code in _parts((ROOT / page).read_text("utf-8")):
            links = () if is_code else (link["target"] for link in _LINK.finditer(text))
            targets = (_in_repository(page, link) for link in links if not re.match(r"[a-z]+:", link))
            found |= dict.fromkeys(target for target in targets if not target.startswith("docs/") and (ROOT / target).is_file())
    return tuple(found)


def _in_repository(source: str, target: str) -> str:
    path = os.path.normpath(os.path.join(os.path.dirname(source), target))
    return f"{path}/README.md" if (ROOT / path).is_dir() else path


def _page_of(path: str) -> str:
    """Returns the page of the site for a file of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"{BESIDE}/{path}" if path.endswith(".md") else f"{BESIDE}/{path}.md"
