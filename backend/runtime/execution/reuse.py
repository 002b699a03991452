"""Completes the steps that a resumed run reuses, with values and copied files of the run that it resumes."""

import asyncio
import logging
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from backend.common import json_text
from backend.common.ids import new_id
from backend.common.states import RunStatus
from backend.resources.redaction.confined_redactor import RedactionError
from backend.runtime.execution import retries, sql
from backend.runtime.execution.claim import ClaimedSegment
from backend.runtime.execution.segment_context import SegmentContext, StoppedError, StopSignal
from backend.runtime.execution.segment_journal import SegmentJournal
from backend.runtime.inputs.copying import Entry, require_unchanged
from backend.runtime.outcomes import RunOutcome
from backend.runtime.promotion import discard, new_output
from backend.services.outputs.sql import StepFile, outputs_of, shared_files_of
from backend.services.runs import sql as runs_sql
from backend.services.runs.redaction_manifest_sql import STEPS, StageCounts
from backend.services.workflows.resolved_workflow import APPROVAL
from backend.storage.database import Tx
from backend.storage.object_keys import object_key, shared_file_key
from backend.storage.objects import ObjectStore
from backend.storage.objects.interface import copy_to_file
from backend.storage.tables.files import OutputRow, SharedFileRow
from contract.failure_codes import INVARIANT_BLOCKED

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

_GONE: Final = "what it left in the ended run was removed."


class StepReuse:
    """Completes reused steps in the first segment of a resumed run; `manifest` lists the copied inputs."""

    def __init__(
        self,
        context: SegmentContext,
        claimed: ClaimedSegment,
        journal: SegmentJournal,
        stop_signal: StopSignal,
        manifest: Sequence[Entry],
    ) -> None:
        self._context = context
        self._claimed = claimed
        self._journal = journal
        self._stop_signal = stop_signal
        self._manifest = manifest

    async def run(self) -> bool:
        """Completes the steps in the order of their needs; returns False after a failure, which has closed the run.

        A step is executed instead if its value or a file was removed since the start, or if a step that it needs is
        executed; all steps are executed if the copied inputs differ from those of the ended run.

        Raises:
            StoppedError: the segment is to end.
            SegmentEndedError: another process closed the run.
        """
        states, ended = self._claimed.step_states, self._claimed.resumed_from
        assert ended is not None
        changed = await self._changed_input()
        if changed is not None:
            states.execute_items_anew()
        files = await self._read(lambda tx: files_of_ended(tx, ended))
        while to_reuse := states.to_reuse:
            step = next(step for step in to_reuse if to_reuse.keys().isdisjoint(states.resolved_step(step).needs))
            executed = next((need for need in states.resolved_step(step).needs if states.value(need) is None), None)
            if changed is not None:
                states.execute_anew(step, f"input '{changed}' is not as it was in the ended run.")
            elif executed is not None:
                states.execute_anew(step, f"it needs step '{executed}', which is executed.")
            elif not await self._reuse(step, to_reuse[step], files.get(step, [])):
                return False
            await self._journal.record()
        return True

    async def _changed_input(self) -> str | None:
        """Returns the first parameter whose objects differ from those of the ended run, or None."""
        ended = self._claimed.resumed_from
        if not self._manifest or ended is None:
            return None
        run = await self._read(lambda tx: runs_sql.run(tx, ended, None))
        before = json_text.parse((run and run.inputs_manifest) or "[]")
        recorded = {entry["parameter"]: entry for entry in before}
        for entry in self._manifest:
            try:
                # Names of objects may hold personal data, so its message is left out.
                require_unchanged(entry, entry["items"], recorded.get(entry["parameter"]))
            except ValueError:
                return str(entry["parameter"])
        return None

    async def _reuse(self, step: str, ended: str, files: Sequence[OutputRow | SharedFileRow]) -> bool:
        """Completes a step, or marks it for execution; returns False after a failure, which has closed the run."""
        context, states = self._context, self._claimed.step_states
        completed = await self._read(lambda tx: sql.completed_step(tx, ended, step))
        if completed is None or len(files) != (completed.files_count or 0):
            states.execute_anew(step, _GONE)
            return True
        value: str | None = completed.value
        if states.resolved_step(step).kind == APPROVAL:
            value = await self._sweep_decision(step, completed.value)
        if value is None:
            return False
        what = f"Copying the files of step {step} of run {ended}"
        copying = asyncio.ensure_future(
            retries.RESOURCE.run(
                lambda: context.in_cancellable_thread(
                    lambda halt: copy_files(context, self._claimed.run_id, files, halt),
                    undo=lambda copies: discard(context.objects, copies),
                ),
                what,
            )
        )
        try:
            copies = await self._stop_signal.result_of(copying)
        except StoppedError:
            copying.cancel()
            await asyncio.wait({copying})
            raise
        except (KeyError, EOFError):
            states.execute_anew(step, _GONE)
            return True
        except OSError:
            _LOG.exception("%s failed", what)
            await self._fail(f"The files of step '{step}' could not be copied from run {ended}.")
            return False
        states.reuse(step, value, copies, context.clock(), completed.items)
        return True

    async def _sweep_decision(self, step: str, value: str) -> str | None:
        """Returns a decision swept for other steps; None after a failed sweep, which has closed the run.

        The ended run may have ended before it swept the comment and the form.
        """
        redaction = self._claimed.redaction
        decided = {"form": None, "decided_at": None, **json_text.parse(value)}
        if redaction is None or not redaction.covers(STEPS):
            return json_text.write(decided)
        said = {name: decided[name] for name in ("comment", "form")}
        sweeping = asyncio.ensure_future(self._context.in_cancellable_thread(lambda halt: redaction.value(said, halt)))
        try:
            swept, counts = await self._stop_signal.result_of(sweeping)
        except StoppedError:
            sweeping.cancel()
            await asyncio.wait({sweeping})
            raise
        except RedactionError as error:
            await self._fail(f"The decision of step '{step}' could not be swept for personal data: {error}.")
            return None
        self._claimed.step_states.changes.redacted.append(StageCounts(STEPS, counts))
        return json_text.write({**decided, **swept})

    async def _fail(self, message: str) -> None:
        await self._journal.close(RunOutcome(RunStatus.FAILED, INVARIANT_BLOCKED, message))

    async def _read(self, work: Callable[[Tx], T]) -> T:
        return await retries.DATABASE.run(
            lambda: self._context.read(work), f"Reading what run {self._claimed.run_id} reuses"
        )


