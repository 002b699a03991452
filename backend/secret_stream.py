"""Removes secrets from text that comes in parts, wherever these are cut."""

from typing import Final

from backend.secret_scrubbing import MARK, Scrubber, merged

# More than any encoding of the largest secret.
_MOST_HELD_BYTES: Final = 64 * 1024


class ScrubbedStream:
    """One text that is passed on as it comes, but for its end while that may be the begin of a secret."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._held = b""
        # How much of what is held is a part of a secret already, and whether a mark stands right before it.
        self._known = 0
        self._marked = False

    def add(self, part: bytes) -> bytes:
        """Returns what can be passed on, with a mark in place of each secret."""
        text = self._held + part
        end = self._scrubber.complete(text)
        # Blanks do not count, so there may be any number of them.
        return self._pass_on(text, end if len(text) - end <= _MOST_HELD_BYTES else len(text))

    def finish(self) -> bytes:
        """Returns the rest."""
        return self._pass_on(self._held, len(self._held))

    def _pass_on(self, text: bytes, end: int) -> bytes:
        if not end:
            self._held = text
            return b""
        known = [(0, self._known)] if self._known else []
        spans = [span for span in merged([*known, *self._scrubber.spans(text)]) if span[0] < end]
        parts: list[bytes] = []
        place = 0
        for first, last in spans:
            parts.append(text[place:first])
            if first or not self._marked:
                parts.append(MARK)
            place = min(last, end)
        parts.append(text[place:end])
        self._known = max(spans[-1][1] - end, 0) if spans else 0
        self._marked = bool(spans) and place == end
        self._held = text[end:]
        return b"".join(parts)
