"""How much a page may still show of texts whose length nobody bounds."""

from typing import Final

from console.rendering.marks import visible

MOST_BYTES: Final = 100_000
"""Of a page."""


class PageBudget:
    """Bytes of HTML that are left of a page; each text takes its share in the order in which it is asked for."""

    def __init__(self, left: int) -> None:
        self._left = max(0, left)

    def begin(self, text: str, most: int) -> tuple[str, bool]:
        """Returns the beginning of a text, of at most so many characters, and whether the rest is cut."""
        shown = text[:most]
        while (size := html_bytes(shown)) > self._left:
            # At most as many characters as bytes are left, and fewer by what this text needs for each.
            shown = shown[: min(self._left, len(shown) * self._left // size)]
        self._left -= size
        return shown, len(shown) < len(text)

    def end(self, text: str, most: int) -> tuple[str, bool]:
        """Returns the end of a text, of at most so many characters, and whether what comes before it is cut."""
        backwards, cut = self.begin(text[::-1], most)
        return backwards[::-1], cut

    def spend(self, size: int) -> None:
        """Takes so many bytes, of what is shown in any case."""
        self._left = max(0, self._left - size)

    def holds(self, size: int) -> bool:
        """Returns whether so many bytes are left, and takes them if they are."""
        fits = size <= self._left
        self._left -= size if fits else 0
        return fits


def html_bytes(text: str) -> int:
    """Returns how many bytes a text has in a page."""
    return len(visible(text).encode())
