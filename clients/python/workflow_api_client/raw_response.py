"""Answers as they arrived, beside the parsed values: `with_raw_response` of clients and runs."""

import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import httpx

from workflow_api_client.core import RECEIVED
from workflow_api_client.exchange import Answer

if TYPE_CHECKING:
    from workflow_api_client.async_client import AsyncClient, AsyncRuns, AsyncWorkflows
    from workflow_api_client.async_run import AsyncOutputs, AsyncRun
    from workflow_api_client.client import Client, Runs, Workflows
    from workflow_api_client.run import Outputs, Run

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class RawResponse(Generic[T]):
    """The last answer of a call, and the call's return value as `parsed`.

    `content` is the body; names of `headers` are compared without regard to case.
    """

    status: int
    headers: httpx.Headers = field(repr=False)
    content: bytes = field(repr=False)
    parsed: T

    @property
    def request_id(self) -> str | None:
        """Id to quote in a report."""
        found: str | None = self.headers.get("x-request-id")
        return found


def raw(method: Callable[P, T]) -> Callable[P, RawResponse[T]]:
    """Returns the method with its last answer beside the return value."""

    @functools.wraps(method)
    def call(*arguments: P.args, **named: P.kwargs) -> RawResponse[T]:
        answers: list[Answer] = []
        before = RECEIVED.set(answers.append)
        try:
            return _response(answers, method(*arguments, **named))
        finally:
            RECEIVED.reset(before)

    return call


def raw_async(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, RawResponse[T]]]:
    """Returns the method with its last answer beside the return value."""

    @functools.wraps(method)
    async def call(*arguments: P.args, **named: P.kwargs) -> RawResponse[T]:
        answers: list[Answer] = []
        before = RECEIVED.set(answers.append)
        try:
            return _response(answers, await method(*arguments, **named))
        finally:
            RECEIVED.reset(before)

    return call


def _response(answers: list[Answer], parsed: T) -> RawResponse[T]:
    last = answers[-1]
    return RawResponse(last.status, httpx.Headers(dict(last.headers)), last.content, parsed)


class RawClient:
    """Methods of `Client` that return a `RawResponse`."""

    def __init__(self, client: "Client") -> None:
        self.me = raw(client.me)
        self.health = raw(client.health)
        self.workflows = RawWorkflows(client.workflows)
        self.runs = RawRuns(client.runs)


class RawWorkflows:
    """Methods of `Workflows` that return a `RawResponse`."""

    def __init__(self, workflows: "Workflows") -> None:
        self.get = raw(workflows.get)
        self.parameters = raw(workflows.parameters)
        self.page = raw(workflows.page)


class RawRuns:
    """Methods of `Runs` that return a `RawResponse`."""

    def __init__(self, runs: "Runs") -> None:
        self.start = raw(runs.start)
        self.get = raw(runs.get)
        self.page = raw(runs.page)


class RawRun:
    """Methods of `Run` that return a `RawResponse`."""

    def __init__(self, run: "Run") -> None:
        self.refresh = raw(run.refresh)
        self.wait = raw(run.wait)
        self.steps = raw(run.steps)
        self.approvals = raw(run.approvals)
        self.pii_redaction = raw(run.pii_redaction)
        self.cancel = raw(run.cancel)
        self.erase = raw(run.erase)
        self.outputs = RawOutputs(run.outputs)


class RawOutputs:
    """Methods of `Outputs` that return a `RawResponse`."""

    def __init__(self, outputs: "Outputs") -> None:
        self.list = raw(outputs.list)
        self.get = raw(outputs.get)


class AsyncRawClient:
    """Methods of `AsyncClient` that return a `RawResponse`."""

    def __init__(self, client: "AsyncClient") -> None:
        self.me = raw_async(client.me)
        self.health = raw_async(client.health)
        self.workflows = AsyncRawWorkflows(client.workflows)
        self.runs = AsyncRawRuns(client.runs)


class AsyncRawWorkflows:
    """Methods of `AsyncWorkflows` that return a `RawResponse`."""

    def __init__(self, workflows: "AsyncWorkflows") -> None:
        self.get = raw_async(workflows.get)
        self.parameters = raw_async(workflows.parameters)
        self.page = raw_async(workflows.page)


class AsyncRawRuns:
    """Methods of `AsyncRuns` that return a `RawResponse`."""

    def __init__(self, runs: "AsyncRuns") -> None:
        self.start = raw_async(runs.start)
        self.get = raw_async(runs.get)
        self.page = raw_async(runs.page)


class AsyncRawRun:
    """Methods of `AsyncRun` that return a `RawResponse`."""

    def __init__(self, run: "AsyncRun") -> None:
        self.refresh = raw_async(run.refresh)
        self.wait = raw_async(run.wait)
        self.steps = raw_async(run.steps)
        self.approvals = raw_async(run.approvals)
        self.pii_redaction = raw_async(run.pii_redaction)
        self.cancel = raw_async(run.cancel)
        self.erase = raw_async(run.erase)
        self.outputs = AsyncRawOutputs(run.outputs)


class AsyncRawOutputs:
    """Methods of `AsyncOutputs` that return a `RawResponse`."""

    def __init__(self, outputs: "AsyncOutputs") -> None:
        self.list = raw_async(outputs.list)
        self.get = raw_async(outputs.get)
