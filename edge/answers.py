"""HTTP answers made of the messages of services."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, cast

from google.protobuf.message import Message

from contract.cached_answer import CachedAnswer
from contract.routes import BASE, Route
from edge.codec.routes import CodecsByRpc
from edge.http.response import Answer
from workflow_api.v1.runs_pb2 import Run, StartRunResponse

Encode = Callable[[Message], bytes]


class Answers:
    """Makes the HTTP answer of a service's message: status, headers, and JSON by the codec of the route."""

    def __init__(self, codecs: CodecsByRpc) -> None:
        self._codecs = codecs

    def of(self, route: Route, message: Message) -> Answer:
        """Returns the answer of a route."""
        codec = self._codecs[route.rpc].response
        assert codec is not None
        encode = codec.encode
        special = _SPECIAL.get(route.rpc)
        return Answer(route.success_status, encode(message)) if special is None else special(message, encode)

    def of_cached(self, route: Route, cached: CachedAnswer) -> Answer:
        """Returns the answer of a route to what `Channel.cached_answer` gave, which is encoded once."""
        encoded = cached.encoded
        if encoded is not None:
            return Answer(encoded[0], encoded[1], headers=encoded[2])
        answer = self.of(route, cached.message)
        cached.encoded = answer.status, answer.body, answer.headers
        return answer


def _started(answer: Message, encode: Encode) -> Answer:
    """A first start names its run's address; a replay says that it is one (contract 12.1, 12.7)."""
    started = cast("StartRunResponse", answer)
    body = encode(started)
    if started.replayed:
        return Answer(200, body, headers=[("Idempotency-Replayed", "true")])
    return Answer(201, body, headers=[("Location", f"{BASE}/runs/{started.run.summary.run_id}")])


def _run(answer: Message, encode: Encode) -> Answer:
    """A run carries its entity tag; a caller that has this state gets the tag alone (contract 14.15)."""
    run = cast("Run", answer)
    # A backend of an earlier release has none.
    tag = [("ETag", f'"{run.etag}"')] if run.etag else []
    return Answer(304, headers=tag) if run.not_modified else Answer(200, encode(run), headers=tag)


_SPECIAL: Final[Mapping[str, Callable[[Message, Encode], Answer]]] = MappingProxyType(
    {"/workflow_api.v1.RunsService/StartRun": _started, "/workflow_api.v1.RunsService/GetRun": _run}
)
