"""Reads the log of one attempt: parts while it runs, the stored object once it has ended."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from backend.logs import sql
from backend.storage.database import Database
from backend.storage.object_keys import step_log_key
from backend.storage.objects import ObjectStore

CUT: Final = "\n[a part of the log is cut here]\n"

_PARTS_AT_ONCE: Final = 8


@dataclass(slots=True)
class LogReader:
    """Reader of one log, which goes on where it stopped; each text is a string of a bounded size."""

    database: Database
    objects: ObjectStore
    after: int = 0
    whole: bool = False
    """Whether all of it was read."""

    def new_text(self, row: sql.LogRow) -> Iterator[str]:
        """Yields what was printed since the last call; `row` is the present state of the log.

        Raises:
            OSError, EOFError: the store failed.
        """
        if self.whole:
            return
        if row.size_bytes is not None and not self.after:
            yield from self._stored(row)
        else:
            yield from self._parts(row)
        self.whole = row.ended_at is not None

    def _stored(self, row: sql.LogRow) -> Iterator[str]:
        try:
            opened = self.objects.open_range(step_log_key(row.run_id, row.step, row.attempt), 0, row.size_bytes or 0)
        except KeyError:
            # An erasure came between the row and the object.
            return
        rest = b""
        with closing(opened) as blocks:
            for block in blocks:
                data = rest + block
                # No character is longer than four bytes.
                end = max(data.rfind(b"\n") + 1, len(data) - 4)
                while end < len(data) and data[end] & 0xC0 == 0x80:
                    end -= 1
                rest = data[end:]
                yield data[:end].decode(errors="replace")
        if rest:
            yield rest.decode(errors="replace")

    def _parts(self, row: sql.LogRow) -> Iterator[str]:
        while True:
            parts = self.database.read(
                lambda tx: sql.parts_after(tx, row.run_id, row.step, row.attempt, self.after, _PARTS_AT_ONCE)
            )
            for part in parts:
                yield (CUT if part.seq > self.after + 1 else "") + part.text
                self.after = part.seq
            if len(parts) < _PARTS_AT_ONCE:
                return
