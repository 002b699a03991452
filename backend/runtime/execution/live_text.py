"""The text of a log as it is shown while a step runs: cut into parts, of which the beginning and the end are kept."""

import codecs
from collections import deque
from dataclasses import dataclass, field
from typing import Final

PART_CHARS: Final = 32_768
MOST_KEPT_CHARS: Final = 524_288
"""How much of the beginning of a log, and as much of its end, can be read while the step runs."""
MOST_NEW_CHARS: Final = 65_536
"""How much is taken up at a time once the beginning is full, so that a step that prints without end costs little."""


@dataclass(slots=True)
class LiveText:
    """Text that waits to be written: decoded, without NUL, in whole lines where `lines_only`.

    A line that is longer than what is taken up at a time waits for the stored log.
    """

    lines_only: bool
    _waiting: str = ""
    _cut_chars: int = 0
    _taken: int = 0
    _in_cut_line: bool = False
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")(errors="replace")
    )

    def add(self, part: bytes) -> None:
        """Adds what was printed."""
        self._append(self._decoder.decode(part))
        most = MOST_KEPT_CHARS if self._taken < MOST_KEPT_CHARS else MOST_NEW_CHARS
        excess = len(self._waiting) - 2 * most
        if excess > 0:
            self._cut(len(self._waiting) - most)

    def take(self, *, final: bool = False) -> str:
        """Returns the text to write now, with a line that counts what was cut before it; empty where there is none."""
        if final:
            self._append(self._decoder.decode(b"", final=True))
        end = len(self._waiting)
        if self.lines_only and not final:
            end = self._waiting.rfind("\n") + 1
        text, self._waiting = self._waiting[:end], self._waiting[end:]
        if self._taken >= MOST_KEPT_CHARS and len(text) > MOST_NEW_CHARS:
            place = text.find("\n", len(text) - MOST_NEW_CHARS) + 1 or len(text) - MOST_NEW_CHARS
            self._cut_chars += place
            text = text[place:]
        self._taken += len(text)
        if text and self._cut_chars:
            text, self._cut_chars = f"[{self._cut_chars} characters of the log are cut here]\n{text}", 0
        return text

    def _append(self, text: str) -> None:
        if self._in_cut_line:
            # Half a line may hold half a value, which no sweep would recognise.
            place = text.find("\n") + 1
            self._in_cut_line = not place
            self._cut_chars += place or len(text)
            text = text[place:] if place else ""
        self._waiting += text.replace("\0", "\ufffd")

    def _cut(self, least: int) -> None:
        """Cuts at least so much of what waits, to the end of a line."""
        place = self._waiting.find("\n", least) + 1
        if not place:
            place = len(self._waiting)
            self._in_cut_line = self.lines_only
        self._cut_chars += place
        self._waiting = self._waiting[place:]


@dataclass(slots=True)
class KeptParts:
    """Which parts of a log are kept: those of its beginning, and the latest."""

    next_seq: int = 1
    _beginning_chars: int = 0
    _latest: deque[tuple[int, int]] = field(default_factory=deque)
    _latest_chars: int = 0

    def add(self, text: str) -> tuple[list[str], tuple[int, int] | None]:
        """Returns the parts of a text, and the seqs of parts to delete for them as first and first kept."""
        parts = [text[start : start + PART_CHARS] for start in range(0, len(text), PART_CHARS)]
        for part in parts:
            if not self._latest and self._beginning_chars + len(part) <= MOST_KEPT_CHARS:
                self._beginning_chars += len(part)
            else:
                self._latest.append((self.next_seq, len(part)))
                self._latest_chars += len(part)
            self.next_seq += 1
        first = self._latest[0][0] if self._latest else 0
        while self._latest_chars > MOST_KEPT_CHARS:
            self._latest_chars -= self._latest.popleft()[1]
        return parts, (first, self._latest[0][0]) if self._latest and self._latest[0][0] > first else None
