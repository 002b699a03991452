"""Stores the conversation of a step whose calls of tools wait for a person, and loads it with the decisions."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from backend.common import json_text
from backend.common.ids import new_id
from backend.common.states import ApprovalState
from backend.resources.redaction.confined_redactor import RedactionError
from backend.runtime.agents.base import StepFailed
from backend.runtime.agents.pauses import CallDecision, PausedConversation, StepPaused, call_text
from backend.runtime.execution import retries, sql
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.step_outcomes import AskedApproval, StepPause
from backend.runtime.promotion import discard
from backend.runtime.run_redaction import RunRedaction
from backend.services.outputs.sql import NewOutput, StepFile
from backend.services.runs.redaction_manifest_sql import STEPS, StageCounts
from backend.storage.tables.files import SharedFileRow
from redaction.counts import Counts

_DECISIONS: Final = {ApprovalState.APPROVED: True, ApprovalState.REJECTED: False}


class StepPauses:
    """The pauses of one step; `files` are those that it has stored in attempts that ended with a pause."""

    def __init__(self, context: SegmentContext, run_id: str, step: str, redaction: RunRedaction | None) -> None:
        self._context = context
        self._run_id = run_id
        self._step = step
        self._redaction = redaction if redaction is not None and redaction.redacts else None
        self._model_calls: list[StageCounts] = []
        self.files: list[StepFile] = []

    async def load(self) -> PausedConversation:
        """Returns the conversation that goes on, with the decisions of people; their comments are swept.

        Raises:
            StepFailed: a decision is missing, or its comment could not be swept.
        """
        state, rows = await retries.DATABASE.run(
            lambda: self._context.in_thread(self._read), f"Reading the conversation of step {self._step}"
        )
        self.files = [_file(kind, columns) for kind, columns in state["files"]]
        decisions: dict[str, CallDecision] = {}
        for call_id, (approval_id, digest) in state["calls"].items():
            row = rows.get(approval_id)
            approved = None if row is None else _DECISIONS.get(ApprovalState(row.state))
            if row is None or approved is None:
                raise StepFailed("InternalError", "a call of a tool was not decided", final=True)
            comment = await self._swept(row.comment)
            decisions[call_id] = CallDecision(digest, approved, comment, by_deadline=row.decided_by is None)
        return PausedConversation(state["conversation"], decisions)

    async def pause(self, paused: StepPaused, redacted: list[StageCounts]) -> StepPause:
        """Returns the pause with its approvals, whose arguments of calls are swept where the policy redacts.

        Raises:
            StepFailed: the arguments could not be swept.
        """
        approvals: list[AskedApproval] = []
        calls: dict[str, tuple[str, str]] = {}
        for call in paused.calls:
            shown = await self._swept(json_text.parse(call.arguments))
            approval = AskedApproval(new_id("apr"), f"Call {call.tool}?", call_text(call, shown))
            approvals.append(approval)
            calls[call.call_id] = (approval.approval_id, call.digest)
        state = {
            "conversation": paused.state,
            "calls": calls,
            "files": [_columns(file) for file in self.files],
        }
        text = await self._context.in_thread(lambda: json_text.write(state))
        return StepPause(approvals, text, self.files, [*redacted, *self._model_calls])

    async def discard_files(self) -> None:
        """Removes the objects of files of an attempt after which the step does not go on."""
        if self.files:
            await self._context.in_slow_thread(lambda: discard(self._context.objects, self.files))

    def _read(self) -> tuple[Mapping[str, Any], Mapping[str, sql.DecidedCallRow]]:
        text, rows = self._context.database.snapshot(lambda tx: sql.conversation(tx, self._run_id, self._step))
        if text is None:
            raise StepFailed("InternalError", "the conversation is not stored any more", final=True)
        return json_text.parse(text), {row.approval_id: row for row in rows}

    async def _swept(self, value: Any) -> Any:
        redaction = self._redaction
        if redaction is None or value is None:
            return value
        try:
            swept, counts = await self._context.in_cancellable_thread(lambda halt: redaction.value(value, halt))
        except RedactionError as error:
            reason = f"the call of a tool could not be swept for personal data: {error}"
            raise StepFailed("RedactionFailed", reason, final=error.permanent) from error
        # Approvals leave the service no more than logs do, so their values do not count among those of the run.
        model_calls = Counts(model_calls=counts.model_calls, model_skipped=counts.model_skipped)
        if model_calls != Counts():
            self._model_calls.append(StageCounts(STEPS, model_calls))
        return swept


def _columns(file: StepFile) -> tuple[str, Mapping[str, Any]]:
    return ("output", asdict(file)) if isinstance(file, NewOutput) else ("shared", file._asdict())


def _file(kind: str, columns: Mapping[str, Any]) -> StepFile:
    return NewOutput(**columns) if kind == "output" else SharedFileRow(**columns)
