"""Dispatch of admitted calls: decode and encode by the codecs of their routes, and call the service."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from google.protobuf.message import Message

from contract import metadata as metadata_names
from contract.channel import Channel, Metadata
from contract.json_codec.response import ResponseCodec
from contract.local_context import CachedAnswer
from contract.refusals import Refusal
from contract.routes import BASE, Route
from contract.versions import API_VERSION
from edge.admission.call import Call
from edge.admission.keyring import Keyring
from edge.codec.request import RequestCodec
from edge.http.conditional_headers import take_conditions, take_tags
from edge.http.response import Answer, open_download
from edge.settings import EdgeSettings
from edge.waiting.event_stream import open_event_stream, wants_stream
from edge.waiting.follower import RunChangesFollower
from edge.waiting.waits import Waits
from workflow_api.v1.deployment_pb2 import Health
from workflow_api.v1.outputs_pb2 import GetOutputContentRequest, GetOutputsZipRequest
from workflow_api.v1.runs_pb2 import GetRunRequest, ListRunEventsRequest, Run, StartRunResponse

_HEALTH: Final = "/workflow_api.v1.DeploymentService/GetHealth"

Encode = Callable[[Message], bytes]


class RouteCodecs(NamedTuple):
    """Codecs of one route; `response` is None for a streaming RPC, whose answer is no JSON."""

    request: RequestCodec
    response: ResponseCodec | None


CodecsByRpc = Mapping[str, RouteCodecs]


def codecs_of(routes: Iterable[Route]) -> CodecsByRpc:
    """Returns the codecs of routes, by the names of their RPCs.

    Raises:
        ValueError: the RPC of a route lacks something that its request or its answer needs.
    """
    return MappingProxyType({route.rpc: _codecs(route) for route in routes})


def _codecs(route: Route) -> RouteCodecs:
    rpc = route.descriptor
    return RouteCodecs(
        RequestCodec(rpc, route.path_names, takes_body=route.takes_body),
        None if route.streaming else ResponseCodec(rpc.output_type),
    )


def answer_of(route: Route, codecs: CodecsByRpc, answered: CachedAnswer) -> Answer:
    """Returns the HTTP answer for a service's answer; the JSON of a cached answer is made once."""
    encoded = answered.encoded
    if encoded is not None:
        return Answer(encoded[0], encoded[1], headers=encoded[2])
    codec = codecs[route.rpc].response
    assert codec is not None
    special = _SPECIAL.get(route.rpc)
    if special is None:
        answer = Answer(route.success_status, codec.encode(answered.message))
    else:
        answer = special(answered.message, codec.encode)
    answered.encoded = answer.status, answer.body, answer.headers
    return answer


def _start_answer(answer: Message, encode: Encode) -> Answer:
    """Returns 201 with the run's `Location` for a first start, and marks a replay (contract 12.1, 12.7)."""
    started = cast("StartRunResponse", answer)
    body = encode(started)
    if started.replayed:
        return Answer(200, body, headers=[("Idempotency-Replayed", "true")])
    return Answer(201, body, headers=[("Location", f"{BASE}/runs/{started.run.summary.run_id}")])


def _run_answer(answer: Message, encode: Encode) -> Answer:
    """Returns a run with its entity tag; to a caller that has this state, the tag alone (contract 14.15)."""
    run = cast("Run", answer)
    # A backend of an earlier release sends no tag.
    tag = [("ETag", f'"{run.etag}"')] if run.etag else []
    return Answer(304, headers=tag) if run.not_modified else Answer(200, encode(run), headers=tag)


_SPECIAL: Final[Mapping[str, Callable[[Message, Encode], Answer]]] = MappingProxyType(
    {"/workflow_api.v1.RunsService/StartRun": _start_answer, "/workflow_api.v1.RunsService/GetRun": _run_answer}
)


class Dispatcher:
    """Passes admitted calls on to the services."""

    def __init__(
        self,
        channel: Channel,
        keyring: Keyring,
        settings: EdgeSettings,
        follower: RunChangesFollower,
        codecs: CodecsByRpc,
    ) -> None:
        self._channel = channel
        self._keyring = keyring
        self._follower = follower
        self._waits = Waits(follower)
        self._codecs = codecs
        self._settings = settings

    async def dispatch(self, call: Call) -> Answer:
        """Returns the answer of a call that passed every check.

        Raises:
            Refusal: the request is not valid, or the service refused.
        """
        route, path_params = call.match
        request = call.request
        message = self._codecs[route.rpc].request.decode(path_params, request.query, request.header_values, call.body)
        # A parsed body may be thirty times as large as the bytes sent: free it before the call.
        call.body = None
        metadata: Metadata = ((metadata_names.REQUEST_ID, request.request_id),)
        if call.key_id:
            metadata = ((metadata_names.KEY_ID, call.key_id), *metadata)
        seconds = self._settings.backend_seconds
        if isinstance(message, GetOutputContentRequest | GetOutputsZipRequest):
            take_conditions(request, message)
        elif isinstance(message, GetRunRequest) and request.header("If-None-Match") is not None:
            take_tags(request, message)
        if isinstance(message, ListRunEventsRequest) and wants_stream(request):
            return await open_event_stream(call, message, self._reader_of(route.rpc, metadata), self._follower)
        if isinstance(message, GetRunRequest | ListRunEventsRequest) and message.wait.seconds:
            answer = await self._waits.answer(call, message, self._reader_of(route.rpc, metadata))
            return answer_of(route, self._codecs, CachedAnswer(answer))
        if route.streaming:
            return await open_download(self._channel.stream(route.rpc, message, metadata, seconds))
        try:
            answered = await self._channel.answer(route.rpc, message, metadata, seconds)
        except Refusal as refusal:
            if route.rpc != _HEALTH or refusal.status < 500:
                raise
            answered = CachedAnswer(self._last_known_health())
        if isinstance(answered.message, StartRunResponse):
            call.started_run_id = answered.message.run.summary.run_id
        return answer_of(route, self._codecs, answered)

    def _reader_of(self, rpc: str, metadata: Metadata) -> Callable[[Message], Awaitable[Any]]:
        """Returns the function that makes an RPC for one call, as often as the call needs."""
        channel, seconds = self._channel, self._settings.backend_seconds

        return lambda request: channel.unary(rpc, request, metadata, seconds)

    def _last_known_health(self) -> Health:
        """Returns the health according to the last mirror, because liveness must not depend on the backend."""
        accepts = self._keyring.governed and self._keyring.enabled
        return Health(
            status=Health.STATUS_OK if accepts else Health.STATUS_DISABLED,
            deployment_id=self._keyring.deployment_id or self._settings.deployment_id,
            api_version=API_VERSION,
        )
