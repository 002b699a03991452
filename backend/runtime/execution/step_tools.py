"""Services of one attempt for its model and the model's tools: code, secrets, schemas, redaction and events."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from backend.common import json_text
from backend.common.json_text import JsonMapping
from backend.resources.attachments.inspector import Examined
from backend.runtime.agents import AgentDeps, StepFailed
from backend.runtime.agents.base import AttachmentServices, EventData, ToolAgent, ToolCall, ToolServices, ValueReader
from backend.runtime.execution import retries
from backend.runtime.execution.item_bounds import StepItem
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.step_secrets import audited_values, step_secrets
from backend.runtime.run_redaction import RunRedaction
from backend.services.runs import redaction_manifest_sql
from backend.services.runs.redaction_manifest_sql import INPUTS, STEPS, StageCounts
from backend.services.workflows.attached_files import FILES_ROOT, INPUTS_ROOT
from backend.services.workflows.resolved_workflow import ResolvedStep
from backend.storage.database import Tx

_STAGES: Final = {INPUTS_ROOT: INPUTS, FILES_ROOT: STEPS}
"""Stages in which files are swept before steps see them, by the root of their paths."""


@dataclass(frozen=True, slots=True)
class StepTools:
    """The services of one attempt; what a model or a tool sends is validated in processes that can be killed.

    `source_of` returns the files of an agent; `sweep` returns a value as the policy leaves it for a stage, with counts;
    `append` writes an event of the step.
    """

    context: SegmentContext
    run_id: str
    key_id: str
    step: ResolvedStep
    attempt: int
    item: StepItem | None
    redaction: RunRedaction | None
    source_of: Callable[[JsonMapping], Awaitable[Mapping[str, bytes] | None]]
    sweep: Callable[[str, Any], Awaitable[tuple[Any, list[StageCounts]]]]
    append: Callable[[str, int, JsonMapping, list[StageCounts]], Awaitable[None]]

    def deps(self, read_value: ValueReader) -> AgentDeps:
        """Returns the services for the runner of the agent."""
        return AgentDeps(
            self.context.sandbox,
            self.context.models,
            self._answer_mismatch,
            read_value,
            self._services(),
            AttachmentServices(self._examine, self._redacted()),
        )

    def _services(self) -> ToolServices:
        return ToolServices(
            prepare=self._prepare,
            check_input=self._input_mismatch,
            check_schema=self._schema_problem,
            redact=self._redact,
            secret=self._secret,
            record=self._record,
            mcp_hosts=self.context.mcp_hosts,
            mcp_networks=self.context.mcp_networks,
        )

    @property
    def _item_index(self) -> int | None:
        return None if self.item is None else self.item.index

    async def _prepare(self, name: str) -> ToolAgent:
        """Returns the code and the secrets of an agent that is called as a tool."""
        definition = self.step.tools[name]
        called = replace(self.step, agent=definition, agent_name=name)
        secrets = await step_secrets(self.context, self.run_id, called, self.attempt, self._item_index)
        return ToolAgent(await self.source_of(definition), secrets)

    async def _input_mismatch(self, schema: object, given: object) -> str | None:
        return await self._mismatch(schema, given, "input")

    async def _secret(self, name: str) -> str:
        values = await audited_values(self.context, self.run_id, self.step, [name], self.attempt, self._item_index)
        return values[name]

    async def _schema_problem(self, schema: object) -> str | None:
        try:
            return await retries.RESOURCE.run(
                lambda: self.context.in_slow_thread(lambda: self.context.schemas.schema_problem(schema, answer=True)),
                f"Validating the schema of a tool in step {self.step.step} of run {self.run_id}",
            )
        except OSError as error:
            raise StepFailed("InternalError", "the schema of a tool could not be judged") from error

    async def _redact(self, value: object) -> object:
        """Returns the result of a tool, swept by the policy, for the model."""
        swept, redacted = await self.sweep(STEPS, value)
        if redacted:
            await self._record_counts(redacted)
        return swept

    async def _record(self, call: ToolCall) -> None:
        data: EventData = {**call._asdict(), "attempt": self.attempt, "item_index": self._item_index}
        if self.item is not None and not self.item.bounds.admits(data):
            return
        await self.append("step.tool_call", self.context.clock(), data, [])

    async def _record_counts(self, redacted: list[StageCounts]) -> None:
        def work(tx: Tx) -> None:
            for found in redacted:
                redaction_manifest_sql.add_counts(tx, self.run_id, found)

        await retries.DATABASE.run(
            lambda: self.context.write_run(self.run_id, self.key_id, work),
            f"Counts of a sweep of run {self.run_id}",
        )

    async def _answer_mismatch(self, schema: object, answer: object) -> str | None:
        """Returns how a model's answer does not fit its schema; None where it fits."""
        return await self._mismatch(schema, answer, "answer")

    async def _mismatch(self, schema: object, answer: object, what: str) -> str | None:
        """Returns how a model's answer, or its input of a tool, does not fit its schema; None where it fits."""
        try:
            text = json_text.write(answer)
        except ValueError:
            # The library of models reads `NaN` and `1e999`.
            return f"The JSON of the {what} holds a number that is not finite."
        try:
            return await retries.RESOURCE.run(
                lambda: self.context.in_cancellable_thread(
                    lambda halt: self.context.schemas.mismatch(schema, text, what, owner=self.key_id, halt=halt)
                ),
                f"Validating the {what} in step {self.step.step} of run {self.run_id}",
            )
        except OSError as error:
            raise StepFailed("InternalError", f"the model's {what} could not be judged by its schema") from error

    async def _examine(self, descriptor: int) -> Examined:
        """Returns the type of a file for the model; raises AttachmentRefusedError for one that cannot be sent."""
        try:
            return await retries.RESOURCE.run(
                lambda: self.context.in_cancellable_thread(
                    lambda halt: self.context.inspector.examine(descriptor, owner=self.key_id, halt=halt)
                ),
                f"Examining an attached file in step {self.step.step} of run {self.run_id}",
            )
        except OSError as error:
            raise StepFailed("InternalError", "an attached file could not be examined") from error

    def _redacted(self) -> Mapping[str, str]:
        """Returns the stages in which the policy redacts files, by the root of their paths."""
        redaction = self.redaction
        if redaction is None or not redaction.redacts:
            return {}
        return {root: stage for root, stage in _STAGES.items() if redaction.covers(stage)}
