"""Request, result and failure of a step, and the services that all runners of agents use."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from backend.common.json_text import JsonText
from backend.isolation.sandbox import Limits, Sandbox
from backend.isolation.sandbox.inside.channel import EventBudget
from backend.isolation.sandbox.inside.plain_json import deeper_than
from backend.resources.attachments.inspector import Examined
from backend.resources.models import Models
from backend.runtime.agents.model_meter import ModelMeter
from backend.runtime.agents.transcript import Transcript
from backend.services.webhooks.rules import Network
from backend.settings import StepDataLimits

EventData = dict[str, Any]
"""Data of a progress event, a JSON object."""

OnProgress = Callable[[str, EventData], Awaitable[None] | None]
"""Called for each progress event with (message, data), in order; the step waits until it returns."""


def event_budget(limits: StepDataLimits) -> EventBudget:
    """Returns the limits on events of one attempt, as a new budget."""
    return EventBudget(limits.event_bytes, limits.events, limits.event_data_bytes)


@dataclass(frozen=True)
class StepRequest:
    """The part of a run that an agent sees, with the limits and callbacks of one attempt.

    `agent` is its definition, and `source` the files of an agent whose code is a folder. `needs` maps each needed step
    to its return value, large ones as `JsonText`, and `files` steps that left files to their folder. `inputs` is the
    run's folder of inputs. All folders are read-only to the step. `outputs` is the step's own folder on the host, made
    with the first output file and removed if the step fails. Of a connector only type, bucket and prefixes reach the
    step. `events` counts the attempt's events. `on_text` gets the step's output, and the traceback of its failure, as
    they arrive. `secrets` maps the names that the agent declares to values. `trace` has the attempt's span as
    `traceparent`, and its `tracestate` if there is one. `item` is the item of a fan-out, a large one as `JsonText`, and
    `item_index` its place in the list, from 0. `variables` are the environment's, for `os.environ`. `meter` counts the
    attempt's calls to its model. `tools` are the definitions of the agents that the agent has as tools.
    In the call of such an agent `input` are its arguments, and `call` tells it from other calls. `transcript` gets the
    messages of the model, None where they are not kept.
    """

    step: str
    agent: Mapping[str, Any]
    parameters: Mapping[str, Any]
    input_text: str | None
    needs: Mapping[str, Any]
    inputs: Path | None
    files: Mapping[str, Path]
    outputs: Path
    connectors: Mapping[str, Mapping[str, Any]]
    limits: Limits
    attempt: int = 1
    run_id: str = ""
    client_reference: str | None = None
    failure: Mapping[str, str | None] | None = None
    data_limits: StepDataLimits = field(default_factory=StepDataLimits)
    events: EventBudget = field(default_factory=lambda: event_budget(StepDataLimits()))
    source: Mapping[str, bytes] | None = None
    on_text: Callable[[bytes], None] | None = None
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    trace: Mapping[str, str] = field(default_factory=dict)
    item: Any = None
    item_index: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    meter: ModelMeter = field(default_factory=ModelMeter)
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    input: Mapping[str, Any] | None = None
    call: str | None = None
    transcript: Transcript | None = None


@dataclass(frozen=True)
class StepResult:
    """The result of a completed step: its JSON return value, and its log.

    A large value is `JsonText`. `skipped` counts the entries of its folders that were left out, by the kinds of
    `SKIPPED_KINDS`. `shared` has the paths of files in the folder `outputs` that are for later steps alone.
    """

    value: Any
    log: bytes
    skipped: Mapping[str, int] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)


class StepFailed(Exception):  # noqa: N818 - the event's name in the contract (17.12)
    """The attempt of a step failed.

    `message` is for the caller and holds no traceback; `type` is the exception's type, or names the cause; `log` has
    the step's output and the traceback, for the step's own log. `final` says that trying again cannot help;
    `retry_after` has the seconds that a failing provider asks callers to wait. `by_the_agent` says that the agent
    itself raised, and so chose the `type`.
    """

    def __init__(
        self,
        type: str,  # noqa: A002 - the step error's field
        message: str,
        log: bytes = b"",
        *,
        final: bool = False,
        retry_after: float | None = None,
        by_the_agent: bool = False,
    ) -> None:
        super().__init__(message)
        self.type = type
        self.message = message
        self.log = log
        self.final = final
        self.retry_after = retry_after
        self.by_the_agent = by_the_agent


AnswerCheck = Callable[[object, object], Awaitable[str | None]]
"""Takes a schema and a model's answer; returns how the answer does not fit, None if it fits."""


ValueReader = Callable[[str], Awaitable[JsonText]]
"""Parses JSON text that a step returned, in a process that can be killed; raises UnstorableJsonError."""


class ToolCall(NamedTuple):
    """A call of a tool by a model, without its content: name, duration, bytes of JSON, and whether it gave a result."""

    tool: str
    duration_ms: int
    input_bytes: int
    output_bytes: int
    ok: bool


class ToolAgent(NamedTuple):
    """The files of an agent whose code is a folder, and its secrets, for one call of it as a tool."""

    source: Mapping[str, bytes] | None
    secrets: Mapping[str, str]


@dataclass(frozen=True)
class ToolServices:
    """Services for the calls of a model's tools in one attempt.

    `prepare` takes the name of an agent. `check_input` returns how arguments do not fit a schema, None if they fit.
    `check_schema` returns the problem of a schema that a server sent. `redact` returns a JSON value, swept by
    the policy. `secret` returns the value of a secret. `record` writes the event of a call. They raise StepFailed where
    the step cannot go on. MCP servers may be on `mcp_hosts`, and at private addresses in `mcp_networks` alone.
    """

    prepare: Callable[[str], Awaitable[ToolAgent]]
    check_input: Callable[[object, object], Awaitable[str | None]]
    check_schema: Callable[[object], Awaitable[str | None]]
    redact: Callable[[Any], Awaitable[Any]]
    secret: Callable[[str], Awaitable[str]]
    record: Callable[[ToolCall], Awaitable[None]]
    mcp_hosts: AbstractSet[str] = frozenset()
    mcp_networks: Sequence[Network] = ()


@dataclass(frozen=True)
class AttachmentServices:
    """Services for attached files in one attempt.

    `examine` returns the type of an open file, or raises AttachmentRefusedError or StepFailed. `redacted` maps roots of
    paths, `inputs` or `files`, to the stage in which the run's policy redacts what is below them.
    """

    examine: Callable[[int], Awaitable[Examined]]
    redacted: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AgentDeps:
    """The services that runners of agents use.

    `tools` are None where no calls of tools are recorded, and `attachments` where no files can be attached.
    """

    sandbox: Sandbox
    models: Models
    check_answer: AnswerCheck
    read_value: ValueReader
    tools: ToolServices | None = None
    attachments: AttachmentServices | None = None


AgentRunner = Callable[[AgentDeps, StepRequest, OnProgress], Awaitable[StepResult]]
"""Runs a step of one agent type; raises StepFailed."""


def require_levels(payload: bytes, most: int, what: str) -> None:
    """Refuses JSON text that is nested too deep to be parsed, here or by callers.

    Raises:
        StepFailed: it is nested deeper than `most` levels; `what` names it.
    """
    if deeper_than(payload, most):
        raise too_deep(what, most)


def too_deep(what: str, most: int) -> StepFailed:
    """Returns the failure of a step whose value is nested deeper than `most` levels."""
    return StepFailed("InvalidResult", f"{what} is nested more than {most} levels deep")
