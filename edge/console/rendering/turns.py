"""Characters that turn the order of text around, which nobody sees: pages show where they are."""

import re
from typing import Final

from markupsafe import Markup, escape

TURNS: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""One of these characters, such as RIGHT-TO-LEFT OVERRIDE."""


def visible(text: str) -> Markup:
    """Returns a plain text as HTML, with `⟨U+202E⟩` in the place of each such character: it reads as it is stored."""
    return Markup(TURNS.sub(_mark, str(escape(text))))  # noqa: S704 - it is escaped


def _mark(turn: re.Match[str]) -> str:
    return f'<span class="turn" title="Turns the order of text">⟨U+{ord(turn[0]):04X}⟩</span>'
