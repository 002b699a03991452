"""Runs steps of agents that call a model: in this process, without a sandbox, because no code of authors runs."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from backend.common.secret_scrubbing import Scrubber
from backend.common.secrets import Secrets
from backend.isolation.sandbox.process import bounded
from backend.resources.models import ConfiguredModel, Models, ModelUnusableError, describe_failure
from backend.runtime.agents.agent_tools import AgentTools
from backend.runtime.agents.attachments import Attachment, attached_files
from backend.runtime.agents.base import (
    AgentDeps,
    AnswerCheck,
    OnProgress,
    StepFailed,
    StepRequest,
    StepResult,
    ToolCall,
    ToolServices,
)
from backend.runtime.agents.failures import plain, time_limit
from backend.runtime.agents.metered_model import meter_model
from backend.runtime.agents.model_answer import storable, write_answer
from backend.runtime.agents.pauses import StepPaused
from backend.runtime.agents.progress import ClockPauses, limit_progress, pause_clock
from backend.runtime.agents.prompt import prompt_with_files
from backend.runtime.agents.structured_answers import Misfit, answer_type, indented, misfits
from backend.runtime.agents.tools import tools_of
from backend.runtime.agents.transcript import TranscriptWriter
from backend.services.workflows.agent_tools import agent_tools, confirmed_functions, most_calls, server_tools, words
from backend.services.workflows.model_answers import most_corrections, most_model_calls

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import DeferredToolRequests
    from pydantic_ai.toolsets import AbstractToolset
    from pydantic_ai.usage import RunUsage

    from backend.runtime.agents.server_tools import ServerTools

MORE_TRIES: Final = 2
"""Times that a model may correct the arguments of a tool."""
SECONDS_BETWEEN_EVENTS: Final = 2.0
SECONDS_BETWEEN_LINES: Final = 0.5


async def run_llm_step(
    models: Models,
    check_answer: AnswerCheck,
    request: StepRequest,
    on_progress: OnProgress,
    deps: AgentDeps | None = None,
) -> StepResult:
    """Gets the model's answer within the environment's time, and writes it to an output file (docs/agents.md).

    The time counts from the first call, without the preparation of client and attached files. Raises StepFailed, and
    StepPaused where calls of tools wait for a person; exceptions of `on_progress` pass through. Without `deps` no agent
    can be a tool, and no file attached.
    """
    declared = request.agent
    try:
        configured = await asyncio.to_thread(
            models.make, declared["model"], api_key=declared.get("api_key"), base_url=declared.get("base_url")
        )
        configured = await asyncio.to_thread(meter_model, configured, models, declared["model"], request.meter)
    except ModelUnusableError as error:
        raise StepFailed(error.type, str(error), final=True) from None
    # A conversation that goes on has its files.
    fresh = request.resumed is None
    attached = await attached_files(request, None if deps is None else deps.attachments) if fresh else []
    conversation = _Conversation(
        configured, request, limit_progress(request.events, on_progress), check_answer, models.secrets, deps
    )
    try:
        value = await conversation.run(attached)
    except StepPaused as paused:
        paused.log = bounded(request.data_limits.log_bytes, conversation.log())
        conversation.emit_log(paused.log)
        raise
    except BaseException as error:
        # Agents that the model called may have left files.
        await asyncio.to_thread(shutil.rmtree, request.outputs, ignore_errors=True)
        if isinstance(error, StepFailed):
            error.log = bounded(request.data_limits.log_bytes, conversation.log(), error.log)
            conversation.emit_log(error.log)
        raise
    finally:
        await conversation.report_usage()
    await asyncio.to_thread(write_answer, request, value)
    log = bounded(request.data_limits.log_bytes, conversation.log())
    conversation.emit_log(log)
    return conversation.result(value, log)


class _Conversation:
    """One conversation with the model, until its answer."""

    def __init__(
        self,
        configured: ConfiguredModel,
        request: StepRequest,
        on_progress: OnProgress,
        check_answer: AnswerCheck,
        secrets: Secrets,
        deps: AgentDeps | None,
    ) -> None:
        from backend.runtime.agents.confirmations import Confirmations, load_usage, save_usage

        self._configured = configured
        self._request = request
        self._on_progress = on_progress
        self._check_answer = check_answer
        self._secrets = secrets
        self._schema: Any = request.agent.get("output_schema")
        self._mismatch: str | None = None
        self._gave_up = False
        self._progress_error: Exception | None = None
        resumed = self._resumed = request.resumed
        self._usage: RunUsage = load_usage(resumed)
        self._used_before = save_usage(self._usage)
        self._all_messages: list[ModelMessage] = []
        self._messages_before = 0
        self._emitted = b""
        self._deps = deps
        seconds = request.limits.timeout_seconds
        self._clock = asyncio.timeout(seconds if resumed is None else min(seconds, resumed.state["seconds_left"]))
        self._pauses = ClockPauses(self._clock)
        self._agents = self._agents_as_tools()
        self._servers = self._servers_of_tools()
        functions = confirmed_functions(request.agent)
        self._may_pause = bool(functions)
        self._confirmations = Confirmations(functions, may_ask=request.may_ask, resumed=resumed)
        self._tool_logs: list[tuple[int, bytes]] = []
        self._transcript: TranscriptWriter | None = None
        if request.transcript is not None:
            self._transcript = TranscriptWriter(request.transcript, Scrubber([configured.key]))

    async def run(self, attached: Sequence[Attachment]) -> Any:
        """Returns the model's answer, as text or as the schema says, to the prompt with files."""
        from pydantic_ai import capture_run_messages

        clock = self._clock
        try:
            agent = await asyncio.to_thread(self._agent)
            with capture_run_messages() as self._all_messages:
                emitting = asyncio.create_task(self._emit_log_periodically())
                try:
                    async with clock, self._configured.model:
                        if self._servers is not None:
                            await self._servers.open()
                        answer = await self._ask(agent, attached)
                finally:
                    emitting.cancel()
                    if self._transcript is not None:
                        self._transcript.finish(self._messages)
                    if self._servers is not None:
                        await self._servers.close()
        except Exception as error:
            if self._progress_error is not None:
                raise self._progress_error from error
            if isinstance(error, StepFailed | StepPaused):
                # A tool may have failed the step.
                raise
            raise self._failure(error, late=clock.expired()) from error
        return await asyncio.to_thread(storable, answer, self._request.data_limits)

    @property
    def _messages(self) -> "Sequence[ModelMessage]":
        """The messages of this attempt, without those of the attempt before that it goes on with."""
        return self._all_messages[self._messages_before :]

    def _failure(self, error: Exception, *, late: bool) -> StepFailed:
        if late and isinstance(error, TimeoutError):
            return time_limit(self._request.limits)
        self._gave_up = _gave_up(error)
        if self._gave_up or self._corrected_until_the_limit(error):
            form = "" if self._schema is None else " in the form of output_schema"
            # Corrections within max_model_calls are not multiplied by the retries of the step.
            final = self._schema is not None and self._request.agent.get("max_model_calls") is not None
            message = plain(self._mismatch or f"The model gave no answer{form}.")
            return StepFailed("InvalidAnswer", message, final=final)
        return model_failure(error, self._configured)

    def _corrected_until_the_limit(self, error: Exception) -> bool:
        """Returns whether the last calls went by for corrections of an answer."""
        from pydantic_ai.exceptions import UsageLimitExceeded

        if self._request.agent.get("max_model_calls") is None or self._schema is None:
            return False
        return isinstance(error, UsageLimitExceeded) and any(misfits(self._messages, gave_up=False))

    async def report_usage(self) -> None:
        """Reports the usage, also if the step failed; calls that failed are not counted."""
        used, before = self._usage, self._used_before
        await self._report(
            "model usage",
            model=self._request.agent["model"],
            requests=used.requests - before["requests"],
            tool_calls=used.tool_calls - before["tool_calls"],
            input_tokens=used.input_tokens - before["input_tokens"],
            output_tokens=used.output_tokens - before["output_tokens"],
        )

    def log(self) -> bytes:
        """Returns a line for each answer of the model with usage and called tools, and the answers that did not fit."""
        from pydantic_ai.messages import ModelResponse, ToolCallPart

        unfit = {}
        if self._schema is not None:
            unfit = {misfit.answers: misfit for misfit in misfits(self._messages, gave_up=self._gave_up)}
        said: list[bytes] = []
        answers = 0
        for message in self._messages:
            if isinstance(message, ModelResponse) and message.finish_reason is not None:
                calls = ", ".join(part.tool_name for part in message.parts if isinstance(part, ToolCallPart))
                line = (
                    f"{message.model_name}: {message.usage.input_tokens} tokens in, "
                    f"{message.usage.output_tokens} out, {message.finish_reason}{f', calls {calls}' if calls else ''}\n"
                )
                said.append(self._configured.without_key(plain(line, 1024 * 1024)).encode())
                answers += 1
                if answers in unfit:
                    said.append(self._logged(unfit[answers]))
        if self._agents is not None:
            self._tool_logs += [(len(said), log) for log in self._agents.take_logs()]
        # Behind the lines that were there when the call ended, so that the log only grows at its end.
        for place, log in reversed(self._tool_logs):
            said.insert(place, log)
        return b"".join(said)

    def _logged(self, misfit: Misfit) -> bytes:
        """Returns the lines for an answer that did not fit: whole, because half a value escapes a sweep."""
        reason = misfit.reason or self._mismatch or "The model gave no answer in the form of output_schema."
        text = indented(f"{reason}\n{misfit.text}".rstrip("\n"))
        return self._configured.without_key(plain(text, len(text))).encode()

    def result(self, value: Any, log: bytes) -> StepResult:
        """Returns the result of the step, with the files of the agents that the model called."""
        if self._agents is None:
            return StepResult(value, log)
        return StepResult(value, log, self._agents.skipped, self._agents.shared)

    def emit_log(self, log: bytes) -> None:
        """Passes the new part of the log to `on_text`, so that people can read it while the step runs."""
        if self._request.on_text is not None and log.startswith(self._emitted):
            self._request.on_text(log[len(self._emitted) :])
            self._emitted = log

    async def _emit_log_periodically(self) -> None:
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_LINES)
            self.emit_log(self.log())
            if self._transcript is not None:
                self._transcript.take(self._messages)

    async def _ask(self, agent: "Agent[object, Any]", attached: Sequence[Attachment]) -> Any:
        from pydantic_ai.exceptions import OutputTokenLimitExceeded
        from pydantic_ai.tools import DeferredToolRequests
        from pydantic_ai.usage import UsageLimits

        from backend.runtime.agents.confirmations import load_messages, tool_results

        resumed: dict[str, Any] = {}
        if self._resumed is not None:
            history = await asyncio.to_thread(load_messages, self._resumed)
            self._messages_before = len(history)
            resumed = {"message_history": history, "deferred_tool_results": tool_results(self._resumed)}
        result = await agent.run(
            None if resumed else prompt_with_files(self._request, attached),
            usage=self._usage,
            usage_limits=UsageLimits(
                request_limit=most_model_calls(self._request.agent), tool_calls_limit=most_calls(self._request.agent)
            ),
            event_stream_handler=self._report_streaming if self._request.agent.get("stream") else None,
            infer_name=False,
            toolsets=[] if self._servers is None else [self._tools_of_servers(self._servers)],
            **resumed,
        )
        if isinstance(result.output, DeferredToolRequests):
            raise await self._paused_step(result.output, result.all_messages())
        if self._schema is None and result.response.finish_reason == "length":
            raise OutputTokenLimitExceeded("the answer was cut off")
        return result.output

    async def _paused_step(self, requests: "DeferredToolRequests", messages: "list[ModelMessage]") -> StepPaused:
        """Returns the pause of a conversation whose last answer has calls for a person.

        Raises:
            StepFailed: the conversation cannot be stored.
        """
        from backend.runtime.agents.confirmations import save_messages, save_usage

        end = self._clock.when()
        assert end is not None
        agents = self._agents
        state = {
            "messages": await asyncio.to_thread(save_messages, messages),
            "usage": save_usage(self._usage),
            "seconds_left": end - asyncio.get_running_loop().time(),
            "agents": None if agents is None else agents.save(),
        }
        asked = [self._confirmations.asked[part.tool_call_id] for part in requests.approvals]
        return StepPaused(asked, state, agents.shared if agents else set())

    def _agent(self) -> "Agent[object, Any]":
        import pydantic_ai
        from pydantic_ai import Agent, ModelRetry
        from pydantic_ai.tools import DeferredToolRequests

        from backend.runtime.agents.toolset import toolset

        # The library would print it on the terminal, among the service's own lines.
        pydantic_ai.BANNER_ENABLED = False
        declared = self._request.agent
        functions = tools_of(words(declared), self._request, self._secrets, self._sweep)
        answer = answer_type(declared)
        agent: Agent[object, Any] = Agent(
            self._configured.model,
            output_type=[answer, DeferredToolRequests] if self._may_pause else answer,
            instructions=declared["instructions"],
            model_settings=self._settings(),
            retries={"tools": MORE_TRIES, "output": most_corrections(declared)},
            toolsets=[toolset(functions, self._agents, MORE_TRIES, self._record_call, self._confirmations)],
        )

        if self._schema is not None:

            @agent.output_validator
            async def fits(answer: Any) -> Any:
                self._mismatch = await self._check_answer(self._schema, answer)
                if self._mismatch is not None:
                    raise ModelRetry(self._mismatch)
                return answer

        return agent

    def _settings(self) -> "ModelSettings":
        declared = self._request.agent
        seconds = self._request.limits.timeout_seconds
        # The library's own retries and time-outs would use up the step's time.
        settings: ModelSettings = {"max_retries": 0, "timeout": seconds}
        if declared.get("max_tokens") is not None:
            settings["max_tokens"] = declared["max_tokens"]
        if declared.get("temperature") is not None:
            settings["temperature"] = declared["temperature"]
        if declared.get("request_timeout_seconds") is not None:
            settings["request_timeout"] = declared["request_timeout_seconds"]
        return settings

    async def _report_streaming(self, _: Any, events: AsyncIterable[Any]) -> None:
        """Reports periodically the size of a streamed answer so far, and writes its pieces into the transcript."""
        from pydantic_ai.messages import PartDeltaEvent, TextPartDelta, ToolCallPartDelta

        characters = 0
        reported = time.monotonic()
        async for event in events:
            if self._transcript is not None:
                self._transcript.stream(self._messages, event)
            if not isinstance(event, PartDeltaEvent):
                continue
            match event.delta:
                case TextPartDelta(content_delta=str(text)) | ToolCallPartDelta(args_delta=str(text)):
                    characters += len(text)
            if time.monotonic() - reported >= SECONDS_BETWEEN_EVENTS:
                reported = time.monotonic()
                try:
                    await pause_clock(self._on_progress, self._pauses)("the model answers", {"characters": characters})
                except Exception as error:
                    self._progress_error = error
                    raise

    def _agents_as_tools(self) -> AgentTools | None:
        deps = self._deps
        if deps is None or deps.tools is None or not agent_tools(self._request.agent):
            return None
        reporting = pause_clock(self._on_progress, self._pauses)
        made = AgentTools(deps.sandbox, deps.read_value, self._paused(deps.tools), self._request, reporting)
        if self._resumed is not None:
            made.restore(self._resumed.state["agents"])
        return made

    def _servers_of_tools(self) -> "ServerTools | None":
        deps = self._deps
        if deps is None or deps.tools is None or not server_tools(self._request.agent):
            return None
        # The client of MCP servers takes long to import, and few agents have their tools.
        from backend.runtime.agents.server_tools import ServerTools

        return ServerTools(self._request, self._paused(deps.tools), deps.read_value)

    def _tools_of_servers(self, servers: "ServerTools") -> "AbstractToolset[object]":
        from backend.runtime.agents.toolset import server_toolset

        return server_toolset(servers, MORE_TRIES, self._record_call, self._confirmations)

    async def _sweep(self, value: Any) -> Any:
        if self._deps is None or self._deps.tools is None:
            return value
        return await self._paused(self._deps.tools).redact(value)

    def _paused(self, services: ToolServices) -> ToolServices:
        """Returns services during whose work the step's time stands still: they may wait for other runs."""

        async def check_input(schema: object, value: object) -> str | None:
            with self._pauses.pause():
                return await services.check_input(schema, value)

        async def redact(value: Any) -> Any:
            with self._pauses.pause():
                return await services.redact(value)

        return replace(services, check_input=check_input, redact=redact)

    async def _record_call(self, call: ToolCall) -> None:
        if self._deps is None or self._deps.tools is None:
            return
        try:
            with self._pauses.pause():
                await self._deps.tools.record(call)
        except Exception as error:
            self._progress_error = error
            raise

    async def _report(self, message: str, **data: Any) -> None:
        awaitable = self._on_progress(message, data)
        if awaitable is not None:
            await awaitable


def _gave_up(error: Exception) -> bool:
    from pydantic_ai.exceptions import UnexpectedModelBehavior

    return isinstance(error, UnexpectedModelBehavior) and "output retries" in error.message


def model_failure(error: Exception, configured: ConfiguredModel) -> StepFailed:
    """Returns the failure of a step whose call to a model raised; it does not hold the key."""
    failure = describe_failure(error, configured)
    log = failure.trace.encode(errors="replace")
    return StepFailed(failure.cause, plain(failure.message), log, final=failure.final, retry_after=failure.retry_after)
