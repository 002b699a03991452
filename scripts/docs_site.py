"""Hooks of mkdocs: files of the repository to which pages in docs/ link become part of the site.

Linked documents become pages below `repository/`, other linked files are shown unchanged. The references of the HTTP
API and of its errors are generated here, so that they always fit this release.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]
# Run by mkdocs, which puts neither on the path.
sys.path[:0] = [str(ROOT), str(ROOT / "generated")]

from scripts.api_reference import api_reference, error_reference  # noqa: E402

FOLDER: Final = "repository"
PAGES: Final = {"reference/api.md": api_reference, "reference/errors.md": error_reference}
IN_NAV: Final = (InclusionLevel.UNDEFINED, InclusionLevel.INCLUDED)

_LINK: Final = re.compile(r"(?<=\]\()([^)\s#:]+)(#[^)\s]*)?(?=\))")
_FENCED: Final = re.compile(r"(^ *(?:```|~~~).*?^ *(?:```|~~~) *$)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages, and files outside docs/ to which pages link, directly or indirectly."""
    for name, content in PAGES.items():
        files.append(File.generated(config, name, content=content()))
    waiting = [ROOT / "docs" / file.src_uri for file in files if file.is_documentation_page() and file.abs_src_path]
    seen: set[Path] = set()
    while waiting:
        for target in _targets(waiting.pop()):
            if target in seen or target.is_relative_to(ROOT / "docs"):
                continue
            seen.add(target)
            files.append(File.generated(config, _place(target), content=_shown(target)))
            if target.suffix == ".md":
                waiting.append(target)
    return files


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:  # noqa: ARG001 - mkdocs
    """Refuses pages that no section of the navigation has."""
    shown = {page.file.src_uri for page in nav.pages}
    missing = [
        file.src_uri for file in files.documentation_pages() if file.inclusion in IN_NAV and file.src_uri not in shown
    ]
    if missing:
        raise PluginError(f"Add to a section of `nav` in mkdocs.yml: {', '.join(missing)}")
    return nav


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - mkdocs
    """Points links at the places of their targets in the site."""
    uri = page.file.src_uri
    if uri in PAGES:
        return markdown
    source = ROOT / (uri.removeprefix(f"{FOLDER}/") if uri.startswith(f"{FOLDER}/") else f"docs/{uri}")
    parts = _FENCED.split(markdown)
    return "".join(part if number % 2 else _rewritten(part, source, uri) for number, part in enumerate(parts))


def _rewritten(markdown: str, source: Path, uri: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        target = (source.parent / found[1]).resolve()
        if not target.exists():
            return found[0]
        ups = "../" * (len(PurePosixPath(uri).parts) - 1)
        return f"{ups}{_place(target)}{found[2] or ''}"

    return _LINK.sub(replaced, markdown)


def _targets(source: Path) -> Iterator[Path]:
    prose = _FENCED.sub("", source.read_text(encoding="utf-8"))
    for found in _LINK.finditer(prose):
        target = (source.parent / found[1]).resolve()
        if target.exists() and target.is_relative_to(ROOT):
            yield target


def _place(target: Path) -> str:
    """Returns the place of a repository's file in the site; a folder becomes a page that lists it."""
    if target.is_relative_to(ROOT / "docs"):
        return target.relative_to(ROOT / "docs").as_posix()
    name = target.relative_to(ROOT).as_posix()
    return f"{FOLDER}/{name}" + ("/index.md" if target.is_dir() else "" if target.suffix == ".md" else ".txt")


def _shown(target: Path) -> str | bytes:
    if target.is_dir():
        names = sorted(each.name + "/" * each.is_dir() for each in target.iterdir() if each.name != "__pycache__")
        return "\n".join([f"# {target.relative_to(ROOT)}/", "", *(f"- `{name}`" for name in names), ""])
    return target.read_bytes()
