"""Dispatch of admitted calls: decode, call the service, encode."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from google.protobuf.message import Message

from contract import metadata as metadata_names
from contract.channel import Channel, Metadata
from contract.refusals import Refusal
from contract.versions import API_VERSION
from edge.admission.call import Call
from edge.admission.keyring import Keyring
from edge.answers import Answers
from edge.codec.routes import CodecsByRpc
from edge.http.conditional_headers import take_conditions, take_tags
from edge.http.response import Answer, open_download
from edge.settings import EdgeSettings
from edge.waiting.event_stream import open_event_stream, wants_stream
from edge.waiting.follower import RunChangesFollower
from edge.waiting.waits import Waits
from workflow_api.v1.deployment_pb2 import Health
from workflow_api.v1.outputs_pb2 import GetOutputContentRequest, GetOutputsZipRequest
from workflow_api.v1.runs_pb2 import GetRunRequest, ListRunEventsRequest, StartRunResponse

_HEALTH: Final = "/workflow_api.v1.DeploymentService/GetHealth"


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
        self._answers = Answers(codecs)
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
        metadata = _metadata_of(call)
        seconds = self._settings.backend_seconds
        if isinstance(message, GetOutputContentRequest | GetOutputsZipRequest):
            take_conditions(request, message)
        elif isinstance(message, GetRunRequest):
            take_tags(request, message)
            if message.wait.seconds:
                return self._answers.of(route, await self._waits.run(call, message, self._reading(route.rpc, metadata)))
        elif isinstance(message, ListRunEventsRequest):
            if wants_stream(request):
                return await open_event_stream(call, message, self._reading(route.rpc, metadata), self._follower)
            if message.wait.seconds:
                read = self._reading(route.rpc, metadata)
                return self._answers.of(route, await self._waits.events(call, message, read))
        if route.streaming:
            return await open_download(self._channel.stream(route.rpc, message, metadata, seconds))
        cached = self._channel.cached_answer(route.rpc, message, metadata)
        if cached is not None:
            return self._answers.of_cached(route, cached)
        try:
            answer = await self._channel.unary(route.rpc, message, metadata, seconds)
        except Refusal as refusal:
            if route.rpc != _HEALTH or refusal.status < 500:
                raise
            answer = self._last_known_health()
        if isinstance(answer, StartRunResponse):
            call.started_run_id = answer.run.summary.run_id
        return self._answers.of(route, answer)

    def _reading(self, rpc: str, metadata: Metadata) -> Callable[[Message], Awaitable[Any]]:
        """Returns what reads again and again for one call."""
        channel, seconds = self._channel, self._settings.backend_seconds

        async def read(request: Message) -> Message:
            cached = channel.cached_answer(rpc, request, metadata)
            return await channel.unary(rpc, request, metadata, seconds) if cached is None else cached

        return read

    def _last_known_health(self) -> Health:
        """Returns the health according to the last mirror, because liveness must not depend on the backend."""
        accepts = self._keyring.governed and self._keyring.enabled
        return Health(
            status=Health.STATUS_OK if accepts else Health.STATUS_DISABLED,
            deployment_id=self._keyring.deployment_id or self._settings.deployment_id,
            api_version=API_VERSION,
        )


def _metadata_of(call: Call) -> Metadata:
    """Returns the metadata of a call; one without a key, as for the health, names none."""
    request_id = (metadata_names.REQUEST_ID, call.request.request_id)
    return ((metadata_names.KEY_ID, call.key_id), request_id) if call.key_id else (request_id,)
