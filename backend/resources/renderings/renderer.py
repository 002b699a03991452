"""Renders files for people in confined processes, which can be killed."""

import math
import threading
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from backend.common.optional_parts import PDF
from backend.isolation.confined import ConfinedError, ConfinedPool, FailureKind
from backend.resources.attachments.pictures import GIF, JPEG, PNG, WEBP

MOST_MARKDOWN_CHARS: Final = 24_000
"""Most characters of Markdown that are rendered."""
LARGEST_PICTURE: Final = 10_000_000
"""Bytes of the largest picture that is shown."""
MOST_SIDE: Final = 8_000
"""Most pixels of a side of a picture that is shown: a browser decodes all of them."""
LARGEST_PDF: Final = 25_000_000
"""Bytes of the largest PDF whose pages are shown."""
MOST_PAGES: Final = 200
"""Most pages of a PDF that are shown."""
PAGE_SECONDS: Final = 20.0
"""Seconds that the page of a person waits for a rendering."""

_MOST_HTML_CHARS: Final = 200_000
_CPU_SECONDS: Final = 2.0
_PAGE_CPU_SECONDS: Final = 10.0
_MEMORY_BYTES: Final = 256 * 2**20
_PAGE_MEMORY_BYTES: Final = 768 * 2**20
_PAGE_SIDE: Final = 1_400
_LARGEST_PAGE: Final = 20_000_000
_ENDED: Final = frozenset({FailureKind.HALTED, FailureKind.CLOSED})
_SHOWN_TYPES: Final = frozenset({PNG, JPEG, GIF, WEBP})


class Rendered(NamedTuple):
    """Media type of a picture, or the number of pages of a PDF."""

    media_type: str = ""
    pages: int = 0


class _End(threading.Event):
    """Event that counts as set once another is, or once some seconds have passed."""

    def __init__(self, halt: threading.Event, seconds: float) -> None:
        super().__init__()
        self._halt = halt
        self._at = time.monotonic() + seconds

    def is_set(self) -> bool:
        """Returns whether the other is set, or the time has come."""
        return self._halt.is_set() or time.monotonic() >= self._at


class Renderer:
    """Client of the processes that render. Thread-safe; the first call starts one, `close` ends all.

    Calls raise TimeoutError once `halt` is set, and where a job and its wait for a process take longer than the caller
    waits: the content is not to blame.
    """

    def __init__(self, halt: threading.Event) -> None:
        self._halt = halt
        self._pool = ConfinedPool("backend.resources.renderings.program", name="renderings", size=1)

    def markdown(self, text: str, owner: str, wait_seconds: float = math.inf) -> str | None:
        """Returns the beginning of Markdown as HTML, or None if rendering exceeds its bounds."""
        found = self._run("markdown", {"text": text[:MOST_MARKDOWN_CHARS]}, owner, wait_seconds=wait_seconds)
        return found if isinstance(found, str) and len(found) <= _MOST_HTML_CHARS else None

    def picture(self, source: Path, owner: str, wait_seconds: float = math.inf) -> Rendered | str:
        """Returns the type of a picture by its content, or the reason why it is not shown."""
        if source.stat().st_size > LARGEST_PICTURE:
            return f"It is a picture of more than {LARGEST_PICTURE:,} bytes."
        answer = self._run("picture", {}, owner, source, wait_seconds=wait_seconds)
        match answer:
            case {"picture": {"media_type": str(media_type), "width": int(width), "height": int(height)}}:
                if max(width, height) > MOST_SIDE:
                    return f"It has {width:,} by {height:,} pixels; pictures of at most {MOST_SIDE:,} a side are shown."
                if media_type in _SHOWN_TYPES:
                    return Rendered(media_type)
        return "By its content it is no PNG, JPEG, GIF or WebP picture, or it is malformed."

    def document(self, source: Path, owner: str) -> Rendered | str:
        """Returns the number of pages of a PDF that are shown, or the reason why none is."""
        if not PDF.installed:
            return f"Its pages cannot be shown: {PDF.not_installed}."
        if source.stat().st_size > LARGEST_PDF:
            return f"It is a PDF of more than {LARGEST_PDF:,} bytes."
        answer = self._run("pages", {}, owner, source, seconds=_PAGE_CPU_SECONDS, memory_bytes=_PAGE_MEMORY_BYTES)
        match answer:
            case {"pages": int(pages)} if pages > 0:
                return Rendered(pages=min(pages, MOST_PAGES))
        return "It is a PDF that is malformed, encrypted, or too large to be read here."

    def page(self, source: Path, target: Path, number: int, owner: str, wait_seconds: float = math.inf) -> bool:
        """Writes a page of a PDF to `target` as a PNG; returns False where it cannot be drawn within its bounds."""
        target.touch()
        answer = self._run(
            "page",
            {"number": number, "side": _PAGE_SIDE},
            owner,
            source,
            target,
            seconds=_PAGE_CPU_SECONDS,
            memory_bytes=_PAGE_MEMORY_BYTES,
            wait_seconds=wait_seconds,
        )
        return answer == {"drawn": True} and 0 < target.stat().st_size <= _LARGEST_PAGE

    def close(self) -> None:
        """Ends the processes."""
        self._pool.close()

    def _run(
        self,
        operation: str,
        arguments: dict[str, Any],
        owner: str,
        source: Path | None = None,
        target: Path | None = None,
        *,
        seconds: float = _CPU_SECONDS,
        memory_bytes: int = _MEMORY_BYTES,
        wait_seconds: float = math.inf,
    ) -> Any:
        """Returns the answer of a job; None where it has none, because it failed or exceeded its bounds."""
        end = _End(self._halt, wait_seconds)
        opened = [path.open(mode) for path, mode in ((source, "rb"), (target, "r+b")) if path is not None]
        try:
            return self._pool.run(
                operation,
                arguments,
                owner=owner,
                cpu_seconds=seconds,
                memory_bytes=memory_bytes,
                descriptors=[file.fileno() for file in opened],
                halt=end,
            )
        except ConfinedError as error:
            if error.kind in _ENDED:
                raise TimeoutError("The rendering did not end in time.") from None
            return None
        finally:
            for file in opened:
                file.close()
