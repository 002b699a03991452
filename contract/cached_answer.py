"""An answer of the answer cache, as it passes from the backend to the edge of the same process."""

from collections.abc import Iterable

from google.protobuf.message import Message

Encoded = tuple[int, bytes, Iterable[tuple[str, str]]]
"""An answer as HTTP sends it: status, body, and header lines of its own."""


class CachedAnswer:
    """A message that nobody may change, with its encoded form once the edge has made that."""

    __slots__ = ("encoded", "message")

    def __init__(self, message: Message) -> None:
        self.message = message
        self.encoded: Encoded | None = None
