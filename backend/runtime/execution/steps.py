"""Runs one attempt of an agent step, and stores its files, log and progress events; returns its value or failure."""

import logging
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from backend.common import json_text, metrics, workflow_metrics
from backend.common.json_text import JsonMapping, JsonText
from backend.isolation.sandbox.inside.channel import EventBudget
from backend.resources.redaction.confined_redactor import RedactionError
from backend.runtime.agents import StepFailed, StepRequest, run_step
from backend.runtime.agents.base import EventData, event_budget
from backend.runtime.agents.model_meter import ModelMeter, RunBudget
from backend.runtime.agents.pauses import StepPaused
from backend.runtime.agents.progress import dropped_warning
from backend.runtime.execution import retries
from backend.runtime.execution.attempt_recorders import AttemptRecorders
from backend.runtime.execution.item_bounds import StepItem
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.step_environment import built_packages, limits_within, usable_root
from backend.runtime.execution.step_files import files_of, move_files_for_steps
from backend.runtime.execution.step_outcomes import StepCompletion, StepFailure, StepPause
from backend.runtime.execution.step_pauses import StepPauses
from backend.runtime.execution.step_secrets import step_secrets
from backend.runtime.execution.step_tools import StepTools
from backend.runtime.promotion import discard, skipped_warning, store_files
from backend.runtime.run_redaction import RunRedaction
from backend.services.model_usage.sql import AttemptUsage
from backend.services.outputs.sql import StepFile
from backend.services.runs import redaction_manifest_sql
from backend.services.runs.lifecycle import SegmentEndedError, append_event
from backend.services.runs.redaction_manifest_sql import STEPS, StageCounts
from backend.services.workflows.resolved_workflow import ResolvedStep
from backend.settings import StepDataLimits
from backend.storage.database import Tx
from redaction.counts import Counts
from telemetry import tracing

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StepWork:
    """One attempt of one step, or of one `item` of its fan-out.

    `inputs` is None where the workflow declares none; `keep_files` says that other steps need its files.
    `failure` tells a step of `on_failure` or `always` which step failed the run, with code and message. `on_executed`
    is called once the step's processes have ended, before sweeps. `on_lost_usage` gets the use of a model by an attempt
    without an outcome, such as a cancelled one. `budget` is the run's. `may_ask` says that calls of tools may wait for
    a person, and `resumes` that the attempt goes on after such calls.
    """

    context: SegmentContext
    run_id: str
    workflow_id: str
    key_id: str
    client_reference: str | None
    segment_id: str
    step: ResolvedStep
    attempt: int
    parameters: JsonMapping
    input_text: str | None
    needs: JsonMapping
    inputs: Path | None
    keep_files: bool
    failure: Mapping[str, str | None] | None
    redaction: RunRedaction | None
    on_executed: Callable[[], None]
    budget: RunBudget
    on_lost_usage: Callable[[AttemptUsage], None]
    item: StepItem | None = None
    may_ask: bool = False
    resumes: bool = False

    @property
    def item_index(self) -> int | None:
        """The index of the item, from 0; None where there is no fan-out."""
        return None if self.item is None else self.item.index

    @property
    def _place(self) -> str:
        """The handle, with the index of an item: name of the log and of the folder for later steps."""
        return self.step.step if self.item is None else f"{self.step.step}/{self.item.index}"

    @property
    def _data_limits(self) -> StepDataLimits:
        return self.context.step_data if self.item is None else self.item.bounds.of_one

    async def run(self) -> StepCompletion | StepFailure | StepPause:
        """Runs the attempt to its end; on return or cancellation its processes have ended.

        Raises:
            SegmentEndedError: the run was closed meanwhile.
        """
        began = perf_counter()
        events = event_budget(self.context.step_data)
        texts = AttemptRecorders(
            self.context, self.run_id, self._place, self.attempt, self.redaction, self._data_limits.log_bytes
        )
        meter = ModelMeter(self.budget)
        pauses = StepPauses(self.context, self.run_id, self.step.step, self.redaction)
        try:
            try:
                outcome = await self._attempt(events, texts, meter, pauses)
            finally:
                await texts.abandon()
                await self._record_dropped_events(events)
        except BaseException:
            if (usage := self._usage(meter)) is not None:
                self.on_lost_usage(usage)
            await pauses.discard_files()
            raise
        usage = self._usage(meter)
        if isinstance(outcome, StepPause):
            return replace(outcome, usage=usage)
        if isinstance(outcome, StepFailure):
            await pauses.discard_files()
        agent = "none" if self.step.agent is None else self.step.agent["type"]
        named = "completed" if isinstance(outcome, StepCompletion) else "failed"
        seconds = perf_counter() - began
        metrics.STEP_SECONDS.observe(seconds, agent, named)
        workflow_metrics.count_attempt(self.workflow_id, self.step.step, named, seconds)
        return replace(outcome, usage=usage)

    def _usage(self, meter: ModelMeter) -> AttemptUsage | None:
        """Returns the use of a model that the meter has counted; None without an answered call."""
        if not meter.calls:
            return None
        return AttemptUsage(
            step=self.step.step,
            item_index=-1 if self.item is None else self.item.index,
            attempt=self.attempt,
            model=meter.model,
            model_calls=meter.calls,
            input_tokens=meter.input_tokens,
            output_tokens=meter.output_tokens,
            cached_tokens=meter.cached_tokens,
            cost_microusd=meter.cost_microusd,
        )

    async def _attempt(
        self, events: EventBudget, texts: AttemptRecorders, meter: ModelMeter, pauses: StepPauses
    ) -> StepCompletion | StepFailure | StepPause:
        try:
            return await self._run_agent(events, texts, meter, pauses)
        except StepFailed as failure:
            metrics.STEP_FAILURES.add(metrics.BY_THE_AGENT if failure.by_the_agent else failure.type)
            asked = await texts.finish(failure.log)
            return await self._sweep_failure(failure, asked)
        except SegmentEndedError:
            raise
        except Exception:  # noqa: BLE001 - only this step fails, whatever the cause
            metrics.STEP_FAILURES.add("InternalError")
            _LOG.exception("Step %s of run %s failed unexpectedly", self.step.step, self.run_id)
            return StepFailure("InternalError", "the runtime could not carry out the step")

    async def _run_agent(
        self, events: EventBudget, texts: AttemptRecorders, meter: ModelMeter, pauses: StepPauses
    ) -> StepCompletion | StepPause:
        agent, name = self.step.agent, self.step.agent_name
        if agent is None:
            missing = f"there is no agent named '{name}'" if name else "the step has no agent"
            raise StepFailed("AgentUnavailable", missing, final=True)
        limits = limits_within(self.context, self.step)
        if agent["type"] == "python" or self.step.tools:
            packages = await built_packages(self.context, self.step.environment)
            limits = replace(limits, packages=packages, root=await usable_root(self.context, self.step.environment))
        # No handle has a dot, so that step `a-1` differs from item 1 of step `a`.
        name = self._place.replace("/", ".")
        folder = self.context.folder_of_run(self.run_id) / "outputs" / f"{name}-{self.attempt}"
        files = await self._files()
        if self.inputs is not None and not self.inputs.is_dir():
            # A sandbox would give the step an empty folder in its place, or none.
            raise StepFailed("InputsNotFound", "the run's inputs are no longer on the worker's disk", final=True)
        request = StepRequest(
            step=self.step.step,
            agent=agent,
            parameters=self.parameters,
            input_text=self.input_text,
            needs=self.needs,
            inputs=self.inputs,
            files=files,
            outputs=folder,
            connectors=self.step.connectors,
            limits=limits,
            attempt=self.attempt,
            run_id=self.run_id,
            client_reference=self.client_reference,
            failure=self.failure,
            data_limits=self._data_limits,
            events=events,
            source=await self._source(agent),
            on_text=texts.log.add,
            secrets=await step_secrets(self.context, self.run_id, self.step, self.attempt, self.item_index),
            trace=tracing.carrier(),
            item=None if self.item is None else self.item.value,
            item_index=self.item_index,
            variables=self.step.environment.get("variables") or {},
            meter=meter,
            tools=self.step.tools,
            transcript=texts.transcript if agent.get("keep_transcript") else None,
            may_ask=self.may_ask,
            resumed=await pauses.load() if self.resumes else None,
        )
        tools = StepTools(
            context=self.context,
            run_id=self.run_id,
            key_id=self.key_id,
            step=self.step,
            attempt=self.attempt,
            item=self.item,
            redaction=self.redaction,
            source_of=self._source,
            sweep=self._sweep,
            append=self._append,
        )
        try:
            result = await run_step(tools.deps(self._read_value), request, self._on_progress)
        except StepPaused as paused:
            redacted = await texts.finish(paused.log)
            pauses.files += await self._store_and_remove(folder, paused.shared) if folder.exists() else []
            return await pauses.pause(paused, redacted)
        if self.redaction is not None:
            # A sweep may take long, and steps of other runs must not wait for its slot.
            self.on_executed()
        sweeps = self.redaction is not None and self.redaction.covers(STEPS)
        if sweeps:
            await self._append("redaction.started", self.context.clock(), {"stage": STEPS}, [])
        asked = await texts.finish(result.log)
        value, redacted = await self._sweep(STEPS, result.value)
        redacted += asked
        left: list[StepFile] = [*pauses.files]
        skipped = Counter(result.skipped)
        if self.item is not None and folder.exists():
            bounds = self.item.bounds
            skipped += await self.context.in_slow_thread(lambda: bounds.trim(folder, result.shared))
        if folder.exists():
            stored, kept = await self._store_and_keep(folder, result.shared)
            left += stored
            redacted += kept
            if pauses.files:
                # Only files of this attempt are on this disk; later steps restore all of them from the objects.
                rest = self.context.files_of_run(self.run_id) / self._place
                await self.context.in_slow_thread(lambda: shutil.rmtree(rest, ignore_errors=True))
        warnings = [skipped_warning(self.step.step, skipped, limits.outputs)] if skipped and self.item is None else []
        swept = Counts() if sweeps else None
        if swept is not None:
            for one in redacted:
                swept.add(one.counts)
        return StepCompletion(json_text.text_of(value), left, redacted, warnings, swept, skipped)

    async def _source(self, agent: JsonMapping) -> Mapping[str, bytes] | None:
        """Returns the files of an agent whose code is a folder."""
        digest = agent.get("digest")
        if digest is None:
            return None
        files = await retries.DATABASE.run(
            lambda: self.context.in_thread(lambda: self.context.sources.get(digest)),
            f"Reading the code of step {self.step.step} of run {self.run_id}",
        )
        if files is None:
            raise StepFailed("AgentUnavailable", "the agent's code is not stored any more", final=True)
        return files

    async def _read_value(self, text: str) -> JsonText:
        """Returns a large return value, parsed in a process that can be killed; raises UnstorableJsonError."""
        return await retries.RESOURCE.run(
            lambda: self.context.in_cancellable_thread(
                lambda halt: self.context.schemas.normalised(text, owner=self.key_id, halt=halt)
            ),
            f"Reading the return value of step {self.step.step} of run {self.run_id}",
        )

    async def _files(self) -> Mapping[str, Path]:
        """Returns the file folders of needed steps, restored from objects where this disk lacks them."""
        if not self.step.needs:
            return {}
        what = f"Reading the files that step {self.step.step} of run {self.run_id} needs"
        try:
            return await retries.RESOURCE.run(
                lambda: self.context.in_cancellable_thread(
                    lambda halt: files_of(self.context, self.run_id, self.step.needs, self.redaction, halt)
                ),
                what,
            )
        except (OSError, KeyError, EOFError) as error:
            _LOG.exception("%s failed", what)
            why = ": one is no longer stored" if isinstance(error, KeyError) else ""
            raise StepFailed("FilesNotRead", f"the files of the steps that it needs could not be read{why}") from error
        except RedactionError as error:
            _LOG.exception("%s failed", what)
            raise _redaction_failed("the files of the steps that it needs", error) from error

    async def _sweep_failure(self, failure: StepFailed, asked: list[StageCounts]) -> StepFailure:
        # The type is swept too, because it may be the agent's own exception name.
        words, redacted = [failure.type, failure.message], list[StageCounts]()
        try:
            words, redacted = await self._sweep(self._message_stage(), words)
        except StepFailed as unswept:
            words = [unswept.type, unswept.message]
        return StepFailure(
            words[0], words[1], failure.final, failure.retry_after, failure.type, redacted=[*redacted, *asked]
        )

    async def _sweep(self, stage: str | None, value: Any) -> tuple[Any, list[StageCounts]]:
        """Returns a JSON value, swept if the policy covers the stage; raises StepFailed where the sweep fails."""
        redaction = self.redaction
        if redaction is None or stage is None or not redaction.covers(stage):
            return value, []
        try:
            swept, counts = await self.context.in_cancellable_thread(lambda halt: redaction.value(value, halt))
        except RedactionError as error:
            _LOG.warning("Values of step %s of run %s could not be swept: %s", self.step.step, self.run_id, error)
            raise _redaction_failed("what the step gave", error) from error
        return swept, [StageCounts(stage, counts)]

    def _message_stage(self) -> str | None:
        return None if self.redaction is None else self.redaction.message_stage

    async def _on_progress(self, message: str, data: EventData) -> None:
        at = self.context.clock()
        given = data | {"message": message}
        if self.item is not None:
            if not self.item.bounds.admits(given):
                return
            given["item_index"] = self.item.index
        swept, redacted = await self._sweep(self._message_stage(), given)
        await self._append("step.progress", at, swept, redacted)

    async def _record_dropped_events(self, events: EventBudget) -> None:
        """Records how many events the attempt dropped, also after a cancellation.

        Dropped events of items are added up, and recorded once by the fan-out.
        """
        if self.item is not None:
            self.item.bounds.count_dropped(events)
            return
        data = dropped_warning(events, self.context.step_data)
        if data is None:
            return
        try:
            await self._append("warning", self.context.clock(), data | {"attempt": self.attempt}, [])
        except SegmentEndedError:
            # The run was closed meanwhile, and takes no more events.
            return
        except Exception:  # noqa: BLE001 - the outcome of the step counts all the same
            _LOG.exception("Dropped events of step %s of run %s could not be recorded", self.step.step, self.run_id)

    async def _append(self, event_type: str, at: int, data: JsonMapping, redacted: list[StageCounts]) -> None:
        """Writes an event of the step, and adds the counts of its sweeps to the run's manifest."""
        step = self.step.step

        def work(tx: Tx) -> None:
            append_event(tx, self.segment_id, event_type, at, step=step, data=data)
            for found in redacted:
                redaction_manifest_sql.add_counts(tx, self.run_id, found)

        await retries.DATABASE.run(
            lambda: self.context.write_run(self.run_id, self.key_id, work),
            f"An event of run {self.run_id}",
        )

    async def _store_and_keep(self, folder: Path, shared: set[str]) -> tuple[list[StepFile], list[StageCounts]]:
        """Stores the step's files as objects, and keeps them on disk for the steps that need them."""
        files = await self._store(folder, shared)
        try:
            return files, await self.context.in_cancellable_thread(lambda halt: self._keep_on_disk(folder, halt))
        except BaseException as error:
            await self.context.in_slow_thread(lambda: discard(self.context.objects, files))
            if isinstance(error, RedactionError):
                raise _redaction_failed("what the step left", error) from error
            raise

    async def _store_and_remove(self, folder: Path, shared: set[str]) -> list[StepFile]:
        """Stores the files of a step that waits for a person as objects, and removes them from the disk."""
        files = await self._store(folder, shared)
        await self.context.in_slow_thread(lambda: shutil.rmtree(folder, ignore_errors=True))
        return files

    async def _store(self, folder: Path, shared: set[str]) -> list[StepFile]:
        """Stores the step's files as objects; raises StepFailed."""
        what = f"Storing the files of step {self.step.step} of run {self.run_id}"
        try:
            return await retries.RESOURCE.run(lambda: self._store_files(folder, shared), what)
        except OSError as error:
            _LOG.exception("%s failed", what)
            raise StepFailed("OutputsNotStored", "what the step left could not be stored") from error

    async def _store_files(self, folder: Path, shared: set[str]) -> list[StepFile]:
        """Stores the files as objects; a cancellation removes them again."""
        objects, step = self.context.objects, self.step
        return await self.context.in_cancellable_thread(
            lambda halt: store_files(
                objects,
                self.run_id,
                step.step,
                folder,
                shared,
                halt,
                promote=step.outputs,
                share=self.keep_files,
                item_index=self.item_index,
            ),
            undo=lambda files: discard(objects, files),
        )

    def _keep_on_disk(self, folder: Path, halt: threading.Event) -> list[StageCounts]:
        if not self.keep_files:
            shutil.rmtree(folder)
            return []
        counts = move_files_for_steps(self.context, self.run_id, self._place, folder, self.redaction, halt)
        return [] if counts is None else [StageCounts(STEPS, counts)]


def _redaction_failed(what: str, error: RedactionError) -> StepFailed:
    message = f"{what} could not be swept for personal data: {error}"
    return StepFailed("RedactionFailed", message, final=error.permanent)
