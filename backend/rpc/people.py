"""Calls of people who have signed in to a console: each is judged by the person's role before the servicer sees it."""

import functools
from collections.abc import Callable, Iterator
from inspect import isgeneratorfunction
from typing import Any, Protocol

import grpc
from google.protobuf.message import Message

from backend.caller import Caller


class Guard(Protocol):
    """Decides what people may call."""

    def __call__(self, person: str, rpc: str, request: Message) -> frozenset[str] | None:
        """Returns the workflows that the call is limited to, or None for all; raises ApiError where it may not be."""
        ...


class LimitedContext:
    """The context of a call that is limited to some workflows; otherwise that of the call itself."""

    def __init__(self, context: grpc.ServicerContext, workflow_ids: frozenset[str]) -> None:
        self._context = context
        self.workflow_ids = workflow_ids

    def __getattr__(self, name: str) -> Any:
        """Returns what the call's own context has."""
        return getattr(self._context, name)


def guarded(
    behaviour: Callable[..., Any], guard: Guard, rpc: str, caller_of: Callable[[grpc.ServicerContext], Caller]
) -> Callable[..., Any]:
    """Returns a servicer's method, with its marks, that asks the guard first wherever a person calls."""

    def judged(request: Message, context: grpc.ServicerContext) -> Any:
        person = caller_of(context).person
        workflow_ids = None if person is None else guard(person, rpc, request)
        return context if workflow_ids is None else LimitedContext(context, workflow_ids)

    if isgeneratorfunction(behaviour):

        @functools.wraps(behaviour)
        def stream(request: Message, context: grpc.ServicerContext) -> Iterator[Any]:
            yield from behaviour(request, judged(request, context))

        return stream

    @functools.wraps(behaviour)
    def call(request: Message, context: grpc.ServicerContext) -> Any:
        return behaviour(request, judged(request, context))

    return call
