"""Renders Markdown in confined processes, because it is content of callers and agents."""

from typing import Final

from backend.confined import ConfinedError, ConfinedPool

MOST_CHARS: Final = 24_000
"""Characters of Markdown that are rendered."""

_MOST_HTML_CHARS: Final = 200_000
_CPU_SECONDS: Final = 2.0
_MEMORY_BYTES: Final = 256 * 2**20


class Markdown:
    """Client of the processes. Thread-safe; the first call starts one, and `close` ends them all."""

    def __init__(self) -> None:
        self._pool = ConfinedPool("backend.previews.program", name="markdown", size=1)

    def html(self, text: str, owner: str) -> str | None:
        """Returns the beginning of Markdown as HTML, or None where its bounds do not suffice."""
        try:
            found = self._pool.run(
                "markdown",
                {"text": text[:MOST_CHARS]},
                owner=owner,
                cpu_seconds=_CPU_SECONDS,
                memory_bytes=_MEMORY_BYTES,
            )
        except ConfinedError:
            return None
        return found if isinstance(found, str) and len(found) <= _MOST_HTML_CHARS else None

    def close(self) -> None:
        """Ends the processes."""
        self._pool.close()
