"""Texts on pages: unseen characters made visible, excerpts within a bound, and sanitised HTML of Markdown.

Every text that a template shows has marks in place of unseen characters, by the `finalize` of the environment. Fields
of forms hold the text itself, so that a form sends it back unchanged.
"""

import json
import re
from typing import Any, Final

import nh3
from markupsafe import Markup, escape

# Controls but line ends and tabs, separators, marks of direction, characters without width, tags. Joiners stay between
# characters beyond ASCII, which some scripts and emoji need.
_UNSEEN: Final = (
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
_IN_TEXT: Final = re.compile(f"{_UNSEEN}|\r(?!\n)")
_IN_JSON: Final = re.compile(_UNSEEN)

_BYTES_OF_CHAR: Final = 4
"""Of HTML at most, on average: texts that are all escapes are cut earlier."""

_TAGS: Final = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "pre", "code", "em", "strong", "s", "del"),
    *("ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "a"),
}
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}}
_SCHEMES: Final = {"http", "https", "mailto"}
# Cleaned headings have no attributes.
_HEADING: Final = re.compile(r"<(/?)h([1-6])>")


def visible(text: str) -> Markup:
    """Returns a plain text as HTML, with `⟨U+202E⟩` in the place of each such character: it reads as it is stored."""
    return Markup(_IN_TEXT.sub(_element, str(escape(text))))  # noqa: S704 - it is escaped


def marked(text: str) -> str:
    """Returns a text with such marks as text, which is valid in attributes too."""
    return text if text.isascii() and text.isprintable() else _IN_TEXT.sub(_mark, text)


def marked_value(value: Any) -> Any:
    """Returns what a template is about to write, with marks unless it is HTML already."""
    if isinstance(value, Markup) or value is None or isinstance(value, int | float):
        return value
    return marked(value if isinstance(value, str) else str(value))


def verbatim(value: Any) -> Markup:
    """Returns the value of a form's field, escaped and without marks."""
    return escape(value)


def escaped_json(text: str) -> str:
    """Returns JSON text of the same value, with escapes in place of such characters within its strings."""
    return _IN_JSON.sub(lambda unseen: json.dumps(unseen[0])[1:-1], text)


def beginning(text: str, chars: int, size: int = 0) -> tuple[str, bool]:
    """Returns the beginning of a text, and whether the rest is cut.

    It has at most so many characters, and bytes of HTML: `size`, else four for each character.
    """
    shown, size = text[:chars], size or _BYTES_OF_CHAR * chars
    while (taken := html_bytes(shown)) > size:
        # Fewer characters, by what this text needs for each.
        shown = shown[: len(shown) * size // taken]
    return shown, len(shown) < len(text)


def ending(text: str, chars: int, size: int = 0) -> tuple[str, bool]:
    """Returns the end of a text likewise, and whether what comes before it is cut."""
    backwards, cut = beginning(text[::-1], chars, size)
    return backwards[::-1], cut


def short(text: str, chars: int, size: int = 0) -> str:
    """Returns the beginning of a text, with an ellipsis where it is cut."""
    shown, cut = beginning(text, chars, size)
    return f"{shown}…" if cut else shown


def html_bytes(text: str) -> int:
    """Returns how many bytes a text has in a page."""
    return len(visible(text).encode())


def sanitised(html: str, below: int) -> Markup:
    """Returns HTML with formatting and links to the web alone: no scripts, styles, forms or images.

    Its headings come below one of the level `below` of the page.
    """
    clean = nh3.clean(
        html,
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes=set(_SCHEMES),
        # Of the console itself only its own templates make links.
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
    )
    lowered = _HEADING.sub(lambda found: f"<{found[1]}h{min(6, int(found[2]) + below)}>", clean)
    return Markup(marked(lowered))  # noqa: S704 - it is cleaned above


def _mark(unseen: re.Match[str]) -> str:
    return f"⟨U+{ord(unseen[0]):04X}⟩"


def _element(unseen: re.Match[str]) -> str:
    return f'<span class="turn" title="A character that is not seen">{_mark(unseen)}</span>'