def files_of_ended(tx: Tx, ended: str) -> dict[str, list[OutputRow | SharedFileRow]]:
    """Returns the stored files of an ended run by step."""
    found: dict[str, list[OutputRow | SharedFileRow]] = {}
    stored: list[OutputRow | SharedFileRow] = [*outputs_of(tx, ended), *shared_files_of(tx, ended)]
    for file in stored:
        found.setdefault(file.step or "", []).append(file)
    return found


def copy_files(
    context: SegmentContext, run_id: str, files: Sequence[OutputRow | SharedFileRow], halt: threading.Event
) -> list[StepFile]:
    """Copies objects for another run; returns a row for each copy.

    Raises:
        OSError, KeyError, EOFError: an object could not be copied, or has changed; the earlier copies are removed.
        StoppedError: `halt` was set.
    """
    copies: list[StepFile] = []
    try:
        with tempfile.TemporaryDirectory(prefix="reuse-", dir=context.work) as folder:
            copy = Path(folder) / "copy"
            for file in files:
                copy_to_file(context.objects, file.object_key, file.size_bytes, copy, halt)
                copies.append(_store_copy(context.objects, run_id, file, copy))
    except BaseException as error:
        discard(context.objects, copies)
        if isinstance(error, InterruptedError):
            raise StoppedError from None
        raise
    return copies


def _store_copy(objects: ObjectStore, run_id: str, file: OutputRow | SharedFileRow, copy: Path) -> StepFile:
    if isinstance(file, SharedFileRow):
        key = shared_file_key(run_id, file.step, new_id("shared"))
        return file._replace(object_key=key, run_id=run_id, size_bytes=objects.put_file(key, copy).size_bytes)
    output_id = new_id("out")
    stored = objects.put_file(object_key(run_id, output_id), copy)
    if stored.sha256 != file.sha256:
        objects.delete(object_key(run_id, output_id))
        raise EOFError("the object is not as it was stored")
    return new_output(run_id, output_id, file.path, file.step, stored)
