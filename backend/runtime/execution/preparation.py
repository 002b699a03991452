"""Prepares a segment: records decisions on approvals, copies inputs in, and sweeps both (contract 13)."""

import asyncio
import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from backend.common import json_text
from backend.common.json_text import JsonMapping, JsonObject
from backend.common.states import RunStatus
from backend.resources.redaction.confined_redactor import RedactionError
from backend.runtime.execution import retries, sql
from backend.runtime.execution.claim import ClaimedSegment
from backend.runtime.execution.reuse import StepReuse
from backend.runtime.execution.segment_context import SegmentContext, StoppedError, StopSignal
from backend.runtime.execution.segment_journal import SegmentJournal
from backend.runtime.inputs.copying import Entry
from backend.runtime.inputs.sources import InputError, materialise_all, materialise_uploads
from backend.runtime.outcomes import RunOutcome
from backend.runtime.run_redaction import RunRedaction
from backend.services.runs import redaction_manifest_sql
from backend.services.runs.lifecycle import Statement
from backend.services.runs.redaction_manifest import COMPLETED
from backend.services.runs.redaction_manifest import FAILED as SWEEP_FAILED
from backend.services.runs.redaction_manifest_sql import INPUTS, STEPS, StageCounts
from backend.services.uploads import sql as uploads_sql
from backend.storage.tables.files import UploadFileRow
from contract.failure_codes import INPUT_MATERIALISATION_FAILED, INVARIANT_BLOCKED
from redaction.counts import Counts

_LOG = logging.getLogger(__name__)


T = TypeVar("T")


class StepInputs(NamedTuple):
    """The parameters and the input text as steps see them."""

    parameters: JsonMapping
    input_text: str | None


async def prepare(
    context: SegmentContext, claimed: ClaimedSegment, journal: SegmentJournal, stop_signal: StopSignal
) -> StepInputs | None:
    """Prepares the inputs of steps; returns None after a failure, which has closed the run.

    Raises:
        StoppedError: the segment is to end.
        SegmentEndedError: another process closed the run.
    """
    preparation = _Preparation(context, claimed, journal, stop_signal)
    if not (await preparation.record_decisions() and await preparation.copy_inputs()):
        return None
    step_inputs = await preparation.sweep_inputs()
    if step_inputs is None:
        return None
    await preparation.place_inputs()
    if claimed.first and claimed.resumed_from is not None:
        reuse = StepReuse(context, claimed, journal, stop_signal, preparation.manifest)
        if not await reuse.run():
            return None
    return step_inputs


def inputs_folder(context: SegmentContext, claimed: ClaimedSegment) -> Path | None:
    """Returns the folder of the copied inputs; None where the run has none."""
    given = any(declared.parameter in claimed.parameters for declared in claimed.workflow.inputs)
    return context.inputs_of_run(claimed.run_id) if given or claimed.upload_id is not None else None


def remove_folder(context: SegmentContext, run_id: str) -> None:
    """Removes the run's folder of inputs and files from this disk."""
    shutil.rmtree(context.folder_of_run(run_id), ignore_errors=True)


