"""Records the log or transcript of an attempt: parts in the database while it runs, and one object at its end.

Under a PII policy that redacts, text is swept before it is stored, whatever stages the policy names. Whole lines are
swept with the lines above them, so that a part equals its place in the whole log. A policy that asks a model, which is
slow and has few calls, sweeps the log once, at the end.
"""

import asyncio
import codecs
import logging
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from backend.resources.redaction.confined_redactor import RedactionError
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.run_redaction import RunRedaction
from backend.services.logs import sql
from backend.services.logs.sql import AttemptTexts
from backend.services.runs import erase_sql
from backend.services.runs.redaction_manifest_sql import STEPS, StageCounts
from backend.storage.database import Tx, run_of
from redaction.counts import Counts

_LOG = logging.getLogger(__name__)

LIVE_SECONDS: Final = 1.0
"""Seconds for which printed text is gathered before it is written."""

_CUT: Final = re.compile(r"\n\[[0-9]+ bytes of the log are cut here\]\n")
_NOT_SWEPT: Final = "The log could not be swept for personal data, so it is not shown"

PART_CHARS: Final = 32_768
MOST_KEPT_CHARS: Final = 524_288
"""Characters of the beginning of a log, and as many of its end, that can be read while the step runs."""
MOST_NEW_CHARS: Final = 65_536
"""Characters per write once the beginning is full, which bounds the cost of a step that prints without end."""


class StepLogRecorder:
    """Records the log or transcript of one attempt, on the engine's loop; its failures are logged and fail no step."""

    def __init__(
        self,
        context: SegmentContext,
        run_id: str,
        step: str,
        attempt: int,
        redaction: RunRedaction | None,
        texts: AttemptTexts = sql.LOGS,
    ) -> None:
        self._context = context
        self._texts = texts
        self._attempt = (run_id, step, attempt)
        self._run_id = run_id
        self._redaction = redaction if redaction is not None and redaction.redacts else None
        self._live = self._redaction is None or not self._redaction.asks_a_model
        self._text = LogBuffer(lines_only=self._redaction is not None)
        self._parts = LogParts()
        self._above = ""
        self._printed = False
        self._began = False
        self._ended = False
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    def add(self, part: bytes) -> None:
        """Adds printed bytes, which are written within `LIVE_SECONDS` or soon after."""
        if not part:
            return
        self._printed = True
        if not self._live:
            return
        self._text.add(part)
        if self._timer is None and not self._ended:
            self._timer = asyncio.get_running_loop().call_later(LIVE_SECONDS, self._write_soon)

    async def finish(self, log: bytes) -> list[StageCounts]:
        """Stores the whole log of an ended attempt; returns the counts of its sweep's model calls."""
        if not log or self._ended:
            return []
        if not self._printed:
            self.add(log)
        await self._stop_timer()
        if self._began:
            # Readers that follow the log read the parts to the end; new readers read the stored object.
            await self._write(final=True)
        found: list[StageCounts] = []
        problem: str | None = None
        content = log
        if self._redaction is not None:
            try:
                content, counts = await self._sweep(log)
                found = [StageCounts(STEPS, counts)] if counts != Counts() else []
            except RedactionError as error:
                found = [StageCounts(STEPS, Counts(model_calls=error.model_calls))] if error.model_calls else []
                problem = f"{_NOT_SWEPT}: {error}."
        size = None if problem else await self._store(content)
        if size is None and problem is None and not self._began:
            await self._write(final=True)
        self._ended = True
        await self._record(lambda tx, at: self._texts.end(tx, *self._attempt, at, size_bytes=size, problem=problem))
        return found

    async def abandon(self) -> None:
        """Ends the log of a killed attempt: written parts stay, and the waiting text is added if it needs no sweep."""
        if self._ended:
            return
        await self._stop_timer()
        if self._redaction is None:
            await self._write(final=True)
        self._ended = True
        if self._began:
            await self._record(lambda tx, at: self._texts.end(tx, *self._attempt, at, size_bytes=None, problem=None))

    def _write_soon(self) -> None:
        self._timer = None
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_live())
        else:
            self._timer = asyncio.get_running_loop().call_later(LIVE_SECONDS, self._write_soon)

    async def _write_live(self) -> None:
        try:
            await self._write()
        except Exception:  # noqa: BLE001 - whatever it is, the step goes on
            _LOG.exception("The log of a step of run %s could not be written while it runs", self._run_id)

    async def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writing is not None:
            await asyncio.wait({self._writing})

    async def _write(self, *, final: bool = False) -> None:
        """Sweeps and writes the waiting text as parts; `final` includes an incomplete last line."""
        text = self._text.take(final=final) if self._live else ""
        if text and self._redaction is not None:
            redaction, above = self._redaction, self._above
            try:
                swept, _ = await self._context.in_cancellable_thread(lambda halt: redaction.lines(above, text, halt))
            except RedactionError as error:
                _LOG.warning("The log of a step of run %s is not shown while it runs: %s", self._run_id, error)
                self._live = False
                return
            text, self._above = swept
        if text:
            parts, cut = self._parts.add(text)
            first = self._parts.next_seq - len(parts)

            def add(tx: Tx, _: int) -> None:
                self._texts.add_parts(tx, *self._attempt, first, parts)
                if cut is not None:
                    self._texts.cut(tx, *self._attempt, *cut)

            await self._record(add)

    async def _sweep(self, log: bytes) -> tuple[bytes, Counts]:
        redaction = self._redaction
        assert redaction is not None
        text = without_cut_lines(log.decode(errors="replace"))
        swept, counts = await self._context.in_cancellable_thread(lambda halt: redaction.lines("", text, halt))
        # Nothing of a log leaves the service, so its values do not count among those of the run.
        return swept.text.encode(), Counts(model_calls=counts.model_calls, model_skipped=counts.model_skipped)

    async def _store(self, content: bytes) -> int | None:
        key = self._texts.key(*self._attempt)
        try:
            stored = await self._context.in_shielded_thread(lambda: self._context.objects.put_bytes(key, content))
        except OSError:
            _LOG.exception("The log of a step of run %s could not be stored", self._run_id)
            return None
        return stored.size_bytes

    async def _record(self, work: Callable[[Tx, int], None]) -> None:
        """Writes to the log's rows, of a run whose data was not erased meanwhile."""
        at = self._context.clock()

        def write(tx: Tx) -> None:
            tx.keeps_caches_valid = True
            if not sql.has_data(tx, self._run_id):
                # The log object may have been stored after the removal of the run's objects.
                erase_sql.request_removal_again(tx, self._run_id, at)
                return
            if not self._began:
                self._texts.begin(tx, *self._attempt, at)
            work(tx, at)

        try:
            await self._context.in_shielded_thread(
                lambda: self._context.database.write(write, lock_key=run_of(self._run_id))
            )
        except Exception:  # noqa: BLE001 - whatever it is, the step goes on
            _LOG.exception("The log of a step of run %s could not be written", self._run_id)
            return
        self._began = True


