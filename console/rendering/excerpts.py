"""Beginnings and ends of texts, of which a page shows so many characters."""

from typing import Final

from console.rendering.marks import visible

_BYTES_OF_CHAR: Final = 4
"""Of HTML at most, on average: texts that are all escapes are cut earlier."""


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
