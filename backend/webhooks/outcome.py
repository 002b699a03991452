"""What came of an attempt to send a message."""

from typing import NamedTuple


class Outcome(NamedTuple):
    """The status of an answer, and a word for what failed; None where there was none."""

    status: int | None
    error: str | None
