"""A real gRPC server with prepared answers, and the command line run against it."""

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from backend.common.errors import ApiError
from contract.metadata import STATUS_TRAILER
from deploy.cli.main import run
from workflow_api.v1 import (
    audit_pb2,
    definitions_pb2,
    deployment_health_pb2,
    deployment_pb2,
    environments_pb2,
    keys_pb2,
    outputs_pb2,
    reviews_pb2,
    run_lists_pb2,
    runs_pb2,
    schedules_pb2,
    usage_pb2,
    users_pb2,
    webhooks_pb2,
    workflows_pb2,
)

SERVICES = (
    deployment_health_pb2.DESCRIPTOR,
    deployment_pb2.DESCRIPTOR,
    environments_pb2.DESCRIPTOR,
    audit_pb2.DESCRIPTOR,
    definitions_pb2.DESCRIPTOR,
    keys_pb2.DESCRIPTOR,
    outputs_pb2.DESCRIPTOR,
    usage_pb2.DESCRIPTOR,
    run_lists_pb2.DESCRIPTOR,
    runs_pb2.DESCRIPTOR,
    schedules_pb2.DESCRIPTOR,
    users_pb2.DESCRIPTOR,
    webhooks_pb2.DESCRIPTOR,
    reviews_pb2.DESCRIPTOR,
    workflows_pb2.DESCRIPTOR,
)


class FakeBackend(grpc.GenericRpcHandler):
    """Answers every RPC with what is in `answers` under its name: a message, a list of them in turn, or an error.

    Of a streaming RPC the list is one answer.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.requests: list[tuple[str, Message]] = []
        self.metadata: dict[str, str] = {}
        self.address = ""

    def request(self, name: str) -> Any:
        """Returns the only request of this RPC."""
        (request,) = [request for called, request in self.requests if called == name]
        return request

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
        _, service, name = details.method.split("/")
        method = next(
            described.services_by_name[service.rpartition(".")[2]].methods_by_name[name]
            for described in SERVICES
            if service.rpartition(".")[2] in described.services_by_name
        )

        answer_class = GetMessageClass(method.output_type)

        def answer(request: Message, context: grpc.ServicerContext) -> Message:
            self.requests.append((name, request))
            assert context.time_remaining() < 90_000, "a call without a deadline"
            self.metadata = {key: str(value) for key, value in context.invocation_metadata()}
            given = self.answers[name]
            if isinstance(given, list):
                given = given.pop(0)
            if isinstance(given, ApiError):
                context.set_trailing_metadata(((STATUS_TRAILER, given.to_status().SerializeToString()),))
                context.set_code(given.grpc_code)
                context.set_details(given.message)
                return answer_class()
            assert isinstance(given, Message)
            return given

        def stream(request: Message, context: grpc.ServicerContext) -> Iterator[Message]:
            parts = self.answers[name]
            while isinstance(parts, list) and len(parts) > 1:
                yield parts.pop(0)
            last = answer(request, context)
            # An error ends a stream without a message.
            if context.code() is None:  # type: ignore[attr-defined]  # the stubs lack it
                yield last

        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(
                stream,
                request_deserializer=GetMessageClass(method.input_type).FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
        return grpc.unary_unary_rpc_method_handler(
            answer,
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )


@dataclass(frozen=True)
class Outcome:
    """The result of one command line."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


def command(*arguments: str) -> Outcome:
    """Runs one command line in this process, with no terminal."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    return Outcome(code, out.getvalue(), err.getvalue())
