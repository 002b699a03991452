"""Answers of reads that depend on nothing but the request, its key, what is committed and the UTC day.

Such an answer holds until the next commit, so where this process alone commits it is given again without being read:
a request for a run takes three fifths of the processor time that it did, one for a list of 20 little more than a
quarter, and one for 200 events less than a quarter, as long as nothing is committed. (`python -m benchmarks`)

An answer is exact: it is dropped before the caller of any change is answered, and while a commit is under way, when
nobody can say whether it holds already, every answer is read.
"""

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeVar

import grpc
from google.protobuf.message import Message

from backend import metrics
from backend.clock import Clock, utc_day
from backend.storage.database import Database
from contract.metadata import KEY_ID
from contract.recent_values import RecentValues

M = TypeVar("M", bound=Callable[..., Any])
State = tuple[int, int]
"""What all answers depend on: the number of commits, and the UTC day."""

Metadata = Iterable[tuple[str, str]]
Recall = Callable[[Any, Metadata], Message | None]
Read = Callable[[Any, grpc.ServicerContext], Message]

_Asked = tuple[str, str, bytes]
"""A method, the id of a key, and the serialised request."""

_MARK: Final = "_reads_purely"
_MOST_BYTES: Final = 32_000_000


def pure_read(method: M) -> M:
    """Marks a unary method whose answer depends on its request, its key and the `State`, and on nothing else."""
    setattr(method, _MARK, True)
    return method


def is_pure_read(method: object) -> bool:
    """Returns whether a method is marked so."""
    return getattr(method, _MARK, False)


class _Answered(NamedTuple):
    answer: Message
    state: State


class KnownAnswers:
    """The latest answers that keys got, which nobody may change. Thread-safe."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._answers = RecentValues[_Asked, _Answered](_size, _MOST_BYTES)

    def state(self) -> State | None:
        """Returns the present state; None while that is not known, and always where other processes commit as well."""
        commits = self._database.commits
        return None if commits is None else (commits, utc_day(self._clock()))

    def find(self, method: str, key_id: str, request: Message) -> Message | None:
        """Returns the answer to a request if it holds now."""
        asked = method, key_id, request.SerializeToString()
        known = self._answers.get(asked)
        if known is None:
            return None
        if known.state == self.state():
            return known.answer
        # It may be one that erasure made wrong, and would otherwise stay for as long as it is asked for.
        self._answers.discard(asked)
        return None

    def add(self, method: str, key_id: str, request: Message, answer: Message, state: State) -> None:
        """Keeps an answer that was read after the state was this."""
        self._answers.put((method, key_id, request.SerializeToString()), _Answered(answer, state))


def recalling(known: KnownAnswers, method: str, labels: tuple[str, str]) -> Recall:
    """Returns what gives an answer that is known, to a request and the call's metadata; None where it must be read.

    It does not block. Only calls of keys are answered so; they count in the metrics, with these labels, as others do.
    """

    def recall(request: Message, metadata: Metadata) -> Message | None:
        began = perf_counter()
        key_id = dict(metadata).get(KEY_ID)
        answer = known.find(method, key_id, request) if key_id else None
        if answer is not None:
            metrics.GRPC_CALLS.observe(perf_counter() - began, labels)
        return answer

    return recall


def keeping(known: KnownAnswers, method: str, read: Read) -> Read:
    """Returns a servicer's method that makes its answers known; what it raises is no answer."""

    def read_anew(request: Message, context: grpc.ServicerContext) -> Message:
        # Taken before the read: a commit during it may have come too late for what is read.
        state = known.state()
        answer = read(request, context)
        key_id = None if state is None else _metadata_of(context).get(KEY_ID)
        if key_id and state is not None:
            known.add(method, key_id, request, answer, state)
        return answer

    return read_anew


def known_or_read(recall: Recall, read: Read) -> Read:
    """Returns what gives the known answer, else what is read."""

    def call(request: Message, context: grpc.ServicerContext) -> Message:
        answer = recall(request, _metadata_of(context).items())
        return read(request, context) if answer is None else answer

    return call


def _metadata_of(context: grpc.ServicerContext) -> dict[str, str]:
    return dict(context.invocation_metadata() or ())  # type: ignore[arg-type]  # text, by our keys


def _size(answered: _Answered) -> int:
    # Small messages take a few times their bytes.
    return 1_024 + 4 * answered.answer.ByteSize()