class _Preparation:
    def __init__(
        self, context: SegmentContext, claimed: ClaimedSegment, journal: SegmentJournal, stop_signal: StopSignal
    ) -> None:
        self._context = context
        self._claimed = claimed
        self._journal = journal
        self._stop_signal = stop_signal
        self._incoming: Path | None = None
        self.manifest: list[Entry] = []

    async def record_decisions(self) -> bool:
        """Records people's decisions with their swept comments and forms; returns False where the sweep failed."""
        claimed, redaction = self._claimed, self._claimed.redaction
        if redaction is None or not claimed.decisions:
            return True
        said = [Statement(decision.comment, decision.form) for decision in claimed.decisions]
        if (stage := redaction.message_stage) is not None:
            texts = [[each.comment, json_text.parse(each.form or "null")] for each in said]
            swept = await self._sweep_or_close(
                lambda halt: redaction.value(texts, halt), "What was said of an approval"
            )
            if swept is None:
                return False
            found, counts = swept
            said = [Statement(comment, None if form is None else json_text.write(form)) for comment, form in found]
            claimed.step_states.changes.redacted.append(StageCounts(stage, counts))
        for decision, each in zip(claimed.decisions, said, strict=True):
            claimed.step_states.decide(decision, each, to_steps=redaction.covers(STEPS))
        await self._journal.record()
        return True

    async def copy_inputs(self) -> bool:
        """Copies the inputs in unless this worker has them; returns False after a failure, which has closed the run."""
        context, claimed = self._context, self._claimed
        folder = inputs_folder(context, claimed)
        if folder is None or folder.is_dir():
            return True
        files = await self._uploaded()
        incoming = folder.with_name(f".{folder.name}")
        halt = threading.Event()
        copying = context.in_slow_thread(lambda: self._materialise(incoming, files, halt))
        try:
            manifest = await self._stop_signal.result_of(copying)
        except StoppedError:
            halt.set()
            self._clean_up_after(copying)
            raise
        except InputError as error:
            await self._journal.close(
                RunOutcome(
                    RunStatus.FAILED, INPUT_MATERIALISATION_FAILED, await self._sweep_message(str(error), "The inputs")
                )
            )
            return False
        self._incoming, self.manifest = incoming, manifest
        if not claimed.first:
            _LOG.info("The inputs of run %s were copied in again, for this worker did not have them", claimed.run_id)
            return True
        text = json_text.write(manifest)
        claimed.step_states.changes.add_event(
            "inputs.materialised",
            objects=sum(entry["objects"] for entry in manifest),
            bytes=sum(entry["bytes"] for entry in manifest),
        )
        await self._journal.record(lambda tx, _: sql.set_manifest(tx, claimed.run_id, text))
        return True

    async def _uploaded(self) -> list[UploadFileRow]:
        """Returns the files that a person uploaded for the run."""
        context, upload_id = self._context, self._claimed.upload_id
        if upload_id is None:
            return []
        return await retries.DATABASE.run(
            lambda: context.read(lambda tx: uploads_sql.files(tx, upload_id)),
            f"Reading the uploads of run {self._claimed.run_id}",
        )

    def _materialise(self, folder: Path, files: list[UploadFileRow], halt: threading.Event) -> list[Entry]:
        """Copies objects and uploaded files into `folder`; returns the manifest. Raises InputError."""
        context, claimed = self._context, self._claimed
        recorded = {entry["parameter"]: entry for entry in json_text.parse(claimed.inputs_manifest or "[]")}
        try:
            if folder.exists():
                # Left by a copy that was interrupted.
                shutil.rmtree(folder)
            manifest = materialise_all(
                claimed.workflow.inputs, claimed.parameters, folder, halt, context.secrets, recorded
            )
            return manifest + materialise_uploads(context.objects, files, folder, halt, recorded)
        except OSError as error:
            raise InputError(f"The inputs could not be copied in: {error.strerror or type(error).__name__}") from error

    async def place_inputs(self) -> None:
        """Moves complete and swept inputs, if this segment copied any, to the folder that steps see."""
        incoming, folder = self._incoming, inputs_folder(self._context, self._claimed)
        if incoming is not None and folder is not None:
            await self._context.in_thread(lambda: incoming.rename(folder))

    async def sweep_inputs(self) -> StepInputs | None:
        """Returns the swept inputs for steps; None after a failed sweep, which has closed the run."""
        claimed, redaction = self._claimed, self._claimed.redaction
        if redaction is None or not redaction.covers(INPUTS):
            return StepInputs(claimed.parameters, claimed.input_text)
        if claimed.first:
            claimed.step_states.changes.add_event("redaction.started", stage=INPUTS)
            await self._journal.record()
        found = await self._sweep_or_close(
            lambda halt: _sweep_inputs(redaction, claimed, self._incoming, halt), "The inputs", INPUTS
        )
        if found is None:
            return None
        parameters, input_text, counts = found
        for warning in redaction.take_warnings():
            claimed.step_states.warn(warning)
        if claimed.first:
            claimed.step_states.changes.redacted.append(StageCounts(INPUTS, counts))
            claimed.step_states.changes.add_event(
                "redaction.completed", stage=INPUTS, files=counts.files, values=counts.values
            )
            await self._journal.record(
                lambda tx, _: redaction_manifest_sql.set_status(tx, claimed.run_id, INPUTS, COMPLETED)
            )
        elif counts.model_calls or counts.model_skipped:
            # The values found were counted in the first segment.
            asked = Counts(model_calls=counts.model_calls, model_skipped=counts.model_skipped)
            claimed.step_states.changes.redacted.append(StageCounts(INPUTS, asked))
        return StepInputs(parameters, input_text)

    async def _sweep_message(self, message: str, what: str) -> str:
        """Returns a message swept for personal data, because an event never changes."""
        redaction = self._claimed.redaction
        if redaction is None or (stage := redaction.message_stage) is None:
            return message
        try:
            swept, counts = await self._in_stoppable_thread(lambda halt: redaction.value(message, halt))
        except RedactionError:
            return f"{what} cannot be had, and why could not be swept for personal data."
        self._claimed.step_states.changes.redacted.append(StageCounts(stage, counts))
        return str(swept)

    async def _sweep_or_close(
        self, sweep: Callable[[threading.Event], T], what: str, stage: str | None = None
    ) -> T | None:
        """Returns the result of `sweep`; None after a failure, which has closed the run and failed the stage."""
        run_id = self._claimed.run_id
        try:
            return await self._in_stoppable_thread(sweep)
        except (RedactionError, OSError) as error:
            _LOG.exception("%s of run %s could not be swept", what, run_id)
            why = error if isinstance(error, RedactionError) else error.strerror
            if stage is not None:
                await self._journal.record(
                    lambda tx, _: redaction_manifest_sql.set_status(tx, run_id, stage, SWEEP_FAILED)
                )
            message = f"{what} could not be swept for personal data: {why}."
            await self._journal.close(RunOutcome(RunStatus.FAILED, INVARIANT_BLOCKED, message))
            return None

    async def _in_stoppable_thread(self, sweep: Callable[[threading.Event], T]) -> T:
        halt = threading.Event()
        sweeping = self._context.in_slow_thread(lambda: sweep(halt))
        try:
            return await self._stop_signal.result_of(sweeping)
        except StoppedError:
            halt.set()
            self._clean_up_after(sweeping)
            raise

    def _clean_up_after(self, work: asyncio.Future[Any]) -> None:
        """Removes the run's folder once the work ends: its thread may go on writing after the run has ended."""
        context, run_id = self._context, self._claimed.run_id

        def clean_up(done: asyncio.Future[Any]) -> None:
            done.exception()
            context.in_slow_thread(lambda: remove_folder(context, run_id))

        work.add_done_callback(clean_up)


def _sweep_inputs(
    redaction: RunRedaction, claimed: ClaimedSegment, folder: Path | None, halt: threading.Event
) -> tuple[JsonObject, str | None, Counts]:
    """Returns parameters and input text, swept, with the counts; sweeps copied files in place.

    The URI of an `s3_prefix` input is not swept. Every segment sweeps parameters and text again, because the run's
    row keeps them as the caller sent them; files are swept only by a segment that copied them in, into `folder`.

    Raises:
        RedactionError: the sweep failed, and steps may not see the inputs.
        OSError: the disk is full.
    """
    places = {declared.parameter for declared in claimed.workflow.inputs}
    values = {name: value for name, value in claimed.parameters.items() if name not in places}
    (swept, text), found = redaction.value([values, claimed.input_text], halt)
    if folder is not None:
        for parameter in sorted(folder.iterdir()):
            found.add(redaction.folder(parameter, halt))
    return {**claimed.parameters, **swept}, text, found
