"""HTTP answers made of the messages of services."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from google.protobuf.message import Message

from contract.recent_values import RecentValues
from contract.routes import BASE, Route
from edge.codec.routes import CodecsByRpc
from edge.http.response import Answer
from workflow_api.v1.runs_pb2 import Run, StartRunResponse

Encode = Callable[[Message], bytes]

_REMEMBERED_BYTES: Final = 32_000_000


class Answers:
    """Makes the HTTP answer of a service's message: status, headers, and JSON by the codec of the route.

    Answers of messages from the answer cache are kept, within 32 MB, so that each is encoded once. A list of 20 runs
    that nothing has changed is answered in three quarters of the processor time, one run in nine tenths, without the
    wire form of the message, by which `ResponseCodec` finds what it has written before.
    """

    def __init__(self, codecs: CodecsByRpc) -> None:
        self._codecs = codecs
        self._made = RecentValues[int, _KeptAnswer](_size, _REMEMBERED_BYTES)

    def of(self, route: Route, message: Message) -> Answer:
        """Returns the answer of a route."""
        codec = self._codecs[route.rpc].response
        assert codec is not None
        encode = codec.encode
        special = _SPECIAL.get(route.rpc)
        return Answer(route.success_status, encode(message)) if special is None else special(message, encode)

    def of_cached(self, route: Route, message: Message) -> Answer:
        """Returns the answer of a route to a message from `Channel.cached_answer`, the same object each time."""
        made = self._made.get(id(message))
        # The id of a message that is kept here belongs to no other.
        if made is not None and made.message is message:
            return Answer(made.status, made.body, headers=made.headers)
        answer = self.of(route, message)
        self._made.put(id(message), _KeptAnswer(message, answer.status, answer.body, answer.headers))
        return answer


class _KeptAnswer(NamedTuple):
    message: Message
    status: int
    body: bytes
    headers: Iterable[tuple[str, str]]


def _size(made: _KeptAnswer) -> int:
    # The message takes a few times the bytes of its JSON, where it is not kept elsewhere as well.
    return 1_024 + 4 * len(made.body)


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
