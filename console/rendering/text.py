"""Texts on pages: marks for invisible characters, bounded excerpts, and sanitised HTML of Markdown.

Every text that a template shows has marks in place of invisible characters, by the `finalize` of the environment.
Fields of forms hold the text itself, so that a form sends it back unchanged.
"""

import json
import re
from typing import Any, Final

import nh3
from markupsafe import Markup, escape

# Control characters except line ends and tabs, separators, direction marks, zero-width and tag characters. Joiners
# between characters beyond ASCII stay, because some scripts and emoji need them.
_UNSEEN: Final = (
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
_IN_TEXT: Final = re.compile(f"{_UNSEEN}|\r(?!\n)")
_IN_JSON: Final = re.compile(_UNSEEN)

# An escaped line end: the backslash before `n` is no escaped backslash.
_JSON_LINE_END: Final = re.compile(r"(?<!\\)(?:\\\\)*\\n")

_BYTES_OF_CHAR: Final = 4
"""Most bytes of HTML per character, on average; texts with more escapes are cut earlier."""

# Elements in which no line breaks, or which break lines by themselves, and other texts.
_TEXT_NODE: Final = re.compile(
    r"(?P<kept><(?P<name>select|textarea|svg|pre|button)\b.*?</(?P=name)>"
    r'|<\w+ class="[^"]*\bclamped\b[^>]*>[^<]*)|(?<=>)[^<>]+',
    re.DOTALL,
)
_LONG_WORD: Final = re.compile(r"\S{12,}")
# Browsers break after hyphens by themselves, and numbers, times and addresses stay whole.
_SEPARATOR: Final = re.compile(r"(?<=[/_=@?])(?=\w)|(?<=[.,:])(?=[^\W\d])")
# No word of a language, but an id.
_LONG_ID: Final = re.compile(r"[^\W_]{21,}")
_ID_PART_CHARS: Final = 8
_SOLID: Final = re.compile(r"[^\s<>-]{33,}")

_SHORT_ID_CHARS: Final = 8

_TAGS: Final = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "pre", "code", "em", "strong", "s", "del"),
    *("ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "a"),
}
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}}
_SCHEMES: Final = {"http", "https", "mailto"}
# Cleaned headings have no attributes.
_HEADING: Final = re.compile(r"<(/?)h([1-6])>")


def visible(text: str) -> Markup:
    """Returns a plain text as HTML, with a mark such as `⟨U+202E⟩` in place of each invisible character."""
    return Markup(_IN_TEXT.sub(_element, str(escape(text))))  # noqa: S704 - it is escaped


def visible_value(text: str) -> Markup:
    """Returns a value as HTML, as `visible` does; a text in JSON goes on in a new line after each escaped line end.

    The style sheet makes the new lines, so that a copy of the text is the JSON itself.
    """
    shown = visible(text)
    if not text.startswith(("{", "[", '"')):
        return shown
    return Markup(_JSON_LINE_END.sub(r"\g<0><i></i>", str(shown)))  # noqa: S704 - only elements of our own are added


def marked(text: str) -> str:
    """Returns a text with marks as plain text, which is valid in attributes too."""
    return text if text.isascii() and text.isprintable() else _IN_TEXT.sub(_mark, text)


def marked_value(value: Any) -> Any:
    """Returns a value for a template's output, with marks unless it is HTML already."""
    if isinstance(value, Markup) or value is None or isinstance(value, int | float):
        return value
    return marked(value if isinstance(value, str) else str(value))


def verbatim(value: Any) -> Markup:
    """Returns the value of a form's field, escaped and without marks."""
    return escape(value)


def escaped_json(text: str) -> str:
    """Returns JSON text with escapes in place of invisible characters; its value is unchanged."""
    return _IN_JSON.sub(lambda unseen: json.dumps(unseen[0])[1:-1], text)


def beginning(text: str, chars: int, size: int = 0) -> tuple[str, bool]:
    """Returns the beginning of a text, and whether the rest is cut.

    The beginning has at most `chars` characters and `size` bytes of HTML, by default four for each character.
    """
    shown, size = text[:chars], size or _BYTES_OF_CHAR * chars
    while (taken := html_bytes(shown)) > size:
        # Fewer characters, by this text's bytes per character.
        shown = shown[: len(shown) * size // taken]
    return shown, len(shown) < len(text)


def ending(text: str, chars: int, size: int = 0) -> tuple[str, bool]:
    """Returns the end of a text, bounded as in `beginning`, and whether earlier text is cut."""
    backwards, cut = beginning(text[::-1], chars, size)
    return backwards[::-1], cut


def short(text: str, chars: int, size: int = 0) -> str:
    """Returns the beginning of a text, with an ellipsis where it is cut."""
    shown, cut = beginning(text, chars, size)
    return f"{shown}…" if cut else shown


def breakable(html: str) -> Markup:
    """Returns HTML whose long words may break after separators, and whose ids may break every 8 characters.

    So no column of a table has to be as wide as a path, and no word breaks in the middle.
    """
    return Markup(_TEXT_NODE.sub(_with_breaks, html))  # noqa: S704 - only elements of our own are added


def short_id(text: str) -> str:
    """Returns an id with an ellipsis in place of its middle: ids begin alike, as they sort by time."""
    kind, underscore, rest = text.partition("_")
    return f"{kind}_…{rest[-_SHORT_ID_CHARS:]}" if underscore and len(rest) > _SHORT_ID_CHARS else text


def html_bytes(text: str) -> int:
    """Returns the number of bytes of a text in a page."""
    return len(visible(text).encode())


def sanitised(html: str, below: int) -> Markup:
    """Returns HTML with formatting and links to the web alone: no scripts, styles, forms or images.

    Its headings are moved below the page's level `below`.
    """
    clean = nh3.clean(
        html,
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes=set(_SCHEMES),
        # Links into the console are made by its own templates only.
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
    )
    lowered = _HEADING.sub(lambda found: f"<{found[1]}h{min(6, int(found[2]) + below)}>", clean)
    return Markup(marked(lowered))  # noqa: S704 - it is cleaned above


def _with_breaks(node: re.Match[str]) -> str:
    return node[0] if node["kept"] else _LONG_WORD.sub(_with_break_points, node[0])


def _with_break_points(word: re.Match[str]) -> str:
    parts = _LONG_ID.sub(_id_parts, _SEPARATOR.sub("<wbr>", word[0])).split("<wbr>")
    return "<wbr>".join(_SOLID.sub(r'<span class="solid">\g<0></span>', part) for part in parts)


def _id_parts(found: re.Match[str]) -> str:
    return "<wbr>".join(found[0][at : at + _ID_PART_CHARS] for at in range(0, len(found[0]), _ID_PART_CHARS))


def _mark(unseen: re.Match[str]) -> str:
    return f"⟨U+{ord(unseen[0]):04X}⟩"


def _element(unseen: re.Match[str]) -> str:
    return f'<span class="turn" title="A character that is not seen">{_mark(unseen)}</span>'
