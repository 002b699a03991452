"""A log of bounded size: its beginning and its end, with a line between them that counts the bytes cut."""


class BoundedLog:
    """A log that keeps at most `limit` bytes, also in memory; a longer one keeps as much of its start as of its end."""

    def __init__(self, limit: int) -> None:
        self._head_bytes = limit // 2
        self._tail_bytes = limit - self._head_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._added = 0

    def add(self, part: bytes) -> None:
        """Appends to the log."""
        self._added += len(part)
        fits = self._head_bytes - len(self._head)
        self._head += part[:fits]
        self._tail += part[fits:]
        del self._tail[: -self._tail_bytes]

    def text(self) -> bytes:
        """Returns the log, at most `limit` bytes with the line that counts the missing ones."""
        kept = len(self._head) + len(self._tail)
        if kept == self._added:
            return bytes(self._head + self._tail)
        # The number of cut bytes has no more digits than that of all bytes.
        room = kept - len(_cut_line(self._added))
        head = self._head[: max(0, room // 2)]
        tail = self._tail[-max(1, room - len(head)) :]
        return bytes(head + _cut_line(self._added - len(head) - len(tail)) + tail)


def bounded(limit: int, *parts: bytes) -> bytes:
    """Returns these parts as one log of at most `limit` bytes."""
    log = BoundedLog(limit)
    for part in parts:
        log.add(part)
    return log.text()


def _cut_line(count: int) -> bytes:
    return b"\n[%d bytes of the log are cut here]\n" % count