def without_cut_lines(text: str) -> str:
    """Returns a log without the lines that a cut runs through, because a sweep misses half a value.

    Takes linear time, whatever an agent prints.
    """
    kept: list[str] = []
    begin = 0
    for cut in _CUT.finditer(text):
        kept += text[begin : text.rfind("\n", begin, cut.start()) + 1], cut[0]
        begin = text.find("\n", cut.end())
        if begin < 0:
            return "".join(kept)
    return "".join([*kept, text[begin:]])


@dataclass(slots=True)
class LogBuffer:
    """Buffer of printed text until it is written: decoded, without NUL, in whole lines if `lines_only`.

    A line longer than the buffer is cut, and only the stored log has it.
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
        """Adds printed bytes; cuts the oldest text beyond the bound."""
        self._append(self._decoder.decode(part))
        most = MOST_KEPT_CHARS if self._taken < MOST_KEPT_CHARS else MOST_NEW_CHARS
        excess = len(self._waiting) - 2 * most
        if excess > 0:
            self._cut(len(self._waiting) - most)

    def take(self, *, final: bool = False) -> str:
        """Removes and returns the text to write, behind a line with the number of cut characters, if any."""
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
        """Cuts at least `least` characters from the beginning of the buffer, to the end of a line."""
        place = self._waiting.find("\n", least) + 1
        if not place:
            place = len(self._waiting)
            self._in_cut_line = self.lines_only
        self._cut_chars += place
        self._waiting = self._waiting[place:]


@dataclass(slots=True)
class LogParts:
    """Splits a log into numbered parts, and keeps the first and the latest of them."""

    next_seq: int = 1
    _beginning_chars: int = 0
    _latest: deque[tuple[int, int]] = field(default_factory=deque)
    _latest_chars: int = 0

    def add(self, text: str) -> tuple[list[str], tuple[int, int] | None]:
        """Returns the new parts of a text, and the range of seqs to delete, its end exclusive."""
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
