"""The project's documents as HTML, from Markdown in the package, and the section of them that explains a page."""

import posixpath
import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

HELP: Final = "/help"
"""Address of the first document; the others are below it."""

_PACKAGE: Final = Path(__file__).parents[1]
_FOLDERS: Final = (_PACKAGE / "documents", _PACKAGE.parent / "docs")
"""Folder of the documents in an installed package, and in the repository."""
INDEX: Final = "index"
"""Name of the first document."""
_COMMENT: Final = re.compile(r"^ *<!--.*?-->\n", re.MULTILINE | re.DOTALL)
_NO_SLUG: Final = re.compile(r"[^\w\- ]")

_SHOWN: Final = (
    # What scrolls sideways can be reached by keys.
    ("<pre><code", '<pre tabindex="0"><code'),
    ("<table>", '<div class="table wide" tabindex="0" role="group" aria-label="Table"><table>'),
    ("</table>", "</table></div>"),
    # The head of a column of names, and the paragraph of a picture.
    ("<th></th>", "<td></td>"),
    ("<p></p>\n", ""),
)
_EXPLAINED: Final = tuple(
    (re.compile(path), section)
    for path, section in (
        ("/approvals/apr_.*", "console#what-an-approval-is-about"),
        ("/approvals.*", "console#the-inbox-of-approvals"),
        ("/runs", "console#the-list-of-runs"),
        ("/runs/[^/]+/logs/.*", "console#logs"),
        ("/runs/[^/]+/resume", "flows#resume-a-run"),
        ("/runs/.*", "console#the-page-of-a-run"),
        ("/workflows/[^/]+/start", "console#starting-a-run"),
        ("/keys/new", "how-to/keys"),
        ("/.*/(new|edit|versions|compare|restore|delete)", "console#editing"),
        ("/workflows.*", "console#workflows-and-agents"),
        ("/schedules", "flows#schedules"),
        ("/agents.*", "agents"),
        ("/resources/environments.*", "agents#packages"),
        ("/resources/connectors.*", "connectors"),
        ("/resources/graphs.*", "knowledge-graphs"),
        ("/resources/secrets", "security#secrets-of-agents"),
        ("/resources/sets", "manifests#sets"),
        ("/resources", "console#resources"),
        ("/keys/[^/]+/webhooks.*", "webhooks"),
        ("/keys/[^/]+/rotate", "how-to/keys#rotate-it-without-an-outage"),
        ("/(keys|usage|deployment/retention|deployment$|audit).*", "console#keys-usage-and-the-deployment"),
        ("/deployment/health", "console#health"),
        ("/people.*", "console#people"),
        ("/passkeys.*", "console#passkeys"),
        ("/(search|preferences)", "console#on-every-page"),
        ("/help.*", ""),
        (".*", "console"),
    )
)
"""Section that explains a page, by its path; the first match counts."""


class Document(NamedTuple):
    """A document as HTML, with the text of its first heading."""

    title: str
    html: Markup


def help_address(path: str) -> str:
    """Returns the address of the section of the documents that explains the page at a path."""
    section = next(section for pattern, section in _EXPLAINED if pattern.fullmatch(path))
    return f"{HELP}/{section}" if section else HELP


@cache
def document(name: str) -> Document | None:
    """Returns the document of a name such as `agents` or `how-to/keys`; None where the package has none."""
    path = _path(name)
    if path is None:
        return None
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_COMMENT.sub("", path.read_text("utf-8")))
    _add_anchors(tokens)
    title = next(after.content for token, after in pairwise(tokens) if token.type == "heading_open")
    for token in tokens:
        if token.type == "inline" and token.children:
            token.children = _with_own_links(token.children, posixpath.dirname(name))
        # The console's policy allows no style attribute.
        token.attrs.pop("style", None)
    html = parser.renderer.render(tokens, parser.options, {})
    for written, shown in _SHOWN:
        html = html.replace(written, shown)
    return Document(title, Markup(html))  # noqa: S704 - HTML in the Markdown is escaped, and documents are the package's own


def _path(name: str) -> Path | None:
    return next((path for folder in _FOLDERS if (path := folder / f"{name}.md").is_file()), None)


def _add_anchors(tokens: Sequence[Token]) -> None:
    """Gives headings the ids that links of Markdown expect: repeated ones are numbered."""
    seen: dict[str, int] = {}
    for token, text in pairwise(tokens):
        if token.type == "heading_open":
            words = "".join(each.content for each in text.children or ())
            slug = _NO_SLUG.sub("", words.lower()).replace(" ", "-")
            count = seen[slug] = seen.get(slug, -1) + 1
            token.attrSet("id", f"{slug}-{count}" if count else slug)


def _with_own_links(children: Sequence[Token], folder: str) -> list[Token]:
    """Returns inline tokens whose links lead to help pages or the web; other links are text, and pictures left out."""
    kept: list[Token] = []
    linked: list[bool] = []
    for token in children:
        if token.type == "image":
            continue
        if token.type == "link_open":
            target = _target(str(token.attrGet("href")), folder)
            linked.append(target is not None)
            if target is None:
                continue
            token.attrSet("href", target)
        elif token.type == "link_close" and not linked.pop():
            continue
        if token.type == "link_close" and kept[-1].type == "link_open":
            # A linked picture.
            kept.pop()
            continue
        kept.append(token)
    return kept


def _target(href: str, folder: str) -> str | None:
    if href.startswith(("https://", "http://", "#")):
        return href
    path, hash_sign, anchor = href.partition("#")
    name = posixpath.normpath(posixpath.join(folder, path.removesuffix(".md")))
    if not path.endswith(".md") or name.startswith("..") or _path(name) is None:
        return None
    return f"{HELP if name == INDEX else f'{HELP}/{name}'}{hash_sign}{anchor}"


def explained_sections() -> list[str]:
    """Returns the sections to which pages lead, as `console#roles`."""
    return [section for _, section in _EXPLAINED if section]
