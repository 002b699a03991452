"""The terminal: its width, whether it shows colours, and text that it prints without interpreting it."""

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Final, TextIO

from deploy.failures import CommandError

_ESCAPE: Final = "\x1b["
_GREEN, _RED, _YELLOW, _CYAN, _DIM = "32", "31", "33", "36", "2"

_COLOUR_OF_STATUS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("completed", "active", "approved", "passed", "created", "ready"), _GREEN),
    **dict.fromkeys(("failed", "blocked", "rejected", "revoked", "expired", "not passed", "not ready"), _RED),
    **dict.fromkeys(("waiting_for_approval", "rotating", "draft", "updated", "not tested"), _YELLOW),
    **dict.fromkeys(("running", "queued"), _CYAN),
    **dict.fromkeys(("cancelled", "skipped", "pending", "inactive", "unchanged", "disabled"), _DIM),
}


def print_failure(failure: CommandError, *, as_json: bool) -> None:
    """Prints why a command failed on standard error: its JSON, or text."""
    print(failure.to_json() if as_json else printable(failure.to_text(), lines=True), file=sys.stderr)


def printable(text: str, *, lines: bool = False) -> str:
    """Returns text with control characters and lone surrogates escaped; with `lines`, line ends stay."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or (lines and char == "\n") else char.encode("unicode_escape").decode()
        for char in text
    )


def is_terminal(stream: TextIO) -> bool:
    """Returns whether a stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def shows_colours(stream: TextIO) -> bool:
    """Returns whether to colour what is written to a stream: a terminal, unless NO_COLOR asks for none."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def width_of(stream: TextIO) -> int | None:
    """Returns the columns of a terminal, None for a pipe or a file, whose lines may have any length."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def in_status_colour(text: str, status: str, *, colours: bool | None = None) -> str:
    """Returns text in the colour of a status; unchanged where standard output shows none, or the status has none."""
    colour = _COLOUR_OF_STATUS.get(status.partition(" ")[0] if status not in _COLOUR_OF_STATUS else status)
    if colour is None or not (shows_colours(sys.stdout) if colours is None else colours):
        return text
    return f"{_ESCAPE}{colour}m{text}{_ESCAPE}0m"
