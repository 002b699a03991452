"""Beginnings and ends of texts, each of a fixed size in a page."""

from bisect import bisect_right

from console.rendering.marks import visible


def beginning(text: str, most: int) -> tuple[str, bool]:
    """Returns the beginning of a text, of at most so many bytes of HTML, and whether the rest is cut."""
    shown = text[:most]
    if html_bytes(shown) > most:
        shown = shown[: bisect_right(range(len(shown)), most, key=lambda end: html_bytes(shown[:end])) - 1]
    return shown, len(shown) < len(text)


def ending(text: str, most: int) -> tuple[str, bool]:
    """Returns the end of a text, of at most so many bytes of HTML, and whether what comes before it is cut."""
    backwards, cut = beginning(text[::-1], most)
    return backwards[::-1], cut


def short(text: str, most: int) -> str:
    """Returns a text of at most so many bytes of HTML before an ellipsis, which stands where it is cut."""
    shown, cut = beginning(text, most)
    return f"{shown}…" if cut else shown


def html_bytes(text: str) -> int:
    """Returns how many bytes a text has in a page."""
    return len(visible(text).encode())
