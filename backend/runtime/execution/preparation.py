"""What comes before the steps of a segment: decisions are told, inputs copied in, and both swept. (DECISIONS.md, 5)."""

import asyncio
import logging
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from backend import json_text
from backend.redaction import Counts
from backend.redaction.process.redactor import RedactionError
from backend.runs.failure_codes import INPUT_MATERIALISATION_FAILED, INVARIANT_BLOCKED
from backend.runs.redaction_manifest import COMPLETED
from backend.runs.redaction_manifest import FAILED as SWEEP_FAILED
from backend.runs.status import FAILED
from backend.runtime.execution import sql
from backend.runtime.execution.claim import Begun
from backend.runtime.execution.outcomes import Ending
from backend.runtime.execution.run_redaction import INPUTS, STEPS, Found
from backend.runtime.execution.segment_context import Means
from backend.runtime.execution.segment_journal import Recording
from backend.runtime.execution.stopping import StoppedError, Stopping
from backend.runtime.inputs.s3_prefix import InputError, materialise_all
from backend.runtime.inputs.swept import sweep_inputs

_LOG = logging.getLogger(__name__)


T = TypeVar("T")


class Seen(NamedTuple):
    """What the steps get to see of how the run was started."""

    parameters: Mapping[str, Any]
    input_text: str | None


async def prepare(means: Means, begun: Begun, recording: Recording, stopping: Stopping) -> Seen | None:
    """Readies the inputs on disk; None where they cannot be had, and the run is closed.

    Raises:
        StoppedError: the segment is to end.
        SegmentEndedError: the run was closed by somebody else.
    """
    preparation = _Preparation(means, begun, recording, stopping)
    if await preparation.told() and await preparation.copied():
        return await preparation.swept()
    return None


def inputs_folder(means: Means, begun: Begun) -> Path | None:
    """Where the inputs are; None where the run was given none."""
    given = any(declared.parameter in begun.parameters for declared in begun.terms.inputs)
    return means.inputs_of_run(begun.run_id) if given else None


def remove_folder(means: Means, run_id: str) -> None:
    """Removes what a run keeps on disk."""
    shutil.rmtree(means.folder_of_run(run_id), ignore_errors=True)


class _Preparation:
    def __init__(self, means: Means, begun: Begun, recording: Recording, stopping: Stopping) -> None:
        self._means = means
        self._begun = begun
        self._recording = recording
        self._stopping = stopping

    async def told(self) -> bool:
        """Tells what people decided, with their words as they were swept; False where they cannot be."""
        begun, redaction = self._begun, self._begun.redaction
        if redaction is None or not begun.decisions:
            return True
        comments = [decision.comment for decision in begun.decisions]
        if (stage := redaction.stage_of_words) is not None:
            swept = await self._swept(lambda halt: redaction.value(comments, halt), "What was said of an approval")
            if swept is None:
                return False
            comments, counts = swept
            begun.board.changes.redacted.append(Found(stage, counts))
        for decision, comment in zip(begun.decisions, comments, strict=True):
            begun.board.decide(decision, comment, hand_on=redaction.covers(STEPS))
        await self._recording.record()
        return True

    async def copied(self) -> bool:
        """Whether the run goes on: it is closed where its inputs cannot be copied in."""
        means, begun = self._means, self._begun
        folder = inputs_folder(means, begun)
        if folder is None or not begun.first:
            return True
        halt = threading.Event()
        copying = means.in_slow_thread(
            lambda: materialise_all(begun.terms.inputs, begun.parameters, folder, halt, means.secrets)
        )
        try:
            manifest = await self._stopping.or_result(copying)
        except StoppedError:
            halt.set()
            self._clean_up_after(copying)
            raise
        except InputError as error:
            await self._recording.close(
                Ending(FAILED, INPUT_MATERIALISATION_FAILED, await self._worded(str(error), "The inputs"))
            )
            return False
        text = json_text.write(manifest)
        begun.board.changes.event(
            "inputs.materialised",
            objects=sum(entry["objects"] for entry in manifest),
            bytes=sum(entry["bytes"] for entry in manifest),
        )
        await self._recording.record(lambda tx, _: sql.set_manifest(tx, begun.run_id, text))
        return True

    async def swept(self) -> Seen | None:
        """What the steps may see; None where it cannot be swept, and the run is closed."""
        means, begun, redaction = self._means, self._begun, self._begun.redaction
        if redaction is None or not redaction.covers(INPUTS):
            return Seen(begun.parameters, begun.input_text)
        if begun.first:
            begun.board.changes.event("redaction.started", stage=INPUTS)
            await self._recording.record()
        found = await self._swept(
            lambda halt: sweep_inputs(redaction, begun, inputs_folder(means, begun), halt), "The inputs", INPUTS
        )
        if found is None:
            return None
        parameters, input_text, counts = found
        for warning in redaction.take_warnings():
            begun.board.warn(warning)
        if begun.first:
            begun.board.changes.redacted.append(Found(INPUTS, counts))
            begun.board.changes.event("redaction.completed", stage=INPUTS, files=counts.files, values=counts.values)
            await self._recording.record(lambda tx, _: sql.set_redaction_status(tx, begun.run_id, INPUTS, COMPLETED))
        elif counts.model_calls or counts.model_skipped:
            # What is found was counted at the first time.
            asked = Counts(model_calls=counts.model_calls, model_skipped=counts.model_skipped)
            begun.board.changes.redacted.append(Found(INPUTS, asked))
        return Seen(parameters, input_text)

    async def _worded(self, message: str, what: str) -> str:
        """Why the run ends, as it may be told; an event never changes."""
        redaction = self._begun.redaction
        if redaction is None or (stage := redaction.stage_of_words) is None:
            return message
        try:
            swept, counts = await self._or_stopped(lambda halt: redaction.value(message, halt))
        except RedactionError:
            return f"{what} cannot be had, and why could not be swept for personal data."
        self._begun.board.changes.redacted.append(Found(stage, counts))
        return str(swept)

    async def _swept(self, sweep: Callable[[threading.Event], T], what: str, stage: str | None = None) -> T | None:
        """What a sweep gives; None where it failed, and the run was closed for it, with the stage."""
        run_id = self._begun.run_id
        try:
            return await self._or_stopped(sweep)
        except (RedactionError, OSError) as error:
            _LOG.exception("%s could not be swept for run %s", what, run_id)
            why = error if isinstance(error, RedactionError) else error.strerror
            if stage is not None:
                await self._recording.record(lambda tx, _: sql.set_redaction_status(tx, run_id, stage, SWEEP_FAILED))
            message = f"{what} could not be swept for personal data: {why}."
            await self._recording.close(Ending(FAILED, INVARIANT_BLOCKED, message))
            return None

    async def _or_stopped(self, sweep: Callable[[threading.Event], T]) -> T:
        halt = threading.Event()
        sweeping = self._means.in_slow_thread(lambda: sweep(halt))
        try:
            return await self._stopping.or_result(sweeping)
        except StoppedError:
            halt.set()
            self._clean_up_after(sweeping)
            raise

    def _clean_up_after(self, work: asyncio.Future[Any]) -> None:
        """The run ends now, and the thread that works for it later: what it still writes goes after it."""
        means, run_id = self._means, self._begun.run_id

        def clean_up(done: asyncio.Future[Any]) -> None:
            done.exception()
            means.in_slow_thread(lambda: remove_folder(means, run_id))

        work.add_done_callback(clean_up)
