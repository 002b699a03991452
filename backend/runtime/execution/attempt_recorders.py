"""Recorders of one attempt: of what it prints, and of the messages between it and its model."""

from backend.runtime.agents.transcript import Transcript
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.step_log import StepLogRecorder
from backend.runtime.run_redaction import RunRedaction
from backend.services.logs.sql import TRANSCRIPTS
from backend.services.runs.redaction_manifest_sql import StageCounts


class AttemptRecorders:
    """The recorder of an attempt's log, and one of its transcript, which keeps nothing unless text is added to it."""

    def __init__(
        self,
        context: SegmentContext,
        run_id: str,
        step: str,
        attempt: int,
        redaction: RunRedaction | None,
        most_bytes: int,
    ) -> None:
        self.log = StepLogRecorder(context, run_id, step, attempt, redaction)
        self._messages = StepLogRecorder(context, run_id, step, attempt, redaction, TRANSCRIPTS)
        self.transcript = Transcript(most_bytes, self._messages.add)

    async def finish(self, log: bytes) -> list[StageCounts]:
        """Stores the whole log and transcript of an ended attempt; returns the counts of their sweeps' model calls."""
        return [*await self.log.finish(log), *await self._messages.finish(self.transcript.content())]

    async def abandon(self) -> None:
        """Ends log and transcript of a killed attempt, as far as they were written."""
        await self.log.abandon()
        await self._messages.abandon()
