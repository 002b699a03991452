"""Characters that nobody sees, or that turn the order of others around: pages show where they are.

Every text that a template shows has marks in their place, by the `finalize` of the environment. Fields of forms have
the text itself, so that what is sent back is unchanged.
"""

import json
import re
from typing import Any, Final

from markupsafe import Markup, escape

# Controls but line ends and tabs, separators, marks of direction, characters without width, tags. Joiners stay between
# characters beyond ASCII, which some scripts and emoji need.
_UNSEEN: Final = (
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
_IN_TEXT: Final = re.compile(f"{_UNSEEN}|\r(?!\n)")
_IN_JSON: Final = re.compile(_UNSEEN)


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


def _mark(unseen: re.Match[str]) -> str:
    return f"⟨U+{ord(unseen[0]):04X}⟩"


def _element(unseen: re.Match[str]) -> str:
    return f'<span class="turn" title="A character that is not seen">{_mark(unseen)}</span>'
